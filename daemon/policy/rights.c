#include "policy/rights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "pattern.h"

enum { CACHE_MAX = 64 }; /* kept though nobody uses them */

static bool
bit(const uint8_t *bits, size_t i)
{
	return bits[i / 8] >> i % 8 & 1;
}

static void
set_bit(uint8_t *bits, size_t i)
{
	bits[i / 8] |= (uint8_t)(1 << i % 8);
}

/* ---- asking -------------------------------------------------------------- */

static bool
node_matches(const struct policy_node *node, const char *alias, size_t size)
{
	return pattern_matches(node->alias, node->size, alias, size);
}

static int
node_compare(const void *key, const void *item)
{
	const struct policy_node *node = item;

	return strcmp(key, node->alias);
}

/* The nodes for an alias, the most specific first: start with *@at 0. */
static const struct policy_node *
next_node(const struct policy *p, const char *alias, size_t *at)
{
	size_t size;

	if (!p->n_nodes)
		return NULL;
	if (*at == 0) {
		const struct policy_node *node = bsearch(alias, p->nodes,
			p->n_exact, sizeof(*node), node_compare);

		*at = p->n_exact + 1;
		if (node)
			return node;
	}
	size = strlen(alias);
	while (*at - 1 < p->n_nodes) {
		const struct policy_node *node = &p->nodes[(*at)++ - 1];

		if (node_matches(node, alias, size))
			return node;
	}
	return NULL;
}

static bool
event_matches(const struct policy_rule *rule, const char *event)
{
	if (!rule->event)
		return true;
	return event && pattern_matches(rule->event, strlen(rule->event), event,
				strlen(event));
}

static bool
decide(struct verdict *v, bool allowed, bool named, struct policy_rule *rule)
{
	v->allowed = allowed;
	v->named = named;
	v->rule = rule;
	return true;
}

/* Does the set that begins with rule @i decide? */
static bool
ask_set(const struct rights *r, size_t i, struct verdict *v)
{
	struct policy_rule **rules = r->policy->rules;
	size_t end = rules[i]->set_end, granting = end;
	bool closes = false;

	for (size_t k = i; k < end; k++) {
		if (bit(r->denies, k))
			return decide(v, false, true, rules[k]);
		if (granting == end && bit(r->grants, k))
			granting = k;
		closes |= rules[k]->closes;
	}
	if (granting < end)
		return decide(v, true, true, rules[granting]);
	return closes && decide(v, false, false, rules[i]);
}

/* Root and the daemon's user can do as much by other means. */
static bool
is_master(const struct rights *r)
{
	return r->creds.uid != (uid_t)-1 &&
	       (r->creds.uid == 0 || r->creds.uid == r->policy->owner);
}

/* Whatever the rules say: nobody locks himself out. */
static bool
is_always(const struct rights *r, enum right right)
{
	return (right == RIGHT_MANAGE || right == RIGHT_SEE) && is_master(r);
}

static void
by_default(const struct rights *r, struct verdict *v)
{
	v->allowed = true;
	if (is_master(r)) {
		v->text = "by default root and the user of eventd may";
	} else if (r->policy->own) {
		v->allowed = false;
		v->text = "by default only its user and root may, as this is "
			  "a user's own eventd";
	} else if (v->right == RIGHT_MANAGE) {
		v->allowed = false;
		v->text = "by default only root and the user of eventd may";
	} else {
		v->text = "by default whoever can connect may";
	}
}

struct verdict
rights_ask(const struct rights *r, enum right right, const char *alias,
	const char *event)
{
	struct verdict v = {.right = right, .alias = alias, .event = event};
	const struct policy *p = r->policy;
	const struct policy_node *node;
	size_t at = 0;

	if (is_always(r, right)) {
		v.allowed = true;
		v.text = "root and the user of eventd always may";
		return v;
	}
	while ((node = next_node(p, alias, &at))) {
		for (size_t i = node->first; i < node->end;
			i = p->rules[i]->set_end)
			if (p->rules[i]->right == right &&
				event_matches(p->rules[i], event) &&
				ask_set(r, i, &v))
				return v;
	}
	by_default(r, &v);
	return v;
}

enum event_set { SET_ANY, SET_GRANTS, SET_REFUSES };

/* A set for some events is there that does so. */
static bool
has_event_set(const struct rights *r, enum right right, const char *alias,
	enum event_set does)
{
	const struct policy *p = r->policy;
	const struct policy_node *node;
	struct verdict v;
	size_t at = 0;

	if (!(p->by_event & 1 << right))
		return false;
	while ((node = next_node(p, alias, &at)))
		for (size_t i = node->first; i < node->end;
			i = p->rules[i]->set_end)
			if (p->rules[i]->right == right && p->rules[i]->event &&
				(does == SET_ANY ||
					(ask_set(r, i, &v) &&
						v.allowed ==
							(does == SET_GRANTS))))
				return true;
	return false;
}

bool
rights_all(const struct rights *r, enum right right, const char *alias)
{
	return (r->open & 1 << right) || is_always(r, right) ||
	       (rights_ask(r, right, alias, NULL).allowed &&
		       !has_event_set(r, right, alias, SET_REFUSES));
}

bool
rights_cover(const struct rights *r, enum right right, const char *alias)
{
	return !has_event_set(r, right, alias, SET_ANY) &&
	       rights_ask(r, right, alias, NULL).allowed;
}

bool
rights_some(const struct rights *r, enum right right, const char *alias)
{
	return rights_may(r, right, alias, NULL) ||
	       has_event_set(r, right, alias, SET_GRANTS);
}

/* ---- for people ---------------------------------------------------------- */

static const char *
why(const struct verdict *v, char *text, size_t size)
{
	static const char *const right_keys[RIGHTS] = {
		"Post", "Call", "Bind", "Watch", "Manage", "See"};
	const struct policy_rule *rule = v->rule;

	if (!rule)
		snprintf(text, size, "%s (eventd.conf(5), ACCESS)", v->text);
	else if (!rule->layer)
		snprintf(text, size, "the alias belongs to the session file %s",
			rule->file);
	else
		snprintf(text, size, "%s:%u: %s=%.100s", rule->file, rule->line,
			right_keys[rule->right], rule->words);
	return text;
}

const char *
rights_explain(const struct rights *r, const struct verdict *v, char *text,
	size_t size)
{
	char reason[384];

	snprintf(text, size, "uid %u %s the right '%s'%s%s%s%s%s%s: %s",
		(unsigned)r->creds.uid, v->allowed ? "has" : "lacks",
		right_words[v->right], *v->alias ? " for '" : " for the daemon",
		v->alias, *v->alias ? "'" : "", v->event ? " with event '" : "",
		v->event ? v->event : "", v->event ? "'" : "",
		why(v, reason, sizeof(reason)));
	return text;
}

/* ---- life -------------------------------------------------------------- */

static void
mark(struct rights *r)
{
	const struct policy *p = r->policy;

	for (size_t i = 0; i < p->n_rules; i++) {
		const struct policy_rule *rule = p->rules[i];

		for (size_t k = 0; k < rule->n_who; k++)
			if (who_is(p, &rule->who[k], &r->creds))
				set_bit(rule->who[k].deny ? r->denies
							  : r->grants,
					i);
	}
}

/* Nothing can refuse it. */
static void
mark_open(struct rights *r)
{
	const struct policy *p = r->policy;
	struct verdict v;

	for (unsigned right = 0; right < RIGHTS; right++)
		if (rights_ask(r, (enum right)right, "", NULL).allowed)
			r->open |= (uint8_t)(1 << right);
	for (size_t i = 0; i < p->n_rules; i = p->rules[i]->set_end) {
		unsigned right = p->rules[i]->right;

		if (!is_always(r, (enum right)right) && ask_set(r, i, &v) &&
			!v.allowed)
			r->open &= (uint8_t) ~(1 << right);
	}
}

struct rights *
rights_new(struct policy *p, const struct creds *creds)
{
	size_t bytes = p->n_rules / 8 + 1;
	struct rights *r =
		FAULT(rights_new) ? NULL : calloc(1, sizeof(*r) + 2 * bytes);

	if (!r)
		return NULL;
	r->refs = 1;
	if (creds_copy(&r->creds, creds)) {
		free(r);
		return NULL;
	}
	r->policy = policy_ref(p);
	r->grants = (uint8_t *)(r + 1);
	r->denies = r->grants + bytes;
	mark(r);
	mark_open(r);
	return r;
}

struct rights *
rights_ref(struct rights *r)
{
	atomic_fetch_add_explicit(&r->refs, 1, memory_order_relaxed);
	return r;
}

struct rights *
rights_unref(struct rights *r)
{
	if (!r || atomic_fetch_sub(&r->refs, 1) != 1)
		return NULL;
	policy_unref(r->policy);
	creds_deinit(&r->creds);
	free(r);
	return NULL;
}

/* ---- the cache --------------------------------------------------------- */

void
rights_cache_prune(struct rights_cache *cache)
{
	struct rights **at = &cache->head, *r;

	while ((r = *at)) {
		if (atomic_load(&r->refs) > 1) {
			at = &r->next;
			continue;
		}
		*at = r->next;
		cache->n--;
		rights_unref(r);
	}
}

struct rights *
rights_cached(
	struct rights_cache *cache, struct policy *p, const struct creds *creds)
{
	struct rights *r;

	for (r = cache->head; r; r = r->next)
		if (r->policy == p && creds_equal(&r->creds, creds))
			return rights_ref(r);
	if (cache->n >= CACHE_MAX)
		rights_cache_prune(cache);
	r = rights_new(p, creds);
	if (!r)
		return NULL;
	r->next = cache->head;
	cache->head = r;
	cache->n++;
	return rights_ref(r);
}

void
rights_cache_clear(struct rights_cache *cache)
{
	struct rights *r;

	while ((r = cache->head)) {
		cache->head = r->next;
		rights_unref(r);
	}
	cache->n = 0;
}

#include "policy/policy.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fault.h"
#include "pattern.h"

const char *const right_words[RIGHTS + 1] = {
	[RIGHT_POST] = "post",
	[RIGHT_CALL] = "call",
	[RIGHT_BIND] = "bind",
	[RIGHT_WATCH] = "watch",
	[RIGHT_MANAGE] = "manage",
	[RIGHT_SEE] = "see",
};

enum { DATABASE_MAX = 1 << 20 };

enum right
right_of(const char *word)
{
	unsigned i = 0;

	while (i < RIGHTS && strcmp(right_words[i], word) != 0)
		i++;
	return (enum right)i;
}

/* ---- words ------------------------------------------------------------- */

static bool
number_of(const char *text, uint32_t *out)
{
	uint64_t n = 0;

	if (!*text || strlen(text) > 10)
		return false;
	for (; *text; text++) {
		if (*text < '0' || *text > '9')
			return false;
		n = n * 10 + (uint64_t)(*text - '0');
	}
	if (n >= UINT32_MAX) /* -1 is nobody's */
		return false;
	*out = (uint32_t)n;
	return true;
}

/* 0, POLICY_E_UNKNOWN or -ENOMEM. A number is taken as it is. */
static int
look_up(const char *name, bool group, uint32_t *id)
{
	struct passwd user, *found_user = NULL;
	struct group grp, *found_group = NULL;
	size_t size = 4096;
	char *buffer = NULL;
	int r;

	if (number_of(name, id))
		return 0;
	do {
		char *bigger = realloc(buffer, size);

		if (!bigger) {
			free(buffer);
			return err_raise(-ENOMEM);
		}
		buffer = bigger;
		r = group ? getgrnam_r(name, &grp, buffer, size, &found_group)
			  : getpwnam_r(name, &user, buffer, size, &found_user);
		size *= 4;
	} while (r == ERANGE && size <= DATABASE_MAX);
	if (found_user)
		*id = user.pw_uid;
	if (found_group)
		*id = grp.gr_gid;
	free(buffer);
	return found_user || found_group ? 0 : POLICY_E_UNKNOWN;
}

static int
wrong_word(const char *word, char *text, size_t size)
{
	snprintf(text, size,
		"'%s' says nobody; there are any, none, root, owner, "
		"user:NAME, uid:N, group:NAME, gid:N and unit:NAME, each "
		"with ! before it for those who may not",
		word);
	return POLICY_E_WORD;
}

static int
who_identity(struct who *who, const char *name, bool group, bool number,
	char *text, size_t size)
{
	int r;

	if (number)
		r = number_of(name, &who->id) ? 0 : POLICY_E_WORD;
	else
		r = *name ? look_up(name, group, &who->id) : POLICY_E_WORD;
	if (r == POLICY_E_WORD)
		return wrong_word(name, text, size);
	who->kind = group ? WHO_GID : WHO_UID;
	if (r == POLICY_E_UNKNOWN) {
		who->kind = WHO_NOBODY;
		snprintf(text, size, "there is no %s '%s': it never matches",
			group ? "group" : "user", name);
	}
	return r;
}

static int
who_unit(struct who *who, const char *name, const char *word, char *text,
	size_t size)
{
	if (!*name || strlen(name) > CREDS_UNIT_MAX)
		return wrong_word(word, text, size);
	who->kind = WHO_UNIT;
	if (strchr(name, '.'))
		who->unit = strdup(name);
	else if (asprintf(&who->unit, "%s.service", name) < 0)
		who->unit = NULL;
	return who->unit ? 0 : err_raise(-ENOMEM);
}

static int
who_parse(struct who *who, const char *word, char *text, size_t size)
{
	const char *at = word;

	who->deny = *at == '!';
	at += who->deny;
	if (!strcmp(at, "any"))
		who->kind = WHO_ANY;
	else if (!strcmp(at, "none") && !who->deny)
		who->kind = WHO_NONE;
	else if (!strcmp(at, "owner"))
		who->kind = WHO_OWNER;
	else if (!strcmp(at, "root"))
		who->kind = WHO_UID;
	else if (!strncmp(at, "user:", 5))
		return who_identity(who, at + 5, false, false, text, size);
	else if (!strncmp(at, "uid:", 4))
		return who_identity(who, at + 4, false, true, text, size);
	else if (!strncmp(at, "group:", 6))
		return who_identity(who, at + 6, true, false, text, size);
	else if (!strncmp(at, "gid:", 4))
		return who_identity(who, at + 4, true, true, text, size);
	else if (!strncmp(at, "unit:", 5))
		return who_unit(who, at + 5, word, text, size);
	else
		return wrong_word(word, text, size);
	return 0;
}

int
policy_user(const char *word, uint32_t *uid, char *text, size_t size)
{
	struct who who = {0};
	int r = who_parse(&who, word, text, size);

	free(who.unit);
	if (r)
		return r;
	if (who.deny || (who.kind != WHO_UID && who.kind != WHO_OWNER))
		return POLICY_E_WORD;
	*uid = who.kind == WHO_UID ? who.id : geteuid();
	return 0;
}

bool
who_is(const struct policy *p, const struct who *who, const struct creds *creds)
{
	if (creds->uid == (uid_t)-1) /* not known: what is said of all */
		return who->kind == WHO_ANY;
	switch ((enum who_kind)who->kind) {
	case WHO_NOBODY:
	case WHO_NONE:
		break;
	case WHO_ANY:
		return true;
	case WHO_OWNER:
		return creds->uid == p->owner;
	case WHO_UID:
		return creds->uid == who->id;
	case WHO_GID:
		return creds_in_group(creds, who->id);
	case WHO_UNIT:
		return creds->unit && !strcmp(creds->unit, who->unit);
	}
	return false;
}

/* ---- rules ------------------------------------------------------------- */

static void
rule_free(struct policy_rule *rule)
{
	if (!rule)
		return;
	for (size_t i = 0; i < rule->n_who; i++)
		free(rule->who[i].unit);
	free(rule->who);
	free(rule->alias);
	free(rule->event);
	free(rule->words);
	free(rule->file);
	free(rule);
}

/* The words of @rule one by one; what is unknown is told, and goes on. */
static int
rule_words(struct policy_rule *rule, char *text, size_t size)
{
	char *copy = strdup(rule->words), *rest = copy, *word;
	int r = 0, unknown = 0;

	rule->who = calloc(POLICY_WORDS_MAX, sizeof(*rule->who));
	if (!copy || !rule->who)
		r = err_raise(-ENOMEM);
	while (!r && (word = strsep(&rest, " \t"))) {
		if (!*word)
			continue;
		if (rule->n_who == POLICY_WORDS_MAX) {
			r = POLICY_E_MANY;
			break;
		}
		r = who_parse(&rule->who[rule->n_who++], word, text, size);
		if (r == POLICY_E_UNKNOWN) {
			unknown = r;
			r = 0;
		}
	}
	free(copy);
	return r ? r : unknown;
}

static void
rule_trim(struct policy_rule *rule)
{
	struct who *fewer = reallocarray(
		rule->who, rule->n_who ? rule->n_who : 1, sizeof(*fewer));

	if (fewer)
		rule->who = fewer;
	for (size_t i = 0; i < rule->n_who; i++)
		if (!rule->who[i].deny)
			rule->closes = true;
}

static int
rule_make(struct policy_rule *rule, const struct policy_line *line, char *text,
	size_t size)
{
	rule->alias = strdup(line->alias);
	rule->event = line->event ? strdup(line->event) : NULL;
	rule->words = strdup(line->words);
	rule->file = strdup(line->file);
	rule->line = line->line;
	rule->layer = line->layer;
	rule->right = (uint8_t)line->right;
	rule->alias_stars = strchr(line->alias, '*') != NULL;
	if (!rule->alias || !rule->words || !rule->file ||
		(line->event && !rule->event))
		return err_raise(-ENOMEM);
	return rule_words(rule, text, size);
}

int
policy_add(struct policy *p, const struct policy_line *line, char *text,
	size_t size)
{
	struct policy_rule *rule, **bigger = p->rules;
	size_t n = p->n_rules;
	int r;

	if (n == POLICY_RULES_MAX)
		return POLICY_E_MANY;
	if ((n & (n - 1)) == 0) /* doubles at powers of two */
		bigger = reallocarray(
			bigger, n ? n * 2 : 1, sizeof(struct policy_rule *));
	if (bigger)
		p->rules = bigger;
	rule = bigger && !FAULT(policy_rule) ? calloc(1, sizeof(*rule)) : NULL;
	if (!rule)
		return err_raise(-ENOMEM);
	r = rule_make(rule, line, text, size);
	if (r && r != POLICY_E_UNKNOWN) {
		rule_free(rule);
		return r;
	}
	rule_trim(rule);
	p->rules[p->n_rules++] = rule;
	return r;
}

/* ---- order ------------------------------------------------------------- */

/* Patterns with more letters first, those without a star before all. */
static int
by_pattern(const char *a, const char *b)
{
	bool x = strchr(a, '*') != NULL, y = strchr(b, '*') != NULL;
	size_t m = strlen(a), n = strlen(b);

	if (x != y)
		return x - y;
	if (x && m != n)
		return m > n ? -1 : 1;
	return strcmp(a, b);
}

static int
by_set(const struct policy_rule *x, const struct policy_rule *y)
{
	int r = by_pattern(x->alias, y->alias);

	if (!r)
		r = x->right - y->right;
	if (!r)
		r = by_pattern(
			x->event ? x->event : "*", y->event ? y->event : "*");
	return r;
}

static int
rule_compare(const void *a, const void *b)
{
	const struct policy_rule *x = *(struct policy_rule *const *)a;
	const struct policy_rule *y = *(struct policy_rule *const *)b;
	int r = by_set(x, y);

	if (!r)
		r = (x->layer > y->layer) - (x->layer < y->layer);
	if (!r)
		r = strcmp(x->file, y->file);
	return r ? r : (x->line > y->line) - (x->line < y->line);
}

/* Of each set only the last layer stays. */
static void
drop_replaced(struct policy *p)
{
	size_t kept = 0, begin, end;

	for (begin = 0; begin < p->n_rules; begin = end) {
		struct policy_rule **r = p->rules;

		for (end = begin + 1; end < p->n_rules; end++)
			if (by_set(r[begin], r[end]))
				break;
		for (size_t i = begin; i < end; i++)
			if (r[i]->layer != r[end - 1]->layer)
				rule_free(r[i]);
			else
				r[kept++] = r[i];
	}
	p->n_rules = kept;
}

/* What one must know of a peer for it. */
static unsigned
asks_of(const struct policy_rule *rule)
{
	unsigned asks = 0;

	for (size_t i = 0; i < rule->n_who; i++) {
		if (rule->who[i].kind == WHO_UNIT)
			asks |= CREDS_UNIT;
		if (rule->who[i].kind == WHO_GID)
			asks |= CREDS_GROUPS;
	}
	return asks;
}

static void
mark_sets(struct policy *p)
{
	size_t begin, end;

	for (begin = 0; begin < p->n_rules; begin = end) {
		struct policy_rule *first = p->rules[begin];

		for (end = begin + 1; end < p->n_rules; end++)
			if (by_set(first, p->rules[end]))
				break;
		for (size_t i = begin; i < end; i++) {
			struct policy_rule *rule = p->rules[i];

			rule->set_end = end;
			p->asks |= asks_of(rule);
		}
		if (first->event)
			p->by_event |= (uint8_t)(1 << first->right);
	}
}

static int
make_nodes(struct policy *p)
{
	struct policy_node *node = NULL;

	p->nodes = FAULT(policy_nodes)
			   ? NULL
			   : calloc(p->n_rules + 1, sizeof(*p->nodes));
	if (!p->nodes)
		return err_raise(-ENOMEM);
	for (size_t i = 0; i < p->n_rules; i++) {
		const struct policy_rule *rule = p->rules[i];

		if (!node || strcmp(node->alias, rule->alias) != 0) {
			node = &p->nodes[p->n_nodes++];
			node->alias = rule->alias;
			node->size = strlen(rule->alias);
			node->first = i;
			p->n_exact += !rule->alias_stars;
		}
		node->end = i + 1;
	}
	return 0;
}

int
policy_finish(struct policy *p)
{
	if (p->n_rules > 1)
		qsort(p->rules, p->n_rules, sizeof(p->rules[0]), rule_compare);
	drop_replaced(p);
	mark_sets(p);
	return make_nodes(p);
}

/* ---- life -------------------------------------------------------------- */

struct policy *
policy_new(uid_t owner, bool own)
{
	struct policy *p = FAULT(policy_new) ? NULL : calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->refs = 1;
	p->owner = owner;
	p->own = own;
	return p;
}

struct policy *
policy_ref(struct policy *p)
{
	atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
	return p;
}

struct policy *
policy_unref(struct policy *p)
{
	if (!p || atomic_fetch_sub(&p->refs, 1) != 1)
		return NULL;
	for (size_t i = 0; i < p->n_rules; i++)
		rule_free(p->rules[i]);
	free(p->rules);
	free(p->nodes);
	free(p);
	return NULL;
}

#include "hosting.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "config.h"
#include "kernel/away.h"
#include "kernel/claim.h"
#include "kernel/gate.h"
#include "kernel/kin.h"
#include "kind/kind.h"
#include "net/conn.h"
#include "net/mailslot.h"
#include "ordering.h"
#include "pools.h"

void
hosting_init(struct hosting *h, struct loop *loops, unsigned n_loops,
	struct pools *pools)
{
	*h = (struct hosting){
		.loops = loops, .n_loops = n_loops, .pools = pools};
}

static void
items_free(struct hosted *items, size_t n)
{
	for (size_t i = 0; i < n; i++)
		spec_unref(items[i].spec);
	free(items);
}

void
hosting_deinit(struct hosting *h)
{
	items_free(h->items, h->n);
	h->items = NULL;
	h->n = 0;
}

struct transition *
transition_free(struct transition *t)
{
	if (!t)
		return NULL;
	items_free(t->items, t->n);
	free(t->changes);
	reload_diff_deinit(&t->diff);
	start_order_unref(t->order);
	free(t);
	return NULL;
}

/* ---- what to do -------------------------------------------------------- */

static unsigned
home_for(struct hosting *h, const struct session_spec *spec)
{
	assert(spec);
	if (spec->loop >= 0)
		return (unsigned)spec->loop;
	return h->next_home++ % h->n_loops;
}

static int
name_add(char ***names, size_t *n, const char *name)
{
	char **bigger = reallocarray(*names, *n + 1, sizeof(*bigger));

	if (!bigger)
		return err_raise(-ENOMEM);
	*names = bigger;
	bigger[*n] = strdup(name);
	if (!bigger[*n])
		return err_raise(-ENOMEM);
	++*n;
	return 0;
}

static void
change_add(struct transition *t, struct change change)
{
	t->changes[t->n_changes++] = change;
}

static int
plan_removal(struct transition *t, const struct hosted *old)
{
	change_add(t, (struct change){.kind = CHANGE_REMOVE,
			      .home = old->home,
			      .id = old->id,
			      .spec = old->spec});
	return name_add(&t->diff.removed, &t->diff.n_removed, old->spec->name);
}

static void
plan_start(struct transition *t, size_t item)
{
	struct hosted *new = &t->items[item];

	new->home = home_for(t->hosting, new->spec);
	change_add(t, (struct change){.kind = CHANGE_ADD,
			      .home = new->home,
			      .spec = new->spec,
			      .item = item});
}

static int
plan_addition(struct transition *t, size_t item)
{
	plan_start(t, item);
	return name_add(
		&t->diff.added, &t->diff.n_added, t->items[item].spec->name);
}

/* A durable mailbox is that of the first alias. */
static bool
same_store(const struct session_spec *a, const struct session_spec *b)
{
	if (a->durable != b->durable)
		return false;
	return !a->durable || (a->n_aliases && b->n_aliases &&
				      !strcmp(a->aliases[0], b->aliases[0]));
}

/* A session keeps its mailbox if its kind and its home stay. */
static bool
can_stay(const struct hosted *old, const struct session_spec *spec)
{
	return old->id && same_store(old->spec, spec) &&
	       strcmp(old->spec->kind, spec->kind) == 0 &&
	       (spec->loop < 0 || (unsigned)spec->loop == old->home);
}

static int
plan_update(struct transition *t, const struct hosted *old, size_t item)
{
	struct hosted *new = &t->items[item];

	if (can_stay(old, new->spec)) {
		new->id = old->id;
		new->home = old->home;
		change_add(t, (struct change){.kind = CHANGE_UPDATE,
				      .home = old->home,
				      .id = old->id,
				      .spec = new->spec,
				      .item = item});
	} else {
		change_add(t, (struct change){.kind = CHANGE_REMOVE,
				      .home = old->home,
				      .id = old->id,
				      .spec = old->spec});
		plan_start(t, item);
	}
	return name_add(&t->diff.changed, &t->diff.n_changed, new->spec->name);
}

static const char *
executor_of(const struct session_spec *spec)
{
	return spec->executor ? spec->executor : "loop";
}

static int
plan_both(struct transition *t, const struct hosted *old, size_t item)
{
	struct hosted *new = &t->items[item];

	if (old->spec->digest != new->spec->digest || !old->id)
		return plan_update(t, old, item);
	new->id = old->id;
	new->home = old->home;
	if (strcmp(executor_of(old->spec), executor_of(new->spec)) == 0) {
		t->diff.n_unchanged++;
		return 0;
	}
	change_add(t, (struct change){.kind = CHANGE_EXECUTOR,
			      .home = old->home,
			      .id = old->id,
			      .spec = new->spec,
			      .item = item});
	return name_add(&t->diff.changed, &t->diff.n_changed, new->spec->name);
}

static int
name_order(const struct hosted *a, const struct hosted *b)
{
	assert(a->spec && b->spec);
	return strcmp(a->spec->name, b->spec->name);
}

/* Both sets are in the order of names. */
static int
plan(struct transition *t)
{
	const struct hosting *h = t->hosting;
	size_t i = 0, j = 0;
	int r = 0, order;

	while ((i < h->n || j < t->n) && !r) {
		if (i == h->n)
			order = 1;
		else if (j == t->n)
			order = -1;
		else
			order = name_order(&h->items[i], &t->items[j]);
		if (order < 0)
			r = plan_removal(t, &h->items[i++]);
		else if (order > 0)
			r = plan_addition(t, j++);
		else
			r = plan_both(t, &h->items[i++], j++);
	}
	return r;
}

/* Those that are there already have settled. */
static int
plan_order(struct transition *t)
{
	struct session_spec **specs = calloc(t->n + 1, sizeof(*specs));
	struct start_edge *edges = NULL;
	size_t n_edges = 0;
	int r = specs ? 0 : err_raise(-ENOMEM);

	for (size_t i = 0; i < t->n_changes && !r; i++)
		if (t->changes[i].kind == CHANGE_ADD)
			specs[t->changes[i].item] = t->changes[i].spec;
	if (!r)
		r = ordering_edges(specs, t->n, &edges, &n_edges);
	if (!r && n_edges) {
		t->order = start_order_new((uint32_t)t->n, edges, n_edges);
		r = t->order ? 0 : err_raise(-ENOMEM);
	}
	free(edges);
	free(specs);
	return r;
}

int
transition_make(
	struct transition **out, struct hosting *h, struct config *config)
{
	struct transition *t = calloc(1, sizeof(*t));
	unsigned next_home = h->next_home;
	int r;

	if (!t)
		return err_raise(-ENOMEM);
	t->hosting = h;
	t->config = config;
	round_init(&t->round, h->loops, h->n_loops);
	t->items = calloc(config->n_specs + 1, sizeof(*t->items));
	/* at most a removal and an addition for each */
	t->changes = calloc(h->n + config->n_specs + 1, sizeof(*t->changes));
	r = t->items && t->changes ? 0 : err_raise(-ENOMEM);
	for (size_t i = 0; i < config->n_specs && !r; i++)
		t->items[t->n++].spec = spec_ref(config->specs[i]);
	if (!r)
		r = plan(t);
	if (!r)
		r = plan_order(t);
	if (r) {
		h->next_home = next_home;
		transition_free(t);
		return err_pass(r);
	}
	*out = t;
	return 0;
}

/* ---- doing it, on every loop ------------------------------------------- */

/* Kind=client is a mailbox that clients consume. */
static const struct session_ops *
ops_of(const struct session_spec *spec)
{
	const struct session_ops *ops = kind_find(spec->kind);

	return ops ? ops : &mailslot_ops;
}

static bool
spec_has(const struct session_spec *spec, const char *alias)
{
	for (size_t i = 0; i < spec->n_aliases; i++)
		if (strcmp(spec->aliases[i], alias) == 0)
			return true;
	return false;
}

/* Let go what @spec does not name (NULL: all), so that others can take it in
 * the next step whatever their loops' pace. */
static void
aliases_release(struct session *s, const struct session_spec *spec)
{
	const struct session_spec *old = s->spec;

	for (size_t i = 0; i < old->n_aliases; i++)
		if (!spec || !spec_has(spec, old->aliases[i]))
			session_drop_alias(
				s, old->aliases[i], strlen(old->aliases[i]));
}

static void
transition_release(struct round *round, struct loop *l)
{
	struct transition *t = container_of(round, struct transition, round);
	struct session *s;

	for (size_t i = 0; i < t->n_changes; i++) {
		const struct change *c = &t->changes[i];

		if (c->home != l->sched.index || c->kind == CHANGE_ADD ||
			c->kind == CHANGE_EXECUTOR)
			continue;
		s = session_find(l->sched.kernel, c->id);
		if (!s)
			continue; /* it has ended by itself */
		aliases_release(s, c->kind == CHANGE_REMOVE ? NULL : c->spec);
		if (c->kind != CHANGE_REMOVE)
			continue;
		log_info("session.removed", "session=\"%s\"", c->spec->name);
		session_stop(s);
	}
}

static void
session_make(struct transition *t, struct loop *l, const struct change *c)
{
	struct gate *gate =
		t->order ? start_order_gate(t->order, (uint32_t)c->item) : NULL;
	struct session *s = session_new_after(
		&l->sched, ops_of(c->spec), c->spec, NULL, gate);

	/* read by the main thread after the round */
	t->items[c->item].id = s ? atomic_load(&s->id) : 0;
	if (s)
		return;
	atomic_fetch_add(&t->n_refused, 1);
	log_err("session.refused",
		"session=\"%s\" limit=%u reason=\"out of memory, or "
		"MaxSessions= is reached\"",
		c->spec->name, l->sched.kernel->limits.max_sessions);
}

static bool
is_group(const struct session_spec *spec)
{
	return strcmp(spec->kind, group_ops.kind) == 0;
}

/* Those that others wait for come before those that wait. */
enum step { STEP_GROUPS, STEP_OWNERS, STEP_OTHERS };

static enum step
step_of(const struct session_spec *spec)
{
	if (is_group(spec))
		return STEP_GROUPS;
	return spec->if_taken == CLAIM_REFUSE ? STEP_OWNERS : STEP_OTHERS;
}

static void
establish(struct transition *t, struct loop *l, enum step step)
{
	struct session *s;

	for (size_t i = 0; i < t->n_changes; i++) {
		const struct change *c = &t->changes[i];

		if (c->home != l->sched.index || c->kind == CHANGE_REMOVE ||
			c->kind == CHANGE_EXECUTOR || step_of(c->spec) != step)
			continue;
		s = c->kind == CHANGE_UPDATE
			    ? session_find(l->sched.kernel, c->id)
			    : NULL;
		if (!s) {
			session_make(t, l, c);
			continue;
		}
		log_info("session.changed", "session=\"%s\"", c->spec->name);
		session_restart(s, c->spec);
	}
}

static void
transition_found(struct round *round, struct loop *l)
{
	establish(
		container_of(round, struct transition, round), l, STEP_GROUPS);
}

static void
transition_establish(struct round *round, struct loop *l)
{
	establish(
		container_of(round, struct transition, round), l, STEP_OWNERS);
}

/* Those of which nothing but the executor changes, and what has a pool that is
 * gone: they go on elsewhere. */
static void
move(struct transition *t, struct loop *l)
{
	for (size_t i = 0; i < t->n_changes; i++) {
		const struct change *c = &t->changes[i];
		struct session *s = session_find(l->sched.kernel, c->id);

		if (c->home != l->sched.index || c->kind != CHANGE_EXECUTOR ||
			!s)
			continue;
		log_info("session.moved", "session=\"%s\" executor=\"%s\"",
			c->spec->name, executor_of(c->spec));
		if (away_reconfigure(s, c->spec->executor))
			log_err("session.not-moved",
				"session=\"%s\" reason=\"out of memory\"",
				c->spec->name);
	}
	pools_move(l);
}

static void
transition_complete(struct round *round, struct loop *l)
{
	struct transition *t = container_of(round, struct transition, round);

	delays_zones_changed(&l->sched);
	establish(t, l, STEP_OTHERS);
	move(t, l);
}

static void
transition_settled(struct round *round)
{
	struct transition *t = container_of(round, struct transition, round);
	struct hosting *h = t->hosting;

	items_free(h->items, h->n);
	h->items = t->items;
	h->n = t->n;
	t->items = NULL;
	t->n = 0;
	pools_settle(h->pools);
	t->done(t, t->arg);
}

/* One more pass, so that new sessions have had the turn that starts them. */
static void
transition_established(struct round *round)
{
	round_start(round, NULL, transition_settled);
}

static void
transition_owned(struct round *round)
{
	round_start(round, transition_complete, transition_established);
}

static void
transition_founded(struct round *round)
{
	round_start(round, transition_establish, transition_owned);
}

/* Groups first, so that their members find them. */
static void
transition_guarded(struct round *round)
{
	round_start(round, transition_found, transition_founded);
}

static void
transition_guard(struct round *round, struct loop *l)
{
	struct transition *t = container_of(round, struct transition, round);

	l->busy_ns = t->config->busy_us * NS_PER_US;
	if (l->net) {
		net_set_policy(l->net, t->config->policy);
		net_set_limits(l->net,
			&(struct net_limits){
				.max_connections = t->config->max_connections,
				.max_memfd = t->config->max_memfd,
				.window_posts = t->config->window_posts,
				.window_bytes = t->config->window_bytes,
			});
	}
}

/* What was guarded by the old rules has gone, what is by the new ones is not
 * there yet. */
static void
transition_released(struct round *round)
{
	struct transition *t = container_of(round, struct transition, round);
	struct kernel *k = t->hosting->loops[0].sched.kernel;

	if (t->config->user_limits)
		users_set_limits(&k->users, TAKE(t->config->user_limits));
	round_start(round, transition_guard, transition_guarded);
}

void
transition_run(struct transition *t,
	void (*done)(struct transition *t, void *arg), void *arg)
{
	t->done = done;
	t->arg = arg;
	pools_change(t->hosting->pools, t->config);
	zones_flush(&t->hosting->loops[0].sched.kernel->zones);
	round_start(&t->round, transition_release, transition_released);
}

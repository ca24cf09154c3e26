/* Verbs that show: list and status. Each scheduler tells of its own sessions
 * on its own thread; nothing here walks a mailbox. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "exec/pool.h"
#include "kernel/alias.h"
#include "kernel/aside.h"
#include "kernel/crowd.h"
#include "kernel/kin.h"
#include "kernel/state.h"
#include "kernel/stuck.h"
#include "kernel/ties.h"
#include "stats/memory.h"
#include "stats/profile.h"
#include "verb/daemon_ops.h"
#include "verb/gather.h"

enum { LIST_PAGE = 1000 };

/* ---- one session ------------------------------------------------------- */

static Eventd__V1__Counters *
counters_of(struct gather *g, const struct counters *c)
{
	Eventd__V1__Counters *out = gather_alloc(g, sizeof(*out));

	if (!out)
		return NULL;
	eventd__v1__counters__init(out);
	out->accepted = c->accepted;
	out->handled = c->handled;
	out->expired = c->expired;
	out->cancelled = c->cancelled;
	out->dropped = c->dropped;
	out->dead_lettered = c->dead;
	out->refused = c->refused;
	out->leased = c->leased;
	return out;
}

static bool
put_aliases(struct gather *g, Eventd__V1__SessionInfo *info,
	const struct session *t)
{
	size_t n = 0;

	for (const struct alias *a = t->aliases; a; a = a->sibling)
		n++;
	info->aliases = gather_alloc(g, (n + 1) * sizeof(char *));
	if (!info->aliases)
		return false;
	info->n_aliases = n;
	for (const struct alias *a = t->aliases; a; a = a->sibling) {
		info->aliases[--n] = gather_string(g, a->name);
		if (!info->aliases[n])
			return false;
	}
	return true;
}

/* What a thread runs of it. False: out of memory. */
static bool
put_run(struct gather *g, Eventd__V1__SessionInfo *info, const struct sched *s,
	const struct session *t)
{
	const struct away *a = session_away(t);
	uint64_t now = clock_now(s->kernel->clock);
	struct stuck_run run;

	if (!a)
		return true;
	info->stuck_ever = a->n_stuck;
	stuck_see(t, &run);
	if (!run.since_ns)
		return true;
	info->running_event = gather_string(g, run.event);
	info->running_event_id = run.event_id;
	info->running_ns = now > run.since_ns ? now - run.since_ns : 0;
	info->running_thread = (uint32_t)run.thread;
	info->stuck = a->is_stuck;
	return info->running_event;
}

static bool
put_life(struct gather *g, Eventd__V1__SessionInfo *info,
	const struct session *t)
{
	const struct session_spec *spec = t->spec;

	info->exit = (char *)session_exit_word((enum session_exit)t->exit);
	if (t->kin) {
		info->parent = t->kin->parent;
		info->children = t->kin->n_children;
	}
	if (!spec)
		return true;
	info->on_demand = spec->on_demand;
	if (spec->group)
		info->group = gather_string(g, spec->group);
	if (spec->name)
		info->name = gather_string(g, spec->name);
	info->away = away_is_out(t);
	info->executor = gather_string(
		g, session_executor(t) ? session_executor(t)->name : "loop");
	return info->group && info->name && info->executor;
}

static bool
put_health(struct gather *g, Eventd__V1__SessionInfo *info,
	const struct session *t)
{
	const struct session_health *health = t->health;

	if (!put_life(g, info, t))
		return false;
	if (t->spec && t->spec->origin)
		info->origin = gather_string(g, t->spec->origin);
	info->starts = t->starts;
	info->started_ns = (int64_t)session_started_wall_ns(t);
	if (!health)
		return info->origin;
	info->restarts = health->restarts;
	if (t->life == SESSION_BACKOFF)
		info->restart_ns = (int64_t)health->restart_wall_ns;
	if (health->reason)
		info->reason = gather_string(g, health->reason);
	return info->origin && info->reason;
}

static void
put_aside(Eventd__V1__SessionInfo *info, const struct session *t)
{
	const struct aside *aside = aside_get(t);

	info->stashed = t->box.rare ? t->box.rare->n_stashed : 0;
	info->repeated = aside ? aside->n_repeated : 0;
}

static void
put_ties(Eventd__V1__SessionInfo *info, const struct ties *ties)
{
	if (!ties)
		return;
	info->watches = ties->n_watches;
	info->watchers = ties->n_watchers;
	info->links = ties->n_links;
	info->claims = ties->n_claims;
}

/* As in its file. */
static char *
binds_text(struct gather *g, const struct session *t)
{
	char text[4096];

	if (!t->ties || !t->ties->n_crowds)
		return gather_string(g, "");
	crowds_text(t, text, sizeof(text));
	return gather_string(g, text);
}

/* Likewise. */
static char *
overflow_text(struct gather *g, const struct session_spec *spec)
{
	char text[1024];
	size_t n;

	n = (size_t)snprintf(text, sizeof(text), "%s",
		overflow_words[spec ? spec->overflow : OVERFLOW_BLOCK]);
	for (size_t i = 0; spec && i < spec->n_rules && n < sizeof(text); i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, " %s:%s",
			spec->rules[i].pattern,
			overflow_words[spec->rules[i].overflow]);
	return gather_string(g, text);
}

static void
put_marks(Eventd__V1__SessionInfo *info, const struct session *t)
{
	const struct water_mark *high = t->spec ? &t->spec->high : NULL;

	if (!high)
		return;
	info->high_events = high->events;
	if (!high->percent)
		return;
	info->high_events = (uint64_t)t->box.max_n * high->percent / 100;
	info->high_bytes = t->box.max_size / 100 * high->percent;
}

static void
put_waits(Eventd__V1__SessionInfo *info, const struct session *t)
{
	struct session_waits waits;

	if (!t->ops->waits || !t->spec)
		return;
	session_waiting(t, &waits);
	info->waiting = waits.n;
	info->waiting_time = waits.for_what[SESSION_WAIT_TIME];
	info->waiting_answer = waits.for_what[SESSION_WAIT_ANSWER];
	info->waiting_event = waits.for_what[SESSION_WAIT_EVENT];
	info->concurrency = t->spec->concurrency;
	info->stack_high = waits.stack_high;
}

static Eventd__V1__SessionInfo *
session_info(struct gather *g, struct sched *s, const struct session *t)
{
	Eventd__V1__SessionInfo *info = gather_alloc(g, sizeof(*info));
	struct counters counters = session_counters(t);

	if (!info)
		return NULL;
	eventd__v1__session_info__init(info);
	info->id = t->id;
	info->kind = (char *)t->ops->kind;
	info->state = (char *)session_state_word(t);
	info->queued_bytes = t->box.size;
	info->max_events = t->box.max_n;
	info->max_bytes = t->box.max_size;
	info->parked = t->box.n_parked;
	info->memory = session_memory(t);
	info->loop = s->index;
	info->memory += profile_memory(t);
	info->age_s = (uint32_t)(s->now_ns / NS_PER_S) - t->box.born_s;
	info->paused = t->box_bits & BOX_PAUSED;
	info->above = t->box_bits & BOX_ABOVE;
	put_marks(info, t);
	info->overflow = overflow_text(g, t->spec);
	info->binds = binds_text(g, t);
	info->control = (t->control.tail != NULL) + (t->notices.tail != NULL);
	info->counters = counters_of(g, &counters);
	if (!info->counters || !info->overflow || !info->binds ||
		!put_aliases(g, info, t) || !put_run(g, info, s, t) ||
		!put_health(g, info, t))
		return NULL;
	info->counters->queued = t->box.n;
	put_aside(info, t);
	put_waits(info, t);
	put_ties(info, t->ties);
	info->state_size = state_size(t);
	info->state_keys = state_count(t);
	info->denied = atomic_load_explicit(&t->denied, memory_order_relaxed);
	info->counters->delayed = t->n_timers;
	return info;
}

static void
put_peer(struct gather *g, Eventd__V1__SessionInfo *info, struct session *t)
{
	struct peer_face face;
	struct peer_crowd crowd;
	char *name;

	if (g->ops->crowd && g->ops->crowd(t, &crowd)) {
		info->mode = (char *)bind_mode_words[crowd.mode];
		info->consumers = crowd.n;
	}
	if (!g->ops->behind(t, &face))
		return;
	info->uid = face.uid;
	info->pid = (uint32_t)face.pid;
	name = gather_string(g, face.name);
	if (name)
		info->peer = name;
}

/* ---- list -------------------------------------------------------------- */

static bool
is_listed(const struct gather *g, const struct session *t)
{
	size_t n = strlen(g->name);

	if (!n)
		return true;
	for (const struct alias *a = t->aliases; a; a = a->sibling)
		if (!strncmp(a->name, g->name, n))
			return true;
	return false;
}

/* args: first slot, slot after the last, sessions there is room for; out:
 * Eventd__V1__SessionList */
static bool
list_visit(struct gather *g, struct sched *s)
{
	Eventd__V1__SessionList *list = g->out;

	for (uint32_t slot = (uint32_t)g->args[0]; slot < g->args[1]; slot++) {
		struct session *t = session_at(s->kernel, slot);
		Eventd__V1__SessionInfo *info;

		if (!t || !atomic_load(&t->id) || atomic_load(&t->home) != s ||
			!is_listed(g, t) || !gather_sees(g, t))
			continue;
		/* a slot may have been used again on this scheduler since
		 * another told of it */
		if (list->n_sessions == g->args[2])
			return false;
		info = session_info(g, s, t);
		if (!info)
			return false;
		put_peer(g, info, t);
		list->sessions[list->n_sessions++] = info;
	}
	return true;
}

static int
by_id(const void *a, const void *b)
{
	const Eventd__V1__SessionInfo *const *x = a, *const *y = b;
	uint64_t i = (*x)->id & SESSION_SLOT_MASK;
	uint64_t j = (*y)->id & SESSION_SLOT_MASK;

	return i < j ? -1 : i > j;
}

static void
list_finish(struct gather *g)
{
	Eventd__V1__SessionList *list = g->out;

	qsort(list->sessions, list->n_sessions, sizeof(list->sessions[0]),
		by_id);
}

/* A page is a range of slots, so that a sparse table costs no more than a
 * full one; it may hold fewer sessions than asked for, even none. */
void
verb_list(struct peer *p, const Eventd__V1__Request *r)
{
	struct sched *s = atomic_load(&p->session->home);
	const Eventd__V1__List *want = r->list;
	uint32_t n = want->limit && want->limit < LIST_PAGE ? want->limit
							    : LIST_PAGE;
	uint64_t last = atomic_load(&s->kernel->sessions.n_slots);
	Eventd__V1__SessionList *list;
	Eventd__V1__SessionInfo **sessions;
	struct gather *g;

	if (want->prefix[0] && !verb_name_ok(p, r->id, want->prefix))
		return;
	g = gather_new(p, r->id);
	if (!g)
		return;
	list = gather_alloc(g, sizeof(*list));
	sessions = gather_alloc(g, n * sizeof(Eventd__V1__SessionInfo *));
	if (!list || !sessions) {
		gather_answer(g);
		return;
	}
	eventd__v1__session_list__init(list);
	list->sessions = sessions;
	strcpy(g->name, want->prefix);
	g->args[0] = (want->after & SESSION_SLOT_MASK) + 1;
	g->args[1] = g->args[0] + n;
	g->args[2] = n;
	if (g->args[1] <= last)
		list->next = g->args[1] - 1;
	else
		g->args[1] = last + 1; /* the table ends there */
	g->out = list;
	g->visit = list_visit;
	g->finish = list_finish;
	g->response.result_case = EVENTD__V1__RESPONSE__RESULT_LIST;
	g->response.list = list;
	gather_start(g, s);
}

/* ---- status ------------------------------------------------------------ */

static bool
session_visit(struct gather *g, struct sched *s)
{
	Eventd__V1__StatusReport *report = g->out;
	struct session *t = session_find(s->kernel, g->only);

	if (!t || atomic_load(&t->home) != s) {
		g->status = EVD_STATUS_NO_ALIAS;
		snprintf(g->text, sizeof(g->text),
			"no session holds the alias '%s'", g->name);
		return false;
	}
	report->session = session_info(g, s, t);
	if (report->session)
		put_peer(g, report->session, t);
	return false;
}

static void
add_counters(Eventd__V1__Counters *sum, const struct sched *s)
{
	const struct counters *c = &s->counters;

	sum->accepted += c->accepted;
	sum->handled += c->handled;
	sum->expired += c->expired;
	sum->cancelled += c->cancelled;
	sum->dropped += c->dropped;
	sum->dead_lettered += c->dead;
	sum->refused += c->refused;
	sum->leased += c->leased;
	/* on its way between schedulers counts as queued */
	sum->queued += s->queued + s->transit_out - s->transit_in;
	sum->delayed += s->delays.n;
}

/* There is room: status_of_daemon() made it. */
static void
put_loop(Eventd__V1__DaemonInfo *d, const struct sched *s)
{
	Eventd__V1__LoopInfo *loop = d->loop[d->n_loop++];

	loop->turns = s->turns;
	loop->runnable = s->n_runnable;
	loop->queued = s->queued;
	loop->timers = s->timers.n + s->wall_timers.n +
		       (s->boot_timers ? s->boot_timers->n : 0);
	loop->late_count = s->lateness.n;
	loop->late_p50_ns = lateness_of_thousand(&s->lateness, 500);
	loop->late_p99_ns = lateness_of_thousand(&s->lateness, 990);
	loop->late_max_ns = s->lateness.max_ns;
	if (s->profile.all)
		d->profile = true;
}

/* What is asked of all loops. */
struct overview {
	Eventd__V1__StatusReport report;
	struct lateness lateness;
};

/* args: failed sessions found */
static bool
daemon_visit(struct gather *g, struct sched *s)
{
	struct overview *o = g->out;
	Eventd__V1__StatusReport *report = &o->report;

	lateness_merge(&o->lateness, &s->lateness);
	add_counters(report->daemon->counters, s);
	put_loop(report->daemon, s);
	g->args[0] += s->n_failed;
	report->daemon->dead_letters += s->dead.n;
	report->daemon->dead_letter_bytes += s->dead.size;
	report->daemon->dead_letters_ever += s->dead.total;
	report->daemon->dead_letters_forgotten += s->dead.forgotten;
	return true;
}

/* Without memory there are fewer buckets. */
static void
put_lateness(
	struct gather *g, Eventd__V1__DaemonInfo *d, const struct lateness *l)
{
	size_t size = LATENESS_BUCKETS * sizeof(d->late_bucket[0]);

	d->late_count = l->n;
	d->late_p50_ns = lateness_of_thousand(l, 500);
	d->late_p99_ns = lateness_of_thousand(l, 990);
	d->late_max_ns = l->max_ns;
	d->late_bucket = l->n ? gather_alloc(g, size) : NULL;
	for (unsigned i = 0; d->late_bucket && i < LATENESS_BUCKETS; i++) {
		Eventd__V1__LateBucket *b;

		if (!l->buckets[i])
			continue;
		b = gather_alloc(g, sizeof(*b));
		if (!b)
			return;
		eventd__v1__late_bucket__init(b);
		b->below_ns = i < LATENESS_BUCKETS - 1 ? lateness_bound(i) : 0;
		b->count = l->buckets[i];
		d->late_bucket[d->n_late_bucket++] = b;
	}
}

static void
daemon_finish(struct gather *g)
{
	struct overview *o = g->out;
	Eventd__V1__DaemonInfo *d = o->report.daemon;
	struct kernel *k = g->home->kernel;
	const struct peer_shared *shared = g->peer->shared;

	d->server = (char *)shared->version;
	d->pid = (uint32_t)getpid();
	d->started_ns = (int64_t)shared->started_wall_ns;
	d->loops = k->n_scheds;
	d->sessions = atomic_load(&k->sessions.n);
	d->failed = g->args[0];
	d->connections = atomic_load(&shared->n_connections);
	d->budget = k->limits.budget;
	d->turn_budget = k->limits.turn_budget;
	d->state = (char *)(atomic_load(&k->stopping) ? "stopping" : "running");
	d->denied = atomic_load(&shared->denied);
	d->late_replies = atomic_load(&k->late_replies);
	put_lateness(g, d, &o->lateness);
}

static bool
put_pool(struct gather *g, Eventd__V1__PoolInfo *out, struct executor *x)
{
	struct pool_state state;

	eventd__v1__pool_info__init(out);
	pool_look(container_of(x, struct pool, executor), &state);
	out->name = gather_string(g, x->name);
	out->type = (char *)x->ops->name;
	out->threads = state.n_threads;
	out->busy = state.n_busy;
	out->queued = state.n_queued;
	out->sessions = state.n_sessions;
	out->runs = state.n_runs;
	out->stuck = state.n_stuck;
	out->stuck_ever = state.n_stuck_ever;
	return out->name;
}

/* Those that have been used. */
static bool
make_pools(struct gather *g, Eventd__V1__DaemonInfo *d)
{
	const struct kernel *k = g->home->kernel;

	struct executor *x;

	d->pool = gather_alloc(g, KERNEL_EXECUTORS_MAX * sizeof(d->pool[0]));
	for (uint32_t i = 0; d->pool && (x = kernel_executor_at(k, i)); i++) {
		Eventd__V1__PoolInfo *out;

		if (!atomic_load(&x->n_sessions) && !atomic_load(&x->n_runs))
			continue;
		out = gather_alloc(g, sizeof(*out));
		if (!out || !put_pool(g, out, x))
			return false;
		d->pool[d->n_pool++] = out;
	}
	return d->pool;
}

static bool
make_loops(struct gather *g, Eventd__V1__DaemonInfo *d)
{
	unsigned n = g->home->kernel->n_scheds;

	d->loop = gather_alloc(g, n * sizeof(d->loop[0]));
	for (unsigned i = 0; d->loop && i < n; i++) {
		d->loop[i] = gather_alloc(g, sizeof(*d->loop[i]));
		if (!d->loop[i])
			return false;
		eventd__v1__loop_info__init(d->loop[i]);
	}
	return d->loop;
}

static bool
status_of_daemon(struct gather *g)
{
	struct overview *o = g->out;
	Eventd__V1__StatusReport *report = &o->report;
	struct counters none = {0};

	report->daemon = gather_alloc(g, sizeof(*report->daemon));
	if (!report->daemon)
		return false;
	eventd__v1__daemon_info__init(report->daemon);
	report->daemon->counters = counters_of(g, &none);
	g->visit = daemon_visit;
	g->finish = daemon_finish;
	return report->daemon->counters && make_loops(g, report->daemon) &&
	       make_pools(g, report->daemon);
}

static void
status_of_alias(struct gather *g, const char *alias)
{
	strcpy(g->name, alias);
	g->only = alias_holder(&g->home->kernel->aliases, alias, strlen(alias));
	g->visit = session_visit;
}

static void
on_memory(void *arg, const struct memory *m)
{
	struct gather *g = arg;
	struct overview *o = g->out;
	Eventd__V1__DaemonInfo *d = o->report.daemon;

	if (!m) {
		g->status = EVD_STATUS_UNAVAILABLE;
		snprintf(g->text, sizeof(g->text), "eventd stops");
		gather_answer(g);
		return;
	}
	d->memory = m->resident;
	d->memory_proportional = m->proportional;
	d->memory_private = m->private;
	d->memory_shared = m->shared;
	d->memory_swap = m->swap;
	gather_start(g, g->home);
}

static void
ask_daemon(struct peer *p, struct gather *g)
{
	const struct peer_shared *shared = p->shared;
	struct memory cheap;

	if (!status_of_daemon(g)) {
		gather_answer(g);
	} else if (shared->daemon && shared->daemon->memory) {
		shared->daemon->memory(
			shared->daemon_data, g->home, on_memory, g);
	} else {
		cheap = (struct memory){.resident = memory_resident()};
		on_memory(g, &cheap);
	}
}

void
verb_status(struct peer *p, const Eventd__V1__Request *r)
{
	struct sched *s = atomic_load(&p->session->home);
	const char *alias = r->status->alias;
	Eventd__V1__StatusReport *report;
	struct overview *o;
	struct gather *g;

	if (alias[0] && (!verb_name_ok(p, r->id, alias) ||
				!verb_may(p, r->id, RIGHT_SEE, alias, NULL)))
		return;
	g = gather_new(p, r->id);
	if (!g)
		return;
	o = gather_alloc(g, sizeof(*o));
	if (!o) {
		gather_answer(g);
		return;
	}
	report = &o->report;
	eventd__v1__status_report__init(report);
	g->out = o;
	g->response.result_case = EVENTD__V1__RESPONSE__RESULT_REPORT;
	g->response.report = report;
	if (!alias[0]) {
		ask_daemon(p, g);
		return;
	}
	status_of_alias(g, alias);
	gather_start(g, s);
}

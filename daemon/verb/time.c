/* Verbs about timers that are pending: cancel, adjust, timers; and calendar. */
#include "verb/time.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/calendar.h"
#include "base/zone.h"
#include "envelope.h"
#include "kernel/alias.h"

enum {
	TIMERS_PAGE = 1000,
	TIMERS_LOOK = 10000, /* at so many for one page */
	CALENDAR_TIMES_MAX = 1000,
};

/* ---- which timer ------------------------------------------------------- */

/* By id; by name and whom it goes to; or all that go there. */
struct which {
	uint64_t timer;
	char name[DELAY_NAME_MAX + 1];
	bool all;
	struct delay_change change;
	struct gather *gather;
	struct delay_told told;
	bool again;
	uint64_t n;           /* that were found */
	enum delay_fate fate; /* of the timer, if it was not */
	union {
		Eventd__V1__Cancelled cancelled;
		Eventd__V1__Adjusted adjusted;
	};
};

bool
verb_timer_name_ok(struct peer *p, uint64_t id, const char *name)
{
	if (name_is_valid(name, strlen(name), DELAY_NAME_MAX))
		return true;
	verb_refuse(p, id, EVD_STATUS_INVALID,
		"a timer's name is 1 to 127 of A-Z a-z 0-9 _ . / -");
	return false;
}

/* Start asking for it; NULL: an answer has been sent. */
static struct gather *
which_new(struct peer *p, uint64_t id, uint64_t timer, const char *alias,
	const char *name, bool all)
{
	struct sched *s = atomic_load(&p->session->home);
	bool by_name = name[0] || all;
	struct gather *g;
	struct which *w;

	if ((timer && by_name) || (name[0] && all) ||
		by_name != (alias[0] != 0)) {
		verb_refuse(p, id, EVD_STATUS_INVALID,
			"a timer is given by its id, or by alias and name");
		return NULL;
	}
	if (!by_name && (!timer || (!delay_id_is_stored(timer) &&
					   delay_sched(timer) >=
						   s->kernel->n_scheds))) {
		verb_refuse(p, id, EVD_STATUS_NOT_FOUND, "no such timer");
		return NULL;
	}
	if ((by_name && !verb_name_ok(p, id, alias)) ||
		(name[0] && !verb_timer_name_ok(p, id, name)))
		return NULL;
	g = gather_new(p, id);
	w = g ? gather_alloc(g, sizeof(*w)) : NULL;
	if (!w) {
		if (g)
			gather_answer(g);
		return NULL;
	}
	w->gather = g;
	w->timer = timer;
	w->fate = DELAY_FORGOTTEN;
	w->all = all;
	strcpy(w->name, name);
	strcpy(g->name, alias);
	g->out = w;
	g->next = timer && !delay_id_is_stored(timer) ? delay_sched(timer) : 0;
	return g;
}

/* On this scheduler, by its name: one that was set for the alias, or by the
 * session itself that holds it. */
static uint64_t
find_by_name(const struct gather *g, struct sched *s)
{
	const struct which *w = g->out;
	size_t size = strlen(w->name);
	struct alias *alias =
		alias_find(&s->kernel->aliases, g->name, strlen(g->name));
	uint64_t id;

	if (!alias)
		return 0;
	id = delay_named(s, 0, alias, w->name, size);
	return id ? id
		  : delay_named(s, atomic_load(&alias->holder), NULL, w->name,
			    size);
}

/* The same of one that is not found, or not any more. */
static enum delay_fate
fate_by_name(const struct gather *g, struct sched *s)
{
	const struct which *w = g->out;
	size_t size = strlen(g->name);
	struct delay_name name = {.alias = g->name,
		.alias_size = size,
		.name = w->name,
		.size = strlen(w->name)};
	enum delay_fate fate = delay_fate_of_name(s, &name);

	if (fate != DELAY_FORGOTTEN)
		return fate;
	name.owner = alias_holder(&s->kernel->aliases, g->name, size);
	name.alias = NULL;
	return delay_fate_of_name(s, &name);
}

/* Each scheduler is asked, one knows. */
static enum delay_fate
note_fate(struct which *w, enum delay_fate fate)
{
	if (w->fate == DELAY_FORGOTTEN)
		w->fate = fate;
	return fate;
}

static const char *const fates[] = {
	[DELAY_PENDING] = "it cannot be changed", /* it is found */
	[DELAY_HAS_FIRED] = "it has fired",
	[DELAY_WAS_CANCELLED] = "it was cancelled",
	[DELAY_FORGOTTEN] = "it has fired, was cancelled, or never was",
	[DELAY_NEVER_WAS] = "there has been none",
};

static void
which_not_found(struct gather *g)
{
	const struct which *w = g->out;

	g->status = EVD_STATUS_NOT_FOUND;
	if (w->timer)
		snprintf(g->text, sizeof(g->text), "no timer %" PRIu64 ": %s",
			w->timer, fates[w->fate]);
	else
		snprintf(g->text, sizeof(g->text), "no timer '%s' of '%s': %s",
			w->name, g->name, fates[w->fate]);
}

const char *
verb_timer_target(struct sched *s, const struct delay *delay)
{
	const struct session *t;

	if (delay->timer.b & DELAY_ALIAS)
		return delay_parcel(delay)->alias->name;
	t = session_find(s->kernel, delay_parcel(delay)->to);
	return t && atomic_load(&t->home) == s ? session_name(t) : "";
}

bool
verb_timer_may_change(struct gather *g, struct sched *s, uint64_t id)
{
	const struct delay *delay = delay_find(&s->delays, id);
	const struct creds *creds = &g->rights->creds;
	const char *target;

	if (!delay || (delay_uid(delay) == creds->uid &&
			      delay_uid(delay) != DELAY_NO_UID))
		return true;
	target = verb_timer_target(s, delay);
	if (rights_may(g->rights, RIGHT_MANAGE, target, NULL))
		return true;
	snprintf(g->name, sizeof(g->name), "%s", target);
	g->denied = 1 + RIGHT_MANAGE;
	return false;
}

/* All, for who manages the alias; else those that his user has set. */
static uint64_t
cancel_all(struct gather *g, struct sched *s)
{
	bool all = rights_may(g->rights, RIGHT_MANAGE, g->name, NULL);

	return delays_cancel_alias(s, g->name, strlen(g->name),
		all ? DELAY_NO_UID : g->rights->creds.uid);
}

/* What was asked is safe, or the store has failed. */
static void
on_told(struct delay_told *told, struct sched *s, int r)
{
	struct which *w = container_of(told, struct which, told);
	struct gather *g = w->gather;

	if (r) {
		g->status = EVD_STATUS_IO;
		strcpy(g->text, "it is done, but the store cannot be written "
				"now: if eventd ends before it can, the timer "
				"is as it was");
	}
	w->adjusted.due_ns = (int64_t)told->due_ns;
	if (r || w->timer || !w->again) {
		gather_return(g, s);
		return;
	}
	g->pending = false; /* there may be others of that name */
	sched_run_on(s, s, &g->task);
}

/* Has @g to wait for the store? */
static bool
waits(struct sched *s, uint64_t id)
{
	const struct delay *delay = delay_find(&s->delays, id);

	return delay && delay_is_stored(delay);
}

/* ---- cancel ------------------------------------------------------------ */

/* True: there may be another of its kind here. */
static bool
cancel_one(struct gather *g, struct sched *s, uint64_t id)
{
	struct which *w = g->out;

	if (!verb_timer_may_change(g, s, id))
		return false;
	if (!waits(s, id)) {
		if (delay_cancel(s, id))
			return false; /* it is firing */
		w->n++;
		return true;
	}
	w->told.told = on_told;
	w->again = true;
	if (delay_cancel_told(s, id, &w->told) == 0) {
		w->n++;
		g->pending = true;
	}
	return false;
}

static bool
cancel_visit(struct gather *g, struct sched *s)
{
	struct which *w = g->out;
	uint64_t id;

	if (w->timer) {
		if (note_fate(w, delay_fate(&s->delays, w->timer)) ==
			DELAY_PENDING)
			cancel_one(g, s, w->timer);
		return delay_id_is_stored(w->timer) && !w->n && !g->denied;
	}
	if (w->all)
		w->n += cancel_all(g, s);
	else
		while ((id = find_by_name(g, s)) && cancel_one(g, s, id))
			;
	if (!w->all)
		note_fate(w, fate_by_name(g, s));
	return !g->denied;
}

static void
cancel_finish(struct gather *g)
{
	struct which *w = g->out;

	if (!w->n && !w->all)
		which_not_found(g);
	w->cancelled.timers = w->n;
}

void
verb_cancel(struct peer *p, const Eventd__V1__Request *r)
{
	const Eventd__V1__Cancel *c = r->cancel;
	struct gather *g =
		which_new(p, r->id, c->timer, c->alias, c->name, c->all);
	struct which *w;

	if (!g)
		return;
	w = g->out;
	eventd__v1__cancelled__init(&w->cancelled);
	g->response.result_case = EVENTD__V1__RESPONSE__RESULT_CANCELLED;
	g->response.cancelled = &w->cancelled;
	g->visit = cancel_visit;
	g->finish = cancel_finish;
	gather_start(g, atomic_load(&p->session->home));
}

/* ---- adjust ------------------------------------------------------------ */

static bool
adjust_visit(struct gather *g, struct sched *s)
{
	struct which *w = g->out;
	uint64_t id = w->timer ? w->timer : find_by_name(g, s);
	int r = DELAY_E_FIRED;

	if (id && !verb_timer_may_change(g, s, id))
		return false;
	w->told.told = on_told;
	g->pending = id && waits(s, id);
	if (id)
		r = delay_adjust_told(s, id, &w->change, &w->told);
	if (r)
		g->pending = false;
	if (r == DELAY_E_FIRED) {
		note_fate(w, w->timer ? delay_fate(&s->delays, w->timer)
				      : fate_by_name(g, s));
		return !w->timer || delay_id_is_stored(w->timer);
	}
	w->n++;
	w->adjusted.timer = id;
	if (g->pending)
		return false;
	if (r == DELAY_E_CALENDAR) {
		g->status = EVD_STATUS_INVALID;
		strcpy(g->text, "the timer repeats by its calendar");
	} else if (r) {
		g->status = EVD_STATUS_NO_MEMORY;
		strcpy(g->text, "out of memory");
	} else {
		w->adjusted.timer = id;
		w->adjusted.due_ns = (int64_t)delay_due_wall_ns(
			s, delay_find(&s->delays, id));
	}
	return false;
}

static void
adjust_finish(struct gather *g)
{
	const struct which *w = g->out;

	if (!w->n)
		which_not_found(g);
}

static bool
adjust_ok(struct peer *p, uint64_t id, const Eventd__V1__Adjust *a)
{
	if ((a->due || a->repeat) && a->delay_ms <= VERB_DELAY_MAX_MS &&
		a->repeat_ms <= VERB_DELAY_MAX_MS && a->at_ns >= 0 &&
		!(a->at_ns && a->delay_ms))
		return true;
	verb_refuse(p, id, EVD_STATUS_INVALID,
		"a new time or repetition is given, of at most a century");
	return false;
}

void
verb_adjust(struct peer *p, const Eventd__V1__Request *r)
{
	const Eventd__V1__Adjust *a = r->adjust;
	struct gather *g;
	struct which *w;

	if (!adjust_ok(p, r->id, a))
		return;
	g = which_new(p, r->id, a->timer, a->alias, a->name, false);
	if (!g)
		return;
	w = g->out;
	w->change = (struct delay_change){
		.due = a->due,
		.wall = a->at_ns != 0,
		.due_ns =
			a->at_ns ? (uint64_t)a->at_ns : a->delay_ms * NS_PER_MS,
		.repeat = a->repeat,
		.repeat_ns = a->repeat_ms * NS_PER_MS,
	};
	eventd__v1__adjusted__init(&w->adjusted);
	g->response.result_case = EVENTD__V1__RESPONSE__RESULT_ADJUSTED;
	g->response.adjusted = &w->adjusted;
	g->visit = adjust_visit;
	g->finish = adjust_finish;
	gather_start(g, atomic_load(&p->session->home));
}

/* ---- calendar ---------------------------------------------------------- */

void
verb_calendar_wrong(
	struct gather *g, int r, const char *text, const char *error)
{
	g->status = EVD_STATUS_INVALID;
	if (r == CALENDAR_E_TEXT || r == CALENDAR_E_ZONE) {
		snprintf(g->text, sizeof(g->text), "the calendar '%.200s': %s",
			text, error);
		return;
	}
	g->status = EVD_STATUS_NO_MEMORY;
	strcpy(g->text, "out of memory");
}

static void
calendar_times(struct gather *g, const struct calendar *c, int64_t after_ns,
	size_t limit)
{
	Eventd__V1__CalendarTimes *times = g->response.calendar;
	int64_t us = after_ns / NS_PER_US;

	times->zone = gather_string(g, calendar_zone(c));
	times->at_ns = gather_alloc(g, limit * sizeof(times->at_ns[0]));
	times->offset_s = gather_alloc(g, limit * sizeof(times->offset_s[0]));
	if (!times->zone || !times->at_ns || !times->offset_s)
		return;
	while (times->n_at_ns < limit && calendar_next(c, us, &us)) {
		struct zone_span span;

		zone_at(c->zone, us / (NS_PER_S / NS_PER_US), &span);
		times->at_ns[times->n_at_ns++] = us * NS_PER_US;
		times->offset_s[times->n_offset_s++] = span.offset;
	}
}

void
verb_calendar(struct peer *p, const Eventd__V1__Request *r)
{
	struct kernel *k = atomic_load(&p->session->home)->kernel;
	const Eventd__V1__Calendar *want = r->calendar;
	uint32_t limit = want->limit ? want->limit : 1;
	struct gather *g = gather_new(p, r->id);
	char error[CALENDAR_ERROR_SIZE];
	struct calendar *c = NULL;
	int e;

	if (!g)
		return;
	e = calendar_new(want->calendar, want->zone, &k->zones, &c, error);
	g->response.calendar = gather_alloc(g, sizeof(*g->response.calendar));
	if (e) {
		verb_calendar_wrong(g, e, want->calendar, error);
	} else if (g->response.calendar) {
		eventd__v1__calendar_times__init(g->response.calendar);
		g->response.result_case = EVENTD__V1__RESPONSE__RESULT_CALENDAR;
		calendar_times(g, c,
			want->after_ns ? want->after_ns
				       : (int64_t)clock_wall(k->clock),
			limit < CALENDAR_TIMES_MAX ? limit
						   : CALENDAR_TIMES_MAX);
	}
	calendar_unref(c);
	gather_answer(g);
}

/* ---- timers ------------------------------------------------------------ */

/* What few timers have. */
static bool
timer_info_more(struct gather *g, Eventd__V1__TimerInfo *info,
	const struct delay_more *more)
{
	info->repeat_ms = more->repeat_ns / NS_PER_MS;
	info->slack_ms = more->slack_ns / NS_PER_MS;
	info->name = gather_string(g, more->name);
	if (!more->calendar)
		return info->name != NULL;
	info->misfire = (Eventd__V1__Misfire)more->misfire;
	info->calendar = gather_string(g, more->calendar->text);
	info->zone = gather_string(g, calendar_zone(more->calendar));
	return info->name && info->calendar && info->zone;
}

static Eventd__V1__TimerInfo *
timer_info(struct gather *g, struct sched *s, const struct delay *delay)
{
	Eventd__V1__TimerInfo *info = gather_alloc(g, sizeof(*info));

	if (!info)
		return NULL;
	eventd__v1__timer_info__init(info);
	info->id = delay_public_id(delay);
	info->durable = delay_is_stored(delay);
	if (info->durable)
		info->misfire = (Eventd__V1__Misfire)delay->more->misfire;
	info->alias = gather_string(g, verb_timer_target(s, delay));
	info->event = gather_string(g, delay_event(delay));
	info->due_ns = (int64_t)delay_due_wall_ns(s, delay);
	info->owner = delay->owner;
	info->size = delay->timer.size;
	info->clock = (Eventd__V1__Clock)delay_clock(delay);
	if (delay->more && !timer_info_more(g, info, delay->more))
		return NULL;
	return info->alias && info->event ? info : NULL;
}

static bool
is_wanted(const struct gather *g, struct sched *s, const struct delay *delay)
{
	const char *name = verb_timer_target(s, delay);

	if (g->name[0] && strcmp(name, g->name) != 0)
		return false;
	return rights_may(g->rights, RIGHT_SEE, name, NULL);
}

/* args: after, limit, how many to look at yet; out: Eventd__V1__TimerList */
static bool
timers_visit(struct gather *g, struct sched *s)
{
	Eventd__V1__TimerList *list = g->out;
	struct delay *delay;
	uint64_t after = g->args[0];

	g->args[0] = 0; /* the next scheduler begins at its first */
	while ((delay = delays_next(&s->delays, after))) {
		after = delay->id;
		if (is_wanted(g, s, delay)) {
			list->timers[list->n_timers] = timer_info(g, s, delay);
			if (!list->timers[list->n_timers])
				return false;
			list->n_timers++;
		}
		if (list->n_timers == g->args[1] || --g->args[2] == 0) {
			list->next = after;
			return false;
		}
	}
	return true;
}

/* A page ends, too, when enough has been looked at: a search that finds little
 * does not hold up the loop. */
void
verb_timers(struct peer *p, const Eventd__V1__Request *r)
{
	struct sched *s = atomic_load(&p->session->home);
	const Eventd__V1__Timers *want = r->timers;
	uint32_t limit = want->limit && want->limit < TIMERS_PAGE ? want->limit
								  : TIMERS_PAGE;
	Eventd__V1__TimerList *list;
	Eventd__V1__TimerInfo **timers;
	struct gather *g;

	if (want->alias[0] &&
		(!verb_name_ok(p, r->id, want->alias) ||
			!verb_may(p, r->id, RIGHT_SEE, want->alias, NULL)))
		return;
	g = gather_new(p, r->id);
	if (!g)
		return;
	list = gather_alloc(g, sizeof(*list));
	timers = gather_alloc(g, limit * sizeof(Eventd__V1__TimerInfo *));
	if (!list || !timers) {
		gather_answer(g);
		return;
	}
	eventd__v1__timer_list__init(list);
	list->timers = timers;
	g->args[0] = want->after;
	g->args[1] = limit;
	g->args[2] = TIMERS_LOOK;
	strcpy(g->name, want->alias);
	g->out = list;
	g->next = want->after ? delay_sched(want->after) : 0;
	if (g->next >= s->kernel->n_scheds)
		g->next = 0;
	g->visit = timers_visit;
	g->response.result_case = EVENTD__V1__RESPONSE__RESULT_TIMERS;
	g->response.timers = list;
	gather_start(g, s);
}

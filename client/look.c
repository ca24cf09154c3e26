/* Look: lists of sessions, the status, timers. Belongs to the thread that uses
 * the handle; pages to whoever owns them.
 *
 * The opaque types of the API are the unpacked messages: a page or report is a
 * struct response, a session a SessionInfo, and so on. */
#include <stddef.h>

#include "page.h"

EVD_PAGE(sessions, session, SessionList, list, sessions)
EVD_PAGE(timers, timer, TimerList, timers, timers)

static const Eventd__V1__StatusReport *
report_pb(const struct evd_report *report)
{
	return ((const struct response *)(const void *)report)->pb->report;
}

static const Eventd__V1__SessionInfo *
session_pb(const struct evd_session *s)
{
	return (const Eventd__V1__SessionInfo *)s;
}

static const Eventd__V1__TimerInfo *
timer_pb(const struct evd_timer *t)
{
	return (const Eventd__V1__TimerInfo *)t;
}

/* ---- counters ---- */

const char *
evd_counter_name(int counter)
{
	static const char *const names[EVD_N_COUNTERS] = {
		[EVD_COUNTER_ACCEPTED] = "accepted",
		[EVD_COUNTER_HANDLED] = "handled",
		[EVD_COUNTER_EXPIRED] = "expired",
		[EVD_COUNTER_CANCELLED] = "cancelled",
		[EVD_COUNTER_DROPPED] = "dropped",
		[EVD_COUNTER_DEAD_LETTERED] = "dead_lettered",
		[EVD_COUNTER_QUEUED] = "queued",
		[EVD_COUNTER_LEASED] = "leased",
		[EVD_COUNTER_DELAYED] = "delayed",
		[EVD_COUNTER_REFUSED] = "refused",
	};

	return counter >= 0 && counter < EVD_N_COUNTERS ? names[counter] : NULL;
}

static uint64_t
counter_of(const Eventd__V1__Counters *pb, int counter)
{
	const uint64_t values[EVD_N_COUNTERS] = {
		[EVD_COUNTER_ACCEPTED] = pb ? pb->accepted : 0,
		[EVD_COUNTER_HANDLED] = pb ? pb->handled : 0,
		[EVD_COUNTER_EXPIRED] = pb ? pb->expired : 0,
		[EVD_COUNTER_CANCELLED] = pb ? pb->cancelled : 0,
		[EVD_COUNTER_DROPPED] = pb ? pb->dropped : 0,
		[EVD_COUNTER_DEAD_LETTERED] = pb ? pb->dead_lettered : 0,
		[EVD_COUNTER_QUEUED] = pb ? pb->queued : 0,
		[EVD_COUNTER_LEASED] = pb ? pb->leased : 0,
		[EVD_COUNTER_DELAYED] = pb ? pb->delayed : 0,
		[EVD_COUNTER_REFUSED] = pb ? pb->refused : 0,
	};

	return counter >= 0 && counter < EVD_N_COUNTERS ? values[counter] : 0;
}

/* ---- sessions ---- */

int
evd_list(struct evd *c, const char *prefix, uint64_t after, uint32_t limit,
	struct evd_sessions **page)
{
	Eventd__V1__Request request = EVENTD__V1__REQUEST__INIT;
	Eventd__V1__List list = EVENTD__V1__LIST__INIT;
	int r;

	EVD_CHECK(c);
	r = prefix && *prefix ? evd__alias_check(c, prefix) : 0;
	if (r)
		return r;
	if (prefix)
		list.prefix = (char *)(uintptr_t)prefix;
	list.after = after;
	list.limit = limit;
	request.verb_case = EVENTD__V1__REQUEST__VERB_LIST;
	request.list = &list;
	return evd__request_for(c, &request, EVENTD__V1__RESPONSE__RESULT_LIST,
		(struct response **)page);
}

size_t
evd_session_n_aliases(const struct evd_session *s)
{
	return session_pb(s)->n_aliases;
}

const char *
evd_session_alias(const struct evd_session *s, size_t i)
{
	return i < session_pb(s)->n_aliases ? session_pb(s)->aliases[i] : NULL;
}

uint64_t
evd_session_counter(const struct evd_session *s, int counter)
{
	return counter_of(session_pb(s)->counters, counter);
}

uint64_t
evd_session_id(const struct evd_session *s)
{
	return session_pb(s)->id;
}

const char *
evd_session_kind(const struct evd_session *s)
{
	return session_pb(s)->kind;
}

const char *
evd_session_state(const struct evd_session *s)
{
	return session_pb(s)->state;
}

uint64_t
evd_session_queued_bytes(const struct evd_session *s)
{
	return session_pb(s)->queued_bytes;
}

uint64_t
evd_session_max_events(const struct evd_session *s)
{
	return session_pb(s)->max_events;
}

uint64_t
evd_session_max_bytes(const struct evd_session *s)
{
	return session_pb(s)->max_bytes;
}

uint32_t
evd_session_watches(const struct evd_session *s)
{
	return session_pb(s)->watches;
}

uint32_t
evd_session_watchers(const struct evd_session *s)
{
	return session_pb(s)->watchers;
}

uint32_t
evd_session_links(const struct evd_session *s)
{
	return session_pb(s)->links;
}

uint32_t
evd_session_claims(const struct evd_session *s)
{
	return session_pb(s)->claims;
}

uint64_t
evd_session_stashed(const struct evd_session *s)
{
	return session_pb(s)->stashed;
}

uint64_t
evd_session_repeated(const struct evd_session *s)
{
	return session_pb(s)->repeated;
}

uint64_t
evd_session_parked(const struct evd_session *s)
{
	return session_pb(s)->parked;
}

uint64_t
evd_session_memory(const struct evd_session *s)
{
	return session_pb(s)->memory;
}

uint64_t
evd_session_age(const struct evd_session *s)
{
	return session_pb(s)->age_s;
}

uint32_t
evd_session_loop(const struct evd_session *s)
{
	return session_pb(s)->loop;
}

uint32_t
evd_session_restarts(const struct evd_session *s)
{
	return session_pb(s)->restarts;
}

const char *
evd_session_reason(const struct evd_session *s)
{
	return session_pb(s)->reason;
}

int64_t
evd_session_started_ns(const struct evd_session *s)
{
	return session_pb(s)->started_ns;
}

int64_t
evd_session_restart_ns(const struct evd_session *s)
{
	return session_pb(s)->restart_ns;
}

uint32_t
evd_session_uid(const struct evd_session *s)
{
	return session_pb(s)->uid;
}

uint32_t
evd_session_pid(const struct evd_session *s)
{
	return session_pb(s)->pid;
}

const char *
evd_session_peer(const struct evd_session *s)
{
	return session_pb(s)->peer;
}

const char *
evd_session_origin(const struct evd_session *s)
{
	return session_pb(s)->origin;
}

const char *
evd_session_name(const struct evd_session *s)
{
	return session_pb(s)->name;
}

uint64_t
evd_session_parent(const struct evd_session *s)
{
	return session_pb(s)->parent;
}

uint64_t
evd_session_children(const struct evd_session *s)
{
	return session_pb(s)->children;
}

uint32_t
evd_session_state_keys(const struct evd_session *s)
{
	return session_pb(s)->state_keys;
}

uint64_t
evd_session_state_size(const struct evd_session *s)
{
	return session_pb(s)->state_size;
}

uint64_t
evd_session_denied(const struct evd_session *s)
{
	return session_pb(s)->denied;
}

const char *
evd_session_exit(const struct evd_session *s)
{
	return session_pb(s)->exit;
}

const char *
evd_session_executor(const struct evd_session *s)
{
	return session_pb(s)->executor;
}

uint32_t
evd_session_waiting(const struct evd_session *s)
{
	return session_pb(s)->waiting;
}

uint32_t
evd_session_waiting_time(const struct evd_session *s)
{
	return session_pb(s)->waiting_time;
}

uint32_t
evd_session_waiting_answer(const struct evd_session *s)
{
	return session_pb(s)->waiting_answer;
}

uint32_t
evd_session_waiting_event(const struct evd_session *s)
{
	return session_pb(s)->waiting_event;
}

uint32_t
evd_session_concurrency(const struct evd_session *s)
{
	return session_pb(s)->concurrency;
}

uint32_t
evd_session_stack_high(const struct evd_session *s)
{
	return session_pb(s)->stack_high;
}

const char *
evd_session_running_event(const struct evd_session *s)
{
	return session_pb(s)->running_event;
}

uint64_t
evd_session_running_event_id(const struct evd_session *s)
{
	return session_pb(s)->running_event_id;
}

uint64_t
evd_session_running_ns(const struct evd_session *s)
{
	return session_pb(s)->running_ns;
}

uint32_t
evd_session_running_thread(const struct evd_session *s)
{
	return session_pb(s)->running_thread;
}

bool
evd_session_is_stuck(const struct evd_session *s)
{
	return session_pb(s)->stuck;
}

uint32_t
evd_session_stuck_ever(const struct evd_session *s)
{
	return session_pb(s)->stuck_ever;
}

bool
evd_session_is_away(const struct evd_session *s)
{
	return session_pb(s)->away;
}

uint32_t
evd_session_starts(const struct evd_session *s)
{
	return session_pb(s)->starts;
}

const char *
evd_session_group(const struct evd_session *s)
{
	return session_pb(s)->group;
}

bool
evd_session_on_demand(const struct evd_session *s)
{
	return session_pb(s)->on_demand;
}

bool
evd_session_is_paused(const struct evd_session *s)
{
	return session_pb(s)->paused;
}

const char *
evd_session_overflow(const struct evd_session *s)
{
	return session_pb(s)->overflow;
}

const char *
evd_session_mode(const struct evd_session *s)
{
	return session_pb(s)->mode;
}

const char *
evd_session_binds(const struct evd_session *s)
{
	return session_pb(s)->binds;
}

uint32_t
evd_session_consumers(const struct evd_session *s)
{
	return session_pb(s)->consumers;
}

uint64_t
evd_session_high_events(const struct evd_session *s)
{
	return session_pb(s)->high_events;
}

uint64_t
evd_session_high_bytes(const struct evd_session *s)
{
	return session_pb(s)->high_bytes;
}

bool
evd_session_is_above(const struct evd_session *s)
{
	return session_pb(s)->above;
}

/* ---- the status ---- */

int
evd_status(struct evd *c, const char *alias, struct evd_report **report)
{
	Eventd__V1__Request request = EVENTD__V1__REQUEST__INIT;
	Eventd__V1__Status status = EVENTD__V1__STATUS__INIT;
	int r;

	EVD_CHECK(c);
	r = alias && *alias ? evd__alias_check(c, alias) : 0;
	if (r)
		return r;
	if (alias)
		status.alias = (char *)(uintptr_t)alias;
	request.verb_case = EVENTD__V1__REQUEST__VERB_STATUS;
	request.status = &status;
	return evd__request_for(c, &request,
		EVENTD__V1__RESPONSE__RESULT_REPORT,
		(struct response **)report);
}

struct evd_report *
evd_report_free(struct evd_report *report)
{
	evd__response_free((struct response *)report);
	return NULL;
}

const struct evd_session *
evd_report_session(const struct evd_report *report)
{
	return (const struct evd_session *)report_pb(report)->session;
}

const struct evd_daemon *
evd_report_daemon(const struct evd_report *report)
{
	return (const struct evd_daemon *)report_pb(report)->daemon;
}

uint64_t
evd_daemon_counter(const struct evd_daemon *d, int counter)
{
	const Eventd__V1__DaemonInfo *pb = (const Eventd__V1__DaemonInfo *)d;

	return counter_of(pb->counters, counter);
}

/* ---- timers ---- */

int
evd_timers(struct evd *c, const char *alias, uint64_t after, uint32_t limit,
	struct evd_timers **page)
{
	Eventd__V1__Request request = EVENTD__V1__REQUEST__INIT;
	Eventd__V1__Timers timers = EVENTD__V1__TIMERS__INIT;
	int r;

	EVD_CHECK(c);
	r = alias && *alias ? evd__alias_check(c, alias) : 0;
	if (r)
		return r;
	if (alias)
		timers.alias = (char *)(uintptr_t)alias;
	timers.after = after;
	timers.limit = limit;
	request.verb_case = EVENTD__V1__REQUEST__VERB_TIMERS;
	request.timers = &timers;
	return evd__request_for(c, &request,
		EVENTD__V1__RESPONSE__RESULT_TIMERS, (struct response **)page);
}

uint64_t
evd_timer_id(const struct evd_timer *t)
{
	return timer_pb(t)->id;
}

const char *
evd_timer_alias(const struct evd_timer *t)
{
	return timer_pb(t)->alias;
}

const char *
evd_timer_event(const struct evd_timer *t)
{
	return timer_pb(t)->event;
}

int64_t
evd_timer_due_ns(const struct evd_timer *t)
{
	return timer_pb(t)->due_ns;
}

uint64_t
evd_timer_repeat_ms(const struct evd_timer *t)
{
	return timer_pb(t)->repeat_ms;
}

uint64_t
evd_timer_owner(const struct evd_timer *t)
{
	return timer_pb(t)->owner;
}

uint64_t
evd_timer_size(const struct evd_timer *t)
{
	return timer_pb(t)->size;
}

const char *
evd_timer_name(const struct evd_timer *t)
{
	return timer_pb(t)->name;
}

int
evd_timer_clock(const struct evd_timer *t)
{
	return (int)timer_pb(t)->clock;
}

uint64_t
evd_timer_slack_ms(const struct evd_timer *t)
{
	return timer_pb(t)->slack_ms;
}

const char *
evd_timer_calendar(const struct evd_timer *t)
{
	return timer_pb(t)->calendar;
}

const char *
evd_timer_zone(const struct evd_timer *t)
{
	return timer_pb(t)->zone;
}

int
evd_timer_misfire(const struct evd_timer *t)
{
	return (int)timer_pb(t)->misfire;
}

int
evd_timer_durable(const struct evd_timer *t)
{
	return timer_pb(t)->durable;
}

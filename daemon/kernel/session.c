#include "kernel/session.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/log.h"
#include "kernel/aside.h"
#include "kernel/await.h"
#include "kernel/away.h"
#include "kernel/claim.h"
#include "kernel/history.h"
#include "kernel/idle.h"
#include "kernel/journal.h"
#include "kernel/life.h"
#include "kernel/names.h"
#include "kernel/notice.h"
#include "kernel/queue.h"
#include "kernel/sched.h"
#include "kernel/slots.h"
#include "kernel/state.h"
#include "kernel/ties.h"

static struct sched *
home_of(const struct session *s)
{
	return atomic_load_explicit(&s->home, memory_order_relaxed);
}

/* ---- aliases --------------------------------------------------------- */

int
session_add_alias(struct session *s, const char *name, size_t size)
{
	struct alias_after after = {0};
	struct alias *alias;
	int r = alias_take_after(&home_of(s)->kernel->aliases, name, size,
		s->id, &alias, &after);

	if (r)
		return r;
	alias->sibling = s->aliases;
	s->aliases = alias;
	alias_after(home_of(s), alias, &after);
	return 0;
}

int
session_drop_alias(struct session *s, const char *name, size_t size)
{
	int r = claim_drop(s, name, size);

	if (!r)
		idle_look(s);
	return r;
}

const char *
session_name(const struct session *s)
{
	const struct alias *alias = s->aliases;

	if (!alias)
		return s->spec && s->spec->name ? s->spec->name : "";
	while (alias->sibling) /* the last in the chain came first */
		alias = alias->sibling;
	return alias->name;
}

/* ---- one run --------------------------------------------------------- */

/* An answer goes on with the event that waited for it, if one did. */
static void
reply_one(struct sched *sched, struct session *s, struct msg *m)
{
	bool waited = s->current;

	s->ops->reply(s, msg_seq(m), m);
	if (!s->current)
		state_commit(s); /* of what no event has to do with */
	if (!sched->profile.ops)
		return;
	if (s->current)
		sched->profile.ops->spent(
			sched, s, s->current->event, s->current->event_size);
	else if (!waited)
		sched->profile.ops->spent(sched, s, "(reply)", 7);
}

static int
run_control(struct sched *sched, struct session *s)
{
	int budget = (int)sched->kernel->limits.budget, n = 0;
	struct msg *m;

	while (n < budget && s->begun && !s->stopping &&
		(m = msg_ring_pop(&s->control))) {
		reply_one(sched, s, m);
		msg_free(&sched->pool, m);
		n++;
	}
	return n;
}

/* Tell whoever waits for no more than that @m is accepted: mostly the same one
 * for many, whom @poster remembers. */
static inline void
tell_accepted(struct sched *sched, struct session **poster, struct msg *m)
{
	struct session *p = *poster;

	if (!(m->flags & MSG_ACK) || msg_level(m) > MSG_LEVEL_ACCEPTED)
		return;
	if (!p || session_id(p) != m->from) {
		p = session_find(sched->kernel, m->from);
		if (!p || home_of(p) != sched || !p->begun) {
			sched_settle(sched, m, EVD_STATUS_OK, NULL);
			return;
		}
		*poster = p;
	}
	m->flags &= (uint16_t)~MSG_ACK;
	p->ops->settled(p, msg_seq(m), m->size, EVD_STATUS_OK, NULL);
}

/* The next one that waits for room waits no more: it has ended. */
static inline bool
parked_ends(struct sched *sched, struct session *s)
{
	return ((msg_ring_head(&s->box.parked)->flags & MSG_EXTRA) ||
		       mailbox_is_rare(&s->box)) &&
	       aside_end_parked(sched, s);
}

void
session_admit_parked(struct sched *sched, struct session *s)
{
	struct session *poster = NULL;
	struct msg *m;

	if (session_journal(s)) {
		journal_admit_parked(sched, s);
		return;
	}
	while (s->box.n_parked) {
		if (parked_ends(sched, s))
			continue;
		m = mailbox_admit(&s->box);
		if (!m)
			break;
		if (m->flags & MSG_EXTRA) {
			aside_admitted(sched, s, m);
			history_accepted(sched, s, m);
		}
		s->accepted++;
		sched->counters.accepted++;
		sched->queued++;
		if (s->box_bits & BOX_WATER)
			queue_rise(sched, s);
		tell_accepted(sched, &poster, m);
	}
}

/* Its handler keeps @m until session_done(). */
static inline void
leased(struct sched *sched, struct session *s, struct msg *m)
{
	s->leased++;
	sched->counters.leased++;
	if (!(m->flags & (MSG_EXTRA | MSG_ACK)))
		return;
	if (m->flags & MSG_EXTRA) {
		journal_leased(m);
		history_delivered(sched, s, m, NULL);
	}
	sched_settle_level(sched, m, MSG_LEVEL_DELIVERED);
}

/* @m, which is accepted and not queued, was run. */
__attribute__((noinline)) void
session_conclude(struct sched *sched, struct session *s, struct msg *m,
	enum session_result result)
{
	switch (result) {
	case SESSION_DONE:
		sched_handled(sched, s, m);
		break;
	case SESSION_WAIT:
		s->current = m;
		s->run = SESSION_BUSY;
		leased(sched, s, m);
		break;
	case SESSION_LEASED:
		leased(sched, s, m);
		break;
	case SESSION_HELD:
		mailbox_unpop(&s->box, m);
		sched->queued++;
		s->run = SESSION_ON_HOLD;
		break;
	case SESSION_CRASHED:
		if (!life_put_back(s, m, true))
			life_end_event(s, m);
		break;
	case SESSION_UNHANDLED:
		msg_end(sched, s, m, MSG_END_DEAD, EVD_STATUS_HANDLER,
			"the session has no handler for this event");
		break;
	case SESSION_STASHED:
		state_commit(s);
		mailbox_stash(&s->box, m);
		sched->queued++;
		break;
	}
}

/* @m is more than its payload, or somebody has an eye on the mailbox. */
__attribute__((noinline)) static void
run_rare(struct sched *sched, struct session *s, struct msg *m)
{
	enum session_result result;

	if (((m->flags & MSG_EXTRA) || mailbox_is_rare(&s->box)) &&
		(mailbox_left(&s->box, m), aside_end(sched, s, m)))
		return;
	result = s->ops->run(s, m);
	if (sched->profile.ops)
		sched->profile.ops->ran(sched, s, m, (int)result);
	if (result == SESSION_LEASED)
		leased(sched, s, m);
	else
		session_conclude(sched, s, m, result);
}

/* @m has just left the mailbox. */
static inline void
run_one(struct sched *sched, struct session *s, struct msg *m)
{
	enum session_result result;

	sched->queued--;
	if ((m->flags & (MSG_ACK | MSG_EXTRA | MSG_WIDE)) ||
		mailbox_is_rare(&s->box)) {
		run_rare(sched, s, m);
		return;
	}
	result = s->ops->run(s, m);
	if (sched->profile.ops)
		sched->profile.ops->ran(sched, s, m, (int)result);
	if (__builtin_expect(result != SESSION_DONE, 0)) {
		session_conclude(sched, s, m, result);
		return;
	}
	s->handled++;
	sched->counters.handled++;
	msg_free_plain(&sched->pool, m);
}

/* Events of the control lane are accepted when they have been taken. */
void
session_conclude_notice(struct sched *sched, struct session *s, struct msg *m,
	enum session_result result)
{
	if (m->event == notice_name && result != SESSION_HELD)
		names_taken(s);
	else if (m->event == notice_gap && result != SESSION_HELD)
		queue_gap_taken(s);
	if (result == SESSION_HELD) {
		msg_ring_unpop(&s->notices, m);
		s->before |= BEFORE_CALLED;
		s->run = SESSION_ON_HOLD;
	} else if (result == SESSION_UNHANDLED) {
		msg_free(&sched->pool, m);
	} else {
		m->flags |= MSG_ADMITTED;
		s->accepted++;
		sched->counters.accepted++;
		session_conclude(sched, s, m, result);
	}
}

static void
run_notice(struct sched *sched, struct session *s, struct msg *m)
{
	enum session_result result;

	if (m->event == notice_gap)
		queue_gap_fill(s, m);
	result = s->ops->run(s, m);
	if (sched->profile.ops)
		sched->profile.ops->ran(sched, s, m, (int)result);
	session_conclude_notice(sched, s, m, result);
}

static int
run_notices(struct sched *sched, struct session *s)
{
	int budget = (int)sched->kernel->limits.budget, n = 0;
	struct msg *m;

	s->run = SESSION_RUNNING;
	while (n < budget && s->run == SESSION_RUNNING && !s->exiting &&
		(m = msg_ring_pop(&s->notices))) {
		run_notice(sched, s, m);
		n++;
	}
	if (s->run == SESSION_RUNNING)
		s->run = SESSION_IDLE;
	return n;
}

/* Something goes before events. */
static bool
is_called(const struct session *s)
{
	return ((uintptr_t)s->control.tail | (uintptr_t)s->notices.tail) != 0;
}

/* Nothing has come between the events. */
static inline bool
goes_on(const struct session *s)
{
	return s->run == SESSION_RUNNING && !s->exiting && !is_called(s) &&
	       !(s->box_bits & BOX_APART);
}

static int
run_events(struct sched *sched, struct session *s)
{
	int budget = (int)sched->kernel->limits.budget, n = 0;
	struct msg *m;

	/* One at a time: those that come meanwhile may be awaited. */
	if ((s->before & BEFORE_RETRIES) || (s->box_bits & BOX_AWAITS))
		budget = 1;
	s->run = SESSION_RUNNING;
	while (n < budget && (m = mailbox_take(&s->box))) {
		run_one(sched, s, m);
		if (s->box.n_parked) /* after it: it may be back, HELD */
			session_admit_parked(sched, s);
		n++;
		if (!goes_on(s))
			break;
	}
	if (s->run == SESSION_RUNNING)
		s->run = SESSION_IDLE;
	return n;
}

/* It takes an event now. */
static bool
is_ready(const struct session *s)
{
	return s->life == SESSION_UP && s->run == SESSION_IDLE;
}

static bool
has_more(const struct session *s)
{
	if (away_is_out(s))
		return false;
	if ((s->control.tail && s->begun) || await_has_more(s))
		return true;
	if (!is_ready(s) || s->exiting)
		return false;
	return s->notices.tail ||
	       (s->box.admitted.head && !(s->box_bits & BOX_HELD));
}

/* Nothing goes before events. */
static inline bool
may_begin(const struct session *s)
{
	return is_ready(s) && !s->exiting && !is_called(s) &&
	       !(s->box_bits & BOX_APART) && !await_has_more(s);
}

/* What there is but plain events. */
__attribute__((noinline)) static int
run_special(struct sched *sched, struct session *s)
{
	int n = 0;

	if (away_is_out(s))
		return 0;
	if (s->life == SESSION_DORMANT && (s->box.n || s->notices.tail))
		session_enter(s, SESSION_STARTING);
	if (s->life == SESSION_STARTING && !s->begun &&
		s->run != SESSION_ON_HOLD && /* it is to start */
		journal_lets_start(s))
		life_start(sched, s);
	if (s->box_bits & BOX_OFF) {
		away_out(sched, s);
		return n;
	}
	if (s->control.tail)
		n += run_control(sched, s);
	if (s->notices.tail && is_ready(s))
		n += run_notices(sched, s);
	if (s->box_bits & BOX_AWAITS)
		n += await_run(sched, s);
	if (may_begin(s)) {
		bool retries = s->before & BEFORE_RETRIES;

		n += run_events(sched, s);
		if (retries && s->begun)
			s->before &= (uint8_t)~BEFORE_RETRIES;
	}
	return n;
}

/* It is to end, and no handler of it is in the middle. */
static bool
may_end(const struct session *s)
{
	bool waits = s->run == SESSION_BUSY || (s->leased && s->ops->awaited);

	return s->exiting && (s->stopping || !waits);
}

/* It has run: has it more to do, or does it end? */
static void
leave_special(struct sched *sched, struct session *s)
{
	if (away_is_out(s))
		return;
	if (!is_called(s))
		s->before &= (uint8_t)~BEFORE_CALLED;
	if (s->box_bits & BOX_ABOVE)
		queue_fall(sched, s);
	if (session_journal(s))
		journal_ran(sched, s);
	if (may_end(s))
		life_finish(s);
	else if (has_more(s))
		sched_enqueue(sched, s);
	else if (s->kin)
		idle_ran(sched, s);
}

__attribute__((noinline)) static int
run_any(struct sched *sched, struct session *s)
{
	int n;

	if (s->life == SESSION_DEAD) {
		slots_give(sched, s);
		return 1;
	}
	sched->running = s;
	n = run_special(sched, s);
	sched->running = NULL;
	leave_special(sched, s);
	return n + 1;
}

/* It has run events, and now it is not calm any more. */
__attribute__((noinline)) static int
leave_calm(struct sched *sched, struct session *s, int n)
{
	if (s->box.n_parked) /* behind what may be back, HELD */
		session_admit_parked(sched, s);
	if (s->run == SESSION_RUNNING)
		s->run = SESSION_IDLE;
	sched->running = NULL;
	leave_special(sched, s);
	return n + 1;
}

/* The hot path: it is calm, idle and has events. */
static inline int
run_calm(struct sched *sched, struct session *s)
{
	int budget = (int)sched->kernel->limits.budget, n = 0;

	sched->running = s;
	s->run = SESSION_RUNNING;
	do {
		run_one(sched, s, mailbox_take_first(&s->box));
		n++;
		if (s->run != SESSION_RUNNING || !session_is_calm(s))
			return leave_calm(sched, s, n);
	} while (s->box.admitted.head && n < budget);
	if (s->box.n_parked) {
		session_admit_parked(sched, s);
		if (s->run != SESSION_RUNNING || !session_is_calm(s))
			return leave_calm(sched, s, n);
	}
	s->run = SESSION_IDLE;
	sched->running = NULL;
	if (s->box.admitted.head)
		sched_enqueue(sched, s);
	else if (s->kin)
		idle_ran(sched, s);
	return n + 1;
}

int
session_run(struct sched *sched, struct session *s)
{
	s->queued = false;
	if (!session_is_calm(s) || s->run != SESSION_IDLE ||
		!s->box.admitted.head)
		return run_any(sched, s);
	return run_calm(sched, s);
}

/* ---- for kinds ------------------------------------------------------- */

void
session_done(struct session *s, struct msg *m, int status)
{
	session_done_as(s, m, MSG_END_DEAD, status, NULL);
}

void
session_done_as(struct session *s, struct msg *m, enum msg_end end, int status,
	const char *text)
{
	struct sched *sched = home_of(s);

	s->leased--;
	sched->counters.leased--;
	if (sched->profile.ops)
		sched->profile.ops->over(
			sched, s, m, m == s->current && s == sched->running);
	if (m == s->current) {
		s->current = NULL;
		s->run = SESSION_IDLE;
		sched_enqueue(sched, s);
	}
	if (status)
		msg_end(sched, s, m, end, status, text);
	else
		sched_handled(sched, s, m);
}

void
session_return(struct session *s, struct msg *m)
{
	struct sched *sched = home_of(s);

	s->leased--;
	sched->counters.leased--;
	sched->queued++;
	if (m->attempt < UINT8_MAX)
		m->attempt++;
	history_returned(sched, s, m, 0, NULL);
	mailbox_unpop(&s->box, m);
	if (s->run == SESSION_IDLE)
		sched_enqueue(sched, s);
}

void
session_abandon(struct session *s, struct msg *m, bool crashed)
{
	s->leased--;
	home_of(s)->counters.leased--;
	life_drop(s, m, crashed);
}

void
session_wake(struct session *s)
{
	if (away_is_own(s) && s->health->away->was == SESSION_ON_HOLD)
		s->health->away->was = SESSION_IDLE;
	if (s->run != SESSION_ON_HOLD)
		return;
	s->run = SESSION_IDLE;
	sched_enqueue(home_of(s), s);
}

struct session_health *
session_health(struct session *s)
{
	struct session_health *health = s->health;

	if (health)
		return health;
	health = FAULT(session_health) ? NULL : calloc(1, sizeof(*health));
	if (health)
		health->session = s->id ? s->id : s->last_id;
	return s->health = health;
}

struct counters
session_counters(const struct session *s)
{
	struct counters c = {0};

	if (s->health)
		c = s->health->ends;
	c.accepted = s->accepted;
	c.handled = s->handled;
	c.leased = s->leased;
	return c;
}

uint64_t
session_started_wall_ns(const struct session *s)
{
	const struct clock_source *clock = home_of(s)->kernel->clock;

	if (!s->starts)
		return 0;
	return clock_wall(clock) - (clock_now(clock) - s->started_ns);
}

const char *
session_state_word(const struct session *s)
{
	static const char *const words[] = {
		[SESSION_STARTING] = "starting",
		[SESSION_UP] = "up",
		[SESSION_DORMANT] = "dormant",
		[SESSION_BACKOFF] = "backoff",
		[SESSION_FAILED] = "failed",
		[SESSION_STOPPING] = "stopping",
		[SESSION_DEAD] = "dead",
	};

	return words[s->life];
}

const char *
session_exit_word(enum session_exit why)
{
	static const char *const words[] = {
		[EXIT_NONE] = "",
		[EXIT_NORMAL] = "normal",
		[EXIT_STOPPED] = "stopped",
		[EXIT_FAILED] = "failed",
		[EXIT_KILLED] = "killed",
		[EXIT_IDLE] = "idle",
		[EXIT_UNREFERENCED] = "unreferenced",
	};

	return words[why];
}

void
session_waiting(const struct session *s, struct session_waits *out)
{
	*out = (struct session_waits){.n = 0};
	if (away_is_out(s))
		*out = session_away(s)->waits;
	else if (s->begun && s->ops->waits)
		s->ops->waits(s, out);
}

size_t
session_memory(const struct session *s)
{
	size_t size = sizeof(*s) + s->box.size + ties_memory(s);

	if (s->health)
		size += sizeof(*s->health);
	if (s->box.rare)
		size += sizeof(*s->box.rare) + aside_memory(s);
	if (s->kin)
		size += kin_memory(s);
	if (session_away(s))
		size += sizeof(*session_away(s));
	if (away_is_out(s))
		return size + s->health->away->memory;
	if (s->begun && s->ops->memory)
		size += s->ops->memory(s);
	return size;
}

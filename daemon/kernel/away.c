#include "kernel/away.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/log.h"
#include "kernel/aside.h"
#include "kernel/await.h"
#include "kernel/idle.h"
#include "kernel/journal.h"
#include "kernel/life.h"
#include "kernel/notice.h"
#include "kernel/queue.h"
#include "kernel/sched.h"
#include "kernel/stuck.h"

_Thread_local struct away *away_here;

/* ---- holding the home ---------------------------------------------- */

void
away_take(struct away *a)
{
	struct sched *s = a->sched;

	if (s->executor->hold)
		s->executor->hold(s);
	a->held = true;
	s->running = a->session;
}

void
away_drop(struct away *a)
{
	struct sched *s = a->sched;

	a->held = false;
	delays_bury(s, &s->delays);
	s->running = NULL;
	if (s->executor->drop)
		s->executor->drop(s);
}

static uint64_t
cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

/* What is told to the profile from now on took this thread's time, not the
 * home's. */
void
away_hold_on(struct away *a)
{
	struct sched *s = a->sched;

	if (!a->held)
		away_take(a);
	a->pinned = true;
	if (a->profiled && s->profile.ops)
		s->profile.ops->was_away(s,
			clock_now(s->kernel->clock) - a->wall_ns,
			cpu_ns() - a->cpu_ns);
}

/* ---- taking what there is to do ------------------------------------ */

/* Events may be taken: nothing else is to be seen to first. */
static bool
takes_events(const struct session *s, uint8_t was)
{
	return s->life == SESSION_UP && was == SESSION_IDLE;
}

static bool
take_event(struct sched *sched, struct session *s)
{
	struct away *a = session_away(s);
	struct msg *m;

	while (!(s->box_bits & BOX_HELD) && (m = mailbox_pop(&s->box))) {
		sched->queued--;
		if (((m->flags & MSG_EXTRA) || s->box.rare) &&
			aside_end(sched, s, m))
			continue;
		s->leased++;
		sched->counters.leased++;
		a->m = m;
		a->what = AWAY_EVENT;
		a->retries = s->before & BEFORE_RETRIES;
		return true;
	}
	return false;
}

/* False: there is nothing to do, or it is wanted at home. */
static bool
take(struct sched *sched, struct session *s)
{
	struct away *a = session_away(s);
	bool took;

	a->what = AWAY_NOTHING;
	a->m = NULL;
	if (!s->begun || s->stopping || a->fails || a->restarts || a->moves)
		return false;
	a->now_ns = sched->now_ns;
	a->profiled = sched->profile.ops != NULL;
	a->m = msg_ring_pop(&s->control);
	if (a->m) {
		a->what = AWAY_REPLY;
		return true;
	}
	if (s->box_bits & BOX_AWAITS)
		a->m = await_take(sched, s, &a->await);
	if (a->m) {
		a->what = AWAY_AWAITED;
		return true;
	}
	if (s->exiting || !takes_events(s, a->was))
		return false;
	a->m = msg_ring_pop(&s->notices);
	if (a->m) {
		a->what = AWAY_NOTICE;
		if (a->m->event == notice_gap)
			queue_gap_fill(s, a->m);
		return true;
	}
	took = take_event(sched, s);
	if (s->box.n_parked)
		session_admit_parked(sched, s);
	if (s->box_bits & BOX_ABOVE)
		queue_fall(sched, s);
	return took;
}

void
away_out(struct sched *sched, struct session *s)
{
	struct away *a = session_away(s);

	struct session_waits waits;

	session_waiting(s, &waits);
	a->was = s->run;
	if (!take(sched, s))
		return;
	a->waits = waits;
	s->run = SESSION_AWAY;
	a->n_left = sched->kernel->limits.budget;
	a->executor->ops->hand(a->executor, a);
}

/* ---- one piece, without the home ----------------------------------- */

static enum session_result
run(struct session *s, struct away *a)
{
	if (a->what == AWAY_REPLY)
		s->ops->reply(s, msg_seq(a->m), a->m);
	else if (a->what == AWAY_AWAITED)
		s->ops->awaited(s, a->await, a->m);
	else
		return s->ops->run(s, a->m);
	return SESSION_DONE;
}

/* ---- afterwards, with it ------------------------------------------- */

static void
profile(struct sched *sched, struct session *s, const struct away *a,
	enum session_result result)
{
	const struct profile_ops *ops = sched->profile.ops;

	if (!ops || !a->profiled)
		return;
	if (a->what == AWAY_EVENT || a->what == AWAY_NOTICE)
		ops->ran(sched, s, a->m, (int)result);
	else if (s->current)
		ops->spent(sched, s, s->current->event, s->current->event_size);
	else if (a->was != SESSION_BUSY)
		ops->spent(sched, s, "(reply)", 7);
	sched->profile.blocked = 0;
}

static void
settle(struct sched *sched, struct session *s, struct away *a,
	enum session_result result)
{
	struct msg *m = a->m;

	profile(sched, s, a, result);
	if (s->run == SESSION_AWAY) /* else it failed, started or was done */
		s->run = a->was;
	switch ((enum away_what)a->what) {
	case AWAY_EVENT:
		s->leased--;
		sched->counters.leased--;
		session_conclude(sched, s, m, result);
		if (a->retries && s->begun)
			s->before &= (uint8_t)~BEFORE_RETRIES;
		break;
	case AWAY_NOTICE:
		session_conclude_notice(sched, s, m, result);
		break;
	case AWAY_REPLY:
		msg_free(&sched->pool, m);
		break;
	case AWAY_AWAITED: /* it is the handler's */
	case AWAY_NOTHING:
		break;
	}
	a->what = AWAY_NOTHING;
	a->m = NULL;
}

/* It is back for good: do what was kept. What fails or restarts it first, for
 * messages that were kept may be about its end. */
static void
catch_up(struct sched *sched, struct session *s, struct away *a)
{
	struct session_spec *spec = a->spec;
	struct msg_queue later = a->later;
	char *fails = a->fails;
	struct msg *m;

	a->later.head = a->later.tail = NULL;
	a->spec = NULL;
	a->fails = NULL;
	if (fails)
		session_fail(s, "%s", fails);
	free(fails);
	if (a->restarts) {
		a->restarts = false;
		if (!s->stopping)
			session_restart(s, spec ? spec : s->spec);
		spec_unref(spec);
	}
	while ((m = msg_queue_pop(&later)))
		sched_arrived(sched, m);
}

static void
use(struct session *s, struct executor *x)
{
	struct away *a = session_away(s);

	if (a->executor)
		atomic_fetch_sub_explicit(
			&a->executor->n_sessions, 1, memory_order_relaxed);
	if (x)
		atomic_fetch_add_explicit(
			&x->n_sessions, 1, memory_order_relaxed);
	a->executor = x;
	a->moves = false;
	if (x)
		s->box_bits |= BOX_OFF;
	else
		s->box_bits &= (uint8_t)~BOX_OFF;
	if (s->ops->moved && s->begun)
		s->ops->moved(s);
	sched_enqueue(a->sched, s);
}

/* It waits for nothing but its next event: its loop need not look at it. */
static bool
is_at_rest(const struct session *s)
{
	return s->life == SESSION_UP && !s->exiting && !s->kin &&
	       !s->control.tail && !await_has_more(s) &&
	       (s->run != SESSION_IDLE ||
		       (!s->notices.tail && (!s->box.admitted.head ||
						    (s->box_bits & BOX_HELD))));
}

/* On the run queue it stays in memory, whatever becomes of it here. */
static void
come_home(struct sched *sched, struct session *s, struct away *a)
{
	bool wanted = a->moves || a->fails || a->restarts || a->later.head;

	if (s->begun && s->ops->memory)
		a->memory = s->ops->memory(s);
	if (!wanted && is_at_rest(s))
		return;
	sched_enqueue(sched, s);
	if (a->moves)
		use(s, a->then);
	if (wanted)
		catch_up(sched, s, a);
}

static void
begin(struct away *a)
{
	a->wall_ns = clock_now(a->sched->kernel->clock);
	if (a->profiled)
		a->cpu_ns = cpu_ns();
	atomic_store_explicit(&a->since_ns, a->wall_ns, memory_order_relaxed);
}

/* What it was given has been run: the next, or home. */
static bool
go_on(struct sched *sched, struct session *s, struct away *a)
{
	a->was = s->run;
	a->pinned = a->held = false;
	a->depth = 0;
	if (session_journal(s))
		journal_ran(sched, s);
	if (take(sched, s)) { /* it runs: a poster who is told may stop it */
		s->run = SESSION_AWAY;
		sched->running = NULL;
		return true;
	}
	away_here = NULL;
	sched->running = NULL;
	come_home(sched, s, a);
	return false;
}

void
away_run(struct away *a)
{
	struct session *s = a->session;
	struct sched *sched = a->sched;
	struct executor *x = a->executor;
	enum session_result result;
	bool more, turn = true;

	away_here = a;
	do {
		begin(a);
		result = run(s, a);
		away_pin();
		if (a->is_stuck)
			stuck_end(a);
		atomic_store_explicit(&a->since_ns, 0, memory_order_relaxed);
		settle(sched, s, a, result);
		more = go_on(sched, s, a);
		if (more)
			turn = --a->n_left > 0;
		/* If it is at home it may be gone from here on. */
		if (sched->executor->drop)
			sched->executor->drop(sched);
		atomic_fetch_add_explicit(&x->n_runs, 1, memory_order_relaxed);
	} while (more && turn);
	away_here = NULL;
	if (!more)
		return;
	a->n_left = sched->kernel->limits.budget;
	x->ops->hand(x, a);
}

/* ---- who runs it --------------------------------------------------- */

struct executor *
session_executor(const struct session *s)
{
	const struct away *a = session_away(s);

	if (!a)
		return NULL;
	return a->moves ? a->then : a->executor;
}

int
session_set_executor(struct session *s, struct executor *x)
{
	struct sched *sched = atomic_load(&s->home);

	if (!session_away(s) && !x)
		return 0;
	if (!s->ops->goes_away)
		return AWAY_E_KIND;
	if (!session_away(s)) {
		if (!session_health(s))
			return err_raise(-ENOMEM);
		s->health->away = calloc(1, sizeof(struct away));
		if (!s->health->away)
			return err_raise(-ENOMEM);
		s->health->away->session = s;
		s->health->away->sched = sched;
		sched->n_away++;
	}
	if (s->run == SESSION_AWAY) {
		s->health->away->then = x;
		s->health->away->moves = true;
	} else {
		use(s, x);
	}
	return 0;
}

void
away_configure(struct session *s)
{
	const char *name = s->spec->executor;
	struct kernel *k = atomic_load(&s->home)->kernel;
	bool loop = !name || strcmp(name, "loop") == 0;
	struct executor *x = loop ? NULL : kernel_executor(k, name);

	if ((!loop && !x) || session_set_executor(s, x))
		log_warn("session.no-executor",
			"session=\"%s\" executor=\"%s\" "
			"reason=\"it is not there, so its loop runs it\"",
			session_name(s), loop ? "loop" : name);
}

int
away_reconfigure(struct session *s, const char *name)
{
	struct away *a = session_away(s);

	if (spec_set_executor(s->spec, name) ||
		(a && a->spec && spec_set_executor(a->spec, name)))
		return err_raise(-ENOMEM);
	away_configure(s);
	return 0;
}

void
away_free(struct session *s)
{
	struct away *a = session_away(s);

	if (!a)
		return;
	assert(s->run != SESSION_AWAY && !a->later.head);
	if (a->executor)
		atomic_fetch_sub_explicit(
			&a->executor->n_sessions, 1, memory_order_relaxed);
	a->sched->n_away--;
	spec_unref(a->spec);
	free(a->fails);
	free(a);
	s->health->away = NULL;
}

/* ---- kept for later ------------------------------------------------ */

void
away_keep(struct session *s, struct msg *m)
{
	msg_queue_push(&s->health->away->later, m);
}

void
away_keep_failure(struct session *s, char *reason)
{
	if (s->health->away->fails || !reason)
		free(reason);
	else
		s->health->away->fails = reason;
}

void
away_keep_restart(struct session *s, struct session_spec *spec)
{
	struct away *a = session_away(s);

	a->restarts = true;
	spec_ref(spec);
	spec_unref(a->spec);
	a->spec = spec;
}

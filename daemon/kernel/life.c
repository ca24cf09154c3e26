#include "kernel/life.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/log.h"
#include "kernel/aside.h"
#include "kernel/queue.h"
#include "kernel/sched.h"
#include "kernel/slots.h"
#include "kernel/supervise.h"
#include "kernel/tie.h"
#include "proto/envelope.h"

static struct sched *
home_of(const struct session *s)
{
	return atomic_load_explicit(&s->home, memory_order_relaxed);
}

/* ---- start ----------------------------------------------------------- */

void
session_enter(struct session *s, enum session_life life)
{
	if (s->life == SESSION_FAILED)
		home_of(s)->n_failed--;
	s->life = (uint8_t)life;
	if (life == SESSION_FAILED)
		home_of(s)->n_failed++;
}

static void
set_reason(struct session *s, char *reason)
{
	if (!s->health) {
		free(reason);
		return;
	}
	free(s->health->reason);
	s->health->reason = reason;
}

static int
take_spec(struct session *s, struct session_spec *spec)
{
	s->spec = spec_ref(spec);
	s->health =
		FAULT(session_health) ? NULL : calloc(1, sizeof(*s->health));
	if (!s->health)
		return err_raise(-ENOMEM);
	s->health->session = s->id;
	queue_configure(s);
	return 0;
}

/* All aliases of the spec, or the failed state with the reason. */
static void
take_aliases(struct session *s)
{
	const struct session_spec *spec = s->spec;
	char *why = NULL;

	for (size_t i = 0; i < spec->n_aliases; i++) {
		const char *name = spec->aliases[i];
		int r;

		if (alias_holder(&home_of(s)->kernel->aliases, name,
			    strlen(name)) == s->id)
			continue;
		r = session_add_alias(s, name, strlen(name));
		if (!r)
			continue;
		if (asprintf(&why, "the alias '%s' %s", name,
			    r == ALIAS_E_TAKEN ? "is held by another session"
					       : "cannot be taken") < 0)
			why = NULL;
		log_err("session.failed", "session=\"%s\" reason=\"%s\"",
			spec->name ? spec->name : "", why ? why : "");
		set_reason(s, why); /* which may free it */
		session_enter(s, SESSION_FAILED);
		session_refuse_parked(s, EVD_STATUS_FAILED);
		return;
	}
}

struct session *
session_new(struct sched *sched, const struct session_ops *ops,
	struct session_spec *spec, void *state)
{
	struct session *s = sched->closing ? NULL : slots_take(sched);

	if (!s)
		return NULL;
	s->ops = ops;
	s->state = state;
	session_enter(s, SESSION_STARTING);
	list_init(&s->delays);
	mailbox_init(&s->box, spec ? spec->max_events : SPEC_MAX_EVENTS,
		spec ? spec->max_bytes : SPEC_MAX_BYTES);
	atomic_store_explicit(&s->id, s->last_id, memory_order_release);
	if (!spec) {
		s->begun = true;
		session_enter(s, SESSION_UP);
		s->ops->start(s);
		return s;
	}
	if (take_spec(s, spec)) {
		session_stop(s);
		return NULL;
	}
	take_aliases(s);
	if (s->life == SESSION_STARTING)
		session_begin(s);
	return s;
}

void
session_begin(struct session *s)
{
	session_enter(s, SESSION_STARTING);
	s->begun = false;
	s->run = SESSION_IDLE;
	sched_enqueue(home_of(s), s);
}

void
life_start(struct sched *sched, struct session *s)
{
	s->begun = true;
	s->incarnation++;
	s->run = SESSION_RUNNING;
	s->health->started_ns = sched->now_ns;
	s->health->started_wall_ns = clock_wall(sched->kernel->clock);
	switch (s->ops->start(s)) {
	case SESSION_DONE:
	case SESSION_LEASED:
	case SESSION_HELD:
		session_started(s);
		break;
	case SESSION_WAIT:
		s->run = SESSION_BUSY;
		break;
	case SESSION_CRASHED:
	case SESSION_UNHANDLED:
	case SESSION_STASHED:
		break;
	}
}

void
session_started(struct session *s)
{
	session_enter(s, SESSION_UP);
	s->run = SESSION_IDLE;
	log_debug("session.up", "session=\"%s\" kind=%s", session_name(s),
		s->ops->kind);
	sched_enqueue(home_of(s), s);
}

/* ---- the end --------------------------------------------------------- */

/* Free the kind's state; what it was handling ends as dead. Its life says
 * STOPPING by now: whatever its stop() asks for is ignored, or, if it is to
 * stop for good, left in `stopping`. */
static void
drop_state(struct session *s, bool crashed)
{
	struct sched *sched = home_of(s);
	struct msg *m = TAKE(s->current);
	struct call *call;

	if (s->begun) {
		s->begun = false;
		s->ops->stop(s, crashed);
	}
	while ((call = calls_first(&sched->calls, s->calls)))
		session_end_call(s, call); /* what comes now is late */
	s->incarnation++;
	s->run = SESSION_IDLE;
	delays_cancel_owned(sched, s);
	if (m) {
		s->counters.leased--;
		sched->counters.leased--;
		msg_end(sched, s, m, MSG_END_DEAD, EVD_STATUS_DIED,
			crashed ? life_crash_text(s) : NULL);
	}
	while ((m = msg_ring_pop(&s->control)))
		msg_free(&sched->pool, m);
	mailbox_unstash(&s->box); /* it does not remember what for */
}

void
session_refuse_parked(struct session *s, int status)
{
	struct sched *sched = home_of(s);
	char text[512];
	struct msg *m;

	if (!s->box.n_parked)
		return;
	if (status == EVD_STATUS_FAILED)
		sched_explain(sched, SCHED_E_FAILED, s->id, text, sizeof(text));
	else
		snprintf(text, sizeof(text), "%s", sched_end_text(status));
	while ((m = mailbox_pop_parked(&s->box)))
		msg_end(sched, s, m, MSG_END_REFUSED, status, text);
}

static void
drop_mailbox(struct session *s)
{
	struct sched *sched = home_of(s);
	struct msg *m;

	while ((m = mailbox_pop(&s->box))) {
		sched->queued--;
		msg_end(sched, s, m, MSG_END_DEAD, EVD_STATUS_DIED, NULL);
	}
	while ((m = msg_ring_pop(&s->notices)))
		msg_free(&sched->pool, m);
	session_refuse_parked(s, EVD_STATUS_DIED);
}

static void
drop_aliases(struct session *s)
{
	struct alias *alias;

	while ((alias = s->aliases)) {
		s->aliases = alias->sibling;
		alias_drop(&home_of(s)->kernel->aliases, alias, s->id);
	}
}

static void
retire(struct session *s)
{
	struct sched *sched = home_of(s);
	const char *outer = sched->leaving;
	char name[ENVELOPE_ALIAS_MAX + 1];

	snprintf(name, sizeof(name), "%s", session_name(s));
	sched->leaving = name; /* for its dead letters */
	drop_aliases(s);
	if (s->health) {
		timers_remove(&sched->timers, &s->health->timer);
		free(s->health->reason);
		free(s->health);
		s->health = NULL;
	}
	session_enter(s, SESSION_DEAD);
	atomic_store_explicit(&s->id, 0, memory_order_release);
	drop_mailbox(s);
	sched->leaving = outer;
	queue_deinit(s);
	aside_free(sched, s);
	mailbox_deinit(&s->box);
	s->spec = spec_unref(s->spec);
	if (!s->queued)
		slots_give(sched, s);
}

static void
end(struct session *s)
{
	session_enter(s, SESSION_STOPPING);
	drop_state(s, false);
	ties_end(s, (enum tie_end_why)s->why, NULL);
	retire(s);
}

void
life_finish(struct session *s)
{
	s->exiting = false;
	if (!s->stopping) {
		session_enter(s, SESSION_STOPPING);
		drop_state(s, false);
		ties_end(s, TIE_NORMAL, NULL);
		if (!s->stopping && supervise_ended(s, false))
			return;
	}
	end(s);
}

/* A text for people: no script can make it long. */
static char *
reason_new(const char *format, va_list args)
{
	char text[SESSION_REASON_MAX];

	vsnprintf(text, sizeof(text), format, args);
	return strdup(text);
}

void
session_fail(struct session *s, const char *format, ...)
{
	va_list args;

	if (!s->begun) /* it has no state: it is in its stop() */
		return;
	va_start(args, format);
	set_reason(s, reason_new(format, args));
	va_end(args);
	session_enter(s, SESSION_STOPPING);
	drop_state(s, true);
	ties_end(s, TIE_FAILED, life_crash_text(s));
	s->exiting = false;
	if (!s->stopping && supervise_ended(s, true))
		return;
	s->exiting = s->stopping = true;
	sched_enqueue(home_of(s), s);
}

void
session_stop(struct session *s)
{
	if (s->life == SESSION_DEAD)
		return;
	if (s == home_of(s)->running || s->life == SESSION_STOPPING) {
		if (s == home_of(s)->running)
			s->why = TIE_NORMAL; /* its own handler asks for it */
		s->exiting = true;
		s->stopping = true;
		return;
	}
	end(s);
}

void
session_exit(struct session *s)
{
	if (!s->begun)
		return;
	s->exiting = true;
	if (s != home_of(s)->running)
		sched_enqueue(home_of(s), s);
}

static bool
spec_has_alias(const struct session_spec *spec, const struct alias *alias)
{
	for (size_t i = 0; i < spec->n_aliases; i++)
		if (!strcmp(spec->aliases[i], alias->name))
			return true;
	return false;
}

/* Those that the new spec does not have; posters never miss the others. */
static void
drop_other_aliases(struct session *s, const struct session_spec *spec)
{
	struct alias **link = &s->aliases, *alias;

	while ((alias = *link)) {
		if (spec_has_alias(spec, alias)) {
			link = &alias->sibling;
			continue;
		}
		*link = alias->sibling;
		alias_drop(&home_of(s)->kernel->aliases, alias, s->id);
	}
}

void
session_restart(struct session *s, struct session_spec *spec)
{
	bool crashed = s->life != SESSION_UP;
	bool stays = !crashed && s->ops->renew;
	bool was_begun = s->begun;

	assert(s->spec && s != home_of(s)->running);
	if (s->life >= SESSION_STOPPING)
		return;
	if (!stays) {
		session_enter(s, SESSION_STOPPING);
		drop_state(s, crashed);
		if (was_begun) /* else they wait for what starts now */
			ties_end(s, TIE_STOPPED, "it is restarted");
		if (s->stopping) {
			end(s);
			return;
		}
		s->exiting = false;
		session_enter(s, SESSION_STARTING);
	}
	supervise_reset(s);
	if (spec && s->spec != spec) {
		spec_ref(spec);
		spec_unref(s->spec);
		s->spec = spec;
		queue_configure(s);
	}
	drop_other_aliases(s, s->spec);
	take_aliases(s);
	if (s->life == SESSION_STARTING)
		session_begin(s);
	else if (stays && s->life == SESSION_UP)
		s->ops->renew(s);
	else if (stays) {
		drop_state(s, true);
		ties_end(s, TIE_FAILED, life_crash_text(s));
	}
	session_admit_parked(home_of(s), s);
}

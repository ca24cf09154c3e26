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
#include "kernel/away.h"
#include "kernel/claim.h"
#include "kernel/crowd.h"
#include "kernel/gate.h"
#include "kernel/history.h"
#include "kernel/idle.h"
#include "kernel/journal.h"
#include "kernel/kin.h"
#include "kernel/own_names.h"
#include "kernel/queue.h"
#include "kernel/sched.h"
#include "kernel/schedule.h"
#include "kernel/slots.h"
#include "kernel/state.h"
#include "kernel/supervise.h"
#include "kernel/tie.h"
#include "proto/envelope.h"

static struct sched *
home_of(const struct session *s)
{
	return atomic_load_explicit(&s->home, memory_order_relaxed);
}

/* ---- start ----------------------------------------------------------- */

static void
leave_gate(struct session *s)
{
	struct gate *gate = TAKE(s->health->gate);

	s->gated = false;
	gate_settle(home_of(s), gate);
}

void
session_enter(struct session *s, enum session_life life)
{
	if (s->life == SESSION_FAILED)
		home_of(s)->n_failed--;
	s->life = (uint8_t)life;
	if (life == SESSION_FAILED)
		home_of(s)->n_failed++;
	if (s->kin && s->kin->tell_up)
		kin_settled(s);
	if (s->gated && life != SESSION_STARTING && life != SESSION_STOPPING)
		leave_gate(s);
}

void
life_set_reason(struct session *s, char *reason)
{
	struct session_health *health =
		s->spec && (reason || s->health) ? session_health(s) : NULL;

	if (!health) {
		free(reason);
		return;
	}
	free(health->reason);
	health->reason = reason;
}

static int
take_spec(struct session *s, struct session_spec *spec)
{
	s->spec = spec_ref(spec);
	queue_configure(s);
	if ((spec->collect || spec->parent) && !kin_of(s))
		return err_raise(-ENOMEM);
	if (spec->parent)
		s->kin->parent = spec->parent;
	return 0;
}

/* Everything but its id, which lets others find it. By the thread of any
 * scheduler, whose time is @now_ns. */
static struct session *
prepare(struct sched *sched, uint64_t now_ns, const struct session_ops *ops,
	struct session_spec *spec, void *state)
{
	struct session *s = sched->closing ? NULL : slots_take(sched);

	if (!s)
		return NULL;
	s->ops = ops;
	s->state = state;
	s->life = SESSION_STARTING;
	mailbox_init(&s->box, spec ? spec->max_events : SPEC_MAX_EVENTS,
		spec ? spec->max_bytes : SPEC_MAX_BYTES);
	s->box.born_s = (uint32_t)(now_ns / NS_PER_S);
	if (!spec || !take_spec(s, spec))
		return s;
	free(s->kin);
	free(s->health);
	spec_unref(spec);
	slots_give(sched, s);
	return NULL;
}

static void
publish(struct session *s)
{
	uint64_t id = s->last_id;

	s->current = NULL; /* in the same place */
	atomic_store_explicit(&s->id, id, memory_order_release);
}

static void
fail_journal(struct session *s, const char *name, int r)
{
	const struct kernel *k = home_of(s)->kernel;
	char *why = NULL;
	int n = 0;

	if (r == JOURNAL_E_HELD)
		n = asprintf(&why,
			"the durable mailbox '%s' is that of another session",
			name);
	else if (r == JOURNAL_E_NONE)
		n = asprintf(&why,
			"its mailbox is durable and there is no store: set "
			"Path= in [Store] and start eventd again");
	else if (r == JOURNAL_E_BROKEN)
		n = asprintf(
			&why, "the store cannot be used: %s", k->store->broken);
	if (n < 0)
		why = NULL;
	log_err("session.failed", "session=\"%s\" reason=\"%s\"",
		s->spec->name ? s->spec->name : "", why ? why : "");
	life_set_reason(s, why);
	session_enter(s, SESSION_FAILED);
}

void
life_refuse(struct session *s, const char *why)
{
	log_err("session.failed", "session=\"%s\" reason=\"%s\"",
		session_name(s), why);
	if (s->life == SESSION_DEAD || s->life == SESSION_STOPPING)
		return;
	life_set_reason(s, strdup(why));
	session_enter(s, SESSION_FAILED);
}

void
session_store_is_there(struct session *s)
{
	const char *name = journal_name(s);

	if (session_journal(s) || s->life >= SESSION_STOPPING)
		return;
	if (!s->spec->durable)
		journal_restore(s, name);
	else if (s->life == SESSION_FAILED)
		session_restart(s, s->spec);
}

/* Its durable mailbox, or the failed state with the reason. */
static void
take_journal(struct session *s)
{
	const struct session_spec *spec = s->spec;
	const char *name = journal_name(s);
	int r;

	if (!name || home_of(s)->kernel->without_store)
		return;
	if (!spec->durable) {
		journal_restore(s, name);
		return;
	}
	r = journal_open(s, name);
	if (r)
		fail_journal(s, name, r);
}

static void
start_first(struct session *s)
{
	if (s->spec->on_demand && !s->box.n && !s->notices.tail)
		session_enter(s, SESSION_DORMANT);
	else
		session_begin(s);
}

/* On its home: it takes its names and its place, and starts. */
static void
settle_in(struct session *s)
{
	take_journal(s);
	names_of_spec_take(s);
	schedule_arm(s);
	if (s->spec->executor)
		away_configure(s);
	if (s->life != SESSION_STARTING)
		return;
	if (s->ops != &group_ops)
		kin_join(s);
	if (s->gated && !gate_arrive(s->health->gate, s))
		s->run = SESSION_ON_HOLD;
	else
		start_first(s);
}

/* Unless it has been started, restarted or ended meanwhile. */
void
life_open(struct session *s)
{
	if (s->life != SESSION_STARTING || s->begun ||
		s->run != SESSION_ON_HOLD)
		return;
	s->run = SESSION_IDLE;
	start_first(s);
}

struct session *
session_new(struct sched *sched, const struct session_ops *ops,
	struct session_spec *spec, void *state)
{
	return session_new_after(sched, ops, spec, state, NULL);
}

struct session *
session_new_after(struct sched *sched, const struct session_ops *ops,
	struct session_spec *spec, void *state, struct gate *gate)
{
	struct session *s = prepare(sched, sched->now_ns, ops, spec, state);

	if (!s && gate)
		gate_settle(sched, gate);
	if (!s)
		return NULL;
	publish(s);
	if (spec) {
		s->gated = gate && session_health(s);
		if (s->gated)
			s->health->gate = gate;
		else if (gate)
			gate_settle(sched, gate);
		settle_in(s);
		return s;
	}
	s->begun = true;
	session_enter(s, SESSION_UP);
	s->ops->start(s);
	return s;
}

/* ---- children -------------------------------------------------------- */

/* It was made on another scheduler, and begins here. */
void
life_settle(struct session *s)
{
	s->run = SESSION_IDLE;
	settle_in(s);
	if (s->life == SESSION_FAILED) /* an alias is taken */
		session_stop_for(s, EXIT_FAILED);
}

static int
spawn_here(struct spawn *spawn, struct session *s)
{
	publish(s);
	settle_in(s);
	if (s->life != SESSION_FAILED)
		return EVD_STATUS_OK;
	snprintf(spawn->text, sizeof(spawn->text), "%s",
		s->health && s->health->reason ? s->health->reason
					       : "an alias cannot be taken");
	s->kin->parent = 0;
	session_stop_for(s, EXIT_FAILED);
	return EVD_STATUS_TAKEN;
}

/* Whoever learns its id sooner than its home does may post: that waits. */
static int
spawn_there(struct session *parent, struct session *s)
{
	s->run = SESSION_ON_HOLD;
	publish(s);
	return kin_tell(parent, s->id, KIN_SETTLE, NULL) ? EVD_STATUS_NO_MEMORY
							 : EVD_STATUS_OK;
}

/* Nobody knows its id, and nothing has begun. */
static void
unmake(struct session *s)
{
	atomic_store(&s->id, 0);
	free(s->kin);
	free(s->health);
	spec_unref(s->spec);
	slots_give(home_of(s), s);
}

int
session_spawn(struct session *parent, struct spawn *spawn)
{
	struct session_spec *spec = spawn->spec;
	struct kernel *k = home_of(parent)->kernel;
	struct sched *home =
		spec->loop < 0 ? home_of(parent) : k->scheds[spec->loop];
	const char *name = spec->n_aliases ? spec->aliases[0] : spec->name;
	struct session *s;
	int status, r;

	if (parent->kin && parent->kin->depth >= KIN_DEPTH_MAX) {
		snprintf(spawn->text, sizeof(spawn->text),
			"sessions spawn sessions %d deep at most",
			KIN_DEPTH_MAX);
		return EVD_STATUS_LIMIT;
	}
	snprintf(spawn->text, sizeof(spawn->text),
		"no more sessions (MaxSessions=) or no memory");
	spec->parent = parent->id;
	s = prepare(
		home, home_of(parent)->now_ns, spawn->ops, spec, spawn->state);
	if (!s)
		return EVD_STATUS_LIMIT;
	s->kin->depth = parent->kin ? (uint8_t)(parent->kin->depth + 1) : 1;
	spawn->id = s->last_id;
	status = home == home_of(parent) ? spawn_here(spawn, s)
					 : spawn_there(parent, s);
	if (status == EVD_STATUS_NO_MEMORY)
		unmake(s);
	if (status)
		return status;
	r = kin_adopt(parent, spawn->id, name ? name : "-");
	if (!r)
		return EVD_STATUS_OK;
	kin_disown(parent, spawn->id);
	return r == KIN_E_MANY ? EVD_STATUS_LIMIT : EVD_STATUS_NO_MEMORY;
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
	enum session_result result;

	s->begun = true;
	s->starts++;
	s->run = SESSION_RUNNING;
	s->started_ns = sched->now_ns;
	result = s->ops->start(s);
	if (sched->profile.ops)
		sched->profile.ops->spent(sched, s, "_start", 6);
	switch (result) {
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
	if (s != home_of(s)->running) /* else it is looked at anyway */
		sched_enqueue(home_of(s), s);
	if (s->spec && s->spec->idle_ms)
		idle_begin(s);
	if (s->spec && s->spec->n_binds)
		crowds_begin(s); /* last: it may fail */
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
	bool undone =
		crashed || m; /* what is not handled has changed nothing */

	if (undone)
		state_rollback(s);
	if (s->lent) /* before what it has begun with, which is older */
		crowds_give_back(s);
	if (s->begun) {
		s->begun = false;
		s->ops->stop(s, crashed);
		if (sched->profile.ops && !crashed)
			sched->profile.ops->spent(sched, s, "_stop", 5);
	}
	if (undone)
		state_rollback(s);
	else
		state_commit(s);
	if (s->kin)
		timers_remove(&sched->timers, &s->kin->idle);
	if (s->kin && !s->ops->keeps_children)
		kin_drop_children(s);
	while ((call = calls_first(&sched->calls, s->calls)))
		session_end_call(s, call); /* what comes now is late */
	s->run = SESSION_IDLE;
	delays_cancel_owned(sched, s, false);
	mailbox_unstash(&s->box); /* it does not remember what for */
	if (s->lent)
		crowds_give_back(s);
	if (m) {
		s->leased--;
		sched->counters.leased--;
		life_drop(s, m, crashed);
	}
	while ((m = msg_ring_pop(&s->control)))
		msg_free(&sched->pool, m);
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
		if (!journal_keep(sched, s, m))
			msg_end(sched, s, m, MSG_END_DEAD, life_gone(m), NULL);
	}
	state_rollback(s);
	journal_close(s);
	state_free(s);
	while ((m = msg_ring_pop(&s->notices)))
		msg_free(&sched->pool, m);
	session_refuse_parked(s, EVD_STATUS_DIED);
}

static void
copy_name(char *out, const char *name, size_t max)
{
	size_t size = strnlen(name, max - 1);

	memcpy(out, name, size);
	out[size] = '\0';
}

static void
drop_health(struct sched *sched, struct session *s)
{
	struct session_health *health = TAKE(s->health);

	if (!health)
		return;
	timers_remove(&sched->timers, &health->timer);
	free(health->reason);
	free(health);
}

static void
retire(struct session *s)
{
	struct sched *sched = home_of(s);
	const char *outer = sched->leaving;

	/* For its dead letters. It is there until the end of the turn, even if
	 * the alias is given up: see epoch.h. */
	sched->leaving = session_name(s);
	if (s->kin)
		kin_ended(s);
	delays_cancel_owned(sched, s, true);
	ties_drop(s);
	names_drop_all(s);
	if (s->health && s->health->profile)
		s->health->profile->gone(sched, s);
	session_enter(s, SESSION_DEAD);
	s->last_id = s->id;
	atomic_store_explicit(&s->id, 0, memory_order_release);
	drop_mailbox(s);
	sched->leaving = outer;
	queue_deinit(s);
	aside_free(sched, s);
	away_free(s);
	mailbox_deinit(&s->box);
	drop_health(sched, s); /* last: what ended above is counted there */
	s->spec = spec_unref(s->spec);
	if (!s->queued)
		slots_give(sched, s);
}

/* What those are told who watch it. */
static enum tie_end_why
end_why(const struct session *s)
{
	switch ((enum session_exit)s->exit) {
	case EXIT_NORMAL:
		return TIE_NORMAL;
	case EXIT_KILLED:
		return TIE_KILLED;
	case EXIT_IDLE:
		return TIE_IDLE;
	case EXIT_UNREFERENCED:
		return TIE_UNREFERENCED;
	case EXIT_NONE:
	case EXIT_STOPPED:
	case EXIT_FAILED:
		break;
	}
	return (enum tie_end_why)s->why;
}

static void
end(struct session *s)
{
	if (s->aliases) /* read meanwhile from where it is far */
		alias_look_ahead(&home_of(s)->kernel->aliases, s->aliases);
	session_enter(s, SESSION_STOPPING);
	drop_state(s, false);
	ties_end(s, end_why(s), NULL);
	retire(s);
}

void
life_finish(struct session *s)
{
	s->exiting = false;
	if (!s->stopping && s->spec && s->spec->on_demand) {
		life_sleep(s, EXIT_NORMAL);
		return;
	}
	if (!s->stopping) {
		session_enter(s, SESSION_STOPPING);
		drop_state(s, false);
		ties_end(s, TIE_NORMAL, NULL);
		if (!s->stopping && supervise_ended(s, false, false))
			return;
	}
	end(s);
}

bool
life_rest(struct session *s, enum session_exit why)
{
	s->exit = (uint8_t)why & 0xf;
	session_enter(s, SESSION_STOPPING);
	drop_state(s, false);
	ties_end(s, end_why(s), NULL);
	s->exiting = false;
	if (!s->stopping)
		return true;
	end(s);
	return false;
}

void
life_sleep(struct session *s, enum session_exit why)
{
	if (!life_rest(s, why))
		return;
	if (!s->spec->on_demand) {
		end(s);
		return;
	}
	session_enter(s, SESSION_DORMANT);
	if (s->box.n)
		sched_enqueue(home_of(s), s);
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

	bool again;

	if (!s->begun) /* it has no state: it is in its stop() */
		return;
	if (away_is_out(s) && !away_is_own(s)) {
		va_start(args, format);
		away_keep_failure(s, reason_new(format, args));
		va_end(args);
		return;
	}
	again = s->life == SESSION_UP &&
		((s->before & BEFORE_RETRIES) ||
			(s->current && s->current->attempt));
	s->exit = EXIT_FAILED;
	va_start(args, format);
	life_set_reason(s, reason_new(format, args));
	va_end(args);
	session_enter(s, SESSION_STOPPING);
	drop_state(s, true);
	ties_end(s, TIE_FAILED, life_crash_text(s));
	s->exiting = false;
	if (!s->stopping && supervise_ended(s, true, again))
		return;
	s->exiting = s->stopping = true;
	sched_enqueue(home_of(s), s);
}

void
session_stop(struct session *s)
{
	session_stop_for(s, EXIT_STOPPED);
}

void
session_stop_for(struct session *s, enum session_exit why)
{
	if (s->life == SESSION_DEAD)
		return;
	if (!s->stopping)
		s->exit = (uint8_t)why & 0xf;
	if (s == home_of(s)->running || s->life == SESSION_STOPPING ||
		away_is_out(s)) {
		if (s == home_of(s)->running)
			s->why = TIE_NORMAL; /* its own handler asks for it */
		s->exiting = true;
		s->stopping = true;
		return;
	}
	end(s);
}

/* As long as a reason may be. */
static char *
reason_copy(const char *text)
{
	size_t size = strlen(text);
	char *copy;

	if (size >= SESSION_REASON_MAX)
		size = SESSION_REASON_MAX - 1;
	copy = malloc(size + 1);
	if (copy)
		copy_name(copy, text, size + 1);
	return copy;
}

void
session_exit(struct session *s)
{
	session_exit_with(s, NULL);
}

void
session_exit_with(struct session *s, const char *text)
{
	if (!s->begun)
		return;
	if (!s->exiting) {
		s->exit = EXIT_NORMAL;
		life_set_reason(s, text ? reason_copy(text) : NULL);
	}
	s->exiting = true;
	if (s != home_of(s)->running)
		sched_enqueue(home_of(s), s);
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
	if (away_is_out(s)) {
		away_keep_restart(s, spec ? spec : s->spec);
		return;
	}
	if (!stays) {
		if (s->life == SESSION_UP)
			s->exit = EXIT_STOPPED;
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
		kin_leave(s);
		if (s->ties)
			claims_end_all(s); /* and stands in line anew */
		spec_ref(spec);
		spec_unref(s->spec);
		s->spec = spec;
		queue_configure(s);
		kin_join(s);
		away_configure(s);
	}
	if (s->life == SESSION_STARTING && s->spec->durable &&
		!session_journal(s))
		take_journal(s); /* it had none, for which it failed */
	schedule_arm(s);
	names_of_spec_keep(s);
	names_of_spec_take(s);
	if (s->life == SESSION_FAILED && !stays)
		return;
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

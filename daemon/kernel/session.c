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
#include "kernel/sched.h"
#include "kernel/supervise.h"

static struct sched *
home_of(const struct session *s)
{
	return atomic_load_explicit(&s->home, memory_order_relaxed);
}

/* ---- the table ------------------------------------------------------- */

static struct session *
slot_new(struct sessions *table)
{
	uint32_t slot = table->n_slots + 1;
	_Atomic(struct session *) *where;
	struct session *chunk, *s;

	if (slot > SESSION_SLOT_MASK)
		return NULL;
	where = &table->chunks[slot >> SESSION_CHUNK_BITS];
	chunk = atomic_load(where);
	if (!chunk) {
		chunk = FAULT(session_chunk) ? NULL
					     : calloc(1u << SESSION_CHUNK_BITS,
						       sizeof(*chunk));
		if (!chunk)
			return NULL;
		atomic_store_explicit(where, chunk, memory_order_release);
	}
	table->n_slots = slot;
	s = &chunk[slot & SESSION_CHUNK_MASK];
	s->last_id = slot;
	return s;
}

static struct session *
slot_take(struct sched *sched)
{
	struct sessions *table = &sched->kernel->sessions;
	struct session *s = NULL;
	uint64_t id;

	pthread_mutex_lock(&table->lock);
	if (atomic_load(&table->n) < sched->kernel->limits.max_sessions) {
		s = table->free;
		if (s)
			table->free = s->next;
		else
			s = slot_new(table);
		if (s)
			atomic_fetch_add(&table->n, 1);
	}
	pthread_mutex_unlock(&table->lock);
	if (!s)
		return NULL;
	id = s->last_id;
	memset((char *)s + offsetof(struct session, last_id), 0,
		sizeof(*s) - offsetof(struct session, last_id));
	s->last_id = id;
	atomic_store_explicit(&s->home, sched, memory_order_relaxed);
	return s;
}

/* It is off the run queue and its id is retired. */
static void
slot_give(struct sched *sched, struct session *s)
{
	struct sessions *table = &sched->kernel->sessions;

	s->last_id += 1ull << SESSION_SLOT_BITS;
	pthread_mutex_lock(&table->lock);
	s->next = table->free;
	table->free = s;
	atomic_fetch_sub(&table->n, 1);
	pthread_mutex_unlock(&table->lock);
}

/* ---- aliases --------------------------------------------------------- */

int
session_add_alias(struct session *s, const char *name, size_t size)
{
	struct alias *alias;
	int r;

	r = alias_take(&home_of(s)->kernel->aliases, name, size, s->id, &alias);
	if (r)
		return r;
	alias->sibling = s->aliases;
	s->aliases = alias;
	return 0;
}

int
session_drop_alias(struct session *s, const char *name, size_t size)
{
	struct alias **link = &s->aliases, *alias;

	for (; (alias = *link); link = &alias->sibling)
		if (alias->size == size && !memcmp(alias->name, name, size))
			break;
	if (!alias)
		return ALIAS_E_NONE;
	*link = alias->sibling;
	return alias_drop(&home_of(s)->kernel->aliases, alias, s->id);
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
	s->refuse = spec->refuse;
	s->health =
		FAULT(session_health) ? NULL : calloc(1, sizeof(*s->health));
	if (!s->health)
		return err_raise(-ENOMEM);
	s->health->session = s->id;
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
	struct session *s = sched->closing ? NULL : slot_take(sched);

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

static void
start_now(struct sched *sched, struct session *s)
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

/* ---- one run --------------------------------------------------------- */

static int
run_control(struct sched *sched, struct session *s)
{
	int budget = (int)sched->kernel->limits.budget, n = 0;
	struct msg *m;

	while (n < budget && s->begun && !s->stopping &&
		(m = msg_queue_pop(&s->control))) {
		s->ops->reply(s, m->seq, m);
		msg_free(&sched->pool, m);
		n++;
	}
	return n;
}

static void
admit_parked(struct sched *sched, struct session *s)
{
	struct msg *m;

	while ((m = mailbox_admit(&s->box))) {
		s->counters.accepted++;
		sched->counters.accepted++;
		sched->queued++;
		sched_settle_level(sched, m, MSG_LEVEL_ACCEPTED);
	}
}

/* Its handler keeps @m until session_done(). */
static void
leased(struct sched *sched, struct session *s, struct msg *m)
{
	s->counters.leased++;
	sched->counters.leased++;
	sched_settle_level(sched, m, MSG_LEVEL_DELIVERED);
}

/* Why it crashed, for those who wait for what it was handling. */
static const char *
crash_text(const struct session *s)
{
	return s->health ? s->health->reason : NULL;
}

static void
run_one(struct sched *sched, struct session *s, struct msg *m)
{
	sched->queued--;
	switch (s->ops->run(s, m)) {
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
		msg_end(sched, s, m, MSG_END_DEAD, EVD_STATUS_DIED,
			crash_text(s));
		break;
	case SESSION_UNHANDLED:
		msg_end(sched, s, m, MSG_END_DEAD, EVD_STATUS_HANDLER,
			"the session has no handler for this event");
		break;
	}
}

static int
run_events(struct sched *sched, struct session *s)
{
	int budget = (int)sched->kernel->limits.budget, n = 0;
	struct msg *m;

	s->run = SESSION_RUNNING;
	while (n < budget && s->run == SESSION_RUNNING &&
		(m = mailbox_pop(&s->box))) {
		run_one(sched, s, m);
		if (s->box.n_parked) /* after it: it may be back, HELD */
			admit_parked(sched, s);
		n++;
		if (s->exiting || s->control.head)
			break;
	}
	if (s->run == SESSION_RUNNING)
		s->run = SESSION_IDLE;
	return n;
}

static bool
has_more(const struct session *s)
{
	if (s->control.head && s->begun)
		return true;
	return s->life == SESSION_UP && s->run == SESSION_IDLE &&
	       s->box.admitted.head;
}

static void finish(struct session *s);

int
session_run(struct sched *sched, struct session *s)
{
	int n = 1;

	s->queued = false;
	if (s->life == SESSION_DEAD) {
		slot_give(sched, s);
		return n;
	}
	sched->running = s;
	if (s->life == SESSION_STARTING && !s->begun)
		start_now(sched, s);
	if (s->control.head)
		n += run_control(sched, s);
	if (s->life == SESSION_UP && s->run == SESSION_IDLE && !s->exiting &&
		!s->control.head)
		n += run_events(sched, s);
	sched->running = NULL;
	if (s->exiting && (s->stopping || s->run != SESSION_BUSY))
		finish(s);
	else if (has_more(s))
		sched_enqueue(sched, s);
	return n;
}

/* ---- for kinds ------------------------------------------------------- */

void
session_done(struct session *s, struct msg *m, int status)
{
	struct sched *sched = home_of(s);

	s->counters.leased--;
	sched->counters.leased--;
	if (m == s->current) {
		s->current = NULL;
		s->run = SESSION_IDLE;
		sched_enqueue(sched, s);
	}
	if (status)
		msg_end(sched, s, m, MSG_END_DEAD, status, NULL);
	else
		sched_handled(sched, s, m);
}

void
session_return(struct session *s, struct msg *m)
{
	struct sched *sched = home_of(s);

	s->counters.leased--;
	sched->counters.leased--;
	sched->queued++;
	if (m->attempt < UINT8_MAX)
		m->attempt++;
	mailbox_unpop(&s->box, m);
	if (s->run == SESSION_IDLE)
		sched_enqueue(sched, s);
}

void
session_wake(struct session *s)
{
	if (s->run != SESSION_ON_HOLD)
		return;
	s->run = SESSION_IDLE;
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
			crashed ? crash_text(s) : NULL);
	}
	while ((m = msg_queue_pop(&s->control)))
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
		msg_end(sched, s, m, MSG_END_DEAD, EVD_STATUS_DIED, NULL);
	}
	session_refuse_parked(s, EVD_STATUS_DIED);
}

static void
retire(struct session *s)
{
	struct sched *sched = home_of(s);

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
	s->spec = spec_unref(s->spec);
	if (!s->queued)
		slot_give(sched, s);
}

static void
end(struct session *s)
{
	session_enter(s, SESSION_STOPPING);
	drop_state(s, false);
	retire(s);
}

/* It has asked to exit or to stop and no handler of it is active. */
static void
finish(struct session *s)
{
	s->exiting = false;
	if (!s->stopping) {
		session_enter(s, SESSION_STOPPING);
		drop_state(s, false);
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

	assert(s->spec && s != home_of(s)->running);
	if (s->life >= SESSION_STOPPING)
		return;
	if (!stays) {
		session_enter(s, SESSION_STOPPING);
		drop_state(s, crashed);
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
		s->refuse = spec->refuse;
		mailbox_limit(&s->box, spec->max_events, spec->max_bytes);
	}
	drop_other_aliases(s, s->spec);
	take_aliases(s);
	if (s->life == SESSION_STARTING)
		session_begin(s);
	else if (stays && s->life == SESSION_UP)
		s->ops->renew(s);
	else if (stays)
		drop_state(s, true);
	admit_parked(home_of(s), s);
}

const char *
session_state_word(const struct session *s)
{
	static const char *const words[] = {
		[SESSION_STARTING] = "starting",
		[SESSION_UP] = "up",
		[SESSION_BACKOFF] = "backoff",
		[SESSION_FAILED] = "failed",
		[SESSION_STOPPING] = "stopping",
		[SESSION_DEAD] = "dead",
	};

	return words[s->life];
}

size_t
session_memory(const struct session *s)
{
	size_t size = sizeof(*s) + s->box.size;

	if (s->begun && s->ops->memory)
		size += s->ops->memory(s);
	return size;
}

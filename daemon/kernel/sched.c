#include "kernel/sched.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "kernel/aside.h"
#include "kernel/await.h"
#include "kernel/dead.h"
#include "kernel/history.h"
#include "kernel/idle.h"
#include "kernel/journal.h"
#include "kernel/note.h"
#include "kernel/queue.h"
#include "kernel/tap.h"

int
sched_init(struct sched *s, struct kernel *k, unsigned index,
	const struct executor_ops *executor, void *executor_data)
{
	int r;

	memset(s, 0, sizeof(*s));
	s->kernel = k;
	s->executor = executor;
	s->executor_data = executor_data;
	s->index = index;
	s->next_id = 64 | index;
	s->wall_turn = UINT64_MAX;
	if (index >= KERNEL_LOOPS_MAX)
		return err_raise(-ENOSPC);
	r = epoch_join(&k->epoch, &s->reader);
	if (r)
		return err_fold(r);
	s->now_ns = clock_now(k->clock);
	msg_pool_init(&s->pool, &k->depot);
	charges_init(&s->charges, &k->users);
	s->pool.charges = &s->charges;
	timers_init(&s->timers, s->now_ns);
	timers_init(&s->wall_timers, clock_wall(k->clock));
	calls_init(&s->calls, index);
	delays_init(&s->delays, index);
	k->scheds[index] = s;
	if (index >= k->n_scheds)
		k->n_scheds = index + 1;
	epoch_online(&k->epoch, &s->reader);
	return 0;
}

/* ---- between schedulers ---------------------------------------------- */

void
sched_stage(struct sched *s, struct sched *target, struct msg *m)
{
	if (m->op == MSG_EVENT && (m->flags & MSG_ADMITTED))
		s->transit_out++;
	msg_queue_push(&s->outbox[target->index], m);
	s->outbox_set |= 1ull << target->index;
}

/* A batch is a chain in order; its first message's `batch` leads to the
 * batch before it. */
static void
inbox_push(struct sched *target, struct msg *batch)
{
	struct msg *top =
		atomic_load_explicit(&target->inbox, memory_order_relaxed);

	do
		batch->batch = top;
	while (!atomic_compare_exchange_weak(&target->inbox, &top, batch));
	/* Sequentially consistent on both sides: either the sleeper sees the
	 * batch after it has said that it sleeps, or we see that it does. */
	if (atomic_load(&target->asleep) &&
		atomic_exchange(&target->asleep, false))
		target->executor->wake(target);
}

void
sched_publish(struct sched *s)
{
	if (s->journals)
		journals_flush(s);
	if (s->charges.dirty)
		charges_flush(&s->charges, s->now_ns);
	while (s->outbox_set) {
		unsigned i = (unsigned)__builtin_ctzll(s->outbox_set);
		struct msg *batch = s->outbox[i].head;

		s->outbox_set &= s->outbox_set - 1;
		s->outbox[i].head = s->outbox[i].tail = NULL;
		inbox_push(s->kernel->scheds[i], batch);
	}
}

void
sched_run_on(struct sched *s, struct sched *target, struct sched_task *task)
{
	task->msg.op = MSG_TASK;
	if (target == s)
		inbox_push(s, (msg_link(&task->msg, NULL), &task->msg));
	else
		sched_stage(s, target, &task->msg);
}

void
sched_send(struct sched *s, struct msg *m)
{
	struct session *t = session_find(s->kernel, m->to);
	struct sched *home =
		t ? atomic_load_explicit(&t->home, memory_order_relaxed) : s;

	if (home == s)
		inbox_push(s, (msg_link(m, NULL), m));
	else
		sched_stage(s, home, m);
}

void
sched_inject(struct sched *target, struct sched_task *task)
{
	task->msg.op = MSG_TASK;
	msg_link(&task->msg, NULL);
	inbox_push(target, &task->msg);
}

/* ---- posting --------------------------------------------------------- */

/* @m has a place in the mailbox of @t: it is accepted. */
void
sched_admitted(struct sched *s, struct session *t, struct msg *m)
{
	if (m->flags & MSG_EXTRA) {
		aside_admitted(s, t, m);
		history_accepted(s, t, m);
	}
	t->accepted++;
	s->queued++;
	if (!(m->flags & MSG_DELAYED))
		s->counters.accepted++;
	if (t->box_bits & BOX_WATER)
		queue_rise(s, t);
	if (t->box_bits & BOX_AWAITS)
		await_arrived(s, t, m);
	sched_settle_level(s, m, MSG_LEVEL_ACCEPTED);
}

static inline void
take_in(struct sched *s, struct session *t, struct msg *m)
{
	mailbox_take_in(&t->box, m);
	if (t->run == SESSION_IDLE && !t->queued)
		sched_enqueue(s, t);
	if ((m->flags & (MSG_EXTRA | MSG_DELAYED | MSG_ACK)) ||
		(t->box_bits & BOX_TOLD)) {
		sched_admitted(s, t, m); /* last: its poster may stop @t */
		return;
	}
	t->accepted++;
	s->counters.accepted++;
	s->queued++;
}

/* There is no room: but in the place of what has expired, by what its spec
 * says, or, for a while, among the parked. */
__attribute__((noinline)) static int
deliver_to_full(struct sched *s, struct session *t, struct msg *m)
{
	if (aside_drop_expired(s, t) && session_find(s->kernel, m->to) == t) {
		sched_enqueue(s, t);
		session_admit_parked(s, t);
	}
	if (session_find(s->kernel, m->to) != t)
		return SCHED_E_NO_SESSION; /* a poster was told, and stopped */
	if (mailbox_takes(&t->box, m)) {
		take_in(s, t, m);
		return 0;
	}
	if ((m->flags & (MSG_MANY | MSG_BEYOND)) == MSG_MANY &&
		queue_widen(t) && mailbox_takes(&t->box, m)) {
		take_in(s, t, m);
		return 0;
	}
	if ((t->box_bits & BOX_CHOOSY) && !(m->flags & MSG_LENT))
		return queue_overflow(s, t, m);
	return mailbox_push(&t->box, m) ? SCHED_E_FULL : 0;
}

/* @t lives here. */
static inline int
deliver(struct sched *s, struct session *t, struct msg *m)
{
	if (t->life == SESSION_FAILED && !(m->flags & MSG_ADMITTED))
		return SCHED_E_FAILED;
	if (m->flags & (MSG_EXTRA | MSG_BEYOND)) {
		const struct msg_extra *extra = msg_extra(m);

		if (extra && aside_is_known(s, t, m))
			return 0;
		if (extra && extra->durable && !session_journal(t) &&
			journal_open_partial(t))
			return SCHED_E_VOLATILE;
		if (m->flags & MSG_BEYOND)
			queue_narrow(t);
	}
	if ((t->box_bits & BOX_DURABLE) && journal_wants(t, m))
		return journal_deliver(s, t, m);
	m->stamp = s->profile.lap;
	if (!mailbox_takes(&t->box, m))
		return deliver_to_full(s, t, m);
	take_in(s, t, m);
	return 0;
}

/* The sender does not look at a return value: tell it, or count it. */
static void
refuse(struct sched *s, struct msg *m, int r)
{
	char text[512];
	struct session *t = session_find(s->kernel, m->to);
	enum msg_end end =
		m->flags & MSG_ADMITTED ? MSG_END_DEAD : MSG_END_REFUSED;

	sched_explain(s, r, m->to, text, sizeof(text));
	if (t && atomic_load(&t->home) != s)
		t = NULL;
	msg_end(s, t, m, end, sched_status(r), text);
}

__attribute__((noinline)) static int
refused(struct sched *s, struct msg *m, int r)
{
	if (!(m->flags & MSG_ACK))
		return r;
	refuse(s, m, r);
	return 0;
}

int
sched_post_here(struct sched *s, struct session *t, struct msg *m)
{
	int r;

	if (!m->id)
		m->id = sched_id(s);
	r = deliver(s, t, m);
	return r ? refused(s, m, r) : 0;
}

int
sched_post(struct sched *s, struct msg *m)
{
	struct session *t = session_find(s->kernel, m->to);
	struct sched *home;

	if (!t)
		return refused(s, m, SCHED_E_NO_SESSION);
	home = atomic_load_explicit(&t->home, memory_order_relaxed);
	if (home == s)
		return sched_post_here(s, t, m);
	if (!m->id)
		m->id = sched_id(s);
	sched_stage(s, home, m);
	return 0;
}

static void
event_arrived(struct sched *s, struct msg *m)
{
	struct session *t = session_find(s->kernel, m->to);
	int r;

	if (!m->flags && t &&
		atomic_load_explicit(&t->home, memory_order_relaxed) == s &&
		sched_takes(s, t, msg_charge(m))) {
		m->flags = MSG_ADMITTED;
		sched_put(s, t, m);
		return;
	}
	if (m->flags & MSG_ADMITTED)
		s->transit_in++;
	r = sched_post(s, m);
	if (r)
		refuse(s, m, r);
}

/* ---- notes ------------------------------------------------------------- */

static void
note_arrived(struct sched *s, struct msg *m)
{
	static const char text[] = "the consumer has gone";
	struct session *t = session_find(s->kernel, m->to);

	if (t && t->begun && t->ops->note) {
		t->ops->note(t, m);
		return;
	}
	if (msg_call(m))
		sched_reply(s, msg_call(m), EVD_STATUS_DIED, text,
			sizeof(text) - 1);
	msg_free(&s->pool, m);
}

void
sched_note(struct sched *s, struct msg *m)
{
	struct session *t = session_find(s->kernel, m->to);
	struct sched *home =
		t ? atomic_load_explicit(&t->home, memory_order_relaxed) : s;

	m->op = MSG_NOTE;
	if (home == s)
		note_arrived(s, m);
	else
		sched_stage(s, home, m);
}

void
sched_control(struct sched *s, struct msg *m)
{
	struct session *t = session_find(s->kernel, m->to);
	struct sched *home =
		t ? atomic_load_explicit(&t->home, memory_order_relaxed) : s;

	if (!m->id)
		m->id = sched_id(s);
	m->op = MSG_CONTROL;
	if (home != s) {
		sched_stage(s, home, m);
		return;
	}
	if (!t || t->life == SESSION_FAILED) {
		msg_free(&s->pool, m);
		return;
	}
	m->op = MSG_EVENT;
	session_call_in(t, &t->notices, m);
	sched_enqueue(s, t);
}

/* ---- a turn ---------------------------------------------------------- */

void
sched_arrived(struct sched *s, struct msg *m)
{
	struct sched_task *task;

	switch ((enum msg_op)m->op) {
	case MSG_EVENT:
		event_arrived(s, m);
		break;
	case MSG_REPLY:
		sched_reply_arrived(s, m);
		break;
	case MSG_SETTLE:
		sched_settled_arrived(s, m);
		break;
	case MSG_TASK:
		task = container_of(m, struct sched_task, msg);
		task->run(s, task);
		break;
	case MSG_NOTE:
		sched_note(s, m);
		break;
	case MSG_CONTROL:
		sched_control(s, m);
		break;
	case MSG_CANCEL:
		sched_cancel_arrived(s, m);
		break;
	case MSG_MOVED:
		sched_moved_arrived(s, m);
		break;
	case MSG_KIN:
		kin_arrived(s, m);
		break;
	}
}

/* Batches lie newest first: turn them round, then each is in order. */
static void
take_inbox(struct sched *s)
{
	struct msg *batch, *older, *oldest = NULL;

	if (!atomic_load_explicit(&s->inbox, memory_order_relaxed))
		return;
	batch = atomic_exchange(&s->inbox, NULL);
	for (; batch; batch = older) {
		older = batch->batch;
		batch->batch = oldest;
		oldest = batch;
	}
	while (oldest) {
		struct msg *m = oldest, *next;

		oldest = oldest->batch;
		m->stamp = 0;
		for (; m; m = next) {
			next = msg_next(m);
			sched_arrived(s, m);
		}
	}
}

bool
sched_turn(struct sched *s)
{
	int64_t left = s->kernel->limits.turn_budget;
	uint32_t n_runs = 0;
	struct session *t;
	bool more;

	s->now_ns = clock_now(s->kernel->clock);
	s->turns++;
	if (s->profile.ops)
		s->profile.ops->lap(s);
	take_inbox(s);
	more = sched_fire_timers(s);
	while (left > 0 && (t = s->run_head)) {
		s->run_head = t->next;
		n_runs++;
		left -= session_run(s, t);
	}
	s->n_runnable -= n_runs;
	delays_bury(s, &s->delays);
	sched_publish(s);
	epoch_quiescent(&s->kernel->epoch, &s->reader);
	return more || s->run_head ||
	       atomic_load_explicit(&s->inbox, memory_order_relaxed);
}

bool
sched_sleep(struct sched *s)
{
	if (s->run_head || s->outbox_set)
		return false;
	if (s->charges.dirty) /* callbacks since the turn */
		charges_flush(&s->charges, s->now_ns);
	epoch_offline(&s->reader);
	epoch_collect(&s->kernel->epoch);
	atomic_store(&s->asleep, true);
	if (!atomic_load(&s->inbox))
		return true;
	sched_awake(s);
	return false;
}

void
sched_awake(struct sched *s)
{
	atomic_store(&s->asleep, false);
	epoch_online(&s->kernel->epoch, &s->reader);
	s->now_ns = clock_now(s->kernel->clock);
	if (s->profile.ops)
		s->profile.ops->lap(s);
}

void
sched_visit(struct sched *s)
{
	epoch_online(&s->kernel->epoch, &s->reader);
	s->now_ns = clock_now(s->kernel->clock);
	s->turns++;
	if (s->profile.ops)
		s->profile.ops->lap(s);
}

void
sched_leave(struct sched *s, bool wanted)
{
	epoch_offline(&s->reader);
	if (wanted && atomic_exchange(&s->asleep, false))
		s->executor->wake(s);
}

/* ---- the end --------------------------------------------------------- */

static void
stop_all(struct sched *s)
{
	struct sessions *table = &s->kernel->sessions;

	for (uint32_t slot = 1; slot <= table->n_slots; slot++) {
		struct session *t = session_at(s->kernel, slot);

		if (atomic_load(&t->id) && atomic_load(&t->home) == s)
			session_stop(t);
	}
}

/* Nobody will take @m any more. */
static void
drop_staged(struct sched *s, struct msg *m)
{
	struct sched_task *task = container_of(m, struct sched_task, msg);

	if (m->op != MSG_TASK)
		msg_free(&s->pool, m);
	else if (task->drop)
		task->drop(task);
}

/* What other schedulers sent. */
static void
drop_inbox(struct sched *s)
{
	struct msg *batch = atomic_exchange(&s->inbox, NULL), *older, *next;

	for (; batch; batch = older) {
		older = batch->batch;
		batch->stamp = 0;
		for (struct msg *m = batch; m; m = next) {
			next = msg_next(m);
			drop_staged(s, m);
		}
	}
}

void
sched_deinit(struct sched *s)
{
	struct session *t;

	epoch_online(&s->kernel->epoch, &s->reader);
	s->closing = true;
	stop_all(s);
	while ((t = s->run_head)) {
		s->run_head = t->next;
		s->n_runnable--;
		session_run(s, t);
	}
	taps_deinit(s);
	delays_deinit(s);
	dead_deinit(s);
	history_free(s);
	for (unsigned i = 0; i < KERNEL_LOOPS_MAX; i++) {
		struct msg *m;

		while ((m = msg_queue_pop(&s->outbox[i])))
			drop_staged(s, m);
	}
	drop_inbox(s);
	notes_deinit(s);
	calls_deinit(&s->calls);
	msg_pool_deinit(&s->pool);
	epoch_offline(&s->reader);
	epoch_leave(&s->kernel->epoch, &s->reader);
}

/* Moving events from one mailbox to another, in batches: out of the source, to
 * the target's thread, and what does not fit back again. On the way they count
 * as queued, by the schedulers' transit counters. See queue.h. */
#include <stdlib.h>

#include "kernel/aside.h"
#include "kernel/await.h"
#include "kernel/queue.h"

enum { BATCH_MAX = 1000 };

static void move_arrive(struct sched *s, struct sched_task *task);
static void move_return(struct sched *s, struct sched_task *task);
static void move_is_safe(struct sched *s, struct sched_task *task);

static struct queue_move *
move_of(struct sched_task *task)
{
	return container_of(task, struct queue_move, task);
}

static void
go(struct queue_move *move, struct sched *here, struct sched *there,
	void (*run)(struct sched *s, struct sched_task *task))
{
	here->transit_out += move->n_batch;
	move->is_back = false;
	move->task.run = run;
	sched_run_on(here, there, &move->task);
}

/* Its mailbox knows the key of @m, whose end it would not see. What was posted
 * again meanwhile counts as settled. */
static void
forget_key(struct sched *s, struct msg *m)
{
	if (!(m->flags & MSG_EXTRA))
		return;
	aside_ended(s, m, EVD_STATUS_OK, NULL);
	msg_extra(m)->key_home = 0;
}

static void
take_batch(struct queue_move *move, struct sched *s, struct session *from)
{
	struct msg *m;

	if (session_journal(from) && !move->places) {
		move->places = calloc(BATCH_MAX, sizeof(*move->places));
		if (!move->places) {
			move->status = EVD_STATUS_NO_MEMORY;
			return;
		}
	}
	while (move->left && move->n_batch < BATCH_MAX &&
		(m = mailbox_pop(&from->box))) {
		forget_key(s, m);
		if (move->places)
			move->places[move->n_batch] = journal_detach(m);
		msg_queue_push(&move->batch, m);
		move->n_batch++;
		move->left--;
	}
	move->n_taken = move->n_batch;
	s->queued -= move->n_batch;
	from->accepted -= move->n_batch;
	if (session_journal(from))
		journal_ran(s, from);
}

static void
finish(struct queue_move *move, struct sched *s, struct session *from)
{
	if (from) {
		from->box_bits &= (uint8_t)~BOX_MOVING;
		if (from->box_bits & BOX_ABOVE)
			queue_fall(s, from);
		sched_enqueue(s, from);
		session_admit_parked(s, from);
	}
	free(move->places);
	move->places = NULL;
	move->done(move, s);
}

/* The next batch, or the end. */
static void
step(struct queue_move *move, struct sched *s)
{
	struct session *from = session_find(s->kernel, move->from);
	struct session *to = session_find(s->kernel, move->to);

	if (!from)
		move->status = EVD_STATUS_DIED;
	else if (!to)
		move->status = EVD_STATUS_NO_ALIAS;
	else if (!move->status)
		take_batch(move, s, from);
	if (move->n_batch)
		go(move, s, atomic_load(&to->home), move_arrive);
	else if (!move->status && move->left && journal_is_reading(from))
		go(move, s, s, move_return); /* more is about to be there */
	else
		finish(move, s, from);
}

void
queue_move_start(struct queue_move *move, struct sched *s)
{
	move->home = s;
	move->moved = 0;
	move->status = EVD_STATUS_OK;
	move->batch.head = NULL;
	move->n_batch = move->n_taken = 0;
	move->places = NULL;
	move->is_safe = true;
	session_find(s->kernel, move->from)->box_bits |= BOX_MOVING;
	go(move, s, s, move_return); /* never done at once */
}

/* ---- at the target ------------------------------------------------------- */

static int
target_status(const struct session *to)
{
	if (!to)
		return EVD_STATUS_NO_ALIAS;
	return to->life == SESSION_FAILED ? EVD_STATUS_FAILED : EVD_STATUS_OK;
}

/* Of a move no poster is told, so nothing stops @to in the middle. */
static void
take_in(struct queue_move *move, struct sched *s, struct session *to)
{
	struct mailbox *box = &to->box;
	uint32_t left = move->n_batch;
	struct msg *m;

	while ((m = move->batch.head)) {
		if (box->n_parked || !mailbox_has_room(box, m)) {
			move->status = EVD_STATUS_FULL;
			break;
		}
		msg_queue_pop(&move->batch);
		move->n_batch--;
		move->moved++;
		m->to = move->to;
		m->handler = 0;
		m->flags |= MSG_DELAYED; /* accepted before it came here */
		if (session_journal(to) && !journal_take(s, to, m))
			continue;
		mailbox_push(box, m);
		to->accepted++;
		s->queued++;
	}
	if (move->places && session_journal(to))
		journal_moved_note(to, move->places, left - move->n_batch);
	if (to->box_bits & BOX_WATER)
		queue_rise(s, to);
	if (to->box_bits & BOX_AWAITS)
		await_again(to);
	sched_enqueue(s, to);
}

static void
on_safe(struct sched *s, void *arg, int status)
{
	struct queue_move *move = arg;

	(void)status;
	move->safe.run = move_is_safe;
	sched_run_on(s, move->home, &move->safe);
}

static void
move_arrive(struct sched *s, struct sched_task *task)
{
	struct queue_move *move = move_of(task);
	struct session *to = session_find(s->kernel, move->to);

	s->transit_in += move->n_batch;
	move->status = target_status(to);
	if (!move->status)
		take_in(move, s, to);
	/* What has arrived ends at the source when it is safe here. */
	move->is_safe = !to || !session_journal(to) ||
			!journal_when_safe(to, on_safe, move);
	go(move, s, move->home, move_return);
}

/* ---- back at the source -------------------------------------------------- */

/* The mailbox of @m has closed: it is there at the next start, or ends. */
static void
end_homeless(struct sched *s, struct msg *m, const struct journal_place *p)
{
	if (!p || !p->batch) {
		msg_end(s, NULL, m, MSG_END_DEAD, EVD_STATUS_DIED, NULL);
		return;
	}
	journal_leave_place(p);
	s->counters.accepted--;
	msg_free(&s->pool, m);
}

/* What has not been taken in. */
static void
put_back(struct queue_move *move, struct sched *s, struct session *from)
{
	struct msg *newest = NULL, *m;
	uint32_t n = move->n_taken - move->n_batch;

	for (; (m = msg_queue_pop(&move->batch)); n++) {
		struct journal_place *p =
			move->places ? &move->places[n] : NULL;

		if (!from) {
			end_homeless(s, m, p);
			continue;
		}
		if (p)
			journal_attach(m, p);
		msg_link(m, newest);
		newest = m;
	}
	while ((m = newest)) {
		newest = msg_next(m);
		mailbox_unpop(&from->box, m);
		from->accepted++;
		s->queued++;
	}
	move->n_taken -= move->n_batch;
	move->n_batch = 0;
}

/* What has arrived is safe there, and what has not is back. */
static void
settle(struct queue_move *move, struct sched *s)
{
	struct session *from = session_find(s->kernel, move->from);
	uint32_t n = move->n_taken;

	if (!move->is_safe || !move->is_back)
		return;
	if (move->places && from)
		journal_moved_end(from, move->places, n);
	for (uint32_t i = 0; move->places && i < n; i++)
		journal_end_place(&move->places[i]);
	move->n_taken = 0;
	step(move, s);
}

static void
move_is_safe(struct sched *s, struct sched_task *task)
{
	struct queue_move *move = container_of(task, struct queue_move, safe);

	move->is_safe = true;
	settle(move, s);
}

static void
move_return(struct sched *s, struct sched_task *task)
{
	struct queue_move *move = move_of(task);

	s->transit_in += move->n_batch;
	put_back(move, s, session_find(s->kernel, move->from));
	move->is_back = true;
	settle(move, s);
}

uint32_t
queue_carried(struct sched_task *task)
{
	return task->run == move_arrive || task->run == move_return
		       ? move_of(task)->n_batch
		       : 0;
}

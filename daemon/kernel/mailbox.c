/* Mailbox: two chains, the admitted before the parked. One thread. */
#include "kernel/mailbox.h"

#include <errno.h>
#include <stdlib.h>

#include "base/fault.h"

void
mailbox_init(struct mailbox *box, uint32_t max_n, uint64_t max_size)
{
	*box = (struct mailbox){.max_n = max_n, .max_size = max_size};
}

void
mailbox_deinit(struct mailbox *box)
{
	free(box->rare);
	box->rare = NULL;
}

struct mailbox_rare *
mailbox_rare(struct mailbox *box)
{
	if (!box->rare && !FAULT(mailbox_rare))
		box->rare = calloc(1, sizeof(*box->rare));
	return box->rare;
}

/* Insert @m behind @last, or at the front if that is NULL. */
static void
insert_behind(struct msg_queue *q, struct msg *last, struct msg *m)
{
	struct msg *next = last ? msg_next(last) : q->head;

	if (!q->head) {
		msg_queue_push(q, m);
		return;
	}
	msg_link(m, next);
	if (last)
		msg_link(last, m);
	else
		q->head = m;
	if (!next)
		q->tail = m;
}

/* The same in a ring. */
static void
ring_insert_behind(struct msg_ring *r, struct msg *last, struct msg *m)
{
	if (!last) {
		msg_ring_unpop(r, m);
		return;
	}
	msg_link(m, msg_next(last));
	msg_link(last, m);
	if (r->tail == last)
		r->tail = m;
}

/* Without memory to remember where the urgent ones end, it is not urgent. */
static bool
is_urgent(struct mailbox *box, struct msg *m)
{
	if (!(m->flags & MSG_URGENT))
		return false;
	if (!mailbox_rare(box))
		m->flags &= (uint16_t)~MSG_URGENT;
	return box->rare;
}

void
mailbox_limit(struct mailbox *box, uint32_t max_n, uint64_t max_size)
{
	box->max_n = max_n;
	box->max_size = max_size;
}

void
mailbox_take_urgent(struct mailbox *box, struct msg *m)
{
	if (!is_urgent(box, m)) {
		msg_queue_push(&box->admitted, m);
		return;
	}
	insert_behind(&box->admitted, box->rare->urgent, m);
	box->rare->urgent = m;
}

int
mailbox_push(struct mailbox *box, struct msg *m)
{
	if (mailbox_takes(box, m)) {
		mailbox_take_in(box, m);
		return 0;
	}
	return mailbox_park(box, m);
}

int
mailbox_park(struct mailbox *box, struct msg *m)
{
	if (!(m->flags & MSG_MAY_PARK))
		return MAILBOX_E_FULL;
	box->n_parked++;
	if (!is_urgent(box, m)) {
		msg_ring_push(&box->parked, m);
		return 0;
	}
	ring_insert_behind(&box->parked, box->rare->urgent_parked, m);
	box->rare->urgent_parked = m;
	return 0;
}

void
mailbox_unpop(struct mailbox *box, struct msg *m)
{
	struct mailbox_rare *r = box->rare;
	bool urgent = m->flags & MSG_URGENT;

	insert_behind(&box->admitted, r && !urgent ? r->urgent : NULL, m);
	if (r && urgent && !r->urgent)
		r->urgent = m;
	box->n++;
	box->size += msg_charge(m);
}

/* @m leaves the queue: who stood there stands before it now. */
static void
cursors_leave(struct mailbox *box, const struct msg *m, struct msg *before)
{
	for (struct mailbox_cursor *c = box->rare->cursors; c; c = c->next)
		if (c->at == m)
			c->at = before;
}

void
mailbox_left(struct mailbox *box, const struct msg *m)
{
	struct mailbox_rare *rare = box->rare;

	if (!rare)
		return;
	cursors_leave(box, m, NULL);
	if (rare->urgent == m)
		rare->urgent = NULL;
}

void
mailbox_unpark(struct mailbox *box, struct msg *m)
{
	struct mailbox_rare *r = box->rare;

	msg_ring_unpop(&box->parked, m);
	if (r && (m->flags & MSG_URGENT) && !r->urgent_parked)
		r->urgent_parked = m;
	box->n_parked++;
}

int
mailbox_may_stash(struct mailbox *box, const struct msg *m)
{
	if (!mailbox_has_room(box, m))
		return MAILBOX_E_FULL;
	return mailbox_rare(box) ? 0 : -ENOMEM;
}

void
mailbox_stash(struct mailbox *box, struct msg *m)
{
	box->n++;
	box->size += msg_charge(m);
	box->rare->n_stashed++;
	msg_queue_push(&box->rare->stash, m);
}

uint32_t
mailbox_unstash(struct mailbox *box)
{
	uint32_t n = box->rare ? box->rare->n_stashed : 0;
	struct msg *newest = NULL, *m;

	if (!n)
		return 0;
	while ((m = msg_queue_pop(&box->rare->stash))) {
		msg_link(m, newest);
		newest = m;
	}
	while ((m = newest)) {
		newest = msg_next(m);
		box->n--;
		box->size -= msg_charge(m);
		mailbox_unpop(box, m);
	}
	box->rare->n_stashed = 0;
	return n;
}

int
mailbox_track(struct mailbox *box, struct mailbox_cursor *cursor)
{
	struct mailbox_rare *rare = mailbox_rare(box);

	if (!rare)
		return -ENOMEM;
	cursor->at = NULL;
	cursor->next = rare->cursors;
	rare->cursors = cursor;
	return 0;
}

void
mailbox_untrack(struct mailbox *box, struct mailbox_cursor *cursor)
{
	struct mailbox_cursor **link = &box->rare->cursors;

	while (*link != cursor)
		link = &(*link)->next;
	*link = cursor->next;
}

struct msg *
mailbox_take_ahead(struct mailbox *box, struct mailbox_cursor *cursor)
{
	struct msg_queue *q = &box->admitted;
	struct msg *before = cursor->at, *m;

	if (!before)
		return mailbox_pop(box);
	m = msg_next(before);
	msg_link(before, msg_next(m));
	if (q->tail == m)
		q->tail = before;
	box->n--;
	box->size -= msg_charge(m);
	cursors_leave(box, m, before);
	if (box->rare && box->rare->urgent == m)
		box->rare->urgent = before; /* urgent as all before it */
	return m;
}

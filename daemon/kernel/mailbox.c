/* Mailbox: two chains, the admitted before the parked. One thread. */
#include "kernel/mailbox.h"

void
mailbox_init(struct mailbox *box, uint32_t max_n, uint64_t max_size)
{
	*box = (struct mailbox){.max_n = max_n, .max_size = max_size};
}

void
mailbox_limit(struct mailbox *box, uint32_t max_n, uint64_t max_size)
{
	box->max_n = max_n;
	box->max_size = max_size;
}

bool
mailbox_has_room(const struct mailbox *box, const struct msg *m)
{
	if (box->n == 0)
		return true;
	return box->n < box->max_n && box->size < box->max_size &&
	       msg_charge(m) <= box->max_size - box->size;
}

static void
take_in(struct mailbox *box, struct msg *m)
{
	m->flags |= MSG_ADMITTED;
	box->n++;
	box->size += msg_charge(m);
	msg_queue_push(&box->admitted, m);
}

int
mailbox_push(struct mailbox *box, struct msg *m)
{
	if (m->flags & MSG_ADMITTED ||
		(!box->n_parked && mailbox_has_room(box, m))) {
		take_in(box, m);
		return 0;
	}
	if (!(m->flags & MSG_MAY_PARK))
		return MAILBOX_E_FULL;
	box->n_parked++;
	msg_ring_push(&box->parked, m);
	return 0;
}

void
mailbox_unpop(struct mailbox *box, struct msg *m)
{
	struct msg_queue *q = &box->admitted;

	if (!q->head)
		q->tail = m;
	msg_link(m, q->head);
	q->head = m;
	box->n++;
	box->size += msg_charge(m);
}

/* @m leaves the queue: who stood there stands before it now. */
static void
cursors_leave(struct mailbox *box, const struct msg *m, struct msg *before)
{
	for (struct mailbox_cursor *c = box->cursors; c; c = c->next)
		if (c->at == m)
			c->at = before;
}

struct msg *
mailbox_pop(struct mailbox *box)
{
	struct msg *m = msg_queue_pop(&box->admitted);

	if (m) {
		box->n--;
		box->size -= msg_charge(m);
		if (box->cursors)
			cursors_leave(box, m, NULL);
	}
	return m;
}

struct msg *
mailbox_admit(struct mailbox *box)
{
	struct msg *m;

	if (!box->n_parked ||
		!mailbox_has_room(box, msg_ring_head(&box->parked)))
		return NULL;
	m = mailbox_pop_parked(box);
	take_in(box, m);
	return m;
}

struct msg *
mailbox_pop_parked(struct mailbox *box)
{
	struct msg *m = msg_ring_pop(&box->parked);

	if (m)
		box->n_parked--;
	return m;
}

void
mailbox_track(struct mailbox *box, struct mailbox_cursor *cursor)
{
	cursor->at = NULL;
	cursor->next = box->cursors;
	box->cursors = cursor;
}

void
mailbox_untrack(struct mailbox *box, struct mailbox_cursor *cursor)
{
	struct mailbox_cursor **link = &box->cursors;

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
	return m;
}

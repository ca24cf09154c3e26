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

static bool
has_room(const struct mailbox *box, const struct msg *m)
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
	if (m->flags & MSG_ADMITTED || (!box->n_parked && has_room(box, m))) {
		take_in(box, m);
		return 0;
	}
	if (!(m->flags & MSG_MAY_PARK))
		return MAILBOX_E_FULL;
	box->n_parked++;
	msg_queue_push(&box->parked, m);
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

struct msg *
mailbox_pop(struct mailbox *box)
{
	struct msg *m = msg_queue_pop(&box->admitted);

	if (m) {
		box->n--;
		box->size -= msg_charge(m);
	}
	return m;
}

struct msg *
mailbox_admit(struct mailbox *box)
{
	struct msg *m;

	if (!box->n_parked || !has_room(box, box->parked.head))
		return NULL;
	m = mailbox_pop_parked(box);
	take_in(box, m);
	return m;
}

struct msg *
mailbox_pop_parked(struct mailbox *box)
{
	struct msg *m = msg_queue_pop(&box->parked);

	if (m)
		box->n_parked--;
	return m;
}

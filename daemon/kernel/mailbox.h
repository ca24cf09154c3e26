#pragma once
/* Mailbox: the bounded queue of events waiting for one session. Only the
 * thread of the session's home scheduler touches it.
 *
 * Behind the admitted events stand the parked ones: those that their poster's
 * window pays for until there is room. Events leave in the order they were
 * pushed, parked or not; but urgent ones (MSG_URGENT) stand before the others
 * of either queue.
 *
 * Aside from both are the stashed ones, which the session has put back for
 * later: they are admitted, and count as such. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/msg.h"

enum { MAILBOX_E_FULL = 1 };

/* A place in the queue of the admitted that stays right while events leave and
 * come: whoever looks through a long queue goes on there later. */
struct mailbox_cursor {
	struct mailbox_cursor *next;
	struct msg *at; /* the last one looked at; NULL: none */
	const void *owner;
};

struct aside;
struct await;

/* Events that its overflow dropped and that its session is not told of yet. */
struct mailbox_gap {
	uint64_t from, to, n; /* ids, first and last; how many */
	bool on_way;          /* a `_gap` waits in the control lane */
};

/* What few mailboxes use, made at the first use. */
struct mailbox_rare {
	struct msg *urgent;             /* the last urgent one of admitted */
	struct msg *urgent_parked;      /* ... of parked */
	struct mailbox_cursor *cursors; /* into the admitted */
	struct msg_queue stash;
	uint32_t n_stashed;
	struct aside *aside; /* its session's, see aside.h; or NULL */
	struct mailbox_gap gap;
	struct await *awaits; /* of its session's handlers, see await.h */
};

struct mailbox {
	struct msg_queue admitted;
	struct msg_ring parked;
	struct mailbox_rare *rare; /* or NULL */
	uint64_t size;             /* bytes charged by the admitted */
	uint64_t max_size;
	uint32_t n; /* admitted, with the stashed */
	uint32_t n_parked;
	uint32_t max_n;
	uint32_t born_s; /* monotonic seconds: when its session was made */
};

void mailbox_init(struct mailbox *box, uint32_t max_n, uint64_t max_size);
void mailbox_deinit(struct mailbox *box); /* empty, without an aside */
/* Its rare part; NULL: out of memory. */
struct mailbox_rare *mailbox_rare(struct mailbox *box);
/* Change the bounds; admits nothing by itself, see mailbox_admit(). */
void mailbox_limit(struct mailbox *box, uint32_t max_n, uint64_t max_size);

/* Push @m. 0: admitted, and its flag MSG_ADMITTED says so; or parked, if it
 * has MSG_MAY_PARK and there is no room or others are parked already.
 * MAILBOX_E_FULL: nothing happened. An empty mailbox takes one event of any
 * size; one that has MSG_ADMITTED already is taken whatever the bounds. */
int mailbox_push(struct mailbox *box, struct msg *m);
/* Park @m, if it has MSG_MAY_PARK: 0 or MAILBOX_E_FULL. */
int mailbox_park(struct mailbox *box, struct msg *m);
/* mailbox_take_in() of one that has MSG_URGENT. */
void mailbox_take_urgent(struct mailbox *box, struct msg *m);
/* The same for what mailbox_takes(). */
static inline void
mailbox_take_in(struct mailbox *box, struct msg *m)
{
	m->flags |= MSG_ADMITTED;
	box->n++;
	box->size += msg_charge(m);
	if (m->flags & MSG_URGENT)
		mailbox_take_urgent(box, m);
	else
		msg_queue_push(&box->admitted, m);
}
/* Back to the front: it had been popped but not handled. */
void mailbox_unpop(struct mailbox *box, struct msg *m);
/* mailbox_take() took @m: somebody had an eye on it, perhaps. */
void mailbox_left(struct mailbox *box, const struct msg *m);
static inline bool
mailbox_is_rare(const struct mailbox *box)
{
	return box->rare != NULL;
}
/* Of one that has some. */
static inline struct msg *
mailbox_take_first(struct mailbox *box)
{
	struct msg *m = box->admitted.head;

	box->admitted.head = msg_next(m);
	__builtin_prefetch(msg_next(m));
	box->n--;
	box->size -= msg_charge(m);
	return m;
}
/* mailbox_pop() but for mailbox_left(), which the caller sees to. */
static inline struct msg *
mailbox_take(struct mailbox *box)
{
	return box->admitted.head ? mailbox_take_first(box) : NULL;
}
/* The first admitted event, or NULL. */
static inline struct msg *
mailbox_pop(struct mailbox *box)
{
	struct msg *m = mailbox_take(box);

	if (m && mailbox_is_rare(box))
		mailbox_left(box, m);
	return m;
}
/* Take out the next parked event, for an end without admission, or NULL. */
static inline struct msg *
mailbox_pop_parked(struct mailbox *box)
{
	struct msg *m = msg_ring_pop(&box->parked);

	if (!m)
		return NULL;
	box->n_parked--;
	if (mailbox_is_rare(box) && box->rare->urgent_parked == m)
		box->rare->urgent_parked = NULL;
	return m;
}
/* Back to the front of the parked. */
void mailbox_unpark(struct mailbox *box, struct msg *m);
/* Whether there is room for one that counts for @size, were nothing parked. */
static inline bool
mailbox_has_space(const struct mailbox *box, uint32_t size)
{
	if (box->n == 0)
		return true;
	return box->n < box->max_n && box->size < box->max_size &&
	       size <= box->max_size - box->size;
}
static inline bool
mailbox_has_room(const struct mailbox *box, const struct msg *m)
{
	return mailbox_has_space(box, msg_charge(m));
}
/* Whether mailbox_push() would admit @m now. */
static inline bool
mailbox_takes(const struct mailbox *box, const struct msg *m)
{
	return (m->flags & MSG_ADMITTED) ||
	       (!box->n_parked && mailbox_has_room(box, m));
}
/* Admit the next parked event if there is room now: it, or NULL. Call until
 * NULL after each pop. Cheap when nothing is parked. */
static inline struct msg *
mailbox_admit(struct mailbox *box)
{
	struct msg *m;

	if (!box->n_parked ||
		!mailbox_has_room(box, msg_ring_head(&box->parked)))
		return NULL;
	m = mailbox_pop_parked(box);
	__builtin_prefetch(msg_ring_head(&box->parked));
	mailbox_take_in(box, m);
	return m;
}

/* ---- the stash ----------------------------------------------------------- */

/* May an event that was popped be put aside? 0, MAILBOX_E_FULL or -ENOMEM. */
int mailbox_may_stash(struct mailbox *box, const struct msg *m);
/* Put it aside: mailbox_may_stash() has said yes since it was popped. */
void mailbox_stash(struct mailbox *box, struct msg *m);
/* All that were put aside go back to the front, in the order they were popped
 * first: how many. */
uint32_t mailbox_unstash(struct mailbox *box);

/* ---- looking through it -------------------------------------------------- */

/* From the front; the cursor is the caller's until mailbox_untrack(). 0 or
 * -ENOMEM. */
int mailbox_track(struct mailbox *box, struct mailbox_cursor *cursor);
void mailbox_untrack(struct mailbox *box, struct mailbox_cursor *cursor);
/* The event behind the cursor, or NULL: it is at the end. */
static inline struct msg *
mailbox_ahead(const struct mailbox *box, const struct mailbox_cursor *cursor)
{
	return cursor->at ? msg_next(cursor->at) : box->admitted.head;
}
/* Take out the event behind the cursor; there is one. */
struct msg *mailbox_take_ahead(
	struct mailbox *box, struct mailbox_cursor *cursor);

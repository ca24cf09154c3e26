#pragma once
/* Lease: what was handed to one consumer and is not settled, and how much more
 * it takes until then. Deliveries are counted from 1; those between settled and
 * delivered are held, but for some that were taken out of their turn.
 *
 * The thread of the home of the session whose events these are. */
#include <stdbool.h>
#include <stdint.h>

#include "kernel/msg.h"

struct session;

struct lease_held {
	struct msg *msg; /* NULL: taken out */
	uint64_t end_ns; /* monotonic; 0: it lasts */
};

struct lease {
	struct lease_held *ring; /* by number modulo room */
	uint32_t room, n_held;
	uint64_t delivered; /* counts deliveries */
	uint64_t settled;
	uint64_t size; /* bytes charged by the held */
	uint32_t max_events;
	uint64_t max_size;
};

void lease_deinit(struct lease *l); /* nothing is held */

static inline struct lease_held *
lease_at(const struct lease *l, uint64_t number)
{
	return &l->ring[number & (l->room - 1)];
}

/* The oldest that is held, or NULL. */
const struct msg *lease_first(const struct lease *l);

/* One that its consumer died with is tried alone: it may do so again. */
static inline bool
lease_may_add(const struct lease *l, const struct msg *m)
{
	return !l->n_held || (!m->attempt && !lease_first(l)->attempt);
}

static inline bool
lease_has_room(const struct lease *l)
{
	return l->delivered - l->settled < l->max_events &&
	       (l->size < l->max_size || !l->n_held);
}

/* Room for one more delivery: false without memory. */
bool lease_grow(struct lease *l);
static inline bool
lease_reserve(struct lease *l)
{
	return l->delivered - l->settled < l->room || lease_grow(l);
}

/* There is room for it. */
static inline void
lease_add(struct lease *l, struct msg *m, uint64_t end_ns)
{
	*lease_at(l, ++l->delivered) = (struct lease_held){m, end_ns};
	l->n_held++;
	l->size += msg_charge(m);
}

/* Deliveries up to @upto, which have been made, are handled. */
void lease_settle(struct lease *l, struct session *s, uint64_t upto);
/* Take delivery @number out; NULL: it is not held (any more). */
struct msg *lease_take(struct lease *l, uint64_t number);
/* It is held until @end_ns; false: it is not held. */
bool lease_extend(struct lease *l, uint64_t number, uint64_t end_ns);
/* The number of a delivery that ended by @now_ns, or 0; and when the next
 * does, UINT64_MAX: none. */
uint64_t lease_ended(const struct lease *l, uint64_t now_ns, uint64_t *next_ns);
/* All that is held ends with @status. */
void lease_end(struct lease *l, struct session *s, int status);
/* All that is held goes back to the front of the mailbox, in order. @died: its
 * consumer has, and what has been tried MaxAttempts= times ends dead. */
void lease_return(struct lease *l, struct session *s, bool died);
/* One more try of @m is one too many. */
bool lease_is_last(const struct session *s, const struct msg *m);

#pragma once
/* Lease: what was handed to one consumer and is not settled, and how much more
 * it takes until then. The thread of the home of the session whose events
 * these are. */
#include <stdbool.h>
#include <stdint.h>

#include "kernel/msg.h"

struct session;

struct lease {
	struct msg_queue held; /* oldest first */
	uint64_t delivered;    /* counts deliveries */
	uint64_t settled;
	uint64_t size; /* bytes charged by the held */
	uint32_t max_events;
	uint64_t max_size;
};

/* One that its consumer died with is tried alone: it may do so again. */
static inline bool
lease_may_add(const struct lease *l, const struct msg *m)
{
	return !l->held.head || (!m->attempt && !l->held.head->attempt);
}

static inline bool
lease_has_room(const struct lease *l)
{
	return l->delivered - l->settled < l->max_events &&
	       (l->size < l->max_size || !l->held.head);
}

static inline void
lease_add(struct lease *l, struct msg *m)
{
	l->delivered++;
	l->size += msg_charge(m);
	msg_queue_push(&l->held, m);
}

/* Deliveries up to @upto, which have been made, are handled. */
void lease_settle(struct lease *l, struct session *s, uint64_t upto);
/* All that is held ends with @status. */
void lease_end(struct lease *l, struct session *s, int status);
/* All that is held goes back to the front of the mailbox, in order. @died: its
 * consumer has, and what has been tried MaxAttempts= times ends dead. */
void lease_return(struct lease *l, struct session *s, bool died);

#pragma once
/* Pending calls of one scheduler's sessions: who waits for which reply until
 * when. A sleep is a call that nobody answers. One thread.
 *
 * An id is scheduler, slot and generation, so that a late reply finds nobody
 * rather than somebody else. */
#include <stdint.h>

#include "kernel/timers.h"

struct alias_wait;

struct call {
	struct timer timer;      /* the deadline; TIMER_CALL */
	uint64_t id;             /* 0: free */
	uint64_t session;        /* the caller */
	uint64_t token;          /* the caller's own */
	uint64_t to;             /* session that was asked last; 0: a sleep */
	struct alias_wait *wait; /* or for an alias, see claim_wait(); NULL */
	uint32_t next;   /* of the caller's, or free: slot + 1; 0: none */
	uint32_t before; /* the one before of the caller's, likewise */
};

struct calls {
	struct call **blocks; /* of CALLS_BLOCK each: calls do not move */
	uint32_t n_blocks;
	uint32_t free;  /* slot + 1; 0: none */
	uint32_t n;     /* pending */
	uint64_t last;  /* counts calls: the generation in ids */
	unsigned sched; /* index, goes into the ids */
};

enum { CALLS_BLOCK = 256, CALLS_SCHED_BITS = 6, CALLS_SLOT_BITS = 24 };

void calls_init(struct calls *c, unsigned sched);
void calls_deinit(struct calls *c);
/* A new pending call, its deadline not armed yet; NULL: out of memory. @chain
 * is the head of its caller's calls, 0 if there are none. */
struct call *calls_add(struct calls *c, uint32_t *chain);
struct call *calls_find(struct calls *c, uint64_t id); /* NULL: none */
/* The call at the head of a chain, or NULL. */
struct call *calls_first(struct calls *c, uint32_t chain);
/* The call of a chain with this token, or NULL. O(its length). */
struct call *calls_by_token(struct calls *c, uint32_t chain, uint64_t token);
void calls_remove(struct calls *c, struct call *call, uint32_t *chain);
/* Which scheduler's calls an id belongs to. */
static inline unsigned
call_sched(uint64_t id)
{
	return id & ((1u << CALLS_SCHED_BITS) - 1);
}

#pragma once
/* Delays: events that become due later, by elapsed time or at a wall-clock
 * time, once or again and again. Each lives on the scheduler that set it and
 * goes, when due, to whoever holds its alias then. One thread. */
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "kernel/timers.h"

struct alias;
struct msg;
struct sched;
struct session;

struct delay {
	struct timer timer;  /* TIMER_DELAY */
	struct list owned;   /* in session.delays, if to its owner itself */
	struct msg *msg;     /* an admitted event */
	struct alias *alias; /* a reference; NULL: to session `msg->to` */
	uint64_t id;         /* 0: free */
	uint64_t owner;      /* session that set it */
	uint64_t repeat_ns;  /* 0: once */
	uint64_t size;       /* bytes charged for its message */
	bool wall;
};

struct delays {
	struct delay **slots; /* a free one holds an odd number */
	uint32_t n_slots, free, n;
	uint64_t size; /* bytes charged */
	uint64_t last; /* counts delays: the generation in ids */
	unsigned sched;
};

/* Bytes that the delays of one scheduler hold, for they outlive whoever set
 * them. */
enum { DELAYS_SIZE_MAX = 256 << 20 };

enum {
	DELAY_E_LIMIT = 1, /* MaxTimers= or DELAYS_SIZE_MAX is reached */
	DELAY_E_NO_ALIAS = 2,
	DELAY_E_FIRED = 3, /* no such timer: fired, cancelled or never was */
};

/* Where and when: exactly one of @alias and @to; @due_ns is of the monotonic
 * clock, or of the wall clock if @wall. */
struct delay_init {
	const char *alias;
	uint32_t alias_size;
	uint64_t to;
	uint64_t due_ns;
	uint64_t repeat_ns;
	bool wall;
};

/* Set @m, with its event and payload, to be posted when due. Consumes @m on
 * success. @owner may be NULL. 0, DELAY_E_LIMIT, DELAY_E_NO_ALIAS or -ENOMEM.
 */
int delay_set(struct sched *s, struct session *owner,
	const struct delay_init *init, struct msg *m, uint64_t *id);
/* Cancel on the scheduler that holds it, see delay_sched(). */
int delay_cancel(struct sched *s, uint64_t id);
/* Session that set it; 0: none, or no such timer. */
uint64_t delay_owner(struct sched *s, uint64_t id);
/* All that @owner set for itself: it stops. */
void delays_cancel_owned(struct sched *s, struct session *owner);
void delay_fire(struct sched *s, struct timer *timer); /* it is due */
static inline unsigned
delay_sched(uint64_t id)
{
	return id & 63;
}
/* The pending delay in the next slot after that of the id @after, which may be
 * gone, or NULL: for pages. 0: the first. */
struct delay *delays_next(struct delays *d, uint64_t after);
void delays_init(struct delays *d, unsigned sched);
void delays_deinit(struct sched *s);

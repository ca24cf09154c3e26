#pragma once
/* Timers: a hierarchical timing wheel (after Varghese and Lauck, 1987, scheme
 * 7): insert and cancel are O(1), a tick costs what fires. Knows no clock: its
 * owner says what time it is. One thread.
 *
 * Resolution is 2^TIMERS_SHIFT ns; a timer never fires before its due time.
 * One due beyond what 64 bits of nanoseconds can tell never fires. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	TIMERS_SHIFT = 18, /* ticks of 0.262 ms */
	TIMERS_BITS = 7,
	TIMERS_BLOCK = 1 << TIMERS_BITS, /* slots as wide as one coarser */
	TIMERS_SLOTS = 2 * TIMERS_BLOCK, /* of a level: this block, the next */
	TIMERS_WORDS = TIMERS_SLOTS / 64,
	TIMERS_LEVELS = 7, /* 2^49 ticks: more than 64 bits of ns */
	/* timers moved to finer slots by one call of timers_expire(), so that
	 * a million in one slot do not stall their thread */
	TIMERS_MOVES_MAX = 512,
};

struct timer {
	struct timer *next;
	struct timer *link; /* the one before; NULL: not armed */
	uint64_t due_ns;
	uint8_t type;    /* the owner's, says what it is embedded in */
	uint8_t a, b, c; /* the owner's, with whatever meaning: room that */
	uint32_t size;   /* would be lost to alignment */
};

/* A ring of timers, first in first out; laid out as struct timer begins. */
struct timer_slot {
	struct timer *next, *link;
};

struct timers {
	uint64_t tick;   /* all before it have fired */
	uint64_t n;      /* armed */
	uint64_t bound;  /* no occupied slot begins before this tick */
	uint32_t moving; /* bit L: level L is being moved to finer ones */
	uint64_t occupied[TIMERS_LEVELS][TIMERS_WORDS];
	struct timer_slot slots[TIMERS_LEVELS][TIMERS_SLOTS];
};

void timers_init(struct timers *t, uint64_t now_ns);
/* Arm @timer, not armed now, for @due_ns (in the past: fires next). Timers of
 * one tick fire in the order they were added. */
void timers_add(struct timers *t, struct timer *timer, uint64_t due_ns);
/* Disarm; nothing if not armed. */
void timers_remove(struct timers *t, struct timer *timer);
static inline bool
timer_is_armed(const struct timer *timer)
{
	return timer->link != NULL;
}
/**
 * timers_expire() - take what is due at @now_ns
 *
 * Return: the next due timer, disarmed, in order of due tick, or NULL when no
 * more is due. The owner calls it until NULL; it may add and remove timers
 * between the calls. NULL comes also after TIMERS_MOVES_MAX moves:
 * timers_next_ns() then says that there is more to do now.
 */
struct timer *timers_expire(struct timers *t, uint64_t now_ns);
/* When to call timers_expire() next: UINT64_MAX if nothing is armed. May be
 * early (timers move to finer slots), never late. O(1). */
uint64_t timers_next_ns(struct timers *t);
/* The same at less cost: perhaps even earlier. */
uint64_t timers_bound_ns(const struct timers *t);
/* The clock was set: keep every timer's due_ns, count from @now_ns. O(n). */
void timers_rebase(struct timers *t, uint64_t now_ns);

#pragma once
/* Timers: a hierarchical timing wheel (Varghese and Lauck, 1987, scheme 7):
 * insert and cancel are O(1), a tick costs what fires. Knows no clock: its
 * owner says what time it is. One thread.
 *
 * Resolution is 2^TIMERS_SHIFT ns; a timer never fires before its due time. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	TIMERS_SHIFT = 18, /* ticks of 0.262 ms */
	TIMERS_BITS = 8,
	TIMERS_SLOTS = 1 << TIMERS_BITS,
	TIMERS_LEVELS = 5, /* 2^40 ticks: nine years; later ones wait there */
};

struct timer {
	struct timer *next;
	struct timer **link; /* what points at this one; NULL: not armed */
	uint64_t due_ns;
	uint8_t type; /* the owner's, says what it is embedded in */
};

struct timers {
	uint64_t tick; /* all before it have fired */
	uint64_t n;    /* armed */
	uint64_t occupied[TIMERS_LEVELS][TIMERS_SLOTS / 64];
	struct timer *slots[TIMERS_LEVELS][TIMERS_SLOTS];
};

void timers_init(struct timers *t, uint64_t now_ns);
/* Arm @timer, not armed now, for @due_ns (in the past: fires next). */
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
 * between the calls.
 */
struct timer *timers_expire(struct timers *t, uint64_t now_ns);
/* When to call timers_expire() next: UINT64_MAX if nothing is armed. May be
 * early (a cascade), never late. O(1). */
uint64_t timers_next_ns(const struct timers *t);
/* The clock was set: keep every timer's due_ns, count from @now_ns. O(n). */
void timers_rebase(struct timers *t, uint64_t now_ns);

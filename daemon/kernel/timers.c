/* Timing wheel: six wheels of 256 slots, each slot of a coarser wheel as wide
 * as the whole finer one.
 *
 * A timer stands on the level of the highest byte in which its due tick
 * differs from the current tick, in the slot of that byte's value. So all of
 * level 0 is due before all of level 1 and so on, slots never wrap around, the
 * next thing to do is the first occupied slot of the first level that has one,
 * and timers of one tick are always in one slot, in the order they were added.
 * The current tick may move up to the start of that slot without a look at
 * anything; when it gets there, the slot's timers move to finer levels. One
 * thread. */
#include "kernel/timers.h"

#include <assert.h>

enum { WORDS = TIMERS_SLOTS / 64 };

_Static_assert(
	offsetof(struct timer, next) == offsetof(struct timer_slot, next) &&
		offsetof(struct timer, link) ==
			offsetof(struct timer_slot, link),
	"a slot is the sentinel of a ring of timers");

#define TICK_END (UINT64_C(1) << (64 - TIMERS_SHIFT))

void
timers_init(struct timers *t, uint64_t now_ns)
{
	t->tick = now_ns >> TIMERS_SHIFT;
	t->n = 0;
	t->moving = 0;
	for (unsigned level = 0; level < TIMERS_LEVELS; level++) {
		for (unsigned w = 0; w < WORDS; w++)
			t->occupied[level][w] = 0;
		for (unsigned i = 0; i < TIMERS_SLOTS; i++) {
			struct timer_slot *slot = &t->slots[level][i];

			slot->next = slot->link = (struct timer *)slot;
		}
	}
}

static inline bool
slot_is_empty(const struct timer_slot *slot)
{
	return slot->next == (const struct timer *)slot;
}

/* The first tick at which @due_ns has passed. */
static inline uint64_t
tick_of_due(uint64_t due_ns)
{
	uint64_t part = due_ns & ((UINT64_C(1) << TIMERS_SHIFT) - 1);

	return (due_ns >> TIMERS_SHIFT) + (part != 0);
}

static inline unsigned
slot_index(uint64_t tick, unsigned level)
{
	return (unsigned)(tick >> (level * TIMERS_BITS)) & (TIMERS_SLOTS - 1);
}

static void
place(struct timers *t, struct timer *timer)
{
	uint64_t due = tick_of_due(timer->due_ns);
	unsigned level, i;
	struct timer_slot *slot;

	if (due < t->tick)
		due = t->tick;
	level = (63 - (unsigned)__builtin_clzll(
			      (due ^ t->tick) | (TIMERS_SLOTS - 1))) /
		TIMERS_BITS;
	i = slot_index(due, level);
	slot = &t->slots[level][i];
	timer->next = (struct timer *)slot;
	timer->link = slot->link;
	slot->link->next = timer;
	slot->link = timer;
	t->occupied[level][i / 64] |= UINT64_C(1) << (i % 64);
}

/* Take @timer out of its ring; an emptied slot is marked so. */
static void
unplace(struct timers *t, struct timer *timer)
{
	struct timer *before = timer->link, *after = timer->next;

	before->next = after;
	after->link = before;
	timer->link = NULL;
	if (before == after) { /* only the slot itself is left */
		size_t i =
			(size_t)((struct timer_slot *)before - &t->slots[0][0]);

		t->occupied[i / TIMERS_SLOTS][i % TIMERS_SLOTS / 64] &=
			~(UINT64_C(1) << (i % 64));
	}
}

void
timers_add(struct timers *t, struct timer *timer, uint64_t due_ns)
{
	assert(!timer_is_armed(timer));
	timer->due_ns = due_ns;
	place(t, timer);
	t->n++;
}

void
timers_remove(struct timers *t, struct timer *timer)
{
	if (!timer_is_armed(timer))
		return;
	unplace(t, timer);
	t->n--;
}

/* The first occupied slot: its level, and the tick at which it begins. */
static unsigned
first_slot(const struct timers *t, uint64_t *tick)
{
	for (unsigned level = 0; level < TIMERS_LEVELS; level++) {
		unsigned shift = level * TIMERS_BITS;

		for (unsigned w = 0; w < WORDS; w++) {
			uint64_t bits = t->occupied[level][w], i;

			if (!bits)
				continue;
			i = w * 64 + (unsigned)__builtin_ctzll(bits);
			*tick = (t->tick >> shift & ~UINT64_C(0xff)) | i;
			*tick <<= shift;
			return level;
		}
	}
	*tick = UINT64_MAX;
	return 0;
}

/* Move timers of the slot that the tick has entered to finer levels: true
 * when it is empty. */
static bool
move_down(struct timers *t, unsigned *n_moves)
{
	struct timer_slot *slot;

	if (!t->moving)
		return true;
	slot = &t->slots[t->moving][slot_index(t->tick, t->moving)];
	while (!slot_is_empty(slot)) {
		struct timer *timer = slot->next;

		if (++*n_moves > TIMERS_MOVES_MAX)
			return false;
		unplace(t, timer);
		place(t, timer);
	}
	t->moving = 0;
	return true;
}

struct timer *
timers_expire(struct timers *t, uint64_t now_ns)
{
	uint64_t now = now_ns >> TIMERS_SHIFT, begin;
	unsigned n_moves = 0;

	while (now >= t->tick && move_down(t, &n_moves)) {
		struct timer_slot *due = &t->slots[0][slot_index(t->tick, 0)];

		if (!slot_is_empty(due)) {
			struct timer *timer = due->next;

			timers_remove(t, timer);
			return timer;
		}
		t->moving = first_slot(t, &begin);
		if (begin > now) {
			t->moving = 0;
			t->tick = now;
			return NULL;
		}
		t->tick = begin;
	}
	return NULL;
}

uint64_t
timers_next_ns(const struct timers *t)
{
	uint64_t begin;

	if (t->moving)
		return t->tick << TIMERS_SHIFT;
	first_slot(t, &begin);
	return begin < TICK_END ? begin << TIMERS_SHIFT : UINT64_MAX;
}

void
timers_rebase(struct timers *t, uint64_t now_ns)
{
	struct timer *all = NULL, **tail = &all;

	for (size_t i = 0; i < (size_t)TIMERS_LEVELS * TIMERS_SLOTS; i++) {
		struct timer_slot *slot = &t->slots[0][0] + i;

		if (slot_is_empty(slot))
			continue;
		*tail = slot->next;
		tail = &slot->link->next;
	}
	*tail = NULL;
	timers_init(t, now_ns);
	for (struct timer *timer = all, *next; timer; timer = next) {
		next = timer->next;
		place(t, timer);
		t->n++;
	}
}

/* Timing wheel: seven levels of 256 slots, each slot of a coarser level as wide
 * as 128 of the finer one, which are a block.
 *
 * A level holds what is due in the block of its slots that the tick is in, and
 * in the block after that; what is due later is on a coarser level. So what is
 * due in the next block can be moved from the coarser slot to finer ones while
 * this block fires, a portion at a time, and nobody waits for it when the tick
 * gets there. A level is being moved (its bit in `moving`) while its slot that
 * the tick is in, or the one after, is occupied.
 *
 * Timers of one tick fire in the order they were added, for an older one is
 * always on the same level, before the newer one, or on a finer level: while a
 * slot is being moved, what is due in it is added to it, behind the others.
 *
 * While nothing is being moved all of level 0 is due before all of level 1 and
 * so on, and the next thing to do is the first occupied slot of the first level
 * that has one. The tick may move up to the start of that slot without a look
 * at anything. One thread. */
#include "kernel/timers.h"

#include <assert.h>

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
	t->bound = UINT64_MAX;
	for (unsigned level = 0; level < TIMERS_LEVELS; level++) {
		for (unsigned w = 0; w < TIMERS_WORDS; w++)
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

/* The number of the slot of @level that @tick is in; never the same twice. */
static inline uint64_t
slot_number(uint64_t tick, unsigned level)
{
	return tick >> (level * TIMERS_BITS);
}

static inline unsigned
slot_index(uint64_t number)
{
	return (unsigned)number & (TIMERS_SLOTS - 1);
}

static inline bool
is_occupied(const struct timers *t, unsigned level, uint64_t number)
{
	unsigned i = slot_index(number);

	return t->occupied[level][i / 64] >> (i % 64) & 1;
}

/* ---- into slots and out of them ----------------------------------------- */

/* The finest level that reaches from @tick to @due. */
static inline unsigned
level_of(uint64_t tick, uint64_t due)
{
	unsigned level = (63 - (unsigned)__builtin_clzll(
				       (due - tick) | (TIMERS_BLOCK - 1))) /
			 TIMERS_BITS;

	if (level && slot_number(due, level) - slot_number(tick, level) < 2)
		level--;
	return level;
}

/* Below @below, where older ones that may be of the same tick wait to be
 * moved. */
static unsigned
level_among_moving(
	const struct timers *t, unsigned level, uint64_t due, unsigned below)
{
	for (unsigned l = below - 1; l > level; l--)
		if (is_occupied(t, l, slot_number(due, l)))
			return l;
	return level;
}

static inline void
place(struct timers *t, struct timer *timer, unsigned below)
{
	uint64_t due = tick_of_due(timer->due_ns);
	uint64_t number, begin;
	unsigned level, i;
	struct timer_slot *slot;

	if (due < t->tick)
		due = t->tick;
	level = level_of(t->tick, due);
	if (t->moving)
		level = level_among_moving(t, level, due, below);
	number = slot_number(due, level);
	begin = number << (level * TIMERS_BITS);
	if (begin < t->bound)
		t->bound = begin;
	i = slot_index(number);
	slot = &t->slots[level][i];
	timer->next = (struct timer *)slot;
	timer->link = slot->link;
	slot->link->next = timer;
	slot->link = timer;
	t->occupied[level][i / 64] |= UINT64_C(1) << (i % 64);
}

/* Take @timer out of its ring; an emptied slot is marked so. */
static inline void
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
	place(t, timer, TIMERS_LEVELS);
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

/* ---- what comes next ---------------------------------------------------- */

/* The number of the first occupied slot of @level from @first on, or
 * UINT64_MAX. */
static uint64_t
first_of_level(const struct timers *t, unsigned level, uint64_t first)
{
	const uint64_t *occupied = t->occupied[level];
	unsigned at = slot_index(first), i;
	uint64_t bits = occupied[at / 64] >> (at % 64);

	if (bits)
		return first + (unsigned)__builtin_ctzll(bits);
	for (unsigned w = 1; w <= TIMERS_WORDS; w++) {
		bits = occupied[(at / 64 + w) % TIMERS_WORDS];
		if (!bits)
			continue;
		i = w * 64 - at % 64 + (unsigned)__builtin_ctzll(bits);
		return first + i;
	}
	return UINT64_MAX;
}

/* The tick at which the first occupied slot begins, at this one if the tick is
 * in it; UINT64_MAX: there is none. */
static uint64_t
first_begin(struct timers *t)
{
	uint64_t first = UINT64_MAX;

	for (unsigned level = 0; level < TIMERS_LEVELS; level++) {
		uint64_t number =
			first_of_level(t, level, slot_number(t->tick, level));

		if (number == UINT64_MAX)
			continue;
		number <<= level * TIMERS_BITS;
		if (number < first)
			first = number;
		if (!t->moving)
			break;
	}
	t->bound = first;
	return first == UINT64_MAX || first > t->tick ? first : t->tick;
}

/* ---- moving ------------------------------------------------------------- */

static void
find_moving(struct timers *t)
{
	t->moving = 0;
	for (unsigned level = 1; level < TIMERS_LEVELS; level++) {
		uint64_t number = slot_number(t->tick, level);

		if (is_occupied(t, level, number) ||
			is_occupied(t, level, number + 1))
			t->moving |= 1u << level;
	}
}

static void
set_tick(struct timers *t, uint64_t tick)
{
	bool entered = slot_number(tick, 1) != slot_number(t->tick, 1);

	t->tick = tick;
	if (entered)
		find_moving(t);
}

/* Move what the slot holds to finer levels: false if that would be too many. */
static bool
move_slot(struct timers *t, unsigned level, uint64_t number, unsigned *n_moves)
{
	struct timer_slot *slot = &t->slots[level][slot_index(number)];

	while (!slot_is_empty(slot)) {
		struct timer *timer = slot->next;

		if (++*n_moves > TIMERS_MOVES_MAX)
			return false;
		unplace(t, timer);
		place(t, timer, level);
	}
	return true;
}

/* The slots that the tick is in: nothing fires before that is done. */
static bool
move_now(struct timers *t, unsigned *n_moves)
{
	for (unsigned level = TIMERS_LEVELS - 1; level > 0; level--)
		if ((t->moving >> level & 1) &&
			!move_slot(
				t, level, slot_number(t->tick, level), n_moves))
			return false;
	return true;
}

/* And then the slots after those. */
static void
move_ahead(struct timers *t, unsigned *n_moves)
{
	for (unsigned level = 1; level < TIMERS_LEVELS; level++) {
		if (!(t->moving >> level & 1))
			continue;
		if (!move_slot(
			    t, level, slot_number(t->tick, level) + 1, n_moves))
			return;
		t->moving &= ~(1u << level);
	}
}

struct timer *
timers_expire(struct timers *t, uint64_t now_ns)
{
	uint64_t now = now_ns >> TIMERS_SHIFT, begin;
	unsigned n_moves = 0;

	while (now >= t->tick && (!t->moving || move_now(t, &n_moves))) {
		struct timer_slot *due = &t->slots[0][slot_index(t->tick)];

		if (!slot_is_empty(due)) {
			struct timer *timer = due->next;

			timers_remove(t, timer);
			/* of a crowd, the one after the next is far away */
			__builtin_prefetch(due->next->next, 1);
			return timer;
		}
		begin = t->bound > now ? t->bound : first_begin(t);
		if (begin > now) {
			set_tick(t, now);
			if (t->moving)
				move_ahead(t, &n_moves);
			return NULL;
		}
		set_tick(t, begin);
	}
	return NULL;
}

static uint64_t
ns_of_tick(uint64_t tick)
{
	return tick < TICK_END ? tick << TIMERS_SHIFT : UINT64_MAX;
}

uint64_t
timers_next_ns(struct timers *t)
{
	return ns_of_tick(t->moving ? t->tick : first_begin(t));
}

uint64_t
timers_bound_ns(const struct timers *t)
{
	return ns_of_tick(t->moving ? t->tick : t->bound);
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
		place(t, timer, TIMERS_LEVELS);
		t->n++;
	}
}

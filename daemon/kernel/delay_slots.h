#pragma once
/* Where delays live, for their own files: inline, for a million of them are
 * found, chained and given back. One thread. */
#include "kernel/delays.h"
#include "kernel/idle.h"
#include "kernel/sched.h"

/* An id: scheduler, slot (the chunk and the index in it), generation. */
enum {
	DELAY_SCHED_BITS = 6,
	DELAY_SLOT_BITS = 24,
	DELAY_SLOT_MASK = (1 << DELAY_SLOT_BITS) - 1,
	DELAY_INDEX_BITS = 15,
	DELAY_INDEX_MASK = (1 << DELAY_INDEX_BITS) - 1,
	DELAY_GENERATION_AT = DELAY_SLOT_BITS + DELAY_SCHED_BITS,
	DELAY_GENERATION_MASK = 0xffffffff, /* above it: DELAY_ID_STORED */
};

static inline uint64_t
delay_sum(uint64_t a, uint64_t b)
{
	return b < UINT64_MAX - a ? a + b : UINT64_MAX;
}

static inline uint32_t
delay_slot_of(uint64_t id)
{
	return (uint32_t)(id >> DELAY_SCHED_BITS) & DELAY_SLOT_MASK;
}

static inline struct delay *
delay_slot_at(const struct delays *d, uint32_t slot)
{
	return &d->chunks[slot >> DELAY_INDEX_BITS]
			->delays[slot & DELAY_INDEX_MASK];
}

struct delay *delay_store_find(const struct delays *d, uint64_t id);

/* The pending one of that id, or NULL. An id may come from anybody. */
static inline struct delay *
delay_of_id(const struct delays *d, uint64_t id)
{
	uint32_t slot = delay_slot_of(id);
	struct delay *delay;

	if (!id || slot >= d->n_used ||
		(slot & DELAY_INDEX_MASK) >= DELAY_CHUNK)
		return delay_store_find(d, id);
	delay = delay_slot_at(d, slot);
	return delay->id == id ? delay : delay_store_find(d, id);
}

/* A free slot, with an id and armed nowhere. -ENOMEM. */
int delay_slot_take(struct delays *d, struct delay **out);
/* None is in use: keep @n_chunks of memory. */
void delay_slots_shrink(struct delays *d, uint32_t n_chunks);
/* The same, and some of it is kept. */
void delay_slots_none(struct delays *d);

static inline void
delay_slot_give(struct delays *d, struct delay *delay)
{
	uint32_t slot = delay_slot_of(delay->id);

	delay->id = 0;
	delay->next = d->free;
	d->free = slot + 1;
	if (--d->n == 0 && !d->n_dead)
		delay_slots_none(d);
}

/* Ids count from this bit on. */
static inline unsigned
delay_counted_from(uint64_t id)
{
	return delay_id_is_stored(id) ? 0 : DELAY_GENERATION_AT;
}

/* A timer of its own keeps its owner from being idle, but for those that do not
 * end with its state. */
static inline bool
delay_keeps_awake(const struct delay *delay)
{
	const uint8_t others = DELAY_SCHEDULE | DELAY_STORED;

	return (delay->timer.b & (DELAY_SELF | others)) == DELAY_SELF;
}

/* Into the list of its owner. */
void delay_list_in(
	struct delays *d, struct session *owner, struct delay *delay);

/* Out of it. The owner may have gone: then nobody looks at its first any
 * more. */
static inline void
delay_list_out(struct sched *s, struct delay *delay)
{
	struct delays *d = &s->delays;
	struct session *owner = NULL;

	if (!delay->prev || (delay->timer.b & DELAY_SELF))
		owner = session_find(s->kernel, delay->owner);
	if (delay->next)
		delay_slot_at(d, delay->next - 1)->prev = delay->prev;
	if (delay->prev)
		delay_slot_at(d, delay->prev - 1)->next = delay->next;
	else if (owner)
		owner->delays = delay->next;
	if (owner && delay_keeps_awake(delay)) {
		owner->n_timers--;
		if (owner->kin)
			idle_look(owner);
	}
}

/* Where delays live: slots in chunks that are never moved, found by the slot in
 * an id, and chained by owner. One thread. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/err.h"
#include "base/fault.h"
#include "kernel/delay_slots.h"
#include "kernel/sched.h"

enum {
	CHUNKS_KEPT = 1, /* when none is pending */
};

_Static_assert(sizeof(struct delay) == 64, "a cache line");
_Static_assert((int)DELAY_CHUNK <= (int)DELAY_INDEX_MASK, "bits enough");
_Static_assert(sizeof(struct delay_chunk) <= DELAY_CHUNK_SIZE, "a huge page");

/* ---- slots ------------------------------------------------------------- */

void
delays_init(struct delays *d, unsigned sched)
{
	memset(d, 0, sizeof(*d));
	d->sched = sched;
}

/* What of a mapping is not the chunk in it goes back. The first chunk takes
 * memory as it is used; those of a crowd come as huge pages, for a million
 * timers are mostly page faults and missed translations otherwise. */
static struct delay_chunk *
chunk_new(bool huge)
{
	const size_t size = DELAY_CHUNK_SIZE;
	uint8_t *map, *chunk;

	map = mmap(NULL, 2 * size, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (map == MAP_FAILED)
		return NULL;
	chunk = (uint8_t *)(((uintptr_t)map + size - 1) & ~(size - 1));
	if (chunk > map)
		munmap(map, (size_t)(chunk - map));
	munmap(chunk + size, size - (size_t)(chunk - map));
	madvise(chunk, size, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	return (struct delay_chunk *)chunk;
}

static void
chunk_free(struct delay_chunk *chunk)
{
	munmap(chunk, DELAY_CHUNK_SIZE);
}

static int
grow(struct delays *d)
{
	struct delay_chunk *chunk;

	if (d->n_chunks == d->max_chunks) {
		uint32_t max = d->max_chunks ? d->max_chunks * 2 : 4;
		struct delay_chunk **more =
			realloc(d->chunks, max * sizeof(*d->chunks));

		if (!more)
			return err_raise(-ENOMEM);
		d->chunks = more;
		d->max_chunks = max;
	}
	chunk = FAULT(delay_chunk) ? NULL : chunk_new(d->n_chunks > 0);
	if (!chunk)
		return err_raise(-ENOMEM);
	d->chunks[d->n_chunks++] = chunk;
	return 0;
}

int
delay_slot_take(struct delays *d, struct delay **out)
{
	uint32_t slot = d->free - 1;
	int r;

	if (d->free) {
		*out = delay_slot_at(d, slot);
		d->free = (*out)->next;
	} else {
		slot = d->n_used;
		if ((slot & DELAY_INDEX_MASK) == DELAY_CHUNK)
			slot = (slot | DELAY_INDEX_MASK) + 1;
		if (slot > DELAY_SLOT_MASK)
			return err_raise(-ENOMEM);
		if (slot >> DELAY_INDEX_BITS == d->n_chunks) {
			r = grow(d);
			if (r)
				return err_pass(r);
		}
		d->n_used = slot + 1;
		*out = delay_slot_at(d, slot);
	}
	d->n++;
	(*out)->timer.link = NULL;
	d->last = (d->last + 1) & DELAY_GENERATION_MASK;
	d->last += !d->last;
	(*out)->id = (d->last << DELAY_GENERATION_AT) |
		     ((uint64_t)slot << DELAY_SCHED_BITS) | d->sched;
	return 0;
}

void
delay_slots_shrink(struct delays *d, uint32_t n_chunks)
{
	while (d->n_chunks > n_chunks)
		chunk_free(d->chunks[--d->n_chunks]);
	d->n_used = d->free = 0;
}

void
delay_slots_none(struct delays *d)
{
	if (d->n_chunks > CHUNKS_KEPT)
		delay_slots_shrink(d, CHUNKS_KEPT);
}

enum delay_fate
delay_fate(const struct delays *d, uint64_t id)
{
	uint64_t generation = id >> DELAY_GENERATION_AT;

	if (delay_of_id(d, id))
		return DELAY_PENDING;
	if (!delay_id_is_stored(id) && (!generation || generation > d->last))
		return DELAY_NEVER_WAS;
	return delay_past_fate(&d->past, id, delay_counted_from(id));
}

struct delay *
delays_next(struct delays *d, uint64_t after)
{
	uint32_t i = after ? delay_slot_of(after) + 1 : 0;

	for (; i < d->n_used; i++) {
		if ((i & DELAY_INDEX_MASK) >= DELAY_CHUNK)
			i = (i | DELAY_INDEX_MASK) + 1;
		if (i < d->n_used && delay_slot_at(d, i)->id)
			return delay_slot_at(d, i);
	}
	return NULL;
}

/* ---- those of one owner ------------------------------------------------- */

struct delay *
delays_next_of(struct delays *d, const struct session *owner,
	const struct delay *delay)
{
	uint32_t next = delay ? delay->next : owner->delays;

	while (next) {
		struct delay *found = delay_slot_at(d, next - 1);

		if (found->id) /* it has not been cancelled */
			return found;
		next = found->next;
	}
	return NULL;
}

void
delay_list_in(struct delays *d, struct session *owner, struct delay *delay)
{
	uint32_t self = delay_slot_of(delay->id) + 1;

	delay->timer.b |= DELAY_LISTED;
	delay->prev = 0;
	delay->next = owner->delays;
	if (delay->next)
		delay_slot_at(d, delay->next - 1)->prev = self;
	owner->delays = self;
	owner->n_timers += delay_keeps_awake(delay);
}

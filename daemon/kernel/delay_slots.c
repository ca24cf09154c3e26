/* Where delays live: slots in chunks that are never moved, found by the slot in
 * an id, and chained by owner. One thread. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fault.h"
#include "kernel/delays.h"
#include "kernel/idle.h"
#include "kernel/sched.h"

enum {
	SCHED_BITS = 6,
	SLOT_BITS = 24,
	SLOT_MASK = (1 << SLOT_BITS) - 1,
	CHUNK = 1 << DELAY_CHUNK_BITS,
	CHUNKS_KEPT = 16, /* when none is pending */
};

/* ---- slots ------------------------------------------------------------- */

void
delays_init(struct delays *d, unsigned sched)
{
	memset(d, 0, sizeof(*d));
	d->sched = sched;
}

static uint32_t
slot_of(uint64_t id)
{
	return (uint32_t)(id >> SCHED_BITS) & SLOT_MASK;
}

static inline struct delay *
slot_at(const struct delays *d, uint32_t slot)
{
	return &d->chunks[slot >> DELAY_CHUNK_BITS][slot & (CHUNK - 1)];
}

static int
grow(struct delays *d)
{
	struct delay *chunk;

	if (d->n_chunks == d->max_chunks) {
		uint32_t max = d->max_chunks ? d->max_chunks * 2 : 4;
		struct delay **more =
			realloc(d->chunks, max * sizeof(struct delay *));

		if (!more)
			return err_raise(-ENOMEM);
		d->chunks = more;
		d->max_chunks = max;
	}
	chunk = FAULT(delay_chunk) ? NULL : malloc(CHUNK * sizeof(*chunk));
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
		*out = slot_at(d, slot);
		d->free = (*out)->next;
	} else {
		slot = d->n_used;
		if (slot > SLOT_MASK)
			return err_raise(-ENOMEM);
		if (slot >> DELAY_CHUNK_BITS == d->n_chunks) {
			r = grow(d);
			if (r)
				return err_pass(r);
		}
		d->n_used++;
		*out = slot_at(d, slot);
	}
	d->n++;
	(*out)->timer.link = NULL;
	(*out)->id = (++d->last << (SLOT_BITS + SCHED_BITS)) |
		     ((uint64_t)slot << SCHED_BITS) | d->sched;
	return 0;
}

/* Give memory back after a crowd has gone. */
static void
shrink(struct delays *d)
{
	while (d->n_chunks > CHUNKS_KEPT)
		free(d->chunks[--d->n_chunks]);
	d->n_used = d->free = 0;
}

void
delay_slot_give(struct delays *d, struct delay *delay)
{
	uint32_t slot = slot_of(delay->id);

	delay->id = 0;
	delay->next = d->free;
	d->free = slot + 1;
	if (--d->n == 0 && d->n_chunks > CHUNKS_KEPT)
		shrink(d);
}

struct delay *
delay_find(struct delays *d, uint64_t id)
{
	uint32_t slot = slot_of(id);
	struct delay *delay;

	if (!id || slot >= d->n_used)
		return NULL;
	delay = slot_at(d, slot);
	return delay->id == id ? delay : NULL;
}

struct delay *
delays_next(struct delays *d, uint64_t after)
{
	for (uint32_t i = after ? slot_of(after) + 1 : 0; i < d->n_used; i++)
		if (slot_at(d, i)->id)
			return slot_at(d, i);
	return NULL;
}

/* ---- those of one owner ------------------------------------------------- */

struct delay *
delays_next_of(struct delays *d, const struct session *owner,
	const struct delay *delay)
{
	uint32_t next = delay ? delay->next : owner->delays;

	return next ? slot_at(d, next - 1) : NULL;
}

/* A timer of its own keeps it from being idle; its schedule does not. */
static bool
keeps_awake(const struct delay *delay)
{
	return (delay->timer.b & (DELAY_SELF | DELAY_SCHEDULE)) == DELAY_SELF;
}

void
delay_list_in(struct delays *d, struct session *owner, struct delay *delay)
{
	uint32_t self = slot_of(delay->id) + 1;

	delay->timer.b |= DELAY_LISTED;
	delay->prev = 0;
	delay->next = owner->delays;
	if (delay->next)
		slot_at(d, delay->next - 1)->prev = self;
	owner->delays = self;
	owner->n_timers += keeps_awake(delay);
}

/* The owner may have gone: then nobody looks at its first any more. */
void
delay_list_out(struct sched *s, struct delay *delay)
{
	struct delays *d = &s->delays;
	struct session *owner = NULL;

	if (!delay->prev || (delay->timer.b & DELAY_SELF))
		owner = session_find(s->kernel, delay->owner);
	if (delay->next)
		slot_at(d, delay->next - 1)->prev = delay->prev;
	if (delay->prev)
		slot_at(d, delay->prev - 1)->next = delay->next;
	else if (owner)
		owner->delays = delay->next;
	if (owner && keeps_awake(delay)) {
		owner->n_timers--;
		idle_look(owner);
	}
}

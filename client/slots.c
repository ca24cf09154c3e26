/* Slots: see slots.h. Belongs to the thread that uses the handle. */
#include "slots.h"

#include <stdlib.h>
#include <string.h>

static int
slots_grow(struct slots *s)
{
	uint32_t size = s->size ? s->size * 2 : 16;
	struct slot *v = realloc(s->v, size * sizeof(*v));

	if (!v)
		return -1;
	s->v = v;
	s->size = size;
	return 0;
}

struct slot *
slots_add(struct slots *s, uint32_t max)
{
	uint32_t i;

	if (s->used >= max || s->used >= SLOTS_MAX)
		return NULL;
	if (s->free) {
		i = s->free - 1;
		s->free = s->v[i].next_free;
	} else {
		if (s->n == s->size && slots_grow(s))
			return NULL;
		i = s->n++;
	}
	s->used++;
	memset(&s->v[i], 0, sizeof(s->v[i]));
	s->v[i].number = ++s->generation << SLOTS_BITS | i;
	return &s->v[i];
}

struct slot *
slots_find(const struct slots *s, uint64_t number)
{
	uint32_t i = (uint32_t)(number & SLOTS_MAX);

	if (!number || i >= s->n || s->v[i].number != number)
		return NULL;
	return &s->v[i];
}

void
slots_remove(struct slots *s, struct slot *slot)
{
	slot->number = 0;
	slot->next_free = s->free;
	s->free = (uint32_t)(slot - s->v) + 1;
	s->used--;
}

void
slots_clear(struct slots *s)
{
	s->n = s->used = s->free = 0;
}

void
slots_deinit(struct slots *s)
{
	free(s->v);
	memset(s, 0, sizeof(*s));
}

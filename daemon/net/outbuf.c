#include "net/outbuf.h"

#include <stdlib.h>
#include <string.h>

void
outbuf_pool_deinit(struct outbuf_pool *pool)
{
	while (pool->n)
		free(pool->spares[--pool->n]);
	while (pool->n_small)
		free(pool->smalls[--pool->n_small]);
}

static void
give_block(struct outbuf *b, struct outbuf_pool *pool)
{
	if (b->room == OUTBUF_SMALL && pool->n_small < OUTBUF_SMALLS)
		pool->smalls[pool->n_small++] = b->data;
	else if (b->room == OUTBUF_BLOCK && pool->n < OUTBUF_SPARES)
		pool->spares[pool->n++] = b->data;
	else
		free(b->data);
	memset(b, 0, sizeof(*b));
}

void
outbuf_deinit(struct outbuf *b, struct outbuf_pool *pool)
{
	if (b->data)
		give_block(b, pool);
}

static uint8_t *
take_block(struct outbuf_pool *pool, size_t room)
{
	if (room == OUTBUF_SMALL && pool->n_small)
		return pool->smalls[--pool->n_small];
	if (room == OUTBUF_BLOCK && pool->n)
		return pool->spares[--pool->n];
	return malloc(room);
}

/* Of the block that takes so many bytes. */
static size_t
room_for(size_t size)
{
	size_t room = size > OUTBUF_SMALL ? OUTBUF_BLOCK : OUTBUF_SMALL;

	while (room < size)
		room *= 2;
	return room;
}

uint8_t *
outbuf_reserve(struct outbuf *b, struct outbuf_pool *pool, size_t size)
{
	size_t used = outbuf_size(b), room;
	struct outbuf bigger = {0};

	if (b->room - b->end >= size)
		return b->data + b->end;
	room = room_for(used + size);
	/* Room at the front, worth moving: never more than has left it, or a
	 * buffer that stays nearly full would be moved for each frame. */
	if (b->data && room <= b->room && b->start >= used) {
		memmove(b->data, b->data + b->start, used);
		b->start = 0;
		b->end = used;
		return b->data + b->end;
	}
	if (b->data && room <= b->room)
		room = room_for(b->room + 1);
	bigger.data = take_block(pool, room);
	if (!bigger.data)
		return NULL;
	bigger.room = room;
	bigger.end = used;
	if (b->data) {
		memcpy(bigger.data, b->data + b->start, used);
		give_block(b, pool);
	}
	*b = bigger;
	return b->data + b->end;
}

void
outbuf_consume(struct outbuf *b, struct outbuf_pool *pool, size_t size)
{
	b->start += size;
	if (b->start == b->end && b->data)
		give_block(b, pool);
}

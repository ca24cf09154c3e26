#include "net/outbuf.h"

#include <stdlib.h>
#include <string.h>

enum {
	SMALL_ROOM = OUTBUF_SMALL - sizeof(struct outblock),
	BLOCK_ROOM = OUTBUF_BLOCK - sizeof(struct outblock),
};

static struct outblock *
pop(struct outblock **list, unsigned *n)
{
	struct outblock *block = *list;

	*list = block->next;
	--*n;
	return block;
}

static void
push(struct outblock **list, unsigned *n, struct outblock *block)
{
	block->next = *list;
	*list = block;
	++*n;
}

void
outbuf_pool_deinit(struct outbuf_pool *pool)
{
	while (pool->n)
		free(pop(&pool->spares, &pool->n));
	while (pool->n_small)
		free(pop(&pool->smalls, &pool->n_small));
}

static void
give_block(struct outbuf_pool *pool, struct outblock *block)
{
	if (block->room == SMALL_ROOM && pool->n_small < OUTBUF_SMALLS)
		push(&pool->smalls, &pool->n_small, block);
	else if (block->room == BLOCK_ROOM && pool->n < OUTBUF_SPARES)
		push(&pool->spares, &pool->n, block);
	else
		free(block);
}

static struct outblock *
take_block(struct outbuf_pool *pool, size_t room)
{
	struct outblock *block;

	if (room == SMALL_ROOM && pool->n_small)
		block = pop(&pool->smalls, &pool->n_small);
	else if (room == BLOCK_ROOM && pool->n)
		block = pop(&pool->spares, &pool->n);
	else
		block = malloc(sizeof(*block) + room);
	if (block)
		*block = (struct outblock){.room = room};
	return block;
}

static void
drop_first(struct outbuf *b, struct outbuf_pool *pool)
{
	struct outblock *first = b->first;

	b->first = first->next;
	if (!b->first)
		b->last = NULL;
	give_block(pool, first);
}

void
outbuf_deinit(struct outbuf *b, struct outbuf_pool *pool)
{
	while (b->first)
		drop_first(b, pool);
	b->size = 0;
}

uint8_t *
outbuf_reserve_any(struct outbuf *b, struct outbuf_pool *pool, size_t size)
{
	size_t room = b->last || size > SMALL_ROOM ? BLOCK_ROOM : SMALL_ROOM;
	struct outblock *block = take_block(pool, size > room ? size : room);

	if (!block)
		return NULL;
	if (b->last)
		b->last->next = block;
	else
		b->first = block;
	b->last = block;
	return block->data;
}

size_t
outbuf_parts(const struct outbuf *b, size_t from, size_t size,
	struct iovec *parts, size_t *n)
{
	size_t done = 0, most = *n + OUTBUF_PARTS;

	for (struct outblock *at = b->first; at && done < size && *n < most;
		at = at->next) {
		size_t has = at->end - at->start;

		if (from >= has) {
			from -= has;
			continue;
		}
		has -= from;
		if (has > size - done)
			has = size - done;
		parts[(*n)++] =
			(struct iovec){at->data + at->start + from, has};
		from = 0;
		done += has;
	}
	return done;
}

void
outbuf_consume(struct outbuf *b, struct outbuf_pool *pool, size_t size)
{
	b->size -= size;
	while (b->first) {
		struct outblock *first = b->first;
		size_t has = first->end - first->start;

		if (size < has) {
			first->start += size;
			return;
		}
		size -= has;
		drop_first(b, pool);
	}
}

/* Arena: blocks, each at least twice the one before. One thread. */
#include "proto/arena.h"

#include <stdalign.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_MIN = 4096 - 64, ALIGN = alignof(max_align_t) };

struct arena_block {
	struct arena_block *next;
	size_t used, size;
	alignas(max_align_t) unsigned char data[];
};

static const bool keeps_nothing =
#if defined(__SANITIZE_ADDRESS__)
	true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
	true;
#else
	false;
#endif
#else
	false;
#endif

void
arena_init(struct arena *a, size_t limit)
{
	*a = (struct arena){.limit = limit};
}

static void
free_blocks(struct arena_block *block)
{
	for (struct arena_block *next; block; block = next) {
		next = block->next;
		free(block);
	}
}

void
arena_deinit(struct arena *a)
{
	free_blocks(a->blocks);
	a->blocks = NULL;
	a->used = 0;
}

static struct arena_block *
block_add(struct arena *a, size_t size)
{
	size_t good = a->blocks ? a->blocks->size * 2 : BLOCK_MIN;
	struct arena_block *block;

	if (good > a->limit)
		good = a->limit;
	if (good < size)
		good = size;
	block = malloc(sizeof(*block) + good);
	if (!block)
		return NULL;
	block->used = 0;
	block->size = good;
	block->next = a->blocks;
	a->blocks = block;
	return block;
}

void *
arena_alloc(struct arena *a, size_t size)
{
	struct arena_block *block = a->blocks;
	void *p;

	if (size > a->limit - a->used)
		return NULL;
	size = (size + ALIGN - 1) / ALIGN * ALIGN;
	if (size > a->limit - a->used)
		return NULL;
	if (!block || size > block->size - block->used)
		block = block_add(a, size);
	if (!block)
		return NULL;
	p = block->data + block->used;
	block->used += size;
	a->used += size;
	return memset(p, 0, size);
}

void
arena_reset(struct arena *a)
{
	struct arena_block *keep = a->blocks;

	a->used = 0;
	if (!keep)
		return;
	if (keeps_nothing || keep->size > ARENA_KEEP_MAX) {
		arena_deinit(a);
		return;
	}
	free_blocks(keep->next);
	keep->next = NULL;
	keep->used = 0;
}

static void *
on_alloc(void *data, size_t size)
{
	return arena_alloc(data, size);
}

static void
on_free(void *data, void *p)
{
	(void)data;
	(void)p;
}

ProtobufCAllocator
arena_allocator(struct arena *a)
{
	return (ProtobufCAllocator){
		.alloc = on_alloc, .free = on_free, .allocator_data = a};
}

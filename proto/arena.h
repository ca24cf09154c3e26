#pragma once
/* Arena: memory handed out by moving a mark, limited, zeroed, and taken back
 * all at once. For what protobuf-c unpacks from one read. One thread. */
#include <protobuf-c/protobuf-c.h>
#include <stddef.h>

struct arena_block;

struct arena {
	struct arena_block *blocks; /* the one in use first */
	size_t used;                /* bytes handed out since the last reset */
	size_t limit;               /* of those */
};

enum { ARENA_KEEP_MAX = 64 << 10 }; /* bytes kept over a reset */

/* Allocates nothing yet. */
void arena_init(struct arena *a, size_t limit);
void arena_deinit(struct arena *a);
/* @size zeroed bytes, aligned for any type, good until the next reset; NULL
 * when over the limit or out of memory. */
void *arena_alloc(struct arena *a, size_t size);
/* Take all back. AddressSanitizer builds free it, to find who still looks. */
void arena_reset(struct arena *a);
/* For protobuf-c: allocates from @a, which stays where it is; frees nothing. */
ProtobufCAllocator arena_allocator(struct arena *a);

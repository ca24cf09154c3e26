#pragma once
/* Depot: where all pools of messages get their memory and leave what they have
 * too much of, a batch at a time. Any thread.
 *
 * Blocks come from slabs of 2 MB and are first handed out in the order in which
 * they lie, so that what was queued in order lies in order. Of each class the
 * slabs after the first are of huge pages, if the system has some. A slab none
 * of whose blocks is in use any more goes back to the system, but for what the
 * depot keeps at hand. */
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"

enum {
	DEPOT_CLASSES = 15,
	DEPOT_BATCH = 64,         /* blocks */
	DEPOT_BLOCK_MAX = 4096,   /* bytes of the largest class */
	DEPOT_KEPT_MAX = 64 << 20 /* bytes at hand */
};

/* A block that nobody uses. */
struct depot_block {
	struct depot_block *next;
	struct depot_block *batch; /* of the first: the next batch */
};

struct depot {
	pthread_mutex_t lock;
	struct depot_block *batches[DEPOT_CLASSES];
	struct list open[DEPOT_CLASSES]; /* slabs that have blocks to give */
	struct list full;                /* slabs that have none */
	uint32_t n_slabs[DEPOT_CLASSES];
	size_t kept; /* bytes of batches */
};

/* Bytes of a block. */
extern const uint16_t depot_sizes[DEPOT_CLASSES];
/* The class for @size bytes; DEPOT_CLASSES if there is none so large. */
static inline unsigned
depot_class(size_t size)
{
	/* by (size - 1) / 32, up to 512 bytes; then / 256 */
	static const uint8_t small[16] = {
		0, 0, 0, 1, 2, 3, 4, 5, 6, 6, 6, 6, 7, 7, 7, 7};
	static const uint8_t large[16] = {
		7, 7, 8, 9, 10, 11, 12, 12, 13, 13, 13, 13, 14, 14, 14, 14};

	if (size <= 96)
		return 0;
	if (size <= sizeof(small) * 32)
		return small[(size - 1) / 32];
	if (size > DEPOT_BLOCK_MAX)
		return DEPOT_CLASSES;
	return large[(size - 1) / 256];
}

void depot_init(struct depot *d);
/* Takes what is still in use away as well. */
void depot_deinit(struct depot *d);
/* A chain of up to DEPOT_BATCH blocks, how many in *@n; NULL: out of memory. */
struct depot_block *depot_take(struct depot *d, unsigned class, uint32_t *n);
/* A chain of DEPOT_BATCH. */
void depot_give(struct depot *d, unsigned class, struct depot_block *batch);
/* A chain of any number of blocks of any classes, all of one depot. */
void depot_return(struct depot_block *chain);

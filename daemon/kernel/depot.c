/* Depot: see depot.h. All is under its lock. */
#include "kernel/depot.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/pages.h"

enum { SLAB_SIZE = PAGES_HUGE, HEAD_SIZE = 128 };

struct slab {
	struct list link; /* in depot.open or depot.full */
	struct depot *depot;
	struct depot_block *free;
	uint32_t class;
	uint32_t n_free;
	uint32_t n_carved; /* ever handed out */
	uint32_t n_max;
	bool is_open;
};

_Static_assert(sizeof(struct slab) <= HEAD_SIZE, "blocks come behind it");

const uint16_t depot_sizes[DEPOT_CLASSES] = {96, 128, 160, 192, 224, 256, 384,
	512, 768, 1024, 1280, 1536, 2048, 3072, DEPOT_BLOCK_MAX};

void
depot_init(struct depot *d)
{
	memset(d, 0, sizeof(*d));
	pthread_mutex_init(&d->lock, NULL);
	list_init(&d->full);
	for (unsigned c = 0; c < DEPOT_CLASSES; c++)
		list_init(&d->open[c]);
}

/* ---- slabs --------------------------------------------------------------- */

static struct slab *
slab_new(struct depot *d, unsigned class)
{
	struct slab *slab = FAULT(slab_new) ? NULL : pages_map(SLAB_SIZE);

	if (!slab)
		return NULL;
	/* The first may never be full: it takes the pages that it needs. */
	if (d->n_slabs[class])
		pages_are_huge(slab, SLAB_SIZE);
	d->n_slabs[class]++;
	slab->depot = d;
	slab->class = class;
	slab->n_max = (SLAB_SIZE - HEAD_SIZE) / depot_sizes[class];
	slab->is_open = true;
	list_append(&d->open[class], &slab->link);
	return slab;
}

static void
slab_free(struct slab *slab)
{
	slab->depot->n_slabs[slab->class]--;
	list_remove(&slab->link);
	pages_unmap(slab, SLAB_SIZE);
}

static struct slab *
slab_of(const void *block)
{
	return (struct slab *)((uintptr_t)block & ~(uintptr_t)(SLAB_SIZE - 1));
}

/* Its next block, or NULL. */
static struct depot_block *
slab_take(struct slab *slab)
{
	struct depot_block *block = slab->free;

	if (block) {
		slab->free = block->next;
		slab->n_free--;
		return block;
	}
	if (slab->n_carved == slab->n_max)
		return NULL;
	block = (void *)((uint8_t *)slab + HEAD_SIZE +
			 (size_t)slab->n_carved * depot_sizes[slab->class]);
	slab->n_carved++;
	return block;
}

static bool
list_has_one(const struct list *list)
{
	return list->next == list->prev;
}

static void
slab_give(struct slab *slab, struct depot_block *block)
{
	struct list *open = &slab->depot->open[slab->class];

	block->next = slab->free;
	slab->free = block;
	slab->n_free++;
	if (!slab->is_open) {
		slab->is_open = true;
		list_remove(&slab->link);
		list_append(open, &slab->link);
	} else if (slab->n_free == slab->n_carved && !list_has_one(open)) {
		slab_free(slab);
	}
}

/* ---- batches ------------------------------------------------------------- */

/* Of one slab, in order. */
static struct depot_block *
gather(struct slab *slab, uint32_t *n)
{
	struct depot_block *first = NULL, **tail = &first, *block;

	while (*n < DEPOT_BATCH && (block = slab_take(slab))) {
		*tail = block;
		tail = &block->next;
		++*n;
	}
	*tail = NULL;
	return first;
}

static struct depot_block *
take_locked(struct depot *d, unsigned class, uint32_t *n)
{
	struct depot_block *batch = d->batches[class];
	struct slab *slab;

	if (batch) {
		d->batches[class] = batch->batch;
		d->kept -= (size_t)DEPOT_BATCH * depot_sizes[class];
		*n = DEPOT_BATCH;
		return batch;
	}
	slab = list_is_empty(&d->open[class])
		       ? slab_new(d, class)
		       : container_of(d->open[class].next, struct slab, link);
	if (!slab)
		return NULL;
	*n = 0;
	batch = gather(slab, n);
	if (!slab->free && slab->n_carved == slab->n_max) {
		slab->is_open = false;
		list_remove(&slab->link);
		list_append(&d->full, &slab->link);
	}
	return batch;
}

struct depot_block *
depot_take(struct depot *d, unsigned class, uint32_t *n)
{
	struct depot_block *batch;

	pthread_mutex_lock(&d->lock);
	batch = take_locked(d, class, n);
	pthread_mutex_unlock(&d->lock);
	return batch;
}

static void
return_locked(struct depot_block *chain)
{
	for (struct depot_block *next; chain; chain = next) {
		next = chain->next;
		slab_give(slab_of(chain), chain);
	}
}

void
depot_give(struct depot *d, unsigned class, struct depot_block *batch)
{
	size_t size = (size_t)DEPOT_BATCH * depot_sizes[class];

	pthread_mutex_lock(&d->lock);
	if (d->kept + size <= DEPOT_KEPT_MAX) {
		batch->batch = d->batches[class];
		d->batches[class] = batch;
		d->kept += size;
	} else {
		return_locked(batch);
	}
	pthread_mutex_unlock(&d->lock);
}

void
depot_return(struct depot_block *chain)
{
	struct depot *d;

	if (!chain)
		return;
	d = slab_of(chain)->depot;
	pthread_mutex_lock(&d->lock);
	return_locked(chain);
	pthread_mutex_unlock(&d->lock);
}

static void
free_all(struct list *slabs)
{
	LIST_FOREACH (node, slabs)
		slab_free(container_of(node, struct slab, link));
}

void
depot_deinit(struct depot *d)
{
	for (unsigned c = 0; c < DEPOT_CLASSES; c++)
		free_all(&d->open[c]);
	free_all(&d->full);
	pthread_mutex_destroy(&d->lock);
}

/* Epochs: quiescent-state-based reclamation.
 *
 * Why an item is not freed while a reader may hold a pointer to it. Let the
 * retiring thread unlink the item (U), then count the epoch up to N (C), a
 * release under the lock, and later, under the lock, look at each reader's
 * `seen` (L). The item is freed if each reader is offline or has seen >= N.
 *
 * - A reader whose `seen` is v >= N has loaded v from `now` with acquire: C, or
 *   a later count, before which C happened by the lock, happens before that
 *   load, and so does U: whatever the reader finds from then on, it is not the
 *   item. What it found earlier it had given up when it stored v with release,
 *   and L, which read v with acquire, comes after that.
 * - A reader with 0 < v < N may hold it: the item stays. That the reader's
 *   store may become visible late only errs to this side.
 * - A reader that looks offline may be going online at this moment. So L is
 *   then done again by an atomic addition of 0, and epoch_online() is an
 *   exchange: both are read-modify-writes of one object and thus have an order.
 *   If the addition is first, the exchange reads from it and U happens before
 *   all that the reader finds afterwards. If it is second, it returns the v
 *   that the exchange wrote, and one of the cases above applies. (Two plain
 *   accesses with seq_cst fences would do, too, but fences are invisible to
 *   ThreadSanitizer.)
 *
 * The lock orders retiring threads, so the list is in order of retired_at. */
#include "kernel/epoch.h"

#include <assert.h>

#include "base/err.h"

enum { LOOK_EVERY = 64 }; /* that many retired: some may be free by now */

void
epoch_init(struct epoch *e)
{
	atomic_init(&e->now, 1);
	pthread_mutex_init(&e->lock, NULL);
	e->n_readers = 0;
	e->retired = NULL;
	e->retired_tail = &e->retired;
	atomic_init(&e->n_retired, 0);
}

static void
free_chain(struct epoch_item *item)
{
	for (struct epoch_item *next; item; item = next) {
		next = item->next;
		item->free(item);
	}
}

void
epoch_deinit(struct epoch *e)
{
	assert(e->n_readers == 0);
	free_chain(e->retired);
	e->retired = NULL;
	e->retired_tail = &e->retired;
	pthread_mutex_destroy(&e->lock);
}

int
epoch_join(struct epoch *e, struct epoch_reader *r)
{
	int result = 0;

	atomic_store_explicit(&r->seen, 0, memory_order_relaxed);
	pthread_mutex_lock(&e->lock);
	if (e->n_readers < EPOCH_READERS_MAX)
		e->readers[e->n_readers++] = r;
	else
		result = err_raise(-ENOSPC);
	pthread_mutex_unlock(&e->lock);
	return result;
}

void
epoch_leave(struct epoch *e, struct epoch_reader *r)
{
	assert(atomic_load_explicit(&r->seen, memory_order_relaxed) == 0);
	pthread_mutex_lock(&e->lock);
	for (size_t i = 0; i < e->n_readers; i++) {
		if (e->readers[i] == r) {
			e->readers[i] = e->readers[--e->n_readers];
			break;
		}
	}
	pthread_mutex_unlock(&e->lock);
}

/* What was retired up to this epoch is out of reach. Under the lock. */
static uint64_t
oldest_seen(struct epoch *e)
{
	uint64_t oldest = UINT64_MAX;

	for (size_t i = 0; i < e->n_readers; i++) {
		_Atomic uint64_t *at = &e->readers[i]->seen;
		uint64_t seen = atomic_load_explicit(at, memory_order_acquire);

		if (seen == 0)
			seen = atomic_fetch_add_explicit(
				at, 0, memory_order_acq_rel);
		if (seen != 0 && seen < oldest)
			oldest = seen;
	}
	return oldest;
}

/* So many more, or less; under the lock, which makes a plain store do. */
static size_t
count(struct epoch *e, size_t n)
{
	n += atomic_load_explicit(&e->n_retired, memory_order_relaxed);
	atomic_store_explicit(&e->n_retired, n, memory_order_relaxed);
	return n;
}

/* Detach what may be freed. Under the lock. */
static struct epoch_item *
take_free(struct epoch *e)
{
	uint64_t oldest = e->retired ? oldest_seen(e) : 0;
	struct epoch_item *first = e->retired, **link = &first;
	size_t n = 0;

	for (; *link && (*link)->retired_at <= oldest; n++)
		link = &(*link)->next;
	count(e, 0 - n);
	e->retired = *link;
	if (!e->retired)
		e->retired_tail = &e->retired;
	*link = NULL;
	return first;
}

void
epoch_retire(struct epoch *e, struct epoch_item *item,
	void (*free)(struct epoch_item *item))
{
	struct epoch_item *out = NULL;
	uint64_t now;

	item->free = free;
	item->next = NULL;
	pthread_mutex_lock(&e->lock);
	now = 1 + atomic_load_explicit(&e->now, memory_order_relaxed);
	atomic_store_explicit(&e->now, now, memory_order_release);
	item->retired_at = now;
	*e->retired_tail = item;
	e->retired_tail = &item->next;
	if (count(e, 1) % LOOK_EVERY == 0)
		out = take_free(e);
	pthread_mutex_unlock(&e->lock);
	free_chain(out);
}

void
epoch_collect_now(struct epoch *e)
{
	struct epoch_item *out;

	pthread_mutex_lock(&e->lock);
	out = take_free(e);
	pthread_mutex_unlock(&e->lock);
	free_chain(out);
}

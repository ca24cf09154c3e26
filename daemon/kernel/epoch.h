#pragma once
/* Epochs: when may memory that other threads read without a lock be freed?
 * Quiescent-state-based reclamation (as in liburcu's QSBR flavour): every
 * reader thread says now and then that it holds no such pointer; what was
 * retired before all have said so may go.
 *
 * A reader is online while its thread runs a turn and offline while it
 * sleeps; offline readers hold nothing up. */
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { EPOCH_READERS_MAX = 256 };

struct epoch_item {
	struct epoch_item *next;
	uint64_t retired_at; /* the epoch it began by being retired */
	void (*free)(struct epoch_item *item);
};

struct epoch_reader {
	_Alignas(64) _Atomic uint64_t seen; /* 0: offline */
};

struct epoch {
	_Atomic uint64_t now; /* counts what was retired, from 1 */
	pthread_mutex_t lock; /* of all below */
	struct epoch_reader *readers[EPOCH_READERS_MAX];
	size_t n_readers;
	struct epoch_item *retired, **retired_tail;
	_Atomic size_t n_retired; /* written under the lock */
};

void epoch_init(struct epoch *e);
void epoch_deinit(struct epoch *e); /* frees all that is retired */
int epoch_join(struct epoch *e, struct epoch_reader *r); /* offline; -ENOSPC */
void epoch_leave(struct epoch *e, struct epoch_reader *r); /* offline */

/* The reader's own thread: from here on it may find pointers ... An exchange,
 * because epoch_retire() must not miss it: see epoch.c. */
static inline void
epoch_online(struct epoch *e, struct epoch_reader *r)
{
	uint64_t now = atomic_load_explicit(&e->now, memory_order_acquire);

	atomic_exchange_explicit(&r->seen, now, memory_order_acq_rel);
}

/* ... it holds none at this moment ... */
static inline void
epoch_quiescent(struct epoch *e, struct epoch_reader *r)
{
	uint64_t now = atomic_load_explicit(&e->now, memory_order_acquire);

	if (atomic_load_explicit(&r->seen, memory_order_relaxed) != now)
		atomic_store_explicit(&r->seen, now, memory_order_release);
}

/* ... or until it is online again. */
static inline void
epoch_offline(struct epoch_reader *r)
{
	atomic_store_explicit(&r->seen, 0, memory_order_release);
}

/* @item is unreachable for new readers: free it once all have moved on. Any
 * thread. When many wait it frees those that have become free, too. */
void epoch_retire(struct epoch *e, struct epoch_item *item,
	void (*free)(struct epoch_item *item));
void epoch_collect_now(struct epoch *e);
/* Free what has become free since, so that it does not wait for the next
 * epoch_retire(); for an owner that has time. Cheap when nothing waits. Any
 * thread. */
static inline void
epoch_collect(struct epoch *e)
{
	if (atomic_load_explicit(&e->n_retired, memory_order_relaxed) > 0)
		epoch_collect_now(e);
}

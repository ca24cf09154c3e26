#include "kernel/slots.h"

#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "kernel/sched.h"

static struct session *
slot_new(struct sessions *table)
{
	uint32_t slot = table->n_slots + 1;
	_Atomic(struct session *) *where;
	struct session *chunk, *s;

	if (slot > SESSION_SLOT_MASK)
		return NULL;
	where = &table->chunks[slot >> SESSION_CHUNK_BITS];
	chunk = atomic_load(where);
	if (!chunk) {
		chunk = FAULT(session_chunk) ? NULL
					     : calloc(1u << SESSION_CHUNK_BITS,
						       sizeof(*chunk));
		if (!chunk)
			return NULL;
		atomic_store_explicit(where, chunk, memory_order_release);
	}
	table->n_slots = slot;
	s = &chunk[slot & SESSION_CHUNK_MASK];
	s->last_id = slot;
	return s;
}

struct session *
slots_take(struct sched *sched)
{
	struct sessions *table = &sched->kernel->sessions;
	struct session *s = NULL;
	uint64_t id;

	pthread_mutex_lock(&table->lock);
	if (atomic_load(&table->n) < sched->kernel->limits.max_sessions) {
		s = table->free;
		if (s)
			table->free = s->next;
		else
			s = slot_new(table);
		if (s)
			atomic_fetch_add(&table->n, 1);
	}
	pthread_mutex_unlock(&table->lock);
	if (!s)
		return NULL;
	id = s->last_id;
	memset((char *)s + offsetof(struct session, next), 0,
		sizeof(*s) - offsetof(struct session, next));
	s->last_id = id;
	atomic_store_explicit(&s->home, sched, memory_order_relaxed);
	return s;
}

void
slots_give(struct sched *sched, struct session *s)
{
	struct sessions *table = &sched->kernel->sessions;

	s->last_id += 1ull << SESSION_SLOT_BITS;
	pthread_mutex_lock(&table->lock);
	s->next = table->free;
	table->free = s;
	atomic_fetch_sub(&table->n, 1);
	pthread_mutex_unlock(&table->lock);
}

#include "kernel/slots.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/pages.h"
#include "kernel/sched.h"

enum { SLOTS_AHEAD = 1024 }; /* get their memory at once */

int
slots_init(struct sessions *table, uint32_t n_max)
{
	if (n_max > SESSION_SLOT_MASK)
		n_max = SESSION_SLOT_MASK;
	table->all = calloc(n_max + 1u, sizeof(*table->all));
	if (!table->all)
		return err_raise(-ENOMEM);
	table->n_max = n_max;
	/* No id is that of slot 0: 0, too, finds nobody. */
	atomic_store(&table->all[0].id, UINT64_MAX);
	pthread_mutex_init(&table->lock, NULL);
	return 0;
}

void
slots_deinit(struct sessions *table)
{
	free(table->all);
	pthread_mutex_destroy(&table->lock);
}

/* The slots from @slot on come into use. */
static void
expect(struct sessions *table, uint32_t slot)
{
	uint32_t n = table->n_max + 1 - slot;

	pages_expect(&table->all[slot],
		(n < SLOTS_AHEAD ? n : SLOTS_AHEAD) * sizeof(*table->all));
}

static struct session *
slot_new(struct sessions *table)
{
	uint32_t slot = table->n_slots + 1;
	struct session *s = &table->all[slot];

	if (slot > table->n_max || FAULT(session_slot))
		return NULL;
	if (slot % SLOTS_AHEAD == 0)
		expect(table, slot);
	table->n_slots = slot;
	s->last_id = slot;
	return s;
}

/* One more or, with UINT32_MAX, less; under the lock. */
static void
count(struct sessions *table, uint32_t n)
{
	atomic_store_explicit(&table->n, table->n + n, memory_order_relaxed);
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
			count(table, 1);
	}
	pthread_mutex_unlock(&table->lock);
	if (!s)
		return NULL;
	id = s->last_id;
	memset((char *)s + offsetof(struct session, ops), 0,
		sizeof(*s) - offsetof(struct session, ops));
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
	count(table, UINT32_MAX);
	pthread_mutex_unlock(&table->lock);
}

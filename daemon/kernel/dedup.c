#include "kernel/dedup.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/hash.h"

enum { ROOM_MIN = 16 };

void
dedup_deinit(struct dedup *d)
{
	free(d->ring);
	free(d->buckets);
	*d = (struct dedup){.ring = NULL};
}

static void
chain(struct dedup *d, uint32_t place)
{
	struct dedup_entry *entry = &d->ring[place];
	uint32_t *bucket = &d->buckets[entry->hash & (d->room - 1)];

	entry->next = *bucket;
	*bucket = place + 1;
}

static int
grow(struct dedup *d)
{
	uint32_t room = d->room ? d->room * 2 : ROOM_MIN;
	struct dedup old = *d;

	d->ring = FAULT(dedup_grow) ? NULL : calloc(room, sizeof(*d->ring));
	d->buckets = calloc(room, sizeof(*d->buckets));
	if (!d->ring || !d->buckets) {
		free(d->ring);
		free(d->buckets);
		*d = old;
		return err_raise(-ENOMEM);
	}
	d->room = room;
	d->oldest = 0;
	for (uint32_t i = 0; i < old.n; i++) {
		d->ring[i] = old.ring[(old.oldest + i) & (old.room - 1)];
		if (d->ring[i].size)
			chain(d, i);
	}
	free(old.ring);
	free(old.buckets);
	return 0;
}

struct dedup_entry *
dedup_find(
	struct dedup *d, const uint64_t seed[2], const char *key, uint8_t size)
{
	uint64_t hash = hash_bytes(seed, key, size);
	uint32_t place;

	if (!d->n)
		return NULL;
	place = d->buckets[hash & (d->room - 1)];
	for (; place; place = d->ring[place - 1].next) {
		struct dedup_entry *entry = &d->ring[place - 1];

		if (entry->hash == hash && entry->size == size &&
			memcmp(entry->key, key, size) == 0)
			return entry;
	}
	return NULL;
}

int
dedup_add(struct dedup *d, const uint64_t seed[2], const char *key,
	uint8_t size, uint64_t now_ns)
{
	struct dedup_entry *entry;
	uint32_t place;

	if (d->n == d->room) {
		int r = grow(d);

		if (r)
			return err_pass(r);
	}
	place = (d->oldest + d->n) & (d->room - 1);
	entry = &d->ring[place];
	*entry = (struct dedup_entry){
		.hash = hash_bytes(seed, key, size),
		.since_ns = now_ns,
		.pending = true,
		.size = size,
	};
	memcpy(entry->key, key, size);
	d->n++;
	chain(d, place);
	return 0;
}

/* Its place in the ring is given up when it is the oldest. */
void
dedup_forget(struct dedup *d, struct dedup_entry *entry)
{
	uint32_t place = (uint32_t)(entry - d->ring) + 1;
	uint32_t *link = &d->buckets[entry->hash & (d->room - 1)];

	while (*link != place)
		link = &d->ring[*link - 1].next;
	*link = entry->next;
	entry->size = 0;
	entry->pending = false;
}

struct msg_queue
dedup_drop_oldest(struct dedup *d)
{
	struct dedup_entry *entry = &d->ring[d->oldest];
	struct msg_queue waiting = entry->waiting;

	if (entry->size)
		dedup_forget(d, entry);
	entry->waiting.head = NULL;
	d->oldest = (d->oldest + 1) & (d->room - 1);
	d->n--;
	return waiting;
}

const struct dedup_entry *
dedup_expired(const struct dedup *d, uint64_t now_ns, uint64_t window_ns)
{
	const struct dedup_entry *entry = d->n ? &d->ring[d->oldest] : NULL;

	if (!entry || entry->pending ||
		(entry->size && now_ns - entry->since_ns < window_ns))
		return NULL;
	return entry;
}

void
dedup_expire(struct dedup *d, uint64_t now_ns, uint64_t window_ns)
{
	while (dedup_expired(d, now_ns, window_ns))
		dedup_drop_oldest(d);
}

#pragma once
/* Dedup: the idempotency keys of the events that a session accepted last, so
 * that a post sent again is accepted once. A ring, oldest first, indexed by a
 * hash. One thread. */
#include <stdbool.h>
#include <stdint.h>

#include "kernel/msg.h"

struct dedup_entry {
	uint64_t hash;
	uint64_t since_ns; /* accepted then, monotonic */
	uint64_t event;    /* its id; 0: of another run */
	uint32_t next;     /* of its bucket: place in the ring + 1 */
	bool pending;      /* its event has not ended */
	uint8_t size;      /* of the key; 0: forgotten */
	uint16_t status;   /* how its event ended */
	char key[MSG_KEY_MAX];
	struct msg_queue waiting; /* repeated posts: told how it ends */
};

struct dedup {
	struct dedup_entry *ring;
	uint32_t *buckets; /* as many as the ring has places */
	uint32_t oldest, n, room;
};

void dedup_deinit(struct dedup *d); /* nobody waits */
/* Forget those accepted @window_ns ago whose events have ended. */
void dedup_expire(struct dedup *d, uint64_t now_ns, uint64_t window_ns);
/* The oldest, if it is such a one; or NULL. */
const struct dedup_entry *dedup_expired(
	const struct dedup *d, uint64_t now_ns, uint64_t window_ns);
/* NULL: not known. @seed is the hash's. */
struct dedup_entry *dedup_find(
	struct dedup *d, const uint64_t seed[2], const char *key, uint8_t size);
/* Note one that is not known; pending. 0 or -ENOMEM. */
int dedup_add(struct dedup *d, const uint64_t seed[2], const char *key,
	uint8_t size, uint64_t now_ns);
void dedup_forget(struct dedup *d, struct dedup_entry *entry);
/* There is one. */
static inline const struct dedup_entry *
dedup_oldest(const struct dedup *d)
{
	return &d->ring[d->oldest];
}
static inline struct dedup_entry *
dedup_newest(const struct dedup *d)
{
	return &d->ring[(d->oldest + d->n - 1) & (d->room - 1)];
}
/* To make room: who waited for it. There is one. */
struct msg_queue dedup_drop_oldest(struct dedup *d);

/* Message allocation: free lists by size class in front of malloc().
 *
 * A pool is one scheduler's; a message may end in another pool than it came
 * from, and comes back by the depot. AddressSanitizer builds go straight
 * to malloc(), so that a use after msg_free() is found. */
#include "kernel/msg.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"

#if defined(__SANITIZE_ADDRESS__)
#define POOL_BYPASS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define POOL_BYPASS 1
#endif
#endif
#ifndef POOL_BYPASS
#define POOL_BYPASS 0
#endif

enum {
	CLASS_STEP = 64,
	CLASS_MAX = 4096, /* bytes of the largest class */
	CLASS_HEAP = MSG_CLASSES,
	HEAD_SIZE = offsetof(struct msg, data),
	DEPOT_MAX = 64 << 20, /* bytes kept for reuse */
};

/* Bytes of the whole block. */
static const uint16_t class_sizes[MSG_CLASSES] = {
	128, 192, 256, 512, 1024, 2048, CLASS_MAX};

static inline unsigned
class_of(size_t total)
{
	/* by (total - 1) / CLASS_STEP, up to 512 bytes */
	static const uint8_t small[8] = {0, 0, 1, 2, 3, 3, 3, 3};

	if (POOL_BYPASS || total > CLASS_MAX)
		return CLASS_HEAP;
	if (total <= sizeof(small) * CLASS_STEP)
		return small[(total - 1) / CLASS_STEP];
	return total <= 1024 ? 4 : total <= 2048 ? 5 : 6;
}

/* ---- the depot --------------------------------------------------------- */

static void
chain_free(struct msg *m)
{
	for (struct msg *next; m; m = next) {
		next = msg_next(m);
		free(m);
	}
}

void
msg_depot_init(struct msg_depot *d)
{
	memset(d, 0, sizeof(*d));
	pthread_mutex_init(&d->lock, NULL);
}

static struct msg *
depot_take(struct msg_depot *d, unsigned c)
{
	struct msg *batch;

	if (!d)
		return NULL;
	pthread_mutex_lock(&d->lock);
	batch = d->batches[c];
	if (batch) {
		d->batches[c] = (struct msg *)batch->timer.link;
		d->size -= (size_t)MSG_POOL_BATCH * class_sizes[c];
		batch->timer.link = NULL;
	}
	pthread_mutex_unlock(&d->lock);
	return batch;
}

static void
depot_give(struct msg_depot *d, unsigned c, struct msg *batch)
{
	size_t size = (size_t)MSG_POOL_BATCH * class_sizes[c];
	bool kept = false;

	if (d) {
		pthread_mutex_lock(&d->lock);
		kept = d->size + size <= DEPOT_MAX;
		if (kept) {
			batch->timer.link = (struct timer *)d->batches[c];
			d->batches[c] = batch;
			d->size += size;
		}
		pthread_mutex_unlock(&d->lock);
	}
	if (!kept)
		chain_free(batch);
}

void
msg_depot_deinit(struct msg_depot *d)
{
	struct msg *batch;

	for (unsigned c = 0; c < MSG_CLASSES; c++)
		while ((batch = depot_take(d, c)))
			chain_free(batch);
	pthread_mutex_destroy(&d->lock);
}

/* ---- pools ------------------------------------------------------------- */

void
msg_pool_init(struct msg_pool *p, struct msg_depot *depot)
{
	memset(p, 0, sizeof(*p));
	p->depot = depot;
	for (unsigned c = 0; c < MSG_CLASSES; c++)
		p->room[c] = MSG_POOL_BATCH;
}

void
msg_pool_deinit(struct msg_pool *p)
{
	for (unsigned c = 0; c < MSG_CLASSES; c++) {
		chain_free(p->free[c]);
		chain_free(p->full[c]);
	}
	msg_pool_init(p, p->depot);
}

/* `free` is empty: a batch for it. False: there is none. */
__attribute__((noinline)) static bool
pool_refill(struct msg_pool *p, unsigned c)
{
	p->free[c] = p->full[c] ? p->full[c] : depot_take(p->depot, c);
	p->full[c] = NULL;
	if (!p->free[c])
		return false;
	p->room[c] = 0;
	return true;
}

/* In pieces, because gcc makes one memset() of this size `rep stos`, which
 * takes 20 ns to get going. */
static inline void
zero_head(struct msg *m)
{
	const size_t piece = 64;
	uint8_t *bytes = (uint8_t *)m;

	_Static_assert(
		HEAD_SIZE > 64 && HEAD_SIZE <= 128, "the header is two pieces");
	memset(bytes, 0, piece);
	memset(bytes + piece, 0, HEAD_SIZE - piece);
}

/* A block of @total bytes, its header zero. */
static inline struct msg *
block_take(struct msg_pool *p, size_t total)
{
	unsigned c = class_of(total);
	struct msg *m;

	if (p && c < CLASS_HEAP && (p->free[c] || pool_refill(p, c))) {
		m = p->free[c];
		p->free[c] = msg_next(m);
		p->room[c]++;
	} else {
		m = malloc(c < CLASS_HEAP ? class_sizes[c] : total);
		if (!m)
			return NULL;
	}
	zero_head(m);
	m->pool_class = (uint8_t)c;
	return m;
}

/* Lay the event name behind @end, or point at it where it is. */
static void
put_event(struct msg *m, const struct msg_init *init, uint8_t *end)
{
	m->event_size = init->event_size;
	if (init->event_static) {
		m->event = init->event;
		return;
	}
	if (init->event_size)
		memcpy(end, init->event, init->event_size);
	end[init->event_size] = 0;
	m->event = (const char *)end;
}

static bool
event_is_own(const struct msg *m)
{
	const uint8_t *own = msg_headers(m) + m->headers_size;

	return m->event == (const char *)own;
}

struct msg_extra *
msg_extra_at(const struct msg *m)
{
	const uint8_t *end = msg_headers(m) + m->headers_size;

	if (event_is_own(m))
		end += m->event_size + 1;
	return (struct msg_extra *)(((uintptr_t)end + 7) & ~(uintptr_t)7);
}

void
msg_live(struct msg *m, uint64_t now_ns, uint64_t ttl_ns)
{
	struct msg_extra *extra = msg_extra_at(m);

	extra->ttl_ns = ttl_ns;
	extra->expires_ns = 0;
	if (ttl_ns && ttl_ns < UINT64_MAX - now_ns)
		extra->expires_ns = now_ns + ttl_ns;
}

/* Room for a struct msg_extra, wherever its alignment puts it. */
enum { EXTRA_ROOM = sizeof(struct msg_extra) + 7 };

struct msg *
msg_new(struct msg_pool *p, const struct msg_init *init)
{
	size_t event_room = init->event_static ? 0 : init->event_size + 1u;
	size_t total = HEAD_SIZE + (size_t)init->size + 1 + init->headers_size +
		       event_room;
	struct msg *m;
	uint8_t *end;

	if (init->extra)
		total += EXTRA_ROOM;
	assert(init->size <= MSG_PAYLOAD_MAX &&
		init->headers_size <= MSG_PAYLOAD_MAX);
	m = FAULT(msg_new) ? NULL : block_take(p, total);
	if (!m)
		return NULL;
	m->size = init->size;
	m->headers_size = init->headers_size;
	if (init->data && init->size)
		memcpy(m->data, init->data, init->size);
	end = m->data + init->size;
	*end++ = 0;
	if (init->headers && init->headers_size)
		memcpy(end, init->headers, init->headers_size);
	put_event(m, init, end + init->headers_size);
	if (init->extra) {
		m->flags |= MSG_EXTRA;
		memset(msg_extra_at(m), 0, sizeof(struct msg_extra));
	}
	return m;
}

struct msg *
msg_new_static(struct msg_pool *p, const char *event, uint8_t event_size,
	const void *data, uint32_t size)
{
	struct msg *m;

	assert(size <= MSG_PAYLOAD_MAX);
	m = FAULT(msg_new) ? NULL : block_take(p, HEAD_SIZE + size + 1);
	if (!m)
		return NULL;
	m->size = size;
	m->event = event;
	m->event_size = event_size;
	if (data && size)
		memcpy(m->data, data, size);
	m->data[size] = 0;
	return m;
}

struct msg *
msg_free_rest(struct msg_pool *p, struct msg *m)
{
	unsigned c = m->pool_class;

	if (!p || c >= CLASS_HEAP) {
		free(m);
		return NULL;
	}
	if (p->full[c])
		depot_give(p->depot, c, p->full[c]);
	p->full[c] = p->free[c];
	p->free[c] = m;
	msg_link(m, NULL);
	p->room[c] = MSG_POOL_BATCH - 1;
	return NULL;
}

struct msg *
msg_clone(struct msg_pool *p, const struct msg *m)
{
	struct msg_init init = {
		.event = m->event,
		.event_size = m->event_size,
		.event_static = !event_is_own(m),
		.data = m->data,
		.size = m->size,
		.headers = msg_headers(m),
		.headers_size = m->headers_size,
		.extra = m->flags & MSG_EXTRA,
	};
	struct msg *copy = msg_new(p, &init);

	if (!copy)
		return NULL;
	copy->from = m->from;
	copy->to = m->to;
	copy->handler = m->handler;
	copy->flags |= m->flags & MSG_URGENT;
	if (m->flags & MSG_EXTRA)
		*msg_extra_at(copy) = *msg_extra_at(m);
	return copy;
}

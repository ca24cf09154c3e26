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

enum {
	CLASS_HEAP = MSG_CLASSES,
	HEAD_SIZE = offsetof(struct msg, data),
	WIDE_SIZE = sizeof(struct msg_wide),
};

/* ---- pools ------------------------------------------------------------- */

void
msg_pool_init(struct msg_pool *p, struct depot *depot)
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
		depot_return(p->free[c]);
		depot_return(p->full[c]);
	}
	msg_pool_init(p, p->depot);
}

/* Of what has no class, or when `free` has none of it. */
struct depot_block *
msg_pool_rest(struct msg_pool *p, unsigned c, size_t total)
{
	struct depot_block *block;
	uint32_t n = MSG_POOL_BATCH;

	if (c == CLASS_HEAP)
		return malloc(total);
	block = p->full[c] ? p->full[c] : depot_take(p->depot, c, &n);
	p->full[c] = NULL;
	if (!block)
		return NULL;
	p->free[c] = block->next;
	p->room[c] = MSG_POOL_BATCH - n + 1;
	return block;
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
	const uint8_t *own = m->data + m->size + 1 + m->headers_size;

	return !(m->flags & MSG_SHARED) && m->event == (const char *)own;
}

struct msg_extra *
msg_extra_at(const struct msg *m)
{
	const uint8_t *end = m->data + m->size + 1 + m->headers_size;

	if (m->flags & MSG_SHARED)
		return (struct msg_extra *)(uintptr_t)(m->data +
						       sizeof(struct msg_ref));
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

/* All zero, with room for @total bytes. */
static struct msg *
head_new(struct msg_pool *p, size_t total, bool plain)
{
	size_t before = plain ? 0 : WIDE_SIZE;
	unsigned class = msg_class(p, before + total);
	uint8_t *block = FAULT(msg_new) ? NULL
					: (uint8_t *)msg_pool_take(
						  p, class, before + total);
	struct msg *m = (struct msg *)(block + before);

	if (!block)
		return NULL;
	*m = (struct msg){.pool_class = (uint8_t) class};
	if (!plain) {
		m->flags = MSG_WIDE;
		*msg_wide(m) = (struct msg_wide){0};
	}
	return m;
}

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
	m = head_new(p, total, init->plain);
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
msg_free_rest(struct msg_pool *p, struct msg *m)
{
	struct depot_block *block = msg_block(m);
	unsigned c = m->pool_class;

	if (c == MSG_CLASS_SHARED) {
		const struct msg_ref *ref = (const void *)m->data;

		msg_body_unref(ref->body);
		m->pool_class = (uint8_t)ref->pool_class;
		return msg_free(p, m);
	}
	if (c >= CLASS_HEAP) {
		free(block);
		return NULL;
	}
	block->next = NULL;
	if (!p) {
		depot_return(block);
		return NULL;
	}
	if (p->full[c])
		depot_give(p->depot, c, p->full[c]);
	p->full[c] = p->free[c];
	p->free[c] = block;
	p->room[c] = MSG_POOL_BATCH - 1;
	return NULL;
}

/* ---- bytes that are stored once ------------------------------------------ */

static struct msg_body *
body_new(const char *event, uint8_t event_size, uint32_t size)
{
	struct msg_body *body =
		FAULT(msg_body_new)
			? NULL
			: malloc(sizeof(*body) + size + event_size + 1u);

	if (!body)
		return NULL;
	*body = (struct msg_body){.size = size, .event_size = event_size};
	atomic_init(&body->refs, 1);
	body->payload = body->headers = body->bytes;
	memcpy(body->bytes + size, event, event_size);
	body->bytes[size + event_size] = 0;
	return body;
}

struct msg_body *
msg_body_new(const struct msg *m, uint32_t size)
{
	return body_new(m->event, m->event_size, size);
}

struct msg_body *
msg_body_unref_many(struct msg_body *body, uint32_t n)
{
	if (!body || atomic_fetch_sub_explicit(
			     &body->refs, n, memory_order_acq_rel) != n)
		return NULL;
	if (body->region)
		body->region->release(body->region);
	free(body);
	return NULL;
}

/* A message of a header, room for an extra if @extra, and a new reference. */
static struct msg *
refer(struct msg_pool *p, struct msg_body *body, bool plain, bool extra)
{
	size_t total = HEAD_SIZE + sizeof(struct msg_ref) +
		       (extra ? sizeof(struct msg_extra) : 0);
	struct msg *m = head_new(p, total, plain);
	struct msg_ref *ref;

	if (!m)
		return NULL;
	ref = (struct msg_ref *)(void *)m->data;
	*ref = (struct msg_ref){.body = body, .pool_class = m->pool_class};
	msg_body_ref(body);
	m->pool_class = MSG_CLASS_SHARED;
	m->flags |= MSG_SHARED;
	m->event = (const char *)body->bytes + body->size;
	m->event_size = body->event_size;
	if (extra) {
		m->flags |= MSG_EXTRA;
		*msg_extra_at(m) = (struct msg_extra){0};
	}
	return m;
}

static void
copy_life(struct msg *copy, const struct msg *m)
{
	const struct msg_extra *extra = msg_extra(m);

	if (!extra)
		return;
	msg_extra_at(copy)->ttl_ns = extra->ttl_ns;
	msg_extra_at(copy)->expires_ns = extra->expires_ns;
}

/* As @m, but for what its extra says. */
static struct msg *
refer_to(struct msg_pool *p, const struct msg *m, struct msg_body *body,
	bool plain, bool extra)
{
	struct msg *copy = refer(p, body, plain, extra);

	if (!copy)
		return NULL;
	copy->flags |= m->flags & MSG_URGENT;
	copy->id = m->id;
	copy->from = m->from;
	copy->size = m->size;
	copy->headers_size = m->headers_size;
	copy_life(copy, m);
	return copy;
}

struct msg *
msg_refer(struct msg_pool *p, const struct msg *m, struct msg_body *body,
	bool plain)
{
	return refer_to(p, m, body, plain, m->flags & MSG_EXTRA);
}

struct msg *
msg_refer_from(struct msg_pool *p, const struct msg *m, struct msg_body *body)
{
	struct msg *copy = refer_to(p, m, body, false, true);

	if (copy)
		msg_extra_at(copy)->sender = msg_sender(m);
	return copy;
}

static void
region_free(struct msg_region *region)
{
	free(region);
}

struct msg_region *
msg_region_new(uint32_t size)
{
	struct msg_region *region =
		FAULT(msg_region_new) ? NULL
				      : malloc(sizeof(*region) + size + 1u);
	uint8_t *bytes = (uint8_t *)(region + 1);

	if (!region)
		return NULL;
	*region = (struct msg_region){bytes, size, region_free};
	bytes[size] = 0;
	return region;
}

struct msg *
msg_new_region(struct msg_pool *p, const struct msg_init *init,
	struct msg_region *region)
{
	struct msg_body *body =
		body_new(init->event, init->event_size, init->headers_size);
	struct msg *m = NULL;

	if (!body)
		return NULL;
	if (init->headers_size)
		memcpy(body->bytes, init->headers, init->headers_size);
	body->payload = region->bytes;
	m = refer(p, body, init->plain, init->extra);
	if (m) {
		m->size = region->size;
		m->headers_size = init->headers_size;
		body->region = region;
	}
	msg_body_unref(body);
	return m;
}

/* ---- copies -------------------------------------------------------------- */

/* With the same name, payload and headers. */
static struct msg *
copy_new(struct msg_pool *p, const struct msg *m, bool extra)
{
	struct msg_init init = {
		.event = m->event,
		.event_size = m->event_size,
		.event_static = !event_is_own(m),
		.data = m->data,
		.size = m->size,
		.headers = msg_headers(m),
		.headers_size = m->headers_size,
		.extra = extra,
	};
	struct msg *copy;

	if (!(m->flags & MSG_SHARED))
		return msg_new(p, &init);
	copy = refer(p, msg_body(m), false, extra);
	if (!copy)
		return NULL;
	copy->size = m->size;
	copy->headers_size = m->headers_size;
	return copy;
}

struct msg *
msg_with_extra(struct msg_pool *p, const struct msg *m)
{
	struct msg *copy = copy_new(p, m, true);

	if (!copy)
		return NULL;
	if (m->flags & MSG_WIDE)
		*msg_wide(copy) = *msg_wide(m);
	copy->id = m->id;
	copy->from = m->from;
	copy->to = m->to;
	copy->stamp = m->stamp;
	copy->handler = m->handler;
	copy->op = m->op;
	copy->flags |= m->flags;
	copy->attempt = m->attempt;
	if (m->flags & MSG_CHARGED)
		charge_add(p->charges, msg_wide(m)->user, 1, msg_charge(m));
	return copy;
}

/* It is in no journal. */
static void
copy_extra(struct msg *copy, const struct msg *m)
{
	struct msg_extra *extra = msg_extra_at(copy);

	*extra = *msg_extra_at(m);
	extra->batch = NULL;
}

struct msg *
msg_clone(struct msg_pool *p, const struct msg *m)
{
	struct msg *copy = copy_new(p, m, m->flags & MSG_EXTRA);

	if (!copy)
		return NULL;
	copy->from = m->from;
	copy->to = m->to;
	copy->handler = m->handler;
	copy->flags |= m->flags & MSG_URGENT;
	if (m->flags & MSG_EXTRA)
		copy_extra(copy, m);
	return copy;
}

struct msg *
msg_lend(struct msg_pool *p, const struct msg *m, uint64_t owner, uint64_t seq)
{
	struct msg *copy = copy_new(p, m, true);
	struct msg_wide *wide;

	if (!copy)
		return NULL;
	copy->id = m->id;
	copy->from = owner;
	copy->handler = m->handler;
	copy->attempt = m->attempt;
	copy->flags |= (uint16_t)((m->flags & MSG_URGENT) | MSG_LENT | MSG_ACK |
				  MSG_MAY_PARK);
	wide = msg_wide(copy);
	wide->seq = seq;
	wide->level = MSG_LEVEL_HANDLED;
	wide->call = msg_call(m);
	wide->deadline_ns = msg_deadline_ns(m);
	wide->late_ns = msg_late_ns(m);
	wide->due_ns = msg_due_ns(m);
	copy_life(copy, m);
	msg_extra_at(copy)->sender = msg_sender(m);
	return copy;
}

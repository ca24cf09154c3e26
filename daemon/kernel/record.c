#include "kernel/record.h"

#include <errno.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/err.h"

/* As it lies in the store: little-endian, packed by hand-picked order. */
struct head {
	uint32_t crc;  /* of all behind it */
	uint32_t size; /* of all with the head */
	uint64_t id, from, call, deadline_ns;
	uint64_t due_ns, late_ns;
	uint64_t expires_ns, ttl_ns, time_ns;
	uint32_t payload_size, headers_size;
	uint8_t event_size, key_size, attempt, flags;
	uint32_t reserved;
};

_Static_assert(sizeof(struct head) == 96, "no gaps in what is stored");
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "records are little-endian"
#endif

enum { FLAG_URGENT = 1, FLAGS_KNOWN = FLAG_URGENT };

static size_t
body_size(const struct head *h)
{
	return (size_t)h->payload_size + h->headers_size + h->event_size +
	       h->key_size;
}

size_t
record_size(const struct msg *m)
{
	const struct msg_extra *extra = msg_extra(m);

	return sizeof(struct head) + m->size + m->headers_size + m->event_size +
	       (extra ? extra->key_size : 0);
}

static uint8_t *
append(uint8_t *to, const void *from, size_t size)
{
	if (size)
		memcpy(to, from, size);
	return to + size;
}

size_t
record_put(uint8_t *out, const struct msg *m, const struct record *r)
{
	const struct msg_extra *extra = msg_extra(m);
	struct head h = {
		.size = (uint32_t)record_size(m),
		.id = m->id,
		.from = m->from,
		.call = msg_call(m),
		.deadline_ns = msg_deadline_ns(m),
		.due_ns = msg_due_ns(m),
		.late_ns = msg_late_ns(m),
		.expires_ns = r->expires_ns,
		.ttl_ns = extra ? extra->ttl_ns : 0,
		.time_ns = r->time_ns,
		.payload_size = m->size,
		.headers_size = m->headers_size,
		.event_size = m->event_size,
		.key_size = extra ? extra->key_size : 0,
		.attempt = m->attempt,
		.flags = m->flags & MSG_URGENT ? FLAG_URGENT : 0,
	};
	uint8_t *end = out + sizeof(h);

	end = append(end, m->event, m->event_size);
	end = append(end, msg_payload(m), m->size);
	end = append(end, msg_headers(m), m->headers_size);
	if (h.key_size)
		end = append(end, extra->key, h.key_size);
	memcpy(out, &h, sizeof(h));
	h.crc = crc32c(0, out + sizeof(h.crc), h.size - sizeof(h.crc));
	memcpy(out, &h.crc, sizeof(h.crc));
	return (size_t)(end - out);
}

static bool
is_sound(const struct head *h, const uint8_t *data)
{
	return crc32c(0, data + sizeof(h->crc), h->size - sizeof(h->crc)) ==
		       h->crc &&
	       h->size == sizeof(*h) + body_size(h) &&
	       h->payload_size <= MSG_PAYLOAD_MAX &&
	       h->headers_size <= MSG_PAYLOAD_MAX &&
	       h->key_size <= MSG_KEY_MAX && !(h->flags & ~FLAGS_KNOWN);
}

static struct msg *
message_of(struct msg_pool *pool, const struct head *h, const uint8_t *body)
{
	const uint8_t *payload = body + h->event_size;
	const uint8_t *headers = payload + h->payload_size;
	struct msg *m =
		msg_new(pool, &(struct msg_init){.event = (const char *)body,
				      .event_size = h->event_size,
				      .data = payload,
				      .size = h->payload_size,
				      .headers = headers,
				      .headers_size = h->headers_size,
				      .extra = true});
	struct msg_extra *extra;

	if (!m)
		return NULL;
	extra = msg_extra(m);
	extra->key_size = h->key_size;
	memcpy(extra->key, headers + h->headers_size, h->key_size);
	extra->ttl_ns = h->ttl_ns;
	m->id = h->id;
	m->from = h->from;
	msg_wide(m)->call = h->call;
	msg_wide(m)->deadline_ns = h->deadline_ns;
	msg_wide(m)->due_ns = h->due_ns;
	msg_wide(m)->late_ns = h->late_ns;
	m->attempt = h->attempt;
	if (h->flags & FLAG_URGENT)
		m->flags |= MSG_URGENT;
	return m;
}

static bool
head_get(struct head *h, const uint8_t *data, size_t size, size_t *used)
{
	*used = 0;
	if (size < sizeof(*h))
		return false;
	memcpy(h, data, sizeof(*h));
	if (h->size < sizeof(*h) || h->size > size)
		return false;
	*used = h->size;
	return is_sound(h, data);
}

bool
record_is_sound(const uint8_t *data, size_t size, size_t *used)
{
	struct head h;

	return head_get(&h, data, size, used);
}

int
record_get(struct msg_pool *pool, const uint8_t *data, size_t size,
	size_t *used, struct msg **out, struct record *r)
{
	struct head h;

	if (!head_get(&h, data, size, used))
		return RECORD_E_DAMAGED;
	*out = message_of(pool, &h, data + sizeof(h));
	if (!*out)
		return err_raise(-ENOMEM);
	*r = (struct record){.expires_ns = h.expires_ns, .time_ns = h.time_ns};
	return 0;
}

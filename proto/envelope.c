/* Envelope: see envelope.h. Pure functions over bytes, any thread. */
#include "envelope.h"

#include <string.h>

#include "fields.h"

/* 1 for [A-Za-z0-9_./-] */
static const uint8_t name_bytes[256] = {
	['-'] = 1,
	['.'] = 1,
	['/'] = 1,
	['0' ... '9'] = 1,
	['A' ... 'Z'] = 1,
	['_'] = 1,
	['a' ... 'z'] = 1,
};

bool
name_is_valid(const char *name, size_t size, size_t max)
{
	const uint8_t *p = (const uint8_t *)name;
	unsigned good = 1;

	if (!size || size > max)
		return false;
	for (size_t i = 0; i < size; i++)
		good &= name_bytes[p[i]];
	return good;
}

/* Fields of type bytes and string are not numbers: a wrong wire type. */
static int
set_number(struct envelope *e, uint32_t field, uint64_t value)
{
	switch (field) {
	case F_TO:
		e->to = value;
		return 0;
	case F_SEQ:
		e->seq = value;
		return 0;
	case F_CALL:
		e->call = value;
		return 0;
	case F_RE:
		e->re = value;
		return 0;
	case F_STATUS:
		e->status = (uint32_t)value;
		return 0;
	case F_ID:
		e->id = value;
		return 0;
	case F_FROM:
		e->from = value;
		return 0;
	case F_TIMEOUT_MS:
		e->timeout_ms = (uint32_t)value;
		return 0;
	case F_LEVEL: /* an unknown level stays unknown: 255 */
		e->level = value > UINT8_MAX ? UINT8_MAX : (uint8_t)value;
		return 0;
	case F_FLAGS:
		e->flags = (uint32_t)value;
		return 0;
	case F_ATTEMPT:
		e->attempt = (uint32_t)value;
		return 0;
	case F_LATE_NS:
		e->late_ns = value;
		return 0;
	case F_PRIORITY: /* an unknown one, too, stays unknown */
		e->priority = value > UINT8_MAX ? UINT8_MAX : (uint8_t)value;
		return 0;
	case F_TTL_MS:
		e->ttl_ms = (uint32_t)value;
		return 0;
	case F_DEADLINE_MS:
		e->deadline_ms = (uint32_t)value;
		return 0;
	case F_DUE_NS:
		e->due_ns = value;
		return 0;
	case F_FORWARD:
		e->forward = value;
		return 0;
	case F_MEMFD_SIZE:
		e->memfd_size =
			value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
		return 0;
	case F_ALIAS:
	case F_EVENT:
	case F_PAYLOAD:
	case F_HEADERS:
	case F_KEY:
		return ENVELOPE_E_MALFORMED;
	default:
		return 0;
	}
}

static bool
header_is_valid(const uint8_t *p, size_t size)
{
	const uint8_t *end = p + size;
	struct wire_field f, name = {0};

	while (p < end) {
		if (!wire_next(&p, end, &f))
			return false;
		if (f.field <= 2 && f.type != WIRE_BYTES)
			return false;
		if (f.field == 1)
			name = f;
	}
	return name_is_valid(
		(const char *)name.data, name.size, ENVELOPE_EVENT_MAX);
}

/* Add the header field in [start, end) to those before it. */
static int
add_header(struct envelope *e, const uint8_t *start, const struct wire_field *f)
{
	size_t size = (size_t)(f->data + f->size - start);

	if (e->headers_size && e->headers + e->headers_size != start)
		return ENVELOPE_E_HEADERS;
	if (size > ENVELOPE_HEADERS_MAX - e->headers_size)
		return ENVELOPE_E_HEADERS;
	if (!header_is_valid(f->data, f->size))
		return ENVELOPE_E_HEADERS;
	if (!e->headers_size)
		e->headers = start;
	e->headers_size += (uint32_t)size;
	return 0;
}

/* Of those that are no bytes. */
static bool
is_number(uint32_t field)
{
	return field <= F_LAST || field == F_MEMFD_SIZE;
}

static int
set_bytes(struct envelope *e, const uint8_t *start, const struct wire_field *f)
{
	const char *text = (const char *)f->data;

	switch (f->field) {
	case F_PAYLOAD:
		e->payload = f->data;
		e->payload_size = (uint32_t)f->size;
		return 0;
	case F_EVENT:
		if (f->size &&
			!name_is_valid(text, f->size, ENVELOPE_EVENT_MAX))
			return ENVELOPE_E_NAME;
		e->event = text;
		e->event_size = (uint8_t)f->size;
		return 0;
	case F_ALIAS:
		if (f->size &&
			!name_is_valid(text, f->size, ENVELOPE_ALIAS_MAX))
			return ENVELOPE_E_NAME;
		e->alias = text;
		e->alias_size = (uint16_t)f->size;
		return 0;
	case F_HEADERS:
		return add_header(e, start, f);
	case F_KEY:
		e->key = f->data;
		e->key_size = (uint32_t)f->size;
		return 0;
	default: /* numbers, or fields of a later version */
		return is_number(f->field) ? ENVELOPE_E_MALFORMED : 0;
	}
}

/* Any field, also of two-byte tags: a number, bytes, or one to pass over. */
static int
decode_field(struct envelope *e, const uint8_t **p, const uint8_t *end)
{
	const uint8_t *start = *p;
	struct wire_field f;

	if (!wire_next(p, end, &f))
		return ENVELOPE_E_MALFORMED;
	if (f.type == WIRE_VARINT)
		return set_number(e, f.field, f.number);
	if (f.type == WIRE_BYTES)
		return set_bytes(e, start, &f);
	return f.field <= F_LAST || is_number(f.field) ? ENVELOPE_E_MALFORMED
						       : 0;
}

/* Where an envelope is read, and how that went: once something is wrong it is
 * at its end. */
struct reader {
	const uint8_t *p, *end;
	int r;
};

static inline bool
reader_is_at(const struct reader *at, unsigned tag)
{
	return at->p < at->end && *at->p == tag;
}

static inline void
reader_fail(struct reader *at, int r)
{
	at->p = at->end;
	at->r = r;
}

/* The value of the number field it is at. */
static inline void
take_number(struct reader *at, uint64_t *value)
{
	size_t n = wire_varint(at->p + 1, at->end, value);

	if (n)
		at->p += 1 + n;
	else
		reader_fail(at, ENVELOPE_E_MALFORMED);
}

/* The value of the field of bytes it is at. */
static inline uint32_t
take_bytes(struct reader *at, const uint8_t **data)
{
	uint64_t size;
	size_t n = wire_varint(at->p + 1, at->end, &size);
	const uint8_t *start = at->p + 1 + n;

	if (!n || size > (size_t)(at->end - start)) {
		reader_fail(at, ENVELOPE_E_MALFORMED);
		return 0;
	}
	*data = start;
	at->p = start + size;
	return (uint32_t)size;
}

static inline uint32_t
take_name(struct reader *at, const char **name, size_t max)
{
	uint32_t size = take_bytes(at, (const uint8_t **)name);

	if (size && !name_is_valid(*name, size, max)) {
		reader_fail(at, ENVELOPE_E_NAME);
		return 0;
	}
	return size;
}

/* The frequent fields, if they come in the order of their numbers, as they do
 * from those who write as protobuf-c does. */
static inline void
decode_hot(struct envelope *e, struct reader *at)
{
	if (reader_is_at(at, TAG(F_TO, WIRE_VARINT)))
		take_number(at, &e->to);
	if (reader_is_at(at, TAG(F_ALIAS, WIRE_BYTES)))
		e->alias_size =
			(uint16_t)take_name(at, &e->alias, ENVELOPE_ALIAS_MAX);
	if (reader_is_at(at, TAG(F_EVENT, WIRE_BYTES)))
		e->event_size =
			(uint8_t)take_name(at, &e->event, ENVELOPE_EVENT_MAX);
	if (reader_is_at(at, TAG(F_PAYLOAD, WIRE_BYTES)))
		e->payload_size = take_bytes(at, &e->payload);
	if (reader_is_at(at, TAG(F_SEQ, WIRE_VARINT)))
		take_number(at, &e->seq);
	if (at->p == at->end) /* posts have no more */
		return;
	if (reader_is_at(at, TAG(F_CALL, WIRE_VARINT)))
		take_number(at, &e->call);
	if (reader_is_at(at, TAG(F_RE, WIRE_VARINT)))
		take_number(at, &e->re);
	if (reader_is_at(at, TAG(F_ID, WIRE_VARINT)))
		take_number(at, &e->id);
	if (reader_is_at(at, TAG(F_FROM, WIRE_VARINT)))
		take_number(at, &e->from);
	if (reader_is_at(at, TAG(F_TIMEOUT_MS, WIRE_VARINT))) {
		uint64_t value = 0;

		take_number(at, &value);
		e->timeout_ms = (uint32_t)value;
	}
}

int
envelope_decode(struct envelope *e, const uint8_t *data, size_t size)
{
	struct reader at = {data, data + size, 0};

	envelope_init(e);
	if (size > UINT32_MAX)
		return ENVELOPE_E_MALFORMED;
	decode_hot(e, &at);
	while (at.p < at.end) { /* the others, and whatever order */
		e->rare = true;
		at.r = decode_field(e, &at.p, at.end);
		if (at.r)
			return at.r;
	}
	return at.r;
}

size_t
envelope_bound(const struct envelope *e)
{
	return (size_t)ENVELOPE_ROOM + e->alias_size + e->event_size +
	       e->payload_size + e->headers_size + e->key_size;
}

static uint8_t *
put_far(uint8_t *p, const struct envelope *e)
{
	p = put_far_number(p, F_LATE_NS, e->late_ns);
	p = put_far_number(p, F_PRIORITY, e->priority);
	p = put_far_number(p, F_TTL_MS, e->ttl_ms);
	if (e->key_size) {
		p += varint_put(p, TAG(F_KEY, WIRE_BYTES));
		p += varint_put(p, e->key_size);
		memcpy(p, e->key, e->key_size);
		p += e->key_size;
	}
	p = put_far_number(p, F_DEADLINE_MS, e->deadline_ms);
	p = put_far_number(p, F_FORWARD, e->forward);
	p = put_far_number(p, F_DUE_NS, e->due_ns);
	return put_far_number(p, F_MEMFD_SIZE, e->memfd_size);
}

static inline bool
has_far(const struct envelope *e)
{
	return e->late_ns | e->priority | e->ttl_ms | e->key_size |
	       e->deadline_ms | e->forward | e->due_ns | e->memfd_size;
}

/* The fields that a plain post or delivery does not have. */
static uint8_t *
put_rest(uint8_t *p, const struct envelope *e)
{
	p = put_number(p, F_TIMEOUT_MS, e->timeout_ms);
	p = put_number(p, F_LEVEL, e->level);
	p = put_number(p, F_FLAGS, e->flags);
	p = put_number(p, F_ATTEMPT, e->attempt);
	if (e->headers_size) {
		memcpy(p, e->headers, e->headers_size);
		p += e->headers_size;
	}
	return has_far(e) ? put_far(p, e) : p;
}

static inline bool
has_rest(const struct envelope *e)
{
	return (e->timeout_ms | e->level | e->flags | e->attempt |
		       e->headers_size) ||
	       has_far(e);
}

static inline bool
has_numbers(const struct envelope *e)
{
	return e->call | e->re | e->status | e->id | e->from;
}

size_t
envelope_encode(const struct envelope *e, uint8_t *out)
{
	uint8_t *p = out;

	p = put_number(p, F_TO, e->to);
	p = put_bytes(p, F_ALIAS, e->alias, e->alias_size);
	p = put_bytes(p, F_EVENT, e->event, e->event_size);
	p = put_bytes(p, F_PAYLOAD, e->payload, e->payload_size);
	p = put_number(p, F_SEQ, e->seq);
	if (has_numbers(e)) {
		p = put_number(p, F_CALL, e->call);
		p = put_number(p, F_RE, e->re);
		p = put_number(p, F_STATUS, e->status);
		p = put_number(p, F_ID, e->id);
		p = put_number(p, F_FROM, e->from);
	}
	if (has_rest(e))
		p = put_rest(p, e);
	return (size_t)(p - out);
}

/* Bytes of one number field. */
static inline size_t
number_size(uint64_t value)
{
	return value ? 1 + varint_size(value) : 0;
}

static inline size_t
bytes_size(size_t size)
{
	return size ? 1 + varint_size(size) + size : 0;
}

static inline size_t
far_number_size(uint64_t value)
{
	return value ? 2 + varint_size(value) : 0;
}

static size_t
far_size(const struct envelope *e)
{
	size_t key = e->key_size;

	return far_number_size(e->late_ns) + far_number_size(e->priority) +
	       far_number_size(e->ttl_ms) + far_number_size(e->deadline_ms) +
	       far_number_size(e->forward) + far_number_size(e->due_ns) +
	       far_number_size(e->memfd_size) +
	       (key ? 2 + varint_size(key) + key : 0);
}

size_t
envelope_size(const struct envelope *e)
{
	size_t n = number_size(e->to) + bytes_size(e->alias_size) +
		   bytes_size(e->event_size) + bytes_size(e->payload_size) +
		   number_size(e->seq) + number_size(e->call) +
		   number_size(e->re) + number_size(e->status) +
		   number_size(e->id) + number_size(e->from) +
		   number_size(e->timeout_ms) + number_size(e->level) +
		   number_size(e->flags) + number_size(e->attempt) +
		   e->headers_size;

	return has_far(e) ? n + far_size(e) : n;
}

/* Will its length take one byte? Large numbers can still make it two: what
 * was encoded is looked at. */
static inline bool
is_small(const struct envelope *e)
{
	return (size_t)e->alias_size + e->event_size + e->payload_size +
		       e->headers_size + e->key_size <
	       0x60;
}

size_t
envelope_encode_part(const struct envelope *e, uint8_t *out)
{
	size_t size;
	uint8_t *p = out;

	*p++ = FRAME_ENVELOPES_TAG;
	if (is_small(e)) {
		size = envelope_encode(e, p + 1);
		if (size < 0x80) {
			*p = (uint8_t)size;
			return 2 + size;
		}
	}
	size = envelope_size(e);
	p += varint_put(p, size);
	return (size_t)(p - out) + envelope_encode(e, p);
}

size_t
envelope_encode_frame(const struct envelope *e, uint8_t *out)
{
	size_t size;
	uint8_t *p = out;

	if (is_small(e)) {
		size = envelope_encode_part(e, p + 1);
		if (size < 0x80) {
			*p = (uint8_t)size;
			return 1 + size;
		}
	}
	size = envelope_size(e);
	p += varint_put(p, 1 + varint_size(size) + size);
	*p++ = FRAME_ENVELOPES_TAG;
	p += varint_put(p, size);
	return (size_t)(p - out) + envelope_encode(e, p);
}

/* ---- the same event for many --------------------------------------------- */

size_t
envelope_encode_frame_head(const struct envelope *e, uint8_t *out)
{
	size_t size = envelope_size(e);
	struct envelope rest = *e;
	uint8_t *p = out;

	rest.payload_size = 0;
	p += varint_put(p, 1 + varint_size(size) + size);
	*p++ = FRAME_ENVELOPES_TAG;
	p += varint_put(p, size);
	p += envelope_encode(&rest, p);
	if (!e->payload_size)
		return (size_t)(p - out);
	*p++ = F_PAYLOAD << 3 | WIRE_BYTES;
	p += varint_put(p, e->payload_size);
	return (size_t)(p - out);
}

size_t
envelope_encode_shared_head(
	uint64_t to, uint8_t attempt, size_t rest_size, uint8_t *out)
{
	size_t size = (to ? 1 + varint_size(to) : 0) +
		      (attempt ? 1 + varint_size(attempt) : 0) + rest_size;
	uint8_t *p = out;

	p += varint_put(p, 1 + varint_size(size) + size);
	*p++ = FRAME_ENVELOPES_TAG;
	p += varint_put(p, size);
	if (to) {
		*p++ = F_TO << 3 | WIRE_VARINT;
		p += varint_put(p, to);
	}
	if (attempt) {
		*p++ = F_ATTEMPT << 3 | WIRE_VARINT;
		p += varint_put(p, attempt);
	}
	return (size_t)(p - out);
}

size_t
envelope_encode_shared(uint64_t to, uint8_t attempt, const uint8_t *rest,
	size_t rest_size, uint8_t *out)
{
	size_t n = envelope_encode_shared_head(to, attempt, rest_size, out);

	memcpy(out + n, rest, rest_size);
	return n + rest_size;
}

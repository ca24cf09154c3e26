/* The short ways of envelope.h: what plain posts, deliveries, calls and replies
 * have, and nothing else. Pure functions over bytes, any thread. */
#include "envelope.h"
#include "fields.h"

/* Those that have no short way. */
static size_t
encode_large(const struct envelope *e, bool frame, uint8_t *out)
{
	return frame ? envelope_encode_frame(e, out)
		     : envelope_encode_part(e, out);
}

/* Bytes before the fields, whose names and payload have @size: the lengths take
 * one byte each, or two whatever the numbers are. 0: more. */
static inline size_t
heads_room(size_t size, bool frame)
{
	if (size < 0x80)
		return 2 + (size_t)frame;
	return size < 0x4000 - PLAIN_ROOM ? 3 + 2 * (size_t)frame : 0;
}

static inline void
put_two(uint8_t *p, size_t size)
{
	p[0] = (uint8_t)(size | 0x80);
	p[1] = (uint8_t)(size >> 7);
}

/* Put them, in @room bytes; the fields end at @end. Bytes of the whole, or 0: a
 * length takes two bytes after all. */
static inline size_t
put_heads(uint8_t *out, size_t room, const uint8_t *end, bool frame)
{
	size_t size = (size_t)(end - out);

	if (room >= 3 + 2 * (size_t)frame) {
		if (frame)
			put_two(out, size - 2);
		out[2 * frame] = FRAME_ENVELOPES_TAG;
		put_two(out + 2 * frame + 1, size - room);
		return size;
	}
	if (size - frame >= 0x80)
		return 0;
	if (frame)
		out[0] = (uint8_t)(size - 1);
	out[frame] = FRAME_ENVELOPES_TAG;
	out[frame + 1] = (uint8_t)(size - room);
	return size;
}

__attribute__((noinline)) static size_t
plain_encode_large(const struct plain_envelope *e, bool frame, uint8_t *out)
{
	struct envelope any = {
		.to = e->to,
		.seq = e->seq,
		.event = e->event,
		.event_size = e->event_size,
		.payload = e->payload,
		.payload_size = e->payload_size,
		.id = e->id,
		.from = e->from,
	};

	return encode_large(&any, frame, out);
}

static inline size_t
plain_encode(const struct plain_envelope *e, bool frame, uint8_t *out)
{
	size_t room = heads_room(
		       (size_t)e->payload_size + e->event_size, frame),
	       n = 0;
	uint8_t *p = out + room;

	if (room) {
		p = put_number(p, F_TO, e->to);
		p = put_bytes(p, F_EVENT, e->event, e->event_size);
		p = put_bytes(p, F_PAYLOAD, e->payload, e->payload_size);
		p = put_number(p, F_SEQ, e->seq);
		p = put_number(p, F_ID, e->id);
		p = put_number(p, F_FROM, e->from);
		n = put_heads(out, room, p, frame);
	}
	return n ? n : plain_encode_large(e, frame, out);
}

size_t
plain_encode_part(const struct plain_envelope *e, uint8_t *out)
{
	return plain_encode(e, false, out);
}

size_t
plain_encode_frame(const struct plain_envelope *e, uint8_t *out)
{
	return plain_encode(e, true, out);
}

__attribute__((noinline)) static size_t
plain_call_encode_large(const struct plain_call *e, bool frame, uint8_t *out)
{
	struct envelope any = {
		.to = e->to,
		.alias = e->alias,
		.alias_size = e->alias_size,
		.event = e->event,
		.event_size = e->event_size,
		.payload = e->payload,
		.payload_size = e->payload_size,
		.call = e->call,
		.id = e->id,
		.from = e->from,
		.timeout_ms = e->timeout_ms,
		.deadline_ms = e->deadline_ms,
	};

	return encode_large(&any, frame, out);
}

static inline size_t
plain_call_encode(const struct plain_call *e, bool frame, uint8_t *out)
{
	size_t room = heads_room(
		       (size_t)e->payload_size + e->event_size + e->alias_size,
		       frame),
	       n = 0;
	uint8_t *p = out + room;

	if (room) {
		p = put_number(p, F_TO, e->to);
		p = put_bytes(p, F_ALIAS, e->alias, e->alias_size);
		p = put_bytes(p, F_EVENT, e->event, e->event_size);
		p = put_bytes(p, F_PAYLOAD, e->payload, e->payload_size);
		p = put_number(p, F_CALL, e->call);
		p = put_number(p, F_ID, e->id);
		p = put_number(p, F_FROM, e->from);
		p = put_number(p, F_TIMEOUT_MS, e->timeout_ms);
		p = put_far_number(p, F_DEADLINE_MS, e->deadline_ms);
		n = put_heads(out, room, p, frame);
	}
	return n ? n : plain_call_encode_large(e, frame, out);
}

size_t
plain_call_encode_part(const struct plain_call *e, uint8_t *out)
{
	return plain_call_encode(e, false, out);
}

size_t
plain_call_encode_frame(const struct plain_call *e, uint8_t *out)
{
	return plain_call_encode(e, true, out);
}

__attribute__((noinline)) static size_t
plain_reply_encode_large(const struct plain_reply *e, bool frame, uint8_t *out)
{
	struct envelope any = {
		.payload = e->payload,
		.payload_size = e->payload_size,
		.re = e->re,
		.status = e->status,
	};

	return encode_large(&any, frame, out);
}

static inline size_t
plain_reply_encode(const struct plain_reply *e, bool frame, uint8_t *out)
{
	size_t room = heads_room(e->payload_size, frame), n = 0;
	uint8_t *p = out + room;

	if (room) {
		p = put_bytes(p, F_PAYLOAD, e->payload, e->payload_size);
		p = put_number(p, F_RE, e->re);
		p = put_number(p, F_STATUS, e->status);
		n = put_heads(out, room, p, frame);
	}
	return n ? n : plain_reply_encode_large(e, frame, out);
}

size_t
plain_reply_encode_part(const struct plain_reply *e, uint8_t *out)
{
	return plain_reply_encode(e, false, out);
}

size_t
plain_reply_encode_frame(const struct plain_reply *e, uint8_t *out)
{
	return plain_reply_encode(e, true, out);
}

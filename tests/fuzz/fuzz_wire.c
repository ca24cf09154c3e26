/* The bytes of a connection: frames, their parts, envelopes, acks, settles
 * and failures. What the hand codecs take, protobuf-c takes as well and sees
 * the same in it; what they write is read back the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "envelope.h"
#include "eventd.pb-c.h"
#include "frame.h"
#include "parts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FRAME_LIMIT = 1 << 20 };

#define MUST(condition)           \
	do {                      \
		if (!(condition)) \
			abort();  \
	} while (0)

static void
must_be_same(const struct envelope *e, const Eventd__V1__Envelope *pb)
{
	MUST(e->to == pb->to && e->seq == pb->seq && e->call == pb->call);
	MUST(e->re == pb->re && e->id == pb->id && e->from == pb->from);
	MUST(e->due_ns == pb->due_ns);
	MUST(e->ttl_ms == pb->ttl_ms && e->deadline_ms == pb->deadline_ms);
	MUST(e->forward == pb->forward && e->key_size == pb->key.len);
	MUST(e->late_ns == pb->late_ns && e->status == pb->status);
	MUST(e->timeout_ms == pb->timeout_ms && e->flags == pb->flags);
	MUST(e->attempt == pb->attempt);
	MUST(e->level == pb->level || e->level == 255);
	MUST(e->alias_size == strlen(pb->alias));
	MUST(!memcmp(e->alias_size ? e->alias : "", pb->alias, e->alias_size));
	MUST(e->event_size == strlen(pb->event));
	MUST(!memcmp(e->event_size ? e->event : "", pb->event, e->event_size));
	MUST(e->payload_size == pb->payload.len);
	MUST(!pb->payload.len ||
		!memcmp(e->payload, pb->payload.data, pb->payload.len));
	MUST(!e->headers_size == !pb->n_headers);
}

/* Buffers for one envelope of both: one as large as the short way may want. */
struct pair {
	uint8_t *ours, *theirs;
	size_t room;
};

static struct pair
pair_new(size_t room)
{
	struct pair p = {malloc(room), malloc(room + ENVELOPE_ROOM), room};

	MUST(p.ours && p.theirs);
	return p;
}

/* The short way wrote @n bytes, the long one @m: the same. */
static void
must_match(const struct pair *p, size_t n, size_t m)
{
	MUST(n <= p->room && n == m && !memcmp(p->ours, p->theirs, n));
}

static void
pair_free(struct pair *p)
{
	free(p->ours);
	free(p->theirs);
}

static void
check_plain(const struct envelope *e)
{
	struct envelope same = {
		.to = e->to,
		.seq = e->seq,
		.id = e->id,
		.from = e->from,
		.event = e->event,
		.event_size = e->event_size,
		.payload = e->payload,
		.payload_size = e->payload_size,
	};
	struct plain_envelope plain = {
		.to = e->to,
		.seq = e->seq,
		.id = e->id,
		.from = e->from,
		.event = e->event,
		.event_size = e->event_size,
		.payload = e->payload,
		.payload_size = e->payload_size,
	};
	struct pair p =
		pair_new(PLAIN_ROOM + (size_t)e->event_size + e->payload_size);

	must_match(&p, plain_encode_frame(&plain, p.ours),
		envelope_encode_frame(&same, p.theirs));
	must_match(&p, plain_encode_part(&plain, p.ours),
		envelope_encode_part(&same, p.theirs));
	pair_free(&p);
}

static void
check_plain_call(const struct envelope *e)
{
	struct envelope same = {
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
	struct plain_call plain = {
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
	struct pair p = pair_new(PLAIN_ROOM + (size_t)e->alias_size +
				 e->event_size + e->payload_size);

	must_match(&p, plain_call_encode_frame(&plain, p.ours),
		envelope_encode_frame(&same, p.theirs));
	must_match(&p, plain_call_encode_part(&plain, p.ours),
		envelope_encode_part(&same, p.theirs));
	pair_free(&p);
}

static void
check_plain_reply(const struct envelope *e)
{
	struct envelope same = {
		.payload = e->payload,
		.payload_size = e->payload_size,
		.re = e->re,
		.status = e->status,
	};
	struct plain_reply plain = {
		.payload = e->payload,
		.payload_size = e->payload_size,
		.re = e->re,
		.status = e->status,
	};
	struct pair p = pair_new(PLAIN_ROOM + (size_t)e->payload_size);

	must_match(&p, plain_reply_encode_frame(&plain, p.ours),
		envelope_encode_frame(&same, p.theirs));
	must_match(&p, plain_reply_encode_part(&plain, p.ours),
		envelope_encode_part(&same, p.theirs));
	pair_free(&p);
}

static void
check_envelope(const uint8_t *data, size_t size)
{
	struct envelope e, again;
	Eventd__V1__Envelope *pb;
	uint8_t *out;
	size_t n;

	if (envelope_decode(&e, data, size))
		return;
	pb = eventd__v1__envelope__unpack(NULL, size, data);
	MUST(pb);
	must_be_same(&e, pb);
	eventd__v1__envelope__free_unpacked(pb, NULL);
	check_plain(&e);
	check_plain_call(&e);
	check_plain_reply(&e);
	out = malloc(envelope_bound(&e) + 16);
	MUST(out);
	n = envelope_encode(&e, out);
	MUST(n == envelope_size(&e) && n <= envelope_bound(&e));
	MUST(envelope_decode(&again, out, n) == 0);
	MUST(again.to == e.to && again.late_ns == e.late_ns);
	MUST(again.due_ns == e.due_ns);
	MUST(again.forward == e.forward && again.ttl_ms == e.ttl_ms);
	MUST(again.key_size == e.key_size && again.priority == e.priority);
	MUST(again.payload_size == e.payload_size);
	MUST(again.headers_size == e.headers_size);
	MUST(envelope_encode_frame(&e, out) <= envelope_bound(&e) + 16);
	free(out);
}

static void
check_part(const struct part *part)
{
	struct ack ack;
	struct settle settle;
	struct failure failure;
	uint64_t seq;

	switch (part->field) {
	case FRAME_ENVELOPE:
		check_envelope(part->data, part->size);
		break;
	case FRAME_ACK:
		if (!ack_decode(&ack, part->data, part->size))
			while (!ack_also(&ack, &seq))
				;
		break;
	case FRAME_SETTLE:
		settle_decode(&settle, part->data, part->size);
		break;
	case FRAME_FAILURE:
		if (!failure_decode(&failure, part->data, part->size))
			MUST(failure.text_size <= part->size);
		break;
	default:
		break;
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t head, body;

	check_envelope(data, size);
	while (!frame_take(data, size, FRAME_LIMIT, &head, &body)) {
		const uint8_t *p = data + head, *end = p + body;
		struct part part;

		MUST(head + body <= size);
		while (!part_next(&p, end, &part)) {
			MUST(part.data >= data && part.data + part.size <= end);
			check_part(&part);
		}
		data += head + body;
		size -= head + body;
	}
	return 0;
}

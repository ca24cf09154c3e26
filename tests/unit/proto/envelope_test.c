/* The hand codec of Envelope says the same as protobuf-c, both ways. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "envelope.h"
#include "eventd.pb-c.h"
#include "frame.h"

enum { N_RANDOM = 20000, BUF = 24576 };

static const char alphabet[] = "abcxyzABCXYZ0189_./-";

static uint64_t
random_number(void)
{
	uint64_t v = (uint64_t)random() << 40 ^ (uint64_t)random() << 20 ^
		     (uint64_t)random();

	return random() % 3 ? v >> random() % 64 : 0;
}

static char *
random_name(char *out, size_t max)
{
	size_t n = (size_t)random() % (random() % 4 ? 16 : max) + 1;

	for (size_t i = 0; i < n; i++)
		out[i] = alphabet[(size_t)random() % (sizeof(alphabet) - 1)];
	out[n] = '\0';
	return out;
}

/* A random envelope as protobuf-c has it. */
struct sample {
	Eventd__V1__Envelope pb;
	char alias[ENVELOPE_ALIAS_MAX + 1], event[ENVELOPE_EVENT_MAX + 1];
	uint8_t payload[1024];
	Eventd__V1__Header header[3], *headers[3];
	char names[3][ENVELOPE_EVENT_MAX + 1];
};

static void
sample_fill(struct sample *s)
{
	Eventd__V1__Envelope *pb = &s->pb;

	eventd__v1__envelope__init(pb);
	pb->to = random_number();
	if (random() % 2)
		pb->alias = random_name(s->alias, ENVELOPE_ALIAS_MAX);
	if (random() % 4)
		pb->event = random_name(s->event, ENVELOPE_EVENT_MAX);
	for (size_t i = 0; i < sizeof(s->payload); i++)
		s->payload[i] = (uint8_t)random();
	pb->payload.data = s->payload;
	pb->payload.len = (size_t)random() % (random() % 2 ? 100 : 1025);
	pb->seq = random_number();
	pb->call = random_number();
	pb->re = random_number();
	pb->status = (uint32_t)random_number();
	pb->id = random_number();
	pb->from = random_number();
	pb->timeout_ms = (uint32_t)random_number();
	pb->level = (Eventd__V1__Level)(random() % 4);
	pb->flags = (uint32_t)random_number();
	pb->attempt = (uint32_t)random_number();
	pb->late_ns = random_number();
	pb->priority = (Eventd__V1__Priority)(random() % 2);
	pb->ttl_ms = (uint32_t)random_number();
	pb->key.data = s->payload;
	pb->key.len = random() % 2 ? (size_t)random() % 200 : 0;
	pb->deadline_ms = (uint32_t)random_number();
	pb->forward = random_number();
	pb->due_ns = random_number();
	pb->headers = s->headers;
	pb->n_headers = random() % 2 ? (size_t)random() % 4 : 0;
	for (size_t i = 0; i < pb->n_headers; i++) {
		s->headers[i] = &s->header[i];
		eventd__v1__header__init(&s->header[i]);
		s->header[i].name =
			random_name(s->names[i], ENVELOPE_EVENT_MAX);
		s->header[i].value.data = s->payload;
		s->header[i].value.len = (size_t)random() % 200;
	}
}

static void
assert_same(const struct envelope *e, const Eventd__V1__Envelope *pb)
{
	assert_true(e->to == pb->to && e->seq == pb->seq);
	assert_true(e->call == pb->call && e->re == pb->re);
	assert_true(e->id == pb->id && e->from == pb->from);
	assert_true(e->late_ns == pb->late_ns && e->forward == pb->forward);
	assert_true(e->due_ns == pb->due_ns);
	assert_int_equal(e->priority, pb->priority);
	assert_int_equal(e->ttl_ms, pb->ttl_ms);
	assert_int_equal(e->deadline_ms, pb->deadline_ms);
	assert_int_equal(e->key_size, pb->key.len);
	assert_memory_equal(e->key, pb->key.data, pb->key.len);
	assert_int_equal(e->status, pb->status);
	assert_int_equal(e->timeout_ms, pb->timeout_ms);
	assert_int_equal(e->level, pb->level);
	assert_int_equal(e->flags, pb->flags);
	assert_int_equal(e->attempt, pb->attempt);
	assert_int_equal(e->alias_size, strlen(pb->alias));
	assert_memory_equal(e->alias, pb->alias, e->alias_size);
	assert_int_equal(e->event_size, strlen(pb->event));
	assert_memory_equal(e->event, pb->event, e->event_size);
	assert_int_equal(e->payload_size, pb->payload.len);
	assert_memory_equal(e->payload, pb->payload.data, pb->payload.len);
	assert_int_equal(!e->headers_size, !pb->n_headers);
}

/* protobuf-c's bytes decode to the same, and encode to the same bytes. */
static void
test_random_envelopes_are_the_same_both_ways(void **state)
{
	static struct sample s;
	static uint8_t pb[BUF], ours[BUF], frame[BUF];

	(void)state;
	srandom(1);
	for (int i = 0; i < N_RANDOM; i++) {
		struct envelope e;
		uint64_t length;
		size_t size, n, head;

		sample_fill(&s);
		size = eventd__v1__envelope__pack(&s.pb, pb);
		assert_true(size < sizeof(pb));
		assert_int_equal(envelope_decode(&e, pb, size), 0);
		assert_same(&e, &s.pb);
		assert_true(envelope_bound(&e) >= size + 16);
		assert_int_equal(envelope_size(&e), size);
		assert_int_equal(envelope_encode(&e, ours), size);
		assert_memory_equal(ours, pb, size);

		n = envelope_encode_frame(&e, frame);
		assert_true(n <= envelope_bound(&e) + 16);
		head = varint_get(frame, frame + n, &length);
		assert_int_equal(head + length, n);
		assert_int_equal(frame[head], 0x0a);
		assert_int_equal(envelope_encode_part(&e, ours), length);
		assert_memory_equal(ours, frame + head, length);
		assert_memory_equal(frame + n - size, pb, size);
	}
}

/* The short way of plain posts and deliveries: protobuf-c's bytes, too. */
static void
test_plain_frames_are_the_same(void **state)
{
	static struct sample s;
	static uint8_t frame[BUF], pb[BUF], large[16500];

	(void)state;
	srandom(4);
	for (int i = 0; i < N_RANDOM; i++) {
		Eventd__V1__Frame theirs = EVENTD__V1__FRAME__INIT;
		Eventd__V1__Envelope plain = EVENTD__V1__ENVELOPE__INIT;
		Eventd__V1__Envelope *one = &plain;
		struct plain_envelope e;
		uint64_t length;
		size_t n, head;

		sample_fill(&s);
		plain.to = s.pb.to;
		plain.seq = s.pb.seq;
		plain.id = s.pb.id;
		plain.from = s.pb.from;
		plain.event = s.pb.event;
		plain.payload = s.pb.payload;
		if (i % 8 == 0) { /* where a length takes one byte more */
			plain.payload.data = large;
			plain.payload.len = i % 16 ? 16000 + i / 16 % 500
						   : 60 + i / 16 % 100;
		}
		theirs.n_envelopes = 1;
		theirs.envelopes = &one;
		e = (struct plain_envelope){
			.to = plain.to,
			.seq = plain.seq,
			.id = plain.id,
			.from = plain.from,
			.event = plain.event,
			.event_size = (uint8_t)strlen(plain.event),
			.payload = plain.payload.data,
			.payload_size = (uint32_t)plain.payload.len,
		};
		n = plain_encode_frame(&e, frame);
		assert_true(n <=
			    PLAIN_ROOM + (size_t)e.event_size + e.payload_size);
		head = varint_get(frame, frame + n, &length);
		assert_int_equal(head + length, n);
		assert_int_equal(length, eventd__v1__frame__pack(&theirs, pb));
		assert_memory_equal(frame + head, pb, length);
		assert_int_equal(plain_encode_part(&e, frame), length);
		assert_memory_equal(frame, pb, length);
	}
}

/* @n bytes at @frame, made by a short way, are protobuf-c's of @e; so are those
 * at @part, without the length. */
static void
assert_packed(Eventd__V1__Envelope *e, const uint8_t *frame, size_t n,
	const uint8_t *part, size_t part_size)
{
	static uint8_t pb[BUF];
	Eventd__V1__Frame theirs = EVENTD__V1__FRAME__INIT;
	uint64_t length;
	size_t head = varint_get(frame, frame + n, &length);

	theirs.n_envelopes = 1;
	theirs.envelopes = &e;
	assert_int_equal(head + length, n);
	assert_int_equal(length, eventd__v1__frame__pack(&theirs, pb));
	assert_memory_equal(frame + head, pb, length);
	assert_int_equal(part_size, length);
	assert_memory_equal(part, pb, length);
}

static void
test_plain_calls_are_the_same(void **state)
{
	static struct sample s;
	static uint8_t frame[BUF], part[BUF];

	(void)state;
	srandom(5);
	for (int i = 0; i < N_RANDOM; i++) {
		Eventd__V1__Envelope pb = EVENTD__V1__ENVELOPE__INIT;
		struct plain_call e;
		size_t n;

		sample_fill(&s);
		pb.to = s.pb.to;
		pb.alias = s.pb.alias;
		pb.event = s.pb.event;
		pb.payload = s.pb.payload;
		pb.call = s.pb.call;
		pb.id = s.pb.id;
		pb.from = s.pb.from;
		pb.timeout_ms = s.pb.timeout_ms;
		pb.deadline_ms = s.pb.deadline_ms;
		e = (struct plain_call){
			.to = pb.to,
			.alias = pb.alias,
			.alias_size = (uint16_t)strlen(pb.alias),
			.event = pb.event,
			.event_size = (uint8_t)strlen(pb.event),
			.payload = pb.payload.data,
			.payload_size = (uint32_t)pb.payload.len,
			.call = pb.call,
			.id = pb.id,
			.from = pb.from,
			.timeout_ms = pb.timeout_ms,
			.deadline_ms = pb.deadline_ms,
		};
		n = plain_call_encode_frame(&e, frame);
		assert_true(n <= PLAIN_ROOM + (size_t)e.alias_size +
					 e.event_size + e.payload_size);
		assert_packed(
			&pb, frame, n, part, plain_call_encode_part(&e, part));
	}
}

static void
test_plain_replies_are_the_same(void **state)
{
	static struct sample s;
	static uint8_t frame[BUF], part[BUF];

	(void)state;
	srandom(6);
	for (int i = 0; i < N_RANDOM; i++) {
		Eventd__V1__Envelope pb = EVENTD__V1__ENVELOPE__INIT;
		struct plain_reply e;
		size_t n;

		sample_fill(&s);
		pb.payload = s.pb.payload;
		pb.re = s.pb.re;
		pb.status = s.pb.status;
		e = (struct plain_reply){
			.re = pb.re,
			.payload = pb.payload.data,
			.payload_size = (uint32_t)pb.payload.len,
			.status = pb.status,
		};
		n = plain_reply_encode_frame(&e, frame);
		assert_true(n <= PLAIN_ROOM + (size_t)e.payload_size);
		assert_packed(
			&pb, frame, n, part, plain_reply_encode_part(&e, part));
	}
}

/* The same event for many: what differs stands before it. */
static void
test_shared_frames_are_read_as_any_other(void **state)
{
	static struct sample s;
	static uint8_t rest[BUF], frame[BUF];

	(void)state;
	srandom(3);
	for (int i = 0; i < N_RANDOM; i++) {
		Eventd__V1__Frame *theirs;
		uint64_t length, to = random() % 3 ? (uint64_t)random() : 0;
		uint8_t attempt = (uint8_t)(random() % 3);
		size_t size, n, head;

		sample_fill(&s);
		s.pb.to = 0;
		s.pb.attempt = 0;
		size = eventd__v1__envelope__pack(&s.pb, rest);
		n = envelope_encode_shared(to, attempt, rest, size, frame);
		assert_true(n <= size + ENVELOPE_SHARED_ROOM);
		head = varint_get(frame, frame + n, &length);
		assert_int_equal(head + length, n);
		theirs = eventd__v1__frame__unpack(NULL, length, frame + head);
		assert_non_null(theirs);
		assert_int_equal(theirs->n_envelopes, 1);
		assert_int_equal(theirs->envelopes[0]->to, to);
		assert_int_equal(theirs->envelopes[0]->attempt, attempt);
		assert_string_equal(theirs->envelopes[0]->event, s.pb.event);
		assert_int_equal(
			theirs->envelopes[0]->payload.len, s.pb.payload.len);
		eventd__v1__frame__free_unpacked(theirs, NULL);
	}
}

/* What the hand codec takes, protobuf-c takes too, and sees the same in it. */
static void
test_damaged_envelopes_are_the_same_or_refused(void **state)
{
	static struct sample s;
	static uint8_t pb[BUF];
	int taken = 0;

	(void)state;
	srandom(2);
	for (int i = 0; i < N_RANDOM; i++) {
		struct envelope e;
		Eventd__V1__Envelope *theirs;
		size_t size;

		sample_fill(&s);
		s.pb.n_headers = 0;
		size = eventd__v1__envelope__pack(&s.pb, pb);
		for (long n = random() % 4; n >= 0 && size; n--)
			pb[(size_t)random() % size] = (uint8_t)random();
		if (random() % 4 == 0)
			size = (size_t)random() % (size + 1);
		if (envelope_decode(&e, pb, size))
			continue;
		theirs = eventd__v1__envelope__unpack(NULL, size, pb);
		assert_non_null(theirs);
		if (theirs->level >= 0 && theirs->level <= 3 &&
			theirs->priority >= 0 && theirs->priority <= 1)
			assert_same(&e, theirs);
		eventd__v1__envelope__free_unpacked(theirs, NULL);
		taken++;
	}
	assert_in_range(taken, N_RANDOM / 10, N_RANDOM - N_RANDOM / 10);
}

struct raw {
	const char *data;
	size_t size;
	int r;
};
#define RAW(text, result)                      \
	{                                      \
		text, sizeof(text) - 1, result \
	}

static void
test_decode_refuses(void **state)
{
	static const struct raw raws[] = {
		RAW("\x08", ENVELOPE_E_MALFORMED),         /* a tag, no value */
		RAW("\x0a\x01x", ENVELOPE_E_MALFORMED),    /* to as bytes */
		RAW("\x09xxxxxxxx", ENVELOPE_E_MALFORMED), /* to as fixed64 */
		RAW("\x1dxxxx", ENVELOPE_E_MALFORMED),  /* event as fixed32 */
		RAW("\x10\x01", ENVELOPE_E_MALFORMED),  /* alias as a number */
		RAW("\x22\x05x", ENVELOPE_E_MALFORMED), /* payload cut short */
		RAW("\x22\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
			ENVELOPE_E_MALFORMED), /* a length of 2^64 - 1 */
		RAW("\x0b\x0c", ENVELOPE_E_MALFORMED),         /* a group */
		RAW("\xa3\x06\xa4\x06", ENVELOPE_E_MALFORMED), /* unknown one */
		RAW("\x06", ENVELOPE_E_MALFORMED),             /* wire type 6 */
		RAW("\x00\x00", ENVELOPE_E_MALFORMED),         /* field 0 */
		RAW("\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00",
			ENVELOPE_E_MALFORMED), /* 11 bytes of varint */
		RAW("\x80\x80\x80\x80\x80\x00x", ENVELOPE_E_MALFORMED),
		RAW("\x12\x03"
		    "a b",
			ENVELOPE_E_NAME),
		RAW("\x12\x03"
		    "a\0b",
			ENVELOPE_E_NAME),
		RAW("\x1a\x01\xff", ENVELOPE_E_NAME),
		RAW("\x1a\x04\x1b[0m", ENVELOPE_E_NAME),
		RAW("\x7a\x03\x0a\x01 ", ENVELOPE_E_HEADERS), /* bad name */
		RAW("\x7a\x00", ENVELOPE_E_HEADERS),          /* no name */
		RAW("\x7a\x02\x08\x01", ENVELOPE_E_HEADERS),  /* a number */
		RAW("\x7a\x02\x0a\x05", ENVELOPE_E_HEADERS),  /* cut short */
		/* two headers with a payload between them */
		RAW("\x7a\x03\x0a\x01"
		    "a\x22\x01x\x7a\x03\x0a\x01"
		    "b",
			ENVELOPE_E_HEADERS),
	};

	(void)state;
	for (size_t i = 0; i < sizeof(raws) / sizeof(raws[0]); i++) {
		struct envelope e;

		if (envelope_decode(&e, (const uint8_t *)raws[i].data,
			    raws[i].size) != raws[i].r)
			fail_msg("case %zu", i);
	}
}

static void
test_decode_takes(void **state)
{
	static const char twice[] = "\x08\x01\x08\x02"
				    "\x22\x01x\x22\x02yz"
				    "\x1a\x01"
				    "e\x1a\x01"
				    "f";
	static const char unknown[] = "\xa2\x06\x02hi\xa0\x06\x05"
				      "\xa5\x06xxxx\xa1\x06xxxxxxxx\x08\x07";
	static const char levels[] = "\x60\xff\xff\xff\xff\xff\xff\xff\xff\xff"
				     "\x01";
	struct envelope e;

	(void)state;
	/* the last of a scalar counts */
	assert_int_equal(
		envelope_decode(&e, (const uint8_t *)twice, sizeof(twice) - 1),
		0);
	assert_int_equal(e.to, 2);
	assert_int_equal(e.payload_size, 2);
	assert_memory_equal(e.payload, "yz", 2);
	assert_int_equal(e.event[0], 'f');
	/* unknown fields of all wire types are passed over */
	assert_int_equal(envelope_decode(&e, (const uint8_t *)unknown,
				 sizeof(unknown) - 1),
		0);
	assert_int_equal(e.to, 7);
	/* a level of a later version, or a negative one, stays unknown */
	assert_int_equal(envelope_decode(&e, (const uint8_t *)levels,
				 sizeof(levels) - 1),
		0);
	assert_int_equal(e.level, 255);
	/* nothing at all is the default of everything */
	assert_int_equal(envelope_decode(&e, NULL, 0), 0);
	assert_int_equal(e.to, 0);
}

static void
test_headers_have_a_limit(void **state)
{
	static uint8_t data[2 * ENVELOPE_HEADERS_MAX];
	static const uint8_t start[] = {0x0a, 1, 'n', 0x12, 0xe8, 0x07};
	struct envelope e;
	size_t size = 0;

	(void)state;
	/* tag, length 2 bytes, name, value of 1000: 1008 bytes each */
	for (int i = 0; i < 17; i++) {
		assert_int_equal(envelope_decode(&e, data, size),
			size > ENVELOPE_HEADERS_MAX ? ENVELOPE_E_HEADERS : 0);
		data[size++] = 0x7a;
		size += varint_put(data + size, 3 + 3 + 1000);
		memcpy(data + size, start, sizeof(start));
		size += 6 + 1000;
	}
	assert_true(size > ENVELOPE_HEADERS_MAX);
	assert_int_equal(envelope_decode(&e, data, size), ENVELOPE_E_HEADERS);
}

/* What the daemon adds may follow the sender's bytes. */
static void
test_appended_fields_merge(void **state)
{
	uint8_t data[256];
	struct envelope e = {.event = "e", .event_size = 1, .seq = 9}, out;
	struct envelope added = {.id = 5, .from = 6, .to = 3};
	size_t n = envelope_encode(&e, data);

	(void)state;
	n += envelope_encode(&added, data + n);
	assert_int_equal(envelope_decode(&out, data, n), 0);
	assert_int_equal(out.id, 5);
	assert_int_equal(out.from, 6);
	assert_int_equal(out.to, 3);
	assert_int_equal(out.seq, 9);
	assert_int_equal(out.event_size, 1);
}

static void
test_names(void **state)
{
	char name[300];

	(void)state;
	memset(name, 'a', sizeof(name));
	assert_true(name_is_valid("a", 1, 127));
	assert_true(name_is_valid("A-Z_0.9/z", 9, 127));
	assert_false(name_is_valid("", 0, 127));
	assert_true(name_is_valid(name, 127, 127));
	assert_false(name_is_valid(name, 128, 127));
	assert_true(name_is_valid(name, 255, 255));
	for (int ch = 0; ch < 256; ch++) {
		bool good =
			(ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') ||
			(ch >= '0' && ch <= '9') || (ch && strchr("_./-", ch));

		name[3] = (char)ch;
		assert_int_equal(name_is_valid(name, 9, 127), good);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random_envelopes_are_the_same_both_ways),
		cmocka_unit_test(test_plain_frames_are_the_same),
		cmocka_unit_test(test_plain_calls_are_the_same),
		cmocka_unit_test(test_plain_replies_are_the_same),
		cmocka_unit_test(test_shared_frames_are_read_as_any_other),
		cmocka_unit_test(
			test_damaged_envelopes_are_the_same_or_refused),
		cmocka_unit_test(test_decode_refuses),
		cmocka_unit_test(test_decode_takes),
		cmocka_unit_test(test_headers_have_a_limit),
		cmocka_unit_test(test_appended_fields_merge),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

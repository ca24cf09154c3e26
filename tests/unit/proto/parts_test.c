/* Parts of a frame, acks, settles and failures: the same as protobuf-c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "eventd.pb-c.h"
#include "frame.h"
#include "parts.h"

enum { N_RANDOM = 5000, BUF = 4096, N_ALSO = 40 };

static uint64_t
random_number(void)
{
	uint64_t v = (uint64_t)random() << 40 ^ (uint64_t)random();

	return random() % 4 ? v >> random() % 64 : 0;
}

/* The body of a whole frame. */
static const uint8_t *
body_of(const uint8_t *frame, size_t n, size_t *size)
{
	size_t head;

	assert_int_equal(frame_take(frame, n, BUF, &head, size), 0);
	assert_int_equal(head + *size, n);
	return frame + head;
}

static void
test_acks_are_protobuf(void **state)
{
	(void)state;
	srandom(3);
	for (int i = 0; i < N_RANDOM; i++) {
		uint8_t data[BUF];
		uint64_t also[N_ALSO], upto = random_number(), seq;
		size_t n_also = (size_t)random() % N_ALSO, n, size;
		const uint8_t *body, *p;
		Eventd__V1__Frame *frame;
		struct part part;
		struct ack ack;

		for (size_t j = 0; j < n_also; j++)
			also[j] = random_number();
		n = ack_encode_frame(upto, also, n_also, data);
		assert_true(n <= ack_frame_bound(n_also));
		p = body = body_of(data, n, &size);
		frame = eventd__v1__frame__unpack(NULL, size, body);
		assert_non_null(frame);
		assert_true(frame->ack->upto == upto);
		assert_int_equal(frame->ack->n_also, n_also);
		assert_int_equal(part_next(&p, body + size, &part), 0);
		assert_int_equal(part.field, FRAME_ACK);
		assert_int_equal(part_next(&p, body + size, &part), PART_E_END);
		assert_int_equal(ack_decode(&ack, part.data, part.size), 0);
		assert_true(ack.upto == upto);
		for (size_t j = 0; j < n_also; j++) {
			assert_true(frame->ack->also[j] == also[j]);
			assert_int_equal(ack_also(&ack, &seq), 0);
			assert_true(seq == also[j]);
		}
		assert_int_equal(ack_also(&ack, &seq), PART_E_END);
		eventd__v1__frame__free_unpacked(frame, NULL);
	}
}

/* `also` in pieces and unpacked, as other encoders may send it. */
static void
test_acks_in_pieces(void **state)
{
	static const uint8_t data[] = {0x10, 1, 0x12, 2, 2, 3, 0x08, 9, 0x12, 0,
		0x10, 4, 0x12, 1, 5, 0x50, 7};
	struct ack ack;
	uint64_t seq;

	(void)state;
	assert_int_equal(ack_decode(&ack, data, sizeof(data)), 0);
	assert_int_equal(ack.upto, 9);
	for (uint64_t i = 1; i <= 5; i++) {
		assert_int_equal(ack_also(&ack, &seq), 0);
		assert_int_equal(seq, i);
	}
	assert_int_equal(ack_also(&ack, &seq), PART_E_END);
}

static void
test_settles_are_protobuf(void **state)
{
	(void)state;
	srandom(4);
	for (int i = 0; i < N_RANDOM; i++) {
		uint8_t data[SETTLE_FRAME_MAX];
		struct settle s = {random_number(), random_number()}, out;
		Eventd__V1__Frame *frame;
		const uint8_t *body, *p;
		struct part part;
		size_t n = settle_encode_frame(&s, data), size;

		assert_true(n <= sizeof(data));
		p = body = body_of(data, n, &size);
		frame = eventd__v1__frame__unpack(NULL, size, body);
		assert_non_null(frame);
		assert_true(frame->settle->binding == s.binding);
		assert_true(frame->settle->upto == s.upto);
		eventd__v1__frame__free_unpacked(frame, NULL);
		assert_int_equal(part_next(&p, body + size, &part), 0);
		assert_int_equal(part.field, FRAME_SETTLE);
		assert_int_equal(settle_decode(&out, part.data, part.size), 0);
		assert_memory_equal(&out, &s, sizeof(s));
	}
}

static void
test_failures_are_protobuf(void **state)
{
	uint8_t data[BUF];
	Eventd__V1__Failure pb = EVENTD__V1__FAILURE__INIT;
	struct failure f;
	size_t n;

	(void)state;
	pb.seq = 70000;
	pb.status = 5;
	pb.text = (char *)"no session holds the alias 'x'";
	n = eventd__v1__failure__pack(&pb, data);
	assert_int_equal(failure_decode(&f, data, n), 0);
	assert_int_equal(f.seq, 70000);
	assert_int_equal(f.status, 5);
	assert_int_equal(f.text_size, strlen(pb.text));
	assert_memory_equal(f.text, pb.text, f.text_size);
	assert_int_equal(failure_decode(&f, data, 0), 0);
	assert_int_equal(f.seq, 0);
	for (size_t cut = 1; cut < n; cut++)
		if (failure_decode(&f, data, cut) == 0)
			assert_true(f.text_size == 0);
}

static int
decode_all(const uint8_t *data, size_t size)
{
	struct ack ack;
	struct settle s;
	struct failure f;

	return ack_decode(&ack, data, size) + settle_decode(&s, data, size) +
	       failure_decode(&f, data, size);
}

static void
test_malformed_parts_are_refused(void **state)
{
	static const uint8_t wrong_type[] = {0x0a, 1, 'x'};
	static const uint8_t group[] = {0x0b, 0x0c};
	static const uint8_t short_packed[] = {0x12, 2, 0x80, 0x80};
	struct ack ack;

	(void)state;
	assert_int_equal(decode_all(wrong_type, sizeof(wrong_type)),
		3 * PART_E_MALFORMED);
	assert_int_equal(
		decode_all(group, sizeof(group)), 3 * PART_E_MALFORMED);
	assert_int_equal(decode_all(group, 1), 3 * PART_E_MALFORMED);
	assert_int_equal(ack_decode(&ack, short_packed, sizeof(short_packed)),
		PART_E_MALFORMED);
}

static void
test_parts_come_in_order(void **state)
{
	/* an envelope; an unknown number, fixed and message; a settle */
	static const uint8_t body[] = {0x0a, 2, 0x08, 1, 0xa0, 0x06, 5, 0xa5,
		0x06, 1, 2, 3, 4, 0xa2, 0x06, 1, 'x', 0x1a, 0};
	static const uint8_t not_bytes[] = {0x08, 1};
	const uint8_t *p = body;
	struct part part;

	(void)state;
	assert_int_equal(part_next(&p, body + sizeof(body), &part), 0);
	assert_int_equal(part.field, FRAME_ENVELOPE);
	assert_int_equal(part.size, 2);
	assert_ptr_equal(part.data, body + 2);
	assert_int_equal(part_next(&p, body + sizeof(body), &part), 0);
	assert_int_equal(part.field, 100);
	assert_int_equal(part_next(&p, body + sizeof(body), &part), 0);
	assert_int_equal(part.field, FRAME_SETTLE);
	assert_int_equal(part.size, 0);
	assert_int_equal(part_next(&p, body + sizeof(body), &part), PART_E_END);
	p = not_bytes;
	assert_int_equal(part_next(&p, not_bytes + 2, &part), PART_E_MALFORMED);
	p = body;
	assert_int_equal(part_next(&p, body + 3, &part), PART_E_MALFORMED);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_acks_are_protobuf),
		cmocka_unit_test(test_acks_in_pieces),
		cmocka_unit_test(test_settles_are_protobuf),
		cmocka_unit_test(test_failures_are_protobuf),
		cmocka_unit_test(test_malformed_parts_are_refused),
		cmocka_unit_test(test_parts_come_in_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

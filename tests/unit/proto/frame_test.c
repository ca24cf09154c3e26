/* Frames and varints. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "frame.h"

static const uint64_t edges[] = {0, 1, 127, 128, 129, 16383, 16384, 2097151,
	2097152, 268435455, 268435456, UINT32_MAX, UINT64_C(1) << 35,
	(UINT64_C(1) << 42) - 1, (UINT64_C(1) << 49) - 1,
	(UINT64_C(1) << 56) - 1, UINT64_C(1) << 56, UINT64_C(1) << 63,
	UINT64_MAX};

enum { N_EDGES = sizeof(edges) / sizeof(edges[0]) };

/* Wherever the data ends: at the varint, or long behind it. */
static void
test_varints_come_back(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_EDGES; i++) {
		for (size_t behind = 0; behind < 12; behind++) {
			uint8_t data[32];
			uint64_t value = 0;
			size_t n = varint_put(data, edges[i]);

			memset(data + n, 0xff, sizeof(data) - n);
			assert_int_equal(n, varint_size(edges[i]));
			assert_int_equal(
				varint_get(data, data + n + behind, &value), n);
			assert_true(value == edges[i]);
		}
	}
}

static void
test_varints_cut_short_are_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_EDGES; i++) {
		uint8_t data[16];
		uint64_t value;
		size_t n = varint_put(data, edges[i]);

		for (size_t cut = 0; cut < n; cut++)
			assert_int_equal(
				varint_get(data, data + cut, &value), 0);
	}
}

/* B116: a value spelt with more bytes than it needs is the same value; eleven
 * bytes are none. */
static void
test_varints_may_be_padded_to_ten_bytes(void **state)
{
	uint8_t data[12];
	uint64_t value;

	(void)state;
	for (size_t n = 1; n <= 11; n++) {
		memset(data, 0x80, n);
		data[0] |= 5;
		data[n - 1] &= 0x7f;
		value = 0;
		if (n == 11) {
			assert_int_equal(varint_get(data, data + n, &value), 0);
			continue;
		}
		assert_int_equal(varint_get(data, data + n, &value), n);
		assert_true(value == 5);
	}
}

static void
test_frame_is_short_until_all_is_there(void **state)
{
	uint8_t data[400];
	size_t head, body, n = varint_put(data, 300);

	(void)state;
	memset(data + n, 'x', 300);
	for (size_t size = 0; size < n + 300; size++) {
		assert_int_equal(frame_take(data, size, 300, &head, &body),
			FRAME_E_SHORT);
		assert_int_equal(head, size < n ? 0 : n);
		assert_int_equal(body, size < n ? 0 : 300);
	}
	assert_int_equal(frame_take(data, n + 300, 300, &head, &body), 0);
	assert_int_equal(head, n);
	assert_int_equal(body, 300);
}

static void
test_frame_over_the_limit_is_refused(void **state)
{
	uint8_t data[16];
	size_t head, body, n = varint_put(data, 301);

	(void)state;
	assert_int_equal(
		frame_take(data, n, 300, &head, &body), FRAME_E_TOO_LARGE);
	n = varint_put(data, (UINT64_C(1) << 35) - 1);
	assert_int_equal(
		frame_take(data, n, 300, &head, &body), FRAME_E_TOO_LARGE);
}

static void
test_frame_length_over_five_bytes_is_malformed(void **state)
{
	static const uint8_t data[] = {0x85, 0x80, 0x80, 0x80, 0x80, 0x00};
	size_t head, body;

	(void)state;
	assert_int_equal(frame_take(data, 4, 300, &head, &body), FRAME_E_SHORT);
	assert_int_equal(
		frame_take(data, 5, 300, &head, &body), FRAME_E_MALFORMED);
	assert_int_equal(
		frame_take(data, 6, 300, &head, &body), FRAME_E_MALFORMED);
}

static void
test_empty_frame_is_a_frame(void **state)
{
	size_t head, body = 1;

	(void)state;
	assert_int_equal(
		frame_take((const uint8_t *)"\0", 1, 9, &head, &body), 0);
	assert_int_equal(head, 1);
	assert_int_equal(body, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_varints_come_back),
		cmocka_unit_test(test_varints_cut_short_are_refused),
		cmocka_unit_test(test_varints_may_be_padded_to_ten_bytes),
		cmocka_unit_test(test_frame_is_short_until_all_is_there),
		cmocka_unit_test(test_frame_over_the_limit_is_refused),
		cmocka_unit_test(
			test_frame_length_over_five_bytes_is_malformed),
		cmocka_unit_test(test_empty_frame_is_a_frame),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The posts that wait for their ack, against a plain map of them. */
#include <stdlib.h>

#include "base/fault.h"
#include "fixture.h"
#include "net/acks.h"

static void
test_in_order_nothing_is_kept(void **state)
{
	struct acks a = {0};

	(void)state;
	for (uint64_t seq = 1; seq <= 100000; seq++) {
		assert_int_equal(acks_add(&a, seq), 0);
		assert_int_equal(acks_upto(&a, seq), seq - 1);
		assert_true(acks_settle(&a, seq));
		assert_int_equal(acks_upto(&a, seq), seq);
	}
	assert_true(a.room <= 16);
	acks_deinit(&a);
}

static void
test_one_waits_while_any_number_passes(void **state)
{
	enum { N = 1000000 };
	struct acks a = {0};

	(void)state;
	assert_int_equal(acks_add(&a, 1), 0);
	for (uint64_t seq = 2; seq <= N; seq++) {
		assert_int_equal(acks_add(&a, seq), 0);
		assert_false(acks_settle(&a, seq));
		assert_int_equal(acks_upto(&a, seq), 0);
	}
	assert_true(a.room <= 64);
	assert_true(acks_settle(&a, 1));
	assert_int_equal(acks_upto(&a, N), N);
	acks_deinit(&a);
}

static void
test_any_order(void **state)
{
	enum { N = 20000, WINDOW = 100 };
	static bool done[N + 1];
	struct acks a = {0};
	uint64_t waiting[WINDOW], next = 1, low = 1;
	unsigned n = 0;

	(void)state;
	srand(1);
	while (low <= N) {
		unsigned i = (unsigned)rand() % (n + 1);

		if (i == n && n < WINDOW && next <= N) {
			assert_int_equal(acks_add(&a, next), 0);
			waiting[n++] = next++;
		} else if (n) {
			uint64_t seq;

			i %= n;
			seq = waiting[i];
			waiting[i] = waiting[--n];
			done[seq] = true;
			assert_int_equal(acks_settle(&a, seq), seq == low);
			while (low <= N && done[low])
				low++;
		}
		assert_int_equal(acks_upto(&a, next - 1), low - 1);
	}
	assert_true(a.room <= 4 * WINDOW);
	acks_deinit(&a);
}

#ifndef NDEBUG
static void
test_out_of_memory_is_told(void **state)
{
	struct acks a = {0};

	(void)state;
	fault_arm("acks_add", 1);
	assert_int_equal(acks_add(&a, 1), -12);
	assert_int_equal(acks_add(&a, 1), 0);
	assert_true(acks_settle(&a, 1));
	acks_deinit(&a);
}
#endif

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_in_order_nothing_is_kept),
		cmocka_unit_test(test_one_waits_while_any_number_passes),
		cmocka_unit_test(test_any_order),
#ifndef NDEBUG
		cmocka_unit_test(test_out_of_memory_is_told),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

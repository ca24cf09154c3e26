#include "rig.h"

#include "kind/deferred.h"

static void
test_what_was_added_is_there_once(void **state)
{
	struct rig *rig = *state;
	struct deferred d = {0};

	assert_false(deferred_remove(&d, 5));
	for (uint64_t i = 1; i <= 5000; i++)
		assert_int_equal(deferred_add(&d, i << 30 | i % 7, 0), 0);
	for (uint64_t i = 1; i <= 5000; i += 2)
		assert_true(deferred_remove(&d, i << 30 | i % 7));
	for (uint64_t i = 1; i <= 5000; i++)
		assert_int_equal(
			deferred_remove(&d, i << 30 | i % 7), i % 2 == 0);
	assert_int_equal(d.calls.n, 0);
	assert_false(deferred_remove(&d, 0));
	deferred_deinit(&d, &rig->s);
}

static void
test_there_is_a_limit(void **state)
{
	struct rig *rig = *state;
	struct deferred d = {0};

	for (uint64_t i = 1; i <= DEFERRED_MAX; i++)
		assert_int_equal(deferred_add(&d, i, 0), 0);
	assert_int_equal(
		deferred_add(&d, DEFERRED_MAX + 1, 0), DEFERRED_E_MANY);
	assert_true(deferred_remove(&d, 1));
	assert_int_equal(deferred_add(&d, DEFERRED_MAX + 1, 0), 0);
	deferred_deinit(&d, &rig->s);
}

int
main(void)
{
#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_what_was_added_is_there_once),
		TEST(test_there_is_a_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

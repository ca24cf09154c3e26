/* Slots: numbers that are never used twice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "slots.h"

enum { MANY = 1000 };

static void
test_numbers_are_found_until_removed(void **state)
{
	struct slots s = {0};
	uint64_t numbers[MANY];

	(void)state;
	for (uint64_t i = 0; i < MANY; i++) {
		struct slot *slot = slots_add(&s, MANY);

		assert_non_null(slot);
		assert_int_not_equal(slot->number, 0);
		slot->value = i;
		numbers[i] = slot->number;
	}
	assert_null(slots_add(&s, MANY));
	for (size_t i = 0; i < MANY; i += 2)
		slots_remove(&s, slots_find(&s, numbers[i]));
	for (size_t i = 0; i < MANY; i++) {
		const struct slot *slot = slots_find(&s, numbers[i]);

		if (i % 2)
			assert_int_equal(slot->value, i);
		else
			assert_null(slot);
	}
	assert_null(slots_find(&s, 0));
	assert_null(slots_find(&s, UINT64_MAX));
	slots_deinit(&s);
}

static void
test_numbers_are_not_used_twice(void **state)
{
	struct slots s = {0};
	uint64_t last = 0;

	(void)state;
	for (int i = 0; i < MANY; i++) {
		struct slot *slot = slots_add(&s, 10);

		assert_true(slot->number > last);
		assert_null(slots_find(&s, last));
		last = slot->number;
		if (i % 10)
			slots_remove(&s, slot);
		else
			slots_clear(&s);
		assert_int_equal(s.used, 0);
	}
	slots_deinit(&s);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers_are_found_until_removed),
		cmocka_unit_test(test_numbers_are_not_used_twice),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

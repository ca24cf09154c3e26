/* daemon/base/fault.c */
#include "base/fault.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void
test_an_unarmed_point_never_hits(void **state)
{
	(void)state;
	for (int i = 0; i < 10; i++)
		assert_false(fault_hits("some_point"));
}

static void
test_the_armed_point_hits_once_at_its_nth_pass(void **state)
{
	(void)state;
	fault_arm("some_point", 3);
	assert_false(fault_hits("some_point"));
	assert_false(fault_hits("other_point"));
	assert_false(fault_hits("some_point"));
	assert_true(fault_hits("some_point"));
	for (int i = 0; i < 10; i++)
		assert_false(fault_hits("some_point"));
}

static void
test_disarming_takes_it_back(void **state)
{
	(void)state;
	fault_arm("some_point", 1);
	fault_arm("some_point", 0);
	assert_false(fault_hits("some_point"));
}

static void
test_a_longer_name_armed_before_does_not_linger(void **state)
{
	(void)state;
	fault_arm("a_long_point_name", 1);
	fault_arm("a_long", 1);
	assert_false(fault_hits("a_long_point_name"));
	assert_true(fault_hits("a_long"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_an_unarmed_point_never_hits),
		cmocka_unit_test(
			test_the_armed_point_hits_once_at_its_nth_pass),
		cmocka_unit_test(test_disarming_takes_it_back),
		cmocka_unit_test(
			test_a_longer_name_armed_before_does_not_linger),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

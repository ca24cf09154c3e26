/* daemon/base/clock.c */
#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

static void
test_the_system_clock_is_the_systems(void **state)
{
	uint64_t before = clock_now(&clock_system);
	uint64_t wall = clock_wall(&clock_system);
	time_t seconds = time(NULL);

	(void)state;
	assert_true(clock_now(&clock_system) >= before);
	assert_true(wall / NS_PER_S + 1 >= (uint64_t)seconds - 60);
	assert_true(wall / NS_PER_S <= (uint64_t)seconds + 60);
}

static void
test_a_fake_clock_moves_when_told_to(void **state)
{
	struct clock_fake c;
	uint64_t now, wall;

	(void)state;
	clock_fake_init(&c);
	now = clock_now(&c.source);
	wall = clock_wall(&c.source);
	assert_true(now > 0);
	assert_int_equal(clock_now(&c.source), now);
	clock_fake_advance(&c, 5);
	assert_int_equal(clock_now(&c.source), now + 5);
	assert_int_equal(clock_wall(&c.source), wall + 5);
	c.wall_ns -= 100; /* set back */
	assert_int_equal(clock_now(&c.source), now + 5);
	assert_int_equal(clock_wall(&c.source), wall - 95);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_system_clock_is_the_systems),
		cmocka_unit_test(test_a_fake_clock_moves_when_told_to),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

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

/* Never before the clock, never going back, and soon after it. */
static void
test_a_near_reading_is_not_early(void **state)
{
	struct clock_near near = {0};
	uint64_t last = 0;

	(void)state;
	for (int i = 0; i < 100000; i++) {
		uint64_t now = clock_now(&clock_system);
		uint64_t read = clock_near(&near, &clock_system);

		assert_true(read >= now);
		assert_true(read >= last);
		assert_true(read <= clock_now(&clock_system) + CLOCK_NEAR_NS);
		last = read;
	}
}

static void
test_a_near_reading_of_a_fake_clock_is_exact(void **state)
{
	struct clock_near near = {0};
	struct clock_fake c;

	(void)state;
	clock_fake_init(&c);
	assert_int_equal(clock_near(&near, &c.source), c.monotonic_ns);
	clock_fake_advance(&c, 1);
	assert_int_equal(clock_near(&near, &c.source), c.monotonic_ns);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_system_clock_is_the_systems),
		cmocka_unit_test(test_a_fake_clock_moves_when_told_to),
		cmocka_unit_test(test_a_near_reading_is_not_early),
		cmocka_unit_test(test_a_near_reading_of_a_fake_clock_is_exact),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

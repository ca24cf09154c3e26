/* daemon/kernel/lateness.c, and what the delays of a scheduler add to it. */
#include "kernel/lateness.h"

#include <string.h>

#include "fixture.h"

static void
test_each_bucket_ends_where_the_next_begins(void **state)
{
	(void)state;
	for (unsigned i = 0; i + 1 < LATENESS_BUCKETS; i++) {
		uint64_t bound = lateness_bound(i);

		assert_int_equal(lateness_bucket(bound - 1), i);
		assert_int_equal(lateness_bucket(bound), i + 1);
	}
	assert_int_equal(lateness_bucket(0), 0);
	assert_int_equal(lateness_bucket(UINT64_MAX), LATENESS_BUCKETS - 1);
}

static void
test_a_bound_is_at_most_a_quarter_too_high(void **state)
{
	struct lateness l;

	(void)state;
	for (uint64_t ns = 5000; ns < 1ull << 41; ns += ns / 7) {
		memset(&l, 0, sizeof(l));
		lateness_add(&l, ns);
		lateness_add(&l, 1ull << 42);
		assert_true(lateness_of_thousand(&l, 500) > ns);
		assert_true(lateness_of_thousand(&l, 500) <= ns + ns / 4 + 1);
	}
}

static void
test_quantiles_of_many(void **state)
{
	struct lateness l = {0}, sum = {0};

	(void)state;
	assert_int_equal(lateness_of_thousand(&l, 990), 0);
	for (unsigned i = 0; i < 989; i++)
		lateness_add(&l, 100000);
	lateness_add(&l, 300000);
	for (unsigned i = 0; i < 10; i++)
		lateness_add(&l, 5000000);
	assert_true(lateness_of_thousand(&l, 500) < 125000);
	assert_true(lateness_of_thousand(&l, 990) > 300000);
	assert_true(lateness_of_thousand(&l, 990) < 375000);
	assert_int_equal(lateness_of_thousand(&l, 1000), 5000000);
	lateness_merge(&sum, &l);
	lateness_add(&l, 7000000);
	lateness_merge(&sum, &l);
	assert_int_equal(sum.n, 2001);
	assert_int_equal(sum.max_ns, 7000000);
}

static void
delay(struct fake *s, const struct delay_init *init)
{
	struct delay_init copy = *init;

	copy.to = s->id;
	copy.event = "e";
	copy.event_size = 1;
	assert_int_equal(delay_set(s->sched, s->session, &copy, NULL, NULL), 0);
}

/* B41: what is counted is how late the daemon was, not that a clock was set or
 * that a timer may wait for others. */
static void
test_a_scheduler_counts_how_late_its_delays_are(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, NULL);
	struct lateness *l = &f->scheds[0].lateness;
	uint64_t now = f->clock.monotonic_ns;

	delay(s, &(struct delay_init){.due_ns = now + 10 * NS_PER_MS});
	delay(s, &(struct delay_init){.due_ns = now + 12 * NS_PER_MS});
	fixture_advance(f, 15);
	assert_int_equal(l->n, 2);
	assert_int_equal(l->max_ns, 5 * NS_PER_MS);
	delay(s, &(struct delay_init){.clock = DELAY_WALL,
			 .due_ns = f->clock.wall_ns + 10ull * NS_PER_S});
	f->clock.wall_ns += 3600ull * NS_PER_S;
	sched_clock_set(s->sched);
	fixture_run(f);
	assert_int_equal(s->n_run, 3);
	assert_int_equal(l->n, 2);
	assert_int_equal(l->max_ns, 5 * NS_PER_MS);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_bucket_ends_where_the_next_begins),
		cmocka_unit_test(test_a_bound_is_at_most_a_quarter_too_high),
		cmocka_unit_test(test_quantiles_of_many),
		cmocka_unit_test_setup_teardown(
			test_a_scheduler_counts_how_late_its_delays_are,
			fixture_setup, fixture_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

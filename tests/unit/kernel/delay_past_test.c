/* daemon/kernel/delay_past.c: what has become of delays that are no more. */
#include "kernel/delay_past.h"

#include <string.h>

#include "base/fault.h"
#include "fixture.h"
#include "kernel/delays.h"

static uint64_t
set_named(struct fake *s, const char *alias, const char *name, uint64_t ms)
{
	struct delay_init init = {.event = "e",
		.event_size = 1,
		.alias = alias,
		.alias_size = alias ? (uint32_t)strlen(alias) : 0,
		.to = s->id,
		.due_ns = clock_now(s->sched->kernel->clock) + ms * NS_PER_MS,
		.name = name,
		.name_size = (uint8_t)strlen(name),
		.by_alias = alias != NULL};
	uint64_t id = 0;

	assert_int_equal(delay_set(s->sched, alias ? NULL : s->session, &init,
				 &id, NULL),
		0);
	return id;
}

/* Of the session's own, or of the alias's. */
static enum delay_fate
fate(struct fake *s, const char *alias, const char *name)
{
	return delay_fate_of_name(
		s->sched, &(struct delay_name){.owner = s->id,
				  .alias = alias,
				  .alias_size = alias ? strlen(alias) : 0,
				  .name = name,
				  .size = strlen(name)});
}

/* B40 */
static void
test_a_name_tells_what_became_of_its_last(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, NULL);

	assert_int_equal(fate(s, NULL, "n"), DELAY_FORGOTTEN);
	set_named(s, NULL, "n", 10);
	assert_int_equal(
		delay_cancel(s->sched, set_named(s, NULL, "m", 10)), 0);
	fixture_advance(f, 20);
	assert_int_equal(fate(s, NULL, "n"), DELAY_HAS_FIRED);
	assert_int_equal(fate(s, NULL, "m"), DELAY_WAS_CANCELLED);
	assert_int_equal(fate(s, NULL, "never"), DELAY_FORGOTTEN);
	assert_int_equal(
		delay_cancel(s->sched, set_named(s, NULL, "n", 10)), 0);
	assert_int_equal(fate(s, NULL, "n"), DELAY_WAS_CANCELLED);
}

static void
test_scopes_have_names_of_their_own(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, "a");
	struct fake *other = fake_new(f, 0, "b");

	set_named(s, "a", "n", 10);
	fixture_advance(f, 20);
	assert_int_equal(fate(s, "a", "n"), DELAY_HAS_FIRED);
	assert_int_equal(fate(s, "b", "n"), DELAY_FORGOTTEN);
	assert_int_equal(fate(s, NULL, "n"), DELAY_FORGOTTEN);
	assert_int_equal(fate(other, NULL, "n"), DELAY_FORGOTTEN);
}

/* Its entry goes with its last reference, and comes at another address. */
static void
test_an_alias_may_go_and_come_again(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, "a");
	struct aliases *aliases = &s->sched->kernel->aliases;

	set_named(s, "a", "n", 10);
	fixture_advance(f, 20);
	session_stop(s->session);
	fixture_run(f);
	assert_null(alias_find(aliases, "a", 1));
	s = fake_new(f, 0, "b");
	assert_int_equal(fate(s, "a", "n"), DELAY_HAS_FIRED);
}

static void
test_one_that_takes_the_name_ends_the_other(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, NULL);
	uint64_t first = set_named(s, NULL, "n", 3600000);

	set_named(s, NULL, "n", 10);
	assert_int_equal(
		delay_fate(&s->sched->delays, first), DELAY_WAS_CANCELLED);
	fixture_advance(f, 20);
	assert_int_equal(fate(s, NULL, "n"), DELAY_HAS_FIRED);
}

/* The table of ids is there always, that of names if there is memory. */
static void
test_without_memory_names_are_forgotten(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, NULL);
	uint64_t id = set_named(s, NULL, "n", 10);

	fault_arm("delay_past", 1);
	fixture_advance(f, 20);
	fault_arm("delay_past", 0);
	assert_int_equal(fate(s, NULL, "n"), DELAY_FORGOTTEN);
	assert_int_equal(delay_fate(&s->sched->delays, id), DELAY_HAS_FIRED);
}

int
main(void)
{
#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_a_name_tells_what_became_of_its_last),
		TEST(test_scopes_have_names_of_their_own),
		TEST(test_an_alias_may_go_and_come_again),
		TEST(test_one_that_takes_the_name_ends_the_other),
		TEST(test_without_memory_names_are_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

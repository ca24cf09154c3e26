/* daemon/kernel/idle.c: Start=on-demand, IdleStop= and Collect=. */
#include "kernel/idle.h"

#include <stdlib.h>
#include <string.h>

#include "fixture.h"

enum { IDLE_MS = 1000 };

static struct fake *
lazy(struct fixture *f, unsigned i)
{
	struct session_spec *spec = fixture_spec("lazy", RESTART_ON_FAILURE);
	struct fake *s;

	spec->on_demand = true;
	spec->idle_ms = IDLE_MS;
	s = fake_hosted(f, i, spec);
	fixture_run(f);
	return s;
}

static void
test_it_starts_with_its_first_event(void **state)
{
	struct fixture *f = *state;
	struct fake *s = lazy(f, 0);

	assert_string_equal(session_state_word(s->session), "dormant");
	assert_int_equal(s->n_started, 0);
	fixture_advance(f, 100000);
	fixture_post(NULL, s, "a");
	fixture_post(NULL, s, "b");
	fixture_run(f);
	assert_string_equal(fake_trace(s), "start a b");
	assert_string_equal(session_state_word(s->session), "up");
}

static void
test_idle_it_stops_and_starts_again(void **state)
{
	struct fixture *f = *state;
	struct fake *s = lazy(f, 1), *from = fake_new(f, 0, NULL);

	fixture_post(from, s, "a");
	fixture_run(f);
	fixture_advance(f, IDLE_MS - 1);
	fixture_post(from, s, "b"); /* counts anew */
	fixture_run(f);
	fixture_advance(f, IDLE_MS - 1);
	assert_string_equal(fake_trace(s), "start a b");
	fixture_advance(f, 2);
	assert_string_equal(fake_trace(s), "stop");
	assert_string_equal(session_state_word(s->session), "dormant");
	assert_int_equal(s->session->exit, EXIT_IDLE);
	fixture_post(from, s, "c");
	fixture_run(f);
	assert_string_equal(fake_trace(s), "start c");
	assert_int_equal(s->session->starts, 2);
}

static void
test_at_boot_it_ends_for_good(void **state)
{
	struct fixture *f = *state;
	struct session_spec *spec = fixture_spec("s", RESTART_ALWAYS);
	struct fake *s;

	spec->idle_ms = IDLE_MS;
	s = fake_hosted(f, 0, spec);
	fixture_run(f);
	fixture_advance(f, IDLE_MS + 1);
	assert_string_equal(fake_trace(s), "start stop");
	assert_false(fake_exists(s));
}

/* Whatever is under way or owed keeps it. */
static void
test_work_keeps_it_from_being_idle(void **state)
{
	struct fixture *f = *state;
	struct fake *s = lazy(f, 0), *other = fake_new(f, 1, NULL);
	struct delay_init init = {.to = s->id};

	s->on_run = fake_wait;
	fixture_post(NULL, s, "long");
	fixture_run(f);
	fixture_advance(f, 3 * IDLE_MS);
	assert_string_equal(fake_trace(s), "start long");
	fake_done(s, 0);
	s->on_run = NULL;
	other->on_run = fake_wait;
	assert_int_equal(fixture_call(s, other, "ask", 1, 3 * IDLE_MS), 0);
	fixture_run(f);
	fixture_advance(f, 2 * IDLE_MS);
	assert_string_equal(session_state_word(s->session), "up");
	fake_done(other, 0);
	fixture_run(f);
	init.due_ns = f->clock.monotonic_ns + 5ull * IDLE_MS * NS_PER_MS;
	init.event = "later";
	init.event_size = 5;
	assert_int_equal(delay_set(s->sched, s->session, &init, NULL, NULL), 0);
	fixture_advance(f, 4 * IDLE_MS);
	assert_string_equal(session_state_word(s->session), "up");
	fixture_advance(f, 1100);
	assert_non_null(strstr(fake_trace(s), "later"));
	fixture_advance(f, 2 * IDLE_MS);
	assert_string_equal(session_state_word(s->session), "dormant");
}

static enum session_result
crash_start(struct fake *fake)
{
	session_fail(fake->session, "not today");
	return SESSION_CRASHED;
}

static enum session_result
slow_start(struct fake *fake)
{
	(void)fake;
	return SESSION_WAIT;
}

/* B68: a slow start, a failed one, idle stops, and posts all the while: each is
 * handled once, in order. */
static void
test_posts_over_slow_and_failed_starts(void **state)
{
	struct fixture *f = *state;
	struct fake *s = lazy(f, 1), *from = fake_new(f, 0, NULL);

	s->on_start = slow_start;
	fixture_post(from, s, "e1");
	fixture_run(f);
	fixture_post(from, s, "e2");
	fixture_run(f);
	assert_string_equal(fake_trace(s), "start");
	session_fail(s->session, "not today");
	s->on_start = crash_start;
	fixture_advance(f, 120);
	assert_string_equal(fake_trace(s), "crash start crash");
	fixture_post(from, s, "e3");
	s->on_start = NULL;
	fixture_advance(f, 300);
	assert_string_equal(fake_trace(s), "start e1 e2 e3");
	/* The failure of a former start says nothing of this one. */
	assert_int_equal(s->session->starts, 3);
	fixture_advance(f, IDLE_MS + 1);
	fixture_post(from, s, "e4");
	fixture_run(f);
	assert_string_equal(fake_trace(s), "stop start e4");
	assert_int_equal(session_counters(s->session).accepted, 4);
	assert_int_equal(session_counters(s->session).handled, 4);
}

static void
post_on_stop(struct fake *fake)
{
	if (fake->number++ == 0)
		fixture_post(NULL, fake, "late");
}

static void
test_an_event_during_the_stop_starts_it_again(void **state)
{
	struct fixture *f = *state;
	struct fake *s = lazy(f, 0);

	s->on_stop = post_on_stop;
	fixture_post(NULL, s, "a");
	fixture_run(f);
	fixture_advance(f, IDLE_MS + 1);
	assert_string_equal(fake_trace(s), "start a stop start late");
}

static void
test_after_a_failure_it_waits_for_an_event(void **state)
{
	struct fixture *f = *state;
	struct fake *s = lazy(f, 0);

	s->on_run = fake_crash;
	fixture_post(NULL, s, "boom");
	fixture_run(f);
	fixture_advance(f, 200);
	assert_string_equal(session_state_word(s->session), "dormant");
	s->on_run = NULL;
	fixture_post(NULL, s, "b");
	fixture_run(f);
	assert_string_equal(fake_trace(s), "start boom crash start b");
}

static enum session_result
exit_self(struct fake *fake, struct msg *m)
{
	(void)m;
	session_exit(fake->session);
	return SESSION_DONE;
}

static void
test_one_that_exits_waits_for_an_event(void **state)
{
	struct fixture *f = *state;
	struct fake *s = lazy(f, 0);

	s->on_run = exit_self;
	fixture_post(NULL, s, "a");
	fixture_post(NULL, s, "b");
	fixture_run(f);
	assert_string_equal(fake_trace(s), "start a stop start b stop");
	assert_int_equal(s->session->exit, EXIT_NORMAL);
}

/* ---- Collect= ------------------------------------------------------------ */

static struct fake *
collected(struct fixture *f, const char *alias)
{
	struct session_spec *spec = fixture_spec("x", RESTART_ALWAYS);

	spec->collect = true;
	if (!alias) {
		free(spec->aliases[0]);
		spec->n_aliases = 0;
	}
	return fake_hosted(f, 0, spec);
}

static void
test_without_references_it_ends(void **state)
{
	struct fixture *f = *state;
	struct fake *s = collected(f, NULL);

	fixture_post(NULL, s, "a");
	fixture_run(f);
	assert_string_equal(fake_trace(s), "start a stop");
	assert_false(fake_exists(s));
}

static void
test_an_alias_keeps_it(void **state)
{
	struct fixture *f = *state;
	struct fake *s = collected(f, "x");

	fixture_run(f);
	fixture_advance(f, 100000);
	assert_true(fake_exists(s));
	session_drop_alias(s->session, "x", 1);
	fixture_run(f);
	assert_false(fake_exists(s));
}

static enum session_result
set_delay(struct fake *fake, struct msg *m)
{
	struct delay_init init = {.to = fake->id,
		.event = "due",
		.event_size = 3,
		.due_ns = fake->sched->now_ns + 50 * NS_PER_MS};

	if (!strcmp(m->event, "set"))
		assert_int_equal(delay_set(fake->sched, fake->session, &init,
					 &fake->number, NULL),
			0);
	return SESSION_DONE;
}

static void
test_a_delay_keeps_it(void **state)
{
	struct fixture *f = *state;
	struct fake *s = collected(f, NULL);

	s->on_run = set_delay;
	fixture_post(NULL, s, "set");
	fixture_run(f);
	fixture_advance(f, 49);
	assert_true(fake_exists(s));
	fixture_advance(f, 2);
	assert_string_equal(fake_trace(s), "start set due stop");
	assert_false(fake_exists(s));
}

static void
test_a_cancelled_delay_keeps_it_no_more(void **state)
{
	struct fixture *f = *state;
	struct fake *s = collected(f, NULL);

	s->on_run = set_delay;
	fixture_post(NULL, s, "set");
	fixture_run(f);
	delay_cancel(s->sched, s->number);
	fixture_run(f);
	assert_false(fake_exists(s));
}

static enum session_result
call_other(struct fake *fake, struct msg *m)
{
	(void)m;
	assert_int_equal(fixture_call(fake, fake->other, "ask", 7, 100), 0);
	return SESSION_DONE;
}

static void
test_a_call_keeps_it(void **state)
{
	struct fixture *f = *state;
	struct fake *s = collected(f, NULL), *other = fake_new(f, 1, NULL);

	s->other = other;
	s->on_run = call_other;
	other->on_run = fake_wait;
	fixture_post(NULL, s, "go");
	fixture_run(f);
	assert_true(fake_exists(s));
	fake_done(other, 0);
	fixture_run(f);
	assert_string_equal(fake_trace(s), "start go reply7=ok: stop");
	assert_false(fake_exists(s));
}

int
main(void)
{
#define TEST(name)                       \
	cmocka_unit_test_setup_teardown( \
		name, fixture_setup_two, fixture_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_it_starts_with_its_first_event),
		TEST(test_idle_it_stops_and_starts_again),
		TEST(test_at_boot_it_ends_for_good),
		TEST(test_work_keeps_it_from_being_idle),
		TEST(test_posts_over_slow_and_failed_starts),
		TEST(test_an_event_during_the_stop_starts_it_again),
		TEST(test_after_a_failure_it_waits_for_an_event),
		TEST(test_one_that_exits_waits_for_an_event),
		TEST(test_without_references_it_ends),
		TEST(test_an_alias_keeps_it),
		TEST(test_a_delay_keeps_it),
		TEST(test_a_cancelled_delay_keeps_it_no_more),
		TEST(test_a_call_keeps_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

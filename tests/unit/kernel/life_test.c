/* daemon/kernel/life.c: exit reasons, and events that crash their session. */
#include "kernel/life.h"

#include <stdlib.h>
#include <string.h>

#include "fixture.h"

static struct fake *
fragile(struct fixture *f, uint32_t max_attempts)
{
	struct session_spec *spec = fixture_spec("s", RESTART_ON_FAILURE);
	struct fake *s;

	spec->max_attempts = max_attempts;
	spec->restart_burst = 1;
	s = fake_hosted(f, 0, spec);
	fixture_run(f);
	fake_trace(s);
	return s;
}

static enum session_result
crash_on_bad(struct fake *fake, struct msg *m)
{
	return strcmp(m->event, "bad") ? SESSION_DONE : fake_crash(fake, m);
}

static void
test_by_default_an_event_crashes_once(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fragile(f, 0), *from = fake_new(f, 1, NULL);

	from->texts = true;
	s->on_run = crash_on_bad;
	fixture_post_ack(from, s, "bad", 1, MSG_LEVEL_HANDLED, 0);
	fixture_post(from, s, "good");
	fixture_run(f);
	fixture_advance(f, 200);
	assert_string_equal(fake_trace(s), "bad crash start good");
	assert_string_equal(
		fake_trace(from), "settled1=died:cannot handle 'bad'");
}

/* The budget allows one failure: the event's further ones are the same. */
static void
test_a_poison_event_is_parked_alone(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fragile(f, 3), *from = fake_new(f, 1, NULL);

	from->texts = true;
	s->on_run = crash_on_bad;
	fixture_post(from, s, "first");
	fixture_post_ack(from, s, "bad", 1, MSG_LEVEL_HANDLED, 0);
	fixture_post(from, s, "good");
	fixture_run(f);
	assert_int_equal(session_counters(s->session).dead, 0);
	assert_int_equal(s->session->box.n, 2);
	for (int i = 0; i < 10; i++)
		fixture_advance(f, 200);
	assert_string_equal(fake_trace(s),
		"first bad crash start bad crash start bad crash start good");
	assert_string_equal(fake_trace(from),
		"settled1=poison:it crashed its session 3 times "
		"(MaxAttempts=): cannot handle 'bad'");
	assert_int_equal(session_counters(s->session).dead, 1);
	assert_int_equal(session_counters(s->session).handled, 2);
	assert_int_equal(s->session->health->in_window, 1);
	assert_string_equal(session_state_word(s->session), "up");
}

static enum session_result
crash_twice(struct fake *fake, struct msg *m)
{
	assert_int_equal(m->attempt, fake->number);
	return fake->number++ < 2 ? fake_crash(fake, m) : SESSION_DONE;
}

static void
test_an_event_may_succeed_at_last(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fragile(f, 3), *from = fake_new(f, 1, NULL);

	s->on_run = crash_twice;
	assert_int_equal(fixture_call(from, s, "bad", 7, 10000), 0);
	fixture_run(f);
	for (int i = 0; i < 5; i++)
		fixture_advance(f, 300);
	assert_string_equal(
		fake_trace(s), "bad crash start bad crash start bad");
	assert_string_equal(fake_trace(from), "reply7=ok:");
	assert_int_equal(session_counters(s->session).handled, 1);
}

/* Two events that crash are two failures. */
static void
test_another_event_is_another_failure(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fragile(f, 2);

	s->on_run = crash_on_bad;
	fixture_post(NULL, s, "bad");
	fixture_post(NULL, s, "bad");
	fixture_run(f);
	for (int i = 0; i < 10; i++)
		fixture_advance(f, 300);
	assert_string_equal(session_state_word(s->session), "failed");
	assert_int_equal(session_counters(s->session).dead, 1);
	assert_int_equal(s->session->box.n, 1); /* kept for a restart */
	s->on_run = NULL;
	session_restart(s->session, s->session->spec);
	fixture_run(f);
	assert_int_equal(session_counters(s->session).handled, 1);
}

static enum session_result
crash_once_up(struct fake *fake)
{
	if (fake->n_started < 3)
		return SESSION_DONE;
	session_fail(fake->session, "cannot start");
	return SESSION_CRASHED;
}

/* A start that fails is a failure, whatever waits in front. */
static void
test_a_failed_start_is_not_the_events(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fragile(f, 5);

	s->on_start = crash_once_up;
	s->on_run = crash_on_bad;
	fixture_post(NULL, s, "bad");
	fixture_run(f);
	for (int i = 0; i < 10; i++)
		fixture_advance(f, 300);
	assert_string_equal(session_state_word(s->session), "failed");
	assert_string_equal(s->session->health->reason, "cannot start");
	assert_int_equal(s->session->box.n, 1);
}

static void
test_a_waiting_handler_is_tried_again_too(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fragile(f, 2);

	s->on_run = fake_wait;
	fixture_post(NULL, s, "bad");
	fixture_post(NULL, s, "good");
	fixture_run(f);
	session_fail(s->session, "on second thoughts");
	s->n_held = 0;
	fixture_advance(f, 200);
	assert_string_equal(fake_trace(s), "bad crash start bad");
	s->on_run = NULL;
	session_fail(s->session, "again");
	s->n_held = 0;
	fixture_advance(f, 400);
	assert_string_equal(fake_trace(s), "crash start good");
	assert_int_equal(session_counters(s->session).dead, 1);
	assert_int_equal(s->session->health->in_window, 1);
}

static enum session_result
exit_self(struct fake *fake, struct msg *m)
{
	session_exit_with(fake->session, m->event);
	return SESSION_DONE;
}

static void
test_ends_have_their_reasons(void **state)
{
	struct fixture *f = *state;
	struct session_spec *spec = fixture_spec("s", RESTART_ALWAYS);
	struct fake *s = fake_hosted(f, 0, spec);

	fixture_run(f);
	assert_string_equal(session_exit_word(s->session->exit), "");
	s->on_run = exit_self;
	fixture_post(NULL, s, "enough");
	fixture_run(f);
	assert_string_equal(session_exit_word(s->session->exit), "normal");
	assert_string_equal(s->session->health->reason, "enough");
	fixture_advance(f, 200);
	s->on_run = fake_crash;
	fixture_post(NULL, s, "bad");
	fixture_run(f);
	assert_string_equal(session_exit_word(s->session->exit), "failed");
	fixture_advance(f, 400);
	session_stop_for(s->session, EXIT_KILLED);
	assert_false(fake_exists(s));
}

int
main(void)
{
#define TEST(name)                       \
	cmocka_unit_test_setup_teardown( \
		name, fixture_setup_two, fixture_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_by_default_an_event_crashes_once),
		TEST(test_a_poison_event_is_parked_alone),
		TEST(test_an_event_may_succeed_at_last),
		TEST(test_another_event_is_another_failure),
		TEST(test_a_failed_start_is_not_the_events),
		TEST(test_a_waiting_handler_is_tried_again_too),
		TEST(test_ends_have_their_reasons),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* daemon/kernel/session.c and sched.c: events of the control lane. */
#include "fixture.h"

static struct msg *
control(struct sched *s, const struct fake *to, const char *event)
{
	struct msg *m = fixture_msg(s, to, event);

	sched_control(s, m);
	return m;
}

/* B20: not behind a long queue; B17: not within its bounds. */
static void
test_control_events_overtake_a_full_mailbox(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, "s");

	mailbox_limit(&s->session->box, 3, 1000);
	for (unsigned i = 0; i < 3; i++)
		fixture_post(NULL, s, "data");
	control(s->sched, s, "down");
	fixture_check(f);
	assert_int_equal(s->session->box.n, 3);
	fixture_run(f);
	assert_string_equal(fake_trace(s), "down data data data");
	assert_int_equal(session_counters(s->session).handled, 4);
	assert_int_equal(session_counters(s->session).accepted, 4);
}

static void
test_control_events_wait_for_a_handler_that_waits(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, "s");

	s->on_run = fake_wait;
	fixture_post(NULL, s, "data");
	fixture_run(f);
	control(s->sched, s, "one");
	control(s->sched, s, "two");
	fixture_run(f);
	assert_string_equal(fake_trace(s), "data");
	s->on_run = NULL;
	fake_done(s, 0);
	fixture_run(f);
	assert_string_equal(fake_trace(s), "one two");
}

static enum session_result
unhandled(struct fake *fake, struct msg *m)
{
	(void)fake, (void)m;
	return SESSION_UNHANDLED;
}

static void
test_control_events_without_a_handler_are_forgotten(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, "s");

	s->on_run = unhandled;
	control(s->sched, s, "down");
	fixture_run(f);
	assert_string_equal(fake_trace(s), "down");
	assert_int_equal(session_counters(s->session).accepted, 0);
	assert_int_equal(session_counters(s->session).dead, 0);
}

static void
test_control_events_that_are_held_come_again_in_order(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, "s");

	s->on_run = fake_hold;
	control(s->sched, s, "one");
	control(s->sched, s, "two");
	fixture_run(f);
	assert_string_equal(fake_trace(s), "one");
	assert_int_equal(session_counters(s->session).accepted, 0);
	s->on_run = fake_lease;
	session_wake(s->session);
	fixture_run(f);
	assert_string_equal(fake_trace(s), "one two");
	assert_int_equal(session_counters(s->session).leased, 2);
	fake_done(s, 0);
	fake_done(s, 0);
}

static void
test_control_events_cross_schedulers_in_order_with_posts(void **state)
{
	struct fixture *f = *state;
	struct fake *a = fake_new(f, 0, "a"), *b = fake_new(f, 1, "b");

	fixture_post(a, b, "data");
	control(a->sched, b, "down");
	fixture_run(f);
	assert_string_equal(fake_trace(b), "down data");
}

/* One that crashes the handler is counted like any other. */
static void
test_a_control_event_may_crash_its_handler(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_hosted(f, 0, fixture_spec("s", RESTART_NO));

	fixture_run(f);
	fake_trace(s);
	s->on_run = fake_crash;
	control(s->sched, s, "down");
	fixture_run(f);
	assert_string_equal(fake_trace(s), "down crash");
	assert_int_equal(session_counters(s->session).dead, 1);
	control(s->sched, s, "late"); /* it has failed: nobody is there */
	fixture_run(f);
	assert_null(s->session->notices.tail);
}

static void
test_control_events_end_with_their_session(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, "s");

	control(s->sched, s, "down");
	session_stop(s->session);
	fixture_run(f);
	assert_string_equal(fake_trace(s), "stop");
	control(s->sched, s, "late");
	fixture_run(f);
}

int
main(void)
{
#define ONE(test) \
	cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)
#define TWO(test)                        \
	cmocka_unit_test_setup_teardown( \
		test, fixture_setup_two, fixture_teardown)
	const struct CMUnitTest tests[] = {
		ONE(test_control_events_overtake_a_full_mailbox),
		ONE(test_control_events_wait_for_a_handler_that_waits),
		ONE(test_control_events_without_a_handler_are_forgotten),
		ONE(test_control_events_that_are_held_come_again_in_order),
		TWO(test_control_events_cross_schedulers_in_order_with_posts),
		ONE(test_a_control_event_may_crash_its_handler),
		ONE(test_control_events_end_with_their_session),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

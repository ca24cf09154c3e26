/* daemon/kernel/supervise.c: restart policies, pauses and budgets. */
#include "kernel/supervise.h"

#include <stdlib.h>
#include <string.h>

#include "fixture.h"

static struct fake *
fragile(struct fixture *f, enum restart_mode mode)
{
	struct fake *s = fake_hosted(f, 0, fixture_spec("fragile", mode));

	fixture_run(f);
	s->on_run = fake_crash;
	return s;
}

static void
crash(struct fake *s)
{
	fixture_post(NULL, s, "crash");
	fixture_run(s->fixture);
}

/* Ms until the next start of @s, which is backing off. */
static uint64_t
pause_of(const struct fake *s)
{
	uint64_t due = s->session->health->timer.due_ns;

	return (due - s->sched->now_ns) / NS_PER_MS;
}

static enum session_result
exit_self(struct fake *fake, struct msg *m)
{
	(void)m;
	session_exit(fake->session);
	return SESSION_DONE;
}

static void
test_never_stays_failed_with_the_reason(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fragile(f, RESTART_NO);

	crash(s);
	fixture_advance(f, 1000000);
	assert_string_equal(session_state_word(s->session), "failed");
	assert_string_equal(
		s->session->health->reason, "cannot handle 'crash'");
	assert_int_equal(s->n_started, 1);
	assert_int_equal(s->n_stopped, 1);
	assert_int_equal(f->scheds[0].n_failed, 1);
}

static void
test_on_failure_starts_again_after_a_pause(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fragile(f, RESTART_ON_FAILURE);

	crash(s);
	assert_string_equal(session_state_word(s->session), "backoff");
	fixture_advance(f, 89);
	assert_int_equal(s->n_started, 1);
	fixture_advance(f, 22);
	assert_int_equal(s->n_started, 2);
	assert_string_equal(session_state_word(s->session), "up");
	assert_int_equal(s->session->health->restarts, 1);
}

static void
test_on_failure_lets_an_exit_be(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fragile(f, RESTART_ON_FAILURE);

	s->on_run = exit_self;
	fixture_post(NULL, s, "go");
	fixture_run(f);
	assert_false(fake_exists(s));
	assert_string_equal(fake_trace(s), "start go stop");
}

static void
test_always_starts_after_an_exit_too(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fragile(f, RESTART_ALWAYS);

	s->on_run = exit_self;
	fixture_post(NULL, s, "go");
	fixture_run(f);
	assert_string_equal(session_state_word(s->session), "backoff");
	fixture_advance(f, 111);
	assert_string_equal(fake_trace(s), "start go stop start");
}

static void
test_pauses_double_up_to_the_cap_with_little_jitter(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fragile(f, RESTART_ON_FAILURE);
	uint64_t expected = 100;

	s->session->spec->restart_burst = 100;
	s->session->spec->restart_max_ms = 5000;
	for (unsigned i = 0; i < 12; i++) {
		crash(s);
		assert_in_range(pause_of(s), expected * 9 / 10 - 1,
			expected * 11 / 10 + 1);
		fixture_advance(f, pause_of(s) + 2);
		assert_int_equal(s->n_started, i + 2);
		expected = expected < 2500 ? expected * 2 : 5000;
	}
}

static void
test_sessions_that_fail_together_start_apart(void **state)
{
	struct fixture *f = *state;
	uint64_t least = UINT64_MAX, most = 0;

	for (unsigned i = 0; i < 20; i++) {
		struct fake *s;
		char name[] = {'s', (char)('a' + i), 0};

		s = fake_hosted(f, 0, fixture_spec(name, RESTART_ON_FAILURE));
		s->on_run = fake_crash;
		fixture_post(NULL, s, "crash");
	}
	fixture_run(f);
	for (unsigned i = 0; i < f->n_fakes; i++) {
		uint64_t due = f->fakes[i]->session->health->timer.due_ns;

		least = due < least ? due : least;
		most = due > most ? due : most;
	}
	assert_true(most - least > 5 * NS_PER_MS);
}

static enum session_result
crash_in_start(struct fake *fake)
{
	session_fail(fake->session, "no such file");
	return SESSION_CRASHED;
}

/* B83: the budget lasts longer than a millisecond, pauses grow. */
static void
test_a_used_up_budget_is_a_failure(void **state)
{
	struct fixture *f = *state;
	struct fake *s =
		fake_hosted(f, 0, fixture_spec("s", RESTART_ON_FAILURE));
	uint64_t begin = f->clock.monotonic_ns;

	s->session->spec->restart_burst = 4;
	s->on_start = crash_in_start;
	fixture_run(f);
	while (s->session->life == SESSION_BACKOFF)
		fixture_advance(f, 10);
	assert_int_equal(s->n_started, 5);
	assert_string_equal(session_state_word(s->session), "failed");
	assert_string_equal(s->session->health->reason, "no such file");
	/* 100 + 200 + 400 + 800 ms */
	assert_true(f->clock.monotonic_ns - begin > 1300ull * NS_PER_MS);
	fixture_advance(f, 1000000);
	assert_int_equal(s->n_started, 5);
}

static void
test_a_pause_of_nothing_does_not_keep_a_turn(void **state)
{
	struct fixture *f = *state;
	struct fake *s =
		fake_hosted(f, 0, fixture_spec("s", RESTART_ON_FAILURE));

	s->session->spec->restart_ms = 0;
	s->session->spec->restart_burst = 1000000;
	s->on_start = crash_in_start;
	for (unsigned i = 0; i < 10; i++) {
		clock_fake_advance(&f->clock, NS_PER_MS);
		fixture_turn(f);
	}
	assert_in_range(s->n_started, 5, 10);
}

/* B83 */
static void
test_a_healthy_time_forgives(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fragile(f, RESTART_ON_FAILURE);

	for (unsigned i = 0; i < 3; i++) {
		crash(s);
		fixture_advance(f, 1000);
	}
	assert_int_equal(s->session->health->in_a_row, 3);
	s->on_run = NULL;
	fixture_advance(f, SPEC_RESTART_WINDOW_MS + 1000);
	s->on_run = fake_crash;
	crash(s);
	assert_int_equal(s->session->health->in_a_row, 1);
	assert_int_equal(s->session->health->in_window, 1);
	assert_in_range(pause_of(s), 89, 111);
}

static void
test_posts_to_a_failed_session_are_refused_with_the_reason(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fragile(f, RESTART_NO), *from = fake_new(f, 0, NULL);
	struct msg *m;

	crash(s);
	m = fixture_msg(from->sched, s, "x");
	assert_int_equal(sched_post(from->sched, m), SCHED_E_FAILED);
	msg_free(&from->sched->pool, m);
	from->texts = true;
	fixture_post_ack(from, s, "x", 3, MSG_LEVEL_ACCEPTED, MSG_MAY_PARK);
	assert_string_equal(fake_trace(from),
		"settled3=failed:the session 'fragile' has failed: cannot "
		"handle 'crash' (eventctl restart)");
	assert_int_equal(fixture_call(from, s, "x", 1, 0), SCHED_E_FAILED);
	assert_int_equal(from->session->n_calls, 0);
}

static void
test_the_mailbox_survives_failure_and_restart_by_hand(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fragile(f, RESTART_NO);

	fixture_post(NULL, s, "crash");
	fixture_post(NULL, s, "kept");
	fixture_run(f);
	assert_int_equal(s->session->box.n, 1);
	s->on_run = NULL;
	session_restart(s->session, s->session->spec);
	fixture_run(f);
	assert_string_equal(fake_trace(s), "start crash crash start kept");
	assert_int_equal(session_counters(s->session).handled, 1);
	assert_int_equal(session_counters(s->session).dead, 1);
}

static void
test_events_wait_out_the_pause(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fragile(f, RESTART_ON_FAILURE);

	crash(s);
	s->on_run = NULL;
	fixture_post(NULL, s, "a");
	fixture_post(NULL, s, "b");
	fixture_run(f);
	fake_trace(s);
	fixture_advance(f, 200);
	assert_string_equal(fake_trace(s), "start a b");
}

static void
test_parked_posts_do_not_wait_for_a_failed_session(void **state)
{
	struct fixture *f = *state;
	struct session_spec *spec = fixture_spec("small", RESTART_NO);
	struct fake *s, *from = fake_new(f, 0, NULL);

	spec->max_events = 1;
	s = fake_hosted(f, 0, spec);
	s->on_run = fake_wait;
	fixture_run(f);
	for (uint64_t seq = 1; seq <= 4; seq++) {
		fixture_post_ack(
			from, s, "x", seq, MSG_LEVEL_ACCEPTED, MSG_MAY_PARK);
		fixture_run(f);
	}
	assert_string_equal(fake_trace(from), "settled1=ok settled2=ok");
	from->texts = true;
	session_fail(s->session, "out of luck");
	assert_non_null(strstr(from->trace,
		"settled3=failed:the session 'small' has failed: out of luck"));
	assert_int_equal(from->n_settled, 4);
	fixture_run(f);
	assert_int_equal(s->session->box.n, 1);
}

static void
test_restart_by_hand_gives_a_fresh_budget(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fragile(f, RESTART_ON_FAILURE);

	s->session->spec->restart_burst = 1;
	crash(s);
	fixture_advance(f, 200);
	crash(s);
	assert_string_equal(session_state_word(s->session), "failed");
	session_restart(s->session, s->session->spec);
	fixture_run(f);
	assert_string_equal(session_state_word(s->session), "up");
	crash(s);
	assert_string_equal(session_state_word(s->session), "backoff");
	assert_in_range(pause_of(s), 89, 111);
	/* ... and does not wait for the pause. */
	session_restart(s->session, s->session->spec);
	fixture_run(f);
	assert_int_equal(s->n_started, 4);
	fixture_advance(f, 1000);
	assert_int_equal(s->n_started, 4);
}

static void
test_restart_of_a_busy_session_ends_what_it_was_at(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fragile(f, RESTART_ON_FAILURE);
	struct fake *from = fake_new(f, 0, NULL);

	s->on_run = fake_wait;
	assert_int_equal(fixture_call(from, s, "long", 1, 0), 0);
	fixture_post(from, s, "next");
	fixture_run(f);
	session_restart(s->session, s->session->spec);
	s->on_run = NULL;
	fixture_run(f);
	assert_string_equal(fake_trace(s), "start long stop start next");
	assert_string_equal(fake_trace(from),
		"reply1=died:the session died before it handled the event");
}

static void
test_restart_with_a_new_spec_moves_names_and_bounds(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fragile(f, RESTART_NO), *from = fake_new(f, 0, NULL);
	struct session_spec *spec = fixture_spec("new", RESTART_NO);

	s->on_run = fake_wait;
	s->session->box.max_n = 1;
	for (uint64_t seq = 1; seq <= 4; seq++) {
		fixture_post_ack(
			from, s, "x", seq, MSG_LEVEL_ACCEPTED, MSG_MAY_PARK);
		fixture_run(f);
	}
	assert_string_equal(fake_trace(from), "settled1=ok settled2=ok");
	spec->max_events = 10;
	session_restart(s->session, spec);
	spec_unref(spec);
	assert_string_equal(fake_trace(from), "settled3=ok settled4=ok");
	assert_int_equal(alias_holder(&f->kernel.aliases, "fragile", 7), 0);
	assert_int_equal(alias_holder(&f->kernel.aliases, "new", 3), s->id);
	s->on_run = NULL;
	fixture_run(f);
	assert_int_equal(session_counters(s->session).handled, 3);
	assert_int_equal(session_counters(s->session).dead, 1);
}

static void
test_a_reason_is_bounded(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fragile(f, RESTART_NO);
	char *huge = malloc(1 << 20);

	assert_non_null(huge);
	memset(huge, 'x', 1 << 20);
	huge[(1 << 20) - 1] = 0;
	session_fail(s->session, "%s", huge);
	free(huge);
	assert_int_equal(
		strlen(s->session->health->reason), SESSION_REASON_MAX - 1);
}

static void
test_stop_while_backing_off_ends_it(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fragile(f, RESTART_ALWAYS);

	crash(s);
	session_stop(s->session);
	fixture_advance(f, 100000);
	assert_false(fake_exists(s));
	assert_int_equal(s->n_started, 1);
}

int
main(void)
{
#define ONE(test) \
	cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)
	const struct CMUnitTest tests[] = {
		ONE(test_never_stays_failed_with_the_reason),
		ONE(test_on_failure_starts_again_after_a_pause),
		ONE(test_on_failure_lets_an_exit_be),
		ONE(test_always_starts_after_an_exit_too),
		ONE(test_pauses_double_up_to_the_cap_with_little_jitter),
		ONE(test_sessions_that_fail_together_start_apart),
		ONE(test_a_used_up_budget_is_a_failure),
		ONE(test_a_pause_of_nothing_does_not_keep_a_turn),
		ONE(test_a_healthy_time_forgives),
		ONE(test_posts_to_a_failed_session_are_refused_with_the_reason),
		ONE(test_the_mailbox_survives_failure_and_restart_by_hand),
		ONE(test_events_wait_out_the_pause),
		ONE(test_parked_posts_do_not_wait_for_a_failed_session),
		ONE(test_restart_by_hand_gives_a_fresh_budget),
		ONE(test_restart_of_a_busy_session_ends_what_it_was_at),
		ONE(test_restart_with_a_new_spec_moves_names_and_bounds),
		ONE(test_a_reason_is_bounded),
		ONE(test_stop_while_backing_off_ends_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* daemon/kernel/session.c: what handlers may answer, the control lane, life
 * and end of a session, and what it weighs. */
#include "kernel/session.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "fixture.h"

/* ---- results of run() ------------------------------------------------ */

static void
test_one_event_at_a_time(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, NULL);

	s->on_run = fake_wait;
	fixture_post(NULL, s, "a");
	fixture_post(NULL, s, "b");
	fixture_run(f);
	assert_string_equal(fake_trace(s), "a");
	assert_int_equal(s->session->box.n, 1);
	assert_int_equal(session_counters(s->session).leased, 1);
	fake_done(s, 0);
	fixture_run(f);
	assert_string_equal(fake_trace(s), "b");
	fake_done(s, 0);
	fixture_run(f);
	assert_int_equal(session_counters(s->session).handled, 2);
	assert_int_equal(session_counters(s->session).leased, 0);
}

static void
test_a_lease_lets_the_next_event_in(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, NULL);

	s->on_run = fake_lease;
	fixture_post(NULL, s, "a");
	fixture_post(NULL, s, "b");
	fixture_run(f);
	assert_string_equal(fake_trace(s), "a b");
	fake_done(s, 0);
	fixture_check(f);
	assert_int_equal(session_counters(s->session).leased, 1);
	fake_done(s, EVD_STATUS_HANDLER);
	assert_int_equal(session_counters(s->session).handled, 1);
	assert_int_equal(session_counters(s->session).dead, 1);
}

static void
test_leases_go_back_in_their_order(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, NULL);

	s->on_run = fake_lease;
	for (unsigned i = 0; i < 3; i++)
		fixture_post(NULL, s, (const char *[]){"a", "b", "c"}[i]);
	fixture_run(f);
	fixture_post(NULL, s, "d");
	while (s->n_held)
		session_return(s->session, s->held[--s->n_held]);
	fixture_check(f);
	assert_int_equal(s->session->box.n, 4);
	s->on_run = NULL;
	fake_trace(s);
	fixture_run(f);
	assert_string_equal(fake_trace(s), "a b c d");
}

static void
test_what_is_not_taken_is_offered_again_when_it_asks(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, NULL);

	s->on_run = fake_hold;
	fixture_post(NULL, s, "a");
	fixture_post(NULL, s, "b");
	fixture_run(f);
	assert_string_equal(fake_trace(s), "a");
	assert_int_equal(s->session->box.n, 2);
	fixture_post(NULL, s, "c");
	fixture_run(f); /* not asked */
	assert_string_equal(fake_trace(s), "");
	s->on_run = NULL;
	session_wake(s->session);
	session_wake(s->session); /* nothing more */
	fixture_run(f);
	assert_string_equal(fake_trace(s), "a b c");
	session_wake(s->session);
	assert_false(fixture_turn(f));
}

/* ---- the control lane ------------------------------------------------ */

static void
note_stop(struct fake *fake, uint64_t token, struct msg *reply)
{
	(void)reply;
	fake->number = token;
	session_stop(fake->session);
}

static void
test_replies_come_before_a_million_events(void **state)
{
	struct fixture *f = *state;
	struct session_spec *spec = fixture_spec("deep", RESTART_NO);
	struct fake *s, *quick = fake_new(f, 0, NULL);

	spec->max_events = 2000000;
	s = fake_hosted(f, 0, spec);
	fixture_run(f);
	assert_int_equal(fixture_call(s, quick, "q", 77, 0), 0);
	for (unsigned i = 0; i < 1000000; i++)
		fixture_post(NULL, s, "x");
	s->on_reply = note_stop;
	while (!s->number)
		fixture_turn(f);
	/* Two budgets at most, for each of them was queued before. */
	assert_in_range(s->n_run, 0, 2 * f->kernel.limits.budget);
	assert_false(fake_exists(s));
	assert_int_equal(f->scheds[0].counters.dead, 1000000 - s->n_run);
	fixture_run(f);
}

static void
test_stop_acts_at_once_on_a_million_events(void **state)
{
	struct fixture *f = *state;
	struct session_spec *spec = fixture_spec("deep", RESTART_ALWAYS);
	struct fake *s;

	spec->max_events = 2000000;
	s = fake_hosted(f, 0, spec);
	fixture_run(f);
	for (unsigned i = 0; i < 1000000; i++)
		fixture_post(NULL, s, "x");
	session_stop(s->session);
	assert_int_equal(s->n_run, 0);
	assert_int_equal(s->n_stopped, 1);
	assert_int_equal(f->scheds[0].counters.dead, 1000000);
	fixture_run(f);
}

static void
test_many_replies_do_not_make_one_long_run(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, NULL), *other = fake_new(f, 0, NULL);
	unsigned n = 1000;

	f->kernel.limits.turn_budget = 1;
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(session_sleep(s->session, i + 1, 1, NULL), 0);
	clock_fake_advance(&f->clock, 2 * NS_PER_MS);
	fixture_turn(f);
	assert_in_range(s->n_replies, 1, f->kernel.limits.budget);
	fixture_post(NULL, s, "after");
	fixture_post(NULL, other, "x");
	fixture_turn(f);
	fixture_turn(f);
	assert_int_equal(other->n_run, 1);
	assert_int_equal(s->n_run, 0); /* replies first */
	fixture_run(f);
	assert_int_equal(s->n_replies, n);
	assert_int_equal(s->n_run, 1);
}

static void
test_replies_reach_a_handler_that_waits(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, NULL), *other = fake_new(f, 0, NULL);

	s->on_run = fake_wait;
	fixture_post(NULL, s, "a");
	fixture_run(f);
	assert_int_equal(fixture_call(s, other, "q", 1, 0), 0);
	fixture_post(NULL, s, "b");
	fixture_run(f);
	assert_string_equal(fake_trace(s), "a reply1=ok:");
	fake_done(s, 0);
	s->on_run = NULL;
	fixture_run(f);
	assert_string_equal(fake_trace(s), "b");
}

/* ---- start ----------------------------------------------------------- */

static enum session_result
start_later(struct fake *fake)
{
	(void)fake;
	return SESSION_WAIT;
}

static void
test_events_wait_for_a_slow_start(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_hosted(f, 0, fixture_spec("slow", RESTART_NO));

	s->on_start = start_later;
	fixture_post(NULL, s, "a");
	fixture_run(f);
	assert_string_equal(fake_trace(s), "start");
	assert_string_equal(session_state_word(s->session), "starting");
	session_started(s->session);
	fixture_run(f);
	assert_string_equal(fake_trace(s), "a");
	assert_string_equal(session_state_word(s->session), "up");
}

static void
test_a_taken_alias_is_a_failure_with_the_reason(void **state)
{
	struct fixture *f = *state;
	struct fake *first = fake_new(f, 0, "name");
	struct fake *s =
		fake_hosted(f, 0, fixture_spec("name", RESTART_ALWAYS));

	fixture_run(f);
	assert_string_equal(session_state_word(s->session), "failed");
	assert_string_equal(s->session->health->reason,
		"the alias 'name' is held by another session");
	assert_int_equal(s->n_started, 0);
	assert_int_equal(f->scheds[0].n_failed, 1);
	session_stop(first->session);
	session_restart(s->session, s->session->spec);
	fixture_run(f);
	assert_string_equal(session_state_word(s->session), "up");
	assert_int_equal(f->scheds[0].n_failed, 0);
	assert_int_equal(alias_holder(&f->kernel.aliases, "name", 4), s->id);
}

static void
test_aliases_come_and_go(void **state)
{
	struct fixture *f = *state;
	struct fake *a = fake_new(f, 0, "first"), *b = fake_new(f, 0, NULL);

	assert_string_equal(session_name(a->session), "first");
	assert_int_equal(session_add_alias(a->session, "second", 6), 0);
	assert_string_equal(session_name(a->session), "first");
	assert_int_equal(
		session_add_alias(b->session, "second", 6), ALIAS_E_TAKEN);
	assert_int_equal(session_add_alias(b->session, "a b", 3), ALIAS_E_NAME);
	assert_int_equal(session_drop_alias(a->session, "first", 5), 0);
	assert_int_equal(
		session_drop_alias(a->session, "first", 5), ALIAS_E_NONE);
	assert_int_equal(session_add_alias(b->session, "first", 5), 0);
	assert_string_equal(session_name(a->session), "second");
	session_stop(a->session);
	assert_int_equal(alias_holder(&f->kernel.aliases, "second", 6), 0);
}

/* ---- the end --------------------------------------------------------- */

static enum session_result
stop_self(struct fake *fake, struct msg *m)
{
	(void)m;
	session_stop(fake->session);
	assert_true(fake->alive);
	return SESSION_DONE;
}

static void
test_stop_from_its_own_handler_waits_for_its_end(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_hosted(f, 0, fixture_spec("s", RESTART_ALWAYS));

	s->on_run = stop_self;
	fixture_post(NULL, s, "a");
	fixture_post(NULL, s, "b");
	fixture_run(f);
	assert_string_equal(fake_trace(s), "start a stop");
	assert_false(fake_exists(s));
	assert_int_equal(f->scheds[0].counters.handled, 1);
	assert_int_equal(f->scheds[0].counters.dead, 1);
	assert_int_equal(alias_holder(&f->kernel.aliases, "s", 1), 0);
}

static enum session_result
stop_other(struct fake *fake, struct msg *m)
{
	(void)m;
	session_stop(fake->other->session);
	assert_false(fake->other->alive);
	return SESSION_DONE;
}

static void
test_stop_of_another_session_from_a_handler(void **state)
{
	struct fixture *f = *state;
	struct fake *a = fake_new(f, 0, NULL), *b = fake_new(f, 0, "b");
	struct fake *c = fake_new(f, 0, NULL), *d;

	a->on_run = stop_other;
	a->other = b;
	fixture_post(NULL, a, "a");
	fixture_post(NULL, b, "b"); /* queued: it is on the run queue */
	fixture_post(NULL, c, "c");
	fixture_turn(f);
	assert_int_equal(b->n_run, 0);
	assert_int_equal(c->n_run, 1);
	assert_false(fake_exists(b));
	d = fake_new(f, 0, "b");
	assert_int_not_equal(d->id, b->id);
	fixture_run(f);
	assert_int_equal(d->n_run, 0);
}

static void
test_stop_with_parked_queued_waiting_and_leased(void **state)
{
	struct fixture *f = *state;
	struct session_spec *spec = fixture_spec("jobs", RESTART_NO);
	struct fake *s, *from = fake_new(f, 0, NULL);

	spec->max_events = 2;
	s = fake_hosted(f, 0, spec);
	s->on_run = fake_wait;
	fixture_run(f);
	fixture_post_ack(from, s, "a", 1, MSG_LEVEL_HANDLED, MSG_MAY_PARK);
	fixture_run(f);
	assert_int_equal(fixture_call(from, s, "b", 9, 0), 0);
	fixture_post_ack(from, s, "c", 2, MSG_LEVEL_ACCEPTED, MSG_MAY_PARK);
	fixture_post_ack(from, s, "d", 3, MSG_LEVEL_ACCEPTED, MSG_MAY_PARK);
	fixture_post_ack(from, s, "e", 4, MSG_LEVEL_HANDLED, MSG_MAY_PARK);
	session_stop(s->session);
	assert_int_equal(s->n_stopped, 1);
	fixture_run(f);
	assert_string_equal(fake_trace(from),
		"settled2=ok settled1=died settled3=died settled4=died "
		"reply9=died:the session died before it handled the event");
	assert_int_equal(f->scheds[0].counters.dead, 3);
	assert_int_equal(f->scheds[0].counters.refused, 2);
	s->n_held = 0;
}

static void
end_leases(struct fake *fake)
{
	while (fake->n_held > 1)
		session_return(fake->session, fake->held[--fake->n_held]);
	fake_done(fake, EVD_STATUS_DIED);
}

static void
test_stop_ends_leases_both_ways(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, NULL);

	s->on_run = fake_lease;
	s->on_stop = end_leases;
	for (unsigned i = 0; i < 3; i++)
		fixture_post(NULL, s, "x");
	fixture_run(f);
	session_stop(s->session);
	fixture_run(f);
	assert_int_equal(f->scheds[0].counters.dead, 3);
	assert_int_equal(f->scheds[0].counters.leased, 0);
	fake_new(f, 0, NULL); /* its slot is free again */
	assert_int_equal(f->kernel.sessions.n_slots, 1);
}

static void
ask_for_everything(struct fake *fake)
{
	session_stop(fake->session);
	session_exit(fake->session);
	session_fail(fake->session, "once more");
	fixture_post(fake, fake, "late");
}

static void
test_a_stop_that_asks_to_stop_is_stopped_once(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_hosted(f, 0, fixture_spec("s", RESTART_ALWAYS));

	s->on_stop = ask_for_everything;
	fixture_run(f);
	session_stop(s->session);
	fixture_run(f);
	assert_int_equal(s->n_stopped, 1);
	assert_false(fake_exists(s));
	assert_int_equal(f->scheds[0].counters.dead, 1);
}

static enum session_result
exit_self(struct fake *fake, struct msg *m)
{
	(void)m;
	session_exit(fake->session);
	return SESSION_DONE;
}

static void
test_a_stop_wish_in_the_stop_of_an_exit_is_granted(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_hosted(f, 0, fixture_spec("s", RESTART_ALWAYS));

	s->on_run = exit_self;
	s->on_stop = ask_for_everything;
	fixture_post(NULL, s, "a");
	fixture_run(f);
	assert_string_equal(fake_trace(s), "start a stop");
	assert_false(fake_exists(s));
	fixture_advance(f, 100000);
	assert_int_equal(s->n_started, 1);
}

static enum session_result
exit_and_wait(struct fake *fake, struct msg *m)
{
	session_exit(fake->session);
	return fake_wait(fake, m);
}

static void
test_exit_takes_effect_when_the_handler_has_returned(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_hosted(f, 0, fixture_spec("s", RESTART_NO));
	struct fake *other = fake_new(f, 0, NULL);

	s->on_run = exit_and_wait;
	fixture_post(NULL, s, "a");
	fixture_post(NULL, s, "b");
	fixture_run(f);
	assert_true(fake_exists(s));
	assert_int_equal(fixture_call(s, other, "q", 1, 0), 0);
	fixture_run(f);
	assert_string_equal(fake_trace(s), "start a reply1=ok:");
	fake_done(s, 0);
	fixture_run(f);
	assert_string_equal(fake_trace(s), "stop");
	assert_false(fake_exists(s));
	assert_int_equal(f->scheds[0].counters.handled, 2);
	assert_int_equal(f->scheds[0].counters.dead, 1);
}

static enum session_result
exit_and_fail(struct fake *fake, struct msg *m)
{
	(void)m;
	session_exit(fake->session);
	session_fail(fake->session, "after all");
	return SESSION_CRASHED;
}

static void
test_a_failure_outweighs_an_exit(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_hosted(f, 0, fixture_spec("s", RESTART_ALWAYS));

	s->on_run = exit_and_fail;
	fixture_post(NULL, s, "a");
	fixture_run(f);
	assert_string_equal(session_state_word(s->session), "backoff");
	assert_string_equal(s->session->health->reason, "after all");
	s->on_run = NULL;
	fixture_advance(f, 1000);
	assert_string_equal(fake_trace(s), "start a crash start");
}

static enum session_result
stop_and_fail(struct fake *fake, struct msg *m)
{
	(void)m;
	session_stop(fake->session);
	session_fail(fake->session, "after all");
	return SESSION_CRASHED;
}

static void
test_a_stop_outweighs_a_failure(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_hosted(f, 0, fixture_spec("s", RESTART_ALWAYS));

	s->on_run = stop_and_fail;
	fixture_post(NULL, s, "a");
	fixture_run(f);
	assert_string_equal(fake_trace(s), "start a crash");
	assert_false(fake_exists(s));
}

static void
test_a_session_of_a_connection_that_fails_is_gone(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, NULL);

	s->on_run = fake_crash;
	fixture_post(NULL, s, "a");
	fixture_post(NULL, s, "b");
	fixture_run(f);
	assert_false(fake_exists(s));
	assert_string_equal(fake_trace(s), "a crash");
	assert_int_equal(f->scheds[0].counters.dead, 2);
	assert_int_equal(f->kernel.sessions.n, 0);
}

static void
test_a_settlement_does_not_reach_a_state_that_is_gone(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_hosted(f, 0, fixture_spec("s", RESTART_ALWAYS));
	struct fake *slow = fake_new(f, 0, NULL);

	slow->on_run = fake_wait;
	fixture_run(f);
	fixture_post_ack(s, slow, "x", 1, MSG_LEVEL_HANDLED, 0);
	fixture_run(f);
	s->on_run = fake_crash;
	fixture_post(NULL, s, "a");
	fixture_run(f); /* backing off */
	fake_done(slow, 0);
	fixture_run(f);
	assert_int_equal(s->n_settled, 0);
}

/* ---- ids ------------------------------------------------------------- */

static void
test_ids_are_never_used_again(void **state)
{
	struct fixture *f = *state;
	uint64_t last = 0;

	for (unsigned i = 0; i < 1000; i++) {
		struct fake *s = fake_new(f, 0, NULL);

		assert_true(s->id > last);
		last = s->id;
		session_stop(s->session);
		assert_null(session_find(&f->kernel, last));
	}
	assert_int_equal(f->kernel.sessions.n_slots, 1);
	assert_null(session_find(&f->kernel, 0));
}

static void
test_sessions_have_a_limit(void **state)
{
	struct fixture *f = *state;
	struct fake *s;

	f->kernel.limits.max_sessions = 2;
	s = fake_new(f, 0, NULL);
	fake_new(f, 0, NULL);
	assert_null(session_new(&f->scheds[0], &fake_ops, NULL, NULL));
	session_stop(s->session);
	fake_new(f, 0, NULL);
}

static void
test_the_last_slot_of_all_is_the_last(void **state)
{
	struct fixture *f = *state;
	uint32_t n_slots;

	fake_new(f, 0, NULL);
	f->kernel.limits.max_sessions = UINT32_MAX;
	n_slots = atomic_exchange(
		&f->kernel.sessions.n_slots, f->kernel.sessions.n_max);
	assert_null(session_new(&f->scheds[0], &fake_ops, NULL, NULL));
	atomic_store(&f->kernel.sessions.n_slots, n_slots);
}

static void
test_a_session_needs_memory(void **state)
{
	struct fixture *f = *state;
	struct session_spec *spec = fixture_spec("s", RESTART_NO);

#ifdef NDEBUG
	skip(); /* fault points are compiled out */
#endif
	fault_arm("session_slot", 1);
	assert_null(session_new(&f->scheds[0], &fake_ops, spec, NULL));
	fault_arm("session_slot", 0);
	assert_int_equal(f->kernel.sessions.n, 0);
	assert_int_equal(spec->refs, 1);
	spec_unref(spec);
}

static void
spawn_in_stop(struct fake *fake)
{
	fake->number = session_new(fake->sched, &fake_ops, NULL, fake) != NULL;
}

static void
test_none_is_made_while_the_scheduler_goes(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, NULL);

	s->on_stop = spawn_in_stop;
	sched_deinit(&f->scheds[0]);
	assert_int_equal(s->n_stopped, 1);
	assert_int_equal(s->number, 0);
	f->n_scheds = 0;
}

/* ---- weight ---------------------------------------------------------- */

static enum session_result
idle_start(struct session *s)
{
	(void)s;
	return SESSION_DONE;
}

static void
idle_stop(struct session *s, bool crashed)
{
	(void)s, (void)crashed;
}

static const struct session_ops idle_ops = {
	.kind = "idle", .start = idle_start, .stop = idle_stop};

static void
test_an_idle_session_weighs_little(void **state)
{
	struct fixture *f = *state;
	enum { N = 50000 };
	size_t before = mallinfo2().uordblks, after;

	/* The tables of aliases, of any fill, and of sessions are mapped and
	 * not counted: this test comes first, while the heap has no hole. */
	mallopt(M_MMAP_THRESHOLD, 1 << 20);
	if (mallinfo2().uordblks == 0)
		skip(); /* a sanitizer's allocator does not tell */
	for (unsigned i = 0; i < N; i++) {
		struct session *s =
			session_new(&f->scheds[0], &idle_ops, NULL, NULL);
		char name[32];
		int size = snprintf(name, sizeof(name), "idle.session.%u", i);

		assert_non_null(s);
		assert_int_equal(session_add_alias(s, name, (size_t)size), 0);
	}
	after = mallinfo2().uordblks + N * sizeof(struct session);
	print_message("%zu bytes a session\n", (after - before) / N);
	assert_in_range((after - before) / N, sizeof(struct session), 400);
	assert_true(sizeof(struct session) <= 232);
}

int
main(void)
{
#define ONE(test) \
	cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)
	const struct CMUnitTest tests[] = {
		ONE(test_an_idle_session_weighs_little),
		ONE(test_one_event_at_a_time),
		ONE(test_a_lease_lets_the_next_event_in),
		ONE(test_leases_go_back_in_their_order),
		ONE(test_what_is_not_taken_is_offered_again_when_it_asks),
		ONE(test_replies_come_before_a_million_events),
		ONE(test_stop_acts_at_once_on_a_million_events),
		ONE(test_many_replies_do_not_make_one_long_run),
		ONE(test_replies_reach_a_handler_that_waits),
		ONE(test_events_wait_for_a_slow_start),
		ONE(test_a_taken_alias_is_a_failure_with_the_reason),
		ONE(test_aliases_come_and_go),
		ONE(test_stop_from_its_own_handler_waits_for_its_end),
		ONE(test_stop_of_another_session_from_a_handler),
		ONE(test_stop_with_parked_queued_waiting_and_leased),
		ONE(test_stop_ends_leases_both_ways),
		ONE(test_a_stop_that_asks_to_stop_is_stopped_once),
		ONE(test_a_stop_wish_in_the_stop_of_an_exit_is_granted),
		ONE(test_exit_takes_effect_when_the_handler_has_returned),
		ONE(test_a_failure_outweighs_an_exit),
		ONE(test_a_stop_outweighs_a_failure),
		ONE(test_a_session_of_a_connection_that_fails_is_gone),
		ONE(test_a_settlement_does_not_reach_a_state_that_is_gone),
		ONE(test_ids_are_never_used_again),
		ONE(test_sessions_have_a_limit),
		ONE(test_the_last_slot_of_all_is_the_last),
		ONE(test_a_session_needs_memory),
		ONE(test_none_is_made_while_the_scheduler_goes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

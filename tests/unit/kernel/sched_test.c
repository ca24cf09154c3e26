/* daemon/kernel/sched.c: posting, turns, fairness, acks, what goes between
 * schedulers, and that every accepted event is accounted for. */
#include "kernel/sched.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "fixture.h"

/* ---- order and fairness ---------------------------------------------- */

static void
test_events_of_one_sender_are_handled_in_order(void **state)
{
	struct fixture *f = *state;
	struct fake *a = fake_new(f, 0, NULL), *b = fake_new(f, 0, NULL);

	fixture_post(a, b, "one");
	fixture_post(a, b, "two");
	fixture_post(a, b, "three");
	fixture_run(f);
	assert_string_equal(fake_trace(b), "one two three");
}

static enum session_result
note_number(struct fake *fake, struct msg *m)
{
	uint64_t number;

	memcpy(&number, m->data, sizeof(number));
	assert_int_equal(number, fake->number);
	fake->number++;
	return SESSION_DONE;
}

static struct msg *
numbered(struct fake *from, const struct fake *to, uint64_t number)
{
	struct msg *m =
		msg_new(&from->sched->pool, &(struct msg_init){.event = "n",
						    .event_size = 1,
						    .data = &number,
						    .size = sizeof(number)});

	assert_non_null(m);
	m->from = from->id;
	m->to = to->id;
	return m;
}

static void
test_order_holds_across_schedulers_and_batches(void **state)
{
	struct fixture *f = *state;
	struct fake *a = fake_new(f, 0, NULL), *b = fake_new(f, 1, NULL);
	uint64_t number = 0;

	b->on_run = note_number;
	for (unsigned batch = 0; batch < 20; batch++) {
		for (unsigned i = 0; i <= batch; i++)
			assert_int_equal(
				sched_post(a->sched, numbered(a, b, number++)),
				0);
		sched_publish(a->sched); /* several before b's turn */
	}
	fixture_run(f);
	assert_int_equal(b->number, number);
}

static enum session_result
post_to_self(struct fake *fake, struct msg *m)
{
	fixture_post(fake, fake, m->event);
	return SESSION_DONE;
}

static void
test_a_session_that_posts_to_itself_shares_the_turn(void **state)
{
	struct fixture *f = *state;
	struct fake *greedy = fake_new(f, 0, NULL);
	struct fake *modest = fake_new(f, 0, NULL);

	greedy->on_run = post_to_self;
	fixture_post(NULL, greedy, "again");
	for (unsigned i = 0; i < 200; i++)
		fixture_post(NULL, modest, "now");
	assert_true(fixture_turn(f));
	assert_int_equal(modest->n_run, 200);
	/* The turn ends: a few at a time, and no more than its budget. */
	assert_in_range(greedy->n_run, 1,
		f->kernel.limits.turn_budget + f->kernel.limits.budget);
	greedy->on_run = NULL;
	fixture_run(f);
}

static void
test_a_full_mailbox_yields_after_its_budget(void **state)
{
	struct fixture *f = *state;
	struct fake *big = fake_new(f, 0, NULL), *small = fake_new(f, 0, NULL);
	struct fake *order[2] = {big, small};

	(void)order;
	for (unsigned i = 0; i < 500; i++)
		fixture_post(NULL, big, "x");
	fixture_post(NULL, small, "y");
	f->kernel.limits.turn_budget = 51; /* a run of each */
	assert_true(fixture_turn(f));
	assert_int_equal(big->n_run, 50);
	assert_int_equal(small->n_run, 0);
	assert_true(fixture_turn(f));
	assert_int_equal(small->n_run, 1);
	assert_int_equal(big->n_run, 100);
	fixture_run(f);
	assert_int_equal(big->n_run, 500);
}

static void
test_a_turn_handles_no_more_than_its_budget(void **state)
{
	struct fixture *f = *state;
	unsigned total = 0;

	for (unsigned i = 0; i < 100; i++) {
		struct fake *fake = fake_new(f, 0, NULL);

		for (unsigned j = 0; j < 100; j++)
			fixture_post(NULL, fake, "x");
	}
	assert_true(fixture_turn(f));
	for (unsigned i = 0; i < f->n_fakes; i++)
		total += f->fakes[i]->n_run;
	assert_in_range(total, 1,
		f->kernel.limits.turn_budget + f->kernel.limits.budget);
	fixture_run(f);
	for (unsigned i = 0; i < f->n_fakes; i++)
		assert_int_equal(f->fakes[i]->n_run, 100);
}

/* ---- refusals -------------------------------------------------------- */

static void
test_post_to_nobody_is_refused_and_stays_the_callers(void **state)
{
	struct fixture *f = *state;
	struct fake *a = fake_new(f, 0, NULL);
	struct msg *m = fixture_msg(a->sched, a, "x");
	char text[128];

	m->to = 0;
	assert_int_equal(sched_post(a->sched, m), SCHED_E_NO_SESSION);
	m->to = 0xdead000001;
	assert_int_equal(sched_post(a->sched, m), SCHED_E_NO_SESSION);
	m->to = UINT64_MAX;
	assert_int_equal(sched_post(a->sched, m), SCHED_E_NO_SESSION);
	msg_free(&a->sched->pool, m);
	assert_int_equal(sched_status(SCHED_E_NO_SESSION), EVD_STATUS_NO_ALIAS);
	sched_explain(a->sched, SCHED_E_NO_SESSION, 0, text, sizeof(text));
	assert_non_null(strstr(text, "no session"));
}

static struct fake *
bounded(struct fixture *f, unsigned i, uint32_t max_events)
{
	struct session_spec *spec = fixture_spec("jobs", RESTART_NO);

	spec->max_events = max_events;
	spec->max_bytes = 1000;
	return fake_hosted(f, i, spec);
}

static void
test_a_full_mailbox_refuses_and_says_which_limit(void **state)
{
	struct fixture *f = *state;
	struct fake *jobs = bounded(f, 0, 3);
	struct fake *from = fake_new(f, 0, NULL);
	struct msg *m;
	char text[512];

	for (unsigned i = 0; i < 3; i++)
		fixture_post(from, jobs, "x");
	m = fixture_msg(from->sched, jobs, "x");
	assert_int_equal(sched_post(from->sched, m), SCHED_E_FULL);
	sched_explain(from->sched, SCHED_E_FULL, jobs->id, text, sizeof(text));
	assert_string_equal(text,
		"the mailbox of 'jobs' is full: 3 of 3 events, 0 of 1000 bytes "
		"(MaxEvents= and MaxBytes= of "
		"/etc/eventd/sessions.d/fake.conf)");
	msg_free(&from->sched->pool, m);
	/* A sender that waits for the fate is told the same. */
	from->texts = true;
	fixture_post_ack(from, jobs, "x", 7, MSG_LEVEL_ACCEPTED, 0);
	assert_string_equal(fake_trace(from),
		"settled7=full:the mailbox of 'jobs' is full: 3 of 3 events, "
		"0 of 1000 bytes (MaxEvents= and MaxBytes= of "
		"/etc/eventd/sessions.d/fake.conf)");
	assert_int_equal(session_counters(jobs->session).refused, 1);
	fixture_run(f);
	assert_int_equal(jobs->n_run, 3);
}

static void
test_a_refusal_by_another_scheduler_names_the_session_too(void **state)
{
	struct fixture *f = *state;
	struct fake *jobs = bounded(f, 1, 1);
	struct fake *from = fake_new(f, 0, NULL);

	from->texts = true;
	fixture_post(NULL, jobs, "x");
	fixture_post_ack(from, jobs, "x", 1, MSG_LEVEL_ACCEPTED, 0);
	sched_publish(from->sched);
	jobs->on_start = NULL;
	sched_turn(jobs->sched);
	sched_turn(from->sched);
	assert_non_null(
		strstr(from->trace, "settled1=full:the mailbox of 'jobs'"));
	assert_int_equal(session_counters(jobs->session).refused, 1);
	fixture_run(f);
}

static void
test_a_plain_post_refused_elsewhere_is_counted(void **state)
{
	struct fixture *f = *state;
	struct fake *jobs = bounded(f, 1, 1);
	struct fake *from = fake_new(f, 0, NULL);

	fixture_post(from, jobs, "x");
	fixture_post(from, jobs, "y");
	fixture_run(f);
	assert_int_equal(jobs->n_run, 1);
	assert_int_equal(f->scheds[1].counters.refused, 1);
}

/* ---- parking --------------------------------------------------------- */

static void
test_parked_posts_settle_when_admitted_and_keep_order(void **state)
{
	struct fixture *f = *state;
	struct fake *jobs = bounded(f, 0, 2);
	struct fake *from = fake_new(f, 0, NULL);

	jobs->on_run = fake_wait;
	fixture_run(f);
	fixture_post_ack(from, jobs, "a", 1, MSG_LEVEL_ACCEPTED, MSG_MAY_PARK);
	fixture_run(f); /* a is being handled */
	for (uint64_t seq = 2; seq <= 6; seq++) {
		const char *names[] = {"b", "c", "d", "e", "f"};

		fixture_post_ack(from, jobs, names[seq - 2], seq,
			MSG_LEVEL_ACCEPTED, MSG_MAY_PARK);
	}
	fixture_run(f);
	assert_string_equal(
		fake_trace(from), "settled1=ok settled2=ok settled3=ok");
	assert_int_equal(jobs->session->box.n, 2);
	assert_int_equal(jobs->session->box.n_parked, 3);
	assert_int_equal(session_counters(jobs->session).accepted, 3);
	fake_done(jobs, 0);
	fixture_run(f);
	assert_string_equal(fake_trace(from), "settled4=ok");
	/* One that may not wait does not overtake those that do. */
	fixture_post_ack(from, jobs, "g", 7, MSG_LEVEL_ACCEPTED, 0);
	assert_string_equal(fake_trace(from), "settled7=full");
	for (unsigned i = 0; i < 5; i++) {
		fake_done(jobs, 0);
		fixture_run(f);
	}
	assert_string_equal(fake_trace(from), "settled5=ok settled6=ok");
	assert_string_equal(fake_trace(jobs), "start a b c d e f");
	assert_int_equal(session_counters(jobs->session).handled, 6);
}

static void
test_overflow_refuse_parks_nothing(void **state)
{
	struct fixture *f = *state;
	struct session_spec *spec = fixture_spec("jobs", RESTART_NO);
	struct fake *jobs, *from = fake_new(f, 0, NULL);

	spec->max_events = 1;
	spec->overflow = OVERFLOW_REFUSE;
	jobs = fake_hosted(f, 0, spec);
	fixture_post_ack(from, jobs, "a", 1, MSG_LEVEL_ACCEPTED, MSG_MAY_PARK);
	fixture_post_ack(from, jobs, "b", 2, MSG_LEVEL_ACCEPTED, MSG_MAY_PARK);
	assert_string_equal(fake_trace(from), "settled1=ok settled2=full");
	fixture_run(f);
	assert_int_equal(jobs->n_run, 1);
}

/* ---- ack levels ------------------------------------------------------ */

static void
levels(struct fixture *f, unsigned home)
{
	struct fake *to = fake_new(f, home, NULL), *from = fake_new(f, 0, NULL);

	to->on_run = fake_wait;
	fixture_post_ack(from, to, "a", 1, MSG_LEVEL_ACCEPTED, 0);
	fixture_post_ack(from, to, "b", 2, MSG_LEVEL_ACCEPTED, 0);
	fixture_post_ack(from, to, "c", 3, MSG_LEVEL_DELIVERED, 0);
	fixture_post_ack(from, to, "d", 4, MSG_LEVEL_HANDLED, 0);
	fixture_run(f);
	assert_string_equal(fake_trace(from), "settled1=ok settled2=ok");
	fake_done(to, 0);
	fixture_run(f); /* b is being handled, c and d wait */
	assert_string_equal(fake_trace(from), "");
	fake_done(to, 0);
	fixture_run(f);
	assert_string_equal(fake_trace(from), "settled3=ok");
	fake_done(to, 0);
	fixture_run(f);
	assert_string_equal(fake_trace(from), "");
	fake_done(to, 0);
	fixture_run(f);
	assert_string_equal(fake_trace(from), "settled4=ok");
	assert_int_equal(from->n_settled, 4);
}

static void
test_each_post_settles_once_at_its_level(void **state)
{
	levels(*state, 0);
}

static void
test_each_post_settles_once_at_its_level_elsewhere(void **state)
{
	levels(*state, 1);
}

static void
test_leased_events_settle_as_delivered_then_handled(void **state)
{
	struct fixture *f = *state;
	struct fake *to = fake_new(f, 0, NULL), *from = fake_new(f, 0, NULL);

	to->on_run = fake_lease;
	fixture_post_ack(from, to, "a", 1, MSG_LEVEL_HANDLED, 0);
	fixture_post_ack(from, to, "b", 2, MSG_LEVEL_DELIVERED, 0);
	fixture_post_ack(from, to, "c", 3, MSG_LEVEL_HANDLED, 0);
	fixture_run(f);
	assert_int_equal(to->n_held, 3);
	assert_int_equal(session_counters(to->session).leased, 3);
	assert_string_equal(fake_trace(from), "settled2=ok");
	fake_done(to, 0);
	fake_done(to, 0);
	fake_done(to, EVD_STATUS_HANDLER);
	assert_string_equal(
		fake_trace(from), "settled1=ok settled3=handler-error");
	assert_int_equal(session_counters(to->session).handled, 2);
	assert_int_equal(session_counters(to->session).dead, 1);
}

static void
test_handled_level_learns_of_a_crash_and_of_no_handler(void **state)
{
	struct fixture *f = *state;
	struct fake *to =
		fake_hosted(f, 0, fixture_spec("fragile", RESTART_ON_FAILURE));
	struct fake *from = fake_new(f, 0, NULL);

	from->texts = true;
	to->on_run = fake_crash;
	fixture_post_ack(from, to, "a", 1, MSG_LEVEL_HANDLED, 0);
	fixture_run(f);
	assert_string_equal(
		fake_trace(from), "settled1=died:cannot handle 'a'");
	assert_int_equal(session_counters(to->session).dead, 1);
}

static enum session_result
no_handler(struct fake *fake, struct msg *m)
{
	(void)fake, (void)m;
	return SESSION_UNHANDLED;
}

static void
test_an_event_without_a_handler_is_a_dead_letter(void **state)
{
	struct fixture *f = *state;
	struct fake *to = fake_new(f, 0, NULL), *from = fake_new(f, 0, NULL);

	to->on_run = no_handler;
	fixture_post_ack(from, to, "a", 1, MSG_LEVEL_HANDLED, 0);
	assert_int_equal(fixture_call(from, to, "b", 9, 0), 0);
	fixture_run(f);
	assert_int_equal(session_counters(to->session).dead, 2);
	assert_non_null(strstr(from->trace, "settled1="));
	assert_non_null(strstr(from->trace, "no handler for this event"));
	assert_int_equal(from->n_replies, 1);
}

static void
stop_poster(struct fake *fake, uint64_t seq, int status)
{
	(void)seq, (void)status;
	session_stop(fake->session);
}

static void
test_a_poster_to_itself_may_stop_when_it_is_settled(void **state)
{
	struct fixture *f = *state;
	struct fake *self = fake_new(f, 0, NULL), *next;

	self->on_settled = stop_poster;
	fixture_post_ack(self, self, "a", 1, MSG_LEVEL_ACCEPTED, 0);
	assert_false(fake_exists(self));
	fixture_run(f);
	next = fake_new(f, 0, NULL);
	assert_ptr_equal(fake_new(f, 0, NULL)->session->next, NULL);
	fixture_post(NULL, next, "b");
	fixture_run(f);
	assert_string_equal(fake_trace(next), "b");
}

static void
test_a_leaser_may_be_stopped_when_its_end_is_settled(void **state)
{
	struct fixture *f = *state;
	struct fake *self = fake_new(f, 0, NULL), *next;

	self->on_run = fake_lease;
	fixture_post_ack(self, self, "a", 1, MSG_LEVEL_HANDLED, 0);
	fixture_run(f);
	self->on_settled = stop_poster;
	fake_done(self, EVD_STATUS_HANDLER);
	assert_false(fake_exists(self));
	next = fake_new(f, 0, NULL);
	assert_int_equal(session_counters(next->session).dead, 0);
	assert_int_equal(f->scheds[0].counters.dead, 1);
	fixture_run(f);
}

static void
test_acks_to_a_poster_that_is_gone_are_dropped(void **state)
{
	struct fixture *f = *state;
	struct fake *from = fake_new(f, 0, NULL), *to = fake_new(f, 1, NULL);

	fixture_post_ack(from, to, "a", 1, MSG_LEVEL_HANDLED, 0);
	sched_publish(from->sched);
	session_stop(from->session);
	fixture_run(f);
	assert_int_equal(to->n_run, 1);
	assert_int_equal(from->n_settled, 0);
}

/* ---- timers' budget -------------------------------------------------- */

static void
test_many_due_timers_do_not_make_one_long_turn(void **state)
{
	struct fixture *f = *state;
	struct fake *to = fake_new(f, 0, "to");
	struct delay_init init = {.to = to->id, .event = "x", .event_size = 1};
	unsigned n = 50000, turns = 0;

	init.due_ns = f->clock.monotonic_ns + NS_PER_MS;
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(
			delay_set(to->sched, NULL, &init, NULL, NULL), 0);
	clock_fake_advance(&f->clock, 2 * NS_PER_MS);
	assert_true(fixture_turn(f));
	assert_in_range(to->sched->delays.n, 1, n - 1);
	while (fixture_turn(f))
		turns++;
	assert_true(turns > 2);
	assert_int_equal(to->n_run, n);
	fixture_check(f);
}

static void
sleep_again(struct fake *fake, uint64_t token, struct msg *reply)
{
	(void)reply;
	assert_int_equal(
		session_sleep(fake->session, token, 0, &fake->call), 0);
}

static void
test_sleeps_of_no_time_do_not_keep_a_turn(void **state)
{
	struct fixture *f = *state;
	struct fake *busy = fake_new_ops(f, 0, NULL, &fake_inline_ops);
	struct fake *other = fake_new(f, 0, NULL);

	busy->on_reply = sleep_again;
	/* On a tick, so that what is due now is due in this turn. */
	f->clock.monotonic_ns = ((f->clock.monotonic_ns >> TIMERS_SHIFT) + 2)
				<< TIMERS_SHIFT;
	fixture_turn(f);
	assert_int_equal(session_sleep(busy->session, 1, 0, NULL), 0);
	fixture_post(NULL, other, "x");
	fixture_turn(f); /* it returns */
	assert_int_equal(other->n_run, 1);
	assert_true(busy->n_replies > 0);
}

/* ---- sleep and wake -------------------------------------------------- */

static void
test_a_batch_wakes_a_sleeper_once(void **state)
{
	struct fixture *f = *state;
	struct fake *a = fake_new(f, 0, NULL), *b = fake_new(f, 1, NULL);

	fixture_run(f);
	f->n_wakes = 0;
	fixture_post(a, b, "x"); /* b's scheduler is awake: nothing to do */
	sched_publish(a->sched);
	assert_int_equal(f->n_wakes, 0);
	assert_false(sched_sleep(b->sched));
	sched_turn(b->sched);
	assert_true(sched_sleep(b->sched));
	for (unsigned i = 0; i < 10; i++)
		fixture_post(a, b, "y");
	assert_int_equal(f->n_wakes, 0); /* once a turn */
	sched_publish(a->sched);
	fixture_post(a, b, "z");
	sched_publish(a->sched);
	assert_int_equal(f->n_wakes, 1);
	sched_awake(b->sched);
	fixture_run(f);
	assert_int_equal(b->n_run, 12);
}

struct noted_task {
	struct sched_task task;
	struct sched *ran_on;
	unsigned n;
};

static void
note_task(struct sched *s, struct sched_task *task)
{
	struct noted_task *noted = container_of(task, struct noted_task, task);

	noted->ran_on = s;
	noted->n++;
}

static void
test_tasks_run_once_on_their_scheduler(void **state)
{
	struct fixture *f = *state;
	struct noted_task here = {.task.run = note_task};
	struct noted_task there = {.task.run = note_task};
	struct noted_task injected = {.task.run = note_task};

	sched_run_on(&f->scheds[0], &f->scheds[0], &here.task);
	sched_run_on(&f->scheds[0], &f->scheds[1], &there.task);
	assert_int_equal(here.n + there.n, 0);
	assert_true(sched_sleep(&f->scheds[1]));
	f->n_wakes = 0;
	sched_inject(&f->scheds[1], &injected.task);
	assert_int_equal(f->n_wakes, 1);
	sched_awake(&f->scheds[1]);
	fixture_run(f);
	assert_int_equal(here.n, 1);
	assert_ptr_equal(here.ran_on, &f->scheds[0]);
	assert_int_equal(there.n, 1);
	assert_ptr_equal(there.ran_on, &f->scheds[1]);
	assert_int_equal(injected.n, 1);
}

/* ---- out of memory --------------------------------------------------- */

static void
test_a_deadline_that_finds_no_memory_is_tried_again(void **state)
{
	struct fixture *f = *state;
	struct fake *a = fake_new(f, 0, NULL), *b = fake_new(f, 0, NULL);

#ifdef NDEBUG
	skip(); /* fault points are compiled out */
#endif
	b->on_run = fake_wait;
	assert_int_equal(fixture_call(a, b, "x", 5, 100), 0);
	fixture_run(f);
	fault_arm("msg_new", 1);
	fixture_advance(f, 101);
	fault_arm("msg_new", 0);
	assert_int_equal(a->n_replies, 0);
	fixture_advance(f, 100);
	assert_string_equal(
		fake_trace(a), "reply5=timeout:no reply before the deadline");
	fake_done(b, 0);
	fixture_run(f);
}

static void
test_a_poster_elsewhere_is_told_without_memory(void **state)
{
	struct fixture *f = *state;
	struct fake *from = fake_new(f, 0, NULL), *to = fake_new(f, 1, NULL);

#ifdef NDEBUG
	skip(); /* fault points are compiled out */
#endif
	to->on_run = fake_wait;
	fixture_post_ack(from, to, "a", 1, MSG_LEVEL_HANDLED, 0);
	fixture_run(f);
	fake_done(to, 0);
	fixture_run(f);
	assert_string_equal(fake_trace(from), "settled1=ok");
	fixture_post_ack(from, to, "b", 2, MSG_LEVEL_HANDLED, 0);
	fixture_run(f);
	fault_arm("msg_new", 1);
	fake_done(to, 0);
	fault_arm("msg_new", 0);
	assert_int_equal(f->scheds[1].n_spares, 0); /* it was needed */
	fixture_run(f);
	assert_string_equal(fake_trace(from), "settled2=ok");
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
		ONE(test_events_of_one_sender_are_handled_in_order),
		TWO(test_order_holds_across_schedulers_and_batches),
		ONE(test_a_session_that_posts_to_itself_shares_the_turn),
		ONE(test_a_full_mailbox_yields_after_its_budget),
		ONE(test_a_turn_handles_no_more_than_its_budget),
		ONE(test_post_to_nobody_is_refused_and_stays_the_callers),
		ONE(test_a_full_mailbox_refuses_and_says_which_limit),
		TWO(test_a_refusal_by_another_scheduler_names_the_session_too),
		TWO(test_a_plain_post_refused_elsewhere_is_counted),
		ONE(test_parked_posts_settle_when_admitted_and_keep_order),
		ONE(test_overflow_refuse_parks_nothing),
		ONE(test_each_post_settles_once_at_its_level),
		TWO(test_each_post_settles_once_at_its_level_elsewhere),
		ONE(test_leased_events_settle_as_delivered_then_handled),
		ONE(test_handled_level_learns_of_a_crash_and_of_no_handler),
		ONE(test_an_event_without_a_handler_is_a_dead_letter),
		ONE(test_a_poster_to_itself_may_stop_when_it_is_settled),
		ONE(test_a_leaser_may_be_stopped_when_its_end_is_settled),
		TWO(test_acks_to_a_poster_that_is_gone_are_dropped),
		ONE(test_many_due_timers_do_not_make_one_long_turn),
		ONE(test_sleeps_of_no_time_do_not_keep_a_turn),
		TWO(test_a_batch_wakes_a_sleeper_once),
		TWO(test_tasks_run_once_on_their_scheduler),
		ONE(test_a_deadline_that_finds_no_memory_is_tried_again),
		TWO(test_a_poster_elsewhere_is_told_without_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* daemon/kernel/delays.c: events that become due later, on both clocks. */
#include "kernel/delays.h"

#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "fixture.h"

/* Where to: a session, or else an alias; when: elapsed ms. */
struct aim {
	struct fake *owner, *to;
	const char *alias;
	uint64_t ms, repeat_ms;
};

static int
set(struct sched *s, const char *event, const struct aim *aim, uint64_t *id)
{
	struct delay_init init = {
		.event = event,
		.event_size = (uint8_t)strlen(event),
		.alias = aim->alias,
		.alias_size = aim->alias ? (uint32_t)strlen(aim->alias) : 0,
		.to = aim->to ? aim->to->id : 0,
		.due_ns = clock_now(s->kernel->clock) + aim->ms * NS_PER_MS,
		.repeat_ns = aim->repeat_ms * NS_PER_MS,
	};

	return delay_set(
		s, aim->owner ? aim->owner->session : NULL, &init, id, NULL);
}

static uint64_t
delay_to(struct fake *to, const char *event, uint64_t ms)
{
	uint64_t id = 0;

	assert_int_equal(
		set(to->sched, event,
			&(struct aim){.owner = to, .to = to, .ms = ms}, &id),
		0);
	return id;
}

static uint64_t
alarm_to(struct fake *to, const char *event, uint64_t at_ns, uint64_t repeat_ns)
{
	struct delay_init init = {.to = to->id,
		.event = event,
		.event_size = (uint8_t)strlen(event),
		.due_ns = at_ns,
		.repeat_ns = repeat_ns,
		.clock = DELAY_WALL};
	uint64_t id = 0;

	assert_int_equal(
		delay_set(to->sched, to->session, &init, &id, NULL), 0);
	return id;
}

static enum session_result
note_late(struct fake *fake, struct msg *m)
{
	fake->number = msg_late_ns(m);
	return SESSION_DONE;
}

/* ---- once ------------------------------------------------------------ */

static void
test_delays_fire_in_order_of_due_time(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, NULL);

	delay_to(s, "c", 30);
	delay_to(s, "a", 10);
	delay_to(s, "d", 60000);
	delay_to(s, "b", 20);
	fixture_advance(f, 9);
	assert_int_equal(s->n_run, 0);
	clock_fake_advance(&f->clock, 100000 * (uint64_t)NS_PER_MS);
	fixture_run(f);
	assert_string_equal(fake_trace(s), "a b c d");
	assert_int_equal(f->scheds[0].counters.accepted, 4);
	assert_int_equal(session_counters(s->session).handled, 4);
}

static void
test_a_fired_event_says_how_late_it_is(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, NULL);

	s->on_run = note_late;
	delay_to(s, "a", 10);
	fixture_advance(f, 17);
	assert_int_equal(s->number, 7 * NS_PER_MS);
	alarm_to(s, "b", f->clock.wall_ns + 5 * NS_PER_MS, 0);
	fixture_advance(f, 8);
	assert_int_equal(s->number, 3 * NS_PER_MS);
}

static void
test_cancel_ends_it_once(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, NULL);
	uint64_t id = delay_to(s, "a", 10), other = delay_to(s, "b", 10);

	assert_int_equal(s->session->n_timers, 2);
	assert_int_equal(delay_cancel(s->sched, id), 0);
	assert_int_equal(delay_cancel(s->sched, id), DELAY_E_FIRED);
	assert_int_equal(delay_cancel(s->sched, 0), DELAY_E_FIRED);
	assert_int_equal(delay_cancel(s->sched, UINT64_MAX), DELAY_E_FIRED);
	assert_int_equal(f->scheds[0].counters.cancelled, 1);
	assert_int_equal(s->session->n_timers, 1);
	fixture_advance(f, 20);
	assert_string_equal(fake_trace(s), "b");
	assert_int_equal(delay_cancel(s->sched, other), DELAY_E_FIRED);
	assert_int_equal(s->session->n_timers, 0);
	/* The slot's next delay is another one. */
	delay_to(s, "c", 10);
	assert_int_equal(delay_cancel(s->sched, id), DELAY_E_FIRED);
	assert_int_equal(delay_cancel(s->sched, other), DELAY_E_FIRED);
}

static enum session_result
cancel_number(struct fake *fake, struct msg *m)
{
	(void)m;
	fake->call = (uint64_t)delay_cancel(fake->sched, fake->number);
	return SESSION_DONE;
}

static void
test_cancel_while_firing_is_too_late(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, NULL);

	s->on_run = cancel_number;
	s->number = delay_to(s, "a", 10);
	fixture_advance(f, 10);
	fixture_advance(f, 1);
	assert_int_equal(s->n_run, 1);
	assert_int_equal(s->call, DELAY_E_FIRED);
}

static void
test_an_early_one_can_cancel_a_later_one_of_the_same_turn(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, NULL);

	/* Both are due; the second has fired before the first is handled. */
	s->on_run = cancel_number;
	delay_to(s, "a", 10);
	s->number = delay_to(s, "b", 500);
	fixture_advance(f, 20);
	assert_int_equal(s->call, 0);
	s->on_run = NULL;
	fixture_advance(f, 1000);
	assert_string_equal(fake_trace(s), "a");
}

/* ---- whom it goes to ------------------------------------------------- */

static void
test_a_delay_follows_its_alias_to_the_next_holder(void **state)
{
	struct fixture *f = *state;
	struct fake *first = fake_new(f, 0, "job"), *next;

	assert_int_equal(set(first->sched, "x",
				 &(struct aim){.alias = "job", .ms = 10}, NULL),
		0);
	session_stop(first->session);
	next = fake_new(f, 1, "job"); /* it even lives elsewhere */
	fixture_advance(f, 11);
	assert_int_equal(first->n_run, 0);
	assert_string_equal(fake_trace(next), "x");
	assert_int_equal(f->scheds[0].transit_out, 1);
	assert_int_equal(f->scheds[1].transit_in, 1);
}

static void
test_a_delay_to_an_alias_that_went_is_a_dead_letter(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, "job");

	assert_int_equal(set(s->sched, "x",
				 &(struct aim){.alias = "job", .ms = 10}, NULL),
		0);
	session_stop(s->session);
	fixture_advance(f, 11);
	assert_int_equal(f->scheds[0].counters.dead, 1);
	assert_int_equal(f->scheds[0].delays.n, 0);
	assert_int_equal(f->kernel.aliases.n, 0); /* its reference is gone */
}

static void
test_a_delay_whose_receiver_dies_is_a_dead_letter(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 1, "job");

	assert_int_equal(set(&f->scheds[0], "x",
				 &(struct aim){.alias = "job", .ms = 10}, NULL),
		0);
	clock_fake_advance(&f->clock, 11 * NS_PER_MS);
	sched_turn(&f->scheds[0]);
	session_stop(s->session);
	fixture_run(f);
	assert_int_equal(f->scheds[1].counters.dead, 1);
}

static void
test_a_mistyped_alias_is_told_at_once(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(set(&f->scheds[0], "x",
				 &(struct aim){.alias = "jbo", .ms = 10}, NULL),
		DELAY_E_NO_ALIAS);
	assert_int_equal(f->scheds[0].delays.n, 0);
	assert_int_equal(f->scheds[0].counters.accepted, 0);
}

static void
test_a_due_delay_is_taken_by_a_full_mailbox(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, "job");

	mailbox_limit(&s->session->box, 1, 100);
	s->on_run = fake_wait;
	fixture_post(NULL, s, "a");
	fixture_run(f);
	fixture_post(NULL, s, "b");
	delay_to(s, "x", 10);
	delay_to(s, "y", 10);
	fixture_advance(f, 11);
	assert_int_equal(s->session->box.n, 3);
	s->on_run = NULL;
	fake_done(s, 0);
	fixture_run(f);
	assert_string_equal(fake_trace(s), "a b x y");
}

/* ---- again and again ------------------------------------------------- */

static void
test_repeats_stay_on_the_grid_of_the_first(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, NULL);
	uint64_t id;

	s->on_run = note_late;
	assert_int_equal(set(s->sched, "t",
				 &(struct aim){.owner = s,
					 .to = s,
					 .ms = 10,
					 .repeat_ms = 100},
				 &id),
		0);
	fixture_advance(f, 13);
	assert_int_equal(s->n_run, 1);
	assert_int_equal(s->number, 3 * NS_PER_MS);
	fixture_advance(f, 96); /* 109 */
	assert_int_equal(s->n_run, 1);
	fixture_advance(f, 2); /* 111 */
	assert_int_equal(s->n_run, 2);
	fixture_advance(f, 460); /* 571: 210, 310, 410 and 510 in one */
	assert_int_equal(s->n_run, 3);
	fixture_advance(f, 38); /* 609 */
	assert_int_equal(s->n_run, 3);
	fixture_advance(f, 2); /* 611 */
	assert_int_equal(s->n_run, 4);
	assert_int_equal(s->number, 1 * NS_PER_MS);
	assert_int_equal(delay_cancel(s->sched, id), 0);
	fixture_advance(f, 1000);
	assert_int_equal(s->n_run, 4);
	assert_int_equal(f->scheds[0].counters.cancelled, 1);
	assert_int_equal(f->scheds[0].counters.accepted, 5);
}

static void
test_a_repeat_can_be_cancelled_by_its_own_event(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, NULL);

	s->on_run = cancel_number;
	assert_int_equal(
		set(s->sched, "t",
			&(struct aim){
				.owner = s, .to = s, .ms = 10, .repeat_ms = 10},
			&s->number),
		0);
	fixture_advance(f, 11);
	fixture_advance(f, 100);
	assert_int_equal(s->n_run, 1);
	assert_int_equal(s->call, 0);
	assert_int_equal(f->scheds[0].delays.n, 0);
}

static void
test_repeats_do_not_pile_up_in_a_full_mailbox(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, NULL);

	mailbox_limit(&s->session->box, 3, 100);
	s->on_run = fake_wait;
	assert_int_equal(
		set(s->sched, "t",
			&(struct aim){
				.owner = s, .to = s, .ms = 10, .repeat_ms = 10},
			NULL),
		0);
	for (unsigned i = 0; i < 20; i++)
		fixture_advance(f, 11);
	assert_int_equal(s->n_run, 1);
	assert_int_equal(s->session->box.n, 3);
	assert_true(f->scheds[0].counters.refused >= 10);
	s->on_run = NULL;
	fake_done(s, 0);
	fixture_run(f);
}

static void
test_an_event_without_memory_comes_a_little_later(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, NULL);

#ifdef NDEBUG
	skip(); /* fault points are compiled out */
#endif
	assert_int_equal(
		set(s->sched, "t",
			&(struct aim){
				.owner = s, .to = s, .ms = 10, .repeat_ms = 10},
			NULL),
		0);
	fault_arm("msg_new", 1);
	fixture_advance(f, 11);
	fault_arm("msg_new", 0);
	assert_int_equal(s->n_run, 0);
	fixture_advance(f, 11);
	assert_int_equal(s->n_run, 1);
}

static void
test_the_longest_repeat_does_not_wrap(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, NULL);
	struct delay_init init = {.to = s->id,
		.event = "x",
		.event_size = 1,
		.due_ns = f->clock.monotonic_ns + NS_PER_MS,
		.repeat_ns = UINT64_MAX - 5};

	assert_int_equal(delay_set(s->sched, s->session, &init, NULL, NULL), 0);
	fixture_advance(f, 2);
	fixture_advance(f, 1000000000);
	assert_int_equal(s->n_run, 1);
}

/* ---- owners ---------------------------------------------------------- */

static void
test_delays_to_oneself_end_with_the_session(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, NULL), *other = fake_new(f, 0, "o");

	delay_to(s, "a", 10);
	assert_int_equal(
		set(s->sched, "b",
			&(struct aim){
				.owner = s, .to = s, .ms = 10, .repeat_ms = 10},
			NULL),
		0);
	assert_int_equal(
		set(s->sched, "kept",
			&(struct aim){.owner = s, .alias = "o", .ms = 10},
			NULL),
		0);
	session_stop(s->session);
	assert_int_equal(f->scheds[0].counters.cancelled, 2);
	fixture_advance(f, 11);
	assert_string_equal(fake_trace(other), "kept");
}

static void
test_delays_to_oneself_end_with_a_crash(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_hosted(f, 0, fixture_spec("s", RESTART_ALWAYS));

	fixture_run(f);
	delay_to(s, "a", 1000);
	s->on_run = fake_crash;
	fixture_post(NULL, s, "crash");
	fixture_run(f);
	s->on_run = NULL;
	assert_int_equal(s->session->n_timers, 0);
	fixture_advance(f, 2000);
	assert_string_equal(fake_trace(s), "start crash crash start");
}

/* ---- the wall clock -------------------------------------------------- */

/* B28: an alarm whose time was jumped over fires, once. */
static void
test_an_alarm_fires_when_the_clock_is_set_past_it(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, NULL);

	s->on_run = note_late;
	alarm_to(s, "a", f->clock.wall_ns + 3600ull * NS_PER_S, 0);
	fixture_advance(f, 1000);
	assert_int_equal(s->n_run, 0);
	f->clock.wall_ns += 7200ull * NS_PER_S;
	sched_clock_set(s->sched);
	fixture_run(f);
	assert_int_equal(s->n_run, 1);
	assert_int_equal(s->number, 3601ull * NS_PER_S);
	f->clock.wall_ns -= 7200ull * NS_PER_S;
	sched_clock_set(s->sched);
	fixture_advance(f, 10000 * 1000);
	assert_int_equal(s->n_run, 1);
}

static void
test_an_alarm_waits_longer_when_the_clock_is_set_back(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, NULL);

	alarm_to(s, "a", f->clock.wall_ns + 10ull * NS_PER_S, 0);
	f->clock.wall_ns -= 3600ull * NS_PER_S;
	sched_clock_set(s->sched);
	fixture_advance(f, 3600 * 1000);
	assert_int_equal(s->n_run, 0);
	assert_true(sched_next_ns(s->sched) <=
		    f->clock.monotonic_ns + 10ull * NS_PER_S);
	fixture_advance(f, 10 * 1000 + 1);
	assert_int_equal(s->n_run, 1);
}

/* B29 */
static void
test_delays_do_not_care_about_the_wall_clock(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, NULL);

	delay_to(s, "a", 1000);
	assert_int_equal(session_sleep(s->session, 1, 1000, NULL), 0);
	f->clock.wall_ns += 86400ull * NS_PER_S;
	sched_clock_set(s->sched);
	fixture_run(f);
	assert_string_equal(fake_trace(s), "");
	f->clock.wall_ns -= 2 * 86400ull * NS_PER_S;
	sched_clock_set(s->sched);
	fixture_advance(f, 999);
	assert_string_equal(fake_trace(s), "");
	fixture_advance(f, 2);
	assert_string_equal(
		fake_trace(s), "reply1=timeout:no reply before the deadline a");
}

static void
test_a_daily_alarm_survives_the_clock_being_set(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, NULL);
	uint64_t day = 86400ull * NS_PER_S, first = f->clock.wall_ns + day;

	alarm_to(s, "a", first, day);
	f->clock.wall_ns = first + 10 * day + NS_PER_S; /* far ahead */
	sched_clock_set(s->sched);
	fixture_run(f);
	assert_int_equal(s->n_run, 1); /* once for all that were missed */
	fixture_advance(f, 86398ull * 1000);
	assert_int_equal(s->n_run, 1);
	fixture_advance(f, 1001); /* on the grid again */
	assert_int_equal(s->n_run, 2);
	f->clock.wall_ns -= 5 * day;
	sched_clock_set(s->sched);
	fixture_advance(f, 4 * 86400ull * 1000);
	assert_int_equal(s->n_run, 2); /* what has fired does not again */
}

static void
test_the_next_turn_is_known_for_both_clocks(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, NULL);
	uint64_t now = f->clock.monotonic_ns, next;

	assert_int_equal(sched_next_ns(s->sched), UINT64_MAX);
	alarm_to(s, "a", f->clock.wall_ns + 50ull * NS_PER_MS, 0);
	next = sched_next_ns(s->sched);
	assert_in_range(next, now, now + 51 * NS_PER_MS);
	delay_to(s, "b", 20);
	next = sched_next_ns(s->sched);
	assert_in_range(next, now, now + 21 * NS_PER_MS);
	fixture_advance(f, 100);
	assert_int_equal(sched_next_ns(s->sched), UINT64_MAX);
	assert_string_equal(fake_trace(s), "b a");
}

static void
test_an_alarm_at_the_end_of_time_is_far_away(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, NULL);

	alarm_to(s, "a", UINT64_MAX, 0);
	alarm_to(s, "b", UINT64_MAX - 1000 * (uint64_t)NS_PER_MS, 0);
	f->clock.wall_ns = 0; /* and the clock far behind */
	sched_clock_set(s->sched);
	assert_true(sched_next_ns(s->sched) >
		    f->clock.monotonic_ns + 3600ull * NS_PER_S);
	fixture_advance(f, 1000);
	assert_int_equal(s->n_run, 0);
}

/* ---- limits ---------------------------------------------------------- */

static void
test_delays_have_a_limit(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, NULL);
	uint64_t id;

	f->kernel.limits.max_timers = 2;
	id = delay_to(s, "a", 10);
	delay_to(s, "b", 10);
	assert_int_equal(
		set(s->sched, "c", &(struct aim){.owner = s, .to = s, .ms = 10},
			NULL),
		DELAY_E_LIMIT);
	assert_int_equal(delay_cancel(s->sched, id), 0);
	delay_to(s, "c", 10);
}

static void
test_a_delay_without_memory_is_refused(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, NULL);

#ifdef NDEBUG
	skip(); /* fault points are compiled out */
#endif
	fault_arm("delay_chunk", 1);
	assert_int_equal(
		set(s->sched, "a", &(struct aim){.owner = s, .to = s, .ms = 10},
			NULL),
		-ENOMEM);
	fault_arm("delay_chunk", 0);
	assert_int_equal(f->scheds[0].delays.n, 0);
	assert_int_equal(f->scheds[0].counters.accepted, 0);
}

static void
test_pages_visit_each_delay_once(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, NULL);
	uint64_t ids[300], after = 0, n = 0, sum = 0;

	for (unsigned i = 0; i < 300; i++)
		ids[i] = delay_to(s, "a", 10 + i);
	for (unsigned i = 0; i < 300; i += 3)
		assert_int_equal(delay_cancel(s->sched, ids[i]), 0);
	for (struct delay *d; (d = delays_next(&s->sched->delays, after));) {
		after = d->id;
		sum += after;
		n++;
		if (n == 10) /* the page's last goes meanwhile */
			assert_int_equal(delay_cancel(s->sched, after), 0);
	}
	assert_int_equal(n, 200);
	for (unsigned i = 0; i < 300; i++)
		sum -= i % 3 ? ids[i] : 0;
	assert_int_equal(sum, 0);
}

static void
test_a_million_delays_end_in_no_time(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, "s");

	for (unsigned i = 0; i < 1000000; i++)
		assert_int_equal(
			set(s->sched, "a",
				&(struct aim){.to = s, .ms = 1000 + i}, NULL),
			0);
	assert_int_equal(s->sched->delays.n, 1000000);
	/* fixture_teardown() would take hours at a scan for each */
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
		ONE(test_delays_fire_in_order_of_due_time),
		ONE(test_a_fired_event_says_how_late_it_is),
		ONE(test_cancel_ends_it_once),
		ONE(test_cancel_while_firing_is_too_late),
		ONE(test_an_early_one_can_cancel_a_later_one_of_the_same_turn),
		TWO(test_a_delay_follows_its_alias_to_the_next_holder),
		ONE(test_a_delay_to_an_alias_that_went_is_a_dead_letter),
		TWO(test_a_delay_whose_receiver_dies_is_a_dead_letter),
		ONE(test_a_mistyped_alias_is_told_at_once),
		ONE(test_a_due_delay_is_taken_by_a_full_mailbox),
		ONE(test_repeats_stay_on_the_grid_of_the_first),
		ONE(test_a_repeat_can_be_cancelled_by_its_own_event),
		ONE(test_repeats_do_not_pile_up_in_a_full_mailbox),
		ONE(test_an_event_without_memory_comes_a_little_later),
		ONE(test_the_longest_repeat_does_not_wrap),
		ONE(test_delays_to_oneself_end_with_the_session),
		ONE(test_delays_to_oneself_end_with_a_crash),
		ONE(test_an_alarm_fires_when_the_clock_is_set_past_it),
		ONE(test_an_alarm_waits_longer_when_the_clock_is_set_back),
		ONE(test_delays_do_not_care_about_the_wall_clock),
		ONE(test_a_daily_alarm_survives_the_clock_being_set),
		ONE(test_the_next_turn_is_known_for_both_clocks),
		ONE(test_an_alarm_at_the_end_of_time_is_far_away),
		ONE(test_delays_have_a_limit),
		ONE(test_a_delay_without_memory_is_refused),
		ONE(test_pages_visit_each_delay_once),
		ONE(test_a_million_delays_end_in_no_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

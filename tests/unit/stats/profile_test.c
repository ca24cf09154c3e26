/* What events cost: stats/profile under a fake clock, whose nanoseconds are
 * the ticks. */
#include "kernel/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "kernel/slots.h"
#include "stats/profile.h"

static int
setup(void **state)
{
	struct fixture *f = fixture_new(2, NULL);

	profile_init(&f->kernel);
	*state = f;
	return 0;
}

static void
take(struct fake *fake, uint64_t ns)
{
	clock_fake_advance(&fake->fixture->clock, ns);
}

/* The event's number in its name is how long it takes: "e30". */
static enum session_result
work(struct fake *fake, struct msg *m)
{
	take(fake, (uint64_t)atoi(m->event + 1));
	return SESSION_DONE;
}

static const struct profile_row *
row(struct fake *fake, const char *event)
{
	const struct profile_row *r;
	uint32_t at = 0;

	while ((r = profile_next(fake->sched, fake->session, &at)))
		if (!strcmp(r->event, event))
			return r;
	return NULL;
}

static unsigned
n_rows(struct fake *fake)
{
	uint32_t at = 0;
	unsigned n = 0;

	while (profile_next(fake->sched, fake->session, &at))
		n++;
	return n;
}

static struct fake *
worker(struct fixture *f, const char *name)
{
	struct fake *fake = fake_new(f, 0, name);

	fake->on_run = work;
	return fake;
}

static void
test_off_measures_nothing(void **state)
{
	struct fixture *f = *state;
	struct fake *a = worker(f, "a");

	fixture_post(NULL, a, "e30");
	fixture_run(f);
	assert_true(!a->session->health || !a->session->health->profile);
	assert_null(f->scheds[0].profile.ops);
}

static void
test_counts_calls_and_time(void **state)
{
	struct fixture *f = *state;
	struct fake *a = worker(f, "a");

	profile_set_all(&f->scheds[0], true);
	fixture_post(NULL, a, "e30");
	fixture_post(NULL, a, "e30");
	fixture_post(NULL, a, "e5");
	fixture_run(f);
	assert_int_equal(row(a, "e30")->calls, 2);
	assert_int_equal(row(a, "e30")->own, 60);
	assert_int_equal(row(a, "e30")->whole, 60);
	assert_int_equal(row(a, "e5")->own, 5);
	assert_int_equal(profile_ns(&f->kernel, 60), 60);
}

static void
test_time_in_the_mailbox(void **state)
{
	struct fixture *f = *state;
	struct fake *a = worker(f, "a");

	profile_set_all(&f->scheds[0], true);
	take(a, 1000);
	fixture_turn(f);
	fixture_post(NULL, a, "e30");
	fixture_post(NULL, a, "e30");
	take(a, 100); /* nothing runs */
	fixture_run(f);
	/* the first waits 100, the second 30 more */
	assert_int_equal(row(a, "e30")->wait, 230);
	assert_int_equal(row(a, "e30")->wait_max, 130);
}

static void
finish(struct fake *fake, uint64_t token, struct msg *reply)
{
	(void)token, (void)reply;
	take(fake, 7);
	fake_done(fake, 0);
}

static enum session_result
ask(struct fake *fake, struct msg *m)
{
	take(fake, 10);
	assert_int_equal(fixture_call(fake, fake->other, "e500", 1, 1000), 0);
	return fake_wait(fake, m);
}

/* Its own time is without what it waited for; the whole is with it. */
static void
test_what_it_waits_for_is_not_its_own(void **state)
{
	struct fixture *f = *state;
	struct fake *a = worker(f, "a"), *b = worker(f, "b");

	profile_set_all(&f->scheds[0], true);
	a->on_run = ask;
	a->on_reply = finish;
	a->other = b;
	fixture_post(NULL, a, "ask");
	fixture_run(f);
	assert_int_equal(row(a, "ask")->calls, 1);
	assert_int_equal(row(a, "ask")->own, 17);
	assert_int_equal(row(a, "ask")->whole, 517);
	assert_int_equal(row(b, "e500")->own, 500);
	assert_null(row(a, "(reply)"));
}

static enum session_result
call_and_go_on(struct fake *fake, struct msg *m)
{
	(void)m;
	assert_int_equal(fixture_call(fake, fake->other, "e500", 1, 1000), 0);
	return SESSION_DONE;
}

static void
hear(struct fake *fake, uint64_t token, struct msg *reply)
{
	(void)token, (void)reply;
	take(fake, 9);
}

static void
test_replies_to_no_event(void **state)
{
	struct fixture *f = *state;
	struct fake *a = worker(f, "a"), *b = worker(f, "b");

	profile_set_all(&f->scheds[0], true);
	a->on_run = call_and_go_on;
	a->on_reply = hear;
	a->other = b;
	fixture_post(NULL, a, "ask");
	fixture_run(f);
	assert_int_equal(row(a, "(reply)")->calls, 1);
	assert_int_equal(row(a, "(reply)")->own, 9);
}

static void
test_leases_last_until_they_are_settled(void **state)
{
	struct fixture *f = *state;
	struct fake *a = worker(f, "a");

	profile_set_all(&f->scheds[0], true);
	a->on_run = fake_lease;
	fixture_post(NULL, a, "job");
	fixture_run(f);
	take(a, 400);
	fake_done(a, 0);
	assert_int_equal(row(a, "job")->calls, 1);
	assert_int_equal(row(a, "job")->own, 0);
	assert_int_equal(row(a, "job")->whole, 400);
}

static void
test_lateness(void **state)
{
	struct fixture *f = *state;
	struct fake *a = worker(f, "a");
	struct msg *m = fixture_msg(a->sched, a, "e1");

	profile_set_all(&f->scheds[0], true);
	msg_wide(m)->late_ns = 20;
	assert_int_equal(sched_post(a->sched, m), 0);
	m = fixture_msg(a->sched, a, "e1");
	msg_wide(m)->late_ns = 50;
	assert_int_equal(sched_post(a->sched, m), 0);
	fixture_run(f);
	assert_int_equal(row(a, "e1")->n_late, 2);
	assert_int_equal(row(a, "e1")->late_ns, 70);
	assert_int_equal(row(a, "e1")->late_max_ns, 50);
}

/* Names come from clients: no more than so many have a row. */
static void
test_other_events_share_a_row(void **state)
{
	struct fixture *f = *state;
	struct fake *a = worker(f, "a");
	char event[16];

	profile_set_all(&f->scheds[0], true);
	for (int i = 1; i <= 100; i++) {
		snprintf(event, sizeof(event), "e%d", i);
		fixture_post(NULL, a, event);
		fixture_post(NULL, a, event);
	}
	fixture_run(f);
	assert_int_equal(n_rows(a), PROFILE_ROWS_MAX + 1);
	assert_int_equal(
		row(a, "(other)")->calls, 2 * (100 - PROFILE_ROWS_MAX));
	assert_int_equal(row(a, "e64")->own, 128);
	assert_true(profile_memory(a->session) < 64 * 1024);
}

static void
test_one_session_alone(void **state)
{
	struct fixture *f = *state;
	struct fake *a = worker(f, "a"), *b = worker(f, "b");

	assert_int_equal(profile_set(a->sched, a->session, true), 0);
	assert_true(profile_is_on(a->sched, a->session));
	assert_false(profile_is_on(a->sched, b->session));
	fixture_post(NULL, a, "e3");
	fixture_post(NULL, b, "e3");
	fixture_run(f);
	assert_int_equal(row(a, "e3")->own, 3);
	assert_true(!b->session->health || !b->session->health->profile);
	profile_set(a->sched, a->session, false);
	assert_null(a->sched->profile.ops);
	assert_int_equal(row(a, "e3")->own, 3); /* the figures stay */
}

static void
test_off_for_all_is_off_for_each(void **state)
{
	struct fixture *f = *state;
	struct fake *a = worker(f, "a");

	profile_set(a->sched, a->session, true);
	profile_set_all(a->sched, false);
	assert_false(profile_is_on(a->sched, a->session));
	assert_null(a->sched->profile.ops);
	profile_set(a->sched, a->session, true);
	assert_non_null(a->sched->profile.ops);
}

static void
test_reset(void **state)
{
	struct fixture *f = *state;
	struct fake *a = worker(f, "a");

	profile_set_all(a->sched, true);
	fixture_post(NULL, a, "e3");
	fixture_run(f);
	profile_reset(a->sched);
	assert_int_equal(n_rows(a), 0);
	fixture_post(NULL, a, "e4");
	fixture_run(f);
	assert_int_equal(n_rows(a), 1);
	assert_int_equal(row(a, "e4")->calls, 1);
}

static void
test_ended_sessions_are_summed_up(void **state)
{
	struct fixture *f = *state;
	struct fake *a = worker(f, "a");
	struct sched *s = a->sched;

	profile_set(s, a->session, true);
	fixture_post(NULL, a, "e3");
	fixture_post(NULL, a, "e4");
	fixture_run(f);
	session_stop(a->session);
	fixture_run(f);
	assert_int_equal(s->profile.gone_calls, 3); /* and `_stop` */
	assert_int_equal(s->profile.gone_ticks, 7);
	assert_int_equal(s->profile.n_own, 0);
	assert_null(s->profile.ops);
}

static void
test_a_lack_of_memory_loses_figures_alone(void **state)
{
	struct fixture *f = *state;
	struct fake *a = worker(f, "a");

	profile_set_all(a->sched, true);
	fault_arm("profile_rows", 1);
	fixture_post(NULL, a, "e3");
	fixture_post(NULL, a, "e3");
	fixture_run(f);
	assert_int_equal(a->n_run, 2);
	assert_int_equal(row(a, "e3")->calls, 1);
}

static void
test_control_events_are_measured(void **state)
{
	struct fixture *f = *state;
	struct fake *a = worker(f, "a");

	profile_set_all(a->sched, true);
	sched_control(a->sched, fixture_msg(a->sched, a, "e8"));
	fixture_run(f);
	assert_int_equal(row(a, "e8")->own, 8);
}

/* Sleeping is nobody's time. */
static void
test_sleep_is_not_counted(void **state)
{
	struct fixture *f = *state;
	struct fake *a = worker(f, "a");

	profile_set_all(a->sched, true);
	fixture_run(f);
	assert_true(sched_sleep(a->sched));
	take(a, 1000000);
	sched_awake(a->sched);
	fixture_post(NULL, a, "e8");
	fixture_run(f);
	assert_int_equal(row(a, "e8")->own, 8);
	assert_int_equal(row(a, "e8")->wait, 0);
}

#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, setup, fixture_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_off_measures_nothing),
		TEST(test_counts_calls_and_time),
		TEST(test_time_in_the_mailbox),
		TEST(test_what_it_waits_for_is_not_its_own),
		TEST(test_replies_to_no_event),
		TEST(test_leases_last_until_they_are_settled),
		TEST(test_lateness),
		TEST(test_other_events_share_a_row),
		TEST(test_one_session_alone),
		TEST(test_off_for_all_is_off_for_each),
		TEST(test_reset),
		TEST(test_ended_sessions_are_summed_up),
		TEST(test_a_lack_of_memory_loses_figures_alone),
		TEST(test_control_events_are_measured),
		TEST(test_sleep_is_not_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

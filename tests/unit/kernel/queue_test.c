/* daemon/kernel/queue.c and move.c: overflow, marks, pause, purge, move. */
#include "kernel/queue.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "fixture.h"
#include "kernel/dead.h"
#include "kernel/notice.h"

/* A session that does not run yet, with room for @max events. */
static struct fake *
box_new(struct fixture *f, unsigned sched, const char *name, uint32_t max,
	const char *overflow)
{
	struct session_spec *spec = fixture_spec(name, RESTART_NO);
	char words[256], *rest = words, *word;
	struct fake *fake;

	spec->max_events = max;
	snprintf(words, sizeof(words), "%s", overflow);
	while ((word = strsep(&rest, " ")))
		assert_int_equal(spec_add_overflow(spec, word), 0);
	fake = fake_hosted(f, sched, spec);
	fixture_run(f);
	fake_trace(fake);
	queue_pause(fake->session);
	return fake;
}

static void
post_all(struct fake *to, const char *events)
{
	char words[256], *rest = words, *word;

	snprintf(words, sizeof(words), "%s", events);
	while ((word = strsep(&rest, " ")))
		fixture_post(NULL, to, word);
}

static const char *
resumed(struct fixture *f, struct fake *fake)
{
	queue_resume(fake->session);
	fixture_run(f);
	return fake_trace(fake);
}

/* ---- overflow ---------------------------------------------------------- */

static void
test_drop_oldest_keeps_the_newest_in_order(void **state)
{
	struct fixture *f = *state;
	struct fake *s = box_new(f, 0, "s", 3, "drop-oldest");

	post_all(s, "a b c d e");
	fixture_check(f);
	assert_int_equal(session_counters(s->session).accepted, 5);
	assert_int_equal(session_counters(s->session).dropped, 2);
	assert_string_equal(resumed(f, s), "c d e");
}

static void
test_drop_newest_keeps_the_oldest(void **state)
{
	struct fixture *f = *state;
	struct fake *s = box_new(f, 0, "s", 3, "drop-newest");

	post_all(s, "a b c d e");
	assert_int_equal(session_counters(s->session).dropped, 2);
	assert_string_equal(resumed(f, s), "a b c");
}

static void
test_a_class_drops_its_own_alone(void **state)
{
	struct fixture *f = *state;
	struct fake *s = box_new(f, 0, "s", 4, "refuse tick:drop-oldest");
	struct msg *m;

	post_all(s, "a tick b tick tick tick");
	assert_int_equal(session_counters(s->session).dropped, 2);
	m = fixture_msg(s->sched, s, "c");
	assert_int_equal(sched_post(s->sched, m), SCHED_E_FULL);
	msg_free(&s->sched->pool, m);
	assert_string_equal(resumed(f, s), "a b tick tick");
}

static void
test_without_an_older_one_of_its_class_it_goes_itself(void **state)
{
	struct fixture *f = *state;
	struct fake *s = box_new(f, 0, "s", 2, "refuse tick:drop-oldest");

	post_all(s, "a b tick");
	assert_int_equal(session_counters(s->session).dropped, 1);
	assert_string_equal(resumed(f, s), "a b");
}

/* The search does not begin anew for each of them: a cursor keeps its place
 * though events before it leave. */
static void
test_a_long_queue_of_others_is_passed_once(void **state)
{
	struct fixture *f = *state;
	struct fake *s = box_new(f, 0, "s", 20000, "refuse tick:drop-oldest");

	for (unsigned i = 0; i < 19990; i++)
		fixture_post(NULL, s, "other");
	for (unsigned i = 0; i < 100000; i++)
		fixture_post(NULL, s, "tick");
	assert_int_equal(session_counters(s->session).dropped, 99990);
	queue_resume(s->session);
	fixture_turn(f); /* some of the others leave */
	queue_pause(s->session);
	while (s->session->box.n < 20000)
		fixture_post(NULL, s, "tick");
	for (unsigned i = 0; i < 1000; i++)
		fixture_post(NULL, s, "tick");
	fixture_check(f);
	assert_int_equal(session_counters(s->session).dropped, 100990);
}

static void
test_a_large_event_drops_as_many_as_it_needs(void **state)
{
	struct fixture *f = *state;
	struct fake *s = box_new(f, 0, "s", 10, "drop-oldest");
	struct msg_init init = {.event = "big", .event_size = 3, .size = 60};
	struct msg *m;

	mailbox_limit(&s->session->box, 10, 100);
	for (unsigned i = 0; i < 3; i++) {
		init.size = i < 2 ? 40 : 60;
		m = msg_new(&s->sched->pool, &init);
		m->to = s->id;
		memset(m->data, 'x', init.size);
		assert_int_equal(sched_post(s->sched, m), 0);
	}
	assert_int_equal(session_counters(s->session).dropped, 1);
	assert_int_equal(s->session->box.size, 100);
	init.size = 101; /* more than all: nobody makes way for it */
	m = msg_new(&s->sched->pool, &init);
	m->to = s->id;
	memset(m->data, 'x', init.size);
	assert_int_equal(sched_post(s->sched, m), 0);
	assert_int_equal(session_counters(s->session).dropped, 2);
	assert_int_equal(s->session->box.n, 2);
}

/* The honest answer, to whom it matters. */
static void
test_posters_are_told_of_drops_as_they_asked(void **state)
{
	struct fixture *f = *state;
	struct fake *p = fake_new(f, 0, "p");
	struct fake *s = box_new(f, 0, "s", 1, "drop-oldest");

	fixture_post_ack(p, s, "a", 1, MSG_LEVEL_HANDLED, 0);
	fixture_post_ack(p, s, "b", 2, MSG_LEVEL_ACCEPTED, 0);
	assert_int_equal(fixture_call(p, s, "c", 3, 0), 0);
	fixture_post(p, s, "d");
	fixture_run(f);
	assert_string_equal(fake_trace(p),
		"settled1=dropped settled2=ok reply3=dropped:"
		"the mailbox was full and its Overflow= dropped it");
}

static void
stop_other(struct fake *fake, uint64_t seq, int status)
{
	(void)seq, (void)status;
	session_stop(fake->other->session);
}

static void
test_a_poster_that_is_told_may_stop_the_session(void **state)
{
	struct fixture *f = *state;
	struct fake *p = fake_new(f, 0, "p");
	struct fake *s = box_new(f, 0, "s", 1, "drop-oldest");

	p->other = s;
	p->on_settled = stop_other;
	fixture_post_ack(p, s, "a", 1, MSG_LEVEL_HANDLED, 0);
	fixture_post_ack(p, s, "b", 2, MSG_LEVEL_HANDLED, 0);
	fixture_run(f);
	assert_string_equal(
		fake_trace(p), "settled1=dropped settled2=no-alias");
}

/* B17: what tells of lives is in the control lane. */
static void
test_no_policy_drops_what_is_in_the_control_lane(void **state)
{
	struct fixture *f = *state;
	struct fake *s = box_new(f, 0, "s", 2, "drop-oldest");

	sched_control(s->sched, fixture_msg(s->sched, s, "down"));
	post_all(s, "a b c d");
	fixture_run(f); /* it is paused: the control lane goes on */
	assert_string_equal(fake_trace(s), "down");
	assert_string_equal(resumed(f, s), "c d");
}

/* ---- gaps -------------------------------------------------------------- */

/* Writes down "_gap1" for one event that was dropped, and so on. */
static enum session_result
write_gap(struct fake *fake, struct msg *m)
{
	size_t used = strlen(fake->trace);
	struct notice n;

	if (m->event != notice_gap)
		return SESSION_DONE;
	notice_read(m, &n);
	assert_true(n.from > fake->number && n.from <= n.to);
	fake->number = n.to;
	snprintf(fake->trace + used, sizeof(fake->trace) - used, "%" PRIu64,
		n.lost);
	return SESSION_DONE;
}

static struct fake *
gap_box(struct fixture *f, struct session_ops *ops, const char *overflow)
{
	struct fake *s = box_new(f, 0, "s", 3, overflow);

	*ops = fake_ops;
	ops->gaps = true;
	s->session->ops = ops;
	s->on_run = write_gap;
	return s;
}

/* B2 */
static void
test_a_gap_is_told_before_what_is_left(void **state)
{
	static struct session_ops ops;
	struct fixture *f = *state;
	struct fake *s = gap_box(f, &ops, "drop-oldest");

	post_all(s, "a b c d e");
	assert_string_equal(resumed(f, s), "_gap2 c d e");
	post_all(s, "a b");
	assert_string_equal(resumed(f, s), "a b");
	queue_pause(s->session);
	post_all(s, "a b c d");
	fixture_run(f); /* the control lane goes on */
	assert_string_equal(fake_trace(s), "_gap1");
	post_all(s, "e");
	assert_string_equal(resumed(f, s), "_gap1 c d e");
}

static void
test_a_gap_that_waits_grows(void **state)
{
	static struct session_ops ops;
	struct fixture *f = *state;
	struct fake *s = gap_box(f, &ops, "drop-newest");

	s->on_run = fake_hold;
	post_all(s, "a b c d");
	fixture_run(f);
	fake_trace(s);
	post_all(s, "e f");
	fixture_run(f);
	s->on_run = write_gap;
	session_wake(s->session);
	assert_string_equal(resumed(f, s), "_gap3 a b c");
}

/* ---- marks ------------------------------------------------------------- */

static struct fake *
marked_new(struct fixture *f, struct water_mark high, struct water_mark low,
	const char *alias)
{
	struct session_spec *spec = fixture_spec("s", RESTART_NO);
	struct fake *fake;

	spec->max_events = 10;
	spec->max_bytes = 100;
	spec->high = high;
	spec->low = low;
	spec->water_alias = alias ? strdup(alias) : NULL;
	fake = fake_hosted(f, 0, spec);
	fixture_run(f);
	fake_trace(fake);
	queue_pause(fake->session);
	return fake;
}

/* B13: each crossing is told once, and anew after the next fall. */
static void
test_marks_are_told_once_each_crossing(void **state)
{
	struct fixture *f = *state;
	struct fake *s = marked_new(f, (struct water_mark){.events = 4},
		(struct water_mark){.events = 1}, NULL);

	for (unsigned round = 0; round < 2; round++) {
		post_all(s, "a a a");
		fixture_run(f);
		assert_string_equal(fake_trace(s), "");
		post_all(s, "a a");
		fixture_run(f);
		assert_string_equal(fake_trace(s), "_high_water");
		assert_string_equal(resumed(f, s), "a a a a a _low_water");
		queue_pause(s->session);
	}
}

static enum session_result
note_text(struct fake *fake, struct msg *m)
{
	fake->number++;
	if (!strcmp(m->event, "_high_water"))
		assert_string_equal((const char *)m->data,
			"alias=s queued=8 queued_bytes=0 max_events=10 "
			"max_bytes=100");
	return SESSION_DONE;
}

static void
test_marks_may_be_parts_and_go_to_an_alias(void **state)
{
	struct fixture *f = *state;
	struct fake *ops = fake_new(f, 1, "ops");
	struct fake *s = marked_new(f, (struct water_mark){.percent = 80},
		(struct water_mark){.percent = 0}, "ops");

	ops->on_run = note_text;
	post_all(s, "a a a a a a a a a");
	fixture_run(f);
	assert_string_equal(fake_trace(ops), "_high_water");
	resumed(f, s);
	assert_string_equal(fake_trace(ops), "_low_water");
	assert_int_equal(ops->number, 2);
}

/* ---- purge and look ---------------------------------------------------- */

static void
test_purge_ends_by_name_as_cancelled_in_steps(void **state)
{
	struct fixture *f = *state;
	struct fake *s = box_new(f, 0, "s", 100000, "block");
	struct queue_walk w;
	uint32_t n = 0;
	unsigned steps = 0;

	for (unsigned i = 0; i < 5000; i++)
		post_all(s, "a b");
	queue_walk_open(&w, s->session);
	fixture_post(NULL, s, "a"); /* came later: it stays */
	while (w.open) {
		n += queue_purge(s->sched, &w, "a");
		steps++;
		fixture_check(f);
	}
	assert_int_equal(n, 5000);
	assert_int_equal(steps, 10000 / QUEUE_STEP + 1);
	assert_int_equal(session_counters(s->session).cancelled, 5000);
	assert_int_equal(s->session->box.n, 5001);
	assert_int_equal(s->sched->dead.n, 0);
	queue_walk_open(&w, s->session);
	while (w.open)
		queue_purge(s->sched, &w, NULL);
	assert_int_equal(s->session->box.n, 0);
	assert_null(s->session->box.rare->cursors);
}

static void
test_a_purge_makes_room_for_what_waits(void **state)
{
	struct fixture *f = *state;
	struct fake *p = fake_new(f, 0, "p");
	struct fake *s = box_new(f, 0, "s", 1, "block");
	struct queue_walk w;

	fixture_post(NULL, s, "a");
	fixture_post_ack(p, s, "b", 1, MSG_LEVEL_ACCEPTED, MSG_MAY_PARK);
	assert_string_equal(fake_trace(p), "");
	queue_walk_open(&w, s->session);
	assert_int_equal(queue_purge(s->sched, &w, NULL), 1);
	assert_false(w.open);
	assert_string_equal(fake_trace(p), "settled1=ok");
	assert_string_equal(resumed(f, s), "b");
}

static void
test_a_look_goes_on_though_events_leave(void **state)
{
	struct fixture *f = *state;
	struct fake *s = box_new(f, 0, "s", 10, "block");
	struct queue_walk w;

	post_all(s, "a b c d");
	queue_walk_open(&w, s->session);
	assert_string_equal(queue_walk_next(&w, s->session)->event, "a");
	assert_string_equal(queue_walk_next(&w, s->session)->event, "b");
	queue_resume(s->session);
	s->on_run = fake_wait;
	fixture_run(f); /* a is being handled */
	assert_string_equal(queue_walk_next(&w, s->session)->event, "c");
	assert_string_equal(queue_walk_next(&w, s->session)->event, "d");
	assert_null(queue_walk_next(&w, s->session));
	queue_walk_close(&w, s->sched);
	assert_null(s->session->box.rare->cursors);
}

static void
test_a_look_outlives_its_session(void **state)
{
	struct fixture *f = *state;
	struct fake *s = box_new(f, 0, "s", 10, "block");
	struct queue_walk w;

	post_all(s, "a b");
	queue_walk_open(&w, s->session);
	session_stop(s->session);
	fixture_run(f);
	assert_int_equal(queue_purge(&f->scheds[0], &w, NULL), 0);
	assert_false(w.open);
}

/* ---- move -------------------------------------------------------------- */

static unsigned n_done;

static void
on_done(struct queue_move *move, struct sched *home)
{
	assert_ptr_equal(move->home, home);
	n_done++;
}

static void
start_move(
	struct queue_move *move, struct fake *from, struct fake *to, uint32_t n)
{
	*move = (struct queue_move){
		.from = from->id, .to = to->id, .left = n, .done = on_done};
	n_done = 0;
	queue_move_start(move, from->sched);
}

static void
test_move_keeps_order_and_what_does_not_fit(void **state)
{
	struct fixture *f = *state;
	struct fake *a = box_new(f, 0, "a", 10, "block");
	struct fake *b = box_new(f, 1, "b", 3, "block");
	struct queue_move move;
	uint64_t id;

	post_all(a, "1 2 3 4 5");
	post_all(b, "0");
	id = a->session->box.admitted.head->id;
	start_move(&move, a, b, 5);
	assert_int_equal(n_done, 0);
	fixture_run(f);
	assert_int_equal(n_done, 1);
	assert_int_equal(move.moved, 2);
	assert_int_equal(move.status, EVD_STATUS_FULL);
	assert_int_equal(msg_next(b->session->box.admitted.head)->id, id);
	assert_string_equal(resumed(f, b), "0 1 2");
	assert_string_equal(resumed(f, a), "3 4 5");
	assert_int_equal(session_counters(b->session).accepted, 3);
}

/* While they are on their way, the source does not run on. */
static void
test_the_source_rests_during_a_move(void **state)
{
	struct fixture *f = *state;
	struct fake *a = box_new(f, 0, "a", 10, "block");
	struct fake *b = box_new(f, 1, "b", 1, "block");
	struct queue_move move;

	post_all(a, "1 2 3");
	start_move(&move, a, b, 2);
	queue_resume(a->session);
	fixture_run(f);
	assert_string_equal(fake_trace(a), "2 3");
	assert_string_equal(resumed(f, b), "1");
}

static void
test_a_long_move_goes_in_batches(void **state)
{
	struct fixture *f = *state;
	struct fake *a = box_new(f, 0, "a", 10000, "block");
	struct fake *b = box_new(f, 1, "b", 10000, "block");
	struct queue_move move;

	for (unsigned i = 0; i < 5000; i++)
		fixture_post(NULL, a, "x");
	start_move(&move, a, b, 4500);
	fixture_run(f);
	assert_int_equal(move.moved, 4500);
	assert_int_equal(move.status, EVD_STATUS_OK);
	assert_int_equal(a->session->box.n, 500);
	assert_int_equal(b->session->box.n, 4500);
}

static void
test_a_move_survives_the_end_of_either_side(void **state)
{
	struct fixture *f = *state;
	struct fake *a = box_new(f, 0, "a", 10, "block");
	struct fake *b = box_new(f, 1, "b", 10, "block");
	struct queue_move move;

	post_all(a, "1 2");
	start_move(&move, a, b, 2);
	sched_turn(a->sched); /* on the way */
	session_stop(b->session);
	fixture_run(f);
	assert_int_equal(n_done, 1);
	assert_int_equal(move.status, EVD_STATUS_NO_ALIAS);
	assert_string_equal(resumed(f, a), "1 2");

	b = box_new(f, 1, "c", 1, "block");
	queue_pause(a->session);
	post_all(a, "1 2");
	start_move(&move, a, b, 2);
	sched_turn(a->sched);
	session_stop(a->session);
	fixture_run(f);
	assert_int_equal(n_done, 1);
	assert_int_equal(move.moved, 1);
	assert_int_equal(f->scheds[0].counters.dead, 1);
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
		ONE(test_drop_oldest_keeps_the_newest_in_order),
		ONE(test_drop_newest_keeps_the_oldest),
		ONE(test_a_class_drops_its_own_alone),
		ONE(test_without_an_older_one_of_its_class_it_goes_itself),
		ONE(test_a_long_queue_of_others_is_passed_once),
		ONE(test_a_large_event_drops_as_many_as_it_needs),
		ONE(test_posters_are_told_of_drops_as_they_asked),
		ONE(test_a_poster_that_is_told_may_stop_the_session),
		ONE(test_no_policy_drops_what_is_in_the_control_lane),
		ONE(test_a_gap_is_told_before_what_is_left),
		ONE(test_a_gap_that_waits_grows),
		ONE(test_marks_are_told_once_each_crossing),
		TWO(test_marks_may_be_parts_and_go_to_an_alias),
		ONE(test_purge_ends_by_name_as_cancelled_in_steps),
		ONE(test_a_purge_makes_room_for_what_waits),
		ONE(test_a_look_goes_on_though_events_leave),
		ONE(test_a_look_outlives_its_session),
		TWO(test_move_keeps_order_and_what_does_not_fit),
		TWO(test_the_source_rests_during_a_move),
		TWO(test_a_long_move_goes_in_batches),
		TWO(test_a_move_survives_the_end_of_either_side),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

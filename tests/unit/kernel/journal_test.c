/* Durable mailboxes, on a store in memory. */
#include "kernel/journal.h"

#include "durable_world.h"

#include <errno.h>
#include <stdio.h>

#include "kernel/dead.h"

static int
setup(void **state)
{
	return world_setup(state, (struct world){.max_events = 1000000});
}

static void
post(struct world *w, const char *event, uint64_t seq, enum msg_level level)
{
	fixture_post_ack(w->poster, w->box, event, seq, level, MSG_MAY_PARK);
}

static void
pause_box(struct world *w)
{
	queue_pause(w->box->session);
}

static void
test_accepted_when_it_is_safe(void **state)
{
	struct world *w = *state;

	fake_trace(w->box);
	post(w, "a", 1, MSG_LEVEL_ACCEPTED);
	post(w, "b", 2, MSG_LEVEL_DURABLE);
	fixture_run(w->f);
	assert_string_equal(fake_trace(w->poster), "");
	assert_string_equal(fake_trace(w->box), "");
	assert_int_equal(session_counters(w->box->session).accepted, 0);
	fake_store_run(w->f, w->store);
	assert_string_equal(fake_trace(w->poster), "settled1=ok settled2=ok");
	assert_string_equal(fake_trace(w->box), "a b");
	assert_int_equal(fake_store_count(w->store, STORE_EVENTS), 0);
}

static void
test_handled_is_told_when_its_end_is_safe(void **state)
{
	struct world *w = *state;

	post(w, "a", 1, MSG_LEVEL_HANDLED);
	fixture_run(w->f);
	fake_store_step(w->store);
	fixture_run(w->f);
	assert_int_equal(w->box->n_run, 1);
	assert_string_equal(fake_trace(w->poster), "");
	fake_store_step(w->store);
	assert_string_equal(fake_trace(w->poster), "settled1=ok");
}

/* B46 */
static void
test_what_waits_survives_in_order(void **state)
{
	struct world *w = *state;
	char name[16];

	pause_box(w);
	for (unsigned i = 0; i < 9; i++) {
		snprintf(name, sizeof(name), "e%u", i);
		post(w, name, i + 1, MSG_LEVEL_ACCEPTED);
		if (i % 4 == 3)
			fake_store_run(w->f, w->store);
	}
	fake_store_run(w->f, w->store);
	assert_int_equal(w->box->session->box.n, 9);
	restart(w);
	assert_string_equal(
		fake_trace(w->box), "start e0 e1 e2 e3 e4 e5 e6 e7 e8");
	assert_int_equal(session_counters(w->box->session).accepted, 9);
	fake_store_run(w->f, w->store);
	assert_int_equal(fake_store_count(w->store, STORE_EVENTS), 0);
	assert_int_equal(fake_store_count(w->store, STORE_MARKS), 0);
}

/* B56 */
static void
test_bytes_come_back_as_they_were(void **state)
{
	struct world *w = *state;
	static const char data[] = "a\0b\xff";
	struct msg *m = msg_new(
		&w->poster->sched->pool, &(struct msg_init){.event = "bytes",
						 .event_size = 5,
						 .data = data,
						 .size = sizeof(data),
						 .headers = "hhh",
						 .headers_size = 3,
						 .extra = true});

	pause_box(w);
	m->to = w->box->id;
	m->from = w->poster->id;
	msg_set_key(m, "key");
	assert_int_equal(sched_post(w->poster->sched, m), 0);
	fake_store_run(w->f, w->store);
	world_close(w);
	fake_store_restart(w->store);
	w->first = fake_wait;
	world_open(w);
	m = w->box->held[0];
	assert_int_equal(m->size, sizeof(data));
	assert_memory_equal(m->data, data, sizeof(data));
	assert_int_equal(m->headers_size, 3);
	assert_memory_equal(msg_headers(m), "hhh", 3);
	assert_string_equal(m->event, "bytes");
	assert_int_equal(msg_extra(m)->key_size, 3);
	assert_int_equal(m->from, 0); /* that was somebody of another run */
	fake_done(w->box, 0);
}

static void
test_urgent_ones_go_first_after_a_restart(void **state)
{
	struct world *w = *state;

	pause_box(w);
	post(w, "a", 1, MSG_LEVEL_ACCEPTED);
	fixture_post_ack(
		w->poster, w->box, "now", 2, MSG_LEVEL_ACCEPTED, MSG_URGENT);
	post(w, "b", 3, MSG_LEVEL_ACCEPTED);
	fake_store_run(w->f, w->store);
	restart(w);
	assert_string_equal(fake_trace(w->box), "start now a b");
}

/* More than memory takes: the rest waits in the store, nothing is lost and the
 * order stays. */
static void
test_a_long_queue_is_read_in_pieces(void **state)
{
	struct world *w = *state;
	enum { N = JOURNAL_WINDOW * 3 + 100 };
	struct session *t = w->box->session;
	char name[16];

	pause_box(w);
	for (unsigned i = 0; i < N; i++) {
		snprintf(name, sizeof(name), "e%u", i);
		fixture_post(w->poster, w->box, name);
		if (i % 1000 == 0)
			fake_store_run(w->f, w->store);
	}
	fake_store_run(w->f, w->store);
	assert_int_equal(t->box.n, N);
	assert_true(journal_backlog(t) >= N - JOURNAL_WINDOW - JOURNAL_BATCH);
	assert_true(journal_backlog(t) < N);
	queue_resume(t);
	fake_store_run(w->f, w->store);
	assert_int_equal(w->box->n_run, N);
	assert_int_equal(t->box.n, 0);
	assert_int_equal(t->box.size, 0);
	assert_int_equal(fake_store_count(w->store, STORE_EVENTS), 0);
}

/* The store is read as it was before an event was written, which is told after
 * it: the event is read, too. */
static void
test_a_late_read_does_not_hide_what_came_meanwhile(void **state)
{
	struct world *w = *state;
	enum { N = JOURNAL_WINDOW * 5, MORE = 60 };

	pause_box(w);
	for (unsigned i = 0; i < N; i++)
		fixture_post(w->poster, w->box, "e");
	fake_store_run(w->f, w->store);
	assert_true(journal_backlog(w->box->session) > 0);
	w->store->late = true;
	queue_resume(w->box->session);
	for (unsigned i = 0; i < MORE; i++) {
		fixture_post(w->poster, w->box, "more");
		fixture_run(w->f);
		fake_store_step(w->store);
	}
	fake_store_run(w->f, w->store);
	assert_int_equal(w->box->n_run, N + MORE);
	assert_int_equal(w->box->session->box.n, 0);
	assert_int_equal(fake_store_count(w->store, STORE_EVENTS), 0);
	assert_int_equal(atomic_load(&w->store->store.n_damaged), 0);
}

static void
test_a_long_queue_survives(void **state)
{
	struct world *w = *state;
	enum { N = JOURNAL_WINDOW * 2 };

	pause_box(w);
	for (unsigned i = 0; i < N; i++)
		fixture_post(w->poster, w->box, "e");
	fake_store_run(w->f, w->store);
	restart(w);
	assert_int_equal(w->box->n_run, N);
	assert_int_equal(w->box->session->box.n, 0);
}

/* What is posted while the store is being read comes behind. */
static void
test_new_ones_come_behind_those_in_the_store(void **state)
{
	struct world *w = *state;

	pause_box(w);
	post(w, "old", 1, MSG_LEVEL_ACCEPTED);
	fake_store_run(w->f, w->store);
	world_close(w);
	fake_store_restart(w->store);
	w->f = fixture_new(1, NULL);
	w->f->kernel.store = &w->store->store;
	w->poster = fake_new(w->f, 0, "poster");
	{
		struct session_spec *spec = fixture_spec("box", RESTART_NO);

		spec->durable = 1;
		w->box = fake_hosted(w->f, 0, spec);
	}
	post(w, "new", 1, MSG_LEVEL_HANDLED);
	fake_store_run(w->f, w->store);
	assert_string_equal(fake_trace(w->box), "start old new");
	assert_string_equal(fake_trace(w->poster), "settled1=ok");
}

/* B50 */
static void
test_a_failed_write_refuses_and_recovers(void **state)
{
	struct world *w = *state;

	w->poster->texts = true;
	w->store->status = -ENOSPC;
	post(w, "a", 1, MSG_LEVEL_ACCEPTED);
	fake_store_run(w->f, w->store);
	assert_string_equal(fake_trace(w->poster),
		"settled1=io:the store cannot take an event for 'box': No "
		"space left on device");
	assert_int_equal(w->box->n_run, 0);
	w->store->status = 0;
	post(w, "b", 2, MSG_LEVEL_ACCEPTED);
	fake_store_run(w->f, w->store);
	assert_string_equal(fake_trace(w->poster), "settled2=ok");
	assert_int_equal(w->box->n_run, 1);
	assert_int_equal(fake_store_count(w->store, STORE_EVENTS), 0);
}

/* An end that could not be written is written later. */
static void
test_a_failed_end_is_told_again(void **state)
{
	struct world *w = *state;

	post(w, "a", 1, MSG_LEVEL_ACCEPTED);
	fixture_run(w->f);
	fake_store_step(w->store);
	w->store->status = -EIO;
	fake_store_run(w->f, w->store);
	assert_int_equal(fake_store_count(w->store, STORE_EVENTS), 1);
	w->store->status = 0;
	fixture_advance(w->f, 1000);
	fake_store_run(w->f, w->store);
	assert_int_equal(fake_store_count(w->store, STORE_EVENTS), 0);
}

/* B52, B55 */
static void
test_what_was_handed_out_comes_again_with_a_count(void **state)
{
	struct world *w = *state;
	struct session_spec *spec;

	w->box->on_run = fake_lease;
	post(w, "a", 1, MSG_LEVEL_ACCEPTED);
	post(w, "b", 2, MSG_LEVEL_ACCEPTED);
	post(w, "c", 3, MSG_LEVEL_ACCEPTED);
	fake_store_run(w->f, w->store);
	assert_int_equal(w->box->n_held, 3);
	fake_done(w->box, 0);
	fake_store_run(w->f, w->store);
	/* as after kill -9: nothing more is told to the store */
	for (unsigned i = 2; i-- > 0;)
		session_return(w->box->session, w->box->held[i]);
	w->box->n_held = 0;
	w->box->on_run = fake_hold;
	world_close(w);
	fake_store_restart(w->store);
	w->f = fixture_new(1, NULL);
	w->f->kernel.store = &w->store->store;
	w->poster = fake_new(w->f, 0, "poster");
	spec = fixture_spec("box", RESTART_NO);
	spec->durable = 1;
	w->box = fake_hosted(w->f, 0, spec);
	w->box->on_run = fake_wait;
	fake_store_run(w->f, w->store);
	assert_string_equal(fake_trace(w->box), "start b");
	assert_int_equal(w->box->held[0]->attempt, 1);
	fake_done(w->box, 0);
	fake_store_run(w->f, w->store);
	assert_string_equal(fake_trace(w->box), "c");
	assert_int_equal(w->box->held[0]->attempt, 1);
	fake_done(w->box, 0);
}

static void
test_a_poster_is_told_across_the_store(void **state)
{
	struct world *w = *state;

	pause_box(w);
	for (unsigned i = 0; i < JOURNAL_WINDOW + JOURNAL_BATCH; i++)
		fixture_post(w->poster, w->box, "e");
	fake_store_run(w->f, w->store);
	post(w, "last", 1, MSG_LEVEL_HANDLED);
	fake_store_run(w->f, w->store);
	assert_true(journal_backlog(w->box->session) > 0);
	assert_string_equal(fake_trace(w->poster), "");
	queue_resume(w->box->session);
	fake_store_run(w->f, w->store);
	assert_string_equal(fake_trace(w->poster), "settled1=ok");
}

static void
test_bounds_count_what_is_in_the_store(void **state)
{
	struct world *w = *state;

	pause_box(w);
	mailbox_limit(&w->box->session->box, 2, 1000);
	post(w, "a", 1, MSG_LEVEL_ACCEPTED);
	post(w, "b", 2, MSG_LEVEL_ACCEPTED);
	post(w, "c", 3, MSG_LEVEL_ACCEPTED);
	fake_store_run(w->f, w->store);
	assert_string_equal(fake_trace(w->poster), "settled1=ok settled2=ok");
	queue_resume(w->box->session);
	fake_store_run(w->f, w->store);
	assert_string_equal(fake_trace(w->poster), "settled3=ok");
	assert_int_equal(w->box->n_run, 3);
}

static void
test_a_flipped_bit_is_told_and_set_aside(void **state)
{
	struct world *w = *state;

	pause_box(w);
	post(w, "a", 1, MSG_LEVEL_ACCEPTED);
	post(w, "b", 2, MSG_LEVEL_ACCEPTED);
	post(w, "c", 3, MSG_LEVEL_ACCEPTED);
	fake_store_run(w->f, w->store);
	world_close(w);
	for (size_t i = 0; i < w->store->n; i++)
		if (w->store->rows[i].table == STORE_EVENTS)
			w->store->rows[i]
				.data[sizeof(uint64_t) + 96 + 1 + 20] ^= 1;
	fake_store_restart(w->store);
	world_open(w);
	assert_string_equal(fake_trace(w->box), "start a c");
	assert_int_equal(w->store->store.n_damaged, 1);
	assert_int_equal(fake_store_count(w->store, STORE_DAMAGED), 1);
	assert_int_equal(session_counters(w->box->session).dead, 1);
}

/* Nobody waits for a sync, but who is faster than the disk does for its writes:
 * not more than so much is in memory alone. */
static void
test_posters_do_not_outrun_the_store(void **state)
{
	struct world *w = *state;
	char event[201];
	unsigned n = 0;

	memset(event, 'e', 200);
	event[200] = '\0';
	w->store->store.interval_ms = 1000;
	pause_box(w);
	while (n < w->box->session->box.n + 100) { /* until some wait */
		post(w, event, n + 1, MSG_LEVEL_ACCEPTED);
		fixture_run(w->f);
		n++;
	}
	assert_in_range(
		n, JOURNAL_WINDOW_SIZE / 400, JOURNAL_WINDOW_SIZE / 200);
	fake_store_run(w->f, w->store);
	assert_int_equal(w->box->session->box.n, n);
	post(w, event, n + 1, MSG_LEVEL_ACCEPTED); /* as ever again */
	fixture_run(w->f);
	assert_int_equal(w->box->session->box.n, n + 1);
	queue_resume(w->box->session);
	fake_store_run(w->f, w->store);
	assert_int_equal(w->box->n_run, n + 1);
}

/* With Sync= what ends before it is written is never written. */
static void
test_an_interval_writes_only_what_is_left(void **state)
{
	struct world *w = *state;
	unsigned before;

	w->store->store.interval_ms = 1000;
	before = w->store->n_writes;
	for (unsigned i = 0; i < 100; i++)
		post(w, "a", i + 1, MSG_LEVEL_DURABLE);
	fixture_run(w->f);
	assert_int_equal(w->box->n_run, 100);
	assert_int_equal(w->poster->n_settled, 100);
	fake_store_run(w->f, w->store);
	assert_in_range(w->store->n_writes - before, 0, 3);
	assert_int_equal(fake_store_count(w->store, STORE_EVENTS), 0);
	pause_box(w);
	post(w, "b", 101, MSG_LEVEL_DURABLE);
	fake_store_run(w->f, w->store);
	restart(w);
	assert_string_equal(fake_trace(w->box), "start b");
}

static void
post_key(struct world *w, const char *event, uint64_t seq, const char *key)
{
	struct msg *m = fixture_rich(w->poster->sched, w->box, event);

	msg_set_key(m, key);
	fixture_send(w->poster, m, seq, MSG_LEVEL_ACCEPTED, MSG_MAY_PARK);
}

/* A post that is sent again, after a restart too, is accepted once. */
static void
test_a_key_is_known_after_a_restart(void **state)
{
	struct world *w = *state;

	post_key(w, "a", 1, "k1");
	fake_store_run(w->f, w->store);
	assert_int_equal(w->box->n_run, 1);
	restart(w);
	post_key(w, "a", 1, "k1");
	post_key(w, "b", 2, "k2");
	fake_store_run(w->f, w->store);
	assert_string_equal(fake_trace(w->box), "start b");
	assert_string_equal(fake_trace(w->poster), "settled1=ok settled2=ok");
	assert_int_equal(fake_store_count(w->store, STORE_KEYS), 2);
}

static void
test_a_key_is_forgotten_in_time(void **state)
{
	struct world *w = *state;
	uint64_t window = w->f->kernel.limits.dedup_ms;

	post_key(w, "a", 1, "k1");
	fake_store_run(w->f, w->store);
	fixture_advance(w->f, window + 1);
	post_key(w, "b", 2, "k2");
	fake_store_run(w->f, w->store);
	assert_int_equal(fake_store_count(w->store, STORE_KEYS), 1);
}

/* A post that was refused is not known when it is sent again. */
static void
test_a_refused_post_leaves_no_key(void **state)
{
	struct world *w = *state;

	w->store->status = -ENOSPC;
	post_key(w, "a", 1, "k1");
	fake_store_run(w->f, w->store);
	w->store->status = 0;
	fixture_advance(w->f, 1000);
	fake_store_run(w->f, w->store);
	assert_int_equal(fake_store_count(w->store, STORE_KEYS), 0);
	post_key(w, "a", 2, "k1");
	fake_store_run(w->f, w->store);
	assert_int_equal(w->box->n_run, 1);
}

static enum session_result
unhandled(struct fake *fake, struct msg *m)
{
	(void)fake, (void)m;
	return SESSION_UNHANDLED;
}

static void
test_a_dead_letter_survives(void **state)
{
	struct world *w = *state;
	struct dead *d;

	w->first = w->box->on_run = unhandled;
	post(w, "a", 1, MSG_LEVEL_ACCEPTED);
	fake_store_run(w->f, w->store);
	assert_int_equal(w->f->scheds[0].dead.n, 1);
	restart(w);
	assert_int_equal(w->f->scheds[0].dead.n, 1);
	d = dead_next(&w->f->scheds[0], 0, DEAD_UNHANDLED);
	assert_non_null(d);
	assert_string_equal(d->alias, "box");
	assert_string_equal(d->msg->event, "a");
	w->box->on_run = w->first = NULL;
	assert_int_equal(dead_requeue(&w->f->scheds[0], d, w->box->id), 0);
	fake_store_run(w->f, w->store);
	assert_string_equal(fake_trace(w->box), "start a");
	assert_int_equal(fake_store_count(w->store, STORE_DEAD), 0);
	restart(w);
	assert_int_equal(w->f->scheds[0].dead.n, 0);
}

static void
on_moved(struct queue_move *move, struct sched *home)
{
	(void)move, (void)home;
}

/* Moved events are in one of both mailboxes, in the store as well. */
static void
test_events_move_between_durable_mailboxes(void **state)
{
	struct world *w = *state;
	struct session_spec *spec = fixture_spec("other", RESTART_NO);
	struct queue_move move = {.done = on_moved, .left = 100};
	struct fake *other;

	spec->durable = 1;
	spec->max_events = 2;
	other = fake_hosted(w->f, 0, spec);
	queue_pause(other->session);
	pause_box(w);
	post(w, "a", 1, MSG_LEVEL_ACCEPTED);
	post(w, "b", 2, MSG_LEVEL_ACCEPTED);
	post(w, "c", 3, MSG_LEVEL_ACCEPTED);
	fake_store_run(w->f, w->store);
	move.from = w->box->id;
	move.to = other->id;
	queue_move_start(&move, w->box->sched);
	fake_store_run(w->f, w->store);
	assert_int_equal(move.moved, 2);
	assert_int_equal(other->session->box.n, 2);
	assert_int_equal(w->box->session->box.n, 1);
	session_stop(other->session);
	restart(w);
	assert_string_equal(fake_trace(w->box), "start c");
	spec = fixture_spec("other", RESTART_NO);
	spec->durable = 1;
	other = fake_hosted(w->f, 0, spec);
	fake_store_run(w->f, w->store);
	assert_string_equal(fake_trace(other), "start a b");
	assert_int_equal(fake_store_count(w->store, STORE_EVENTS), 0);
}

static void
test_a_purge_reaches_what_is_in_the_store(void **state)
{
	struct world *w = *state;
	struct queue_walk walk;
	unsigned turns = 0;

	pause_box(w);
	for (unsigned i = 0; i < JOURNAL_WINDOW * 3; i++)
		fixture_post(w->poster, w->box, "e");
	fake_store_run(w->f, w->store);
	assert_true(journal_backlog(w->box->session) > 0);
	queue_walk_open(&walk, w->box->session);
	while (walk.open) {
		queue_purge(w->box->sched, &walk, NULL);
		fake_store_run(w->f, w->store);
		assert_true(turns++ < 1000);
	}
	assert_int_equal(w->box->session->box.n, 0);
	assert_int_equal(fake_store_count(w->store, STORE_EVENTS), 0);
}

static void
test_a_second_session_cannot_have_the_mailbox(void **state)
{
	struct world *w = *state;
	struct session_spec *spec = fixture_spec("box", RESTART_NO);
	struct fake *second;

	spec->durable = 1;
	second = fake_hosted(w->f, 0, spec);
	assert_int_equal(second->session->life, SESSION_FAILED);
	assert_non_null(strstr(
		second->session->health->reason, "is that of another session"));
}

static void
test_a_call_does_not_wait_for_the_store(void **state)
{
	struct world *w = *state;

	assert_int_equal(fixture_call(w->poster, w->box, "ask", 7, 0), 0);
	fixture_run(w->f);
	assert_int_equal(w->box->n_run, 1);
	post(w, "a", 1, MSG_LEVEL_ACCEPTED);
	assert_int_equal(fixture_call(w->poster, w->box, "ask", 8, 0), 0);
	fake_trace(w->box);
	fake_store_run(w->f, w->store);
	assert_string_equal(fake_trace(w->box), "a ask");
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_accepted_when_it_is_safe),
		TEST(test_handled_is_told_when_its_end_is_safe),
		TEST(test_what_waits_survives_in_order),
		TEST(test_bytes_come_back_as_they_were),
		TEST(test_urgent_ones_go_first_after_a_restart),
		TEST(test_a_long_queue_is_read_in_pieces),
		TEST(test_posters_do_not_outrun_the_store),
		TEST(test_a_late_read_does_not_hide_what_came_meanwhile),
		TEST(test_a_long_queue_survives),
		TEST(test_new_ones_come_behind_those_in_the_store),
		TEST(test_a_failed_write_refuses_and_recovers),
		TEST(test_a_failed_end_is_told_again),
		TEST(test_what_was_handed_out_comes_again_with_a_count),
		TEST(test_a_poster_is_told_across_the_store),
		TEST(test_bounds_count_what_is_in_the_store),
		TEST(test_a_flipped_bit_is_told_and_set_aside),
		TEST(test_an_interval_writes_only_what_is_left),
		TEST(test_a_key_is_known_after_a_restart),
		TEST(test_a_key_is_forgotten_in_time),
		TEST(test_a_refused_post_leaves_no_key),
		TEST(test_a_dead_letter_survives),
		TEST(test_events_move_between_durable_mailboxes),
		TEST(test_a_purge_reaches_what_is_in_the_store),
		TEST(test_a_second_session_cannot_have_the_mailbox),
		TEST(test_a_call_does_not_wait_for_the_store),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* History of events, with and without a store in memory. */
#include "kernel/history.h"

#include "durable_world.h"

#include <errno.h>

#include "kernel/journal.h"

static int
setup(void **state)
{
	return world_setup(state, (struct world){.history = true});
}

static struct sched *
sched_of(struct world *w)
{
	return w->f->kernel.scheds[0];
}

/* Post a traced event: its id. */
static uint64_t
post(struct world *w, struct fake *to, const char *event)
{
	struct msg *m = fixture_rich(w->poster->sched, to, event);

	msg_extra(m)->traced = true;
	m->id = sched_id(sched_of(w));
	fixture_send(w->poster, m, 1, MSG_LEVEL_ACCEPTED, MSG_MAY_PARK);
	return sched_of(w)->next_id - 64;
}

/* The steps of an event, a letter each. */
static const char *
steps(struct world *w, uint64_t id)
{
	static char text[32];
	static const char letters[] = ".adrex";
	const struct history_line *line = NULL;
	size_t n = 0;

	while ((line = history_next(sched_of(w), id, line)))
		text[n++] = letters[line->step];
	text[n] = '\0';
	return text;
}

static void
test_steps_are_told_in_order(void **state)
{
	struct world *w = *state;
	uint64_t id = post(w, w->box, "a");
	const struct history_line *line;

	fake_store_run(w->f, w->store);
	assert_string_equal(steps(w, id), "ae");
	line = history_next(sched_of(w), id, NULL);
	assert_string_equal(history_alias(line), "box");
	assert_string_equal(history_event(line), "a");
	assert_int_equal(line->who, session_id(w->poster->session));
	line = history_next(sched_of(w), id, line);
	assert_int_equal(line->end, MSG_END_HANDLED);
	assert_int_equal(line->who, session_id(w->box->session));
}

static void
test_plain_events_leave_nothing(void **state)
{
	struct world *w = *state;
	struct fake *plain = fake_new(w->f, 0, "plain");

	for (unsigned i = 0; i < 100; i++)
		fixture_post(w->poster, plain, "e");
	fixture_run(w->f);
	assert_int_equal(plain->n_run, 100);
	assert_int_equal(sched_of(w)->history->n, 0);
}

static void
test_the_oldest_goes(void **state)
{
	struct world *w = *state;
	uint64_t first = post(w, w->box, "a"), last;

	fake_store_run(w->f, w->store);
	sched_of(w)->history->max = 2;
	for (unsigned i = 0; i < 1000; i++) {
		last = post(w, w->box, "a");
		fake_store_run(w->f, w->store);
		fixture_advance(w->f, 2000);
		fake_store_run(w->f, w->store);
	}
	assert_string_equal(steps(w, first), "");
	assert_string_equal(steps(w, last), "ae");
	assert_true(sched_of(w)->history->n <= 2);
	assert_in_range(fake_store_count(w->store, STORE_HISTORY), 1, 2);
}

static void
test_it_is_read_back(void **state)
{
	struct world *w = *state;
	uint64_t id = post(w, w->box, "a");

	fake_store_run(w->f, w->store);
	assert_int_equal(fake_store_count(w->store, STORE_HISTORY), 0);
	fixture_advance(w->f, 2000);
	fake_store_run(w->f, w->store);
	assert_int_equal(fake_store_count(w->store, STORE_HISTORY), 1);
	restart(w);
	assert_string_equal(steps(w, id), "ae");
	post(w, w->box, "b");
	fake_store_run(w->f, w->store);
	history_flush(sched_of(w));
	fake_store_run(w->f, w->store);
	restart(w);
	assert_string_equal(steps(w, id), "ae");
}

/* B56 */
static void
test_what_is_damaged_is_not_told(void **state)
{
	struct world *w = *state;
	uint64_t id = post(w, w->box, "a");

	fake_store_run(w->f, w->store);
	history_flush(sched_of(w));
	fake_store_run(w->f, w->store);
	world_close(w);
	for (size_t i = 0; i < w->store->n; i++)
		if (w->store->rows[i].table == STORE_HISTORY)
			w->store->rows[i].data[20] ^= 4;
	fake_store_restart(w->store);
	world_open(w);
	assert_string_equal(steps(w, id), "");
}

static void
test_a_store_that_fails_is_tried_later(void **state)
{
	struct world *w = *state;

	post(w, w->box, "a");
	fake_store_run(w->f, w->store);
	w->store->status = -ENOSPC;
	fixture_advance(w->f, 2000);
	fake_store_run(w->f, w->store);
	w->store->status = 0;
	assert_int_equal(fake_store_count(w->store, STORE_HISTORY), 0);
	fixture_advance(w->f, 61000);
	fake_store_run(w->f, w->store);
	assert_int_equal(fake_store_count(w->store, STORE_HISTORY), 1);
}

int
main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_steps_are_told_in_order),
		TEST(test_plain_events_leave_nothing),
		TEST(test_the_oldest_goes),
		TEST(test_it_is_read_back),
		TEST(test_what_is_damaged_is_not_told),
		TEST(test_a_store_that_fails_is_tried_later),
	};
#undef TEST

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Looking through and purging what is in the store, on one in memory. */
#include "kernel/journal.h"

#include "durable_world.h"

#include <errno.h>

enum { MANY = JOURNAL_WINDOW + 3 * JOURNAL_BATCH };

static int
setup(void **state)
{
	world_setup(state, (struct world){.max_events = 1000000});
	queue_pause(((struct world *)*state)->box->session);
	return 0;
}

/* a, b, a, b ...: more than are in memory. */
static void
fill(struct world *w)
{
	for (unsigned i = 0; i < MANY; i++) {
		fixture_post(w->poster, w->box, i % 2 ? "b" : "a");
		if (i % 100 == 99)
			fake_store_run(w->f, w->store);
	}
	fake_store_run(w->f, w->store);
	assert_int_equal(w->box->session->box.n, MANY);
	assert_true(journal_backlog(w->box->session) > 0);
}

static void
purged(struct queue_purge *p, struct sched *s)
{
	struct world *w = container_of(p, struct world, purge);

	(void)s;
	w->n_purged++;
}

static void
purge_start(struct world *w, const char *event)
{
	w->n_purged = 0;
	w->purge = (struct queue_purge){.session = session_id(w->box->session),
		.event = event,
		.done = purged};
	queue_purge_start(&w->purge, w->box->sched);
}

static void
assert_balanced(struct world *w)
{
	struct counters c = session_counters(w->box->session);

	assert_int_equal(c.accepted, c.handled + c.cancelled + c.dead +
					     c.expired + c.dropped + c.leased +
					     w->box->session->box.n);
}

struct seen {
	unsigned n, a, left;
	unsigned n_done;
};

static bool
see(void *arg, const struct msg *m)
{
	struct seen *seen = arg;

	seen->n++;
	seen->a += strcmp(m->event, "a") == 0;
	return --seen->left > 0;
}

static void
looked(struct sched *s, void *arg, int status)
{
	(void)s;
	assert_int_equal(status, 0);
	((struct seen *)arg)->n_done++;
}

static struct seen
look(struct world *w, unsigned most)
{
	struct seen seen = {.left = most};

	if (journal_look(w->box->session,
		    &(struct journal_look){journal_mark(w->box->session), see,
			    looked, &seen})) {
		fake_store_run(w->f, w->store);
		assert_int_equal(seen.n_done, 1);
	}
	return seen;
}

static void
test_what_is_stored_alone_is_seen(void **state)
{
	struct world *w = *state;
	struct seen seen;
	uint64_t backlog;

	assert_int_equal(look(w, 10).n, 0);
	fill(w);
	backlog = journal_backlog(w->box->session);
	seen = look(w, 1000000);
	assert_int_equal(seen.n, backlog);
	assert_int_equal(seen.a, backlog / 2);
	assert_int_equal(look(w, 7).n, 7);
	assert_int_equal(journal_backlog(w->box->session), backlog);
	assert_balanced(w);
}

static void
test_a_purge_reaches_what_is_stored(void **state)
{
	struct world *w = *state;

	fill(w);
	purge_start(w, "a");
	fixture_post(w->poster, w->box, "a"); /* it comes too late */
	fake_store_run(w->f, w->store);
	assert_int_equal(w->n_purged, 1);
	assert_int_equal(w->purge.status, 0);
	assert_int_equal(w->purge.n, MANY / 2);
	assert_int_equal(w->box->session->box.n, MANY / 2 + 1);
	assert_int_equal(fake_store_count(w->store, STORE_META), 0);
	assert_balanced(w);
	fake_trace(w->box);
	queue_resume(w->box->session);
	fake_store_run(w->f, w->store);
	assert_int_equal(w->box->n_run, MANY / 2 + 1);
	assert_int_equal(fake_store_count(w->store, STORE_EVENTS), 0);
	assert_int_equal(fake_store_count(w->store, STORE_MARKS), 0);
	assert_balanced(w);
}

static void
test_all_is_purged(void **state)
{
	struct world *w = *state;

	fill(w);
	purge_start(w, NULL);
	fake_store_run(w->f, w->store);
	assert_int_equal(w->purge.n, MANY);
	assert_int_equal(w->box->session->box.n, 0);
	assert_int_equal(w->box->session->box.size, 0);
	assert_int_equal(fake_store_count(w->store, STORE_EVENTS), 0);
	assert_balanced(w);
}

/* The daemon ends at each step of a purge: the next run finds nothing of it, or
 * all of it done. */
static void
test_a_purge_is_whole_whenever_it_is_cut(void **state)
{
	struct world *w = *state;

	for (unsigned cut = 0; cut < 6; cut++) {
		uint64_t left;
		bool begun;

		fill(w);
		purge_start(w, "a");
		for (unsigned i = 0; i < cut; i++) {
			fixture_run(w->f);
			fake_store_step(w->store);
		}
		begun = fake_store_count(w->store, STORE_META) || w->n_purged;
		world_close(w);
		fake_store_restart(w->store);
		world_open(w);
		left = w->box->n_run;
		if (begun)
			assert_int_equal(left, MANY / 2);
		else
			assert_in_range(left, MANY / 2, MANY);
		assert_balanced(w);
		assert_int_equal(w->box->session->box.n, 0);
		assert_int_equal(fake_store_count(w->store, STORE_META), 0);
		assert_int_equal(fake_store_count(w->store, STORE_EVENTS), 0);
		queue_pause(w->box->session);
	}
}

static void
test_a_purge_that_cannot_be_written_is_none(void **state)
{
	struct world *w = *state;

	fill(w);
	w->store->status = -EIO;
	purge_start(w, NULL);
	fake_store_run(w->f, w->store);
	w->store->status = 0;
	assert_int_equal(w->n_purged, 1);
	assert_int_equal(w->purge.status, EVD_STATUS_IO);
	assert_int_equal(w->purge.n, 0);
	assert_int_equal(w->box->session->box.n, MANY);
	queue_resume(w->box->session);
	fake_store_run(w->f, w->store);
	assert_int_equal(w->box->n_run, MANY);
}

static void
test_one_at_a_time(void **state)
{
	struct world *w = *state;

	fill(w);
	purge_start(w, NULL);
	assert_int_equal(
		journal_purge_begin(w->box->session, NULL, looked, NULL),
		JOURNAL_E_PURGING);
	fake_store_run(w->f, w->store);
	assert_int_equal(w->n_purged, 1);
}

static void
test_waiting_posters_are_told(void **state)
{
	struct world *w = *state;

	fill(w);
	fixture_post_ack(
		w->poster, w->box, "a", 1, MSG_LEVEL_HANDLED, MSG_MAY_PARK);
	fake_store_run(w->f, w->store);
	assert_string_equal(fake_trace(w->poster), "");
	purge_start(w, "a");
	fake_store_run(w->f, w->store);
	assert_string_equal(fake_trace(w->poster), "settled1=cancelled");
}

int
main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_what_is_stored_alone_is_seen),
		TEST(test_a_purge_reaches_what_is_stored),
		TEST(test_all_is_purged),
		TEST(test_a_purge_is_whole_whenever_it_is_cut),
		TEST(test_a_purge_that_cannot_be_written_is_none),
		TEST(test_one_at_a_time),
		TEST(test_waiting_posters_are_told),
	};
#undef TEST

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Mailboxes in memory, some of whose events ask for durability; and what else
 * the store keeps of a mailbox. On a store in memory. */
#include "kernel/journal.h"

#include "durable_world.h"

#include <errno.h>

static int
setup(void **state)
{
	return world_setup(state, (struct world){.is_volatile = true});
}

static void
post(struct world *w, const char *event, uint64_t seq, enum msg_level level)
{
	struct msg *m = fixture_rich(w->poster->sched, w->box, event);

	fixture_send(w->poster, m, seq, level, MSG_MAY_PARK);
}

static void
post_durable(
	struct world *w, const char *event, uint64_t seq, enum msg_level level)
{
	struct msg *m = fixture_rich(w->poster->sched, w->box, event);

	msg_extra(m)->durable = true;
	fixture_send(w->poster, m, seq, level, MSG_MAY_PARK);
}

/* Durable, and told of when it has been handled, which is safe by then. */
static void
test_durability_goes_with_any_level(void **state)
{
	struct world *w = *state;

	queue_pause(w->box->session);
	post_durable(w, "a", 1, MSG_LEVEL_HANDLED);
	post_durable(w, "b", 2, MSG_LEVEL_DELIVERED);
	post_durable(w, "c", 3, MSG_LEVEL_ACCEPTED);
	fake_store_run(w->f, w->store);
	post(w, "d", 4, MSG_LEVEL_HANDLED);
	fake_store_run(w->f, w->store);
	assert_string_equal(fake_trace(w->poster), "settled3=ok");
	restart(w);
	assert_string_equal(fake_trace(w->box), "start a b c");
	post_durable(w, "e", 5, MSG_LEVEL_HANDLED);
	fixture_run(w->f);
	fake_store_step(w->store);
	fixture_run(w->f);
	assert_string_equal(fake_trace(w->box), "e");
	assert_string_equal(fake_trace(w->poster), "");
	fake_store_run(w->f, w->store);
	assert_string_equal(fake_trace(w->poster), "settled5=ok");
	assert_int_equal(fake_store_count(w->store, STORE_EVENTS), 0);
}

static void
test_one_event_is_durable(void **state)
{
	struct world *w = *state;

	queue_pause(w->box->session);
	post(w, "a", 1, MSG_LEVEL_ACCEPTED);
	post(w, "b", 2, MSG_LEVEL_DURABLE);
	fake_store_run(w->f, w->store);
	post(w, "c", 3, MSG_LEVEL_ACCEPTED);
	post(w, "d", 4, MSG_LEVEL_DURABLE);
	fake_store_run(w->f, w->store);
	assert_string_equal(fake_trace(w->poster),
		"settled1=ok settled2=ok settled3=ok settled4=ok");
	assert_int_equal(fake_store_count(w->store, STORE_EVENTS), 2);
	restart(w);
	assert_string_equal(fake_trace(w->box), "start b d");
	assert_int_equal(fake_store_count(w->store, STORE_EVENTS), 0);
}

static void
test_nothing_overtakes_what_is_being_written(void **state)
{
	struct world *w = *state;

	post(w, "0", 1, MSG_LEVEL_DURABLE);
	fake_store_run(w->f, w->store);
	fake_trace(w->box);
	post(w, "a", 2, MSG_LEVEL_DURABLE);
	post(w, "b", 3, MSG_LEVEL_ACCEPTED);
	fixture_run(w->f);
	assert_string_equal(fake_trace(w->box), "");
	fake_store_run(w->f, w->store);
	post(w, "c", 4, MSG_LEVEL_ACCEPTED);
	fixture_run(w->f); /* it needs no store */
	assert_string_equal(fake_trace(w->box), "a b c");
	assert_int_equal(session_counters(w->box->session).handled, 4);
}

static void
test_what_never_asked_needs_no_journal(void **state)
{
	struct world *w = *state;

	post(w, "a", 1, MSG_LEVEL_HANDLED);
	fixture_run(w->f);
	assert_null(session_journal(w->box->session));
	restart(w);
	assert_null(session_journal(w->box->session));
}

static void
test_a_session_without_a_name_keeps_nothing(void **state)
{
	struct world *w = *state;
	struct fake *nameless = fake_new(w->f, 0, NULL);
	struct msg *m = fixture_rich(w->poster->sched, nameless, "a");

	w->poster->texts = true;
	fixture_send(w->poster, m, 1, MSG_LEVEL_DURABLE, 0);
	fixture_run(w->f);
	assert_string_equal(fake_trace(w->poster),
		"settled1=unsupported:the mailbox of '' keeps nothing: it has "
		"no name to be kept under");
}

static void
test_without_a_store_it_says_so(void **state)
{
	struct world *w = *state;

	w->poster->texts = true;
	w->f->kernel.store = NULL;
	post(w, "a", 1, MSG_LEVEL_DURABLE);
	fixture_run(w->f);
	assert_string_equal(fake_trace(w->poster),
		"settled1=unsupported:the mailbox of 'box' keeps nothing: "
		"there is no store");
	w->f->kernel.store = &w->store->store;
}

/* A disk that takes for ever: what needs it waits, and nothing else. */
static void
test_a_slow_disk_holds_up_nobody_else(void **state)
{
	struct world *w = *state;
	struct fake *other = fake_new(w->f, 0, "other");

	post(w, "a", 1, MSG_LEVEL_DURABLE);
	fixture_run(w->f);
	for (unsigned i = 0; i < 1000; i++) {
		fixture_post(w->poster, other, "e");
		fixture_run(w->f);
		assert_int_equal(other->n_run, i + 1);
	}
	post(w, "b", 2, MSG_LEVEL_ACCEPTED); /* it stays behind a */
	fixture_run(w->f);
	assert_string_equal(fake_trace(w->poster), "");
	assert_int_equal(w->box->n_run, 0);
	fake_store_run(w->f, w->store);
	assert_string_equal(fake_trace(w->poster), "settled1=ok settled2=ok");
	assert_int_equal(w->box->n_run, 2);
}

static void
note_status(struct sched *s, void *arg, int status)
{
	(void)s;
	*(int *)arg = status;
}

static void
test_a_pause_is_there_after_a_restart(void **state)
{
	struct world *w = *state;
	int status = 1;

	world_close(w);
	w->is_volatile = false;
	world_open(w);
	queue_pause(w->box->session);
	assert_true(journal_pause(w->box->session, true, note_status, &status));
	fake_store_run(w->f, w->store);
	assert_int_equal(status, 0);
	restart(w);
	assert_true(queue_is_paused(w->box->session));
	fake_trace(w->box);
	post(w, "a", 1, MSG_LEVEL_DURABLE);
	fake_store_run(w->f, w->store);
	assert_string_equal(fake_trace(w->poster), "settled1=ok");
	assert_string_equal(fake_trace(w->box), "");
	queue_resume(w->box->session);
	journal_pause(w->box->session, false, note_status, &status);
	fake_store_run(w->f, w->store);
	assert_string_equal(fake_trace(w->box), "a");
	restart(w);
	assert_false(queue_is_paused(w->box->session));
}

static void
test_a_pause_that_cannot_be_stored_is_told(void **state)
{
	struct world *w = *state;
	int status = 1;

	assert_false(
		journal_pause(w->box->session, true, note_status, &status));
	assert_int_equal(status, 1);
	world_close(w);
	w->is_volatile = false;
	world_open(w);
	w->store->status = -ENOSPC;
	assert_true(journal_pause(w->box->session, true, note_status, &status));
	fake_store_run(w->f, w->store);
	assert_int_equal(status, -ENOSPC);
	w->store->status = 0;
}

int
main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_one_event_is_durable),
		TEST(test_durability_goes_with_any_level),
		TEST(test_nothing_overtakes_what_is_being_written),
		TEST(test_what_never_asked_needs_no_journal),
		TEST(test_a_session_without_a_name_keeps_nothing),
		TEST(test_without_a_store_it_says_so),
		TEST(test_a_slow_disk_holds_up_nobody_else),
		TEST(test_a_pause_is_there_after_a_restart),
		TEST(test_a_pause_that_cannot_be_stored_is_told),
	};
#undef TEST

	return cmocka_run_group_tests(tests, NULL, NULL);
}

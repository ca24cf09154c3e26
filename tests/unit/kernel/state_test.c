/* Durable state, on a store in memory. */
#include "kernel/state.h"

#include "durable_world.h"

#include <errno.h>
#include <stdio.h>

#include "base/fault.h"

static int
setup(void **state)
{
	return world_setup(state, (struct world){.restarts = true});
}

static void
post(struct world *w, const char *event)
{
	fixture_post_ack(
		w->poster, w->box, event, 1, MSG_LEVEL_ACCEPTED, MSG_MAY_PARK);
}

static int
set(struct world *w, const char *key, const char *value)
{
	return state_set(w->box->session, key, strlen(key), value,
		value ? strlen(value) : 0);
}

/* "" : there is none. */
static const char *
get_of(const struct session *s, const char *key)
{
	static char text[64];
	struct state_value v;

	if (state_get(s, key, strlen(key), &v))
		return "";
	snprintf(text, sizeof(text), "%.*s", (int)v.size, (const char *)v.data);
	return text;
}

static const char *
get(const struct world *w, const char *key)
{
	return get_of(w->box->session, key);
}

static size_t
rows(const struct world *w)
{
	return fake_store_count(w->store, STORE_STATE);
}

/* Count its events in the state, as text. */
static int
count(struct fake *fake)
{
	char text[16];
	int n = atoi(get_of(fake->session, "n")) + 1;

	snprintf(text, sizeof(text), "%d", n);
	assert_int_equal(
		state_set(fake->session, "n", 1, text, strlen(text)), 0);
	return n;
}

static enum session_result
counts(struct fake *fake, struct msg *m)
{
	(void)m;
	count(fake);
	return SESSION_DONE;
}

static enum session_result
counts_and_crashes(struct fake *fake, struct msg *m)
{
	(void)m;
	count(fake);
	session_fail(fake->session, "on purpose");
	return SESSION_CRASHED;
}

static enum session_result
counts_and_waits(struct fake *fake, struct msg *m)
{
	count(fake);
	return fake_wait(fake, m);
}

static void
test_what_a_handler_changed_goes_with_its_event(void **state)
{
	struct world *w = *state;

	w->box->on_run = counts;
	post(w, "a");
	fixture_run(w->f);
	fake_store_step(w->store); /* the event is safe, and is handled */
	fixture_run(w->f);
	assert_string_equal(get(w, "n"), "1");
	assert_int_equal(fake_store_count(w->store, STORE_EVENTS), 1);
	assert_int_equal(rows(w), 0);
	fake_store_step(w->store);
	assert_int_equal(fake_store_count(w->store, STORE_EVENTS), 0);
	assert_int_equal(rows(w), 1);
	w->first = counts;
	restart(w);
	assert_string_equal(get(w, "n"), "1");
	post(w, "b");
	fake_store_run(w->f, w->store);
	assert_string_equal(get(w, "n"), "2");
}

static void
test_a_crash_leaves_nothing_of_it(void **state)
{
	struct world *w = *state;

	w->box->on_run = counts;
	post(w, "a");
	fake_store_run(w->f, w->store);
	w->box->on_run = counts_and_crashes;
	post(w, "b");
	fake_store_run(w->f, w->store);
	assert_string_equal(get(w, "n"), "1");
	restart(w);
	assert_string_equal(get(w, "n"), "1");
}

static void
test_a_handler_that_waits_has_changed_nothing_yet(void **state)
{
	struct world *w = *state;

	w->box->on_run = counts_and_waits;
	post(w, "a");
	fake_store_run(w->f, w->store);
	assert_string_equal(get(w, "n"), "1"); /* it sees it itself */
	assert_int_equal(rows(w), 0);
	w->first = counts;
	restart(w); /* it comes again */
	assert_string_equal(get(w, "n"), "1");
	assert_int_equal(rows(w), 1);
	w->box->on_run = counts_and_waits;
	post(w, "b");
	fake_store_run(w->f, w->store);
	fake_done(w->box, 0);
	fake_store_run(w->f, w->store);
	restart(w);
	assert_string_equal(get(w, "n"), "2");
}

/* A job that fails goes again with those behind it: never a later state with
 * an earlier event that is not marked. */
static void
test_what_cannot_be_written_is_written_with_what_follows(void **state)
{
	struct world *w = *state;

	w->box->on_run = counts;
	post(w, "a");
	post(w, "b");
	fixture_run(w->f);
	fake_store_step(w->store);
	w->store->status = -EIO;
	fixture_run(w->f);
	fake_store_step(w->store);
	w->store->status = 0;
	assert_int_equal(rows(w), 0);
	post(w, "c");
	fake_store_run(w->f, w->store);
	fixture_advance(w->f, 500);
	fake_store_run(w->f, w->store);
	assert_string_equal(get(w, "n"), "3");
	w->first = counts;
	restart(w);
	assert_string_equal(get(w, "n"), "3");
	assert_int_equal(w->box->n_run, 0);
}

static void
test_values_are_bounded(void **state)
{
	struct world *w = *state;
	char big[1024];

	w->max_state = 300;
	restart(w);
	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = 0;
	assert_int_equal(set(w, "a", big), STATE_E_FULL);
	assert_int_equal(set(w, "a", "1"), 0);
	assert_int_equal(set(w, "b", "2"), 0);
	assert_int_equal(set(w, "c", "3"), 0);
	assert_int_equal(set(w, "d", "4"), 0);
	assert_int_equal(set(w, "e", "5"), STATE_E_FULL);
	assert_int_equal(state_count(w->box->session), 4);
	assert_int_equal(set(w, "a", NULL), 0);
	assert_int_equal(set(w, "e", "5"), 0);
	assert_int_equal(set(w, "", "5"), STATE_E_KEY);
	assert_int_equal(
		state_set(w->box->session, big, 200, "x", 1), STATE_E_KEY);
	state_rollback(w->box->session);
	assert_int_equal(state_count(w->box->session), 0);
	assert_int_equal(state_size(w->box->session), 0);
	assert_string_equal(get(w, "e"), "");
}

static void
test_all_can_be_gone_through(void **state)
{
	struct world *w = *state;
	struct session *t = w->box->session;
	const char *key = NULL;
	size_t size = 0;
	struct state_value v;
	char seen[64] = "", name[16];

	for (int i = 0; i < 40; i++) {
		snprintf(name, sizeof(name), "k%d", i);
		assert_int_equal(set(w, name, "v"), 0);
	}
	state_commit(t);
	while (!state_next(t, key, size, &key, &size, &v)) {
		if (strlen(seen) < 20)
			strncat(seen, key, size);
		assert_int_equal(state_set(t, key, size, NULL, 0), 0);
	}
	assert_string_equal(seen, "k0k1k2k3k4k5k6k7k8k9");
	assert_int_equal(state_count(t), 0);
	state_commit(t);
	fake_store_run(w->f, w->store);
	assert_int_equal(rows(w), 0);
}

static void
test_a_volatile_mailbox_has_none(void **state)
{
	struct world *w = *state;

	w->is_volatile = true;
	restart(w);
	assert_int_equal(set(w, "a", "1"), STATE_E_VOLATILE);
}

/* It must not start as if there were none. */
static void
test_it_does_not_start_without_what_was(void **state)
{
	struct world *w = *state;

	assert_int_equal(set(w, "n", "7"), 0);
	state_commit(w->box->session);
	fake_store_run(w->f, w->store);
	world_close(w);
	fake_store_restart(w->store);
	fault_arm("state_entry", 1);
	world_open(w);
	fault_arm("", 0);
	assert_int_equal(w->box->session->life, SESSION_FAILED);
	assert_int_equal(w->box->n_started, 0);
	session_restart(w->box->session, NULL);
	fake_store_run(w->f, w->store);
	assert_int_equal(w->box->session->life, SESSION_UP);
	assert_string_equal(get(w, "n"), "7");
}

static void
test_without_memory_nothing_changes(void **state)
{
	struct world *w = *state;
	static const char *const points[] = {"state_new", "state_grow",
		"state_entry", "state_value", "side_add"};

	for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
		fault_arm(points[i], 1);
		if (set(w, "a", "1"))
			assert_int_equal(state_count(w->box->session), 0);
		fault_arm("", 0);
		state_rollback(w->box->session);
		assert_int_equal(state_size(w->box->session), 0);
	}
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_what_a_handler_changed_goes_with_its_event),
		TEST(test_a_crash_leaves_nothing_of_it),
		TEST(test_a_handler_that_waits_has_changed_nothing_yet),
		TEST(test_what_cannot_be_written_is_written_with_what_follows),
		TEST(test_values_are_bounded),
		TEST(test_all_can_be_gone_through),
		TEST(test_a_volatile_mailbox_has_none),
		TEST(test_it_does_not_start_without_what_was),
		TEST(test_without_memory_nothing_changes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* daemon/kernel/group.c and team.c: groups, their budget and what happens when
 * it is spent. Members are on two loops. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"
#include "kernel/kin.h"

static struct session *
group(struct fixture *f, const char *name, enum strategy strategy)
{
	char alias[64];
	struct session_spec *spec;
	struct session *s;

	snprintf(alias, sizeof(alias), "group/%s", name);
	spec = fixture_spec(alias, RESTART_ON_FAILURE);
	spec->group = strdup(name);
	spec->strategy = strategy;
	spec->restart_burst = 2;
	s = session_new(&f->scheds[0], &group_ops, spec, NULL);
	assert_non_null(s);
	spec_unref(spec);
	fixture_run(f);
	return s;
}

static struct fake *
member(struct fixture *f, unsigned i, const char *alias, const char *name)
{
	struct session_spec *spec = fixture_spec(alias, RESTART_ON_FAILURE);
	struct fake *fake;

	spec->group = strdup(name);
	spec->restart_ms = spec->restart_max_ms = 10;
	fake = fake_hosted(f, i, spec);
	fixture_run(f);
	fake_trace(fake);
	return fake;
}

static void
crash(struct fake *s)
{
	s->on_run = fake_crash;
	fixture_post(NULL, s, "boom");
	fixture_run(s->fixture);
	s->on_run = NULL;
}

static void
test_members_are_in_the_order_of_their_names(void **state)
{
	struct fixture *f = *state;
	struct session *g = group(f, "g", STRATEGY_REST);
	struct fake *c = member(f, 0, "c", "g"), *a = member(f, 1, "a", "g");
	struct fake *b = member(f, 0, "b", "g");

	assert_int_equal(g->kin->n_children, 3);
	crash(b);
	fixture_advance(f, 20);
	assert_string_equal(fake_trace(a), "");
	assert_string_equal(fake_trace(b), "boom crash start");
	assert_string_equal(fake_trace(c), "stop start");
}

static void
test_order_goes_before_names(void **state)
{
	struct fixture *f = *state;
	struct session_spec *spec = fixture_spec("z", RESTART_ON_FAILURE);
	struct fake *z, *a;

	group(f, "g", STRATEGY_REST);
	a = member(f, 1, "a", "g");
	spec->group = strdup("g");
	spec->order = -1;
	z = fake_hosted(f, 0, spec);
	fixture_run(f);
	fake_trace(z);
	crash(a);
	fixture_advance(f, 20);
	assert_string_equal(fake_trace(z), "");
	crash(z);
	fixture_advance(f, 200);
	assert_string_equal(fake_trace(z), "boom crash start");
	assert_string_equal(fake_trace(a), "boom crash start stop start");
}

static char order_log[256];

static enum session_result
log_start(struct fake *fake)
{
	strcat(order_log, "+");
	strcat(order_log, session_name(fake->session));
	return SESSION_DONE;
}

static void
log_stop(struct fake *fake)
{
	strcat(order_log, "-");
	strcat(order_log, session_name(fake->session));
}

/* Over loops: the last stops first, and each starts when the one before it is
 * up. */
static void
test_the_order_holds_over_loops(void **state)
{
	struct fixture *f = *state;
	struct fake *members[4];

	group(f, "g", STRATEGY_ALL);
	for (unsigned i = 0; i < 4; i++) {
		char name[] = {'a', (char)('0' + i), 0};

		members[i] = member(f, i % 2, name, "g");
		members[i]->on_start = log_start;
		members[i]->on_stop = log_stop;
	}
	order_log[0] = 0;
	crash(members[1]);
	fixture_advance(f, 20);
	assert_string_equal(order_log, "-a1-a3-a2-a0+a0+a1+a2+a3");
}

static void
test_a_spent_budget_fails_the_group_alone(void **state)
{
	struct fixture *f = *state;
	struct session *g = group(f, "g", STRATEGY_ONE);
	struct fake *a = member(f, 0, "a", "g"), *b = member(f, 1, "b", "g");
	struct fake *other = fake_new(f, 0, "other");

	for (int i = 0; i < 3; i++) {
		crash(a);
		fixture_advance(f, 100);
	}
	assert_string_equal(session_state_word(g), "failed");
	assert_string_equal(session_state_word(a->session), "failed");
	assert_string_equal(session_state_word(b->session), "failed");
	assert_non_null(strstr(b->session->health->reason,
		"the group 'g' has failed: 'a' was its failure 3"));
	assert_non_null(
		strstr(b->session->health->reason, "cannot handle 'boom'"));
	assert_string_equal(fake_trace(b), "stop");
	assert_int_equal(f->scheds[0].n_failed, 2);
	assert_int_equal(f->scheds[1].n_failed, 1);
	fixture_post(NULL, other, "e");
	fixture_run(f);
	assert_string_equal(fake_trace(other), "e");
	fixture_advance(f, 1000000);
	assert_string_equal(session_state_word(g), "failed");
	/* by hand, with a fresh budget */
	session_restart(g, g->spec);
	fixture_run(f);
	assert_string_equal(session_state_word(g), "up");
	assert_string_equal(session_state_word(a->session), "up");
	assert_string_equal(fake_trace(b), "start");
	crash(a);
	fixture_advance(f, 1000);
	assert_string_equal(session_state_word(a->session), "up");
}

static void
test_a_window_forgets(void **state)
{
	struct fixture *f = *state;
	struct session *g = group(f, "g", STRATEGY_ONE);
	struct fake *a = member(f, 1, "a", "g");

	for (int i = 0; i < 10; i++) {
		crash(a);
		fixture_advance(f, 40000);
	}
	assert_string_equal(session_state_word(g), "up");
	assert_string_equal(session_state_word(a->session), "up");
}

static void
spend(struct fake *a)
{
	for (int i = 0; i < 3; i++) {
		crash(a);
		fixture_advance(a->fixture, 100);
	}
}

/* A group is a member of the group above it: one failure there. */
static void
test_the_group_above_starts_it_again(void **state)
{
	struct fixture *f = *state;
	struct session *site = group(f, "site", STRATEGY_ALL);
	struct session *db = group(f, "site/db", STRATEGY_ONE);
	struct fake *a = member(f, 1, "a", "site/db");
	struct fake *web = member(f, 0, "web", "site");

	assert_int_equal(site->kin->n_children, 2);
	spend(a);
	fixture_advance(f, 200);
	assert_string_equal(session_state_word(db), "up");
	assert_string_equal(session_state_word(a->session), "up");
	assert_string_equal(fake_trace(web), "stop start");
	assert_int_equal(site->health->in_window, 1);
	spend(a);
	fixture_advance(f, 1000);
	assert_string_equal(session_state_word(a->session), "up");
	spend(a);
	fixture_advance(f, 1000);
	assert_string_equal(session_state_word(site), "failed");
	assert_string_equal(session_state_word(db), "failed");
	assert_string_equal(session_state_word(a->session), "failed");
	assert_string_equal(session_state_word(web->session), "failed");
	fixture_advance(f, 1000000);
	assert_string_equal(session_state_word(web->session), "failed");
	session_restart(site, site->spec);
	fixture_run(f);
	assert_string_equal(session_state_word(db), "up");
	assert_string_equal(session_state_word(a->session), "up");
	assert_string_equal(session_state_word(web->session), "up");
}

/* A member of the group above fails: those of the group below stop, too. */
static void
test_a_group_is_started_again_with_its_siblings(void **state)
{
	struct fixture *f = *state;
	struct fake *a, *web;

	group(f, "site", STRATEGY_ALL);
	group(f, "site/db", STRATEGY_ONE);
	a = member(f, 1, "a", "site/db");
	web = member(f, 0, "web", "site");
	crash(web);
	assert_string_equal(fake_trace(a), "stop");
	assert_string_equal(session_state_word(a->session), "backoff");
	fixture_advance(f, 100);
	assert_string_equal(fake_trace(a), "start");
	assert_string_equal(fake_trace(web), "boom crash start");
}

static void
test_members_outlive_their_group(void **state)
{
	struct fixture *f = *state;
	struct session *g = group(f, "g", STRATEGY_ALL);
	struct fake *a = member(f, 1, "a", "g"), *b = member(f, 0, "b", "g");

	crash(a);
	assert_string_equal(fake_trace(b), "stop");
	session_stop(g);
	fixture_run(f);
	fixture_advance(f, 100);
	assert_string_equal(session_state_word(a->session), "up");
	assert_string_equal(session_state_word(b->session), "up");
	fake_trace(b);
	crash(a); /* on its own now */
	fixture_advance(f, 100);
	assert_string_equal(session_state_word(a->session), "up");
	assert_string_equal(fake_trace(b), "");
}

static void
test_a_member_may_change_its_group(void **state)
{
	struct fixture *f = *state;
	struct session *g = group(f, "g", STRATEGY_ALL);
	struct session *h = group(f, "h", STRATEGY_ALL);
	struct fake *a = member(f, 1, "a", "g"), *b = member(f, 0, "b", "g");
	struct session_spec *spec = fixture_spec("b", RESTART_ON_FAILURE);

	spec->group = strdup("h");
	session_restart(b->session, spec);
	spec_unref(spec);
	fixture_run(f);
	assert_int_equal(g->kin->n_children, 1);
	assert_int_equal(h->kin->n_children, 1);
	fake_trace(b);
	crash(a);
	fixture_advance(f, 100);
	assert_string_equal(fake_trace(b), "");
}

/* Restart=no: it stays failed, and is nobody's failure. */
static void
test_one_that_is_never_restarted_counts_not(void **state)
{
	struct fixture *f = *state;
	struct session *g = group(f, "g", STRATEGY_ALL);
	struct fake *a = member(f, 1, "a", "g"), *b = member(f, 0, "b", "g");

	a->session->spec->restart = RESTART_NO;
	crash(a);
	fixture_advance(f, 100);
	assert_string_equal(session_state_word(a->session), "failed");
	assert_string_equal(fake_trace(b), "");
	assert_true(!g->health || !g->health->in_window);
	crash(b); /* which starts all, but not what is failed for good */
	fixture_advance(f, 100);
	assert_string_equal(session_state_word(b->session), "up");
	assert_string_equal(session_state_word(a->session), "failed");
}

int
main(void)
{
#define TEST(name)                       \
	cmocka_unit_test_setup_teardown( \
		name, fixture_setup_two, fixture_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_members_are_in_the_order_of_their_names),
		TEST(test_order_goes_before_names),
		TEST(test_the_order_holds_over_loops),
		TEST(test_a_spent_budget_fails_the_group_alone),
		TEST(test_a_window_forgets),
		TEST(test_the_group_above_starts_it_again),
		TEST(test_a_group_is_started_again_with_its_siblings),
		TEST(test_members_outlive_their_group),
		TEST(test_a_member_may_change_its_group),
		TEST(test_one_that_is_never_restarted_counts_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

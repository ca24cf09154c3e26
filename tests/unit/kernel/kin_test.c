/* daemon/kernel/kin.c: parents and children, on one loop and on two. */
#include "kernel/kin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"
#include "kernel/notice.h"

/* A child on scheduler @i; its fake is told from `number`. */
static struct fake *
spawn_on(struct fake *parent, unsigned i, const char *alias,
	enum restart_mode mode, enum strategy strategy)
{
	struct fixture *f = parent->fixture;
	struct fake *fake = calloc(1, sizeof(*fake));
	struct spawn spawn = {.ops = &fake_ops, .state = fake};

	assert_non_null(fake);
	f->fakes[f->n_fakes++] = fake;
	fake->fixture = f;
	fake->sched = &f->scheds[i];
	spawn.spec = fixture_spec(alias, mode);
	spawn.spec->loop = (int)i;
	spawn.spec->strategy = strategy;
	spawn.spec->restart_ms = 10;
	assert_int_equal(session_spawn(parent->session, &spawn), 0);
	spec_unref(spawn.spec);
	fake->id = spawn.id;
	fake->session = session_find(&f->kernel, spawn.id);
	return fake;
}

static struct fake *
spawn(struct fake *parent, unsigned i, const char *alias)
{
	return spawn_on(parent, i, alias, RESTART_NO, STRATEGY_ONE);
}

/* Writes down what `_child` says. */
static enum session_result
hear(struct fake *fake, struct msg *m)
{
	struct notice n;
	size_t used = strlen(fake->trace);

	if (!notice_is(m))
		return SESSION_DONE;
	notice_read(m, &n);
	snprintf(fake->trace + used, sizeof(fake->trace) - used,
		"(%s %s%s%s%s%s)", n.change, n.alias, *n.reason ? " " : "",
		n.reason, *n.text ? ": " : "", n.text);
	return SESSION_DONE;
}

static struct fake *
parent_on(struct fixture *f, unsigned i)
{
	struct fake *p =
		fake_hosted(f, i, fixture_spec("parent", RESTART_ON_FAILURE));

	p->on_run = hear;
	fixture_run(f);
	fake_trace(p);
	return p;
}

static enum session_result
run_exit(struct fake *fake, struct msg *m)
{
	(void)m;
	session_exit_with(fake->session, "job done");
	return SESSION_DONE;
}

static void
children_come_and_go(struct fixture *f, unsigned i)
{
	struct fake *p = parent_on(f, 0), *a = spawn(p, i, "a"), *b;

	b = spawn(p, i, "b");
	fixture_run(f);
	assert_string_equal(fake_trace(p), "_child(gained a) _child(gained b)");
	assert_true(a->alive && b->alive);
	assert_int_equal(p->session->kin->n_children, 2);
	a->on_run = run_exit;
	fixture_post(p, a, "go");
	fixture_run(f);
	assert_string_equal(fake_trace(p), "_child(lost a normal: job done)");
	b->on_run = fake_crash;
	b->session->spec->restart = RESTART_ON_FAILURE;
	b->session->spec->restart_burst = 0;
	fixture_post(p, b, "boom");
	fixture_run(f);
	assert_string_equal(
		fake_trace(p), "_child(failed b failed: cannot handle 'boom')");
	kin_kill(p->session, b->id);
	fixture_run(f);
	assert_false(fake_exists(b));
	assert_non_null(strstr(fake_trace(p), "(lost b killed"));
	assert_int_equal(p->session->kin->n_children, 0);
	assert_int_equal(session_counters(p->session).accepted,
		session_counters(p->session).handled);
}

static void
test_children_come_and_go(void **state)
{
	children_come_and_go(*state, 0);
}

static void
test_children_come_and_go_on_another_loop(void **state)
{
	children_come_and_go(*state, 1);
}

static void
children_end_with_their_parent(struct fixture *f, unsigned i, bool crash)
{
	struct fake *p = parent_on(f, 0), *a = spawn(p, 0, "a");
	struct fake *b = spawn(p, i, "b"), *c;

	fixture_run(f);
	c = spawn(b, i, "c");
	fixture_run(f);
	if (crash) {
		p->on_run = fake_crash;
		fixture_post(NULL, p, "boom");
	} else {
		session_stop(p->session);
	}
	fixture_run(f);
	assert_false(fake_exists(a) || fake_exists(b) || fake_exists(c));
	assert_int_equal(fake_exists(p), crash);
	assert_string_equal(fake_trace(a), "start stop");
	assert_non_null(strstr(fake_trace(c), "stop"));
}

static void
test_children_end_with_their_parent(void **state)
{
	children_end_with_their_parent(*state, 0, false);
}

static void
test_children_elsewhere_end_with_their_parent(void **state)
{
	children_end_with_their_parent(*state, 1, false);
}

static void
test_children_end_when_their_parent_fails(void **state)
{
	children_end_with_their_parent(*state, 1, true);
}

/* The parent stops before its child has begun on the other loop. */
static void
test_a_child_under_way_ends_too(void **state)
{
	struct fixture *f = *state;
	struct fake *p = parent_on(f, 0), *a = spawn(p, 1, "a");

	session_stop(p->session);
	fixture_run(f);
	assert_false(fake_exists(a));
	assert_false(a->alive);
}

static void
test_a_taken_alias_is_told(void **state)
{
	struct fixture *f = *state;
	struct fake *p = parent_on(f, 0), *a;
	struct spawn again = {.ops = &fake_ops};

	fake_new(f, 1, "mine");
	a = spawn(p, 1, "mine"); /* elsewhere: later */
	fixture_run(f);
	assert_false(fake_exists(a));
	assert_non_null(strstr(fake_trace(p),
		"(lost mine failed: the alias 'mine' is held by"));
	again.spec = fixture_spec("mine", RESTART_NO);
	assert_int_equal(session_spawn(p->session, &again), EVD_STATUS_TAKEN);
	assert_non_null(strstr(again.text, "'mine' is held"));
	spec_unref(again.spec);
	fixture_run(f);
	assert_string_equal(fake_trace(p), "");
	assert_int_equal(p->session->kin->n_children, 0);
}

/* A notice waits for a handler that waits, and for no event in the mailbox. */
static void
test_a_notice_waits_for_the_handler_alone(void **state)
{
	struct fixture *f = *state;
	struct fake *p = parent_on(f, 0), *a = spawn(p, 0, "a");

	fixture_run(f);
	fake_trace(p);
	p->on_run = fake_wait;
	fixture_post(NULL, p, "long");
	fixture_run(f);
	p->on_run = hear;
	for (int i = 0; i < 200; i++)
		fixture_post(NULL, p, "e");
	kin_kill(p->session, a->id);
	fixture_run(f);
	assert_string_equal(fake_trace(p), "long");
	fake_done(p, 0);
	fixture_run(f);
	assert_int_equal(strncmp(fake_trace(p), "_child(lost a killed", 20), 0);
	assert_int_equal(session_counters(p->session).handled, 203);
}

static enum session_result
wait_in_notice(struct fake *fake, struct msg *m)
{
	return notice_is(m) ? fake_wait(fake, m) : SESSION_DONE;
}

static void
test_a_handler_of_a_notice_may_wait(void **state)
{
	struct fixture *f = *state;
	struct fake *p = parent_on(f, 0);

	p->on_run = wait_in_notice;
	spawn(p, 0, "a");
	fixture_run(f);
	fixture_post(NULL, p, "e");
	fixture_run(f);
	assert_string_equal(fake_trace(p), "_child");
	fake_done(p, 0);
	fixture_run(f);
	assert_string_equal(fake_trace(p), "e");
	spawn(p, 0, "b");
	fixture_run(f);
	p->n_held = 0;
	session_stop(p->session);
	fixture_run(f);
	assert_false(fake_exists(p));
}

static enum session_result
crash_on_notice(struct fake *fake, struct msg *m)
{
	return notice_is(m) ? fake_crash(fake, m) : SESSION_DONE;
}

static void
test_a_handler_of_a_notice_may_fail(void **state)
{
	struct fixture *f = *state;
	struct fake *p = parent_on(f, 0);

	p->on_run = crash_on_notice;
	spawn(p, 0, "a");
	fixture_run(f);
	assert_string_equal(session_state_word(p->session), "backoff");
	assert_string_equal(
		p->session->health->reason, "cannot handle '_child'");
	p->on_run = NULL;
	fixture_advance(f, 200);
	assert_string_equal(session_state_word(p->session), "up");
}

/* ---- strategies of children ---------------------------------------------- */

struct siblings {
	struct fake *p, *a, *b, *c;
};

static struct siblings
siblings(struct fixture *f, enum strategy strategy, unsigned i, unsigned j)
{
	struct siblings s = {.p = parent_on(f, 0)};

	s.a = spawn_on(s.p, i, "a", RESTART_ON_FAILURE, strategy);
	s.b = spawn_on(s.p, j, "b", RESTART_ON_FAILURE, strategy);
	s.c = spawn_on(s.p, i, "c", RESTART_ON_FAILURE, strategy);
	fixture_run(f);
	fake_trace(s.a);
	fake_trace(s.b);
	fake_trace(s.c);
	s.b->on_run = fake_crash;
	fixture_post(NULL, s.b, "boom");
	fixture_run(f);
	return s;
}

static void
strategy_one(struct fixture *f, unsigned i, unsigned j)
{
	struct siblings s = siblings(f, STRATEGY_ONE, i, j);

	fixture_advance(f, 100);
	assert_string_equal(fake_trace(s.a), "");
	assert_string_equal(fake_trace(s.b), "boom crash start");
	assert_string_equal(fake_trace(s.c), "");
}

static void
strategy_all(struct fixture *f, unsigned i, unsigned j)
{
	struct siblings s = siblings(f, STRATEGY_ALL, i, j);

	assert_string_equal(fake_trace(s.a), "stop");
	assert_string_equal(fake_trace(s.b), "boom crash");
	assert_string_equal(fake_trace(s.c), "stop");
	assert_string_equal(session_state_word(s.a->session), "backoff");
	assert_int_equal(s.a->session->exit, EXIT_STOPPED);
	fixture_advance(f, 100);
	assert_string_equal(fake_trace(s.a), "start");
	assert_string_equal(fake_trace(s.b), "start");
	assert_string_equal(fake_trace(s.c), "start");
	assert_int_equal(s.a->session->health->restarts, 1);
}

static void
strategy_rest(struct fixture *f, unsigned i, unsigned j)
{
	struct siblings s = siblings(f, STRATEGY_REST, i, j);

	fixture_advance(f, 100);
	assert_string_equal(fake_trace(s.a), "");
	assert_string_equal(fake_trace(s.b), "boom crash start");
	assert_string_equal(fake_trace(s.c), "stop start");
}

static void
test_one_starts_alone(void **state)
{
	strategy_one(*state, 0, 0);
}

static void
test_one_starts_alone_elsewhere(void **state)
{
	strategy_one(*state, 1, 0);
}

static void
test_all_start_together(void **state)
{
	strategy_all(*state, 0, 0);
}

static void
test_all_start_together_over_loops(void **state)
{
	strategy_all(*state, 1, 0);
}

static void
test_the_rest_starts_together(void **state)
{
	strategy_rest(*state, 0, 0);
}

static void
test_the_rest_starts_together_over_loops(void **state)
{
	strategy_rest(*state, 0, 1);
}

/* Their mailboxes stay, and posts meanwhile wait in order. */
static void
test_events_wait_while_siblings_start(void **state)
{
	struct fixture *f = *state;
	struct siblings s = siblings(f, STRATEGY_ALL, 1, 0);

	fake_trace(s.a);
	fixture_post(NULL, s.a, "e1");
	fixture_post(NULL, s.a, "e2");
	fixture_run(f);
	assert_string_equal(fake_trace(s.a), "");
	fixture_advance(f, 100);
	assert_string_equal(fake_trace(s.a), "start e1 e2");
}

/* A child is told to wait while its own handler waits. */
static void
test_a_busy_sibling_gives_up_its_event(void **state)
{
	struct fixture *f = *state;
	struct fake *p = parent_on(f, 0);
	struct fake *a = spawn_on(p, 1, "a", RESTART_ON_FAILURE, STRATEGY_ALL);
	struct fake *b = spawn_on(p, 0, "b", RESTART_ON_FAILURE, STRATEGY_ALL);

	a->on_run = fake_wait;
	fixture_post(NULL, a, "long");
	fixture_run(f);
	b->on_run = fake_crash;
	fixture_post(NULL, b, "boom");
	fixture_run(f);
	assert_string_equal(fake_trace(a), "start long stop");
	assert_int_equal(session_counters(a->session).dead, 1);
	a->n_held = 0;
	fixture_advance(f, 100);
	assert_string_equal(fake_trace(a), "start");
}

/* It fails again while it is being started with the others. */
static void
test_failures_while_siblings_start_join_in(void **state)
{
	struct fixture *f = *state;
	struct siblings s = siblings(f, STRATEGY_ALL, 1, 0);

	fake_trace(s.a);
	fake_trace(s.b);
	fixture_post(NULL, s.b, "boom"); /* waits in its mailbox */
	fixture_advance(f, 12);
	assert_string_equal(session_state_word(s.b->session), "backoff");
	s.b->on_run = NULL;
	fixture_advance(f, 200);
	assert_string_equal(session_state_word(s.a->session), "up");
	assert_string_equal(session_state_word(s.b->session), "up");
	assert_string_equal(session_state_word(s.c->session), "up");
	assert_int_equal(s.p->session->kin->phase, TEAM_CALM);
}

static void
test_one_that_ends_meanwhile_holds_nobody_up(void **state)
{
	struct fixture *f = *state;
	struct siblings s = siblings(f, STRATEGY_ALL, 1, 0);

	session_stop(s.a->session);
	fixture_advance(f, 100);
	assert_false(fake_exists(s.a));
	assert_string_equal(session_state_word(s.b->session), "up");
	assert_string_equal(session_state_word(s.c->session), "up");
}

static void
test_a_restart_by_hand_needs_no_leave(void **state)
{
	struct fixture *f = *state;
	struct siblings s = siblings(f, STRATEGY_ALL, 1, 0);

	fake_trace(s.a);
	session_restart(s.a->session, s.a->session->spec);
	fixture_run(f);
	assert_string_equal(fake_trace(s.a), "start");
	fixture_advance(f, 100);
	assert_string_equal(fake_trace(s.a), "");
	assert_string_equal(session_state_word(s.c->session), "up");
	assert_int_equal(s.p->session->kin->phase, TEAM_CALM);
}

int
main(void)
{
#define TEST(name)                       \
	cmocka_unit_test_setup_teardown( \
		name, fixture_setup_two, fixture_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_children_come_and_go),
		TEST(test_children_come_and_go_on_another_loop),
		TEST(test_children_end_with_their_parent),
		TEST(test_children_elsewhere_end_with_their_parent),
		TEST(test_children_end_when_their_parent_fails),
		TEST(test_a_child_under_way_ends_too),
		TEST(test_a_taken_alias_is_told),
		TEST(test_a_notice_waits_for_the_handler_alone),
		TEST(test_a_handler_of_a_notice_may_wait),
		TEST(test_a_handler_of_a_notice_may_fail),
		TEST(test_one_starts_alone),
		TEST(test_one_starts_alone_elsewhere),
		TEST(test_all_start_together),
		TEST(test_all_start_together_over_loops),
		TEST(test_the_rest_starts_together),
		TEST(test_the_rest_starts_together_over_loops),
		TEST(test_events_wait_while_siblings_start),
		TEST(test_a_busy_sibling_gives_up_its_event),
		TEST(test_failures_while_siblings_start_join_in),
		TEST(test_one_that_ends_meanwhile_holds_nobody_up),
		TEST(test_a_restart_by_hand_needs_no_leave),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

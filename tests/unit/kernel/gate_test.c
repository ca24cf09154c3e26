/* daemon/kernel/gate.c: sessions that start in an order, on two schedulers. */
#include "kernel/gate.h"

#include "base/fault.h"
#include "fixture.h"
#include "kernel/session.h"

enum { A, B, C, N };

static const struct start_edge in_a_row[] = {{A, B}, {B, C}};

static enum session_result
wait_on_start(struct fake *fake)
{
	(void)fake;
	return SESSION_WAIT;
}

static enum session_result
fail_on_start(struct fake *fake)
{
	session_fail(fake->session, "it cannot start");
	return SESSION_CRASHED;
}

static struct fake *
make(struct fixture *f, struct start_order *order, uint32_t i,
	enum session_result (*on_start)(struct fake *fake))
{
	static const char *const names[] = {"a", "b", "c"};
	struct fake *fake = fake_gated(
		f, i % 2, fixture_spec(names[i], RESTART_NO), order, i);

	fake->on_start = on_start;
	return fake;
}

static struct start_order *
row(void)
{
	struct start_order *order = start_order_new(N, in_a_row, 2);

	assert_non_null(order);
	return order;
}

static void
test_each_waits_until_the_one_before_is_up(void **state)
{
	struct fixture *f = *state;
	struct start_order *order = row();
	struct fake *c = make(f, order, C, NULL);
	struct fake *b = make(f, order, B, wait_on_start);
	struct fake *a = make(f, order, A, wait_on_start);

	start_order_unref(order);
	fixture_post(NULL, c, "early"); /* it waits in the mailbox */
	fixture_run(f);
	assert_string_equal(fake_trace(a), "start");
	assert_string_equal(fake_trace(b), "");
	session_started(a->session);
	fixture_run(f);
	assert_string_equal(fake_trace(b), "start");
	assert_string_equal(fake_trace(c), "");
	session_started(b->session);
	fixture_run(f);
	assert_string_equal(fake_trace(c), "start early");
}

static void
test_failure_and_end_let_the_next_start(void **state)
{
	struct fixture *f = *state;
	struct start_order *order = row();
	struct fake *a = make(f, order, A, fail_on_start);
	struct fake *b = make(f, order, B, wait_on_start);
	struct fake *c = make(f, order, C, NULL);

	start_order_unref(order);
	fixture_run(f);
	assert_int_equal(a->session->life, SESSION_FAILED);
	assert_string_equal(fake_trace(b), "start");
	session_stop(b->session);
	fixture_run(f);
	assert_string_equal(fake_trace(c), "start");
}

static void
test_one_that_cannot_be_made_is_not_waited_for(void **state)
{
	struct fixture *f = *state;
	struct start_order *order = row();
	struct gate *gate = start_order_gate(order, C);
	struct fake *b = make(f, order, B, NULL), *taken;

	taken = fake_new(f, 0, "a");
	make(f, order, A, NULL); /* its alias is held: failed from the start */
	fixture_run(f);
	assert_string_equal(fake_trace(b), "start");
	gate_settle(&f->scheds[0], gate);
	start_order_unref(order);
	assert_true(fake_exists(taken));
}

/* Somebody who restarts it does not want it to wait. */
static void
test_one_that_waits_may_be_restarted_or_stopped(void **state)
{
	struct fixture *f = *state;
	struct start_order *order = row();
	struct fake *a = make(f, order, A, wait_on_start);
	struct fake *b = make(f, order, B, NULL);
	struct fake *c = make(f, order, C, NULL);

	start_order_unref(order);
	fixture_run(f);
	session_stop(c->session);
	session_restart(b->session, NULL);
	fixture_run(f);
	assert_string_equal(fake_trace(b), "start");
	session_started(a->session); /* now its gate opens */
	fixture_run(f);
	assert_string_equal(fake_trace(b), "");
	assert_false(fake_exists(c));
}

static void
test_without_edges_nothing_waits(void **state)
{
	struct fixture *f = *state;
	struct start_order *order = start_order_new(N, in_a_row, 1);
	struct fake *c = make(f, order, C, NULL);

	assert_false(c->session->gated);
	fixture_run(f);
	assert_string_equal(fake_trace(c), "start");
	start_order_unref(order);
	fault_arm("start_order", 1);
	assert_null(start_order_new(N, in_a_row, 2));
}

#define TEST(test)                       \
	cmocka_unit_test_setup_teardown( \
		test, fixture_setup_two, fixture_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_each_waits_until_the_one_before_is_up),
		TEST(test_failure_and_end_let_the_next_start),
		TEST(test_one_that_cannot_be_made_is_not_waited_for),
		TEST(test_one_that_waits_may_be_restarted_or_stopped),
		TEST(test_without_edges_nothing_waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* daemon/kernel/timers.c */
#include "kernel/timers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/list.h"

#define TICK (UINT64_C(1) << TIMERS_SHIFT)
#define START (UINT64_C(5000) * NS_PER_S + 12345)
#define HOUR (UINT64_C(3600) * NS_PER_S)

static int
setup(void **state)
{
	static struct timers t;

	timers_init(&t, START);
	*state = &t;
	return 0;
}

static void
assert_nothing_due(struct timers *t, uint64_t now_ns)
{
	assert_null(timers_expire(t, now_ns));
	assert_true(timers_next_ns(t) > now_ns);
}

static void
test_an_empty_wheel_waits_for_ever(void **state)
{
	assert_true(timers_next_ns(*state) == UINT64_MAX);
	assert_null(timers_expire(*state, START + 100 * HOUR));
	assert_true(timers_next_ns(*state) == UINT64_MAX);
}

static void
test_a_timer_never_fires_early(void **state)
{
	const uint64_t delays[] = {1, TICK - 1, TICK, TICK + 1, 255 * TICK,
		256 * TICK, 257 * TICK + 3, 65536 * TICK, HOUR, 500 * HOUR};

	for (size_t i = 0; i < sizeof(delays) / sizeof(delays[0]); i++) {
		struct timer timer = {.link = NULL};
		uint64_t due = START + delays[i];

		timers_init(*state, START);
		timers_add(*state, &timer, due);
		assert_true(timer_is_armed(&timer));
		assert_true(timers_next_ns(*state) <= due + TICK - 1);
		assert_null(timers_expire(*state, due - 1));
		assert_ptr_equal(timers_expire(*state, due + TICK - 1), &timer);
		assert_false(timer_is_armed(&timer));
		assert_null(timers_expire(*state, due + TICK - 1));
	}
}

static void
test_following_next_ns_fires_within_a_tick(void **state)
{
	struct timers *t = *state;

	for (uint64_t delay = 1; delay < 3000 * HOUR; delay = delay * 3 + 1) {
		struct timer timer = {.link = NULL};
		uint64_t now = START;
		int n_wakes = 0;

		timers_init(t, now);
		timers_add(t, &timer, START + delay);
		while (timer_is_armed(&timer)) {
			now = timers_next_ns(t);
			assert_true(++n_wakes <= TIMERS_LEVELS);
			timers_expire(t, now);
		}
		assert_true(now >= START + delay);
		assert_true(now < START + delay + TICK);
	}
}

static void
test_a_due_time_in_the_past_fires_next(void **state)
{
	struct timer a = {.link = NULL}, b = {.link = NULL};

	timers_add(*state, &a, 0);
	assert_true(timers_next_ns(*state) <= START);
	assert_ptr_equal(timers_expire(*state, START), &a);
	assert_null(timers_expire(*state, START + HOUR));
	timers_add(*state, &b, START);
	assert_ptr_equal(timers_expire(*state, START + HOUR), &b);
}

static void
test_nothing_fires_when_the_clock_runs_backwards(void **state)
{
	struct timer a = {.link = NULL};

	timers_add(*state, &a, START - HOUR);
	assert_null(timers_expire(*state, START - HOUR));
	assert_ptr_equal(timers_expire(*state, START), &a);
}

static void
test_one_tick_fires_in_the_order_of_adding(void **state)
{
	/* far enough to move down through four levels on the way */
	const uint64_t due = START + 40 * HOUR;
	struct timer timers[50];

	memset(timers, 0, sizeof(timers));
	for (int i = 0; i < 30; i++)
		timers_add(*state, &timers[i], due);
	assert_null(timers_expire(*state, due - HOUR / 120));
	for (int i = 30; i < 50; i++)
		timers_add(*state, &timers[i], due);
	for (int i = 0; i < 50; i++)
		assert_ptr_equal(timers_expire(*state, due + TICK), &timers[i]);
}

static void
test_a_removed_timer_does_not_fire(void **state)
{
	struct timers *t = *state;
	struct timer a = {.link = NULL}, b = {.link = NULL}, c = {.link = NULL};

	timers_add(t, &a, START + HOUR);
	timers_add(t, &b, START + HOUR);
	timers_add(t, &c, START + HOUR);
	timers_remove(t, &b);
	timers_remove(t, &b); /* not armed: nothing */
	assert_false(timer_is_armed(&b));
	assert_ptr_equal(timers_expire(t, START + 2 * HOUR), &a);
	timers_remove(t, &c);
	assert_null(timers_expire(t, START + 2 * HOUR));
	assert_int_equal(t->n, 0);
	assert_true(timers_next_ns(t) == UINT64_MAX);
}

static void
test_timers_may_be_added_while_others_fire(void **state)
{
	struct timers *t = *state;
	struct timer a = {.link = NULL}, b = {.link = NULL};

	timers_add(t, &a, START + NS_PER_S);
	assert_ptr_equal(timers_expire(t, START + HOUR), &a);
	timers_add(t, &a, START + HOUR / 2); /* repeats, is behind */
	timers_add(t, &b, START + HOUR + NS_PER_S);
	assert_ptr_equal(timers_expire(t, START + HOUR), &a);
	assert_nothing_due(t, START + HOUR);
	assert_ptr_equal(timers_expire(t, START + 2 * HOUR), &b);
}

static void
test_far_and_endless_due_times_wait(void **state)
{
	struct timers *t = *state;
	struct timer far = {.link = NULL}, never = {.link = NULL};
	uint64_t century = UINT64_C(100) * 365 * 24 * HOUR;

	timers_add(t, &never, UINT64_MAX);
	assert_true(timers_next_ns(t) == UINT64_MAX);
	timers_add(t, &far, century);
	assert_null(timers_expire(t, century - 1));
	assert_ptr_equal(timers_expire(t, century + TICK), &far);
	assert_null(timers_expire(t, UINT64_MAX));
	assert_true(timer_is_armed(&never));
	timers_remove(t, &never);
	assert_int_equal(t->n, 0);
}

static void
test_rebase_forward_makes_passed_ones_due_in_order(void **state)
{
	struct timers *t = *state;
	struct timer a = {.link = NULL}, b = {.link = NULL}, c = {.link = NULL};

	timers_add(t, &c, START + 20 * HOUR);
	timers_add(t, &b, START + 2 * HOUR);
	timers_add(t, &a, START + NS_PER_S);
	timers_rebase(t, START + 10 * HOUR);
	assert_int_equal(t->n, 3);
	assert_ptr_equal(timers_expire(t, START + 10 * HOUR), &a);
	assert_ptr_equal(timers_expire(t, START + 10 * HOUR), &b);
	assert_nothing_due(t, START + 10 * HOUR);
	assert_ptr_equal(timers_expire(t, START + 21 * HOUR), &c);
}

static void
test_rebase_backward_waits_longer(void **state)
{
	struct timers *t = *state;
	struct timer a = {.link = NULL};

	timers_add(t, &a, START + NS_PER_S);
	timers_rebase(t, START - HOUR);
	assert_nothing_due(t, START - HOUR);
	assert_nothing_due(t, START);
	assert_ptr_equal(timers_expire(t, START + NS_PER_S + TICK), &a);
}

/* A crowded slot is emptied in portions, each said to be due now. */
static void
test_a_crowd_moves_down_in_portions(void **state)
{
	enum { N = 3 * TIMERS_MOVES_MAX };
	struct timers *t = *state;
	struct timer *all = calloc(N, sizeof(*all));
	uint64_t due = START + HOUR, now;
	int n_calls = 0;

	for (int i = 0; i < N; i++)
		timers_add(t, &all[i], due);
	for (now = START; !t->moving; now = timers_next_ns(t))
		assert_null(timers_expire(t, now));
	assert_true(now < due);
	timers_remove(t, &all[0]);     /* some have moved, */
	timers_remove(t, &all[N - 1]); /* some have not */
	assert_true(timers_next_ns(t) <= now);
	timers_add(t, &all[0], due);
	for (now = due + TICK; t->n == N - 1; n_calls++)
		if (timers_expire(t, now))
			break;
	assert_true(n_calls > 1);
	for (int n = 1; n < N - 1; n++)
		assert_non_null(timers_expire(t, now));
	assert_nothing_due(t, now);
	free(all);
}

/* What is due in the next block has been moved before that begins: nobody waits
 * for it then. */
static void
test_a_crowd_is_moved_ahead(void **state)
{
	enum { N = 5 * TIMERS_MOVES_MAX };
	struct timers *t = *state;
	struct timer *all = calloc(N, sizeof(*all));
	uint64_t now = START, last = 0;

	for (uint64_t i = 0; i < N; i++)
		timers_add(t, &all[i], START + 10ull * NS_PER_S + i * 1000);
	while (timers_next_ns(t) < all[0].due_ns) {
		now = timers_next_ns(t) > now ? timers_next_ns(t) : now;
		assert_null(timers_expire(t, now));
	}
	now = all[0].due_ns;
	for (uint64_t i = 0; i < N; i++) {
		struct timer *timer = timers_expire(t, now);

		while (!timer) { /* not yet due, nothing else */
			assert_true(timers_next_ns(t) > now);
			now = timers_next_ns(t);
			timer = timers_expire(t, now);
		}
		assert_true(timer->due_ns >= last);
		last = timer->due_ns;
	}
	free(all);
}

/* ---- against a model: an array that is searched ------------------------ */

enum { MODEL_N = 400, MODEL_STEPS = 60000 };

struct model {
	struct timers *t;
	uint64_t now_ns, random;
	struct timer timers[MODEL_N];
	/* when each can fire: its due tick, or that of being added, if later */
	uint64_t ticks[MODEL_N];
};

static uint64_t
draw(struct model *m, uint64_t below)
{
	m->random ^= m->random << 13;
	m->random ^= m->random >> 7;
	m->random ^= m->random << 17;
	return m->random % below;
}

/* Of any magnitude from 1 ns to some weeks. */
static uint64_t
draw_span(struct model *m)
{
	return draw(m, UINT64_C(1) << (1 + draw(m, 51)));
}

static uint64_t
due_tick(const struct timer *timer)
{
	return (timer->due_ns + TICK - 1) >> TIMERS_SHIFT;
}

static void
model_note(struct model *m, const struct timer *timer)
{
	uint64_t now_tick = m->now_ns >> TIMERS_SHIFT;
	uint64_t due = due_tick(timer);

	m->ticks[timer - m->timers] = due > now_tick ? due : now_tick;
}

static void
model_expire(struct model *m)
{
	uint64_t now_tick = m->now_ns >> TIMERS_SHIFT, last = 0;
	struct timer *timer;

	while ((timer = timers_expire(m->t, m->now_ns))) {
		uint64_t tick = m->ticks[timer - m->timers];

		assert_false(timer_is_armed(timer));
		assert_true(timer->due_ns <= m->now_ns);
		assert_true(tick >= last);
		last = tick;
	}
	for (int i = 0; i < MODEL_N; i++)
		if (timer_is_armed(&m->timers[i]))
			assert_true(due_tick(&m->timers[i]) > now_tick);
}

static void
model_check_next(struct model *m)
{
	uint64_t next = timers_next_ns(m->t), n = 0;

	for (int i = 0; i < MODEL_N; i++) {
		if (!timer_is_armed(&m->timers[i]))
			continue;
		n++;
		assert_true(next <= m->now_ns ||
			    next <= due_tick(&m->timers[i]) * TICK);
	}
	assert_int_equal(m->t->n, n);
	assert_true((next == UINT64_MAX) == (n == 0));
}

/* The clock is set forward or back. */
static void
model_rebase(struct model *m)
{
	m->now_ns += draw_span(m);
	m->now_ns -= draw(m, HOUR);
	timers_rebase(m->t, m->now_ns);
	for (int i = 0; i < MODEL_N; i++)
		model_note(m, &m->timers[i]);
	model_expire(m);
}

static void
model_add(struct model *m, struct timer *timer)
{
	uint64_t due = m->now_ns + draw_span(m);

	if (draw(m, 20) == 0)
		due = draw(m, m->now_ns);
	timers_add(m->t, timer, due);
	model_note(m, timer);
}

static void
model_step(struct model *m)
{
	struct timer *timer = &m->timers[draw(m, MODEL_N)];

	switch (draw(m, 8)) {
	case 0: /* time passes, now and then by hours */
		m->now_ns +=
			draw(m, 50) == 0 ? draw_span(m) : draw(m, 300 * TICK);
		model_expire(m);
		break;
	case 1:
		m->now_ns = timers_next_ns(m->t) < m->now_ns + HOUR
				    ? timers_next_ns(m->t)
				    : m->now_ns;
		model_expire(m);
		break;
	case 2:
	case 3:
		timers_remove(m->t, timer);
		assert_false(timer_is_armed(timer));
		break;
	case 4:
		if (draw(m, 500) == 0)
			model_rebase(m);
		break;
	default:
		if (!timer_is_armed(timer))
			model_add(m, timer);
	}
}

static void
test_random_operations_agree_with_a_model(void **state)
{
	static struct model m;

	for (uint64_t seed = 1; seed <= 5; seed++) {
		memset(&m, 0, sizeof(m));
		m.t = *state;
		m.random = seed * UINT64_C(0x9e3779b97f4a7c15);
		m.now_ns = START;
		timers_init(m.t, m.now_ns);
		for (int step = 0; step < MODEL_STEPS; step++) {
			model_step(&m);
			if (step % 16 == 0)
				model_check_next(&m);
		}
		m.now_ns += 10000 * HOUR;
		model_expire(&m);
		assert_int_equal(m.t->n, 0);
	}
}

#define TEST(name) cmocka_unit_test_setup(name, setup)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_an_empty_wheel_waits_for_ever),
		TEST(test_a_timer_never_fires_early),
		TEST(test_following_next_ns_fires_within_a_tick),
		TEST(test_a_due_time_in_the_past_fires_next),
		TEST(test_nothing_fires_when_the_clock_runs_backwards),
		TEST(test_one_tick_fires_in_the_order_of_adding),
		TEST(test_a_removed_timer_does_not_fire),
		TEST(test_timers_may_be_added_while_others_fire),
		TEST(test_far_and_endless_due_times_wait),
		TEST(test_rebase_forward_makes_passed_ones_due_in_order),
		TEST(test_rebase_backward_waits_longer),
		TEST(test_a_crowd_is_moved_ahead),
		TEST(test_a_crowd_moves_down_in_portions),
		TEST(test_random_operations_agree_with_a_model),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

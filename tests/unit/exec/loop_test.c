/* daemon/exec/loop.c: loops in real threads under the real clock. */
#include "exec/loop.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "fixture.h"

/* ---- waking ---------------------------------------------------------- */

static void
pass_back(struct actor *a, struct msg *m)
{
	(void)m;
	if (++a->n < a->limit)
		post(a, a->peer, 0);
	else if (a->limit)
		rig_done(a->rig);
}

/* One message in flight: each has to wake the other loop. */
static void
test_two_loops_wake_each_other_every_time(void **state)
{
	struct rig *rig = *state;
	struct actor a = {.on_run = pass_back, .limit = 20000};
	struct actor b = {.on_run = pass_back, .limit = UINT64_MAX};

	actor_init(&a, rig, 0);
	actor_init(&b, rig, 1);
	a.peer = &b;
	b.peer = &a;
	post(&a, &b, 0);
	rig_start(rig);
	rig_await(rig, 1);
	rig_stop(rig);
	assert_int_equal(a.n, 20000);
	assert_int_equal(b.n, 20000);
}

struct counted_task {
	struct sched_task task;
	struct rig *rig;
	struct loop *loop;
	_Atomic unsigned *n;
	unsigned limit;
	unsigned runs;
};

static void
count_task(struct sched *s, struct sched_task *task)
{
	struct counted_task *c = container_of(task, struct counted_task, task);

	c->runs += s == &c->loop->sched;
	if (atomic_fetch_add(c->n, 1) + 1 == c->limit)
		rig_done(c->rig);
}

enum { INJECTORS = 4, INJECTED = 20000 };

static void *
injector_main(void *arg)
{
	struct counted_task *tasks = arg;

	for (unsigned i = 0; i < INJECTED; i++)
		loop_inject(tasks[i].loop, &tasks[i].task);
	return NULL;
}

/* B38: wake-ups are coalesced, messages are not. */
static void
test_tasks_from_foreign_threads_run_exactly_once(void **state)
{
	struct rig *rig = *state;
	size_t n = INJECTORS * INJECTED;
	struct counted_task *tasks = calloc(n, sizeof(*tasks));
	pthread_t threads[INJECTORS];
	_Atomic unsigned count = 0;

	assert_non_null(tasks);
	for (size_t i = 0; i < n; i++)
		tasks[i] = (struct counted_task){.task.run = count_task,
			.rig = rig,
			.loop = rig->loops[i % 2],
			.n = &count,
			.limit = (unsigned)n};
	rig_start(rig);
	for (unsigned i = 0; i < INJECTORS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL,
					 injector_main, &tasks[i * INJECTED]),
			0);
	for (unsigned i = 0; i < INJECTORS; i++)
		pthread_join(threads[i], NULL);
	rig_await(rig, 1);
	rig_stop(rig);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(tasks[i].runs, 1);
	free(tasks);
}

static void
test_what_was_injected_before_the_start_runs(void **state)
{
	struct rig *rig = *state;
	_Atomic unsigned count = 0;
	struct counted_task task = {.task.run = count_task,
		.rig = rig,
		.loop = rig->loops[0],
		.n = &count,
		.limit = 1};

	loop_inject(rig->loops[0], &task.task);
	rig_start(rig);
	rig_await(rig, 1);
}

/* ---- timers ---------------------------------------------------------- */

enum { NAP_MS = 5, NAPS = 20 };

static void
nap(struct actor *a)
{
	a->due_ns = clock_now(&clock_system) + NAP_MS * NS_PER_MS;
	if (session_sleep(a->session, 1, NAP_MS, NULL))
		abort();
}

static void
nap_over(struct actor *a, uint64_t token)
{
	uint64_t now = clock_now(&clock_system);

	(void)token;
	if (now < a->due_ns)
		a->n_early++;
	else if (now - a->due_ns < a->best_late_ns)
		a->best_late_ns = now - a->due_ns;
	if (++a->n < NAPS)
		nap(a);
	else
		rig_done(a->rig);
}

static void
test_sleeps_end_in_time(void **state)
{
	struct rig *rig = *state;
	struct actor a = {.on_reply = nap_over};

	actor_init(&a, rig, 0);
	nap(&a);
	rig_start(rig);
	rig_await(rig, 1);
	rig_stop(rig);
	/* Late by a tick and libuv's millisecond; the machine may be busy, so
	 * the best of many. */
	assert_in_range(a.best_late_ns, 0, 1400 * NS_PER_US);
	assert_int_equal(a.n_early, 0);
}

static void
busy_then_nap(struct actor *a, struct msg *m)
{
	uint64_t until = clock_now(&clock_system) + 20 * NS_PER_MS;

	(void)m;
	while (clock_now(&clock_system) < until)
		;
	nap(a);
}

static void
test_a_sleep_counts_from_its_call_in_a_long_turn(void **state)
{
	struct rig *rig = *state;
	struct actor a = {.on_run = busy_then_nap, .on_reply = nap_over};

	a.n = NAPS - 1;
	actor_init(&a, rig, 0);
	post(&a, &a, 0);
	rig_start(rig);
	rig_await(rig, 1);
	rig_stop(rig);
	assert_int_equal(a.n_early, 0);
}

/* By a post or by a delay of nothing, as it came. */
static void
again_at_once(struct actor *a, struct msg *m)
{
	struct sched *s = &a->loop->sched;
	struct delay_init init = {.to = a->id,
		.event = "again",
		.event_size = 5,
		.due_ns = s->now_ns};

	a->n++;
	if (!(m->flags & MSG_DELAYED))
		post(a, a, 0);
	else if (delay_set(s, a->session, &init, NULL, NULL))
		abort();
}

static void
done_at_last(struct actor *a, struct msg *m)
{
	(void)m;
	if (++a->n == 100)
		rig_done(a->rig);
	else if (session_sleep(a->session, 1, 1, NULL))
		abort();
}

static void
post_to_self(struct actor *a, uint64_t token)
{
	(void)token;
	post(a, a, 0);
}

/* B37: one that delays to itself by nothing spins, and others go on. */
static void
test_delays_of_nothing_do_not_starve_others(void **state)
{
	struct rig *rig = *state;
	struct actor greedy = {.on_run = again_at_once};
	struct actor modest = {
		.on_run = done_at_last, .on_reply = post_to_self};

	struct delay_init init = {.event = "again", .event_size = 5};

	actor_init(&greedy, rig, 0);
	actor_init(&modest, rig, 0);
	init.to = greedy.id;
	assert_int_equal(
		delay_set(&rig->loops[0]->sched, NULL, &init, NULL, NULL), 0);
	post(&greedy, &greedy, 0);
	post(&modest, &modest, 0);
	rig_start(rig);
	rig_await(rig, 1);
	rig_stop(rig);
	assert_int_equal(modest.n, 100);
	assert_true(greedy.n > 100);
}

/* ---- the wall clock is set ------------------------------------------- */

static _Atomic uint64_t ahead_ns;

static uint64_t
wall_ahead(const struct clock_source *c)
{
	(void)c;
	return clock_wall(&clock_system) + atomic_load(&ahead_ns);
}

static void
count_and_tell(struct actor *a, struct msg *m)
{
	(void)m;
	a->n++;
	rig_done(a->rig);
}

/* B28: the timerfd that is cancelled when the clock is set is another
 * descriptor here, for a test does not set the machine's clock. The loop sleeps
 * for an hour, is told, and what has passed fires once. */
static void
test_an_alarm_fires_once_when_the_clock_is_set(void **state)
{
	static struct clock_source source;
	struct rig *rig = *state;
	struct loop *l = rig->loops[0];
	struct actor a = {.on_run = count_and_tell};
	struct delay_init init = {
		.event = "e", .event_size = 1, .clock = DELAY_WALL};
	uint64_t one = 1;
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	source = clock_system;
	source.wall_ns = wall_ahead;
	atomic_store(&ahead_ns, 0);
	rig->kernel.clock = &source;
	assert_int_equal(io_want(&l->io, &l->on_clock, 0), 0);
	assert_int_equal(dup3(fd, l->on_clock.fd, O_CLOEXEC), l->on_clock.fd);
	assert_int_equal(io_want(&l->io, &l->on_clock, EPOLLIN), 0);
	actor_init(&a, rig, 0);
	init.to = a.id;
	init.due_ns = clock_wall(&source) + 3600ull * NS_PER_S;
	assert_int_equal(
		delay_set(&rig->loops[0]->sched, NULL, &init, NULL, NULL), 0);
	rig_start(rig);
	atomic_store(&ahead_ns, 7200ull * NS_PER_S);
	assert_int_equal(write(fd, &one, sizeof(one)), sizeof(one));
	rig_await(rig, 1);
	atomic_store(&ahead_ns, 0);
	assert_int_equal(write(fd, &one, sizeof(one)), sizeof(one));
	rig_stop(rig);
	assert_int_equal(a.n, 1);
	close(fd);
}

/* ---- callbacks of libuv between a turn and the poll ------------------ */

struct between {
	uv_timer_t timer;
	struct loop_flush flush;
	struct actor *actor;
	int what;
};

enum { BETWEEN_POST, BETWEEN_SLEEP, BETWEEN_DEFER, BETWEEN_AWAY };

static void
on_flush(struct loop_flush *flush)
{
	struct between *b = container_of(flush, struct between, flush);

	rig_done(b->actor->rig);
}

static void
on_timer_closed(uv_handle_t *handle)
{
	struct between *b = handle->data;

	if (b->what == BETWEEN_POST)
		post(b->actor, b->actor, 0);
	else if (b->what == BETWEEN_AWAY)
		post(b->actor, b->actor->peer, 0);
	else if (b->what == BETWEEN_DEFER)
		loop_defer(b->actor->loop, &b->flush);
	else if (session_sleep(b->actor->session, 1, 10, NULL))
		abort();
}

static void
on_timer(uv_timer_t *timer)
{
	uv_close((uv_handle_t *)timer, on_timer_closed);
}

static void
done(struct actor *a, struct msg *m)
{
	(void)m;
	a->n++;
	rig_done(a->rig);
}

static void
reply_done(struct actor *a, uint64_t token)
{
	(void)token;
	rig_done(a->rig);
}

static void
between(struct rig *rig, int what)
{
	struct actor a = {.on_run = done, .on_reply = reply_done};
	struct actor b = {.on_run = done};
	struct between between = {
		.flush.run = on_flush, .actor = &a, .what = what};

	actor_init(&a, rig, 0);
	actor_init(&b, rig, 1);
	a.peer = &b;
	uv_timer_init(&a.loop->uv, &between.timer);
	between.timer.data = &between;
	uv_timer_start(&between.timer, on_timer, 20, 0);
	rig_start(rig);
	rig_await(rig, 1);
	rig_stop(rig);
}

static void
test_a_post_from_a_close_callback_is_handled(void **state)
{
	between(*state, BETWEEN_POST);
}

static void
test_a_sleep_from_a_close_callback_ends(void **state)
{
	between(*state, BETWEEN_SLEEP);
}

static void
test_a_flush_from_a_close_callback_runs(void **state)
{
	between(*state, BETWEEN_DEFER);
}

static void
test_a_post_elsewhere_from_a_close_callback_leaves(void **state)
{
	between(*state, BETWEEN_AWAY);
}

/* ---- flushes --------------------------------------------------------- */

struct noted_flush {
	struct loop_flush flush;
	struct actor *actor;
	struct noted_flush *more;
	uint64_t n_runs, n_seen;
};

static void
note_flush(struct loop_flush *flush)
{
	struct noted_flush *noted =
		container_of(flush, struct noted_flush, flush);

	noted->n_runs++;
	noted->n_seen = noted->actor->n;
	if (noted->more)
		loop_defer(noted->actor->loop, &noted->more->flush);
	else
		rig_done(noted->actor->rig);
}

static void
defer(struct actor *a, struct msg *m)
{
	struct noted_flush *noted;

	memcpy(&noted, m->data, sizeof(noted));
	a->n++;
	loop_defer(a->loop, &noted->flush);
}

static void
test_a_flush_runs_once_a_turn_after_all_handlers(void **state)
{
	struct rig *rig = *state;
	struct actor a = {.on_run = defer};
	struct noted_flush second = {.flush.run = note_flush, .actor = &a};
	struct noted_flush first = {
		.flush.run = note_flush, .actor = &a, .more = &second};

	actor_init(&a, rig, 0);
	for (unsigned i = 0; i < 10; i++)
		post(&a, &a, (uintptr_t)&first);
	rig_start(rig);
	rig_await(rig, 1);
	rig_stop(rig);
	assert_int_equal(first.n_runs, 1);
	assert_int_equal(first.n_seen, 10);
	assert_int_equal(second.n_runs, 1); /* asked for by the first */
}

/* ---- life ------------------------------------------------------------ */

static void
test_a_loop_that_never_ran_goes_without_a_trace(void **state)
{
	struct rig *rig = *state;
	struct actor a = {.on_run = done};

	actor_init(&a, rig, 0);
	post(&a, &a, 0);
	/* rig_free() checks */
}

static void
test_a_loop_stopped_before_it_ran_goes_without_a_trace(void **state)
{
	struct rig *rig = *state;

	loop_stop(rig->loops[0]);
	rig_start(rig);
}

static void
test_a_loop_that_cannot_be_made_leaves_nothing(void **state)
{
	struct rig *rig = *state;
	struct loop *l = loop_alloc();

	assert_true(loop_init(l, &rig->kernel, KERNEL_LOOPS_MAX) < 0);
	assert_int_equal(loop_deinit(l), 0);
	free(l);
}

static void
test_handles_left_open_are_closed(void **state)
{
	struct rig *rig = *state;
	uv_timer_t timer;

	uv_timer_init(&rig->loops[0]->uv, &timer);
	rig_start(rig);
	rig_stop(rig);
	assert_int_equal(loop_deinit(rig->loops[0]), 0);
	assert_true(uv_is_closing((uv_handle_t *)&timer));
	assert_int_equal(loop_init(rig->loops[0], &rig->kernel, 0), 0);
}

int
main(void)
{
#define ONE(test) cmocka_unit_test_setup_teardown(test, setup_one, teardown)
#define TWO(test) cmocka_unit_test_setup_teardown(test, setup_two, teardown)
	const struct CMUnitTest tests[] = {
		TWO(test_two_loops_wake_each_other_every_time),
		TWO(test_tasks_from_foreign_threads_run_exactly_once),
		ONE(test_what_was_injected_before_the_start_runs),
		ONE(test_sleeps_end_in_time),
		ONE(test_a_sleep_counts_from_its_call_in_a_long_turn),
		ONE(test_delays_of_nothing_do_not_starve_others),
		ONE(test_an_alarm_fires_once_when_the_clock_is_set),
		TWO(test_a_post_from_a_close_callback_is_handled),
		TWO(test_a_sleep_from_a_close_callback_ends),
		TWO(test_a_flush_from_a_close_callback_runs),
		TWO(test_a_post_elsewhere_from_a_close_callback_leaves),
		ONE(test_a_flush_runs_once_a_turn_after_all_handlers),
		ONE(test_a_loop_that_never_ran_goes_without_a_trace),
		ONE(test_a_loop_stopped_before_it_ran_goes_without_a_trace),
		ONE(test_a_loop_that_cannot_be_made_leaves_nothing),
		ONE(test_handles_left_open_are_closed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

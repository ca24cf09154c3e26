/* Who wakes whom: a sleeping loop or thread is woken once a turn, however much
 * that turn has for it; one that is awake never is. Wake-ups are counted where
 * the system call is made. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "exec/pool.h"
#include "fixture.h"

enum { EVENTS = 500, TURNS = 10 };

struct scene {
	struct rig *rig;
	struct pool *pool;
	struct actor from, to[CROWD];
	sem_t entered, leave;
	unsigned n_to;
};

struct burst {
	struct sched_task task;
	struct scene *scene;
	unsigned n;
};

static struct scene *
scene_of(struct actor *a)
{
	return container_of(a - a->limit, struct scene, to[0]);
}

static void
quietly(struct actor *a, struct msg *m)
{
	(void)m;
	rig_done(a->rig);
}

/* Its thread stays awake here. */
static void
slowly(struct actor *a, struct msg *m)
{
	struct scene *s = scene_of(a);

	if (*(const uint8_t *)m->data == 1) {
		sem_post(&s->entered);
		while (sem_wait(&s->leave))
			;
	}
	rig_done(a->rig);
}

/* One turn of the first loop. */
static void
on_burst(struct sched *sched, struct sched_task *task)
{
	struct burst *b = container_of(task, struct burst, task);

	(void)sched;
	for (unsigned i = 0; i < b->n; i++)
		post(&b->scene->from, &b->scene->to[i % b->scene->n_to], 0);
	rig_done(b->scene->rig);
}

static void
burst(struct scene *s, unsigned n, bool handled)
{
	struct burst b = {.task.run = on_burst, .scene = s, .n = n};

	sched_inject(&s->rig->loops[0]->sched, &b.task);
	rig_await(s->rig, handled ? n + 1 : 1);
}

static void
scene_init(struct scene *s, unsigned n_loops, unsigned home, unsigned n_to)
{
	memset(s, 0, sizeof(*s));
	s->rig = rig_new(n_loops);
	s->n_to = n_to;
	sem_init(&s->entered, 0, 0);
	sem_init(&s->leave, 0, 0);
	s->from.on_run = quietly;
	actor_init(&s->from, s->rig, 0);
	for (unsigned i = 0; i < n_to; i++) {
		s->to[i].limit = i;
		s->to[i].on_run = slowly;
		actor_init(&s->to[i], s->rig, home);
	}
}

#define UNTIL(condition)                                             \
	do {                                                         \
		uint64_t due = clock_now(&clock_system) +            \
			       (uint64_t)PATIENCE_S * NS_PER_S;      \
                                                                     \
		while (!(condition)) {                               \
			assert_true(clock_now(&clock_system) < due); \
			sched_yield();                               \
		}                                                    \
	} while (0)

static uint64_t
wakes_of(struct loop *l)
{
	return atomic_load(&l->n_woken);
}

static void
test_a_sleeping_loop_is_woken_once_a_turn(void **state)
{
	struct scene s;
	struct loop *l;
	uint64_t before;

	(void)state;
	scene_init(&s, 2, 1, CROWD);
	l = s.rig->loops[1];
	rig_start(s.rig);
	for (int i = 1; i <= TURNS; i++) {
		UNTIL(atomic_load(&l->sched.asleep));
		before = wakes_of(l);
		burst(&s, EVENTS, true);
		/* None if it was about to sleep and saw by itself. */
		assert_true(wakes_of(l) <= before + 1);
	}
	rig_free(s.rig);
}

static void
test_an_awake_loop_is_not_woken(void **state)
{
	struct scene s;
	uint64_t before;

	(void)state;
	scene_init(&s, 2, 1, CROWD);
	post(&s.to[0], &s.to[0], 1);
	rig_start(s.rig);
	while (sem_wait(&s.entered))
		;
	before = wakes_of(s.rig->loops[1]);
	for (int i = 0; i < TURNS; i++)
		burst(&s, EVENTS, false);
	assert_int_equal(wakes_of(s.rig->loops[1]), before);
	sem_post(&s.leave);
	rig_await(s.rig, TURNS * EVENTS + 1);
	rig_free(s.rig);
}

/* One thread for all of them. */
static void
pool_begin(struct scene *s, enum pool_type type)
{
	scene_init(s, 1, 0, CROWD);
	s->pool = pool_new(&(struct pool_init){
		.name = "pool", .type = type, .n_threads = 1});
	assert_non_null(s->pool);
	for (unsigned i = 0; i < CROWD; i++)
		assert_int_equal(session_set_executor(
					 s->to[i].session, &s->pool->executor),
			0);
	post(&s->to[0], &s->to[0], 1);
	rig_start(s->rig);
	while (sem_wait(&s->entered))
		;
}

static void
pool_end(struct scene *s)
{
	rig_stop(s->rig);
	assert_int_equal(pool_stop(s->pool, PATIENCE_S * 1000), 0);
	rig_free(s->rig);
	pool_free(s->pool);
}

static const enum pool_type types[] = {POOL_WORKER, POOL_THREADPOOL};

static void
test_a_sleeping_thread_is_woken_once_a_turn(void **state)
{
	struct scene s;
	uint64_t before;

	(void)state;
	for (int k = 0; k < 2; k++) {
		pool_begin(&s, types[k]);
		sem_post(&s.leave);
		rig_await(s.rig, 1);
		for (int i = 0; i < TURNS; i++) {
			UNTIL(atomic_load(&s.pool->threads[0]->word) ==
				WORD_SLEEPS);
			before = atomic_load(&s.pool->n_woken);
			burst(&s, EVENTS, true);
			assert_int_equal(
				atomic_load(&s.pool->n_woken), before + 1);
		}
		pool_end(&s);
	}
}

static void
test_an_awake_thread_is_not_woken(void **state)
{
	struct scene s;
	uint64_t before;

	(void)state;
	for (int k = 0; k < 2; k++) {
		pool_begin(&s, types[k]);
		before = atomic_load(&s.pool->n_woken);
		for (int i = 0; i < TURNS; i++)
			burst(&s, EVENTS, false);
		sem_post(&s.leave);
		rig_await(s.rig, TURNS * EVENTS + 1);
		assert_int_equal(atomic_load(&s.pool->n_woken), before);
		pool_end(&s);
	}
}

/* A leader's thread is woken to lead, not for a session: when one that leads
 * has found an event for itself, so at most once a turn. */
static void
test_leaders_are_woken_once_a_turn(void **state)
{
	struct scene s;
	struct loop *l;
	uint64_t before, turns;

	(void)state;
	pool_begin(&s, POOL_LEADER);
	l = s.rig->loops[0];
	sem_post(&s.leave);
	rig_await(s.rig, 1);
	for (int i = 0; i < TURNS; i++) {
		UNTIL(atomic_load(&l->sched.asleep));
		before = atomic_load(&s.pool->n_woken);
		turns = atomic_load(&l->turns);
		burst(&s, EVENTS, true);
		UNTIL(atomic_load(&l->sched.asleep));
		assert_true(atomic_load(&s.pool->n_woken) - before <=
			    atomic_load(&l->turns) - turns);
	}
	pool_end(&s);
}

/* One runs a session, the other leads: nobody sleeps, whatever comes. */
static void
test_an_awake_leader_is_not_woken(void **state)
{
	struct scene s;
	uint64_t before;

	(void)state;
	pool_begin(&s, POOL_LEADER);
	before = atomic_load(&s.pool->n_woken);
	for (int i = 0; i < TURNS; i++)
		burst(&s, EVENTS, false);
	assert_int_equal(atomic_load(&s.pool->n_woken), before);
	sem_post(&s.leave);
	rig_await(s.rig, TURNS * EVENTS + 1);
	pool_end(&s);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_sleeping_loop_is_woken_once_a_turn),
		cmocka_unit_test(test_an_awake_loop_is_not_woken),
		cmocka_unit_test(test_a_sleeping_thread_is_woken_once_a_turn),
		cmocka_unit_test(test_an_awake_thread_is_not_woken),
		cmocka_unit_test(test_leaders_are_woken_once_a_turn),
		cmocka_unit_test(test_an_awake_leader_is_not_woken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

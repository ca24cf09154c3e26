/* daemon/exec/pool.c, baton.c and the kernel's away.c between threads: sessions
 * that are run by pools handle each event once, in order and one at a time,
 * also while their executors change; handlers that block stand in nobody's way;
 * what never returns is named. */
#include "exec/pool.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "fixture.h"
#include "kernel/stuck.h"

enum {
	EACH = 6000,   /* events of each of the crowd */
	CHANGES = 200, /* of executors, on each loop */
	POOLS = 3,
	THREADS = 8,
};

struct pooled {
	struct crowd *crowd;
	struct pool *pools[POOLS];
};

static struct pool *
pool_of_type(enum pool_type type, uint32_t n)
{
	struct pool *p = pool_new(&(struct pool_init){
		.name = pool_type_words[type], .type = type, .n_threads = n});

	assert_non_null(p);
	return p;
}

static struct pooled *
pooled_new(struct rig *rig)
{
	struct pooled *p = calloc(1, sizeof(*p));

	assert_non_null(p);
	for (int i = 0; i < POOLS; i++)
		p->pools[i] = pool_of_type((enum pool_type)i, THREADS);
	p->crowd = crowd_new(rig, &(struct crowd_plan){.each = EACH,
					  .batch = 20,
					  .call_every = 8,
					  .ack_every = 5});
	return p;
}

static void
pooled_use(struct pooled *p, enum pool_type type)
{
	for (size_t i = 0; i < CROWD; i++)
		assert_int_equal(
			session_set_executor(p->crowd->actors[i].session,
				&p->pools[type]->executor),
			0);
}

/* Pools outlive the sessions that have them. */
static void
pooled_end(struct pooled *p)
{
	crowd_await(p->crowd);
	for (int i = 0; i < POOLS; i++) {
		assert_int_equal(pool_stop(p->pools[i], PATIENCE_S * 1000), 0);
		assert_int_equal(p->pools[i]->n_queued, 0);
	}
	crowd_check(p->crowd);
	rig_free(p->crowd->rig);
	free(p->crowd);
}

static void
pooled_free(struct pooled *p)
{
	for (int i = 0; i < POOLS; i++)
		pool_free(p->pools[i]);
	free(p);
}

/* Sessions of all four loops are run by the threads of one pool. */
static void
pass_all(enum pool_type type)
{
	struct rig *rig = rig_new(4);
	struct pooled *p = pooled_new(rig);

	pooled_use(p, type);
	rig_start(rig);
	pooled_end(p);
	assert_true(atomic_load(&p->pools[type]->executor.n_runs) >=
		    (uint64_t)CROWD * EACH);
	pooled_free(p);
}

static void
test_workers_pass_all_once_and_in_order(void **state)
{
	(void)state;
	pass_all(POOL_WORKER);
}

static void
test_a_threadpool_passes_all_once_and_in_order(void **state)
{
	(void)state;
	pass_all(POOL_THREADPOOL);
}

static void
test_leaders_pass_all_once_and_in_order(void **state)
{
	(void)state;
	pass_all(POOL_LEADER);
}

/* ---- changing executors -------------------------------------------- */

struct changes {
	struct sched_task task;
	struct pooled *pooled;
	unsigned loop, n;
	uint64_t rng;
};

static void
change(struct sched *s, struct sched_task *task)
{
	struct changes *ch = container_of(task, struct changes, task);
	struct pooled *p = ch->pooled;
	struct crowd *c = p->crowd;

	for (size_t i = ch->loop; i < CROWD; i += c->rig->n_loops) {
		unsigned which;

		ch->rng = ch->rng * 6364136223846793005u + 1442695040888963407u;
		which = (unsigned)(ch->rng >> 33) % (POOLS + 1);
		if (session_set_executor(c->actors[i].session,
			    which == POOLS ? NULL : &p->pools[which]->executor))
			abort();
	}
	if (++ch->n < CHANGES)
		sched_run_on(s, s, task);
	else
		rig_done(c->rig);
}

static void
test_executors_change_while_all_goes_on(void **state)
{
	struct rig *rig = rig_new(4);
	struct pooled *p = pooled_new(rig);
	struct changes changes[LOOPS_MAX] = {0};

	(void)state;
	for (unsigned i = 0; i < rig->n_loops; i++) {
		changes[i] = (struct changes){.pooled = p,
			.loop = i,
			.rng = 77 + i,
			.task.run = change};
		sched_inject(&rig->loops[i]->sched, &changes[i].task);
	}
	rig_start(rig);
	rig_await(rig, rig->n_loops);
	pooled_end(p);
	pooled_free(p);
}

/* ---- blocking ------------------------------------------------------ */

static void
sem_take(sem_t *sem)
{
	while (sem_wait(sem))
		;
}

struct blocked {
	struct rig *rig;
	struct actor stuck, plain;
	sem_t entered, leave;
};

static void
stuck_run(struct actor *a, struct msg *m)
{
	struct blocked *b = container_of(a, struct blocked, stuck);

	(void)m;
	sem_post(&b->entered);
	sem_take(&b->leave);
}

static void
plain_run(struct actor *a, struct msg *m)
{
	uint64_t n;

	memcpy(&n, m->data, sizeof(n));
	if (n == 0)
		rig_done(a->rig);
	else
		post(a, a, n - 1);
}

static void
blocked_begin(struct blocked *b, struct rig *rig, struct pool *p)
{
	memset(b, 0, sizeof(*b));
	b->rig = rig;
	sem_init(&b->entered, 0, 0);
	sem_init(&b->leave, 0, 0);
	b->stuck.on_run = stuck_run;
	b->plain.on_run = plain_run;
	actor_init(&b->stuck, rig, 0);
	actor_init(&b->plain, rig, 0);
	assert_int_equal(
		session_set_executor(b->stuck.session, &p->executor), 0);
	post(&b->stuck, &b->stuck, 1);
	post(&b->stuck, &b->stuck, 2);
	rig_start(rig);
	sem_take(&b->entered);
}

static void
poke(struct sched *s, struct sched_task *task)
{
	struct blocked *b = (struct blocked *)task->msg.from;

	(void)s;
	post(&b->plain, &b->plain, 1000);
	free(task);
}

static void
loop_goes_on(struct blocked *b)
{
	struct sched_task *task = calloc(1, sizeof(*task));

	assert_non_null(task);
	task->run = poke;
	task->msg.from = (uintptr_t)b;
	sched_inject(&b->rig->loops[0]->sched, task);
	rig_await(b->rig, 1);
}

/* B88 */
static void
test_a_handler_that_blocks_holds_up_only_its_session(void **state)
{
	struct blocked b;
	struct rig *rig;

	(void)state;
	for (int type = 0; type < POOLS; type++) {
		struct pool *p = pool_of_type((enum pool_type)type, 2);

		rig = rig_new(1);
		blocked_begin(&b, rig, p);
		loop_goes_on(&b);
		assert_int_equal(b.stuck.session->run, SESSION_AWAY);
		sem_post(&b.leave);
		sem_take(&b.entered); /* its next event */
		loop_goes_on(&b);
		sem_post(&b.leave);
		rig_stop(rig);
		assert_int_equal(pool_stop(p, PATIENCE_S * 1000), 0);
		assert_int_equal(
			rig->loops[0]->sched.counters.handled, 2 + 2 * 1001);
		rig_free(rig);
		pool_free(p);
	}
}

/* ---- stuck --------------------------------------------------------- */

enum { LOOK = 4 };

struct look {
	struct sched_task task;
	struct blocked *b;
	struct pool *pool;
	struct stuck found[LOOK];
	uint32_t n;
};

static void
on_look(struct sched *s, struct sched_task *task)
{
	struct look *l = container_of(task, struct look, task);

	l->n = pool_look_stuck(l->pool, s, l->found, LOOK);
	rig_done(l->b->rig);
}

static uint32_t
look(struct look *l)
{
	l->task = (struct sched_task){.run = on_look};
	sched_inject(&l->b->rig->loops[0]->sched, &l->task);
	rig_await(l->b->rig, 1);
	return l->n;
}

static void
stuck_once(enum pool_type type)
{
	struct pool *p = pool_of_type(type, 2);
	struct rig *rig = rig_new(1);
	struct pool_state now;
	struct blocked b;
	struct look l = {.b = &b, .pool = p};

	blocked_begin(&b, rig, p);
	assert_int_equal(look(&l), 0); /* it may take its time */
	atomic_store(&p->executor.stuck_ns, 1);
	assert_int_equal(look(&l), 1);
	assert_int_equal(l.found[0].session, b.stuck.id);
	assert_string_equal(l.found[0].event, "n");
	assert_string_equal(l.found[0].executor, p->name);
	assert_true(l.found[0].thread > 0);
	assert_int_equal(look(&l), 0);
	sem_post(&b.leave);
	sem_take(&b.entered); /* its next event */
	assert_int_equal(look(&l), 1);
	pool_look(p, &now);
	assert_int_equal(now.n_stuck, 1);
	assert_int_equal(now.n_stuck_ever, 2);
	sem_post(&b.leave);
	rig_stop(rig);
	assert_int_equal(pool_stop(p, PATIENCE_S * 1000), 0);
	pool_look(p, &now);
	assert_int_equal(now.n_stuck, 0);
	rig_free(rig);
	pool_free(p);
}

/* B62 */
static void
test_a_handler_that_is_stuck_is_seen_once(void **state)
{
	(void)state;
	for (int type = 0; type < POOLS; type++)
		stuck_once((enum pool_type)type);
}

/* ---- changing pools ------------------------------------------------ */

struct resize {
	struct sched_task task;
	struct pooled *pooled;
	enum pool_type type;
	unsigned n;
	uint64_t rng;
};

static void
resize(struct sched *s, struct sched_task *task)
{
	struct resize *r = container_of(task, struct resize, task);
	cpu_set_t first;
	uint32_t which;

	CPU_ZERO(&first);
	CPU_SET(0, &first);
	r->rng = r->rng * 6364136223846793005u + 1442695040888963407u;
	which = (uint32_t)(r->rng >> 33);
	pool_change(r->pooled->pools[r->type],
		&(struct pool_init){
			.n_threads = 1 + which % THREADS,
			.busy_ns = which & 8 ? 20000 : 0,
			.cpus = which & 16 ? &first : NULL,
		});
	if (++r->n < CHANGES)
		sched_run_on(s, s, task);
	else
		rig_done(r->pooled->crowd->rig);
}

static void
test_pools_change_while_all_goes_on(void **state)
{
	(void)state;
	for (int type = 0; type < POOLS; type++) {
		struct rig *rig = rig_new(4);
		struct pooled *p = pooled_new(rig);
		struct resize r = {.pooled = p,
			.type = (enum pool_type)type,
			.rng = 5,
			.task.run = resize};

		pooled_use(p, r.type);
		rig_start(rig);
		sched_inject(&rig->loops[0]->sched, &r.task);
		rig_await(rig, 1);
		pooled_end(p);
		pooled_free(p);
	}
}

struct moving {
	struct sched_task task;
	struct blocked *b;
	struct executor *to;
};

static void
move(struct sched *s, struct sched_task *task)
{
	struct moving *m = container_of(task, struct moving, task);

	(void)s;
	if (session_set_executor(m->b->stuck.session, m->to))
		abort();
	post(&m->b->stuck, &m->b->stuck, 3);
	rig_done(m->b->rig);
}

static void
move_to(struct blocked *b, struct executor *to)
{
	struct moving m = {.task.run = move, .b = b, .to = to};

	sched_inject(&b->rig->loops[0]->sched, &m.task);
	rig_await(b->rig, 1);
}

static void
await_threads(struct pool *p, uint32_t n)
{
	struct pool_state state;
	uint64_t due =
		clock_now(&clock_system) + (uint64_t)PATIENCE_S * NS_PER_S;

	do {
		assert_true(clock_now(&clock_system) < due);
		sched_yield();
		pool_look(p, &state);
	} while (state.n_threads != n);
}

static void
test_a_retired_pool_ends_with_its_last_session(void **state)
{
	struct pool *p = pool_of_type(POOL_WORKER, 2);
	struct rig *rig = rig_new(1);
	struct pool_state look;
	struct blocked b;

	(void)state;
	blocked_begin(&b, rig, p);
	pool_retire(p);
	pool_settle(p);
	move_to(&b, NULL); /* once it is back */
	pool_look(p, &look);
	assert_true(look.n_threads > 0);
	sem_post(&b.leave);
	sem_take(&b.entered); /* its second, on the loop */
	await_threads(p, 0);
	sem_post(&b.leave);
	sem_take(&b.entered); /* what move() posted */
	sem_post(&b.leave);
	pool_change(p, &(struct pool_init){.n_threads = 1});
	assert_false(atomic_load(&p->executor.gone));
	move_to(&b, &p->executor);
	sem_take(&b.entered);
	await_threads(p, 1);
	sem_post(&b.leave);
	rig_stop(rig);
	assert_int_equal(pool_stop(p, PATIENCE_S * 1000), 0);
	rig_free(rig);
	pool_free(p);
}

/* CPUAffinity= of a machine that was larger. */
static void
test_a_pool_without_its_cpus_uses_any(void **state)
{
	cpu_set_t cpus;
	struct blocked b;
	struct rig *rig = rig_new(1);
	struct pool *p;

	(void)state;
	CPU_ZERO(&cpus);
	CPU_SET(CPU_SETSIZE - 1, &cpus);
	p = pool_new(&(struct pool_init){
		.name = "few", .n_threads = 1, .cpus = &cpus});
	assert_non_null(p);
	blocked_begin(&b, rig, p);
	sem_post(&b.leave);
	sem_take(&b.entered);
	sem_post(&b.leave);
	rig_stop(rig);
	assert_int_equal(pool_stop(p, PATIENCE_S * 1000), 0);
	rig_free(rig);
	pool_free(p);
}

/* Stopping has an end, and names whoever does not return. */
static void
test_what_never_returns_is_left_behind(void **state)
{
	struct rig *rig = rig_new(1);
	struct pool *p = pool_of_type(POOL_WORKER, 2);
	struct blocked b;

	(void)state;
	blocked_begin(&b, rig, p);
	rig_stop(rig);
	assert_int_equal(pool_stop(p, 10), 1);
	sem_post(&b.leave); /* for the test's own end */
	sem_post(&b.leave);
	assert_int_equal(pool_stop(p, PATIENCE_S * 1000), 0);
	rig_free(rig);
	pool_free(p);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_workers_pass_all_once_and_in_order),
		cmocka_unit_test(
			test_a_threadpool_passes_all_once_and_in_order),
		cmocka_unit_test(test_leaders_pass_all_once_and_in_order),
		cmocka_unit_test(test_executors_change_while_all_goes_on),
		cmocka_unit_test(test_pools_change_while_all_goes_on),
		cmocka_unit_test(
			test_a_retired_pool_ends_with_its_last_session),
		cmocka_unit_test(
			test_a_handler_that_blocks_holds_up_only_its_session),
		cmocka_unit_test(test_a_handler_that_is_stuck_is_seen_once),
		cmocka_unit_test(test_a_pool_without_its_cpus_uses_any),
		cmocka_unit_test(test_what_never_returns_is_left_behind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

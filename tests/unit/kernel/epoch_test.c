/* daemon/kernel/epoch.c */
#include "kernel/epoch.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/list.h"

struct thing {
	struct epoch_item retired;
	unsigned *n_freed;
};

static void
on_thing_free(struct epoch_item *item)
{
	struct thing *thing = container_of(item, struct thing, retired);

	++*thing->n_freed;
	free(thing);
}

static void
retire_one(struct epoch *e, unsigned *n_freed)
{
	struct thing *thing = calloc(1, sizeof(*thing));

	thing->n_freed = n_freed;
	epoch_retire(e, &thing->retired, on_thing_free);
}

static void
test_without_readers_it_is_freed_at_once(void **state)
{
	struct epoch e;
	unsigned n = 0;

	(void)state;
	epoch_init(&e);
	retire_one(&e, &n);
	epoch_collect(&e);
	assert_int_equal(n, 1);
	epoch_deinit(&e);
}

/* Who retires and retires need not collect. */
static void
test_many_retired_do_not_pile_up(void **state)
{
	struct epoch e;
	unsigned n = 0;

	(void)state;
	epoch_init(&e);
	for (unsigned i = 1; i <= 1000; i++) {
		retire_one(&e, &n);
		assert_true(i - n < 64);
	}
	epoch_deinit(&e);
	assert_int_equal(n, 1000);
}

static void
test_an_online_reader_holds_it_until_quiescent(void **state)
{
	struct epoch e;
	struct epoch_reader r;
	unsigned n = 0;

	(void)state;
	epoch_init(&e);
	assert_int_equal(epoch_join(&e, &r), 0);
	epoch_online(&e, &r);
	retire_one(&e, &n);
	retire_one(&e, &n);
	epoch_collect(&e);
	assert_int_equal(n, 0);
	epoch_quiescent(&e, &r);
	epoch_collect(&e);
	assert_int_equal(n, 2);
	epoch_offline(&r);
	epoch_leave(&e, &r);
	epoch_deinit(&e);
}

static void
test_each_reader_must_have_moved_on(void **state)
{
	struct epoch e;
	struct epoch_reader r[3];
	unsigned n = 0;

	(void)state;
	epoch_init(&e);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(epoch_join(&e, &r[i]), 0);
		epoch_online(&e, &r[i]);
	}
	retire_one(&e, &n);
	epoch_quiescent(&e, &r[0]);
	epoch_collect(&e);
	epoch_offline(&r[1]);
	epoch_collect(&e);
	assert_int_equal(n, 0);
	epoch_quiescent(&e, &r[2]);
	epoch_collect(&e);
	assert_int_equal(n, 1);
	for (int i = 0; i < 3; i++) {
		epoch_offline(&r[i]);
		epoch_leave(&e, &r[i]);
	}
	epoch_deinit(&e);
}

static void
test_a_reader_that_left_holds_nothing_up(void **state)
{
	struct epoch e;
	struct epoch_reader a, b;
	unsigned n = 0;

	(void)state;
	epoch_init(&e);
	epoch_join(&e, &a);
	epoch_join(&e, &b);
	epoch_leave(&e, &a);
	retire_one(&e, &n);
	epoch_collect(&e);
	assert_int_equal(n, 1);
	epoch_leave(&e, &b);
	epoch_deinit(&e);
}

static void
test_what_was_retired_later_stays(void **state)
{
	struct epoch e;
	struct epoch_reader r;
	unsigned early = 0, late = 0;

	(void)state;
	epoch_init(&e);
	epoch_join(&e, &r);
	epoch_online(&e, &r);
	retire_one(&e, &early);
	epoch_quiescent(&e, &r);
	retire_one(&e, &late);
	epoch_collect(&e);
	assert_int_equal(early, 1);
	assert_int_equal(late, 0);
	epoch_offline(&r);
	epoch_leave(&e, &r);
	epoch_deinit(&e); /* frees the rest */
	assert_int_equal(late, 1);
}

static void
test_join_refuses_one_reader_too_many(void **state)
{
	static struct epoch_reader r[EPOCH_READERS_MAX + 1];
	struct epoch e;

	(void)state;
	epoch_init(&e);
	for (int i = 0; i < EPOCH_READERS_MAX; i++)
		assert_int_equal(epoch_join(&e, &r[i]), 0);
	assert_int_equal(epoch_join(&e, &r[EPOCH_READERS_MAX]), -ENOSPC);
	epoch_leave(&e, &r[7]);
	assert_int_equal(epoch_join(&e, &r[EPOCH_READERS_MAX]), 0);
	for (int i = 0; i <= EPOCH_READERS_MAX; i++)
		epoch_leave(&e, &r[i]);
	assert_int_equal(e.n_readers, 0);
	epoch_deinit(&e);
}

/* ---- stress: readers follow pointers that writers replace and retire --- */

enum { N_READERS = 4, N_WRITERS = 2, N_CELLS = 8, N_CHANGES = 20000 };

struct cell {
	struct epoch_item retired;
	uint64_t a, b; /* equal, and not DEAD, while it may be looked at */
};

#define DEAD UINT64_C(0xdeaddeaddeaddead)

static struct {
	struct epoch epoch;
	struct epoch_reader readers[N_READERS];
	_Atomic(struct cell *) cells[N_CELLS];
	_Atomic unsigned n_freed, n_broken, n_writers;
} world;

static void
on_cell_free(struct epoch_item *item)
{
	struct cell *c = container_of(item, struct cell, retired);

	c->a = c->b = DEAD;
	free(c);
	atomic_fetch_add(&world.n_freed, 1);
}

static struct cell *
cell_new(uint64_t value)
{
	struct cell *c = calloc(1, sizeof(*c));

	c->a = c->b = value;
	return c;
}

static void *
writer_main(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg;

	for (uint64_t i = 1; i <= N_CHANGES; i++) {
		struct cell *old = atomic_exchange_explicit(
			&world.cells[rand_r(&seed) % N_CELLS], cell_new(i),
			memory_order_acq_rel);

		epoch_retire(&world.epoch, &old->retired, on_cell_free);
		if (i % 64 == 0)
			sched_yield();
	}
	atomic_fetch_sub(&world.n_writers, 1);
	return NULL;
}

static void
look(unsigned *seed)
{
	struct cell *held[4];

	for (int i = 0; i < 4; i++)
		held[i] = atomic_load_explicit(
			&world.cells[rand_r(seed) % N_CELLS],
			memory_order_acquire);
	for (int i = 0; i < 4; i++)
		if (held[i]->a != held[i]->b || held[i]->a == DEAD)
			atomic_fetch_add(&world.n_broken, 1);
}

static void *
reader_main(void *arg)
{
	struct epoch_reader *r = arg;
	unsigned seed = (unsigned)(r - world.readers) + 77;

	epoch_online(&world.epoch, r);
	while (atomic_load(&world.n_writers) > 0) {
		look(&seed);
		if (rand_r(&seed) % 4 == 0) {
			epoch_offline(r);
			if (rand_r(&seed) % 8 == 0)
				sched_yield();
			epoch_online(&world.epoch, r);
		} else {
			epoch_quiescent(&world.epoch, r);
		}
	}
	epoch_offline(r);
	return NULL;
}

static void
test_stress_readers_never_see_freed_memory(void **state)
{
	pthread_t threads[N_READERS + N_WRITERS];
	int n = 0;

	(void)state;
	epoch_init(&world.epoch);
	atomic_store(&world.n_writers, N_WRITERS);
	for (int i = 0; i < N_CELLS; i++)
		atomic_store(&world.cells[i], cell_new(1));
	for (int i = 0; i < N_READERS; i++) {
		epoch_join(&world.epoch, &world.readers[i]);
		pthread_create(
			&threads[n++], NULL, reader_main, &world.readers[i]);
	}
	for (uintptr_t i = 0; i < N_WRITERS; i++)
		pthread_create(&threads[n++], NULL, writer_main, (void *)i);
	while (n > 0)
		pthread_join(threads[--n], NULL);
	for (int i = 0; i < N_READERS; i++)
		epoch_leave(&world.epoch, &world.readers[i]);
	epoch_collect(&world.epoch);
	assert_int_equal(atomic_load(&world.n_broken), 0);
	assert_int_equal(atomic_load(&world.n_freed), N_WRITERS * N_CHANGES);
	for (int i = 0; i < N_CELLS; i++)
		free(atomic_load(&world.cells[i]));
	epoch_deinit(&world.epoch);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_without_readers_it_is_freed_at_once),
		cmocka_unit_test(test_many_retired_do_not_pile_up),
		cmocka_unit_test(
			test_an_online_reader_holds_it_until_quiescent),
		cmocka_unit_test(test_each_reader_must_have_moved_on),
		cmocka_unit_test(test_a_reader_that_left_holds_nothing_up),
		cmocka_unit_test(test_what_was_retired_later_stays),
		cmocka_unit_test(test_join_refuses_one_reader_too_many),
		cmocka_unit_test(test_stress_readers_never_see_freed_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

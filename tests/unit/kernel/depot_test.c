/* daemon/kernel/depot.c */
#include "kernel/depot.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SLAB = 2 << 20 };

static int
setup(void **state)
{
	static struct depot depot;

	depot_init(&depot);
	*state = &depot;
	return 0;
}

static int
teardown(void **state)
{
	depot_deinit(*state);
	return 0;
}

static void
test_each_size_has_the_least_class_that_holds_it(void **state)
{
	(void)state;
	for (size_t size = 1; size <= DEPOT_BLOCK_MAX; size++) {
		unsigned class = depot_class(size);

		assert_in_range(class, 0, DEPOT_CLASSES - 1);
		assert_true(depot_sizes[class] >= size);
		assert_true(!class || depot_sizes[class - 1] < size);
	}
	assert_int_equal(depot_class(DEPOT_BLOCK_MAX + 1), DEPOT_CLASSES);
}

static uint32_t
count(const struct depot_block *chain)
{
	uint32_t n = 0;

	for (; chain; chain = chain->next)
		n++;
	return n;
}

static void
test_fresh_blocks_lie_in_order(void **state)
{
	for (unsigned class = 0; class < DEPOT_CLASSES; class ++) {
		uint32_t n;
		struct depot_block *first = depot_take(*state, class, &n);

		assert_int_equal(n, DEPOT_BATCH);
		assert_int_equal(count(first), n);
		for (const struct depot_block *b = first; b->next; b = b->next)
			assert_int_equal((uintptr_t)b->next - (uintptr_t)b,
				depot_sizes[class]);
		depot_return(first);
	}
}

static void
test_a_batch_that_was_given_is_taken_again(void **state)
{
	struct depot *d = *state;
	uint32_t n;
	struct depot_block *batch = depot_take(d, 3, &n);

	depot_give(d, 3, batch);
	assert_int_equal(d->kept, DEPOT_BATCH * (size_t)depot_sizes[3]);
	assert_ptr_equal(depot_take(d, 3, &n), batch);
	assert_int_equal(n, DEPOT_BATCH);
	assert_int_equal(d->kept, 0);
	depot_return(batch);
}

/* As many of the largest as fill some slabs. */
static struct depot_block *
take_many(struct depot *d, unsigned class, uint32_t most, uint32_t *total)
{
	struct depot_block *all = NULL;

	*total = 0;
	while (*total < most) {
		uint32_t n;
		struct depot_block *batch = depot_take(d, class, &n);

		assert_non_null(batch);
		*total += n;
		while (batch) {
			struct depot_block *next = batch->next;

			memset(batch, 0xa5, depot_sizes[class]);
			batch->next = all;
			all = batch;
			batch = next;
		}
	}
	return all;
}

static void
test_slabs_that_nobody_uses_go(void **state)
{
	enum { CLASS = DEPOT_CLASSES - 1, N = 5 * SLAB / DEPOT_BLOCK_MAX };
	struct depot *d = *state;

	for (int round = 0; round < 3; round++) {
		uint32_t n;
		struct depot_block *all = take_many(d, CLASS, N, &n);

		assert_in_range(n, N, N + DEPOT_BATCH);
		assert_in_range(d->n_slabs[CLASS], 5, 6);
		depot_return(all);
		assert_int_equal(d->n_slabs[CLASS], 1);
	}
}

static void
test_what_is_returned_of_a_used_slab_is_taken_again(void **state)
{
	enum { CLASS = DEPOT_CLASSES - 1, N = 2 * SLAB / DEPOT_BLOCK_MAX };
	struct depot *d = *state;
	uint32_t n, slabs;
	struct depot_block *all = take_many(d, CLASS, N, &n), *kept = NULL;

	slabs = d->n_slabs[CLASS];
	for (int i = 0; all; i++) { /* every other one */
		struct depot_block *b = all;

		all = b->next;
		if (i % 2) {
			b->next = kept;
			kept = b;
		} else {
			b->next = NULL;
			depot_return(b);
		}
	}
	all = take_many(d, CLASS, N / 2 - DEPOT_BATCH, &n);
	assert_int_equal(d->n_slabs[CLASS], slabs);
	depot_return(all);
	depot_return(kept);
	assert_int_equal(d->n_slabs[CLASS], 1);
}

static void
test_what_is_kept_is_bounded(void **state)
{
	enum { CLASS = DEPOT_CLASSES - 1, MANY = 70 << 20 };
	struct depot *d = *state;
	struct depot_block *batches = NULL, *rests[MANY / SLAB + 1];
	uint32_t n, n_rests = 0;

	for (size_t size = 0; size < MANY;
		size += DEPOT_BATCH * (size_t)DEPOT_BLOCK_MAX) {
		struct depot_block *batch = depot_take(d, CLASS, &n);

		if (n < DEPOT_BATCH) { /* the rest of a slab */
			rests[n_rests++] = batch;
			continue;
		}
		batch->batch = batches;
		batches = batch;
	}
	while (batches) {
		struct depot_block *batch = batches;

		batches = batch->batch;
		depot_give(d, CLASS, batch);
	}
	assert_in_range(d->kept, DEPOT_KEPT_MAX / 2, DEPOT_KEPT_MAX);
	while (n_rests)
		depot_return(rests[--n_rests]);
	assert_true((size_t)d->n_slabs[CLASS] * SLAB <=
		    DEPOT_KEPT_MAX + 3 * (size_t)SLAB);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_each_size_has_the_least_class_that_holds_it),
		TEST(test_fresh_blocks_lie_in_order),
		TEST(test_a_batch_that_was_given_is_taken_again),
		TEST(test_slabs_that_nobody_uses_go),
		TEST(test_what_is_returned_of_a_used_slab_is_taken_again),
		TEST(test_what_is_kept_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

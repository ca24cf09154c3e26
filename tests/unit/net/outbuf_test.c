/* The output buffer: what goes in comes out, at a bounded cost. */
#include <stdlib.h>
#include <string.h>

#include "fixture.h"
#include "net/outbuf.h"

static void
test_an_empty_one_holds_nothing(void **state)
{
	struct outbuf_pool pool = {0};
	struct outbuf b = {0};
	const uint8_t *first;

	(void)state;
	first = outbuf_reserve(&b, &pool, 10);
	assert_non_null(first);
	b.end += 10;
	outbuf_consume(&b, &pool, 10);
	assert_null(b.data);
	assert_int_equal(pool.n_small, 1);
	assert_ptr_equal(outbuf_reserve(&b, &pool, 10), first);
	outbuf_deinit(&b, &pool);
	outbuf_pool_deinit(&pool);
}

static void
test_the_pool_keeps_few_blocks(void **state)
{
	struct outbuf_pool pool = {0};
	struct outbuf b[OUTBUF_SMALLS + 5] = {{0}};

	(void)state;
	for (unsigned i = 0; i < OUTBUF_SMALLS + 5; i++)
		assert_non_null(outbuf_reserve(&b[i], &pool, 100));
	for (unsigned i = 0; i < OUTBUF_SMALLS + 5; i++)
		outbuf_deinit(&b[i], &pool);
	assert_int_equal(pool.n_small, OUTBUF_SMALLS);
	assert_int_equal(pool.n, 0);
	for (unsigned i = 0; i < OUTBUF_SPARES + 5; i++)
		assert_non_null(outbuf_reserve(&b[i], &pool, 5000));
	for (unsigned i = 0; i < OUTBUF_SPARES + 5; i++)
		outbuf_deinit(&b[i], &pool);
	assert_int_equal(pool.n, OUTBUF_SPARES);
	outbuf_pool_deinit(&pool);
}

static void
test_bytes_keep_their_order(void **state)
{
	struct outbuf_pool pool = {0};
	struct outbuf b = {0};
	uint8_t in = 0, out = 0;
	size_t most = 0;

	(void)state;
	srand(1);
	for (int i = 0; i < 20000; i++) {
		size_t n = (size_t)rand() % 3000;
		uint8_t *p = outbuf_reserve(&b, &pool, n);

		assert_non_null(p);
		for (size_t j = 0; j < n; j++)
			p[j] = in++;
		b.end += n;
		n = (size_t)rand() % 3200;
		if (n > outbuf_size(&b))
			n = outbuf_size(&b);
		for (size_t j = 0; j < n; j++)
			assert_int_equal(b.data[b.start + j], out++);
		if (outbuf_size(&b) > most)
			most = outbuf_size(&b);
		if (n)
			outbuf_consume(&b, &pool, n);
		assert_true(b.room <= 4 * most + OUTBUF_BLOCK);
	}
	outbuf_deinit(&b, &pool);
	outbuf_pool_deinit(&pool);
}

/* Most turns of most connections write few bytes: those cost no more. */
static void
test_few_bytes_take_a_small_block(void **state)
{
	struct outbuf_pool pool = {0};
	struct outbuf b = {0};

	(void)state;
	assert_non_null(outbuf_reserve(&b, &pool, 100));
	memset(b.data, 'x', 100);
	b.end += 100;
	assert_int_equal(b.room, OUTBUF_SMALL);
	assert_non_null(outbuf_reserve(&b, &pool, OUTBUF_SMALL));
	assert_int_equal(b.room, OUTBUF_BLOCK);
	assert_int_equal(outbuf_size(&b), 100);
	assert_int_equal(b.data[b.start + 99], 'x');
	assert_int_equal(pool.n_small, 1);
	outbuf_deinit(&b, &pool);
	outbuf_pool_deinit(&pool);
}

/* A reader that keeps up, but is always behind. */
static void
test_a_buffer_that_stays_full_is_seldom_moved(void **state)
{
	struct outbuf_pool pool = {0};
	struct outbuf b = {0};
	const uint8_t *data;
	size_t start;
	unsigned moves = 0;

	(void)state;
	assert_non_null(outbuf_reserve(&b, &pool, 250000));
	b.end += 250000;
	data = b.data;
	start = b.start;
	for (int i = 0; i < 100000; i++) {
		assert_non_null(outbuf_reserve(&b, &pool, 100));
		moves += b.data != data || b.start != start;
		b.end += 100;
		outbuf_consume(&b, &pool, 100);
		data = b.data;
		start = b.start;
	}
	assert_in_range(moves, 1, 50); /* of 10 MB in 250 KB */
	assert_true(b.room <= 1 << 20);
	outbuf_deinit(&b, &pool);
	outbuf_pool_deinit(&pool);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_an_empty_one_holds_nothing),
		cmocka_unit_test(test_the_pool_keeps_few_blocks),
		cmocka_unit_test(test_bytes_keep_their_order),
		cmocka_unit_test(test_few_bytes_take_a_small_block),
		cmocka_unit_test(test_a_buffer_that_stays_full_is_seldom_moved),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

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
	outbuf_add(&b, 10);
	outbuf_consume(&b, &pool, 10);
	assert_null(b.first);
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

/* Memory of its blocks. */
static size_t
room(const struct outbuf *b)
{
	size_t n = 0;

	for (const struct outblock *at = b->first; at; at = at->next)
		n += at->room;
	return n;
}

/* Take @n bytes out, each one higher than the one before. */
static void
take(struct outbuf *b, struct outbuf_pool *pool, size_t n, uint8_t *next)
{
	while (n) {
		struct iovec parts[OUTBUF_PARTS];
		size_t n_parts = 0;
		size_t got = outbuf_parts(b, 0, n, parts, &n_parts);

		assert_in_range(got, 1, n);
		assert_in_range(n_parts, 1, OUTBUF_PARTS);
		for (size_t i = 0; i < n_parts; i++)
			for (size_t j = 0; j < parts[i].iov_len; j++)
				assert_int_equal(
					((uint8_t *)parts[i].iov_base)[j],
					(*next)++);
		outbuf_consume(b, pool, got);
		n -= got;
	}
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
		size_t n = (size_t)rand() % (i % 1000 ? 3000 : 200000);
		uint8_t *p = outbuf_reserve(&b, &pool, n);

		assert_non_null(p);
		for (size_t j = 0; j < n; j++)
			p[j] = in++;
		outbuf_add(&b, n);
		n = (size_t)rand() % 3600;
		if (n > outbuf_size(&b))
			n = outbuf_size(&b);
		if (outbuf_size(&b) > most)
			most = outbuf_size(&b);
		take(&b, &pool, n, &out);
		assert_true(room(&b) <= 2 * most + 2 * OUTBUF_BLOCK);
	}
	take(&b, &pool, outbuf_size(&b), &out);
	assert_int_equal(in, out);
	assert_null(b.first);
	outbuf_pool_deinit(&pool);
}

/* What stands before a large payload, and what stands behind it. */
static void
test_parts_begin_where_they_are_wanted(void **state)
{
	struct outbuf_pool pool = {0};
	struct outbuf b = {0};
	struct iovec parts[2 * OUTBUF_PARTS];
	size_t n = 0;

	(void)state;
	for (int i = 0; i < 3; i++) {
		uint8_t *p = outbuf_reserve(&b, &pool, 60000);

		memset(p, 'a' + i, 60000);
		outbuf_add(&b, 60000);
	}
	assert_int_equal(outbuf_parts(&b, 0, 60001, parts, &n), 60001);
	assert_int_equal(n, 2);
	assert_int_equal(parts[1].iov_len, 1);
	assert_int_equal(outbuf_parts(&b, 60001, 119999, parts, &n), 119999);
	assert_int_equal(n, 4);
	assert_int_equal(parts[2].iov_len, 59999);
	assert_int_equal(*(uint8_t *)parts[2].iov_base, 'b');
	assert_int_equal(*(uint8_t *)parts[3].iov_base, 'c');
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
	memset(b.first->data, 'x', 100);
	outbuf_add(&b, 100);
	assert_true(room(&b) < OUTBUF_SMALL);
	assert_non_null(outbuf_reserve(&b, &pool, OUTBUF_SMALL));
	assert_in_range(room(&b), OUTBUF_BLOCK, OUTBUF_BLOCK + OUTBUF_SMALL);
	outbuf_deinit(&b, &pool);
	assert_int_equal(pool.n_small, 1);
	assert_int_equal(pool.n, 1);
	outbuf_pool_deinit(&pool);
}

/* A reader that keeps up, but is always behind. */
static void
test_what_was_written_is_never_moved(void **state)
{
	struct outbuf_pool pool = {0};
	struct outbuf b = {0};

	(void)state;
	for (int i = 0; i < 100000; i++) {
		const uint8_t *p = outbuf_reserve(&b, &pool, 100);
		struct iovec parts[OUTBUF_PARTS];
		size_t n = 0;

		assert_non_null(p);
		outbuf_add(&b, 100);
		outbuf_parts(&b, outbuf_size(&b) - 100, 100, parts, &n);
		assert_ptr_equal(parts[0].iov_base, p);
		if (i >= 2500)
			outbuf_consume(&b, &pool, 100);
		assert_true(room(&b) <= 250000 + 2 * OUTBUF_BLOCK);
	}
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
		cmocka_unit_test(test_parts_begin_where_they_are_wanted),
		cmocka_unit_test(test_what_was_written_is_never_moved),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

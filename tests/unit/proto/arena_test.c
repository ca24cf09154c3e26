/* proto/arena.c */
#include "proto/arena.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "eventd.pb-c.h"

static void
test_memory_is_zero_aligned_and_apart(void **state)
{
	struct arena a;
	unsigned char *all[200];

	(void)state;
	arena_init(&a, 1 << 20);
	for (size_t i = 0; i < 200; i++) {
		all[i] = arena_alloc(&a, i);
		assert_non_null(all[i]);
		assert_int_equal((uintptr_t)all[i] % 16, 0);
		for (size_t j = 0; j < i; j++)
			assert_int_equal(all[i][j], 0);
		memset(all[i], (int)i, i);
	}
	for (size_t i = 0; i < 200; i++)
		for (size_t j = 0; j < i; j++)
			assert_int_equal(all[i][j], i);
	arena_deinit(&a);
}

static void
test_memory_is_zero_again_after_reset(void **state)
{
	struct arena a;
	unsigned char *p;

	(void)state;
	arena_init(&a, 1 << 20);
	memset(arena_alloc(&a, 1000), 0xff, 1000);
	arena_reset(&a);
	p = arena_alloc(&a, 1000);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(p[i], 0);
	arena_deinit(&a);
}

static void
test_the_limit_is_on_what_is_handed_out(void **state)
{
	struct arena a;

	(void)state;
	arena_init(&a, 10000);
	assert_null(arena_alloc(&a, 10001));
	assert_null(arena_alloc(&a, SIZE_MAX));
	assert_non_null(arena_alloc(&a, 6000));
	assert_null(arena_alloc(&a, 4001));
	assert_non_null(arena_alloc(&a, 3500));
	assert_null(arena_alloc(&a, 3500));
	arena_reset(&a);
	assert_non_null(arena_alloc(&a, 9984));
	arena_deinit(&a);
}

static void
test_an_empty_limit_gives_nothing(void **state)
{
	struct arena a;

	(void)state;
	arena_init(&a, 0);
	assert_null(arena_alloc(&a, 1));
	arena_reset(&a);
	arena_deinit(&a);
}

static void
test_reset_keeps_no_large_block(void **state)
{
	struct arena a;

	(void)state;
	arena_init(&a, 64 << 20);
	assert_non_null(arena_alloc(&a, ARENA_KEEP_MAX + 1));
	arena_reset(&a);
	assert_null(a.blocks);
	assert_int_equal(a.used, 0);
	arena_deinit(&a);
}

/* A frame whose one request has @n headers of a delay. */
static size_t
pack_delay(uint8_t *out, size_t n)
{
	static Eventd__V1__Header headers[100], *list[100];
	Eventd__V1__Delay delay = EVENTD__V1__DELAY__INIT;
	Eventd__V1__Request request = EVENTD__V1__REQUEST__INIT;

	for (size_t i = 0; i < n; i++) {
		eventd__v1__header__init(&headers[i]);
		headers[i].name = (char *)"name";
		list[i] = &headers[i];
	}
	delay.alias = (char *)"somebody";
	delay.n_headers = n;
	delay.headers = list;
	request.verb_case = EVENTD__V1__REQUEST__VERB_DELAY;
	request.delay = &delay;
	return eventd__v1__request__pack(&request, out);
}

static void
test_protobuf_unpacks_into_it(void **state)
{
	struct arena a;
	ProtobufCAllocator allocator;
	Eventd__V1__Request *request;
	uint8_t data[4096];
	size_t size = pack_delay(data, 100);

	(void)state;
	arena_init(&a, 1 << 20);
	allocator = arena_allocator(&a);
	for (int i = 0; i < 3; i++) {
		request = eventd__v1__request__unpack(&allocator, size, data);
		assert_non_null(request);
		assert_string_equal(request->delay->alias, "somebody");
		assert_int_equal(request->delay->n_headers, 100);
		assert_string_equal(request->delay->headers[99]->name, "name");
		arena_reset(&a);
	}
	arena_deinit(&a);
}

/* Whatever the limit cuts off, protobuf-c fails without a trace. */
static void
test_protobuf_fails_cleanly_at_any_limit(void **state)
{
	uint8_t data[4096];
	size_t size = pack_delay(data, 40);
	int n_failed = 0;

	(void)state;
	for (size_t limit = 0; limit < 20000; limit += 16) {
		struct arena a;
		ProtobufCAllocator allocator;

		arena_init(&a, limit);
		allocator = arena_allocator(&a);
		if (!eventd__v1__request__unpack(&allocator, size, data))
			n_failed++;
		arena_deinit(&a);
	}
	assert_true(n_failed > 100);
	assert_true(n_failed < 20000 / 16);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_memory_is_zero_aligned_and_apart),
		cmocka_unit_test(test_memory_is_zero_again_after_reset),
		cmocka_unit_test(test_the_limit_is_on_what_is_handed_out),
		cmocka_unit_test(test_an_empty_limit_gives_nothing),
		cmocka_unit_test(test_reset_keeps_no_large_block),
		cmocka_unit_test(test_protobuf_unpacks_into_it),
		cmocka_unit_test(test_protobuf_fails_cleanly_at_any_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

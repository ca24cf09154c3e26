/* daemon/base/pages.c */
#include "base/pages.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

static bool
is_there(uint8_t *page)
{
	unsigned char in_core = 0;

	assert_int_equal(mincore(page, 1, &in_core), 0);
	return in_core & 1;
}

static void
test_what_is_mapped_is_aligned_empty_and_zero(void **state)
{
	const size_t size = 2 * (size_t)PAGES_HUGE;
	uint8_t *at = pages_map(size);

	(void)state;
	assert_non_null(at);
	assert_int_equal((uintptr_t)at % PAGES_HUGE, 0);
	assert_false(is_there(at));
	assert_int_equal(at[0] | at[size - 1], 0);
	at[size - 1] = 1;
	pages_unmap(at, size);
}

/* Whole pages only: what lies beside is somebody else's. */
static void
test_no_more_is_expected_than_was_said(void **state)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *at = pages_map(PAGES_HUGE);

	(void)state;
	assert_non_null(at);
	at[2 * page] = 7;
	errno = 5;
	pages_expect(at + 1, 3 * page);
	pages_expect(at + 1, 1); /* no page at all */
	assert_int_equal(errno, 5);
	assert_false(is_there(at));
	assert_false(is_there(at + 3 * page));
	assert_int_equal(at[2 * page], 7);
	pages_unmap(at, PAGES_HUGE);
}

/* Advice that the system cannot take does no harm. */
static void
test_it_is_but_advice(void **state)
{
	static uint8_t bytes[PAGES_HUGE / 16];

	(void)state;
	memset(bytes, 3, sizeof(bytes));
	errno = 5;
	pages_are_huge(bytes, sizeof(bytes));
	pages_expect(bytes, sizeof(bytes));
	assert_int_equal(errno, 5);
	for (size_t i = 0; i < sizeof(bytes); i++)
		assert_int_equal(bytes[i], 3);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_mapped_is_aligned_empty_and_zero),
		cmocka_unit_test(test_no_more_is_expected_than_was_said),
		cmocka_unit_test(test_it_is_but_advice),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* daemon/base/err.h and err.c */
#include "base/err.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static unsigned n_freed;

static int *
thing_free(int *thing)
{
	n_freed += (unsigned)*thing;
	return NULL;
}
CLEANUP_DEFINE(int *, thing_free)

static int *
leave_with(int *thing, int hand_over)
{
	CLEANUP(thing_free) int *mine = thing;

	return hand_over ? TAKE(mine) : NULL;
}

static void
test_cleanup_frees_unless_taken(void **state)
{
	int thing = 3;

	(void)state;
	n_freed = 0;
	assert_ptr_equal(leave_with(&thing, 1), &thing);
	assert_int_equal(n_freed, 0);
	assert_null(leave_with(&thing, 0));
	assert_int_equal(n_freed, 3);
	assert_null(leave_with(NULL, 0));
	assert_int_equal(n_freed, 3);
}

static void
test_raise_remembers_where(void **state)
{
	int line;

	(void)state;
	line = __LINE__ + 1;
	assert_int_equal(err_raise(-EIO), -EIO);
	assert_int_equal(err_last.line, line);
	assert_non_null(strstr(err_last.file, "err_test.c"));
	assert_int_equal(err_pass(-EIO), -EIO);
	assert_int_equal(err_last.line, line);
}

static void
test_fold_makes_a_positive_code_an_error(void **state)
{
	(void)state;
	assert_int_equal(err_fold(0), 0);
	assert_int_equal(err_fold(-EIO), -EIO);
	assert_int_equal(err_fold(1), -ENOTRECOVERABLE);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cleanup_frees_unless_taken),
		cmocka_unit_test(test_raise_remembers_where),
		cmocka_unit_test(test_fold_makes_a_positive_code_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Patterns of names: one star at most, bounds, and what they match. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "pattern.h"

enum { MAX = 255, HUGE_SIZE = 64 << 10 };

static bool
matches(const char *pattern, const char *name)
{
	assert_true(pattern_is_valid(pattern, strlen(pattern), MAX));
	return pattern_matches(pattern, strlen(pattern), name, strlen(name));
}

static bool
valid(const char *pattern)
{
	return pattern_is_valid(pattern, strlen(pattern), MAX);
}

static void
test_a_star_stands_for_anything(void **state)
{
	(void)state;
	assert_true(matches("*", "a"));
	assert_true(matches("*", "a.b/c"));
	assert_true(matches("a.*", "a.b"));
	assert_true(matches("a.*", "a.b.c/d"));
	assert_true(matches("a.*", "a."));
	assert_true(matches("*.log", "x.log"));
	assert_true(matches("a.*.log", "a.b.c.log"));
	assert_false(matches("a.*", "a"));
	assert_false(matches("a.*", "ab.c"));
	assert_false(matches("a.*", "A.b"));
	assert_false(matches("*.log", "x.logs"));
}

/* What stands before the star and behind it does not overlap. */
static void
test_the_sides_of_a_star_are_apart(void **state)
{
	(void)state;
	assert_true(matches("ab*bc", "abbc"));
	assert_false(matches("ab*bc", "abc"));
	assert_false(matches("aa*aa", "aaa"));
}

/* B73: exact is exact. */
static void
test_without_a_star_it_is_one_name(void **state)
{
	(void)state;
	assert_true(matches("a.b", "a.b"));
	assert_false(matches("a.b", "a.b.c"));
	assert_false(matches("a.b", "a.bc"));
	assert_false(matches("a.b", "A.B"));
	assert_false(pattern_matches("a.b", 3, "a.b\0x", 5));
}

/* B74 */
static void
test_hostile_patterns_are_refused(void **state)
{
	char *huge = malloc(HUGE_SIZE);

	(void)state;
	assert_non_null(huge);
	memset(huge, '*', HUGE_SIZE);
	assert_false(pattern_is_valid(huge, HUGE_SIZE, MAX));
	memset(huge, 'a', HUGE_SIZE);
	assert_false(pattern_is_valid(huge, HUGE_SIZE, MAX));
	huge[MAX - 1] = '*';
	assert_false(pattern_is_valid(huge, MAX + 1, MAX));
	assert_true(pattern_is_valid(huge, MAX, MAX));
	assert_true(pattern_matches(huge, MAX, huge, MAX - 1));
	free(huge);
	assert_false(valid(""));
	assert_false(valid("**"));
	assert_false(valid("a.*.*"));
	assert_false(valid("a b"));
	assert_false(valid("a?*"));
	assert_false(valid("*\n"));
	assert_false(pattern_is_valid("a\0*", 3, MAX));
	assert_false(pattern_is_valid("*\0a", 3, MAX));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_star_stands_for_anything),
		cmocka_unit_test(test_the_sides_of_a_star_are_apart),
		cmocka_unit_test(test_without_a_star_it_is_one_name),
		cmocka_unit_test(test_hostile_patterns_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

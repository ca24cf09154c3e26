/* daemon/ordering.c: After= and Order= as edges, and what is wrong. */
#include "ordering.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config_file.h"
#include "kernel/spec.h"

enum { MOST = 16 };

struct set {
	struct session_spec *specs[MOST];
	size_t n;
	struct config_errors errors;
};

static int
setup(void **state)
{
	*state = calloc(1, sizeof(struct set));
	return 0;
}

static int
teardown(void **state)
{
	struct set *set = *state;

	for (size_t i = 0; i < set->n; i++)
		spec_unref(set->specs[i]);
	config_errors_deinit(&set->errors);
	free(set);
	return 0;
}

static struct session_spec *
add(struct set *set, const char *name, const char *after)
{
	struct session_spec *s = set->specs[set->n++] = spec_new();
	char words[64], *rest = words, *word;

	assert_non_null(s);
	s->name = strdup(name);
	s->kind = strdup("lua");
	snprintf(words, sizeof(words), "%s", after);
	while ((word = strsep(&rest, " ")))
		if (*word)
			assert_int_equal(spec_add_after(s, word), 0);
	return s;
}

static struct session_spec *
member(struct set *set, const char *name, const char *group, int order)
{
	struct session_spec *s = add(set, name, "");

	s->group = strdup(group);
	s->order = order;
	return s;
}

/* "a<b b<c": the edges, in the order they were made. */
static const char *
edges_of(struct set *set)
{
	static char text[256];
	struct start_edge *e;
	size_t n, size = 0;

	text[0] = '\0';
	assert_int_equal(ordering_edges(set->specs, set->n, &e, &n), 0);
	for (size_t i = 0; i < n; i++)
		size += (size_t)snprintf(text + size, sizeof(text) - size,
			"%s%s<%s", i ? " " : "", set->specs[e[i].before]->name,
			set->specs[e[i].after]->name);
	free(e);
	return text;
}

static const char *
wrong(struct set *set)
{
	assert_int_equal(ordering_check(set->specs, set->n, &set->errors), 0);
	assert_true(set->errors.n <= 1);
	return set->errors.n ? set->errors.lines[0] : "";
}

static void
test_files_and_aliases_are_named(void **state)
{
	struct set *set = *state;

	add(set, "a", "");
	assert_int_equal(spec_add_alias(set->specs[0], "db"), 0);
	assert_int_equal(spec_add_alias(set->specs[0], "a"), 0);
	add(set, "b", "a");
	add(set, "c", "db b");
	assert_string_equal(edges_of(set), "a<b a<c b<c");
	assert_string_equal(wrong(set), "");
}

static void
test_a_group_starts_in_its_order(void **state)
{
	struct set *set = *state;

	member(set, "a", "g", 3);
	member(set, "b", "g", 0);
	member(set, "c", "g", -1);
	member(set, "d", "g", 3);
	member(set, "e", "other", 0); /* nobody there has Order= */
	member(set, "f", "other", 0);
	assert_string_equal(edges_of(set), "c<b b<a a<d");
	assert_string_equal(wrong(set), "");
}

static void
test_names_of_nobody_are_told(void **state)
{
	struct set *set = *state;

	add(set, "a", "nobody");
	assert_non_null(strstr(wrong(set), "After=nobody"));
}

static void
test_a_way_round_is_told_with_its_names(void **state)
{
	struct set *set = *state;

	add(set, "a", "c");
	add(set, "b", "a");
	add(set, "c", "b");
	add(set, "d", "c"); /* only behind it */
	add(set, "e", "");
	assert_non_null(strstr(wrong(set), "wait for each other"));
	assert_true(
		strstr(set->errors.lines[0], ": a after c after b after a") ||
		strstr(set->errors.lines[0], ": b after a after c after b") ||
		strstr(set->errors.lines[0], ": c after b after a after c"));
	assert_null(strstr(set->errors.lines[0], "d after"));
}

static void
test_one_may_not_wait_for_itself(void **state)
{
	struct set *set = *state;

	add(set, "a", "a");
	assert_non_null(strstr(wrong(set), ": a after a"));
}

static void
test_after_against_order_is_a_way_round(void **state)
{
	struct set *set = *state;

	member(set, "a", "g", 1);
	member(set, "b", "g", 2);
	assert_int_equal(spec_add_after(set->specs[0], "b"), 0);
	assert_non_null(strstr(wrong(set), "wait for each other"));
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_files_and_aliases_are_named),
		T(test_a_group_starts_in_its_order),
		T(test_names_of_nobody_are_told),
		T(test_a_way_round_is_told_with_its_names),
		T(test_one_may_not_wait_for_itself),
		T(test_after_against_order_is_a_way_round),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

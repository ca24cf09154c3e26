/* daemon/kernel/spec.c */
#include "kernel/spec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void
test_new_has_the_defaults_and_no_names(void **state)
{
	struct session_spec *spec = spec_new();

	(void)state;
	assert_null(spec->name);
	assert_null(spec->kind);
	assert_int_equal(spec->n_aliases, 0);
	assert_int_equal(spec->max_events, SPEC_MAX_EVENTS);
	assert_int_equal(spec->max_bytes, SPEC_MAX_BYTES);
	assert_int_equal(spec->overflow, OVERFLOW_BLOCK);
	assert_int_equal(spec->restart, RESTART_ON_FAILURE);
	assert_int_equal(spec->restart_ms, SPEC_RESTART_MS);
	assert_int_equal(spec->restart_max_ms, SPEC_RESTART_MAX_MS);
	assert_int_equal(spec->restart_burst, SPEC_RESTART_BURST);
	assert_int_equal(spec->restart_window_ms, SPEC_RESTART_WINDOW_MS);
	assert_int_equal(spec->memory_max, SPEC_MEMORY_MAX);
	assert_int_equal(spec->handler_ms, SPEC_HANDLER_MS);
	assert_int_equal(spec->loop, -1);
	assert_null(spec_unref(spec));
}

static void
test_aliases_are_copied_in_order(void **state)
{
	struct session_spec *spec = spec_new();
	char alias[] = "one";

	(void)state;
	assert_int_equal(spec_add_alias(spec, alias), 0);
	alias[0] = 'x';
	assert_int_equal(spec_add_alias(spec, "two"), 0);
	assert_int_equal(spec->n_aliases, 2);
	assert_string_equal(spec->aliases[0], "one");
	assert_string_equal(spec->aliases[1], "two");
	spec_unref(spec);
}

static void
test_the_last_of_equal_params_counts(void **state)
{
	struct session_spec *spec = spec_new();

	(void)state;
	assert_null(spec_param(spec, "a"));
	assert_int_equal(spec_add_param(spec, "a", "1"), 0);
	assert_int_equal(spec_add_param(spec, "b", ""), 0);
	assert_int_equal(spec_add_param(spec, "a", "2"), 0);
	assert_string_equal(spec_param(spec, "a"), "2");
	assert_string_equal(spec_param(spec, "b"), "");
	assert_null(spec_param(spec, "c"));
	assert_int_equal(spec->n_params, 3);
	spec_unref(spec);
}

static void
test_it_lives_until_the_last_reference_goes(void **state)
{
	struct session_spec *spec = spec_new();

	(void)state;
	assert_int_equal(spec_add_alias(spec, "kept"), 0);
	assert_ptr_equal(spec_ref(spec), spec);
	assert_null(spec_unref(spec));
	assert_string_equal(spec->aliases[0], "kept");
	assert_int_equal(atomic_load(&spec->refs), 1);
	assert_null(spec_unref(spec));
	assert_null(spec_unref(NULL));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_new_has_the_defaults_and_no_names),
		cmocka_unit_test(test_aliases_are_copied_in_order),
		cmocka_unit_test(test_the_last_of_equal_params_counts),
		cmocka_unit_test(test_it_lives_until_the_last_reference_goes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

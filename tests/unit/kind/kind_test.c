#include "rig.h"

static void
test_kinds_by_word(void **state)
{
	(void)state;
	assert_ptr_equal(kind_find("lua"), &kind_lua);
	assert_ptr_equal(kind_find("native"), &kind_native);
	assert_null(kind_find("client"));
	assert_null(kind_find(""));
	assert_null(kind_find("Lua"));
}

static void
test_words_name_every_kind(void **state)
{
	(void)state;
	assert_non_null(strstr(kind_words(), kind_lua.kind));
	assert_non_null(strstr(kind_words(), kind_native.kind));
}

static void
test_thread_may_be_prepared_twice_and_ended_twice(void **state)
{
	(void)state;
	assert_int_equal(kind_thread_init(), 0);
	assert_int_equal(kind_thread_init(), 0);
	kind_thread_deinit();
	kind_thread_deinit();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kinds_by_word),
		cmocka_unit_test(test_words_name_every_kind),
		cmocka_unit_test(
			test_thread_may_be_prepared_twice_and_ended_twice),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

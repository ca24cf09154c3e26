/* client/ctl/table.c. */
#include "table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const titles[] = {"NAME", ">N", "LAST"};

static char *
shown(const struct table *t, bool with_titles, bool color)
{
	static char text[1024];
	FILE *f = fmemopen(text, sizeof(text), "w");

	memset(text, 0, sizeof(text));
	assert_int_equal(table_write(t, f, with_titles, color), 0);
	fclose(f);
	return text;
}

static void
test_columns_are_as_wide_as_their_cells(void **state)
{
	struct table t;

	(void)state;
	table_init(&t, titles, 3);
	table_add(&t, "\xc3\xa9l\xc3\xa9phant");
	table_addf(&t, "%d", 7);
	table_add(&t, "x");
	table_add(&t, "ox");
	table_addf(&t, "%d", 1234);
	table_add(&t, "");
	assert_string_equal(shown(&t, true, false),
		"NAME         N  LAST\n"
		"\xc3\xa9l\xc3\xa9phant     7  x\n"
		"ox        1234  -\n");
	table_deinit(&t);
}

static void
test_no_titles_if_not_wanted(void **state)
{
	struct table t;

	(void)state;
	table_init(&t, titles, 3);
	assert_string_equal(shown(&t, false, false), "");
	assert_string_equal(shown(&t, true, false), "NAME  N  LAST\n");
	table_deinit(&t);
}

static void
test_cells_are_escaped_and_coloured(void **state)
{
	struct table t;

	(void)state;
	table_init(&t, titles, 3);
	table_add(&t, "\033[2J");
	table_add(&t, "1");
	table_add_style(&t, "failed", TABLE_BAD);
	assert_string_equal(
		shown(&t, false, true), "\\x1b[2J  1  \033[31mfailed\033[0m\n");
	assert_string_equal(shown(&t, false, false), "\\x1b[2J  1  failed\n");
	table_deinit(&t);
}

static void
test_many_rows(void **state)
{
	struct table t;
	FILE *f = fopen("/dev/null", "w");

	(void)state;
	table_init(&t, titles, 3);
	for (int i = 0; i < 3000; i++)
		table_addf(&t, "%d", i);
	assert_int_equal(t.n_cells, 3000);
	assert_int_equal(table_write(&t, f, true, false), 0);
	fclose(f);
	table_deinit(&t);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_columns_are_as_wide_as_their_cells),
		cmocka_unit_test(test_no_titles_if_not_wanted),
		cmocka_unit_test(test_cells_are_escaped_and_coloured),
		cmocka_unit_test(test_many_rows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

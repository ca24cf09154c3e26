/* daemon/base/logline.c */
#include "base/logline.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void
assert_cleaned(const char *line, const char *expected)
{
	char copy[256];

	snprintf(copy, sizeof(copy), "%s", line);
	logline_clean(copy);
	assert_string_equal(copy, expected);
}

static void
test_clean_keeps_plain_and_foreign_text(void **state)
{
	(void)state;
	assert_cleaned("", "");
	assert_cleaned("a=1 b=\"x y\"", "a=1 b=\"x y\"");
	assert_cleaned("Zw\xc3\xb6lf \xe2\x82\xac \xf0\x9f\x90\xa7",
		"Zw\xc3\xb6lf \xe2\x82\xac \xf0\x9f\x90\xa7");
}

static void
test_clean_keeps_it_one_line(void **state)
{
	(void)state;
	assert_cleaned("one\ntwo\tthree\rfour", "one two three?four");
	assert_cleaned("a\xe2\x80\xa8"
		       "b",
		"a???b"); /* line separator */
}

static void
test_clean_disarms_terminal_controls(void **state)
{
	(void)state;
	assert_cleaned("\x1b[2J\x7f\x07", "?[2J??");
	assert_cleaned("\xc2\x9b"
		       "2J",
		"??2J"); /* CSI as UTF-8 */
	assert_cleaned("a\xe2\x80\xae"
		       "b",
		"a???b"); /* right to left */
	assert_cleaned("a\xe2\x80\x8f"
		       "b",
		"a???b");
	assert_cleaned("a\xe2\x81\xa6"
		       "b",
		"a???b");
}

static void
test_clean_replaces_what_is_not_utf8(void **state)
{
	(void)state;
	assert_cleaned("\xff\xfe"
		       "a",
		"??a");
	assert_cleaned("\x80"
		       "a",
		"?a");
	assert_cleaned("\xc3", "?"); /* cut short */
	assert_cleaned("\xe2\x82", "??");
	assert_cleaned("\xf0\x9f\x90"
		       "a",
		"???a");
	assert_cleaned("\xc0\xaf", "??"); /* over-long */
	assert_cleaned("\xe0\x80\xaf", "???");
	assert_cleaned("\xed\xa0\x80", "???");      /* a surrogate */
	assert_cleaned("\xf4\x90\x80\x80", "????"); /* beyond the last */
}

static void
assert_field(const struct logline_field *f, const char *key, const char *value)
{
	char text[256];

	snprintf(text, sizeof(text), "%.*s", (int)f->key_size, f->key);
	assert_string_equal(text, key);
	snprintf(text, sizeof(text), "%.*s", (int)f->value_size, f->value);
	assert_string_equal(text, value);
}

static void
test_split_finds_each_field(void **state)
{
	struct logline_field f[8];

	(void)state;
	assert_int_equal(logline_split("conn=%lu uid=%u reason=%s",
				 "conn=12 uid=1000 reason=gone", f, 8),
		3);
	assert_field(&f[0], "conn", "12");
	assert_field(&f[1], "uid", "1000");
	assert_field(&f[2], "reason", "gone");
}

static void
test_split_takes_quotes_off(void **state)
{
	struct logline_field f[8];

	(void)state;
	assert_int_equal(logline_split("reason=\"%s\" n=%d",
				 "reason=\"it broke\" n=1", f, 8),
		2);
	assert_field(&f[0], "reason", "it broke");
	assert_int_equal(f[0].value[-1], '"');
	assert_field(&f[1], "n", "1");
	assert_int_equal(f[1].value[-1], '=');
}

static void
test_split_keeps_spaces_and_empty_values(void **state)
{
	struct logline_field f[8];

	(void)state;
	assert_int_equal(
		logline_split("a=%s b=%s c=\"%s\"", "a= b=x y c=\"\"", f, 8),
		3);
	assert_field(&f[0], "a", "");
	assert_field(&f[1], "b", "x y");
	assert_field(&f[2], "c", "");
}

static void
test_split_takes_no_key_from_a_value(void **state)
{
	struct logline_field f[8];

	(void)state;
	assert_int_equal(logline_split("reason=\"%s\" uid=%d",
				 "reason=\"x\\\" uid=0 root=1 \" uid=7", f, 8),
		2);
	assert_field(&f[0], "reason", "x\\\" uid=0 root=1 ");
	assert_field(&f[1], "uid", "7");
	assert_int_equal(logline_split("reason=%s", "reason=a uid=0", f, 8), 1);
	assert_field(&f[0], "reason", "a uid=0");
}

static void
test_split_stops_where_a_line_was_cut(void **state)
{
	struct logline_field f[8];

	(void)state;
	assert_int_equal(logline_split("a=%s b=%s", "a=very long...", f, 8), 1);
	assert_field(&f[0], "a", "very long...");
	assert_int_equal(logline_split("a=\"%s\" b=%s", "a=\"ve...", f, 8), 1);
	assert_field(&f[0], "a", "\"ve...");
	assert_int_equal(logline_split("a=%s", "...", f, 8), 0);
}

static void
test_split_passes_over_other_words(void **state)
{
	struct logline_field f[8];

	(void)state;
	assert_int_equal(
		logline_split("went %s Xx=%d n=%d", "went off Xx=3 n=4", f, 8),
		1);
	assert_field(&f[0], "n", "4");
	assert_int_equal(
		logline_split("nothing here", "nothing here", f, 8), 0);
	assert_int_equal(logline_split("", "", f, 8), 0);
}

static void
test_split_fills_no_more_than_there_is_room(void **state)
{
	struct logline_field f[2];

	(void)state;
	assert_int_equal(
		logline_split("a=%d b=%d c=%d", "a=1 b=2 c=3", f, 2), 2);
	assert_field(&f[1], "b", "2");
}

/* These numbers are for ever: a catalog and people's filters use them. */
static void
test_message_ids_are_fixed_and_apart(void **state)
{
	char id[LOGLINE_ID_SIZE], other[LOGLINE_ID_SIZE];

	(void)state;
	logline_message_id("session.failed", id);
	assert_string_equal(id, "913612181b9b4b98b0ccc428fdd3dc46");
	logline_message_id("session.faile", other);
	assert_string_not_equal(id, other);
	assert_int_equal(id[12], '4'); /* looks like a random UUID */
	assert_non_null(strchr("89ab", id[16]));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_clean_keeps_plain_and_foreign_text),
		cmocka_unit_test(test_clean_keeps_it_one_line),
		cmocka_unit_test(test_clean_disarms_terminal_controls),
		cmocka_unit_test(test_clean_replaces_what_is_not_utf8),
		cmocka_unit_test(test_split_finds_each_field),
		cmocka_unit_test(test_split_takes_quotes_off),
		cmocka_unit_test(test_split_keeps_spaces_and_empty_values),
		cmocka_unit_test(test_split_takes_no_key_from_a_value),
		cmocka_unit_test(test_split_stops_where_a_line_was_cut),
		cmocka_unit_test(test_split_passes_over_other_words),
		cmocka_unit_test(test_split_fills_no_more_than_there_is_room),
		cmocka_unit_test(test_message_ids_are_fixed_and_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

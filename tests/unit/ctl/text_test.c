/* client/ctl/text.c: UTF-8, escapes, hexadecimal, base64. */
#include "text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static size_t
decoded(const char *text)
{
	uint32_t code;

	return utf8_decode(text, strlen(text), &code);
}

static void
test_utf8_takes_shortest_forms_alone(void **state)
{
	(void)state;
	assert_int_equal(decoded("a"), 1);
	assert_int_equal(decoded("\xc3\xa9"), 2);
	assert_int_equal(decoded("\xe2\x82\xac"), 3);
	assert_int_equal(decoded("\xf0\x9f\x98\x80"), 4);
	assert_int_equal(decoded("\xc0\xaf"), 0);         /* too long a form */
	assert_int_equal(decoded("\xe0\x80\xaf"), 0);     /* too */
	assert_int_equal(decoded("\xed\xa0\x80"), 0);     /* surrogate */
	assert_int_equal(decoded("\xf4\x90\x80\x80"), 0); /* past the last */
	assert_int_equal(decoded("\xe2\x82"), 0);         /* cut */
	assert_int_equal(decoded("\x80"), 0);
}

static void
test_text_has_no_control_characters(void **state)
{
	(void)state;
	assert_true(utf8_is_text("one\n\ttwo\r\n", 10));
	assert_true(utf8_is_text("", 0));
	assert_false(utf8_is_text("a\0b", 3));
	assert_false(utf8_is_text("\033[2J", 4));
	assert_false(utf8_is_text("\xc2\x9b", 2));          /* C1: CSI */
	assert_false(utf8_is_text("a\xe2\x80\xae\x62", 5)); /* right to left */
	assert_false(utf8_is_text("\xff\xfe", 2));
}

static char *
escaped(const void *data, size_t size, int flags)
{
	static char text[256];
	FILE *f = fmemopen(text, sizeof(text), "w");

	memset(text, 0, sizeof(text));
	escape_write(f, data, size, flags);
	fclose(f);
	return text;
}

static void
test_escapes_what_a_terminal_would_obey(void **state)
{
	(void)state;
	assert_string_equal(escaped("a\033]0;x\a", 7, 0), "a\\x1b]0;x\\x07");
	assert_string_equal(escaped("a\nb\tc\r\\", 7, 0), "a\\nb\\tc\\r\\\\");
	assert_string_equal(escaped("\0\xff", 2, 0), "\\x00\\xff");
	assert_string_equal(
		escaped("\xc3\xa9t\xc3\xa9", 5, 0), "\xc3\xa9t\xc3\xa9");
	assert_string_equal(escaped("\xc2\x9bm", 3, 0), "\\xc2\\x9bm");
	assert_string_equal(escaped("", 0, 0), "");
}

static void
test_escapes_keep_lines_if_asked(void **state)
{
	(void)state;
	assert_string_equal(escaped("a\n\tb\r\033", 6, ESCAPE_KEEP_LINES),
		"a\n\tb\\r\\x1b");
}

static void
check_base64(const char *data, size_t size, const char *text)
{
	char *encoded = base64_encode(data, size);

	assert_string_equal(encoded, text);
	assert_int_equal(base64_decode(encoded, strlen(encoded)), size);
	assert_memory_equal(encoded, data, size);
	free(encoded);
}

static void
test_base64_there_and_back(void **state)
{
	(void)state;
	check_base64("", 0, "");
	check_base64("f", 1, "Zg==");
	check_base64("fo", 2, "Zm8=");
	check_base64("foo", 3, "Zm9v");
	check_base64("foob", 4, "Zm9vYg==");
	check_base64("\xff\x00\xfe\x80", 4, "/wD+gA==");
}

static ptrdiff_t
decode64(const char *text)
{
	char copy[64];

	strcpy(copy, text);
	return base64_decode(copy, strlen(copy));
}

static void
test_base64_refuses_what_is_none(void **state)
{
	(void)state;
	assert_int_equal(decode64("Zm9v Yg\n"), 4); /* space, no padding */
	assert_int_equal(decode64("_-8"), 2);       /* the alphabet of URLs */
	assert_int_equal(decode64("Z"), -1);
	assert_int_equal(decode64("Zg="), -1);
	assert_int_equal(decode64("Zg==Zg=="), -1);
	assert_int_equal(decode64("Zm9v===="), -1);
	assert_int_equal(decode64("Zm!v"), -1);
}

static void
test_hex_decodes_pairs_alone(void **state)
{
	char text[] = "00fF 7f\n", odd[] = "123", bad[] = "0g";

	(void)state;
	assert_int_equal(hex_decode(text, strlen(text)), 3);
	assert_memory_equal(text, "\x00\xff\x7f", 3);
	assert_int_equal(hex_decode(odd, 3), -1);
	assert_int_equal(hex_decode(bad, 2), -1);
	assert_int_equal(hex_decode(bad, 0), 0);
}

static void
check_size(uint64_t size, const char *want)
{
	char text[32];

	size_format(size, text, sizeof(text));
	assert_string_equal(text, want);
}

static void
test_sizes_have_units(void **state)
{
	(void)state;
	check_size(0, "0 B");
	check_size(1023, "1023 B");
	check_size(1024, "1.0 KiB");
	check_size(1536, "1.5 KiB");
	check_size(16 << 20, "16.0 MiB");
	check_size(UINT64_MAX, "15.9 EiB");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_utf8_takes_shortest_forms_alone),
		cmocka_unit_test(test_text_has_no_control_characters),
		cmocka_unit_test(test_escapes_what_a_terminal_would_obey),
		cmocka_unit_test(test_escapes_keep_lines_if_asked),
		cmocka_unit_test(test_base64_there_and_back),
		cmocka_unit_test(test_base64_refuses_what_is_none),
		cmocka_unit_test(test_hex_decodes_pairs_alone),
		cmocka_unit_test(test_sizes_have_units),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Values of the configuration files. */
#include "config_value.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void
test_count_takes_digits_alone(void **state)
{
	uint64_t n = 7;

	(void)state;
	assert_int_equal(value_count("0", &n), 0);
	assert_int_equal(n, 0);
	assert_int_equal(value_count("18446744073709551615", &n), 0);
	assert_true(n == UINT64_MAX);
	assert_int_equal(
		value_count("18446744073709551616", &n), VALUE_E_RANGE);
	assert_int_equal(value_count("", &n), VALUE_E_FORM);
	assert_int_equal(value_count("-1", &n), VALUE_E_FORM);
	assert_int_equal(value_count("+1", &n), VALUE_E_FORM);
	assert_int_equal(value_count(" 1", &n), VALUE_E_FORM);
	assert_int_equal(value_count("1x", &n), VALUE_E_FORM);
	assert_int_equal(value_count("0x10", &n), VALUE_E_FORM);
	assert_true(n == UINT64_MAX); /* untouched by what is wrong */
}

static void
test_size_scales_by_1024(void **state)
{
	uint64_t n;

	(void)state;
	assert_int_equal(value_size("512", &n), 0);
	assert_int_equal(n, 512);
	assert_int_equal(value_size("3k", &n), 0);
	assert_int_equal(n, 3072);
	assert_int_equal(value_size("64M", &n), 0);
	assert_int_equal(n, 64 << 20);
	assert_int_equal(value_size("2G", &n), 0);
	assert_true(n == UINT64_C(2) << 30);
	assert_int_equal(value_size("1MB", &n), VALUE_E_FORM);
	assert_int_equal(value_size("M", &n), VALUE_E_FORM);
	assert_int_equal(value_size("1.5M", &n), VALUE_E_FORM);
	assert_int_equal(value_size("99999999999999T", &n), VALUE_E_RANGE);
}

static void
span_is(const char *text, uint64_t ms)
{
	uint64_t got = 0;

	assert_int_equal(value_span(text, &got), 0);
	assert_int_equal(got, ms);
}

static void
test_span_reads_what_systemd_reads(void **state)
{
	(void)state;
	span_is("5", 5000);
	span_is("5s", 5000);
	span_is("500ms", 500);
	span_is("2min", 120000);
	span_is("1h 30min", 5400000);
	span_is("1h30m", 5400000);
	span_is("1.5 h", 5400000);
	span_is("0.25s", 250);
	span_is("2 weeks", UINT64_C(1209600000));
	span_is("1d", 86400000);
	span_is("0", 0);
}

static void
test_span_rounds_up_to_a_millisecond(void **state)
{
	(void)state;
	span_is("1us", 1);
	span_is("1001us", 2);
}

static void
test_span_refuses_what_is_none(void **state)
{
	static const char *const wrong[] = {"", " ", "s", "5 parsecs", "-5s",
		"5s,", "1..5s", "1.s", "1,5s", "S", "5S", "infinity"};
	uint64_t ms;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		assert_int_equal(value_span(wrong[i], &ms), VALUE_E_FORM);
	assert_int_equal(value_span("99999999999999w", &ms), VALUE_E_RANGE);
	assert_int_equal(value_span("18446744073709s 1w", &ms), VALUE_E_RANGE);
}

static void
test_mode_is_octal(void **state)
{
	uint64_t mode;

	(void)state;
	assert_int_equal(value_mode("0660", &mode), 0);
	assert_int_equal(mode, 0660);
	assert_int_equal(value_mode("600", &mode), 0);
	assert_int_equal(mode, 0600);
	assert_int_equal(value_mode("1777", &mode), VALUE_E_FORM);
	assert_int_equal(value_mode("0680", &mode), VALUE_E_FORM);
	assert_int_equal(value_mode("66", &mode), VALUE_E_FORM);
	assert_int_equal(value_mode("rw-rw----", &mode), VALUE_E_FORM);
}

static void
test_nearest_finds_typos_alone(void **state)
{
	static const char *const words[] = {
		"Alias", "Kind", "Script", "RestartSec", "Restart", NULL};

	(void)state;
	assert_string_equal(value_nearest("Scirpt", words), "Script");
	assert_string_equal(value_nearest("script", words), "Script");
	assert_string_equal(value_nearest("Restrat", words), "Restart");
	assert_string_equal(value_nearest("RestartSecs", words), "RestartSec");
	assert_null(value_nearest("Environment", words));
	assert_null(value_nearest("Wetter", words));
}

static void
test_nearest_ignores_long_words(void **state)
{
	static const char *const words[] = {"Alias", NULL};
	char text[4096];

	(void)state;
	memset(text, 'A', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	assert_null(value_nearest(text, words));
}

static void
clean_is(const char *text, size_t size, size_t clean)
{
	assert_int_equal(value_clean_size(text, size), clean);
}

static void
test_clean_text_is_utf8_without_controls(void **state)
{
	(void)state;
	clean_is("a\tb", 3, 3);
	clean_is("gr\xc3\xbc\xc3\x9f", 6, 6);
	clean_is("\xf0\x9f\x90\x98", 4, 4);
	clean_is("a\0b", 3, 1);
	clean_is("a\x1b[0m", 5, 1);
	clean_is("a\x7f", 2, 1);
	clean_is("ab\xff", 3, 2);
	clean_is("\xc0\x80", 2, 0);         /* over-long NUL */
	clean_is("\xed\xa0\x80", 3, 0);     /* surrogate */
	clean_is("\xf4\x90\x80\x80", 4, 0); /* beyond Unicode */
	clean_is("\xe2\x82", 2, 0);         /* cut short */
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_count_takes_digits_alone),
		cmocka_unit_test(test_size_scales_by_1024),
		cmocka_unit_test(test_span_reads_what_systemd_reads),
		cmocka_unit_test(test_span_rounds_up_to_a_millisecond),
		cmocka_unit_test(test_span_refuses_what_is_none),
		cmocka_unit_test(test_mode_is_octal),
		cmocka_unit_test(test_nearest_finds_typos_alone),
		cmocka_unit_test(test_nearest_ignores_long_words),
		cmocka_unit_test(test_clean_text_is_utf8_without_controls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* client/ctl/when.c and span.c: times and spans. */
#include "when.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define XMAS INT64_C(1798131600) /* 2026-12-24 17:00 UTC */

static int64_t
span(const char *text)
{
	int64_t ns = -2;

	return span_parse(text, &ns) == 0 ? ns : -1;
}

static void
test_spans_as_systemd_writes_them(void **state)
{
	(void)state;
	assert_int_equal(span("5"), 5 * NS_PER_S);
	assert_int_equal(span("5s"), 5 * NS_PER_S);
	assert_int_equal(span("250ms"), 250 * NS_PER_MS);
	assert_int_equal(span("2min"), 120 * NS_PER_S);
	assert_int_equal(span("2m"), 120 * NS_PER_S);
	assert_int_equal(span("1h 30min"), 5400 * NS_PER_S);
	assert_int_equal(span("1h30min"), 5400 * NS_PER_S);
	assert_int_equal(span(" 1.5h "), 5400 * NS_PER_S);
	assert_int_equal(span("0.25s"), 250 * NS_PER_MS);
	assert_int_equal(span("100 us"), 100000);
	assert_int_equal(span("0"), 0);
	assert_int_equal(span("1w"), 604800 * NS_PER_S);
	assert_int_equal(span("1M"), 2630016 * NS_PER_S);
}

static void
test_spans_refuse_the_rest(void **state)
{
	static const char *const wrong[] = {"", " ", "s", "-5s", "5x", "1.s",
		".5s", "5s x", "1e3", "99999999999999999999", "300y",
		"9223372037s", "200y 200y", "infinity"};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(span(wrong[i]), -1);
}

static void
check_span(int64_t ns, const char *want)
{
	char text[WHEN_TEXT_SIZE];

	span_format(ns, text, sizeof(text));
	assert_string_equal(text, want);
}

static void
test_spans_are_written_short(void **state)
{
	(void)state;
	check_span(0, "0s");
	check_span(999, "999ns");
	check_span(45200, "45.2us");
	check_span(999970000, "999.9ms");
	check_span(NS_PER_S, "1s");
	check_span(2500 * NS_PER_MS, "2.5s");
	check_span(5400 * NS_PER_S, "1h 30min");
	check_span(3600 * NS_PER_S + 5 * NS_PER_S, "1h");
	check_span(-5 * NS_PER_S, "-5s");
	check_span(INT64_MIN, "-292y 98d");
}

static void
check_when(const char *text, int64_t want)
{
	int64_t ns = -1;
	const char *wrong = when_parse(text, &ns);

	if (wrong)
		fail_msg("%s: %s", text, wrong);
	assert_int_equal(ns, want);
}

static void
test_times_in_all_forms(void **state)
{
	(void)state;
	setenv("TZ", "Europe/Berlin", 1);
	tzset();
	check_when("2026-12-24T17:00:00Z", XMAS * NS_PER_S);
	check_when("2026-12-24t17:00:00z", XMAS * NS_PER_S);
	check_when("2026-12-24T18:00:00+01:00", XMAS * NS_PER_S);
	check_when("2026-12-24T13:30:00.5-0330", XMAS * NS_PER_S + 500000000);
	check_when("2026-12-24 18:00", XMAS * NS_PER_S);
	check_when("2026-12-24 18:00:01.000000001", (XMAS + 1) * NS_PER_S + 1);
	check_when("@1798131600", XMAS * NS_PER_S);
	check_when("@1798131600.25", XMAS * NS_PER_S + 250000000);
	check_when("@0", 0);
	check_when("2028-02-29 00:00", INT64_C(1835391600) * NS_PER_S);
	check_when("1960-01-01T00:00:00Z", INT64_C(-315619200) * NS_PER_S);
}

static void
test_times_that_are_none(void **state)
{
	static const char *const wrong[] = {"", "@", "@x", "@1.", "@-1",
		"tomorrow", "2026-12-24", "2026-12-24 18", "2026-13-01 00:00",
		"2026-02-30 12:00", "2026-02-29T00:00:00Z",
		"2026-12-24 24:00:00", "2026-12-24 18:00:61",
		"2026-12-24T18:00:00+25:00", "2026-12-24T18:00:00Zx",
		"2026-12-24 18:00:00.", "2026-00-10 00:00",
		"2300-01-01T00:00:00Z", "@99999999999",
		"@99999999999999999999999"};
	int64_t ns;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		if (!when_parse(wrong[i], &ns))
			fail_msg("'%s' was taken", wrong[i]);
}

/* On 2026-03-29 the clocks of Berlin go from 02:00 to 03:00. */
static void
test_a_local_time_that_clocks_skip(void **state)
{
	int64_t ns;

	(void)state;
	setenv("TZ", "Europe/Berlin", 1);
	tzset();
	assert_non_null(when_parse("2026-03-29 02:30", &ns));
	assert_null(when_parse("2026-03-29 03:30", &ns));
	assert_null(when_parse("2026-07-01 12:00", &ns));
	assert_int_equal(ns, INT64_C(1782900000) * NS_PER_S);
}

static void
test_times_are_written(void **state)
{
	char text[WHEN_TEXT_SIZE];

	(void)state;
	setenv("TZ", "Europe/Berlin", 1);
	tzset();
	when_format_utc(XMAS * NS_PER_S, text, sizeof(text));
	assert_string_equal(text, "2026-12-24T17:00:00Z");
	when_format_utc(XMAS * NS_PER_S + 7, text, sizeof(text));
	assert_string_equal(text, "2026-12-24T17:00:00.000000007Z");
	when_format_utc(-1, text, sizeof(text));
	assert_string_equal(text, "1969-12-31T23:59:59.999999999Z");
	when_format_local(XMAS * NS_PER_S, text, sizeof(text));
	assert_string_equal(text, "2026-12-24 18:00:00");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_spans_as_systemd_writes_them),
		cmocka_unit_test(test_spans_refuse_the_rest),
		cmocka_unit_test(test_spans_are_written_short),
		cmocka_unit_test(test_times_in_all_forms),
		cmocka_unit_test(test_times_that_are_none),
		cmocka_unit_test(test_a_local_time_that_clocks_skip),
		cmocka_unit_test(test_times_are_written),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

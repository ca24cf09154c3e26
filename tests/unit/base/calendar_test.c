/* daemon/base/calendar*.c: both syntaxes, the days on which clocks change, and
 * agreement with `systemd-analyze calendar` where that is installed. */
#include "base/calendar.h"

#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/zone.h"

#define US INT64_C(1000000)

static struct calendar *
calendar_of(const char *text, const char *zone)
{
	char error[CALENDAR_ERROR_SIZE] = "";
	struct calendar *c = NULL;
	int r = calendar_new(text, zone, NULL, &c, error);

	if (r)
		fail_msg("'%s' in %s: %d: %s", text, zone, r, error);
	return c;
}

/* "2026-03-29 01:30:00" in UTC, to seconds. */
static int64_t
utc(const char *text)
{
	int y, mo, d, h = 0, mi = 0, s = 0;

	assert_true(sscanf(text, "%d-%d-%d %d:%d:%d", &y, &mo, &d, &h, &mi,
			    &s) >= 3);
	return date_to_days(y, mo, d) * 86400 + h * 3600 + mi * 60 + s;
}

/* The first @n after @from, in UTC: "MM-DD hh:mm" each. */
static const char *
times(const char *calendar, const char *zone, const char *from, int n)
{
	static char text[4096];
	struct calendar *c = calendar_of(calendar, zone);
	int64_t at = utc(from) * US;
	size_t used = 0;

	text[0] = '\0';
	while (n-- > 0 && calendar_next(c, at, &at)) {
		time_t seconds = (time_t)(at / US);
		struct tm tm;

		gmtime_r(&seconds, &tm);
		used += strftime(text + used, sizeof(text) - used,
			used ? ", %m-%d %H:%M" : "%m-%d %H:%M", &tm);
		assert_true(used < sizeof(text) - 16);
	}
	calendar_unref(c);
	return text;
}

/* ---- what is a calendar ------------------------------------------------ */

static const char *const good[] = {"minutely", "HOURLY", "daily", "weekly",
	"monthly", "quarterly", "semiannually", "yearly", "annually", "Mon",
	"Mon,Wed..Fri", "Sat-Sun 10:00", "monday,tue 8:05:40", "2026-05-06",
	"05-06", "*-*-* 04:05", "*:0/15", "*-*~01", "*-*~01..07", "*-02~02/1",
	"2020..2030/2-*-1,15 00/6:30", "10-15..20 5..7:*:0,30", "@1700000000",
	"*:*:0/0.5", "12,14,13,12:20,10,30", "Mon 12-03", "Wed, 17:48",
	"*-*-* 00:00:00 UTC", "daily Europe/Berlin", "Fri 18:00 utc",
	"*/5 * * * *", "0 9 * * mon-fri", "30 2 1,15 * 0", "@daily",
	"0 0 * jan-mar sun", "5-55/10 8,12 * * 7", "* * * * *",
	"15 4 * * * America/New_York"};

static void
test_what_is_valid(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		calendar_unref(calendar_of(good[i], NULL));
}

static const struct {
	const char *text, *error;
} bad[] = {
	{"", "empty"},
	{"hourlyy", "number"},
	{"Mon..", "range of weekdays"},
	{"Fri..Mon", "Monday towards Sunday"},
	{"Mon..Wed..Fri", "two ends"},
	{"Mon,Foo", "no weekday"},
	{"25:00", "hour is from 0 to 23"},
	{"12:60", "minute is from 0 to 59"},
	{"12:00:60", "second is from 0 to 59"},
	{"*-13-01", "month is from 1 to 12"},
	{"*-00-01", "month is from 1 to 12"},
	{"1969-01-01", "year is from 1970 to 2199"},
	{"*-*-32", "day is from 1 to 31"},
	{"12:", "ends where a number"},
	{"12", "HOUR:MINUTE"},
	{"1-2-3-4", "YEAR-MONTH-DAY"},
	{"*~1-2", "before the day"},
	{"12:00/0", "every 0"},
	{"12:30..20", "one value"},
	{"12:00:00 junk", "'junk' is no time zone"},
	{"12:00 Nowhere/Land", "'Nowhere/Land' is no time zone"},
	{"12:00:5..5", "shorter than a second"},
	{"99999999999:00", "too large"},
	{"@12x", "seconds since 1970"},
	{"* * * *", "YEAR-MONTH-DAY"},
	{"60 * * * *", "minute is from 0 to 59"},
	{"* * 0 * *", "day is from 1 to 31"},
	{"*/0 * * * *", "step"},
	{"5-3 * * * *", "range goes down"},
	{"* * * foo *", "month is from"},
	{"1,,2 * * * *", "minute is from"},
	{"@reboot", "not known"},
};

static void
test_what_is_not_valid_is_told(void **state)
{
	char error[CALENDAR_ERROR_SIZE], *long_text;
	struct calendar *c = NULL;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		error[0] = '\0';
		assert_int_equal(
			calendar_new(bad[i].text, "UTC", NULL, &c, error),
			CALENDAR_E_TEXT);
		if (!strstr(error, bad[i].error))
			fail_msg("'%s': %s", bad[i].text, error);
	}
	assert_int_equal(calendar_new("daily", "Nowhere/Land", NULL, &c, error),
		CALENDAR_E_ZONE);
	assert_non_null(strstr(error, "Nowhere/Land"));
	assert_int_equal(calendar_new("daily", "../passwd", NULL, &c, error),
		CALENDAR_E_ZONE);
	assert_int_equal(
		calendar_new("daily Europe/Berlin", "UTC", NULL, &c, error),
		CALENDAR_E_TEXT);
	long_text = calloc(1, 5000);
	assert_non_null(long_text);
	memset(long_text, '1', 4999);
	assert_int_equal(calendar_new(long_text, "UTC", NULL, &c, error),
		CALENDAR_E_TEXT);
	for (int i = 0; i < 250; i++)
		memcpy(long_text + (size_t)i * 2, "1,", 2);
	strcpy(long_text + 500, "1:00");
	assert_int_equal(calendar_new(long_text, "UTC", NULL, &c, error), 0);
	calendar_unref(c);
	free(long_text);
}

static void
test_never(void **state)
{
	struct calendar *c;
	int64_t next;

	(void)state;
	c = calendar_of("*-02-30", "UTC");
	assert_false(calendar_next(c, 0, &next));
	calendar_unref(c);
	c = calendar_of("2020-01-01", "Europe/Berlin");
	assert_true(calendar_next(c, utc("2019-12-31") * US, &next));
	assert_false(calendar_next(c, next, &next));
	calendar_unref(c);
}

static void
test_crontab(void **state)
{
	(void)state;
	assert_string_equal(times("*/20 * * * *", "UTC", "2026-01-01", 4),
		"01-01 00:20, 01-01 00:40, 01-01 01:00, 01-01 01:20");
	assert_string_equal(times("30 9 * * mon-fri", "UTC", "2026-01-02", 3),
		"01-02 09:30, 01-05 09:30, 01-06 09:30");
	/* Day or weekday, if both are given. */
	assert_string_equal(times("0 0 13 * 5", "UTC", "2026-01-01", 4),
		"01-02 00:00, 01-09 00:00, 01-13 00:00, 01-16 00:00");
	assert_string_equal(times("0 12 */2 * 7", "UTC", "2026-01-01", 2),
		"01-11 12:00, 01-25 12:00");
	assert_string_equal(times("@weekly", "UTC", "2026-01-01", 2),
		"01-04 00:00, 01-11 00:00");
}

static void
test_fractions_of_a_second(void **state)
{
	struct calendar *c = calendar_of("*:*:0/0.25", "UTC");
	int64_t at = 0;

	(void)state;
	assert_true(calendar_next(c, 0, &at));
	assert_int_equal(at, 250000);
	assert_true(calendar_next(c, 59900000, &at));
	assert_int_equal(at, 60000000);
	calendar_unref(c);
}

/* ---- clocks that change: B32 ------------------------------------------- */

static void
test_a_daily_job_runs_after_the_gap(void **state)
{
	(void)state;
	/* 2026-03-29 02:00 becomes 03:00 in Berlin, at 01:00 UTC */
	assert_string_equal(
		times("30 2 * * *", "Europe/Berlin", "2026-03-27 12:00:00", 4),
		"03-28 01:30, 03-29 01:00, 03-30 00:30, 03-31 00:30");
	/* 2026-10-04 02:00 becomes 03:00 in Sydney */
	assert_string_equal(times("*-*-* 02:30", "Australia/Sydney",
				    "2026-10-02 20:00:00", 2),
		"10-03 16:00, 10-04 15:30");
	/* 2026-03-08 in New York */
	assert_string_equal(times("30 2 * * *", "America/New_York",
				    "2026-03-07 12:00:00", 2),
		"03-08 07:00, 03-09 06:30");
	/* half an hour is left out on Lord Howe, 02:00 to 02:30 */
	assert_string_equal(times("15 2 * * *", "Australia/Lord_Howe",
				    "2026-10-02 20:00:00", 2),
		"10-03 15:30, 10-04 15:15");
	/* 2011-12-30 was none in Apia: +13 and -11 meet at its start */
	assert_string_equal(
		times("0 12 * * *", "Pacific/Apia", "2011-12-29 00:00:00", 3),
		"12-29 22:00, 12-30 10:00, 12-30 22:00");
}

static void
test_a_daily_job_runs_once_in_a_doubled_hour(void **state)
{
	(void)state;
	/* 2026-10-25 03:00 becomes 02:00 in Berlin, at 01:00 UTC */
	assert_string_equal(
		times("30 2 * * *", "Europe/Berlin", "2026-10-24 12:00:00", 2),
		"10-25 00:30, 10-26 01:30");
	assert_string_equal(times("30 2 * * *", "Australia/Sydney",
				    "2026-04-03 20:00:00", 2),
		"04-04 15:30, 04-05 16:30");
	assert_string_equal(times("45 1 * * *", "Australia/Lord_Howe",
				    "2026-04-03 20:00:00", 2),
		"04-04 14:45, 04-05 15:15");
	assert_string_equal(times("*-*-* 01:30", "America/New_York",
				    "2026-10-31 12:00:00", 2),
		"11-01 05:30, 11-02 06:30");
}

static void
test_every_four_hours_loses_no_day(void **state)
{
	(void)state;
	assert_string_equal(
		times("02/4:30", "Europe/Berlin", "2026-03-28 20:00:00", 4),
		"03-28 21:30, 03-29 01:00, 03-29 04:30, 03-29 08:30");
	assert_string_equal(times("30 2-23/4 * * *", "Europe/Berlin",
				    "2026-10-24 20:00:00", 3),
		"10-24 20:30, 10-25 00:30, 10-25 05:30");
}

/* Each real minute and hour, on either day, in every zone. */
static void
test_minutely_and_hourly_run_by_real_time(void **state)
{
	static const char *const zones[] = {"Australia/Sydney", "Europe/Berlin",
		"America/New_York", "Australia/Lord_Howe", "Pacific/Apia"};

	(void)state;
	for (size_t i = 0; i < sizeof(zones) / sizeof(zones[0]); i++) {
		struct calendar *c = calendar_of("minutely", zones[i]);
		int64_t at = utc("2011-01-01") * US, next;

		for (int n = 0; n < 366 * 1440; n++) {
			assert_true(calendar_next(c, at, &next));
			if (next != at + 60 * US)
				fail_msg("%s: after %" PRId64, zones[i], at);
			at = next;
		}
		calendar_unref(c);
	}
	assert_string_equal(
		times("*:30", "Europe/Berlin", "2026-10-24 22:40:00", 4),
		"10-24 23:30, 10-25 00:30, 10-25 01:30, 10-25 02:30");
	assert_string_equal(
		times("*:30", "Europe/Berlin", "2026-03-28 23:40:00", 3),
		"03-29 00:30, 03-29 01:30, 03-29 02:30");
}

static void
test_rules_go_on_after_the_table(void **state)
{
	(void)state;
	assert_string_equal(
		times("0 12 * * *", "Europe/Berlin", "2150-03-28", 3),
		"03-28 11:00, 03-29 10:00, 03-30 10:00");
	assert_string_equal(
		times("0 12 * * *", "Australia/Sydney", "2150-04-04", 2),
		"04-04 01:00, 04-05 02:00");
}

/* ---- systemd-analyze --------------------------------------------------- */

enum { ITERATIONS = 6 };

/* What systemd says comes after @base: how many; -1: it refuses @text, -2: it
 * could not be asked. */
static int
oracle(const char *text, int64_t base, int64_t out[ITERATIONS])
{
	char command[1024], line[512];
	bool refused = false;
	FILE *pipe;
	int n = 0;

	snprintf(command, sizeof(command),
		"TZ=UTC LC_ALL=C systemd-analyze calendar --iterations=%d "
		"--base-time=@%" PRId64 " -- '%s' 2>&1",
		ITERATIONS, base, text);
	pipe = popen(command, "r");
	assert_non_null(pipe);
	while (fgets(line, sizeof(line), pipe)) {
		const char *at = strstr(line, ": ");
		struct tm tm = {0};
		char day[8];

		if (strstr(line, "Failed to parse calendar"))
			refused = true;
		if (!at ||
			!(strstr(line, "Next elapse") || strstr(line, "Iter")))
			continue;
		if (sscanf(at + 2, "%7s %d-%d-%d %d:%d:%d", day, &tm.tm_year,
			    &tm.tm_mon, &tm.tm_mday, &tm.tm_hour, &tm.tm_min,
			    &tm.tm_sec) != 7)
			continue; /* never */
		assert_true(n < ITERATIONS);
		out[n++] = date_to_days(tm.tm_year, tm.tm_mon, tm.tm_mday) *
				   86400 +
			   tm.tm_hour * 3600 + tm.tm_min * 60 + tm.tm_sec;
	}
	return pclose(pipe) == 0 ? n : refused ? -1 : -2;
}

static bool
oracle_is_missing(void)
{
	return system("systemd-analyze calendar --iterations=2 "
		      "--base-time=@0 daily >/dev/null 2>&1") != 0;
}

/* Does the zone's offset change between @from and @until? Then the rules
 * differ, on purpose. */
static bool
clocks_change(const char *zone, int64_t from, int64_t until)
{
	struct zone *z = zone_get(NULL, zone);
	struct zone_span span;

	assert_non_null(z);
	zone_at(z, from - 90000, &span);
	zone_unref(z);
	return span.until <= until + 90000;
}

/* Compare; returns whether it could be. */
static bool
agree(const char *text, const char *zone, int64_t base)
{
	char full[600], error[CALENDAR_ERROR_SIZE] = "";
	int64_t theirs[ITERATIONS], ours = base * US;
	struct calendar *c = NULL;
	int n, r;

	snprintf(full, sizeof(full), "%s %s", text, zone);
	n = oracle(full, base, theirs);
	if (n == -2)
		return false;
	r = calendar_new(text, zone, NULL, &c, error);
	if (n < 0 || r) {
		if ((n < 0) != (r != 0))
			fail_msg("'%s': systemd %s it, we: %s", text,
				n < 0 ? "refuses" : "takes", error);
		return true;
	}
	if (n && clocks_change(zone, base, theirs[n - 1])) {
		calendar_unref(c);
		return false;
	}
	for (int i = 0; i < n; i++) {
		if (!calendar_next(c, ours, &ours))
			fail_msg("'%s' %s after %" PRId64 ": systemd has %d, "
				 "we %d",
				text, zone, base, n, i);
		if (ours != theirs[i] * US)
			fail_msg("'%s' %s after %" PRId64 ", number %d: "
				 "systemd %" PRId64 ", we %" PRId64,
				text, zone, base, i, theirs[i], ours / US);
	}
	if (n < ITERATIONS && calendar_next(c, ours, &ours))
		fail_msg("'%s' %s after %" PRId64 ": systemd has %d, we more",
			text, zone, base, n);
	calendar_unref(c);
	return true;
}

static bool
crontab(const char *text)
{
	unsigned n = 0;

	for (; (text = strchr(text, ' ')); text++)
		n++;
	return n >= 4;
}

static void
test_systemd_agrees_on_a_table(void **state)
{
	static const char *const zones[] = {"UTC", "Australia/Sydney",
		"Europe/Berlin", "America/New_York", "Australia/Lord_Howe",
		"Pacific/Apia"};
	unsigned n = 0;

	(void)state;
	if (oracle_is_missing())
		skip();
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		if (crontab(good[i]) || good[i][0] == '@' ||
			strstr(good[i], "0.5") || strstr(good[i], "UTC") ||
			strstr(good[i], "Europe") || strstr(good[i], "utc"))
			continue; /* not in whole seconds, or with a zone */
		for (size_t z = 0; z < 6; z++)
			n += agree(good[i], zones[z], utc("2026-06-15"));
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (bad[i].text[0] != '@' && !strchr(bad[i].text, '*') &&
			bad[i].text[0])
			n += agree(bad[i].text, "UTC", 0);
	assert_true(n > 100);
}

/* ---- random calendars -------------------------------------------------- */

static uint32_t seed;

static int
roll(int from, int to)
{
	seed = seed * 1664525 + 1013904223;
	return from + (int)((seed >> 8) % (uint32_t)(to - from + 1));
}

/* A list of numbers, ranges and repetitions in [min, max]. */
static void
random_field(char **p, int min, int max)
{
	if (roll(0, 2) == 0) {
		*p += sprintf(*p, "*");
		return;
	}
	for (int n = roll(1, 2); n > 0; n--) {
		int a = roll(min, max), b = roll(a, max);

		if (roll(0, 2) == 0 && b > a)
			*p += sprintf(*p, "%d..%d", a, b);
		else
			*p += sprintf(*p, "%d", a);
		if (roll(0, 3) == 0)
			*p += sprintf(*p, "/%d", roll(1, 7));
		if (n > 1)
			*p += sprintf(*p, ",");
	}
}

static void
random_calendar(char *text)
{
	static const char *const week[] = {
		"Mon", "Tue..Fri", "Sat,Sun", "wednesday", "Mon,Thu..Sat"};
	char *p = text;
	bool tilde;

	if (roll(0, 3) == 0)
		p += sprintf(p, "%s ", week[roll(0, 4)]);
	if (roll(0, 4)) {
		if (roll(0, 2)) {
			random_field(&p, 2024, 2032);
			*p++ = '-';
		}
		random_field(&p, 1, 12);
		tilde = roll(0, 3) == 0;
		*p++ = tilde ? '~' : '-';
		if (tilde) /* systemd takes no lists there */
			p += sprintf(p, "%d", roll(1, 28));
		else
			random_field(&p, 1, 28);
		if (roll(0, 3) == 0 && tilde)
			p += sprintf(p, "/%d", roll(1, 7));
		*p++ = ' ';
	}
	random_field(&p, 0, 23);
	*p++ = ':';
	random_field(&p, 0, 59);
	if (roll(0, 1)) {
		*p++ = ':';
		random_field(&p, 0, 59);
	}
	*p = '\0';
}

static void
test_systemd_agrees_on_random_ones(void **state)
{
	static const char *const zones[] = {"UTC", "UTC", "Europe/Berlin",
		"Australia/Sydney", "America/New_York", "Pacific/Apia",
		"Australia/Lord_Howe"};
	unsigned n = 0, runs = 80;
	const char *more = getenv("CALENDAR_RUNS");
	char text[512];

	(void)state;
	if (oracle_is_missing())
		skip();
	seed = (uint32_t)time(NULL);
	print_message("seed %u\n", seed);
	if (more)
		runs = (unsigned)strtoul(more, NULL, 10);
	for (unsigned i = 0; i < runs; i++) {
		random_calendar(text);
		n += agree(text, zones[roll(0, 6)],
			utc("2024-05-01") + roll(0, 200000) * 600LL);
	}
	assert_true(n > runs / 4);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_valid),
		cmocka_unit_test(test_what_is_not_valid_is_told),
		cmocka_unit_test(test_never),
		cmocka_unit_test(test_crontab),
		cmocka_unit_test(test_fractions_of_a_second),
		cmocka_unit_test(test_a_daily_job_runs_after_the_gap),
		cmocka_unit_test(test_a_daily_job_runs_once_in_a_doubled_hour),
		cmocka_unit_test(test_every_four_hours_loses_no_day),
		cmocka_unit_test(test_minutely_and_hourly_run_by_real_time),
		cmocka_unit_test(test_rules_go_on_after_the_table),
		cmocka_unit_test(test_systemd_agrees_on_a_table),
		cmocka_unit_test(test_systemd_agrees_on_random_ones),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

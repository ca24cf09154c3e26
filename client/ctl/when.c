/* Points in time: see when.h. Any thread. */
#include "when.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define NOT_A_TIME                                                       \
	"not a time: write 2026-12-24T18:00:00Z, '2026-12-24 18:00' or " \
	"@1798131600"
#define NO_SUCH_TIME "there is no such time"

/* Exactly @n digits; returns behind them or NULL. */
static const char *
number(const char *p, int n, int *value)
{
	if (!p)
		return NULL;
	for (*value = 0; n > 0; n--, p++) {
		if (*p < '0' || *p > '9')
			return NULL;
		*value = *value * 10 + (*p - '0');
	}
	return p;
}

static const char *
literal(const char *p, const char *any_of)
{
	return p && *p && strchr(any_of, *p) ? p + 1 : NULL;
}

/* ".5" to nanoseconds, cut after 9 digits; without a point: 0. */
static const char *
fraction(const char *p, int64_t *ns)
{
	int64_t scale = NS_PER_S / 10;

	*ns = 0;
	if (!p || *p != '.')
		return p;
	if (p[1] < '0' || p[1] > '9')
		return NULL;
	for (p++; *p >= '0' && *p <= '9'; p++, scale /= 10)
		*ns += (*p - '0') * scale;
	return p;
}

static const char *
date_and_time(const char *p, struct tm *tm, int64_t *ns)
{
	p = number(p, 4, &tm->tm_year);
	p = number(literal(p, "-"), 2, &tm->tm_mon);
	p = number(literal(p, "-"), 2, &tm->tm_mday);
	p = number(literal(p, "Tt "), 2, &tm->tm_hour);
	p = number(literal(p, ":"), 2, &tm->tm_min);
	if (p && *p == ':')
		p = fraction(number(p + 1, 2, &tm->tm_sec), ns);
	if (!p)
		return NULL;
	tm->tm_year -= 1900;
	tm->tm_mon -= 1;
	return p;
}

/* Seconds east of UTC, from "Z", "+02:00", "-0330". */
static const char *
zone(const char *p, int *east)
{
	int sign = *p == '-' ? -1 : 1, hours, minutes;

	*east = 0;
	if (*p == 'Z' || *p == 'z')
		return p + 1;
	p = number(literal(p, "+-"), 2, &hours);
	if (p && *p == ':')
		p++;
	p = number(p, 2, &minutes);
	if (!p || hours > 23 || minutes > 59)
		return NULL;
	*east = sign * (hours * 3600 + minutes * 60);
	return p;
}

static bool
same_fields(const struct tm *a, const struct tm *b)
{
	return a->tm_year == b->tm_year && a->tm_mon == b->tm_mon &&
	       a->tm_mday == b->tm_mday && a->tm_hour == b->tm_hour &&
	       a->tm_min == b->tm_min && a->tm_sec == b->tm_sec;
}

static const char *
combine(int64_t seconds, int64_t fraction_ns, int64_t *ns)
{
	int64_t sum;

	if (__builtin_mul_overflow(seconds, NS_PER_S, &sum) ||
		__builtin_add_overflow(sum, fraction_ns, &sum))
		return "out of range: years 1678 to 2262 can be told";
	*ns = sum;
	return NULL;
}

/* mktime() and timegm() put 31 February right silently: we compare. */
static const char *
fields_to_ns(const struct tm *tm, const int *east, int64_t sub, int64_t *ns)
{
	struct tm asked = *tm;
	time_t t;

	asked.tm_isdst = -1;
	t = east ? timegm(&asked) : mktime(&asked);
	if (!same_fields(&asked, tm))
		return NO_SUCH_TIME;
	return combine(t - (east ? *east : 0), sub, ns);
}

static const char *
epoch_parse(const char *text, int64_t *ns)
{
	int64_t seconds = 0, sub;
	const char *p = text;

	for (; *p >= '0' && *p <= '9'; p++)
		if (__builtin_mul_overflow(seconds, 10, &seconds) ||
			__builtin_add_overflow(seconds, *p - '0', &seconds))
			return NO_SUCH_TIME;
	if (p == text)
		return NOT_A_TIME;
	p = fraction(p, &sub);
	if (!p || *p)
		return NOT_A_TIME;
	return combine(seconds, sub, ns);
}

const char *
when_parse(const char *text, int64_t *ns)
{
	struct tm tm = {0};
	int64_t sub = 0;
	const char *p;
	int east;

	if (*text == '@')
		return epoch_parse(text + 1, ns);
	p = date_and_time(text, &tm, &sub);
	if (!p)
		return NOT_A_TIME;
	if (!*p)
		return fields_to_ns(&tm, NULL, sub, ns);
	p = zone(p, &east);
	if (!p || *p)
		return NOT_A_TIME;
	return fields_to_ns(&tm, &east, sub, ns);
}

/* Seconds rounded down, and what is over: @ns may be before the epoch. */
static time_t
split(int64_t ns, int64_t *over)
{
	time_t seconds = ns / NS_PER_S;

	*over = ns % NS_PER_S;
	if (*over < 0) {
		*over += NS_PER_S;
		seconds--;
	}
	return seconds;
}

void
when_format_utc(int64_t ns, char *text, size_t size)
{
	int64_t over;
	time_t seconds = split(ns, &over);
	char whole[32];
	struct tm tm;

	gmtime_r(&seconds, &tm);
	strftime(whole, sizeof(whole), "%Y-%m-%dT%H:%M:%S", &tm);
	if (over)
		snprintf(text, size, "%s.%09" PRId64 "Z", whole, over);
	else
		snprintf(text, size, "%sZ", whole);
}

void
when_format_local(int64_t ns, char *text, size_t size)
{
	int64_t over;
	time_t seconds = split(ns, &over);
	struct tm tm;

	localtime_r(&seconds, &tm);
	if (strftime(text, size, "%Y-%m-%d %H:%M:%S", &tm) == 0)
		*text = '\0';
}

int64_t
when_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

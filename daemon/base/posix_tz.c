/* POSIX time zone rules, with the extensions of RFC 8536: hours of -167 to
 * 167. Pure. */
#include "base/posix_tz.h"

#include <string.h>

#include "base/zone.h"

enum { HOURS_MAX = 167, DAY = 86400 };

/* Up to three digits; NULL: there are none. */
static const char *
parse_number(const char *p, int *value)
{
	unsigned n = 0;

	if (!p)
		return NULL;
	for (*value = 0; n < 3 && p[n] >= '0' && p[n] <= '9'; n++)
		*value = *value * 10 + (p[n] - '0');
	return n ? p + n : NULL;
}

/* [+-]h[:m[:s]] */
static const char *
parse_time(const char *p, int32_t *seconds)
{
	int sign = *p == '-' ? -1 : 1, hours = 0, minutes = 0, rest = 0;

	if (*p == '-' || *p == '+')
		p++;
	p = parse_number(p, &hours);
	if (p && *p == ':')
		p = parse_number(p + 1, &minutes);
	if (p && *p == ':')
		p = parse_number(p + 1, &rest);
	if (!p || hours > HOURS_MAX || minutes > 59 || rest > 59)
		return NULL;
	*seconds = sign * (hours * 3600 + minutes * 60 + rest);
	return p;
}

/* "CET" or "<+0330>": its letters do not matter. */
static const char *
parse_name(const char *p)
{
	const char *start = p;

	if (*p == '<') {
		p = strchr(p, '>');
		return p ? p + 1 : NULL;
	}
	while ((*p >= 'A' && *p <= 'Z') || (*p >= 'a' && *p <= 'z'))
		p++;
	return p - start >= 3 ? p : NULL;
}

static const char *
parse_month_day(const char *p, struct posix_tz_day *d)
{
	p = parse_number(p, &d->month);
	if (!p || *p != '.')
		return NULL;
	p = parse_number(p + 1, &d->week);
	if (!p || *p != '.')
		return NULL;
	p = parse_number(p + 1, &d->day);
	if (d->month < 1 || d->month > 12 || d->week < 1 || d->week > 5 ||
		d->day > 6)
		return NULL;
	return p;
}

static const char *
parse_day(const char *p, struct posix_tz_day *d)
{
	*d = (struct posix_tz_day){.form = '0', .time = 2 * 3600};
	if (*p == 'M' || *p == 'J')
		d->form = *p++;
	if (d->form == 'M')
		p = parse_month_day(p, d);
	else
		p = parse_number(p, &d->day);
	if (!p || (d->form == 'J' && d->day < 1) || d->day > 365)
		return NULL;
	return *p == '/' ? parse_time(p + 1, &d->time) : p;
}

bool
posix_tz_parse(const char *text, struct posix_tz *tz)
{
	const char *p = parse_name(text);
	int32_t west;

	memset(tz, 0, sizeof(*tz));
	p = p ? parse_time(p, &west) : NULL;
	if (!p)
		return false;
	tz->offset = -west;
	if (!*p)
		return true;
	tz->dst_offset = tz->offset + 3600;
	p = parse_name(p);
	if (p && *p && *p != ',') {
		p = parse_time(p, &west);
		tz->dst_offset = -west;
	}
	if (!p || *p != ',')
		return false;
	p = parse_day(p + 1, &tz->start);
	if (!p || *p != ',')
		return false;
	p = parse_day(p + 1, &tz->end);
	tz->has_dst = p && !*p;
	return tz->has_dst;
}

/* Local seconds since the epoch of the moment that @d means in @year. */
static int64_t
moment(const struct posix_tz_day *d, int64_t year)
{
	int64_t days;
	int weekday, last;

	if (d->form == 'M') {
		days = date_to_days(year, d->month, 1);
		weekday = (int)((days % 7 + 11) % 7); /* of the first */
		days += (d->day - weekday + 7) % 7 + 7 * (d->week - 1);
		last = date_month_days(year, d->month);
		if (days >= date_to_days(year, d->month, 1) + last)
			days -= 7;
	} else {
		days = date_to_days(year, 1, 1) + d->day;
		if (d->form == 'J') /* it never counts a leap day */
			days -= date_month_days(year, 2) == 28 || d->day < 60;
	}
	return days * DAY + d->time;
}

void
posix_tz_year(const struct posix_tz *tz, int64_t year,
	struct posix_tz_change changes[2])
{
	struct posix_tz_change start = {
		moment(&tz->start, year) - tz->offset, tz->dst_offset};
	struct posix_tz_change end = {
		moment(&tz->end, year) - tz->dst_offset, tz->offset};

	changes[0] = start.at < end.at ? start : end;
	changes[1] = start.at < end.at ? end : start;
}

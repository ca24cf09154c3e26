/* Calendars as systemd.time(7) writes them: the grammar of systemd 252, whose
 * rules about what is valid are kept, so that what one accepts the other does.
 * Pure. */
#include <ctype.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/calendar.h"

enum { MICROSECONDS = 1000000, DIGITS_MAX = 9 };

static const struct field_rule {
	const char *name;
	int32_t min, max;
} rules[CALENDAR_FIELDS] = {
	[CALENDAR_YEAR] = {"year", 1970, CALENDAR_YEAR_MAX},
	[CALENDAR_MONTH] = {"month", 1, 12},
	[CALENDAR_DAY] = {"day", 1, 31},
	[CALENDAR_HOUR] = {"hour", 0, 23},
	[CALENDAR_MINUTE] = {"minute", 0, 59},
	[CALENDAR_MICROSECOND] = {"second", 0, 60 * MICROSECONDS - 1},
};

/* ---- words ------------------------------------------------------------- */

static const struct shorthand {
	const char *word, *text;
} shorthands[] = {
	{"minutely", "*-*-* *:*:00"}, {"hourly", "*-*-* *:00:00"},
	{"daily", "*-*-* 00:00:00"}, {"weekly", "Mon *-*-* 00:00:00"},
	{"monthly", "*-*-01 00:00:00"},
	{"quarterly", "*-01,04,07,10-01 00:00:00"},
	{"semiannually", "*-01,07-01 00:00:00"},
	{"semi-annually", "*-01,07-01 00:00:00"},
	{"biannually", "*-01,07-01 00:00:00"},
	{"bi-annually", "*-01,07-01 00:00:00"}, {"yearly", "*-01-01 00:00:00"},
	{"annually", "*-01-01 00:00:00"},
	{"anually", "*-01-01 00:00:00"}, /* systemd takes that, too */
};

static const char *
expand(const char *text)
{
	for (size_t i = 0; i < sizeof(shorthands) / sizeof(*shorthands); i++)
		if (strcasecmp(text, shorthands[i].word) == 0)
			return shorthands[i].text;
	return text;
}

static const char *const days[] = {"Monday", "Tuesday", "Wednesday", "Thursday",
	"Friday", "Saturday", "Sunday"};

/* The day at @p, and behind it; -1: none. */
static int
take_weekday(const char **p)
{
	for (int i = 0; i < 7; i++) {
		size_t full = strlen(days[i]);
		size_t n = strncasecmp(*p, days[i], full) == 0 ? full
			   : strncasecmp(*p, days[i], 3) == 0  ? 3
							       : 0;

		if (n && strchr("-., ", (*p)[n])) { /* or its end */
			*p += n;
			return i;
		}
	}
	return -1;
}

/* "Mon,Wed..Fri " */
static bool
read_weekdays(struct calendar_draft *d, const char **text)
{
	const char *p = *text;
	int from = -1, day;

	while ((day = take_weekday(&p)) >= 0) {
		if (from > day)
			return calendar_wrong(d,
				"a range of weekdays goes from Monday towards "
				"Sunday");
		for (int i = from >= 0 ? from : day; i <= day; i++)
			d->weekdays |= (uint8_t)(1u << i);
		if (from >= 0 && *p && *p != ',' && *p != ' ')
			return calendar_wrong(
				d, "a range of weekdays has two ends");
		from = -1;
		if (p[0] == '.' && p[1] == '.') {
			from = day;
			p += 2;
		} else if (*p == '-') {
			from = day;
			p++;
		} else if (*p == ',') {
			p++;
		}
		*text = p;
		if (!*p || *p == ' ')
			break;
	}
	*text = p + strspn(p, " ");
	if (from >= 0)
		return calendar_wrong(
			d, "the range of weekdays has no end at '%s'", p);
	if (d->weekdays && day < 0)
		return calendar_wrong(d, "there is no weekday at '%s'", p);
	return true;
}

/* ---- numbers ----------------------------------------------------------- */

/* Digits, and with @fraction up to six more of a second, in microseconds. */
static bool
read_decimal(struct calendar_draft *d, const char **text, bool fraction,
	int32_t *value)
{
	const char *p = *text;
	int64_t n = 0;
	int32_t unit = MICROSECONDS;

	if (!isdigit((unsigned char)*p))
		return calendar_wrong(d,
			*p ? "a number is missing at '%s'"
			   : "it ends where a number is due%s",
			p);
	for (; isdigit((unsigned char)*p); p++) {
		n = n * 10 + (*p - '0');
		if (p - *text >= DIGITS_MAX)
			return calendar_wrong(
				d, "too large a number: %s", *text);
	}
	if (fraction)
		n *= MICROSECONDS;
	if (fraction && *p == '.' && isdigit((unsigned char)p[1])) {
		for (p++; isdigit((unsigned char)*p) && unit > 1; p++)
			n += (*p - '0') * (unit /= 10);
		if (isdigit((unsigned char)*p) && *p >= '5')
			n++;
		p += strspn(p, "0123456789");
	}
	if (n > INT32_MAX)
		return calendar_wrong(d, "too large a number: %s", *text);
	*value = (int32_t)n;
	*text = p;
	return true;
}

/* "start[..stop][/repeat]" */
static bool
read_part(struct calendar_draft *d, const char **text, bool fraction,
	struct calendar_part *part)
{
	*part = (struct calendar_part){.stop = -1};
	if (!read_decimal(d, text, fraction, &part->start))
		return false;
	if ((*text)[0] == '.' && (*text)[1] == '.') {
		*text += 2;
		part->repeat = fraction ? MICROSECONDS : 1;
		if (!read_decimal(d, text, fraction, &part->stop))
			return false;
	}
	if (**text == '/') {
		++*text;
		if (!read_decimal(d, text, fraction, &part->repeat))
			return false;
		if (part->repeat == 0)
			return calendar_wrong(d, "nothing repeats every 0");
	} else if (fraction && part->stop >= 0 &&
		   part->start + part->repeat > part->stop) {
		return calendar_wrong(d, "the range is shorter than a second");
	}
	if (**text && !strchr(" ,-~:", **text))
		return calendar_wrong(
			d, "'%c' has no meaning at '%s'", **text, *text);
	return true;
}

/* What stands in one place, not yet known to be of which field. */
struct chain {
	struct calendar_part parts[CALENDAR_PARTS_MAX];
	unsigned n; /* 0: all */
};

static bool
read_chain(struct calendar_draft *d, const char **text, bool fraction,
	struct chain *chain)
{
	chain->n = 0;
	if (**text == '*') {
		++*text;
		if (fraction)
			chain->parts[chain->n++] =
				(struct calendar_part){0, -1, MICROSECONDS};
		return true;
	}
	for (;;) {
		if (chain->n == CALENDAR_PARTS_MAX)
			return calendar_wrong(d, "too long a list");
		if (!read_part(d, text, fraction, &chain->parts[chain->n++]))
			return false;
		if (**text != ',')
			return true;
		++*text;
	}
}

/* ---- what is valid ----------------------------------------------------- */

static int32_t
full_year(int32_t year)
{
	if (year >= 0 && year < 70)
		return year + 2000;
	return year >= 70 && year < 100 ? year + 1900 : year;
}

static bool
in_bounds(struct calendar_draft *d, enum calendar_field field, int32_t value)
{
	const struct field_rule *rule = &rules[field];
	int32_t unit = field == CALENDAR_MICROSECOND ? MICROSECONDS : 1;

	if (value >= rule->min && value <= rule->max)
		return true;
	return calendar_wrong(d, "a %s is from %d to %d, not %d", rule->name,
		(int)rule->min, (int)(rule->max / unit), (int)(value / unit));
}

/* A range that has room for its start alone is that. */
static void
simplify(struct calendar_part *p)
{
	if (p->stop != p->start &&
		!(p->stop > p->start && p->repeat > p->stop - p->start))
		return;
	p->stop = -1;
	p->repeat = 0;
}

/* A repetition comes at least once more. */
static bool
repeats(const struct calendar_part *p, const struct field_rule *rule,
	bool from_end)
{
	if (p->repeat > rule->max - rule->min)
		return false;
	if (p->stop >= 0)
		return (int64_t)p->start + p->repeat <= p->stop;
	return from_end ? p->start - p->repeat >= rule->min
			: p->start + p->repeat <= rule->max;
}

static bool
add_chain(struct calendar_draft *d, enum calendar_field field,
	const struct chain *chain)
{
	for (unsigned i = 0; i < chain->n; i++) {
		struct calendar_part p = chain->parts[i];
		bool from_end = field == CALENDAR_DAY && d->end_of_month;

		if (field == CALENDAR_YEAR) {
			p.start = full_year(p.start);
			p.stop = p.stop < 0 ? p.stop : full_year(p.stop);
		}
		if (!in_bounds(d, field, p.start) ||
			(p.stop >= 0 && !in_bounds(d, field, p.stop)))
			return false;
		simplify(&p);
		if (p.repeat && !repeats(&p, &rules[field], from_end))
			return calendar_wrong(d,
				"the range or repetition of the %s has one "
				"value alone, or none",
				rules[field].name);
		if (!calendar_add(d, field, p))
			return false;
	}
	return true;
}

/* ---- dates and times --------------------------------------------------- */

static bool
add_one(struct calendar_draft *d, enum calendar_field field, int32_t value)
{
	struct chain one = {.n = 1};

	one.parts[0] = (struct calendar_part){value, -1, 0};
	return add_chain(d, field, &one);
}

/* "@1700000000", seconds since the epoch */
static bool
read_epoch(struct calendar_draft *d, const char *p)
{
	int64_t n = 0;
	struct tm tm;
	time_t at;

	if (!*p || strlen(p) > 12 || p[strspn(p, "0123456789")])
		return calendar_wrong(d, "@ and seconds since 1970 are alone");
	for (; *p; p++)
		n = n * 10 + (*p - '0');
	at = (time_t)n;
	if (!gmtime_r(&at, &tm))
		return calendar_wrong(d, "there is no such time");
	d->utc = true;
	return add_one(d, CALENDAR_YEAR, tm.tm_year + 1900) &&
	       add_one(d, CALENDAR_MONTH, tm.tm_mon + 1) &&
	       add_one(d, CALENDAR_DAY, tm.tm_mday) &&
	       add_one(d, CALENDAR_HOUR, tm.tm_hour) &&
	       add_one(d, CALENDAR_MINUTE, tm.tm_min) &&
	       add_one(d, CALENDAR_MICROSECOND, tm.tm_sec * MICROSECONDS);
}

/* The sign between two parts of a date. */
static bool
read_dash(struct calendar_draft *d, const char **p)
{
	if (**p != '-' && **p != '~')
		return calendar_wrong(d,
			"a date is YEAR-MONTH-DAY or MONTH-DAY; there is '%s'",
			*p);
	d->end_of_month = **p == '~';
	++*p;
	return true;
}

/* "Y-M-D", "M-D" or nothing: what stands first may be a time. */
static bool
read_date(struct calendar_draft *d, const char **text)
{
	static const enum calendar_field with_year[] = {
		CALENDAR_YEAR, CALENDAR_MONTH, CALENDAR_DAY};
	struct chain chains[3];
	const char *p = *text;
	unsigned n = 1;

	if (!read_chain(d, &p, false, &chains[0]))
		return false;
	if (!*p || *p == ':')
		return true;
	while (n < 3 && *p && *p != ' ') {
		if (d->end_of_month)
			return calendar_wrong(d, "~ stands before the day");
		if (!read_dash(d, &p) ||
			!read_chain(d, &p, false, &chains[n++]))
			return false;
	}
	if (n < 2 || (*p && *p != ' '))
		return calendar_wrong(d,
			"a date is YEAR-MONTH-DAY or MONTH-DAY; there is '%s'",
			p);
	*text = p + strspn(p, " ");
	for (unsigned i = 0; i < n; i++)
		if (!add_chain(d, with_year[3 - n + i], &chains[i]))
			return false;
	return true;
}

static bool
not_a_time(struct calendar_draft *d, const char *p)
{
	if (*p == ' ')
		return calendar_wrong(
			d, "'%s' is no time zone", p + strspn(p, " "));
	return calendar_wrong(d, "a time is HOUR:MINUTE[:SECOND]");
}

/* "H:M[:S]"; nothing is midnight. */
static bool
read_time(struct calendar_draft *d, const char *p)
{
	struct chain chain;

	if (!*p)
		return add_one(d, CALENDAR_HOUR, 0) &&
		       add_one(d, CALENDAR_MINUTE, 0) &&
		       add_one(d, CALENDAR_MICROSECOND, 0);
	if (!read_chain(d, &p, false, &chain) ||
		!add_chain(d, CALENDAR_HOUR, &chain))
		return false;
	if (*p++ != ':')
		return not_a_time(d, p - 1);
	if (!read_chain(d, &p, false, &chain) ||
		!add_chain(d, CALENDAR_MINUTE, &chain))
		return false;
	if (!*p)
		return add_one(d, CALENDAR_MICROSECOND, 0);
	if (*p++ != ':')
		return not_a_time(d, p - 1);
	if (!read_chain(d, &p, true, &chain) ||
		!add_chain(d, CALENDAR_MICROSECOND, &chain))
		return false;
	return !*p || not_a_time(d, p);
}

bool
calendar_read_systemd(struct calendar_draft *d, const char *text)
{
	const char *p = expand(text);

	if (!*p)
		return calendar_wrong(d, "it is empty");
	if (!read_weekdays(d, &p))
		return false;
	if (*p == '@')
		return read_epoch(d, p + 1);
	if (*p && !read_date(d, &p))
		return false;
	return read_time(d, p);
}

/* Calendars: finding the next time, and life.
 *
 * Local time is cut into spans of one offset (base/zone.h). Within a span the
 * next matching local time is found field by field, from the year down; then
 * it is an instant by that span's offset. Pure, but for the zone's file and
 * the reference count. */
#include "base/calendar.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/zone.h"

#define US_PER_S INT64_C(1000000)
#define US_PER_DAY (86400 * US_PER_S)
#define ALL_HOURS ((UINT32_C(1) << 24) - 1)

/* A local time. */
struct label {
	int64_t year;
	int month, day, hour, minute, us;
};

/* ---- one field --------------------------------------------------------- */

/* The least of @part's values from @from on, or INT32_MAX. */
static int32_t
part_next(const struct calendar_part *part, int32_t from)
{
	int64_t value = part->start;

	if (value >= from)
		return part->start;
	if (!part->repeat)
		return INT32_MAX;
	value += ((int64_t)from - value + part->repeat - 1) / part->repeat *
		 part->repeat;
	if (value > INT32_MAX || (part->stop >= 0 && value > part->stop))
		return INT32_MAX;
	return (int32_t)value;
}

/* Raise @value to the next that matches: false if none does up to @max. */
static bool
field_next(const struct calendar *c, enum calendar_field field, int32_t *value,
	int32_t max)
{
	int32_t best = INT32_MAX;

	if (c->first[field] == c->first[field + 1])
		return *value <= max;
	for (unsigned i = c->first[field]; i < c->first[field + 1]; i++) {
		int32_t next = part_next(&c->parts[i], *value);

		if (next < best)
			best = next;
	}
	*value = best;
	return best <= max;
}

/* Days counted from the end of a month of @n days. */
static bool
end_matches(const struct calendar_part *part, int n, int day)
{
	int from = n + 1 - part->start;
	int to = part->stop >= 0 ? n + 1 - part->stop : -1;

	if (part->stop >= 0 && from > to) { /* ~01..07 are the last seven */
		int swap = from;

		from = to;
		to = swap;
	}
	if (day == from)
		return true;
	return part->repeat && day > from && (to < 0 || day <= to) &&
	       (day - from) % part->repeat == 0;
}

static bool
day_matches(const struct calendar *c, int64_t year, int month, int day)
{
	unsigned i = c->first[CALENDAR_DAY], end = c->first[CALENDAR_DAY + 1];
	int n = date_month_days(year, month);

	if (i == end)
		return true;
	for (; i < end; i++)
		if (c->end_of_month ? end_matches(&c->parts[i], n, day)
				    : part_next(&c->parts[i], day) == day)
			return true;
	return false;
}

static bool
weekday_matches(const struct calendar *c, int64_t year, int month, int day)
{
	int64_t days = date_to_days(year, month, day);

	/* the epoch was a Thursday */
	return !c->weekdays || c->weekdays >> ((days % 7 + 10) % 7) & 1;
}

static bool
date_matches(const struct calendar *c, const struct label *l)
{
	bool day = day_matches(c, l->year, l->month, l->day);
	bool week = weekday_matches(c, l->year, l->month, l->day);

	return c->day_or_week ? day || week : day && week;
}

/* ---- local time -------------------------------------------------------- */

static int64_t
label_us(const struct label *l)
{
	int64_t days = date_to_days(l->year, l->month, l->day);

	return days * US_PER_DAY +
	       ((int64_t)l->hour * 60 + l->minute) * 60 * US_PER_S + l->us;
}

static void
label_of_us(int64_t us, struct label *l)
{
	int64_t days = us / US_PER_DAY, rest = us % US_PER_DAY;

	if (rest < 0) {
		rest += US_PER_DAY;
		days--;
	}
	date_of_days(days, &l->year, &l->month, &l->day);
	l->us = (int)(rest % (60 * US_PER_S));
	rest /= 60 * US_PER_S;
	l->minute = (int)(rest % 60);
	l->hour = (int)(rest / 60);
}

/* The start of the month after that of @l. */
static void
next_month(struct label *l)
{
	*l = (struct label){
		l->year + (l->month == 12), l->month % 12 + 1, 1, 0, 0, 0};
}

/* Raise year and month to the next that match. */
static bool
month_next(const struct calendar *c, struct label *l)
{
	for (;;) {
		int32_t year = (int32_t)l->year, month = l->month;

		if (!field_next(c, CALENDAR_YEAR, &year, CALENDAR_YEAR_MAX))
			return false;
		if (year > l->year)
			*l = (struct label){year, 1, 1, 0, 0, 0};
		month = l->month;
		if (!field_next(c, CALENDAR_MONTH, &month, 12)) {
			*l = (struct label){l->year + 1, 1, 1, 0, 0, 0};
			continue;
		}
		if (month > l->month)
			*l = (struct label){l->year, month, 1, 0, 0, 0};
		return true;
	}
}

/* Raise the date to the next that matches. */
static bool
date_next(const struct calendar *c, struct label *l)
{
	while (month_next(c, l)) {
		int n = date_month_days(l->year, l->month);

		while (l->day <= n) {
			if (date_matches(c, l))
				return true;
			*l = (struct label){
				l->year, l->month, l->day + 1, 0, 0, 0};
		}
		next_month(l);
	}
	return false;
}

/* Raise the time of day; false: none is left on this day. */
static bool
time_next(const struct calendar *c, struct label *l)
{
	int32_t hour = l->hour, minute = l->minute, us = l->us;

	for (; field_next(c, CALENDAR_HOUR, &hour, 23); hour++, minute = 0) {
		if (hour > l->hour)
			minute = us = 0;
		for (; field_next(c, CALENDAR_MINUTE, &minute, 59);
			minute++, us = 0) {
			if (hour > l->hour || minute > l->minute)
				us = 0;
			if (!field_next(c, CALENDAR_MICROSECOND, &us,
				    60 * US_PER_S - 1))
				continue;
			l->hour = hour;
			l->minute = minute;
			l->us = us;
			return true;
		}
		us = 0;
	}
	return false;
}

/* The first matching local time from @from_us on; INT64_MAX: none. */
static int64_t
local_next(const struct calendar *c, int64_t from_us)
{
	struct label l;

	label_of_us(from_us, &l);
	while (date_next(c, &l)) {
		if (time_next(c, &l))
			return label_us(&l);
		l = (struct label){l.year, l.month, l.day + 1, 0, 0, 0};
		if (l.day > date_month_days(l.year, l.month))
			next_month(&l);
	}
	return INT64_MAX;
}

/* ---- instants ---------------------------------------------------------- */

/* Does a local time match that the gap before @span left out? */
static bool
gap_matches(const struct calendar *c, const struct zone_span *span)
{
	int64_t jump = (int64_t)span->offset - span->before;
	int64_t from = (span->from + span->before) * US_PER_S;

	if (jump <= 0 || (c->hours == ALL_HOURS && jump < 86400))
		return false;
	return local_next(c, from) < from + jump * US_PER_S;
}

/* The next by the offset of @span from the instant @from_us on, though it may
 * lie behind its end; INT64_MAX: none at all. */
static int64_t
span_next(
	const struct calendar *c, const struct zone_span *span, int64_t from_us)
{
	int64_t offset = span->offset * US_PER_S, next;
	int64_t local = from_us + offset;

	/* What the former span has had comes a second time. */
	if (span->before > span->offset && c->hours != ALL_HOURS &&
		local < (span->from + span->before) * US_PER_S)
		local = (span->from + span->before) * US_PER_S;
	next = local_next(c, local);
	return next == INT64_MAX ? next : next - offset;
}

static int64_t
seconds_of(int64_t us)
{
	return us / US_PER_S - (us % US_PER_S < 0);
}

bool
calendar_next(const struct calendar *c, int64_t after_us, int64_t *next_us)
{
	const int64_t end = date_to_days(ZONE_YEAR_MAX, 1, 1) * US_PER_DAY;
	int64_t from = after_us + 1;
	struct zone_span span;

	while (from < end) {
		zone_at(c->zone, seconds_of(from), &span);
		if (span.from != INT64_MIN && from == span.from * US_PER_S &&
			gap_matches(c, &span)) {
			*next_us = from;
			return true;
		}
		*next_us = span_next(c, &span, from);
		if (*next_us == INT64_MAX)
			return false;
		if (span.until == INT64_MAX || *next_us < span.until * US_PER_S)
			return true;
		/* No offset makes it come earlier than by two days. */
		from = *next_us - 2 * US_PER_DAY;
		if (from < span.until * US_PER_S)
			from = span.until * US_PER_S;
	}
	return false;
}

/* ---- reading ----------------------------------------------------------- */

bool
calendar_wrong(struct calendar_draft *d, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(d->error, CALENDAR_ERROR_SIZE, format, args);
	va_end(args);
	return false;
}

bool
calendar_add(struct calendar_draft *d, enum calendar_field field,
	struct calendar_part part)
{
	unsigned n = 0;

	for (unsigned i = 0; i < CALENDAR_FIELDS; i++)
		n += d->n[i];
	if (n >= CALENDAR_PARTS_MAX)
		return calendar_wrong(d, "it has over %d numbers and ranges",
			CALENDAR_PARTS_MAX);
	d->parts[field][d->n[field]++] = part;
	return true;
}

static unsigned
count_words(const char *p)
{
	unsigned n = 0;

	for (p += strspn(p, " \t"); *p; p += strspn(p, " \t")) {
		p += strcspn(p, " \t");
		n++;
	}
	return n;
}

/* A crontab's has five words, or is "@daily" and the like. */
static bool
is_cron(const char *text)
{
	return count_words(text) == 5 ||
	       (text[0] == '@' && isalpha((unsigned char)text[1]));
}

/* Part the zone from the end of @text: NULL if there is none. */
static char *
split_zone(char *text)
{
	char *space = strrchr(text, ' ');
	struct zone *z;

	if (!space || strcspn(space + 1, ":*~@,.") < strlen(space + 1) ||
		!zone_name_is_valid(space + 1) ||
		!isalpha((unsigned char)space[1]))
		return NULL;
	if (strcasecmp(space + 1, "utc") == 0)
		strcpy(space + 1, "UTC");
	z = zone_get(NULL, space + 1);
	zone_unref(z);
	if (!z)
		return NULL;
	while (space > text && space[-1] == ' ')
		space--;
	*space = '\0';
	return space + 1 + strspn(space + 1, " ");
}

static uint32_t
hours_of(const struct calendar *c)
{
	uint32_t hours = 0;

	for (int32_t i = 0; i < 24; i++) {
		int32_t hour = i;

		if (field_next(c, CALENDAR_HOUR, &hour, i))
			hours |= UINT32_C(1) << i;
	}
	return hours;
}

static struct calendar *
calendar_build(const struct calendar_draft *d, const char *text)
{
	struct calendar *c;
	unsigned n = 0;

	for (unsigned i = 0; i < CALENDAR_FIELDS; i++)
		n += d->n[i];
	c = calloc(1, sizeof(*c) + n * sizeof(c->parts[0]));
	if (!c)
		return NULL;
	atomic_init(&c->refs, 1);
	strcpy(c->text, text);
	c->weekdays = d->weekdays;
	c->end_of_month = d->end_of_month;
	c->day_or_week = d->day_or_week;
	n = 0;
	for (unsigned i = 0; i < CALENDAR_FIELDS; i++) {
		c->first[i] = (uint16_t)n;
		memcpy(&c->parts[n], d->parts[i],
			d->n[i] * sizeof(c->parts[0]));
		n += d->n[i];
	}
	c->first[CALENDAR_FIELDS] = (uint16_t)n;
	c->hours = hours_of(c);
	return c;
}

/* @text, with the zone cut off, into @d. */
static int
draft_read(struct calendar_draft *d, char *text, const char **zone)
{
	char *own = split_zone(text);
	bool good;

	if (own && *zone && **zone && strcmp(own, *zone) != 0) {
		calendar_wrong(d, "it names the zone %s, not %s", own, *zone);
		return CALENDAR_E_TEXT;
	}
	if (own)
		*zone = own;
	good = is_cron(text) ? calendar_read_cron(d, text)
			     : calendar_read_systemd(d, text);
	if (d->utc)
		*zone = "UTC";
	return good ? 0 : CALENDAR_E_TEXT;
}

static int
calendar_make(struct calendar_draft *d, const char *text, const char *zone,
	struct zones *zones, struct calendar **out)
{
	char copy[CALENDAR_TEXT_MAX + 1];
	struct calendar *c;
	int r;

	if (strlen(text) > CALENDAR_TEXT_MAX) {
		calendar_wrong(d, "it has over %d bytes", CALENDAR_TEXT_MAX);
		return CALENDAR_E_TEXT;
	}
	strcpy(copy, text + strspn(text, " \t"));
	for (size_t n = strlen(copy); n && strchr(" \t", copy[n - 1]); n--)
		copy[n - 1] = '\0';
	r = draft_read(d, copy, &zone);
	if (r)
		return r;
	c = calendar_build(d, text);
	if (!c)
		return err_raise(-ENOMEM);
	c->zone = zone_get(zones, zone);
	if (!c->zone) {
		calendar_wrong(d, "the time zone '%s' cannot be used: %s",
			zone && *zone ? zone : "of this system",
			errno == ENOENT ? "there is none" : strerror(errno));
		calendar_unref(c);
		return CALENDAR_E_ZONE;
	}
	*out = c;
	return 0;
}

int
calendar_new(const char *text, const char *zone, struct zones *zones,
	struct calendar **out, char *error)
{
	struct calendar_draft *d = calloc(1, sizeof(*d));
	int r;

	if (!d)
		return err_raise(-ENOMEM);
	d->error = error;
	r = calendar_make(d, text, zone, zones, out);
	free(d);
	return r;
}

struct calendar *
calendar_ref(struct calendar *c)
{
	atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
	return c;
}

struct calendar *
calendar_unref(struct calendar *c)
{
	if (!c || atomic_fetch_sub_explicit(
			  &c->refs, 1, memory_order_acq_rel) != 1)
		return NULL;
	zone_unref(c->zone);
	free(c);
	return NULL;
}

struct calendar *
calendar_renew(struct calendar *c, struct zones *zones)
{
	struct zone *zone = zone_get(zones, calendar_zone(c));
	size_t size = sizeof(*c) +
		      c->first[CALENDAR_FIELDS] * sizeof(struct calendar_part);
	struct calendar *copy;

	/* A zone that is no more stays as it was. */
	if (!zone || zone_is_same(zone, c->zone)) {
		zone_unref(zone);
		return calendar_ref(c);
	}
	copy = malloc(size);
	if (!copy) {
		zone_unref(zone);
		return NULL;
	}
	memcpy(copy, c, size);
	atomic_init(&copy->refs, 1);
	copy->zone = zone;
	return copy;
}

const char *
calendar_zone(const struct calendar *c)
{
	return zone_name(c->zone);
}

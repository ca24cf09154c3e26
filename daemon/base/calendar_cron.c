/* Calendars as crontab(5) writes them: minute, hour, day, month, weekday. Day
 * and weekday, if both are given, are alternatives. Pure. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/calendar.h"

static const char *const months[] = {"jan", "feb", "mar", "apr", "may", "jun",
	"jul", "aug", "sep", "oct", "nov", "dec", NULL};
static const char *const weekdays[] = {
	"sun", "mon", "tue", "wed", "thu", "fri", "sat", NULL};

static const struct column {
	const char *name;
	int32_t min, max;
	const char *const *words; /* of min, min + 1 ... */
	int field;                /* -1: weekdays */
} columns[] = {
	{"minute", 0, 59, NULL, CALENDAR_MINUTE},
	{"hour", 0, 23, NULL, CALENDAR_HOUR},
	{"day", 1, 31, NULL, CALENDAR_DAY},
	{"month", 1, 12, months, CALENDAR_MONTH},
	{"weekday", 0, 7, weekdays, -1},
};

static const struct {
	const char *word, *text;
} words[] = {
	{"@minutely", "* * * * *"},
	{"@hourly", "0 * * * *"},
	{"@daily", "0 0 * * *"},
	{"@midnight", "0 0 * * *"},
	{"@weekly", "0 0 * * 0"},
	{"@monthly", "0 0 1 * *"},
	{"@yearly", "0 0 1 1 *"},
	{"@annually", "0 0 1 1 *"},
};

/* A number or a name in the bounds of @col. */
static bool
read_value(struct calendar_draft *d, const struct column *col, const char **p,
	int32_t *value)
{
	*value = -1;
	for (int i = 0; col->words && col->words[i]; i++)
		if (strncasecmp(*p, col->words[i], 3) == 0) {
			*value = col->min + i;
			*p += 3;
			return true;
		}
	if (isdigit((unsigned char)**p))
		for (*value = 0; isdigit((unsigned char)**p) && *value < 1000;
			++*p)
			*value = *value * 10 + (**p - '0');
	if (*value >= col->min && *value <= col->max)
		return true;
	return calendar_wrong(d, "a %s is from %d to %d", col->name,
		(int)col->min, (int)col->max);
}

static bool
add_values(struct calendar_draft *d, const struct column *col,
	const struct calendar_part *part)
{
	if (col->field >= 0)
		return calendar_add(d, (enum calendar_field)col->field, *part);
	for (int32_t i = part->start; i <= part->stop; i += part->repeat)
		d->weekdays |= (uint8_t)(1u << (i + 6) % 7); /* Monday is 0 */
	return true;
}

/* "*", "5", "1-5", "*" "/10", "10-50/10" */
static bool
read_range(struct calendar_draft *d, const struct column *col, const char **p)
{
	struct calendar_part part = {col->min, col->max, 1};
	bool open = **p == '*';

	if (open) {
		++*p;
	} else if (!read_value(d, col, p, &part.start)) {
		return false;
	} else if (**p == '-') {
		++*p;
		if (!read_value(d, col, p, &part.stop))
			return false;
		if (part.stop < part.start)
			return calendar_wrong(
				d, "the %s's range goes down", col->name);
	} else if (**p != '/') {
		part.stop = part.start;
	}
	if (**p == '/') {
		part.repeat = 0;
		for (++*p; isdigit((unsigned char)**p) && part.repeat < 1000;
			++*p)
			part.repeat = part.repeat * 10 + (**p - '0');
		if (part.repeat < 1)
			return calendar_wrong(
				d, "the %s's step is missing", col->name);
	}
	if (**p && **p != ',')
		return calendar_wrong(
			d, "'%s' has no meaning in the %s", *p, col->name);
	return add_values(d, col, &part);
}

static bool
read_column(struct calendar_draft *d, const struct column *col, const char *p)
{
	if (strcmp(p, "*") == 0)
		return true; /* all */
	for (;; p++) {
		if (!read_range(d, col, &p))
			return false;
		if (!*p)
			return true;
	}
}

static const char *
expand(const char *text)
{
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (strcasecmp(text, words[i].word) == 0)
			return words[i].text;
	return text;
}

bool
calendar_read_cron(struct calendar_draft *d, const char *text)
{
	const char *p = expand(text);
	bool stars[5];
	char word[CALENDAR_TEXT_MAX + 1];

	if (*p == '@')
		return calendar_wrong(d, "'%s' is not known", text);
	for (unsigned i = 0; i < 5; i++) {
		size_t n;

		p += strspn(p, " \t");
		n = strcspn(p, " \t");
		memcpy(word, p, n);
		word[n] = '\0';
		stars[i] = word[0] == '*';
		if (!read_column(d, &columns[i], word))
			return false;
		p += n;
	}
	d->day_or_week = !stars[2] && !stars[4];
	return calendar_add(
		d, CALENDAR_MICROSECOND, (struct calendar_part){0, -1, 0});
}

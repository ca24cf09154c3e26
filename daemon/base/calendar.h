#pragma once
/* Calendars: times that come again and again, as systemd.time(7) writes them
 * ("Mon..Fri *-*-* 09:00", "hourly", "*-*~1 18:00 Europe/Berlin") or crontab(5)
 * ("0 9 * * mon-fri", "@daily").
 *
 * Where the clocks change, a calendar that has every hour runs by real time:
 * whenever its minute comes, also twice. Any other runs once for each local
 * time: at the first of two, and if there is none at the first instant after
 * the gap.
 *
 * A calendar never changes; any thread. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct zone;
struct zones;

enum {
	CALENDAR_TEXT_MAX = 512,   /* bytes of a text, without its NUL */
	CALENDAR_ERROR_SIZE = 256, /* room for why it is wrong */
	CALENDAR_PARTS_MAX = 256,  /* numbers and ranges in one */
	CALENDAR_YEAR_MAX = 2199,
	CALENDAR_E_TEXT = 1, /* it is no calendar */
	CALENDAR_E_ZONE = 2, /* there is no such zone */
};

enum calendar_field {
	CALENDAR_YEAR,
	CALENDAR_MONTH,
	CALENDAR_DAY,
	CALENDAR_HOUR,
	CALENDAR_MINUTE,
	CALENDAR_MICROSECOND, /* of the minute */
	CALENDAR_FIELDS,
};

/* A value and those every @repeat from it, up to @stop or, if that is -1, to
 * the field's end; @repeat 0: it alone. */
struct calendar_part {
	int32_t start, stop, repeat;
};

struct calendar {
	_Atomic uint32_t refs;
	struct zone *zone; /* NULL: UTC */
	uint32_t hours;    /* bit i: hour i matches */
	uint8_t weekdays;  /* bit 0: Monday ...; 0: all */
	bool end_of_month; /* days count from the last, which is 1 */
	bool day_or_week;  /* crontab: either day or weekday will do */
	uint16_t first[CALENDAR_FIELDS + 1]; /* parts of each; none: all */
	char text[CALENDAR_TEXT_MAX + 1];
	struct calendar_part parts[];
};

/**
 * calendar_new() - read a calendar
 * @text:  as above; a zone may follow
 * @zone:  by name, for a @text without one; NULL or "": the system's
 * @zones: those that are loaded; may be NULL
 * @out:   a reference, on success
 * @error: CALENDAR_ERROR_SIZE bytes, for why not
 *
 * May read a zone's file. Return: 0, CALENDAR_E_* or -ENOMEM.
 */
int calendar_new(const char *text, const char *zone, struct zones *zones,
	struct calendar **out, char *error);
struct calendar *calendar_ref(struct calendar *c);
struct calendar *calendar_unref(struct calendar *c);
/* A reference to @c or, if its zone is another in @zones, to the same calendar
 * with that. NULL: out of memory. */
struct calendar *calendar_renew(struct calendar *c, struct zones *zones);
const char *calendar_zone(const struct calendar *c);
/* The first time after @after_us, in microseconds since the epoch; false if
 * there is none before the year 2200. */
bool calendar_next(
	const struct calendar *c, int64_t after_us, int64_t *next_us);

/* ---- for its own files ------------------------------------------------- */

/* A calendar that is being read. */
struct calendar_draft {
	struct calendar_part parts[CALENDAR_FIELDS][CALENDAR_PARTS_MAX];
	uint16_t n[CALENDAR_FIELDS];
	uint8_t weekdays;
	bool end_of_month, day_or_week, utc;
	char *error; /* CALENDAR_ERROR_SIZE bytes */
};
/* False, and d->error says why, in the words of printf(). */
bool calendar_wrong(struct calendar_draft *d, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
bool calendar_add(struct calendar_draft *d, enum calendar_field field,
	struct calendar_part part);
/* One of the two syntaxes, without a zone behind. */
bool calendar_read_systemd(struct calendar_draft *d, const char *text);
bool calendar_read_cron(struct calendar_draft *d, const char *text);

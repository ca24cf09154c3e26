#pragma once
/* The rule of a time zone as POSIX writes it, "CET-1CEST,M3.5.0,M10.5.0/3":
 * what a zone's file ends with for all time after its table. Any thread. */
#include <stdbool.h>
#include <stdint.h>

/* A day of the year and a time of that day. */
struct posix_tz_day {
	char form;    /* 'M' week day, 'J' day 1..365, '0' day 0..365 */
	int month;    /* M */
	int week;     /* M: 1 to 5, the last */
	int day;      /* M: 0 is Sunday; else the day of the year */
	int32_t time; /* seconds; may be below 0 and above a day */
};

struct posix_tz {
	int32_t offset; /* seconds east of UTC */
	int32_t dst_offset;
	bool has_dst;
	struct posix_tz_day start, end; /* of daylight saving time */
};

struct posix_tz_change {
	int64_t at;
	int32_t offset; /* from then on */
};

bool posix_tz_parse(const char *text, struct posix_tz *tz);
/* The two changes of @year, in order of time. */
void posix_tz_year(const struct posix_tz *tz, int64_t year,
	struct posix_tz_change changes[2]);

#pragma once
/* Time spans and points in time, read and written for people. int64_t of
 * nanoseconds reaches the year 2262. Any thread; local time is that of $TZ. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	WHEN_TEXT_SIZE = 48, /* enough for every text that is written here */
};
#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S INT64_C(1000000000)

/* A span as systemd.time(7) has it: "5s", "1h 30min", "250ms", "1.5h"; a
 * number alone is seconds. Returns 0, or -1: it is none, or over 292 years. */
int span_parse(const char *text, int64_t *ns);
/* "1h 30min", "2.5s", "45us": the two largest units. */
void span_format(int64_t ns, char *text, size_t size);

/* RFC 3339, "YYYY-MM-DD HH:MM[:SS[.frac]]" in local time, or "@" and seconds
 * since the epoch. Returns NULL, or what is wrong with it. */
const char *when_parse(const char *text, int64_t *ns);
/* RFC 3339 in UTC, with the fraction if it has one. */
void when_format_utc(int64_t ns, char *text, size_t size);
/* "2026-11-30 13:00:05" in local time. */
void when_format_local(int64_t ns, char *text, size_t size);

int64_t when_now_ns(void); /* wall clock */

#pragma once
/* Structured log: an event name and fields, `log_warn("conn.closed",
 * "conn=%" PRIu64 " reason=%s", id, why)`. Goes to journald with the fields
 * as EVENTD_* when stderr is its stream, else to stderr as text. Any thread.
 *
 * A value with spaces is put in double quotes by the caller: reason=\"%s\",
 * quotes and backslashes in it escaped by a backslash if it may have some.
 * Each site is limited to LOG_BURST lines a second; what was left out is
 * counted and told with the next line of that site. Payloads are never
 * logged. */
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

enum log_level {
	LOG_L_ERR = 3,
	LOG_L_WARN = 4,
	LOG_L_INFO = 6,
	LOG_L_DEBUG = 7
};

enum { LOG_BURST = 20 };

/* A place in the code, if known, and what it has logged within this second. */
struct log_site {
	const char *file;
	int line;
	_Atomic uint64_t told; /* the second, and in the low half lines in it */
	_Atomic uint32_t suppressed;
};

/* Pick the output (journald or stderr) and what is worth telling. Once, at
 * start, before threads. */
void log_init(enum log_level level);
/* The clock that limits and timestamps; the system's unless a test says so. */
void log_use_clock(const struct clock_source *clock);
/* error, warning, info or debug. */
bool log_level_from(const char *word, enum log_level *level);
extern enum log_level log_level_now;

void log_at(struct log_site *site, enum log_level level, const char *event,
	const char *format, ...) __attribute__((format(printf, 4, 5)));

#define LOG_SITE(level, event, ...)                                       \
	do {                                                              \
		static struct log_site log_here = {                       \
			.file = __FILE__, .line = __LINE__};              \
		if ((level) <= log_level_now)                             \
			log_at(&log_here, (level), (event), __VA_ARGS__); \
	} while (0)
#define log_err(event, ...) LOG_SITE(LOG_L_ERR, event, __VA_ARGS__)
#define log_warn(event, ...) LOG_SITE(LOG_L_WARN, event, __VA_ARGS__)
#define log_info(event, ...) LOG_SITE(LOG_L_INFO, event, __VA_ARGS__)
#define log_debug(event, ...) LOG_SITE(LOG_L_DEBUG, event, __VA_ARGS__)

#pragma once
/* Time zones, read from the system's compiled files (TZif, RFC 8536) and not
 * through the C library, whose local time is one for the whole process. A zone
 * never changes once it is loaded; any thread. */
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	ZONE_NAME_MAX = 64,        /* bytes of a name, without its NUL */
	ZONE_FILE_MAX = 64 * 1024, /* bytes of a file that is read */
	ZONE_YEAR_MAX = 2200,      /* rules are followed up to this year */
};

struct zone;

/* A stretch of time with one offset. Seconds since the epoch. */
struct zone_span {
	int64_t from;   /* INT64_MIN: it has no beginning */
	int64_t until;  /* the first second of the next; INT64_MAX: none */
	int32_t offset; /* seconds east of UTC */
	int32_t before; /* the offset until @from */
};

/* Zones that are loaded, so that each is read once. */
struct zones {
	pthread_mutex_t lock;
	struct zone *first;
};
void zones_init(struct zones *zones);
void zones_deinit(struct zones *zones);
/* Forget them: the next zone_get() reads the file again. */
void zones_flush(struct zones *zones);

/**
 * zone_get() - a reference to the zone called @name
 * @zones: where to look first; NULL: always read it
 * @name:  as "Europe/Berlin"; NULL or "": the system's own, by $TZ or else
 *         /etc/localtime
 *
 * Reads a small file the first time. Return: the zone, or NULL with errno:
 * ENOENT (no such zone), EBADMSG (not a zone's file), or as open() and read().
 */
struct zone *zone_get(struct zones *zones, const char *name);
struct zone *zone_ref(struct zone *zone);
struct zone *zone_unref(struct zone *zone);
/* Have they the same name and rules? */
bool zone_is_same(const struct zone *a, const struct zone *b);
const char *zone_name(const struct zone *zone); /* "UTC", "Europe/Berlin" */
/* The span that @at lies in. A NULL @zone is UTC. */
void zone_at(const struct zone *zone, int64_t at, struct zone_span *span);
/* Could @name be a zone's? It need not exist. */
bool zone_name_is_valid(const char *name);
/* The zone that a file's bytes tell of; for tests and zone_get(). NULL with
 * errno EBADMSG or ENOMEM. */
struct zone *zone_parse(const char *name, const uint8_t *data, size_t size);

/* Days since the epoch of a date in the Gregorian calendar, and back. */
int64_t date_to_days(int64_t year, int month, int day);
void date_of_days(int64_t days, int64_t *year, int *month, int *day);
int date_month_days(int64_t year, int month); /* 28 to 31 */

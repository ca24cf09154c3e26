/* Time zones: the transitions of a TZif file, and those that its rule for the
 * time after them makes until ZONE_YEAR_MAX, in one sorted table. Immutable
 * once loaded; the reference count and struct zones are for any thread. */
#include "base/zone.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/posix_tz.h"

#define ZONE_DIRECTORY "/usr/share/zoneinfo" /* or $TZDIR */

struct change {
	int64_t at;     /* the first second */
	int32_t offset; /* from then on */
};

struct zone {
	_Atomic uint32_t refs;
	struct zone *next; /* in zones */
	char name[ZONE_NAME_MAX + 1];
	int32_t first; /* offset before the first change */
	uint32_t n, max;
	struct change *changes;
};

/* ---- dates ------------------------------------------------------------- */

/* Howard Hinnant's days_from_civil() and civil_from_days(). */
int64_t
date_to_days(int64_t year, int month, int day)
{
	int64_t y = year - (month <= 2);
	int64_t era = (y >= 0 ? y : y - 399) / 400;
	int64_t of_era = y - era * 400;
	int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day;

	return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 +
	       of_year - 1 - 719468;
}

void
date_of_days(int64_t days, int64_t *year, int *month, int *day)
{
	int64_t z = days + 719468;
	int64_t era = (z >= 0 ? z : z - 146096) / 146097;
	int64_t of_era = z - era * 146097;
	int64_t y =
		(of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) /
		365;
	int64_t of_year = of_era - (365 * y + y / 4 - y / 100);
	int64_t mp = (5 * of_year + 2) / 153;

	*day = (int)(of_year - (153 * mp + 2) / 5 + 1);
	*month = (int)(mp < 10 ? mp + 3 : mp - 9);
	*year = y + era * 400 + (*month <= 2);
}

int
date_month_days(int64_t year, int month)
{
	static const uint8_t days[] = {
		31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

	return days[month - 1] + (month == 2 && leap);
}

/* ---- the table --------------------------------------------------------- */

static bool
add_change(struct zone *z, int64_t at, int32_t offset)
{
	int32_t now;

	if (z->n && z->changes[z->n - 1].at == at)
		z->n--; /* it lasted for no time */
	now = z->n ? z->changes[z->n - 1].offset : z->first;
	if (offset == now)
		return true;
	if (z->n == z->max) {
		uint32_t max = z->max ? z->max * 2 : 64;
		struct change *more =
			reallocarray(z->changes, max, sizeof(*more));

		if (!more)
			return false;
		z->changes = more;
		z->max = max;
	}
	z->changes[z->n++] = (struct change){at, offset};
	return true;
}

/* What @rule changes after all that the table has. */
static bool
add_rule(struct zone *z, const struct posix_tz *rule)
{
	int64_t last = z->n ? z->changes[z->n - 1].at : INT64_MIN;
	int64_t year = 1970;
	int month, day;

	if (!rule->has_dst)
		return z->n || add_change(z, INT64_MIN + 1, rule->offset);
	if (z->n)
		date_of_days(last / 86400, &year, &month, &day);
	for (; year <= ZONE_YEAR_MAX; year++) {
		struct posix_tz_change two[2];

		posix_tz_year(rule, year, two);
		for (int i = 0; i < 2; i++)
			if (two[i].at > last &&
				!add_change(z, two[i].at, two[i].offset))
				return false;
	}
	return true;
}

void
zone_at(const struct zone *zone, int64_t at, struct zone_span *span)
{
	uint32_t low = 0, high = zone ? zone->n : 0;

	*span = (struct zone_span){INT64_MIN, INT64_MAX, 0, 0};
	if (!zone)
		return;
	while (low < high) { /* the first change after @at */
		uint32_t middle = low + (high - low) / 2;

		if (zone->changes[middle].at <= at)
			low = middle + 1;
		else
			high = middle;
	}
	if (low < zone->n)
		span->until = zone->changes[low].at;
	span->offset = span->before = zone->first;
	if (low > 0) {
		span->from = zone->changes[low - 1].at;
		span->offset = zone->changes[low - 1].offset;
	}
	if (low > 1)
		span->before = zone->changes[low - 2].offset;
}

/* ---- TZif -------------------------------------------------------------- */

enum { HEAD_SIZE = 44, LEAP_SIZE = 8, TYPE_SIZE = 6 };

/* The counts of a block, in the header's order. */
struct block {
	uint32_t n_ut, n_std, n_leap, n_times, n_types, n_chars;
};

static uint64_t
big_endian(const uint8_t *p, unsigned n)
{
	uint64_t v = 0;

	while (n--)
		v = v << 8 | *p++;
	return v;
}

static bool
read_head(const uint8_t *p, size_t size, struct block *b)
{
	uint32_t *counts = &b->n_ut;

	if (size < HEAD_SIZE || memcmp(p, "TZif", 4) != 0)
		return false;
	for (unsigned i = 0; i < 6; i++) {
		counts[i] = (uint32_t)big_endian(p + 20 + 4 * (size_t)i, 4);
		if (counts[i] > ZONE_FILE_MAX)
			return false;
	}
	return b->n_types > 0;
}

/* Bytes behind the header, with times of @width bytes. */
static size_t
block_size(const struct block *b, unsigned width)
{
	return (size_t)b->n_times * (width + 1) +
	       (size_t)b->n_types * TYPE_SIZE + b->n_chars +
	       (size_t)b->n_leap * (LEAP_SIZE - 4 + width) + b->n_std + b->n_ut;
}

/* The block at @p, which is as long as it says. */
static bool
read_block(
	struct zone *z, const uint8_t *p, const struct block *b, unsigned width)
{
	const uint8_t *index = p + (size_t)b->n_times * width;
	const uint8_t *types = index + b->n_times;
	int64_t last = INT64_MIN;

	z->first = (int32_t)big_endian(types, 4);
	for (uint32_t i = 0; i < b->n_times; i++) {
		int64_t at = (int64_t)big_endian(p + (size_t)i * width, width);

		if (width == 4)
			at = (int32_t)at;
		if (index[i] >= b->n_types || (i && at <= last))
			return false;
		last = at;
		if (!add_change(z, at,
			    (int32_t)big_endian(
				    types + (size_t)index[i] * TYPE_SIZE, 4)))
			return false;
	}
	return true;
}

/* The rule between two line feeds at the end. */
static bool
read_footer(struct zone *z, const uint8_t *p, size_t size)
{
	struct posix_tz rule;
	char text[128];
	const uint8_t *end;

	if (size < 2 || p[0] != '\n')
		return false;
	end = memchr(p + 1, '\n', size - 1);
	if (!end || (size_t)(end - p) > sizeof(text))
		return false;
	memcpy(text, p + 1, (size_t)(end - p - 1));
	text[end - p - 1] = '\0';
	if (!*text)
		return true; /* nothing is known of later */
	return posix_tz_parse(text, &rule) && add_rule(z, &rule);
}

static bool
read_file(struct zone *z, const uint8_t *p, size_t size)
{
	struct block b;
	size_t n;

	if (!read_head(p, size, &b))
		return false;
	n = HEAD_SIZE + block_size(&b, 4);
	if (n > size)
		return false;
	if (p[4] < '2')
		return read_block(z, p + HEAD_SIZE, &b, 4);
	p += n;
	size -= n;
	if (!read_head(p, size, &b))
		return false;
	n = HEAD_SIZE + block_size(&b, 8);
	return n <= size && read_block(z, p + HEAD_SIZE, &b, 8) &&
	       read_footer(z, p + n, size - n);
}

static struct zone *
zone_new(const char *name)
{
	struct zone *z = calloc(1, sizeof(*z));

	if (!z)
		return NULL;
	atomic_init(&z->refs, 1);
	strncpy(z->name, name, ZONE_NAME_MAX);
	return z;
}

struct zone *
zone_parse(const char *name, const uint8_t *data, size_t size)
{
	struct zone *z = zone_new(name);

	if (z && read_file(z, data, size))
		return z;
	errno = z ? EBADMSG : ENOMEM;
	return zone_unref(z);
}

/* ---- files ------------------------------------------------------------- */

static struct zone *
zone_read(const char *name, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct zone *z = NULL;
	uint8_t *data;
	size_t size = 0;
	ssize_t n = 0;

	if (fd < 0)
		return NULL;
	data = malloc(ZONE_FILE_MAX);
	while (data && size < ZONE_FILE_MAX &&
		((n = read(fd, data + size, ZONE_FILE_MAX - size)) > 0 ||
			(n < 0 && errno == EINTR)))
		size += n > 0 ? (size_t)n : 0;
	close(fd);
	if (data && n >= 0)
		z = zone_parse(name, data, size);
	else if (n < 0 && errno == EISDIR)
		errno = ENOENT;
	free(data);
	return z;
}

bool
zone_name_is_valid(const char *name)
{
	size_t size = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				   "abcdefghijklmnopqrstuvwxyz"
				   "0123456789+-_/");

	return size > 0 && size <= ZONE_NAME_MAX && !name[size] &&
	       name[0] != '/' && name[size - 1] != '/' && !strstr(name, "//");
}

/* The name of what /etc/localtime is a link to. */
static void
local_name(char name[ZONE_NAME_MAX + 1])
{
	char target[256];
	ssize_t n = readlink("/etc/localtime", target, sizeof(target) - 1);
	const char *at;

	strcpy(name, "localtime");
	if (n <= 0)
		return;
	target[n] = '\0';
	at = strstr(target, "zoneinfo/");
	if (at && zone_name_is_valid(at + strlen("zoneinfo/")))
		strcpy(name, at + strlen("zoneinfo/"));
}

/* $TZ may also be a rule. */
static struct zone *
zone_of_rule(const char *text)
{
	struct posix_tz rule;
	struct zone *z;

	if (!posix_tz_parse(text, &rule)) {
		errno = ENOENT;
		return NULL;
	}
	z = zone_new(text);
	if (!z)
		return NULL;
	z->first = rule.offset;
	if (add_rule(z, &rule))
		return z;
	errno = ENOMEM;
	return zone_unref(z);
}

static struct zone *
zone_named(const char *name)
{
	const char *directory = getenv("TZDIR");
	char path[PATH_MAX];
	int n;

	if (strcmp(name, "UTC") == 0)
		return zone_new(name);
	if (!directory || directory[0] != '/')
		directory = ZONE_DIRECTORY;
	n = snprintf(path, sizeof(path), "%s/%s", directory, name);
	if (n < 0 || (size_t)n >= sizeof(path)) {
		errno = ENAMETOOLONG;
		return NULL;
	}
	return zone_read(name, path);
}

static struct zone *
zone_local(const char *tz)
{
	char name[ZONE_NAME_MAX + 1];
	struct zone *z;

	if (tz) {
		tz += *tz == ':';
		if (!*tz)
			return zone_new("UTC");
		z = zone_name_is_valid(tz) ? zone_named(tz) : NULL;
		return z ? z : zone_of_rule(tz);
	}
	local_name(name);
	z = zone_read(name, "/etc/localtime");
	return z || errno != ENOENT ? z : zone_new("UTC");
}

static struct zone *
zone_load(const char *name)
{
	if (!*name)
		return zone_local(getenv("TZ"));
	if (zone_name_is_valid(name))
		return zone_named(name);
	errno = ENOENT;
	return NULL;
}

/* ---- those that are loaded --------------------------------------------- */

void
zones_init(struct zones *zones)
{
	pthread_mutex_init(&zones->lock, NULL);
	zones->first = NULL;
}

void
zones_flush(struct zones *zones)
{
	struct zone *z, *next;

	pthread_mutex_lock(&zones->lock);
	z = zones->first;
	zones->first = NULL;
	pthread_mutex_unlock(&zones->lock);
	for (; z; z = next) {
		next = z->next;
		zone_unref(z);
	}
}

void
zones_deinit(struct zones *zones)
{
	zones_flush(zones);
	pthread_mutex_destroy(&zones->lock);
}

static struct zone *
zone_find(struct zones *zones, const char *name)
{
	for (struct zone *z = zones->first; z; z = z->next)
		if (strcmp(z->name, name) == 0)
			return z;
	return NULL;
}

/* The system's own is not kept: it may become another one. */
struct zone *
zone_get(struct zones *zones, const char *name)
{
	struct zone *z;

	if (!name || !*name)
		return zone_load("");
	if (!zones)
		return zone_load(name);
	pthread_mutex_lock(&zones->lock);
	z = zone_find(zones, name);
	if (!z) {
		z = zone_load(name);
		if (z) {
			z->next = zones->first;
			zones->first = z;
		}
	}
	if (z)
		zone_ref(z);
	pthread_mutex_unlock(&zones->lock);
	return z;
}

bool
zone_is_same(const struct zone *a, const struct zone *b)
{
	if (a == b || !a || !b)
		return a == b;
	if (strcmp(a->name, b->name) != 0 || a->first != b->first ||
		a->n != b->n)
		return false;
	for (uint32_t i = 0; i < a->n; i++)
		if (a->changes[i].at != b->changes[i].at ||
			a->changes[i].offset != b->changes[i].offset)
			return false;
	return true;
}

struct zone *
zone_ref(struct zone *zone)
{
	atomic_fetch_add_explicit(&zone->refs, 1, memory_order_relaxed);
	return zone;
}

struct zone *
zone_unref(struct zone *zone)
{
	if (!zone || atomic_fetch_sub_explicit(
			     &zone->refs, 1, memory_order_acq_rel) != 1)
		return NULL;
	free(zone->changes);
	free(zone);
	return NULL;
}

const char *
zone_name(const struct zone *zone)
{
	return zone ? zone->name : "UTC";
}

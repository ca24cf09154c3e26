#include "config_pool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "config.h"
#include "config_value.h"
#include "exec/pool.h"
#include "proto/envelope.h"

enum {
	POOLS_MAX = 64,
	BUSY_MAX_US = 1000,
	STUCK_MS = 10000,
	DAY_MS = 24 * 60 * 60 * 1000,
};

const struct config_pool *
config_pool_find(const struct config *c, const char *name)
{
	for (size_t i = 0; i < c->n_pools; i++)
		if (strcmp(c->pools[i].name, name) == 0)
			return &c->pools[i];
	return NULL;
}

static struct config_pool *
pool_add(struct config *c, const char *name, enum pool_type type)
{
	struct config_pool *bigger, pool = {.name = strdup(name),
					    .type = type,
					    .threads = POOL_THREADS_DEFAULT,
					    .busy_us = UINT32_MAX,
					    .stuck_ms = STUCK_MS};

	bigger = reallocarray(c->pools, c->n_pools + 1, sizeof(*bigger));
	if (bigger)
		c->pools = bigger;
	if (!bigger || !pool.name) {
		free(pool.name);
		return NULL;
	}
	c->pools[c->n_pools] = pool;
	return &c->pools[c->n_pools++];
}

/* ---- keys ---------------------------------------------------------- */

static void
set_type(struct config_file *f, const char *value, struct config_pool *pool)
{
	const char *near = value_nearest(value, pool_type_words);

	for (uint32_t i = 0; pool_type_words[i]; i++) {
		if (strcmp(pool_type_words[i], value) == 0) {
			pool->type = i;
			return;
		}
	}
	config_file_error(f, f->at,
		"Type= may be worker, threadpool or leader, not '%s'%s%s%s",
		value, near ? "; did you mean " : "", near ? near : "",
		near ? "?" : "");
}

static void
set_threads(struct config_file *f, const char *value, struct config_pool *pool)
{
	uint64_t n;

	if (value_count(value, &n) || n < 1 || n > POOL_THREADS_MAX)
		config_file_error(f, f->at,
			"Threads= is a number from 1 to %d, not '%s'",
			POOL_THREADS_MAX, value);
	else
		pool->threads = (uint32_t)n;
}

/* "0-3" or "5" at the head of @text. */
static bool
take_range(const char **text, cpu_set_t *cpus)
{
	char *end;
	unsigned long first = strtoul(*text, &end, 10), last = first;

	if (end == *text || **text < '0' || **text > '9')
		return false;
	if (*end == '-') {
		*text = end + 1;
		last = strtoul(*text, &end, 10);
		if (end == *text || **text < '0' || **text > '9')
			return false;
	}
	if (last < first || last >= CPU_SETSIZE)
		return false;
	for (unsigned long i = first; i <= last; i++)
		CPU_SET(i, cpus);
	*text = end + strspn(end, " ,\t");
	return true;
}

/* As in systemd: numbers and ranges with blanks or commas between. */
static void
set_cpus(struct config_file *f, const char *value, struct config_pool *pool)
{
	const char *rest = value;
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	while (*rest && take_range(&rest, &cpus))
		;
	if (*rest || !CPU_COUNT(&cpus)) {
		config_file_error(f, f->at,
			"CPUAffinity= is a list of CPUs such as 0-3 or 0,2, "
			"not '%s'",
			value);
		return;
	}
	pool->cpus = cpus;
	pool->has_cpus = true;
}

void
config_set_busy(struct config_file *f, const char *key, const char *value,
	uint32_t *out)
{
	uint64_t n;

	if (value_count(value, &n) || n > BUSY_MAX_US)
		config_file_error(f, f->at,
			"%s= is a number of microseconds from 0 to %d, not "
			"'%s'",
			key, BUSY_MAX_US, value);
	else
		*out = (uint32_t)n;
}

static void
set_stuck(struct config_file *f, const char *value, struct config_pool *pool)
{
	uint64_t ms;

	if (value_span(value, &ms) || ms > DAY_MS)
		config_file_error(f, f->at,
			"StuckAfter= is a span up to one day, or 0, not '%s'",
			value);
	else
		pool->stuck_ms = (uint32_t)ms;
}

static void
set_key(struct config_file *f, struct config_pool *pool, const char *key,
	const char *value)
{
	static const char *const keys[] = {"Type", "Threads", "CPUAffinity",
		"BusyPoll", "StuckAfter", NULL};
	const char *near = value_nearest(key, keys);

	if (!strcmp(key, "Type"))
		set_type(f, value, pool);
	else if (!strcmp(key, "Threads"))
		set_threads(f, value, pool);
	else if (!strcmp(key, "CPUAffinity"))
		set_cpus(f, value, pool);
	else if (!strcmp(key, "BusyPoll"))
		config_set_busy(f, key, value, &pool->busy_us);
	else if (!strcmp(key, "StuckAfter"))
		set_stuck(f, value, pool);
	else
		config_file_error(f, f->key_at,
			"unknown key %s= in [Pool %s]; %s%s", key, pool->name,
			near ? "did you mean "
			     : "there are Type=, Threads=, CPUAffinity=, "
			       "BusyPoll=, StuckAfter=",
			near ? near : "");
}

void
config_pool_set(struct config_file *f, const char *name, const char *key,
	const char *value)
{
	struct config *c = f->target;
	struct config_pool *pool;

	if (!name_is_valid(name, strlen(name), ENVELOPE_ALIAS_MAX) ||
		strcmp(name, "loop") == 0) {
		config_file_error(f, f->key_at,
			"[Pool %s]: a pool's name has A-Z a-z 0-9 _ . / - and "
			"is not 'loop'",
			name);
		return;
	}
	pool = (struct config_pool *)config_pool_find(c, name);
	if (!pool && c->n_pools == POOLS_MAX)
		config_file_error(
			f, f->key_at, "there are over %d pools", POOLS_MAX);
	else if (!pool && !(pool = pool_add(c, name, POOL_WORKER)))
		config_file_error(f, f->at, "out of memory");
	if (pool)
		set_key(f, pool, key, value);
}

/* ---- the whole ----------------------------------------------------- */

int
config_pools_finish(struct config *c)
{
	for (unsigned i = 0; pool_type_words[i]; i++)
		if (!config_pool_find(c, pool_type_words[i]) &&
			!pool_add(c, pool_type_words[i], (enum pool_type)i))
			return err_raise(-ENOMEM);
	for (size_t i = 0; i < c->n_pools; i++)
		if (c->pools[i].busy_us == UINT32_MAX)
			c->pools[i].busy_us = c->busy_us;
	return 0;
}

void
config_pools_free(struct config *c)
{
	for (size_t i = 0; i < c->n_pools; i++)
		free(c->pools[i].name);
	free(c->pools);
}

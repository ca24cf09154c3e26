#pragma once
/* For the tests of the store: one in a directory of its own. The threads are
 * real; the scheduler is stepped by the test. */
#include "store/lmdb.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fault.h"
#include "kernel/sched.h"

enum { DEADLINE_S = 30, ROOM = 4096 };

struct world {
	struct kernel kernel;
	_Alignas(64) struct sched sched;
	struct clock_fake clock;
	char path[64];
	struct lmdb *lmdb;
	struct lmdb_config config;
	struct lmdb_found found;
	unsigned n_done;
};

static inline void
on_wake(struct sched *s)
{
	(void)s; /* the test looks by itself */
}

static const struct executor_ops ops = {.name = "test", .wake = on_wake};

static inline int
setup(void **state)
{
	struct world *w = aligned_alloc(64, sizeof(*w));

	memset(w, 0, sizeof(*w));
	clock_fake_init(&w->clock);
	assert_int_equal(kernel_init(&w->kernel, &kernel_limits_default,
				 &w->clock.source),
		0);
	assert_int_equal(sched_init(&w->sched, &w->kernel, 0, &ops, w), 0);
	strcpy(w->path, "/tmp/eventd-lmdb-XXXXXX");
	assert_non_null(mkdtemp(w->path));
	w->config.path = w->path;
	*state = w;
	return 0;
}

static inline int
teardown(void **state)
{
	struct world *w = *state;
	char command[128];

	lmdb_close(w->lmdb);
	sched_deinit(&w->sched);
	kernel_deinit(&w->kernel);
	snprintf(command, sizeof(command), "rm -rf '%s'", w->path);
	assert_int_equal(system(command), 0);
	free(w);
	return 0;
}

static inline int
open_store(struct world *w)
{
	return lmdb_open(&w->lmdb, &w->config, &w->found);
}

static inline void
close_store(struct world *w)
{
	w->lmdb = lmdb_close(w->lmdb);
}

/* ---- jobs ---------------------------------------------------------------- */

struct job {
	struct store_job job;
	struct store_read read;
	struct store_write write;
	bool done;
};

static inline void
on_done(struct sched *s, struct store_job *job)
{
	(void)s;
	container_of(job, struct job, job)->done = true;
}

static inline void
submit(struct world *w, struct job *j)
{
	struct store *store = lmdb_store(w->lmdb);

	j->job.sched = &w->sched;
	j->job.done = on_done;
	store->ops->submit(store, &j->job, &j->job);
}

static inline int
wait_for(struct world *w, struct job *j)
{
	time_t end = time(NULL) + DEADLINE_S;

	while (!j->done) {
		assert_true(time(NULL) < end);
		sched_turn(&w->sched);
	}
	return j->job.status;
}

static inline void
prepare_put(struct job *j, const char *key, const void *data, uint32_t size)
{
	*j = (struct job){.write = {.table = STORE_EVENTS,
				  .key = key,
				  .key_size = (uint16_t)strlen(key),
				  .data = data,
				  .size = size}};
	j->job.writes = &j->write;
	j->job.n_writes = 1;
}

static inline int
put(struct world *w, const char *key, const void *data, uint32_t size)
{
	struct job j;

	prepare_put(&j, key, data, size);
	submit(w, &j);
	return wait_for(w, &j);
}

static inline int
erase(struct world *w, const char *key)
{
	struct job j;

	prepare_put(&j, key, NULL, 0);
	j.job.frees = true;
	submit(w, &j);
	return wait_for(w, &j);
}

/* "key=value key=value" of the rows from @from that begin with @prefix of its
 * bytes. */
static inline const char *
get(struct world *w, const char *from, uint16_t prefix, uint32_t max,
	bool *more)
{
	static char text[ROOM];
	struct job j = {.read = {.table = STORE_EVENTS,
				.also = STORE_TABLES,
				.from_size = (uint16_t)strlen(from),
				.prefix = prefix,
				.max_rows = max,
				.max_size = 1 << 20}};
	size_t used = 0;

	memcpy(j.read.from, from, strlen(from));
	j.job.read = &j.read;
	submit(w, &j);
	assert_int_equal(wait_for(w, &j), 0);
	text[0] = '\0';
	for (uint32_t i = 0; i < j.read.n; i++) {
		const struct store_row *row = &j.read.rows[i];

		used += (size_t)snprintf(text + used, sizeof(text) - used,
			"%s%.*s=%.*s", i ? " " : "", row->key_size, row->key,
			(int)row->size, row->data);
	}
	if (more)
		*more = j.read.more;
	free(j.read.rows);
	return text;
}

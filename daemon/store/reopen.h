#pragma once
/* Reopen: a thread that opens a store which could not be opened, again and
 * again with longer and longer pauses, until it can.
 *
 * Of the thread that has started it, which is a scheduler's. */
#include <limits.h>
#include <pthread.h>

#include "store/lmdb.h"

struct reopen {
	char path[PATH_MAX];
	struct lmdb_config config;
	struct sched *sched;
	struct sched_task task;
	void (*opened)(struct reopen *r);
	pthread_t thread;
	bool runs;
	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t come;
	bool ending;
	uint32_t tries, pause_s; /* before the next one */
	char why[LMDB_TEXT_MAX]; /* the last one failed */
	struct lmdb *lmdb;       /* what was opened, with */
	struct lmdb_found found;
};

/* What @config says, a copy; @why: how the first try ended. */
void reopen_init(
	struct reopen *r, const struct lmdb_config *config, const char *why);
/* Begin; opened() is called on @sched once the store is. 0 or negative errno.
 */
int reopen_start(struct reopen *r, struct sched *sched,
	void (*opened)(struct reopen *r));
/* After opened(): the store is the caller's. */
struct lmdb *reopen_take(struct reopen *r);
/* How it stands, for people; any thread. */
void reopen_text(struct reopen *r, char *out, size_t size);
/* Any number of times; a store that nobody has taken is closed. */
void reopen_end(struct reopen *r);

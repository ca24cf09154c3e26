#pragma once
/* Durable: the daemon's store. It is opened before there are other threads, and
 * closed after them; what it is found like is told to the log. One that cannot
 * be opened then is tried again while the daemon runs: once it can be, what
 * waits for it starts.
 *
 * The main thread, but for durable_ask(). */
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "config.h"
#include "exec/loop.h"
#include "kernel/store.h"
#include "round.h"
#include "store/lmdb.h"
#include "store/reopen.h"
#include "verb/daemon_ops.h"

struct durable {
	_Atomic(struct lmdb *) lmdb; /* NULL: none is used, or it cannot be */
	struct kernel *kernel;
	struct store broken;     /* stands for one that cannot be used */
	char why[LMDB_TEXT_MAX]; /* ... which it says */
	struct reopen reopen;
	struct round round;
	pthread_mutex_t lock; /* of these two: */
	bool set_aside;       /* it was damaged when it was opened */
	char text[LMDB_TEXT_MAX];
	struct sched *sched; /* of the main thread */
	struct store_job barrier;
	unsigned n_barriers;
	void (*done)(void *arg);
	void *arg;
};

/* Open what the configuration asks for. 0, or -EIO with the reason in @why: the
 * daemon must not start. */
int durable_open(struct durable *d, struct kernel *k,
	const struct config *config, bool no_store, char *why, size_t size);
/* The loops are made. */
void durable_begin(struct durable *d, struct loop *loops, unsigned n_loops);
/* Call @done when all that was submitted has come back, and what it led to. */
void durable_finish(struct durable *d, void (*done)(void *arg), void *arg);
void durable_close(struct durable *d);
/* The daemon's store operation, see verb/daemon_ops.h. */
void durable_ask(struct durable *d, struct sched *sched,
	const struct store_ask *what, store_done_fn done, void *arg);
/* It was damaged when it was opened; @text is told what became of that. Any
 * thread. */
bool durable_was_set_aside(struct durable *d, char *text, size_t size);
/* Something of it is damaged or cannot be used. */
bool durable_is_degraded(struct durable *d);

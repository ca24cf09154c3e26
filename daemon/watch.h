#pragma once
/* Watch: sees whether all loops turn. Its own thread asks each now and then,
 * by a task that it runs, and sends the service manager a sign of life only
 * when all have answered. A loop that does not is named in the log with the
 * session that holds it up: a signal makes the stuck thread itself say which.
 *
 * The first loop hears SIGTERM and SIGINT; while that one is stuck, this
 * thread does, and ends the process when it has been asked long enough ago.
 *
 * A sleeping loop is woken by the task and so is healthy. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "exec/loop.h"
#include "kernel/stall.h"
#include "watch_pools.h"

enum {
	WATCH_NAME_SIZE = 64,
	WATCH_EVENT_SIZE = 128,
	WATCH_LIMIT_MS = 10000, /* if nobody else says how long */
};

struct watch_probe {
	struct sched_task task;
	_Atomic bool out; /* asked and not answered */
	uint64_t asked_ns;
	bool told;        /* that it is stuck */
	unsigned n_asked; /* ... and nothing was found */
	/* Set by the loop's thread, in a signal handler, while it answers
	 * @named: not once the watch has given up waiting. */
	struct stall named;
	char name[WATCH_NAME_SIZE];    /* of the session that runs */
	uint64_t session;              /* ... its id */
	char program[WATCH_NAME_SIZE]; /* its script or plugin */
	char event[WATCH_EVENT_SIZE];  /* that it handles, and that one's id */
	uint64_t event_id;
	uint32_t on_stall;      /* enum stall_action */
	struct stall stall;     /* where that is, asked for with the name */
	struct sched_task move; /* on the loop, once that turns again */
	_Atomic bool moving;
	struct watch_found found; /* what its sessions do on pools */
	/* Of the question before: what the loop was held up by; session 0: by
	 * nothing. */
	struct watch_held {
		uint64_t session, event_id, ns;
		char event[WATCH_EVENT_SIZE];
	} held;
	struct watch *watch;
};

struct watch {
	struct loop *loops;
	unsigned n_loops;
	uint64_t interval_ns; /* from question to question */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool stop;
	bool started;
	void (*ping)(void);       /* tell that all is well; may be NULL */
	_Atomic uint64_t stop_ms; /* from SIGTERM to its end, at most */
	uint64_t hurry_ms;        /* from the second one */
	int stuck_exit;           /* status if that is over */
	struct watch_pools pools;
	struct watch_probe probes[KERNEL_LOOPS_MAX];
};

/* Watch @loops, with a ping at least every @limit_us while they turn; 0: the
 * default, without. After the handlers of SIGTERM and SIGINT have been set: it
 * puts itself before them. One at a time in a process. */
int watch_start(struct watch *w, struct loop *loops, unsigned n_loops,
	uint64_t limit_us, void (*ping)(void));
/* While the loops still run. Nothing if it was not started. Its memory must
 * outlive the loops, which may still answer. */
void watch_stop(struct watch *w);

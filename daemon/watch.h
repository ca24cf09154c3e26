#pragma once
/* Watch: the service manager's watchdog. Its own thread asks every loop now
 * and then, by a task that each runs, and sends a sign of life only when all
 * have answered; a loop that does not is named in the log.
 *
 * A sleeping loop is woken by the task and so is healthy. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "exec/loop.h"

struct watch_probe {
	struct sched_task task;
	_Atomic bool out; /* asked and not answered */
	uint64_t asked_ns;
	bool told; /* that it is stuck */
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
	void (*ping)(void); /* tell that all is well */
	struct watch_probe probes[KERNEL_LOOPS_MAX];
};

/* Watch @loops, with a ping at least every @limit_us while they turn. */
int watch_start(struct watch *w, struct loop *loops, unsigned n_loops,
	uint64_t limit_us, void (*ping)(void));
/* While the loops still run. Nothing if it was not started. Its memory must
 * outlive the loops, which may still answer. */
void watch_stop(struct watch *w);

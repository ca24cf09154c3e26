#pragma once
/* Round: run a function once on every loop's thread, then another on the
 * first's. The pace-maker of start, reload, count and stop. */
#include <stdatomic.h>

#include "exec/loop.h"

struct round;

struct round_part {
	struct sched_task task;
	struct round *round;
};

struct round {
	struct loop *loops;
	unsigned n_loops;
	void (*each)(struct round *round, struct loop *l);
	/* After all; may start the round again or free it. */
	void (*done)(struct round *round);
	_Atomic unsigned pending;
	struct sched_task finished;
	struct round_part parts[KERNEL_LOOPS_MAX];
};

void round_init(struct round *round, struct loop *loops, unsigned n_loops);
/* Any thread, or before the loops run. @each may be NULL: only pass through
 * all loops. */
void round_start(struct round *round,
	void (*each)(struct round *round, struct loop *l),
	void (*done)(struct round *round));

#include "round.h"

#include <string.h>

#include "base/list.h"

void
round_init(struct round *round, struct loop *loops, unsigned n_loops)
{
	memset(round, 0, sizeof(*round));
	round->loops = loops;
	round->n_loops = n_loops;
}

static void
round_on_finished(struct sched *s, struct sched_task *task)
{
	struct round *round = container_of(task, struct round, finished);

	(void)s;
	round->done(round);
}

static void
round_on_part(struct sched *s, struct sched_task *task)
{
	struct round_part *part = container_of(task, struct round_part, task);
	struct round *round = part->round;

	if (round->each)
		round->each(round, loop_of(s));
	if (atomic_fetch_sub(&round->pending, 1) == 1)
		sched_run_on(s, &round->loops[0].sched, &round->finished);
}

void
round_start(struct round *round,
	void (*each)(struct round *round, struct loop *l),
	void (*done)(struct round *round))
{
	unsigned n = round->n_loops;

	round->each = each;
	round->done = done;
	atomic_store(&round->pending, n);
	memset(&round->finished, 0, sizeof(round->finished));
	round->finished.run = round_on_finished;
	/* Injected, not staged: a staged task waits for the end of a turn, and
	 * libuv's timers run without one. */
	for (unsigned i = 0; i < n; i++) {
		struct round_part *part = &round->parts[i];

		memset(part, 0, sizeof(*part));
		part->round = round;
		part->task.run = round_on_part;
		loop_inject(&round->loops[i], &part->task);
	}
}

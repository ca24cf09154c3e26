#include "ending.h"

#include <errno.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "exec/leader.h"
#include "exec/loop.h"
#include "pools.h"
#include "sockets.h"

enum {
	AWAY_MS = 1000,  /* for handlers of pools, when the loops have ended */
	LOOPS_MS = 1000, /* for first threads of loops to come back */
};

static void
leave(const struct ending *e)
{
	sockets_close(e->sockets);
	log_info("daemon.stopped", "status=%d", *e->status);
	/* Nothing of ours is buffered; and a handler that is stuck in stdio has
	 * its stream locked, so that fflush() would wait for it. */
	_exit(*e->status);
}

/* Once: whoever comes second waits for the end of the process. */
static void
take(struct ending *e)
{
	while (atomic_exchange(&e->taken, true))
		pause();
}

static void *
watch_end(void *arg)
{
	struct ending *e = arg;
	struct timespec due;
	int r;

	clock_gettime(CLOCK_REALTIME, &due);
	due.tv_sec += LOOPS_MS / 1000;
	do
		r = sem_timedwait(&e->over, &due);
	while (r < 0 && errno == EINTR);
	if (r == 0)
		return NULL;
	take(e);
	for (unsigned i = 0; i < e->n_loops; i++)
		leader_tell_stuck(&e->loops[i]);
	pools_stop(e->pools, 0);
	leave(e);
	return NULL;
}

void
ending_begin(struct ending *e)
{
	sem_init(&e->over, 0, 0);
	e->started = pthread_create(&e->thread, NULL, watch_end, e) == 0;
}

void
ending_finish(struct ending *e)
{
	if (e->started) {
		sem_post(&e->over);
		take(e);
		pthread_join(e->thread, NULL);
	}
	if (!pools_stop(e->pools, AWAY_MS))
		leave(e);
}

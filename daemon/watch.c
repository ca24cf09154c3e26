#include "watch.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/list.h"
#include "base/log.h"

enum { QUESTIONS = 4 }; /* within the limit */

static void
watch_on_answer(struct sched *s, struct sched_task *task)
{
	struct watch_probe *probe =
		container_of(task, struct watch_probe, task);

	(void)s;
	atomic_store(&probe->out, false);
}

static void
probe_send(struct watch *w, unsigned i)
{
	struct watch_probe *probe = &w->probes[i];

	memset(&probe->task, 0, sizeof(probe->task));
	probe->task.run = watch_on_answer;
	probe->asked_ns = clock_now(&clock_system);
	probe->told = false;
	atomic_store(&probe->out, true);
	loop_inject(&w->loops[i], &probe->task);
}

static void
tell_stuck(struct watch_probe *probe, unsigned loop)
{
	uint64_t ns = clock_now(&clock_system) - probe->asked_ns;

	if (probe->told)
		return;
	probe->told = true;
	log_err("loop.stuck",
		"loop=%u ms=%" PRIu64
		" reason=\"a handler on it does not return\"",
		loop, ns / NS_PER_MS);
}

static void
watch_round(struct watch *w)
{
	bool all = true;

	for (unsigned i = 0; i < w->n_loops; i++) {
		if (atomic_load(&w->probes[i].out)) {
			all = false;
			tell_stuck(&w->probes[i], i);
		}
	}
	if (all)
		w->ping();
	for (unsigned i = 0; i < w->n_loops; i++)
		if (!atomic_load(&w->probes[i].out))
			probe_send(w, i);
}

static struct timespec
after(uint64_t ns)
{
	uint64_t due = clock_now(&clock_system) + ns;

	return (struct timespec){.tv_sec = (time_t)(due / NS_PER_S),
		.tv_nsec = (long)(due % NS_PER_S)};
}

static void *
watch_main(void *arg)
{
	struct watch *w = arg;
	struct timespec due;
	int r = ETIMEDOUT;

	pthread_mutex_lock(&w->lock);
	while (!w->stop) {
		if (r == ETIMEDOUT) {
			watch_round(w);
			due = after(w->interval_ns);
		}
		r = pthread_cond_timedwait(&w->wake, &w->lock, &due);
	}
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

int
watch_start(struct watch *w, struct loop *loops, unsigned n_loops,
	uint64_t limit_us, void (*ping)(void))
{
	pthread_condattr_t attr;
	int r;

	memset(w, 0, sizeof(*w));
	w->loops = loops;
	w->n_loops = n_loops;
	w->interval_ns = limit_us * NS_PER_US / QUESTIONS;
	w->ping = ping;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->wake, &attr);
	pthread_condattr_destroy(&attr);
	r = pthread_create(&w->thread, NULL, watch_main, w);
	w->started = r == 0;
	return r ? err_raise(-r) : 0;
}

void
watch_stop(struct watch *w)
{
	if (!w->started)
		return;
	pthread_mutex_lock(&w->lock);
	w->stop = true;
	pthread_cond_signal(&w->wake);
	pthread_mutex_unlock(&w->lock);
	pthread_join(w->thread, NULL);
	w->started = false;
	pthread_cond_destroy(&w->wake);
	pthread_mutex_destroy(&w->lock);
}

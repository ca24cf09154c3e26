/* See reopen.h. The thread sleeps, and opens; nobody waits for it but the end
 * of the daemon. */
#include "store/reopen.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "store/lmdb_own.h"

enum { PAUSE_FIRST_S = 1, PAUSE_MOST_S = 30 };

void
reopen_init(struct reopen *r, const struct lmdb_config *config, const char *why)
{
	pthread_condattr_t attr;

	*r = (struct reopen){.config = *config, .pause_s = PAUSE_FIRST_S};
	snprintf(r->path, sizeof(r->path), "%s", config->path);
	snprintf(r->why, sizeof(r->why), "%s", why);
	r->config.path = r->path;
	pthread_mutex_init(&r->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&r->come, &attr);
	pthread_condattr_destroy(&attr);
}

/* False: it ends. */
static bool
pause_between(struct reopen *r)
{
	uint64_t due = lmdb_now_ns() + r->pause_s * (uint64_t)NS_PER_S;
	struct timespec until = {.tv_sec = (time_t)(due / NS_PER_S),
		.tv_nsec = (long)(due % NS_PER_S)};
	bool ending;
	int e = 0;

	pthread_mutex_lock(&r->lock);
	while (!r->ending && !e)
		e = pthread_cond_timedwait(&r->come, &r->lock, &until);
	ending = r->ending;
	pthread_mutex_unlock(&r->lock);
	return !ending;
}

/* The log is told of a reason when it is a new one. */
static void
failed(struct reopen *r, const struct lmdb_found *found)
{
	bool news;

	pthread_mutex_lock(&r->lock);
	news = strcmp(r->why, found->text) != 0;
	snprintf(r->why, sizeof(r->why), "%s", found->text);
	r->tries++;
	r->pause_s *= 2;
	if (r->pause_s > PAUSE_MOST_S)
		r->pause_s = PAUSE_MOST_S;
	pthread_mutex_unlock(&r->lock);
	if (news)
		log_err("store.broken", "reason=\"%s\"", found->text);
}

static void
on_opened(struct sched *s, struct sched_task *task)
{
	struct reopen *r = container_of(task, struct reopen, task);

	(void)s;
	r->opened(r);
}

static void *
reopen_run(void *arg)
{
	struct reopen *r = arg;
	struct lmdb_found found;
	struct lmdb *lmdb = NULL;

	pthread_setname_np(pthread_self(), "eventd-reopen");
	while (!lmdb) {
		if (!pause_between(r))
			return NULL;
		if (lmdb_open(&lmdb, &r->config, &found)) {
			lmdb = NULL;
			failed(r, &found);
		}
	}
	r->lmdb = lmdb;
	r->found = found;
	r->task.run = on_opened;
	sched_inject(r->sched, &r->task);
	return NULL;
}

int
reopen_start(
	struct reopen *r, struct sched *sched, void (*opened)(struct reopen *r))
{
	int e;

	r->sched = sched;
	r->opened = opened;
	e = lmdb_thread(&r->thread, reopen_run, r);
	r->runs = !e;
	return err_pass(e);
}

struct lmdb *
reopen_take(struct reopen *r)
{
	pthread_join(r->thread, NULL);
	r->runs = false;
	return TAKE(r->lmdb);
}

void
reopen_text(struct reopen *r, char *out, size_t size)
{
	pthread_mutex_lock(&r->lock);
	snprintf(out, size,
		"%.200s; tried again %" PRIu32 " times, next within %" PRIu32
		" s",
		r->why, r->tries, r->pause_s);
	pthread_mutex_unlock(&r->lock);
}

void
reopen_end(struct reopen *r)
{
	if (!r->runs)
		return;
	pthread_mutex_lock(&r->lock);
	r->ending = true;
	pthread_cond_signal(&r->come);
	pthread_mutex_unlock(&r->lock);
	r->lmdb = lmdb_close(reopen_take(r));
}

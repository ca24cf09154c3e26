/* The store: the queue of jobs and the thread that does them. Loops take a lock
 * to hand over and no more; the thread holds it only to take. */
#include "store/lmdb.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/log.h"
#include "kernel/journal.h"
#include "store/bus.h"
#include "store/lmdb_own.h"

enum {
	HURRY_BYTES = 1 << 20, /* that wait: no more come together */
	GATHER_MS = 5,         /* so long they may, if syncs have an interval */
	READER_CHECK_S = 60,
};

uint64_t
lmdb_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

/* ---- handing over -------------------------------------------------------- */

static void
add_job(struct lmdb *l, struct store_job *job)
{
	job->next = NULL;
	if (l->last)
		l->last->next = job;
	else
		l->first = job;
	l->last = job;
	l->waiting += job_bytes(job);
	l->hurried |= job->read || job->run || !job->n_writes;
}

static void
lmdb_submit(
	struct store *store, struct store_job *first, struct store_job *last)
{
	struct lmdb *l = lmdb_of(store);

	last->next = NULL;
	pthread_mutex_lock(&l->lock);
	for (struct store_job *job = first, *next; job; job = next) {
		next = job->next;
		if (job->read && job->read->soon)
			reader_submit(l, job);
		else
			add_job(l, job);
	}
	if (l->first)
		pthread_cond_signal(&l->come);
	pthread_mutex_unlock(&l->lock);
}

static struct store_box *
box_find(struct lmdb *l, const char *name, size_t size)
{
	struct store_box *box = l->boxes;

	while (box &&
		(box->name_size != size || memcmp(box->name, name, size) != 0))
		box = box->next;
	return box;
}

static struct store_box *
box_new(struct lmdb *l, const char *name, size_t size)
{
	struct store_box *box = calloc(1, sizeof(*box) + size + 1);

	if (!box)
		return NULL;
	box->name_size = (uint8_t)size;
	memcpy(box->name, name, size);
	box->next = l->boxes;
	l->boxes = box;
	return box;
}

static struct store_box *
lmdb_hold(struct store *store, const char *name, size_t size)
{
	struct lmdb *l = lmdb_of(store);
	struct store_box *box;

	pthread_mutex_lock(&l->lock);
	box = box_find(l, name, size);
	if (!box) {
		box = box_new(l, name, size);
		if (box)
			box->id = ++l->last_box;
	}
	if (box && box->held)
		box = NULL;
	if (box)
		box->held = true;
	pthread_mutex_unlock(&l->lock);
	return box;
}

static struct store_box *
lmdb_find(struct store *store, const char *name, size_t size)
{
	struct lmdb *l = lmdb_of(store);
	struct store_box *box;

	pthread_mutex_lock(&l->lock);
	box = box_find(l, name, size);
	if (box && (box->held || !(box->n || box->kept)))
		box = NULL;
	if (box)
		box->held = true;
	pthread_mutex_unlock(&l->lock);
	return box;
}

static void
lmdb_release(struct store *store, struct store_box *box)
{
	struct lmdb *l = lmdb_of(store);

	pthread_mutex_lock(&l->lock);
	box->held = false;
	pthread_mutex_unlock(&l->lock);
}

static const struct store_ops lmdb_ops = {
	.submit = lmdb_submit,
	.hold = lmdb_hold,
	.release = lmdb_release,
	.find = lmdb_find,
};

/* ---- reading ------------------------------------------------------------- */

static void
read_round(struct lmdb *l, struct store_job *jobs, struct store_job *end)
{
	for (; jobs != end; jobs = jobs->next) {
		if (jobs->run && !jobs->status)
			jobs->status = jobs->run(&l->store, jobs);
		if (jobs->read && !jobs->status)
			jobs->status = reader_do(l, jobs->read);
		if (!jobs->read && !jobs->n_writes) /* behind all others */
			reader_wait(l);
	}
}

int
lmdb_backup(struct store *store, const char *path)
{
	struct lmdb *l = lmdb_of(store);
	int r = checkpoint_all(l), fd;

	if (!r)
		r = lmdb_file_needs_no_log(&l->file);
	if (r)
		return r;
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	r = lmdb_error(mdb_env_copyfd2(l->file.env, fd, MDB_CP_COMPACT));
	if (!r && fsync(fd) < 0)
		r = -errno;
	close(fd);
	if (r)
		unlink(path);
	return r;
}

int
lmdb_check(struct store *store, uint64_t *events, uint64_t *damaged)
{
	MDB_val from = {0, NULL};
	struct view v;
	uint32_t n;
	int r = view_begin(&v, lmdb_of(store));

	*events = *damaged = 0;
	if (r)
		return lmdb_error(r);
	for (r = view_seek(&v, STORE_EVENTS, &from); !r; r = view_next(&v)) {
		*damaged += journal_check_record(
			v.value.mv_data, v.value.mv_size, &n);
		*events += n;
	}
	view_end(&v);
	return r == MDB_NOTFOUND ? 0 : lmdb_error(r);
}

/* ---- giving back --------------------------------------------------------- */

/* The chain's first job carries it. */
static void
jobs_arrive(struct sched *s, struct sched_task *task)
{
	struct store_job *job = container_of(task, struct store_job, task);
	struct store_job *next;

	for (; job; job = next) {
		next = job->next;
		job->done(s, job);
	}
}

void
lmdb_give_back(struct store_job *jobs)
{
	struct store_job *firsts[KERNEL_LOOPS_MAX] = {0};
	struct store_job *lasts[KERNEL_LOOPS_MAX] = {NULL}, *next;

	for (; jobs; jobs = next) {
		unsigned i = jobs->sched->index;

		next = jobs->next;
		jobs->next = NULL;
		if (lasts[i])
			lasts[i]->next = jobs;
		else
			firsts[i] = jobs;
		lasts[i] = jobs;
	}
	for (unsigned i = 0; i < KERNEL_LOOPS_MAX; i++) {
		struct store_job *first = firsts[i];

		if (!first)
			continue;
		first->task.run = jobs_arrive;
		sched_inject(first->sched, &first->task);
	}
}

/* ---- the thread ---------------------------------------------------------- */

static struct timespec
timespec_of(uint64_t ns)
{
	return (struct timespec){.tv_sec = (time_t)(ns / NS_PER_S),
		.tv_nsec = (long)(ns % NS_PER_S)};
}

/* When there is something to do although no job comes. */
static uint64_t
next_due(const struct lmdb *l)
{
	uint64_t due = checkpoint_due_ns(l);
	uint64_t sync =
		l->synced_ns + (uint64_t)l->store.interval_ms * NS_PER_MS;

	return l->wal.dirty && l->store.interval_ms && sync < due ? sync : due;
}

static bool
is_idle(const struct lmdb *l)
{
	return !l->first && !l->ending &&
	       l->checkpoint.state != CHECKPOINT_DONE;
}

/* NULL: none has come, and something else is to be done. Called with the
 * lock. */
static struct store_job *
take_jobs(struct lmdb *l)
{
	uint64_t gather = l->store.interval_ms < GATHER_MS
				  ? l->store.interval_ms
				  : GATHER_MS;
	struct timespec until = timespec_of(next_due(l));
	bool forever = next_due(l) == UINT64_MAX;
	struct store_job *jobs;
	int r = 0;

	while (is_idle(l) && !r)
		r = forever ? pthread_cond_wait(&l->come, &l->lock)
			    : pthread_cond_timedwait(
				      &l->come, &l->lock, &until);
	until = timespec_of(l->last_ns + gather * NS_PER_MS);
	r = 0;
	while (gather && l->first && !r && !l->hurried && !l->ending &&
		l->waiting < HURRY_BYTES)
		r = pthread_cond_timedwait(&l->come, &l->lock, &until);
	jobs = l->first;
	l->first = l->last = NULL;
	l->waiting = 0;
	l->hurried = false;
	return jobs;
}

static void
do_jobs(struct lmdb *l, struct store_job *jobs)
{
	while (jobs) {
		struct store_job *end = lmdb_write_end(l, jobs), *last = jobs;

		for (struct store_job *job = jobs; job != end; job = job->next)
			job->status = 0;
		lmdb_write(l, jobs, end);
		read_round(l, jobs, end);
		while (last->next != end)
			last = last->next;
		last->next = NULL;
		lmdb_give_back(jobs);
		jobs = end;
	}
}

/* False: it ends, and all is done. */
static bool
one_round(struct lmdb *l)
{
	struct store_job *jobs;
	bool ending;

	pthread_mutex_lock(&l->lock);
	jobs = take_jobs(l);
	ending = l->ending;
	pthread_mutex_unlock(&l->lock);
	l->last_ns = lmdb_now_ns();
	checkpoint_collect(l);
	do_jobs(l, jobs);
	lmdb_sync_if_due(l, l->last_ns);
	checkpoint_if_due(l, l->last_ns);
	return jobs || !ending;
}

static void *
lmdb_run(void *arg)
{
	struct lmdb *l = arg;
	uint64_t checked_ns = lmdb_now_ns();
	int dead;

	pthread_setname_np(pthread_self(), "eventd-store");
	while (one_round(l)) {
		if (l->last_ns - checked_ns <=
			READER_CHECK_S * (uint64_t)NS_PER_S)
			continue;
		mdb_reader_check(l->file.env, &dead);
		checked_ns = l->last_ns;
	}
	if (l->store.interval_ms && l->wal.dirty)
		wal_sync(&l->wal); /* LMDB may not be able to take it */
	reader_end(l);
	if (!checkpoint_all(l) && !lmdb_file_needs_no_log(&l->file))
		wal_remove(&l->wal);
	checkpoint_end(l);
	return NULL;
}

/* Signals are for the main thread, but for a thread's own. */
int
lmdb_thread(pthread_t *thread, void *(*run)(void *arg), void *arg)
{
	sigset_t all, old;
	int r;

	sigfillset(&all);
	sigdelset(&all, SIGBUS); /* see bus.h */
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(thread, NULL, run, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return r ? err_raise(-r) : 0;
}

static int
threads_start(struct lmdb *l)
{
	int r = checkpoint_start(l);

	if (!r)
		r = reader_start(l);
	if (!r)
		r = lmdb_thread(&l->thread, lmdb_run, l);
	if (!r)
		return 0;
	reader_end(l);
	checkpoint_end(l);
	return err_pass(r);
}

/* ---- open and close ------------------------------------------------------ */

static int
box_load(struct lmdb *l, const MDB_val *key, const MDB_val *value)
{
	struct store_box_row row;
	struct store_box *box;

	if (value->mv_size != sizeof(row) || !key->mv_size ||
		key->mv_size > UINT8_MAX)
		return 0;
	memcpy(&row, value->mv_data, sizeof(row));
	box = box_new(l, key->mv_data, key->mv_size);
	if (!box)
		return ENOMEM;
	box->id = row.id;
	box->n = row.n;
	box->size = row.size;
	box->standing = row.flags & STORE_BOX_STANDING;
	box->paused = row.flags & STORE_BOX_PAUSED;
	box->traits = row.flags >> STORE_TRAITS_SHIFT;
	if (box->standing)
		atomic_fetch_add(&l->store.n_standing, 1);
	box->kept = row.flags & STORE_BOX_KEPT;
	if (box->id > l->last_box)
		l->last_box = box->id;
	return 0;
}

static int
boxes_load(struct lmdb *l)
{
	MDB_txn *txn;
	MDB_cursor *cursor;
	MDB_val key, value;
	int r = mdb_txn_begin(l->file.env, NULL, MDB_RDONLY, &txn);

	if (r)
		return err_raise(lmdb_error(r));
	r = mdb_cursor_open(txn, l->file.tables[STORE_BOXES], &cursor);
	if (!r) {
		while (!(r = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) &&
			!(r = box_load(l, &key, &value)))
			;
		mdb_cursor_close(cursor);
	}
	mdb_txn_abort(txn);
	return r == MDB_NOTFOUND ? 0 : err_raise(lmdb_error(r));
}

static void
lmdb_free(struct lmdb *l)
{
	struct store_box *box;

	while ((box = l->boxes)) {
		l->boxes = box->next;
		free(box);
	}
	lmdb_file_close(&l->file);
	wal_close(&l->wal);
	rows_clear(l->fresh);
	rows_clear(l->frozen);
	pthread_cond_destroy(&l->reader.asked);
	pthread_cond_destroy(&l->checkpoint.asked);
	pthread_cond_destroy(&l->come);
	pthread_mutex_destroy(&l->lock);
	free(l);
}

static void
sync_init(struct lmdb *l)
{
	pthread_condattr_t attr;

	pthread_mutex_init(&l->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&l->come, &attr);
	pthread_cond_init(&l->checkpoint.asked, NULL);
	pthread_cond_init(&l->reader.asked, NULL);
	pthread_condattr_destroy(&attr);
}

/* A file that says how many runs there were without the store. */
static const char without_name[] = "ran-without";

static void
look_without(const char *path, struct lmdb_found *found)
{
	char name[PATH_MAX], text[32] = "";
	int fd;

	snprintf(name, sizeof(name), "%s/%s", path, without_name);
	fd = open(name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	if (read(fd, text, sizeof(text) - 1) >= 0)
		found->ran_without = strtoull(text, NULL, 10);
	if (!found->ran_without)
		found->ran_without = 1;
	close(fd);
	unlink(name);
}

void
lmdb_ran_without(const char *path)
{
	struct lmdb_found found = {.ran_without = 0};
	char name[PATH_MAX];
	FILE *file;

	look_without(path, &found);
	snprintf(name, sizeof(name), "%s/data.mdb", path);
	if (access(name, F_OK) < 0)
		return;
	snprintf(name, sizeof(name), "%s/%s", path, without_name);
	file = fopen(name, "we");
	if (!file)
		return;
	fprintf(file, "%" PRIu64 "\n", found.ran_without + 1);
	fclose(file);
}

int
lmdb_open(struct lmdb **out, const struct lmdb_config *config,
	struct lmdb_found *found)
{
	struct lmdb *l = calloc(1, sizeof(*l));
	int r;

	if (!l)
		return err_raise(-ENOMEM);
	bus_explain();
	sync_init(l);
	wal_init(&l->wal);
	l->fresh = &l->sets[0];
	l->frozen = &l->sets[1];
	snprintf(l->path, sizeof(l->path), "%s", config->path);
	rows_init(l->fresh);
	rows_init(l->frozen);
	r = lmdb_file_open(&l->file, &l->wal, config, found);
	if (!r) {
		look_without(config->path, found);
		l->applied = l->wal.no;
		l->file_size = l->file.file_size;
		l->store.ops = &lmdb_ops;
		l->store.run = l->file.run;
		l->store.interval_ms = config->interval_ms;
		atomic_store(&l->store.next_no,
			(l->file.run << STORE_RUN_SHIFT) + 1);
		l->stats.size = l->file_size + wal_size(&l->wal);
		r = boxes_load(l);
	}
	if (!r)
		r = threads_start(l);
	if (r) {
		lmdb_free(l);
		return err_pass(r);
	}
	*out = l;
	return 0;
}

struct lmdb *
lmdb_close(struct lmdb *l)
{
	if (!l)
		return NULL;
	pthread_mutex_lock(&l->lock);
	l->ending = true;
	pthread_cond_signal(&l->come);
	pthread_mutex_unlock(&l->lock);
	pthread_join(l->thread, NULL);
	lmdb_free(l);
	return NULL;
}

struct store_box *
lmdb_boxes(struct lmdb *l)
{
	struct store_box *boxes;

	pthread_mutex_lock(&l->lock);
	boxes = l->boxes;
	pthread_mutex_unlock(&l->lock);
	return boxes;
}

const char *
lmdb_path(const struct lmdb *l)
{
	return l->path;
}

struct store *
lmdb_store(struct lmdb *l)
{
	return &l->store;
}

void
lmdb_stats(struct lmdb *l, struct lmdb_stats *out)
{
	pthread_mutex_lock(&l->lock);
	*out = l->stats;
	for (const struct store_box *box = l->boxes; box; box = box->next) {
		out->boxes += box->n > 0;
		out->events += box->n;
	}
	pthread_mutex_unlock(&l->lock);
}

/* The store on LMDB: the queue of jobs and the thread that does them. Loops
 * take a lock to hand over and no more; the thread holds it only to take. */
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
#include "store/lmdb_file.h"

enum {
	ROUND_BYTES = 32 << 20, /* of writes in one transaction, about */
	HURRY_BYTES = 8 << 20,  /* that wait: no interval is waited for */
	READER_CHECK_S = 60,
	RETRY_MAX = 24, /* growths of the map for one transaction */
};

struct lmdb {
	struct store store;
	struct lmdb_file file;
	pthread_t thread;
	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t come;
	struct store_job *first, *last;
	uint64_t waiting; /* bytes of their writes */
	bool hurried;     /* one of them wants to be done now */
	bool ending;
	struct store_box *boxes;
	uint64_t last_box;
	struct lmdb_stats stats;
};

static struct lmdb *
lmdb_of(struct store *store)
{
	return container_of(store, struct lmdb, store);
}

static uint64_t
now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

static uint64_t
job_bytes(const struct store_job *job)
{
	uint64_t size = 0;

	for (uint32_t i = 0; i < job->n_writes; i++)
		size += job->writes[i].size + job->writes[i].key_size;
	return size;
}

/* ---- handing over -------------------------------------------------------- */

static void
lmdb_submit(
	struct store *store, struct store_job *first, struct store_job *last)
{
	struct lmdb *l = lmdb_of(store);
	uint64_t size = 0;
	bool hurried = false;

	for (struct store_job *job = first;; job = job->next) {
		size += job_bytes(job);
		hurried |= job->read || job->run || !job->n_writes;
		if (job == last)
			break;
	}
	last->next = NULL;
	pthread_mutex_lock(&l->lock);
	if (l->last)
		l->last->next = first;
	else
		l->first = first;
	l->last = last;
	l->waiting += size;
	l->hurried |= hurried;
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
	if (box && (box->held || !box->n))
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

/* ---- one transaction ----------------------------------------------------- */

static int
write_one(struct lmdb *l, MDB_txn *txn, const struct store_write *w)
{
	MDB_dbi table = l->file.tables[w->table];
	MDB_val key = {w->key_size, (void *)w->key};
	MDB_val value = {w->size, (void *)w->data};
	int r;

	if (FAULT(store_write_enospc))
		return ENOSPC;
	if (FAULT(store_write_eio))
		return EIO;
	if (w->data)
		return mdb_put(txn, table, &key, &value, 0);
	r = mdb_del(txn, table, &key, NULL);
	return r == MDB_NOTFOUND ? 0 : r;
}

static bool
belongs(const struct store_job *job, bool freeing_only)
{
	return job->n_writes && (!freeing_only || job->frees);
}

static int
write_jobs(struct lmdb *l, MDB_txn *txn, struct store_job *jobs,
	struct store_job *end, bool freeing_only)
{
	int r = 0;

	for (struct store_job *job = jobs; job != end && !r; job = job->next)
		for (uint32_t i = 0;
			belongs(job, freeing_only) && i < job->n_writes && !r;
			i++)
			r = write_one(l, txn, &job->writes[i]);
	return r;
}

static int
commit(MDB_txn *txn)
{
	if (FAULT(store_commit_enospc)) {
		mdb_txn_abort(txn);
		return ENOSPC;
	}
	if (FAULT(store_commit_eio)) {
		mdb_txn_abort(txn);
		return EIO;
	}
	return mdb_txn_commit(txn);
}

static int
transact(struct lmdb *l, struct store_job *jobs, struct store_job *end,
	bool freeing_only)
{
	MDB_txn *txn;
	int r = mdb_txn_begin(l->file.env, NULL, 0, &txn);

	if (r)
		return r;
	r = write_jobs(l, txn, jobs, end, freeing_only);
	if (!r)
		return commit(txn);
	mdb_txn_abort(txn);
	return r;
}

/* The same, with a larger map if need be. Negative errno. */
static int
transact_grown(struct lmdb *l, struct store_job *jobs, struct store_job *end,
	bool freeing_only)
{
	int r = MDB_MAP_FULL;

	if (lmdb_file_limit(&l->file, freeing_only))
		return -ENOSPC;
	for (unsigned i = 0; i < RETRY_MAX && r == MDB_MAP_FULL; i++) {
		r = transact(l, jobs, end, freeing_only);
		if (r == MDB_MAP_FULL && lmdb_file_grow(&l->file, freeing_only))
			return -ENOSPC;
	}
	/* LMDB says EIO of a write that was cut short */
	return r == EIO && lmdb_file_disk_is_full(&l->file) ? -ENOSPC
							    : lmdb_error(r);
}

static bool
any_writes(const struct store_job *jobs, const struct store_job *end,
	bool freeing_only)
{
	for (; jobs != end; jobs = jobs->next)
		if (belongs(jobs, freeing_only))
			return true;
	return false;
}

static void
set_status(
	struct store_job *jobs, struct store_job *end, int status, bool freeing)
{
	for (; jobs != end; jobs = jobs->next)
		if (jobs->n_writes && jobs->frees == freeing)
			jobs->status = status;
}

/* Together they cannot be written: what gives room goes first and alone, then
 * each by itself, for a small one may find room where a large one does not. */
static void
write_apart(
	struct lmdb *l, struct store_job *jobs, struct store_job *end, int why)
{
	set_status(jobs, end, why, false);
	set_status(jobs, end,
		any_writes(jobs, end, true) ? transact_grown(l, jobs, end, true)
					    : 0,
		true);
	if (why != -E2BIG)
		return;
	for (; jobs != end; jobs = jobs->next)
		if (jobs->n_writes && !jobs->frees)
			jobs->status =
				transact_grown(l, jobs, jobs->next, false);
}

static void
tell_failure(struct lmdb *l, int r)
{
	bool first;

	pthread_mutex_lock(&l->lock);
	first = !l->stats.last_error;
	l->stats.failed++;
	l->stats.last_error = -r;
	pthread_mutex_unlock(&l->lock);
	if (first)
		log_err("store.failed", "errno=%d reason=\"%s\"", -r,
			strerror(-r));
}

static void
tell_success(struct lmdb *l, uint64_t took_ns)
{
	bool again;

	pthread_mutex_lock(&l->lock);
	again = l->stats.last_error;
	l->stats.last_error = 0;
	l->stats.commits++;
	l->stats.last_ns = took_ns;
	if (took_ns > l->stats.max_ns)
		l->stats.max_ns = took_ns;
	l->stats.size = l->file.file_size;
	pthread_mutex_unlock(&l->lock);
	if (again)
		log_info("store.recovered", "reason=\"it can be written\"");
}

static void
write_round(struct lmdb *l, struct store_job *jobs, struct store_job *end)
{
	uint64_t since = now_ns();
	int r;

	if (!any_writes(jobs, end, false))
		return;
	lmdb_file_reserve(&l->file);
	r = transact_grown(l, jobs, end, false);
	if (!r) {
		tell_success(l, now_ns() - since);
		return;
	}
	if (r != -E2BIG)
		tell_failure(l, r);
	write_apart(l, jobs, end, r);
}

/* ---- reading ------------------------------------------------------------- */

static void
read_round(struct lmdb *l, struct store_job *jobs, struct store_job *end)
{
	MDB_txn *txn = NULL;
	int r = 0;

	for (; jobs != end; jobs = jobs->next) {
		if (jobs->run && !jobs->status)
			jobs->status = jobs->run(&l->store, jobs);
		if (!jobs->read || jobs->status)
			continue;
		if (!txn)
			r = mdb_txn_begin(l->file.env, NULL, MDB_RDONLY, &txn);
		if (!r && FAULT(store_read_eio))
			r = EIO;
		jobs->status = lmdb_error(
			r ? r : lmdb_read(&l->file, txn, jobs->read));
	}
	if (txn)
		mdb_txn_abort(txn);
}

int
lmdb_backup(struct store *store, const char *path)
{
	struct lmdb *l = lmdb_of(store);
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int r;

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
	struct lmdb *l = lmdb_of(store);
	MDB_txn *txn;
	MDB_cursor *cursor = NULL;
	MDB_val key, value;
	uint32_t n;
	int r = mdb_txn_begin(l->file.env, NULL, MDB_RDONLY, &txn);

	*events = *damaged = 0;
	if (r)
		return lmdb_error(r);
	r = mdb_cursor_open(txn, l->file.tables[STORE_EVENTS], &cursor);
	while (!r && !(r = mdb_cursor_get(cursor, &key, &value, MDB_NEXT))) {
		*damaged +=
			journal_check_record(value.mv_data, value.mv_size, &n);
		*events += n;
	}
	if (cursor)
		mdb_cursor_close(cursor);
	mdb_txn_abort(txn);
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

/* Each scheduler gets its own, in order. */
static void
give_back(struct store_job *jobs)
{
	struct store_job *firsts[KERNEL_LOOPS_MAX] = {NULL};
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

/* When what waits must be written, if syncs have an interval. */
static struct timespec
deadline_of(struct lmdb *l, uint64_t last_ns)
{
	uint64_t due = last_ns + (uint64_t)l->store.interval_ms * NS_PER_MS;

	return (struct timespec){.tv_sec = (time_t)(due / NS_PER_S),
		.tv_nsec = (long)(due % NS_PER_S)};
}

/* NULL: it ends. Called with the lock. */
static struct store_job *
take_jobs(struct lmdb *l, uint64_t last_ns)
{
	struct timespec until = deadline_of(l, last_ns);
	struct store_job *jobs;
	int r = 0;

	while (!l->first && !l->ending)
		pthread_cond_wait(&l->come, &l->lock);
	while (l->store.interval_ms && !r && !l->hurried && !l->ending &&
		l->waiting < HURRY_BYTES)
		r = pthread_cond_timedwait(&l->come, &l->lock, &until);
	jobs = l->first;
	l->first = l->last = NULL;
	l->waiting = 0;
	l->hurried = false;
	return jobs;
}

/* The job behind those that one transaction takes. */
static struct store_job *
round_end(struct store_job *jobs)
{
	uint64_t size = 0;

	while (jobs && size < ROUND_BYTES) {
		size += job_bytes(jobs);
		jobs = jobs->next;
	}
	return jobs;
}

static void
do_jobs(struct lmdb *l, struct store_job *jobs)
{
	while (jobs) {
		struct store_job *end = round_end(jobs), *last = jobs;

		write_round(l, jobs, end);
		read_round(l, jobs, end);
		while (last->next != end)
			last = last->next;
		last->next = NULL;
		give_back(jobs);
		jobs = end;
	}
}

static void *
lmdb_run(void *arg)
{
	struct lmdb *l = arg;
	uint64_t last_ns = 0, checked_ns = now_ns();
	struct store_job *jobs;
	int dead;

	pthread_setname_np(pthread_self(), "eventd-store");
	for (;;) {
		pthread_mutex_lock(&l->lock);
		jobs = take_jobs(l, last_ns);
		pthread_mutex_unlock(&l->lock);
		if (!jobs)
			break;
		last_ns = now_ns();
		do_jobs(l, jobs);
		if (last_ns - checked_ns >
			READER_CHECK_S * (uint64_t)NS_PER_S) {
			mdb_reader_check(l->file.env, &dead);
			checked_ns = last_ns;
		}
	}
	return NULL;
}

/* Signals are for the main thread. */
static int
thread_start(struct lmdb *l)
{
	sigset_t all, old;
	int r;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(&l->thread, NULL, lmdb_run, l);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return r ? err_raise(-r) : 0;
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
	sync_init(l);
	r = lmdb_file_open(&l->file, config, found);
	if (!r) {
		look_without(config->path, found);
		l->store.ops = &lmdb_ops;
		l->store.run = l->file.run;
		l->store.interval_ms = config->interval_ms;
		atomic_store(&l->store.next_no,
			(l->file.run << STORE_RUN_SHIFT) + 1);
		l->stats.size = l->file.file_size;
		r = boxes_load(l);
	}
	if (!r)
		r = thread_start(l);
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

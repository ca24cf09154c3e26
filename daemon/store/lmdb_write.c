/* Jobs' writes: into the log, and into memory until a checkpoint has taken them
 * to LMDB. The store's thread. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/log.h"
#include "store/lmdb_own.h"

enum {
	ROUND_BYTES = 8 << 20, /* of writes in one group, about */
	KEPT = 8,              /* this part of the log is for jobs that free */
	ROWS_MAX = 1 << 16,    /* of a group */
};

/* ---- telling ------------------------------------------------------------- */

void
lmdb_tell_failure(struct lmdb *l, int r)
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

void
lmdb_tell_success(struct lmdb *l, uint64_t took_ns)
{
	bool again;

	pthread_mutex_lock(&l->lock);
	again = l->stats.last_error;
	l->stats.last_error = 0;
	l->stats.commits++;
	l->stats.last_ns = took_ns;
	if (took_ns > l->stats.max_ns)
		l->stats.max_ns = took_ns;
	l->stats.size = l->file_size + wal_size(&l->wal);
	pthread_mutex_unlock(&l->lock);
	if (again)
		log_info("store.recovered", "reason=\"it can be written\"");
}

/* ---- which jobs ---------------------------------------------------------- */

uint64_t
job_bytes(const struct store_job *job)
{
	uint64_t size = 0;

	for (uint32_t i = 0; i < job->n_writes; i++)
		size += wal_row_size(&job->writes[i]);
	return size;
}

static bool
belongs(const struct store_job *job, bool freeing_only)
{
	return job->n_writes && !job->status && (!freeing_only || job->frees);
}

/* What the log cannot hold, LMDB might. */
static uint64_t
group_max(const struct lmdb *l)
{
	uint64_t max = l->wal.max - l->wal.max / KEPT;

	return max < ROUND_BYTES ? max : ROUND_BYTES;
}

/* They fit into one group, or there is but one. */
struct store_job *
lmdb_write_end(struct lmdb *l, struct store_job *jobs)
{
	uint64_t size = 0, max = group_max(l), n = 0;
	struct store_job *first = jobs;

	for (; jobs; jobs = jobs->next) {
		size += job_bytes(jobs);
		n += jobs->n_writes;
		if (jobs != first && (wal_room(size, 0) > max || n > ROWS_MAX))
			break;
	}
	return jobs;
}

static bool
is_sane(const struct store_job *job)
{
	for (uint32_t i = 0; i < job->n_writes; i++) {
		const struct store_write *w = &job->writes[i];

		if (!w->key_size || w->key_size > STORE_KEY_MAX ||
			w->table >= STORE_TABLES)
			return false;
	}
	return true;
}

/* ---- one group ----------------------------------------------------------- */

struct group {
	struct store_job *jobs, *end;
	bool freeing_only;
	size_t size; /* bytes of the rows */
	uint32_t n;
	void *bytes;
};

static void
measure(struct group *g)
{
	for (struct store_job *job = g->jobs; job != g->end; job = job->next) {
		if (!belongs(job, g->freeing_only))
			continue;
		g->size += job_bytes(job);
		g->n += job->n_writes;
	}
}

/* Room in the log for @size bytes. If a checkpoint would make it, that
 * is waited for. */
static int
make_room(struct lmdb *l, uint64_t size, bool frees)
{
	for (;;) {
		uint64_t before = l->applied;
		bool other = wal_other_is_free(&l->wal, before);
		uint64_t kept = frees || other ? 0 : l->wal.max / KEPT;

		if (size + kept <= wal_left(&l->wal))
			return 0;
		if (other) {
			wal_turn(&l->wal);
			continue;
		}
		checkpoint_wait(l);
		if (l->applied == before) {
			checkpoint_ask(l);
			checkpoint_wait(l);
		}
		if (l->applied == before)
			return l->checkpoint.status ? l->checkpoint.status
						    : -ENOSPC;
	}
}

static int
put_together(struct lmdb *l, struct group *g, uint8_t **end)
{
	uint8_t *out;

	g->bytes = rows_room(l->fresh, wal_room(g->size, g->n));
	if (!g->bytes)
		return err_raise(-ENOMEM);
	out = wal_rows(g->bytes);
	for (struct store_job *job = g->jobs; job != g->end; job = job->next)
		for (uint32_t i = 0;
			belongs(job, g->freeing_only) && i < job->n_writes; i++)
			out = wal_put_row(out, &job->writes[i]);
	*end = out;
	return 0;
}

/* Somebody has deleted a file of ours: what is written now would be synced, and
 * be gone with the daemon. What it has can still be read. */
static int
look_whether_removed(struct lmdb *l)
{
	int fds[] = {l->file.data_fd, wal_fd(&l->wal)};
	struct stat st;

	for (unsigned i = 0; i < sizeof(fds) / sizeof(*fds); i++) {
		if (fstat(fds[i], &st) < 0 || st.st_nlink)
			continue;
		if (!l->removed)
			log_err("store.removed",
				"path=\"%s\" reason=\"its files were deleted; "
				"it takes nothing more\" hint=\"eventctl store "
				"backup saves what it holds; put that in "
				"place, as data.mdb, and restart\"",
				l->path);
		l->removed = true;
		return -ENOENT;
	}
	return 0;
}

/* It is safe as soon as the log is. */
static int
append(struct lmdb *l, struct group *g, uint8_t *end)
{
	int r = wal_append(&l->wal, g->bytes, end, g->n, g->freeing_only);

	if (r)
		return r;
	if (!l->store.interval_ms)
		r = wal_sync(&l->wal);
	if (!r)
		r = look_whether_removed(l);
	if (r)
		wal_undo(&l->wal);
	return r;
}

static int
write_once(struct lmdb *l, struct group *g)
{
	struct rows *rows;
	uint8_t *end;
	int r = make_room(l, wal_room(g->size, 0), g->freeing_only);

	rows = l->fresh;
	if (!r)
		r = put_together(l, g, &end);
	if (r)
		return r;
	r = append(l, g, end);
	if (r) {
		rows_unroom(rows, g->bytes);
		return r;
	}
	if (!rows->n)
		l->fresh_ns = lmdb_now_ns();
	rows_unroom(rows, (uint8_t *)g->bytes + l->wal.written);
	pthread_mutex_lock(&l->file.view_lock);
	r = wal_index(rows, g->bytes);
	pthread_mutex_unlock(&l->file.view_lock);
	return err_pass(r);
}

static int
write_group(struct lmdb *l, struct group *g)
{
	int r;

	measure(g);
	if (!g->n)
		return 0;
	if (wal_room(g->size, 0) > l->wal.max - l->wal.max / KEPT)
		return -E2BIG;
	r = write_once(l, g);
	/* The disk is full, but the log may have room that LMDB has to free. */
	if (r == -ENOSPC && wal_must_grow(&l->wal, wal_room(g->size, 0)) &&
		l->wal.no != l->applied && !checkpoint_all(l))
		r = write_once(l, g);
	return r;
}

/* ---- past the log -------------------------------------------------------- */

/* @job is too large for the log. */
static int
write_past(struct lmdb *l, const struct store_job *job)
{
	const struct lmdb_applied applied = {l->wal.no, l->file.mark};
	struct rows rows;
	int r = checkpoint_all(l);

	rows_init(&rows);
	for (uint32_t i = 0; i < job->n_writes && !r; i++) {
		const struct store_write *w = &job->writes[i];

		r = rows_set(&rows, &(struct rows_row){.key = w->key,
					    .data = w->data,
					    .size = w->size,
					    .key_size = w->key_size,
					    .table = w->table});
	}
	if (!r)
		r = lmdb_apply(&l->file, &rows, &applied);
	rows_clear(&rows);
	return r ? r : look_whether_removed(l);
}

/* ---- a round ------------------------------------------------------------- */

static void
set_status(
	struct store_job *jobs, struct store_job *end, int status, bool freeing)
{
	for (; jobs != end; jobs = jobs->next)
		if (belongs(jobs, false) && jobs->frees == freeing)
			jobs->status = status;
}

/* Together they cannot be written: what gives room is, and alone. */
static void
write_apart(
	struct lmdb *l, struct store_job *jobs, struct store_job *end, int why)
{
	struct group g = {.jobs = jobs, .end = end, .freeing_only = true};

	set_status(jobs, end, why, false);
	set_status(jobs, end, write_group(l, &g), true);
}

void
lmdb_write(struct lmdb *l, struct store_job *jobs, struct store_job *end)
{
	struct group g = {.jobs = jobs, .end = end};
	uint64_t since = lmdb_now_ns();
	int r;

	for (struct store_job *job = jobs; job != end; job = job->next)
		if (!is_sane(job))
			job->status = -EINVAL;
	r = write_group(l, &g);
	if (!g.n)
		return;
	if (r == -E2BIG) /* it is but one */
		r = jobs->status = write_past(l, jobs);
	else if (r)
		write_apart(l, jobs, end, r);
	if (r)
		lmdb_tell_failure(l, r);
	else
		lmdb_tell_success(l, lmdb_now_ns() - since);
}

/* What was written stays in memory: LMDB shall have it if the log cannot. */
void
lmdb_sync_if_due(struct lmdb *l, uint64_t now_ns)
{
	uint64_t span = (uint64_t)l->store.interval_ms * NS_PER_MS;
	int r;

	if (!l->wal.dirty || !span || now_ns < l->synced_ns + span)
		return;
	l->synced_ns = now_ns;
	r = wal_sync(&l->wal);
	if (!r)
		return;
	lmdb_tell_failure(l, r);
	l->checkpoint.wanted = true;
}

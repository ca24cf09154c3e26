/* Checkpoints: the rows that are in the log go to LMDB, many in a transaction,
 * in a thread of its own. Functions are of the store's thread, but for
 * checkpoint_run().
 *
 * While one is made the frozen rows belong to that thread and to readers; what
 * comes meanwhile is fresh. When one fails, what is fresh joins what is frozen,
 * so that rows which have been erased since are not written any more. */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "store/lmdb_own.h"

enum {
	AGE_MS = 5000, /* what is in the log goes to LMDB within that */
	RETRY_MS = 200,
};

/* ---- the thread ---------------------------------------------------------- */

static void *
checkpoint_run(void *arg)
{
	struct lmdb *l = arg;
	struct checkpoint *c = &l->checkpoint;
	struct lmdb_applied upto;
	int status;

	pthread_setname_np(pthread_self(), "eventd-stored");
	pthread_mutex_lock(&l->lock);
	for (;;) {
		while (c->state != CHECKPOINT_ASKED &&
			c->state != CHECKPOINT_ENDING)
			pthread_cond_wait(&c->asked, &l->lock);
		if (c->state == CHECKPOINT_ENDING)
			break;
		upto = c->upto;
		pthread_mutex_unlock(&l->lock);
		status = lmdb_apply(&l->file, l->frozen, &upto);
		pthread_mutex_lock(&l->lock);
		c->status = status;
		l->file_size = l->file.file_size;
		c->state = CHECKPOINT_DONE;
		pthread_cond_signal(&l->come);
	}
	pthread_mutex_unlock(&l->lock);
	return NULL;
}

int
checkpoint_start(struct lmdb *l)
{
	int r = lmdb_thread(&l->checkpoint.thread, checkpoint_run, l);

	l->checkpoint.runs = !r;
	return r;
}

void
checkpoint_end(struct lmdb *l)
{
	if (!l->checkpoint.runs)
		return;
	pthread_mutex_lock(&l->lock);
	l->checkpoint.state = CHECKPOINT_ENDING;
	pthread_cond_signal(&l->checkpoint.asked);
	pthread_mutex_unlock(&l->lock);
	pthread_join(l->checkpoint.thread, NULL);
	l->checkpoint.runs = false;
}

/* ---- what became of it --------------------------------------------------- */

static int
merge(struct lmdb *l)
{
	int r;

	pthread_mutex_lock(&l->file.view_lock);
	r = rows_merge(l->frozen, l->fresh);
	pthread_mutex_unlock(&l->file.view_lock);
	return err_pass(r);
}

static void
succeeded(struct lmdb *l)
{
	bool again = l->checkpoint.retry_ns;

	l->applied = l->checkpoint.upto.no;
	l->checkpoint.retry_ns = 0;
	pthread_mutex_lock(&l->file.view_lock);
	rows_clear(l->frozen);
	pthread_mutex_unlock(&l->file.view_lock);
	if (l->applied == l->wal.no)
		wal_rewind(&l->wal);
	if (again)
		lmdb_tell_success(l, 0);
}

static void
failed(struct lmdb *l)
{
	lmdb_tell_failure(l, l->checkpoint.status);
	l->checkpoint.retry_ns = lmdb_now_ns() + (uint64_t)RETRY_MS * NS_PER_MS;
	if (!merge(l))
		l->checkpoint.upto.no = l->wal.no;
}

void
checkpoint_collect(struct lmdb *l)
{
	bool done;

	pthread_mutex_lock(&l->lock);
	done = l->checkpoint.state == CHECKPOINT_DONE;
	if (done)
		l->checkpoint.state = CHECKPOINT_IDLE;
	pthread_mutex_unlock(&l->lock);
	if (!done)
		return;
	if (l->checkpoint.status)
		failed(l);
	else
		succeeded(l);
}

/* ---- asking for one ------------------------------------------------------ */

static bool
is_made(struct lmdb *l)
{
	bool is;

	pthread_mutex_lock(&l->lock);
	is = l->checkpoint.state != CHECKPOINT_IDLE;
	pthread_mutex_unlock(&l->lock);
	return is;
}

static void
freeze(struct lmdb *l)
{
	struct rows *rows = l->frozen;

	if (rows->n && merge(l))
		return; /* then by itself, as it was */
	if (!rows->n) {
		pthread_mutex_lock(&l->file.view_lock);
		l->frozen = l->fresh;
		l->fresh = rows;
		pthread_mutex_unlock(&l->file.view_lock);
	}
	l->checkpoint.upto = (struct lmdb_applied){l->wal.no, l->file.mark};
}

void
checkpoint_ask(struct lmdb *l)
{
	struct checkpoint *c = &l->checkpoint;

	checkpoint_collect(l);
	l->checkpoint.wanted = false;
	if (is_made(l) || (!l->fresh->n && !l->frozen->n) ||
		(c->retry_ns && lmdb_now_ns() < c->retry_ns))
		return;
	freeze(l);
	pthread_mutex_lock(&l->lock);
	c->state = CHECKPOINT_ASKED;
	pthread_cond_signal(&c->asked);
	pthread_mutex_unlock(&l->lock);
}

uint64_t
checkpoint_due_ns(const struct lmdb *l)
{
	uint64_t due = UINT64_MAX;

	if (l->checkpoint.state != CHECKPOINT_IDLE)
		return due; /* its end will be told */
	if (l->fresh->n)
		due = l->fresh->size >= l->wal.max / 2 || l->checkpoint.wanted
			      ? 0
			      : l->fresh_ns + (uint64_t)AGE_MS * NS_PER_MS;
	if (l->checkpoint.retry_ns && (l->frozen->n || l->fresh->n))
		due = l->checkpoint.retry_ns;
	return due;
}

void
checkpoint_if_due(struct lmdb *l, uint64_t now_ns)
{
	bool due;

	checkpoint_collect(l);
	pthread_mutex_lock(&l->lock);
	due = checkpoint_due_ns(l) <= now_ns;
	pthread_mutex_unlock(&l->lock);
	if (due)
		checkpoint_ask(l);
}

void
checkpoint_wait(struct lmdb *l)
{
	pthread_mutex_lock(&l->lock);
	while (l->checkpoint.state == CHECKPOINT_ASKED)
		pthread_cond_wait(&l->come, &l->lock);
	pthread_mutex_unlock(&l->lock);
	checkpoint_collect(l);
}

int
checkpoint_all(struct lmdb *l)
{
	checkpoint_wait(l);
	while (l->fresh->n || l->frozen->n) {
		l->checkpoint.retry_ns = 0;
		checkpoint_ask(l);
		checkpoint_wait(l);
		if (l->checkpoint.status)
			return l->checkpoint.status;
	}
	return 0;
}

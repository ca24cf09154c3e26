#pragma once
/* For the files of store/: the store itself. The store's thread owns it, and
 * lends what is said so to the one that makes checkpoints. Whoever reads holds
 * file.view_lock, and so does who changes what is read: fresh and frozen. */
#include <limits.h>
#include <pthread.h>

#include "store/lmdb_file.h"
#include "store/rows.h"
#include "store/wal.h"

enum checkpoint_state {
	CHECKPOINT_IDLE,
	CHECKPOINT_ASKED, /* the other thread has frozen and file */
	CHECKPOINT_DONE,
	CHECKPOINT_ENDING,
};

/* Rows on their way from memory and log to LMDB. */
struct checkpoint {
	pthread_t thread;
	bool runs; /* the thread does */
	pthread_cond_t asked;
	enum checkpoint_state state; /* of the lock */
	struct lmdb_applied upto;    /* what frozen leads to */
	int status;                  /* of the last one; negative errno */
	uint64_t retry_ns;           /* not before, if that has failed */
	bool wanted;                 /* whatever its size and age */
};

/* Jobs that only read, and need not wait for a sync. */
struct reader {
	pthread_t thread;
	bool runs; /* the thread does */
	/* of the lock: */
	pthread_cond_t asked;
	struct store_job *first, *last;
	bool busy, ending;
};

struct lmdb {
	struct store store;
	char path[PATH_MAX]; /* its directory */
	struct lmdb_file file;
	struct wal wal;
	struct rows sets[2]; /* these two: */
	struct rows *fresh;  /* comes from the log now */
	struct rows *frozen; /* goes to LMDB */
	uint64_t fresh_ns;   /* since when there is something in fresh */
	uint64_t applied;    /* LMDB has the log up to there */
	uint64_t last_ns;    /* of the last round */
	uint64_t synced_ns;  /* of the last sync */
	pthread_t thread;
	pthread_mutex_t lock; /* of what follows, and what says so */
	pthread_cond_t come;
	struct store_job *first, *last;
	uint64_t file_size; /* of LMDB's */
	uint64_t waiting;   /* bytes of their writes */
	bool hurried;       /* one of them wants to be done now */
	bool ending;
	struct store_box *boxes;
	uint64_t last_box;
	struct lmdb_stats stats;
	struct checkpoint checkpoint;
	struct reader reader;
	bool removed; /* it was told that the files are deleted */
};

static inline struct lmdb *
lmdb_of(struct store *store)
{
	return container_of(store, struct lmdb, store);
}

uint64_t lmdb_now_ns(void);

/* ---- checkpoint.c -------------------------------------------------------- */

int checkpoint_start(struct lmdb *l);
void checkpoint_end(struct lmdb *l);
/* Take what has become of one that was asked for. */
void checkpoint_collect(struct lmdb *l);
/* Ask for one, if none is being made, it is not too soon after a failure, and
 * there is anything. */
void checkpoint_ask(struct lmdb *l);
/* The same, if it is time. */
void checkpoint_if_due(struct lmdb *l, uint64_t now_ns);
/* When that may be, UINT64_MAX: not by itself. Called with the lock. */
uint64_t checkpoint_due_ns(const struct lmdb *l);
/* Wait for the one that is being made. */
void checkpoint_wait(struct lmdb *l);
/* All that there is goes to LMDB: 0 or negative errno. */
int checkpoint_all(struct lmdb *l);

/* ---- lmdb.c -------------------------------------------------------------- */

/* Chained jobs are done: each scheduler gets its own, in order. */
void lmdb_give_back(struct store_job *jobs);
/* A thread without signals. */
int lmdb_thread(pthread_t *thread, void *(*run)(void *arg), void *arg);

/* ---- lmdb_reader.c ------------------------------------------------------- */

int reader_start(struct lmdb *l);
/* Do all that was submitted, and end. */
void reader_end(struct lmdb *l);
/* Called with the lock. */
void reader_submit(struct lmdb *l, struct store_job *job);
/* Until it has nothing to do. */
void reader_wait(struct lmdb *l);
/* Any thread. */
int reader_do(struct lmdb *l, struct store_read *read);

/* ---- lmdb_write.c -------------------------------------------------------- */

uint64_t job_bytes(const struct store_job *job);
/* Write what the jobs from @jobs up to @end write, and set their status. */
void lmdb_write(struct lmdb *l, struct store_job *jobs, struct store_job *end);
/* The job behind those that are written at once. */
struct store_job *lmdb_write_end(struct lmdb *l, struct store_job *jobs);
/* Sync what has been written, if it is time. */
void lmdb_sync_if_due(struct lmdb *l, uint64_t now_ns);
void lmdb_tell_failure(struct lmdb *l, int r);
void lmdb_tell_success(struct lmdb *l, uint64_t took_ns);

/* ---- lmdb_read.c --------------------------------------------------------- */

/* Rows as they are now: what is fresh hides what is frozen, and that LMDB. */
struct view {
	struct lmdb *store;
	MDB_txn *txn;
	MDB_cursor *cursor;
	unsigned table;
	MDB_val key, value; /* where it is */
	MDB_val below, below_value;
	bool has_below; /* there is a row in LMDB */
	const struct rows_row *rows[2];
};

/* 0, or what LMDB returned. Keep it short: the map cannot grow. */
int view_begin(struct view *v, struct lmdb *l);
void view_end(struct view *v);
/* Go to the first row of @table at or behind @key. MDB_NOTFOUND:
 * there is none. */
int view_seek(struct view *v, unsigned table, const MDB_val *key);
int view_next(struct view *v);
int view_get(struct view *v, unsigned table, const MDB_val *key, MDB_val *out);
/* Fill in the result of @read. What LMDB returned, or ENOMEM. */
int lmdb_read(struct view *v, struct store_read *read);

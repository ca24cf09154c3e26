#pragma once
/* The file of the store: open it, see whether it is whole, set it aside if it
 * is not. Before the writer's thread runs, or by it. */
#include <lmdb.h>
#include <pthread.h>

#include "store/lmdb.h"
#include "store/wal.h"

/* How far into the log it has come; a row of STORE_META. */
struct lmdb_applied {
	uint64_t no, mark;
};

enum { LMDB_FORMAT = 2 }; /* 1: without a log beside it */

/* Rows of STORE_META. */
#define LMDB_APPLIED "log"
#define LMDB_RUN "run"
/* The mark of the log, if there are groups in it: without it some are lost. 0:
 * there was an orderly end, or this is a copy. */
#define LMDB_LOGGED "logged"

struct lmdb_file {
	MDB_env *env;
	MDB_dbi tables[STORE_TABLES];
	int lock_fd; /* held: no other process has the store */
	int data_fd; /* to look at its size and its disk */
	uint64_t file_size, map_size, max_size;
	uint64_t wal_max; /* bytes of a file of the log */
	uint64_t run;
	uint64_t mark; /* of this run's log */
	bool tight;    /* the disk is nearly full */
	/* Held by who reads: the map must not grow meanwhile, and what is
	 * fresh or frozen not change. */
	pthread_mutex_t view_lock;
};

/* What is in @log, which is opened, is put into it. */
int lmdb_file_open(struct lmdb_file *f, struct wal *wal,
	const struct lmdb_config *config, struct lmdb_found *found);
void lmdb_file_close(struct lmdb_file *f);
/* Only LMDB's file, at @path, made if need be, with its tables, and a map with
 * @room more: 0 or negative errno. */
int lmdb_file_open_copy(struct lmdb_file *f, const char *path, uint64_t room);
/* What a compaction has left that was cut short in the directory @path. */
void lmdb_compact_forget(const char *path);
/* Before a transaction: what adds must not take all the room there is, or that
 * could never be made more again. */
int lmdb_file_limit(struct lmdb_file *f, bool freeing);
/* More room in the map: 0, or -ENOSPC at the limit. No transaction is open. */
int lmdb_file_grow(struct lmdb_file *f, bool freeing);
/* The disk has no room that is worth mentioning. */
bool lmdb_file_disk_is_full(const struct lmdb_file *f);
/* See how large it is, and whether the disk has room for @need more bytes. */
void lmdb_file_look(struct lmdb_file *f, uint64_t need);
/* Negative errno of what LMDB returned. */
int lmdb_error(int r);
extern const char *const lmdb_table_names[STORE_TABLES];
int lmdb_number_get(
	struct lmdb_file *f, MDB_txn *txn, const char *name, uint64_t *out);
int lmdb_number_put(
	struct lmdb_file *f, MDB_txn *txn, const char *name, uint64_t n);
/* The log goes, or a copy goes without it, and all of it is here. Negative
 * errno. */
int lmdb_file_needs_no_log(struct lmdb_file *f);
/* One transaction, or a few if there is little room: put all @rows where they
 * belong, with how far that goes. One thread at a time. Negative errno. */
int lmdb_apply(struct lmdb_file *f, const struct rows *rows,
	const struct lmdb_applied *applied);

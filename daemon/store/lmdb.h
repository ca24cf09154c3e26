#pragma once
/* The store: a log before LMDB, and one thread that does its jobs.
 *
 * The rows of all jobs that wait are appended to the log at once, which is
 * synced, and the jobs come back together: one message and at most one wake-up
 * for each scheduler. Another thread puts many such rows into LMDB now and
 * then; until it has, they are in memory, where reads find them. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/store.h"

struct lmdb_config {
	const char *path;     /* a directory, made if need be */
	uint64_t max_size;    /* bytes of the file; 0: as the disk allows */
	uint32_t interval_ms; /* 0: every job is synced before it comes back */
	bool refuse_corrupt;  /* else what is damaged is set aside */
};

enum { LMDB_TEXT_MAX = 512 };

/* How it was found. */
struct lmdb_found {
	uint64_t boxes, events;   /* mailboxes that have events, and those */
	bool set_aside;           /* it was damaged: a new one is used */
	uint64_t lost;            /* events in what was set aside, ... */
	bool lost_known;          /* if that could be told */
	uint64_t ran_without;     /* runs without the store since */
	uint64_t replayed;        /* groups that came out of the log */
	bool log_set_aside;       /* the log was damaged, or another's */
	char text[LMDB_TEXT_MAX]; /* what was set aside, and where to */
};

struct lmdb;

/* Open, check and start. Reads files: not on a loop that runs. @found is set in
 * any case. 0, or negative errno with the reason in @found->text: -EBUSY,
 * another process has it; -EPROTO, a later eventd has written it; -EUCLEAN, it
 * is damaged and refuse_corrupt is set. */
int lmdb_open(struct lmdb **out, const struct lmdb_config *config,
	struct lmdb_found *found);
/* Do all that was submitted, then end the thread and close. NULL: nothing. */
struct lmdb *lmdb_close(struct lmdb *l);
struct store *lmdb_store(struct lmdb *l);
/* The first of all; others may be put before it meanwhile. */
struct store_box *lmdb_boxes(struct lmdb *l);

/* Its directory. */
const char *lmdb_path(const struct lmdb *l);

struct lmdb_stats {
	uint64_t size;          /* bytes of the file */
	uint64_t boxes, events; /* mailboxes that hold events, about; those */
	uint64_t commits, failed;
	uint64_t last_ns, max_ns; /* that a commit took */
	int last_error;           /* errno of the last commit that failed */
};
/* Any thread; does not wait for the disk. */
void lmdb_stats(struct lmdb *l, struct lmdb_stats *out);

/* For store_job.run: a copy of all to the new file @path; how many events there
 * are, of which so many are damaged. */
int lmdb_backup(struct store *store, const char *path);
int lmdb_check(struct store *store, uint64_t *events, uint64_t *damaged);
/* Give what is free in its file back: *@freed bytes. */
int lmdb_compact(struct store *store, uint64_t *freed);

/* Note that a run without the store took place, if there is one at @path. */
void lmdb_ran_without(const char *path);

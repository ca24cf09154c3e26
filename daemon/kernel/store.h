#pragma once
/* Store: where durable things are kept, behind an interface that the kernel
 * owns; store/ has the implementation. Rows of bytes by key, in tables.
 *
 * A scheduler hands over jobs and goes on. Somebody else's thread does them, in
 * the order in which they came, many at once; each comes back to the thread of
 * its scheduler when what it wrote is safe, or could not be written. Nothing
 * here ever waits for a disk but that thread. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/sched.h"

enum store_table {
	STORE_META,
	STORE_BOXES,   /* by name: struct store_box */
	STORE_EVENTS,  /* by box, lane, number: a record of events */
	STORE_MARKS,   /* likewise: what became of them so far */
	STORE_KEYS,    /* by box and key: when it was accepted */
	STORE_STATE,   /* by box and name */
	STORE_TIMERS,  /* by number */
	STORE_DEAD,    /* by number */
	STORE_HISTORY, /* by number: pieces of history.h */
	STORE_DAMAGED, /* records whose checksum was wrong, as they were */
	STORE_TABLES,
};

enum { STORE_KEY_MAX = 320 };

/* One row written, or erased if @data is NULL. Memory is the job's. */
struct store_write {
	const void *key, *data;
	uint32_t size;
	uint16_t key_size;
	uint8_t table;
};

/* A row that was read. */
struct store_row {
	const uint8_t *key, *data, *also; /* also: NULL: there is none */
	uint32_t size, also_size;
	uint16_t key_size;
};

/* Rows in the order of keys, from @from on, as long as they begin with its
 * first @prefix bytes. */
struct store_read {
	uint8_t table;
	uint8_t also; /* a table, whose row of the same key comes with it;
		       * STORE_TABLES: none does */
	uint16_t from_size, prefix;
	uint32_t max_rows;
	uint64_t max_size; /* bytes; one row comes in any case */
	uint8_t from[STORE_KEY_MAX];
	/* its result; rows is one allocation, which the job's owner frees */
	struct store_row *rows;
	uint32_t n;
	bool more; /* there are further ones */
	/* It need not wait for jobs that were handed over before it, nor they
	 * for it: what it finds may be older than what they come back with.
	 * Only for a job that does nothing else. */
	bool soon;
};

struct store_job {
	struct sched_task task;     /* the store's */
	struct store_job *next;     /* likewise, until it is done */
	struct sched *sched;        /* who is told */
	struct store_write *writes; /* all are done, or none */
	struct store_read *read; /* after the writes, and of what they wrote */
	uint32_t n_writes;
	/* On the store's thread, after those: what it returns is the status.
	 * NULL: there is nothing more to do. */
	int (*run)(struct store *store, struct store_job *job);
	bool frees; /* it gives more room than it takes */
	int status; /* 0, or negative errno: nothing was written */
	/* On the thread of @sched; the job is its owner's again. */
	void (*done)(struct sched *s, struct store_job *job);
};

/* The mailbox that is called @name, as it stands in the store. */
struct store_box {
	struct store_box *next;
	uint64_t id;
	_Atomic uint64_t n; /* events in it; others may look */
	uint64_t size;      /* and their bytes */
	bool held;          /* by a session, which alone changes n and size */
	bool standing;      /* a client asked for it, no file */
	bool paused;        /* its events wait until it is resumed */
	uint64_t traits;    /* what a standing one is like, 56 bits: see
			     * net/standing.h */
	bool kept;          /* it has more than events: timers */
	uint8_t name_size;
	char name[];
};

/* Its row in STORE_BOXES; little-endian. */
struct store_box_row {
	uint64_t id, n, size, flags;
};
enum {
	STORE_BOX_STANDING = 1,
	STORE_BOX_PAUSED = 2,
	STORE_BOX_KEPT = 4,
	STORE_TRAITS_SHIFT = 8,
};

struct store;

struct store_ops {
	/* Do the jobs from @first to @last, chained by next. */
	void (*submit)(struct store *store, struct store_job *first,
		struct store_job *last);
	/* The box called @name, made if there is none, and held from now on.
	 * NULL: somebody holds it, or there is no memory. */
	struct store_box *(*hold)(
		struct store *store, const char *name, size_t size);
	void (*release)(struct store *store, struct store_box *box);
	/* The same as hold() if there is one that has events or is kept; else
	 * NULL. */
	struct store_box *(*find)(
		struct store *store, const char *name, size_t size);
};

enum { STORE_RUN_SHIFT = 40 };

struct store {
	const struct store_ops *ops;
	_Atomic uint64_t next_no; /* of records: rising for ever */
	uint64_t run; /* which use of the store this is: no >> STORE_RUN_SHIFT
		       * of what is written now */
	uint32_t interval_ms; /* Sync=: 0: each is synced before it is told */
	const char *broken;   /* why it cannot be used; NULL: it can */
	_Atomic uint32_t n_standing; /* boxes that stand */
	uint8_t boot[16];            /* which start of the machine this is: its
			   * monotonic clocks are those of rows with the same */
	_Atomic uint64_t n_damaged;  /* events that could not be read */
};

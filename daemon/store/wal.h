#pragma once
/* The log of the store: rows that are safe before LMDB has them. Two files of a
 * bounded size, written in turn and over and over: what has been given to LMDB
 * is written over.
 *
 * A group of rows is written at once, with a checksum of all and a number. How
 * far LMDB has come stands in LMDB: the next number is where a replay begins.
 * One thread at a time. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/rows.h"

struct store_write;

enum { WAL_FILES = 2, WAL_TEXT_MAX = 256 };

/* What is in front of a group; little-endian. */
struct wal_head {
	uint64_t mark;   /* of this run of the store; nobody can guess it */
	uint32_t crc;    /* of all behind it */
	uint32_t size;   /* of all, a multiple of 8 */
	uint64_t no;     /* the next group's is one more */
	uint64_t synced; /* those up to it were safe when this was written */
	uint32_t n;      /* rows */
	uint32_t reserved;
};

struct wal_file {
	int fd;
	uint64_t at;    /* where the next group goes */
	uint64_t ready; /* so many bytes are the file's already */
	uint64_t last;  /* number of its last group; 0: it has none */
	bool bad;       /* it is set aside when its rows are safe */
};

struct wal {
	struct wal_file files[WAL_FILES];
	unsigned now; /* which is written */
	uint64_t max; /* bytes of each */
	uint64_t mark;
	uint64_t no; /* of the last group */
	uint64_t synced;
	uint32_t written; /* bytes of the last group */
	uint64_t before;  /* the file's last one before that */
	int dir_fd;
	bool dirty; /* there is something to be synced */
};

/* Where a replay begins, and how it found the log. */
struct wal_found {
	uint64_t applied; /* LMDB has the groups up to it, ... */
	uint64_t mark;    /* of groups with this mark; 0: nobody knows either:
			   * all that there is of the last run is replayed */
	uint64_t groups;  /* that LMDB did not have */
	uint64_t last;    /* number of the last of them */
	uint64_t lost;    /* that were safe once, and cannot be read */
	bool stray;       /* it is of another store: nothing was replayed */
	bool seen;        /* there are groups with this mark, of any number */
	bool expected;    /* by the caller: there should be */
	char text[WAL_TEXT_MAX]; /* what was set aside, by wal_begin(); or "" */
};

/* Bytes that one row takes; that @n rows of so many bytes need to be put
 * together and indexed. */
size_t wal_row_size(const struct store_write *w);
size_t wal_room(size_t rows_size, uint32_t n);

void wal_init(struct wal *l); /* to be closed, or opened */
/* Open the files in the directory @path, which are made if need be. */
int wal_open(struct wal *l, const char *path, uint64_t max);
/* ... to be replayed and no more, as far as they are there. In any case
 * wal_close(). */
int wal_open_to_read(struct wal *l, const char *path);
void wal_close(struct wal *l);
/* All of it is in LMDB: the files go. */
void wal_remove(struct wal *l);

/* Read what is behind found->applied into @rows. Numbers whose bits from
 * @run_shift on differ are of different runs. 0 or negative errno. */
int wal_replay(struct wal *l, unsigned run_shift, struct rows *rows,
	struct wal_found *found);
/* What was found is in LMDB. From now on groups have @mark and the numbers
 * behind @no; what is in the files is of no use any more. */
int wal_begin(
	struct wal *l, uint64_t mark, uint64_t no, struct wal_found *found);

/* Put a group together at @group, which has wal_room(): wal_put_row() for each
 * from wal_rows() on, then wal_append() up to @end. */
uint8_t *wal_rows(void *group);
uint8_t *wal_put_row(uint8_t *out, const struct store_write *w);
/* 0, or negative errno: nothing was written. @frees: it may take the last room
 * of the disk. */
int wal_append(
	struct wal *l, void *group, uint8_t *end, uint32_t n, bool frees);
/* The group that was appended last is not to be. */
void wal_undo(struct wal *l);
int wal_sync(struct wal *l);
/* Index the rows of @group in @rows. 0 or negative errno. */
int wal_index(struct rows *rows, const void *group);

int wal_fd(const struct wal *l); /* of the file which is written */
/* Bytes that it has left. */
uint64_t wal_left(const struct wal *l);
/* ... and whether the file grows by @size more. */
bool wal_must_grow(const struct wal *l, uint64_t size);
/* All that is in the other file is in LMDB, which has what is up to @applied.
 * wal_turn() writes there from now on. */
bool wal_other_is_free(const struct wal *l, uint64_t applied);
void wal_turn(struct wal *l);
/* All groups are in LMDB: begin at the front of the larger file. */
void wal_rewind(struct wal *l);
/* Bytes of the files. */
uint64_t wal_size(const struct wal *l);

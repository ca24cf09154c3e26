#pragma once
/* Rows that are in the log and not in LMDB yet, by their keys, which are in the
 * order in which LMDB has them: a skip list, whose memory goes all at once.
 *
 * One thread at a time changes it; while nobody does, any may look. */
#include <stddef.h>
#include <stdint.h>

enum {
	ROWS_HEIGHT = 12,
	ROWS_ROW_MAX = 24 + 8 + ROWS_HEIGHT * 8, /* bytes that one takes */
};

struct rows_chunk;

struct rows_row {
	const uint8_t *key, *data; /* data NULL: it has been erased */
	uint32_t size;
	uint16_t key_size;
	uint8_t table;
	struct rows_row *next[]; /* as many as it is high */
};

struct rows {
	struct rows_chunk *chunks;
	size_t size; /* bytes of them */
	uint32_t n;
	uint32_t random;
	struct rows_row *head[ROWS_HEIGHT];
};

void rows_init(struct rows *rows);
void rows_clear(struct rows *rows);
/* Memory that goes with the rows, for what they are made of. NULL: none. */
void *rows_room(struct rows *rows, size_t size);
/* Give back what was handed out last, from @room on: so much is there for
 * sure next time. */
void rows_unroom(struct rows *rows, const void *room);
/* Put or replace the row of @row's table and key; all that it points to is in
 * rows_room(). 0 or -ENOMEM. */
int rows_set(struct rows *rows, const struct rows_row *row);
/* The first row at or behind that key; NULL: there is none. */
struct rows_row *rows_seek(const struct rows *rows, unsigned table,
	const void *key, size_t key_size);
/* Move all of @newer into @rows. 0 or -ENOMEM: nothing has changed. */
int rows_merge(struct rows *rows, struct rows *newer);
/* As LMDB orders keys. */
int rows_compare(const void *a, size_t a_size, const void *b, size_t b_size);

#include "store/rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fault.h"

enum { CHUNK = 1 << 20, ALIGN = 8 };

struct rows_chunk {
	struct rows_chunk *next;
	size_t used, room;
	uint8_t bytes[];
};

_Static_assert(
	sizeof(struct rows_row) + ROWS_HEIGHT * sizeof(void *) <= ROWS_ROW_MAX,
	"rows_set() finds the room that was kept for it");

void
rows_init(struct rows *rows)
{
	*rows = (struct rows){.random = 0x9e3779b9};
}

void
rows_clear(struct rows *rows)
{
	struct rows_chunk *chunk;

	while ((chunk = rows->chunks)) {
		rows->chunks = chunk->next;
		free(chunk);
	}
	rows_init(rows);
}

static struct rows_chunk *
chunk_new(struct rows *rows, size_t size)
{
	size_t room = size > CHUNK ? size : CHUNK;
	struct rows_chunk *chunk =
		FAULT(rows_chunk) ? NULL : malloc(sizeof(*chunk) + room);

	if (!chunk)
		return NULL;
	chunk->used = 0;
	chunk->room = room;
	chunk->next = rows->chunks;
	rows->chunks = chunk;
	return chunk;
}

void *
rows_room(struct rows *rows, size_t size)
{
	struct rows_chunk *chunk = rows->chunks;
	void *room;

	size = (size + ALIGN - 1) / ALIGN * ALIGN;
	if (!chunk || chunk->room - chunk->used < size)
		chunk = chunk_new(rows, size);
	if (!chunk)
		return NULL;
	room = chunk->bytes + chunk->used;
	chunk->used += size;
	rows->size += size;
	return room;
}

void
rows_unroom(struct rows *rows, const void *room)
{
	struct rows_chunk *chunk = rows->chunks;
	size_t used = (size_t)((const uint8_t *)room - chunk->bytes);

	rows->size -= chunk->used - used;
	chunk->used = used;
}

int
rows_compare(const void *a, size_t a_size, const void *b, size_t b_size)
{
	size_t n = a_size < b_size ? a_size : b_size;
	int r = n ? memcmp(a, b, n) : 0; /* an empty one may be NULL */

	if (r)
		return r;
	return a_size < b_size ? -1 : a_size > b_size;
}

static int
compare(const struct rows_row *row, unsigned table, const void *key,
	size_t key_size)
{
	if (row->table != table)
		return row->table < table ? -1 : 1;
	return rows_compare(row->key, row->key_size, key, key_size);
}

/* The links that lead to where that key is, or would be. */
static void
find(const struct rows *rows, unsigned table, const void *key, size_t key_size,
	struct rows_row **links[ROWS_HEIGHT])
{
	struct rows_row *const *at = rows->head;

	for (unsigned i = ROWS_HEIGHT; i-- > 0;) {
		while (at[i] && compare(at[i], table, key, key_size) < 0)
			at = at[i]->next;
		links[i] = (struct rows_row **)&at[i];
	}
}

struct rows_row *
rows_seek(const struct rows *rows, unsigned table, const void *key,
	size_t key_size)
{
	struct rows_row **links[ROWS_HEIGHT];

	find(rows, table, key, key_size, links);
	return *links[0];
}

/* Each is one level higher with a chance of a quarter. */
static unsigned
random_height(struct rows *rows)
{
	unsigned height = 1;

	rows->random ^= rows->random << 13;
	rows->random ^= rows->random >> 17;
	rows->random ^= rows->random << 5;
	for (uint32_t bits = rows->random; height < ROWS_HEIGHT && !(bits & 3);
		bits >>= 2)
		height++;
	return height;
}

int
rows_set(struct rows *rows, const struct rows_row *row)
{
	struct rows_row **links[ROWS_HEIGHT], *own;
	unsigned height;

	find(rows, row->table, row->key, row->key_size, links);
	own = *links[0];
	if (own && !compare(own, row->table, row->key, row->key_size)) {
		own->data = row->data;
		own->size = row->size;
		return 0;
	}
	height = random_height(rows);
	own = rows_room(rows, sizeof(*own) + height * sizeof(own->next[0]));
	if (!own)
		return err_raise(-ENOMEM);
	memcpy(own, row, sizeof(*own));
	for (unsigned i = 0; i < height; i++) {
		own->next[i] = *links[i];
		*links[i] = own;
	}
	rows->n++;
	return 0;
}

int
rows_merge(struct rows *rows, struct rows *newer)
{
	struct rows_chunk **end = &rows->chunks;
	void *room = rows_room(rows, (size_t)newer->n * ROWS_ROW_MAX);

	if (!room)
		return err_raise(-ENOMEM);
	rows_unroom(rows, room);
	for (const struct rows_row *row = newer->head[0]; row;
		row = row->next[0])
		rows_set(rows, row);
	while (*end)
		end = &(*end)->next;
	*end = newer->chunks;
	rows->size += newer->size;
	rows_init(newer);
	return 0;
}

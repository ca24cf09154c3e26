/* Reading rows, in a transaction that is as short as that. The writer's
 * thread. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/lmdb_file.h"

/* Offsets until the buffer has stopped moving. */
struct rows {
	struct store_row *rows;
	uint8_t *bytes;
	uint32_t n, room;
	size_t size, bytes_room;
};

static int
bytes_add(struct rows *rows, const MDB_val *value, const uint8_t **at)
{
	size_t need = rows->size + value->mv_size + 1;

	if (need > rows->bytes_room) {
		size_t room = need < 65536 ? 65536 : need * 2;
		uint8_t *bytes = realloc(rows->bytes, room);

		if (!bytes)
			return ENOMEM;
		rows->bytes = bytes;
		rows->bytes_room = room;
	}
	*at = (const uint8_t *)rows->size + 1; /* made an address later */
	memcpy(rows->bytes + rows->size, value->mv_data, value->mv_size);
	rows->size = need;
	return 0;
}

static int
rows_add(struct rows *rows, const MDB_val *key, const MDB_val *value,
	const MDB_val *also)
{
	struct store_row *row;
	int r;

	if (rows->n == rows->room) {
		uint32_t room = rows->room ? rows->room * 2 : 64;

		row = realloc(rows->rows, room * sizeof(*row));
		if (!row)
			return ENOMEM;
		rows->rows = row;
		rows->room = room;
	}
	row = &rows->rows[rows->n];
	*row = (struct store_row){.key_size = (uint16_t)key->mv_size,
		.size = (uint32_t)value->mv_size};
	r = bytes_add(rows, key, &row->key);
	if (!r)
		r = bytes_add(rows, value, &row->data);
	if (!r && also->mv_data) {
		row->also_size = (uint32_t)also->mv_size;
		r = bytes_add(rows, also, &row->also);
	}
	if (!r)
		rows->n++;
	return r;
}

/* One allocation: the rows, then their bytes. */
static int
rows_finish(struct rows *rows, struct store_read *read)
{
	size_t head = rows->n * sizeof(*rows->rows);
	uint8_t *block = malloc(head + rows->size + 1), *bytes = block + head;

	if (!block)
		return ENOMEM;
	for (uint32_t i = 0; i < rows->n; i++) {
		struct store_row *row = &rows->rows[i];

		row->key = bytes + ((uintptr_t)row->key - 1);
		row->data = bytes + ((uintptr_t)row->data - 1);
		if (row->also)
			row->also = bytes + ((uintptr_t)row->also - 1);
	}
	if (rows->n)
		memcpy(block, rows->rows, head);
	if (rows->size)
		memcpy(bytes, rows->bytes, rows->size);
	read->rows = (struct store_row *)block;
	read->n = rows->n;
	return 0;
}

static int
also_get(const struct lmdb_file *f, MDB_txn *txn, const struct store_read *read,
	MDB_val *key, MDB_val *also)
{
	int r;

	*also = (MDB_val){0, NULL};
	if (read->also == STORE_TABLES)
		return 0;
	r = mdb_get(txn, f->tables[read->also], key, also);
	if (r == MDB_NOTFOUND)
		*also = (MDB_val){0, NULL};
	return r == MDB_NOTFOUND ? 0 : r;
}

static int
read_rows(const struct lmdb_file *f, MDB_txn *txn, MDB_cursor *cursor,
	struct store_read *read, struct rows *rows)
{
	MDB_val key = {read->from_size, read->from}, value, also;
	MDB_cursor_op op = read->from_size ? MDB_SET_RANGE : MDB_FIRST;
	int r;

	while (!(r = mdb_cursor_get(cursor, &key, &value, op))) {
		op = MDB_NEXT;
		if (key.mv_size < read->prefix ||
			memcmp(key.mv_data, read->from, read->prefix) != 0)
			return 0;
		if (rows->n &&
			(rows->n >= read->max_rows ||
				rows->size + value.mv_size > read->max_size)) {
			read->more = true;
			return 0;
		}
		r = also_get(f, txn, read, &key, &also);
		if (!r)
			r = rows_add(rows, &key, &value, &also);
		if (r)
			return r;
	}
	return r == MDB_NOTFOUND ? 0 : r;
}

int
lmdb_read(const struct lmdb_file *f, MDB_txn *txn, struct store_read *read)
{
	struct rows rows = {.rows = NULL};
	MDB_cursor *cursor;
	int r = mdb_cursor_open(txn, f->tables[read->table], &cursor);

	if (r)
		return r;
	r = read_rows(f, txn, cursor, read, &rows);
	mdb_cursor_close(cursor);
	if (!r)
		r = rows_finish(&rows, read);
	free(rows.rows);
	free(rows.bytes);
	return r;
}

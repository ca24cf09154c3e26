/* Reading rows, in a transaction that is as short as that. The store's
 * thread. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/lmdb_own.h"

/* ---- what there is ------------------------------------------------------- */

int
view_begin(struct view *v, struct lmdb *l)
{
	int r;

	*v = (struct view){.store = l, .table = STORE_TABLES};
	pthread_mutex_lock(&l->file.view_lock);
	r = mdb_txn_begin(l->file.env, NULL, MDB_RDONLY, &v->txn);
	if (r)
		pthread_mutex_unlock(&l->file.view_lock);
	return r;
}

void
view_end(struct view *v)
{
	if (v->cursor)
		mdb_cursor_close(v->cursor);
	mdb_txn_abort(v->txn);
	pthread_mutex_unlock(&v->store->file.view_lock);
}

static int
below_get(struct view *v, MDB_cursor_op op)
{
	int r = mdb_cursor_get(v->cursor, &v->below, &v->below_value, op);

	v->has_below = !r;
	return r == MDB_NOTFOUND ? 0 : r;
}

static const struct rows_row *
in_table(const struct view *v, const struct rows_row *row)
{
	return row && row->table == v->table ? row : NULL;
}

/* The least key of the three. */
static bool
least(const struct view *v, MDB_val *key)
{
	bool any = v->has_below;

	if (any)
		*key = v->below;
	for (unsigned i = 0; i < 2; i++) {
		const struct rows_row *row = v->rows[i];

		if (!row || (any && rows_compare(row->key, row->key_size,
					    key->mv_data, key->mv_size) >= 0))
			continue;
		*key = (MDB_val){row->key_size, (void *)row->key};
		any = true;
	}
	return any;
}

static bool
is_at(const MDB_val *key, const void *data, size_t size)
{
	return key->mv_size == size && !memcmp(key->mv_data, data, size);
}

/* Take the row of v->key from the first that has it, and go on in all. What
 * was given out of LMDB stays where it is while the transaction lasts. */
static int
take(struct view *v)
{
	bool found = false;

	for (unsigned i = 0; i < 2; i++) {
		const struct rows_row *row = v->rows[i];

		if (!row || !is_at(&v->key, row->key, row->key_size))
			continue;
		if (!found)
			v->value = (MDB_val){row->size, (void *)row->data};
		found = true;
		v->rows[i] = in_table(v, row->next[0]);
	}
	if (!v->has_below ||
		!is_at(&v->key, v->below.mv_data, v->below.mv_size))
		return 0;
	if (!found)
		v->value = v->below_value;
	return below_get(v, MDB_NEXT);
}

/* Erased rows have no data. */
int
view_next(struct view *v)
{
	int r;

	do {
		if (!least(v, &v->key))
			return MDB_NOTFOUND;
		r = take(v);
	} while (!r && !v->value.mv_data);
	return r;
}

int
view_seek(struct view *v, unsigned table, const MDB_val *key)
{
	struct lmdb *l = v->store;
	const struct rows *sets[2] = {l->fresh, l->frozen};
	int r = 0;

	if (v->cursor)
		mdb_cursor_close(v->cursor);
	v->cursor = NULL;
	v->table = table;
	r = mdb_cursor_open(v->txn, l->file.tables[table], &v->cursor);
	if (r)
		return r;
	v->below = *key;
	r = below_get(v, key->mv_size ? MDB_SET_RANGE : MDB_FIRST);
	for (unsigned i = 0; i < 2; i++)
		v->rows[i] = in_table(v,
			rows_seek(sets[i], table, key->mv_data, key->mv_size));
	return r ? r : view_next(v);
}

int
view_get(struct view *v, unsigned table, const MDB_val *key, MDB_val *out)
{
	struct lmdb *l = v->store;
	const struct rows *sets[2] = {l->fresh, l->frozen};

	for (unsigned i = 0; i < 2; i++) {
		const struct rows_row *row =
			rows_seek(sets[i], table, key->mv_data, key->mv_size);

		if (!row || row->table != table ||
			!is_at(key, row->key, row->key_size))
			continue;
		*out = (MDB_val){row->size, (void *)row->data};
		return row->data ? 0 : MDB_NOTFOUND;
	}
	return mdb_get(v->txn, l->file.tables[table], (MDB_val *)key, out);
}

/* ---- rows that are given away -------------------------------------------- */

/* Offsets until the buffer has stopped moving. */
struct rows_out {
	struct store_row *rows;
	uint8_t *bytes;
	uint32_t n, room;
	size_t size, bytes_room;
};

static int
bytes_add(struct rows_out *rows, const MDB_val *value, const uint8_t **at)
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
rows_add(struct rows_out *rows, const MDB_val *key, const MDB_val *value,
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
rows_finish(struct rows_out *rows, struct store_read *read)
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
also_get(struct view *v, const struct store_read *read, const MDB_val *key,
	MDB_val *also)
{
	int r;

	*also = (MDB_val){0, NULL};
	if (read->also == STORE_TABLES)
		return 0;
	r = view_get(v, read->also, key, also);
	if (r == MDB_NOTFOUND)
		*also = (MDB_val){0, NULL};
	return r == MDB_NOTFOUND ? 0 : r;
}

static int
read_rows(struct view *v, struct store_read *read, struct rows_out *rows)
{
	MDB_val from = {read->from_size, read->from}, also;
	int r;

	for (r = view_seek(v, read->table, &from); !r; r = view_next(v)) {
		if (v->key.mv_size < read->prefix ||
			memcmp(v->key.mv_data, read->from, read->prefix) != 0)
			return 0;
		if (rows->n && (rows->n >= read->max_rows ||
				       rows->size + v->value.mv_size >
					       read->max_size)) {
			read->more = true;
			return 0;
		}
		r = also_get(v, read, &v->key, &also);
		if (!r)
			r = rows_add(rows, &v->key, &v->value, &also);
		if (r)
			return r;
	}
	return r == MDB_NOTFOUND ? 0 : r;
}

int
lmdb_read(struct view *v, struct store_read *read)
{
	struct rows_out rows = {.rows = NULL};
	int r = read_rows(v, read, &rows);

	if (!r)
		r = rows_finish(&rows, read);
	free(rows.rows);
	free(rows.bytes);
	return r;
}

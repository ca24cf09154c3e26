/* Rows of the log into LMDB. The thread that makes checkpoints, or the store's
 * while that one rests. */
#include <errno.h>

#include "base/err.h"
#include "base/fault.h"
#include "store/lmdb_file.h"

enum { RETRY_MAX = 24 }; /* growths of the map for one transaction */

/* What a transaction does of what it is given. */
enum part { ALL, ERASURES };

static int
put_row(struct lmdb_file *f, MDB_txn *txn, const struct rows_row *row,
	enum part part)
{
	MDB_dbi table = f->tables[row->table];
	MDB_val key = {row->key_size, (void *)row->key};
	MDB_val value = {row->size, (void *)row->data};
	int r;

	if (row->data)
		return part == ALL ? mdb_put(txn, table, &key, &value, 0) : 0;
	r = mdb_del(txn, table, &key, NULL);
	return r == MDB_NOTFOUND ? 0 : r;
}

static int
put_rows(struct lmdb_file *f, MDB_txn *txn, const struct rows *rows,
	const struct lmdb_applied *applied, enum part part)
{
	static const char name[] = LMDB_APPLIED;
	MDB_val key = {sizeof(name) - 1, (void *)name};
	MDB_val value = {sizeof(*applied), (void *)applied};
	int r = 0;

	for (const struct rows_row *row = rows->head[0]; row && !r;
		row = row->next[0])
		r = put_row(f, txn, row, part);
	if (!r && part == ALL)
		r = mdb_put(txn, f->tables[STORE_META], &key, &value, 0);
	if (!r && part == ALL)
		r = lmdb_number_put(f, txn, LMDB_LOGGED,
			applied->no << (64 - STORE_RUN_SHIFT) ? applied->mark
							      : 0);
	if (!r) /* something has changed: what was freed can be used again */
		r = lmdb_number_put(f, txn, LMDB_RUN, f->run);
	if (!r && FAULT(checkpoint_enospc))
		r = ENOSPC;
	if (!r && FAULT(checkpoint_eio))
		r = EIO;
	return r;
}

static int
transact(struct lmdb_file *f, const struct rows *rows,
	const struct lmdb_applied *applied, enum part part)
{
	MDB_txn *txn;
	int r = mdb_txn_begin(f->env, NULL, 0, &txn);

	if (r)
		return r;
	r = put_rows(f, txn, rows, applied, part);
	if (!r)
		return mdb_txn_commit(txn);
	mdb_txn_abort(txn);
	return r;
}

/* With a larger map if need be. Negative errno. */
static int
transact_grown(struct lmdb_file *f, const struct rows *rows,
	const struct lmdb_applied *applied, enum part part)
{
	bool freeing = part == ERASURES;
	int r = MDB_MAP_FULL;

	if (lmdb_file_limit(f, freeing))
		return -ENOSPC;
	for (unsigned i = 0; i < RETRY_MAX && r == MDB_MAP_FULL; i++) {
		r = transact(f, rows, applied, part);
		if (r == MDB_MAP_FULL && lmdb_file_grow(f, freeing))
			return -ENOSPC;
	}
	/* LMDB says EIO of a write that was cut short */
	return r == EIO && lmdb_file_disk_is_full(f) ? -ENOSPC : lmdb_error(r);
}

int
lmdb_apply(struct lmdb_file *f, const struct rows *rows,
	const struct lmdb_applied *applied)
{
	int r;

	lmdb_file_look(f, rows->size);
	r = transact_grown(f, rows, applied, ALL);
	if (r != -ENOSPC)
		return r;
	/* What gives room first. What a transaction frees can be used by the
	 * second one after it. */
	for (unsigned i = 0; i < 2; i++)
		if (transact_grown(f, rows, applied, ERASURES))
			return r;
	return transact_grown(f, rows, applied, ALL);
}

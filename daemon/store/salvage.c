/* What can be read of a damaged file goes to a new one, and with it what the
 * log beside it has and the file has not. The counts of the mailboxes are made
 * anew from the events that there are. */
#include "store/salvage.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "kernel/store.h"
#include "store/lmdb_file.h"
#include "store/pages.h"
#include "store/salvage_count.h"
#include "store/wal.h"

enum {
	ROWS_MAX = 1024, /* in one transaction, */
	ROWS_SIZE = 8 << 20,
};

struct reader {
	struct pages pages;
	struct rows log;           /* what it has, ... */
	struct lmdb_applied after; /* behind this */
	bool log_lost;             /* parts of the log cannot be read */
	struct lmdb_file to;
	MDB_txn *txn;
	uint32_t n_rows;
	uint64_t rows_size;
	struct salvage_count *count;
	struct salvage *out;
	int error; /* of writing: negative errno */
};

/* ---- rows ---------------------------------------------------------------- */

static void
commit(struct reader *r)
{
	int e = r->txn ? mdb_txn_commit(r->txn) : 0;

	r->txn = NULL;
	r->n_rows = 0;
	r->rows_size = 0;
	if (e && !r->error)
		r->error = lmdb_error(e);
}

static int
put_once(struct reader *r, unsigned table, MDB_val *key, MDB_val *value)
{
	int e = r->txn ? 0 : mdb_txn_begin(r->to.env, NULL, 0, &r->txn);

	return e ? e
		 : mdb_put(r->txn, r->to.tables[table], key, value,
			   MDB_NOOVERWRITE);
}

/* A key that is there already is of a page that is damaged. */
static void
row_put(struct reader *r, unsigned table, const void *key, size_t key_size,
	const void *data, size_t size)
{
	MDB_val k = {key_size, (void *)key}, v = {size, (void *)data};
	int e;

	if (r->error || !key_size || key_size > STORE_KEY_MAX)
		return;
	e = put_once(r, table, &k, &v);
	if (e == MDB_KEYEXIST)
		e = 0;
	if (e)
		r->error = lmdb_error(e);
	r->rows_size += size;
	if (++r->n_rows >= ROWS_MAX || r->rows_size >= ROWS_SIZE)
		commit(r);
}

/* Boxes are written last, as they are then. */
static bool
row_take(void *arg, const struct pages_row *row)
{
	struct reader *r = arg;

	switch (row->table) {
	case STORE_BOXES:
		count_box(r->count, row->key, row->key_size, row->data,
			row->size);
		return true;
	case STORE_EVENTS:
		count_record(r->count, row->key, row->key_size, row->data,
			row->size);
		break;
	case STORE_MARKS:
		count_marks(r->count, row->key, row->key_size, row->data,
			row->size);
		break;
	default:
		break;
	}
	row_put(r, row->table, row->key, row->key_size, row->data, row->size);
	return !r->error;
}

/* Of the file: unless the log has a later one, or has erased it. */
static bool
row_take_of_file(void *arg, const struct pages_row *row)
{
	const struct reader *r = arg;
	const struct rows_row *in_log =
		rows_seek(&r->log, row->table, row->key, row->key_size);
	bool same = in_log && in_log->table == row->table &&
		    rows_compare(in_log->key, in_log->key_size, row->key,
			    row->key_size) == 0;

	return same || row_take(arg, row);
}

static void
table_take(struct reader *r, unsigned table)
{
	pages_each(&r->pages, table, row_take_of_file, r);
	for (const struct rows_row *row = rows_seek(&r->log, table, "", 0);
		row && row->table == table && !r->error; row = row->next[0]) {
		struct pages_row take = {.key = row->key,
			.key_size = row->key_size,
			.data = row->data,
			.size = row->size,
			.table = row->table};

		if (row->data)
			row_take(r, &take);
	}
}

/* ---- the log ------------------------------------------------------------- */

static bool
after_take(void *arg, const struct pages_row *row)
{
	struct reader *r = arg;

	if (row->key_size != strlen(LMDB_APPLIED) ||
		memcmp(row->key, LMDB_APPLIED, row->key_size) != 0 ||
		row->size != sizeof(r->after))
		return true;
	memcpy(&r->after, row->data, sizeof(r->after));
	return false;
}

/* The directory of @from; false: no log belongs to it. Where it is not known
 * which does, that of a file in its place is meant. */
static bool
log_place(const struct reader *r, const char *from, char *dir)
{
	const char *slash = strrchr(from, '/');
	const char *name = slash ? slash + 1 : from;

	if (strncmp(name, "data.mdb", strlen("data.mdb")) != 0 ||
		(!r->after.mark && strcmp(name, "data.mdb") != 0))
		return false;
	snprintf(dir, PATH_MAX, "%.*s", slash ? (int)(slash - from + 1) : 1,
		slash ? from : ".");
	return true;
}

static int
log_read(struct reader *r, const char *from)
{
	struct wal_found found = {.lost = 0};
	struct wal log;
	char dir[PATH_MAX];
	int e;

	pages_each(&r->pages, STORE_META, after_take, r);
	if (!log_place(r, from, dir))
		return 0;
	found.applied = r->after.no;
	found.mark = r->after.mark;
	e = wal_open_to_read(&log, dir);
	if (!e)
		e = wal_replay(&log, STORE_RUN_SHIFT, &r->log, &found);
	wal_close(&log);
	if (found.groups)
		r->after.no = found.last;
	r->log_lost = found.lost > 0;
	return e;
}

/* ---- the new file -------------------------------------------------------- */

static void
number_put(struct reader *r, const char *name, uint64_t n)
{
	row_put(r, STORE_META, name, strlen(name), &n, sizeof(n));
}

static void
box_put(void *arg, const char *name, size_t size,
	const struct store_box_row *row)
{
	row_put(arg, STORE_BOXES, name, size, row, sizeof(*row));
}

static void
after_put(struct reader *r)
{
	if (r->after.no)
		row_put(r, STORE_META, LMDB_APPLIED, strlen(LMDB_APPLIED),
			&r->after, sizeof(r->after));
}

static void
tables_take(struct reader *r)
{
	/* Marks first: they say what of the events is left. */
	static const uint8_t order[] = {STORE_MARKS, STORE_EVENTS, STORE_META,
		STORE_BOXES, STORE_KEYS, STORE_STATE, STORE_TIMERS, STORE_DEAD,
		STORE_HISTORY, STORE_DAMAGED};

	after_put(r);
	for (unsigned i = 0; i < sizeof(order) && !r->error; i++)
		table_take(r, order[i]);
	if (r->error)
		return;
	/* These are not there if the page was not. */
	number_put(r, "format", LMDB_FORMAT);
	number_put(r, LMDB_RUN, count_run(r->count));
	count_boxes(r->count, box_put, r);
	commit(r);
}

static int
salvage_write(struct reader *r, const char *to)
{
	r->error = lmdb_file_open_copy(
		&r->to, to, 2 * r->pages.size + 2 * r->log.size);
	if (r->error)
		return r->error;
	tables_take(r);
	if (r->txn)
		mdb_txn_abort(r->txn);
	if (!r->error)
		r->error = lmdb_error(mdb_env_sync(r->to.env, 1));
	lmdb_file_close(&r->to);
	return r->error;
}

static int
salvage_read(struct reader *r, const char *from)
{
	int e = pages_open(&r->pages, from);

	if (e == -EUCLEAN)
		snprintf(r->out->text, sizeof(r->out->text),
			"it is no store, or neither of its first two pages can "
			"be read");
	if (e)
		return e;
	if (pages_are_none(&r->pages)) {
		snprintf(r->out->text, sizeof(r->out->text), "it is empty");
		return -EUCLEAN;
	}
	r->count = count_new();
	e = r->count ? pages_find(&r->pages) : err_raise(-ENOMEM);
	return e ? e : log_read(r, from);
}

static void
sum_up(const struct reader *r, struct salvage *out)
{
	struct salvage_sum sum = count_sum(r->count);

	out->events = sum.events;
	out->mailboxes = sum.mailboxes;
	out->lost = sum.lost;
	out->damaged = sum.damaged;
	out->counts_known = sum.counts_known && !r->log_lost;
}

/* @to is not there yet. */
static int
salvage(struct reader *r, const char *from, const char *to)
{
	char lock[PATH_MAX];
	int e = salvage_read(r, from);

	if (e)
		return e;
	e = salvage_write(r, to);
	if (e)
		unlink(to);
	snprintf(lock, sizeof(lock), "%.4000s-lock", to);
	unlink(lock);
	return e;
}

int
store_salvage(const char *from, const char *to, struct salvage *out)
{
	struct reader r = {.pages.fd = -1, .out = out};
	int e = access(to, F_OK) == 0 ? -EEXIST : 0;

	*out = (struct salvage){.events = 0};
	rows_init(&r.log);
	if (e)
		snprintf(out->text, sizeof(out->text), "%.200s is there", to);
	else
		e = salvage(&r, from, to);
	out->bad_pages = r.pages.bad;
	if (!e)
		sum_up(&r, out);
	else if (!out->text[0])
		snprintf(out->text, sizeof(out->text), "%s", strerror(-e));
	pages_close(&r.pages);
	rows_clear(&r.log);
	count_free(r.count);
	return e;
}

/* Reading a damaged file of LMDB page by page, without LMDB, which trusts its
 * pages. From the root of each table down, whatever is a sound page is looked
 * at; what leads nowhere is left out. Rows go to a new file, and the counts of
 * the mailboxes are made anew from the events that there are.
 *
 * The layout is that of LMDB 0.9, of 64 bits, little-endian. */
#include "store/salvage.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "kernel/journal.h"
#include "kernel/store.h"
#include "store/lmdb_file.h"
#include "store/salvage_count.h"

enum {
	PAGE_MIN = 512,
	PAGE_MAX = 65536,
	PAGE_HEAD = 16,
	NODE_HEAD = 8,
	IS_BRANCH = 1,
	IS_LEAF = 2,
	IS_BIG = 4,
	IS_META = 8,
	NODE_BIG = 1, /* the value is on pages of its own */
	NODE_TABLE = 2,
	DEPTH_MAX = 32,
	MAGIC_AT = PAGE_HEAD,
	TABLES_AT = PAGE_HEAD + 24, /* the free one, then the main one */
	TABLE_SIZE = 48,
	ROOT_AT = 40, /* in that */
	TXN_AT = PAGE_HEAD + 128,
	ROWS_MAX = 1024, /* in one transaction, */
	ROWS_SIZE = 8 << 20,
};
static const uint32_t magic = 0xBEEFC0DE;
static const uint64_t no_page = UINT64_MAX;

struct reader {
	int fd;
	uint32_t page_size;
	uint64_t size, n_pages;
	uint8_t *seen; /* a bit per page */
	struct lmdb_file to;
	MDB_txn *txn;
	uint32_t n_rows;
	uint64_t rows_size;
	unsigned table;
	struct salvage_count *count;
	struct salvage *out;
	int error; /* of writing: negative errno */
};

static uint64_t
get(const uint8_t *at, size_t size)
{
	uint64_t n = 0;

	memcpy(&n, at, size);
	return n;
}

/* ---- pages --------------------------------------------------------------- */

/* @n pages from @no on, which the caller frees; NULL: they cannot be read. */
static uint8_t *
pages_read(const struct reader *r, uint64_t no, uint64_t n)
{
	uint64_t size = n * r->page_size;
	uint8_t *bytes;

	if (no >= r->n_pages || n > r->n_pages - no)
		return NULL;
	bytes = malloc(size);
	if (bytes && pread(r->fd, bytes, size, (off_t)(no * r->page_size)) !=
			     (ssize_t)size) {
		free(bytes);
		return NULL;
	}
	return bytes;
}

static uint8_t *
page_read(struct reader *r, uint64_t no, unsigned flags)
{
	uint8_t *page = no < r->n_pages && !(r->seen[no / 8] >> (no % 8) & 1)
				? pages_read(r, no, 1)
				: NULL;

	if (page && get(page, 8) == no && (get(page + 10, 2) & flags)) {
		r->seen[no / 8] |= (uint8_t)(1 << (no % 8));
		return page;
	}
	free(page);
	r->out->bad_pages++;
	return NULL;
}

struct node {
	uint64_t child; /* of a branch */
	const uint8_t *key, *data;
	uint64_t size;
	uint16_t key_size, flags;
};

/* How many nodes @page says that it has. */
static unsigned
nodes_of(const struct reader *r, const uint8_t *page)
{
	uint64_t lower = get(page + 12, 2);

	return lower < PAGE_HEAD || lower > r->page_size
		       ? 0
		       : (unsigned)(lower - PAGE_HEAD) / 2;
}

/* False: it is not within the page. */
static bool
node_get(
	const struct reader *r, const uint8_t *page, unsigned i, struct node *n)
{
	size_t at = get(page + PAGE_HEAD + 2 * (size_t)i, 2), left;
	bool leaf = get(page + 10, 2) & IS_LEAF;
	const uint8_t *node = page + at;

	if (at < PAGE_HEAD || at + NODE_HEAD > r->page_size)
		return false;
	left = r->page_size - at - NODE_HEAD;
	n->size = get(node, 4);
	n->flags = (uint16_t)get(node + 4, 2);
	n->child = n->size | (uint64_t)n->flags << 32;
	n->key_size = (uint16_t)get(node + 6, 2);
	n->key = node + NODE_HEAD;
	n->data = n->key + n->key_size;
	if (n->key_size > left)
		return false;
	left -= n->key_size;
	return !leaf || left >= (n->flags & NODE_BIG ? 8 : n->size);
}

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
static void
row_take(struct reader *r, const struct node *n, const uint8_t *data)
{
	switch (r->table) {
	case STORE_BOXES:
		count_box(r->count, n->key, n->key_size, data, n->size);
		return;
	case STORE_EVENTS:
		count_record(r->count, n->key, n->key_size, data, n->size);
		break;
	case STORE_MARKS:
		count_marks(r->count, n->key, n->key_size, data, n->size);
		break;
	default:
		break;
	}
	row_put(r, r->table, n->key, n->key_size, data, n->size);
}

/* Its value is on pages of its own. */
static void
big_take(struct reader *r, const struct node *n)
{
	uint64_t no = get(n->data, 8);
	uint64_t pages =
		(n->size + PAGE_HEAD + r->page_size - 1) / r->page_size;
	uint8_t *bytes = pages_read(r, no, pages);

	if (bytes && get(bytes, 8) == no && (get(bytes + 10, 2) & IS_BIG))
		row_take(r, n, bytes + PAGE_HEAD);
	else
		r->out->bad_pages++;
	free(bytes);
}

/* ---- trees --------------------------------------------------------------- */

static void
leaf_take(struct reader *r, const uint8_t *page)
{
	struct node n;

	for (unsigned i = 0; i < nodes_of(r, page) && !r->error; i++) {
		if (!node_get(r, page, i, &n))
			r->out->bad_pages++;
		else if (n.flags & NODE_BIG)
			big_take(r, &n);
		else
			row_take(r, &n, n.data);
	}
}

/* What hangs on page @no. */
static void
tree_take(struct reader *r, uint64_t no, unsigned depth)
{
	uint8_t *page = depth < DEPTH_MAX
				? page_read(r, no, IS_BRANCH | IS_LEAF)
				: NULL;
	struct node n;

	if (page && (get(page + 10, 2) & IS_LEAF))
		leaf_take(r, page);
	else if (page)
		for (unsigned i = 0; i < nodes_of(r, page) && !r->error; i++) {
			if (node_get(r, page, i, &n))
				tree_take(r, n.child, depth + 1);
			else
				r->out->bad_pages++;
		}
	free(page);
}

static unsigned
table_called(const uint8_t *name, size_t size)
{
	unsigned i = 0;

	while (i < STORE_TABLES &&
		(strlen(lmdb_table_names[i]) != size ||
			memcmp(lmdb_table_names[i], name, size) != 0))
		i++;
	return i;
}

/* The roots of the tables, which the main table at @no tells of. */
static void
roots_find(struct reader *r, uint64_t no, unsigned depth, uint64_t *roots)
{
	uint8_t *page = depth < DEPTH_MAX
				? page_read(r, no, IS_BRANCH | IS_LEAF)
				: NULL;
	struct node n;
	bool leaf = page && (get(page + 10, 2) & IS_LEAF);

	for (unsigned i = 0; page && i < nodes_of(r, page); i++) {
		if (!node_get(r, page, i, &n))
			r->out->bad_pages++;
		else if (!leaf)
			roots_find(r, n.child, depth + 1, roots);
		else if ((n.flags & NODE_TABLE) && n.size == TABLE_SIZE &&
			 table_called(n.key, n.key_size) < STORE_TABLES)
			roots[table_called(n.key, n.key_size)] =
				get(n.data + ROOT_AT, 8);
	}
	free(page);
}

/* The first two pages take turns in telling where everything is: the later one
 * that is sound. 0: neither is. */
static uint64_t
meta_find(struct reader *r)
{
	uint8_t bytes[PAGE_HEAD + 136];
	uint64_t best = 0, root = 0;

	for (uint64_t i = 0, at = 0; i < 2; i++, at = r->page_size) {
		if (pread(r->fd, bytes, sizeof(bytes), (off_t)at) !=
				(ssize_t)sizeof(bytes) ||
			get(bytes + MAGIC_AT, 4) != magic ||
			!(get(bytes + 10, 2) & IS_META) || get(bytes, 8) != i) {
			r->out->bad_pages++;
			continue;
		}
		if (get(bytes + TXN_AT, 8) < best)
			continue;
		r->page_size = (uint32_t)get(bytes + TABLES_AT, 4);
		best = get(bytes + TXN_AT, 8);
		root = get(bytes + TABLES_AT + TABLE_SIZE + ROOT_AT, 8);
	}
	if (r->page_size < PAGE_MIN || r->page_size > PAGE_MAX)
		return 0;
	r->n_pages = r->size / r->page_size;
	return root;
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
tables_take(struct reader *r, const uint64_t *roots)
{
	/* Marks first: they say what of the events is left. */
	static const uint8_t order[] = {STORE_MARKS, STORE_EVENTS, STORE_META,
		STORE_BOXES, STORE_KEYS, STORE_STATE, STORE_TIMERS, STORE_DEAD,
		STORE_HISTORY, STORE_DAMAGED};

	for (unsigned i = 0; i < sizeof(order) && !r->error; i++) {
		r->table = order[i];
		if (roots[r->table] != no_page)
			tree_take(r, roots[r->table], 0);
	}
	if (r->error)
		return;
	/* These are not there if the page was not. */
	number_put(r, "format", LMDB_FORMAT);
	number_put(r, LMDB_RUN, count_run(r->count));
	count_boxes(r->count, box_put, r);
	commit(r);
}

static int
salvage_read(struct reader *r, const char *to)
{
	uint64_t roots[STORE_TABLES], root = meta_find(r);

	if (!root || root == no_page) {
		snprintf(r->out->text, sizeof(r->out->text),
			root ? "it is empty"
			     : "it is no store, or neither of its first two "
			       "pages can be read");
		return -EUCLEAN;
	}
	for (unsigned i = 0; i < STORE_TABLES; i++)
		roots[i] = no_page;
	roots_find(r, root, 0, roots);
	r->error =
		lmdb_file_open_copy(&r->to, to, 2 * r->n_pages * r->page_size);
	if (r->error)
		return r->error;
	tables_take(r, roots);
	if (r->txn)
		mdb_txn_abort(r->txn);
	if (!r->error)
		r->error = lmdb_error(mdb_env_sync(r->to.env, 1));
	lmdb_file_close(&r->to);
	return r->error;
}

static int
reader_init(struct reader *r, const char *from)
{
	struct stat st;

	r->fd = open(from, O_RDONLY | O_CLOEXEC);
	if (r->fd < 0 || fstat(r->fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	r->page_size = (uint32_t)sysconf(_SC_PAGESIZE);
	r->size = (uint64_t)st.st_size;
	r->seen = calloc(1, r->size / PAGE_MIN / 8 + 1);
	r->count = count_new();
	return r->seen && r->count ? 0 : err_raise(-ENOMEM);
}

static void
reader_deinit(struct reader *r)
{
	if (r->fd >= 0)
		close(r->fd);
	free(r->seen);
	count_free(r->count);
}

static void
sum_up(const struct reader *r, struct salvage *out)
{
	struct salvage_sum sum = count_sum(r->count);

	out->events = sum.events;
	out->mailboxes = sum.mailboxes;
	out->lost = sum.lost;
	out->damaged = sum.damaged;
	out->counts_known = sum.counts_known;
}

int
store_salvage(const char *from, const char *to, struct salvage *out)
{
	struct reader r = {.fd = -1, .out = out};
	char lock[PATH_MAX];
	int e;

	*out = (struct salvage){.events = 0};
	snprintf(lock, sizeof(lock), "%.4000s-lock", to);
	e = access(to, F_OK) == 0 ? -EEXIST : reader_init(&r, from);
	if (e == -EEXIST)
		snprintf(out->text, sizeof(out->text), "%.200s is there", to);
	else if (!e)
		e = salvage_read(&r, to);
	if (e && e != -EEXIST)
		unlink(to);
	if (e != -EEXIST)
		unlink(lock);
	if (!e)
		sum_up(&r, out);
	else if (!out->text[0])
		snprintf(out->text, sizeof(out->text), "%s", strerror(-e));
	reader_deinit(&r);
	return e;
}

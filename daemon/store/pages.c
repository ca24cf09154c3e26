/* Reading a damaged file of LMDB. From the root of each table down, whatever is
 * a sound page is looked at. What a damaged page led to is among the pages that
 * nothing leads to and that are not free: of which table a leaf is is told by
 * which trees lack some, and by what its rows look like.
 *
 * The layout is that of LMDB 0.9, of 64 bits, little-endian. */
#include "store/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "store/lmdb_file.h"
#include "store/pages_guess.h"

enum {
	PAGE_MIN = 512,
	PAGE_MAX = 65536,
	PAGE_HEAD = 16,
	NODE_HEAD = 8,
	IS_BRANCH = 1,
	IS_LEAF = 2,
	IS_BIG = 4,
	IS_META = 8,
	KINDS = 15,
	NODE_BIG = 1, /* the value is on pages of its own */
	NODE_TABLE = 2,
	DEPTH_MAX = 32,
	MAGIC_AT = PAGE_HEAD,
	TABLES_AT = PAGE_HEAD + 24, /* the free one, then the main one */
	TABLE_SIZE = 48,
	ROOT_AT = 40, /* in that */
	LAST_AT = PAGE_HEAD + 120,
	TXN_AT = PAGE_HEAD + 128,
	META_SIZE = PAGE_HEAD + 136,
	N_METAS = 2,
	FIRST_LEAVES = 1024,
};
static const uint32_t magic = 0xBEEFC0DE;
static const uint64_t no_page = UINT64_MAX;

static uint64_t
get(const uint8_t *at, size_t size)
{
	uint64_t n = 0;

	memcpy(&n, at, size);
	return n;
}

static bool
was_seen(const struct pages *p, uint64_t no)
{
	return p->seen[no / 8] >> (no % 8) & 1;
}

/* @n pages from @no on, as many as there are. */
static void
see(struct pages *p, uint64_t no, uint64_t n)
{
	for (; n && no < p->n; n--, no++)
		p->seen[no / 8] |= (uint8_t)(1 << (no % 8));
}

/* ---- pages --------------------------------------------------------------- */

/* @n pages from @no on, which the caller frees; NULL: they cannot be read. */
static uint8_t *
pages_read(const struct pages *p, uint64_t no, uint64_t n)
{
	uint64_t size = n * p->page_size;
	uint8_t *bytes;

	if (no >= p->n || n > p->n - no)
		return NULL;
	bytes = malloc(size);
	if (bytes && pread(p->fd, bytes, size, (off_t)(no * p->page_size)) !=
			     (ssize_t)size) {
		free(bytes);
		return NULL;
	}
	return bytes;
}

static unsigned
kind_of(const uint8_t *page)
{
	return (unsigned)get(page + 10, 2) & KINDS;
}

/* One that is not known yet, of a tree. */
static uint8_t *
tree_page_read(const struct pages *p, uint64_t no)
{
	uint8_t *page =
		no < p->n && !was_seen(p, no) ? pages_read(p, no, 1) : NULL;

	if (page && get(page, 8) == no &&
		(kind_of(page) == IS_LEAF || kind_of(page) == IS_BRANCH))
		return page;
	free(page);
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
nodes_of(const struct pages *p, const uint8_t *page)
{
	uint64_t lower = get(page + 12, 2);

	return lower < PAGE_HEAD || lower > p->page_size
		       ? 0
		       : (unsigned)(lower - PAGE_HEAD) / 2;
}

/* False: it is not within the page. */
static bool
node_get(const struct pages *p, const uint8_t *page, unsigned i, struct node *n)
{
	size_t at = get(page + PAGE_HEAD + 2 * (size_t)i, 2), left;
	const uint8_t *node = page + at;

	if (at < PAGE_HEAD || at + NODE_HEAD > p->page_size)
		return false;
	left = p->page_size - at - NODE_HEAD;
	n->size = get(node, 4);
	n->flags = (uint16_t)get(node + 4, 2);
	n->child = n->size | (uint64_t)n->flags << 32;
	n->key_size = (uint16_t)get(node + 6, 2);
	n->key = node + NODE_HEAD;
	n->data = n->key + n->key_size;
	if (n->key_size > left)
		return false;
	left -= n->key_size;
	return kind_of(page) == IS_BRANCH ||
	       left >= (n->flags & NODE_BIG ? 8 : n->size);
}

static uint64_t
big_pages(const struct pages *p, const struct node *n)
{
	return (n->size + PAGE_HEAD + p->page_size - 1) / p->page_size;
}

/* A node of a leaf as a row; *@big, which the caller frees, has its value if
 * that is on pages of its own. */
static bool
row_get(struct pages *p, const struct node *n, struct pages_row *row,
	uint8_t **big)
{
	uint64_t no;

	*row = (struct pages_row){.key = n->key,
		.key_size = n->key_size,
		.data = n->data,
		.size = n->size};
	*big = NULL;
	if (!(n->flags & NODE_BIG))
		return true;
	no = get(n->data, 8);
	*big = pages_read(p, no, big_pages(p, n));
	row->data = *big ? *big + PAGE_HEAD : NULL;
	return *big && get(*big, 8) == no && kind_of(*big) == IS_BIG;
}

/* ---- trees --------------------------------------------------------------- */

/* Where the keys of a page have to be. */
struct span {
	const uint8_t *from, *to; /* to NULL: it has no end */
	uint16_t from_size, to_size;
};

static bool
is_within(const struct pages *p, const uint8_t *page, const struct span *s)
{
	unsigned i = kind_of(page) == IS_BRANCH; /* its first has no key */
	struct node n;

	if (!s || nodes_of(p, page) <= i || !node_get(p, page, i, &n))
		return true;
	return rows_compare(n.key, n.key_size, s->from, s->from_size) >= 0 &&
	       (!s->to ||
		       rows_compare(n.key, n.key_size, s->to, s->to_size) < 0);
}

/* Of node @i, which is @n, of a branch within @s. */
static struct span
span_of(const struct pages *p, const uint8_t *page, unsigned i,
	const struct node *n, const struct span *s)
{
	struct span of = *s;
	struct node next;

	if (i) {
		of.from = n->key;
		of.from_size = n->key_size;
	}
	if (i + 1 < nodes_of(p, page) && node_get(p, page, i + 1, &next)) {
		of.to = next.key;
		of.to_size = next.key_size;
	}
	return of;
}

/* What is done with each leaf of a tree. */
struct walk {
	struct pages *pages;
	void (*leaf)(struct walk *w, uint64_t no, const uint8_t *page);
	bool *missing;
	uint64_t *roots; /* of the tables, if it is the main tree */
	unsigned table;
};

/* What hangs on page @no, within @s if that is not NULL. */
static void
walk_tree(struct walk *w, uint64_t no, const struct span *s, unsigned depth)
{
	struct pages *p = w->pages;
	uint8_t *page = depth < DEPTH_MAX ? tree_page_read(p, no) : NULL;
	struct span of;
	struct node n;

	if (!page || !is_within(p, page, s)) {
		p->bad++;
		*w->missing = true;
		free(page);
		return;
	}
	see(p, no, 1);
	if (kind_of(page) == IS_LEAF)
		w->leaf(w, no, page);
	else
		for (unsigned i = 0; i < nodes_of(p, page); i++) {
			if (!node_get(p, page, i, &n)) {
				p->bad++;
				*w->missing = true;
				continue;
			}
			if (s)
				of = span_of(p, page, i, &n, s);
			walk_tree(w, n.child, s ? &of : NULL, depth + 1);
		}
	free(page);
}

/* Pages that the values of @page are on. */
static void
see_values(struct pages *p, const uint8_t *page)
{
	struct node n;

	for (unsigned i = 0; i < nodes_of(p, page); i++)
		if (node_get(p, page, i, &n) && (n.flags & NODE_BIG))
			see(p, get(n.data, 8), big_pages(p, &n));
}

static void
add_leaf(struct pages *p, uint64_t no, unsigned table)
{
	if (p->n_leaves == p->room) {
		size_t room = p->room ? 2 * p->room : FIRST_LEAVES;
		struct pages_leaf *all =
			realloc(p->leaves, room * sizeof(*all));

		if (!all) {
			p->no_memory = true;
			return;
		}
		p->leaves = all;
		p->room = room;
	}
	p->leaves[p->n_leaves++] = (struct pages_leaf){no, (uint8_t)table};
}

static void
on_rows(struct walk *w, uint64_t no, const uint8_t *page)
{
	see_values(w->pages, page);
	add_leaf(w->pages, no, w->table);
}

/* Numbers of pages: how many, then each. */
static void
on_free(struct walk *w, uint64_t no, const uint8_t *page)
{
	struct pages *p = w->pages;
	struct pages_row row;
	struct node n;
	uint8_t *big;

	(void)no;
	see_values(p, page);
	for (unsigned i = 0; i < nodes_of(p, page); i++) {
		if (!node_get(p, page, i, &n) || !row_get(p, &n, &row, &big)) {
			p->free_unknown = true;
			continue;
		}
		for (uint64_t at = 8; at + 8 <= row.size; at += 8)
			see(p, get(row.data + at, 8), 1);
		free(big);
	}
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

/* The roots of the tables. */
static void
on_main(struct walk *w, uint64_t no, const uint8_t *page)
{
	struct pages *p = w->pages;
	struct node n;

	(void)no;
	for (unsigned i = 0; i < nodes_of(p, page); i++) {
		unsigned table;

		if (!node_get(p, page, i, &n))
			continue;
		table = table_called(n.key, n.key_size);
		if (!(n.flags & NODE_TABLE) || n.size != TABLE_SIZE ||
			table == STORE_TABLES)
			continue;
		p->missing[table] = false;
		w->roots[table] = get(n.data + ROOT_AT, 8);
	}
}

/* ---- leaves that nothing leads to ---------------------------------------- */

static unsigned
guess_table(struct pages *p, const uint8_t *page)
{
	struct pages_guess g;
	struct pages_row row;
	struct node n;
	uint8_t *big;

	guess_begin(&g, p->missing);
	for (unsigned i = 0; i < nodes_of(p, page); i++) {
		if (!node_get(p, page, i, &n))
			continue;
		if (row_get(p, &n, &row, &big))
			guess_row(&g, &row);
		free(big);
	}
	return guess_end(&g);
}

/* Where nobody knows what is free they may have been of no use for long: then
 * events alone are taken, which had better come twice than not at all. */
static void
find_stray(struct pages *p)
{
	for (uint64_t no = N_METAS; no < p->n; no++) {
		uint8_t *page = was_seen(p, no) ? NULL : pages_read(p, no, 1);
		unsigned table;

		if (page && get(page, 8) == no && kind_of(page) == IS_BIG) {
			uint64_t n = get(page + 12, 4);

			no += n && n < p->n - no ? n - 1 : 0;
		} else if (page && get(page, 8) == no &&
			   kind_of(page) == IS_LEAF) {
			table = guess_table(p, page);
			see_values(p, page);
			if (table < STORE_TABLES &&
				(!p->free_unknown || table == STORE_EVENTS))
				add_leaf(p, no, table);
		}
		free(page);
	}
}

static void
walk_table(struct pages *p, unsigned table, uint64_t root)
{
	struct walk w = {.pages = p,
		.leaf = on_rows,
		.missing = &p->missing[table],
		.table = table};
	struct span all = {.from = (const uint8_t *)""};

	if (root != no_page)
		walk_tree(&w, root, &all, 0);
}

int
pages_find(struct pages *p)
{
	uint64_t roots[STORE_TABLES];
	bool missing = false;
	struct walk free_pages = {
		.pages = p, .leaf = on_free, .missing = &p->free_unknown};
	struct walk main_tree = {.pages = p,
		.leaf = on_main,
		.missing = &missing,
		.roots = roots};

	see(p, 0, N_METAS);
	if (p->free_root != no_page)
		walk_tree(&free_pages, p->free_root, NULL, 0);
	for (unsigned i = 0; i < STORE_TABLES; i++) {
		roots[i] = no_page;
		p->missing[i] = true; /* until its root is found */
	}
	walk_tree(&main_tree, p->root, NULL, 0);
	missing = false;
	for (unsigned i = 0; i < STORE_TABLES; i++) {
		walk_table(p, i, roots[i]);
		missing = missing || p->missing[i];
	}
	if (missing)
		find_stray(p);
	return p->no_memory ? err_raise(-ENOMEM) : 0;
}

/* ---- rows ---------------------------------------------------------------- */

static bool
leaf_each(struct pages *p, const struct pages_leaf *leaf, const uint8_t *page,
	bool (*take)(void *arg, const struct pages_row *row), void *arg)
{
	bool go_on = true;
	struct pages_row row;
	struct node n;
	uint8_t *big;

	for (unsigned i = 0; i < nodes_of(p, page) && go_on; i++) {
		if (!node_get(p, page, i, &n)) {
			p->bad++;
			continue;
		}
		if (!row_get(p, &n, &row, &big)) {
			p->bad++;
		} else {
			row.table = leaf->table;
			go_on = take(arg, &row);
		}
		free(big);
	}
	return go_on;
}

void
pages_each(struct pages *p, unsigned table,
	bool (*take)(void *arg, const struct pages_row *row), void *arg)
{
	bool go_on = true;

	for (size_t i = 0; i < p->n_leaves && go_on; i++) {
		const struct pages_leaf *leaf = &p->leaves[i];
		uint8_t *page = leaf->table == table
					? pages_read(p, leaf->no, 1)
					: NULL;

		if (page)
			go_on = leaf_each(p, leaf, page, take, arg);
		free(page);
	}
}

/* ---- open and close ------------------------------------------------------ */

static bool
meta_is_sound(const struct pages *p, const uint8_t *bytes, uint64_t no)
{
	uint64_t size = get(bytes + TABLES_AT, 4);

	return get(bytes + MAGIC_AT, 4) == magic && kind_of(bytes) == IS_META &&
	       get(bytes, 8) == no && size >= PAGE_MIN && size <= PAGE_MAX &&
	       (size & (size - 1)) == 0 &&
	       get(bytes + LAST_AT, 8) < p->size / size;
}

/* The first two pages take turns in telling where everything is: the later one
 * that is sound. */
static bool
meta_find(struct pages *p)
{
	uint8_t bytes[META_SIZE];
	uint64_t best = 0;
	bool found = false;

	for (uint64_t i = 0, at = 0; i < N_METAS; i++, at = p->page_size) {
		if (pread(p->fd, bytes, sizeof(bytes), (off_t)at) !=
				(ssize_t)sizeof(bytes) ||
			!meta_is_sound(p, bytes, i)) {
			p->bad++;
			continue;
		}
		if (found && get(bytes + TXN_AT, 8) < best)
			continue;
		found = true;
		p->page_size = (uint32_t)get(bytes + TABLES_AT, 4);
		best = get(bytes + TXN_AT, 8);
		p->n = get(bytes + LAST_AT, 8) + 1;
		p->free_root = get(bytes + TABLES_AT + ROOT_AT, 8);
		p->root = get(bytes + TABLES_AT + TABLE_SIZE + ROOT_AT, 8);
	}
	return found;
}

bool
pages_are_none(const struct pages *p)
{
	return p->root == no_page;
}

int
pages_open(struct pages *p, const char *path)
{
	struct stat st;

	*p = (struct pages){.fd = open(path, O_RDONLY | O_CLOEXEC)};
	if (p->fd < 0 || fstat(p->fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	p->page_size = (uint32_t)sysconf(_SC_PAGESIZE);
	p->size = (uint64_t)st.st_size;
	if (!meta_find(p))
		return -EUCLEAN;
	p->seen = calloc(1, p->n / 8 + 1);
	return p->seen ? 0 : err_raise(-ENOMEM);
}

void
pages_close(struct pages *p)
{
	if (p->fd >= 0)
		close(p->fd);
	free(p->seen);
	free(p->leaves);
	p->fd = -1;
}

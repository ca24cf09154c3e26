#pragma once
/* A file of LMDB, page by page, without LMDB, which trusts its pages: the
 * leaves of each table, whatever of the trees above them is damaged. Any
 * thread; blocks. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/store.h"

struct pages_leaf {
	uint64_t no;
	uint8_t table;
};

struct pages {
	int fd;
	uint32_t page_size;
	uint64_t size, n;
	uint8_t *seen; /* a bit per page: it is known what it is */
	struct pages_leaf *leaves;
	size_t n_leaves, room;
	bool missing[STORE_TABLES]; /* not all of its tree can be read */
	bool free_unknown;          /* which pages are of no use any more */
	bool no_memory;
	uint64_t free_root, root;
	uint64_t bad; /* that could not be read, or lead nowhere */
};

struct pages_row {
	const uint8_t *key, *data;
	uint64_t size;
	uint16_t key_size;
	uint8_t table;
};

/* 0; -EUCLEAN: it is no such file; other negative errno. In any case
 * pages_close(). */
int pages_open(struct pages *p, const char *path);
void pages_close(struct pages *p);
/* Nothing has been put into it yet. */
bool pages_are_none(const struct pages *p);
/* Find all leaves. 0 or -ENOMEM. */
int pages_find(struct pages *p);
/* The rows of @table, as far as they can be read: those found by the tree in
 * the order of keys, then the others. take() returns false to end it. */
void pages_each(struct pages *p, unsigned table,
	bool (*take)(void *arg, const struct pages_row *row), void *arg);

#pragma once
/* Tables of text, columns as wide as they need to be. One thread. */
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum {
	TABLE_MAX_COLUMNS = 12,
};

enum table_style {
	TABLE_PLAIN = 0,
	TABLE_GOOD, /* green */
	TABLE_WARN, /* yellow */
	TABLE_BAD,  /* red */
};

struct table_cell {
	char *text;
	enum table_style style;
};

struct table {
	const char *const *titles; /* borrowed; one that begins with '>' is of
				    * numbers, set to the right */
	size_t n_columns;
	struct table_cell *cells; /* row by row */
	size_t n_cells, max_cells;
	bool failed; /* out of memory */
};

void table_init(struct table *t, const char *const *titles, size_t n_columns);
void table_deinit(struct table *t);
/* The next cell: text, escaped; or a number. An empty text shows as "-". */
void table_add(struct table *t, const char *text);
void table_add_style(struct table *t, const char *text, enum table_style s);
__attribute__((format(printf, 2, 3))) void table_addf(
	struct table *t, const char *format, ...);
/* 0, or -1: out of memory. */
int table_write(const struct table *t, FILE *f, bool titles, bool color);

const char *style_begin(enum table_style style, bool color);
const char *style_end(enum table_style style, bool color);

#pragma once
/* Of which table a page of rows is that nothing leads to: each row has a say,
 * by what it looks like. One thread. */
#include "store/pages.h"

struct pages_guess {
	const bool *may_be;
	uint32_t votes[STORE_TABLES];
};

/* One of those tables of which @may_be is true. */
void guess_begin(struct pages_guess *g, const bool may_be[STORE_TABLES]);
void guess_row(struct pages_guess *g, const struct pages_row *row);
/* STORE_TABLES: none. */
unsigned guess_end(const struct pages_guess *g);

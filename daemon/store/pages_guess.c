/* See pages_guess.h. If only one table lacks pages, it is of that one. */
#include "store/pages_guess.h"

#include <string.h>

#include "base/crc32c.h"
#include "kernel/journal.h"
#include "kernel/journal_batch.h"
#include "store/lmdb_file.h"

enum { NUMBER = 8, CRC = 4, BOX_AND_NUMBER = 2 * NUMBER };

void
guess_begin(struct pages_guess *g, const bool may_be[STORE_TABLES])
{
	*g = (struct pages_guess){.may_be = may_be};
}

static unsigned
of_record_key(const struct pages_row *row)
{
	uint32_t n;

	if (!journal_check_record(row->data, row->size, &n) && n)
		return STORE_EVENTS;
	return row->size >= sizeof(struct batch_marks) ? STORE_MARKS
						       : STORE_DAMAGED;
}

/* Rows of timers begin with their checksum. */
static unsigned
of_number_key(const struct pages_row *row)
{
	uint32_t crc;

	if (row->size < CRC)
		return STORE_STATE;
	memcpy(&crc, row->data, CRC);
	return crc == crc32c(0, row->data + CRC, row->size - CRC) ? STORE_TIMERS
								  : STORE_DEAD;
}

/* Names of mailboxes and of rows of STORE_META are text, the others begin with
 * the number of a mailbox. */
static unsigned
looks_like(const struct pages_row *row)
{
	if (row->key_size == BATCH_KEY)
		return of_record_key(row);
	if (row->size == sizeof(struct store_box_row) && row->key[0])
		return STORE_BOXES;
	if (row->key_size == NUMBER && !row->key[0])
		return STORE_HISTORY;
	if (row->key_size <= NUMBER || row->key[0])
		return STORE_META;
	if (row->size == NUMBER)
		return STORE_KEYS;
	return row->key_size == BOX_AND_NUMBER ? of_number_key(row)
					       : STORE_STATE;
}

void
guess_row(struct pages_guess *g, const struct pages_row *row)
{
	unsigned table = row->key_size ? looks_like(row) : STORE_TABLES;

	if (table < STORE_TABLES && g->may_be[table])
		g->votes[table]++;
}

unsigned
guess_end(const struct pages_guess *g)
{
	unsigned best = STORE_TABLES, n = 0, only = STORE_TABLES;

	for (unsigned i = 0; i < STORE_TABLES; i++) {
		if (g->may_be[i] && n++ == 0)
			only = i;
		if (g->votes[i] &&
			(best == STORE_TABLES || g->votes[i] > g->votes[best]))
			best = i;
	}
	return n == 1 ? only : best;
}

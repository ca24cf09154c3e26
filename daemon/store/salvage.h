#pragma once
/* Salvage: what can be read of a file of LMDB that is damaged goes into a new
 * one, which can take its place. Any thread; blocks. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct salvage {
	uint64_t events, mailboxes; /* in the new file */
	uint64_t lost;              /* events that were counted, at least */
	uint64_t damaged;           /* of those that are in the new file */
	uint64_t bad_pages;         /* that could not be read */
	bool counts_known;          /* else more may have been lost */
	char text[256];             /* why not */
};

/* From the file @from to the file @to, which is not there yet. 0 or negative
 * errno with a reason in @out->text; then @to is not there. */
int store_salvage(const char *from, const char *to, struct salvage *out);

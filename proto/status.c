#include "status.h"

#include <stddef.h>
#include <stdlib.h>

struct status_row {
	int code;
	const char *word;
	int err;
	int exit_code;
	const char *text;
};

static const struct status_row rows[] = {
#define STATUS_ROW(name, code, word, err, exit, text) \
	{code, word, err, exit, text},
	EVD_STATUS_TABLE(STATUS_ROW)
#undef STATUS_ROW
};

enum { N_ROWS = sizeof(rows) / sizeof(rows[0]) };

static const struct status_row *
row_of(int status)
{
	for (size_t i = 0; i < N_ROWS; i++)
		if (rows[i].code == status)
			return &rows[i];
	return NULL;
}

const char *
status_word(int status)
{
	const struct status_row *row = row_of(status);

	return row ? row->word : "unknown";
}

const char *
status_text(int status)
{
	const struct status_row *row = row_of(status);

	return row ? row->text : "unknown status";
}

int
status_errno(int status)
{
	const struct status_row *row = row_of(status);

	return row ? row->err : EIO;
}

int
status_exit(int status)
{
	const struct status_row *row = row_of(status);

	return row ? row->exit_code : 70;
}

int
status_from_errno(int err)
{
	err = abs(err);
	for (size_t i = 0; i < N_ROWS; i++)
		if (rows[i].err == err)
			return rows[i].code;
	return EVD_STATUS_INTERNAL;
}

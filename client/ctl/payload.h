#pragma once
/* Payloads: what the command line says that an event carries. One thread. */
#include <stdbool.h>
#include <stddef.h>

struct ctl;

enum payload_source {
	PAYLOAD_EMPTY = 0,
	PAYLOAD_TEXT,  /* a word of the command line */
	PAYLOAD_PAIRS, /* NAME=VALUE, NAME:=JSON */
	PAYLOAD_INPUT, /* a file or standard input */
};

enum payload_code {
	PAYLOAD_PLAIN = 0,
	PAYLOAD_HEX,
	PAYLOAD_BASE64,
};

struct payload {
	enum payload_source source;
	enum payload_code code;
	char delimiter;         /* of records */
	bool records;           /* an event for each record of the input */
	const char *text;       /* PAYLOAD_TEXT; borrowed */
	const char *path;       /* of the input, for errors; borrowed */
	int fd;                 /* PAYLOAD_INPUT, or -1 */
	char *data;             /* what was read and is not taken yet: ... */
	size_t start, end, max; /* ... data[start..end) */
	size_t searched;        /* bytes of it without a delimiter */
	bool ended;             /* nothing more comes from the input */
};

/* Find out from the words behind the first @n_words and from the options, and
 * open the input. 0, or the exit code of an error that has been told. Deinit
 * it in any case. */
int payload_open(struct payload *p, struct ctl *ctl, size_t n_words);
void payload_deinit(struct payload *p);

/* All of it, not of records: *@data is valid until the deinit. More than
 * @max_size bytes are an error. 0, or an exit code. */
int payload_read(struct payload *p, struct ctl *ctl, size_t max_size,
	char **data, size_t *size);

/* Of records: take the next one that has been read, valid until the next call.
 * Returns 1, or 0: payload_fill() first, or, after p->ended, none is left. Or
 * -1 with *@exit_code: it is not in its code, or over @max_size. */
int payload_take(struct payload *p, struct ctl *ctl, size_t max_size,
	char **data, size_t *size, int *exit_code);
/* Read more; blocks if the input does. 0, or an exit code. */
int payload_fill(struct payload *p, struct ctl *ctl);

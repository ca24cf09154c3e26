/* Payloads: see payload.h. One thread. */
#include "payload.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl.h"
#include "pairs.h"
#include "text.h"

enum {
	READ_SIZE = 65536, /* bytes asked for at once */
	/* hexadecimal needs two characters a byte, with white space more */
	CODE_FACTOR = 4,
};

/* ---- what it is ---- */

static bool
has_input(const struct ctl *ctl)
{
	return ctl_has(ctl, OPT_FILE) || ctl_has(ctl, OPT_LINES) ||
	       ctl_has(ctl, OPT_NULL);
}

static int
open_input(struct payload *p, struct ctl *ctl, const char *path)
{
	p->source = PAYLOAD_INPUT;
	p->path = strcmp(path, "-") == 0 ? "standard input" : path;
	if (p->path != path)
		p->fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
	else
		p->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (p->fd < 0)
		return ctl_fail(ctl, EVD_STATUS_NO_INPUT, "cannot open %s: %s",
			p->path, strerror(errno));
	return 0;
}

/* One word alone, or words that all are pairs. */
static int
open_words(
	struct payload *p, struct ctl *ctl, const char *const *words, size_t n)
{
	size_t n_pairs = 0;

	for (size_t i = 0; p->code == PAYLOAD_PLAIN && i < n; i++)
		n_pairs += pair_is(words[i]);
	if (n_pairs == n) {
		p->source = PAYLOAD_PAIRS;
		return pairs_to_json(ctl, words, n, &p->data, &p->end);
	}
	if (n > 1 && n_pairs == 0)
		return ctl_usage(ctl,
			"'%s' is one word too many: quote the payload, or "
			"give NAME=VALUE words alone",
			words[1]);
	if (n > 1)
		return ctl_usage(ctl,
			"NAME=VALUE words make an object and stand alone; "
			"for text that looks like one use --data");
	p->source = PAYLOAD_TEXT;
	p->text = words[0];
	return 0;
}

static int
open_source(
	struct payload *p, struct ctl *ctl, const char *const *words, size_t n)
{
	const char *data = ctl_value(ctl, OPT_DATA);
	const char *file = ctl_value(ctl, OPT_FILE);
	bool dash = n == 1 && strcmp(words[0], "-") == 0;
	int sources = (data != NULL) + (file != NULL) + (n > 0);

	if (sources > 1)
		return ctl_usage(ctl, "one payload alone: DATA, --data or "
				      "--file");
	if (file || dash)
		return open_input(p, ctl, dash ? "-" : file);
	if (has_input(ctl) && sources == 0)
		return open_input(p, ctl, "-");
	if (p->records)
		return ctl_usage(ctl, "--lines and --null read - or --file");
	if (n > 0)
		return open_words(p, ctl, words, n);
	p->source = data ? PAYLOAD_TEXT : PAYLOAD_EMPTY;
	p->text = data;
	return 0;
}

int
payload_open(struct payload *p, struct ctl *ctl, size_t n_words)
{
	bool hex = ctl_has(ctl, OPT_HEX), lines = ctl_has(ctl, OPT_LINES);

	memset(p, 0, sizeof(*p));
	p->fd = -1;
	p->records = lines || ctl_has(ctl, OPT_NULL);
	p->delimiter = lines ? '\n' : '\0';
	if (lines && ctl_has(ctl, OPT_NULL))
		return ctl_usage(ctl, "--lines and --null exclude each other");
	if (hex && ctl_has(ctl, OPT_BASE64))
		return ctl_usage(ctl, "--hex and --base64 exclude each other");
	if (hex)
		p->code = PAYLOAD_HEX;
	else if (ctl_has(ctl, OPT_BASE64))
		p->code = PAYLOAD_BASE64;
	return open_source(p, ctl, ctl->args->words + n_words,
		ctl->args->n_words - n_words);
}

void
payload_deinit(struct payload *p)
{
	if (p->fd >= 0)
		close(p->fd);
	free(p->data);
	p->data = NULL;
	p->fd = -1;
}

/* ---- reading ---- */

/* Room for @size bytes behind data[end); what is left moves to the front. */
static int
reserve(struct payload *p, size_t size)
{
	size_t used = p->end - p->start, max = p->max ? p->max : READ_SIZE;
	char *data;

	if (p->max - p->end >= size)
		return 0;
	if (used > 0 && p->start > 0)
		memmove(p->data, p->data + p->start, used);
	p->start = 0;
	p->end = used;
	while (max - used < size)
		max *= 2;
	if (max == p->max)
		return 0;
	data = realloc(p->data, max);
	if (!data)
		return -1;
	p->data = data;
	p->max = max;
	return 0;
}

int
payload_fill(struct payload *p, struct ctl *ctl)
{
	ssize_t n;

	if (reserve(p, READ_SIZE) < 0)
		return ctl_fail(ctl, EVD_STATUS_NO_MEMORY, "out of memory");
	do
		n = read(p->fd, p->data + p->end, READ_SIZE);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return ctl_fail(ctl, EVD_STATUS_NO_INPUT, "cannot read %s: %s",
			p->path, strerror(errno));
	p->end += (size_t)n;
	p->ended = n == 0;
	return 0;
}

static size_t
raw_limit(const struct payload *p, size_t max_size)
{
	if (p->code == PAYLOAD_PLAIN)
		return max_size;
	if (max_size > SIZE_MAX / CODE_FACTOR - 64)
		return SIZE_MAX;
	return max_size * CODE_FACTOR + 64;
}

static int
fail_size(struct ctl *ctl, size_t max_size)
{
	return ctl_fail(ctl, EVD_STATUS_TOO_LARGE,
		"the payload is over %zu bytes, this daemon's limit", max_size);
}

/* From its code to bytes, in place. */
static int
decode(struct payload *p, struct ctl *ctl, size_t max_size, char *data,
	size_t *size)
{
	ptrdiff_t n = (ptrdiff_t)*size;

	if (p->code == PAYLOAD_HEX)
		n = hex_decode(data, *size);
	else if (p->code == PAYLOAD_BASE64)
		n = base64_decode(data, *size);
	if (n < 0)
		return ctl_fail(ctl, EVD_STATUS_BAD_DATA,
			"the payload is not %s",
			p->code == PAYLOAD_HEX ? "hexadecimal" : "base64");
	*size = (size_t)n;
	return *size > max_size ? fail_size(ctl, max_size) : 0;
}

static int
read_input(struct payload *p, struct ctl *ctl, size_t max_size)
{
	int r;

	while (!p->ended) {
		r = payload_fill(p, ctl);
		if (r)
			return r;
		if (p->end - p->start > raw_limit(p, max_size))
			return fail_size(ctl, max_size);
	}
	return 0;
}

static int
read_text(struct payload *p, struct ctl *ctl)
{
	p->data = strdup(p->text);
	if (!p->data)
		return ctl_fail(ctl, EVD_STATUS_NO_MEMORY, "out of memory");
	p->end = strlen(p->text);
	return 0;
}

int
payload_read(struct payload *p, struct ctl *ctl, size_t max_size, char **data,
	size_t *size)
{
	int r = 0;

	switch (p->source) {
	case PAYLOAD_TEXT:
		r = read_text(p, ctl);
		break;
	case PAYLOAD_INPUT:
		r = read_input(p, ctl, max_size);
		break;
	case PAYLOAD_EMPTY:
	case PAYLOAD_PAIRS:
		break;
	}
	if (r)
		return r;
	*data = p->data ? p->data + p->start : NULL;
	*size = p->end - p->start;
	return decode(p, ctl, max_size, *data, size);
}

/* ---- records ---- */

static char *
find_delimiter(struct payload *p)
{
	size_t used = p->end - p->start;
	char *from, *at;

	if (used == p->searched)
		return NULL;
	from = p->data + p->start + p->searched;
	at = memchr(from, p->delimiter, used - p->searched);
	p->searched = at ? 0 : used;
	return at;
}

int
payload_take(struct payload *p, struct ctl *ctl, size_t max_size, char **data,
	size_t *size, int *exit_code)
{
	char *at = find_delimiter(p);
	size_t used = p->end - p->start;

	if (!at && used > raw_limit(p, max_size)) {
		*exit_code = fail_size(ctl, max_size);
		return -1;
	}
	if (!at && (!p->ended || used == 0))
		return 0;
	*data = p->data + p->start;
	*size = at ? (size_t)(at - *data) : used;
	p->start += *size + (at != NULL);
	p->searched = 0;
	*exit_code = decode(p, ctl, max_size, *data, size);
	return *exit_code ? -1 : 1;
}

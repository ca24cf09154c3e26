#pragma once
/* Log lines: the text of one line, and the fields in it. Pure functions, any
 * thread. */
#include <stddef.h>

enum { LOGLINE_ID_SIZE = 33 }; /* 32 hexadecimal digits and a NUL */

struct logline_field {
	const char *key, *value; /* borrowed, not NUL-terminated */
	size_t key_size, value_size;
};

/* Replace in place what could break a line or deceive a terminal: control
 * characters, what is not UTF-8, marks that turn the direction of text. */
void logline_clean(char *line);

/**
 * logline_split() - find the fields of a formatted line
 * @format: what it was formatted by: `key=%d other=\"%s\"`
 * @line:   the result
 * @fields: room for @max of them
 *
 * The keys are taken from the format alone, so that no value can add one. A
 * value's outer quotes are left off: value[-1] is one then, `=` otherwise.
 *
 * Return: how many fields.
 */
size_t logline_split(const char *format, const char *line,
	struct logline_field *fields, size_t max);

/* The MESSAGE_ID of an event name, the same for ever: catalogs refer to it. */
void logline_message_id(const char *event, char id[LOGLINE_ID_SIZE]);

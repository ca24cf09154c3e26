#pragma once
/* Text: UTF-8, escapes that make bytes safe to show, hexadecimal and base64.
 * Pure functions, any thread. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum {
	/* leave line feeds and tabs as they are */
	ESCAPE_KEEP_LINES = 1 << 0,
};

/* Bytes of the character at @p, 1..4, and its code point; 0: not UTF-8. */
size_t utf8_decode(const void *p, size_t size, uint32_t *code);
bool utf8_is_valid(const void *data, size_t size);
/* Only printable characters, tabs, line feeds and carriage returns? */
bool utf8_is_text(const void *data, size_t size);
/* Columns that @text takes on a terminal, a character each. */
size_t utf8_width(const char *text);

/* Write @size bytes so that no terminal obeys them and that backslashes, line
 * feeds and bytes that are not text can be told apart: \\ \n \t \r \xHH. */
void escape_write(FILE *f, const void *data, size_t size, int flags);
void escape_text(FILE *f, const char *text);

/* "45 B", "1.5 KiB" */
void size_format(uint64_t size, char *text, size_t max);

/* The encoded text, to be freed; NULL if out of memory. */
char *base64_encode(const void *data, size_t size);
/* Decode in place; white space is skipped. Returns the decoded size, or -1:
 * not hexadecimal, not base64 (padding may be left out). */
ptrdiff_t base64_decode(char *text, size_t size);
ptrdiff_t hex_decode(char *text, size_t size);

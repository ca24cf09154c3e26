#pragma once
/* Values of the configuration: counts, sizes, time spans, modes, and the
 * nearest known word to a wrong one. Pure functions, any thread. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	VALUE_E_FORM = 1,  /* not such a value at all */
	VALUE_E_RANGE = 2, /* too large for 64 bits */
};

/* "12": decimal digits alone. */
int value_count(const char *text, uint64_t *out);
/* Bytes: "512", "64K", "1M", "2G"; powers of 1024. */
int value_size(const char *text, uint64_t *out);
/* Milliseconds of a time span as systemd.time(7) has it: "5s", "2min",
 * "1min 30s", "500ms", "1.5h"; a plain number is seconds. Less than a
 * millisecond counts as one. */
int value_span(const char *text, uint64_t *out);
/* File permissions, three or four octal digits. */
int value_mode(const char *text, uint64_t *out);

/* The one of @words (NULL at the end) that @text was probably meant to be, or
 * NULL if none is near. */
const char *value_nearest(const char *text, const char *const *words);

/* The length of the UTF-8 text at the head of @data that holds no control
 * bytes but tabs: @size if all of it is such. */
size_t value_clean_size(const char *data, size_t size);

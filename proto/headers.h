#pragma once
/* Headers of an event as they travel: encoded fields of Envelope, end to end.
 * Pure functions over bytes, any thread. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct header {
	const char *name; /* not NUL-terminated */
	const void *value;
	size_t name_size, size;
};

/* Bytes that headers_put() writes at most. */
size_t headers_room(const struct header *h);
/* Append @h, whose name is valid, at @p; returns the end. */
uint8_t *headers_put(uint8_t *p, const struct header *h);
/* The header at *@p < @end, which moves on; false at the end. They were
 * checked when the envelope was decoded. */
bool headers_next(const uint8_t **p, const uint8_t *end, struct header *h);
/* The first one of that name; false: there is none. */
bool headers_find(const uint8_t *p, size_t size, const char *name,
	size_t name_size, struct header *h);

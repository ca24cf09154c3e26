#pragma once
/* Patterns of names: a name in which one `*` may stand for any characters of a
 * name, however many, dots and slashes among them, or for none. Without one it
 * is that name alone. Pure functions, any thread. */
#include <stdbool.h>
#include <stddef.h>

/* Up to @max bytes, the star counted. */
bool pattern_is_valid(const char *pattern, size_t size, size_t max);
/* Both are valid. Takes time in proportion to their sizes. */
bool pattern_matches(
	const char *pattern, size_t size, const char *name, size_t name_size);

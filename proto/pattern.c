#include "pattern.h"

#include <string.h>

#include "envelope.h"

bool
pattern_is_valid(const char *pattern, size_t size, size_t max)
{
	const char *star;
	size_t head, tail;

	if (!size || size > max)
		return false;
	star = memchr(pattern, '*', size);
	if (!star)
		return name_is_valid(pattern, size, max);
	head = (size_t)(star - pattern);
	tail = size - head - 1;
	return (!head || name_is_valid(pattern, head, max)) &&
	       (!tail || name_is_valid(star + 1, tail, max));
}

bool
pattern_matches(
	const char *pattern, size_t size, const char *name, size_t name_size)
{
	const char *star = memchr(pattern, '*', size);
	size_t head, tail;

	if (!star)
		return name_size == size && !memcmp(name, pattern, size);
	head = (size_t)(star - pattern);
	tail = size - head - 1;
	return name_size >= head + tail && !memcmp(name, pattern, head) &&
	       !memcmp(name + name_size - tail, star + 1, tail);
}

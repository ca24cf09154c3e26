#include "headers.h"

#include <string.h>

#include "parts.h"
#include "wire.h"

enum { FIELD_HEADERS = 15, FIELD_NAME = 1, FIELD_VALUE = 2 };

static size_t
body_size(const struct header *h)
{
	return 1 + varint_size(h->name_size) + h->name_size +
	       (h->size ? 1 + varint_size(h->size) + h->size : 0);
}

size_t
headers_room(const struct header *h)
{
	return PART_HEAD_MAX + body_size(h);
}

uint8_t *
headers_put(uint8_t *p, const struct header *h)
{
	p += part_put_head(p, FIELD_HEADERS, body_size(h));
	p += part_put_head(p, FIELD_NAME, h->name_size);
	memcpy(p, h->name, h->name_size);
	p += h->name_size;
	if (!h->size)
		return p;
	p += part_put_head(p, FIELD_VALUE, h->size);
	memcpy(p, h->value, h->size);
	return p + h->size;
}

bool
headers_next(const uint8_t **p, const uint8_t *end, struct header *h)
{
	struct wire_field f, part;
	const uint8_t *q;

	if (*p >= end || !wire_next(p, end, &f))
		return false;
	*h = (struct header){.name = "", .value = ""};
	for (q = f.data; q < f.data + f.size;) {
		if (!wire_next(&q, f.data + f.size, &part))
			return false;
		if (part.field == FIELD_NAME) {
			h->name = (const char *)part.data;
			h->name_size = part.size;
		} else if (part.field == FIELD_VALUE) {
			h->value = part.data;
			h->size = part.size;
		}
	}
	return true;
}

bool
headers_find(const uint8_t *p, size_t size, const char *name, size_t name_size,
	struct header *h)
{
	const uint8_t *end = p + size;

	while (size && headers_next(&p, end, h))
		if (h->name_size == name_size &&
			memcmp(h->name, name, name_size) == 0)
			return true;
	return false;
}

#pragma once
/* Wire: the four protobuf wire types, for the hand codecs of this folder.
 * Pure functions over bytes, any thread. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frame.h"

enum wire_type {
	WIRE_VARINT = 0,
	WIRE_FIXED64 = 1,
	WIRE_BYTES = 2,
	WIRE_FIXED32 = 5,
};

enum { WIRE_TAG_MAX = 5 }; /* bytes of a tag: protobuf-c takes no more */

/* One field: @number for varints, @data and @size for bytes. */
struct wire_field {
	uint32_t field;
	enum wire_type type;
	uint64_t number;
	const uint8_t *data;
	size_t size;
};

/* A varint, with the short cases inline. */
static inline size_t
wire_varint(const uint8_t *p, const uint8_t *end, uint64_t *value)
{
	if (p < end && *p < 0x80) {
		*value = *p;
		return 1;
	}
	if (end - p > 1 && p[1] < 0x80) {
		*value = (uint64_t)(p[0] & 0x7f) | (uint64_t)p[1] << 7;
		return 2;
	}
	return varint_get(p, end, value);
}

/* Skip or read the value that follows a tag; moves *@pp. */
static inline bool
wire_value(const uint8_t **pp, const uint8_t *end, struct wire_field *f)
{
	const uint8_t *p = *pp;
	size_t n = 0, size = 0;

	switch (f->type) {
	case WIRE_VARINT:
		n = wire_varint(p, end, &f->number);
		if (!n)
			return false;
		break;
	case WIRE_BYTES:
		n = wire_varint(p, end, &f->number);
		if (!n || f->number > (size_t)(end - p) - n)
			return false;
		size = (size_t)f->number;
		break;
	case WIRE_FIXED64:
	case WIRE_FIXED32:
		size = f->type == WIRE_FIXED64 ? 8 : 4;
		if ((size_t)(end - p) < size)
			return false;
		break;
	default: /* groups and what does not exist: from a peer, not ours */
		return false;
	}
	f->data = p + n;
	f->size = size;
	*pp = p + n + size;
	return true;
}

/* The next field at *@p < @end, which moves on; false if malformed. */
static inline bool
wire_next(const uint8_t **p, const uint8_t *end, struct wire_field *f)
{
	uint64_t tag;
	size_t n = wire_varint(*p, end, &tag);

	if (!n || n > WIRE_TAG_MAX || tag > UINT32_MAX || tag < 8)
		return false;
	*p += n;
	f->field = (uint32_t)tag >> 3;
	f->type = (enum wire_type)(tag & 7);
	return wire_value(p, end, f);
}

#pragma once
/* Fields of an envelope: their numbers, and putting one. Inside proto/: for
 * envelope.c and plain.c. Pure functions over bytes, any thread. */
#include <stdint.h>
#include <string.h>

#include "frame.h"
#include "wire.h"

enum field {
	F_TO = 1,
	F_ALIAS = 2,
	F_EVENT = 3,
	F_PAYLOAD = 4,
	F_SEQ = 5,
	F_CALL = 6,
	F_RE = 7,
	F_STATUS = 8,
	F_ID = 9,
	F_FROM = 10,
	F_TIMEOUT_MS = 11,
	F_LEVEL = 12,
	F_FLAGS = 13,
	F_ATTEMPT = 14,
	F_HEADERS = 15,
	F_LATE_NS = 16,
	F_PRIORITY = 17,
	F_TTL_MS = 18,
	F_KEY = 19,
	F_DEADLINE_MS = 20,
	F_FORWARD = 21,
	F_DUE_NS = 23,
	F_LAST = F_DUE_NS,
	F_MEMFD_SIZE = 120,
};

enum { FRAME_ENVELOPES_TAG = 1 << 3 | WIRE_BYTES };

#define TAG(field, type) ((field) << 3 | (type))

static inline uint8_t *
put_number(uint8_t *p, enum field field, uint64_t value)
{
	if (!value)
		return p;
	*p++ = (uint8_t)(field << 3 | WIRE_VARINT);
	if (value < 0x80) {
		*p++ = (uint8_t)value;
		return p;
	}
	return p + varint_put(p, value);
}

static inline uint8_t *
put_bytes(uint8_t *p, enum field field, const void *data, size_t size)
{
	if (!size)
		return p;
	*p++ = (uint8_t)(field << 3 | WIRE_BYTES);
	if (size < 0x80)
		*p++ = (uint8_t)size;
	else
		p += varint_put(p, size);
	memcpy(p, data, size);
	return p + size;
}

/* A field whose tag takes two bytes. */
static inline uint8_t *
put_far_number(uint8_t *p, enum field field, uint64_t value)
{
	if (!value)
		return p;
	p += varint_put(p, TAG(field, WIRE_VARINT));
	return p + varint_put(p, value);
}

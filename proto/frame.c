/* Framing: see frame.h. Pure functions over bytes, any thread. */
#include "frame.h"

enum {
	VARINT_MAX = 10,      /* bytes of a 64-bit varint */
	FRAME_LENGTH_MAX = 5, /* bytes of a length: 35 bits are plenty */
};

size_t
varint_put(uint8_t *out, uint64_t value)
{
	size_t n = 0;

	while (value >= 0x80) {
		out[n++] = (uint8_t)(value | 0x80);
		value >>= 7;
	}
	out[n++] = (uint8_t)value;
	return n;
}

size_t
varint_size(uint64_t value)
{
	/* 7 bits a byte: ceil(bits / 7), at least 1, without a division */
	unsigned bits = 64U - (unsigned)__builtin_clzll(value | 1);

	return (bits * 9 + 64) / 64;
}

size_t
varint_get(const uint8_t *p, const uint8_t *end, uint64_t *value)
{
	uint64_t v = 0;
	size_t left = (size_t)(end - p);

	for (size_t i = 0; i < left && i < VARINT_MAX; i++) {
		v |= (uint64_t)(p[i] & 0x7f) << (7 * i);
		if (p[i] < 0x80) {
			*value = v;
			return i + 1;
		}
	}
	return 0;
}

int
frame_take(const uint8_t *data, size_t size, size_t max_size, size_t *head_size,
	size_t *body_size)
{
	const uint8_t *end =
		data + (size < FRAME_LENGTH_MAX ? size : FRAME_LENGTH_MAX);
	uint64_t length;
	size_t head;

	*head_size = *body_size = 0;
	head = varint_get(data, end, &length);
	if (!head)
		return size < FRAME_LENGTH_MAX ? FRAME_E_SHORT
					       : FRAME_E_MALFORMED;
	if (length > max_size)
		return FRAME_E_TOO_LARGE;
	*head_size = head;
	*body_size = (size_t)length;
	return size - head < length ? FRAME_E_SHORT : 0;
}

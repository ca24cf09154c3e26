/* Framing: see frame.h. Pure functions over bytes, any thread. */
#include "frame.h"

#include <endian.h>
#include <string.h>

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

/* Put seven bits of each byte together, the first byte lowest. */
static uint64_t
fold_sevens(uint64_t w)
{
	w = (w & UINT64_C(0x007f007f007f007f)) |
	    (w & UINT64_C(0x7f007f007f007f00)) >> 1;
	w = (w & UINT64_C(0x00003fff00003fff)) |
	    (w & UINT64_C(0x3fff00003fff0000)) >> 2;
	return (w & UINT64_C(0x000000000fffffff)) |
	       (w & UINT64_C(0x0fffffff00000000)) >> 4;
}

/* Byte by byte: near the end of the data, and for nine or ten bytes. */
static size_t
varint_get_slowly(const uint8_t *p, size_t left, uint64_t *value)
{
	uint64_t v = 0;

	for (size_t i = 0; i < left && i < VARINT_MAX; i++) {
		v |= (uint64_t)(p[i] & 0x7f) << (7 * i);
		if (p[i] < 0x80) {
			*value = v;
			return i + 1;
		}
	}
	return 0;
}

size_t
varint_get(const uint8_t *p, const uint8_t *end, uint64_t *value)
{
	size_t left = (size_t)(end - p), n;
	uint64_t w, stops;

	if (left < sizeof(w))
		return varint_get_slowly(p, left, value);
	memcpy(&w, p, sizeof(w));
	w = le64toh(w);
	stops = ~w & UINT64_C(0x8080808080808080);
	if (!stops)
		return varint_get_slowly(p, left, value);
	n = (size_t)__builtin_ctzll(stops) / 8 + 1;
	w &= stops ^ (stops - 1); /* the bytes up to the one that stops */
	*value = fold_sevens(w);
	return n;
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

#pragma once
/* Framing: a varint length, then that many bytes of one Frame message.
 * Pure functions over bytes, any thread. */
#include <stddef.h>
#include <stdint.h>

enum {
	FRAME_HEAD_MAX = 10, /* bytes of a length varint at most */
	FRAME_DEPTH_MAX = 8, /* nested messages that a frame may hold */
};

enum {
	FRAME_E_SHORT = 1, /* not all of it is there yet */
	FRAME_E_MALFORMED =
		2, /* the length is not a varint of at most 5 bytes */
	FRAME_E_TOO_LARGE = 3, /* the length is over the limit */
};

/* Encode @value at @out (10 bytes of room); returns the bytes used. */
size_t varint_put(uint8_t *out, uint64_t value);
size_t varint_size(uint64_t value);
/* Decode from [p, end): the bytes used, or 0 if cut short or over-long. */
size_t varint_get(const uint8_t *p, const uint8_t *end, uint64_t *value);

/**
 * frame_take() - find the next frame at the head of a read buffer
 * @data, @size: bytes read so far
 * @max_size:    longest body allowed, bytes
 * @head_size:   set on success and on FRAME_E_SHORT when known: length prefix
 * @body_size:   the same: bytes of the body that follow it
 *
 * Return: 0, FRAME_E_SHORT (head and body sizes are 0 if not yet known),
 * FRAME_E_MALFORMED or FRAME_E_TOO_LARGE.
 */
int frame_take(const uint8_t *data, size_t size, size_t max_size,
	size_t *head_size, size_t *body_size);

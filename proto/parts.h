#pragma once
/* Parts of a frame: a walk over the fields of one Frame body, and the small
 * hot messages Ack, Settle and Failure coded by hand. The same bytes as
 * protobuf-c's. Pure functions over bytes, any thread. */
#include <stddef.h>
#include <stdint.h>

/* Field numbers of Frame. */
enum frame_field {
	FRAME_ENVELOPE = 1,
	FRAME_ACK = 2,
	FRAME_SETTLE = 3,
	FRAME_FAILURE = 4,
	FRAME_HELLO = 5,
	FRAME_WELCOME = 6,
	FRAME_REQUEST = 7,
	FRAME_RESPONSE = 8,
	FRAME_ERROR = 9,
	FRAME_NOTICE = 10,
};

enum {
	PART_E_END = 1,       /* no field is left */
	PART_E_MALFORMED = 2, /* not protobuf, or a wrong wire type */
	PART_HEAD_MAX = 12,   /* tag and length of a part */
	SETTLE_FRAME_MAX = 32,
};

/* One field of a body: a length-delimited message, borrowed. */
struct part {
	uint32_t field; /* FRAME_..., or an unknown number: skip it */
	const uint8_t *data;
	size_t size;
};

struct ack {
	uint64_t upto;
	/* packed `also`, in pieces as they come: walk with ack_also() */
	const uint8_t *data, *end;     /* the Ack's bytes left to walk */
	const uint8_t *packed, *p_end; /* the packed piece being walked */
};

struct settle {
	uint64_t binding, upto;
};

struct failure {
	uint64_t seq;
	uint32_t status;
	size_t text_size;
	const char *text; /* not NUL-terminated, any bytes */
};

/* The next field at *@p, which moves on. Fields of unknown numbers that are
 * not length-delimited are passed over.
 * Return: 0, PART_E_END or PART_E_MALFORMED. */
int part_next_any(const uint8_t **p, const uint8_t *end, struct part *part);
static inline int
part_next(const uint8_t **p, const uint8_t *end, struct part *part)
{
	const uint8_t *at = *p;

	/* mostly it is a short envelope */
	if (end - at < 2 || at[0] != (FRAME_ENVELOPE << 3 | 2) ||
		at[1] >= 0x80 || at[1] > end - at - 2)
		return part_next_any(p, end, part);
	part->field = FRAME_ENVELOPE;
	part->data = at + 2;
	part->size = at[1];
	*p = at + 2 + at[1];
	return 0;
}
/* Put tag and length of a part at @out (PART_HEAD_MAX bytes). */
size_t part_put_head(uint8_t *out, unsigned field, size_t size);

/* All return 0 or PART_E_MALFORMED. */
int ack_decode(struct ack *ack, const uint8_t *data, size_t size);
int settle_decode(struct settle *s, const uint8_t *data, size_t size);
int failure_decode(struct failure *f, const uint8_t *data, size_t size);
/* The next number of `also`: 0, PART_E_END or PART_E_MALFORMED. */
int ack_also(struct ack *ack, uint64_t *seq);

/* A whole frame with one Settle; @out has SETTLE_FRAME_MAX bytes. */
size_t settle_encode_frame(const struct settle *s, uint8_t *out);
/* Bytes of a whole frame with one Ack at most. */
size_t ack_frame_bound(size_t n_also);
/* A whole frame with one Ack. */
size_t ack_encode_frame(
	uint64_t upto, const uint64_t *also, size_t n_also, uint8_t *out);

/* Parts of a frame: see parts.h. Pure functions over bytes, any thread. */
#include "parts.h"

#include <string.h>

#include "wire.h"

int
part_next_any(const uint8_t **p, const uint8_t *end, struct part *part)
{
	struct wire_field f;

	while (*p < end) {
		if (!wire_next(p, end, &f))
			return PART_E_MALFORMED;
		if (f.type != WIRE_BYTES) {
			if (f.field <= FRAME_NOTICE)
				return PART_E_MALFORMED;
			continue;
		}
		part->field = f.field;
		part->data = f.data;
		part->size = f.size;
		return 0;
	}
	return PART_E_END;
}

size_t
part_put_head(uint8_t *out, unsigned field, size_t size)
{
	out[0] = (uint8_t)(field << 3 | WIRE_BYTES);
	return 1 + varint_put(out + 1, size);
}

/* Are all bytes of @p varints? */
static int
check_packed(const uint8_t *p, size_t size)
{
	const uint8_t *end = p + size;
	uint64_t value;

	while (p < end) {
		size_t n = wire_varint(p, end, &value);

		if (!n)
			return PART_E_MALFORMED;
		p += n;
	}
	return 0;
}

int
ack_decode(struct ack *ack, const uint8_t *data, size_t size)
{
	const uint8_t *p = data, *end = data + size;
	struct wire_field f;

	memset(ack, 0, sizeof(*ack));
	while (p < end) {
		if (!wire_next(&p, end, &f))
			return PART_E_MALFORMED;
		if (f.field == 1 && f.type == WIRE_VARINT)
			ack->upto = f.number;
		else if (f.field == 2 && f.type == WIRE_BYTES) {
			if (check_packed(f.data, f.size))
				return PART_E_MALFORMED;
		} else if (f.field <= 2 && f.type != WIRE_VARINT)
			return PART_E_MALFORMED;
	}
	ack->data = data;
	ack->end = end;
	return 0;
}

int
ack_also(struct ack *ack, uint64_t *seq)
{
	struct wire_field f;

	for (;;) {
		if (ack->packed < ack->p_end) {
			ack->packed +=
				wire_varint(ack->packed, ack->p_end, seq);
			return 0;
		}
		if (ack->data >= ack->end)
			return PART_E_END;
		if (!wire_next(&ack->data, ack->end, &f))
			return PART_E_MALFORMED;
		if (f.field != 2)
			continue;
		if (f.type == WIRE_VARINT) {
			*seq = f.number;
			return 0;
		}
		ack->packed = f.data;
		ack->p_end = f.data + f.size;
	}
}

int
settle_decode(struct settle *s, const uint8_t *data, size_t size)
{
	const uint8_t *p = data, *end = data + size;
	struct wire_field f;

	s->binding = s->upto = 0;
	while (p < end) {
		if (!wire_next(&p, end, &f))
			return PART_E_MALFORMED;
		if (f.field > 2)
			continue;
		if (f.type != WIRE_VARINT)
			return PART_E_MALFORMED;
		if (f.field == 1)
			s->binding = f.number;
		else
			s->upto = f.number;
	}
	return 0;
}

int
failure_decode(struct failure *fail, const uint8_t *data, size_t size)
{
	const uint8_t *p = data, *end = data + size;
	struct wire_field f;

	memset(fail, 0, sizeof(*fail));
	while (p < end) {
		if (!wire_next(&p, end, &f))
			return PART_E_MALFORMED;
		if (f.field > 3)
			continue;
		if (f.type != (f.field == 3 ? WIRE_BYTES : WIRE_VARINT))
			return PART_E_MALFORMED;
		if (f.field == 1) {
			fail->seq = f.number;
		} else if (f.field == 2) {
			fail->status = (uint32_t)f.number;
		} else {
			fail->text = (const char *)f.data;
			fail->text_size = f.size;
		}
	}
	return 0;
}

static uint8_t *
put_number(uint8_t *p, unsigned field, uint64_t value)
{
	if (!value)
		return p;
	*p++ = (uint8_t)(field << 3 | WIRE_VARINT);
	return p + varint_put(p, value);
}

size_t
settle_encode_frame(const struct settle *s, uint8_t *out)
{
	/* two numbers take at most 22 bytes: each length is one byte */
	uint8_t *p = out + 3;

	p = put_number(p, 1, s->binding);
	p = put_number(p, 2, s->upto);
	out[0] = (uint8_t)(p - out - 1);
	out[1] = FRAME_SETTLE << 3 | WIRE_BYTES;
	out[2] = (uint8_t)(p - out - 3);
	return (size_t)(p - out);
}

size_t
ack_frame_bound(size_t n_also)
{
	return 64 + n_also * FRAME_HEAD_MAX;
}

size_t
ack_encode_frame(
	uint64_t upto, const uint64_t *also, size_t n_also, uint8_t *out)
{
	size_t packed = 0, size;
	uint8_t *p = out;

	for (size_t i = 0; i < n_also; i++)
		packed += varint_size(also[i]);
	size = upto ? 1 + varint_size(upto) : 0;
	size += n_also ? 1 + varint_size(packed) + packed : 0;
	p += varint_put(p, 1 + varint_size(size) + size);
	p += part_put_head(p, FRAME_ACK, size);
	p = put_number(p, 1, upto);
	if (!n_also)
		return (size_t)(p - out);
	p += part_put_head(p, 2, packed);
	for (size_t i = 0; i < n_also; i++)
		p += varint_put(p, also[i]);
	return (size_t)(p - out);
}

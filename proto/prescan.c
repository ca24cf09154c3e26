/* Prescan: one walk over the bytes, along the schema. Any thread. */
#include "proto/prescan.h"

#include <stdbool.h>
#include <string.h>

#include "proto/wire.h"

struct scan {
	unsigned depth_left; /* levels below this one */
	size_t fields_left;
	unsigned merges_left;
};

static int scan_message(struct scan *s, const ProtobufCMessageDescriptor *type,
	const uint8_t *p, const uint8_t *end);

static bool
is_packable(ProtobufCType type)
{
	return type != PROTOBUF_C_TYPE_STRING &&
	       type != PROTOBUF_C_TYPE_BYTES && type != PROTOBUF_C_TYPE_MESSAGE;
}

static size_t
count_varints(const uint8_t *p, size_t size)
{
	size_t n = 0;

	for (size_t i = 0; i < size; i++)
		n += p[i] < 0x80;
	return n;
}

/* Elements that a length-delimited value of a packable type stands for. */
static size_t
count_packed(ProtobufCType type, const struct wire_field *f)
{
	switch (type) {
	case PROTOBUF_C_TYPE_SFIXED32:
	case PROTOBUF_C_TYPE_FIXED32:
	case PROTOBUF_C_TYPE_FLOAT:
		return f->size / 4;
	case PROTOBUF_C_TYPE_SFIXED64:
	case PROTOBUF_C_TYPE_FIXED64:
	case PROTOBUF_C_TYPE_DOUBLE:
		return f->size / 8;
	default:
		return count_varints(f->data, f->size);
	}
}

static int
scan_packed(struct scan *s, ProtobufCType type, const struct wire_field *f)
{
	size_t n = count_packed(type, f);

	if (n > s->fields_left)
		return PRESCAN_E_FIELDS;
	s->fields_left -= n;
	return 0;
}

static int
scan_submessage(struct scan *s, const ProtobufCFieldDescriptor *field,
	const struct wire_field *f)
{
	int r;

	if (s->depth_left == 0)
		return PRESCAN_E_DEPTH;
	s->depth_left--;
	r = scan_message(s, field->descriptor, f->data, f->data + f->size);
	s->depth_left++;
	return r;
}

static int
scan_bytes(struct scan *s, const ProtobufCFieldDescriptor *field,
	const struct wire_field *f)
{
	if (field->type == PROTOBUF_C_TYPE_MESSAGE)
		return scan_submessage(s, field, f);
	/* it would end there for who has it as a string */
	if (field->type == PROTOBUF_C_TYPE_STRING && f->size &&
		memchr(f->data, 0, f->size))
		return PRESCAN_E_MALFORMED;
	if (field->label == PROTOBUF_C_LABEL_REPEATED &&
		is_packable(field->type))
		return scan_packed(s, field->type, f);
	return 0;
}

/* A single message may be given again, and is merged then: now and then. Up
 * to 64 fields are told apart, more would be taken for one another, which
 * refuses some that is legal and lets nothing through. */
static int
note_single(struct scan *s, const ProtobufCMessageDescriptor *type,
	const ProtobufCFieldDescriptor *field, uint64_t *seen)
{
	uint64_t bit = UINT64_C(1) << (field - type->fields) % 64;

	if (field->type != PROTOBUF_C_TYPE_MESSAGE ||
		field->label == PROTOBUF_C_LABEL_REPEATED)
		return 0;
	if (*seen & bit && s->merges_left-- == 0)
		return PRESCAN_E_MERGES;
	*seen |= bit;
	return 0;
}

static int
scan_message(struct scan *s, const ProtobufCMessageDescriptor *type,
	const uint8_t *p, const uint8_t *end)
{
	uint64_t seen = 0;

	while (p < end) {
		const ProtobufCFieldDescriptor *field;
		struct wire_field f;
		int r = 0;

		if (!wire_next(&p, end, &f))
			return PRESCAN_E_MALFORMED;
		if (s->fields_left-- == 0)
			return PRESCAN_E_FIELDS;
		field = protobuf_c_message_descriptor_get_field(type, f.field);
		if (!field || f.type != WIRE_BYTES)
			continue;
		r = note_single(s, type, field, &seen);
		if (!r)
			r = scan_bytes(s, field, &f);
		if (r)
			return r;
	}
	return 0;
}

int
proto_prescan(const ProtobufCMessageDescriptor *type, const uint8_t *data,
	size_t size, unsigned max_depth, size_t max_fields)
{
	struct scan s = {
		.fields_left = max_fields,
		.merges_left = PRESCAN_MERGES_MAX,
	};

	if (max_depth == 0)
		return PRESCAN_E_DEPTH;
	if (max_depth > PRESCAN_DEPTH_MAX)
		max_depth = PRESCAN_DEPTH_MAX;
	s.depth_left = max_depth - 1;
	return scan_message(&s, type, data, data + size);
}

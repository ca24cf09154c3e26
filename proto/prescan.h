#pragma once
/* Prescan: look through a protobuf message before protobuf-c unpacks it.
 *
 * protobuf-c recurses as deep as the bytes say, allocates tens of bytes for
 * each field of two, and merges a message that occurs again into a new one
 * each time. This walk follows the schema as the unpacker will and refuses
 * what would make it do more than the limits allow; so what passes costs at
 * most about PRESCAN_FIELD_COST bytes a field beside the bytes themselves.
 * Pure functions, any thread. */
#include <protobuf-c/protobuf-c.h>
#include <stddef.h>
#include <stdint.h>

enum {
	PRESCAN_E_MALFORMED = 1, /* not protobuf, or a group */
	PRESCAN_E_DEPTH = 2,     /* messages nested too deep */
	PRESCAN_E_FIELDS = 3,    /* too many fields and elements in all */
	PRESCAN_E_MERGES = 4,    /* single messages given again and again */
};

enum {
	PRESCAN_DEPTH_MAX = 32,  /* whatever the caller allows */
	PRESCAN_MERGES_MAX = 16, /* in the whole message */
	PRESCAN_FIELD_COST = 512,
};

/**
 * proto_prescan() - may protobuf-c unpack this?
 * @type:       what it will be unpacked as
 * @data:       the message, @size bytes
 * @max_depth:  levels of nesting: 1 for a message that holds no other
 * @max_fields: fields at all levels, elements of packed ones included
 *
 * Return: 0 or one of PRESCAN_E_...
 */
int proto_prescan(const ProtobufCMessageDescriptor *type, const uint8_t *data,
	size_t size, unsigned max_depth, size_t max_fields);

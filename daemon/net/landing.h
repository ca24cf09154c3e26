#pragma once
/* Landing: a large payload on its way from the socket into its message. When a
 * frame that is not whole yet turns out to be one envelope with a large
 * payload, the rest of it is read to where it will stay. It is charged to its
 * user before there is memory for it; if it may not be, it is passed over and
 * its post or call fails alone.
 *
 * The thread of the connection's loop. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/msg.h"

struct conn;
struct envelope;

enum {
	LANDING_MIN = 64 * 1024,        /* payloads that are larger land */
	LANDING_FIELDS_MAX = 24 * 1024, /* of an envelope beside its payload */
};

struct landing {
	struct msg_region *region; /* NULL: it is passed over, as: */
	int status;
	enum charge_kind lacks;
	bool charged;
	uint32_t size, got;               /* of the payload */
	uint32_t head_size;               /* of the fields before it */
	uint32_t fields_size, fields_got; /* of all fields, and those behind */
	uint8_t fields[];
};

/* @data is the beginning of a frame that is not whole: take it over if it is
 * one to land. */
bool landing_begin(struct conn *c, const uint8_t *data, size_t size);
/* Read on; the whole envelope goes to conn_on_envelope(). */
void landing_read(struct conn *c);
/* NULL: nothing. */
void landing_drop(struct conn *c);

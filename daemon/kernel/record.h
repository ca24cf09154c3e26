#pragma once
/* Record: events as bytes in the store. Each has a checksum of its own, so that
 * what comes back is what went in, or is known not to be. Any thread. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/msg.h"

/* What there is to an event beside its message. */
struct record {
	uint64_t expires_ns; /* by the wall clock; 0: never */
	uint64_t time_ns;    /* it was accepted then, wall clock */
};

/* Bytes that @m takes. */
size_t record_size(const struct msg *m);
/* To @out, which has room. */
size_t record_put(uint8_t *out, const struct msg *m, const struct record *r);

/* Whether the event at @data is sound; *used as in record_get(). */
bool record_is_sound(const uint8_t *data, size_t size, size_t *used);

enum { RECORD_E_DAMAGED = 1 };
/* The event at @data of at most @size bytes, which ends at *used. Its message
 * has an extra. RECORD_E_DAMAGED or -ENOMEM: there is none; *used is where the
 * next one is, or 0 if that cannot be told. */
int record_get(struct msg_pool *pool, const uint8_t *data, size_t size,
	size_t *used, struct msg **out, struct record *r);

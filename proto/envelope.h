#pragma once
/* Envelope: the routing fields of one event, coded by hand because they are
 * the hot path. The same bytes as protobuf-c's Envelope (a test and a fuzz
 * target hold both to that); everything else goes through protobuf-c.
 *
 * A decoded envelope borrows from the bytes it was decoded from. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
	ENVELOPE_ALIAS_MAX = 255,
	ENVELOPE_EVENT_MAX = 127,
	ENVELOPE_HEADERS_MAX = 16384, /* encoded bytes of all headers */
	/* bytes that the fields beside payload, names and headers can take */
	ENVELOPE_ROOM = 208,
};

struct envelope {
	uint64_t to, seq, call, re, id, from, late_ns, forward, due_ns;
	uint32_t status, timeout_ms, flags, attempt, ttl_ms, deadline_ms;
	uint8_t level;
	uint8_t event_size;
	uint16_t alias_size;
	uint32_t payload_size;
	uint32_t headers_size;
	uint32_t key_size;
	uint32_t memfd_size; /* instead of a payload, see passing.h */
	uint8_t priority;
	bool rare; /* decoded: it has a field that few have, or did not know */
	const char *alias, *event; /* not NUL-terminated */
	const uint8_t *payload;
	const uint8_t *key;
	/* encoded header fields (tag, length, Header), end to end: forwarded
	 * as they came. Points into the input if they were adjacent there. */
	const uint8_t *headers;
};

enum {
	ENVELOPE_E_MALFORMED = 1, /* not protobuf, or a wrong wire type */
	ENVELOPE_E_NAME = 2,      /* alias or event outside its alphabet */
	/* headers too large, not adjacent, not Headers, or badly named */
	ENVELOPE_E_HEADERS = 3,
};

/* All fields 0. In pieces, because gcc makes one memset() of this size
 * `rep stos`, which takes 20 ns to get going. */
static inline void
envelope_init(struct envelope *e)
{
	const size_t piece = 64;
	uint8_t *bytes = (uint8_t *)e;

	_Static_assert(sizeof(*e) > 128 && sizeof(*e) <= 192, "three pieces");
	memset(bytes, 0, piece);
	memset(bytes + piece, 0, piece);
	memset(bytes + 2 * piece, 0, sizeof(*e) - 2 * piece);
}

int envelope_decode(struct envelope *e, const uint8_t *data, size_t size);

/* An envelope of the fields that a plain post or delivery has. */
struct plain_envelope {
	uint64_t to, seq, id, from;
	const char *event;
	const void *payload;
	uint32_t payload_size;
	uint8_t event_size;
};
/* As envelope_encode_part() and envelope_encode_frame() have it; @out has room
 * for PLAIN_ROOM bytes beside event and payload. */
enum { PLAIN_ROOM = 112 };
size_t plain_encode_part(const struct plain_envelope *e, uint8_t *out);
size_t plain_encode_frame(const struct plain_envelope *e, uint8_t *out);

/* The same of a plain call, a client's or as it is delivered; PLAIN_ROOM beside
 * alias, event and payload. */
struct plain_call {
	uint64_t to, call, id, from;
	const char *alias, *event;
	const void *payload;
	uint32_t payload_size, timeout_ms, deadline_ms;
	uint16_t alias_size;
	uint8_t event_size;
};
size_t plain_call_encode_part(const struct plain_call *e, uint8_t *out);
size_t plain_call_encode_frame(const struct plain_call *e, uint8_t *out);
/* And of a reply. */
struct plain_reply {
	uint64_t re;
	const void *payload;
	uint32_t payload_size, status;
};
size_t plain_reply_encode_part(const struct plain_reply *e, uint8_t *out);
size_t plain_reply_encode_frame(const struct plain_reply *e, uint8_t *out);

/* Bytes that envelope_encode() needs at most. */
size_t envelope_bound(const struct envelope *e);
/* Bytes that envelope_encode() writes, exactly. */
size_t envelope_size(const struct envelope *e);
/* Encode as protobuf-c would; returns the bytes written. */
size_t envelope_encode(const struct envelope *e, uint8_t *out);
/* The same as a part of a frame: tag, length and envelope; @out has
 * envelope_bound() bytes. */
size_t envelope_encode_part(const struct envelope *e, uint8_t *out);
/* The same as a whole frame with this one envelope: length prefix, tag and
 * all. @out has envelope_bound() + 16 bytes. */
size_t envelope_encode_frame(const struct envelope *e, uint8_t *out);

/* The same without its payload, which is to follow right behind; @out has
 * envelope_bound() - payload_size + 16 bytes. The payload is the last field. */
size_t envelope_encode_frame_head(const struct envelope *e, uint8_t *out);

/* A frame with one envelope to @to whose other fields @rest has, encoded: the
 * same event for many. @attempt is put in if it is not 0. @out has @rest_size +
 * ENVELOPE_SHARED_ROOM bytes. */
enum { ENVELOPE_SHARED_ROOM = 32 };
/* What stands before @rest; @out has ENVELOPE_SHARED_ROOM bytes. */
size_t envelope_encode_shared_head(
	uint64_t to, uint8_t attempt, size_t rest_size, uint8_t *out);
size_t envelope_encode_shared(uint64_t to, uint8_t attempt, const uint8_t *rest,
	size_t rest_size, uint8_t *out);

/* `[A-Za-z0-9_./-]{1,max}`, eventd's rule for aliases and events. */
bool name_is_valid(const char *name, size_t size, size_t max);

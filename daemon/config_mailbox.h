#pragma once
/* The keys of [Mailbox] that are no plain numbers; f->target is a struct
 * config_session. See config_file.h. */
#include "config_file.h"

struct session_spec;

/* Overflow=block tick:drop-oldest log.*:drop-newest */
void config_set_overflow(
	struct config_file *f, const struct config_key *key, const char *value);
/* HighWater= and LowWater=: a number of events, or a percentage. */
void config_set_water(
	struct config_file *f, const struct config_key *key, const char *value);
/* An alias in a field of the spec. */
void config_set_alias(
	struct config_file *f, const struct config_key *key, const char *value);
/* The whole section has been read; the marks, if any, stood there. */
void config_check_water(struct config_file *f, struct config_place high,
	struct config_place low);
/* Digest of what these keys say, over @digest. */
uint64_t config_mailbox_digest(
	uint64_t digest, const struct session_spec *spec);

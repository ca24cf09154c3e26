#pragma once
/* For libevd's own files: see sequence.c. All but the last three ask for
 * c->sequence. */
#include <stdbool.h>
#include <stdint.h>

struct envelope;
struct evd;

/* sync.post of one that waits to be sent again. */
#define SEQUENCE_WAITS UINT64_MAX
/* The first byte of keys that are made of an id and a number. */
enum { SEQUENCE_MARK = 1 };

/* @e, about to be posted to @alias, has a key from now on, and is copied.
 * -ENOMEM. */
int evd__sequence_begin(struct evd *c, const char *alias, struct envelope *e);
/* It has been posted ... */
void evd__sequence_sent(struct evd *c, uint64_t seq, uint64_t number,
	uint32_t entry, bool sync);
/* ... or not. */
void evd__sequence_undo(struct evd *c);
/* The number of the post @seq of this connection, which is over if @settled;
 * 0: it was not kept. */
uint64_t evd__sequence_number(struct evd *c, uint64_t seq, bool settled);
/* The connection is lost: is it sent again? */
bool evd__sequence_lost(struct evd *c, uint64_t seq);
/* Send what has to be, as far as there is room. */
void evd__sequence_resend(struct evd *c);
uint64_t evd__sequence_unsent(const struct evd *c);
void evd__sequence_free(struct evd *c);

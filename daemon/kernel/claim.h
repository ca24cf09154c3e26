#pragma once
/* Claim: what sessions want of an alias that they cannot have at once. A claim
 * stands in line for it: it becomes the holder the moment the one before lets
 * it go, so that nobody ever finds the alias without a holder in between. A
 * replacing claim goes to the front and makes the holder let go, if the holder
 * allowed that when it took the alias. A wait wants to know when the alias has
 * a holder.
 *
 * The line hangs on the alias and is touched under the aliases' lock; all else
 * of a claim belongs to its session's thread. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "kernel/sched.h"

/* If the alias is taken. The wire's numbers. */
enum claim_mode {
	CLAIM_REFUSE,
	CLAIM_QUEUE,
	CLAIM_REPLACE,
};

enum {
	CLAIM_E_QUEUED = 16, /* ops.alias() or `_alias` will tell */
	CLAIM_E_LIMIT = 17,  /* MaxWatches= are there */
	CLAIM_E_FIXED = 18,  /* the holder does not let itself be replaced */
	CLAIM_E_ENDING = 19, /* the session is about to end itself */
};

struct claim_init {
	const char *name;
	size_t size;
	enum claim_mode mode;
	bool allow_replace; /* once it is the holder */
	bool stays; /* its place in line is the spec's, not its state's */
};

/**
 * claim_make() - give @s an alias, at once or when it can be
 * @s: a session of this thread
 *
 * What comes later comes by ops.alias(), or as the event `_alias` if the kind
 * has no such operation. A session that holds it already is told 0.
 *
 * Return: 0 (it is the holder), CLAIM_E_QUEUED, ALIAS_E_TAKEN, CLAIM_E_FIXED,
 * CLAIM_E_LIMIT, CLAIM_E_ENDING, ALIAS_E_NAME or -ENOMEM.
 */
int claim_make(struct session *s, const struct claim_init *init);
/* Give up an alias, or the place in line for it. 0 or ALIAS_E_NONE. */
int claim_drop(struct session *s, const char *name, size_t size);
/* EVD_STATUS_* of what they return. */
int claim_status(int r);
/* Why, for people. Returns @text, of @text_size bytes. */
const char *claim_explain(const struct session *s,
	const struct claim_init *init, int r, char *text, size_t text_size);

/**
 * claim_wait() - have ops.reply(@token) called when an alias has a holder
 * @ms: for so long at most; UINT64_MAX: for ever
 *
 * The reply's payload is the holder's id, a uint64_t, and its msg.handler is
 * CLAIM_REPLY_WAIT; or its status is TIMEOUT.
 *
 * Return: 0, ALIAS_E_NAME, CLAIM_E_CALLS (MaxCalls= are there) or -ENOMEM.
 */
int claim_wait(struct session *s, const char *name, size_t size, uint64_t ms,
	uint64_t token);
enum { CLAIM_REPLY_WAIT = 1, CLAIM_E_CALLS = 20 };

/* ---- for the kernel's own files -------------------------------------- */

/* What is to be done when the lock has been let go. */
struct alias_after {
	struct claim *granted;
	struct names_watch *wake;
	bool waits;
};
/* Do it; @a is held or referenced by the caller. */
void alias_after(
	struct sched *sched, struct alias *a, const struct alias_after *after);

struct claim *claim_first_locked(const struct alias *a);
/* It is to be the holder: its session. */
uint64_t claim_grant_locked(struct alias *a, struct claim *claim);
bool claim_waits_locked(const struct alias *a);
/* Let an alias of @s go, out of its chain already. */
int claim_release(struct session *s, struct alias *a);
/* @s has no state any more: its claims go, but for those that stay, and not
 * what it holds. */
void claims_end(struct session *s);
void claims_end_all(struct session *s);
size_t claims_memory(const struct session *s); /* bytes; it has ties */
/* The call that waits is over. */
void claim_wait_end(struct sched *sched, struct call *call);

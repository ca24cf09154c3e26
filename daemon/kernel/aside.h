#pragma once
/* Aside: what few sessions have, kept out of the way of all others. Calls for
 * them that were cancelled before they were taken, and keys of posts that came
 * before; how events that have them, or a time to live, end without being
 * handled. The home's thread. */
#include <stdbool.h>

#include "kernel/callset.h"
#include "kernel/dedup.h"

struct msg;
struct sched;
struct session;

struct aside {
	struct callset cancelled; /* some are queued or parked */
	struct dedup keys;
	uint64_t n_repeated; /* posts whose key was known */
};

/* Just popped, and not to be handled any more? Then it has been ended. */
bool aside_end(struct sched *s, struct session *t, struct msg *m);
/* The same for the next parked event, which goes too. */
bool aside_end_parked(struct sched *s, struct session *t);
/* End what has expired at the front of the mailbox: true if there was any. */
bool aside_drop_expired(struct sched *s, struct session *t);
/* @m, with an extra, repeats a post by its key: it is consumed. */
bool aside_is_known(struct sched *s, struct session *t, struct msg *m);
/* A key that was accepted at @since_ns, wall clock, is known; false: that was
 * too long ago, or there are too many. */
bool aside_restore_key(struct sched *s, struct session *t, const char *key,
	uint8_t size, uint64_t since_ns);
/* @m, with an extra, has been admitted: note its key. */
void aside_admitted(struct sched *s, struct session *t, struct msg *m);
/* @m, with an extra, ends with @status: so do the posts that repeat it. */
void aside_ended(
	struct sched *s, const struct msg *m, int status, const char *text);
/* Bytes held for @t. */
size_t aside_memory(const struct session *t);
/* That of @t, or NULL. */
struct aside *aside_get(const struct session *t);
/* @t goes: who waits there is told. */
void aside_free(struct sched *s, struct session *t);

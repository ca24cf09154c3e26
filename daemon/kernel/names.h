#pragma once
/* Names: notice of aliases that come and go. A session watches all that match
 * a pattern (proto/pattern.h); each change of holder is the event `_name`, in
 * the order in which they happened, across all schedulers.
 *
 * Changes are written down under the aliases' lock and told by the watcher's
 * own home, no more at a time than it takes; if it takes too few, some are
 * left out and the next one says how many. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/alias.h"

struct names_watch;
struct sched;
struct session;

enum {
	NAMES_PENDING_MAX = 4096, /* changes kept for one watch */
	NAMES_TOLD_MAX = 64,      /* `_name` that one session has not taken */
	NAMES_CHANGE_GUESS = 32,  /* bytes of an alias, to tell of memory */
};

/**
 * names_watch() - have @s told of the aliases that match a pattern
 * @pattern: one that is not valid is refused
 * @number: set to the watch's number
 *
 * Return: 0, TIE_E_LIMIT, TIE_E_ENDING, TIE_E_PATTERN or -ENOMEM.
 */
int names_watch(
	struct session *s, const char *pattern, size_t size, uint64_t *number);
/* End one: 0 or TIE_E_NONE. */
int names_unwatch(struct session *s, uint64_t number);

/* ---- for the kernel's own files -------------------------------------- */

/* @a has the holder @session now, 0: none. Those to be woken are added to
 * *@wake. */
void names_changed_locked(struct aliases *t, const struct alias *a,
	uint64_t session, struct names_watch **wake);
/* Wake them; the lock is free. */
void names_wake(struct sched *sched, struct names_watch *wake);
/* A `_name` has been taken by @s. */
void names_taken(struct session *s);
void names_end(struct session *s); /* all its watches */
/* About so many bytes are held for its watches, of which it has some. */
size_t names_memory(const struct session *s);

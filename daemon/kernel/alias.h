#pragma once
/* Aliases: name -> session, one table for all schedulers. Readers take no
 * lock and write nothing shared: they run between two quiescent states of
 * their scheduler (kernel/epoch.h), and an alias is freed only after each has
 * passed one. Writers hold a mutex.
 *
 * An alias is referenced by its holder's table entry and by whoever called
 * alias_ref(): it outlives its holder and shows the next one. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "kernel/epoch.h"

struct alias {
	union {
		struct {
			struct alias *sibling;   /* next alias of the holder;
						  * its thread */
			struct alias_line *line; /* under the mutex; who
						  * waits, or NULL */
			uint32_t refs; /* under the mutex; the holder counts
					* one */
		};
		struct epoch_item retired; /* when nobody refers to it */
	};
	uint64_t hash;
	_Atomic uint64_t holder; /* session id; 0: nobody */
	uint8_t size;
	bool allow_replace; /* under the mutex; the holder agrees to go */
	char name[];        /* NUL-terminated */
};

/* Who wants an alias that is held, and who wants to know when it is. */
struct alias_line {
	struct list claims; /* struct claim, the next holder first */
	struct list waits;
};

struct alias_after;
struct alias_array;

struct aliases {
	pthread_mutex_t lock; /* of writers */
	_Atomic(struct alias_array *) array;
	size_t n;        /* entries, under the lock */
	size_t n_used;   /* slots of the array ever used, under the lock */
	uint64_t key[2]; /* of the hash, random */
	struct epoch *epoch;
	struct list watches; /* struct names_watch, under the lock */
};

enum {
	ALIAS_E_TAKEN = 1,
	ALIAS_E_NAME = 2, /* not a valid alias */
	ALIAS_E_NONE = 3, /* not held by that session */
};

int aliases_init(struct aliases *t, struct epoch *epoch);
void aliases_deinit(struct aliases *t); /* frees entries that are left, too */

/* The alias called @name if somebody holds or references it; valid until the
 * calling scheduler's next quiescent state. Any scheduler thread. */
struct alias *alias_find(struct aliases *t, const char *name, size_t size);
/* @a, which is in the table, will be given up soon. */
void alias_look_ahead(struct aliases *t, const struct alias *a);
/* Session id of the holder, 0 if none. Any scheduler thread. */
uint64_t alias_holder(struct aliases *t, const char *name, size_t size);

/* Give @name to @session; *@out is valid while held. Any thread.
 * 0, ALIAS_E_TAKEN (by @session itself, too), ALIAS_E_NAME or -ENOMEM. */
int alias_take(struct aliases *t, const char *name, size_t size,
	uint64_t session, struct alias **out);
/* Take it from its holder @session: 0 or ALIAS_E_NONE. Any thread. */
int alias_drop(struct aliases *t, struct alias *a, uint64_t session);
/* The same, whose consequences for others the caller sees to, claim.h. The
 * next in line is the holder at once. */
int alias_take_after(struct aliases *t, const char *name, size_t size,
	uint64_t session, struct alias **out, struct alias_after *after);
int alias_drop_after(struct aliases *t, struct alias *a, uint64_t session,
	struct alias_after *after);
/* A reference to the alias @name, made if need be. NULL: out of memory or
 * not a valid name. Any thread. */
struct alias *alias_ref(struct aliases *t, const char *name, size_t size);
struct alias *alias_unref(struct aliases *t, struct alias *a);

/* ---- under the lock ---------------------------------------------------- */

/* The entry @name, made without references if need be. -ENOMEM. */
int alias_get_locked(
	struct aliases *t, const char *name, size_t size, struct alias **out);
/* Give up one reference. */
void alias_put_locked(struct aliases *t, struct alias *a);

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

#include "kernel/epoch.h"

struct alias {
	struct epoch_item retired;
	uint64_t hash;
	_Atomic uint64_t holder; /* session id; 0: nobody */
	struct alias *sibling;   /* next alias of the holder; its thread */
	uint32_t refs;           /* under the mutex; the holder counts one */
	uint8_t size;
	char name[]; /* NUL-terminated */
};

struct alias_array;

struct aliases {
	pthread_mutex_t lock; /* of writers */
	_Atomic(struct alias_array *) array;
	size_t n;        /* entries, under the lock */
	size_t n_used;   /* slots of the array ever used, under the lock */
	uint64_t key[2]; /* of the hash, random */
	struct epoch *epoch;
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
/* Session id of the holder, 0 if none. Any scheduler thread. */
uint64_t alias_holder(struct aliases *t, const char *name, size_t size);

/* Give @name to @session; *@out is valid while held. Any thread.
 * 0, ALIAS_E_TAKEN (by @session itself, too), ALIAS_E_NAME or -ENOMEM. */
int alias_take(struct aliases *t, const char *name, size_t size,
	uint64_t session, struct alias **out);
/* Take it from its holder @session: 0 or ALIAS_E_NONE. Any thread. */
int alias_drop(struct aliases *t, struct alias *a, uint64_t session);
/* A reference to the alias @name, made if need be. NULL: out of memory or
 * not a valid name. Any thread. */
struct alias *alias_ref(struct aliases *t, const char *name, size_t size);
struct alias *alias_unref(struct aliases *t, struct alias *a);

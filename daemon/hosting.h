#pragma once
/* Hosting: the sessions that files ask for, and the change from one set of
 * them to another. Each session is touched on the thread of its home alone;
 * all else here is the main thread's. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/spec.h"
#include "round.h"
#include "verb/daemon_ops.h"

struct config;
struct pools;

struct hosted {
	struct session_spec *spec; /* a reference */
	uint64_t id;               /* of the session; 0: it was not made */
	unsigned home;
};

struct hosting {
	struct loop *loops;
	struct pools *pools;
	unsigned n_loops;
	unsigned next_home;
	struct hosted *items; /* by name */
	size_t n;
};

enum change_kind {
	CHANGE_ADD,
	CHANGE_UPDATE,
	CHANGE_EXECUTOR, /* nothing else: it goes on */
	CHANGE_REMOVE,
};

struct change {
	enum change_kind kind;
	unsigned home;
	uint64_t id;               /* of the session that is there */
	struct session_spec *spec; /* new; of a removal: old. Borrowed */
	size_t item;               /* in the new set */
};

/* One change from set to set. */
struct transition {
	struct hosting *hosting;
	struct round round;
	struct change *changes;
	size_t n_changes;
	struct hosted *items; /* the new set */
	size_t n;
	struct start_order *order; /* of those that are new; or NULL */
	struct reload_diff diff;
	struct config *config;      /* borrowed; its limits are taken out */
	_Atomic unsigned n_refused; /* sessions that could not be made */
	void (*done)(struct transition *t, void *arg);
	void *arg;
};

void hosting_init(struct hosting *h, struct loop *loops, unsigned n_loops,
	struct pools *pools);
void hosting_deinit(struct hosting *h);

/* What to do to host the sessions of @config. -ENOMEM. */
int transition_make(
	struct transition **out, struct hosting *h, struct config *config);
/* Do it, after pools_make(): first aliases are let go and sessions removed,
 * then the policy comes into force, then others take them and start;
 * what has nothing but another executor goes on with that. @done is called when
 * the new set is the hosting's; it frees @t. */
void transition_run(struct transition *t,
	void (*done)(struct transition *t, void *arg), void *arg);
struct transition *transition_free(struct transition *t);

#pragma once
/* The pools of a configuration, and the change from one to another while
 * sessions are run by them. The main thread, but for pools_move(). */
#include <stdbool.h>
#include <stddef.h>

#include "exec/loop.h"

struct config;
struct pool;

struct pools {
	struct kernel *kernel;
	struct pool *items[KERNEL_EXECUTORS_MAX]; /* those that are gone, too */
	unsigned n;
};

/* No thread is made before a session needs one. Negative errno. */
int pools_init(struct pools *p, struct kernel *k, const struct config *c);
/* Make what @c has and @p has not: 0, POOLS_E_MANY: so many have come and gone
 * that it takes a new start, or -ENOMEM. What was made is not used then. */
enum { POOLS_E_MANY = 1 };
int pools_make(struct pools *p, const struct config *c);
/* All are as @c has them; what it has not, sessions get no more. */
void pools_change(struct pools *p, const struct config *c);
/* Those sessions of @l that have what is gone get what their file says, or are
 * run by their loop. @l's thread. */
void pools_move(struct loop *l);
/* The threads of what is gone may end. */
void pools_settle(struct pools *p);
/* After the loops. False: some thread has not ended after @ms, and all memory
 * is left to it. */
bool pools_stop(struct pools *p, uint32_t ms);
void pools_deinit(struct pools *p);

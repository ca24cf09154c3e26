#pragma once
/* Deferred calls of one session: those it took over to answer later. Kept so
 * that their callers are told when the session goes, and so that a script can
 * answer no call but its own. The home's thread. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/callset.h"

struct sched;

enum { DEFERRED_MAX = 65536, DEFERRED_E_MANY = 1 };

struct deferred {
	struct callset calls;
};

/* 0, DEFERRED_E_MANY or -ENOMEM. @call is not in it. */
int deferred_add(struct deferred *d, uint64_t call, uint64_t deadline_ns);
/* True if it was there. */
bool deferred_remove(struct deferred *d, uint64_t call);
/* Is it there? Then *@deadline_ns, which its caller has set; 0: not known. */
bool deferred_find(
	const struct deferred *d, uint64_t call, uint64_t *deadline_ns);
/* Answer all with EVD_STATUS_DIED and free the memory. */
void deferred_deinit(struct deferred *d, struct sched *sched);

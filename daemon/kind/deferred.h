#pragma once
/* Deferred calls of one session: those it took over to answer later. Kept so
 * that their callers are told when the session goes, and so that a script can
 * answer no call but its own. The home's thread. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sched;

enum { DEFERRED_MAX = 65536, DEFERRED_E_MANY = 1 };

struct deferred {
	uint64_t *slots; /* open addressing; 0: free */
	uint32_t mask;
	uint32_t n;
};

/* 0, DEFERRED_E_MANY or -ENOMEM. @call is not in it. */
int deferred_add(struct deferred *d, uint64_t call);
/* True if it was there. */
bool deferred_remove(struct deferred *d, uint64_t call);
/* Answer all with EVD_STATUS_DIED and free the memory. */
void deferred_deinit(struct deferred *d, struct sched *sched);

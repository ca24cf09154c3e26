#pragma once
/* Set of calls, each with its deadline: those that a session has yet to answer
 * or must not handle any more. Open addressing; one thread. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct callset_slot {
	uint64_t call; /* 0: free */
	uint64_t deadline_ns;
};

struct callset {
	struct callset_slot *slots;
	uint32_t mask;
	uint32_t n;
};

/* 0 or -ENOMEM. @call is not in it, and not 0. */
int callset_add(struct callset *set, uint64_t call, uint64_t deadline_ns);
/* NULL: it is not there. */
const struct callset_slot *callset_find(
	const struct callset *set, uint64_t call);
/* Take it out: true if it was there, and then *@deadline_ns, unless NULL. */
bool callset_remove(struct callset *set, uint64_t call, uint64_t *deadline_ns);
void callset_deinit(struct callset *set);

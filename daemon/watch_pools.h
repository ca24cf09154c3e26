#pragma once
/* Watch of pools: which handlers that pools run do not return. Each loop looks
 * for those of its own sessions when the watch asks it for a sign of life; the
 * watch's thread names them in the log, with the place where they are:
 *
 *   a script   is asked by a signal, as on a loop, and stopped if its file says
 *              so
 *   a plugin   in a system call is left alone, which a signal might end: the
 *              kernel says where it is; one that runs is asked
 *
 * A handler that blocks is in nobody's way, so this is all that is done. */
#include <stdint.h>

#include "kernel/stall.h"
#include "kernel/stuck.h"

struct sched;

enum { WATCH_POOLS_ROUND = 4 }; /* told of at once, by each loop */

/* One loop's answer: its thread writes, then the watch reads. */
struct watch_found {
	uint32_t n;
	struct stuck stuck[WATCH_POOLS_ROUND];
};

/* What the watch's thread asks, one at a time. */
struct watch_pools {
	struct stall stall;
	_Atomic uint64_t session; /* that is asked for */
	_Atomic uint64_t since_ns;
};

void watch_pools_init(struct watch_pools *w);
/* On the thread of @s. */
void watch_pools_look(struct sched *s, struct watch_found *found);
/* On the watch's. */
void watch_pools_tell(struct watch_pools *w, struct watch_found *found);

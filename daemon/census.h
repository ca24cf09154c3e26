#pragma once
/* Census: how many sessions there are, how many have failed, and what waits
 * in them; each loop counts its own. Those of connections are left out. The
 * main thread. */
#include "round.h"

struct tally {
	uint32_t sessions, failed;
	uint64_t waiting; /* events and replies that the daemon's own sessions
			   * have still to handle */
	uint64_t handled;
	uint64_t transit_in, transit_out;
};

struct census {
	struct round round;
	struct tally parts[KERNEL_LOOPS_MAX];
	struct tally sum;
	void (*done)(struct census *census, void *arg);
	void *arg;
};

void census_init(struct census *census, struct loop *loops, unsigned n_loops);
/* One at a time; @done finds the sum. */
void census_take(struct census *census,
	void (*done)(struct census *census, void *arg), void *arg);

/* The next session from a file, or spawned, that is at home on @l, behind
 * *slot, which begins as 0. That loop's thread. */
struct session *census_next(struct loop *l, uint32_t *slot);

/* A part of a round: stop all sessions of that loop but the connections'. */
void sessions_stop(struct round *round, struct loop *l);

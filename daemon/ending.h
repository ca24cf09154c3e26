#pragma once
/* Ending: the last steps of the daemon, when its loops have been told to stop.
 * A thread that never comes back from a handler cannot hold them up: a pool's
 * own, or the first thread of a loop that runs a session as a leader. Such a
 * one is named in the log and left behind. */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>

struct loop;
struct pools;
struct sockets;

struct ending {
	struct loop *loops;
	unsigned n_loops;
	struct pools *pools;
	struct sockets *sockets;
	const int *status; /* of the process */
	sem_t over;
	pthread_t thread; /* it waits for the others */
	bool started;
	_Atomic bool taken; /* somebody sees to the pools */
};

/* The loops are about to end. */
void ending_begin(struct ending *e);
/* All loops have ended and been joined: so do the pools. Does not return if a
 * thread is stuck: all memory is left to it. */
void ending_finish(struct ending *e);

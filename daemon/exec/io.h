#pragma once
/* Descriptors that a loop waits for, by an epoll of its own: connections and
 * listeners, the loop's own, and libuv's, behind which everything else is. So
 * that waiting for a connection costs one system call for what changes, and
 * libuv is entered only if it has something to do.
 *
 * The loop's thread, or one that holds its baton: also while the loop sleeps,
 * which need not be woken for it. */
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "base/list.h"

enum {
	IO_BATCH = 256, /* that are looked at in one turn */
	IO_LOOKS = 2,   /* a connection with one call ends by then, mostly */
};

/* What waits for one descriptor. */
struct io_watch {
	int fd;
	uint32_t events; /* EPOLLIN, EPOLLOUT, EPOLLPRI for no more than errors
			  * and hang-ups; 0: none, and it is not called */
	/* @events: those of the above that have come; of an error or hang-up,
	 * which shows in a read or write, all of them. 0: it was to be waited
	 * for soon, and cannot be. */
	void (*run)(struct io_watch *w, uint32_t events);
	void (*bury)(struct io_watch *w);
	uint8_t fresh;    /* looks left before the epoll knows its descriptor */
	struct list link; /* of fresh ones, or of graves */
};

struct io {
	int fd;
	struct list fresh, graves;
	struct epoll_event batch[IO_BATCH];
};

/* Negative errno. */
int io_init(struct io *io);
void io_deinit(struct io *io); /* buries the rest */
/* Wait for @events from now on. Negative errno, and then as before. */
int io_want(struct io *io, struct io_watch *w, uint32_t events);
/* The same, of one that waits for nothing yet and will have something soon, or
 * end: it is called in the next IO_LOOKS turns without knowing that, and the
 * epoll learns of it after that, or when there is nothing else to do. While the
 * loop sleeps no more than when it is woken then, too. */
void io_want_soon(struct io *io, struct io_watch *w, uint32_t events);
/* Before a sleep: the epoll is to know of all. */
void io_settle(struct io *io);
/* Never call @w again. Its descriptor may be closed now, itself freed only by
 * bury(), for the loop may be about to look at it. */
void io_end(struct io *io, struct io_watch *w, void (*bury)(struct io_watch *));
/* By the loop's thread, before io_wait(): what it was about to look at then it
 * has seen. */
void io_bury(struct io *io);
/* How many have come within @ms (-1: for ever), for io_run(). Without the
 * baton. */
int io_wait(struct io *io, int ms);
/* Call those, and the fresh ones. */
void io_run(struct io *io, int n);

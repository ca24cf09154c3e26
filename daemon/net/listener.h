#pragma once
/* Listener: accepts connections on one Unix socket and deals them out to the
 * loops. The first loop's thread. */
#include <stdbool.h>
#include <sys/types.h>
#include <uv.h>

#include "exec/loop.h"
#include "net/conn.h"

struct listener {
	struct loop *loops;
	unsigned n_loops, next;
	struct server *server;
	struct io_watch watch;
	uv_timer_t pause;  /* after EMFILE: try again then */
	uint32_t n_pauses; /* since it was last told */
	uint64_t told_ms;  /* of the loop's clock; 0: never */
	int fd, spare_fd;
	bool own;  /* we made the socket file and remove it */
	dev_t dev; /* of the file we made */
	ino_t ino;
	bool closing;
	bool closed; /* its timer, too */
	char path[108];
};

enum {
	LISTENER_E_IN_USE = 1,     /* another daemon answers there */
	LISTENER_E_NOT_SOCKET = 2, /* the path is something else */
	LISTENER_E_TOO_LONG = 3,   /* over 107 bytes */
};

/* Make a socket at @path with @mode and listen; a dead socket there is
 * replaced, anything else is left alone. LISTENER_E_* or negative errno. */
int listener_open(const char *path, mode_t mode, int *fd);
/* Start accepting on @fd (taken over). @path is removed at the end if not
 * NULL; NULL for sockets passed by a supervisor. */
int listener_start(struct listener *l, struct loop *loops, unsigned n_loops,
	struct server *server, int fd, const char *path);
/* If somebody has removed the file that we made, make it again with @mode. */
void listener_renew(struct listener *l, mode_t mode);
/* Stop accepting; connections stay. listener_is_closed() after its handles
 * have closed. */
void listener_close(struct listener *l);
bool listener_is_closed(const struct listener *l);

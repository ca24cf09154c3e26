#pragma once
/* Connection: a client's socket. It is a session (kind "connection") whose
 * replies, acks and notices are written to the socket; each alias that it
 * binds is a further session (kind "client") whose events are.
 *
 * A connection lives on one loop and belongs to its thread. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "exec/loop.h"

struct daemon_ops;

/* What the connections of all loops share. Set before the first is accepted,
 * fixed from then on but for the counts. */
struct server {
	const char *version;        /* "eventd 0.1.0" */
	const struct daemon_ops *daemon; /* verbs that change the daemon */
	void *daemon_data;
	uint32_t window_posts;      /* unacknowledged posts of a connection */
	uint64_t window_bytes;
	uint32_t max_connections;
	uint32_t hello_timeout_ms;
	uid_t owner;                /* may manage, as root may */
	_Atomic uint32_t n_connections;
	uint64_t started_wall_ns;
};

struct conn_creds {
	uid_t uid;
	gid_t gid;
	pid_t pid; /* for display only: may be reused */
};

/* Serve @fd, taken over whatever happens, on @l; its thread. */
int conn_open(struct loop *l, struct server *server, int fd);
/* Close every connection of this loop; they are gone some turns later, when
 * conn_count() says 0. */
void conn_close_all(struct loop *l);
unsigned conn_count(struct loop *l);

#pragma once
/* Binding: an alias that a client has taken. A session of its own (kind
 * "client") whose events are written to the client's socket, as many as its
 * window allows before it has settled them.
 *
 * The thread of the connection's loop. */
#include <stdint.h>

#include "kernel/session.h"
#include "net/conn.h"

enum {
	BINDING_EVENTS = 1024, /* default window */
	BINDING_EVENTS_MAX = 65536,
	BINDING_BYTES = 1 << 20,
	BINDING_BYTES_MAX = 64 << 20,
	BINDING_MAILBOX_EVENTS = 1024, /* behind the window */
	BINDING_MAILBOX_BYTES = 4 << 20,
};

struct binding {
	struct conn *conn;
	struct session *session;
	uint64_t number;         /* the client's own */
	struct msg_queue leased; /* delivered, not settled */
	uint64_t delivered;      /* counts deliveries */
	uint64_t settled;
	uint64_t leased_size; /* bytes charged */
	uint32_t window_events;
	uint64_t window_size;
};

/* The verbs of verb.h. */
int binding_bind(struct peer *p, const Eventd__V1__Bind *bind,
	Eventd__V1__Bound *bound, char *text, size_t size);
int binding_unbind(struct peer *p, uint64_t number, char *text, size_t size);
/* The client has handled deliveries up to @upto; false: it cannot have. */
bool binding_settle(struct conn *c, uint64_t number, uint64_t upto);
/* The socket takes output again. */
void bindings_wake(struct conn *c);
/* The connection ends: stop their sessions, answer the calls left over. */
void bindings_drop(struct conn *c);
/* The call that the client knows as @handle, once; 0: none. */
uint64_t inbound_take(struct conn *c, uint64_t handle);
/* Who sits behind a session of kind "client", else NULL. */
struct conn *binding_peer(struct session *s);

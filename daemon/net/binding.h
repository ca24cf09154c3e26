#pragma once
/* Binding: an alias that a client has taken. A session of its own (kind
 * "client") whose events are written to the client's socket, as many as its
 * window allows before it has settled them. Or, if the alias is that of a
 * session file with Kind=client, the connection's end of what it consumes
 * from that mailslot, wherever that lives.
 *
 * The thread of the connection's loop. */
#include <stdint.h>

#include "kernel/session.h"
#include "net/conn.h"
#include "net/lease.h"

enum {
	BINDING_EVENTS = 4096, /* default window */
	BINDING_EVENTS_MAX = 65536,
	BINDING_BYTES = 1 << 20,
	BINDING_BYTES_MAX = 64 << 20,
	BINDING_MAILBOX_EVENTS = 1024, /* behind the window, by default */
	BINDING_MAILBOX_EVENTS_MAX = 65536,
	BINDING_MAILBOX_BYTES = 4 << 20,
	BINDING_MAILBOX_BYTES_MAX = 64 << 20,
	BINDING_OVERFLOW_MAX = 1000, /* bytes of its words */
};

struct consumer_init;

struct binding {
	struct conn *conn;
	struct session *session; /* its own, also that of a subscriber; NULL: it
				  * consumes a mailslot */
	uint64_t number;         /* the client's own */
	char *alias;             /* that it has bound, or waits for */
	uint8_t right;           /* enum right, which it needs for that */
	uint64_t request;        /* waits in line: its bind; 0: it does not */
	struct lease lease;      /* a mailslot has what is held at its home */
	/* of one that consumes a mailslot or subscribes to it: */
	uint64_t slot;            /* the mailslot's session */
	uint64_t token;           /* told with all notes from and to it */
	struct msg *farewell;     /* MAIL_DETACH, made beforehand */
	struct msg_queue pending; /* copies that wait for room in the output */
};

/* The verbs of verb.h. */
void binding_bind(struct peer *p, uint64_t id, const Eventd__V1__Bind *bind);
void binding_unbind(struct peer *p, uint64_t id, uint64_t number);
void binding_change(
	struct peer *p, uint64_t id, const struct delivery_change *change);
/* The client has handled deliveries up to @upto; false: it cannot have. */
bool binding_settle(struct conn *c, uint64_t number, uint64_t upto);
/* The socket takes output again. */
void bindings_wake(struct conn *c);
/* The connection ends: stop their sessions, leave the mailslots, answer the
 * calls left over. */
void bindings_drop(struct conn *c);
/* Its rights have changed: what it may not have bound any more goes. */
void bindings_review(struct conn *c);
/* The connection whose own session @s of kind "client" is, else NULL. */
struct conn *binding_peer(struct session *s);

/* ---- for mailslots ----------------------------------------------------- */

/* Write @m, which is borrowed, to the binding @token of the connection @conn
 * of this loop; false: not now, the binding will wake the mailslot. */
bool binding_deliver(struct session *conn, uint64_t token, const struct msg *m);
/* A note from a mailslot has come; takes it over. */
void binding_note(struct conn *c, struct msg *m);

/* ---- delivery.c --------------------------------------------------------- */

/* To the socket, as the next delivery; false: not now. */
bool delivery_write(struct binding *b, const struct msg *m);
/* That events were dropped before the next one. */
void delivery_gap(struct binding *b, const struct msg *m);
/* The same; false: not now. */
bool delivery_tell_gap(struct binding *b, const struct msg *m);

/* ---- for bind.c -------------------------------------------------------- */

extern const struct session_ops client_session_ops;

/* Its place in the table, UINT32_MAX: no such binding. */
uint32_t binding_index(const struct conn *c, uint64_t number);
struct binding *binding_of_token(const struct conn *c, uint64_t token);
/* Room for one more in the table: 0 or EVD_STATUS_NO_MEMORY. */
int bindings_grow(struct conn *c);
/* NULL: out of memory. */
struct binding *binding_new(
	struct conn *c, uint64_t number, const struct consumer_init *wish);
void binding_free(struct binding *b); /* one that is not in the table */
void binding_insert(struct conn *c, struct binding *b);
void binding_remove(struct conn *c, struct binding *b);
/* To the mailslot, from @b; @what: enum mail_note. */
struct msg *binding_note_new(const struct binding *b, int what);

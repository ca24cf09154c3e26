#pragma once
/* Connection: a client's socket. It is a session (kind "connection") whose
 * replies, acks and notices are written to the socket; each alias that it
 * binds is a further session (kind "client") whose events are, see binding.h,
 * or one from a file whose events it consumes, see mailslot.h.
 *
 * A connection lives on one loop and belongs to its thread.
 *
 *   conn.c    its life: open, greet in time, close
 *   read.c    bytes to frames
 *   input.c   frames to posts, calls, replies and verbs
 *   output.c  what goes out: one buffer, one write a turn
 *   landing.c large payloads, read to where they stay
 *   arrival.c payloads that did not come as bytes of their envelope
 *   large.c   large payloads going out
 *   access.c  who it is and what it may do
 *   binding.c the aliases it has bound
 *   mailslot.c the mailboxes of files that clients consume */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"
#include "exec/loop.h"
#include "kernel/tie.h"
#include "net/acks.h"
#include "net/outbuf.h"
#include "verb/verb.h"

/* What the connections of all loops share. Set before the first is accepted,
 * fixed from then on but for the counts and what net_set_limits() changes. */
struct server {
	struct peer_shared shared;
	/* What connections are granted: posts that are not acknowledged. */
	_Atomic uint32_t window_posts;
	_Atomic uint64_t window_bytes; /* ... and their payloads */
	_Atomic uint32_t max_connections;
	uint32_t max_calls;         /* outstanding, of a connection */
	_Atomic uint32_t max_memfd; /* bytes; 0: none are taken */
	_Atomic uint32_t n_memfds;  /* in the daemon */
	struct policy *policy;      /* at the start; see net_set_policy() */
};
/* Defaults for all but shared. */
void server_init(struct server *server);

/* Per-loop state of net/, at loop->net. */
struct net {
	struct loop *loop;
	struct server *server;
	struct list conns;    /* all of this loop, oldest first */
	struct list greeting; /* those that have not said hello at once */
	unsigned n_conns;
	uv_timer_t hello_timer; /* for the first of them to be late */
	uint32_t window_posts;  /* as its connections were told last */
	uint64_t window_bytes;
	uint64_t hello_ns;        /* when it looks; UINT64_MAX: it does not */
	struct list patient;      /* their welcome waits for more */
	uv_timer_t welcome_timer; /* ... until this at the latest */
	struct outbuf_pool pool;
	struct policy *policy; /* in force here; a reference */
	struct rights_cache rights;
	bool closing;
};
/* Before the first connection of the loop / after the last has gone. */
int net_init(struct net *net, struct loop *l, struct server *server);
void net_deinit(struct net *net); /* its handles close in later turns */
/* @policy is in force from now on, for every connection. The loop's thread. */
void net_set_policy(struct net *net, struct policy *policy);
/* What may change while the daemon runs: counts from now on; those that are
 * connected are told of another window, and those that have not said hello are
 * looked at, for what users may take for it has changed before. Each loop's
 * thread. */
struct net_limits {
	uint32_t max_connections, max_memfd, window_posts;
	uint64_t window_bytes;
};
void net_set_limits(struct net *net, const struct net_limits *limits);

enum conn_state {
	CONN_GREETING, /* hello has not come */
	CONN_OPEN,
	CONN_ENDING,  /* an error frame is to be written, then it closes */
	CONN_CLOSING, /* handles are closing */
};

enum {
	CONN_OUT_HIGH = 256 * 1024,   /* unsent: no more is read or delivered */
	CONN_OUT_LOW = 64 * 1024,     /* ... until it is down to this */
	CONN_OUT_MAX = 64 << 20,      /* unsent: the connection is given up */
	CONN_FRAME_SLACK = 64 * 1024, /* of a frame beyond its payload */
	CONN_GATHER = 32 * 1024, /* unsent deliveries worth a system call, */
	CONN_GATHER_TURNS = 4,   /* ... or so many turns of a busy loop */
	CONN_LARGE = 16 * 1024,  /* written from where it lies */
	CONN_REFS_MAX = 65536,
	CONN_BINDINGS_MAX = 4096,
	CONN_NAME_MAX = 64,
	CONN_INBOUND_MAX = 16384, /* calls delivered and not answered */
	CONN_TURN_REQUESTS = 32,  /* served in one go, then others' turn */
};

/* A call that was delivered to this client and that it may answer. */
struct inbound {
	uint64_t handle; /* as the client knows it; 0: free */
	uint64_t call;
	uint64_t binding;     /* it came by, as the client numbers it, */
	uint64_t delivery;    /* and there as which */
	uint64_t deadline_ns; /* its caller's; 0: not known */
};

struct binding;
struct envelope;
struct landing;
struct memfd_gauge;
struct passed;

/* A large payload that is written from where it lies, or a descriptor. */
struct outlarge {
	struct msg_body *body; /* a reference; NULL: nothing is on its way */
	const uint8_t *data;   /* of it */
	size_t size, sent;
	size_t before; /* bytes of conn.out that go before it */
	int fd;        /* goes with the byte behind those; -1: there is none */
};

/* An envelope's payload that did not come among its bytes. */
struct arrival {
	struct msg_region *region; /* whoever makes the message takes it over */
	int status;                /* or why there is none */
	char text[VERB_TEXT_MAX];
};

struct conn {
	struct peer peer;
	struct session *session;
	struct loop *loop;
	struct server *server;
	struct net *net;
	struct io_watch watch;
	struct loop_flush flush;
	struct list link;     /* in net->conns */
	struct list greeting; /* in net->greeting, net->patient, or alone */
	uint64_t accepted_ns; /* monotonic */
	int fd;
	uint8_t state;      /* enum conn_state */
	bool input_paused;  /* see must_pause() */
	bool large_waits;   /* another large delivery, for this one's end */
	bool greeted;       /* its hello has come */
	bool is_new;        /* it has not been waited for yet */
	bool is_patient;    /* nor has anything been written */
	bool is_deaf;       /* its client says no more, but is owed something */
	bool takes_replies; /* that are memfds */
	struct outbuf out;
	struct outlarge large;
	struct landing *landing; /* a large payload that is coming in; NULL */
	struct arrival *arrival; /* of the envelope that is looked at; NULL */
	struct passed *passed;   /* descriptors; NULL: it takes and gets none */
	struct memfd_gauge *memfds; /* NULL: none has come yet */
	uint8_t *in; /* an incomplete frame, or what waits while paused */
	size_t in_size, in_room;
	size_t in_done; /* of the first frame's body, if it was paused in it */
	unsigned n_served; /* requests since the last flush */
	bool hasty;        /* more than deliveries wait to be written */
	uint8_t n_held;    /* turns that deliveries have waited for more */
	/* posts of this client */
	uint64_t seq; /* of the last that came */
	struct acks acks;
	uint64_t ack_sent;     /* all up to it are settled, and told so */
	uint64_t n_posts;      /* not settled */
	uint64_t posts_size;   /* their payload bytes */
	uint64_t window_bytes; /* it was granted, at the most */
	uint32_t window_posts;
	uint64_t *also; /* settled out of order, not told yet */
	uint32_t n_also, also_room;
	/* what it refers to */
	struct alias **refs; /* ref - 1 is the index */
	uint8_t *refs_may;   /* bits of rights to each that were found; NULL */
	uint32_t n_refs, refs_room;
	struct binding **bindings;
	uint32_t n_bindings, bindings_room;
	uint64_t last_token;     /* counts bindings to mailslots */
	struct inbound *inbound; /* ring: handle modulo its size */
	uint32_t inbound_room;
	uint64_t last_handle;
	uint32_t charged_aliases; /* to its user, see conn_charge() */
	char name[CONN_NAME_MAX];
};

/* Tell the client of @fd why it is not served, and close it. Any thread. */
void conn_turn_away(int fd, int status, const char *text);
/* Serve @fd, taken over whatever happens, on @l; its thread. */
int conn_open(struct loop *l, int fd);
/* Close every connection of this loop; they are gone some turns later, when
 * conn_count() says 0. */
void conn_close_all(struct loop *l);
/* Tell every client that the daemon is about to stop. */
void conn_announce_closing(struct loop *l);
unsigned conn_count(struct loop *l);

/* ---- inside net/ ------------------------------------------------------- */

/* No more is read or written; it goes at the end of the turn. */
void conn_close(struct conn *c, const char *why);
/* Tell the client and close once it is written. */
void conn_end(struct conn *c, int status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Its hello has come. */
void conn_greeted(struct conn *c);
/* Its welcome is to be written together with what it waits for, if that comes
 * soon; @size: all there is to write. */
bool conn_is_patient(struct conn *c, size_t size);
/* Who sits behind a session of this loop; false: it is no client's. */
bool conn_behind(struct session *s, struct peer_face *face);
/* How its sessions end, now that it does. */
enum tie_end_why conn_end_why(const struct conn *c);
/* Its client has closed it, or says no more: it goes, at the latest when there
 * is nothing more to tell. */
void conn_end_of_input(struct conn *c);
/* Its client gets something yet, of what it asked for. */
bool conn_owes(const struct conn *c);
/* Poll for what is wanted now. */
void conn_update_poll(struct conn *c);

/* access.c: read who it is; 0 or -ENOMEM. */
int conn_identify(struct conn *c);
/* Whom it is charged to: 0; USER_E_LIMIT and why; or -ENOMEM. */
int conn_admit(struct conn *c, char *text, size_t size);
/* Charge its user with what it holds now; at the end of each turn in which that
 * may have changed. */
void conn_charge(struct conn *c);
/* It holds nothing any more. */
void conn_discharge(struct conn *c);
/* May it do @right (post or call) with @event to @alias? @ref: it is called so
 * by the client, 0: by its name. To be asked when it may not do so to all. */
bool conn_may_send(struct conn *c, enum right right, uint64_t ref,
	const char *alias, const char *event);
struct rights *conn_rights_of(struct sched *s, pid_t pid);

/* input.c: the parts of a frame behind the first @done bytes, until it must
 * pause; returns how many bytes are done now. */
size_t conn_on_frame(
	struct conn *c, const uint8_t *body, size_t size, size_t done);
/* More input would cost more output, more requests or more of this turn than
 * it may have now. */
bool conn_must_pause(const struct conn *c);

/* read.c: the socket is readable. */
void conn_read(struct conn *c);
/* recv(), which closes it at its end. */
ssize_t conn_receive(struct conn *c, struct iovec *parts, size_t n);
/* input.c: an envelope has come; @r: how decoding it went. */
void conn_on_envelope(struct conn *c, struct envelope *e, int r);
/* What it is, and what is to be done. */
void conn_on_event(struct conn *c, const struct envelope *e);
/* There is room again for the answers to what has been read. */
void conn_resume_input(struct conn *c);

/* output.c */
/* Room for @size bytes; NULL: it ends. For deliveries, which may wait a little
 * for more of them, and for all else. */
uint8_t *conn_delivery_room_any(struct conn *c, size_t size);
static inline uint8_t *
conn_delivery_room(struct conn *c, size_t size)
{
	const struct outblock *last = c->out.last;

	if (last && last->room - last->end >= size && c->state < CONN_ENDING)
		return c->out.last->data + last->end;
	return conn_delivery_room_any(c, size);
}
static inline uint8_t *
conn_room(struct conn *c, size_t size)
{
	c->hasty = true;
	if (outbuf_size(&c->out) > CONN_OUT_HIGH) /* is it given up? */
		return conn_delivery_room_any(c, size);
	return conn_delivery_room(c, size);
}
static inline bool
conn_is_live(const struct conn *c)
{
	return c->state == CONN_OPEN || c->state == CONN_GREETING;
}
static inline bool
conn_takes_deliveries(const struct conn *c)
{
	return c->state == CONN_OPEN && outbuf_size(&c->out) <= CONN_OUT_HIGH;
}
static inline void
conn_wrote(struct conn *c, size_t size)
{
	outbuf_add(&c->out, size);
	loop_defer(c->loop, &c->flush);
}
void conn_send_message(
	struct conn *c, unsigned field, const ProtobufCMessage *message);
void conn_send_failure(
	struct conn *c, uint64_t seq, int status, const char *text);
void conn_send_reply(struct conn *c, uint64_t call, int status,
	const void *data, size_t size);
/* The same of a large one, from where it lies; conn_has_large() says no. */
void conn_send_reply_region(
	struct conn *c, uint64_t call, struct msg_body *body);
void conn_notice(struct conn *c, const struct msg *m);
void conn_post_settled(struct conn *c, uint64_t seq, uint32_t size);
void conn_flush(struct conn *c);

/* large.c: what is written from where it lies. One at a time. */
static inline bool
conn_has_large(const struct conn *c)
{
	return c->large.body != NULL;
}
/* @data, of @body, follows what is in the output now. */
void conn_put_large(struct conn *c, struct msg_body *body, const uint8_t *data,
	size_t size);
/* An envelope with the payload of @body, which has a region: as the memfd that
 * it is, if it is one and @passes, or as bytes. */
void conn_put_region(
	struct conn *c, struct envelope *e, struct msg_body *body, bool passes);
/* Write what the socket takes of all output: 0 or -1 and errno. */
int conn_write_some(struct conn *c);
void conn_drop_large(struct conn *c);
extern const struct session_ops conn_session_ops;

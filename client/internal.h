#pragma once
/* Inside libevd: the handle and what its modules call of each other.
 * Everything here belongs to the one thread that uses the handle.
 *
 *   handle   settings, errors            conn     connect, greet, lose, again
 *   io       the two buffers, waiting    parse    frames to events
 *   event    events and their queue      post     posts and their window
 *   memfd    payloads that are descriptors
 *   room     being bounded, and told of room
 *   call     calls, both ways            bind     bindings and settling
 *   request  requests and their answers  look     lists, status, timers
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <unistd.h>

#include "arena.h"
#include "envelope.h"
#include "eventd.pb-c.h"
#include "eventd/client.h"
#include "slots.h"

#define EVD_SYSTEM_SOCKET "/run/eventd/eventd.sock"

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

enum {
	OUT_WRITE = 65536,     /* gathered bytes that are written at once */
	OUT_FRAME_MAX = 16383, /* body of a frame that gathers: 2-byte length */
	IN_SIZE = 262144,      /* read buffer */
	FRAME_MAX = 64 << 20,  /* longest frame from the daemon */
	WINDOW_MAX = 65536,    /* posts in flight */
	CALLS_MAX = 65535,
	REQUESTS_MAX = 65535,
	HELLO_MS = 10000,   /* for the greeting, when nobody waits for it */
	TEXT_MAX = 1024,    /* bytes of an error text that are kept */
	CALL_SLACK_MS = 50, /* the daemon tells of time-outs; then we do */
};

enum conn_state {
	CONN_IDLE,   /* no connection, no try */
	CONN_PAUSE,  /* tries again at @due_ns */
	CONN_HELLO,  /* connected, Welcome has not come */
	CONN_REBIND, /* bindings and ids are being made again */
	CONN_READY,
};

struct map; /* of a memfd, counted: memfd.c */
struct memfds;

struct evd_event {
	struct evd_event *next; /* in the queue */
	struct evd *owner;      /* borrowed: the handle; NULL: a copy */
	int type;
	int status;
	bool queued;   /* owned by the queue: freed when it is passed */
	bool deferred; /* a call that needs no empty reply */
	uint32_t epoch;
	uint32_t binding;
	uint32_t serial;   /* of the binding */
	uint32_t run;      /* so many posts more, numbered on from @number */
	struct envelope e; /* delivery, reply */
	uint64_t number;   /* delivery: in its binding; post, call, request */
	uint64_t value;    /* result of a request, gap */
	uint64_t lost;
	const char *text; /* not NUL-terminated */
	size_t text_size;
	const char *name_z, *alias_z, *text_z; /* NUL-terminated once asked */
	struct map *map; /* a reference: its payload is there; NULL */
};

struct outbuf {
	uint8_t *data;
	size_t head, tail, size;
	size_t frame; /* where the open frame's length goes, if @open */
	size_t mark;  /* pending bytes that are worth a write */
	bool open;
};

struct inbuf {
	uint8_t *data;
	size_t head, tail, size;  /* bytes not taken: [head, tail) */
	size_t cursor, frame_end; /* the frame being walked */
	size_t want;              /* bytes of the frame that is short */
	bool busy;                /* a read filled it: it is worth IN_SIZE */
	uint8_t *retired;         /* holds what the given event borrows */
};

/* Posts in flight: seqs are the connection's, numbers are the user's. */
struct window {
	uint64_t next, acked; /* seqs: of the next post, and all up to */
	uint64_t base;        /* number = base + seq */
	uint64_t n, bytes;    /* in flight */
	uint64_t max_posts, max_bytes; /* that may be */
	uint64_t granted_posts, granted_bytes;
	uint32_t *ring; /* by seq: payload size and flags */
	uint64_t mask;  /* its room - 1; grows up to granted_posts */
};

struct ref {
	char *alias;
	uint64_t wire; /* 0: not known to this connection */
};

struct binding {
	char *alias;
	uint32_t number, serial;
	bool bound;
	bool allow_replace, has_box;
	bool durable;
	char *overflow; /* owned, or NULL */
	uint32_t max_events;
	uint64_t max_bytes;
	uint32_t if_taken;                      /* enum evd_if_taken */
	uint32_t mode;                          /* enum evd_bind_mode */
	uint32_t window_events, granted_events; /* asked, granted */
	uint64_t window_bytes, granted_bytes;
	uint64_t delivered, settled, told; /* numbers */
	uint64_t untold_bytes;
	struct binding *dirty_next;
	bool dirty;
};

/* Of a session, or of names. */
struct watch {
	uint64_t number; /* the user's */
	uint64_t wire;   /* the daemon's; 0: not known to this connection */
	char *pattern;   /* of names; NULL: a session */
};

/* What evd_will() left. */
struct will {
	char *alias, *event;
	uint8_t *data;
	size_t size;
};

/* An unpacked Response with its memory, malloc'd: what pages are made of. */
struct response {
	struct arena arena;
	Eventd__V1__Response *pb;
};

/* What a blocking call waits for. */
struct sync {
	uint64_t call, request, post; /* one of them, or 0 */
	bool done;
	int status;
	struct evd_event *reply;
	struct response *response;
	bool wants_response;         /* or only its status */
	struct evd_answers *answers; /* evd_gather() */
};

struct evd {
	const _Atomic uint32_t *alive; /* @process; a page that fork() wipes */
	uint32_t process;
	pid_t pid; /* 0 if that page can be trusted */
	enum conn_state state;
	int fd;
	uint32_t epoch; /* connections so far */
	bool blocking, manual;
	bool write_dead; /* nothing can be written, reading goes on */

	struct outbuf out;
	struct window win;
	struct inbuf in;
	struct ref *refs; /* id is index + 1 */
	size_t n_refs, refs_size;

	struct memfds *mem;        /* NULL: without evd_set_memfd() */
	struct sequence *sequence; /* NULL: without evd_set_client_id() */
	struct evd_event cur;      /* in place */
	struct evd_event *given; /* what evd_next() gave: &cur, a node, NULL */
	int64_t given_deadline_ns; /* of its caller; INT64_MAX: none */
	bool ready;                /* cur is filled and not given yet */
	struct evd_event *first, *tail;
	size_t queued; /* bytes of the queue */
	struct sync sync;

	struct binding **bindings; /* by number */
	size_t bindings_size;
	uint32_t serial;
	struct binding *dirty;
	struct slots calls, requests, callers;
	uint32_t rebinding; /* answers missing in CONN_REBIND */
	bool again;         /* it was connected before: a reconnect */
	bool told_down;     /* EVD_DISCONNECTED was given for this gap */
	bool connecting;    /* evd_connect() waits, and tells of failures */
	uint32_t n_bindings;
	struct watch *watches;
	size_t n_watches, watches_size;
	uint64_t last_watch;
	struct will will;
	uint64_t callers_lost; /* callers up to this number are gone */

	uint64_t own_posts, own_bytes; /* evd_set_window(); 0: as granted */
	size_t room_wanted; /* EVD_ROOM for a post of this size - 1; 0: no */
	size_t max_queued;
	int timeout_ms;
	int min_ms, max_ms; /* reconnect */
	int pause_ms;
	int rcv_ms; /* SO_RCVTIMEO as set; -1: not set */
	int64_t due_ns, lost_ns, gathered_ns;
	uint64_t timer_replaced;
	int64_t timer_due_ns;

	uint64_t session, max_payload, max_calls;
	uint32_t call_timeout_ms;
	uint64_t n_failed, n_lost;
	uint64_t traced_id; /* of the last post that asked for its id */
	int drain_status;   /* first failure since evd_drain() */
	int status, close_status;
	char *path, *name;
	char server[128];
	char socket[EVD_SOCKET_MAX + 2];
	char error[TEXT_MAX], close_text[TEXT_MAX], drain_text[TEXT_MAX];
	char name_z[EVD_EVENT_MAX + 1], alias_z[EVD_ALIAS_MAX + 1];
	char text_z[TEXT_MAX];
	/* of other events than cur */
	char name_q[EVD_EVENT_MAX + 1], alias_q[EVD_ALIAS_MAX + 1];
	char text_q[TEXT_MAX];
};

/* ---- handle ---- */
static inline bool
evd__is_foreign(const struct evd *c)
{
	return UNLIKELY(atomic_load_explicit(c->alive, memory_order_relaxed) !=
			c->process) ||
	       (c->pid && c->pid != getpid());
}
int evd__foreign(struct evd *c); /* records and returns -ECHILD */
#define EVD_CHECK(c)                                            \
	do {                                                    \
		if (evd__is_foreign(c))                         \
			return evd__foreign((struct evd *)(c)); \
	} while (0)
/* Record a failure; returns its -errno. */
int evd__fail(struct evd *c, int status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* The same with the errno given, when it says more than the status's. */
int evd__fail_errno(struct evd *c, int err, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* The same with a peer's text, any bytes. */
int evd__fail_text(struct evd *c, int status, const char *text, size_t size);
void evd__text_copy(char *out, size_t out_size, const char *text, size_t size);
int64_t evd__now_ns(void);
int64_t evd__coarse_ns(void);
/* Deadline of @timeout_ms; 0: the handle's own; -1: INT64_MAX. */
int64_t evd__deadline(const struct evd *c, int timeout_ms);

/* ---- io ---- */
int evd__io_init(struct evd *c);
void evd__io_deinit(struct evd *c);
void evd__io_reset(struct evd *c); /* for a new connection */
/* Room for @size bytes of output; @force: over the limit too.
 * Returns the place, NULL if the queue is full or there is no memory. */
uint8_t *evd__out_room(struct evd *c, size_t size, bool force);
/* The same, inside a frame that gathers envelopes. */
uint8_t *evd__out_gather_any(struct evd *c, size_t size, bool force);
static inline uint8_t *
evd__out_gather(struct evd *c, size_t size, bool force)
{
	struct outbuf *out = &c->out;

	if (LIKELY(out->open && out->size - out->tail >= size + 2 &&
		    out->tail - out->frame - 2 + size <= OUT_FRAME_MAX))
		return out->data + out->tail;
	return evd__out_gather_any(c, size, force);
}
void evd__out_close(struct evd *c); /* end the frame that gathers */
static inline size_t
evd__out_pending(const struct evd *c)
{
	return c->out.tail - c->out.head;
}
/* Encode an envelope, or a message of Frame: 0 or -EAGAIN (queue full or out
 * of memory). */
int evd__out_envelope(struct evd *c, const struct envelope *e, bool force);
int evd__out_message(struct evd *c, unsigned field,
	const ProtobufCMessage *message, bool force);
/* Write what the socket takes: 0; a dead socket is found by reading. */
void evd__write(struct evd *c);
/* Read once: 1 something came, 0 nothing is there, or -errno; the loss of the
 * connection is handled. */
int evd__read(struct evd *c);
/* Wait until there is room for @size bytes of output: 0, or -EAGAIN (not
 * blocking), -ETIMEDOUT, -EPIPE, -ENOTCONN. */
int evd__room_wait(struct evd *c, size_t size, int64_t deadline);
/* Write, then wait until something came or could be written, or @deadline.
 * Return: 0, -ETIMEDOUT, -EINTR, -ENOTCONN (no connection, no try). */
int evd__block(struct evd *c, int64_t deadline);
/* The same for who only wants to write: returns as soon as something was. */
int evd__block_write(struct evd *c, int64_t deadline);

/* ---- parse ---- */
/* Walk to the next event in the read buffer: true if one is in @ev. Stops
 * too when the queue is filled or what a blocking call waits for is there. */
bool evd__parse(struct evd *c, struct evd_event *ev);
/* Walk all that was read, queueing the events. */
void evd__pump(struct evd *c);

/* ---- memfd ---- */
struct map *evd__map_ref(struct map *map);   /* NULL: nothing */
struct map *evd__map_unref(struct map *map); /* returns NULL */
size_t evd__map_size(const struct map *map);

/* ---- event ---- */
void evd__event_init(struct evd *c, struct evd_event *ev, int type);
struct evd_event *evd__event_copy(const struct evd_event *ev);
/* Queue a copy; @force: over the limit too. False if there was no room. */
bool evd__event_queue(struct evd *c, const struct evd_event *ev, bool force);
/* Queue a post's end, as one of a run if it follows the last one queued. */
void evd__event_queue_post(
	struct evd *c, int type, uint64_t number, int status);
/* Keep a text beside the handle for @ev. */
void evd__event_set_text(
	struct evd *c, struct evd_event *ev, const char *text, size_t size);
/* What was gathered some milliseconds ago is written. */
void evd__write_stale(struct evd *c);
/* Is there an event for evd_next()? Fills c->cur if need be. */
bool evd__event_ready(struct evd *c);
void evd__event_release(struct evd *c); /* the given one */
void evd__events_clear(struct evd *c);

/* ---- conn ---- */
/* The connection is gone, or a try failed. */
void evd__lost(struct evd *c, int status, const char *text);
/* A try that is due. */
void evd__step(struct evd *c);
void evd__on_welcome(struct evd *c, const uint8_t *data, size_t size);
void evd__on_rebound(struct evd *c); /* one answer of CONN_REBIND */
/* Wait until CONN_READY; -EAGAIN, -ENOTCONN, -EPIPE, -ETIMEDOUT ... */
int evd__ready(struct evd *c, int64_t deadline);
int evd__socket_path(struct evd *c, char *out); /* EVD_SOCKET_MAX + 2 */

/* Wait until c->sync is done; @what: "acknowledge the post". Return: 0, or
 * the -errno of its status, -ETIMEDOUT, -EPIPE. */
int evd__sync_wait(struct evd *c, int64_t deadline, const char *what);

/* ---- post ---- */
int evd__window_open(struct evd *c, uint64_t posts, uint64_t bytes);
void evd__window_lost(struct evd *c);
/* By what was granted, what the program wants, and what the ring holds. */
void evd__window_bound(struct evd *c);
/* The daemon grants another than it did. */
void evd__window_grant(struct evd *c, uint64_t posts, uint64_t bytes);
/* If it is the ring that a post has no room in, it gets more. */
void evd__window_grow(struct evd *c);
static inline bool
evd__window_has_room(const struct window *w, size_t size)
{
	/* not more than a window behind one that is slow to settle */
	return w->next - w->acked <= w->max_posts &&
	       (w->bytes + size <= w->max_bytes || !w->n);
}
/* EVD_ROOM, if it is wanted and there is some. */
void evd__room_tell(struct evd *c);
void evd__window_deinit(struct evd *c);
bool evd__on_ack(struct evd *c, const uint8_t *data, size_t size);
/* -1 malformed, 0 nothing to tell, 1 an event in @ev */
int evd__on_failure(
	struct evd *c, const uint8_t *data, size_t size, struct evd_event *ev);
/* Where an event goes and what it is: checked arguments. */
struct message {
	const char *alias;
	uint64_t id;
	const char *event;
	const void *data;
	size_t size;
	int memfd; /* @size bytes are in this descriptor - 1; 0: in @data */
};
int evd__message_check(
	struct evd *c, const struct message *m, struct envelope *e);
/* A payload of @size is over a limit: says which. */
int evd__size_failed(struct evd *c, size_t size);
int evd__alias_check(struct evd *c, const char *alias);
int evd__event_check(struct evd *c, const char *event);
/* Headers as encoded fields into @e, which the caller frees. */
int evd__headers_encode(struct evd *c, const struct evd_header *headers,
	size_t n, struct envelope *e);

/* ---- call ---- */
enum call_mode { CALL_SYNC, CALL_ASYNC, CALL_GATHER };
/* A call's options as far as the caller knew them; the rest is 0. */
int evd__call_options(struct evd *c, const struct evd_call_options *opt,
	struct evd_call_options *out);
/* Send a call; of a gather, @index is the answer's. Its number or -errno. */
int64_t evd__call_send(struct evd *c, const struct message *m,
	const struct evd_call_options *opt, enum call_mode mode, size_t index);
/* Milliseconds until its deadline as the daemon was told. */
uint32_t evd__call_timeout(const struct evd *c, int timeout_ms);
/* Tell the daemon that call @number is not wanted. */
int evd__call_cancel(struct evd *c, uint64_t number);
/* The delivered call that the daemon knows as @handle, and all is told. */
bool evd__on_cancelled(struct evd *c, struct evd_event *ev, uint64_t handle);
/* gather: answer number @i. */
void evd__answers_take(struct evd *c, size_t i, const struct evd_event *reply);
void evd__answers_lost(struct evd *c);
bool evd__on_reply(struct evd *c, struct evd_event *ev);
void evd__calls_lost(struct evd *c);
/* A post takes the delivered call @call with it: fill @e in, and once it is
 * sent the call is not ours any more. */
int evd__forward_begin(struct evd *c, uint64_t call, struct envelope *e);
void evd__forward_end(struct evd *c, uint64_t call);
/* An empty answer to a call that got none. */
void evd__reply_empty(struct evd *c, uint64_t call);

/* ---- bind ---- */
bool evd__on_delivery(struct evd *c, struct evd_event *ev);
bool evd__on_unbound(struct evd *c, struct evd_event *ev,
	const Eventd__V1__Unbound *unbound);
void evd__settle(struct evd *c, const struct evd_event *ev);
void evd__settles_tell(struct evd *c);   /* all that is pending */
void evd__bindings_reset(struct evd *c); /* for a new connection */
void evd__bindings_free(struct evd *c);
struct binding *evd__binding(struct evd *c, uint64_t number);
void evd__binding_free(struct evd *c, struct binding *b);
void evd__refs_free(struct evd *c);

/* ---- request ---- */
enum request_mode {
	REQUEST_SYNC,
	REQUEST_ASYNC,
	REQUEST_AGAIN,     /* of our own, in CONN_REBIND */
	REQUEST_LATER,     /* the same, and nothing waits for the answer */
	REQUEST_ABANDONED, /* nobody waits any more */
};
/* Send @request; @arg: the binding or id index it is about.
 * Return: its number or -errno. */
int64_t evd__request_send(struct evd *c, Eventd__V1__Request *request,
	uint64_t arg, enum request_mode mode);
/* Send and wait. @out: set on success; release with evd__response_free(). */
int evd__request(struct evd *c, Eventd__V1__Request *request, uint64_t arg,
	struct response **out);
/* The same until @deadline. */
int evd__request_until(struct evd *c, Eventd__V1__Request *request,
	uint64_t arg, struct response **out, int64_t deadline);
/* The same, and the answer must be of this kind. */
int evd__request_for(struct evd *c, Eventd__V1__Request *request,
	Eventd__V1__Response__ResultCase result, struct response **out);
struct response *evd__response_free(struct response *response);
/* -1 malformed, 0 nothing to tell, 1 an event in @ev */
int evd__on_response(
	struct evd *c, const uint8_t *data, size_t size, struct evd_event *ev);
void evd__requests_lost(struct evd *c);
void evd__rebind(struct evd *c); /* bind and resolve all again */
/* Unbind @number, whoever answers. */
void evd__unbind_abandoned(struct evd *c, uint64_t number);
void evd__bind_request(const struct binding *b, Eventd__V1__Request *request,
	Eventd__V1__Bind *bind, Eventd__V1__Mailbox *box);

/* ---- watch ---- */
bool evd__on_child(struct evd *c, struct evd_event *ev,
	const Eventd__V1__ChildChange *child);
bool evd__on_down(
	struct evd *c, struct evd_event *ev, const Eventd__V1__Down *down);
bool evd__on_gap(
	struct evd *c, struct evd_event *ev, const Eventd__V1__Gap *gap);
bool evd__on_traced(
	struct evd *c, struct evd_event *ev, const Eventd__V1__Traced *traced);
bool evd__on_name(struct evd *c, struct evd_event *ev,
	const Eventd__V1__NameChange *name);
/* The daemon's number of a watch; returns the user's, 0 if it is gone. */
uint64_t evd__watch_answered(struct evd *c, uint64_t number, uint64_t wire);
void evd__watch_drop(struct evd *c, uint64_t number);
void evd__watches_lost(struct evd *c, bool again);
void evd__watches_again(struct evd *c);
void evd__watches_free(struct evd *c);
void evd__goodbye(struct evd *c);

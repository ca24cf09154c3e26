#pragma once
/* libevd: talk to eventd from another program.
 *
 * A handle (struct evd) is one connection. One thread at a time uses it; two
 * threads use two handles. The library starts no threads, touches no signal
 * and has no global state.
 *
 * Every function that can fail returns 0 or a positive number, or -errno;
 * then evd_last_error() says what failed, which limit of which side, and its
 * number, and evd_last_status() gives the code of the table in status.h. In a
 * forked child every call returns -ECHILD (functions that return pointers or
 * unsigned numbers: NULL or 0) and only evd_free() is of use: make a new
 * handle there.
 *
 * Straight-line programs call evd_connect(), evd_post(), evd_call(),
 * evd_bind() and then, in a loop, evd_wait() and evd_next(). Programs with an
 * event loop of their own watch evd_fd() for evd_events() and evd_timeout_ms()
 * and then call evd_process() and evd_next() until it returns 0; they use the
 * functions that end in _start, and evd_set_blocking(c, false).
 *
 * Posts are gathered in a buffer and written when 64 KiB are there, on
 * evd_flush(), and before the library or evd_wait() waits for anything.
 *
 * Names: an alias is [A-Za-z0-9_./-]{1,255}, an event name the same up to 127
 * bytes; all strings are NUL-terminated. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <eventd/level.h>
#include <eventd/time.h>

#include <eventd/status.h>
#include <eventd/version.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EVD_API __attribute__((visibility("default")))

enum {
	EVD_ALIAS_MAX = 255, /* bytes, without the NUL */
	EVD_EVENT_MAX = 127, /* bytes, without the NUL */
	EVD_NAME_MAX = 127,  /* bytes of evd_set_name() */
	EVD_HEADERS_MAX =
		16384,        /* bytes of all headers of one event, encoded */
	EVD_SOCKET_MAX = 107, /* bytes of a socket path */
};

struct evd;       /* a handle */
struct evd_event; /* something that happened: evd_next(), evd_call() */

enum evd_event_type {
	EVD_DELIVERY = 1,     /* an event for an alias we hold; maybe a call */
	EVD_REPLY = 2,        /* the answer to evd_call_start() */
	EVD_POST_FAILED = 3,  /* a post was not accepted, or is lost */
	EVD_POST_SETTLED = 4, /* a post reached the level it asked for */
	EVD_UNBOUND = 5,      /* a binding ended without our asking */
	EVD_CLOSING = 6,      /* the daemon is about to stop */
	EVD_CONNECTED = 7,    /* evd_connect_start() is done */
	EVD_DISCONNECTED = 8, /* the connection was lost, or not made */
	EVD_RECONNECTED = 9,  /* it is back, and so are bindings and ids */
	EVD_RESPONSE = 10,    /* the answer to another ..._start() */
	EVD_CALL_CANCELLED = 11, /* who made a delivered call gave it up */
	EVD_DOWN = 20,           /* a session that we watch has ended */
	EVD_NAME = 21,           /* an alias that we watch has come or gone */
	EVD_GAP = 22,            /* events of a binding were dropped */
	EVD_CHILD = 23,          /* a session spawned with `tie` came or went */
	EVD_POST_ID = 24, /* the event's id of a post with EVD_POST_TRACE */
	EVD_ROOM = 26,    /* evd_want_room(): there is some now */
};

struct evd_header {
	const char *name;  /* as an event name */
	const void *value; /* @size bytes */
	size_t size;
};

enum evd_post_flag {
	/* fail with FULL at once if the mailbox is full, instead of waiting
	 * in the daemon for room */
	EVD_POST_NO_WAIT = 1 << 0,
	/* send EVD_POST_SETTLED when the level is reached */
	EVD_POST_NOTIFY = 1 << 1,
	/* keep its history, see history.h, and send EVD_POST_ID */
	EVD_POST_TRACE = 1 << 6,
	/* return -EAGAIN instead of waiting in this program for room */
	EVD_POST_TRY = 1 << 7,
	/* in the store until it is handled, also in a mailbox in memory, and
	 * whatever the level; -EOPNOTSUPP if it cannot be */
	EVD_POST_STORED = 1 << 8,
};

enum evd_priority {
	EVD_NORMAL = 0,
	EVD_URGENT = 1, /* handled before those that are not */
};

enum { EVD_KEY_MAX = 64 }; /* bytes, without the NUL */

/* Zero it, then set @size and what is wanted; later versions add fields at
 * the end. */
struct evd_post_options {
	size_t size;    /* sizeof(struct evd_post_options) */
	uint32_t level; /* enum evd_level */
	uint32_t flags; /* enum evd_post_flag, or-ed */
	uint64_t id;    /* from evd_resolve(), if the alias argument is NULL */
	const struct evd_header *headers;
	size_t n_headers;
	int timeout_ms;    /* to wait; 0: evd_set_timeout(), -1: for ever */
	uint32_t priority; /* enum evd_priority */
	uint32_t ttl_ms;   /* time to live: it expires if it is not handled in
			    * this time; 0: no end */
	const char *key;   /* sent again with the same key, it is accepted
			    * once; NULL: none */
	uint64_t forward;  /* evd_event_call() of a delivery: who handles this
			    * post answers that call; 0: none */
};

/* The same for calls. */
struct evd_call_options {
	size_t size;    /* sizeof(struct evd_call_options) */
	uint64_t id;    /* from evd_resolve(), if the alias argument is NULL */
	int timeout_ms; /* 0: the daemon's default, -1: for ever */
	uint32_t priority;
	uint32_t ttl_ms;
	const struct evd_header *headers;
	size_t n_headers;
	uint32_t n_wanted; /* evd_gather(): good answers that are enough; 0: all
			    */
};

struct evd_answers; /* what evd_gather() gathered */

/* Zero it, then set @size and one of @delay_ms, @at_ns and @calendar. */
struct evd_delay_options {
	size_t size;        /* sizeof(struct evd_delay_options) */
	uint64_t delay_ms;  /* due so long after now, elapsed time */
	int64_t at_ns;      /* or due at this wall-clock time since the epoch */
	uint64_t repeat_ms; /* and then every so often; 0: once */
	const struct evd_header *headers;
	size_t n_headers;
	/* An earlier timer for the alias by this name is cancelled. */
	const char *name;
	uint64_t slack_ms;    /* may be so much late, to fire with others */
	int clock;            /* enum evd_clock, of delay_ms */
	const char *calendar; /* or due by this: systemd.time(7), crontab(5) */
	const char *zone;     /* of the calendar; NULL: the daemon's */
	int misfire; /* enum evd_misfire, of the calendar or what is durable */
	uint32_t priority; /* enum evd_priority, of each event */
	uint32_t ttl_ms;   /* of each event, from when it is due */
	int keep;          /* enum evd_keep */
};

/* Zero it, then set @size, which timer, and what is to change. */
struct evd_adjust_options {
	size_t size;    /* sizeof(struct evd_adjust_options) */
	uint64_t timer; /* by id; 0: by alias and name */
	const char *alias, *name;
	int due;           /* it is due in delay_ms, or else at at_ns */
	int repeat;        /* and then every repeat_ms; 0: once */
	uint64_t delay_ms; /* by the clock it has */
	int64_t at_ns;
	uint64_t repeat_ms;
};

/* ---- handles ----------------------------------------------------------- */

/**
 * evd_new() - a handle, not connected
 *
 * Reconnecting is off, blocking and automatic settling are on, the time-out of
 * requests is 30 s, at most 16 MiB are queued.
 *
 * Return: the handle, to be released by evd_free(); NULL if out of memory.
 */
EVD_API struct evd *evd_new(void);

/**
 * evd_free() - close the connection and free the handle
 * @c: may be NULL
 *
 * As evd_close(). Gathered posts that were not flushed may be lost: see
 * evd_flush() and evd_drain(). Events and pages that were taken from it by a
 * function which says that you own them stay valid. Safe in a forked child:
 * there it leaves the parent's connection alone.
 *
 * Return: NULL.
 */
EVD_API struct evd *evd_free(struct evd *c);

/**
 * evd_set_socket() - choose the daemon's socket by its path
 * @path: up to EVD_SOCKET_MAX bytes, copied; NULL: back to the default
 *
 * The default is $EVENTD_SOCKET, or else /run/eventd/eventd.sock. A path that
 * is set explicitly goes before $EVENTD_SOCKET.
 *
 * Return: 0, or -ENAMETOOLONG (also when $EVENTD_SOCKET is too long, then
 * at evd_connect()), -EINVAL (empty), -EISCONN, -ENOMEM, -ECHILD.
 */
EVD_API int evd_set_socket(struct evd *c, const char *path);

/**
 * evd_set_user_socket() - choose the socket of this user's own daemon
 * @user: true: $XDG_RUNTIME_DIR/eventd/eventd.sock. false: the system's,
 *        /run/eventd/eventd.sock. Both go before $EVENTD_SOCKET.
 *
 * Return: 0, or -ENOENT ($XDG_RUNTIME_DIR is not set), -ENAMETOOLONG,
 * -EISCONN, -ECHILD.
 */
EVD_API int evd_set_user_socket(struct evd *c, bool user);

/* The path that evd_connect() uses or used; NULL if none can be told (too
 * long, out of memory). Valid until the next evd_set_...socket(). */
EVD_API const char *evd_socket(struct evd *c);

/**
 * evd_set_name() - what this program is called in `eventctl list`
 * @name: up to EVD_NAME_MAX printable bytes, copied. Default: the name that the
 *        program was started by.
 *
 * Return: 0, or -EINVAL, -EISCONN, -ENOMEM, -ECHILD.
 */
EVD_API int evd_set_name(struct evd *c, const char *name);

/**
 * evd_set_reconnect() - connect again when the connection is lost
 * @min_ms: first pause, 1 or more; doubles, with a random part taken off
 * @max_ms: longest pause, >= @min_ms. Both 0: reconnecting is off.
 *
 * After a loss: EVD_POST_FAILED with status LOST for each post whose outcome
 * is unknown, EVD_REPLY and EVD_RESPONSE with status LOST for what was in
 * flight, EVD_DISCONNECTED; then, when it is back, the bindings are made
 * again, ids from evd_resolve() go on being valid, and EVD_RECONNECTED
 * tells how long the gap was. A binding that cannot be made again is
 * EVD_UNBOUND. Deliveries that were not settled may come once more, with
 * evd_event_attempt() above 0; posts are never sent twice, but for those of
 * evd_set_client_id(), which are accepted once.
 *
 * With reconnecting off a loss ends the bindings as evd_close() does; ids stay
 * valid and mean something again after the next evd_connect().
 *
 * Return: 0, or -EINVAL, -ECHILD.
 */
EVD_API int evd_set_reconnect(struct evd *c, int min_ms, int max_ms);

/**
 * evd_set_max_queued() - limit what the handle holds in memory
 * @size: bytes of unsent output, and the same again of unread events; at least
 *        65536
 *
 * Return: 0, or -EINVAL, -ECHILD.
 */
EVD_API int evd_set_max_queued(struct evd *c, size_t size);

/**
 * evd_set_blocking() - may evd_post() and evd_flush() wait?
 * @blocking: true (default): they wait for the daemon's window or the socket,
 *            and for a connection that is being made; they read while they
 *            wait, so that neither side stops the other. false: they return
 *            -EAGAIN.
 *
 * Return: 0, or -ECHILD.
 */
EVD_API int evd_set_blocking(struct evd *c, bool blocking);

/**
 * evd_set_manual_settle() - say yourself when a delivery is handled
 * @manual: false (default): a delivery is settled, and a call that was neither
 *          answered nor deferred gets an empty reply, when the next event is
 *          asked for. true: call evd_settle() and evd_reply().
 *
 * Return: 0, or -ECHILD.
 */
EVD_API int evd_set_manual_settle(struct evd *c, bool manual);

/**
 * evd_set_timeout() - time-out of every blocking function without one
 * @timeout_ms: milliseconds; -1 waits for ever
 *
 * Return: 0, or -EINVAL, -ECHILD.
 */
EVD_API int evd_set_timeout(struct evd *c, int timeout_ms);

/**
 * evd_last_error() - why the last function that failed did so
 * @c: may be NULL (then: "out of memory")
 *
 * Return: one line of UTF-8; "" if nothing failed yet. Valid until the next
 * call on @c.
 */
EVD_API const char *evd_last_error(const struct evd *c);

/* The enum evd_status of the last failure; 0 if nothing failed yet. */
EVD_API int evd_last_status(const struct evd *c);

/* ---- connecting -------------------------------------------------------- */

/**
 * evd_connect() - connect and greet
 * @timeout_ms: milliseconds; 0: evd_set_timeout(), -1: for ever
 *
 * Return: 0, or -ECONNREFUSED (nothing listens), -ENOENT (no such socket),
 * -EACCES (no right to it), -ENAMETOOLONG, -ETIMEDOUT, -EPROTO (what listens
 * is not eventd, or of another version), -EISCONN, -EMFILE, -ENOMEM, -ECHILD.
 */
EVD_API int evd_connect(struct evd *c, int timeout_ms);

/**
 * evd_connect_start() - begin to connect
 *
 * Does not wait. EVD_CONNECTED or EVD_DISCONNECTED follows from evd_next();
 * with evd_set_reconnect() it goes on trying.
 *
 * Return: 0, or without evd_set_reconnect() the errors of evd_connect() that
 * show at once.
 */
EVD_API int evd_connect_start(struct evd *c);

/* Drop the connection in order: evd_will() is void, and who watches our
 * aliases is told of a normal end. What was gathered may be lost. The handle
 * can connect again. Return: 0 or -ECHILD. */
EVD_API int evd_close(struct evd *c);

/* Is the connection made and greeted? */
EVD_API bool evd_is_connected(const struct evd *c);

/* What the daemon said of itself: "eventd 0.1.0"; "" before the greeting. */
EVD_API const char *evd_server(const struct evd *c);
/* Id of this connection's session; 0 when not connected. */
EVD_API uint64_t evd_session(const struct evd *c);
/* Limits that the daemon granted; 0 before the greeting. */
EVD_API uint64_t evd_max_payload(const struct evd *c);  /* bytes */
EVD_API uint64_t evd_window_posts(const struct evd *c); /* count */
EVD_API uint64_t evd_window_bytes(const struct evd *c); /* bytes */

/* ---- the loop ---------------------------------------------------------- */

/**
 * evd_fd() - what to poll
 *
 * Ask again after every evd_process(): it changes with the connection.
 *
 * Return: a descriptor to watch (level-triggered) and nothing else; -1 when
 * there is none at the moment; -ECHILD.
 */
EVD_API int evd_fd(const struct evd *c);

/* POLLIN and POLLOUT as wanted now; 0 if there is no descriptor; -ECHILD. */
EVD_API int evd_events(const struct evd *c);

/* Milliseconds after which evd_process() must be called though the descriptor
 * is quiet: 0 at once, -1 never; -ECHILD. */
EVD_API int evd_timeout_ms(const struct evd *c);

/**
 * evd_process() - write what is gathered, read what is there
 *
 * Never waits. Releases the event that evd_next() gave out.
 *
 * Return: 1 if evd_next() has an event, 0 if not, or -ENOTCONN (there is
 * neither a connection nor a try to make one, and no event), -ENOMEM, -ECHILD.
 */
EVD_API int evd_process(struct evd *c);

/**
 * evd_wait() - evd_process() until there is an event
 * @timeout_ms: milliseconds; 0 does not wait, -1 waits for ever
 *
 * Flushes, then waits also when the handle is not blocking. Returns early
 * with -EINTR when a signal handler ran.
 *
 * Return: 1 if evd_next() has an event, 0 at the time-out, or -EINTR and the
 * errors of evd_process().
 */
EVD_API int evd_wait(struct evd *c, int timeout_ms);

/**
 * evd_next() - take the next event
 * @event: set to a borrowed event: valid until the next evd_next(),
 *         evd_process(), evd_wait() or evd_free() on @c. It stays valid across
 *         all other calls, blocking ones too. Keep a copy: evd_event_dup()
 *
 * Settles the delivery that was given out before (unless
 * evd_set_manual_settle()). Reads nothing from the socket: only takes what
 * evd_process(), evd_wait() or a blocking call has read.
 *
 * Return: 1, or 0 (no event: evd_wait() or poll), -ENOMEM, -ECHILD.
 */
EVD_API int evd_next(struct evd *c, const struct evd_event **event);

/**
 * evd_flush() - write the gathered posts
 *
 * Return: 0: all is with the kernel. Not blocking: 1 if some is left, poll for
 * evd_events(). -ENOTCONN, -EPIPE (connection lost), -ETIMEDOUT (blocking),
 * -ENOMEM, -ECHILD.
 */
EVD_API int evd_flush(struct evd *c);

/**
 * evd_drain() - flush and wait until every post is settled
 * @timeout_ms: milliseconds; 0: evd_set_timeout(), -1: for ever
 *
 * Return: 0: each post since the last evd_drain() reached its level. Or the
 * -errno of the first that failed (EVD_POST_FAILED tells of each of them),
 * -ETIMEDOUT, -EPIPE, -ENOTCONN, -ENOMEM, -ECHILD.
 */
EVD_API int evd_drain(struct evd *c, int timeout_ms);

/* Posts that are not settled yet; and posts that failed, since evd_new(). */
EVD_API uint64_t evd_posts_pending(const struct evd *c);
EVD_API uint64_t evd_posts_failed(const struct evd *c);

/* ---- posting ----------------------------------------------------------- */

/**
 * evd_post() - send an event, one way
 * @alias: of the receiver
 * @event: name of the event
 * @data:  payload of @size bytes, copied; NULL only if @size is 0
 * @size:  0..evd_max_payload()
 *
 * Gathers; see the head of this file. That the post failed (no such alias,
 * full, denied) shows later, as EVD_POST_FAILED or from evd_drain(): use
 * evd_post_wait() to know at once.
 *
 * Return: 0 (gathered), or -EINVAL (a name is not valid), -EMSGSIZE (@size),
 * -EAGAIN (not blocking: the window that the daemon granted, evd_set_window()
 * or the handle's queue is full, or the connection is not made yet; nothing
 * gathered; see evd_want_room()), -ETIMEDOUT (blocking: the same for
 * evd_set_timeout()), -ENOTCONN, -EPIPE (connection lost), -ENOMEM, -ECHILD.
 */
EVD_API int evd_post(struct evd *c, const char *alias, const char *event,
	const void *data, size_t size);

/* The same to an id from evd_resolve(): -ESRCH if there is no such id. */
EVD_API int evd_post_id(struct evd *c, uint64_t id, const char *event,
	const void *data, size_t size);

/**
 * evd_post_opt() - the same with options
 * @alias: NULL: to @opt->id
 * @opt:   may be NULL
 *
 * Return: the number of the post, 1 or more, which EVD_POST_FAILED and
 * EVD_POST_SETTLED give back as evd_event_post(); or the errors of evd_post()
 * and -E2BIG (headers larger than EVD_HEADERS_MAX).
 */
EVD_API int64_t evd_post_opt(struct evd *c, const char *alias,
	const char *event, const void *data, size_t size,
	const struct evd_post_options *opt);

/**
 * evd_post_wait() - post and wait until the level is reached
 *
 * Takes evd_post_opt()'s arguments; flushes. Waits opt->timeout_ms, also when
 * the handle is not blocking.
 *
 * Return: 0, or the errors of evd_post_opt(); -ENOENT (no session holds the
 * alias), -EAGAIN (EVD_POST_NO_WAIT: the mailbox is full), -EACCES (refused by
 * policy), -EDQUOT (a limit), -EHOSTUNREACH (the session has failed),
 * -EOPNOTSUPP (level not available), -ETIMEDOUT (the post may still be
 * accepted), and what else status.h lists.
 */
EVD_API int evd_post_wait(struct evd *c, const char *alias, const char *event,
	const void *data, size_t size, const struct evd_post_options *opt);

/**
 * evd_resolve() - an id for an alias, to post and call by
 * @id: set on success: never 0, valid until evd_free() and across reconnects.
 *      It means the alias, whoever holds it. Each call makes another one.
 *
 * Return: 0, or -EINVAL, -ENOENT, -EACCES, -EDQUOT, -ETIMEDOUT, -ENOTCONN,
 * -EPIPE, -ENOMEM, -ECHILD.
 */
EVD_API int evd_resolve(struct evd *c, const char *alias, uint64_t *id);

/* ---- calling ----------------------------------------------------------- */

/**
 * evd_call() - send an event and wait for the reply
 * @alias:      of the receiver
 * @event:      name of the event
 * @data:       payload of @size bytes, copied; NULL only if @size is 0
 * @size:       0..evd_max_payload()
 * @timeout_ms: milliseconds; 0: the daemon's default, -1: for ever
 * @reply:      set on success only: evd_event_data(), evd_event_size();
 *              release with evd_event_free(). NULL if not wanted
 *
 * Runs at most once: after -ETIMEDOUT or -EPIPE it may have run.
 *
 * Return: 0, or -EREMOTEIO (the handler answered with an error:
 * evd_last_error() is its text), -ENOENT (no session holds the alias),
 * -EACCES (refused by policy), -EAGAIN (mailbox full), -ETIMEDOUT,
 * -EHOSTDOWN (the session died before it answered), -EHOSTUNREACH (it has
 * failed), -EDQUOT (too many calls), -EINVAL, -EMSGSIZE, -EPIPE (connection
 * lost), -ENOTCONN, -ENOMEM, -ECHILD, and what else status.h lists.
 */
EVD_API int evd_call(struct evd *c, const char *alias, const char *event,
	const void *data, size_t size, int timeout_ms,
	struct evd_event **reply);

/* The same to an id from evd_resolve(): -ESRCH if there is no such id. */
EVD_API int evd_call_id(struct evd *c, uint64_t id, const char *event,
	const void *data, size_t size, int timeout_ms,
	struct evd_event **reply);

/**
 * evd_call_start() - send a call, do not wait
 *
 * Gathers as evd_post() does. EVD_REPLY with evd_event_call() equal to the
 * number returned follows in any case, by the deadline or the loss of the
 * connection at the latest.
 *
 * Return: the number of the call, 1 or more, or -EINVAL, -EMSGSIZE, -EAGAIN
 * (too many calls outstanding or the queue is full), -ENOTCONN, -EPIPE,
 * -ENOMEM, -ECHILD.
 */
EVD_API int64_t evd_call_start(struct evd *c, const char *alias,
	const char *event, const void *data, size_t size, int timeout_ms);

/* The same to an id from evd_resolve(): -ESRCH if there is no such id. */
EVD_API int64_t evd_call_start_id(struct evd *c, uint64_t id, const char *event,
	const void *data, size_t size, int timeout_ms);

/* The same with options; @alias NULL: to @opt->id. @opt may be NULL. Also
 * -E2BIG (headers larger than EVD_HEADERS_MAX). */
EVD_API int evd_call_opt(struct evd *c, const char *alias, const char *event,
	const void *data, size_t size, const struct evd_call_options *opt,
	struct evd_event **reply);
EVD_API int64_t evd_call_start_opt(struct evd *c, const char *alias,
	const char *event, const void *data, size_t size,
	const struct evd_call_options *opt);

/**
 * evd_call_cancel() - take a call of evd_call_start() back
 * @call: its number
 *
 * Gathers as evd_post() does. EVD_REPLY follows as ever, with the status
 * CANCELLED unless the answer was on its way. An event that was still queued
 * is not handled; a client that has it is told by EVD_CALL_CANCELLED.
 *
 * Return: 0, or -ESRCH (answered, or no such call), -EAGAIN (too many requests
 * outstanding), -ENOTCONN, -EPIPE, -ENOMEM, -ECHILD.
 */
EVD_API int evd_call_cancel(struct evd *c, uint64_t call);

/**
 * evd_gather() - call many and wait for their answers
 * @aliases: @n of them, 1..1024
 * @opt:     may be NULL; with n_wanted, that many good answers are enough and
 *           the other calls are cancelled
 * @out:     set on success; release with evd_answers_free()
 *
 * Blocks until all have answered somehow, there are enough good answers, or
 * the deadline has passed. That somebody fails is no failure of it.
 *
 * Return: how many answered well, 0..@n, or -EINVAL, -E2BIG, -EMSGSIZE,
 * -EAGAIN (too many calls), -ENOTCONN, -EPIPE, -ENOMEM, -ECHILD.
 */
EVD_API int evd_gather(struct evd *c, const char *const *aliases, size_t n,
	const char *event, const void *data, size_t size,
	const struct evd_call_options *opt, struct evd_answers **out);

/* Answers, in the order of the aliases. Strings and data are valid until
 * evd_answers_free(). */
EVD_API size_t evd_answers_count(const struct evd_answers *a);
EVD_API const char *evd_answers_alias(const struct evd_answers *a, size_t i);
/* enum evd_status; CANCELLED: there were enough others. */
EVD_API int evd_answers_status(const struct evd_answers *a, size_t i);
/* Never NULL; of a status other than 0 it is a text. */
EVD_API const void *evd_answers_data(
	const struct evd_answers *a, size_t i, size_t *size);
/* Returns NULL. @a may be NULL. */
EVD_API struct evd_answers *evd_answers_free(struct evd_answers *a);

/**
 * evd_forward() - let another session answer a call that was delivered
 * @call: evd_event_call() of the delivery
 *
 * Posts the event; whoever handles it answers the first caller, who waits no
 * longer for that. If the post fails (EVD_POST_FAILED) the caller is answered
 * with its status.
 *
 * Return: as evd_post_opt(), and -ESRCH (the call is answered already).
 */
EVD_API int64_t evd_forward(struct evd *c, uint64_t call, const char *alias,
	const char *event, const void *data, size_t size);

/**
 * evd_reply() - answer a call that was delivered
 * @call: evd_event_call() of the delivery
 * @data: @size bytes, copied
 *
 * Gathers as evd_post() does. At most one answer a call. Later than the next
 * evd_next() only after evd_defer().
 *
 * Return: 0, or -EINVAL (@call is 0), -ESRCH (it is answered already), -EPIPE
 * (its connection is gone), -EMSGSIZE, -EAGAIN, -ETIMEDOUT, -ENOTCONN,
 * -ENOMEM, -ECHILD.
 */
EVD_API int evd_reply(
	struct evd *c, uint64_t call, const void *data, size_t size);

/* Answer with an error: the caller's evd_call() returns -EREMOTEIO and @text.
 * @text: UTF-8, may be NULL. Return: as evd_reply(). */
EVD_API int evd_reply_error(struct evd *c, uint64_t call, const char *text);

/**
 * evd_defer() - answer the current call later
 * @event: the delivery that evd_next() gave out last, with a call
 *
 * Return: 0; evd_reply() may be called with evd_event_call() until the
 * caller's deadline. Or -EINVAL (not the current event, or no call), -ECHILD.
 */
EVD_API int evd_defer(struct evd *c, const struct evd_event *event);

/* ---- receiving --------------------------------------------------------- */

/**
 * evd_settle() - a delivery and all before it of its binding are handled
 * @event: a delivery, borrowed or a copy
 *
 * For evd_set_manual_settle(). Told to the daemon by and by, at evd_flush() at
 * the latest.
 *
 * Return: 0 (also if it was settled before), or -EINVAL (not a delivery),
 * -ESRCH (its binding is gone), -EPIPE (it came by a connection that was
 * lost), -ECHILD.
 */
EVD_API int evd_settle(struct evd *c, const struct evd_event *event);

/* ---- later ------------------------------------------------------------- */

/**
 * evd_delay() - post after a time
 * @delay_ms: milliseconds from now, elapsed time
 *
 * Return: the timer's id, 1 or more, or -EINVAL, -ENOENT, -EACCES, -EDQUOT,
 * -EMSGSIZE, -ETIMEDOUT, -ENOTCONN, -EPIPE, -ENOMEM, -ECHILD.
 */
EVD_API int64_t evd_delay(struct evd *c, const char *alias, const char *event,
	const void *data, size_t size, uint64_t delay_ms);

/* The same at a wall-clock time: nanoseconds since the epoch, not 0. One that
 * is over fires at once. */
EVD_API int64_t evd_alarm(struct evd *c, const char *alias, const char *event,
	const void *data, size_t size, int64_t at_ns);

/* The same with options: repeats, headers. */
EVD_API int64_t evd_delay_opt(struct evd *c, const char *alias,
	const char *event, const void *data, size_t size,
	const struct evd_delay_options *opt);

/* When the timer that one of the above made last is due: wall clock,
 * nanoseconds since the epoch; 0 if there was none. */
EVD_API int64_t evd_due_ns(const struct evd *c);

/**
 * evd_cancel() - take a timer back
 *
 * Return: 0: it will not fire (again), or -ESRCH (no such timer, or it has
 * fired), -EACCES, -ETIMEDOUT, -ENOTCONN, -EPIPE, -ENOMEM, -ECHILD.
 */
EVD_API int evd_cancel(struct evd *c, uint64_t timer);

/* The same for the timer called @name that goes to @alias, whoever set it, or
 * that the session itself has set which holds the alias. */
EVD_API int evd_cancel_name(struct evd *c, const char *alias, const char *name);

/* All timers that go to @alias, but for the schedule of its session's file: how
 * many, or a negative error as of evd_cancel(). */
EVD_API int64_t evd_cancel_all(struct evd *c, const char *alias);

/* The timer that the last one of the above took the place of; 0: none. */
EVD_API uint64_t evd_replaced(const struct evd *c);

/**
 * evd_adjust() - change a pending timer
 *
 * Return: its id, and evd_due_ns() tells when it is due now; or -ESRCH (no such
 * timer, or it has fired), -EINVAL (also: a calendar repeats by itself),
 * -EACCES, -ETIMEDOUT, -ENOTCONN, -EPIPE, -ENOMEM, -ECHILD.
 */
EVD_API int64_t evd_adjust(struct evd *c, const struct evd_adjust_options *opt);

/* ---- requests without waiting ------------------------------------------ */

/* Each takes the arguments of the function it is named for and returns the
 * number of the request, 1 or more, or -EINVAL, -EMSGSIZE, -EAGAIN (too many
 * requests outstanding, the queue is full, or not connected yet), -ENOTCONN,
 * -EPIPE, -ENOMEM, -ECHILD. EVD_RESPONSE with evd_event_request() equal to it
 * follows: evd_event_status() and evd_event_text(), and on success
 * evd_event_result(): the binding, the id or the timer. */
EVD_API int64_t evd_bind_start(struct evd *c, const char *alias,
	uint32_t window_events, uint64_t window_bytes);
EVD_API int64_t evd_unbind_start(struct evd *c, int binding);
EVD_API int64_t evd_resolve_start(struct evd *c, const char *alias);
EVD_API int64_t evd_delay_start(struct evd *c, const char *alias,
	const char *event, const void *data, size_t size,
	const struct evd_delay_options *opt);
EVD_API int64_t evd_cancel_start(struct evd *c, uint64_t timer);
EVD_API int64_t evd_ping_start(struct evd *c);

/* ---- events ------------------------------------------------------------ */

/* Accessors: strings are NUL-terminated and as valid as the event is; a field
 * that the type does not have is 0 or "". Not NULL-safe. */

/* A copy that you own, also of a copy; NULL if out of memory. */
EVD_API struct evd_event *evd_event_dup(const struct evd_event *event);
/* Free a copy, or a reply of evd_call(); NULL and borrowed events are left
 * alone. Returns NULL. */
EVD_API struct evd_event *evd_event_free(struct evd_event *event);

EVD_API int evd_event_type(const struct evd_event *event);
/* "delivery", "reply" ...; "unknown" */
EVD_API const char *evd_event_type_name(int type);
/* Delivery: name of the event. */
EVD_API const char *evd_event_name(const struct evd_event *event);
/* Delivery, reply: payload, evd_event_size() bytes, not NUL-terminated; never
 * NULL. */
EVD_API const void *evd_event_data(const struct evd_event *event);
EVD_API size_t evd_event_size(const struct evd_event *event);
/* Delivery, unbound: the alias it came to, and its binding. */
EVD_API const char *evd_event_alias(const struct evd_event *event);
EVD_API int evd_event_binding(const struct evd_event *event);
/* Delivery, post id: the event's id; delivery: the sending session's id, which
 * attempt it is (0: the first), how late a delay fired (ns). */
EVD_API uint64_t evd_event_id(const struct evd_event *event);
EVD_API uint64_t evd_event_from(const struct evd_event *event);
EVD_API uint32_t evd_event_attempt(const struct evd_event *event);
EVD_API uint64_t evd_event_late_ns(const struct evd_event *event);
/* Delivery: enum evd_priority; of a call, how long its caller waited yet when
 * it was read, 0: not known. Calls made while it is the current event and not
 * answered end with that deadline at the latest. */
EVD_API int evd_event_priority(const struct evd_event *event);
EVD_API uint32_t evd_event_deadline_ms(const struct evd_event *event);
/* Delivery: when it was due, if a timer fired it: wall clock, nanoseconds since
 * the epoch; else 0. */
EVD_API int64_t evd_event_due_ns(const struct evd_event *event);
/* Delivery: the call to answer with evd_reply(), 0: no answer is expected.
 * Reply: the number from evd_call_start(). Call cancelled: the delivered call
 * that needs no answer any more. */
EVD_API uint64_t evd_event_call(const struct evd_event *event);
/* Post failed, post settled: the number from evd_post_opt(). */
EVD_API uint64_t evd_event_post(const struct evd_event *event);
/* Response: the number of the request, and its result. */
EVD_API uint64_t evd_event_request(const struct evd_event *event);
EVD_API uint64_t evd_event_result(const struct evd_event *event);
/* Reply, response, post failed, unbound, disconnected: enum evd_status, and
 * what it is about (of a reply: its payload, cut at 1 KiB). */
EVD_API int evd_event_status(const struct evd_event *event);
EVD_API const char *evd_event_text(const struct evd_event *event);
/* Reconnected: milliseconds without connection, in which deliveries may have
 * been missed, and how many posts were lost. */
EVD_API uint64_t evd_event_gap_ms(const struct evd_event *event);
EVD_API uint64_t evd_event_lost(const struct evd_event *event);
/* Delivery: headers as posted. */
EVD_API size_t evd_event_n_headers(const struct evd_event *event);
/* Number @i: fills @header with borrowed pointers; @header->name is NOT
 * NUL-terminated, see @name_size. Return: 0, or -ERANGE. */
EVD_API int evd_event_header_at(const struct evd_event *event, size_t i,
	struct evd_header *header, size_t *name_size);
/* The value of the first one of that name, @size bytes; NULL if none. */
EVD_API const void *evd_event_header(
	const struct evd_event *event, const char *name, size_t *size);

#include <eventd/names.h>

/* ---- words ------------------------------------------------------------- */

/* The library's version, "0.1.0"; EVD_VERSION is that of the header. */
EVD_API const char *evd_version(void);
/* The table of status.h: word, one line for people, positive errno, exit
 * code; of an unknown status "unknown", "unknown status", EIO, 70. */
EVD_API const char *evd_status_word(int status);
EVD_API const char *evd_status_text(int status);
EVD_API int evd_status_errno(int status);
EVD_API int evd_status_exit(int status);
/* The status whose errno is @err or -@err; INTERNAL if there is none. */
EVD_API int evd_status_from_errno(int err);

#ifdef __cplusplus
}
#endif

#include <eventd/access.h>
#include <eventd/history.h>
#include <eventd/look.h>
#include <eventd/memfd.h>
#include <eventd/queue.h>
#include <eventd/room.h>
#include <eventd/sequence.h>

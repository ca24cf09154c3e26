#pragma once
/* Part of client.h: taking aliases, waiting for them, and watching sessions and
 * names. */

/**
 * evd_bind() - take an alias; its events come as EVD_DELIVERY
 * @window_events: deliveries not yet settled at most; 0: the daemon's default
 * @window_bytes:  their payload bytes at most; 0: the daemon's default
 *
 * Return: the binding, 1..65535, or -EINVAL, -EADDRINUSE (another session
 * holds the alias), -EACCES (refused by policy), -EDQUOT, -ETIMEDOUT,
 * -ENOTCONN, -EPIPE, -ENOMEM, -ECHILD.
 */
EVD_API int evd_bind(struct evd *c, const char *alias, uint32_t window_events,
	uint64_t window_bytes);

/**
 * evd_unbind() - give an alias back
 *
 * Deliveries that were read before stay in evd_next(); those not settled go
 * back to the queue or become dead letters.
 *
 * Return: 0, or -ESRCH (no such binding), -ETIMEDOUT, -ENOTCONN, -EPIPE,
 * -ENOMEM, -ECHILD.
 */
EVD_API int evd_unbind(struct evd *c, int binding);

/* What to do if another session holds the alias. */
enum evd_if_taken {
	EVD_TAKEN_REFUSE = 0,  /* fail with -EADDRINUSE */
	EVD_TAKEN_QUEUE = 1,   /* wait in line until it is ours */
	EVD_TAKEN_REPLACE = 2, /* make the holder go, if it allows that */
};

/* Who gets the events of an alias. All who bind one alias do so alike. */
enum evd_bind_mode {
	EVD_BIND_EXCLUSIVE = 0, /* one client alone */
	EVD_BIND_SHARED = 1,    /* one of those that have bound it: the one
				 * that has the fewest to settle. What one has
				 * when it leaves goes to the others */
	EVD_BIND_FANOUT = 2,    /* all of them; the mailbox in the options is
				 * that of this subscriber */
	EVD_BIND_MONITOR = 3,   /* copies of what the holder handles come. It
				 * must be held; wants the right see, and to see
				 * payloads (4096 bytes of each) manage. Who is
				 * too slow loses some: EVD_GAP. `_stuck` and
				 * `_returned` among them are the daemon's: a
				 * handler of it takes too long */
};

/* Zero it, then set @size and what is wanted. */
struct evd_bind_options {
	size_t size;            /* sizeof(struct evd_bind_options) */
	uint32_t window_events; /* as of evd_bind() */
	uint32_t if_taken;      /* enum evd_if_taken */
	uint64_t window_bytes;
	int allow_replace; /* may others take it by EVD_TAKEN_REPLACE? */
	int timeout_ms;    /* evd_bind_opt(); 0: evd_set_timeout(), -1: ever */
	/* What waits behind the window, if the alias is held by nobody. With
	 * drop-oldest and drop-newest EVD_GAP tells what was dropped. */
	const char *overflow; /* as Overflow= in a file; NULL: "block" */
	uint32_t max_events;  /* at most 65536; 0: 1024 */
	uint64_t max_bytes;   /* at most 64 MiB; 0: 4 MiB */
	uint32_t mode;        /* enum evd_bind_mode */
	/* The mailbox is durable: it stays, within these bounds, when nobody is
	 * bound and when the daemon ends, until `eventctl stop`. */
	int durable;
};

/**
 * evd_bind_opt() - evd_bind() with options
 * @opt: may be NULL
 *
 * Whoever is replaced gets EVD_UNBOUND with the status TAKEN. After -ETIMEDOUT
 * the place in line is given up.
 *
 * Return: as evd_bind(), and -EINVAL for an overflow that is none, for a
 * mailbox that is a session file's, or for if_taken or allow_replace in another
 * mode than exclusive; -EADDRINUSE if it is bound in another mode.
 */
EVD_API int evd_bind_opt(
	struct evd *c, const char *alias, const struct evd_bind_options *opt);

/**
 * evd_wait_alias() - wait until some session holds an alias
 * @timeout_ms: milliseconds; 0: evd_set_timeout(), -1: for ever
 * @session:    set to its id on success; may be NULL
 *
 * Return: 0, or -ETIMEDOUT, -EINVAL, -EDQUOT (too many calls and waits are
 * outstanding), -ENOTCONN, -EPIPE, -ENOMEM, -ECHILD.
 */
EVD_API int evd_wait_alias(
	struct evd *c, const char *alias, int timeout_ms, uint64_t *session);

/**
 * evd_watch() - be told when a session ends
 * @alias: of the session, as it is now
 *
 * EVD_DOWN follows once, at once if nobody holds the alias: evd_event_watch()
 * is the number returned, evd_event_reason() a word. A lost connection ends
 * all watches with the reason "connection lost" and the status LOST.
 *
 * Return: the number of the watch, 1 or more, or -EINVAL, -EDQUOT
 * (MaxWatches=), -ETIMEDOUT, -ENOTCONN, -EPIPE, -ENOMEM, -ECHILD.
 */
EVD_API int64_t evd_watch(struct evd *c, const char *alias);

/* The same by the id of the session, as in evd_event_from(). */
EVD_API int64_t evd_watch_id(struct evd *c, uint64_t session);

/**
 * evd_link() - evd_watch(), and the session fails when this program dies
 *
 * That is: when the connection ends without evd_close() or evd_free(). For root
 * and the user that eventd runs as. evd_unwatch() ends it. A lost connection
 * ends it, too; it is not made again.
 *
 * Return: as evd_watch(), or -EACCES.
 */
EVD_API int64_t evd_link(struct evd *c, const char *alias);

/**
 * evd_watch_names() - be told of aliases that come and go
 * @pattern: of them: a name in which one `*` may stand for anything
 *
 * EVD_NAME follows for each that gets a holder, another one, or loses it, from
 * now on: evd_event_alias(), evd_event_session() (0: it has none),
 * evd_event_lost() (so many were left out before). It goes on after a
 * reconnect; what happened meanwhile is not told.
 *
 * Return: as evd_watch().
 */
EVD_API int64_t evd_watch_names(struct evd *c, const char *pattern);

/* End a watch of either kind. Return: 0, or -ESRCH (there is none, any more),
 * -ETIMEDOUT, -ENOTCONN, -EPIPE, -ENOMEM, -ECHILD. */
EVD_API int evd_unwatch(struct evd *c, int64_t watch);

/**
 * evd_will() - leave an event to be posted when this program dies
 * @alias: of the receiver; NULL: take the will back
 * @event: name of the event
 * @data:  payload of @size bytes, copied; NULL only if @size is 0
 *
 * The daemon posts it when the connection ends without evd_close() or
 * evd_free(). One at a time: a second one is instead of the first. It is left
 * again after a reconnect.
 *
 * Return: 0, or -EINVAL, -EMSGSIZE, -ETIMEDOUT, -ENOTCONN, -EPIPE, -ENOMEM,
 * -ECHILD.
 */
EVD_API int evd_will(struct evd *c, const char *alias, const char *event,
	const void *data, size_t size);

/* The same without waiting: EVD_RESPONSE follows, whose evd_event_result() is
 * the binding, the holder's id, the number of the watch. */
EVD_API int64_t evd_bind_opt_start(
	struct evd *c, const char *alias, const struct evd_bind_options *opt);
EVD_API int64_t evd_wait_alias_start(
	struct evd *c, const char *alias, int timeout_ms);
EVD_API int64_t evd_watch_start(struct evd *c, const char *alias);
EVD_API int64_t evd_link_start(struct evd *c, const char *alias);
EVD_API int64_t evd_watch_names_start(struct evd *c, const char *pattern);

/* Does the pattern match the alias? Any thread. 1, 0; or -EINVAL: it is no
 * pattern of at most EVD_ALIAS_MAX bytes. */
EVD_API int evd_pattern_matches(const char *pattern, const char *alias);

/* Gap: ids of the first and the last event that the mailbox dropped since the
 * last gap was told; evd_event_lost() is how many. */
EVD_API uint64_t evd_event_gap_from(const struct evd_event *event);
EVD_API uint64_t evd_event_gap_to(const struct evd_event *event);

/* Down, name: the number of the watch. Down, name, child: whom it is about. */
EVD_API int64_t evd_event_watch(const struct evd_event *event);
EVD_API uint64_t evd_event_session(const struct evd_event *event);
/* Down: "normal", "stopped", "failed", "connection lost", "no such session" or
 * another word; evd_event_text() says more. */
EVD_API const char *evd_event_reason(const struct evd_event *event);
/* Child, of evd_spawn() with `tie`: "gained"; "lost" or "failed" (it stays
 * so), with a reason: "normal", "failed", "killed", "idle" ... */
EVD_API const char *evd_event_change(const struct evd_event *event);

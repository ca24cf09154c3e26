#pragma once
/* Native sessions: a shared object that eventd loads (Kind=native, Plugin=).
 *
 * The object exports one symbol, `eventd_plugin`. Every session of it has its
 * own state; its functions run on the session's home thread, one at a time,
 * and must not block. The daemon is reached through the context alone, so a
 * plugin links nothing.
 *
 * A plugin shares the daemon's process: what it breaks, the daemon loses. */
#include <stddef.h>
#include <stdint.h>

#include "eventd/level.h"
#include "eventd/time.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Raised when anything below changes meaning; a plugin of another number is
 * refused. Structs that grow at their end say so by their size. */
#define EVD_PLUGIN_ABI 1

struct evd_ctx; /* the session that runs */

/* An event as its handler sees it; valid until the handler returns. */
struct evd_message {
	const void *data; /* payload, @size bytes and a NUL behind them */
	size_t size;
	const char *event;
	uint64_t id;      /* of the event */
	uint64_t from;    /* session that sent it; 0: none */
	uint64_t call;    /* nonzero: a reply is expected */
	uint64_t late_ns; /* fired by a delay: this much after its due time */
	int status;       /* of a reply: 0 or EVD_STATUS_*, see status.h */
	int urgent;       /* it went before those that are not */
	uint64_t
		left_ns; /* of a call: its caller waits so long; 0: not known */
	uint64_t re;     /* of a reply: the call. Of `_cancelled`, which only
			   * the daemon sends: a deferred call of a caller
			   * that wants no answer any more */
	uint64_t due_ns; /* ... when it was due, wall clock; 0: no delay */
};

/* What the data of `_down`, `_name`, `_alias` and `_child` points at, if a
 * session has a handler of that name; only the daemon can send them. Strings
 * are never NULL. */
struct evd_notice {
	uint64_t watch;     /* the number that evd_ctx_watch() gave; 0: none */
	uint64_t session;   /* whom it is about; 0: nobody */
	uint64_t lost;      /* notices left out before this one; `_gap`: events
			     * that the mailbox dropped */
	int up;             /* `_name`: it has a holder; `_alias`: we hold it */
	const char *alias;  /* of the session, or the one it is about */
	const char *reason; /* `_down`: "normal", "stopped", "failed",
			     * "connection lost", "no such session" */
	const char *text;   /* and more of that, for people */
	const char *change; /* `_child`: "gained", "lost", or "failed": it
			     * stays so */
	uint64_t from, to;  /* `_gap`: ids of the first and last of them */
};

/* Return 0, or a negative errno: the session has failed. */
typedef int (*evd_handler_fn)(
	struct evd_ctx *ctx, void *state, const struct evd_message *m);

struct evd_handler {
	const char *event;
	evd_handler_fn fn;
};

struct evd_plugin {
	uint32_t abi;  /* EVD_PLUGIN_ABI */
	uint32_t size; /* sizeof(struct evd_plugin) */
	const char *name;
	const struct evd_handler *handlers;
	size_t n_handlers;       /* at most 65,534 */
	evd_handler_fn fallback; /* other events; NULL: they are dead letters */
	/* Make *@state; 0 or a negative errno. May be NULL. */
	int (*start)(struct evd_ctx *ctx, void **state);
	void (*stop)(struct evd_ctx *ctx, void *state); /* may be NULL */
	/* Which handlers may wait, see plugin_wait.h. */
	unsigned flags;                /* enum evd_plugin_flag, or-ed */
	const evd_handler_fn *waiting; /* these may; at most 64 */
	size_t n_waiting;
};

enum evd_plugin_flag {
	EVD_PLUGIN_WAITS = 1, /* all may, and start() */
};

/* What a plugin exports: const struct evd_plugin eventd_plugin = {...}; */
#define EVD_PLUGIN_SYMBOL "eventd_plugin"
#define EVD_PLUGIN_EXPORT __attribute__((visibility("default")))

/* Where to: a session by id, or an alias by reference. Resolving once and
 * posting to the reference spares the look-up of the name; it follows the
 * alias to a new holder. */
struct evd_target;

/* Arguments of evd_ctx_call() and evd_ctx_delay(). */
struct evd_call_args {
	const char *alias, *event;
	const void *data;
	size_t size;
	uint32_t timeout_ms;
	const char *reply_event;
};
struct evd_delay_args {
	const char *alias, *event;
	const void *data;
	size_t size;
	uint64_t delay_ms, repeat_ms;
};

/* Of evd_ctx_watch() and evd_ctx_link(). */
struct evd_watch_args {
	const char *alias; /* NULL: by id */
	uint64_t session;
	int link;
};

/* A header: a name as of an event, a value of any bytes. */
struct evd_ctx_header {
	const char *name;
	const void *value;
	size_t size;
};

/* What to send and how: zero it, set @size and what is wanted. */
struct evd_send_args {
	size_t size;       /* sizeof(struct evd_send_args) */
	const char *alias; /* to whom; NULL: */
	uint64_t session;  /* by id, for example evd_ctx_self() */
	const char *event;
	const void *data;
	size_t data_size;
	const struct evd_ctx_header *headers; /* at most 16 KiB */
	size_t n_headers;
	int urgent;      /* before those that are not */
	uint64_t ttl_ms; /* time to live: not handled later; 0: no end */
	const char *key; /* 1 to 64 bytes: sent again, it is accepted once */
	/* of a call, and of evd_ctx_gather(): */
	uint32_t timeout_ms;     /* 0: the default */
	const char *reply_event; /* the answer is this event */
	/* of evd_ctx_gather(): */
	const char *const *aliases;
	size_t n_aliases; /* 1 to 1,024 */
	size_t n_wanted;  /* good answers that are enough; 0: all */
	/* of evd_ctx_forward(): */
	uint64_t call; /* deferred; 0: of the event being handled */
	/* of evd_ctx_post_level() and evd_await_post(): */
	uint32_t level; /* enum evd_level */
	/* of these and of evd_ctx_send(): */
	int durable;     /* 1: in the store until it is handled, whatever the
		      * mailbox and the level; -EOPNOTSUPP if it cannot be */
	uint64_t *trace; /* not NULL: set to its id, by which evd_why() and
			  * eventctl why tell what became of it */
};

/* One of the answers to evd_ctx_gather(). */
struct evd_ctx_answer {
	const char *alias;
	int status;       /* 0 or EVD_STATUS_*; then data is a text */
	const void *data; /* @size bytes and a NUL behind them */
	size_t size;
};

/* Arguments of evd_ctx_timer(); what is not given is 0. */
struct evd_timer_args {
	size_t size;       /* sizeof(struct evd_timer_args) */
	const char *alias; /* NULL: to oneself */
	const char *event;
	const void *data;
	size_t data_size;
	const char *name;     /* an earlier one by that name goes */
	uint64_t delay_ms;    /* from now, by clock; or else */
	int64_t at_ns;        /* at this wall-clock time; or else */
	const char *calendar; /* by this: systemd.time(7), crontab(5) */
	const char *zone;     /* of the calendar; NULL: the system's */
	uint64_t repeat_ms;   /* 0: once, or by the calendar */
	uint64_t slack_ms;    /* may be so much late, to fire with others */
	uint32_t clock;       /* enum evd_clock, of delay_ms */
	uint32_t misfire;     /* enum evd_misfire, of the calendar */
	uint64_t ttl_ms;      /* an event's time to live; 0: no end */
	int urgent;           /* its events go before those that are not */
	/* EVD_KEEP_DURABLE: its id comes with this event, when it is in the
	 * store: as the answer of evd_ctx_ask(), a struct evd_timer_set. */
	int keep;
	const char *reply_event;
};
struct evd_timer_set {
	uint64_t id, replaced; /* 0: none */
};

/* What evd_ctx_adjust() is to change. */
struct evd_adjust_args {
	size_t size;       /* sizeof(struct evd_adjust_args) */
	int due;           /* it is due in delay_ms, or else at at_ns */
	int repeat;        /* and then every repeat_ms; 0: once */
	uint64_t delay_ms; /* by the clock it has */
	int64_t at_ns;
	uint64_t repeat_ms;
};

/* A pending timer. Strings are good until the plugin returns or changes it. */
struct evd_timer_info {
	size_t size; /* sizeof(struct evd_timer_info) */
	uint64_t id;
	const char *name; /* "": it has none */
	const char *event;
	const char *alias;    /* NULL: to oneself */
	const char *calendar; /* NULL: it has none */
	const char *zone;
	size_t data_size;
	int64_t due_ns; /* wall clock, since the epoch */
	uint64_t repeat_ms, slack_ms;
	uint32_t clock, misfire;
	int durable; /* it is in the store */
};

/* Of evd_ctx_bind(). */
enum evd_bind_flag {
	EVD_BIND_QUEUE = 1,         /* if it is taken: stand in line */
	EVD_BIND_REPLACE = 2,       /* if it is taken: make the holder go */
	EVD_BIND_ALLOW_REPLACE = 4, /* let others do that to us */
	/* Instead of having it alone; all who consume it do so alike: */
	EVD_BIND_AS_SHARED = 8,  /* each event goes to one of us */
	EVD_BIND_AS_FANOUT = 16, /* each event goes to all of us */
};
/* With EVD_BIND_AS_SHARED: so many events in hand at once, up to 65535; else
 * 16. */
#define EVD_BIND_WINDOW(n) ((unsigned)(n) << 16)

/* Arguments of evd_ctx_spawn(): zero them, then set what matters. */
enum evd_restart {
	EVD_RESTART_INHERIT = 0, /* as the session that spawns */
	EVD_RESTART_NO = 1,
	EVD_RESTART_ON_FAILURE = 2,
	EVD_RESTART_ALWAYS = 3,
};
/* Who is started again when the child fails. */
enum evd_strategy {
	EVD_STRATEGY_ONE = 0,  /* it alone */
	EVD_STRATEGY_ALL = 1,  /* all children */
	EVD_STRATEGY_REST = 2, /* it and those spawned after it */
};
struct evd_spawn_args {
	const char *plugin; /* absolute; NULL: the same as the spawner's */
	const char *script; /* instead: of a Lua session, absolute */
	const char *alias;  /* may be NULL */
	const char *const *params; /* "key=value" */
	size_t n_params;
	unsigned loop;     /* its number + 1; 0: that of the spawner */
	unsigned restart;  /* enum evd_restart */
	unsigned strategy; /* enum evd_strategy */
	uint64_t idle_ms;  /* it ends when idle for so long; 0: never */
	int on_demand;     /* its state is made for the first event */
	int collect;       /* it ends when nothing refers to it */
	unsigned names;    /* enum evd_bind_flag, of its alias */
};

/* See plugin_manage.h. */
struct evd_answer;
struct evd_dead_args;
struct evd_letter;
struct evd_profile_row;
struct evd_queue_args;
struct evd_queued;

struct evd_await_args; /* see plugin_wait.h */

/* The daemon's side, reached through the inline functions below. */
struct evd_host {
	uint32_t abi, size;
	struct evd_target *(*resolve)(struct evd_ctx *ctx, const char *alias);
	void (*release)(struct evd_ctx *ctx, struct evd_target *target);
	uint32_t (*handler)(struct evd_ctx *ctx, struct evd_target *target,
		const char *event);
	int (*post)(struct evd_ctx *ctx, struct evd_target *target,
		uint32_t handler, const void *data, size_t size);
	int (*post_id)(struct evd_ctx *ctx, uint64_t session, const char *event,
		const void *data, size_t size);
	int (*post_alias)(struct evd_ctx *ctx, const char *alias,
		const char *event, const void *data, size_t size);
	int (*call)(struct evd_ctx *ctx, const struct evd_call_args *call);
	int (*reply)(struct evd_ctx *ctx, uint64_t call, int status,
		const void *data, size_t size);
	uint64_t (*defer)(struct evd_ctx *ctx);
	int (*delay)(struct evd_ctx *ctx, const struct evd_delay_args *delay,
		uint64_t *timer);
	int (*cancel)(struct evd_ctx *ctx, uint64_t timer);
	uint64_t (*self)(struct evd_ctx *ctx);
	const char *(*alias)(struct evd_ctx *ctx);
	const char *(*param)(struct evd_ctx *ctx, const char *key);
	void (*log)(struct evd_ctx *ctx, int level, const char *text);
	int (*watch)(struct evd_ctx *ctx, const struct evd_watch_args *watch,
		uint64_t *number);
	int (*unwatch)(struct evd_ctx *ctx, uint64_t number);
	int (*unlink)(struct evd_ctx *ctx, uint64_t session);
	int (*trap)(struct evd_ctx *ctx, int on);
	int (*send)(struct evd_ctx *ctx, const struct evd_send_args *args);
	int (*ask)(struct evd_ctx *ctx, const struct evd_send_args *args,
		uint64_t *call);
	int (*cancel_call)(struct evd_ctx *ctx, uint64_t call);
	int (*forward)(struct evd_ctx *ctx, const struct evd_send_args *args);
	int (*gather)(struct evd_ctx *ctx, const struct evd_send_args *args);
	int (*answer)(
		struct evd_ctx *ctx, size_t i, struct evd_ctx_answer *answer);
	const void *(*header)(
		struct evd_ctx *ctx, const char *name, size_t *size);
	int (*stash)(struct evd_ctx *ctx);
	int (*unstash)(struct evd_ctx *ctx);
	void (*become)(struct evd_ctx *ctx, const struct evd_handler *handlers,
		size_t n);
	int (*timer)(struct evd_ctx *ctx, const struct evd_timer_args *args,
		uint64_t *timer);
	int (*cancel_name)(struct evd_ctx *ctx, const char *name);
	uint32_t (*cancel_all)(struct evd_ctx *ctx);
	int (*adjust)(struct evd_ctx *ctx, uint64_t timer, const char *name,
		const struct evd_adjust_args *args);
	int (*next_timer)(struct evd_ctx *ctx, uint64_t after,
		struct evd_timer_info *info);
	int (*bind)(struct evd_ctx *ctx, const char *alias, unsigned flags);
	int (*unbind)(struct evd_ctx *ctx, const char *alias);
	int (*wait)(struct evd_ctx *ctx, const char *alias, uint64_t timeout_ms,
		const char *reply_event);
	int (*watch_names)(
		struct evd_ctx *ctx, const char *pattern, uint64_t *number);
	int (*spawn)(struct evd_ctx *ctx, const struct evd_spawn_args *args,
		uint64_t *session);
	void (*exit)(struct evd_ctx *ctx, const char *text);
	int (*stop_child)(struct evd_ctx *ctx, uint64_t session);
	uint64_t (*parent)(struct evd_ctx *ctx);
	uint32_t (*attempt)(struct evd_ctx *ctx);
	int (*queue)(struct evd_ctx *ctx, unsigned op,
		const struct evd_queue_args *args);
	int (*dead)(struct evd_ctx *ctx, unsigned op,
		const struct evd_dead_args *args);
	int (*profile)(struct evd_ctx *ctx, uint64_t session, int set,
		const char *reply_event);
	int (*managed)(struct evd_ctx *ctx, struct evd_answer *answer);
	int (*next_queued)(struct evd_ctx *ctx, struct evd_queued *event);
	int (*next_letter)(struct evd_ctx *ctx, struct evd_letter *letter);
	int (*next_row)(struct evd_ctx *ctx, struct evd_profile_row *row);
	int (*sleep)(struct evd_ctx *ctx, uint64_t ms);
	int (*await_call)(struct evd_ctx *ctx, const struct evd_send_args *args,
		struct evd_message *reply);
	int (*await_event)(struct evd_ctx *ctx,
		const struct evd_await_args *args, struct evd_message *event);
	size_t (*children)(struct evd_ctx *ctx, uint64_t *sessions, size_t n);
	int (*post_level)(struct evd_ctx *ctx, const struct evd_send_args *args,
		uint64_t *call);
	int (*await_post)(
		struct evd_ctx *ctx, const struct evd_send_args *args);
	int (*await_gather)(
		struct evd_ctx *ctx, const struct evd_send_args *args);
	const void *(*state_get)(
		struct evd_ctx *ctx, const char *key, size_t *size);
	int (*state_set)(struct evd_ctx *ctx, const char *key, const void *data,
		size_t size);
};

/* Its first member, so that the inline functions reach the host. */
struct evd_ctx_head {
	const struct evd_host *host;
};
#define EVD_HOST(ctx) (((const struct evd_ctx_head *)(ctx))->host)

/* A reference to @alias, held or not; NULL: not a valid name, or no memory.
 * Release it in stop(), or leave it to the session's end. */
static inline struct evd_target *
evd_ctx_resolve(struct evd_ctx *ctx, const char *alias)
{
	return EVD_HOST(ctx)->resolve(ctx, alias);
}

static inline void
evd_ctx_release(struct evd_ctx *ctx, struct evd_target *target)
{
	EVD_HOST(ctx)->release(ctx, target);
}

/* A reference to the handler called @event of whoever holds @target, so that
 * dispatch is an index; never 0. Kinds without handler tables and later
 * holders of another plugin get the event by name. 0: no memory, bad name. */
static inline uint32_t
evd_ctx_handler(
	struct evd_ctx *ctx, struct evd_target *target, const char *event)
{
	return EVD_HOST(ctx)->handler(ctx, target, event);
}

/* Post @size bytes (copied) to a handler of a target. 0, or -ENOENT (nobody
 * holds the alias), -EAGAIN (its mailbox is full), -EHOSTUNREACH (the session
 * has failed), -EMSGSIZE, -EINVAL, -ENOMEM. */
static inline int
evd_ctx_post(struct evd_ctx *ctx, struct evd_target *target, uint32_t handler,
	const void *data, size_t size)
{
	return EVD_HOST(ctx)->post(ctx, target, handler, data, size);
}

/* The same by session id and event name, for answering a sender. */
static inline int
evd_ctx_post_id(struct evd_ctx *ctx, uint64_t session, const char *event,
	const void *data, size_t size)
{
	return EVD_HOST(ctx)->post_id(ctx, session, event, data, size);
}

/* The same by name. */
static inline int
evd_ctx_post_alias(struct evd_ctx *ctx, const char *alias, const char *event,
	const void *data, size_t size)
{
	return EVD_HOST(ctx)->post_alias(ctx, alias, event, data, size);
}

/* Call: the outcome comes as the event @reply_event of this session, once,
 * with status and payload (an error's text). @timeout_ms 0: the default.
 * Returns as evd_ctx_post(); then nothing comes. */
static inline int
evd_ctx_call(struct evd_ctx *ctx, const char *alias, const char *event,
	const void *data, size_t size, uint32_t timeout_ms,
	const char *reply_event)
{
	struct evd_call_args call = {
		alias, event, data, size, timeout_ms, reply_event};

	return EVD_HOST(ctx)->call(ctx, &call);
}

/* Answer call @call (m->call, or what evd_ctx_defer() gave). @status 0, or
 * EVD_STATUS_HANDLER with a text. A handler that returns without a reply and
 * without deferring answers with nothing. 0, -EMSGSIZE or -ENOMEM. */
static inline int
evd_ctx_reply(struct evd_ctx *ctx, uint64_t call, int status, const void *data,
	size_t size)
{
	return EVD_HOST(ctx)->reply(ctx, call, status, data, size);
}

/* The reply to the event being handled comes later, by the call returned; 0:
 * none is expected. */
static inline uint64_t
evd_ctx_defer(struct evd_ctx *ctx)
{
	return EVD_HOST(ctx)->defer(ctx);
}

/* Post in @delay_ms from now, and then every @repeat_ms if not 0. @alias NULL:
 * to oneself. *@timer for evd_ctx_cancel(), may be NULL. Also -EDQUOT. */
static inline int
evd_ctx_delay(struct evd_ctx *ctx, const char *alias, const char *event,
	const void *data, size_t size, uint64_t delay_ms, uint64_t repeat_ms,
	uint64_t *timer)
{
	struct evd_delay_args delay = {
		alias, event, data, size, delay_ms, repeat_ms};

	return EVD_HOST(ctx)->delay(ctx, &delay, timer);
}

/* 0, or -ESRCH: it has fired, was cancelled, or never was. */
static inline int
evd_ctx_cancel(struct evd_ctx *ctx, uint64_t timer)
{
	return EVD_HOST(ctx)->cancel(ctx, timer);
}

/* Set a timer of any kind. 0, or 1 if it took the place of one of the same
 * name; -EINVAL (also: not a calendar, no such zone, no time to come), -ENOENT
 * (nobody holds the alias), -EDQUOT, -EMSGSIZE, -ENOMEM. */
static inline int
evd_ctx_timer(
	struct evd_ctx *ctx, const struct evd_timer_args *args, uint64_t *timer)
{
	return EVD_HOST(ctx)->timer(ctx, args, timer);
}

/* The same for one of this session's by its name. */
static inline int
evd_ctx_cancel_name(struct evd_ctx *ctx, const char *name)
{
	return EVD_HOST(ctx)->cancel_name(ctx, name);
}

/* All that this session has set, but for the schedule of its file: how many. */
static inline uint32_t
evd_ctx_cancel_all(struct evd_ctx *ctx)
{
	return EVD_HOST(ctx)->cancel_all(ctx);
}

/* Change a pending timer, by id or, if that is 0, by name. 0, or -ESRCH,
 * -EINVAL (also: a calendar repeats by itself), -ENOMEM. */
static inline int
evd_ctx_adjust(struct evd_ctx *ctx, uint64_t timer, const char *name,
	const struct evd_adjust_args *args)
{
	return EVD_HOST(ctx)->adjust(ctx, timer, name, args);
}

/* This session's pending timers, one by one: the one after the timer @after, 0:
 * the first. 0, or -ENOENT (there is no more), -ESRCH (@after is gone). Set
 * info->size. */
static inline int
evd_ctx_next_timer(
	struct evd_ctx *ctx, uint64_t after, struct evd_timer_info *info)
{
	return EVD_HOST(ctx)->next_timer(ctx, after, info);
}

static inline uint64_t
evd_ctx_self(struct evd_ctx *ctx)
{
	return EVD_HOST(ctx)->self(ctx);
}

/* This session's first alias, or "". */
static inline const char *
evd_ctx_alias(struct evd_ctx *ctx)
{
	return EVD_HOST(ctx)->alias(ctx);
}

/* Value of a key in the session file's [Params], or NULL. */
static inline const char *
evd_ctx_param(struct evd_ctx *ctx, const char *key)
{
	return EVD_HOST(ctx)->param(ctx, key);
}

/* @level as syslog: 3 error, 4 warning, 6 info, 7 debug. */
static inline void
evd_ctx_log(struct evd_ctx *ctx, int level, const char *text)
{
	EVD_HOST(ctx)->log(ctx, level, text);
}

/* Learn of the end of the session that holds @alias, or of @session if @alias
 * is NULL: the event `_down` comes once, with a struct evd_notice; at once if
 * there is no such session. *@number for evd_ctx_unwatch(), may be NULL. 0, or
 * -EDQUOT (MaxWatches=), -EINVAL (oneself), -ENOMEM. */
static inline int
evd_ctx_watch(struct evd_ctx *ctx, const char *alias, uint64_t session,
	uint64_t *number)
{
	struct evd_watch_args watch = {alias, session, 0};

	return EVD_HOST(ctx)->watch(ctx, &watch, number);
}

/* 0, or -ESRCH: it has been answered or never was. */
static inline int
evd_ctx_unwatch(struct evd_ctx *ctx, uint64_t number)
{
	return EVD_HOST(ctx)->unwatch(ctx, number);
}

/* Fail when that session fails, and the other way round; an end that is no
 * failure takes nobody down. As evd_ctx_watch(), and -ENOENT. */
static inline int
evd_ctx_link(struct evd_ctx *ctx, const char *alias, uint64_t session)
{
	struct evd_watch_args watch = {alias, session, 1};

	return EVD_HOST(ctx)->watch(ctx, &watch, NULL);
}

/* 0, or -ESRCH: they are not linked. */
static inline int
evd_ctx_unlink(struct evd_ctx *ctx, uint64_t session)
{
	return EVD_HOST(ctx)->unlink(ctx, session);
}

/* Take one more alias, or a share of it. @flags: enum evd_bind_flag, or-ed. 0:
 * it is ours; 1: the event `_alias` will tell; also tells when it is lost. Or
 * -EADDRINUSE, -EINVAL, -EDQUOT (MaxWatches=), -ENOMEM. */
static inline int
evd_ctx_bind(struct evd_ctx *ctx, const char *alias, unsigned flags)
{
	return EVD_HOST(ctx)->bind(ctx, alias, flags);
}

/* Drop one, or leave the line, or the others, for it. 0, or -ESRCH. */
static inline int
evd_ctx_unbind(struct evd_ctx *ctx, const char *alias)
{
	return EVD_HOST(ctx)->unbind(ctx, alias);
}

/* Have the event @reply_event come once: when @alias has a holder, whose id, a
 * uint64_t, is its data, or with a status. @timeout_ms 0: that of calls;
 * UINT64_MAX: none. 0, or -EINVAL, -EDQUOT (MaxCalls=), -ENOMEM. */
static inline int
evd_ctx_wait(struct evd_ctx *ctx, const char *alias, uint64_t timeout_ms,
	const char *reply_event)
{
	return EVD_HOST(ctx)->wait(ctx, alias, timeout_ms, reply_event);
}

/* Have each alias that matches @pattern, a name in which one `*` may stand for
 * anything, tell by `_name` when it gets or loses its holder. Returns as
 * evd_ctx_watch(), and -EINVAL for what is no pattern. */
static inline int
evd_ctx_watch_names(struct evd_ctx *ctx, const char *pattern, uint64_t *number)
{
	return EVD_HOST(ctx)->watch_names(ctx, pattern, number);
}

/* With @on, the end of a linked session comes as `_down` instead. 0, -ENOMEM.
 */
static inline int
evd_ctx_trap(struct evd_ctx *ctx, int on)
{
	return EVD_HOST(ctx)->trap(ctx, on);
}

/* ---- sending and receiving beside the plain way ------------------------- */

/* Post as @args say. As evd_ctx_post(), and -EINVAL for a wrong key or
 * header. */
static inline int
evd_ctx_send(struct evd_ctx *ctx, const struct evd_send_args *args)
{
	return EVD_HOST(ctx)->send(ctx, args);
}

/* Post to oneself, behind what is queued. */
static inline int
evd_ctx_yield(
	struct evd_ctx *ctx, const char *event, const void *data, size_t size)
{
	return evd_ctx_post_id(ctx, evd_ctx_self(ctx), event, data, size);
}

/* Call as @args say; no key. *@call, which may be NULL, is what the answer has
 * as m->re. A call made while a call is handled ends with that one's deadline
 * at the latest. */
static inline int
evd_ctx_ask(
	struct evd_ctx *ctx, const struct evd_send_args *args, uint64_t *call)
{
	return EVD_HOST(ctx)->ask(ctx, args, call);
}

/* Post as @args say, and be told when args->level is reached, or that it will
 * not be: by the event args->reply_event, as of a call, whose m->status is 0 or
 * says why, m->data being a text. EVD_STATUS_TIMEOUT after args->timeout_ms:
 * the event may still get there. *@call, which may be NULL, is what that event
 * has as m->re, and is for evd_ctx_cancel_call(): then nothing is told. -ENOENT
 * (nobody holds the alias), -EINVAL, -EMSGSIZE, -EDQUOT (MaxCalls=), -ENOMEM:
 * nothing was posted. */
static inline int
evd_ctx_post_level(
	struct evd_ctx *ctx, const struct evd_send_args *args, uint64_t *call)
{
	return EVD_HOST(ctx)->post_level(ctx, args, call);
}

/* No answer to the call is wanted any more, and none comes: 0, or -ESRCH. */
static inline int
evd_ctx_cancel_call(struct evd_ctx *ctx, uint64_t call)
{
	return EVD_HOST(ctx)->cancel_call(ctx, call);
}

/* Let another session answer: the reply goes to the first caller, who waits no
 * longer for that. @args without event, data or headers: those of the event
 * being handled. On failure the call stays here. -ESRCH: args->call is not
 * deferred. */
static inline int
evd_ctx_forward(struct evd_ctx *ctx, const struct evd_send_args *args)
{
	return EVD_HOST(ctx)->forward(ctx, args);
}

/* Call all of args->aliases. When args->n_wanted have answered well, or all
 * somehow, args->reply_event comes once: m->size is 0 and m->status 0 if there
 * were enough, else EVD_STATUS_TIMEOUT; its handler reads the answers. -ENOENT:
 * nobody could be asked; then nothing comes. */
static inline int
evd_ctx_gather(struct evd_ctx *ctx, const struct evd_send_args *args)
{
	return EVD_HOST(ctx)->gather(ctx, args);
}

/* Answer number @i, in the order of the aliases: 0, or -ERANGE. Who had not
 * answered when there were enough has EVD_STATUS_CANCELLED. */
static inline int
evd_ctx_answer(struct evd_ctx *ctx, size_t i, struct evd_ctx_answer *answer)
{
	return EVD_HOST(ctx)->answer(ctx, i, answer);
}

/* The value of a header of the event being handled, *@size bytes; NULL: it has
 * none of that name. */
static inline const void *
evd_ctx_header(struct evd_ctx *ctx, const char *name, size_t *size)
{
	return EVD_HOST(ctx)->header(ctx, name, size);
}

/* Put the event being handled aside when its handler returns; it counts as
 * queued. 0, -EAGAIN (its place in the mailbox is taken), -EINVAL (no event)
 * or -ENOMEM. */
static inline int
evd_ctx_stash(struct evd_ctx *ctx)
{
	return EVD_HOST(ctx)->stash(ctx);
}

/* All that is aside goes back to the front, in order: how many. */
static inline int
evd_ctx_unstash(struct evd_ctx *ctx)
{
	return EVD_HOST(ctx)->unstash(ctx);
}

/* From now on events go to @handlers first, then to the plugin's own; NULL: to
 * those alone. The table is not copied. */
static inline void
evd_ctx_become(
	struct evd_ctx *ctx, const struct evd_handler *handlers, size_t n)
{
	EVD_HOST(ctx)->become(ctx, handlers, n);
}

/* Make a session, a child of this one, which it does not outlive. *@session is
 * its id, may be NULL. `_child` tells of it, with a struct evd_notice, if there
 * is a handler of that name. 0, or -EADDRINUSE (the alias is held; on another
 * loop that is told by `_child`), -EDQUOT (MaxSessions=), -EINVAL, -ENOMEM. */
static inline int
evd_ctx_spawn(struct evd_ctx *ctx, const struct evd_spawn_args *args,
	uint64_t *session)
{
	return EVD_HOST(ctx)->spawn(ctx, args, session);
}

/* End when the handler has returned. @text says why, for people; may be NULL.
 * Restart=always and Start=on-demand may start the session again. */
static inline void
evd_ctx_exit(struct evd_ctx *ctx, const char *text)
{
	EVD_HOST(ctx)->exit(ctx, text);
}

/* End a child. 0, or -ESRCH. */
static inline int
evd_ctx_stop_child(struct evd_ctx *ctx, uint64_t session)
{
	return EVD_HOST(ctx)->stop_child(ctx, session);
}

/* The session that spawned this one, or its group; 0: none. */
static inline uint64_t
evd_ctx_parent(struct evd_ctx *ctx)
{
	return EVD_HOST(ctx)->parent(ctx);
}

/* The first @n of those that it has spawned and that have not ended, in that
 * order. Returns how many there are. */
static inline size_t
evd_ctx_children(struct evd_ctx *ctx, uint64_t *sessions, size_t n)
{
	return EVD_HOST(ctx)->children(ctx, sessions, n);
}

/* How often the event being handled has been tried, this time included; 0: no
 * event. See MaxAttempts= in eventd.session(5). */
static inline uint32_t
evd_ctx_attempt(struct evd_ctx *ctx)
{
	return EVD_HOST(ctx)->attempt(ctx);
}

#ifdef __cplusplus
}
#endif

#include "eventd/plugin_manage.h"
#include "eventd/plugin_state.h"

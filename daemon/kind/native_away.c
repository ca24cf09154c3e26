/* The host as a plugin sees it whose session is run by an executor: every
 * function that touches the kernel takes hold of the session's home for as long
 * as it runs. On a thread that has it anyway they are the plain ones. A field
 * of struct evd_host that is new needs a line here. */
#include <stddef.h>
#include <string.h>

#include "kernel/away.h"
#include "kind/native.h"

#define AWAY(type, name, parameters, arguments) \
	static type away_##name parameters      \
	{                                       \
		type r;                         \
                                                \
		away_enter();                   \
		r = native_host.name arguments; \
		away_leave();                   \
		return r;                       \
	}
#define AWAY_VOID(name, parameters, arguments) \
	static void away_##name parameters     \
	{                                      \
		away_enter();                  \
		native_host.name arguments;    \
		away_leave();                  \
	}

/* Names are copied: the alias may go while the handler reads it. */
static const char *
away_alias(struct evd_ctx *ctx)
{
	struct native *n = (struct native *)ctx;

	if (!away_here)
		return native_host.alias(ctx);
	away_enter();
	if (native_more(n))
		strncpy(n->more->name, native_host.alias(ctx),
			sizeof(n->more->name) - 1);
	away_leave();
	return n->more ? n->more->name : "";
}

AWAY(struct evd_target *, resolve, (struct evd_ctx * ctx, const char *alias),
	(ctx, alias))
AWAY_VOID(release, (struct evd_ctx * ctx, struct evd_target *target),
	(ctx, target))
AWAY(uint32_t, handler,
	(struct evd_ctx * ctx, struct evd_target *target, const char *event),
	(ctx, target, event))
AWAY(int, post,
	(struct evd_ctx * ctx, struct evd_target *target, uint32_t handler,
		const void *data, size_t size),
	(ctx, target, handler, data, size))
AWAY(int, post_id,
	(struct evd_ctx * ctx, uint64_t session, const char *event,
		const void *data, size_t size),
	(ctx, session, event, data, size))
AWAY(int, post_alias,
	(struct evd_ctx * ctx, const char *alias, const char *event,
		const void *data, size_t size),
	(ctx, alias, event, data, size))
AWAY(int, call, (struct evd_ctx * ctx, const struct evd_call_args *call),
	(ctx, call))
AWAY(int, reply,
	(struct evd_ctx * ctx, uint64_t call, int status, const void *data,
		size_t size),
	(ctx, call, status, data, size))
AWAY(uint64_t, defer, (struct evd_ctx * ctx), (ctx))
AWAY(int, delay,
	(struct evd_ctx * ctx, const struct evd_delay_args *delay,
		uint64_t *timer),
	(ctx, delay, timer))
AWAY(int, cancel, (struct evd_ctx * ctx, uint64_t timer), (ctx, timer))
AWAY_VOID(log, (struct evd_ctx * ctx, int level, const char *text),
	(ctx, level, text))
AWAY(int, watch,
	(struct evd_ctx * ctx, const struct evd_watch_args *watch,
		uint64_t *number),
	(ctx, watch, number))
AWAY(int, unwatch, (struct evd_ctx * ctx, uint64_t number), (ctx, number))
AWAY(int, unlink, (struct evd_ctx * ctx, uint64_t session), (ctx, session))
AWAY(int, trap, (struct evd_ctx * ctx, int on), (ctx, on))
AWAY(int, send, (struct evd_ctx * ctx, const struct evd_send_args *args),
	(ctx, args))
AWAY(int, ask,
	(struct evd_ctx * ctx, const struct evd_send_args *args,
		uint64_t *call),
	(ctx, args, call))
AWAY(int, post_level,
	(struct evd_ctx * ctx, const struct evd_send_args *args,
		uint64_t *call),
	(ctx, args, call))
AWAY(int, cancel_call, (struct evd_ctx * ctx, uint64_t call), (ctx, call))
AWAY(int, forward, (struct evd_ctx * ctx, const struct evd_send_args *args),
	(ctx, args))
AWAY(int, gather, (struct evd_ctx * ctx, const struct evd_send_args *args),
	(ctx, args))
AWAY(int, stash, (struct evd_ctx * ctx), (ctx))
AWAY(int, unstash, (struct evd_ctx * ctx), (ctx))
AWAY(int, timer,
	(struct evd_ctx * ctx, const struct evd_timer_args *args,
		uint64_t *timer),
	(ctx, args, timer))
AWAY(int, cancel_name, (struct evd_ctx * ctx, const char *name), (ctx, name))
AWAY(uint32_t, cancel_all, (struct evd_ctx * ctx), (ctx))
AWAY(int, adjust,
	(struct evd_ctx * ctx, uint64_t timer, const char *name,
		const struct evd_adjust_args *args),
	(ctx, timer, name, args))
AWAY(int, next_timer,
	(struct evd_ctx * ctx, uint64_t after, struct evd_timer_info *info),
	(ctx, after, info))
AWAY(int, bind, (struct evd_ctx * ctx, const char *alias, unsigned flags),
	(ctx, alias, flags))
AWAY(int, unbind, (struct evd_ctx * ctx, const char *alias), (ctx, alias))
AWAY(int, wait,
	(struct evd_ctx * ctx, const char *alias, uint64_t timeout_ms,
		const char *reply_event),
	(ctx, alias, timeout_ms, reply_event))
AWAY(int, watch_names,
	(struct evd_ctx * ctx, const char *pattern, uint64_t *number),
	(ctx, pattern, number))
AWAY(int, spawn,
	(struct evd_ctx * ctx, const struct evd_spawn_args *args,
		uint64_t *session),
	(ctx, args, session))
AWAY_VOID(exit, (struct evd_ctx * ctx, const char *text), (ctx, text))
AWAY(int, stop_child, (struct evd_ctx * ctx, uint64_t session), (ctx, session))
AWAY(uint64_t, parent, (struct evd_ctx * ctx), (ctx))
AWAY(size_t, children, (struct evd_ctx * ctx, uint64_t *sessions, size_t n),
	(ctx, sessions, n))
AWAY(int, queue,
	(struct evd_ctx * ctx, unsigned op, const struct evd_queue_args *args),
	(ctx, op, args))
AWAY(int, dead,
	(struct evd_ctx * ctx, unsigned op, const struct evd_dead_args *args),
	(ctx, op, args))
AWAY(int, profile,
	(struct evd_ctx * ctx, uint64_t session, int set,
		const char *reply_event),
	(ctx, session, set, reply_event))
AWAY(int, managed, (struct evd_ctx * ctx, struct evd_answer *answer),
	(ctx, answer))
AWAY(int, next_queued, (struct evd_ctx * ctx, struct evd_queued *event),
	(ctx, event))
AWAY(int, next_letter, (struct evd_ctx * ctx, struct evd_letter *letter),
	(ctx, letter))
AWAY(const void *, state_get,
	(struct evd_ctx * ctx, const char *key, size_t *size), (ctx, key, size))
AWAY(int, state_set,
	(struct evd_ctx * ctx, const char *key, const void *data, size_t size),
	(ctx, key, data, size))
AWAY(int, next_row, (struct evd_ctx * ctx, struct evd_profile_row *row),
	(ctx, row))

/* These take hold of the home by themselves, and not while they wait. */
static int
away_sleep(struct evd_ctx *ctx, uint64_t ms)
{
	return native_host.sleep(ctx, ms);
}

static int
away_await_call(struct evd_ctx *ctx, const struct evd_send_args *args,
	struct evd_message *reply)
{
	return native_host.await_call(ctx, args, reply);
}

static int
away_await_event(struct evd_ctx *ctx, const struct evd_await_args *args,
	struct evd_message *event)
{
	return native_host.await_event(ctx, args, event);
}

static int
away_await_post(struct evd_ctx *ctx, const struct evd_send_args *args)
{
	return native_host.await_post(ctx, args);
}

static int
away_await_gather(struct evd_ctx *ctx, const struct evd_send_args *args)
{
	return native_host.await_gather(ctx, args);
}

/* Those that touch nothing but the event and the plugin's own. */
static uint64_t
away_self(struct evd_ctx *ctx)
{
	return native_host.self(ctx);
}

static const char *
away_param(struct evd_ctx *ctx, const char *key)
{
	return native_host.param(ctx, key);
}

static int
away_answer(struct evd_ctx *ctx, size_t i, struct evd_ctx_answer *answer)
{
	return native_host.answer(ctx, i, answer);
}

static const void *
away_header(struct evd_ctx *ctx, const char *name, size_t *size)
{
	return native_host.header(ctx, name, size);
}

static void
away_become(struct evd_ctx *ctx, const struct evd_handler *handlers, size_t n)
{
	native_host.become(ctx, handlers, n);
}

static uint32_t
away_attempt(struct evd_ctx *ctx)
{
	return native_host.attempt(ctx);
}

const struct evd_host native_host_away = {
	.abi = EVD_PLUGIN_ABI,
	.size = sizeof(struct evd_host),
	.resolve = away_resolve,
	.release = away_release,
	.handler = away_handler,
	.post = away_post,
	.post_id = away_post_id,
	.post_alias = away_post_alias,
	.call = away_call,
	.reply = away_reply,
	.defer = away_defer,
	.delay = away_delay,
	.cancel = away_cancel,
	.self = away_self,
	.alias = away_alias,
	.param = away_param,
	.log = away_log,
	.watch = away_watch,
	.unwatch = away_unwatch,
	.unlink = away_unlink,
	.trap = away_trap,
	.send = away_send,
	.ask = away_ask,
	.cancel_call = away_cancel_call,
	.forward = away_forward,
	.gather = away_gather,
	.answer = away_answer,
	.header = away_header,
	.stash = away_stash,
	.unstash = away_unstash,
	.become = away_become,
	.timer = away_timer,
	.cancel_name = away_cancel_name,
	.cancel_all = away_cancel_all,
	.adjust = away_adjust,
	.next_timer = away_next_timer,
	.bind = away_bind,
	.unbind = away_unbind,
	.wait = away_wait,
	.watch_names = away_watch_names,
	.spawn = away_spawn,
	.exit = away_exit,
	.stop_child = away_stop_child,
	.parent = away_parent,
	.children = away_children,
	.attempt = away_attempt,
	.queue = away_queue,
	.dead = away_dead,
	.profile = away_profile,
	.managed = away_managed,
	.next_queued = away_next_queued,
	.next_letter = away_next_letter,
	.next_row = away_next_row,
	.state_get = away_state_get,
	.state_set = away_state_set,
	.sleep = away_sleep,
	.await_call = away_await_call,
	.await_event = away_await_event,
	.post_level = away_post_level,
	.await_post = away_await_post,
	.await_gather = away_await_gather,
};

_Static_assert(offsetof(struct evd_host, state_set) + sizeof(void *) ==
		       sizeof(struct evd_host),
	"a new function of the host needs its place above");

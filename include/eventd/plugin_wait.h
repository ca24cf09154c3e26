#pragma once
/* Handlers that wait in the middle: for a time, an answer, an event of their
 * own session. For plugins whose table says, by `flags` or `waiting`, which
 * handlers may; those run on a stack of their own, of 64 KiB unless eventd.conf
 * says otherwise (CoroutineStack=), and cost some 20 ns more.
 *
 * While a handler waits, others of its session do not begin (`Concurrency=` in
 * the session's file allows more at once), but all other sessions run. The
 * message it handles stays good. Not kept across a wait are `errno`, the
 * address of anything thread-local, and locks: do not hold any.
 *
 * A wait that ends with -ECANCELED or -ETIMEDOUT because of what is handled -
 * the session stops, the caller cancelled its call, the call's deadline came -
 * says so to every further wait of that handler at once: it has to return. One
 * of a session that stops and still goes on waiting is left where it is after
 * a thousand times; one that goes on without waiting is never ended.
 *
 * On an executor (Executor=) a handler may go on on another thread of the pool
 * than it waited on. stop() cannot wait: -EPERM. */
#include "eventd/plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of evd_await_event(); zero it, then set what matters. */
struct evd_await_args {
	size_t size;       /* sizeof(struct evd_await_args) */
	const char *event; /* of that name; NULL: of any */
	uint64_t from;     /* sent by that session; 0: by any */
	/* and this says yes; NULL: yes. It may look at the message alone, and
	 * call nothing of the context. */
	int (*matches)(const struct evd_message *m, void *data);
	void *data;
	uint64_t timeout_ms; /* 0: that of calls; UINT64_MAX: none */
};

/* Wait for @ms. 0, -ECANCELED, -ETIMEDOUT (the deadline of the call that is
 * handled came first), -EPERM (this handler may not wait), -EDQUOT (MaxCalls=)
 * or -ENOMEM. */
static inline int
evd_sleep(struct evd_ctx *ctx, uint64_t ms)
{
	return EVD_HOST(ctx)->sleep(ctx, ms);
}

/* Call as @args say (reply_event and key are not for it) and wait for the
 * answer: *@reply, good until the handler waits again or returns. It ends with
 * the deadline of the call being handled at the latest.
 *
 * 0, or what reply->status means as an errno, its data being a text, when
 * there was an answer or none in time: -ETIMEDOUT, -ECANCELED, -EREMOTEIO (the
 * other handler failed) ... Before that: as evd_ctx_post(), -EPERM, -EDQUOT,
 * -EDEADLK (oneself); then *@reply is not set. */
static inline int
evd_await_call(struct evd_ctx *ctx, const struct evd_send_args *args,
	struct evd_message *reply)
{
	return EVD_HOST(ctx)->await_call(ctx, args, reply);
}

/* Ask all of args->aliases as evd_ctx_gather() does (reply_event and key are
 * not for it) and wait until args->n_wanted have answered well, or all have
 * answered: evd_ctx_answer() has the answers then, until the handler gathers
 * again or returns. It ends with the deadline of the call being handled at the
 * latest; who has not answered by then has -ECANCELED's status.
 *
 * 0: so many did; -ETIMEDOUT: fewer; or as evd_await_call() before that. */
static inline int
evd_await_gather(struct evd_ctx *ctx, const struct evd_send_args *args)
{
	return EVD_HOST(ctx)->await_gather(ctx, args);
}

/* Post as @args say (reply_event is not for it) and wait until args->level is
 * reached. 0, or why it is not as an errno: -EAGAIN (the mailbox is full),
 * -EOPNOTSUPP (EVD_DURABLE without a store), -ETIMEDOUT (it
 * may still get there), -ECANCELED, -EREMOTEIO (EVD_HANDLED: its handler
 * failed) ..., or as evd_ctx_post_level(), -EPERM, -EDEADLK (EVD_DELIVERED and
 * EVD_HANDLED by oneself). */
static inline int
evd_await_post(struct evd_ctx *ctx, const struct evd_send_args *args)
{
	return EVD_HOST(ctx)->await_post(ctx, args);
}

/* Take the first event of this session's mailbox that @args mean, or the next
 * to come, out of turn: *@event, good until the handler waits for another one
 * or returns; then it is handled. A call is to be answered by evd_ctx_reply()
 * until then. Not events of the control lane, which tell of other sessions.
 * 0, -ETIMEDOUT, or as evd_sleep(). */
static inline int
evd_await_event(struct evd_ctx *ctx, const struct evd_await_args *args,
	struct evd_message *event)
{
	return EVD_HOST(ctx)->await_event(ctx, args, event);
}

#ifdef __cplusplus
}
#endif

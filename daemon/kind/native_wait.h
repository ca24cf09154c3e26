#pragma once
/* Handlers of native sessions that wait: each runs on a coroutine from its
 * start, since one that has begun on the loop's stack cannot be moved. The
 * home's thread, or that of its executor, which may be another one after a
 * wait. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coro/coro.h"
#include "coro/fault.h"
#include "eventd/plugin_wait.h"
#include "kernel/await.h"
#include "kernel/session.h"
#include "kind/native_send.h"

struct msg;

/* A handler on its coroutine, and at the top of that one's stack. */
struct native_task {
	struct native *n;
	struct msg *m;    /* being handled; NULL: start() */
	struct list link; /* in native.tasks, while it waits */
	struct coro *co;
	evd_handler_fn fn;   /* NULL: start() */
	uint64_t call;       /* that it waits in; 0: it does not wait */
	struct msg *reply;   /* how that went, until the next one */
	struct await await;  /* with what_for: an event is waited for */
	struct msg *awaited; /* event that it has been given */
	const struct evd_await_args *what_for;
	struct native_given *given; /* what it may read; it is its own */
	int broken;                 /* every wait ends with this from now on */
	uint32_t n_refused;         /* waits since */
	bool stashed, leased; /* the event: to be put aside; not `current` */
	uint8_t wait;         /* enum session_wait */
	bool is_lost;         /* it would not end: nobody runs it again */
	bool has_waited;
};

/* In the tokens of their calls. */
#define NATIVE_TASK_TOKEN UINT64_C(1)

/* Does @fn run on a coroutine? */
static inline bool
native_may_wait(const struct native *n, evd_handler_fn fn)
{
	return n->image->all_wait ||
	       (n->image->waits && native_image_waits(n->image, fn));
}

/* Run @fn on a coroutine; for session_ops.run(). Takes @given. */
enum session_result native_task_run(struct native *n, struct msg *m,
	evd_handler_fn fn, const struct evd_message *event,
	struct native_given *given);
/* The same for an event that is nothing but its payload. */
enum session_result native_task_plain(
	struct native *n, struct msg *m, evd_handler_fn fn);
/* The same for start() of the plugin. */
enum session_result native_task_start(struct native *n);
/* No further event now: as many wait as may. */
bool native_is_full(const struct native *n);
static inline bool
native_is_busy(const struct native *n)
{
	return n->more && n->more->waits.n && native_is_full(n);
}
/* A wait is over: for session_ops.reply() and awaited(). */
void native_task_reply(struct native *n, uint64_t token, struct msg *reply);
void native_awaited(struct session *s, struct await *a, struct msg *m);
/* All have answered the handler that gathered. */
void native_task_gathered(struct native_gather *g);
/* The caller of @call wants no answer: does a handler wait in it? */
bool native_task_cancel(struct native *n, uint64_t call);
/* The session stops: all that wait end. False: the plugin's state cannot be
 * trusted any more. */
bool native_tasks_end(struct native *n);
/* A reply that no handler waits for comes as an event later on. */
void native_late_reply(
	struct native *n, uint64_t token, const struct msg *reply);
/* Is @m one whose answer is kept aside? Then it is run by: */
bool native_late_is_kept(const struct msg *m);
enum session_result native_late_run(
	struct native *n, struct msg *m, evd_handler_fn fn);
/* Run @fn with room: not on a coroutine. */
void native_outside(struct native *n, coro_fn fn, void *arg);
/* Of the running handler: it has been given the call by evd_await_event(). */
bool native_task_replied(struct native *n, uint64_t call);
extern const struct coro_fault_ops native_fault_ops;
/* Before any runs, again and again: faults are handled from then on. */
void native_wait_init(void);

/* @t does not wait any more. */
static inline void
native_wait_over(struct native_task *t)
{
	struct session_waits *waits = &t->n->more->waits;

	list_remove(&t->link);
	waits->n--;
	waits->for_what[t->wait]--;
}

/* Of the host. */
int native_sleep(struct evd_ctx *ctx, uint64_t ms);
int native_await_post(struct evd_ctx *ctx, const struct evd_send_args *args);
int native_await_call(struct evd_ctx *ctx, const struct evd_send_args *args,
	struct evd_message *reply);
int native_await_gather(struct evd_ctx *ctx, const struct evd_send_args *args);
int native_await_event(struct evd_ctx *ctx, const struct evd_await_args *args,
	struct evd_message *event);

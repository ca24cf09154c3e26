/* What native handlers on coroutines wait for: a time, an answer, an event.
 * On the coroutine, but for native_matches(). */
#include "kind/native_wait.h"

#include <errno.h>
#include <string.h>

#include "kernel/sched.h"
#include "kind/native_send.h"
#include "proto/envelope.h"
#include "proto/status.h"

enum { REFUSED_MAX = 1000 }; /* waits of one that was told to end */

static struct native *
native_of(struct evd_ctx *ctx)
{
	return (struct native *)ctx;
}

static uint64_t
token_of(const struct native_task *t)
{
	return (uintptr_t)t | NATIVE_TASK_TOKEN;
}

/* ---- waiting ----------------------------------------------------------- */

/* The event of evd_await_event() was the handler's until now. */
static void
finish_awaited(struct native_task *t)
{
	struct msg *m = t->awaited;

	t->awaited = NULL;
	if (m)
		session_done(t->n->session, m, EVD_STATUS_OK);
}

/* May @n's running handler wait? Its task, or NULL and why in *@r. */
static struct native_task *
begin(struct native *n, int *r)
{
	struct native_task *t = n->more ? n->more->task : NULL;
	uint64_t deadline = native_deadline(n);

	*r = -EPERM;
	if (!t)
		return NULL;
	if (!t->broken && n->stopping)
		t->broken = -ECANCELED;
	if (!t->broken && deadline &&
		deadline <= clock_now(native_sched(n)->kernel->clock))
		t->broken = -ETIMEDOUT;
	*r = t->broken;
	if (!t->broken)
		return t;
	if (n->stopping && ++t->n_refused > REFUSED_MAX) {
		t->is_lost = true;
		coro_wait(t->co); /* for ever */
	}
	return NULL;
}

/* Until native_task_reply(), native_awaited() or the end. */
static void
wait(struct native_task *t)
{
	struct native *n = t->n;
	struct msg *current = n->current;
	uint8_t after = n->after;

	t->has_waited = true;
	list_append(&n->more->tasks, &t->link);
	n->more->n_waiting++;
	coro_wait(t->co);
	list_remove(&t->link);
	n->more->n_waiting--;
	n->more->task = t;
	n->current = current;
	n->after = after;
}

/* How the wait ended: 0, or a negative errno. */
static int
outcome(const struct native_task *t)
{
	if (t->broken)
		return t->broken;
	return t->reply ? -status_errno((int)msg_status(t->reply)) : 0;
}

static int
errno_of(int r)
{
	return r ? -status_errno(sched_status(r)) : 0;
}

/* @ms, or less if the call being handled ends sooner: then *@cut. */
static uint64_t
within_deadline(const struct native *n, uint64_t ms, bool *cut)
{
	uint64_t deadline = native_deadline(n), left, now;

	*cut = false;
	if (!deadline)
		return ms;
	now = clock_now(native_sched(n)->kernel->clock);
	left = deadline > now ? (deadline - now) / NS_PER_MS + 1 : 0;
	*cut = left < ms;
	return *cut ? left : ms;
}

/* The deadline of the call being handled has come. */
static int
cut_off(struct native_task *t)
{
	t->broken = -ETIMEDOUT;
	return t->broken;
}

/* ---- a time ------------------------------------------------------------ */

int
native_sleep(struct evd_ctx *ctx, uint64_t ms)
{
	struct native *n = native_of(ctx);
	int r;
	struct native_task *t = begin(n, &r);
	bool cut;

	if (!t)
		return r;
	r = session_sleep(n->session, token_of(t), within_deadline(n, ms, &cut),
		&t->call);
	if (r)
		return errno_of(r);
	wait(t);
	r = outcome(t);
	if (r == -ETIMEDOUT && !t->broken)
		return cut ? cut_off(t) : 0;
	return r;
}

/* ---- an answer --------------------------------------------------------- */

static void
fill_reply(const struct native_task *t, struct evd_message *out)
{
	const struct msg *m = t->reply;

	*out = (struct evd_message){.data = "", .event = ""};
	if (!m) {
		out->status = EVD_STATUS_CANCELLED;
		return;
	}
	out->data = msg_payload(m);
	out->size = m->size;
	out->id = m->id;
	out->from = m->from;
	out->status = (int)msg_status(m);
}

int
native_await_call(struct evd_ctx *ctx, const struct evd_send_args *args,
	struct evd_message *reply)
{
	struct native *n = native_of(ctx);
	struct native_task *t;
	struct evd_send_args own;
	struct msg *m;
	int r;

	t = begin(n, &r);
	if (!t)
		return r;
	r = native_make(n, args, &own, &m);
	if (r)
		return r;
	if (own.key || m->to == n->session->id)
		r = own.key ? -EINVAL : -EDEADLK;
	if (!r)
		r = native_call_of(n, m, token_of(t), own.timeout_ms, &t->call);
	if (r) {
		msg_free(&native_sched(n)->pool, m);
		return r;
	}
	wait(t);
	fill_reply(t, reply);
	return outcome(t);
}

/* ---- how far a post has come ------------------------------------------- */

int
native_await_post(struct evd_ctx *ctx, const struct evd_send_args *args)
{
	struct native *n = native_of(ctx);
	struct native_task *t;
	struct evd_send_args own;
	struct msg *m;
	int r;

	t = begin(n, &r);
	if (!t)
		return r;
	r = native_make(n, args, &own, &m);
	if (r)
		return r;
	if (m->to == n->session->id && own.level >= EVD_DELIVERED) {
		msg_free(&native_sched(n)->pool, m);
		return -EDEADLK;
	}
	r = native_post_of(n, &own, m, token_of(t), &t->call);
	if (r)
		return r;
	wait(t);
	return outcome(t);
}

/* ---- an event ---------------------------------------------------------- */

static void
fill_event(const struct msg *m, struct evd_message *out)
{
	*out = (struct evd_message){
		.data = msg_payload(m),
		.size = m->size,
		.event = m->event,
		.id = m->id,
		.from = m->from,
		.call = msg_call(m),
		.late_ns = msg_late_ns(m),
		.urgent = m->flags & MSG_URGENT ? 1 : 0,
		.due_ns = msg_due_ns(m),
	};
}

/* On the loop's stack, or on that of who posts. */
static bool
native_matches(const struct await *a, const struct msg *m)
{
	const struct native_task *t =
		container_of(a, struct native_task, await);
	const struct evd_await_args *w = t->what_for;
	struct evd_message event;

	if (w->event && strcmp(w->event, m->event) != 0)
		return false;
	if (w->from && w->from != m->from)
		return false;
	if (!w->matches)
		return true;
	fill_event(m, &event);
	return w->matches(&event, w->data);
}

static uint64_t
event_timeout(const struct native *n, uint64_t ms)
{
	return ms ? ms : native_sched(n)->kernel->limits.call_timeout_ms;
}

int
native_await_event(struct evd_ctx *ctx, const struct evd_await_args *args,
	struct evd_message *event)
{
	struct native *n = native_of(ctx);
	struct evd_await_args own = {.size = 0};
	struct native_task *t;
	bool cut;
	int r;

	t = begin(n, &r);
	if (!t)
		return r;
	if (args->size < offsetof(struct evd_await_args, timeout_ms))
		return -EINVAL;
	memcpy(&own, args, args->size < sizeof(own) ? args->size : sizeof(own));
	finish_awaited(t);
	r = session_sleep(n->session, token_of(t),
		within_deadline(n, event_timeout(n, own.timeout_ms), &cut),
		&t->call);
	if (r)
		return errno_of(r);
	t->what_for = &own;
	t->await.matches = native_matches;
	r = await_begin(n->session, &t->await);
	if (r) {
		t->what_for = NULL;
		session_forget(n->session, t->call);
		return r;
	}
	wait(t);
	if (t->awaited) {
		fill_event(t->awaited, event);
		return 0;
	}
	r = outcome(t);
	return r == -ETIMEDOUT && cut ? cut_off(t) : r;
}

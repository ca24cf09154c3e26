/* What native handlers on coroutines wait for: a time, an answer, an event.
 * On the coroutine, but for native_matches().
 *
 * A handler of a session with an executor may go on on another thread than it
 * waited on, and compilers remember where thread-local data are: such data are
 * reached by functions that are called, not inlined, hold() and let_go(). */
#include "kind/native_wait.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "coro/stacks.h"
#include "kernel/away.h"
#include "kernel/sched.h"
#include "kind/answers.h"
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

/* Around what touches the kernel, and never across a wait. */
static __attribute__((noinline)) void
hold(void)
{
	away_enter();
}

static __attribute__((noinline)) void
let_go(void)
{
	away_leave();
}

/* ---- waiting ----------------------------------------------------------- */

/* The event of evd_await_event() was the handler's until now. */
static void
finish_awaited(struct native_task *t)
{
	struct msg *m = t->awaited;

	t->awaited = NULL;
	if (!m)
		return;
	hold();
	session_done(t->n->session, m, EVD_STATUS_OK);
	let_go();
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

static void
note_wait(struct native_task *t, enum session_wait what)
{
	struct session_waits *waits = &t->n->more->waits;
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);
	uint32_t depth = (uint32_t)((uintptr_t)stacks_top(t->co) - here);

	t->wait = (uint8_t)what;
	waits->n++;
	waits->for_what[what]++;
	if (depth > waits->stack_high)
		waits->stack_high = depth;
}

/* Until native_task_reply(), native_awaited() or the end. */
static void
wait(struct native_task *t, enum session_wait what)
{
	struct native *n = t->n;
	struct msg *current = n->current;
	uint8_t after = n->after;

	t->has_waited = true;
	list_append(&n->more->tasks, &t->link);
	note_wait(t, what);
	coro_wait(t->co);
	native_wait_over(t);
	n->more->task = t;
	n->more->given = t->given;
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
	hold();
	r = session_sleep(n->session, token_of(t), within_deadline(n, ms, &cut),
		&t->call);
	let_go();
	if (r)
		return errno_of(r);
	wait(t, SESSION_WAIT_TIME);
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

/* Make the call, which *@t is to wait for. */
static int
begin_call(struct native_task *t, const struct evd_send_args *args)
{
	struct native *n = t->n;
	struct evd_send_args own;
	struct msg *m;
	int r = native_make(n, args, &own, &m);

	if (r)
		return r;
	if (own.key || m->to == n->session->id)
		r = own.key ? -EINVAL : -EDEADLK;
	if (!r)
		r = native_call_of(n, m, token_of(t), own.timeout_ms, &t->call);
	if (r)
		msg_free(&native_sched(n)->pool, m);
	return r;
}

int
native_await_call(struct evd_ctx *ctx, const struct evd_send_args *args,
	struct evd_message *reply)
{
	struct native_task *t;
	int r;

	t = begin(native_of(ctx), &r);
	if (!t)
		return r;
	hold();
	r = begin_call(t, args);
	let_go();
	if (r)
		return r;
	wait(t, SESSION_WAIT_ANSWER);
	fill_reply(t, reply);
	return outcome(t);
}

/* ---- many answers ------------------------------------------------------ */

/* What the handler may read from now on, by evd_ctx_answer(). */
static int
give(struct native_task *t, struct native_gather *g)
{
	struct native_given *given = t->given;

	if (!given)
		given = calloc(1, sizeof(*given));
	if (!given) {
		answers_close(g->answers, t->n->session);
		native_gather_free(g);
		return -ENOMEM;
	}
	if (given->gathered)
		native_gather_free(given->gathered);
	given->gathered = g;
	t->given = t->n->more->given = given;
	t->has_waited = true; /* there is something to be seen to */
	return 0;
}

/* Ask, and have a call beside that ends the wait if it has to. */
static int
begin_gather(struct native_task *t, const struct evd_send_args *args)
{
	struct native *n = t->n;
	struct native_gather *g;
	bool cut;
	int r = native_gather_begin(n, args, true, &g);

	if (!r)
		r = give(t, g);
	if (r || answers_are_over(g->answers))
		return r;
	r = session_sleep(n->session, token_of(t),
		within_deadline(n, UINT64_MAX, &cut), &t->call);
	if (r)
		answers_close(g->answers, n->session);
	else
		g->task = t;
	return errno_of(r);
}

int
native_await_gather(struct evd_ctx *ctx, const struct evd_send_args *args)
{
	struct native_task *t;
	struct native_gather *g;
	int r;

	t = begin(native_of(ctx), &r);
	if (!t)
		return r;
	hold();
	r = begin_gather(t, args);
	let_go();
	if (r)
		return r;
	g = t->given->gathered;
	if (g->task) {
		wait(t, SESSION_WAIT_ANSWER);
		g->task = NULL;
		r = outcome(t);
		hold();
		answers_close(g->answers, t->n->session);
		let_go();
	}
	if (r == -ETIMEDOUT)
		return cut_off(t);
	return r || g->answers->n_good >= g->answers->n_wanted ? r : -ETIMEDOUT;
}

/* ---- how far a post has come ------------------------------------------- */

static int
begin_post(struct native_task *t, const struct evd_send_args *args)
{
	struct native *n = t->n;
	struct evd_send_args own;
	struct msg *m;
	int r = native_make(n, args, &own, &m);

	if (r)
		return r;
	if (m->to == n->session->id && own.level >= EVD_DELIVERED) {
		msg_free(&native_sched(n)->pool, m);
		return -EDEADLK;
	}
	return native_post_of(n, &own, m, token_of(t), &t->call);
}

int
native_await_post(struct evd_ctx *ctx, const struct evd_send_args *args)
{
	struct native_task *t;
	int r;

	t = begin(native_of(ctx), &r);
	if (!t)
		return r;
	hold();
	r = begin_post(t, args);
	let_go();
	if (r)
		return r;
	wait(t, SESSION_WAIT_ANSWER);
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
		.from = msg_sender(m),
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
	if (w->from && w->from != msg_sender(m))
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

static int
begin_event(struct native_task *t, const struct evd_await_args *own, bool *cut)
{
	struct native *n = t->n;
	int r = session_sleep(n->session, token_of(t),
		within_deadline(n, event_timeout(n, own->timeout_ms), cut),
		&t->call);

	if (r)
		return errno_of(r);
	t->what_for = own;
	t->await.matches = native_matches;
	r = await_begin(n->session, &t->await);
	if (!r)
		return 0;
	t->what_for = NULL;
	session_forget(n->session, t->call);
	return r;
}

int
native_await_event(struct evd_ctx *ctx, const struct evd_await_args *args,
	struct evd_message *event)
{
	struct evd_await_args own = {.size = 0};
	struct native_task *t;
	bool cut;
	int r;

	t = begin(native_of(ctx), &r);
	if (!t)
		return r;
	if (args->size < offsetof(struct evd_await_args, timeout_ms))
		return -EINVAL;
	memcpy(&own, args, args->size < sizeof(own) ? args->size : sizeof(own));
	finish_awaited(t);
	hold();
	r = begin_event(t, &own, &cut);
	let_go();
	if (r)
		return r;
	wait(t, SESSION_WAIT_EVENT);
	if (t->awaited) {
		fill_event(t->awaited, event);
		return 0;
	}
	r = outcome(t);
	return r == -ETIMEDOUT && cut ? cut_off(t) : r;
}

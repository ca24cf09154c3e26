/* Native handlers on coroutines: beginning, ending, being ended. What they
 * wait for is in native_wait.c. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "coro/stacks.h"
#include "kernel/away.h"
#include "kernel/sched.h"
#include "kind/native_wait.h"

enum { STEP_ENDED, STEP_WAITS, STEP_OVERFLOWED, STEP_LOST };

/* What a coroutine begins with; the first members are those of a task, for
 * native_fault_ops. It lies on the loop's stack and is read at once. */
struct job {
	struct native *n;
	struct msg *m;
	evd_handler_fn fn;
	const struct evd_message *event;
	struct native_given *given;
};

/* ---- on the coroutine -------------------------------------------------- */

static int
call_start(struct native *n)
{
	return n->image->plugin->start((struct evd_ctx *)n, &n->state);
}

/* What the loop's stack held is copied before the first wait. */
static int
call_handler(struct native_task *t, const struct evd_message *from)
{
	struct native *n = t->n;
	struct evd_message event = *from;
	struct evd_notice notice;

	if (event.data != msg_payload(t->m) && event.size == sizeof(notice)) {
		memcpy(&notice, event.data, sizeof(notice));
		event.data = &notice;
	}
	return t->fn((struct evd_ctx *)n, n->state, &event);
}

/* What a wait alone needs is set by it. */
static inline __attribute__((always_inline)) struct native *
begin(struct native_task *t, struct coro *co, const struct job *job)
{
	struct native *n = job->n;

	t->n = n;
	t->m = job->m;
	t->co = co;
	t->fn = job->fn;
	t->call = 0;
	t->awaited = NULL;
	t->what_for = NULL;
	t->given = job->given;
	t->broken = 0;
	t->n_refused = 0;
	t->stashed = t->leased = t->is_lost = t->has_waited = false;
	co->arg = t;
	n->more->task = t;
	n->more->given = job->given;
	return n;
}

/* Its frame goes: what has to be seen to is copied. */
static void
end(struct native_task *t, int r)
{
	struct native *n = t->n;

	t->stashed = n->after == NATIVE_STASH;
	if (n->after == NATIVE_FAIL && !r)
		r = -ENOMEM;
	n->more->result = r;
	*n->more->ended = *t;
}

static void
task_main(struct coro *co, void *arg)
{
	const struct job *job = arg;
	struct native_task task;
	struct native *n = begin(&task, co, job);

	end(&task, task.fn ? call_handler(&task, job->event) : call_start(n));
}

/* The hot path: an event that is nothing but its payload, and a handler that
 * mostly does not wait. */
static void
plain_main(struct coro *co, void *arg)
{
	const struct job *job = arg;
	const struct msg *m = job->m;
	struct evd_message event = {
		.data = m->data,
		.size = m->size,
		.event = m->event,
		.id = m->id,
		.from = msg_sender(m),
	};
	struct native_task task;
	struct native *n = begin(&task, co, job);
	int r = task.fn((struct evd_ctx *)n, n->state, &event);

	if (r || task.has_waited || n->after)
		end(&task, r);
	else
		n->more->ended = NULL;
}

/* ---- on the loop's stack ----------------------------------------------- */

static void
take_away(struct native *n)
{
	n->more->task = NULL;
	n->more->given = NULL;
	n->current = NULL;
	n->after = 0;
}

/* @co has waited or ended: then *@ended is the task. */
static int
stepped(struct native *n, struct coro *co, enum coro_state state,
	struct native_task *ended)
{
	struct native_task *t = n->more->task;

	take_away(n);
	if (state == CORO_WAITS && !t->is_lost)
		return STEP_WAITS;
	if (state == CORO_WAITS || state == CORO_OVERFLOWED)
		*ended = *t; /* the stack is still there */
	coro_free(co);
	if (state == CORO_ENDED)
		return STEP_ENDED;
	n->more->is_lost = true;
	return state == CORO_OVERFLOWED ? STEP_OVERFLOWED : STEP_LOST;
}

static int
step(struct native *n, struct coro *co, struct native_task *ended)
{
	n->more->ended = ended;
	return stepped(n, co, coro_resume(co), ended);
}

/* What the handler was given. */
static void
end_given(struct native_task *t, int status)
{
	struct msg *m = t->awaited;

	t->awaited = NULL;
	if (m) {
		away_pin();
		session_done(t->n->session, m, status);
	}
	native_given_free(t->given);
	t->given = NULL;
}

static void
describe(const struct native_task *t, char *text, size_t size)
{
	if (!t->m)
		snprintf(text, size, "plugin %s: start()",
			t->n->session->spec->path);
	else
		snprintf(text, size, "event %s (id %" PRIu64 "): its handler",
			t->m->event, t->m->id);
}

/* The session fails, and @n is gone afterwards. */
static void
fail(struct native_task *t, int how, int r)
{
	struct session *s = t->n->session;
	struct coro_stacks stacks;
	char who[512];

	away_pin();
	describe(t, who, sizeof(who));
	end_given(t, EVD_STATUS_DIED);
	coro_stacks(&stacks);
	if (how == STEP_OVERFLOWED)
		session_fail(s,
			"%s overflowed its stack of %zu KiB (CoroutineStack=)",
			who, stacks.stack_size >> 10);
	else
		session_fail(s, "%s returned %d (%s)", who, r,
			strerror(r < 0 ? -r : r));
	if (t->leased)
		session_abandon(s, t->m, true);
}

/* What came of the first step of a handler, or of start(). */
static enum session_result
first_stepped(struct native *n, struct msg *m, int how, struct native_task *t)
{
	int r = n->more->result;

	if (how == STEP_WAITS) {
		if (!m || native_most_waiting(n) <= 1)
			return SESSION_WAIT;
		container_of(n->more->tasks.prev, struct native_task, link)
			->leased = true;
		return SESSION_LEASED;
	}
	if (how != STEP_ENDED || r) {
		fail(t, how, r);
		return SESSION_CRASHED;
	}
	end_given(t, EVD_STATUS_OK);
	if (!m)
		n->started = true;
	return t->stashed ? SESSION_STASHED : SESSION_DONE;
}

/* A coroutine to run @job, or NULL, and the session has failed. */
static inline __attribute__((always_inline)) struct coro *
get(struct native *n, coro_fn fn, struct job *job)
{
	struct coro *co = n->more || native_more(n) ? coro_new(fn, job) : NULL;
	struct native_task t;

	if (__builtin_expect(co != NULL, 1)) {
		n->current = job->m;
		return co;
	}
	t = (struct native_task){.n = n, .m = job->m, .given = job->given};
	fail(&t, STEP_ENDED, -ENOMEM);
	return NULL;
}

static enum session_result
first(struct native *n, struct job *job)
{
	struct coro *co = get(n, task_main, job);
	struct native_task t = {.n = n, .m = job->m};

	if (!co)
		return SESSION_CRASHED;
	return first_stepped(n, job->m, step(n, co, &t), &t);
}

enum session_result
native_task_plain(struct native *n, struct msg *m, evd_handler_fn fn)
{
	struct job job = {n, m, fn, NULL, NULL};
	struct coro *co = get(n, plain_main, &job);
	enum coro_state state;
	struct native_task t;

	if (!co)
		return SESSION_CRASHED;
	t.n = n;
	t.m = m;
	t.awaited = NULL;
	t.given = NULL;
	t.stashed = t.leased = false;
	n->more->ended = &t;
	state = coro_resume(co);
	if (__builtin_expect(state == CORO_ENDED && !n->more->ended, 1)) {
		coro_free(co);
		n->more->task = NULL;
		n->current = NULL;
		return SESSION_DONE;
	}
	return first_stepped(n, m, stepped(n, co, state, &t), &t);
}

enum session_result
native_task_run(struct native *n, struct msg *m, evd_handler_fn fn,
	const struct evd_message *event, struct native_given *given)
{
	struct job job = {n, m, fn, event, given};

	return first(n, &job);
}

enum session_result
native_task_start(struct native *n)
{
	struct job job = {n, NULL, NULL, NULL, NULL};

	return first(n, &job);
}

bool
native_is_full(const struct native *n)
{
	return native_most_waiting(n) > 1 &&
	       n->more->waits.n >= native_most_waiting(n);
}

/* A task has ended well in a later step. */
static void
done(struct native_task *t)
{
	struct native *n = t->n;
	struct session *s = n->session;

	away_pin();
	end_given(t, EVD_STATUS_OK);
	if (!t->m) {
		n->started = true;
		session_started(s);
	} else if (t->stashed) {
		session_stash(s, t->m);
	} else {
		session_done(s, t->m, EVD_STATUS_OK);
	}
	if (t->leased)
		session_wake(s);
}

static void
go_on(struct native_task *t)
{
	struct native *n = t->n;
	struct native_task ended = {.n = n, .m = t->m};
	int how, r;

	coro_thread_init();
	n->more->task = t;
	how = step(n, t->co, &ended);
	if (how == STEP_WAITS)
		return;
	r = n->more->result;
	if (how == STEP_ENDED && !r)
		done(&ended);
	else
		fail(&ended, how, r);
}

/* ---- what ends a wait -------------------------------------------------- */

/* Nor is the reply wanted that may have come and not been given yet. */
static void
forget(struct session *s, uint64_t call)
{
	if (session_cancel_call(s, call))
		session_forget(s, call);
}

static void
stop_waiting(struct native_task *t)
{
	if (t->what_for) {
		away_enter();
		await_end(t->n->session, &t->await);
		away_leave();
	}
	t->what_for = NULL;
}

void
native_task_reply(struct native *n, uint64_t token, struct msg *reply)
{
	struct native_task *t =
		(struct native_task *)(uintptr_t)(token & ~NATIVE_TASK_TOKEN);

	(void)n;
	stop_waiting(t);
	t->call = 0;
	t->reply = reply;
	go_on(t);
}

void
native_awaited(struct session *s, struct await *a, struct msg *m)
{
	struct native_task *t = container_of(a, struct native_task, await);

	away_enter();
	forget(s, t->call);
	away_leave();
	t->what_for = NULL;
	t->call = 0;
	t->reply = NULL;
	t->awaited = m;
	go_on(t);
}

void
native_task_gathered(struct native_gather *g)
{
	struct native_task *t = g->task;

	away_enter();
	forget(t->n->session, t->call);
	away_leave();
	t->call = 0;
	t->reply = NULL;
	go_on(t);
}

bool
native_task_cancel(struct native *n, uint64_t call)
{
	static const char text[] = "the caller cancelled it";

	if (!n->more)
		return false;
	LIST_FOREACH (node, &n->more->tasks) {
		struct native_task *t =
			container_of(node, struct native_task, link);

		if (!t->m || msg_call(t->m) != call)
			continue;
		t->broken = -ECANCELED;
		if (session_cancel_token(
			    n->session, (uintptr_t)t | NATIVE_TASK_TOKEN))
			(void)sched_reply(native_sched(n), t->call,
				EVD_STATUS_CANCELLED, text, sizeof(text) - 1);
		return true;
	}
	return false;
}

/* ---- the end ----------------------------------------------------------- */

static void
say_lost(const struct native_task *t)
{
	char who[512];

	describe(t, who, sizeof(who));
	log_err("session.stuck",
		"session=\"%s\" reason=\"%s goes on waiting, though it is "
		"told to end: it is left where it is\"",
		session_name(t->n->session), who);
}

/* One that waits is told to end, and every further wait as well. */
static void
end_one(struct native *n, struct native_task *t)
{
	struct native_task ended = {.n = n, .m = t->m};
	int how;

	stop_waiting(t);
	forget(n->session, t->call);
	t->call = 0;
	t->reply = NULL;
	t->broken = -ECANCELED;
	if (n->more->is_lost) { /* what it would see is not to be trusted */
		native_wait_over(t);
		ended = *t;
		coro_free(ended.co);
		how = STEP_OVERFLOWED;
	} else {
		n->more->task = t;
		how = step(n, t->co, &ended);
	}
	if (how == STEP_LOST)
		say_lost(&ended);
	end_given(&ended, EVD_STATUS_DIED);
	if (ended.leased)
		session_abandon(n->session, ended.m, false);
}

bool
native_tasks_end(struct native *n)
{
	if (!n->more)
		return true;
	while (!list_is_empty(&n->more->tasks))
		end_one(n, container_of(n->more->tasks.next, struct native_task,
				   link));
	return !n->more->is_lost;
}

void
native_outside(struct native *n, coro_fn fn, void *arg)
{
	if (n->more && n->more->task)
		coro_outside(n->more->task->co, fn, arg);
	else
		fn(NULL, arg);
}

bool
native_task_replied(struct native *n, uint64_t call)
{
	struct msg *m =
		n->more && n->more->task ? n->more->task->awaited : NULL;

	if (!m || msg_call(m) != call)
		return false;
	m->flags |= MSG_REPLIED;
	return true;
}

/* ---- faults ------------------------------------------------------------ */

/* Frames can be given up in the plugin's own code: what the C library and the
 * daemon do must be done to its end. */
static bool
may_leave(const struct coro *co, const void *pc)
{
	const struct job *job = co->arg;

	return native_image_has(job->n->image, pc);
}

static size_t
put(char *text, size_t n, size_t size, const char *more)
{
	while (*more && n < size)
		text[n++] = *more++;
	return n;
}

static size_t
put_number(char *text, size_t n, size_t size, uint64_t number)
{
	char digits[24];
	size_t i = sizeof(digits) - 1;

	digits[i] = '\0';
	do
		digits[--i] = (char)('0' + number % 10);
	while (number /= 10);
	return put(text, n, size, digits + i);
}

/* In a signal handler. */
static size_t
say_who(const struct coro *co, char *text, size_t size)
{
	const struct job *job = co->arg;
	size_t n = put(text, 0, size, "session=\"");

	n = put(text, n, size, session_name(job->n->session));
	if (!job->m)
		return put(text, n, size, "\": start()");
	n = put(text, n, size, "\" event ");
	n = put(text, n, size, job->m->event);
	n = put(text, n, size, " (id ");
	n = put_number(text, n, size, job->m->id);
	return put(text, n, size, "): its handler");
}

const struct coro_fault_ops native_fault_ops = {may_leave, say_who};

static void
init_once(void)
{
	int r = coro_fault_init(&native_fault_ops);

	if (r)
		log_warn("coroutine.no-faults", "errno=%d", -r);
}

void
native_wait_init(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, init_once);
}

/* Native sessions: a plugin's handlers as session_ops. The home's thread. */
#include "kind/native.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fault.h"
#include "kernel/away.h"
#include "kernel/notice.h"
#include "kernel/sched.h"
#include "kind/answers.h"
#include "kind/call_notice.h"
#include "kind/kind.h"
#include "kind/native_send.h"
#include "kind/native_wait.h"

/* ---- start ------------------------------------------------------------- */

static struct native *
native_new(struct session *s, const struct native_image *image)
{
	struct native *n = malloc(sizeof(*n));

	if (n)
		*n = (struct native){
			.host = session_executor(s) ? &native_host_away
						    : &native_host,
			.session = s,
			.image = image,
		};
	return n;
}

struct native_more *
native_more(struct native *n)
{
	static const struct native_slot nothing_said; /* of no image */
	struct native_more *more = n->more;

	if (more)
		return more;
	more = FAULT(native_more) ? NULL : calloc(1, sizeof(*more));
	if (!more)
		return NULL;
	more->said = &nothing_said;
	list_init(&more->targets);
	list_init(&more->calls);
	list_init(&more->gathers);
	list_init(&more->tasks);
	return n->more = more;
}

static enum session_result
native_start(struct session *s)
{
	const struct sched *sched = atomic_load(&s->home);
	const char *path = s->spec->path;
	const struct native_image *image;
	char error[512];
	struct native *n;
	int r;

	s->state = NULL;
	image = native_image_get_at(path ? path : "",
		sched->now_ns + sched->turns, error, sizeof(error));
	if (!image) {
		session_fail(s, "plugin %s: %s", path ? path : "", error);
		return SESSION_CRASHED;
	}
	n = native_new(s, image);
	if (!n) {
		session_fail(s, "plugin %s: out of memory", path);
		return SESSION_CRASHED;
	}
	s->state = n;
	if (image->waits)
		native_wait_init();
	if (image->all_wait && image->plugin->start)
		return native_task_start(n);
	r = image->plugin->start
		    ? image->plugin->start((struct evd_ctx *)n, &n->state)
		    : 0;
	if (r) {
		session_fail(s, "plugin %s: start() returned %d (%s)", path, r,
			strerror(r < 0 ? -r : r));
		return SESSION_CRASHED;
	}
	n->started = true;
	return SESSION_DONE;
}

/* ---- handling ---------------------------------------------------------- */

static evd_handler_fn
handler_by_name(const struct native *n, const char *event, size_t size)
{
	const struct evd_plugin *p = n->image->plugin;
	uint16_t index = native_image_find(n->image, event, size);

	return index ? p->handlers[index - 1].fn : p->fallback;
}

/* A handler of the table that goes first. */
static evd_handler_fn
handler_first(const struct native *n, const char *event)
{
	const struct native_more *more = n->more;

	for (size_t i = 0; n->became && i < more->n_first; i++)
		if (strcmp(more->first[i].event, event) == 0)
			return more->first[i].fn;
	return NULL;
}

/* Others that are called as what only the daemon sends. */
static bool
is_false(const char *event)
{
	return notice_is_name(event) ||
	       (strcmp(event, call_cancelled_event) == 0 &&
		       !call_notice_is_cancelled(event));
}

/* No fallback: who does not know of it does not want it. */
static evd_handler_fn
own_handler(const struct native *n, const char *event, size_t size)
{
	uint16_t index = native_image_find(n->image, event, size);

	return index ? n->image->plugin->handlers[index - 1].fn : NULL;
}

/* An index is another session's word for it: it counts only with our own
 * string beside it. */
static evd_handler_fn
handler_of(const struct native *n, const struct msg *m)
{
	const struct evd_plugin *p = n->image->plugin;
	size_t i = m->handler - 1u;
	evd_handler_fn fn = handler_first(n, m->event);

	if (m->event[0] == '_' && notice_is_text(m))
		return fn ? fn : own_handler(n, m->event, m->event_size);
	if (m->event[0] == '_' && is_false(m->event))
		return p->fallback; /* its handler expects a struct */
	if (fn)
		return fn;
	if (m->handler && i < p->n_handlers && p->handlers[i].event == m->event)
		return p->handlers[i].fn;
	return handler_by_name(n, m->event, m->event_size);
}

__attribute__((noinline)) static void
fail_handler(struct session *s, const char *event, uint64_t id, int r)
{
	away_pin();
	session_fail(s,
		"event %s (id %" PRIu64 "): its handler returned %d "
		"(%s)",
		event, id, r, strerror(r < 0 ? -r : r));
}

/* The handler of the event @m returned @r, or asked for something. */
__attribute__((noinline)) static enum session_result
end_oddly(struct native *n, const struct msg *m, int r)
{
	if (!r && n->after == NATIVE_STASH) {
		n->after = 0;
		return SESSION_STASHED;
	}
	fail_handler(n->session, m->event, m->id, r ? r : -ENOMEM);
	return SESSION_CRASHED;
}

static inline __attribute__((always_inline)) enum session_result
call_plain(struct native *n, struct msg *m, evd_handler_fn fn,
	const struct evd_message *event)
{
	int r;

	n->current = m;
	r = fn((struct evd_ctx *)n, n->state, event);
	m = TAKE(n->current);
	return r || n->after ? end_oddly(n, m, r) : SESSION_DONE;
}

static enum session_result
call_handler(struct session *s, struct msg *m, evd_handler_fn fn,
	const struct evd_message *event)
{
	struct native *n = s->state;

	if (n->image->waits && native_is_busy(n))
		return SESSION_HELD;
	if (n->image->waits && native_may_wait(n, fn))
		return native_task_run(n, m, fn, event, NULL);
	return call_plain(n, m, fn, event);
}

/* The handler of an event that is nothing but its payload, for a session that
 * has not become anything else; NULL: look closer. */
static inline const struct evd_handler *
plain_handler(const struct native *n, const struct msg *m)
{
	const struct native_image *image = n->image;
	size_t i = m->handler - 1u;

	if ((m->flags & ~MSG_ADMITTED) || n->became || i >= image->n_handlers ||
		image->handlers[i].event != m->event)
		return NULL;
	return &image->handlers[i];
}

/* It is for a handler of its own name alone. */
__attribute__((noinline)) static enum session_result
run_notice(struct session *s, struct msg *m)
{
	const struct native *n = s->state;
	uint16_t index = native_image_find(n->image, m->event, m->event_size);
	struct notice notice;
	struct evd_notice fields;
	struct evd_message event = {
		.data = &fields,
		.size = sizeof(fields),
		.event = m->event,
		.id = m->id,
	};

	if (!index)
		return SESSION_UNHANDLED;
	notice_read(m, &notice);
	fields = (struct evd_notice){
		.watch = notice.watch,
		.session = notice.session,
		.lost = notice.lost,
		.from = notice.from,
		.to = notice.to,
		.up = notice.up,
		.alias = notice.alias,
		.reason = notice.reason,
		.text = notice.text,
		.change = notice.change,
	};
	return call_handler(
		s, m, n->image->plugin->handlers[index - 1].fn, &event);
}

/* What few messages have. */
static void
add_call(const struct native *n, const struct msg *m, struct evd_message *event)
{
	const struct msg_extra *extra = msg_extra(m);
	uint64_t now = away_here ? away_here->now_ns : native_sched(n)->now_ns;

	if (extra && extra->re)
		event->re = extra->re;
	if (event->re && !call_notice_is_cancelled(m->event))
		event->status = (int)extra->status;
	if (msg_call(m) && msg_deadline_ns(m))
		event->left_ns =
			msg_deadline_ns(m) > now ? msg_deadline_ns(m) - now : 1;
}

/* The same for one whose handlers may wait, which this one does. */
static inline evd_handler_fn
plain_waiting(const struct native *n, const struct msg *m)
{
	const struct evd_plugin *p = n->image->plugin;
	size_t i = m->handler - 1u;

	if (!n->image->waits || (m->flags & ~MSG_ADMITTED) || n->became ||
		i >= p->n_handlers || p->handlers[i].event != m->event ||
		native_is_busy(n) || !native_may_wait(n, p->handlers[i].fn))
		return NULL;
	return p->handlers[i].fn;
}

__attribute__((noinline)) static enum session_result
run_closely(struct session *s, struct msg *m)
{
	struct native *n = s->state;
	evd_handler_fn fn = handler_of(n, m);
	struct evd_message event = {
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

	if (m->event[0] == '_' && notice_is(m))
		return run_notice(s, m);
	if (msg_call(m) || (m->flags & MSG_EXTRA))
		add_call(n, m, &event);
	if (!fn || (call_notice_is_cancelled(m->event) &&
			   fn == n->image->plugin->fallback))
		return SESSION_UNHANDLED;
	if (n->image->waits && native_late_is_kept(m))
		return native_late_run(n, m, fn);
	return call_handler(s, m, fn, &event);
}

__attribute__((noinline)) static enum session_result
run_any(struct session *s, struct msg *m)
{
	struct native *n = s->state;
	evd_handler_fn fn = plain_waiting(n, m);

	return fn ? native_task_plain(n, m, fn) : run_closely(s, m);
}

/* Nothing here overflows: no room for a guard. */
__attribute__((no_stack_protector)) static enum session_result
native_run(struct session *s, struct msg *m)
{
	struct native *n = s->state;
	const struct evd_handler *h = plain_handler(n, m);
	struct evd_message event;

	if (!h)
		return run_any(s, m);
	event = (struct evd_message){
		.data = m->data,
		.size = m->size,
		.event = m->event,
		.id = m->id,
		.from = m->from,
	};
	return call_plain(n, m, h->fn, &event);
}

static evd_handler_fn
reply_handler(const struct native *n, const char *event)
{
	evd_handler_fn fn = handler_first(n, event);

	return fn ? fn : handler_by_name(n, event, strlen(event));
}

/* One of many answers came; the last makes it an event. */
static void
gathered(struct session *s, uint64_t token, const struct msg *reply)
{
	struct native *n = s->state;
	struct native_gather *g;
	struct evd_message event = {.data = ""};
	struct native_given given = {NULL, NULL, NULL};
	evd_handler_fn fn;
	int r;

	away_enter();
	g = native_gather_take(n, token, reply);
	away_leave();
	if (!g)
		return;
	list_remove(&g->link);
	given.gathered = g;
	event.event = g->event;
	if (g->answers->n_good < g->answers->n_wanted)
		event.status = EVD_STATUS_TIMEOUT;
	fn = reply_handler(n, g->event);
	n->more->given = &given;
	r = fn ? fn((struct evd_ctx *)n, n->state, &event) : 0;
	n->more->given = NULL;
	if (r)
		fail_handler(s, g->event, 0, r);
	native_gather_free(g);
}

/* An answer to what was asked of a mailbox and the like. */
static int
with_answer(struct native *n, const struct native_call *call,
	const struct evd_message *event, evd_handler_fn fn)
{
	struct native_given given = {
		.managed = native_managed_new(call, event)};
	int r;

	n->more->given = &given;
	r = fn((struct evd_ctx *)n, n->state, event);
	n->more->given = NULL;
	free(given.managed);
	return r;
}

static void
native_reply(struct session *s, uint64_t token, struct msg *reply)
{
	struct native *n = s->state;
	struct native_call *call = (struct native_call *)(uintptr_t)token;
	evd_handler_fn fn;
	struct evd_message event;
	int r;

	if (n->image->waits) {
		if (token & NATIVE_TASK_TOKEN)
			native_task_reply(n, token, reply);
		else
			native_late_reply(n, token, reply);
		return;
	}
	if (token & ANSWERS_TOKEN) {
		gathered(s, token, reply);
		return;
	}
	fn = reply_handler(n, call->event);
	event = (struct evd_message){
		.data = msg_payload(reply),
		.size = reply->size,
		.event = call->event,
		.id = reply->id,
		.from = reply->from,
		.status = (int)msg_status(reply),
		.re = call->call,
	};
	list_remove(&call->link);
	if (fn && call->op)
		r = with_answer(n, call, &event, fn);
	else
		r = fn ? fn((struct evd_ctx *)n, n->state, &event) : 0;
	if (r)
		fail_handler(s, call->event, reply->id, r);
	free(call);
}

/* stop() frees what start() made, also after a failure: a handler that returns
 * an error has not lost its mind. One that has been given up may have. */
static void
native_stop(struct session *s, bool crashed)
{
	struct native *n = s->state;
	const struct evd_plugin *p;

	(void)crashed;
	if (!n)
		return;
	p = n->image->plugin;
	n->current = NULL;
	n->stopping = true;
	if (native_tasks_end(n) && n->started && p->stop)
		p->stop((struct evd_ctx *)n, n->state);
	s->state = NULL;
	native_host_deinit(n);
	free(n);
}

static bool
native_cancelled(struct session *s, uint64_t call)
{
	struct native *n = s->state;

	if (!n->more || !deferred_remove(&n->more->deferred, call))
		return native_task_cancel(n, call);
	call_notice_cancelled(s, call);
	return true;
}

/* What the plugin itself allocates is not known. */
static size_t
native_memory(const struct session *s)
{
	const struct native *n = s->state;

	if (!n)
		return 0;
	return sizeof(*n) +
	       (n->more ? sizeof(*n->more) + n->more->max_refs *
						     sizeof(*n->more->refs)
			: 0);
}

static void
native_moved(struct session *s)
{
	struct native *n = s->state;

	if (n)
		n->host =
			session_executor(s) ? &native_host_away : &native_host;
}

static bool
native_owes(const struct session *s)
{
	const struct native *n = s->state;

	return n && n->more && n->more->deferred.calls.n > 0;
}

static const struct msg *
native_handles(const struct session *s)
{
	const struct native *n = s->state;

	return n ? n->current : NULL;
}

static void
native_waits(const struct session *s, struct session_waits *out)
{
	const struct native *n = s->state;

	if (n && n->more)
		*out = n->more->waits;
}

const struct session_ops kind_native = {
	.kind = "native",
	.gaps = true,
	.start = native_start,
	.run = native_run,
	.reply = native_reply,
	.settled = session_settled,
	.stop = native_stop,
	.memory = native_memory,
	.cancelled = native_cancelled,
	.awaited = native_awaited,
	.owes = native_owes,
	.waits = native_waits,
	.goes_away = true,
	.handles = native_handles,
	.moved = native_moved,
};

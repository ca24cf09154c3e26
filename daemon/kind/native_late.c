/* Answers of a native session whose handlers may wait: while one does, no other
 * begins, so answers come as events of the control lane. What an answer's
 * handler reads by functions of the host is kept until then. The home's thread.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/away.h"
#include "kernel/sched.h"
#include "kind/answers.h"
#include "kind/call_notice.h"
#include "kind/native_send.h"
#include "kind/native_wait.h"

/* In the number of the call that the event is said to answer; the rest is the
 * place of what is kept. */
#define KEPT (UINT64_C(1) << 63)

static uint64_t
kept(const void *place)
{
	return (uintptr_t)place | KEPT;
}

static void
late_gather(struct session *s, struct native_gather *g)
{
	static const struct msg nothing;

	if (!call_notice_answer(
		    s, kept(g), g->event, (uint8_t)strlen(g->event), &nothing))
		native_gather_free(g);
}

/* The last of many answers has come, or one that was late. */
static void
take_gathered(struct native *n, uint64_t token, const struct msg *reply)
{
	struct native_gather *g;

	away_enter();
	g = native_gather_take(n, token, reply);
	if (g && !g->task)
		late_gather(n->session, g);
	away_leave();
	if (g && g->task)
		native_task_gathered(g);
}

void
native_late_reply(struct native *n, uint64_t token, const struct msg *reply)
{
	struct native_call *call = (struct native_call *)(uintptr_t)token;

	if (token & ANSWERS_TOKEN) {
		take_gathered(n, token, reply);
		return;
	}
	away_enter();
	if (!call_notice_answer(n->session, call->op ? kept(call) : call->call,
		    call->event, call->size, reply) ||
		!call->op)
		native_call_free(call);
	away_leave();
}

bool
native_late_is_kept(const struct msg *m)
{
	const struct msg_extra *extra = msg_extra(m);

	return extra && (extra->re & KEPT) &&
	       !call_notice_is_cancelled(m->event);
}

/* What @re, of an answer, stands for; false: of an earlier life of the
 * session. */
static bool
find(struct native *n, uint64_t re, struct native_given *given)
{
	if (!n->more)
		return false;
	LIST_FOREACH (node, &n->more->gathers) {
		struct native_gather *g =
			container_of(node, struct native_gather, link);

		if (kept(g) == re) {
			given->gathered = g;
			return true;
		}
	}
	LIST_FOREACH (node, &n->more->calls) {
		struct native_call *call =
			container_of(node, struct native_call, link);

		if (kept(call) == re) {
			given->call = call;
			return true;
		}
	}
	return false;
}

/* The answer as an event. Many are over when enough of them are good. */
static void
fill(const struct native_given *given, const struct msg *m,
	struct evd_message *event)
{
	const struct answers *a;

	*event = (struct evd_message){
		.data = "", .event = m->event, .id = m->id};
	if (given->gathered) {
		a = given->gathered->answers;
		if (a->n_good < a->n_wanted)
			event->status = EVD_STATUS_TIMEOUT;
		return;
	}
	event->data = msg_payload(m);
	event->size = m->size;
	event->status = (int)msg_extra(m)->status;
}

static enum session_result
run_plain(struct native *n, const struct msg *m, evd_handler_fn fn,
	const struct evd_message *event, struct native_given *given)
{
	int r;

	n->more->given = given;
	r = fn((struct evd_ctx *)n, n->state, event);
	n->more->given = NULL;
	native_given_free(given);
	if (!r)
		return SESSION_DONE;
	away_pin();
	session_fail(n->session,
		"event %s (id %" PRIu64 "): its handler returned %d (%s)",
		m->event, m->id, r, strerror(r < 0 ? -r : r));
	return SESSION_CRASHED;
}

enum session_result
native_late_run(struct native *n, struct msg *m, evd_handler_fn fn)
{
	struct native_given *given, found = {NULL, NULL, NULL};
	struct evd_message event;

	if (native_is_busy(n))
		return SESSION_HELD;
	if (!find(n, msg_extra(m)->re, &found))
		return SESSION_DONE;
	fill(&found, m, &event);
	if (found.call)
		found.managed = native_managed_new(found.call, &event);
	given = malloc(sizeof(*given));
	if (!given) {
		free(found.managed);
		away_pin();
		session_fail(n->session, "event %s (id %" PRIu64 "): no memory",
			m->event, m->id);
		return SESSION_CRASHED;
	}
	*given = found;
	if (native_may_wait(n, fn))
		return native_task_run(n, m, fn, &event, given);
	return run_plain(n, m, fn, &event, given);
}

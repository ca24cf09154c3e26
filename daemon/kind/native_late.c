/* Answers of a native session whose handlers may wait: while one does, no other
 * begins, so answers come as events of the control lane. What an answer's
 * handler reads by functions of the host is kept until then. The home's thread.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

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

void
native_late_reply(struct native *n, uint64_t token, const struct msg *reply)
{
	struct native_call *call = (struct native_call *)(uintptr_t)token;
	struct native_gather *g;

	if (token & ANSWERS_TOKEN) {
		g = native_gather_take(n, token, reply);
		if (g)
			late_gather(n->session, g);
		return;
	}
	if (!call_notice_answer(n->session, call->op ? kept(call) : call->call,
		    call->event, call->size, reply) ||
		!call->op)
		native_call_free(call);
}

bool
native_late_is_kept(const struct msg *m)
{
	const struct msg_extra *extra = msg_extra(m);

	return extra && (extra->re & KEPT) &&
	       !call_notice_is_cancelled(m->event);
}

static int
run_gather(struct native *n, struct native_gather *g, const struct msg *m,
	evd_handler_fn fn)
{
	struct evd_message event = {.data = "", .event = g->event, .id = m->id};
	int r;

	if (g->answers->n_good < g->answers->n_wanted)
		event.status = EVD_STATUS_TIMEOUT;
	n->more->gathered = g;
	r = fn((struct evd_ctx *)n, n->state, &event);
	n->more->gathered = NULL;
	native_gather_free(g);
	return r;
}

static int
run_call(struct native *n, struct native_call *call, const struct msg *m,
	evd_handler_fn fn)
{
	struct evd_message event = {
		.data = msg_payload(m),
		.size = m->size,
		.event = m->event,
		.id = m->id,
		.status = (int)msg_extra(m)->status,
	};
	int r = native_with_answer(n, call, &event, fn);

	native_call_free(call);
	return r;
}

static int
run(struct native *n, const struct msg *m, evd_handler_fn fn)
{
	uint64_t re = msg_extra(m)->re;

	if (!n->more)
		return 0;
	LIST_FOREACH (node, &n->more->gathers)
		if (kept(container_of(node, struct native_gather, link)) == re)
			return run_gather(n,
				container_of(node, struct native_gather, link),
				m, fn);
	LIST_FOREACH (node, &n->more->calls)
		if (kept(container_of(node, struct native_call, link)) == re)
			return run_call(n,
				container_of(node, struct native_call, link), m,
				fn);
	return 0; /* of an earlier life of the session */
}

enum session_result
native_late_run(struct native *n, const struct msg *m, evd_handler_fn fn)
{
	int r = run(n, m, fn);

	if (!r)
		return SESSION_DONE;
	session_fail(n->session,
		"event %s (id %" PRIu64 "): its handler returned %d (%s)",
		m->event, m->id, r, strerror(r < 0 ? -r : r));
	return SESSION_CRASHED;
}

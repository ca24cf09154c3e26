/* Calls of sessions: asking, sleeping, the reply's way back and the deadline.
 * The home's thread of each party. */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "kernel/away.h"
#include "kernel/claim.h"
#include "kernel/sched.h"

enum { EXPIRE_AGAIN_MS = 10 };

static struct sched *
home_of(const struct session *s)
{
	return atomic_load_explicit(&s->home, memory_order_relaxed);
}

/* ---- asking ---------------------------------------------------------- */

/* What somebody chose counts from now, however long the handler has run in
 * this turn; the default counts from the turn and costs no look at the clock.
 */
static uint64_t
deadline(struct sched *sched, uint64_t ms)
{
	uint64_t ns =
		(uint64_t)sched->kernel->limits.call_timeout_ms * NS_PER_MS;
	uint64_t now = sched->now_ns;

	if (ms) {
		now = clock_now(sched->kernel->clock);
		ns = ms < UINT64_MAX / NS_PER_MS ? ms * NS_PER_MS : UINT64_MAX;
	}
	return ns < UINT64_MAX - now ? now + ns : UINT64_MAX;
}

/* A pending call until *@due_ns, of @m unless that is NULL. */
static inline __attribute__((always_inline)) int
add_call(struct session *s, const struct msg *m, uint64_t token,
	uint32_t timeout_ms, struct call **out, uint64_t *due_ns)
{
	struct sched *sched = home_of(s);
	struct call *call;

	if (s->n_calls >= sched->kernel->limits.max_calls)
		return SCHED_E_LIMIT;
	call = calls_add(&sched->calls, &s->calls);
	if (!call)
		return err_raise(-ENOMEM);
	call->session = s->id;
	call->token = token;
	call->timer.type = TIMER_CALL;
	*due_ns = deadline(sched, timeout_ms);
	if (m && msg_deadline_ns(m) && msg_deadline_ns(m) < *due_ns)
		*due_ns = msg_deadline_ns(m);
	timers_add(&sched->timers, &call->timer, *due_ns);
	s->n_calls++;
	*out = call;
	return 0;
}

struct call *
session_begin_call(
	struct session *s, uint64_t to, uint64_t token, uint32_t timeout_ms)
{
	struct sched *sched = home_of(s);
	const struct kernel_limits *limits = &sched->kernel->limits;
	uint64_t ns = (timeout_ms ? timeout_ms : limits->call_timeout_ms) *
		      (uint64_t)NS_PER_MS;
	struct call *call;

	if (!ns || s->n_calls >= limits->max_calls)
		return NULL;
	call = calls_add(&sched->calls, &s->calls);
	if (!call)
		return NULL;
	call->session = s->id;
	call->token = token;
	call->to = to;
	call->timer.type = TIMER_CALL;
	timers_add(&sched->timers, &call->timer, sched->now_ns + ns);
	s->n_calls++;
	return call;
}

int
session_call(struct session *s, struct msg *m, uint64_t token,
	uint32_t timeout_ms, uint64_t *id)
{
	struct sched *sched = home_of(s);
	struct call *call;
	uint64_t call_id, due_ns;
	int r = add_call(s, m, token, timeout_ms, &call, &due_ns);

	if (r)
		return r;
	call_id = call->id;
	if (m && due_ns <= sched->now_ns) {
		/* there is no time left to ask */
		msg_end(sched, NULL, m, MSG_END_REFUSED, EVD_STATUS_TIMEOUT,
			NULL);
	} else if (m) {
		msg_wide(m)->deadline_ns = due_ns;
		call->to = m->to;
		msg_wide(m)->call = call_id;
		m->from = s->id;
		r = sched_post(sched, m);
		if (r) {
			msg_uncall(m);
			session_forget(s, call_id);
			return r;
		}
	}
	if (id)
		*id = call_id;
	return 0;
}

int
session_post(struct session *s, struct msg *m, enum msg_level level,
	uint64_t token, uint32_t timeout_ms, uint64_t *id)
{
	struct sched *sched = home_of(s);
	struct call *call;
	uint64_t due_ns;
	int r = add_call(s, m, token, timeout_ms, &call, &due_ns);

	if (r)
		return r;
	if (id)
		*id = call->id;
	call->to = m->to;
	m->flags |= MSG_ACK;
	m->from = s->id;
	msg_wide(m)->deadline_ns = 0;
	msg_wide(m)->level = level;
	if (level == MSG_LEVEL_DURABLE)
		msg_extra(m)->durable = true;
	msg_wide(m)->seq = call->id;
	if (due_ns <= sched->now_ns) {
		/* there is no time left to wait */
		msg_end(sched, NULL, m, MSG_END_REFUSED, EVD_STATUS_TIMEOUT,
			NULL);
		return 0;
	}
	return sched_post(sched, m);
}

void
session_settled(struct session *s, uint64_t seq, uint32_t size, int status,
	const char *text)
{
	(void)size;
	sched_reply(home_of(s), seq, status, text,
		text ? (uint32_t)strlen(text) : 0);
}

int
session_sleep(struct session *s, uint64_t token, uint64_t ms, uint64_t *id)
{
	struct sched *sched = home_of(s);
	struct call *call;
	uint64_t call_id;
	int r;

	r = session_call(s, NULL, token, 0, &call_id);
	if (r)
		return r;
	call = calls_find(&sched->calls, call_id);
	timers_remove(&sched->timers, &call->timer);
	timers_add(&sched->timers, &call->timer,
		ms ? deadline(sched, ms) : sched->now_ns);
	if (id)
		*id = call_id;
	return 0;
}

void
session_end_call(struct session *s, struct call *call)
{
	struct sched *sched = home_of(s);

	if (call->wait)
		claim_wait_end(sched, call);
	timers_remove(&sched->timers, &call->timer);
	calls_remove(&sched->calls, call, &s->calls);
	s->n_calls--;
}

void
session_forget(struct session *s, uint64_t id)
{
	struct call *call = calls_find(&home_of(s)->calls, id);

	if (call && call->session == s->id)
		session_end_call(s, call);
}

/* ---- cancelling and forwarding --------------------------------------- */

static struct msg *
call_note(struct sched *s, enum msg_op op, uint64_t call, uint64_t to)
{
	struct msg *m = msg_new(&s->pool,
		&(struct msg_init){.event = "", .event_static = true});

	if (!m)
		return NULL; /* then it is handled, and its reply late */
	m->op = (uint8_t)op;
	msg_wide(m)->call = call;
	m->to = to;
	return m;
}

void
sched_cancel_arrived(struct sched *s, struct msg *m)
{
	struct session *t = session_find(s->kernel, m->to);

	if (t && home_of(t) == s && away_is_out(t)) {
		away_keep(t, m);
		return;
	}
	if (t && home_of(t) == s)
		session_call_cancelled(t, msg_call(m));
	msg_free(&s->pool, m);
}

void
sched_cancel_at(struct sched *s, uint64_t call, uint64_t callee)
{
	struct session *t = session_find(s->kernel, callee);
	struct msg *m = t ? call_note(s, MSG_CANCEL, call, callee) : NULL;

	if (!m)
		return;
	if (home_of(t) == s)
		sched_cancel_arrived(s, m);
	else
		sched_stage(s, home_of(t), m);
}

/* The reply came, but has not been given: true if there is one. */
static bool
drop_reply(struct session *s, uint64_t call)
{
	struct msg_ring kept = {.tail = NULL};
	bool found = false;
	struct msg *m;

	while ((m = msg_ring_pop(&s->control))) {
		if (msg_call(m) == call) {
			msg_free(&home_of(s)->pool, m);
			found = true;
		} else {
			msg_ring_push(&kept, m);
		}
	}
	s->control = kept;
	return found;
}

int
session_cancel_call(struct session *s, uint64_t id)
{
	struct sched *sched = home_of(s);
	struct call *call = calls_find(&sched->calls, id);
	uint64_t to;

	if (!call)
		return drop_reply(s, id) ? 0 : SESSION_E_NO_CALL;
	if (call->session != s->id || !call->to)
		return SESSION_E_NO_CALL;
	to = call->to;
	session_end_call(s, call);
	sched_cancel_at(sched, id, to);
	return 0;
}

int
session_cancel_token(struct session *s, uint64_t token)
{
	static const char text[] = "the caller cancelled it";
	struct sched *sched = home_of(s);
	struct call *call = calls_by_token(&sched->calls, s->calls, token);

	if (!call || !call->to)
		return SESSION_E_NO_CALL;
	sched_cancel_at(sched, call->id, call->to);
	return sched_reply(
		sched, call->id, EVD_STATUS_CANCELLED, text, sizeof(text) - 1);
}

void
sched_moved_arrived(struct sched *s, struct msg *m)
{
	struct call *call = calls_find(&s->calls, msg_call(m));

	if (call)
		call->to = m->to;
	else
		sched_cancel_at(s, msg_call(m), m->to);
	msg_free(&s->pool, m);
}

int
session_forward(
	struct session *s, uint64_t call, uint64_t deadline_ns, struct msg *m)
{
	struct sched *sched = home_of(s);
	unsigned index = call_sched(call);
	uint64_t to = m->to;
	struct msg *note;
	int r;

	if (call && index >= sched->kernel->n_scheds)
		return err_raise(-EINVAL);
	msg_wide(m)->call = call;
	msg_wide(m)->deadline_ns = deadline_ns;
	r = sched_post(sched, m);
	if (r) {
		msg_uncall(m);
		return r;
	}
	note = call ? call_note(sched, MSG_MOVED, call, to) : NULL;
	if (note && index == sched->index)
		sched_moved_arrived(sched, note);
	else if (note)
		sched_stage(sched, sched->kernel->scheds[index], note);
	return 0;
}

/* ---- replies --------------------------------------------------------- */

/* The hot path: it is taken at once, and no message is made of it. */
static inline bool
answered(struct sched *s, uint64_t id, int status, const void *data,
	uint32_t size)
{
	struct call *call = calls_find(&s->calls, id);
	struct session *t =
		call ? session_find(s->kernel, call->session) : NULL;
	uint64_t token;

	if (!t || !t->ops->answer || call->wait)
		return false;
	token = call->token;
	session_end_call(t, call);
	t->ops->answer(t, token, status, data, size);
	return true;
}

/* To whoever asked, as a message of its own. */
static void
send_reply(struct sched *s, uint64_t call, int status, struct msg *m)
{
	unsigned index = call_sched(call);

	m->op = MSG_REPLY;
	msg_wide(m)->call = call;
	msg_wide(m)->status = (uint32_t)status;
	if (index == s->index)
		sched_reply_arrived(s, m);
	else
		sched_stage(s, s->kernel->scheds[index], m);
}

int
sched_reply(struct sched *s, uint64_t call, int status, const void *data,
	uint32_t size)
{
	unsigned index = call_sched(call);
	struct msg *m;

	if (index == s->index && answered(s, call, status, data, size))
		return 0;
	if (index >= s->kernel->n_scheds)
		return err_raise(-EINVAL);
	m = msg_new(&s->pool, &(struct msg_init){.event = "",
				      .event_static = true,
				      .data = data,
				      .size = size});
	if (!m)
		return err_raise(-ENOMEM);
	send_reply(s, call, status, m);
	return 0;
}

int
sched_reply_region(struct sched *s, uint64_t call, struct msg_region *region)
{
	struct msg *m;

	if (call_sched(call) >= s->kernel->n_scheds)
		return err_raise(-EINVAL);
	m = msg_new_region(&s->pool,
		&(struct msg_init){.event = "", .event_static = true}, region);
	if (!m)
		return err_raise(-ENOMEM);
	send_reply(s, call, EVD_STATUS_OK, m);
	return 0;
}

void
sched_reply_arrived(struct sched *s, struct msg *m)
{
	struct call *call = calls_find(&s->calls, msg_call(m));
	struct session *t =
		call ? session_find(s->kernel, call->session) : NULL;

	if (!t) {
		atomic_fetch_add_explicit(
			&s->kernel->late_replies, 1, memory_order_relaxed);
		msg_free(&s->pool, m);
		return;
	}
	msg_wide(m)->seq = call->token;
	m->handler = call->wait ? CLAIM_REPLY_WAIT : 0;
	session_end_call(t, call);
	if (t->ops->answer) {
		t->ops->reply(t, msg_seq(m), m);
		msg_free(&s->pool, m);
		return;
	}
	session_call_in(t, &t->control, m);
	sched_enqueue(s, t);
}

void
sched_call_expired(struct sched *s, struct call *call)
{
	static const char text[] = "no reply before the deadline";
	int r = sched_reply(
		s, call->id, EVD_STATUS_TIMEOUT, text, sizeof(text) - 1);

	if (r) /* out of memory: nobody else ends it, so try again */
		timers_add(&s->timers, &call->timer,
			s->now_ns + EXPIRE_AGAIN_MS * NS_PER_MS);
}

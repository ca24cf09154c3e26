#include "net/binding.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "envelope.h"
#include "kernel/journal.h"
#include "kernel/notice.h"
#include "net/inbound.h"
#include "net/mailslot.h"
#include "parts.h"
#include "verb/gather.h"

/* ---- the session of a binding ------------------------------------------ */

static enum session_result
client_run(struct session *s, struct msg *m)
{
	struct binding *b = s->state;

	if (!lease_has_room(&b->lease))
		return SESSION_HELD;
	if (m->event == notice_gap)
		return delivery_tell_gap(b, m) ? SESSION_DONE : SESSION_HELD;
	if (!lease_reserve(&b->lease)) { /* out of memory: again next turn */
		b->conn->large_waits = true;
		loop_defer(b->conn->loop, &b->conn->flush);
		return SESSION_HELD;
	}
	if (!delivery_write(b, m))
		return SESSION_HELD;
	msg_uncall(m); /* answered through the handle */
	lease_add(&b->lease, m, 0);
	if (m->flags & MSG_EXTRA)
		mailslot_tell_history(s, m,
			&(struct consumer_init){.uid = b->conn->peer.uid,
				.pid = b->conn->peer.pid},
			b->conn->name);
	return SESSION_LEASED;
}

static enum session_result
client_start(struct session *s)
{
	(void)s;
	return SESSION_DONE;
}

static void
client_reply(struct session *s, uint64_t token, struct msg *reply)
{
	(void)s, (void)token, (void)reply; /* bindings call nobody */
}

static void
client_settled(struct session *s, uint64_t seq, uint32_t size, int status,
	const char *text)
{
	(void)s, (void)seq, (void)size, (void)status, (void)text;
}

static void binding_granted(struct binding *b);
static void binding_dismissed(
	struct conn *c, struct binding *b, int status, uint64_t by);

/* What was delivered and not settled ends with the session: its consumer is
 * gone and may or may not have handled it. One that is linked with the session
 * may have failed: then the client is told. */
static void
client_stop(struct session *s, bool crashed)
{
	struct binding *b = s->state;

	(void)crashed;
	lease_end(&b->lease, s, EVD_STATUS_DIED);
	if (!b->session)
		return; /* binding_free() asked for it */
	b->session = NULL;
	binding_dismissed(b->conn, b, EVD_STATUS_DIED, 0);
}

static bool
client_cancelled(struct session *s, uint64_t call)
{
	struct binding *b = s->state;

	return inbound_cancel(b->conn, call);
}

static void
client_alias(struct session *s, const char *name, bool held, uint64_t by)
{
	struct binding *b = s->state;

	if (held) { /* it has one alone */
		binding_granted(b);
		journal_restore(s, name);
	} else {
		binding_dismissed(b->conn, b, EVD_STATUS_TAKEN, by);
	}
}

/* It is too slow, and wanted that to be its end. */
static void
client_overflowed(struct session *s)
{
	struct binding *b = s->state;

	binding_dismissed(b->conn, b, EVD_STATUS_FULL, 0);
}

static size_t
client_memory(const struct session *s)
{
	const struct binding *b = s->state;

	return sizeof(*b) + b->lease.size;
}

const struct session_ops client_session_ops = {
	.kind = "client",
	.start = client_start,
	.run = client_run,
	.reply = client_reply,
	.settled = client_settled,
	.stop = client_stop,
	.memory = client_memory,
	.cancelled = client_cancelled,
	.alias = client_alias,
	.overflowed = client_overflowed,
	.gaps = true,
};

struct conn *
binding_peer(struct session *s)
{
	const struct binding *b;

	if (s->ops != &client_session_ops)
		return NULL;
	b = s->state;
	return b->conn;
}

/* ---- the table of a connection ----------------------------------------- */

/* They are sorted by number: the first whose is not below @number. */
static uint32_t
binding_place(const struct conn *c, uint64_t number)
{
	uint32_t low = 0, high = c->n_bindings;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (c->bindings[middle]->number < number)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

uint32_t
binding_index(const struct conn *c, uint64_t number)
{
	uint32_t i = binding_place(c, number);

	return i < c->n_bindings && c->bindings[i]->number == number
		       ? i
		       : UINT32_MAX;
}

/* There is room, see bindings_grow(). */
void
binding_insert(struct conn *c, struct binding *b)
{
	uint32_t i = binding_place(c, b->number);

	memmove(&c->bindings[i + 1], &c->bindings[i],
		(c->n_bindings - i) * sizeof(b));
	c->bindings[i] = b;
	c->n_bindings++;
}

/* The number stands in its low bits, see bind_mail(). */
struct binding *
binding_of_token(const struct conn *c, uint64_t token)
{
	uint32_t i = binding_index(c, token & UINT16_MAX);

	return i != UINT32_MAX && c->bindings[i]->token == token
		       ? c->bindings[i]
		       : NULL;
}

int
bindings_grow(struct conn *c)
{
	uint32_t room = c->bindings_room ? c->bindings_room * 2 : 4;
	struct binding **bindings;

	if (c->n_bindings < c->bindings_room)
		return 0;
	bindings = realloc(c->bindings, room * sizeof(struct binding *));
	if (!bindings)
		return EVD_STATUS_NO_MEMORY;
	c->bindings = bindings;
	c->bindings_room = room;
	return 0;
}

struct binding *
binding_new(struct conn *c, uint64_t number, const struct consumer_init *wish)
{
	struct binding *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->alias = strdup(wish->alias);
	if (!b->alias) {
		free(b);
		return NULL;
	}
	b->right = wish->mode == BIND_MONITOR ? RIGHT_SEE : RIGHT_BIND;
	b->conn = c;
	b->number = number;
	b->lease.max_events = wish->max_events;
	b->lease.max_size = wish->max_size;
	return b;
}

/* A copy that was not written: its caller waits, the event goes back. */
static void
copy_drop(struct sched *s, struct msg *m)
{
	static const char text[] = "the consumer went before it got the call";

	if (msg_call(m))
		sched_reply(s, msg_call(m), EVD_STATUS_DIED, text,
			sizeof(text) - 1);
	msg_free(&s->pool, m);
}

void
binding_free(struct binding *b)
{
	struct sched *s = &b->conn->loop->sched;
	struct msg *m;

	if (b->session)
		session_stop(TAKE(b->session));
	while ((m = msg_queue_pop(&b->pending)))
		copy_drop(s, m);
	msg_free(&s->pool, b->farewell);
	lease_deinit(&b->lease);
	free(b->alias);
	free(b);
}

void
binding_remove(struct conn *c, struct binding *b)
{
	uint32_t i = binding_index(c, b->number);

	if (i == UINT32_MAX)
		return; /* bindings_drop() has it */
	c->n_bindings--;
	memmove(&c->bindings[i], &c->bindings[i + 1],
		(c->n_bindings - i) * sizeof(b));
	binding_free(b);
}

/* Tell the mailslot that @b is over. */
static void
binding_leave(struct binding *b, bool died)
{
	struct msg *farewell = TAKE(b->farewell);

	if (!farewell)
		return;
	farewell->id = died;
	sched_note(&b->conn->loop->sched, farewell);
}

/* ---- the end of a mailslot at its consumer ----------------------------- */

/* What a mailslot has for it. */
static bool
pass_on(struct binding *b, const struct msg *m)
{
	if (m->event == notice_gap)
		return delivery_tell_gap(b, m);
	if (!delivery_write(b, m))
		return false;
	b->lease.delivered++;
	return true;
}

bool
binding_deliver(struct session *conn, uint64_t token, const struct msg *m)
{
	struct binding *b = binding_of_token(conn->state, token);

	return b && pass_on(b, m);
}

static void
pending_write(struct binding *b)
{
	struct sched *s = &b->conn->loop->sched;

	while (b->pending.head && pass_on(b, b->pending.head))
		msg_free(&s->pool, msg_queue_pop(&b->pending));
}

static void
explain_dismissal(int status, uint64_t by, char *text, size_t size)
{
	if (by)
		snprintf(text, size, "replaced by session %" PRIu64, by);
	else if (status == EVD_STATUS_FULL)
		snprintf(text, size,
			"its mailbox was full: it reads too slowly");
	else if (status == EVD_STATUS_DENIED)
		snprintf(text, size, "the rules do not allow it any more");
	else if (status == EVD_STATUS_TAKEN)
		snprintf(text, size, "Mode= of the session has changed");
	else
		snprintf(text, size, "the session %s",
			status == EVD_STATUS_NO_ALIAS ? "gave the alias up"
						      : "has ended or failed");
}

static void binding_leave(struct binding *b, bool died);

/* @b is over without its client's asking; @by: the session that has replaced
 * it, 0: none. */
static void
binding_dismissed(struct conn *c, struct binding *b, int status, uint64_t by)
{
	Eventd__V1__Notice notice = EVENTD__V1__NOTICE__INIT;
	Eventd__V1__Unbound unbound = EVENTD__V1__UNBOUND__INIT;
	uint64_t request = b->request;
	char text[64];

	explain_dismissal(status, by, text, sizeof(text));
	unbound.binding = b->number;
	unbound.status = (uint32_t)status;
	unbound.text = text;
	notice.what_case = EVENTD__V1__NOTICE__WHAT_UNBOUND;
	notice.unbound = &unbound;
	inbound_abandon(c, b->number, b->lease.settled);
	if (b->slot && b->session) /* it is not the mailslot that says so */
		binding_leave(b, false);
	binding_remove(c, b);
	if (request) /* it was waiting in line */
		verb_refuse(&c->peer, request, status, text);
	else
		conn_send_message(c, FRAME_NOTICE, &notice.base);
}

/* Its turn has come: answer the bind. */
static void
binding_granted(struct binding *b)
{
	Eventd__V1__Response response = EVENTD__V1__RESPONSE__INIT;
	Eventd__V1__Bound bound = EVENTD__V1__BOUND__INIT;
	struct peer *p = &b->conn->peer;

	if (!b->request)
		return;
	bound.session = b->session ? atomic_load(&b->session->id) : b->slot;
	bound.window_events = b->lease.max_events;
	bound.window_bytes = b->lease.max_size;
	response.id = b->request;
	response.result_case = EVENTD__V1__RESPONSE__RESULT_BOUND;
	response.bound = &bound;
	b->request = 0;
	p->ops->respond(p, &response);
}

void
binding_note(struct conn *c, struct msg *m)
{
	struct binding *b = binding_of_token(c, msg_seq(m));

	switch ((enum mail_note)m->handler) {
	case MAIL_DELIVER:
		if (b) {
			msg_queue_push(&b->pending, m);
			pending_write(b);
		} else {
			copy_drop(&c->loop->sched, m);
		}
		return;
	case MAIL_UNBOUND:
		if (b)
			binding_dismissed(c, b, (int)msg_status(m), m->id);
		break;
	case MAIL_ATTACHED:
		if (b)
			binding_granted(b);
		break;
	case MAIL_CANCELLED:
		inbound_cancel(c, m->id);
		break;
	case MAIL_GAP:
		if (b)
			delivery_gap(b, m);
		break;
	case MAIL_SETTLED:
	case MAIL_DETACH:
		break; /* for mailslots */
	}
	msg_free(&c->loop->sched.pool, m);
}

/* To the mailslot, from @b. */
struct msg *
binding_note_new(const struct binding *b, int what)
{
	const struct conn *c = b->conn;
	struct msg *m = msg_new(&c->loop->sched.pool,
		&(struct msg_init){.event = "", .event_static = true});

	if (!m)
		return NULL;
	m->handler = (uint16_t)what;
	m->to = b->slot;
	m->from = c->session->id;
	msg_wide(m)->seq = b->token;
	return m;
}

static void
settle_mail(struct binding *b, uint64_t upto)
{
	struct msg *m = binding_note_new(b, MAIL_SETTLED);

	if (!m) {
		conn_close(b->conn, "out of memory");
		return;
	}
	m->id = upto;
	b->lease.settled = upto;
	sched_note(&b->conn->loop->sched, m);
}

/* ---- unbind ------------------------------------------------------------ */

/* args: the connection, the token */
static bool
unbind_visit(struct gather *g, struct sched *s)
{
	struct session *t = session_find(s->kernel, g->only);

	if (t && atomic_load(&t->home) == s && t->ops == &mailslot_ops)
		mailslot_detach(t, g->args[0], g->args[1], false);
	return false;
}

/* The answer comes when another may bind. */
static void
unbind_mail(struct conn *c, uint64_t id, struct binding *b)
{
	struct gather *g = gather_new(&c->peer, id);

	inbound_abandon(c, b->number, b->lease.settled);
	if (g) {
		g->only = b->slot;
		g->args[0] = c->session->id;
		g->args[1] = b->token;
		g->visit = unbind_visit;
		gather_start(g, &c->loop->sched);
	} else {
		binding_leave(b, false);
	}
	binding_remove(c, b);
}

void
binding_unbind(struct peer *p, uint64_t id, uint64_t number)
{
	struct conn *c = container_of(p, struct conn, peer);
	uint32_t i = binding_index(c, number);
	char text[VERB_TEXT_MAX] = "";

	if (i == UINT32_MAX) {
		snprintf(text, sizeof(text), "no binding %" PRIu64, number);
		verb_refuse(p, id, EVD_STATUS_NOT_FOUND, text);
		return;
	}
	if (c->bindings[i]->request)
		verb_refuse(p, c->bindings[i]->request, EVD_STATUS_CANCELLED,
			"it was unbound before its turn came");
	if (c->bindings[i]->session)
		c->bindings[i]->session->why = TIE_NORMAL;
	if (!c->bindings[i]->slot) {
		binding_remove(c, c->bindings[i]);
		verb_refuse(p, id, EVD_STATUS_OK, text);
	} else {
		unbind_mail(c, id, c->bindings[i]);
	}
}

/* ---- what the connection tells its bindings ---------------------------- */

bool
binding_settle(struct conn *c, uint64_t number, uint64_t upto)
{
	uint32_t i = binding_index(c, number);
	struct binding *b;

	if (i == UINT32_MAX)
		return true; /* it crossed its unbind */
	b = c->bindings[i];
	if (upto > b->lease.delivered)
		return false;
	if (b->session) {
		lease_settle(&b->lease, b->session, upto);
		session_wake(b->session);
	} else if (upto > b->lease.settled) {
		settle_mail(b, upto);
		pending_write(b);
	}
	return true;
}

/* Whose events @b gets, if it is of this loop. */
static struct session *
source_here(const struct binding *b)
{
	struct sched *s = &b->conn->loop->sched;
	struct session *t = b->session;

	if (t)
		return t;
	t = session_find(s->kernel, b->slot);
	return t && atomic_load(&t->home) == s ? t : NULL;
}

void
bindings_wake(struct conn *c)
{
	for (uint32_t i = 0; i < c->n_bindings; i++) {
		struct session *t = source_here(c->bindings[i]);

		pending_write(c->bindings[i]);
		if (t)
			session_wake(t);
	}
}

void
bindings_review(struct conn *c)
{
	for (uint32_t i = c->n_bindings; i--;) {
		struct binding *b = c->bindings[i];

		if (rights_may(c->peer.rights, b->right, b->alias, NULL))
			continue;
		log_info("binding.revoked",
			"conn=%" PRIu64 " uid=%u alias=%s right=%s",
			session_id(c->session), (unsigned)c->peer.uid, b->alias,
			right_words[b->right]);
		binding_leave(b, false);
		binding_dismissed(c, b, EVD_STATUS_DENIED, 0);
	}
}

void
bindings_drop(struct conn *c)
{
	bool died = conn_end_why(c) == TIE_LOST;
	struct binding **all = TAKE(c->bindings);
	uint32_t n = c->n_bindings;

	/* What one that leaves makes happen to another finds nobody. */
	c->n_bindings = c->bindings_room = 0;
	for (uint32_t i = 0; i < n; i++) {
		binding_leave(all[i], died);
		if (all[i]->session)
			all[i]->session->why = (uint8_t)conn_end_why(c);
		binding_free(all[i]);
	}
	free(all);
	inbound_drop(c);
}

#include "net/binding.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "envelope.h"
#include "net/inbound.h"
#include "net/mailslot.h"
#include "parts.h"
#include "verb/gather.h"

/* ---- the session of a binding ------------------------------------------ */

/* How long its caller waits yet, 0: not known. */
static uint32_t
left_ms(struct binding *b, const struct msg *m)
{
	uint64_t now, left;

	if (!m->call || !m->deadline_ns)
		return 0;
	now = clock_now(b->conn->loop->sched.kernel->clock);
	left = m->deadline_ns > now ? (m->deadline_ns - now) / NS_PER_MS : 0;
	if (left > UINT32_MAX)
		return 0;
	return left ? (uint32_t)left : 1;
}

static void
write_delivery(struct binding *b, const struct msg *m, uint64_t handle)
{
	struct envelope e = {
		.to = b->number,
		.event = m->event,
		.event_size = m->event_size,
		.payload = m->data,
		.payload_size = m->size,
		.headers = msg_headers(m),
		.headers_size = m->headers_size,
		.call = handle,
		.id = m->id,
		.from = m->from,
		.attempt = m->attempt,
		.late_ns = m->late_ns,
		.priority = m->flags & MSG_URGENT ? 1 : 0,
		.deadline_ms = left_ms(b, m),
		.due_ns = msg_due_ns(m),
	};
	uint8_t *out = conn_room(b->conn, envelope_bound(&e) + 16);

	if (out)
		conn_wrote(b->conn, envelope_encode_frame(&e, out));
}

/* To the socket, as the next delivery; false: not now. */
static bool
deliver(struct binding *b, const struct msg *m)
{
	uint64_t handle = 0;

	if (!conn_takes_deliveries(b->conn))
		return false;
	if (m->call) {
		handle = inbound_add(
			b->conn, m, b->number, b->lease.delivered + 1);
		if (!handle)
			return false; /* out of memory; settles retry */
	}
	write_delivery(b, m, handle);
	return true;
}

static enum session_result
client_run(struct session *s, struct msg *m)
{
	struct binding *b = s->state;

	if (!lease_has_room(&b->lease) || !deliver(b, m))
		return SESSION_HELD;
	m->call = 0; /* answered through the handle */
	lease_add(&b->lease, m);
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

/* What was delivered and not settled ends with the session: its consumer is
 * gone and may or may not have handled it. */
static void
client_stop(struct session *s, bool crashed)
{
	struct binding *b = s->state;

	(void)crashed;
	lease_end(&b->lease, s, EVD_STATUS_DIED);
}

static bool
client_cancelled(struct session *s, uint64_t call)
{
	struct binding *b = s->state;

	return inbound_cancel(b->conn, call);
}

static size_t
client_memory(const struct session *s)
{
	const struct binding *b = s->state;

	return sizeof(*b) + b->lease.size;
}

static const struct session_ops client_session_ops = {
	.kind = "client",
	.start = client_start,
	.run = client_run,
	.reply = client_reply,
	.settled = client_settled,
	.stop = client_stop,
	.memory = client_memory,
	.cancelled = client_cancelled,
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

static uint32_t
binding_index(const struct conn *c, uint64_t number)
{
	uint32_t i = binding_place(c, number);

	return i < c->n_bindings && c->bindings[i]->number == number
		       ? i
		       : UINT32_MAX;
}

/* There is room, see bindings_grow(). */
static void
binding_insert(struct conn *c, struct binding *b)
{
	uint32_t i = binding_place(c, b->number);

	memmove(&c->bindings[i + 1], &c->bindings[i],
		(c->n_bindings - i) * sizeof(b));
	c->bindings[i] = b;
	c->n_bindings++;
}

/* The number stands in its low bits, see bind_mail(). */
static struct binding *
binding_of_token(const struct conn *c, uint64_t token)
{
	uint32_t i = binding_index(c, token & UINT16_MAX);

	return i != UINT32_MAX && c->bindings[i]->token == token
		       ? c->bindings[i]
		       : NULL;
}

static int
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

static struct binding *
binding_new(struct conn *c, uint64_t number, const struct consumer_init *wish)
{
	struct binding *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
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

	if (m->call)
		sched_reply(
			s, m->call, EVD_STATUS_DIED, text, sizeof(text) - 1);
	msg_free(&s->pool, m);
}

static void
binding_free(struct binding *b)
{
	struct sched *s = &b->conn->loop->sched;
	struct msg *m;

	if (b->session)
		session_stop(b->session);
	while ((m = msg_queue_pop(&b->pending)))
		copy_drop(s, m);
	msg_free(&s->pool, b->farewell);
	free(b);
}

static void
binding_remove(struct conn *c, struct binding *b)
{
	uint32_t i = binding_index(c, b->number);

	c->n_bindings--;
	memmove(&c->bindings[i], &c->bindings[i + 1],
		(c->n_bindings - i) * sizeof(b));
	binding_free(b);
}

/* Tell the mailslot that @b is over. */
static void
binding_leave(struct binding *b)
{
	struct msg *farewell = TAKE(b->farewell);

	if (farewell)
		sched_note(&b->conn->loop->sched, farewell);
}

/* ---- the end of a mailslot at its consumer ----------------------------- */

bool
binding_deliver(struct session *conn, uint64_t token, const struct msg *m)
{
	struct binding *b = binding_of_token(conn->state, token);

	if (!b || !deliver(b, m))
		return false;
	b->lease.delivered++;
	return true;
}

static void
pending_write(struct binding *b)
{
	struct sched *s = &b->conn->loop->sched;

	while (b->pending.head && deliver(b, b->pending.head)) {
		b->lease.delivered++;
		msg_free(&s->pool, msg_queue_pop(&b->pending));
	}
}

/* The mailslot has let @b go. */
static void
binding_dismissed(struct conn *c, struct binding *b, int status)
{
	Eventd__V1__Notice notice = EVENTD__V1__NOTICE__INIT;
	Eventd__V1__Unbound unbound = EVENTD__V1__UNBOUND__INIT;

	unbound.binding = b->number;
	unbound.status = (uint32_t)status;
	unbound.text = (char *)(status == EVD_STATUS_NO_ALIAS
					? "the session gave the alias up"
					: "the session has ended or failed");
	notice.what_case = EVENTD__V1__NOTICE__WHAT_UNBOUND;
	notice.unbound = &unbound;
	inbound_abandon(c, b->number, b->lease.settled);
	binding_remove(c, b);
	conn_send_message(c, FRAME_NOTICE, &notice.base);
}

void
binding_note(struct conn *c, struct msg *m)
{
	struct binding *b = binding_of_token(c, m->seq);

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
			binding_dismissed(c, b, (int)m->status);
		break;
	case MAIL_CANCELLED:
		inbound_cancel(c, m->id);
		break;
	case MAIL_SETTLED:
	case MAIL_DETACH:
		break; /* for mailslots */
	}
	msg_free(&c->loop->sched.pool, m);
}

/* To the mailslot, from @b. */
static struct msg *
note_new(const struct binding *b, enum mail_note what)
{
	const struct conn *c = b->conn;
	struct msg *m = msg_new(&c->loop->sched.pool,
		&(struct msg_init){.event = "", .event_static = true});

	if (!m)
		return NULL;
	m->handler = (uint16_t)what;
	m->to = b->slot;
	m->from = c->session->id;
	m->seq = b->token;
	return m;
}

static void
settle_mail(struct binding *b, uint64_t upto)
{
	struct msg *m = note_new(b, MAIL_SETTLED);

	if (!m) {
		conn_close(b->conn, "out of memory");
		return;
	}
	m->id = upto;
	b->lease.settled = upto;
	sched_note(&b->conn->loop->sched, m);
}

/* ---- bind -------------------------------------------------------------- */

/* A bind, on its way to the home of the alias's holder and back. */
struct bind_request {
	struct consumer_init wish;
	uint64_t number;
	int status;
	Eventd__V1__Bound bound;
};

static int
refuse_bind(
	struct conn *c, const Eventd__V1__Bind *bind, char *text, size_t size)
{
	if (!bind->binding || bind->binding > UINT16_MAX ||
		binding_index(c, bind->binding) != UINT32_MAX) {
		snprintf(text, size,
			"binding %" PRIu64 " is in use or not in 1..65535",
			bind->binding);
		return EVD_STATUS_INVALID;
	}
	if (c->n_bindings >= CONN_BINDINGS_MAX) {
		snprintf(text, size, "a connection binds at most %d aliases",
			CONN_BINDINGS_MAX);
		return EVD_STATUS_LIMIT;
	}
	return bindings_grow(c);
}

static uint64_t
clamp(uint64_t wanted, uint64_t fallback, uint64_t most)
{
	if (!wanted)
		return fallback;
	return wanted < most ? wanted : most;
}

/* The alias has been checked. */
static void
wish_init(struct consumer_init *wish, struct conn *c,
	const Eventd__V1__Bind *bind)
{
	*wish = (struct consumer_init){
		.conn = c->session->id,
		.max_events = (uint32_t)clamp(bind->window_events,
			BINDING_EVENTS, BINDING_EVENTS_MAX),
		.max_size = clamp(
			bind->window_bytes, BINDING_BYTES, BINDING_BYTES_MAX),
		.uid = c->peer.uid,
		.pid = c->peer.pid,
	};
	strcpy(wish->name, c->name);
	strcpy(wish->alias, bind->alias);
}

static void
answer_bound(Eventd__V1__Bound *bound, uint64_t session,
	const struct consumer_init *wish)
{
	eventd__v1__bound__init(bound);
	bound->session = session;
	bound->window_events = wish->max_events;
	bound->window_bytes = wish->max_size;
}

static void
explain_taken(struct conn *c, const char *alias, char *text, size_t size)
{
	uint64_t holder = alias_holder(
		&c->loop->sched.kernel->aliases, alias, strlen(alias));

	snprintf(text, size,
		"the alias '%s' is held by session %" PRIu64
		" (eventctl status %s)",
		alias, holder, alias);
}

/* A session of the binding's own takes the alias, which seems free. */
static int
bind_own(struct conn *c, uint64_t number, const struct consumer_init *wish,
	Eventd__V1__Bound *bound, char *text, size_t size)
{
	struct binding *b = binding_new(c, number, wish);
	int r;

	if (b)
		b->session = session_new(
			&c->loop->sched, &client_session_ops, NULL, b);
	if (!b || !b->session) {
		free(b);
		snprintf(text, size,
			"out of memory, or MaxSessions= is reached");
		return EVD_STATUS_LIMIT;
	}
	mailbox_limit(&b->session->box, BINDING_MAILBOX_EVENTS,
		BINDING_MAILBOX_BYTES);
	r = session_add_alias(b->session, wish->alias, strlen(wish->alias));
	if (r) {
		binding_free(b);
		if (r != ALIAS_E_TAKEN)
			return EVD_STATUS_NO_MEMORY;
		explain_taken(c, wish->alias, text, size);
		return EVD_STATUS_TAKEN;
	}
	binding_insert(c, b);
	answer_bound(bound, b->session->id, wish);
	return EVD_STATUS_OK;
}

/* It is there before the mailslot knows it: what ends it on this side is told
 * after the request. */
static int
bind_mail(struct conn *c, uint64_t number, struct consumer_init *wish,
	uint64_t slot)
{
	struct binding *b = binding_new(c, number, wish);

	if (!b)
		return EVD_STATUS_NO_MEMORY;
	b->slot = slot;
	b->token = wish->token = ++c->last_token << 16 | number;
	b->farewell = note_new(b, MAIL_DETACH);
	if (!b->farewell) {
		binding_free(b);
		return EVD_STATUS_NO_MEMORY;
	}
	binding_insert(c, b);
	return EVD_STATUS_OK;
}

/* On the holder's thread: who it is, for people. */
static void
explain_holder(struct session *t, const char *alias, char *text, size_t size)
{
	const char *origin = t->spec && t->spec->origin ? t->spec->origin : "";
	struct peer_face face;

	if (conn_behind(t, &face))
		snprintf(text, size,
			"the alias '%s' is held by session %" PRIu64
			" (kind %s, uid %u pid %d, %s)",
			alias, atomic_load(&t->id), t->ops->kind,
			(unsigned)face.uid, (int)face.pid, face.name);
	else
		snprintf(text, size,
			"the alias '%s' is held by session %" PRIu64
			" '%s' (kind %s%s%s)",
			alias, atomic_load(&t->id), session_name(t),
			t->ops->kind, *origin ? ", " : "", origin);
}

static bool
bind_visit(struct gather *g, struct sched *s)
{
	struct bind_request *r = g->out;
	struct session *t = session_find(s->kernel, g->only);

	if (!t || atomic_load(&t->home) != s) {
		r->status = EVD_STATUS_NO_ALIAS;
	} else if (t->ops != &mailslot_ops) {
		r->status = EVD_STATUS_TAKEN;
		explain_holder(t, r->wish.alias, g->text, sizeof(g->text));
	} else {
		r->status =
			mailslot_attach(t, &r->wish, g->text, sizeof(g->text));
	}
	return false;
}

static void
bind_finish(struct gather *g)
{
	struct bind_request *r = g->out;
	struct conn *c = container_of(g->peer, struct conn, peer);
	struct binding *b = binding_of_token(c, r->wish.token);

	g->status = r->status;
	g->response.result_case = EVENTD__V1__RESPONSE__RESULT_BOUND;
	g->response.bound = &r->bound;
	if (!r->status) {
		answer_bound(&r->bound, g->only, &r->wish);
		return;
	}
	if (b) /* else it was unbound meanwhile */
		binding_remove(c, b);
	if (r->status != EVD_STATUS_NO_ALIAS)
		return;
	/* The holder has gone: the alias may be free. */
	if (b)
		g->status = bind_own(c, r->number, &r->wish, &r->bound, g->text,
			sizeof(g->text));
	else
		snprintf(g->text, sizeof(g->text), "it was unbound meanwhile");
}

/* Ask the holder of the alias, wherever it lives. */
static void
bind_ask(struct conn *c, uint64_t id, const Eventd__V1__Bind *bind,
	uint64_t holder)
{
	struct gather *g = gather_new(&c->peer, id);
	struct bind_request *r = g ? gather_alloc(g, sizeof(*r)) : NULL;

	if (!g)
		return;
	if (r) {
		r->number = bind->binding;
		wish_init(&r->wish, c, bind);
		g->status = bind_mail(c, r->number, &r->wish, holder);
	}
	if (g->status) {
		gather_answer(g);
		return;
	}
	g->out = r;
	g->only = holder;
	g->visit = bind_visit;
	g->finish = bind_finish;
	gather_start(g, &c->loop->sched);
}

void
binding_bind(struct peer *p, uint64_t id, const Eventd__V1__Bind *bind)
{
	struct conn *c = container_of(p, struct conn, peer);
	Eventd__V1__Response response = EVENTD__V1__RESPONSE__INIT;
	Eventd__V1__Bound bound;
	struct consumer_init wish;
	char text[VERB_TEXT_MAX] = "";
	int status = refuse_bind(c, bind, text, sizeof(text));
	uint64_t holder = alias_holder(&c->loop->sched.kernel->aliases,
		bind->alias, strlen(bind->alias));

	if (!status && holder) {
		bind_ask(c, id, bind, holder);
		return;
	}
	if (!status) {
		wish_init(&wish, c, bind);
		status = bind_own(
			c, bind->binding, &wish, &bound, text, sizeof(text));
	}
	if (status) {
		verb_refuse(p, id, status, text);
		return;
	}
	response.id = id;
	response.result_case = EVENTD__V1__RESPONSE__RESULT_BOUND;
	response.bound = &bound;
	p->ops->respond(p, &response);
}

/* ---- unbind ------------------------------------------------------------ */

/* args: the connection, the token */
static bool
unbind_visit(struct gather *g, struct sched *s)
{
	struct session *t = session_find(s->kernel, g->only);

	if (t && atomic_load(&t->home) == s && t->ops == &mailslot_ops)
		mailslot_detach(t, g->args[0], g->args[1]);
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
		binding_leave(b);
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
	} else if (c->bindings[i]->session) {
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
bindings_drop(struct conn *c)
{
	for (uint32_t i = 0; i < c->n_bindings; i++) {
		binding_leave(c->bindings[i]);
		binding_free(c->bindings[i]);
	}
	c->n_bindings = 0;
	inbound_drop(c);
}

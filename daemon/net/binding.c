#include "net/binding.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "envelope.h"
#include "parts.h"

/* ---- calls delivered to the client -------------------------------------------- */

static int
inbound_grow(struct conn *c)
{
	uint32_t room = c->inbound_room ? c->inbound_room * 2 : 16;
	struct inbound *ring = calloc(room, sizeof(*ring));

	if (!ring)
		return -1;
	for (uint32_t i = 0; i < c->inbound_room; i++)
		if (c->inbound[i].handle)
			ring[c->inbound[i].handle % room] = c->inbound[i];
	free(c->inbound);
	c->inbound = ring;
	c->inbound_room = room;
	return 0;
}

/* A handle for @call. When the ring is at its largest and its place is still
 * taken, the oldest call is answered for the client: it kept it too long. */
static uint64_t
inbound_add(struct conn *c, uint64_t call)
{
	static const char text[] = "the consumer left too many calls open";
	uint64_t handle = c->last_handle + 1;
	struct inbound *slot = NULL;

	while (!slot || slot->handle) {
		if (c->inbound_room)
			slot = &c->inbound[handle % c->inbound_room];
		if (slot && !slot->handle)
			break;
		if (c->inbound_room < CONN_INBOUND_MAX && !inbound_grow(c)) {
			slot = NULL;
			continue;
		}
		if (!slot)
			return 0; /* out of memory */
		sched_reply(&c->loop->sched, slot->call, EVD_STATUS_LIMIT, text,
			sizeof(text) - 1);
		slot->handle = 0;
	}
	slot->handle = handle;
	slot->call = call;
	c->last_handle = handle;
	return handle;
}

uint64_t
inbound_take(struct conn *c, uint64_t handle)
{
	struct inbound *slot;

	if (!handle || !c->inbound_room)
		return 0;
	slot = &c->inbound[handle % c->inbound_room];
	if (slot->handle != handle)
		return 0;
	slot->handle = 0;
	return slot->call;
}

static void
inbound_drop(struct conn *c)
{
	static const char text[] = "the consumer disconnected";

	for (uint32_t i = 0; i < c->inbound_room; i++)
		if (c->inbound[i].handle)
			sched_reply(&c->loop->sched, c->inbound[i].call,
				EVD_STATUS_DIED, text, sizeof(text) - 1);
	free(c->inbound);
	c->inbound = NULL;
	c->inbound_room = 0;
}

/* ---- the session of a binding ---------------------------------------------------- */

static bool
has_credit(const struct binding *b)
{
	return b->delivered - b->settled < b->window_events &&
	       (b->leased_size < b->window_size || !b->leased.head);
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
	};
	uint8_t *out = conn_room(b->conn, envelope_bound(&e) + 16);

	if (out)
		conn_wrote(b->conn, envelope_encode_frame(&e, out));
}

static enum session_result
client_run(struct session *s, struct msg *m)
{
	struct binding *b = s->state;
	uint64_t handle = 0;

	if (!has_credit(b) || !conn_takes_deliveries(b->conn))
		return SESSION_HELD;
	if (m->call) {
		handle = inbound_add(b->conn, m->call);
		if (!handle)
			return SESSION_HELD; /* out of memory; settles retry */
		m->call = 0;                 /* answered through the handle */
	}
	b->delivered++;
	b->leased_size += msg_charge(m);
	msg_queue_push(&b->leased, m);
	write_delivery(b, m, handle);
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
	struct msg *m;

	(void)crashed;
	while ((m = msg_queue_pop(&b->leased)))
		session_done(s, m, EVD_STATUS_DIED);
}

static size_t
client_memory(const struct session *s)
{
	const struct binding *b = s->state;

	return sizeof(*b) + b->leased_size;
}

static const struct session_ops client_session_ops = {
	.kind = "client",
	.start = client_start,
	.run = client_run,
	.reply = client_reply,
	.settled = client_settled,
	.stop = client_stop,
	.memory = client_memory,
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

/* ---- bind and unbind ---------------------------------------------------------------- */

static uint32_t
binding_index(const struct conn *c, uint64_t number)
{
	for (uint32_t i = 0; i < c->n_bindings; i++)
		if (c->bindings[i]->number == number)
			return i;
	return UINT32_MAX;
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

static struct binding *
binding_new(struct conn *c, const Eventd__V1__Bind *bind)
{
	struct binding *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->conn = c;
	b->number = bind->binding;
	b->window_events = (uint32_t)clamp(
		bind->window_events, BINDING_EVENTS, BINDING_EVENTS_MAX);
	b->window_size =
		clamp(bind->window_bytes, BINDING_BYTES, BINDING_BYTES_MAX);
	b->session = session_new(&c->loop->sched, &client_session_ops, NULL, b);
	if (!b->session) {
		free(b);
		return NULL;
	}
	mailbox_limit(&b->session->box, BINDING_MAILBOX_EVENTS,
		BINDING_MAILBOX_BYTES);
	return b;
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

int
binding_bind(struct peer *p, const Eventd__V1__Bind *bind,
	Eventd__V1__Bound *bound, char *text, size_t size)
{
	struct conn *c = container_of(p, struct conn, peer);
	struct binding *b;
	int r, status = refuse_bind(c, bind, text, size);

	if (status)
		return status;
	b = binding_new(c, bind);
	if (!b) {
		snprintf(text, size,
			"out of memory, or MaxSessions= is reached");
		return EVD_STATUS_LIMIT;
	}
	r = session_add_alias(b->session, bind->alias, strlen(bind->alias));
	if (r) {
		session_stop(b->session);
		free(b);
		if (r != ALIAS_E_TAKEN)
			return EVD_STATUS_NO_MEMORY;
		explain_taken(c, bind->alias, text, size);
		return EVD_STATUS_TAKEN;
	}
	c->bindings[c->n_bindings++] = b;
	bound->session = b->session->id;
	bound->window_events = b->window_events;
	bound->window_bytes = b->window_size;
	return EVD_STATUS_OK;
}

int
binding_unbind(struct peer *p, uint64_t number, char *text, size_t size)
{
	struct conn *c = container_of(p, struct conn, peer);
	uint32_t i = binding_index(c, number);

	if (i == UINT32_MAX) {
		snprintf(text, size, "no binding %" PRIu64, number);
		return EVD_STATUS_NOT_FOUND;
	}
	session_stop(c->bindings[i]->session);
	free(c->bindings[i]);
	c->bindings[i] = c->bindings[--c->n_bindings];
	return EVD_STATUS_OK;
}

bool
binding_settle(struct conn *c, uint64_t number, uint64_t upto)
{
	uint32_t i = binding_index(c, number);
	struct binding *b;

	if (i == UINT32_MAX)
		return true; /* it crossed its unbind */
	b = c->bindings[i];
	if (upto > b->delivered)
		return false;
	while (b->settled < upto) {
		struct msg *m = msg_queue_pop(&b->leased);

		b->settled++;
		b->leased_size -= msg_charge(m);
		session_done(b->session, m, 0);
	}
	session_wake(b->session);
	return true;
}

void
bindings_wake(struct conn *c)
{
	for (uint32_t i = 0; i < c->n_bindings; i++)
		session_wake(c->bindings[i]->session);
}

void
bindings_drop(struct conn *c)
{
	for (uint32_t i = 0; i < c->n_bindings; i++) {
		session_stop(c->bindings[i]->session);
		free(c->bindings[i]);
	}
	c->n_bindings = 0;
	inbound_drop(c);
}

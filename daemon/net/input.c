/* Input of a connection: frames to posts, calls, replies, settles and verbs.
 * Everything here is hostile until checked. See conn.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "base/fault.h"
#include "base/log.h"
#include "envelope.h"
#include "eventd/version.h"
#include "frame.h"
#include "kernel/dead.h"
#include "net/arrival.h"
#include "net/binding.h"
#include "net/conn.h"
#include "net/inbound.h"
#include "net/landing.h"
#include "parts.h"
#include "passing.h"
#include "prescan.h"

enum {
	REQUEST_ARENA_MAX = 4 << 20,
	REQUEST_FIELDS_MAX = 4096,
	CALLS_FREE = 64, /* not charged to their user within a turn */
};

/* ---- posts, calls, replies --------------------------------------------- */

/* The session an envelope is for; 0: nobody holds the alias now. */
static uint64_t
receiver_of(struct conn *c, const struct envelope *e)
{
	if (e->alias_size)
		return alias_holder(&c->loop->sched.kernel->aliases, e->alias,
			e->alias_size);
	if (e->to && e->to <= c->n_refs)
		return atomic_load_explicit(
			&c->refs[e->to - 1]->holder, memory_order_acquire);
	return 0;
}

static const char *
name_of(struct conn *c, const struct envelope *e, size_t *size)
{
	*size = e->alias_size;
	if (e->alias_size)
		return e->alias;
	if (!e->to || e->to > c->n_refs)
		return NULL;
	*size = c->refs[e->to - 1]->size;
	return c->refs[e->to - 1]->name;
}

/* Why it may not be sent, or 0: before it is known whether anybody holds the
 * alias. */
__attribute__((noinline)) static int
denial(struct conn *c, const struct envelope *e, enum right right, char *text,
	size_t size)
{
	char alias[ENVELOPE_ALIAS_MAX + 1], event[ENVELOPE_EVENT_MAX + 1];
	uint64_t ref = e->alias_size ? 0 : e->to;
	size_t n;
	const char *name = name_of(c, e, &n);

	if (!name)
		return EVD_STATUS_OK; /* it is refused anyway */
	memcpy(alias, name, n);
	alias[n] = '\0';
	memcpy(event, e->event, e->event_size);
	event[e->event_size] = '\0';
	if (conn_may_send(c, right, ref, alias, event))
		return EVD_STATUS_OK;
	return peer_deny(&c->peer, right, alias, event, text, size);
}

/* Why a post or call cannot be accepted, or 0. */
static int
refusal(struct conn *c, const struct envelope *e, uint64_t to, enum right right,
	char *text, size_t size)
{
	uint32_t max = c->loop->sched.kernel->limits.max_payload;
	size_t n;
	const char *name;

	if (atomic_load_explicit(
		    &c->loop->sched.kernel->stopping, memory_order_relaxed)) {
		snprintf(text, size, "eventd is stopping");
		return EVD_STATUS_UNAVAILABLE;
	}
	if (!(c->peer.rights->open & 1 << right)) {
		int status = denial(c, e, right, text, size);

		if (status)
			return status;
	}
	if (c->arrival && c->arrival->status) {
		snprintf(text, size, "%s", c->arrival->text);
		return c->arrival->status;
	}
	if (e->payload_size > max && !e->memfd_size) {
		snprintf(text, size,
			"payload of %" PRIu32 " bytes, at most %" PRIu32
			" (MaxPayload= in eventd.conf)",
			e->payload_size, max);
		return EVD_STATUS_TOO_LARGE;
	}
	if (!e->event_size) {
		snprintf(text, size, "an event needs a name");
		return EVD_STATUS_INVALID;
	}
	if (e->level > MSG_LEVEL_HANDLED) {
		snprintf(text, size, "unknown level %u", e->level);
		return EVD_STATUS_UNSUPPORTED;
	}
	if (e->priority > EVENTD__V1__PRIORITY__URGENT) {
		snprintf(text, size, "unknown priority %u", e->priority);
		return EVD_STATUS_UNSUPPORTED;
	}
	if (e->key_size > MSG_KEY_MAX) {
		snprintf(text, size, "a key of %" PRIu32 " bytes, at most %d",
			e->key_size, MSG_KEY_MAX);
		return EVD_STATUS_INVALID;
	}
	if (to)
		return EVD_STATUS_OK;
	name = name_of(c, e, &n);
	if (name)
		snprintf(text, size, "no session holds the alias '%.*s'",
			(int)n, name);
	else
		snprintf(text, size, "%" PRIu64 " is no reference to an alias",
			e->to);
	return name ? EVD_STATUS_NO_ALIAS : EVD_STATUS_INVALID;
}

static bool
wants_store(const struct envelope *e)
{
	return e->level == MSG_LEVEL_DURABLE ||
	       e->flags & EVENTD__V1__ENVELOPE_FLAG__STORED;
}

static void
set_extra(struct conn *c, struct msg *m, const struct envelope *e)
{
	struct msg_extra *extra = msg_extra(m);

	if (e->ttl_ms)
		msg_live(m, c->loop->sched.now_ns, e->ttl_ms * NS_PER_MS);
	extra->traced = e->flags & EVENTD__V1__ENVELOPE_FLAG__TRACE;
	extra->durable = wants_store(e);
	extra->key_size = (uint8_t)e->key_size;
	if (e->key_size)
		memcpy(extra->key, e->key, e->key_size);
}

static struct msg *
message_of(struct conn *c, const struct envelope *e, uint64_t to)
{
	struct msg_init init = {
		.event = e->event,
		.event_size = e->event_size,
		.data = e->payload,
		.size = e->payload_size,
		.headers = e->headers,
		.headers_size = e->headers_size,
		.extra = e->ttl_ms || e->key_size || wants_store(e) ||
			 e->flags & EVENTD__V1__ENVELOPE_FLAG__TRACE,
	};
	struct msg *m = init.size > LANDING_MIN
				? arrival_message(c, e, &init)
				: msg_new(&c->loop->sched.pool, &init);

	if (!m)
		return NULL;
	m->to = to;
	m->from = c->session->id;
	if (e->priority)
		m->flags |= MSG_URGENT;
	if (m->flags & MSG_EXTRA)
		set_extra(c, m, e);
	return m;
}

/* A post or call to a name that nobody holds leaves a dead letter. */
static void
keep_undelivered(struct conn *c, const struct envelope *e)
{
	char alias[ENVELOPE_ALIAS_MAX + 1];
	size_t n;
	const char *name = name_of(c, e, &n);
	struct msg *m = name ? message_of(c, e, 0) : NULL;

	if (!m)
		return;
	memcpy(alias, name, n);
	alias[n] = '\0';
	dead_no_alias(&c->loop->sched, m, alias);
}

static void
post_failed(
	struct conn *c, const struct envelope *e, int status, const char *text)
{
	c->loop->sched.counters.refused++;
	if (status == EVD_STATUS_NO_ALIAS)
		keep_undelivered(c, e);
	conn_send_failure(c, e->seq, status, text);
	conn_post_settled(c, e->seq, e->payload_size);
}

/* Whatever becomes of it, the call is not the client's any more. */
static void
forward(struct conn *c, struct msg *m, uint64_t handle)
{
	uint64_t deadline_ns = inbound_find(c, handle)->deadline_ns;

	session_forward(c->session, inbound_take(c, handle), deadline_ns, m);
}

/* Charge the user of @c for @m, or say why not. */
static int
charge(struct conn *c, struct msg *m, char *text, size_t size)
{
	struct sched *s = &c->loop->sched;
	enum charge_kind kind =
		FAULT(charge) ? CHARGE_BYTES
			      : charge_take(&s->charges, c->peer.user->index,
					msg_charge(m));

	if (kind != CHARGES)
		return user_refuse(&s->kernel->users, c->peer.user, kind,
			s->now_ns, text, size);
	m->flags |= MSG_CHARGED;
	msg_wide(m)->user = c->peer.user->index;
	return EVD_STATUS_OK;
}

/* Its id, by which its history is found, before it is settled. */
static void
tell_id(struct conn *c, struct msg *m, uint64_t seq)
{
	Eventd__V1__Notice notice = EVENTD__V1__NOTICE__INIT;
	Eventd__V1__Traced traced = EVENTD__V1__TRACED__INIT;

	m->id = sched_id(&c->loop->sched);
	traced.seq = seq;
	traced.id = m->id;
	notice.what_case = EVENTD__V1__NOTICE__WHAT_TRACED;
	notice.traced = &traced;
	conn_send_message(c, FRAME_NOTICE, &notice.base);
}

/* ---- the hot path ------------------------------------------------------- */

/* Nothing of it wants a closer look: all that refusal() and what comes after it
 * look at is as it mostly is. */
static inline bool
is_plain(const struct conn *c, const struct envelope *e, uint64_t to,
	enum right right)
{
	const struct kernel *k = c->loop->sched.kernel;

	return to && !e->rare && e->event_size &&
	       e->payload_size <= k->limits.max_payload &&
	       e->payload_size <= LANDING_MIN &&
	       (c->peer.rights->open & 1 << right) &&
	       !atomic_load_explicit(&k->stopping, memory_order_relaxed);
}

/* A plain post to a session of this loop that takes it, or lets it wait for
 * room behind others; false: it goes the long way, which also says why not. */
static inline bool
on_plain_post(struct conn *c, const struct envelope *e, uint64_t to)
{
	struct sched *s = &c->loop->sched;
	struct session *t = session_find(s->kernel, to);
	uint32_t user = c->peer.user->index;
	struct msg *m;
	bool now;

	if (!t || atomic_load_explicit(&t->home, memory_order_relaxed) != s)
		return false;
	now = sched_takes(s, t, e->payload_size);
	if (!now && !sched_parks(s, t))
		return false;
	m = msg_new_post(&s->pool,
		&(struct msg){
			.from = session_id(c->session),
			.to = to,
			.event = e->event,
			.size = e->payload_size,
			.flags = now ? MSG_ADMITTED : MSG_ACK | MSG_MAY_PARK,
			.event_size = e->event_size,
		},
		&(struct msg_wide){.seq = e->seq, .user = user}, e->payload);
	if (!m)
		return false;
	if (charge_take(&s->charges, user, m->size) != CHARGES) {
		msg_free(&s->pool, m);
		return false;
	}
	m->flags |= MSG_CHARGED;
	m->id = sched_id(s);
	if (now) {
		sched_put(s, t, m);
		conn_post_settled(c, e->seq, e->payload_size);
	} else {
		sched_park(t, m);
	}
	return true;
}

/* May it make one more? */
static inline bool
has_call_room(const struct conn *c)
{
	return c->session->n_calls < c->server->max_calls &&
	       user_has_room(c->peer.user, CHARGE_CALLS,
		       (int64_t)c->session->n_calls - c->peer.charged_calls, 1);
}

/* Its user is charged for it: at the end of the turn, by when most have been
 * answered, and before that if they are many. */
static inline void
calls_grew(struct conn *c)
{
	if (c->session->n_calls < c->peer.charged_calls + CALLS_FREE)
		loop_defer(c->loop, &c->flush);
	else
		conn_charge(c);
}

/* A plain call likewise; for what waits for room there is no short way. */
static inline bool
on_plain_call(struct conn *c, const struct envelope *e, uint64_t to)
{
	struct sched *s = &c->loop->sched;
	struct session *t = session_find(s->kernel, to);
	uint32_t user = c->peer.user->index;
	struct call *call;
	struct msg *m;

	if (!t || atomic_load_explicit(&t->home, memory_order_relaxed) != s ||
		!sched_takes(s, t, e->payload_size) || !has_call_room(c))
		return false;
	call = session_begin_call(c->session, to, e->call, e->timeout_ms);
	if (!call)
		return false;
	m = msg_new_post(&s->pool,
		&(struct msg){
			.from = session_id(c->session),
			.to = to,
			.event = e->event,
			.size = e->payload_size,
			.flags = MSG_ADMITTED,
			.event_size = e->event_size,
		},
		&(struct msg_wide){.call = call->id,
			.deadline_ns = call->timer.due_ns,
			.user = user},
		e->payload);
	if (m && charge_take(&s->charges, user, m->size) != CHARGES)
		m = msg_free(&s->pool, m);
	if (!m) {
		session_end_call(c->session, call);
		return false;
	}
	m->flags |= MSG_CHARGED;
	m->id = sched_id(s);
	sched_put(s, t, m);
	calls_grew(c);
	return true;
}

static void
on_post(struct conn *c, const struct envelope *e)
{
	char text[VERB_TEXT_MAX];
	uint64_t to;
	struct msg *m;
	int status;

	if (e->seq != c->seq + 1) {
		conn_end(c, EVD_STATUS_PROTOCOL,
			"post %" PRIu64 " follows post %" PRIu64, e->seq,
			c->seq);
		return;
	}
	if (c->n_posts >= c->window_posts || c->posts_size > c->window_bytes) {
		conn_end(c, EVD_STATUS_LIMIT,
			"more than the window of %" PRIu32 " posts and %" PRIu64
			" bytes unacknowledged",
			c->window_posts, c->window_bytes);
		return;
	}
	if (acks_add(&c->acks, e->seq)) {
		conn_close(c, "out of memory");
		return;
	}
	c->seq++;
	c->n_posts++;
	c->posts_size += e->payload_size;
	to = receiver_of(c, e);
	if (is_plain(c, e, to, RIGHT_POST) && on_plain_post(c, e, to))
		return;
	status = refusal(c, e, to, RIGHT_POST, text, sizeof(text));
	if (!status && e->forward && !inbound_find(c, e->forward)) {
		snprintf(text, sizeof(text),
			"no open call %" PRIu64 " was delivered to forward",
			e->forward);
		status = EVD_STATUS_NOT_FOUND;
	}
	if (status) {
		post_failed(c, e, status, text);
		return;
	}
	m = message_of(c, e, to);
	if (!m) {
		post_failed(c, e, EVD_STATUS_NO_MEMORY, NULL);
		return;
	}
	status = charge(c, m, text, sizeof(text));
	if (status) {
		post_failed(c, e, status, text);
		msg_free(&c->loop->sched.pool, m);
		return;
	}
	msg_wide(m)->seq = e->seq;
	msg_wide(m)->level = e->level;
	m->flags |= MSG_ACK;
	if (!(e->flags & EVENTD__V1__ENVELOPE_FLAG__NO_WAIT))
		m->flags |= MSG_MAY_PARK;
	if (e->flags & EVENTD__V1__ENVELOPE_FLAG__TRACE)
		tell_id(c, m, e->seq);
	if (e->forward)
		forward(c, m, e->forward);
	else
		sched_post(&c->loop->sched, m); /* tells by settled() */
}

static void
call_failed(
	struct conn *c, const struct envelope *e, int status, const char *text)
{
	c->loop->sched.counters.refused++;
	if (status == EVD_STATUS_NO_ALIAS)
		keep_undelivered(c, e);
	conn_send_reply(c, e->call, status, text, strlen(text));
}

static void
on_call(struct conn *c, const struct envelope *e)
{
	char text[VERB_TEXT_MAX];
	uint64_t to = receiver_of(c, e);
	struct msg *m;
	int r, status;

	if (is_plain(c, e, to, RIGHT_CALL) && on_plain_call(c, e, to))
		return;
	status = refusal(c, e, to, RIGHT_CALL, text, sizeof(text));
	if (!status && e->key_size) {
		snprintf(text, sizeof(text), "a key is for posts, not calls");
		status = EVD_STATUS_INVALID;
	}
	if (!status && c->session->n_calls >= c->server->max_calls) {
		snprintf(text, sizeof(text),
			"%" PRIu32 " calls of this connection are outstanding",
			c->server->max_calls);
		status = EVD_STATUS_LIMIT;
	}
	if (!status && !has_call_room(c))
		status = peer_lacks_room(
			&c->peer, CHARGE_CALLS, 1, text, sizeof(text));
	if (status) {
		call_failed(c, e, status, text);
		return;
	}
	m = message_of(c, e, to);
	if (!m) {
		call_failed(c, e, EVD_STATUS_NO_MEMORY, "out of memory");
		return;
	}
	status = charge(c, m, text, sizeof(text));
	if (status) {
		call_failed(c, e, status, text);
		msg_free(&c->loop->sched.pool, m);
		return;
	}
	r = session_call(c->session, m, e->call, e->timeout_ms, NULL);
	if (!r) {
		calls_grew(c);
		return;
	}
	sched_explain(&c->loop->sched, r, to, text, sizeof(text));
	call_failed(c, e, sched_status(r), text);
	msg_free(&c->loop->sched.pool, m);
}

/* What is wrong with a reply is not the fault of who asked. */
static void
reply_unreadable(struct sched *s, uint64_t call, const struct arrival *a)
{
	int status = a->status == EVD_STATUS_INVALID ? EVD_STATUS_HANDLER
						     : a->status;
	char text[sizeof(a->text) + 16];

	snprintf(text, sizeof(text), "the reply: %s", a->text);
	sched_reply(s, call, status, text, (uint32_t)strlen(text));
}

/* A reply to a call delivered earlier; a late or second one finds nobody and
 * is counted. */
static void
on_reply(struct conn *c, const struct envelope *e)
{
	struct sched *s = &c->loop->sched;
	uint64_t call = inbound_take(c, e->re);
	struct arrival *a = c->arrival;
	static const char too_large[] = "the reply is over MaxPayload=";

	if (!call) {
		atomic_fetch_add_explicit(
			&s->kernel->late_replies, 1, memory_order_relaxed);
		return;
	}
	if (a && a->status)
		reply_unreadable(s, call, a);
	else if (e->payload_size > s->kernel->limits.max_payload &&
		 !e->memfd_size)
		sched_reply(s, call, EVD_STATUS_TOO_LARGE, too_large,
			sizeof(too_large) - 1);
	else if (!a || e->status || sched_reply_region(s, call, a->region))
		sched_reply(
			s, call, (int)e->status, e->payload, e->payload_size);
	else
		a->region = NULL; /* it is on its way */
}

void
conn_on_event(struct conn *c, const struct envelope *e)
{
	if (e->re)
		on_reply(c, e);
	else if (e->call)
		on_call(c, e);
	else
		on_post(c, e);
}

void
conn_on_envelope(struct conn *c, struct envelope *e, int r)
{
	if (r)
		conn_end(c, EVD_STATUS_PROTOCOL, "%s",
			r == ENVELOPE_E_NAME
				? "an envelope's alias or event is no name"
			: r == ENVELOPE_E_HEADERS
				? "an envelope's headers are over 16 KiB"
				: "an envelope is malformed");
	else if (e->memfd_size)
		arrival_memfd(c, e);
	else
		conn_on_event(c, e);
}

static void
on_envelope(struct conn *c, const struct part *part)
{
	struct envelope e;
	int r = envelope_decode(&e, part->data, part->size);

	conn_on_envelope(c, &e, r);
}

/* ---- the rest ---------------------------------------------------------- */

static void
on_settle(struct conn *c, const struct part *part)
{
	struct settle settle;

	if (settle_decode(&settle, part->data, part->size))
		conn_end(c, EVD_STATUS_PROTOCOL, "a settle is malformed");
	else if (!binding_settle(c, settle.binding, settle.upto))
		conn_end(c, EVD_STATUS_PROTOCOL,
			"binding %" PRIu64 " was not delivered event %" PRIu64,
			settle.binding, settle.upto);
}

/* Unpack @part, having checked that it cannot cost more than it is worth;
 * NULL: the connection has been ended. Allocated in @arena. */
static ProtobufCMessage *
unpack(struct conn *c, const struct part *part,
	const ProtobufCMessageDescriptor *descriptor,
	ProtobufCAllocator *allocator)
{
	ProtobufCMessage *message = NULL;

	if (!proto_prescan(descriptor, part->data, part->size, FRAME_DEPTH_MAX,
		    REQUEST_FIELDS_MAX))
		message = protobuf_c_message_unpack(
			descriptor, allocator, part->size, part->data);
	if (!message)
		conn_end(c, EVD_STATUS_PROTOCOL, "a %s is malformed",
			descriptor->short_name);
	return message;
}

static void
send_welcome(struct conn *c)
{
	Eventd__V1__Welcome welcome = EVENTD__V1__WELCOME__INIT;
	const struct kernel_limits *limits = &c->loop->sched.kernel->limits;
	char memfd[] = FEATURE_MEMFD, replies[] = FEATURE_MEMFD_REPLIES;
	char *features[] = {memfd, replies};

	welcome.version = EVD_PROTOCOL_VERSION;
	welcome.server = (char *)c->server->shared.version;
	welcome.session = c->session->id;
	welcome.max_payload = limits->max_payload;
	welcome.max_frame = (uint64_t)limits->max_payload + CONN_FRAME_SLACK;
	welcome.window_posts = c->window_posts;
	welcome.window_bytes = c->window_bytes;
	welcome.max_calls = c->server->max_calls;
	welcome.call_timeout_ms = limits->call_timeout_ms;
	if (c->passed) {
		welcome.features = features;
		welcome.n_features = 2;
		welcome.max_memfd = c->server->max_memfd;
	}
	conn_send_message(c, FRAME_WELCOME, &welcome.base);
}

/* For logs and lists: printable, bounded. */
static void
keep_name(struct conn *c, const char *name)
{
	size_t n = 0;

	for (; name[n] && n < CONN_NAME_MAX - 1; n++)
		c->name[n] = name[n] < ' ' || name[n] > '~' ? '?' : name[n];
	c->name[n] = '\0';
}

static void
on_hello(struct conn *c, const struct part *part)
{
	struct arena arena;
	ProtobufCAllocator allocator;
	Eventd__V1__Hello *hello;

	arena_init(&arena, REQUEST_ARENA_MAX);
	allocator = arena_allocator(&arena);
	hello = (Eventd__V1__Hello *)unpack(
		c, part, &eventd__v1__hello__descriptor, &allocator);
	if (!hello) {
		arena_deinit(&arena);
		return;
	}
	if (hello->version != EVD_PROTOCOL_VERSION) {
		conn_end(c, EVD_STATUS_UNSUPPORTED,
			"protocol version %" PRIu32 ", this daemon speaks %d",
			hello->version, EVD_PROTOCOL_VERSION);
	} else {
		keep_name(c, hello->name);
		arrival_features(c, hello);
		conn_greeted(c);
		send_welcome(c);
	}
	arena_deinit(&arena);
}

static void
on_request(struct conn *c, const struct part *part)
{
	struct arena arena;
	ProtobufCAllocator allocator;
	ProtobufCMessage *request;

	c->n_served++;
	arena_init(&arena, /* its payload is copied there */
		REQUEST_ARENA_MAX +
			(size_t)c->loop->sched.kernel->limits.max_payload);
	allocator = arena_allocator(&arena);
	request = unpack(c, part, &eventd__v1__request__descriptor, &allocator);
	if (request)
		verb_run(&c->peer, (Eventd__V1__Request *)request);
	arena_deinit(&arena);
}

static void
on_part(struct conn *c, const struct part *part)
{
	if (c->state == CONN_GREETING && part->field != FRAME_HELLO) {
		conn_end(c, EVD_STATUS_PROTOCOL,
			"the first frame must be a hello");
		return;
	}
	switch (part->field) {
	case FRAME_ENVELOPE:
		on_envelope(c, part);
		break;
	case FRAME_SETTLE:
		on_settle(c, part);
		break;
	case FRAME_REQUEST:
		on_request(c, part);
		break;
	case FRAME_HELLO:
		if (c->state == CONN_GREETING)
			on_hello(c, part);
		else
			conn_end(c, EVD_STATUS_PROTOCOL, "a second hello");
		break;
	default:
		break; /* of a later version, or not for us */
	}
}

/* More input would cost more output, more requests or more of this turn than
 * it may have now. */
bool
conn_must_pause(const struct conn *c)
{
	return outbuf_size(&c->out) > CONN_OUT_HIGH ||
	       c->peer.n_requests >= VERB_REQUESTS_MAX ||
	       c->n_served >= CONN_TURN_REQUESTS;
}

/* The parts of a frame behind the first @done bytes, until it must pause;
 * returns how many bytes are done now. */
size_t
conn_on_frame(struct conn *c, const uint8_t *body, size_t size, size_t done)
{
	const uint8_t *p = body + done, *end = body + size;
	struct part part;
	int r = 0;

	while (conn_is_live(c) && !conn_must_pause(c) &&
		!(r = part_next(&p, end, &part)))
		on_part(c, &part);
	if (r == PART_E_MALFORMED)
		conn_end(c, EVD_STATUS_PROTOCOL, "a frame is malformed");
	return (size_t)(p - body);
}

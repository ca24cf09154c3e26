/* The verb bind: an alias that is free is taken, a mailslot is consumed, what
 * another holds is refused, waited for or taken away. The thread of the
 * connection's loop, and of the holder's home where it says so. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/claim.h"
#include "kernel/journal.h"
#include "kernel/queue.h"
#include "net/binding.h"
#include "net/mailslot.h"
#include "net/standing.h"
#include "verb/gather.h"

/* A bind, on its way to the home of the alias's holder and back. */
struct bind_request {
	struct consumer_init wish;
	uint64_t number;
	int status;
	bool claim; /* it is to stand in line, or replace the holder */
	Eventd__V1__Bound bound;
	char overflow[]; /* what wish.overflow points at */
};

/* The mailbox that a client wants for an alias of its own: 0 and *@out, which
 * is NULL if it does not say, or why not. */
static int
box_spec(const struct consumer_init *wish, struct session_spec **out,
	char *text, size_t size)
{
	struct session_spec *spec;
	int r;

	*out = NULL;
	if (!wish->overflow)
		return EVD_STATUS_OK;
	spec = spec_new();
	if (spec && wish->mode >= BIND_FANOUT)
		spec->overflow = OVERFLOW_DROP_OLDEST;
	r = spec ? spec_set_overflow(spec, wish->overflow) : -ENOMEM;
	if (!r && wish->mode == BIND_SHARED &&
		spec_says(spec, OVERFLOW_DISCONNECT))
		r = SPEC_E_WORD; /* whom? */
	if (!r && wish->mode == BIND_MONITOR && spec_says(spec, OVERFLOW_BLOCK))
		r = SPEC_E_WORD; /* it slows nobody down */
	if (r)
		spec_unref(spec);
	if (r < 0) {
		snprintf(text, size, "out of memory");
		return EVD_STATUS_NO_MEMORY;
	}
	if (r) {
		snprintf(text, size,
			"overflow is one of block, refuse, drop-oldest, "
			"drop-newest, unless it is shared disconnect, and up "
			"to %d of the form EVENTS:drop-oldest",
			SPEC_RULES_MAX);
		return EVD_STATUS_INVALID;
	}
	spec->of_client = true;
	spec->max_events = wish->box_events;
	spec->max_bytes = wish->box_bytes;
	*out = spec;
	return EVD_STATUS_OK;
}

static int
refuse_box(const Eventd__V1__Mailbox *box, char *text, size_t size)
{
	if (box->max_events > BINDING_MAILBOX_EVENTS_MAX ||
		box->max_bytes > BINDING_MAILBOX_BYTES_MAX)
		snprintf(text, size,
			"the mailbox of a binding has at most %d events and "
			"%d bytes",
			BINDING_MAILBOX_EVENTS_MAX, BINDING_MAILBOX_BYTES_MAX);
	else if (strlen(box->overflow) > BINDING_OVERFLOW_MAX)
		snprintf(text, size, "overflow has at most %d bytes",
			BINDING_OVERFLOW_MAX);
	else
		return EVD_STATUS_OK;
	return EVD_STATUS_LIMIT;
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
	conn_charge(c);
	if (!user_has_room(c->peer.user, CHARGE_ALIASES, 0, 1))
		return user_refuse(&c->loop->sched.kernel->users, c->peer.user,
			CHARGE_ALIASES, c->loop->sched.now_ns, text, size);
	if (c->n_bindings >= CONN_BINDINGS_MAX) {
		snprintf(text, size, "a connection binds at most %d aliases",
			CONN_BINDINGS_MAX);
		return EVD_STATUS_LIMIT;
	}
	if (bind->mailbox && refuse_box(bind->mailbox, text, size))
		return EVD_STATUS_LIMIT;
	if ((unsigned)bind->mode >= BIND_MODES) {
		snprintf(text, size, "there is no bind mode %d",
			(int)bind->mode);
		return EVD_STATUS_INVALID;
	}
	if (bind->durable &&
		bind->mode == EVENTD__V1__BIND_MODE__BIND_MONITOR) {
		snprintf(text, size, "a monitor has no durable mailbox");
		return EVD_STATUS_INVALID;
	}
	if (bind->mode != EVENTD__V1__BIND_MODE__BIND_EXCLUSIVE &&
		(bind->if_taken || bind->allow_replace)) {
		snprintf(text, size,
			"only a bind of mode exclusive may queue or replace: "
			"in the others all join");
		return EVD_STATUS_INVALID;
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
		.if_taken =
			bind->if_taken <= EVENTD__V1__IF_TAKEN__TAKEN_REPLACE
				? (enum claim_mode)bind->if_taken
				: CLAIM_REFUSE,
		.allow_replace = bind->allow_replace,
		.mode = (enum bind_mode)bind->mode,
		.durable = bind->durable,
		.payload = rights_may(
			c->peer.rights, RIGHT_MANAGE, bind->alias, NULL),
	};
	if (bind->mailbox) {
		wish->overflow = bind->mailbox->overflow;
		wish->box_events = (uint32_t)clamp(bind->mailbox->max_events,
			BINDING_MAILBOX_EVENTS, BINDING_MAILBOX_EVENTS_MAX);
		wish->box_bytes = clamp(bind->mailbox->max_bytes,
			BINDING_MAILBOX_BYTES, BINDING_MAILBOX_BYTES_MAX);
	}
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

/* A session of the binding's own takes the alias, which seems free, or stands
 * in line for it: then MAILSLOT_E_QUEUED. */
static int
bind_own(struct conn *c, uint64_t number, const struct consumer_init *wish,
	Eventd__V1__Bound *bound, char *text, size_t size)
{
	struct session_spec *spec;
	struct binding *b;
	struct claim_init claim = {
		.name = wish->alias,
		.size = strlen(wish->alias),
		.mode = wish->if_taken,
		.allow_replace = wish->allow_replace,
	};
	int r = box_spec(wish, &spec, text, size);

	if (r)
		return r;
	b = binding_new(c, number, wish);
	if (b)
		b->session = session_new(
			&c->loop->sched, &client_session_ops, NULL, b);
	if (b && b->session && spec)
		queue_use(b->session, spec);
	spec_unref(spec);
	if (!b || !b->session) {
		if (b)
			binding_free(b);
		snprintf(text, size,
			"out of memory, or MaxSessions= is reached");
		return EVD_STATUS_LIMIT;
	}
	if (!wish->overflow)
		mailbox_limit(&b->session->box, BINDING_MAILBOX_EVENTS,
			BINDING_MAILBOX_BYTES);
	r = claim_make(b->session, &claim);
	if (r && r != CLAIM_E_QUEUED) {
		claim_explain(b->session, &claim, r, text, size);
		binding_free(b);
		return claim_status(r);
	}
	binding_insert(c, b);
	answer_bound(bound, b->session->id, wish);
	if (!r) /* what a client of that alias has left behind */
		journal_restore(b->session, wish->alias);
	return r ? MAILSLOT_E_QUEUED : EVD_STATUS_OK;
}

/* The binding @number waits in line: it will answer @request. */
static void
await_turn(struct conn *c, uint64_t number, uint64_t request)
{
	uint32_t i = binding_index(c, number);

	if (i != UINT32_MAX)
		c->bindings[i]->request = request;
}

/* The session of a subscriber, which has a mailbox and no alias. */
static int
subscriber_new(
	struct binding *b, struct consumer_init *wish, char *text, size_t size)
{
	struct session_spec *spec;
	int r;

	if (!wish->overflow) {
		wish->overflow = "";
		wish->box_events = BINDING_MAILBOX_EVENTS;
		wish->box_bytes = BINDING_MAILBOX_BYTES;
	}
	r = box_spec(wish, &spec, text, size);
	if (r)
		return r;
	spec->name = strdup(wish->alias);
	wish->blocks = spec_says(spec, OVERFLOW_BLOCK);
	b->session = session_new(
		&b->conn->loop->sched, &client_session_ops, NULL, b);
	if (b->session)
		queue_use(b->session, spec);
	spec_unref(spec);
	if (!b->session) {
		snprintf(text, size,
			"out of memory, or MaxSessions= is reached");
		return EVD_STATUS_LIMIT;
	}
	wish->subscriber = session_id(b->session);
	return EVD_STATUS_OK;
}

/* It is there before the mailslot knows it: what ends it on this side is told
 * after the request. */
static int
bind_mail(struct conn *c, uint64_t number, struct consumer_init *wish,
	uint64_t slot, char *text, size_t size)
{
	struct binding *b = binding_new(c, number, wish);
	int r = EVD_STATUS_OK;

	if (!b)
		return EVD_STATUS_NO_MEMORY;
	b->slot = slot;
	b->token = wish->token = ++c->last_token << 16 | number;
	if (wish->mode != BIND_MONITOR) /* which its holder does not know */
		b->farewell = binding_note_new(b, MAIL_DETACH);
	if (!b->farewell && wish->mode != BIND_MONITOR)
		r = EVD_STATUS_NO_MEMORY;
	else if (wish->mode >= BIND_FANOUT)
		r = subscriber_new(b, wish, text, size);
	if (r) {
		binding_free(b);
		return r;
	}
	binding_insert(c, b);
	return EVD_STATUS_OK;
}

static int
make_standing(
	struct session_spec *spec, const char *alias, char *text, size_t size)
{
	int r = standing_spec(spec, alias);

	if (r == -ENOMEM) {
		snprintf(text, size, "out of memory");
		return EVD_STATUS_NO_MEMORY;
	}
	if (r)
		snprintf(text, size,
			"a durable mailbox has one overflow for all events");
	return r ? EVD_STATUS_INVALID : EVD_STATUS_OK;
}

static int
explain_volatile(struct conn *c, const struct consumer_init *wish, char *text,
	size_t size)
{
	const struct store *store = c->loop->sched.kernel->store;

	if (store && !store->broken) {
		snprintf(text, size,
			"'%s' cannot be durable: another session has what the "
			"store keeps under its name, or %d aliases are so",
			wish->alias, JOURNAL_STANDING_MAX);
		return EVD_STATUS_LIMIT;
	}
	snprintf(text, size, "'%s' cannot be durable: %s", wish->alias,
		store ? "the store cannot be used" : "there is no store");
	return EVD_STATUS_UNSUPPORTED;
}

/* A mailslot that ends with its consumers takes the alias, which seems free,
 * and @wish is the first of them. The mailbox that it wants is that of all who
 * share it, or else the subscriber's own. */
static int
open_crowd(struct conn *c, uint64_t number, struct consumer_init *wish,
	Eventd__V1__Bound *bound, char *text, size_t size)
{
	struct consumer_init plain = {
		.overflow = "",
		.mode = BIND_SHARED,
		.box_events = BINDING_MAILBOX_EVENTS,
		.box_bytes = BINDING_MAILBOX_BYTES,
	};
	struct claim_init claim = {
		.name = wish->alias, .size = strlen(wish->alias)};
	bool is_own = wish->mode != BIND_FANOUT && wish->overflow;
	struct session_spec *spec;
	struct session *t;
	int r = box_spec(is_own ? wish : &plain, &spec, text, size);

	if (!r && wish->durable)
		r = make_standing(spec, wish->alias, text, size);
	if (r) {
		spec_unref(spec);
		return r;
	}
	spec->mode = wish->mode;
	r = mailslot_open(&c->loop->sched, wish, spec, &t);
	spec_unref(spec);
	if (r == MAILSLOT_E_VOLATILE)
		return explain_volatile(c, wish, text, size);
	if (r < 0) {
		snprintf(text, size,
			"out of memory, or MaxSessions= is reached");
		return EVD_STATUS_LIMIT;
	}
	if (r) {
		claim_explain(c->session, &claim, r, text, size);
		return claim_status(r);
	}
	r = bind_mail(c, number, wish, session_id(t), text, size);
	if (!r)
		r = mailslot_attach(t, wish, text, size);
	if (!r && wish->durable) {
		if (!standing_store(t, wish))
			return MAILSLOT_E_QUEUED;
		r = explain_volatile(c, wish, text, size);
	}
	if (r)
		session_stop(t); /* tells the binding, if it is there */
	else
		answer_bound(bound, session_id(t), wish);
	return r;
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

/* An alias that clients share, who do not last: who wants it alone may wait
 * for that. */
static bool
stands_for(const struct session *t, const struct consumer_init *wish)
{
	const struct mailslot *slot = t->state;

	return slot && slot->fleeting && wish->mode == BIND_EXCLUSIVE &&
	       wish->if_taken != CLAIM_REFUSE;
}

static int
monitor(struct sched *s, struct session *t, const struct consumer_init *wish)
{
	const struct tap tap = {
		.session = session_id(t),
		.to = wish->subscriber,
		.payload = wish->payload,
		.seen = fanout_monitor,
	};
	int r = tap_add(s, &tap);

	return r == -ENOSPC ? EVD_STATUS_LIMIT : sched_status(r);
}

static bool
bind_visit(struct gather *g, struct sched *s)
{
	struct bind_request *r = g->out;
	struct session *t = session_find(s->kernel, g->only);

	if (!t || atomic_load(&t->home) != s) {
		r->status = EVD_STATUS_NO_ALIAS;
	} else if (r->wish.mode == BIND_MONITOR) {
		r->status = monitor(s, t, &r->wish);
	} else if (t->ops != &mailslot_ops || stands_for(t, &r->wish)) {
		r->status = EVD_STATUS_TAKEN;
		r->claim = r->wish.if_taken != CLAIM_REFUSE;
		explain_holder(t, r->wish.alias, g->text, sizeof(g->text));
	} else if (r->wish.durable &&
		   (!session_journal(t) || journal_is_partial(t))) {
		r->status = EVD_STATUS_UNSUPPORTED;
		snprintf(g->text, sizeof(g->text),
			"the mailbox of '%s' is there and not durable",
			r->wish.alias);
	} else if (r->wish.overflow && r->wish.mode != BIND_FANOUT && t->spec &&
		   t->spec->origin) {
		r->status = EVD_STATUS_INVALID;
		snprintf(g->text, sizeof(g->text),
			"the mailbox of '%s' is that of %s: see [Mailbox] "
			"there",
			r->wish.alias, t->spec->origin);
	} else {
		r->status =
			mailslot_attach(t, &r->wish, g->text, sizeof(g->text));
	}
	return false;
}

/* The alias seems free. */
static int
bind_free(struct conn *c, uint64_t number, struct consumer_init *wish,
	Eventd__V1__Bound *bound, char *text, size_t size)
{
	return wish->mode == BIND_EXCLUSIVE && !wish->durable
		       ? bind_own(c, number, wish, bound, text, size)
		       : open_crowd(c, number, wish, bound, text, size);
}

/* The holder cannot be consumed, has gone, or shall go: the binding gets a
 * session of its own. */
static int
bind_instead(struct conn *c, struct gather *g, struct bind_request *r)
{
	int status = bind_free(
		c, r->number, &r->wish, &r->bound, g->text, sizeof(g->text));

	if (status != MAILSLOT_E_QUEUED)
		return status;
	await_turn(c, r->number, g->request);
	g->is_answered = true;
	return EVD_STATUS_OK;
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
	} else if (!b) {
		if (r->status == MAILSLOT_E_QUEUED)
			g->status = EVD_STATUS_CANCELLED;
		snprintf(g->text, sizeof(g->text), "it was unbound meanwhile");
	} else if (r->status == MAILSLOT_E_QUEUED) {
		b->request = g->request;
		g->status = EVD_STATUS_OK;
		g->is_answered = true;
	} else {
		binding_remove(c, b);
		if (r->wish.mode != BIND_MONITOR &&
			(r->status == EVD_STATUS_NO_ALIAS || r->claim))
			g->status = bind_instead(c, g, r);
	}
}

/* Ask the holder of the alias, wherever it lives. */
static void
bind_ask(struct conn *c, uint64_t id, const Eventd__V1__Bind *bind,
	uint64_t holder)
{
	struct gather *g = gather_new(&c->peer, id);
	const char *overflow = bind->mailbox ? bind->mailbox->overflow : NULL;
	size_t more = overflow ? strlen(overflow) + 1 : 0;
	struct bind_request *r = g ? gather_alloc(g, sizeof(*r) + more) : NULL;

	if (!g)
		return;
	if (r) {
		r->number = bind->binding;
		wish_init(&r->wish, c, bind);
		if (overflow)
			r->wish.overflow = strcpy(r->overflow, overflow);
		g->status = bind_mail(c, r->number, &r->wish, holder, g->text,
			sizeof(g->text));
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

	if (!status && !holder &&
		bind->mode == EVENTD__V1__BIND_MODE__BIND_MONITOR) {
		status = EVD_STATUS_NO_ALIAS;
		snprintf(text, sizeof(text), "nobody holds the alias '%s'",
			bind->alias);
	}
	if (!status && holder) {
		bind_ask(c, id, bind, holder);
		return;
	}
	if (!status) {
		wish_init(&wish, c, bind);
		status = bind_free(
			c, bind->binding, &wish, &bound, text, sizeof(text));
	}
	if (status == MAILSLOT_E_QUEUED) {
		await_turn(c, bind->binding, id);
		return;
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

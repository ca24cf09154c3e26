#include "net/conn.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/log.h"
#include "frame.h"
#include "kernel/claim.h"
#include "kernel/crowd.h"
#include "kernel/notice.h"
#include "net/binding.h"
#include "net/landing.h"
#include "net/mailslot.h"
#include "net/memfd.h"
#include "parts.h"
#include "passing.h"

void
server_init(struct server *server)
{
	memset(server, 0, sizeof(*server));
	server->window_posts = 4096;
	server->window_bytes = 4 << 20;
	server->max_connections = 16384;
	server->max_calls = 1024;
	server->max_memfd = 32 << 20;
}

/* ---- per loop ---------------------------------------------------------- */

static void net_on_hello_timer(uv_timer_t *timer);
static void net_on_welcome_timer(uv_timer_t *timer);

int
net_init(struct net *net, struct loop *l, struct server *server)
{
	int r;

	memset(net, 0, sizeof(*net));
	net->loop = l;
	net->server = server;
	net->policy = server->policy ? policy_ref(server->policy)
				     : policy_new(server->shared.owner, false);
	if (!net->policy)
		return err_raise(-ENOMEM);
	list_init(&net->conns);
	list_init(&net->greeting);
	list_init(&net->patient);
	r = uv_timer_init(&l->uv, &net->hello_timer);
	if (!r)
		r = uv_timer_init(&l->uv, &net->welcome_timer);
	if (r)
		return err_raise(r);
	net->hello_timer.data = net->welcome_timer.data = net;
	net->hello_ns = UINT64_MAX;
	net->window_posts = server->window_posts;
	net->window_bytes = server->window_bytes;
	l->net = net;
	l->sched.kernel->crowds = &mailslot_crowds;
	return 0;
}

void
net_deinit(struct net *net)
{
	net->closing = true;
	uv_close((uv_handle_t *)&net->hello_timer, NULL);
	uv_close((uv_handle_t *)&net->welcome_timer, NULL);
	outbuf_pool_deinit(&net->pool);
	rights_cache_clear(&net->rights);
	net->policy = policy_unref(net->policy);
}

/* When its hello is late. */
static uint64_t
hello_due_ns(const struct conn *c)
{
	uint64_t ms = atomic_load_explicit(
		&c->peer.user->max[CHARGE_HELLO], memory_order_relaxed);

	return ms > UINT32_MAX ? UINT64_MAX : c->accepted_ns + ms * NS_PER_MS;
}

enum { HELLO_LOOK_MS = 10 }; /* between two looks, however many are late */

static void
look_at_hellos(struct net *net, uint64_t due_ns)
{
	uint64_t now = net->loop->sched.now_ns;

	if (net->closing || due_ns >= net->hello_ns)
		return;
	net->hello_ns = due_ns;
	loop_touch(net->loop);
	uv_timer_start(&net->hello_timer, net_on_hello_timer,
		due_ns > now ? (due_ns - now) / NS_PER_MS + 1 : 0, 0);
}

static void
net_on_hello_timer(uv_timer_t *timer)
{
	struct net *net = timer->data;
	struct sched *s = &net->loop->sched;
	uint64_t next = UINT64_MAX, now = clock_now(s->kernel->clock), due;
	char text[VERB_TEXT_MAX];

	s->now_ns = now;
	LIST_FOREACH (node, &net->greeting) {
		struct conn *c = container_of(node, struct conn, greeting);

		due = hello_due_ns(c);
		if (due <= now) {
			user_refuse(&s->kernel->users, c->peer.user,
				CHARGE_HELLO, now, text, sizeof(text));
			conn_end(c, EVD_STATUS_TIMEOUT, "%s", text);
		} else if (due < next) {
			next = due;
		}
	}
	net->hello_ns = UINT64_MAX;
	if (next < now + HELLO_LOOK_MS * NS_PER_MS)
		next = now + HELLO_LOOK_MS * NS_PER_MS;
	if (next != UINT64_MAX)
		look_at_hellos(net, next);
}

enum {
	WELCOME_MS = 5,    /* that it waits at most */
	WELCOME_MAX = 256, /* bytes: there is nothing else */
};

/* A client that did not await its welcome to make a call, which some other
 * thread answers: one write serves both, and wakes it once. */
bool
conn_is_patient(struct conn *c, size_t size)
{
	struct net *net = c->net;

	if (!c->is_new || c->state != CONN_OPEN || net->closing)
		return false;
	if (TAKE(c->is_patient)) {
		list_remove(&c->greeting);
		return false;
	}
	if (!c->session->n_calls || size > WELCOME_MAX || c->n_posts ||
		c->peer.n_requests || c->n_bindings || c->input_paused)
		return false;
	if (!uv_is_active((uv_handle_t *)&net->welcome_timer)) {
		loop_touch(c->loop);
		uv_timer_start(&net->welcome_timer, net_on_welcome_timer,
			WELCOME_MS, 0);
	}
	c->is_patient = true;
	list_append(&net->patient, &c->greeting);
	return true;
}

static void
net_on_welcome_timer(uv_timer_t *timer)
{
	struct net *net = timer->data;

	LIST_FOREACH (node, &net->patient) {
		struct conn *c = container_of(node, struct conn, greeting);

		loop_defer(c->loop, &c->flush);
	}
}

static void
grant_window(struct net *net, uint32_t posts, uint64_t bytes)
{
	Eventd__V1__Notice notice = EVENTD__V1__NOTICE__INIT;
	Eventd__V1__Window window = EVENTD__V1__WINDOW__INIT;

	window.posts = posts;
	window.bytes = bytes;
	notice.what_case = EVENTD__V1__NOTICE__WHAT_WINDOW;
	notice.window = &window;
	LIST_FOREACH (node, &net->conns) {
		struct conn *c = container_of(node, struct conn, link);

		if (c->state != CONN_OPEN)
			continue;
		/* what it has been granted it may have used by now */
		if (posts > c->window_posts)
			c->window_posts = posts;
		if (bytes > c->window_bytes)
			c->window_bytes = bytes;
		conn_send_message(c, FRAME_NOTICE, &notice.base);
	}
}

void
net_set_limits(struct net *net, const struct net_limits *limits)
{
	struct server *server = net->server;

	atomic_store(&server->max_connections, limits->max_connections);
	atomic_store(&server->max_memfd, limits->max_memfd);
	atomic_store(&server->window_posts, limits->window_posts);
	atomic_store(&server->window_bytes, limits->window_bytes);
	if (net->window_posts != limits->window_posts ||
		net->window_bytes != limits->window_bytes)
		grant_window(net, limits->window_posts, limits->window_bytes);
	net->window_posts = limits->window_posts;
	net->window_bytes = limits->window_bytes;
	if (!list_is_empty(&net->greeting))
		look_at_hellos(net, 0);
}

/* ---- the end of input --------------------------------------------------- */

static const char closed_text[] = "the client closed it";

/* What is bound to it could never be settled. */
bool
conn_owes(const struct conn *c)
{
	return c->state == CONN_OPEN && !c->n_bindings &&
	       (c->n_posts || c->session->n_calls || c->peer.n_requests ||
		       outbuf_size(&c->out) || conn_has_large(c) || c->n_also ||
		       acks_upto(&c->acks, c->seq) != c->ack_sent);
}

/* Both ways are closed, as mostly: nobody would hear. */
static bool
is_hung_up(const struct conn *c)
{
	struct pollfd p = {.fd = c->fd};

	return poll(&p, 1, 0) > 0;
}

void
conn_end_of_input(struct conn *c)
{
	if (!conn_owes(c) || is_hung_up(c)) {
		conn_close(c, closed_text);
		return;
	}
	c->is_deaf = true;
	loop_defer(c->loop, &c->flush);
}

/* ---- polling ----------------------------------------------------------- */

static void
conn_on_io(struct io_watch *w, uint32_t events)
{
	struct conn *c = container_of(w, struct conn, watch);

	if (!events)
		conn_close(c, "it cannot be waited for");
	if (events & EPOLLPRI)
		conn_close(c, closed_text);
	if (events & EPOLLOUT)
		loop_defer(c->loop, &c->flush);
	if ((events & EPOLLIN) && c->state != CONN_CLOSING)
		conn_read(c);
}

/* In the turn in which it came, all it asked for was answered: many are closed
 * then, or ask for more. */
static bool
is_answered(const struct conn *c)
{
	return c->is_new && c->state == CONN_OPEN && !c->input_paused &&
	       !outbuf_size(&c->out) && !c->session->n_calls && !c->n_posts &&
	       !c->n_bindings;
}

void
conn_update_poll(struct conn *c)
{
	uint32_t events = 0;
	bool soon;

	if (c->state == CONN_CLOSING)
		return;
	if (c->is_deaf)
		events |= EPOLLPRI;
	else if (!c->input_paused && c->state != CONN_ENDING)
		events |= EPOLLIN;
	if (outbuf_size(&c->out) || conn_has_large(c))
		events |= EPOLLOUT;
	soon = is_answered(c);
	if (soon && c->loop->naps) {
		soon = c->loop->sched.queued > 0; /* who is idle sleeps on */
		if (soon)
			loop_touch(c->loop);
	}
	c->is_new = false;
	if (soon)
		io_want_soon(&c->loop->io, &c->watch, events);
	else if (io_want(&c->loop->io, &c->watch, events))
		conn_on_io(&c->watch, 0);
}

/* ---- the session of a connection --------------------------------------- */

static enum session_result
conn_session_start(struct session *s)
{
	(void)s;
	return SESSION_DONE;
}

/* Nobody knows its id but those who got events from it; they may post. It has
 * no handlers: what comes is a dead letter. */
static enum session_result
conn_session_run(struct session *s, struct msg *m)
{
	struct conn *c = s->state;

	if (!notice_is(m))
		return SESSION_UNHANDLED;
	if (!conn_takes_deliveries(c))
		return SESSION_HELD; /* conn_flush() wakes it */
	conn_notice(c, m);
	return SESSION_DONE;
}

static void
conn_session_reply(struct session *s, uint64_t token, struct msg *reply)
{
	struct conn *c = s->state;

	if (reply->handler == CLAIM_REPLY_WAIT)
		verb_found(&c->peer, token, reply);
	else if (msg_region(reply) && !conn_has_large(c))
		conn_send_reply_region(c, token, msg_body(reply));
	else
		conn_send_reply(c, token, (int)msg_status(reply),
			msg_payload(reply), reply->size);
}

static void
conn_session_answer(struct session *s, uint64_t token, int status,
	const void *data, uint32_t size)
{
	conn_send_reply(s->state, token, status, data, size);
}

static void
conn_session_settled(struct session *s, uint64_t seq, uint32_t size, int status,
	const char *text)
{
	struct conn *c = s->state;

	if (status)
		conn_send_failure(c, seq, status, text);
	conn_post_settled(c, seq, size);
}

static void
conn_session_stop(struct session *s, bool crashed)
{
	(void)s, (void)crashed; /* conn_close() frees the connection */
}

static void
conn_session_note(struct session *s, struct msg *m)
{
	binding_note(s->state, m);
}

const struct session_ops conn_session_ops = {
	.kind = "connection",
	.start = conn_session_start,
	.run = conn_session_run,
	.reply = conn_session_reply,
	.answer = conn_session_answer,
	.settled = conn_session_settled,
	.stop = conn_session_stop,
	.note = conn_session_note,
};

/* ---- life -------------------------------------------------------------- */

static void
conn_respond(struct peer *p, const Eventd__V1__Response *response)
{
	conn_send_message(container_of(p, struct conn, peer), FRAME_RESPONSE,
		&response->base);
}

static int
conn_resolve(struct peer *p, const char *alias, uint64_t *ref, char *text,
	size_t size)
{
	struct conn *c = container_of(p, struct conn, peer);
	struct aliases *aliases = &c->loop->sched.kernel->aliases;
	size_t n = strlen(alias);

	if (!alias_holder(aliases, alias, n)) {
		snprintf(text, size, "no session holds the alias '%s'", alias);
		return EVD_STATUS_NO_ALIAS;
	}
	if (c->n_refs == CONN_REFS_MAX) {
		snprintf(text, size, "a connection resolves at most %d aliases",
			CONN_REFS_MAX);
		return EVD_STATUS_LIMIT;
	}
	if (c->n_refs == c->refs_room) {
		uint32_t room = c->refs_room ? c->refs_room * 2 : 8;
		struct alias **refs =
			realloc(c->refs, room * sizeof(struct alias *));

		if (!refs)
			return EVD_STATUS_NO_MEMORY;
		c->refs = refs;
		c->refs_room = room;
		free(c->refs_may); /* it is as long as that */
		c->refs_may = NULL;
	}
	c->refs[c->n_refs] = alias_ref(aliases, alias, n);
	if (!c->refs[c->n_refs])
		return EVD_STATUS_NO_MEMORY;
	*ref = ++c->n_refs;
	return EVD_STATUS_OK;
}

bool
conn_behind(struct session *s, struct peer_face *face)
{
	const struct conn *c =
		s->ops == &conn_session_ops ? s->state : binding_peer(s);
	const struct consumer_init *far =
		s->ops == &mailslot_ops ? mailslot_consumer(s) : NULL;

	if (c)
		*face = (struct peer_face){c->peer.uid, c->peer.pid, c->name};
	else if (far)
		*face = (struct peer_face){far->uid, far->pid, far->name};
	return c || far;
}

static bool
conn_crowd(struct session *s, struct peer_crowd *crowd)
{
	if (s->ops == &mailslot_ops && s->begun) {
		mailslot_crowd(s, crowd);
		return true;
	}
	*crowd = (struct peer_crowd){.mode = BIND_EXCLUSIVE, .n = 1};
	return binding_peer(s) != NULL;
}

static const struct peer_ops conn_peer_ops = {
	.behind = conn_behind,
	.crowd = conn_crowd,
	.rights_of = conn_rights_of,
	.respond = conn_respond,
	.resolve = conn_resolve,
	.bind = binding_bind,
	.unbind = binding_unbind,
	.change = binding_change,
};

static void conn_on_flush(struct loop_flush *flush);

static int
conn_start(struct conn *c)
{
	c->session = c->peer.session =
		session_new(&c->loop->sched, &conn_session_ops, NULL, c);
	return c->session ? 0 : err_raise(-ENOMEM);
}

void
conn_turn_away(int fd, int status, const char *text)
{
	Eventd__V1__Frame frame = EVENTD__V1__FRAME__INIT;
	Eventd__V1__Error error = EVENTD__V1__ERROR__INIT;
	uint8_t out[FRAME_HEAD_MAX + VERB_TEXT_MAX];
	size_t size, head;
	ssize_t n;

	error.status = (uint32_t)status;
	error.text = (char *)text;
	frame.error = &error;
	size = eventd__v1__frame__get_packed_size(&frame);
	if (size <= VERB_TEXT_MAX) {
		head = varint_put(out, size);
		eventd__v1__frame__pack(&frame, out + head);
		n = send(fd, out, head + size, MSG_NOSIGNAL | MSG_DONTWAIT);
		(void)n; /* then it learns less */
	}
	close(fd);
}

/* Most have said it by now, and what they want: that is answered in this turn,
 * at whose end it is seen what the connection is to wait for. */
static void
await_hello(struct conn *c)
{
	conn_read(c);
	loop_defer(c->loop, &c->flush);
	if (c->state != CONN_GREETING)
		return;
	list_append(&c->net->greeting, &c->greeting);
	look_at_hellos(c->net, hello_due_ns(c));
}

int
conn_open(struct loop *l, int fd)
{
	struct net *net = l->net;
	struct conn *c = calloc(1, sizeof(*c));
	char text[VERB_TEXT_MAX] = "out of memory, or MaxSessions= is reached";
	int r = c ? 0 : err_raise(-ENOMEM);

	if (c) {
		c->loop = l;
		c->net = net;
		c->server = net->server;
		c->peer.ops = &conn_peer_ops;
		c->peer.shared = &net->server->shared;
		c->peer.name = c->name;
		c->fd = c->watch.fd = fd;
		c->watch.run = conn_on_io;
		c->is_new = true;
		c->flush.run = conn_on_flush;
		c->accepted_ns = l->sched.now_ns;
		r = FAULT(conn_admit) ? err_raise(-ENOMEM) : conn_identify(c);
		if (!r)
			r = conn_admit(c, text, sizeof(text));
		if (!r)
			r = conn_start(c);
	}
	if (r) {
		conn_turn_away(fd, EVD_STATUS_LIMIT, text);
		if (c) {
			conn_discharge(c);
			rights_unref(c->peer.rights);
		}
		free(c);
		atomic_fetch_sub(&net->server->shared.n_connections, 1);
		return r == USER_E_LIMIT ? 0 : err_pass(r);
	}
	list_init(&c->greeting);
	net->n_conns++;
	list_append(&net->conns, &c->link);
	log_debug("conn.open", "conn=%" PRIu64 " uid=%u pid=%d", c->session->id,
		(unsigned)c->peer.uid, (int)c->peer.pid);
	await_hello(c);
	return 0;
}

void
conn_greeted(struct conn *c)
{
	c->state = CONN_OPEN;
	c->greeted = true;
	c->window_posts = c->server->window_posts;
	c->window_bytes = c->server->window_bytes;
	user_charge(&c->loop->sched.kernel->users, c->peer.user,
		CHARGE_GREETING, -1, c->loop->sched.now_ns);
	list_remove(&c->greeting);
}

static void
conn_bury(struct io_watch *w)
{
	free(container_of(w, struct conn, watch));
}

static void
conn_free_all(struct conn *c)
{
	conn_drop_large(c);
	outbuf_deinit(&c->out, &c->net->pool);
	if (c->passed)
		passed_clear(c->passed);
	free(c->passed);
	memfd_gauge_unref(c->memfds);
	free(c->in);
	acks_deinit(&c->acks);
	free(c->also);
	free(c->refs);
	free(c->refs_may);
	rights_unref(c->peer.rights);
	free(c->bindings);
	free(c->inbound);
}

void
conn_close(struct conn *c, const char *why)
{
	if (c->state == CONN_CLOSING)
		return;
	c->state = CONN_CLOSING;
	io_want(&c->loop->io, &c->watch, 0);
	log_debug("conn.closed", "conn=%" PRIu64 " reason=\"%s\"",
		c->session->id, why);
	loop_defer(c->loop, &c->flush);
}

enum tie_end_why
conn_end_why(const struct conn *c)
{
	if (atomic_load(&c->loop->sched.kernel->stopping))
		return TIE_STOPPED;
	return c->peer.goodbye ? TIE_NORMAL : TIE_LOST;
}

/* At the end of the turn, when no session of it can be running. */
static void
conn_teardown(struct conn *c)
{
	struct aliases *aliases = &c->loop->sched.kernel->aliases;

	verb_execute_will(&c->peer);
	bindings_drop(c);
	c->session->why = (uint8_t)conn_end_why(c);
	session_stop(c->session);
	c->session = c->peer.session = NULL;
	for (uint32_t i = 0; i < c->n_refs; i++)
		alias_unref(aliases, c->refs[i]);
	list_remove(&c->greeting);
	list_remove(&c->link);
	c->net->n_conns--;
	io_end(&c->loop->io, &c->watch, conn_bury);
	close(c->fd);
	atomic_fetch_sub(&c->server->shared.n_connections, 1);
	landing_drop(c);
	conn_discharge(c);
	conn_free_all(c);
}

static void
conn_on_flush(struct loop_flush *flush)
{
	struct conn *c = container_of(flush, struct conn, flush);

	if (c->state != CONN_CLOSING)
		conn_flush(c);
	else if (c->session)
		conn_teardown(c);
}

void
conn_end(struct conn *c, int status, const char *format, ...)
{
	Eventd__V1__Error error = EVENTD__V1__ERROR__INIT;
	char text[VERB_TEXT_MAX];
	va_list args;

	if (c->state == CONN_ENDING || c->state == CONN_CLOSING)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	log_warn("conn.error",
		"conn=%" PRIu64 " uid=%u pid=%d status=%d reason=\"%s\"",
		c->session->id, (unsigned)c->peer.uid, (int)c->peer.pid, status,
		text);
	error.status = (uint32_t)status;
	error.text = text;
	conn_send_message(c, FRAME_ERROR, &error.base);
	list_remove(&c->greeting);
	if (c->state != CONN_CLOSING)
		c->state = CONN_ENDING;
	loop_defer(c->loop, &c->flush);
}

void
conn_close_all(struct loop *l)
{
	struct net *net = l->net;

	LIST_FOREACH (node, &net->conns)
		conn_close(container_of(node, struct conn, link),
			"the daemon stops");
}

void
conn_announce_closing(struct loop *l)
{
	struct net *net = l->net;
	Eventd__V1__Notice notice = EVENTD__V1__NOTICE__INIT;
	Eventd__V1__Closing closing = EVENTD__V1__CLOSING__INIT;
	char text[] = "eventd stops";

	closing.text = text;
	notice.what_case = EVENTD__V1__NOTICE__WHAT_CLOSING;
	notice.closing = &closing;
	LIST_FOREACH (node, &net->conns) {
		struct conn *c = container_of(node, struct conn, link);

		if (c->state == CONN_OPEN)
			conn_send_message(c, FRAME_NOTICE, &notice.base);
	}
}

unsigned
conn_count(struct loop *l)
{
	struct net *net = l->net;

	return net->n_conns;
}

/* See fixture.h. */
#include "fixture.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "kernel/spec.h"

/* ---- the fake session -------------------------------------------------- */

static enum session_result
fake_start(struct session *s)
{
	(void)s;
	return SESSION_DONE;
}

static enum session_result
fake_run(struct session *s, struct msg *m)
{
	struct fake *fake = s->state;

	if (!fake)
		return SESSION_DONE;
	fake->n_run++;
	snprintf(fake->last, sizeof(fake->last), "%s", m->event);
	if (!strcmp(m->event, "echo") && msg_call(m)) {
		sched_reply(atomic_load(&s->home), msg_call(m), 0, m->data,
			m->size);
		m->flags |= MSG_REPLIED;
	} else if (!strcmp(m->event, "defer")) {
		fake->call = msg_call(m);
		fake->calls[fake->n_calls++ % 128] = msg_call(m);
		msg_uncall(m); /* answered by the test */
	} else if (!strcmp(m->event, "wait")) {
		fake->held = m;
		return SESSION_WAIT;
	} else if (!strcmp(m->event, "crash")) {
		return SESSION_CRASHED;
	}
	return SESSION_DONE;
}

static void
fake_reply(struct session *s, uint64_t token, struct msg *reply)
{
	(void)s, (void)token, (void)reply;
}

static void
fake_stop(struct session *s, bool crashed)
{
	struct fake *fake = s->state;

	(void)crashed;
	if (fake)
		fake->held = NULL;
}

static const struct session_ops fake_ops = {
	.kind = "fake",
	.start = fake_start,
	.run = fake_run,
	.reply = fake_reply,
	.stop = fake_stop,
};

struct fake *
fake_new(struct rig *rig, unsigned loop, const char *alias)
{
	struct fake *fake = &rig->fakes[rig->n_fakes++];

	assert_true(rig->n_fakes <= RIG_FAKES);
	fake->session =
		session_new(&rig->loops[loop].sched, &fake_ops, NULL, fake);
	assert_non_null(fake->session);
	assert_int_equal(
		session_add_alias(fake->session, alias, strlen(alias)), 0);
	return fake;
}

void
fake_finish(struct fake *fake)
{
	struct msg *m = TAKE(fake->held);

	assert_non_null(m);
	session_done(fake->session, m, 0);
}

struct session *
fake_hosted(struct rig *rig, unsigned loop, const char *alias)
{
	struct session_spec *spec = spec_new();
	struct session *s;

	assert_non_null(spec);
	spec->kind = strdup("fake");
	spec->name = strdup(alias);
	spec->origin = strdup("/etc/eventd/sessions.d/fake.conf");
	assert_int_equal(spec_add_alias(spec, alias), 0);
	s = session_new(&rig->loops[loop].sched, &fake_ops, spec, NULL);
	spec_unref(spec);
	assert_non_null(s);
	rig_run(rig);
	assert_string_equal(session_state_word(s), "up");
	return s;
}

/* ---- the daemon's side ------------------------------------------------- */

uint64_t
rig_now(void)
{
	return clock_now(&clock_system);
}

uint64_t
rig_deadline(void)
{
	return rig_now() + (uint64_t)RIG_SECONDS * NS_PER_S;
}

struct rig *
rig_new(unsigned n_loops)
{
	struct rig *rig = calloc(1, sizeof(*rig));

	assert_non_null(rig);
	log_level_now = (enum log_level)0; /* failures are meant here */
	assert_int_equal(kernel_init(&rig->kernel, &kernel_limits_default,
				 &clock_system),
		0);
	server_init(&rig->server);
	rig->server.shared.version = "eventd test";
	rig->server.shared.owner = getuid();
	rig->n_loops = n_loops;
	for (unsigned i = 0; i < n_loops; i++) {
		struct loop *l = &rig->loops[i];

		assert_int_equal(loop_init(l, &rig->kernel, i), 0);
		assert_int_equal(net_init(&rig->nets[i], l, &rig->server), 0);
		sched_awake(&l->sched);
	}
	return rig;
}

void
rig_turn(struct rig *rig)
{
	for (unsigned i = 0; i < rig->n_loops; i++)
		loop_once(&rig->loops[i], false);
}

void
rig_run(struct rig *rig)
{
	for (int i = 0; i < 50; i++)
		rig_turn(rig);
}

void
rig_check(struct rig *rig)
{
	struct counters sum = {0};
	uint64_t now = 0;

	rig_run(rig);
	for (unsigned i = 0; i < rig->n_loops; i++) {
		const struct sched *s = &rig->loops[i].sched;

		sum.accepted += s->counters.accepted;
		sum.handled += s->counters.handled;
		sum.expired += s->counters.expired;
		sum.cancelled += s->counters.cancelled;
		sum.dropped += s->counters.dropped;
		sum.dead += s->counters.dead;
		sum.leased += s->counters.leased;
		now += s->queued + s->delays.n + s->transit_out - s->transit_in;
	}
	assert_int_equal(sum.accepted, sum.handled + sum.expired +
					       sum.cancelled + sum.dropped +
					       sum.dead + sum.leased + now);
}

static bool
rig_is_empty(struct rig *rig)
{
	for (unsigned i = 0; i < rig->n_loops; i++)
		if (conn_count(&rig->loops[i]))
			return false;
	return true;
}

void
rig_free(struct rig *rig)
{
	rig_check(rig);
	for (unsigned i = 0; i < rig->n_loops; i++)
		conn_close_all(&rig->loops[i]);
	RIG_UNTIL(rig, rig_is_empty(rig));
	rig_check(rig);
	assert_int_equal(atomic_load(&rig->server.shared.n_connections), 0);
	for (unsigned i = 0; i < rig->n_loops; i++)
		net_deinit(&rig->nets[i]);
	rig_run(rig);
	for (unsigned i = 0; i < rig->n_loops; i++)
		assert_int_equal(loop_deinit(&rig->loops[i]), 0);
	kernel_deinit(&rig->kernel);
	free(rig);
}

int
rig_setup(void **state)
{
	*state = rig_new(1);
	return 0;
}

int
rig_setup_two(void **state)
{
	*state = rig_new(2);
	return 0;
}

int
rig_teardown(void **state)
{
	rig_free(*state);
	return 0;
}

struct conn *
rig_conn(struct rig *rig, unsigned loop)
{
	struct list *conns = &rig->nets[loop].conns;

	assert_false(list_is_empty(conns));
	return container_of(conns->prev, struct conn, link);
}

void
rig_become(struct rig *rig, unsigned loop, uid_t uid, uid_t owner)
{
	struct policy *policy = policy_new(owner, false);
	struct creds creds = {.uid = uid, .gid = uid};
	struct conn *c = rig_conn(rig, loop);

	assert_non_null(policy);
	rights_unref(c->peer.rights);
	c->peer.rights = rights_new(policy, &creds);
	assert_non_null(c->peer.rights);
	c->peer.uid = uid;
	policy_unref(policy);
}

/* ---- the client's side ------------------------------------------------- */

struct client *
client_new(struct rig *rig, int *far)
{
	struct client *c = calloc(1, sizeof(*c));
	int fds[2];

	assert_non_null(c);
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
			0, fds),
		0);
	c->rig = rig;
	c->fd = fds[0];
	*far = fds[1];
	return c;
}

void
client_accept(struct rig *rig, unsigned loop, int far)
{
	atomic_fetch_add(&rig->server.shared.n_connections, 1);
	assert_int_equal(conn_open(&rig->loops[loop], far), 0);
}

struct client *
client_open(struct rig *rig, unsigned loop)
{
	int far;
	struct client *c = client_new(rig, &far);

	client_accept(rig, loop, far);
	return c;
}

struct client *
client_hello(struct rig *rig, unsigned loop)
{
	struct client *c = client_open(rig, loop);
	Eventd__V1__Frame frame = EVENTD__V1__FRAME__INIT;
	Eventd__V1__Hello hello = EVENTD__V1__HELLO__INIT;
	char name[] = "a test";

	hello.version = 1;
	hello.name = name;
	frame.hello = &hello;
	client_send(c, &frame);
	assert_non_null(client_next(c));
	assert_non_null(c->frame->welcome);
	return c;
}

static void
drop_frame(struct client *c)
{
	if (c->frame)
		eventd__v1__frame__free_unpacked(c->frame, NULL);
	c->frame = NULL;
}

void
client_free(struct client *c)
{
	drop_frame(c);
	if (c->fd >= 0)
		close(c->fd);
	free(c->in);
	free(c);
}

void
client_write(struct client *c, const void *data, size_t size)
{
	const uint8_t *p = data;
	uint64_t end = rig_deadline();

	while (size) {
		ssize_t n = send(c->fd, p, size, MSG_NOSIGNAL);

		if (n < 0 && errno != EAGAIN)
			return; /* what it says of it is read later */
		if (n > 0) {
			p += n;
			size -= (size_t)n;
		} else {
			rig_turn(c->rig);
		}
		assert_true(rig_now() < end);
	}
}

void
client_send(struct client *c, const Eventd__V1__Frame *frame)
{
	size_t size = eventd__v1__frame__get_packed_size(frame), head;
	uint8_t *out = malloc(size + FRAME_HEAD_MAX);

	assert_non_null(out);
	head = varint_put(out, size);
	eventd__v1__frame__pack(frame, out + head);
	client_write(c, out, head + size);
	free(out);
}

void
client_envelope(struct client *c, Eventd__V1__Envelope *e)
{
	Eventd__V1__Frame frame = EVENTD__V1__FRAME__INIT;

	frame.envelopes = &e;
	frame.n_envelopes = 1;
	client_send(c, &frame);
}

uint64_t
client_post_level(
	struct client *c, const char *alias, const char *event, int level)
{
	Eventd__V1__Envelope e = EVENTD__V1__ENVELOPE__INIT;

	e.alias = (char *)alias;
	e.event = (char *)event;
	e.level = (Eventd__V1__Level)level;
	e.seq = ++c->seq;
	client_envelope(c, &e);
	return e.seq;
}

uint64_t
client_post(struct client *c, const char *alias, const char *event)
{
	return client_post_level(c, alias, event, 0);
}

uint64_t
client_post_size(
	struct client *c, const char *alias, const char *event, size_t size)
{
	Eventd__V1__Envelope e = EVENTD__V1__ENVELOPE__INIT;

	e.alias = (char *)alias;
	e.event = (char *)event;
	e.seq = ++c->seq;
	e.payload.len = size;
	e.payload.data = calloc(1, size + 1);
	assert_non_null(e.payload.data);
	client_envelope(c, &e);
	free(e.payload.data);
	return e.seq;
}

void
client_call(struct client *c, const char *alias, const char *event,
	uint64_t call, const char *payload)
{
	Eventd__V1__Envelope e = EVENTD__V1__ENVELOPE__INIT;

	e.alias = (char *)alias;
	e.event = (char *)event;
	e.call = call;
	e.payload.data = (uint8_t *)payload;
	e.payload.len = strlen(payload);
	client_envelope(c, &e);
}

void
client_reply(
	struct client *c, uint64_t re, uint32_t status, const char *payload)
{
	Eventd__V1__Envelope e = EVENTD__V1__ENVELOPE__INIT;

	e.re = re;
	e.status = status;
	e.payload.data = (uint8_t *)payload;
	e.payload.len = strlen(payload);
	client_envelope(c, &e);
}

void
client_settle(struct client *c, uint64_t binding, uint64_t upto)
{
	Eventd__V1__Frame frame = EVENTD__V1__FRAME__INIT;
	Eventd__V1__Settle settle = EVENTD__V1__SETTLE__INIT;

	settle.binding = binding;
	settle.upto = upto;
	frame.settle = &settle;
	client_send(c, &frame);
}

uint64_t
client_ask(struct client *c, Eventd__V1__Request *r)
{
	Eventd__V1__Frame frame = EVENTD__V1__FRAME__INIT;

	r->id = ++c->request;
	frame.request = r;
	client_send(c, &frame);
	return r->id;
}

/* ---- what the daemon says ---------------------------------------------- */

static void
read_some(struct client *c)
{
	ssize_t n;

	if (c->in_room - c->in_size < 65536) {
		c->in_room = c->in_room * 2 + 131072;
		c->in = realloc(c->in, c->in_room);
		assert_non_null(c->in);
	}
	n = recv(c->fd, c->in + c->in_size, c->in_room - c->in_size, 0);
	if (n > 0)
		c->in_size += (size_t)n;
	else if (n == 0 || errno != EAGAIN)
		c->ended = true;
}

Eventd__V1__Frame *
client_poll(struct client *c)
{
	size_t head, body;

	drop_frame(c);
	read_some(c);
	if (frame_take(c->in, c->in_size, SIZE_MAX, &head, &body))
		return NULL;
	c->frame = eventd__v1__frame__unpack(NULL, body, c->in + head);
	assert_non_null(c->frame);
	c->in_size -= head + body;
	memmove(c->in, c->in + head + body, c->in_size);
	return c->frame;
}

Eventd__V1__Frame *
client_next(struct client *c)
{
	RIG_UNTIL(c->rig, client_poll(c) || c->ended);
	if (!c->frame) {
		assert_int_equal(c->in_size, 0); /* nothing is cut short */
	}
	return c->frame;
}

void
client_expect_silence(struct client *c)
{
	rig_run(c->rig);
	assert_null(client_poll(c));
	assert_false(c->ended);
}

void
client_expect_ack(struct client *c, uint64_t upto)
{
	uint64_t last = 0;

	while (last < upto) {
		assert_non_null(client_next(c));
		assert_non_null(c->frame->ack);
		assert_true(c->frame->ack->upto >= last);
		last = c->frame->ack->upto;
	}
	assert_int_equal(last, upto);
}

void
client_expect_failure(struct client *c, uint64_t seq, int status)
{
	assert_non_null(client_next(c));
	assert_int_equal(c->frame->n_failures, 1);
	assert_int_equal(c->frame->failures[0]->seq, seq);
	assert_int_equal(c->frame->failures[0]->status, status);
	assert_true(c->frame->failures[0]->text[0] != '\0');
}

void
client_expect_end(struct client *c)
{
	assert_null(client_next(c));
}

void
client_expect_error(struct client *c, int status)
{
	assert_non_null(client_next(c));
	assert_non_null(c->frame->error);
	assert_int_equal(c->frame->error->status, status);
	assert_true(c->frame->error->text[0] != '\0');
	client_expect_end(c);
}

static Eventd__V1__Envelope *
expect_envelope(struct client *c)
{
	assert_non_null(client_next(c));
	assert_int_equal(c->frame->n_envelopes, 1);
	return c->frame->envelopes[0];
}

void
client_expect_reply(
	struct client *c, uint64_t re, int status, const char *payload)
{
	Eventd__V1__Envelope *e = expect_envelope(c);

	assert_int_equal(e->re, re);
	assert_int_equal(e->status, status);
	if (!payload)
		return;
	assert_int_equal(e->payload.len, strlen(payload));
	assert_memory_equal(e->payload.data, payload, strlen(payload));
}

Eventd__V1__Envelope *
client_expect_delivery(struct client *c, uint64_t binding, const char *event)
{
	Eventd__V1__Envelope *e = expect_envelope(c);

	assert_int_equal(e->to, binding);
	assert_int_equal(e->re, 0);
	assert_string_equal(e->event, event);
	return e;
}

Eventd__V1__Response *
client_expect_response(struct client *c, uint64_t id, int status)
{
	assert_non_null(client_next(c));
	assert_non_null(c->frame->response);
	assert_int_equal(c->frame->response->id, id);
	assert_int_equal(c->frame->response->status, status);
	if (status)
		assert_true(c->frame->response->text[0] != '\0');
	return c->frame->response;
}

Eventd__V1__Response *
client_request(struct client *c, Eventd__V1__Request *r, int status)
{
	return client_expect_response(c, client_ask(c, r), status);
}

void
client_bind(
	struct client *c, const char *alias, uint64_t binding, uint32_t window)
{
	Eventd__V1__Request r = EVENTD__V1__REQUEST__INIT;
	Eventd__V1__Bind bind = EVENTD__V1__BIND__INIT;

	bind.alias = (char *)alias;
	bind.binding = binding;
	bind.window_events = window;
	r.verb_case = EVENTD__V1__REQUEST__VERB_BIND;
	r.bind = &bind;
	client_request(c, &r, EVD_STATUS_OK);
}

uint64_t
client_resolve(struct client *c, const char *alias)
{
	Eventd__V1__Request r = EVENTD__V1__REQUEST__INIT;
	Eventd__V1__Resolve resolve = EVENTD__V1__RESOLVE__INIT;

	resolve.alias = (char *)alias;
	r.verb_case = EVENTD__V1__REQUEST__VERB_RESOLVE;
	r.resolve = &resolve;
	return client_request(c, &r, EVD_STATUS_OK)->resolved->ref;
}

void
client_expect_alive(struct client *c)
{
	Eventd__V1__Request r = EVENTD__V1__REQUEST__INIT;
	Eventd__V1__Ping ping = EVENTD__V1__PING__INIT;

	ping.payload.data = (uint8_t *)"alive?";
	ping.payload.len = 6;
	r.verb_case = EVENTD__V1__REQUEST__VERB_PING;
	r.ping = &ping;
	assert_int_equal(
		client_request(c, &r, EVD_STATUS_OK)->pong->payload.len, 6);
}

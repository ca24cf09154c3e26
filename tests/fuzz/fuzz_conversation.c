/* Conversations: the bytes are a script of what two or three clients say to a
 * daemon in this process, rightly and wrongly, and of when it turns and when
 * they read. Whatever they say, every accepted event is accounted for, what is
 * held stays bounded, and nothing is left when they have gone. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "eventd.pb-c.h"
#include "exec/loop.h"
#include "frame.h"
#include "net/conn.h"
#include "passing.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
	CLIENTS = 3,
	LOOPS = 2,
	PAYLOAD_MAX = 160 << 10, /* so that some are large */
	STEPS = 300,
	FDS_MAX = 128,
};

struct script {
	const uint8_t *p, *end;
};

struct talk {
	struct kernel kernel;
	struct server server;
	struct loop loops[LOOPS];
	struct net nets[LOOPS];
	struct session *fake;
	struct msg *held;
	uint64_t deferred;
	int fds[CLIENTS];
	uint64_t seqs[CLIENTS], ids;
};

static void
must(bool true_)
{
	if (!true_)
		abort();
}

static unsigned
take(struct script *s)
{
	return s->p < s->end ? *s->p++ : 0;
}

static uint64_t
take_number(struct script *s)
{
	unsigned kind = take(s);
	uint64_t n = 0;

	if (kind < 240)
		return kind;
	for (unsigned i = 0; i < (kind & 7) + 1; i++)
		n = n << 8 | take(s);
	return kind & 8 ? n << 32 : n;
}

/* ---- the session that is spoken to ----------------------------------- */

static enum session_result
fake_start(struct session *s)
{
	(void)s;
	return SESSION_DONE;
}

static enum session_result
fake_run(struct session *s, struct msg *m)
{
	struct talk *t = s->state;

	switch (m->event[0]) {
	case 'w':
		t->held = m;
		return SESSION_WAIT;
	case 'd':
		t->deferred = msg_call(m);
		msg_uncall(m);
		return SESSION_DONE;
	case 'c':
		return SESSION_CRASHED;
	case 'u':
		return SESSION_UNHANDLED;
	default:
		if (msg_call(m))
			sched_reply(&t->loops[0].sched, msg_call(m), 0,
				msg_payload(m), m->size);
		m->flags |= MSG_REPLIED;
		return SESSION_DONE;
	}
}

static void
fake_reply(struct session *s, uint64_t token, struct msg *reply)
{
	(void)s, (void)token, (void)reply;
}

static void
fake_stop(struct session *s, bool crashed)
{
	struct talk *t = s->state;

	(void)crashed;
	t->held = NULL;
}

static const struct session_ops fake_ops = {
	.kind = "fake",
	.start = fake_start,
	.run = fake_run,
	.reply = fake_reply,
	.stop = fake_stop,
};

static void
fake_finish(struct talk *t)
{
	struct msg *m = t->held;

	t->held = NULL;
	if (m)
		session_done(t->fake, m, 0);
	if (t->deferred)
		sched_reply(&t->loops[0].sched, t->deferred, 0, "x", 1);
	t->deferred = 0;
}

/* ---- what is said ---------------------------------------------------- */

static void
say_bytes(struct talk *t, unsigned client, const uint8_t *data, size_t size)
{
	ssize_t n =
		send(t->fds[client], data, size, MSG_NOSIGNAL | MSG_DONTWAIT);

	(void)n; /* what does not fit is cut off, which is something, too */
}

static void
say(struct talk *t, unsigned client, const Eventd__V1__Frame *frame)
{
	static uint8_t out[131072];
	size_t size = eventd__v1__frame__get_packed_size(frame);
	size_t head = varint_put(out, size);

	must(size < sizeof(out) - FRAME_HEAD_MAX);
	eventd__v1__frame__pack(frame, out + head);
	say_bytes(t, client, out, head + size);
}

static char *
take_alias(struct script *s)
{
	static const char *const names[] = {
		"fake", "a", "b", "c/d.e-f_G", "nobody", "", "no name", "\xff"};

	return (char *)names[take(s) % 8];
}

static char *
take_event(struct script *s)
{
	static const char *const names[] = {"wait", "defer", "crash", "unknown",
		"echo", "hit", "", "no name"};

	return (char *)names[take(s) % 8];
}

static ProtobufCBinaryData
take_payload(struct script *s)
{
	static uint8_t zeros[8192];
	size_t size = take(s) * 20;

	return (ProtobufCBinaryData){size, zeros};
}

static void
say_envelope(struct talk *t, unsigned client, struct script *s)
{
	Eventd__V1__Frame frame = EVENTD__V1__FRAME__INIT;
	Eventd__V1__Envelope e = EVENTD__V1__ENVELOPE__INIT, *list[8];
	Eventd__V1__Header header = EVENTD__V1__HEADER__INIT, *one = &header;
	unsigned how = take(s), n = take(s) % 8 + 1;

	e.event = take_event(s);
	if (how & 1)
		e.alias = take_alias(s);
	else
		e.to = take_number(s);
	if (how & 2)
		e.payload = take_payload(s);
	if (how & 4)
		e.call = take_number(s);
	if (how & 8)
		e.re = take_number(s);
	if (how & 16)
		e.level = (Eventd__V1__Level)(take(s) % 6);
	if (how & 32)
		e.flags = take(s), e.status = take(s);
	if (how & 64) {
		header.name = take_alias(s);
		header.value = take_payload(s);
		e.headers = &one;
		e.n_headers = 1;
	}
	e.timeout_ms = take(s);
	if (e.call || e.re)
		n = 1;
	if (!e.call && !e.re && !(how & 128))
		e.seq = ++t->seqs[client];
	for (unsigned i = 0; i < n; i++)
		list[i] = &e;
	frame.envelopes = list;
	frame.n_envelopes = e.seq ? 1 : n;
	say(t, client, &frame);
}

static void
say_hello(struct talk *t, unsigned client, struct script *s)
{
	Eventd__V1__Frame frame = EVENTD__V1__FRAME__INIT;
	Eventd__V1__Hello hello = EVENTD__V1__HELLO__INIT;
	char *features[] = {
		(char *)FEATURE_MEMFD, (char *)FEATURE_MEMFD_REPLIES};

	hello.version = take(s) % 16 ? 1 : (uint32_t)take_number(s);
	hello.name = take_alias(s);
	hello.features = features;
	hello.n_features = take(s) % 4;
	if (hello.n_features > 2)
		hello.n_features = 0;
	frame.hello = &hello;
	say(t, client, &frame);
}

static void
say_settle(struct talk *t, unsigned client, struct script *s)
{
	Eventd__V1__Frame frame = EVENTD__V1__FRAME__INIT;
	Eventd__V1__Settle settle = EVENTD__V1__SETTLE__INIT;

	settle.binding = take_number(s);
	settle.upto = take_number(s);
	frame.settle = &settle;
	say(t, client, &frame);
}

static void
ask(struct talk *t, unsigned client, Eventd__V1__Request *r, int verb,
	void *message)
{
	Eventd__V1__Frame frame = EVENTD__V1__FRAME__INIT;

	r->id = ++t->ids;
	r->verb_case = (Eventd__V1__Request__VerbCase)verb;
	r->ping = message;
	frame.request = r;
	say(t, client, &frame);
}

static void
bind_how(struct script *s, Eventd__V1__Bind *bind, Eventd__V1__Mailbox *box)
{
	static const char *const overflows[] = {
		"block", "refuse", "drop-oldest", "disconnect"};
	unsigned how = take(s);

	bind->window_events = how % 8;
	bind->mode = (Eventd__V1__BindMode)(how / 8 % 4);
	box->overflow = (char *)overflows[how / 64];
	box->max_events = 1 + how % 3;
	bind->mailbox = how & 32 ? box : NULL;
}

static void
say_names(struct talk *t, unsigned client, struct script *s)
{
	Eventd__V1__Request r = EVENTD__V1__REQUEST__INIT;
	Eventd__V1__Bind bind = EVENTD__V1__BIND__INIT;
	Eventd__V1__Mailbox box = EVENTD__V1__MAILBOX__INIT;
	Eventd__V1__Unbind unbind = EVENTD__V1__UNBIND__INIT;
	Eventd__V1__Resolve resolve = EVENTD__V1__RESOLVE__INIT;

	switch (take(s) % 3) {
	case 0:
		bind.alias = take_alias(s);
		bind.binding = take_number(s);
		bind_how(s, &bind, &box);
		bind.window_bytes = take_number(s);
		ask(t, client, &r, EVENTD__V1__REQUEST__VERB_BIND, &bind);
		break;
	case 1:
		unbind.binding = take_number(s);
		ask(t, client, &r, EVENTD__V1__REQUEST__VERB_UNBIND, &unbind);
		break;
	default:
		resolve.alias = take_alias(s);
		ask(t, client, &r, EVENTD__V1__REQUEST__VERB_RESOLVE, &resolve);
	}
}

static void
say_look(struct talk *t, unsigned client, struct script *s)
{
	Eventd__V1__Request r = EVENTD__V1__REQUEST__INIT;
	Eventd__V1__List list = EVENTD__V1__LIST__INIT;
	Eventd__V1__Status status = EVENTD__V1__STATUS__INIT;
	Eventd__V1__Timers timers = EVENTD__V1__TIMERS__INIT;
	Eventd__V1__Ping ping = EVENTD__V1__PING__INIT;

	switch (take(s) % 4) {
	case 0:
		list.prefix = take_alias(s);
		list.after = take_number(s);
		list.limit = (uint32_t)take_number(s);
		ask(t, client, &r, EVENTD__V1__REQUEST__VERB_LIST, &list);
		break;
	case 1:
		status.alias = take_alias(s);
		ask(t, client, &r, EVENTD__V1__REQUEST__VERB_STATUS, &status);
		break;
	case 2:
		timers.alias = take_alias(s);
		timers.after = take_number(s);
		timers.limit = (uint32_t)take_number(s);
		ask(t, client, &r, EVENTD__V1__REQUEST__VERB_TIMERS, &timers);
		break;
	default:
		ping.payload = take_payload(s);
		ask(t, client, &r, EVENTD__V1__REQUEST__VERB_PING, &ping);
	}
}

static void
say_time(struct talk *t, unsigned client, struct script *s)
{
	Eventd__V1__Request r = EVENTD__V1__REQUEST__INIT;
	Eventd__V1__Delay delay = EVENTD__V1__DELAY__INIT;
	Eventd__V1__Cancel cancel = EVENTD__V1__CANCEL__INIT;
	Eventd__V1__Restart restart = EVENTD__V1__RESTART__INIT;
	Eventd__V1__Reload reload = EVENTD__V1__RELOAD__INIT;

	switch (take(s) % 4) {
	case 0:
		delay.alias = take_alias(s);
		delay.event = take_event(s);
		delay.payload = take_payload(s);
		delay.delay_ms = take_number(s);
		delay.at_ns = (int64_t)take_number(s);
		delay.repeat_ms = take_number(s);
		ask(t, client, &r, EVENTD__V1__REQUEST__VERB_DELAY, &delay);
		break;
	case 1:
		cancel.timer = take_number(s);
		ask(t, client, &r, EVENTD__V1__REQUEST__VERB_CANCEL, &cancel);
		break;
	case 2:
		restart.alias = take_alias(s);
		ask(t, client, &r, EVENTD__V1__REQUEST__VERB_RESTART, &restart);
		break;
	default:
		ask(t, client, &r, EVENTD__V1__REQUEST__VERB_RELOAD, &reload);
	}
}

/* Bytes of the script as a part of a frame, or as they are. */
static void
say_raw(struct talk *t, unsigned client, struct script *s, bool framed)
{
	uint8_t out[300];
	size_t n = take(s), left = (size_t)(s->end - s->p), head = 0;

	n = n < left ? n : left;
	if (framed) {
		head = varint_put(out, n + 2);
		out[head++] = (uint8_t)((take(s) % 16) << 3 | 2);
		left = (size_t)(s->end - s->p);
		n = n < left ? n : left;
		out[head++] = (uint8_t)(n & 0x7f);
	}
	memcpy(out + head, s->p, n);
	s->p += n;
	say_bytes(t, client, out, head + n);
}

/* ---- the daemon ------------------------------------------------------ */

static void
dial(struct talk *t, unsigned client)
{
	int fds[2];

	if (t->fds[client] >= 0)
		close(t->fds[client]);
	must(!socketpair(
		AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds));
	t->fds[client] = fds[0];
	t->seqs[client] = 0;
	atomic_fetch_add(&t->server.shared.n_connections, 1);
	/* Too many sessions may have been made, then it is turned away. */
	conn_open(&t->loops[client % LOOPS], fds[1]);
}

static void
turn(struct talk *t)
{
	for (unsigned i = 0; i < LOOPS; i++)
		loop_once(&t->loops[i], false);
}

static void
listen_to(struct talk *t, unsigned client)
{
	static uint8_t in[65536];
	ssize_t n = recv(t->fds[client], in, sizeof(in), MSG_DONTWAIT);

	(void)n;
}

/* ---- large payloads -------------------------------------------------- */

/* Whole or cut off anywhere, in pieces that fit, with a byte of its head that
 * is another now and then. */
static void
say_in_pieces(struct talk *t, unsigned client, struct script *s, uint8_t *out,
	size_t size)
{
	unsigned how = take(s);

	if (how & 1)
		out[take(s) % 32] ^= (uint8_t)take(s);
	if (how & 2)
		size -= (size_t)take(s) * 256 % size;
	for (unsigned i = 0; size && i < 32; i++) {
		size_t piece = how & 4 ? take(s) * 512u + 1 : size;
		ssize_t n =
			send(t->fds[client], out, piece < size ? piece : size,
				MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n > 0) {
			out += n;
			size -= (size_t)n;
		}
		turn(t);
		if (how & 8)
			listen_to(t, client);
	}
}

/* The envelope of a post or a call, which the caller gives a payload. */
static void
large_init(struct talk *t, unsigned client, struct script *s,
	Eventd__V1__Envelope *e)
{
	unsigned how = take(s);

	eventd__v1__envelope__init(e);
	e->event = take_event(s);
	e->alias = take_alias(s);
	if (how & 1)
		e->call = take_number(s);
	else
		e->seq = ++t->seqs[client];
	e->timeout_ms = take(s);
}

static void
say_large(struct talk *t, unsigned client, struct script *s)
{
	static uint8_t payload[256 << 10], out[sizeof(payload) + 1024];
	Eventd__V1__Frame frame = EVENTD__V1__FRAME__INIT;
	Eventd__V1__Envelope e, *list = &e;
	size_t size, head;

	large_init(t, client, s, &e);
	e.payload.data = payload;
	e.payload.len = (60 << 10) + take(s) * 768u;
	frame.envelopes = &list;
	frame.n_envelopes = 1;
	size = eventd__v1__frame__get_packed_size(&frame);
	must(size + FRAME_HEAD_MAX < sizeof(out));
	head = varint_put(out, size);
	eventd__v1__frame__pack(&frame, out + head);
	say_in_pieces(t, client, s, out, head + size);
}

/* A descriptor that may be what it should be. */
static int
some_fd(unsigned how, size_t size)
{
	int fds[2], seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

	if (how % 8 == 0) {
		must(!pipe2(fds, O_CLOEXEC));
		close(fds[1]);
		return fds[0];
	}
	fds[0] = memfd_create("payload", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	must(fds[0] >= 0);
	if (how % 8 == 1)
		size /= 2;
	must(!ftruncate(fds[0], (off_t)size));
	if (how % 8 == 2)
		seals &= ~F_SEAL_WRITE;
	if (how % 8 != 3)
		must(!fcntl(fds[0], F_ADD_SEALS, seals | F_SEAL_SEAL));
	return fds[0];
}

static void
send_with(int to, const uint8_t *data, size_t size, const int *fds, unsigned n)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(4 * sizeof(int))];
	} control = {0};
	struct iovec iov = {(void *)data, size};
	struct msghdr m = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = CMSG_SPACE(n * sizeof(int)),
	};
	struct cmsghdr *head = CMSG_FIRSTHDR(&m);
	ssize_t sent;

	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(n * sizeof(int));
	memcpy(CMSG_DATA(head), fds, n * sizeof(int));
	sent = sendmsg(to, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
	(void)sent;
}

/* A payload that is a memfd, or is said to be one, with as many descriptors. */
static void
say_memfd(struct talk *t, unsigned client, struct script *s)
{
	static uint8_t out[1024];
	Eventd__V1__Frame frame = EVENTD__V1__FRAME__INIT;
	Eventd__V1__Envelope e, *list = &e;
	unsigned how = take(s), n_fds = how / 8 % 4;
	size_t size, head, at = how & 32 ? take(s) : 0;
	int fds[4];

	large_init(t, client, s, &e);
	if (how & 128) { /* an answer */
		t->seqs[client] -= e.seq != 0;
		e.seq = e.call = 0;
		e.re = take_number(s);
	}
	e.memfd_size = (60u << 10) + take(s) * 768u;
	frame.envelopes = &list;
	frame.n_envelopes = how & 64 ? 0 : 1;
	size = eventd__v1__frame__get_packed_size(&frame);
	must(size + FRAME_HEAD_MAX < sizeof(out));
	head = varint_put(out, size);
	eventd__v1__frame__pack(&frame, out + head);
	size += head;
	at = at < size ? at : 0;
	say_bytes(t, client, out, at);
	for (unsigned i = 0; i < n_fds; i++)
		fds[i] = some_fd(how + i, e.memfd_size);
	if (n_fds)
		send_with(t->fds[client], out + at, size - at, fds, n_fds);
	else
		say_bytes(t, client, out + at, size - at);
	for (unsigned i = 0; i < n_fds; i++)
		close(fds[i]);
}

static unsigned
count_fds(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < FDS_MAX; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* ---- what must hold -------------------------------------------------- */

static void
check_bounds(struct talk *t)
{
	for (unsigned i = 0; i < LOOPS; i++)
		LIST_FOREACH (node, &t->nets[i].conns) {
			struct conn *c = container_of(node, struct conn, link);

			must(c->n_posts <= t->server.window_posts);
			must(c->posts_size <=
				t->server.window_bytes + PAYLOAD_MAX);
			must(c->peer.n_requests <= VERB_REQUESTS_MAX);
			must(c->in_room <= 1 << 20);
			must(outbuf_size(&c->out) <= 4 << 20);
			must(c->acks.n - c->acks.n_settled == c->n_posts ||
				c->state >= CONN_ENDING);
		}
}

static void
check_accounts(struct talk *t)
{
	uint64_t in = 0, out = 0;

	for (unsigned i = 0; i < LOOPS; i++) {
		const struct sched *s = &t->loops[i].sched;
		const struct counters *c = &s->counters;

		in += c->accepted;
		out += c->handled + c->expired + c->cancelled + c->dropped +
		       c->dead + c->leased + s->queued + s->delays.n +
		       s->transit_out - s->transit_in;
	}
	must(in == out);
}

static void
talk_begin(struct talk *t)
{
	struct kernel_limits limits = kernel_limits_default;
	struct limits *l = limits_new(0, true);

	memset(t, 0, sizeof(*t));
	log_level_now = (enum log_level)0;
	limits.max_payload = PAYLOAD_MAX;
	limits.max_timers = 20;
	limits.max_sessions = 16;
	must(!kernel_init(&t->kernel, &limits, &clock_system));
	must(l && !limits_set(l, NULL, CHARGE_EVENTS, 12, "here"));
	limits_finish(l, UINT64_MAX, 10000);
	users_set_limits(&t->kernel.users, l);
	server_init(&t->server);
	t->server.shared.version = "eventd";
	t->server.window_posts = 8;
	t->server.window_bytes = 3 * PAYLOAD_MAX;
	t->server.max_calls = 4;
	t->server.max_memfd = PAYLOAD_MAX;
	for (unsigned i = 0; i < LOOPS; i++) {
		must(!loop_init(&t->loops[i], &t->kernel, i));
		must(!net_init(&t->nets[i], &t->loops[i], &t->server));
		sched_awake(&t->loops[i].sched);
	}
	t->fake = session_new(&t->loops[0].sched, &fake_ops, NULL, t);
	must(t->fake && !session_add_alias(t->fake, "fake", 4));
	mailbox_limit(&t->fake->box, 3, 2 * PAYLOAD_MAX);
	for (unsigned i = 0; i < CLIENTS; i++) {
		struct script nothing = {(const uint8_t *)"\1", NULL};

		nothing.end = nothing.p + 1;
		t->fds[i] = -1;
		dial(t, i);
		say_hello(t, i, &nothing);
	}
}

static bool
has_connections(struct talk *t)
{
	for (unsigned i = 0; i < LOOPS; i++)
		if (conn_count(&t->loops[i]))
			return true;
	return false;
}

static void
talk_end(struct talk *t)
{
	for (unsigned i = 0; i < CLIENTS; i++)
		close(t->fds[i]);
	for (unsigned i = 0; i < 1000 && has_connections(t); i++)
		turn(t);
	must(!has_connections(t));
	turn(t); /* what they left on its way */
	turn(t);
	must(!atomic_load(&t->server.shared.n_connections));
	must(atomic_load(&t->kernel.sessions.n) == 1);
	do {
		fake_finish(t);
		turn(t);
	} while (t->held);
	check_accounts(t);
	must(!users_find(&t->kernel.users, getuid()) ||
		!users_find(&t->kernel.users, getuid())->used[CHARGE_EVENTS]);
	for (unsigned i = 0; i < LOOPS; i++)
		net_deinit(&t->nets[i]);
	for (unsigned i = 0; i < LOOPS; i++)
		must(!loop_deinit(&t->loops[i]));
	kernel_deinit(&t->kernel);
}

static void
step_rest(struct talk *t, unsigned client, struct script *s)
{
	switch (take(s) % 4) {
	case 1:
		say_large(t, client, s);
		break;
	case 2:
		say_memfd(t, client, s);
		break;
	default:
		turn(t);
	}
}

static void
step(struct talk *t, struct script *s)
{
	unsigned what = take(s), client = what / 16 % CLIENTS;

	switch (what % 16) {
	case 0:
	case 1:
	case 2:
	case 3:
		say_envelope(t, client, s);
		break;
	case 4:
		say_settle(t, client, s);
		break;
	case 5:
	case 6:
		say_names(t, client, s);
		break;
	case 7:
		say_look(t, client, s);
		break;
	case 8:
		say_time(t, client, s);
		break;
	case 9:
		say_raw(t, client, s, true);
		break;
	case 10:
		say_raw(t, client, s, false);
		break;
	case 11:
		dial(t, client);
		break;
	case 12:
		say_hello(t, client, s);
		break;
	case 13:
		fake_finish(t);
		break;
	case 14:
		listen_to(t, client);
		break;
	default:
		step_rest(t, client, s);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct script s = {data, data + size};
	static struct talk t;
	static bool is_warm;
	unsigned n_fds;

	if (!is_warm) { /* libuv keeps some */
		talk_begin(&t);
		talk_end(&t);
		is_warm = true;
	}
	n_fds = count_fds();
	talk_begin(&t);
	for (unsigned i = 0; i < STEPS && s.p < s.end; i++) {
		step(&t, &s);
		if (i % 4 == 3)
			turn(&t);
		check_bounds(&t);
	}
	for (unsigned i = 0; i < 8; i++)
		turn(&t);
	check_accounts(&t);
	talk_end(&t);
	must(count_fds() == n_fds);
	return 0;
}

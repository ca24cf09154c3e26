/*
 * eventd over its Unix socket, through libevd, as an ordinary program uses it.
 *
 *   evd   producers post by an id that they resolve once and let the library
 *         gather; consumers bind an alias and take events one by one. echo is
 *         a native session in the daemon.
 *
 * The daemon's window pushes back, so the harness has none. No option is set
 * on either side, but for where the socket and the sessions are.
 */
#include "common.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <eventd/client.h>

enum { DEPTH = 256, WAIT_MS = 5000 };

#define TRY(c, call)                                             \
	do {                                                     \
		if ((call) < 0)                                  \
			die("%s: %s", #call, evd_last_error(c)); \
	} while (0)

/* $EVENTD, or the daemon of the build that this program is in. */
static const char *
beside(const char *env, const char *path)
{
	static char found[2][PATH_MAX];
	static int i;
	char self[PATH_MAX - 256];
	ssize_t n;

	if (env && getenv(env))
		return getenv(env);
	n = readlink("/proc/self/exe", self, sizeof self - 1);
	CHECK(n > 0);
	self[n] = '\0';
	*strrchr(self, '/') = '\0';
	i = !i;
	snprintf(found[i], sizeof found[i], "%s/%s", self, path);
	return found[i];
}

static void
server(struct bench *b)
{
	CHECK(mkdir(path_in(b, "sessions.d"), 0700) == 0 || errno == EEXIST);
	write_file(path_in(b, "eventd.conf"),
		"[Daemon]\nSocket=%s\nSessionsDirectory=%s\n%s\n"
		"[Store]\nPath=%s\nSync=%s\n",
		path_in(b, "sock"), path_in(b, "sessions.d"),
		getenv("BENCH_DAEMON") ? getenv("BENCH_DAEMON") : "",
		path_in(b, "store"), b->relaxed ? "1s" : "always");
	if (strncmp(b->scenario, "dur", 3) == 0)
		write_file(path_in(b, "sessions.d/jobs.conf"),
			"[Session]\nAlias=jobs\nKind=client\n[Mailbox]\n"
			"Durable=yes\nMaxEvents=100000000\nMaxBytes=1T\n");
	write_file(path_in(b, "sessions.d/echo.conf"),
		"[Session]\nAlias=echo\nKind=native\nPlugin=%s\nExecutor=%s\n",
		beside("BENCH_ECHO_PLUGIN", "bench_echo.so"),
		strcmp(b->peer->name, "evd") == 0 ? "loop" : b->peer->name + 4);
	spawn(b, (const char *[]){beside("EVENTD", "../../../daemon/eventd"),
			 "--config", path_in(b, "eventd.conf"), NULL});
}

static struct evd *
connect_to(struct bench *b)
{
	struct evd *c = evd_new();

	CHECK(c);
	TRY(c, evd_set_socket(c, path_in(b, "sock")));
	TRY(c, evd_connect(c, WAIT_MS));
	return c;
}

static int
answers(struct bench *b)
{
	struct evd *c = evd_new();
	int r;

	CHECK(c);
	TRY(c, evd_set_socket(c, path_in(b, "sock")));
	r = evd_connect(c, WAIT_MS);
	if (r == 0)
		r = evd_ping(c, NULL);
	evd_free(c);
	return r == 0;
}

/* The next event of @type; anything else is a failure. */
static const struct evd_event *
take(struct evd *c, int type)
{
	const struct evd_event *e;
	int r;

	while ((r = evd_next(c, &e)) == 0)
		TRY(c, evd_wait(c, -1));
	if (r < 0)
		die("evd_next: %s", evd_last_error(c));
	if (evd_event_type(e) != type)
		die("%s came: %s", evd_event_type_name(evd_event_type(e)),
			evd_event_text(e));
	return e;
}

/* ---- one way ----------------------------------------------------------- */

static void
producer(struct bench *b, struct role *r)
{
	struct evd *c = connect_to(b);
	struct evd_post_options opt = {.size = sizeof opt};
	char *msg = calloc(1, b->size);

	role_ready(r); /* the consumer has bound it now */
	TRY(c, evd_resolve(c, "box", &opt.id));
	while (msg_next(r, msg)) {
		if (b->sync)
			TRY(c, evd_post_wait(
				       c, NULL, "msg", msg, b->size, &opt));
		else
			TRY(c, evd_post_id(c, opt.id, "msg", msg, b->size));
	}
	TRY(c, evd_drain(c, WAIT_MS));
	CHECK(evd_posts_failed(c) == 0);
}

static void
consumer(struct bench *b, struct role *r)
{
	struct evd *c = connect_to(b);
	const struct evd_event *e;
	struct evd_bind_options fanout = {
		/* it counts: nothing may be lost */
		.size = sizeof fanout,
		.mode = EVD_BIND_FANOUT,
		.overflow = "block",
	};

	TRY(c, evd_bind_opt(c, "box", b->ncons > 1 ? &fanout : NULL));
	role_ready(r);
	do
		e = take(c, EVD_DELIVERY);
	while (!msg_got(r, evd_event_data(e), evd_event_size(e)));
	TRY(c, evd_process(c)); /* settles the last */
	TRY(c, evd_flush(c));
}

/* ---- request and reply ------------------------------------------------- */

static void
call_loop(struct bench *b, struct role *r, const char *alias)
{
	struct evd *c = connect_to(b);
	struct evd_event *reply;
	char msg[64] = {0};

	role_ready(r);
	while (call_next(r, msg)) {
		TRY(c, evd_call(c, alias, "call", msg, b->size, WAIT_MS,
			       &reply));
		CHECK(evd_event_size(reply) == b->size &&
			memcmp(evd_event_data(reply), msg, b->size) == 0);
		evd_event_free(reply);
		call_done(r);
	}
}

static void
caller(struct bench *b, struct role *r)
{
	call_loop(b, r, "responder");
}

static void
echo(struct bench *b, struct role *r)
{
	call_loop(b, r, "echo");
}

static void
responder(struct bench *b, struct role *r)
{
	struct evd *c = connect_to(b);

	TRY(c, evd_bind(c, "responder", 0, 0));
	role_ready(r);
	for (;;) {
		const struct evd_event *e = take(c, EVD_DELIVERY);

		TRY(c, evd_reply(c, evd_event_call(e), evd_event_data(e),
			       evd_event_size(e)));
	}
}

/* Calls go out as there is room; the replies must come in their order. */
static void
echo_pipe(struct bench *b, struct role *r)
{
	struct evd *c = connect_to(b);
	int64_t calls[DEPTH];
	char msg[64] = {0};
	bool more = true;

	role_ready(r);
	while (more || post_open(r) > 0) {
		const struct evd_event *e;

		while (more && post_open(r) < DEPTH) {
			int64_t *call = &calls[r->sent % DEPTH];

			more = post_next(r, msg);
			if (more)
				TRY(c, *call = evd_call_start(c, "echo", "call",
					       msg, b->size, WAIT_MS));
		}
		if (post_open(r) == 0)
			break;
		e = take(c, EVD_REPLY);
		CHECK(evd_event_status(e) == 0 && evd_event_size(e) == b->size);
		CHECK(evd_event_call(e) == (uint64_t)calls[r->got % DEPTH]);
		post_acked(r, 1);
	}
}

/* ---- durable posts ------------------------------------------------------ */

static void
posts(struct bench *b, struct role *r, int level)
{
	struct evd *c = connect_to(b);
	struct evd_post_options opt = {.size = sizeof opt, .level = level};
	char *msg = calloc(1, b->size);
	unsigned depth = b->window ? (unsigned)b->window : DEPTH;
	bool more = true;

	TRY(c, evd_resolve(c, "jobs", &opt.id));
	role_ready(r);
	while (more || post_open(r) > 0) {
		while (more && post_open(r) < depth) {
			more = post_next(r, msg);
			if (more)
				TRY(c, evd_post_opt(c, NULL, "job", msg,
					       b->size, &opt));
		}
		TRY(c, evd_flush(c));
		while (post_open(r) > 0 &&
			evd_posts_pending(c) == post_open(r)) {
			struct pollfd p = {.fd = evd_fd(c), .events = POLLIN};

			CHECK(poll(&p, 1, WAIT_MS) == 1);
			TRY(c, evd_process(c));
		}
		post_acked(r, post_open(r) - (unsigned)evd_posts_pending(c));
	}
	CHECK(evd_posts_failed(c) == 0);
}

/* Nobody takes them: all stay in the store. */
static void
durable(struct bench *b, struct role *r)
{
	posts(b, r, EVD_DURABLE);
}

/* Settled by who takes the next one; the poster is told when that is safe. */
static void
settled(struct bench *b, struct role *r)
{
	struct evd *c;

	if (r->kind == DURABLE) {
		posts(b, r, EVD_HANDLED);
		return;
	}
	c = connect_to(b);
	TRY(c, evd_bind(c, "jobs", 0, 0));
	role_ready(r);
	for (;;) {
		const struct evd_event *e = take(c, EVD_DELIVERY);

		CHECK(evd_event_size(e) == b->size);
	}
}

/* ---- events that were stored before ------------------------------------- */

static void
store_events(struct evd *c, struct bench *b, struct role *r)
{
	struct evd_post_options opt = {
		.size = sizeof opt, .level = EVD_DURABLE};
	char *msg = calloc(1, b->size);
	uint64_t since = now_ns();

	TRY(c, evd_resolve(c, "jobs", &opt.id));
	for (unsigned i = 0; i < b->n; i++) {
		memcpy(msg, &i, sizeof i);
		TRY(c, evd_post_opt(c, NULL, "job", msg, b->size, &opt));
	}
	TRY(c, evd_drain(c, 4 * WAIT_MS));
	CHECK(evd_posts_failed(c) == 0);
	r->before_ns += now_ns() - since;
	free(msg);
}

static void
take_events(struct bench *b, struct role *r)
{
	struct evd *c = connect_to(b);
	const struct evd_event *e;
	uint64_t since = now_ns(), client = proc_cpu_ns(getpid());
	uint64_t server = proc_cpu_ns(b->srv[0]);
	unsigned seen;
	int binding = evd_bind(c, "jobs", 0, 0);

	TRY(c, binding);
	for (unsigned i = 0; i < b->n; i++, r->got++) {
		e = take(c, EVD_DELIVERY);
		memcpy(&seen, evd_event_data(e), sizeof seen);
		CHECK(seen == i);
	}
	r->spent_ns += now_ns() - since;
	r->client_ns += proc_cpu_ns(getpid()) - client;
	r->server_ns += proc_cpu_ns(b->srv[0]) - server;
	TRY(c, evd_process(c)); /* settles the last */
	TRY(c, evd_flush(c));
	TRY(c, evd_unbind(c, binding));
	evd_free(c);
}

static void
drain(struct bench *b, struct role *r)
{
	struct evd *c = connect_to(b);
	unsigned rounds = b->n < 10000 ? 300 : b->n < 1000000 ? 5 : 1;

	role_ready(r);
	if (b->only_store) {
		store_events(c, b, r);
		r->got = b->n;
		return;
	}
	for (unsigned i = 0; i < rounds; i++) {
		store_events(c, b, r);
		take_events(b, r);
	}
}

/* ---- idle connections -------------------------------------------------- */

static struct evd *idle[2000];

static int
open_conn(struct bench *b, int i)
{
	idle[i] = connect_to(b);
	return 1;
}

static int
open_sub(struct bench *b, int i)
{
	char alias[16];

	(void)b;
	snprintf(alias, sizeof alias, "box%d", i);
	TRY(idle[i], evd_bind(idle[i], alias, 0, 0));
	return 1;
}

/* echo answers from a pool. */
#define EXECUTOR(of)                                                     \
	{                                                                \
		.name = "evd-" of, .server = server, .answers = answers, \
		.echo = echo, .skip = "idle"                             \
	}

int
main(int argc, char **argv)
{
	static const struct peer peers[] = {
		{.name = "evd",
			.server = server,
			.answers = answers,
			.producer = producer,
			.consumer = consumer,
			.caller = caller,
			.responder = responder,
			.echo = echo,
			.echo_pipe = echo_pipe,
			.durable = durable,
			.settled = settled,
			.drain = drain,
			.open_conn = open_conn,
			.open_sub = open_sub,
			.acks = true},
		EXECUTOR("worker"),
		EXECUTOR("threadpool"),
		EXECUTOR("leader"),
		{0},
	};

	return bench_main(argc, argv, peers);
}

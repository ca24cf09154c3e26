/*
 * ZeroMQ over ipc:// (Unix sockets), libzmq.
 *
 *   zmq           no server: DEALER to ROUTER, XPUB to SUB, directly
 *   zmq-pushpull  no server: PUSH to PULL (one part per message, no routing)
 *   zmq-proxy     zmq_proxy() in a process of its own: PULL/PUSH one way,
 *                 ROUTER/DEALER for calls, XSUB/XPUB for fan-out
 *
 * Each message is handed over by itself; the library's I/O thread batches
 * (up to 8 KiB per write).  A full queue blocks the sender (XPUB_NODROP).
 */
#include "common.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zmq.h>

enum { HWM = 8192 };

static bool
is(struct bench *b, const char *name)
{
	return strcmp(b->peer->name, name) == 0;
}

static bool
proxy(struct bench *b)
{
	return is(b, "zmq-proxy");
}

static const char *
url(struct bench *b, const char *end)
{
	static char u[4][300];
	static int i;
	i = (i + 1) & 3;
	snprintf(u[i], sizeof u[i], "ipc://%s/%s", b->dir, end);
	return u[i];
}

static void *
sock(int type)
{
	static void *ctx;
	int hwm = HWM, one = 1;
	if (!ctx)
		ctx = zmq_ctx_new();
	void *s = zmq_socket(ctx, type);
	CHECK(s);
	CHECK(zmq_setsockopt(s, ZMQ_SNDHWM, &hwm, sizeof hwm) == 0);
	CHECK(zmq_setsockopt(s, ZMQ_RCVHWM, &hwm, sizeof hwm) == 0);
	if (type == ZMQ_XPUB)
		CHECK(zmq_setsockopt(s, ZMQ_XPUB_NODROP, &one, sizeof one) ==
			0);
	return s;
}

/* ---- the proxy --------------------------------------------------------- */

static void
proxy_main(struct bench *b)
{
	bool rtt = strncmp(b->scenario, "rtt", 3) == 0;
	void *f = sock(rtt ? ZMQ_ROUTER : b->ncons > 1 ? ZMQ_XSUB : ZMQ_PULL);
	void *k = sock(rtt ? ZMQ_DEALER : b->ncons > 1 ? ZMQ_XPUB : ZMQ_PUSH);
	CHECK(zmq_bind(f, url(b, "front")) == 0);
	CHECK(zmq_bind(k, url(b, "back")) == 0);
	zmq_proxy(f, k, NULL);
}

static void
start(struct bench *b)
{
	spawn_fn(b, proxy_main);
}

static int
answers(struct bench *b)
{
	int a = unix_connect(path_in(b, "front")),
	    c = unix_connect(path_in(b, "back"));
	close(a);
	close(c);
	return a >= 0 && c >= 0;
}

/* ---- one way ----------------------------------------------------------- */

static void
producer(struct bench *b, struct role *r)
{
	bool pub = b->ncons > 1;
	void *s = sock(pub ? ZMQ_XPUB : is(b, "zmq") ? ZMQ_DEALER : ZMQ_PUSH);
	char *buf = calloc(1, b->size);
	if (proxy(b))
		CHECK(zmq_connect(s, url(b, "front")) == 0);
	else if (pub)
		CHECK(zmq_bind(s, url(b, "link")) == 0);
	else
		CHECK(zmq_connect(s, url(b, "link")) == 0);
	for (int n = 0; pub && n < b->ncons;) { /* "ready" of each consumer */
		char sub[16];
		int k = zmq_recv(s, sub, sizeof sub, 0);
		CHECK(k > 0);
		n += k > 1 && sub[0] == 1;
	}
	role_ready(r);
	while (msg_next(r, buf)) {
		int n = zmq_send(s, buf, b->size, 0);
		if (n != (int)b->size)
			die("zmq_send: %s", zmq_strerror(errno));
		if (msg_full(r))
			msg_wait(r);
	}
}

static void
consumer(struct bench *b, struct role *r)
{
	bool sub = b->ncons > 1, router = is(b, "zmq") && !sub;
	void *s = sock(sub ? ZMQ_SUB : router ? ZMQ_ROUTER : ZMQ_PULL);
	if (sub) {
		char ready[16]; /* the producer awaits one such topic of each */
		snprintf(ready, sizeof ready, "ready%d", r->idx);
		CHECK(zmq_setsockopt(s, ZMQ_SUBSCRIBE, "", 0) == 0);
		CHECK(zmq_setsockopt(s, ZMQ_SUBSCRIBE, ready, strlen(ready)) ==
			0);
	}
	if (proxy(b))
		CHECK(zmq_connect(s, url(b, "back")) == 0);
	else if (sub)
		CHECK(zmq_connect(s, url(b, "link")) == 0);
	else
		CHECK(zmq_bind(s, url(b, "link")) == 0);
	role_ready(r);
	zmq_msg_t m;
	zmq_msg_init(&m);
	for (int end = 0; !end;) {
		CHECK(zmq_msg_recv(&m, s, 0) >= 0);
		if (router) { /* the first part names the sender */
			CHECK(zmq_msg_more(&m));
			CHECK(zmq_msg_recv(&m, s, 0) >= 0);
		}
		end = msg_got(r, zmq_msg_data(&m), zmq_msg_size(&m));
	}
}

/* ---- request and reply ------------------------------------------------- */

static void
caller(struct bench *b, struct role *r)
{
	void *s = sock(ZMQ_DEALER);
	char buf[64] = {0};
	CHECK(zmq_connect(s, url(b, proxy(b) ? "front" : "link")) == 0);
	role_ready(r);
	while (call_next(r, buf)) {
		CHECK(zmq_send(s, buf, b->size, 0) == (int)b->size);
		CHECK(zmq_recv(s, buf, sizeof buf, 0) == (int)b->size);
		call_done(r);
	}
}

static void
responder(struct bench *b, struct role *r)
{
	void *s = sock(ZMQ_ROUTER);
	char buf[64];
	if (proxy(b))
		CHECK(zmq_connect(s, url(b, "back")) == 0);
	else
		CHECK(zmq_bind(s, url(b, "link")) == 0);
	role_ready(r);
	for (;;) { /* keep the routing parts, answer the last one */
		int more = 1;
		while (more) {
			size_t k = sizeof more;
			int n = zmq_recv(s, buf, sizeof buf, 0);
			CHECK(n >= 0 && n <= (int)sizeof buf);
			CHECK(zmq_getsockopt(s, ZMQ_RCVMORE, &more, &k) == 0);
			CHECK(zmq_send(s, buf, (size_t)n,
				      more ? ZMQ_SNDMORE : 0) == n);
		}
	}
}

static int
open_conn(struct bench *b, int i)
{
	(void)i;
	int fd = unix_connect_wait(path_in(b, "front"));
	/* ZMTP 3.0 greeting, mechanism NULL, then READY as a PUSH socket. */
	static const unsigned char hello[64] = {
		0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0x7f, 3, 0, 'N', 'U', 'L', 'L'};
	static const unsigned char ready[] = {4, 26, 5, 'R', 'E', 'A', 'D', 'Y',
		11, 'S', 'o', 'c', 'k', 'e', 't', '-', 'T', 'y', 'p', 'e', 0, 0,
		0, 4, 'P', 'U', 'S', 'H'};
	char buf[64 + 2];
	write_all(fd, hello, sizeof hello);
	write_all(fd, ready, sizeof ready);
	read_all(fd, buf, sizeof buf);
	return 1;
}

int
main(int argc, char **argv)
{
	static const struct peer peers[] = {
		{.name = "zmq",
			.producer = producer,
			.consumer = consumer,
			.caller = caller,
			.responder = responder},
		{.name = "zmq-pushpull",
			.producer = producer,
			.consumer = consumer,
			.skip = "fan-10"},
		{.name = "zmq-proxy",
			.server = start,
			.answers = answers,
			.producer = producer,
			.consumer = consumer,
			.caller = caller,
			.responder = responder,
			.open_conn = open_conn},
		{0},
	};
	return bench_main(argc, argv, peers);
}

/*
 * nanomsg over ipc:// (Unix sockets).
 *
 *   nanomsg          no server: PUSH to PULL, REQ to REP, PUB to SUB, directly
 *   nanomsg-device   the same pairs through the library's own forwarder
 *                    (nn_device) in a process of its own
 *
 * Each message is handed to the library by itself; its worker thread does the
 * I/O.  Pushing back is nanomsg's own (PUSH blocks); only PUB, which drops
 * instead, runs under the harness's window.
 */
#include "common.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <nanomsg/nn.h>
#include <nanomsg/pipeline.h>
#include <nanomsg/pubsub.h>
#include <nanomsg/reqrep.h>

#define OK(x)                                                       \
	do {                                                        \
		if ((x) < 0)                                        \
			die("%s: %s", #x, nn_strerror(nn_errno())); \
	} while (0)

enum { BUFFER = 1 << 20 };

static bool
device(struct bench *b)
{
	return b->nsrv > 0;
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

static int
sock(int domain, int proto)
{
	int s = nn_socket(domain, proto), n = BUFFER;
	OK(s);
	OK(nn_setsockopt(s, NN_SOL_SOCKET, NN_SNDBUF, &n, sizeof n));
	OK(nn_setsockopt(s, NN_SOL_SOCKET, NN_RCVBUF, &n, sizeof n));
	return s;
}

/* ---- the forwarder ----------------------------------------------------- */

static void
forward(struct bench *b, int in, int out)
{
	int f = sock(AF_SP_RAW, in), k = sock(AF_SP_RAW, out);
	if (in == NN_SUB)
		OK(nn_setsockopt(f, NN_SUB, NN_SUB_SUBSCRIBE, "", 0));
	OK(nn_bind(f, url(b, "front")));
	OK(nn_bind(k, url(b, "back")));
	nn_device(f, k);
}

static void
forwarder(struct bench *b)
{
	if (strncmp(b->scenario, "rtt", 3) == 0)
		forward(b, NN_REP, NN_REQ);
	else if (b->ncons > 1)
		forward(b, NN_SUB, NN_PUB);
	else
		forward(b, NN_PULL, NN_PUSH);
}

static void
start(struct bench *b)
{
	spawn_fn(b, forwarder);
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

static void
connected(int s, int n)
{
	while ((int)nn_get_statistic(s, NN_STAT_CURRENT_CONNECTIONS) < n)
		usleep(1000);
}

/* Binds at one end of a direct link, or connects to the forwarder. */
static void
attach(struct bench *b, int s, bool producer)
{
	if (device(b))
		OK(nn_connect(s, url(b, producer ? "front" : "back")));
	else if (producer == (b->ncons > 1))
		OK(nn_bind(s, url(b, "link")));
	else
		OK(nn_connect(s, url(b, "link")));
}

/* ---- one way ----------------------------------------------------------- */

static void
producer(struct bench *b, struct role *r)
{
	int s = sock(AF_SP, b->ncons > 1 ? NN_PUB : NN_PUSH);
	char *buf = calloc(1, b->size);
	attach(b, s, true);
	connected(s, b->ncons > 1 && !device(b) ? b->ncons : 1);
	role_ready(r);
	if (b->ncons > 1)
		usleep(50000); /* subscriptions are not acknowledged */
	else
		b->window = 0;
	while (msg_next(r, buf)) {
		int n = nn_send(s, buf, b->size, 0);
		if (n != (int)b->size)
			die("nn_send: %s", nn_strerror(nn_errno()));
		if (msg_full(r))
			msg_wait(r);
	}
}

static void
consumer(struct bench *b, struct role *r)
{
	int s = sock(AF_SP, b->ncons > 1 ? NN_SUB : NN_PULL);
	char *buf = malloc(b->size + 1);
	if (b->ncons > 1)
		OK(nn_setsockopt(s, NN_SUB, NN_SUB_SUBSCRIBE, "", 0));
	attach(b, s, false);
	if (b->ncons > 1 || device(b))
		connected(s, 1);
	role_ready(r);
	for (;;) {
		int n = nn_recv(s, buf, b->size + 1, 0);
		OK(n);
		if (msg_got(r, buf, (size_t)n))
			return;
	}
}

/* ---- request and reply ------------------------------------------------- */

static void
caller(struct bench *b, struct role *r)
{
	int s = sock(AF_SP, NN_REQ);
	char buf[64] = {0};
	attach(b, s, true);
	connected(s, 1);
	role_ready(r);
	while (call_next(r, buf)) {
		OK(nn_send(s, buf, b->size, 0));
		CHECK(nn_recv(s, buf, sizeof buf, 0) == (int)b->size);
		call_done(r);
	}
}

static void
responder(struct bench *b, struct role *r)
{
	int s = sock(AF_SP, NN_REP);
	char buf[64];
	attach(b, s, false);
	role_ready(r);
	for (;;) {
		int n = nn_recv(s, buf, sizeof buf, 0);
		OK(n);
		OK(nn_send(s, buf, (size_t)n, 0));
	}
}

static int
open_conn(struct bench *b, int i)
{
	(void)i;
	int fd = unix_connect_wait(path_in(b, "front"));
	/* The protocol header both sides send: SP, version 0, type PUSH. */
	static const unsigned char hello[8] = {0, 'S', 'P', 0, 0, 5 << 4, 0, 0};
	char buf[8];
	write_all(fd, hello, sizeof hello);
	read_all(fd, buf, sizeof buf);
	return 1;
}

int
main(int argc, char **argv)
{
	static const struct peer peers[] = {
		{.name = "nanomsg",
			.producer = producer,
			.consumer = consumer,
			.caller = caller,
			.responder = responder,
			.window = 128},
		{.name = "nanomsg-device",
			.server = start,
			.answers = answers,
			.producer = producer,
			.consumer = consumer,
			.caller = caller,
			.responder = responder,
			.open_conn = open_conn,
			.window = 128},
		{0},
	};
	return bench_main(argc, argv, peers);
}

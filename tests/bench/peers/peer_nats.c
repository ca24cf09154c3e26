/*
 * NATS over TCP loopback (it has no Unix socket), through the nats.c library.
 * A mailbox is a subject with one subscriber: at most once, nothing is kept.
 *
 * Publishing appends to the library's buffer; its flusher thread and full
 * buffers send it.  Receiving is by callback.  Request/reply uses the
 * library's request call and a responder which sends at once.
 *
 * echo-64 is PING/PONG without a payload (the library's flush call);
 * echo-pipe-64 publishes to a subject the same connection subscribes to.
 *
 * dur-256-e is JetStream with file storage.  The server of Debian 12 (2.9)
 * acknowledges when the data was written to the file, without fsync; it syncs
 * every two minutes, which cannot be configured.  Hence no dur-256.
 */
#include "common.h"

#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <nats/nats.h>

enum { DEPTH = 256 };
#define OK(x)                                                      \
	do {                                                       \
		natsStatus s_ = (x);                               \
		if (s_ != NATS_OK)                                 \
			die("%s: %s", #x, natsStatus_GetText(s_)); \
	} while (0)

static void
start(struct bench *b)
{
	write_file(path_in(b, "nats.conf"), "listen: \"127.0.0.1:%d\"\n%s%s%s",
		b->port,
		strncmp(b->scenario, "dur", 3) == 0
			? "jetstream { store_dir: \""
			: "",
		strncmp(b->scenario, "dur", 3) == 0 ? b->dir : "",
		strncmp(b->scenario, "dur", 3) == 0 ? "\" }\n" : "");
	spawn(b, (const char *[]){
			 "nats-server", "-c", path_in(b, "nats.conf"), NULL});
}

/* A bare connection: reads INFO, says CONNECT, and waits for PONG. */
static int
bare(struct bench *b, const char *extra)
{
	char buf[4096];
	size_t n = 0;
	int fd = tcp_connect(b->port);
	if (fd < 0)
		return -1;
	int k = snprintf(buf, sizeof buf,
		"CONNECT {\"verbose\":false}\r\n%sPING\r\n", extra);
	write_all(fd, buf, (size_t)k);
	for (;;) {
		ssize_t m = read(fd, buf + n, sizeof buf - 1 - n);
		if (m <= 0) {
			close(fd);
			return -1;
		}
		n += (size_t)m;
		buf[n] = 0;
		if (strstr(buf, "PONG\r\n"))
			return fd;
	}
}

static int
answers(struct bench *b)
{
	int fd = bare(b, "");
	if (fd < 0)
		return 0;
	close(fd);
	return 1;
}

static natsConnection *
connect_to(struct bench *b, bool asap)
{
	natsOptions *o;
	natsConnection *c;
	char url[64];
	snprintf(url, sizeof url, "nats://127.0.0.1:%d", b->port);
	OK(natsOptions_Create(&o));
	OK(natsOptions_SetURL(o, url));
	OK(natsOptions_SetIOBufSize(o, 64 * 1024));
	OK(natsOptions_SetSendAsap(o, asap));
	OK(natsConnection_Connect(&c, o));
	natsOptions_Destroy(o);
	return c;
}

/* ---- one way ----------------------------------------------------------- */

static void
producer(struct bench *b, struct role *r)
{
	natsConnection *c = connect_to(b, false);
	char *buf = calloc(1, b->size);
	role_ready(r);
	while (msg_next(r, buf)) {
		OK(natsConnection_Publish(c, "box", buf, (int)b->size));
		if (b->sync)
			OK(natsConnection_Flush(
				c)); /* PING after it, wait for PONG */
		if (msg_full(r))
			msg_wait(r);
	}
	OK(natsConnection_Flush(c));
}

static sem_t end;

static void
on_msg(natsConnection *c, natsSubscription *s, natsMsg *m, void *arg)
{
	(void)c, (void)s;
	if (msg_got(arg, natsMsg_GetData(m), (size_t)natsMsg_GetDataLength(m)))
		sem_post(&end);
	natsMsg_Destroy(m);
}

static void
consumer(struct bench *b, struct role *r)
{
	natsConnection *c = connect_to(b, false);
	natsSubscription *s;
	sem_init(&end, 0, 0);
	OK(natsConnection_Subscribe(&s, c, "box", on_msg, r));
	OK(natsSubscription_SetPendingLimits(s, -1, -1));
	OK(natsConnection_Flush(c));
	role_ready(r);
	while (sem_wait(&end) != 0)
		;
}

/* ---- request and reply ------------------------------------------------- */

static void
caller(struct bench *b, struct role *r)
{
	natsConnection *c = connect_to(b, true);
	char buf[64] = {0};
	role_ready(r);
	while (call_next(r, buf)) {
		natsMsg *m;
		OK(natsConnection_Request(
			&m, c, "req", buf, (int)b->size, 5000));
		CHECK((size_t)natsMsg_GetDataLength(m) == b->size);
		natsMsg_Destroy(m);
		call_done(r);
	}
}

static void
on_request(natsConnection *c, natsSubscription *s, natsMsg *m, void *arg)
{
	(void)s, (void)arg;
	OK(natsConnection_Publish(c, natsMsg_GetReply(m), natsMsg_GetData(m),
		natsMsg_GetDataLength(m)));
	natsMsg_Destroy(m);
}

static void
responder(struct bench *b, struct role *r)
{
	natsConnection *c = connect_to(b, true);
	natsSubscription *s;
	OK(natsConnection_Subscribe(&s, c, "req", on_request, NULL));
	OK(natsConnection_Flush(c));
	role_ready(r);
	for (;;)
		pause();
}

/* ---- the server alone -------------------------------------------------- */

static void
echo(struct bench *b, struct role *r)
{
	natsConnection *c = connect_to(b, true);
	char buf[64] = {0};
	role_ready(r);
	while (call_next(r, buf)) {
		OK(natsConnection_Flush(c));
		call_done(r);
	}
}

/* At most DEPTH posts are open: the main thread waits for half of them. */
static sem_t slots;

static void
on_echo(natsConnection *c, natsSubscription *s, natsMsg *m, void *arg)
{
	(void)c, (void)s;
	natsMsg_Destroy(m);
	post_acked(arg, 1);
	sem_post(&slots);
}

static void
on_ack(jsCtx *js, natsMsg *m, jsPubAck *pa, jsPubAckErr *pae, void *arg)
{
	(void)js, (void)pa;
	if (pae)
		die("jetstream: %s", pae->ErrText);
	natsMsg_Destroy(m);
	post_acked(arg, 1);
	sem_post(&slots);
}

static void
drain(void)
{
	for (int i = 0; i < DEPTH; i++)
		while (sem_wait(&slots) != 0)
			;
}

static void
echo_pipe(struct bench *b, struct role *r)
{
	natsConnection *c = connect_to(b, false);
	natsSubscription *s;
	char buf[64] = {0};
	sem_init(&slots, 0, DEPTH);
	OK(natsConnection_Subscribe(&s, c, "self", on_echo, r));
	OK(natsConnection_Flush(c));
	role_ready(r);
	while (sem_wait(&slots) == 0 && post_next(r, buf))
		OK(natsConnection_Publish(c, "self", buf, (int)b->size));
	sem_post(&slots);
	drain();
}

static void
durable(struct bench *b, struct role *r)
{
	natsConnection *c = connect_to(b, false);
	jsCtx *js;
	jsOptions o;
	jsStreamConfig sc;
	jsErrCode err = 0;
	char *buf = calloc(1, b->size);
	sem_init(&slots, 0, DEPTH);
	OK(jsOptions_Init(&o));
	o.PublishAsync.MaxPending = DEPTH;
	o.PublishAsync.AckHandler = on_ack;
	o.PublishAsync.AckHandlerClosure = r;
	OK(natsConnection_JetStream(&js, c, &o));
	OK(jsStreamConfig_Init(&sc));
	sc.Name = "BOX";
	sc.Subjects = (const char *[]){"box"};
	sc.SubjectsLen = 1;
	sc.Storage = js_FileStorage;
	OK(js_AddStream(NULL, js, &sc, NULL, &err));
	role_ready(r);
	while (sem_wait(&slots) == 0 && post_next(r, buf))
		OK(js_PublishAsync(js, "box", buf, (int)b->size, NULL));
	sem_post(&slots);
	drain();
}

/* ---- idle connections -------------------------------------------------- */

static int conn_fd[2000];

static int
open_conn(struct bench *b, int i)
{
	conn_fd[i] = bare(b, "");
	return conn_fd[i] >= 0;
}

static int
open_sub(struct bench *b, int i)
{
	char buf[64];
	(void)b;
	int n = snprintf(buf, sizeof buf, "SUB box.%d 1\r\nPING\r\n", i);
	write_all(conn_fd[i], buf, (size_t)n);
	return read(conn_fd[i], buf, sizeof buf) > 0;
}

int
main(int argc, char **argv)
{
	static const struct peer peers[] = {
		{.name = "nats",
			.server = start,
			.answers = answers,
			.producer = producer,
			.consumer = consumer,
			.caller = caller,
			.responder = responder,
			.echo = echo,
			.echo_pipe = echo_pipe,
			.durable = durable,
			.open_conn = open_conn,
			.open_sub = open_sub,
			.window = 4096,
			.skip = "dur-256",
			.acks = true},
		{0},
	};
	return bench_main(argc, argv, peers);
}

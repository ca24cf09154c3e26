/*
 * mosquitto (MQTT) over a Unix socket, through libmosquitto.
 *
 *   mosquitto      QoS 0: at most once, no acknowledgement
 *   mosquitto-q1   QoS 1: each hop is acknowledged, kept in memory only
 *
 * A mailbox is a topic with one subscriber.  libmosquitto has no batching:
 * each packet is one write, and is read in several small reads.  The clients
 * are single-threaded and poll the socket themselves, which is the fastest
 * way to use the library.
 *
 * echo is a QoS 1 publish to a topic without subscribers: the answer is the
 * broker's own PUBACK.  There is no durable scenario: mosquitto saves its
 * state to disk from time to time, without fsync before an acknowledgement.
 */
#include "common.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <mosquitto.h>

enum { DEPTH = 256 };
#define OK(x)                                                      \
	do {                                                       \
		int r_ = (x);                                      \
		if (r_ != MOSQ_ERR_SUCCESS)                        \
			die("%s: %s", #x, mosquitto_strerror(r_)); \
	} while (0)

static int
qos(struct bench *b)
{
	return strcmp(b->peer->name, "mosquitto-q1") == 0;
}

static void
start(struct bench *b)
{
	write_file(path_in(b, "mosquitto.conf"),
		"listener 0 %s\n"
		"user root\n"
		"allow_anonymous true\n"
		"persistence false\n"
		"log_type none\n"
		"max_queued_messages 0\n"
		"max_inflight_messages 0\n"
		"max_connections -1\n",
		path_in(b, "sock"));
	spawn(b, (const char *[]){"mosquitto", "-c",
			 path_in(b, "mosquitto.conf"), NULL});
}

/* ---- client ------------------------------------------------------------ */

struct client {
	struct mosquitto *m;
	struct role *r;
	int connected, subscribed, end, got;
	bool ack_posts;
};

static void
on_connect(struct mosquitto *m, void *arg, int rc)
{
	(void)m;
	CHECK(rc == 0);
	((struct client *)arg)->connected = 1;
}

static void
on_subscribe(struct mosquitto *m, void *arg, int mid, int n, const int *q)
{
	(void)m, (void)mid, (void)n, (void)q;
	((struct client *)arg)->subscribed++;
}

static void
on_box(struct mosquitto *m, void *arg, const struct mosquitto_message *x)
{
	struct client *c = arg;
	(void)m;
	c->end = msg_got(c->r, x->payload, (size_t)x->payloadlen);
}

static void
on_any(struct mosquitto *m, void *arg, const struct mosquitto_message *x)
{
	(void)m, (void)x;
	((struct client *)arg)->got++;
}

static void
on_published(struct mosquitto *m, void *arg, int mid)
{
	struct client *c = arg;
	(void)m, (void)mid;
	c->got++;
	if (c->ack_posts)
		post_acked(c->r, 1);
}

/* One round: waits for input (or for room, if output is pending). */
static void
turn(struct client *c, int timeout)
{
	struct pollfd p = {.fd = mosquitto_socket(c->m), .events = POLLIN};
	if (mosquitto_want_write(c->m))
		p.events |= POLLOUT;
	if (poll(&p, 1, timeout) <= 0)
		return;
	if (p.revents & POLLOUT)
		OK(mosquitto_loop_write(c->m, 1));
	if (p.revents & (POLLIN | POLLHUP | POLLERR))
		OK(mosquitto_loop_read(c->m, 1));
}

static struct mosquitto *
open_client(struct bench *b, struct client *c, const char *id)
{
	c->m = mosquitto_new(id, true, c);
	CHECK(c->m);
	mosquitto_connect_callback_set(c->m, on_connect);
	mosquitto_subscribe_callback_set(c->m, on_subscribe);
	OK(mosquitto_int_option(c->m, MOSQ_OPT_SEND_MAXIMUM, 65535));
	OK(mosquitto_int_option(c->m, MOSQ_OPT_RECEIVE_MAXIMUM, 65535));
	for (int i = 0;; i++) {
		int rc = mosquitto_connect(c->m, path_in(b, "sock"), 0, 600);
		if (rc == MOSQ_ERR_SUCCESS)
			break;
		if (i == 20)
			die("mosquitto_connect: %s", mosquitto_strerror(rc));
		usleep(1000);
	}
	while (!c->connected)
		turn(c, 1000);
	return c->m;
}

static void
subscribe(struct client *c, const char *topic, int q)
{
	int want = c->subscribed + 1;
	OK(mosquitto_subscribe(c->m, NULL, topic, q));
	while (c->subscribed < want)
		turn(c, 1000);
}

static int
answers(struct bench *b)
{
	int fd = unix_connect(path_in(b, "sock"));
	if (fd < 0)
		return 0;
	/* CONNECT, MQTT 3.1.1, clean session, client "r"; wait for CONNACK. */
	static const unsigned char hello[] = {
		0x10, 13, 0, 4, 'M', 'Q', 'T', 'T', 4, 2, 0, 60, 0, 1, 'r'};
	char buf[4];
	write_all(fd, hello, sizeof hello);
	int ok = read(fd, buf, sizeof buf) == 4;
	close(fd);
	return ok;
}

/* ---- one way ----------------------------------------------------------- */

static void
producer(struct bench *b, struct role *r)
{
	struct client c = {.r = r};
	char *buf = calloc(1, b->size);
	int open = b->sync ? 0 : 1024; /* QoS 1 posts without an ack */
	open_client(b, &c, NULL);
	mosquitto_publish_callback_set(c.m, on_published);
	role_ready(r);
	while (msg_next(r, buf)) {
		OK(mosquitto_publish(
			c.m, NULL, "box", (int)b->size, buf, qos(b), false));
		if (qos(b) && (r->sent & 63) == 0)
			turn(&c, 0); /* take acknowledgements */
		while (mosquitto_want_write(c.m) ||
			(qos(b) && (int)r->sent - c.got > open))
			turn(&c, -1);
		msg_wait(r);
	}
	while (mosquitto_want_write(c.m) ||
		(qos(b) && (uint64_t)c.got < r->sent))
		turn(&c, -1);
}

static void
consumer(struct bench *b, struct role *r)
{
	struct client c = {.r = r};
	open_client(b, &c, NULL);
	mosquitto_message_callback_set(c.m, on_box);
	subscribe(&c, "box", qos(b));
	role_ready(r);
	while (!c.end)
		turn(&c, -1);
}

/* ---- request and reply ------------------------------------------------- */

static void
caller(struct bench *b, struct role *r)
{
	struct client c = {.r = r};
	char buf[64] = {0};
	open_client(b, &c, NULL);
	mosquitto_message_callback_set(c.m, on_any);
	subscribe(&c, "rep", qos(b));
	role_ready(r);
	while (call_next(r, buf)) {
		c.got = 0;
		OK(mosquitto_publish(
			c.m, NULL, "req", (int)b->size, buf, qos(b), false));
		while (c.got == 0)
			turn(&c, -1);
		call_done(r);
	}
}

static void
on_request(struct mosquitto *m, void *arg, const struct mosquitto_message *x)
{
	(void)arg;
	OK(mosquitto_publish(
		m, NULL, "rep", x->payloadlen, x->payload, x->qos, false));
}

static void
responder(struct bench *b, struct role *r)
{
	struct client c = {.r = r};
	open_client(b, &c, NULL);
	mosquitto_message_callback_set(c.m, on_request);
	subscribe(&c, "req", qos(b));
	role_ready(r);
	for (;;)
		turn(&c, -1);
}

/* ---- the server alone -------------------------------------------------- */

static void
echo(struct bench *b, struct role *r)
{
	struct client c = {.r = r};
	char buf[64] = {0};
	open_client(b, &c, NULL);
	mosquitto_publish_callback_set(c.m, on_published);
	role_ready(r);
	while (call_next(r, buf)) {
		c.got = 0;
		OK(mosquitto_publish(
			c.m, NULL, "nobody", (int)b->size, buf, 1, false));
		while (c.got == 0)
			turn(&c, -1);
		call_done(r);
	}
}

static void
echo_pipe(struct bench *b, struct role *r)
{
	struct client c = {.r = r, .ack_posts = true};
	char buf[64] = {0};
	bool more = true;
	open_client(b, &c, NULL);
	mosquitto_publish_callback_set(c.m, on_published);
	role_ready(r);
	while (more || post_open(r) > 0) {
		while (more && post_open(r) < DEPTH &&
			(more = post_next(r, buf)))
			OK(mosquitto_publish(c.m, NULL, "nobody", (int)b->size,
				buf, 1, false));
		if (post_open(r) > 0)
			turn(&c, -1);
	}
}

/* ---- idle connections -------------------------------------------------- */

static struct client idle[2000];

static int
open_conn(struct bench *b, int i)
{
	return open_client(b, &idle[i], NULL) != NULL;
}

static int
open_sub(struct bench *b, int i)
{
	char topic[32];
	(void)b;
	snprintf(topic, sizeof topic, "box/%d", i);
	subscribe(&idle[i], topic, 0);
	return 1;
}

int
main(int argc, char **argv)
{
	static const struct peer peers[] = {
		{.name = "mosquitto",
			.server = start,
			.answers = answers,
			.producer = producer,
			.consumer = consumer,
			.caller = caller,
			.responder = responder,
			.echo = echo,
			.echo_pipe = echo_pipe,
			.open_conn = open_conn,
			.open_sub = open_sub,
			.window = 1024},
		{.name = "mosquitto-q1",
			.server = start,
			.answers = answers,
			.producer = producer,
			.consumer = consumer,
			.caller = caller,
			.responder = responder,
			.window = 1024,
			.skip = "idle",
			.acks = true},
		{0},
	};
	mosquitto_lib_init();
	return bench_main(argc, argv, peers);
}

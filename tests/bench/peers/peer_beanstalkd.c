/*
 * beanstalkd over a Unix socket, by its own text protocol (no client library
 * is packaged).  A mailbox is a tube.  Commands are pipelined: the producer
 * sends 64 puts per write and keeps two such groups open; the consumer has 64
 * reserves open and deletes what it got together with the next reserves.
 *
 * There is no publish/subscribe: fan-10 puts each message into ten tubes.
 */
#include "common.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BATCH = 64, TAKE = 64, DEPTH = 256, INBUF = 256 * 1024 };

static void
start(struct bench *b)
{
	char addr[300];
	snprintf(addr, sizeof addr, "unix:%s", path_in(b, "sock"));
	if (strncmp(b->scenario, "dur", 3) == 0)
		spawn(b, (const char *[]){"beanstalkd", "-l", addr, "-b",
				 b->dir, b->relaxed ? "-f1000" : "-f0", NULL});
	else
		spawn(b, (const char *[]){"beanstalkd", "-l", addr, NULL});
}

/* ---- buffered connection ----------------------------------------------- */

struct link {
	int fd;
	char *in, *out;
	size_t at, have, used, cap;
};

static void
link_open(struct link *l, struct bench *b)
{
	l->fd = unix_connect_wait(path_in(b, "sock"));
	l->in = malloc(INBUF);
	l->cap = INBUF;
	l->out = malloc(l->cap);
	l->at = l->have = l->used = 0;
}

static void
fill(struct link *l)
{
	memmove(l->in, l->in + l->at, l->have - l->at);
	l->have -= l->at;
	l->at = 0;
	CHECK(l->have < INBUF);
	ssize_t n = read(l->fd, l->in + l->have, INBUF - l->have);
	if (n <= 0)
		die("beanstalkd closed the connection");
	l->have += (size_t)n;
}

/* The next reply line, without its end.  Valid until the next call. */
static char *
line(struct link *l)
{
	size_t from = 0;
	for (;;) {
		char *s = l->in + l->at,
		     *e = memmem(s + from, l->have - l->at - from, "\r\n", 2);
		if (e) {
			*e = 0;
			l->at = (size_t)(e - l->in) + 2;
			return s;
		}
		fill(l);
	}
}

static void
expect(struct link *l, const char *word)
{
	char *s = line(l);
	if (strncmp(s, word, strlen(word)) != 0)
		die("beanstalkd: %s instead of %s", s, word);
}

static void
put_text(struct link *l, const char *s)
{
	size_t n = strlen(s);
	CHECK(l->used + n <= l->cap);
	memcpy(l->out + l->used, s, n);
	l->used += n;
}

static void
put_job(struct link *l, const void *msg, size_t n)
{
	char head[64];
	snprintf(head, sizeof head, "put 0 0 120 %zu\r\n", n);
	put_text(l, head);
	CHECK(l->used + n + 2 <= l->cap);
	memcpy(l->out + l->used, msg, n);
	l->used += n;
	put_text(l, "\r\n");
}

static void
put_delete(struct link *l, unsigned long id)
{
	char cmd[64];
	snprintf(cmd, sizeof cmd, "delete %lu\r\n", id);
	put_text(l, cmd);
}

/*
 * Reads replies while it cannot write: the server stops reading when about
 * seventy small replies lie unread in a Unix socket, so that a client which
 * only writes would wait for ever.
 */
static void
flush(struct link *l)
{
	size_t at = 0;
	while (at < l->used) {
		ssize_t n =
			send(l->fd, l->out + at, l->used - at, MSG_DONTWAIT);
		if (n > 0) {
			at += (size_t)n;
			continue;
		}
		CHECK(errno == EAGAIN);
		struct pollfd p = {.fd = l->fd, .events = POLLIN | POLLOUT};
		CHECK(poll(&p, 1, -1) == 1);
		if (p.revents & POLLIN)
			fill(l);
	}
	l->used = 0;
}

/* Reads RESERVED; the body is at *msg until the next call. */
static unsigned long
reserved(struct link *l, char **msg, size_t *n)
{
	unsigned long id;
	char *s = line(l);
	if (sscanf(s, "RESERVED %lu %zu", &id, n) != 2)
		die("beanstalkd: %s", s);
	while (l->have - l->at < *n + 2)
		fill(l);
	*msg = l->in + l->at;
	l->at += *n + 2;
	return id;
}

static void
talk(struct link *l, const char *cmd, const char *answer)
{
	put_text(l, cmd);
	flush(l);
	expect(l, answer);
}

static void
use(struct link *l, const char *verb, int i)
{
	char cmd[64];
	snprintf(cmd, sizeof cmd, "%s box%d\r\n", verb, i);
	put_text(l, cmd);
}

static int
answers(struct bench *b)
{
	int fd = unix_connect(path_in(b, "sock"));
	if (fd < 0)
		return 0;
	char buf[64];
	write_all(fd, "list-tube-used\r\n", 16);
	int ok = read(fd, buf, sizeof buf) > 0;
	close(fd);
	return ok;
}

/* ---- one way ----------------------------------------------------------- */

static void
producer(struct bench *b, struct role *r)
{
	struct link l;
	char *msgs = calloc(BATCH, b->size);
	int last = 0, more = 1, batch = b->sync ? 1 : BATCH;
	link_open(&l, b);
	role_ready(r);
	while (more) {
		int k = 0;
		while (k < batch &&
			(more = msg_next(r, msgs + (size_t)k * b->size)))
			k++;
		int now = 0;
		for (int t = 0; t < b->ncons; t++) {
			if (b->ncons > 1 || r->sent <= BATCH) {
				use(&l, "use", t);
				now++;
			}
			for (int i = 0; i < k; i++)
				put_job(&l, msgs + (size_t)i * b->size,
					b->size);
			now += k;
			flush(&l);
		}
		while (last-- > 0)
			line(&l);
		last = now;
		while (b->sync && last > 0)
			line(&l), last--;
		msg_wait(r);
	}
	while (last-- > 0)
		line(&l);
}

static void
consumer(struct bench *b, struct role *r)
{
	struct link l;
	unsigned long ids[TAKE];
	(void)b;
	link_open(&l, b);
	use(&l, "watch", r->idx);
	flush(&l);
	expect(&l, "WATCHING");
	talk(&l, "ignore default\r\n", "WATCHING");
	role_ready(r);
	int ndel = 0;
	for (int i = 0; i < TAKE; i++)
		put_text(&l, "reserve\r\n");
	for (;;) {
		flush(&l);
		for (int i = 0; i < ndel; i++)
			expect(&l, "DELETED");
		ndel = 0;
		/* Take what has come, at least one. */
		do {
			char *msg;
			size_t n;
			ids[ndel++] = reserved(&l, &msg, &n);
			if (msg_got(r, msg, n))
				return;
		} while (ndel < TAKE);
		for (int i = 0; i < ndel; i++)
			put_delete(&l, ids[i]);
		for (int i = 0; i < ndel; i++)
			put_text(&l, "reserve\r\n");
	}
}

/* ---- request and reply ------------------------------------------------- */

static void
caller(struct bench *b, struct role *r)
{
	struct link l;
	char buf[64] = {0}, *msg;
	unsigned long id = 0;
	size_t n;
	link_open(&l, b);
	talk(&l, "use req\r\n", "USING");
	talk(&l, "watch rep\r\n", "WATCHING");
	talk(&l, "ignore default\r\n", "WATCHING");
	role_ready(r);
	while (call_next(r, buf)) {
		if (id)
			put_delete(&l, id);
		put_job(&l, buf, b->size);
		put_text(&l, "reserve\r\n");
		flush(&l);
		if (id)
			expect(&l, "DELETED");
		expect(&l, "INSERTED");
		id = reserved(&l, &msg, &n);
		CHECK(n == b->size);
		call_done(r);
	}
}

static void
responder(struct bench *b, struct role *r)
{
	struct link l;
	char *msg;
	size_t n;
	link_open(&l, b);
	talk(&l, "use rep\r\n", "USING");
	talk(&l, "watch req\r\n", "WATCHING");
	talk(&l, "ignore default\r\n", "WATCHING");
	role_ready(r);
	put_text(&l, "reserve\r\n");
	flush(&l);
	for (;;) {
		unsigned long id = reserved(&l, &msg, &n);
		CHECK(n == b->size);
		put_job(&l, msg, n);
		put_delete(&l, id);
		put_text(&l, "reserve\r\n");
		flush(&l);
		expect(&l, "INSERTED");
		expect(&l, "DELETED");
	}
}

/* ---- the server alone -------------------------------------------------- */

/* "use NAME" answers "USING NAME": an echo of 64 bytes. */
static const char tube[] =
	"echo-echo-echo-echo-echo-echo-echo-echo-echo-echo-echo-echo-echo";

static void
echo(struct bench *b, struct role *r)
{
	struct link l;
	char buf[64], cmd[80];
	(void)b;
	snprintf(cmd, sizeof cmd, "use %.64s\r\n", tube);
	link_open(&l, b);
	role_ready(r);
	while (call_next(r, buf)) {
		talk(&l, cmd, "USING");
		call_done(r);
	}
}

static void
posts(struct bench *b, struct role *r, bool durable)
{
	struct link l;
	char *buf = calloc(1, b->size), cmd[80];
	bool more = true;
	snprintf(cmd, sizeof cmd, "use %.64s\r\n", tube);
	link_open(&l, b);
	role_ready(r);
	while (more || post_open(r) > 0) {
		while (more && post_open(r) < DEPTH &&
			(more = post_next(r, buf))) {
			if (durable)
				put_job(&l, buf, b->size);
			else
				put_text(&l, cmd);
		}
		flush(&l);
		if (post_open(r) == 0)
			break;
		unsigned acks = 0;
		do {
			expect(&l, durable ? "INSERTED" : "USING");
			acks++;
		} while (memmem(l.in + l.at, l.have - l.at, "\r\n", 2));
		post_acked(r, acks);
	}
}

static void
echo_pipe(struct bench *b, struct role *r)
{
	posts(b, r, false);
}

static void
durable(struct bench *b, struct role *r)
{
	posts(b, r, true);
}

/* ---- idle connections -------------------------------------------------- */

static int conn_fd[2000];

static int
open_conn(struct bench *b, int i)
{
	char buf[64];
	conn_fd[i] = unix_connect_wait(path_in(b, "sock"));
	write_all(conn_fd[i], "list-tube-used\r\n", 16);
	return read(conn_fd[i], buf, sizeof buf) > 0;
}

static int
open_sub(struct bench *b, int i)
{
	char buf[64];
	(void)b;
	int n = snprintf(buf, sizeof buf, "watch box%d\r\n", i);
	write_all(conn_fd[i], buf, (size_t)n);
	if (read(conn_fd[i], buf, sizeof buf) <= 0)
		return 0;
	write_all(conn_fd[i], "reserve\r\n", 9);
	return 1;
}

int
main(int argc, char **argv)
{
	static const struct peer peers[] = {
		{.name = "beanstalkd",
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
			.acks = true},
		{0},
	};
	return bench_main(argc, argv, peers);
}

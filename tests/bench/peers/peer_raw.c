/*
 * Physical limits, without any library.
 *
 *   raw-unix      one AF_UNIX stream from producer to consumer, frames with a
 *                 length prefix, many frames per write and per read
 *   raw-unix-1    the same, one write per message
 *   raw-broker    the least a broker can do: one epoll thread which moves
 *                 frames from any client to the mailbox they name
 *   raw-broker-1  the same, the producer writes each message by itself
 *   raw-disk      no server: write 256 bytes and fdatasync, one by one
 */
#include "common.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BATCH = 64 * 1024, INBUF = 256 * 1024 };

static bool
one_by_one(struct bench *b)
{
	return strstr(b->peer->name, "-1") != NULL;
}

/* ---- raw-unix: frame = u32 length, payload ----------------------------- */

static void
unix_producer(struct bench *b, struct role *r)
{
	size_t frame = 4 + b->size, batch = one_by_one(b) ? frame : BATCH,
	       used = 0;
	char *buf = calloc(1, BATCH + frame);
	uint32_t len = (uint32_t)b->size;
	int fd = unix_connect_wait(path_in(b, "sock"));
	role_ready(r);
	while (memcpy(buf + used, &len, 4), msg_next(r, buf + used + 4)) {
		used += frame;
		if (used + frame > batch) {
			write_all(fd, buf, used);
			used = 0;
		}
	}
	write_all(fd, buf, used);
}

static void
unix_consumer(struct bench *b, struct role *r)
{
	char *buf = malloc(INBUF);
	size_t have = 0;
	int lfd = unix_listen(path_in(b, "sock"));
	role_ready(r);
	int fd = accept(lfd, NULL, NULL);
	CHECK(fd >= 0);
	for (;;) {
		ssize_t n = read(fd, buf + have, INBUF - have);
		CHECK(n > 0);
		have += (size_t)n;
		size_t at = 0;
		while (have - at >= 4) {
			uint32_t len;
			memcpy(&len, buf + at, 4);
			if (have - at < 4 + len)
				break;
			if (msg_got(r, buf + at + 4, len))
				return;
			at += 4 + len;
		}
		memmove(buf, buf + at, have - at);
		have -= at;
	}
}

static void
unix_caller(struct bench *b, struct role *r)
{
	char buf[4 + 64] = {64};
	int fd = unix_connect_wait(path_in(b, "sock"));
	role_ready(r);
	while (call_next(r, buf + 4)) {
		write_all(fd, buf, 4 + b->size);
		read_all(fd, buf, 4 + b->size);
		call_done(r);
	}
}

static void
unix_responder(struct bench *b, struct role *r)
{
	char buf[4 + 64];
	int lfd = unix_listen(path_in(b, "sock"));
	role_ready(r);
	int fd = accept(lfd, NULL, NULL);
	CHECK(fd >= 0);
	for (;;) {
		read_all(fd, buf, 4 + b->size);
		write_all(fd, buf, 4 + b->size);
	}
}

/* ---- raw-broker: frame = u32 length, u32 mailbox, payload -------------- */

enum {
	HEAD = 8,
	BOX_SELF = 0, /* send the frame back */
	BOX_JOIN = 1, /* payload u32: deliver this mailbox to me */
	BOX_LOG = 2,  /* store, then acknowledge */
	BOX_FIRST = 3,
	NBOX = 64,
	BOX_MEMBERS = 16,
	OUT_LIMIT = 512 * 1024,
};

struct out {
	char *p;
	size_t len, off, cap;
};

struct conn {
	int fd, events;
	char *in; /* an incomplete frame */
	size_t in_len;
	struct out out;
	bool dirty, full, held;
	uint32_t unacked;
};

static struct {
	int ep, log_fd;
	struct conn *box[NBOX][BOX_MEMBERS];
	int nbox[NBOX];
	struct conn *dirty[4096], *held[4096], *posted[4096];
	int ndirty, nheld, nposted, nfull;
	struct out log;
	bool relaxed;
} S;

static void
out_add(struct out *o, const void *p, size_t n)
{
	if (o->len + n > o->cap) {
		if (o->off) {
			memmove(o->p, o->p + o->off, o->len - o->off);
			o->len -= o->off;
			o->off = 0;
		}
		if (o->len + n > o->cap) {
			o->cap = (o->len + n) * 2;
			o->p = realloc(o->p, o->cap);
			CHECK(o->p);
		}
	}
	memcpy(o->p + o->len, p, n);
	o->len += n;
}

static void
conn_events(struct conn *c, int events)
{
	if (events == c->events)
		return;
	struct epoll_event ev = {.events = (uint32_t)events, .data.ptr = c};
	CHECK(epoll_ctl(S.ep, EPOLL_CTL_MOD, c->fd, &ev) == 0);
	c->events = events;
}

static void
conn_send(struct conn *c, const void *p, size_t n)
{
	out_add(&c->out, p, n);
	if (!c->dirty) {
		c->dirty = true;
		S.dirty[S.ndirty++] = c;
	}
}

static void
conn_flush(struct conn *c)
{
	struct out *o = &c->out;
	while (o->off < o->len) {
		ssize_t n = write(c->fd, o->p + o->off, o->len - o->off);
		if (n <= 0)
			break;
		o->off += (size_t)n;
	}
	if (o->off == o->len)
		o->off = o->len = 0;
	bool full = o->len - o->off > OUT_LIMIT;
	S.nfull += full - c->full;
	c->full = full;
	conn_events(c, (c->held ? 0 : EPOLLIN) | (o->len ? EPOLLOUT : 0));
}

static void
on_frame(struct conn *c, const char *f, size_t n)
{
	uint32_t box;
	memcpy(&box, f + 4, 4);
	if (box == BOX_SELF) {
		conn_send(c, f, n);
	} else if (box == BOX_JOIN) {
		uint32_t want;
		memcpy(&want, f + HEAD, 4);
		CHECK(want < NBOX && S.nbox[want] < BOX_MEMBERS);
		S.box[want][S.nbox[want]++] = c;
		conn_send(c, f, n);
	} else if (box == BOX_LOG) {
		out_add(&S.log, f, n);
		if (c->unacked++ == 0)
			S.posted[S.nposted++] = c;
	} else {
		CHECK(box < NBOX);
		for (int i = 0; i < S.nbox[box]; i++)
			conn_send(S.box[box][i], f, n);
	}
}

static void
conn_free(struct conn *c)
{
	close(c->fd);
	S.nfull -= c->full;
	for (int b = 0; b < NBOX; b++)
		for (int i = 0; i < S.nbox[b]; i++)
			if (S.box[b][i] == c)
				S.box[b][i--] = S.box[b][--S.nbox[b]];
	free(c->in);
	free(c->out.p);
	free(c);
}

static bool
conn_read(struct conn *c)
{
	static char buf[INBUF];
	size_t have = c->in_len, at = 0;
	memcpy(buf, c->in, have);
	ssize_t got = read(c->fd, buf + have, INBUF - have);
	if (got <= 0)
		return got < 0 && errno == EAGAIN;
	have += (size_t)got;
	while (have - at >= HEAD) {
		uint32_t len;
		memcpy(&len, buf + at, 4);
		if (have - at < HEAD + len)
			break;
		on_frame(c, buf + at, HEAD + len);
		at += HEAD + len;
	}
	c->in_len = have - at;
	if (c->in_len) {
		c->in = realloc(c->in, c->in_len);
		memcpy(c->in, buf + at, c->in_len);
	}
	return true;
}

static void *
sync_thread(void *arg)
{
	(void)arg;
	for (;;) {
		sleep(1);
		fdatasync(S.log_fd);
	}
	return NULL;
}

static void
broker(struct bench *b)
{
	int lfd = unix_listen(path_in(b, "sock"));
	struct epoll_event ev[64] = {{.events = EPOLLIN, .data.ptr = NULL}};
	S.ep = epoll_create1(EPOLL_CLOEXEC);
	CHECK(epoll_ctl(S.ep, EPOLL_CTL_ADD, lfd, &ev[0]) == 0);
	S.log_fd = open(path_in(b, "log"), O_WRONLY | O_CREAT, 0600);
	S.relaxed = b->relaxed;
	pthread_t t;
	if (S.relaxed)
		pthread_create(&t, NULL, sync_thread, NULL);
	for (;;) {
		int n = epoll_wait(S.ep, ev, 64, -1);
		for (int i = 0; i < n; i++) {
			struct conn *c = ev[i].data.ptr;
			if (!c) {
				int fd = accept4(lfd, NULL, NULL,
					SOCK_NONBLOCK | SOCK_CLOEXEC);
				CHECK(fd >= 0);
				c = calloc(1, sizeof *c);
				c->fd = fd;
				c->events = EPOLLIN;
				struct epoll_event e = {
					.events = EPOLLIN, .data.ptr = c};
				CHECK(epoll_ctl(S.ep, EPOLL_CTL_ADD, fd, &e) ==
					0);
				continue;
			}
			if (ev[i].events & EPOLLOUT && !c->dirty) {
				c->dirty = true;
				S.dirty[S.ndirty++] = c;
			}
			if (ev[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
				if (S.nfull > 0 && ev[i].events == EPOLLIN) {
					c->held = true;
					S.held[S.nheld++] = c;
					conn_events(c, c->events & ~EPOLLIN);
				} else if (!conn_read(c) && !c->dirty) {
					conn_free(c);
				}
			}
		}
		if (S.log.len) {
			size_t off = 0;
			while (off < S.log.len) {
				ssize_t k = write(S.log_fd, S.log.p + off,
					S.log.len - off);
				CHECK(k > 0);
				off += (size_t)k;
			}
			S.log.len = 0;
			if (!S.relaxed)
				CHECK(fdatasync(S.log_fd) == 0);
			for (int i = 0; i < S.nposted; i++) {
				uint32_t ack[3] = {
					4, BOX_LOG, S.posted[i]->unacked};
				S.posted[i]->unacked = 0;
				conn_send(S.posted[i], ack, sizeof ack);
			}
			S.nposted = 0;
		}
		for (int i = 0; i < S.ndirty; i++) {
			S.dirty[i]->dirty = false;
			conn_flush(S.dirty[i]);
		}
		S.ndirty = 0;
		if (S.nfull == 0 && S.nheld > 0) {
			for (int i = 0; i < S.nheld; i++) {
				S.held[i]->held = false;
				conn_events(
					S.held[i], S.held[i]->events | EPOLLIN);
			}
			S.nheld = 0;
		}
	}
}

static void
broker_start(struct bench *b)
{
	spawn_fn(b, broker);
}

static void
greet(int fd)
{
	uint32_t f[3] = {4, BOX_SELF, 7};

	write_all(fd, f, sizeof f);
	read_all(fd, f, sizeof f);
}

static int
broker_answers(struct bench *b)
{
	int fd = unix_connect(path_in(b, "sock"));

	if (fd < 0)
		return 0;
	greet(fd);
	close(fd);
	return 1;
}

static void
join(int fd, uint32_t box)
{
	uint32_t f[3] = {4, BOX_JOIN, box};
	write_all(fd, f, sizeof f);
	read_all(fd, f, sizeof f);
}

static void
broker_producer(struct bench *b, struct role *r)
{
	size_t frame = HEAD + b->size, batch = one_by_one(b) ? frame : BATCH,
	       used = 0;
	char *buf = calloc(1, BATCH + frame);
	uint32_t head[2] = {(uint32_t)b->size, BOX_FIRST};
	int fd = unix_connect_wait(path_in(b, "sock"));
	role_ready(r);
	while (memcpy(buf + used, head, HEAD), msg_next(r, buf + used + HEAD)) {
		used += frame;
		if (b->sync) { /* the ack is an empty frame that comes back */
			uint32_t ack[2] = {0, BOX_SELF};
			memcpy(buf + used, ack, HEAD);
			write_all(fd, buf, used + HEAD);
			read_all(fd, ack, HEAD);
			used = 0;
		} else if (used + frame > batch) {
			write_all(fd, buf, used);
			used = 0;
		}
	}
	write_all(fd, buf, used);
}

static void
broker_consumer(struct bench *b, struct role *r)
{
	char *buf = malloc(INBUF);
	size_t have = 0;
	int fd = unix_connect_wait(path_in(b, "sock"));
	join(fd, BOX_FIRST);
	role_ready(r);
	for (;;) {
		ssize_t n = read(fd, buf + have, INBUF - have);
		CHECK(n > 0);
		have += (size_t)n;
		size_t at = 0;
		while (have - at >= HEAD) {
			uint32_t len;
			memcpy(&len, buf + at, 4);
			if (have - at < HEAD + len)
				break;
			if (msg_got(r, buf + at + HEAD, len))
				return;
			at += HEAD + len;
		}
		memmove(buf, buf + at, have - at);
		have -= at;
	}
}

static void
call_loop(struct bench *b, struct role *r, uint32_t me, uint32_t to)
{
	char buf[HEAD + 64] = {0};
	uint32_t head[2] = {(uint32_t)b->size, to};
	int fd = unix_connect_wait(path_in(b, "sock"));
	if (me)
		join(fd, me);
	memcpy(buf, head, HEAD);
	role_ready(r);
	while (call_next(r, buf + HEAD)) {
		memcpy(buf, head, HEAD);
		write_all(fd, buf, HEAD + b->size);
		read_all(fd, buf, HEAD + b->size);
		call_done(r);
	}
}

static void
broker_caller(struct bench *b, struct role *r)
{
	call_loop(b, r, BOX_FIRST, BOX_FIRST + 1);
}

static void
broker_echo(struct bench *b, struct role *r)
{
	call_loop(b, r, 0, BOX_SELF);
}

static void
broker_responder(struct bench *b, struct role *r)
{
	char buf[HEAD + 64];
	uint32_t head[2] = {(uint32_t)b->size, BOX_FIRST};
	int fd = unix_connect_wait(path_in(b, "sock"));
	join(fd, BOX_FIRST + 1);
	role_ready(r);
	for (;;) {
		read_all(fd, buf, HEAD + b->size);
		memcpy(buf, head, HEAD);
		write_all(fd, buf, HEAD + b->size);
	}
}

/* Up to "depth" frames in flight; acks carry a count or are the frames. */
static void
posts(struct bench *b, struct role *r, uint32_t box, unsigned depth)
{
	size_t frame = HEAD + b->size, have = 0;
	char *buf = calloc(depth, frame), *in = malloc(INBUF);
	uint32_t head[2] = {(uint32_t)b->size, box};
	int fd = unix_connect_wait(path_in(b, "sock"));
	bool more = true;
	role_ready(r);
	while (more || post_open(r) > 0) {
		size_t used = 0;
		while (more && post_open(r) < depth) {
			memcpy(buf + used, head, HEAD);
			more = post_next(r, buf + used + HEAD);
			if (more)
				used += frame;
		}
		write_all(fd, buf, used);
		if (post_open(r) == 0)
			break;
		ssize_t n = read(fd, in + have, INBUF - have);
		CHECK(n > 0);
		have += (size_t)n;
		size_t at = 0;
		unsigned acks = 0;
		while (have - at >= HEAD) {
			uint32_t len, count = 1;
			memcpy(&len, in + at, 4);
			if (have - at < HEAD + len)
				break;
			if (box == BOX_LOG)
				memcpy(&count, in + at + HEAD, 4);
			acks += count;
			at += HEAD + len;
		}
		memmove(in, in + at, have - at);
		have -= at;
		post_acked(r, acks);
	}
}

static void
broker_echo_pipe(struct bench *b, struct role *r)
{
	posts(b, r, BOX_SELF, 256);
}

static void
broker_durable(struct bench *b, struct role *r)
{
	posts(b, r, BOX_LOG, 256);
}

static int
broker_open(struct bench *b, int i)
{
	(void)i;
	greet(unix_connect_wait(path_in(b, "sock")));
	return 1;
}

/* ---- raw-disk ---------------------------------------------------------- */

static void
disk_durable(struct bench *b, struct role *r)
{
	char buf[256] = {0};
	int fd = open(path_in(b, "log"), O_WRONLY | O_CREAT, 0600);
	CHECK(fd >= 0);
	role_ready(r);
	while (post_next(r, buf)) {
		write_all(fd, buf, sizeof buf);
		CHECK(fdatasync(fd) == 0);
		post_acked(r, 1);
	}
}

int
main(int argc, char **argv)
{
	static const struct peer peers[] = {
		{.name = "raw-unix",
			.producer = unix_producer,
			.consumer = unix_consumer,
			.caller = unix_caller,
			.responder = unix_responder,
			.skip = "fan-10 multi-8"},
		{.name = "raw-unix-1",
			.producer = unix_producer,
			.consumer = unix_consumer,
			.skip = "fan-10 multi-8"},
		{.name = "raw-broker",
			.server = broker_start,
			.answers = broker_answers,
			.producer = broker_producer,
			.consumer = broker_consumer,
			.caller = broker_caller,
			.responder = broker_responder,
			.echo = broker_echo,
			.echo_pipe = broker_echo_pipe,
			.durable = broker_durable,
			.open_conn = broker_open,
			.acks = true},
		{.name = "raw-broker-1",
			.server = broker_start,
			.answers = broker_answers,
			.producer = broker_producer,
			.consumer = broker_consumer,
			.skip = "idle"},
		{.name = "raw-disk",
			.durable = disk_durable,
			.skip = "dur-256-e"},
		{0},
	};
	return bench_main(argc, argv, peers);
}

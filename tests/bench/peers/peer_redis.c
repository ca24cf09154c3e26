/*
 * Redis over a Unix socket, through hiredis.
 *
 *   redis-list    a mailbox is a list: one RPUSH command per message,
 *                 pipelined; the consumer takes up to 512 at a time (BLMPOP)
 *   redis-listv   the same, but the producer puts up to 256 messages into
 *                 one RPUSH command (only possible if they are at hand)
 *   redis-stream  a mailbox is a stream: XADD, pipelined, and XREAD BLOCK
 *   redis-pubsub  PUBLISH and SUBSCRIBE: nothing is kept, nothing is acked
 *
 * In flight: at most two batches of 256 commands per producer; the harness
 * window bounds what may lie in the server.
 */
#include "common.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <hiredis/hiredis.h>

enum { BATCH = 256, TAKE = 512, DEPTH = 256 };

static bool
is(struct bench *b, const char *kind)
{
	return strcmp(b->peer->name + strlen("redis-"), kind) == 0;
}

static void
start(struct bench *b)
{
	write_file(path_in(b, "redis.conf"),
		"port 0\n"
		"unixsocket %s\n"
		"dir %s\n"
		"save \"\"\n"
		"appendonly %s\n"
		"appendfsync %s\n"
		"client-output-buffer-limit pubsub 0 0 0\n",
		path_in(b, "sock"), b->dir,
		strncmp(b->scenario, "dur", 3) == 0 ? "yes" : "no",
		b->relaxed ? "everysec" : "always");
	spawn(b, (const char *[]){
			 "redis-server", path_in(b, "redis.conf"), NULL});
}

static redisContext *
connect_to(struct bench *b)
{
	redisContext *c = redisConnectUnix(path_in(b, "sock"));
	CHECK(c && !c->err);
	return c;
}

static redisReply *
reply(redisContext *c)
{
	void *p;
	if (redisGetReply(c, &p) != REDIS_OK)
		die("redis: %s", c->errstr);
	redisReply *r = p;
	if (r->type == REDIS_REPLY_ERROR)
		die("redis: %s", r->str);
	return r;
}

static void
drop(redisContext *c)
{
	freeReplyObject(reply(c));
}

static void
flush(redisContext *c)
{
	int done = 0;
	while (!done)
		if (redisBufferWrite(c, &done) != REDIS_OK)
			die("redis: %s", c->errstr);
}

static int
answers(struct bench *b)
{
	redisContext *c = redisConnectUnix(path_in(b, "sock"));
	int ok = 0;
	if (c && !c->err) {
		redisReply *r = redisCommand(c, "PING");
		ok = r && r->type == REDIS_REPLY_STATUS &&
		     strcmp(r->str, "PONG") == 0;
		if (r)
			freeReplyObject(r);
	}
	if (c)
		redisFree(c);
	return ok;
}

/* ---- one way ----------------------------------------------------------- */

/* In fan-10 each consumer of a list has its own list. */
static const char *
box(int i)
{
	static char name[16];
	snprintf(name, sizeof name, "box:%d", i);
	return name;
}

static int
append_msg(struct bench *b, redisContext *c, const char *msg)
{
	if (is(b, "pubsub")) {
		const char *v[] = {"PUBLISH", "box:0", msg};
		size_t n[] = {7, 5, b->size};
		redisAppendCommandArgv(c, 3, v, n);
		return 1;
	}
	if (is(b, "stream")) {
		const char *v[] = {"XADD", "box:0", "MAXLEN", "~", "100000",
			"*", "m", msg};
		size_t n[] = {4, 5, 6, 1, 6, 1, 1, b->size};
		redisAppendCommandArgv(c, 8, v, n);
		return 1;
	}
	for (int i = 0; i < b->ncons; i++) {
		const char *v[] = {"RPUSH", box(i), msg};
		size_t n[] = {5, strlen(v[1]), b->size};
		redisAppendCommandArgv(c, 3, v, n);
	}
	return b->ncons;
}

static void
producer(struct bench *b, struct role *r)
{
	redisContext *c = connect_to(b);
	char *msgs = calloc(BATCH, b->size);
	int last = 0, more = 1; /* replies still to come of the last batch */
	int batch = b->sync ? 1 : BATCH;
	role_ready(r);
	while (more) {
		int now = 0;
		if (is(b, "listv")) {
			const char *v[BATCH + 2] = {"RPUSH"};
			size_t n[BATCH + 2] = {5};
			int k = 0;
			while (k < batch &&
				(more = msg_next(
					 r, msgs + (size_t)k * b->size))) {
				v[k + 2] = msgs + (size_t)k * b->size;
				n[k + 2] = b->size;
				k++;
			}
			for (int i = 0; k && i < b->ncons; i++) {
				v[1] = box(i);
				n[1] = strlen(v[1]);
				redisAppendCommandArgv(c, k + 2, v, n);
				now++;
			}
		} else {
			for (int k = 0; k < batch && (more = msg_next(r, msgs));
				k++)
				now += append_msg(b, c, msgs);
		}
		flush(c);
		while (last-- > 0)
			drop(c);
		last = now;
		while (b->sync && last > 0)
			drop(c), last--;
		msg_wait(r);
	}
	while (last-- > 0)
		drop(c);
}

static void
consumer(struct bench *b, struct role *r)
{
	redisContext *c = connect_to(b);
	if (is(b, "pubsub")) {
		freeReplyObject(redisCommand(c, "SUBSCRIBE box:0"));
		role_ready(r);
		for (int end = 0; !end;) {
			redisReply *m = reply(c);
			end = msg_got(
				r, m->element[2]->str, m->element[2]->len);
			freeReplyObject(m);
		}
	} else if (is(b, "stream")) {
		char id[64] = "0-0";
		role_ready(r);
		for (int end = 0; !end;) {
			redisReply *m = redisCommand(c,
				"XREAD COUNT %d BLOCK 0 STREAMS box:0 %s", TAKE,
				id);
			CHECK(m && m->type == REDIS_REPLY_ARRAY &&
				m->elements == 1);
			redisReply *list = m->element[0]->element[1];
			for (size_t i = 0; i < list->elements; i++) {
				redisReply *f = list->element[i]->element[1];
				end = msg_got(r, f->element[1]->str,
					f->element[1]->len);
			}
			snprintf(id, sizeof id, "%s",
				list->element[list->elements - 1]
					->element[0]
					->str);
			freeReplyObject(m);
		}
	} else {
		role_ready(r);
		for (int end = 0; !end;) {
			redisReply *m =
				redisCommand(c, "BLMPOP 0 1 %s LEFT COUNT %d",
					box(r->idx), TAKE);
			CHECK(m && m->type == REDIS_REPLY_ARRAY &&
				m->elements == 2);
			redisReply *list = m->element[1];
			for (size_t i = 0; i < list->elements; i++)
				end = msg_got(r, list->element[i]->str,
					list->element[i]->len);
			freeReplyObject(m);
		}
	}
}

/* ---- request and reply ------------------------------------------------- */

/*
 * Lists: push the request and wait for the reply in one write.  Pub/sub needs
 * a second connection, as a subscribed one may not publish.
 */
static void
exchange(struct bench *b, struct role *r, const char *in, const char *out,
	bool first)
{
	redisContext *c = connect_to(b), *sub = NULL;
	char buf[64] = {0};
	if (is(b, "pubsub")) {
		sub = connect_to(b);
		freeReplyObject(redisCommand(sub, "SUBSCRIBE %s", in));
	}
	role_ready(r);
	if (!first && !sub)
		redisAppendCommand(c, "BLPOP %s 0", in);
	while (first ? call_next(r, buf) : 1) {
		redisReply *m;
		if (sub) {
			if (first)
				redisAppendCommand(
					c, "PUBLISH %s %b", out, buf, b->size),
					drop(c);
			m = reply(sub);
			CHECK(m->elements == 3 &&
				(size_t)m->element[2]->len == b->size);
			if (!first)
				redisAppendCommand(c, "PUBLISH %s %b", out,
					m->element[2]->str, b->size),
					drop(c);
		} else {
			if (first) {
				redisAppendCommand(
					c, "RPUSH %s %b", out, buf, b->size);
				redisAppendCommand(c, "BLPOP %s 0", in);
				drop(c);
			}
			m = reply(c);
			CHECK(m->elements == 2 &&
				(size_t)m->element[1]->len == b->size);
			if (!first) {
				redisAppendCommand(c, "RPUSH %s %b", out,
					m->element[1]->str, b->size);
				redisAppendCommand(c, "BLPOP %s 0", in);
				drop(c);
			}
		}
		freeReplyObject(m);
		if (first)
			call_done(r);
	}
}

static void
caller(struct bench *b, struct role *r)
{
	exchange(b, r, "rep", "req", true);
}

static void
responder(struct bench *b, struct role *r)
{
	exchange(b, r, "req", "rep", false);
}

/* ---- the server alone -------------------------------------------------- */

static void
echo(struct bench *b, struct role *r)
{
	redisContext *c = connect_to(b);
	char buf[64] = {0};
	role_ready(r);
	while (call_next(r, buf)) {
		redisReply *m = redisCommand(c, "ECHO %b", buf, b->size);
		CHECK(m && (size_t)m->len == b->size);
		freeReplyObject(m);
		call_done(r);
	}
}

/* Fill up to DEPTH, flush, take every reply that has come, repeat. */
static void
posts(struct bench *b, struct role *r, bool durable)
{
	redisContext *c = connect_to(b);
	char *buf = calloc(DEPTH, b->size);
	unsigned group[DEPTH], head = 0,
			       tail = 0; /* messages per open command */
	bool more = true;
	role_ready(r);
	while (more || post_open(r) > 0) {
		while (more && post_open(r) < DEPTH) {
			unsigned k = 0;
			const char *v[DEPTH + 2] = {"RPUSH", "box:0"};
			size_t n[DEPTH + 2] = {5, 5};
			unsigned max = 1;
			if (durable &&
				is(b, "listv")) /* one sync, or overlap */
				max = b->relaxed ? DEPTH / 2 : DEPTH;
			if (max > DEPTH - post_open(r))
				break;
			while (k < max &&
				(more = post_next(r, buf + k * b->size))) {
				v[k + 2] = buf + k * b->size;
				n[k + 2] = b->size;
				k++;
			}
			if (k == 0)
				break;
			if (!durable)
				redisAppendCommand(c, "ECHO %b", buf, b->size);
			else if (is(b, "stream"))
				append_msg(b, c, buf);
			else
				redisAppendCommandArgv(c, (int)k + 2, v, n);
			group[head++ % DEPTH] = k;
		}
		if (post_open(r) == 0)
			break;
		flush(c);
		drop(c);
		unsigned acked = group[tail++ % DEPTH];
		for (void *p;
			redisGetReplyFromReader(c, &p) == REDIS_OK && p;) {
			freeReplyObject(p);
			acked += group[tail++ % DEPTH];
		}
		post_acked(r, acked);
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

/* ---- posts that are taken and settled ----------------------------------- */

/* Up to DEPTH from the post to the settling that is safe. */
static void
post_settled(struct bench *b, struct role *r, redisContext *c)
{
	char *msg = calloc(1, b->size);
	unsigned open = 0; /* answers to come */
	bool more = true;

	while (more || post_open(r) > 0) {
		while (more && post_open(r) < DEPTH) {
			more = post_next(r, msg);
			if (more)
				open += (unsigned)append_msg(b, c, msg);
		}
		flush(c);
		for (; open; open--)
			drop(c);
		if (post_open(r) > 0)
			post_acked(r, settled_wait(r));
	}
}

static void
settle_all(redisContext *c, const redisReply *list, struct role *r)
{
	const char *v[DEPTH + 3] = {"XACK", "box:0", "group"};
	size_t n[DEPTH + 3] = {4, 5, 5};

	for (size_t i = 0; i < list->elements; i++) {
		const redisReply *id = list->element[i]->element[0];
		const redisReply *f = list->element[i]->element[1];

		CHECK(f->element[1]->len == (size_t)r->b->size);
		v[i + 3] = id->str;
		n[i + 3] = (size_t)id->len;
	}
	redisAppendCommandArgv(c, (int)list->elements + 3, v, n);
	drop(c);
	settled_more(r, (unsigned)list->elements);
}

/* One consumer of a group. */
static void
settled(struct bench *b, struct role *r)
{
	redisContext *c = connect_to(b);

	if (r->kind == DURABLE) {
		role_ready(r);
		post_settled(b, r, c);
		return;
	}
	freeReplyObject(
		redisCommand(c, "XGROUP CREATE box:0 group $ MKSTREAM"));
	role_ready(r);
	for (;;) {
		redisReply *m = redisCommand(c,
			"XREADGROUP GROUP group one COUNT %d BLOCK 0 "
			"STREAMS box:0 >",
			DEPTH);

		CHECK(m && m->type == REDIS_REPLY_ARRAY && m->elements == 1);
		settle_all(c, m->element[0]->element[1], r);
		freeReplyObject(m);
	}
}

/* ---- idle connections -------------------------------------------------- */

static redisContext *idle[2000];

static int
open_conn(struct bench *b, int i)
{
	idle[i] = connect_to(b);
	redisReply *r = redisCommand(idle[i], "PING");
	CHECK(r);
	freeReplyObject(r);
	return 1;
}

static int
open_sub(struct bench *b, int i)
{
	(void)b;
	redisReply *r = redisCommand(idle[i], "SUBSCRIBE box:%d", i);
	CHECK(r);
	freeReplyObject(r);
	return 1;
}

int
main(int argc, char **argv)
{
	static const struct peer peers[] = {
		{.name = "redis-list",
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
		{.name = "redis-listv",
			.server = start,
			.answers = answers,
			.producer = producer,
			.consumer = consumer,
			.durable = durable,
			.window = 4096,
			.skip = "idle"},
		{.name = "redis-stream",
			.server = start,
			.answers = answers,
			.producer = producer,
			.consumer = consumer,
			.durable = durable,
			.settled = settled,
			.window = 4096,
			.skip = "idle",
			.acks = true},
		{.name = "redis-pubsub",
			.server = start,
			.answers = answers,
			.producer = producer,
			.consumer = consumer,
			.caller = caller,
			.responder = responder,
			.window = 4096,
			.skip = "idle",
			.acks = true},
		{0},
	};
	return bench_main(argc, argv, peers);
}

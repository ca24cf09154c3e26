/* Large output of a connection: payloads that are written from where they lie,
 * and descriptors, which go with a certain byte. One of them is on its way at a
 * time; what is in the output buffer goes before and behind it. See conn.h. */
#include <errno.h>
#include <sys/socket.h>

#include "envelope.h"
#include "net/conn.h"
#include "net/memfd.h"
#include "passing.h"

static void
begin(struct conn *c, struct msg_body *body)
{
	c->large = (struct outlarge){
		.body = msg_body_ref(body),
		.before = outbuf_size(&c->out),
		.fd = -1,
	};
	loop_defer(c->loop, &c->flush);
}

void
conn_drop_large(struct conn *c)
{
	c->large.body = msg_body_unref(c->large.body);
}

void
conn_put_large(
	struct conn *c, struct msg_body *body, const uint8_t *data, size_t size)
{
	begin(c, body);
	c->large.data = data;
	c->large.size = size;
	conn_write_some(c); /* what is wrong is seen at the end of the turn */
}

void
conn_put_region(
	struct conn *c, struct envelope *e, struct msg_body *body, bool passes)
{
	int fd = passes ? memfd_of(body->region) : -1;
	uint32_t size = e->payload_size;
	uint8_t *out;

	if (fd >= 0) {
		e->memfd_size = size;
		e->payload_size = 0;
	}
	out = conn_room(c, envelope_bound(e) - e->payload_size + 16);
	if (!out)
		return;
	if (fd >= 0) { /* it goes with the first byte of what follows */
		begin(c, body);
		c->large.fd = fd;
	}
	conn_wrote(c, envelope_encode_frame_head(e, out));
	if (fd < 0)
		conn_put_large(c, body, body->payload, size);
}

void
conn_send_reply_region(struct conn *c, uint64_t call, struct msg_body *body)
{
	struct envelope e = {
		.re = call,
		.payload = body->payload,
		.payload_size = body->region->size,
	};

	conn_put_region(c, &e, body, c->takes_replies);
}

static size_t
less(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* @n bytes have been written: what stands before the large one, it, and what
 * is behind it. */
static void
wrote(struct conn *c, size_t n)
{
	struct outlarge *l = &c->large;
	size_t before = less(n, l->before);
	size_t data = less(n - before, l->size - l->sent);

	l->before -= before;
	l->sent += data;
	if (n - data)
		outbuf_consume(&c->out, &c->net->pool, n - data);
	if (!l->before && l->sent == l->size && l->fd < 0)
		conn_drop_large(c);
}

/* One system call. @passes: the descriptor goes with what is written. */
static ssize_t
write_once(struct conn *c, bool passes)
{
	struct outlarge *l = &c->large;
	bool large = conn_has_large(c) && !passes;
	size_t size = outbuf_size(&c->out), before = large ? l->before : size;
	struct iovec parts[2 * OUTBUF_PARTS + 1];
	size_t n = 0;

	if (outbuf_parts(&c->out, 0, before, parts, &n) == before && large &&
		l->fd < 0) {
		parts[n++] =
			(struct iovec){(void *)(uintptr_t)(l->data + l->sent),
				l->size - l->sent};
		outbuf_parts(&c->out, before, size - before, parts, &n);
	}
	return passed_send(c->fd, parts, n, passes ? l->fd : -1);
}

int
conn_write_some(struct conn *c)
{
	while (conn_has_large(c) || outbuf_size(&c->out)) {
		bool passes = conn_has_large(c) && c->large.fd >= 0 &&
			      !c->large.before;
		ssize_t n = write_once(c, passes);

		if (n <= 0)
			return n ? -1 : 0;
		if (passes) /* it has gone with these bytes */
			c->large.fd = -1;
		wrote(c, (size_t)n);
	}
	return 0;
}

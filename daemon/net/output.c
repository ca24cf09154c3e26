/* Output of a connection: frames gathered in one buffer and written once a
 * turn. See conn.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/log.h"
#include "envelope.h"
#include "frame.h"
#include "kernel/notice.h"
#include "net/binding.h"
#include "net/conn.h"
#include "parts.h"

uint8_t *
conn_delivery_room_any(struct conn *c, size_t size)
{
	uint8_t *out;

	if (c->state >= CONN_ENDING)
		return NULL;
	if (outbuf_size(&c->out) > CONN_OUT_MAX) { /* one may be larger */
		conn_close(c, "it does not read: 64 MiB wait for it");
		return NULL;
	}
	out = outbuf_reserve(&c->out, &c->net->pool, size);
	if (!out)
		conn_close(c, "out of memory");
	return out;
}

void
conn_send_message(
	struct conn *c, unsigned field, const ProtobufCMessage *message)
{
	size_t size = protobuf_c_message_get_packed_size(message);
	uint8_t head[PART_HEAD_MAX];
	size_t head_size = part_put_head(head, field, size);
	uint8_t *start = conn_room(c, FRAME_HEAD_MAX + head_size + size), *out;

	if (!start)
		return;
	out = start + varint_put(start, head_size + size);
	memcpy(out, head, head_size);
	out += head_size;
	out += protobuf_c_message_pack(message, out);
	conn_wrote(c, (size_t)(out - start));
}

void
conn_send_failure(struct conn *c, uint64_t seq, int status, const char *text)
{
	Eventd__V1__Failure failure = EVENTD__V1__FAILURE__INIT;

	failure.seq = seq;
	failure.status = (uint32_t)status;
	failure.text = (char *)(text ? text : sched_end_text(status));
	conn_send_message(c, FRAME_FAILURE, &failure.base);
}

void
conn_send_reply(struct conn *c, uint64_t call, int status, const void *data,
	size_t size)
{
	uint8_t *out = conn_room(c, PLAIN_ROOM + size);

	if (!out)
		return;
	conn_wrote(c, plain_reply_encode_frame(
			      &(struct plain_reply){
				      .re = call,
				      .status = (uint32_t)status,
				      .payload = data,
				      .payload_size = (uint32_t)size,
			      },
			      out));
}

/* Down, a change of names or of its children. */
void
conn_notice(struct conn *c, const struct msg *m)
{
	Eventd__V1__Notice notice = EVENTD__V1__NOTICE__INIT;
	Eventd__V1__Down down = EVENTD__V1__DOWN__INIT;
	Eventd__V1__NameChange name = EVENTD__V1__NAME_CHANGE__INIT;
	Eventd__V1__ChildChange child = EVENTD__V1__CHILD_CHANGE__INIT;
	struct notice n;

	notice_read(m, &n);
	if (m->event == notice_down) {
		down.watch = n.watch;
		down.session = n.session;
		down.alias = (char *)n.alias;
		down.reason = (char *)n.reason;
		down.text = (char *)n.text;
		notice.what_case = EVENTD__V1__NOTICE__WHAT_DOWN;
		notice.down = &down;
	} else if (m->event == notice_name) {
		if (!rights_may(c->peer.rights, RIGHT_WATCH, n.alias, NULL))
			return;
		name.watch = n.watch;
		name.alias = (char *)n.alias;
		name.up = n.up;
		name.session = n.session;
		name.lost = n.lost;
		notice.what_case = EVENTD__V1__NOTICE__WHAT_NAME;
		notice.name = &name;
	} else if (m->event == notice_child) {
		child.session = n.session;
		child.alias = (char *)n.alias;
		child.change = (char *)n.change;
		child.reason = (char *)n.reason;
		child.text = (char *)n.text;
		notice.what_case = EVENTD__V1__NOTICE__WHAT_CHILD;
		notice.child = &child;
	} else {
		return; /* a connection has no aliases */
	}
	conn_send_message(c, FRAME_NOTICE, &notice.base);
}

/* ---- acks -------------------------------------------------------------- */

/* As many as settle in one turn: bounded by what is read in one, and by the
 * window. */
static int
also_add(struct conn *c, uint64_t seq)
{
	if (c->n_also == c->also_room) {
		uint32_t room = c->also_room ? c->also_room * 2 : 16;
		uint64_t *also = realloc(c->also, room * sizeof(*also));

		if (!also)
			return err_raise(-ENOMEM);
		c->also = also;
		c->also_room = room;
	}
	c->also[c->n_also++] = seq;
	return 0;
}

void
conn_post_settled(struct conn *c, uint64_t seq, uint32_t size)
{
	if (c->state == CONN_CLOSING)
		return;
	c->n_posts--;
	c->posts_size -= size;
	if (!acks_settle(&c->acks, seq) && also_add(c, seq))
		conn_close(c, "out of memory");
	loop_defer(c->loop, &c->flush);
}

static void
put_ack(struct conn *c)
{
	uint64_t upto = acks_upto(&c->acks, c->seq);
	uint8_t *out;

	if (upto == c->ack_sent && !c->n_also)
		return;
	out = conn_room(c, ack_frame_bound(c->n_also));
	if (!out)
		return;
	outbuf_add(&c->out, ack_encode_frame(upto, c->also, c->n_also, out));
	c->ack_sent = upto;
	c->n_also = 0;
}

/* ---- the write --------------------------------------------------------- */

/* Go on with what was left unread, if there is room for the answers. */
static void
pace_input(struct conn *c)
{
	if (outbuf_size(&c->out) > CONN_OUT_HIGH)
		c->input_paused = true;
	else if (c->input_paused && outbuf_size(&c->out) <= CONN_OUT_LOW &&
		 c->peer.n_requests < VERB_REQUESTS_MAX)
		conn_resume_input(c);
}

/* While the loop has more to run, a few deliveries wait for others: each write
 * may wake their reader. */
static bool
may_gather(struct conn *c)
{
	if (c->hasty || !c->loop->sched.run_head ||
		outbuf_size(&c->out) >= CONN_GATHER || !outbuf_size(&c->out) ||
		conn_has_large(c) || c->n_held >= CONN_GATHER_TURNS) {
		c->hasty = false;
		c->n_held = 0;
		return false;
	}
	c->n_held++;
	loop_defer(c->loop, &c->flush);
	pace_input(c);
	return true;
}

/* Once, what the socket takes of the buffer. */
static ssize_t
write_buffer(struct conn *c)
{
	struct iovec parts[OUTBUF_PARTS];
	struct msghdr m = {.msg_iov = parts};
	ssize_t n;

	outbuf_parts(&c->out, 0, outbuf_size(&c->out), parts, &m.msg_iovlen);
	if (m.msg_iovlen == 1)
		n = send(c->fd, parts->iov_base, parts->iov_len,
			MSG_NOSIGNAL | MSG_DONTWAIT);
	else
		n = sendmsg(c->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n > 0)
		outbuf_consume(&c->out, &c->net->pool, (size_t)n);
	return n;
}

void
conn_flush(struct conn *c)
{
	bool was_high = outbuf_size(&c->out) > CONN_OUT_LOW;
	ssize_t n = 0;

	if (c->state == CONN_CLOSING)
		return;
	c->n_served = 0;
	conn_charge(c);
	put_ack(c);
	if (c->state == CONN_CLOSING ||
		conn_is_patient(c, outbuf_size(&c->out)) || may_gather(c))
		return;
	if (conn_has_large(c))
		n = conn_write_some(c);
	else if (outbuf_size(&c->out))
		n = write_buffer(c);
	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		conn_close(c, strerror(errno));
		return;
	}
	if (c->state == CONN_ENDING && !outbuf_size(&c->out) &&
		!conn_has_large(c)) {
		conn_close(c, "ended with an error");
		return;
	}
	if (c->is_deaf && !conn_owes(c)) {
		conn_close(c, "the client says no more");
		return;
	}
	pace_input(c);
	conn_update_poll(c);
	if (c->large_waits && !conn_has_large(c)) {
		c->large_waits = false;
		bindings_wake(c);
	}
	if (was_high && outbuf_size(&c->out) <= CONN_OUT_LOW) {
		session_wake(c->session);
		bindings_wake(c);
	}
}

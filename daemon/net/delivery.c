/* Deliveries: how the events of a binding go to its client's socket. The thread
 * of the connection's loop. */
#include "envelope.h"
#include "kernel/notice.h"
#include "net/binding.h"
#include "net/inbound.h"
#include "parts.h"

/* How long its caller waits yet, 0: not known. */
static uint32_t
left_ms(struct binding *b, const struct msg *m)
{
	uint64_t now = b->conn->loop->sched.now_ns, left;

	if (!msg_call(m) || !msg_deadline_ns(m))
		return 0;
	left = msg_deadline_ns(m) > now ? (msg_deadline_ns(m) - now) / NS_PER_MS
					: 0;
	if (left > UINT32_MAX)
		return 0;
	return left ? (uint32_t)left : 1;
}

/* Nothing of it is but what all have. */
static inline bool
is_plain(const struct msg *m)
{
	const struct msg_wide *wide;

	if ((m->flags & (MSG_SHARED | MSG_URGENT | MSG_LENT)) ||
		m->headers_size || m->attempt)
		return false;
	if (!(m->flags & MSG_WIDE))
		return true;
	wide = msg_wide(m);
	return !(wide->late_ns | wide->due_ns);
}

static void
write_call(struct binding *b, const struct msg *m, uint64_t handle)
{
	uint8_t *out = conn_room(
		b->conn, PLAIN_ROOM + (size_t)m->event_size + m->size);

	if (!out)
		return;
	conn_wrote(b->conn, plain_call_encode_frame(
				    &(struct plain_call){
					    .to = b->number,
					    .call = handle,
					    .id = m->id,
					    .from = m->from,
					    .event = m->event,
					    .payload = m->data,
					    .payload_size = m->size,
					    .deadline_ms = left_ms(b, m),
					    .event_size = m->event_size,
				    },
				    out));
}

static inline void
write_plain(struct binding *b, const struct msg *m)
{
	struct conn *c = b->conn;
	uint8_t *out = conn_delivery_room(
		c, PLAIN_ROOM + (size_t)m->event_size + m->size);

	if (!out)
		return;
	conn_wrote(c, plain_encode_frame(
			      &(struct plain_envelope){
				      .to = b->number,
				      .id = m->id,
				      .from = m->from,
				      .event = m->event,
				      .payload = m->data,
				      .payload_size = m->size,
				      .event_size = m->event_size,
			      },
			      out));
}

static void
write_delivery(struct binding *b, const struct msg *m, uint64_t handle)
{
	struct envelope e = {
		.to = b->number,
		.event = m->event,
		.event_size = m->event_size,
		.payload = msg_payload(m),
		.payload_size = m->size,
		.headers = msg_headers(m),
		.headers_size = m->headers_size,
		.call = handle,
		.id = m->id,
		.from = msg_sender(m),
		.attempt = m->attempt,
		.late_ns = msg_late_ns(m),
		.priority = m->flags & MSG_URGENT ? 1 : 0,
		.deadline_ms = left_ms(b, m),
		.due_ns = msg_due_ns(m),
	};
	uint8_t *out;

	if (msg_region(m)) {
		conn_put_region(b->conn, &e, msg_body(m), b->conn->passed);
		return;
	}
	out = conn_room(b->conn, envelope_bound(&e) + 16);
	if (out)
		conn_wrote(b->conn, envelope_encode_frame(&e, out));
}

/* The same of one that many get: @m refers to all but the binding's number. */
static void
write_shared(struct binding *b, const struct msg *m)
{
	struct msg_body *body = msg_body(m);
	bool large = body->size >= CONN_LARGE;
	uint8_t *out = conn_delivery_room(b->conn,
		(large ? 0 : body->size) + (size_t)ENVELOPE_SHARED_ROOM);

	if (!out)
		return;
	if (large) {
		conn_wrote(b->conn, envelope_encode_shared_head(b->number,
					    m->attempt, body->size, out));
		conn_put_large(b->conn, body, body->bytes, body->size);
	} else {
		conn_wrote(
			b->conn, envelope_encode_shared(b->number, m->attempt,
					 body->bytes, body->size, out));
	}
}

/* What is stored once is not copied for one that is slow: a large one waits for
 * its turn at the socket. */
static bool
has_to_wait(struct conn *c, const struct msg *m)
{
	if (!conn_has_large(c) || !(m->flags & MSG_SHARED) ||
		(!msg_region(m) && msg_body(m)->size < CONN_LARGE))
		return false;
	return c->large_waits = true;
}

void
delivery_gap(struct binding *b, const struct msg *m)
{
	Eventd__V1__Notice notice = EVENTD__V1__NOTICE__INIT;
	Eventd__V1__Gap gap = EVENTD__V1__GAP__INIT;
	struct notice n;

	notice_read(m, &n);
	gap.binding = b->number;
	gap.from = n.from;
	gap.to = n.to;
	gap.count = n.lost;
	notice.what_case = EVENTD__V1__NOTICE__WHAT_GAP;
	notice.gap = &gap;
	conn_send_message(b->conn, FRAME_NOTICE, &notice.base);
}

/* False: not now. */
bool
delivery_tell_gap(struct binding *b, const struct msg *m)
{
	if (!conn_takes_deliveries(b->conn))
		return false;
	delivery_gap(b, m);
	return true;
}

/* To the socket, as the next delivery; false: not now. */
bool
delivery_write(struct binding *b, const struct msg *m)
{
	uint64_t handle = 0;
	bool plain = is_plain(m);

	if (!conn_takes_deliveries(b->conn) || has_to_wait(b->conn, m))
		return false;
	if (plain && !msg_call(m)) {
		write_plain(b, m);
		return true;
	}
	if (msg_call(m)) {
		handle = inbound_add(
			b->conn, m, b->number, b->lease.delivered + 1);
		if (!handle)
			return false; /* out of memory; settles retry */
	}
	if (plain)
		write_call(b, m, handle);
	else if ((m->flags & MSG_MANY) && msg_body(m)->is_delivery)
		write_shared(b, m);
	else
		write_delivery(b, m, handle);
	return true;
}

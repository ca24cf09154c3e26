#include "net/landing.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fault.h"
#include "envelope.h"
#include "frame.h"
#include "net/arrival.h"
#include "parts.h"
#include "wire.h"

enum { ENVELOPE_PAYLOAD = 4 };

/* Where an envelope that is not whole has what. */
struct outline {
	const uint8_t *fields;  /* the first */
	const uint8_t *behind;  /* those before the payload */
	const uint8_t *payload; /* its bytes begin; NULL: none that is large */
	uint64_t size;          /* of the payload */
	const uint8_t *end;     /* of the envelope; beyond what has come */
};

/* Past the tag and the length of field @number at @p; NULL: it is another, or
 * not there as yet. */
static const uint8_t *
take_head(const uint8_t *p, const uint8_t *end, uint32_t number, uint64_t *size)
{
	size_t n;

	if (p == end || *p != (number << 3 | WIRE_BYTES))
		return NULL;
	n = wire_varint(++p, end, size);
	return n ? p + n : NULL;
}

/* One field that is whole; false: it is not, or is malformed. */
static bool
pass_field(const uint8_t **p, const uint8_t *end)
{
	struct wire_field f;

	return wire_next(p, end, &f);
}

/* The frame that begins at @p is one envelope with a large payload, as far as
 * can be seen. */
static bool
outline_read(struct outline *o, const uint8_t *p, const uint8_t *end)
{
	uint64_t body, size;
	size_t n = wire_varint(p, end, &body);
	const uint8_t *first = p + n;

	if (!n || body > MSG_PAYLOAD_MAX)
		return false;
	p = take_head(first, end, FRAME_ENVELOPE, &size);
	if (!p || size > MSG_PAYLOAD_MAX ||
		(uint64_t)(p - first) + size != body)
		return false;
	o->fields = p;
	o->end = p + size;
	while (!(o->payload = take_head(p, end, ENVELOPE_PAYLOAD, &o->size)))
		if (!pass_field(&p, end))
			return false;
	o->behind = p;
	return o->size > LANDING_MIN &&
	       o->size <= (uint64_t)(o->end - o->payload);
}

/* Charge the user with it and find memory; or it is passed over. */
static void
find_room(struct conn *c, struct landing *l)
{
	struct charges *charges = &c->loop->sched.charges;

	l->lacks = charge_take(charges, c->peer.user->index, l->size);
	if (l->lacks != CHARGES) {
		l->status = EVD_STATUS_LIMIT;
		return;
	}
	l->charged = true;
	l->region = msg_region_new(l->size);
	if (!l->region)
		l->status = EVD_STATUS_NO_MEMORY;
}

static struct landing *
landing_new(const struct outline *o, size_t head_size, size_t fields_size)
{
	struct landing *l =
		FAULT(landing_new) ? NULL : malloc(sizeof(*l) + fields_size);

	if (!l)
		return NULL;
	*l = (struct landing){
		.size = (uint32_t)o->size,
		.head_size = (uint32_t)head_size,
		.fields_size = (uint32_t)fields_size,
		.fields_got = (uint32_t)head_size,
	};
	return l;
}

static uint8_t *
payload_of(const struct landing *l)
{
	return l->region ? (uint8_t *)(uintptr_t)l->region->bytes : NULL;
}

bool
landing_begin(struct conn *c, const uint8_t *data, size_t size)
{
	struct outline o;
	const uint8_t *end = data + size;
	struct landing *l;
	size_t head_size, tail_size;

	if (c->state != CONN_OPEN || c->in_done ||
		!outline_read(&o, data, end) || end >= o.end)
		return false;
	head_size = (size_t)(o.behind - o.fields);
	tail_size = (size_t)(o.end - o.payload) - o.size;
	if (head_size + tail_size > LANDING_FIELDS_MAX)
		return false;
	l = landing_new(&o, head_size, head_size + tail_size);
	if (!l)
		return false; /* then it is read as others are */
	memcpy(l->fields, o.fields, head_size);
	find_room(c, l);
	l->got = (uint32_t)(end - o.payload);
	if (l->got > l->size) {
		l->fields_got += l->got - l->size;
		memcpy(l->fields + head_size, o.payload + l->size,
			l->got - l->size);
		l->got = l->size;
	}
	if (l->region)
		memcpy(payload_of(l), o.payload, l->got);
	c->landing = l;
	return true;
}

/* Its own charge; the message that it becomes has another. */
static void
uncharge(struct conn *c, struct landing *l)
{
	if (l->charged)
		charge_add(&c->loop->sched.charges, c->peer.user->index, -1,
			-(int64_t)l->size);
	l->charged = false;
}

void
landing_drop(struct conn *c)
{
	struct landing *l = c->landing;

	c->landing = NULL;
	if (!l)
		return;
	uncharge(c, l);
	if (l->region)
		l->region->release(l->region);
	free(l);
}

/* It has landed. */
static void
finish(struct conn *c)
{
	struct landing *l = c->landing;
	struct arrival arrival = {.status = l->status};
	struct envelope e;
	int r = envelope_decode(&e, l->fields, l->fields_size);

	uncharge(c, l);
	if (!r && !e.payload && !e.memfd_size) {
		e.payload = payload_of(l);
		e.payload_size = l->size;
		arrival.region = TAKE(l->region);
		if (l->status == EVD_STATUS_LIMIT)
			user_refuse(&c->loop->sched.kernel->users, c->peer.user,
				l->lacks, c->loop->sched.now_ns, arrival.text,
				sizeof(arrival.text));
		else if (l->status)
			strcpy(arrival.text, "out of memory");
		arrival_run(c, &e, &arrival);
	} else { /* malformed, or a second payload, which counts, as the last */
		conn_on_envelope(c, &e, r);
	}
	landing_drop(c);
}

void
landing_read(struct conn *c)
{
	struct landing *l = c->landing;
	uint32_t left = l->size - l->got;
	uint8_t *to = l->region ? payload_of(l) + l->got : NULL;
	struct iovec parts[2] = {
		{to, left},
		{l->fields + l->fields_got, l->fields_size - l->fields_got},
	};
	ssize_t n;

	if (!l->region) {
		parts[0].iov_base = c->loop->read_buffer;
		if (left > LOOP_READ_SIZE) {
			parts[0].iov_len = LOOP_READ_SIZE;
			parts[1].iov_len = 0;
		}
	}
	n = conn_receive(c, parts, 2);
	if (n <= 0)
		return;
	if ((size_t)n > left) {
		l->fields_got += (uint32_t)n - left;
		l->got = l->size;
	} else {
		l->got += (uint32_t)n;
	}
	if (l->got == l->size && l->fields_got == l->fields_size)
		finish(c);
}

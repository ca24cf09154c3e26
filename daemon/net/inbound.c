#include "net/inbound.h"

#include <stdlib.h>

#include "net/conn.h"
#include "parts.h"

static int
inbound_grow(struct conn *c)
{
	uint32_t room = c->inbound_room ? c->inbound_room * 2 : 16;
	struct inbound *ring = calloc(room, sizeof(*ring));

	if (!ring)
		return -1;
	for (uint32_t i = 0; i < c->inbound_room; i++)
		if (c->inbound[i].handle)
			ring[c->inbound[i].handle % room] = c->inbound[i];
	free(c->inbound);
	c->inbound = ring;
	c->inbound_room = room;
	return 0;
}

/* When the ring is at its largest and its place is still taken, the oldest call
 * is answered for the client: it kept it too long. */
uint64_t
inbound_add(struct conn *c, const struct msg *m, uint64_t binding,
	uint64_t delivery)
{
	static const char text[] = "the consumer left too many calls open";
	uint64_t handle = c->last_handle + 1;
	struct inbound *slot = NULL;

	while (!slot || slot->handle) {
		if (c->inbound_room)
			slot = &c->inbound[handle % c->inbound_room];
		if (slot && !slot->handle)
			break;
		if (c->inbound_room < CONN_INBOUND_MAX && !inbound_grow(c)) {
			slot = NULL;
			continue;
		}
		if (!slot)
			return 0; /* out of memory */
		sched_reply(&c->loop->sched, slot->call, EVD_STATUS_LIMIT, text,
			sizeof(text) - 1);
		slot->handle = 0;
	}
	slot->handle = handle;
	slot->call = msg_call(m);
	slot->deadline_ns = msg_deadline_ns(m);
	slot->binding = binding;
	slot->delivery = delivery;
	c->last_handle = handle;
	return handle;
}

const struct inbound *
inbound_find(const struct conn *c, uint64_t handle)
{
	const struct inbound *slot;

	if (!handle || !c->inbound_room)
		return NULL;
	slot = &c->inbound[handle % c->inbound_room];
	return slot->handle == handle ? slot : NULL;
}

uint64_t
inbound_take(struct conn *c, uint64_t handle)
{
	struct inbound *slot = (struct inbound *)inbound_find(c, handle);

	if (!slot)
		return 0;
	slot->handle = 0;
	return slot->call;
}

bool
inbound_cancel(struct conn *c, uint64_t call)
{
	Eventd__V1__Notice notice = EVENTD__V1__NOTICE__INIT;
	Eventd__V1__CallCancelled cancelled = EVENTD__V1__CALL_CANCELLED__INIT;
	struct inbound *slot = c->inbound, *end = slot + c->inbound_room;

	while (slot < end && (!slot->handle || slot->call != call))
		slot++;
	if (slot == end)
		return false;
	cancelled.call = slot->handle;
	slot->handle = 0; /* an answer that comes yet is late */
	notice.what_case = EVENTD__V1__NOTICE__WHAT_CALL_CANCELLED;
	notice.call_cancelled = &cancelled;
	conn_send_message(c, FRAME_NOTICE, &notice.base);
	return true;
}

void
inbound_abandon(struct conn *c, uint64_t binding, uint64_t settled)
{
	static const char text[] = "the consumer unbound before it answered";

	for (uint32_t i = 0; i < c->inbound_room; i++) {
		struct inbound *slot = &c->inbound[i];

		if (!slot->handle || slot->binding != binding ||
			slot->delivery <= settled)
			continue;
		sched_reply(&c->loop->sched, slot->call, EVD_STATUS_DIED, text,
			sizeof(text) - 1);
		slot->handle = 0;
	}
}

void
inbound_drop(struct conn *c)
{
	static const char text[] = "the consumer disconnected";

	for (uint32_t i = 0; i < c->inbound_room; i++)
		if (c->inbound[i].handle)
			sched_reply(&c->loop->sched, c->inbound[i].call,
				EVD_STATUS_DIED, text, sizeof(text) - 1);
	free(c->inbound);
	c->inbound = NULL;
	c->inbound_room = 0;
}

/* Call: asking and answering. Numbers of calls are slots, ours and those that
 * were delivered alike. Belongs to the thread that uses the handle. */
#include <errno.h>
#include <string.h>

#include "internal.h"
#include "status.h"

enum call_mode { CALL_SYNC, CALL_ASYNC };

/* ---- asking ---- */

static uint32_t
wire_timeout(const struct evd *c, int timeout_ms)
{
	if (timeout_ms == 0)
		return c->call_timeout_ms;
	return timeout_ms < 0 ? UINT32_MAX : (uint32_t)timeout_ms;
}

/* Send a call: its number or -errno. */
static int64_t
call_send(struct evd *c, const struct message *m, int timeout_ms,
	enum call_mode mode)
{
	int64_t deadline = evd__deadline(c, 0);
	struct envelope e;
	struct slot *slot;
	int r = evd__ready(c, deadline);

	if (!r)
		r = evd__room_wait(
			c, m->size + ENVELOPE_ROOM + OUT_WRITE, deadline);
	if (!r)
		r = evd__message_check(c, m, &e);
	if (r)
		return r;
	slot = slots_add(&c->calls, (uint32_t)c->max_calls);
	if (!slot)
		return evd__fail(c, EVD_STATUS_FULL,
			"%" PRIu32 " calls are outstanding: the daemon's limit "
			"is %" PRIu64,
			c->calls.used, c->max_calls);
	slot->mode = mode;
	e.call = slot->number;
	e.timeout_ms = wire_timeout(c, timeout_ms);
	if (evd__out_envelope(c, &e, true)) {
		slots_remove(&c->calls, slot);
		return evd__fail(c, EVD_STATUS_NO_MEMORY, "out of memory");
	}
	if (mode == CALL_ASYNC && evd__out_pending(c) >= c->out.mark)
		evd__write(c);
	return (int64_t)e.call;
}

static int
call(struct evd *c, const struct message *m, int timeout_ms,
	struct evd_event **reply)
{
	int64_t number, deadline = INT64_MAX;
	struct slot *slot;
	uint32_t ms;
	int r;

	EVD_CHECK(c);
	number = call_send(c, m, timeout_ms, CALL_SYNC);
	if (number < 0)
		return (int)number;
	ms = wire_timeout(c, timeout_ms);
	if (ms && timeout_ms >= 0)
		deadline = evd__now_ns() +
			   ((int64_t)ms + CALL_SLACK_MS) * INT64_C(1000000);
	memset(&c->sync, 0, sizeof(c->sync));
	c->sync.call = (uint64_t)number;
	r = evd__sync_wait(c, deadline, "answer the call");
	slot = slots_find(&c->calls, (uint64_t)number);
	if (slot)
		slots_remove(&c->calls, slot);
	if (!r && reply)
		*reply = c->sync.reply;
	else
		evd_event_free(c->sync.reply);
	memset(&c->sync, 0, sizeof(c->sync));
	return r;
}

/* Seven parameters: all that a plain call is made of. */
int
evd_call(struct evd *c, const char *alias, const char *event, const void *data,
	size_t size, int timeout_ms, struct evd_event **reply)
{
	struct message m = {alias, 0, event, data, size};

	EVD_CHECK(c);
	if (!alias)
		return evd__alias_check(c, alias);
	return call(c, &m, timeout_ms, reply);
}

/* Seven parameters: the same. */
int
evd_call_id(struct evd *c, uint64_t id, const char *event, const void *data,
	size_t size, int timeout_ms, struct evd_event **reply)
{
	struct message m = {NULL, id, event, data, size};

	return call(c, &m, timeout_ms, reply);
}

int64_t
evd_call_start(struct evd *c, const char *alias, const char *event,
	const void *data, size_t size, int timeout_ms)
{
	struct message m = {alias, 0, event, data, size};

	EVD_CHECK(c);
	if (!alias)
		return evd__alias_check(c, alias);
	return call_send(c, &m, timeout_ms, CALL_ASYNC);
}

int64_t
evd_call_start_id(struct evd *c, uint64_t id, const char *event,
	const void *data, size_t size, int timeout_ms)
{
	struct message m = {NULL, id, event, data, size};

	EVD_CHECK(c);
	return call_send(c, &m, timeout_ms, CALL_ASYNC);
}

/* A decoded envelope as EVD_REPLY. */
static void
reply_fill(struct evd *c, struct evd_event *ev, uint64_t number)
{
	struct envelope e = ev->e;

	evd__event_init(c, ev, EVD_REPLY);
	ev->e = e;
	ev->e.call = 0;
	ev->number = number;
	if (!e.status)
		return;
	ev->status =
		e.status <= INT32_MAX ? (int)e.status : EVD_STATUS_INTERNAL;
	ev->text = (const char *)e.payload;
	ev->text_size = e.payload_size;
	if (ev->text_size)
		return;
	ev->text = status_text(ev->status);
	ev->text_size = strlen(ev->text);
}

static void
sync_done(struct evd *c, const struct evd_event *ev)
{
	c->sync.done = true;
	c->sync.status = ev->status;
	if (ev->status) {
		evd__fail_text(c, ev->status, ev->text, ev->text_size);
		return;
	}
	c->sync.reply = evd__event_copy(ev);
	if (c->sync.reply)
		return;
	c->sync.status = EVD_STATUS_NO_MEMORY;
	evd__fail(c, EVD_STATUS_NO_MEMORY, "out of memory");
}

/* The answer in ev->e; false if nobody is to be told. */
bool
evd__on_reply(struct evd *c, struct evd_event *ev)
{
	struct slot *slot = slots_find(&c->calls, ev->e.re);
	uint64_t number;
	uint32_t mode;

	if (!slot) /* late: its caller has gone on */
		return false;
	number = slot->number;
	mode = slot->mode;
	slots_remove(&c->calls, slot);
	reply_fill(c, ev, number);
	if (mode == CALL_ASYNC)
		return true;
	if (c->sync.call == number)
		sync_done(c, ev);
	return false;
}

static void
lost_queue(struct evd *c, int type, uint64_t number)
{
	static const char text[] =
		"the connection was lost; the outcome is unknown";
	struct evd_event ev;

	evd__event_init(c, &ev, type);
	ev.number = number;
	ev.status = EVD_STATUS_LOST;
	ev.text_z = text;
	evd__event_queue(c, &ev, true);
}

void
evd__calls_lost(struct evd *c)
{
	for (uint32_t i = 0; i < c->calls.n; i++) {
		const struct slot *slot = &c->calls.v[i];

		if (slot->number && slot->mode == CALL_ASYNC)
			lost_queue(c, EVD_REPLY, slot->number);
	}
	if (c->sync.call && !c->sync.done) {
		c->sync.done = true;
		c->sync.status = EVD_STATUS_LOST;
	}
	slots_clear(&c->calls);
	slots_clear(&c->callers);
	c->callers_lost = c->callers.generation << SLOTS_BITS | SLOTS_MAX;
}

/* ---- answering ---- */

static int
reply_failed(struct evd *c, uint64_t call)
{
	if (!call)
		return evd__fail(c, EVD_STATUS_INVALID,
			"this event is not a call: nobody waits for a reply");
	if (call <= c->callers_lost)
		return evd__fail(c, EVD_STATUS_LOST,
			"the connection that the call came by is lost");
	return evd__fail(c, EVD_STATUS_NOT_FOUND,
		"the call is answered already, or was not deferred");
}

static int
reply(struct evd *c, uint64_t call, int status, const void *data, size_t size)
{
	struct slot *slot = slots_find(&c->callers, call);
	struct envelope e;
	int r;

	if (!slot)
		return reply_failed(c, call);
	if (size > c->max_payload)
		return evd__fail(c, EVD_STATUS_TOO_LARGE,
			"reply of %zu bytes is over the daemon's limit of "
			"%" PRIu64,
			size, c->max_payload);
	if (!data && size)
		return evd__fail(c, EVD_STATUS_INVALID,
			"a reply of %zu bytes, but no data", size);
	r = evd__room_wait(c, size + ENVELOPE_ROOM, evd__deadline(c, 0));
	if (r)
		return r;
	slot = slots_find(&c->callers, call); /* waiting may have lost it */
	if (!slot)
		return reply_failed(c, call);
	envelope_init(&e);
	e.re = slot->value;
	e.status = (uint32_t)status;
	e.payload = data;
	e.payload_size = (uint32_t)size;
	if (evd__out_envelope(c, &e, true))
		return evd__fail(c, EVD_STATUS_NO_MEMORY, "out of memory");
	slots_remove(&c->callers, slot);
	if (c->given && c->given->type == EVD_DELIVERY &&
		c->given->e.call == call)
		c->given->deferred = true;
	if (evd__out_pending(c) >= c->out.mark)
		evd__write(c);
	return 0;
}

int
evd_reply(struct evd *c, uint64_t call, const void *data, size_t size)
{
	EVD_CHECK(c);
	return reply(c, call, 0, data, size);
}

int
evd_reply_error(struct evd *c, uint64_t call, const char *text)
{
	EVD_CHECK(c);
	return reply(c, call, EVD_STATUS_HANDLER, text ? text : "",
		text ? strlen(text) : 0);
}

int
evd_defer(struct evd *c, const struct evd_event *event)
{
	EVD_CHECK(c);
	if (event != c->given || event->type != EVD_DELIVERY || !event->e.call)
		return evd__fail(c, EVD_STATUS_INVALID,
			"only the call that evd_next() gave last can be "
			"answered later");
	c->given->deferred = true;
	return 0;
}

void
evd__reply_empty(struct evd *c, uint64_t call)
{
	struct slot *slot = slots_find(&c->callers, call);
	struct envelope e;

	if (!slot)
		return;
	envelope_init(&e);
	e.re = slot->value;
	slots_remove(&c->callers, slot);
	evd__out_envelope(c, &e, true);
}

/* Call: asking and answering. Numbers of calls are slots, ours and those that
 * were delivered alike. Belongs to the thread that uses the handle. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "memfd.h"
#include "status.h"

enum {
	CALL_SHORT_MAX = 4096, /* bytes of a payload that goes the short way */
	CALL_ROOM = ENVELOPE_ROOM + EVD_HEADERS_MAX + OUT_WRITE,
};

/* ---- asking ---- */

/* A call that is made while another is answered has no more time than that. */
uint32_t
evd__call_timeout(const struct evd *c, int timeout_ms)
{
	uint32_t ms = timeout_ms < 0 ? UINT32_MAX : (uint32_t)timeout_ms;
	int64_t left;

	if (timeout_ms == 0)
		ms = c->call_timeout_ms;
	if (!c->given || c->given->type != EVD_DELIVERY || !c->given->e.call ||
		c->given->deferred || c->given_deadline_ns == INT64_MAX)
		return ms;
	left = (c->given_deadline_ns - evd__now_ns()) / 1000000;
	if (left < 1)
		return 1;
	return left < ms ? (uint32_t)left : ms;
}

int
evd__call_options(struct evd *c, const struct evd_call_options *opt,
	struct evd_call_options *out)
{
	memset(out, 0, sizeof(*out));
	if (!opt)
		return 0;
	if (opt->size < offsetof(struct evd_call_options, priority))
		return evd__fail(c, EVD_STATUS_INVALID,
			"options: size is %zu, set it to sizeof", opt->size);
	memcpy(out, opt, opt->size < sizeof(*out) ? opt->size : sizeof(*out));
	if (out->priority > EVD_URGENT)
		return evd__fail(c, EVD_STATUS_INVALID,
			"priority %" PRIu32 " is not one of evd_priority",
			out->priority);
	return 0;
}

static int
call_encode(struct evd *c, const struct message *m,
	const struct evd_call_options *opt, struct envelope *e)
{
	int r = evd__message_check(c, m, e);

	if (!r)
		r = evd__headers_encode(c, opt->headers, opt->n_headers, e);
	if (r)
		return r;
	e->priority = (uint8_t)opt->priority;
	e->ttl_ms = opt->ttl_ms;
	e->timeout_ms = evd__call_timeout(c, opt->timeout_ms);
	return 0;
}

/* Where it goes, as the wire has it; false: it wants a closer look. */
static inline bool
call_target(const struct evd *c, const struct message *m, struct plain_call *e)
{
	const struct ref *ref;
	size_t n;

	if (!m->alias) {
		ref = m->id - 1 < c->n_refs ? &c->refs[m->id - 1] : NULL;
		e->to = ref && ref->alias ? ref->wire : 0;
		return e->to;
	}
	n = strlen(m->alias);
	e->alias = m->alias;
	e->alias_size = (uint16_t)n;
	return name_is_valid(m->alias, n, EVD_ALIAS_MAX);
}

/* The hot path: a small call in whose way nothing is. NULL: it goes the long
 * way, which also says why it cannot. */
static inline struct slot *
call_shortly(struct evd *c, const struct message *m,
	const struct evd_call_options *opt)
{
	size_t n = m->event ? strlen(m->event) : 0;
	struct plain_call e = {
		.event = m->event,
		.event_size = (uint8_t)n,
		.payload = m->data,
		.payload_size = (uint32_t)m->size,
	};
	struct slot *slot;
	uint8_t *p;

	if (c->state != CONN_READY || opt->n_headers || opt->priority ||
		opt->ttl_ms || m->size > CALL_SHORT_MAX ||
		m->size > c->max_payload || (!m->data && m->size) ||
		evd__out_pending(c) + CALL_ROOM + m->size > c->max_queued ||
		!name_is_valid(m->event, n, EVD_EVENT_MAX) ||
		!call_target(c, m, &e))
		return NULL;
	p = evd__out_gather(c, PLAIN_ROOM + e.alias_size + n + m->size, true);
	slot = p ? slots_add(&c->calls, (uint32_t)c->max_calls) : NULL;
	if (!slot)
		return NULL;
	e.call = slot->number;
	e.timeout_ms = evd__call_timeout(c, opt->timeout_ms);
	c->out.tail += plain_call_encode_part(&e, p);
	return slot;
}

static int64_t
call_sent(struct evd *c, struct slot *slot, enum call_mode mode, size_t index)
{
	uint64_t number = slot->number;

	slot->mode = mode;
	slot->value = index;
	if (mode != CALL_SYNC && evd__out_pending(c) >= c->out.mark)
		evd__write(c);
	return (int64_t)number;
}

int64_t
evd__call_send(struct evd *c, const struct message *m,
	const struct evd_call_options *opt, enum call_mode mode, size_t index)
{
	struct slot *slot = call_shortly(c, m, opt);
	struct envelope e;
	int64_t deadline;
	int r;

	if (LIKELY(slot))
		return call_sent(c, slot, mode, index);
	deadline = evd__deadline(c, 0);
	r = evd__ready(c, deadline);
	if (!r)
		r = evd__room_wait(c,
			(evd__memfd_wants(c, m) ? 0 : m->size) + CALL_ROOM,
			deadline);
	if (!r)
		r = call_encode(c, m, opt, &e);
	if (!r && e.memfd_size) {
		r = evd__memfd_stage(c, m, deadline);
		if (r)
			free((void *)(uintptr_t)e.headers);
	}
	if (r)
		return r;
	slot = slots_add(&c->calls, (uint32_t)c->max_calls);
	if (!slot) {
		free((void *)(uintptr_t)e.headers);
		if (e.memfd_size)
			evd__memfd_unstage(c);
		return evd__fail(c, EVD_STATUS_FULL,
			"%" PRIu32 " calls are outstanding: the daemon's limit "
			"is %" PRIu64,
			c->calls.used, c->max_calls);
	}
	e.call = slot->number;
	r = evd__out_envelope(c, &e, true);
	free((void *)(uintptr_t)e.headers);
	if (r) {
		slots_remove(&c->calls, slot);
		return evd__fail(c, EVD_STATUS_NO_MEMORY, "out of memory");
	}
	return call_sent(c, slot, mode, index);
}

static int
call(struct evd *c, const struct message *m, const struct evd_call_options *opt,
	struct evd_event **reply)
{
	int64_t number, deadline = INT64_MAX;
	struct slot *slot;
	uint32_t ms;
	int r;

	EVD_CHECK(c);
	number = evd__call_send(c, m, opt, CALL_SYNC, 0);
	if (number < 0)
		return (int)number;
	ms = evd__call_timeout(c, opt->timeout_ms);
	if (ms && ms != UINT32_MAX)
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

/* Seven parameters: those of a plain call, in their order. */
int
evd_call_opt(struct evd *c, const char *alias, const char *event,
	const void *data, size_t size, const struct evd_call_options *opt,
	struct evd_event **reply)
{
	struct evd_call_options o;
	struct message m = {alias, 0, event, data, size, 0};
	int r;

	EVD_CHECK(c);
	r = evd__call_options(c, opt, &o);
	if (r)
		return r;
	m.id = o.id;
	return call(c, &m, &o, reply);
}

int64_t
evd_call_start_opt(struct evd *c, const char *alias, const char *event,
	const void *data, size_t size, const struct evd_call_options *opt)
{
	struct evd_call_options o;
	struct message m = {alias, 0, event, data, size, 0};
	int r;

	EVD_CHECK(c);
	r = evd__call_options(c, opt, &o);
	if (r)
		return r;
	m.id = o.id;
	return evd__call_send(c, &m, &o, CALL_ASYNC, 0);
}

/* Seven parameters: all that a plain call is made of. */
int
evd_call(struct evd *c, const char *alias, const char *event, const void *data,
	size_t size, int timeout_ms, struct evd_event **reply)
{
	struct message m = {alias, 0, event, data, size, 0};

	EVD_CHECK(c);
	if (!alias)
		return evd__alias_check(c, alias);
	return call(c, &m, &(struct evd_call_options){.timeout_ms = timeout_ms},
		reply);
}

/* Seven parameters: the same. */
int
evd_call_id(struct evd *c, uint64_t id, const char *event, const void *data,
	size_t size, int timeout_ms, struct evd_event **reply)
{
	struct message m = {NULL, id, event, data, size, 0};

	return call(c, &m, &(struct evd_call_options){.timeout_ms = timeout_ms},
		reply);
}

int64_t
evd_call_start(struct evd *c, const char *alias, const char *event,
	const void *data, size_t size, int timeout_ms)
{
	struct message m = {alias, 0, event, data, size, 0};

	EVD_CHECK(c);
	if (!alias)
		return evd__alias_check(c, alias);
	return evd__call_send(c, &m,
		&(struct evd_call_options){.timeout_ms = timeout_ms},
		CALL_ASYNC, 0);
}

int64_t
evd_call_start_id(struct evd *c, uint64_t id, const char *event,
	const void *data, size_t size, int timeout_ms)
{
	struct message m = {NULL, id, event, data, size, 0};

	EVD_CHECK(c);
	return evd__call_send(c, &m,
		&(struct evd_call_options){.timeout_ms = timeout_ms},
		CALL_ASYNC, 0);
}

/* A decoded envelope as EVD_REPLY. */
static void
reply_fill(struct evd *c, struct evd_event *ev, uint64_t number)
{
	struct envelope e = ev->e;
	struct map *map = ev->map;

	evd__event_init(c, ev, EVD_REPLY);
	ev->e = e;
	ev->map = map;
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

/* The same of an answer that is no more than its payload. */
static void
sync_done_plain(struct evd *c, uint64_t number, const struct envelope *e)
{
	struct evd_event *reply = malloc(sizeof(*reply) + e->payload_size + 1);
	uint8_t *data = (uint8_t *)(reply + 1);

	c->sync.done = true;
	if (!reply) {
		c->sync.status = EVD_STATUS_NO_MEMORY;
		evd__fail(c, EVD_STATUS_NO_MEMORY, "out of memory");
		return;
	}
	evd__event_init(c, reply, EVD_REPLY);
	reply->owner = NULL;
	reply->number = number;
	reply->name_z = reply->alias_z = reply->text_z = "";
	if (e->payload_size)
		memcpy(data, e->payload, e->payload_size);
	data[e->payload_size] = '\0';
	reply->e.re = e->re;
	reply->e.payload = data;
	reply->e.payload_size = e->payload_size;
	c->sync.reply = reply;
}

/* The answer in ev->e; false if nobody is to be told. */
bool
evd__on_reply(struct evd *c, struct evd_event *ev)
{
	struct slot *slot = slots_find(&c->calls, ev->e.re);
	uint64_t number, index;
	uint32_t mode;

	if (!slot) /* late: its caller has gone on */
		return false;
	number = slot->number;
	mode = slot->mode;
	index = slot->value;
	slots_remove(&c->calls, slot);
	if (LIKELY(mode == CALL_SYNC && !ev->e.rare && !ev->map)) {
		if (c->sync.call == number)
			sync_done_plain(c, number, &ev->e);
		return false;
	}
	reply_fill(c, ev, number);
	if (mode == CALL_GATHER)
		evd__answers_take(c, index, ev);
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
	if (c->sync.answers)
		evd__answers_lost(c);
	if (c->sync.call && !c->sync.done) {
		c->sync.done = true;
		c->sync.status = EVD_STATUS_LOST;
	}
	slots_clear(&c->calls);
	slots_clear(&c->callers);
	c->callers_lost = c->callers.generation << SLOTS_BITS | SLOTS_MAX;
}

/* ---- cancelling ---- */

int
evd__call_cancel(struct evd *c, uint64_t number)
{
	Eventd__V1__Request request = EVENTD__V1__REQUEST__INIT;
	Eventd__V1__CancelCall cancel = EVENTD__V1__CANCEL_CALL__INIT;
	int64_t r;

	cancel.call = number;
	request.verb_case = EVENTD__V1__REQUEST__VERB_CANCEL_CALL;
	request.cancel_call = &cancel;
	r = evd__request_send(c, &request, 0, REQUEST_ABANDONED);
	return r < 0 ? (int)r : 0;
}

int
evd_call_cancel(struct evd *c, uint64_t call)
{
	EVD_CHECK(c);
	if (!slots_find(&c->calls, call))
		return evd__fail(c, EVD_STATUS_NOT_FOUND,
			"no call %" PRIu64 " waits for an answer", call);
	return evd__call_cancel(c, call);
}

bool
evd__on_cancelled(struct evd *c, struct evd_event *ev, uint64_t handle)
{
	for (uint32_t i = 0; i < c->callers.n; i++) {
		struct slot *slot = &c->callers.v[i];

		if (!slot->number || slot->value != handle)
			continue;
		evd__event_init(c, ev, EVD_CALL_CANCELLED);
		ev->number = slot->number;
		slots_remove(&c->callers, slot);
		return true;
	}
	return false;
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

/* 0, or -EAGAIN: out of memory. */
static int
reply_put(struct evd *c, const struct plain_reply *e)
{
	size_t room = PLAIN_ROOM + (size_t)e->payload_size;
	bool gathers = room <= OUT_FRAME_MAX;
	uint8_t *p = gathers ? evd__out_gather(c, room, true)
			     : evd__out_room(c, room, true);

	if (!p)
		return -EAGAIN;
	c->out.tail += gathers ? plain_reply_encode_part(e, p)
			       : plain_reply_encode_frame(e, p);
	return 0;
}

static void
reply_made(struct evd *c, uint64_t call, struct slot *slot)
{
	slots_remove(&c->callers, slot);
	if (c->given && c->given->type == EVD_DELIVERY &&
		c->given->e.call == call)
		c->given->deferred = true;
	if (evd__out_pending(c) >= c->out.mark)
		evd__write(c);
}

static int
reply(struct evd *c, uint64_t call, int status, const void *data, size_t size)
{
	struct slot *slot = slots_find(&c->callers, call);
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
	r = reply_put(c, &(struct plain_reply){
				 .re = slot->value,
				 .status = (uint32_t)status,
				 .payload = data,
				 .payload_size = (uint32_t)size,
			 });
	if (r)
		return evd__fail(c, EVD_STATUS_NO_MEMORY, "out of memory");
	reply_made(c, call, slot);
	return 0;
}

/* As a memfd. */
int
evd__reply_message(struct evd *c, uint64_t call, const struct message *m)
{
	int64_t deadline = evd__deadline(c, 0);
	struct slot *slot = slots_find(&c->callers, call);
	struct envelope e = {.memfd_size = (uint32_t)m->size};
	int r;

	if (!slot)
		return reply_failed(c, call);
	r = evd__room_wait(c, ENVELOPE_ROOM, deadline);
	if (!r)
		r = evd__memfd_stage(c, m, deadline);
	if (r)
		return r;
	slot = slots_find(&c->callers, call); /* waiting may have lost it */
	if (!slot) {
		evd__memfd_unstage(c);
		return reply_failed(c, call);
	}
	e.re = slot->value;
	if (evd__out_envelope(c, &e, true))
		return evd__fail(c, EVD_STATUS_NO_MEMORY, "out of memory");
	reply_made(c, call, slot);
	return 0;
}

int
evd_reply(struct evd *c, uint64_t call, const void *data, size_t size)
{
	struct message m = {.data = data, .size = size};

	EVD_CHECK(c);
	if (data && evd__memfd_wants_reply(c, &m))
		return evd__reply_message(c, call, &m);
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
evd__forward_begin(struct evd *c, uint64_t call, struct envelope *e)
{
	const struct slot *slot = slots_find(&c->callers, call);

	if (!slot)
		return reply_failed(c, call);
	e->forward = slot->value;
	return 0;
}

void
evd__forward_end(struct evd *c, uint64_t call)
{
	struct slot *slot = slots_find(&c->callers, call);

	if (slot)
		slots_remove(&c->callers, slot);
	if (c->given && c->given->type == EVD_DELIVERY &&
		c->given->e.call == call)
		c->given->deferred = true;
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
	struct plain_reply e = {0};

	if (!slot)
		return;
	e.re = slot->value;
	slots_remove(&c->callers, slot);
	reply_put(c, &e);
}

/* Request: what is asked of the daemon itself, its answers, and ids.
 * Belongs to the thread that uses the handle. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "parts.h"
#include "prescan.h"
#include "status.h"

enum {
	RESPONSE_ARENA_MAX = 256 << 20,
	RESPONSE_DEPTH_MAX = 8,
	RESPONSE_FIELDS_MAX = 1 << 20,
};

/* ---- sending ---- */

int64_t
evd__request_send(struct evd *c, Eventd__V1__Request *request, uint64_t arg,
	enum request_mode mode)
{
	struct slot *slot;
	int r = 0;

	if (mode != REQUEST_AGAIN && mode != REQUEST_LATER)
		r = evd__ready(c, evd__deadline(c, 0));
	if (r)
		return r;
	slot = slots_add(&c->requests, REQUESTS_MAX);
	if (!slot)
		return evd__fail(c, EVD_STATUS_FULL,
			"%" PRIu32 " requests are outstanding: the limit of "
			"this library is %d",
			c->requests.used, REQUESTS_MAX);
	slot->kind = (uint32_t)request->verb_case;
	slot->mode = mode;
	slot->value = arg;
	request->id = slot->number;
	if (evd__out_message(c, FRAME_REQUEST, &request->base,
		    mode == REQUEST_AGAIN || mode == REQUEST_LATER)) {
		slots_remove(&c->requests, slot);
		return evd__fail(c, EVD_STATUS_FULL,
			"%zu bytes wait to be written: the limit of this "
			"program's evd_set_max_queued() is %zu",
			evd__out_pending(c), c->max_queued);
	}
	return (int64_t)request->id;
}

int
evd__request(struct evd *c, Eventd__V1__Request *request, uint64_t arg,
	struct response **out)
{
	return evd__request_until(c, request, arg, out, evd__deadline(c, 0));
}

int
evd__request_until(struct evd *c, Eventd__V1__Request *request, uint64_t arg,
	struct response **out, int64_t deadline)
{
	int64_t number;
	struct slot *slot;
	int r;

	EVD_CHECK(c);
	number = evd__request_send(c, request, arg, REQUEST_SYNC);
	if (number < 0)
		return (int)number;
	memset(&c->sync, 0, sizeof(c->sync));
	c->sync.request = (uint64_t)number;
	c->sync.wants_response = out;
	r = evd__sync_wait(c, deadline, "answer the request");
	slot = slots_find(&c->requests, (uint64_t)number);
	if (slot)
		slot->mode = REQUEST_ABANDONED;
	if (!r && out)
		*out = c->sync.response;
	else
		evd__response_free(c->sync.response);
	memset(&c->sync, 0, sizeof(c->sync));
	return r;
}

int
evd__request_for(struct evd *c, Eventd__V1__Request *request,
	Eventd__V1__Response__ResultCase result, struct response **out)
{
	struct response *response = NULL;
	int r = evd__request(c, request, 0, &response);

	if (r)
		return r;
	if (response->pb->result_case != result) {
		evd__response_free(response);
		return evd__fail(c, EVD_STATUS_PROTOCOL,
			"the daemon's answer is not what was asked for");
	}
	*out = response;
	return 0;
}

/* ---- answers ---- */

struct response *
evd__response_free(struct response *response)
{
	if (!response)
		return NULL;
	arena_deinit(&response->arena);
	free(response);
	return NULL;
}

static struct response *
response_unpack(const uint8_t *data, size_t size)
{
	struct response *r;
	ProtobufCAllocator allocator;

	if (proto_prescan(&eventd__v1__response__descriptor, data, size,
		    RESPONSE_DEPTH_MAX, RESPONSE_FIELDS_MAX))
		return NULL;
	r = malloc(sizeof(*r));
	if (!r)
		return NULL;
	arena_init(&r->arena, RESPONSE_ARENA_MAX);
	allocator = arena_allocator(&r->arena);
	r->pb = eventd__v1__response__unpack(&allocator, size, data);
	return r->pb ? r : evd__response_free(r);
}

/* Nobody waits for the binding any more: give it back. */
void
evd__unbind_abandoned(struct evd *c, uint64_t number)
{
	Eventd__V1__Request request = EVENTD__V1__REQUEST__INIT;
	Eventd__V1__Unbind unbind = EVENTD__V1__UNBIND__INIT;

	unbind.binding = number;
	request.verb_case = EVENTD__V1__REQUEST__VERB_UNBIND;
	request.unbind = &unbind;
	evd__request_send(c, &request, number, REQUEST_LATER);
}

static uint64_t
bind_answered(
	struct evd *c, const struct slot *slot, const Eventd__V1__Response *pb)
{
	struct binding *b = evd__binding(c, slot->value);

	if (!b)
		return 0;
	if (pb->status) {
		if (slot->mode != REQUEST_AGAIN && slot->mode != REQUEST_LATER)
			evd__binding_free(c, b);
		return 0;
	}
	b->bound = true;
	if (pb->result_case == EVENTD__V1__RESPONSE__RESULT_BOUND) {
		b->granted_events = pb->bound->window_events;
		b->granted_bytes = pb->bound->window_bytes;
	}
	if (!b->granted_bytes)
		b->granted_bytes = UINT64_MAX / 2;
	if (slot->mode == REQUEST_ABANDONED)
		evd__unbind_abandoned(c, slot->value);
	return slot->value;
}

static void
ref_free(struct evd *c, uint64_t id)
{
	free(c->refs[id - 1].alias);
	c->refs[id - 1].alias = NULL;
}

/* A reference that cannot be had again is no loss: then the alias goes. */
static uint64_t
resolve_answered(
	struct evd *c, const struct slot *slot, const Eventd__V1__Response *pb)
{
	if (!pb->status &&
		pb->result_case == EVENTD__V1__RESPONSE__RESULT_RESOLVED &&
		slot->mode != REQUEST_ABANDONED) {
		c->refs[slot->value - 1].wire = pb->resolved->ref;
		return slot->value;
	}
	if (slot->mode != REQUEST_AGAIN)
		ref_free(c, slot->value);
	return 0;
}

/* One that nobody waits for any more is of no use. */
static uint64_t
watch_answered(
	struct evd *c, const struct slot *slot, const Eventd__V1__Response *pb)
{
	if (!pb->status && slot->mode != REQUEST_ABANDONED &&
		pb->result_case != EVENTD__V1__RESPONSE__RESULT_WATCHED)
		return 0; /* told by who asked */
	if (!pb->status && slot->mode != REQUEST_ABANDONED)
		return evd__watch_answered(c, slot->value, pb->watched->watch);
	evd__watch_drop(c, slot->value);
	return 0;
}

/* What the answer means to the handle; returns the result for the user. */
static uint64_t
apply(struct evd *c, const struct slot *slot, const Eventd__V1__Response *pb)
{
	switch (slot->kind) {
	case EVENTD__V1__REQUEST__VERB_BIND:
		return bind_answered(c, slot, pb);
	case EVENTD__V1__REQUEST__VERB_UNBIND:
		if (!pb->status || pb->status == EVD_STATUS_NOT_FOUND)
			evd__binding_free(c, evd__binding(c, slot->value));
		return 0;
	case EVENTD__V1__REQUEST__VERB_RESOLVE:
		return resolve_answered(c, slot, pb);
	case EVENTD__V1__REQUEST__VERB_DELAY:
		if (pb->status ||
			pb->result_case != EVENTD__V1__RESPONSE__RESULT_DELAYED)
			return 0;
		c->timer_due_ns = pb->delayed->due_ns;
		c->timer_replaced = pb->delayed->replaced;
		return pb->delayed->timer;
	case EVENTD__V1__REQUEST__VERB_WATCH:
	case EVENTD__V1__REQUEST__VERB_WATCH_NAMES:
		return watch_answered(c, slot, pb);
	case EVENTD__V1__REQUEST__VERB_WAIT:
		if (pb->status ||
			pb->result_case != EVENTD__V1__RESPONSE__RESULT_FOUND)
			return 0;
		return pb->found->session;
	default:
		return 0;
	}
}

static void
sync_done(struct evd *c, struct response *response, int status)
{
	const char *text = response->pb->text;

	c->sync.done = true;
	c->sync.status = status;
	if (status)
		evd__fail_text(c, status, text, strlen(text));
	if (status || !c->sync.wants_response)
		evd__response_free(response);
	else
		c->sync.response = response;
}

static int
again_done(struct evd *c, const struct slot *slot, struct evd_event *ev,
	const Eventd__V1__Response *pb)
{
	Eventd__V1__Unbound unbound = EVENTD__V1__UNBOUND__INIT;
	bool told = false;

	if (slot->kind == EVENTD__V1__REQUEST__VERB_BIND && pb->status) {
		unbound.binding = slot->value;
		unbound.status = pb->status;
		unbound.text = pb->text;
		told = evd__on_unbound(c, ev, &unbound);
	}
	if (slot->mode == REQUEST_AGAIN)
		evd__on_rebound(c);
	return told;
}

static void
async_done(struct evd *c, const struct slot *slot, struct evd_event *ev,
	const Eventd__V1__Response *pb, int status)
{
	evd__event_init(c, ev, EVD_RESPONSE);
	ev->number = slot->number;
	ev->status = status;
	if (status)
		evd__event_set_text(c, ev,
			*pb->text ? pb->text : status_text(status),
			strlen(*pb->text ? pb->text : status_text(status)));
}

int
evd__on_response(
	struct evd *c, const uint8_t *data, size_t size, struct evd_event *ev)
{
	struct response *response = response_unpack(data, size);
	struct slot *found, slot;
	uint64_t result;
	int status, told = 0;

	if (!response)
		return -1;
	found = slots_find(&c->requests, response->pb->id);
	if (!found) { /* not ours: nothing depends on it */
		evd__response_free(response);
		return 0;
	}
	slot = *found;
	slots_remove(&c->requests, found);
	status = response->pb->status > INT32_MAX ? EVD_STATUS_INTERNAL
						  : (int)response->pb->status;
	result = apply(c, &slot, response->pb);
	if (slot.mode == REQUEST_SYNC && c->sync.request == slot.number) {
		sync_done(c, response, status);
		return 0;
	}
	if (slot.mode == REQUEST_ASYNC) {
		async_done(c, &slot, ev, response->pb, status);
		ev->value = result;
		told = 1;
	} else if (slot.mode == REQUEST_AGAIN || slot.mode == REQUEST_LATER) {
		told = again_done(c, &slot, ev, response->pb);
	}
	evd__response_free(response);
	return told;
}

/* What a request that got no answer leaves behind. */
static void
lost_one(struct evd *c, const struct slot *slot)
{
	static const char text[] =
		"the connection was lost; the outcome is unknown";
	struct evd_event ev;

	if (slot->mode == REQUEST_AGAIN || slot->mode == REQUEST_LATER)
		return;
	if (slot->kind == EVENTD__V1__REQUEST__VERB_BIND)
		evd__binding_free(c, evd__binding(c, slot->value));
	if (slot->kind == EVENTD__V1__REQUEST__VERB_UNBIND)
		evd__binding_free(c, evd__binding(c, slot->value));
	if (slot->kind == EVENTD__V1__REQUEST__VERB_RESOLVE)
		ref_free(c, slot->value);
	if (slot->kind == EVENTD__V1__REQUEST__VERB_WATCH ||
		slot->kind == EVENTD__V1__REQUEST__VERB_WATCH_NAMES)
		evd__watch_drop(c, slot->value);
	if (slot->mode != REQUEST_ASYNC)
		return;
	evd__event_init(c, &ev, EVD_RESPONSE);
	ev.number = slot->number;
	ev.status = EVD_STATUS_LOST;
	ev.text_z = text;
	evd__event_queue(c, &ev, true);
}

void
evd__requests_lost(struct evd *c)
{
	for (uint32_t i = 0; i < c->requests.n; i++)
		if (c->requests.v[i].number)
			lost_one(c, &c->requests.v[i]);
	slots_clear(&c->requests);
	c->rebinding = 0;
	for (size_t i = 0; i < c->n_refs; i++)
		c->refs[i].wire = 0;
	if (c->sync.request && !c->sync.done) {
		c->sync.done = true;
		c->sync.status = EVD_STATUS_LOST;
	}
}

/* ---- ids ---- */

void
evd__refs_free(struct evd *c)
{
	for (size_t i = 0; i < c->n_refs; i++)
		free(c->refs[i].alias);
	free(c->refs);
}

/* A new id, 0 if out of memory. */
static uint64_t
ref_new(struct evd *c, const char *alias)
{
	char *copy = strdup(alias);

	if (!copy)
		return 0;
	if (c->n_refs == c->refs_size) {
		size_t size = c->refs_size ? c->refs_size * 2 : 8;
		struct ref *refs = realloc(c->refs, size * sizeof(*refs));

		if (!refs) {
			free(copy);
			return 0;
		}
		c->refs = refs;
		c->refs_size = size;
	}
	c->refs[c->n_refs].alias = copy;
	c->refs[c->n_refs].wire = 0;
	return ++c->n_refs;
}

static void
resolve_request(Eventd__V1__Request *request, Eventd__V1__Resolve *resolve,
	const char *alias)
{
	eventd__v1__request__init(request);
	eventd__v1__resolve__init(resolve);
	resolve->alias = (char *)(uintptr_t)alias;
	request->verb_case = EVENTD__V1__REQUEST__VERB_RESOLVE;
	request->resolve = resolve;
}

/* Make an id and its request: the id, or -errno. */
static int64_t
resolve_prepare(struct evd *c, const char *alias, Eventd__V1__Request *request,
	Eventd__V1__Resolve *resolve)
{
	int r = evd__alias_check(c, alias);
	uint64_t id;

	if (r)
		return r;
	id = ref_new(c, alias);
	if (!id)
		return evd__fail(c, EVD_STATUS_NO_MEMORY, "out of memory");
	resolve_request(request, resolve, alias);
	return (int64_t)id;
}

int
evd_resolve(struct evd *c, const char *alias, uint64_t *id)
{
	Eventd__V1__Request request;
	Eventd__V1__Resolve resolve;
	int64_t ref;
	int r;

	EVD_CHECK(c);
	ref = resolve_prepare(c, alias, &request, &resolve);
	if (ref < 0)
		return (int)ref;
	r = evd__request(c, &request, (uint64_t)ref, NULL);
	if (!r && !c->refs[ref - 1].wire)
		r = evd__fail(c, EVD_STATUS_PROTOCOL,
			"the daemon's answer is not what was asked for");
	if (!r)
		*id = (uint64_t)ref;
	else if (r != -ETIMEDOUT) /* then the answer frees it */
		ref_free(c, (uint64_t)ref);
	return r;
}

int64_t
evd_resolve_start(struct evd *c, const char *alias)
{
	Eventd__V1__Request request;
	Eventd__V1__Resolve resolve;
	int64_t ref, number;

	EVD_CHECK(c);
	ref = resolve_prepare(c, alias, &request, &resolve);
	if (ref < 0)
		return ref;
	number = evd__request_send(c, &request, (uint64_t)ref, REQUEST_ASYNC);
	if (number < 0)
		ref_free(c, (uint64_t)ref);
	return number;
}

/* ---- after a reconnect ---- */

/* One that may have to stand in line must not hold up the rest. */
static void
rebind_one(struct evd *c, const struct binding *b)
{
	enum request_mode mode = b->if_taken ? REQUEST_LATER : REQUEST_AGAIN;
	Eventd__V1__Request request;
	Eventd__V1__Bind bind;
	Eventd__V1__Mailbox box;

	evd__bind_request(b, &request, &bind, &box);
	if (evd__request_send(c, &request, b->number, mode) > 0 &&
		mode == REQUEST_AGAIN)
		c->rebinding++;
}

/* Ask for all bindings and references; c->rebinding counts. */
void
evd__rebind(struct evd *c)
{
	for (size_t i = 0; i < c->bindings_size; i++)
		if (c->bindings[i])
			rebind_one(c, c->bindings[i]);
	for (size_t i = 0; i < c->n_refs; i++) {
		Eventd__V1__Request request;
		Eventd__V1__Resolve resolve;

		if (!c->refs[i].alias)
			continue;
		resolve_request(&request, &resolve, c->refs[i].alias);
		if (evd__request_send(c, &request, i + 1, REQUEST_AGAIN) > 0)
			c->rebinding++;
	}
	evd__watches_again(c);
}

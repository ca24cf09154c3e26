/* Bind: aliases that this connection holds, what is delivered to them, and
 * telling the daemon that it is handled.
 * Belongs to the thread that uses the handle. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "parts.h"
#include "status.h"

enum { BINDING_MAX = 65535 };

struct binding *
evd__binding(struct evd *c, uint64_t number)
{
	return number < c->bindings_size ? c->bindings[number] : NULL;
}

/* The lowest number that is free; 0 if there is none. */
static uint32_t
free_number(struct evd *c)
{
	uint32_t n = 1;

	while (n < c->bindings_size && c->bindings[n])
		n++;
	if (n < c->bindings_size)
		return n;
	if (n > BINDING_MAX)
		return 0;
	return c->bindings_size ? (uint32_t)c->bindings_size : 1;
}

static int
bindings_grow(struct evd *c, uint32_t number)
{
	size_t size = c->bindings_size ? c->bindings_size * 2 : 8;
	struct binding **v;

	if (number < c->bindings_size)
		return 0;
	v = realloc(c->bindings, size * sizeof(struct binding *));
	if (!v)
		return -ENOMEM;
	memset(v + c->bindings_size, 0,
		(size - c->bindings_size) * sizeof(struct binding *));
	c->bindings = v;
	c->bindings_size = size;
	return 0;
}

static struct binding *
binding_new(struct evd *c, const char *alias)
{
	uint32_t number = free_number(c);
	struct binding *b;

	if (!number || bindings_grow(c, number))
		return NULL;
	b = calloc(1, sizeof(*b));
	if (!b)
		return NULL;
	b->alias = strdup(alias);
	if (!b->alias) {
		free(b);
		return NULL;
	}
	b->number = number;
	b->serial = ++c->serial;
	c->bindings[number] = b;
	c->n_bindings++;
	return b;
}

static void
dirty_remove(struct evd *c, struct binding *b)
{
	struct binding **at = &c->dirty;

	while (*at && *at != b)
		at = &(*at)->dirty_next;
	if (*at)
		*at = b->dirty_next;
	b->dirty = false;
}

void
evd__binding_free(struct evd *c, struct binding *b)
{
	if (!b)
		return;
	if ((c->ready || c->given == &c->cur) && c->cur.alias_z == b->alias) {
		memcpy(c->alias_z, b->alias, strlen(b->alias) + 1);
		c->cur.alias_z = c->alias_z;
	}
	dirty_remove(c, b);
	c->bindings[b->number] = NULL;
	c->n_bindings--;
	free(b->alias);
	free(b->overflow);
	free(b);
}

void
evd__bindings_free(struct evd *c)
{
	for (size_t i = 0; i < c->bindings_size; i++)
		evd__binding_free(c, c->bindings[i]);
	free(c->bindings);
	c->bindings = NULL;
	c->bindings_size = 0;
}

/* Deliveries count from 1 again. */
void
evd__bindings_reset(struct evd *c)
{
	for (size_t i = 0; i < c->bindings_size; i++) {
		struct binding *b = c->bindings[i];

		if (!b)
			continue;
		b->delivered = b->settled = b->told = b->untold_bytes = 0;
		b->dirty = false;
		b->serial = ++c->serial;
	}
	c->dirty = NULL;
}

/* ---- deliveries ---- */

static bool
delivery_call(struct evd *c, struct evd_event *ev)
{
	struct slot *slot = slots_add(&c->callers, SLOTS_MAX);

	if (!slot) {
		evd__lost(c, EVD_STATUS_LIMIT,
			"this program owes answers to 65535 calls, the limit "
			"of the library");
		return false;
	}
	slot->value = ev->e.call;
	ev->e.call = slot->number;
	return true;
}

/* The delivery in ev->e; false if it is for nobody. Hot: sets just the fields
 * that are looked at. */
bool
evd__on_delivery(struct evd *c, struct evd_event *ev)
{
	struct binding *b = evd__binding(c, ev->e.to);

	if (UNLIKELY(!b)) /* it crossed with evd_unbind() */
		return false;
	ev->next = NULL;
	ev->owner = c;
	ev->type = EVD_DELIVERY;
	ev->status = 0;
	ev->queued = ev->deferred = false;
	ev->epoch = c->epoch;
	ev->binding = b->number;
	ev->serial = b->serial;
	ev->run = 0;
	ev->number = ++b->delivered;
	ev->value = ev->lost = 0;
	ev->text = NULL;
	ev->text_size = 0;
	ev->name_z = ev->text_z = NULL;
	ev->alias_z = b->alias;
	if (ev->e.call)
		return delivery_call(c, ev);
	return true;
}

bool
evd__on_unbound(
	struct evd *c, struct evd_event *ev, const Eventd__V1__Unbound *unbound)
{
	struct binding *b = evd__binding(c, unbound->binding);
	char *z = ev == &c->cur ? c->alias_z : c->alias_q;

	if (!b)
		return false;
	evd__event_init(c, ev, EVD_UNBOUND);
	memcpy(z, b->alias, strlen(b->alias) + 1);
	ev->alias_z = z;
	ev->binding = b->number;
	ev->status = unbound->status && unbound->status <= INT32_MAX
			     ? (int)unbound->status
			     : EVD_STATUS_CANCELLED;
	evd__event_set_text(c, ev, unbound->text, strlen(unbound->text));
	evd__binding_free(c, b);
	return true;
}

bool
evd__on_gap(struct evd *c, struct evd_event *ev, const Eventd__V1__Gap *gap)
{
	struct binding *b = evd__binding(c, gap->binding);
	char *z = ev == &c->cur ? c->alias_z : c->alias_q;

	if (!b)
		return false;
	evd__event_init(c, ev, EVD_GAP);
	memcpy(z, b->alias, strlen(b->alias) + 1);
	ev->alias_z = z;
	ev->binding = b->number;
	ev->value = gap->from;
	ev->number = gap->to;
	ev->lost = gap->count;
	return true;
}

uint64_t
evd_event_gap_from(const struct evd_event *event)
{
	return event->type == EVD_GAP ? event->value : 0;
}

uint64_t
evd_event_gap_to(const struct evd_event *event)
{
	return event->type == EVD_GAP ? event->number : 0;
}

/* ---- settling ---- */

static void
settle_tell(struct evd *c, struct binding *b)
{
	struct settle s = {b->number, b->settled};
	uint8_t *p = evd__out_room(c, SETTLE_FRAME_MAX, true);

	if (!p)
		return; /* no memory: told with the next one */
	c->out.tail += settle_encode_frame(&s, p);
	b->told = b->settled;
	b->untold_bytes = 0;
}

void
evd__settles_tell(struct evd *c)
{
	while (c->dirty) {
		struct binding *b = c->dirty;

		c->dirty = b->dirty_next;
		b->dirty = false;
		if (c->fd >= 0)
			settle_tell(c, b);
	}
}

/* Deliveries up to @ev are handled. The daemon is told when half the window
 * is used up, or before anything waits. */
void
evd__settle(struct evd *c, const struct evd_event *ev)
{
	struct binding *b = evd__binding(c, ev->binding);

	if (!b || b->serial != ev->serial || ev->number <= b->settled)
		return;
	b->settled = ev->number;
	b->untold_bytes += ev->e.payload_size;
	if (!b->dirty) {
		b->dirty = true;
		b->dirty_next = c->dirty;
		c->dirty = b;
	}
	if (!b->granted_events)
		return;
	if ((b->settled - b->told) * 2 >= b->granted_events ||
		b->untold_bytes * 2 >= b->granted_bytes) {
		evd__settles_tell(c);
		evd__write(c);
	}
}

int
evd_settle(struct evd *c, const struct evd_event *event)
{
	const struct binding *b;

	EVD_CHECK(c);
	if (event->type != EVD_DELIVERY)
		return evd__fail(c, EVD_STATUS_INVALID,
			"only a delivery can be settled");
	if (event->epoch != c->epoch)
		return evd__fail(c, EVD_STATUS_LOST,
			"the connection that the event came by is lost");
	b = evd__binding(c, event->binding);
	if (!b || b->serial != event->serial)
		return evd__fail(c, EVD_STATUS_NOT_FOUND,
			"binding %" PRIu32 " is gone", event->binding);
	evd__settle(c, event);
	return 0;
}

/* ---- the API ---- */

void
evd__bind_request(const struct binding *b, Eventd__V1__Request *request,
	Eventd__V1__Bind *bind, Eventd__V1__Mailbox *box)
{
	eventd__v1__request__init(request);
	eventd__v1__bind__init(bind);
	eventd__v1__mailbox__init(box);
	if (b->overflow)
		box->overflow = b->overflow;
	box->max_events = b->max_events;
	box->max_bytes = b->max_bytes;
	if (b->has_box)
		bind->mailbox = box;
	bind->alias = b->alias;
	bind->binding = b->number;
	bind->window_events = b->window_events;
	bind->window_bytes = b->window_bytes;
	bind->if_taken = (Eventd__V1__IfTaken)b->if_taken;
	bind->allow_replace = b->allow_replace;
	bind->mode = (Eventd__V1__BindMode)b->mode;
	bind->durable = b->durable;
	request->verb_case = EVENTD__V1__REQUEST__VERB_BIND;
	request->bind = bind;
}

static const struct evd_bind_options *
bind_options(const struct evd_bind_options *from, struct evd_bind_options *opt)
{
	memset(opt, 0, sizeof(*opt));
	if (from)
		memcpy(opt, from,
			from->size < sizeof(*opt) ? from->size : sizeof(*opt));
	return opt;
}

/* Make a binding; NULL on error, in *r. */
static struct binding *
bind_prepare(struct evd *c, const char *alias,
	const struct evd_bind_options *opt, int *r)
{
	struct binding *b;

	*r = evd__alias_check(c, alias);
	if (!*r && opt->if_taken > EVD_TAKEN_REPLACE)
		*r = evd__fail(c, EVD_STATUS_INVALID, "no such if_taken");
	if (!*r && opt->mode > EVD_BIND_MONITOR)
		*r = evd__fail(c, EVD_STATUS_INVALID, "no such bind mode");
	if (*r)
		return NULL;
	b = binding_new(c, alias);
	if (!b) {
		*r = evd__fail(c, EVD_STATUS_LIMIT,
			"no binding is free: %" PRIu32 " of %d are used",
			c->n_bindings, BINDING_MAX);
		return NULL;
	}
	b->window_events = opt->window_events;
	b->window_bytes = opt->window_bytes;
	b->if_taken = opt->if_taken;
	b->allow_replace = opt->allow_replace != 0;
	b->mode = opt->mode;
	b->durable = opt->durable != 0;
	b->max_events = opt->max_events;
	b->max_bytes = opt->max_bytes;
	b->overflow = opt->overflow ? strdup(opt->overflow) : NULL;
	b->has_box = opt->overflow || opt->max_events || opt->max_bytes;
	if (!opt->overflow || b->overflow)
		return b;
	evd__binding_free(c, b);
	*r = evd__fail(c, EVD_STATUS_NO_MEMORY, "out of memory");
	return NULL;
}

int
evd_bind_opt(
	struct evd *c, const char *alias, const struct evd_bind_options *from)
{
	struct evd_bind_options opt;
	Eventd__V1__Request request;
	Eventd__V1__Bind bind;
	Eventd__V1__Mailbox box;
	struct binding *b;
	uint32_t number;
	int r;

	EVD_CHECK(c);
	b = bind_prepare(c, alias, bind_options(from, &opt), &r);
	if (!b)
		return r;
	number = b->number;
	evd__bind_request(b, &request, &bind, &box);
	r = evd__request_until(
		c, &request, number, NULL, evd__deadline(c, opt.timeout_ms));
	b = evd__binding(c, number);
	if (r && b && !b->bound && r != -ETIMEDOUT)
		evd__binding_free(c, b);
	if (r == -ETIMEDOUT && opt.if_taken && c->fd >= 0)
		evd__unbind_abandoned(c, number); /* leave the line */
	return r ? r : (int)number;
}

int
evd_bind(struct evd *c, const char *alias, uint32_t window_events,
	uint64_t window_bytes)
{
	struct evd_bind_options opt = {
		.size = sizeof(opt),
		.window_events = window_events,
		.window_bytes = window_bytes,
	};

	return evd_bind_opt(c, alias, &opt);
}

int64_t
evd_bind_opt_start(
	struct evd *c, const char *alias, const struct evd_bind_options *from)
{
	struct evd_bind_options opt;
	Eventd__V1__Request request;
	Eventd__V1__Bind bind;
	Eventd__V1__Mailbox box;
	struct binding *b;
	int64_t number;
	int r;

	EVD_CHECK(c);
	b = bind_prepare(c, alias, bind_options(from, &opt), &r);
	if (!b)
		return r;
	evd__bind_request(b, &request, &bind, &box);
	number = evd__request_send(c, &request, b->number, REQUEST_ASYNC);
	if (number < 0)
		evd__binding_free(c, b);
	return number;
}

int64_t
evd_bind_start(struct evd *c, const char *alias, uint32_t window_events,
	uint64_t window_bytes)
{
	struct evd_bind_options opt = {
		.size = sizeof(opt),
		.window_events = window_events,
		.window_bytes = window_bytes,
	};

	return evd_bind_opt_start(c, alias, &opt);
}

static int
unbind_prepare(struct evd *c, int binding, Eventd__V1__Request *request,
	Eventd__V1__Unbind *unbind)
{
	const struct binding *b =
		binding > 0 ? evd__binding(c, (uint64_t)binding) : NULL;

	if (!b || !b->bound)
		return evd__fail(
			c, EVD_STATUS_NOT_FOUND, "no binding %d", binding);
	evd__settles_tell(c);
	eventd__v1__request__init(request);
	eventd__v1__unbind__init(unbind);
	unbind->binding = (uint64_t)binding;
	request->verb_case = EVENTD__V1__REQUEST__VERB_UNBIND;
	request->unbind = unbind;
	return 0;
}

int
evd_unbind(struct evd *c, int binding)
{
	Eventd__V1__Request request;
	Eventd__V1__Unbind unbind;
	int r;

	EVD_CHECK(c);
	r = unbind_prepare(c, binding, &request, &unbind);
	if (r)
		return r;
	return evd__request(c, &request, (uint64_t)binding, NULL);
}

int64_t
evd_unbind_start(struct evd *c, int binding)
{
	Eventd__V1__Request request;
	Eventd__V1__Unbind unbind;
	int r;

	EVD_CHECK(c);
	r = unbind_prepare(c, binding, &request, &unbind);
	if (r)
		return r;
	return evd__request_send(c, &request, (uint64_t)binding, REQUEST_ASYNC);
}

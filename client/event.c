/* Event: what evd_next() gives, its fields, and the queue of those that came
 * while something else was waited for.
 * Belongs to the thread that uses the handle; copies to whoever owns them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "frame.h"
#include "headers.h"
#include "internal.h"

void
evd__event_init(struct evd *c, struct evd_event *ev, int type)
{
	memset(ev, 0, sizeof(*ev));
	ev->type = type;
	ev->owner = c;
	ev->epoch = c->epoch;
}

/* ---- copies ---- */

static size_t
copy_size(const struct evd_event *ev)
{
	return sizeof(*ev) + strlen(evd_event_name(ev)) + 1 +
	       strlen(evd_event_alias(ev)) + 1 + strlen(evd_event_text(ev)) +
	       1 + (ev->map ? 0 : ev->e.payload_size) + ev->e.headers_size + 1;
}

/* Bytes that it counts for in the queue. */
static size_t
queue_size(const struct evd_event *ev)
{
	return copy_size(ev) + evd__map_size(ev->map);
}

static char *
copy_bytes(char **at, const void *data, size_t size)
{
	char *p = *at;

	if (size)
		memcpy(p, data, size);
	*at += size;
	return p;
}

static const char *
copy_string(char **at, const char *text)
{
	return copy_bytes(at, text, strlen(text) + 1);
}

struct evd_event *
evd__event_copy(const struct evd_event *ev)
{
	struct evd_event *copy = malloc(copy_size(ev));
	char *at;

	if (!copy)
		return NULL;
	*copy = *ev;
	copy->owner = NULL;
	copy->next = NULL;
	copy->queued = false;
	copy->run = 0;
	at = (char *)(copy + 1);
	copy->name_z = copy_string(&at, evd_event_name(ev));
	copy->alias_z = copy_string(&at, evd_event_alias(ev));
	copy->text_z = copy_string(&at, evd_event_text(ev));
	if (evd__map_ref(ev->map))
		copy->e.payload = ev->e.payload;
	else
		copy->e.payload = (uint8_t *)copy_bytes(
			&at, ev->e.payload, ev->e.payload_size);
	copy->e.headers =
		(uint8_t *)copy_bytes(&at, ev->e.headers, ev->e.headers_size);
	*at = '\0';
	copy->e.key = NULL;
	copy->e.key_size = 0;
	copy->e.alias = NULL;
	copy->e.event = NULL;
	copy->text = NULL;
	return copy;
}

struct evd_event *
evd_event_dup(const struct evd_event *event)
{
	if (event->owner && evd__is_foreign(event->owner))
		return NULL;
	return evd__event_copy(event);
}

/* One that is no borrowed one. */
static void
drop(struct evd_event *ev)
{
	evd__map_unref(ev->map);
	free(ev);
}

struct evd_event *
evd_event_free(struct evd_event *event)
{
	if (event && !event->owner && !event->queued)
		drop(event);
	return NULL;
}

/* ---- the queue ---- */

bool
evd__event_queue(struct evd *c, const struct evd_event *ev, bool force)
{
	size_t size = queue_size(ev);
	struct evd_event *copy;

	if (!force &&
		(size > c->max_queued || c->queued > c->max_queued - size))
		return false;
	copy = evd__event_copy(ev);
	if (!copy)
		return false;
	copy->run = ev->run;
	copy->queued = true;
	c->queued += size;
	if (c->first)
		c->tail->next = copy;
	else
		c->first = copy;
	c->tail = copy;
	return true;
}

void
evd__event_queue_post(struct evd *c, int type, uint64_t number, int status)
{
	struct evd_event ev, *tail = c->first ? c->tail : NULL;

	if (tail && tail->type == type && tail->status == status &&
		tail->number + tail->run + 1 == number &&
		tail->run < UINT32_MAX && !*tail->text_z) {
		tail->run++;
		return;
	}
	evd__event_init(c, &ev, type);
	ev.number = number;
	ev.status = status;
	evd__event_queue(c, &ev, false);
}

static void
queue_push_front(struct evd *c, struct evd_event *ev)
{
	ev->next = c->first;
	if (!c->first)
		c->tail = ev;
	c->first = ev;
	c->queued += queue_size(ev);
}

static struct evd_event *
queue_pop(struct evd *c)
{
	struct evd_event *ev = c->first;

	c->first = ev->next;
	c->queued -= queue_size(ev);
	return ev;
}

void
evd__events_clear(struct evd *c)
{
	if (c->given && c->given != &c->cur)
		drop(c->given);
	if (c->given == &c->cur || c->ready)
		c->cur.map = evd__map_unref(c->cur.map);
	c->given = NULL;
	while (c->first)
		drop(queue_pop(c));
	c->ready = false;
}

bool
evd__event_ready(struct evd *c)
{
	if (c->ready || c->first)
		return true;
	if (evd__parse(c, &c->cur))
		c->ready = true;
	return c->ready || c->first;
}

/* A call that was neither answered nor deferred is answered now. */
static void
finish(struct evd *c, struct evd_event *ev)
{
	if (ev->type != EVD_DELIVERY || c->manual || ev->epoch != c->epoch)
		return;
	if (ev->e.call && !ev->deferred)
		evd__reply_empty(c, ev->e.call);
	evd__settle(c, ev);
}

void
evd__event_release(struct evd *c)
{
	struct evd_event *ev = c->given;

	if (!ev)
		return;
	c->given = NULL;
	if (ev->run) { /* one of a run of posts: the next one comes next */
		ev->run--;
		ev->number++;
		queue_push_front(c, ev);
	} else {
		finish(c, ev);
		if (ev != &c->cur)
			drop(ev);
		else if (UNLIKELY(ev->map))
			ev->map = evd__map_unref(ev->map);
	}
	if (c->in.retired && !c->ready) {
		free(c->in.retired);
		c->in.retired = NULL;
	}
}

int
evd_next(struct evd *c, const struct evd_event **event)
{
	EVD_CHECK(c);
	evd__event_release(c);
	if (!evd__event_ready(c))
		return 0;
	evd__write_stale(c);
	if (c->ready) {
		c->ready = false;
		c->given = &c->cur;
	} else {
		c->given = queue_pop(c);
	}
	c->given_deadline_ns = INT64_MAX;
	if (UNLIKELY(c->given->e.deadline_ms))
		c->given_deadline_ns = evd__now_ns() + c->given->e.deadline_ms *
							       INT64_C(1000000);
	*event = c->given;
	return 1;
}

/* ---- fields ---- */

int
evd_event_type(const struct evd_event *event)
{
	return event->type;
}

const char *
evd_event_type_name(int type)
{
	static const char *const names[] = {
		[EVD_DELIVERY] = "delivery",
		[EVD_REPLY] = "reply",
		[EVD_POST_FAILED] = "post-failed",
		[EVD_POST_SETTLED] = "post-settled",
		[EVD_UNBOUND] = "unbound",
		[EVD_CLOSING] = "closing",
		[EVD_CONNECTED] = "connected",
		[EVD_DISCONNECTED] = "disconnected",
		[EVD_RECONNECTED] = "reconnected",
		[EVD_RESPONSE] = "response",
		[EVD_CALL_CANCELLED] = "call-cancelled",
		[EVD_DOWN] = "down",
		[EVD_NAME] = "name",
		[EVD_GAP] = "gap",
		[EVD_CHILD] = "child",
		[EVD_ROOM] = "room",
		[EVD_POST_ID] = "post-id",
	};

	if (type < EVD_DELIVERY || type > EVD_ROOM || !names[type])
		return "unknown";
	return names[type];
}

/* Make a NUL-terminated copy beside the handle, on first asking. */
const char *
evd_event_name(const struct evd_event *event)
{
	struct evd_event *ev = (struct evd_event *)event;
	char *z;

	if (ev->name_z)
		return ev->name_z;
	if (ev->type != EVD_DELIVERY || !ev->owner)
		return "";
	z = ev == &ev->owner->cur ? ev->owner->name_z : ev->owner->name_q;
	if (ev->e.event_size)
		memcpy(z, ev->e.event, ev->e.event_size);
	z[ev->e.event_size] = '\0';
	return ev->name_z = z;
}

const char *
evd_event_text(const struct evd_event *event)
{
	struct evd_event *ev = (struct evd_event *)event;
	char *z;

	if (ev->text_z)
		return ev->text_z;
	if (!ev->text_size || !ev->owner)
		return "";
	z = ev == &ev->owner->cur ? ev->owner->text_z : ev->owner->text_q;
	evd__text_copy(z, TEXT_MAX, ev->text, ev->text_size);
	return ev->text_z = z;
}

void
evd__event_set_text(
	struct evd *c, struct evd_event *ev, const char *text, size_t size)
{
	char *z = ev == &c->cur ? c->text_z : c->text_q;

	evd__text_copy(z, TEXT_MAX, text, size);
	ev->text_z = z;
}

const void *
evd_event_data(const struct evd_event *event)
{
	return event->e.payload ? (const void *)event->e.payload : "";
}

size_t
evd_event_size(const struct evd_event *event)
{
	return event->e.payload_size;
}

const char *
evd_event_alias(const struct evd_event *event)
{
	return event->alias_z ? event->alias_z : "";
}

int
evd_event_binding(const struct evd_event *event)
{
	return (int)event->binding;
}

uint64_t
evd_event_id(const struct evd_event *event)
{
	return event->e.id;
}

uint64_t
evd_event_from(const struct evd_event *event)
{
	return event->e.from;
}

uint32_t
evd_event_attempt(const struct evd_event *event)
{
	return event->e.attempt;
}

int64_t
evd_event_due_ns(const struct evd_event *event)
{
	return (int64_t)event->e.due_ns;
}

uint64_t
evd_event_late_ns(const struct evd_event *event)
{
	return event->e.late_ns;
}

int
evd_event_priority(const struct evd_event *event)
{
	return event->e.priority;
}

uint32_t
evd_event_deadline_ms(const struct evd_event *event)
{
	return event->e.deadline_ms;
}

uint64_t
evd_event_call(const struct evd_event *event)
{
	if (event->type == EVD_REPLY || event->type == EVD_CALL_CANCELLED)
		return event->number;
	return event->type == EVD_DELIVERY ? event->e.call : 0;
}

uint64_t
evd_event_post(const struct evd_event *event)
{
	if (event->type == EVD_POST_FAILED || event->type == EVD_POST_SETTLED ||
		event->type == EVD_POST_ID)
		return event->number;
	return 0;
}

uint64_t
evd_event_request(const struct evd_event *event)
{
	return event->type == EVD_RESPONSE ? event->number : 0;
}

uint64_t
evd_event_result(const struct evd_event *event)
{
	return event->type == EVD_RESPONSE ? event->value : 0;
}

int
evd_event_status(const struct evd_event *event)
{
	return event->status;
}

uint64_t
evd_event_gap_ms(const struct evd_event *event)
{
	return event->type == EVD_RECONNECTED ? event->value : 0;
}

uint64_t
evd_event_lost(const struct evd_event *event)
{
	return event->lost;
}

/* ---- headers: they were checked when the envelope was decoded ---- */

size_t
evd_event_n_headers(const struct evd_event *event)
{
	const uint8_t *p = event->e.headers;
	struct header header;
	size_t n = 0;

	while (event->e.headers_size &&
		headers_next(
			&p, event->e.headers + event->e.headers_size, &header))
		n++;
	return n;
}

int
evd_event_header_at(const struct evd_event *event, size_t i,
	struct evd_header *header, size_t *name_size)
{
	const uint8_t *p = event->e.headers;
	struct header h;

	for (size_t n = 0;
		event->e.headers_size &&
		headers_next(&p, event->e.headers + event->e.headers_size, &h);
		n++) {
		if (n != i)
			continue;
		*header = (struct evd_header){h.name, h.value, h.size};
		*name_size = h.name_size;
		return 0;
	}
	return -ERANGE;
}

const void *
evd_event_header(const struct evd_event *event, const char *name, size_t *size)
{
	struct header h;

	*size = 0;
	if (!headers_find(event->e.headers, event->e.headers_size, name,
		    strlen(name), &h))
		return NULL;
	*size = h.size;
	return h.value;
}

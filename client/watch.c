/* Watch: waiting for aliases, watching sessions and names, and what is left
 * behind. Belongs to the thread that uses the handle. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "parts.h"
#include "pattern.h"
#include "status.h"

/* ---- the table: few, so it is searched --------------------------------- */

static struct watch *
watch_of(struct evd *c, uint64_t number)
{
	for (size_t i = 0; i < c->n_watches; i++)
		if (c->watches[i].number == number)
			return &c->watches[i];
	return NULL;
}

static struct watch *
watch_of_wire(struct evd *c, uint64_t wire)
{
	for (size_t i = 0; i < c->n_watches; i++)
		if (c->watches[i].wire == wire)
			return &c->watches[i];
	return NULL;
}

static void
watch_remove(struct evd *c, struct watch *w)
{
	free(w->pattern);
	*w = c->watches[--c->n_watches];
}

/* Its number, 0 if out of memory; @pattern NULL: of a session. */
static uint64_t
watch_add(struct evd *c, const char *pattern)
{
	char *copy = pattern ? strdup(pattern) : NULL;

	if (pattern && !copy)
		return 0;
	if (c->n_watches == c->watches_size) {
		size_t size = c->watches_size ? c->watches_size * 2 : 8;
		struct watch *v = realloc(c->watches, size * sizeof(*v));

		if (!v) {
			free(copy);
			return 0;
		}
		c->watches = v;
		c->watches_size = size;
	}
	c->watches[c->n_watches++] =
		(struct watch){.number = ++c->last_watch, .pattern = copy};
	return c->last_watch;
}

void
evd__watch_drop(struct evd *c, uint64_t number)
{
	struct watch *w = watch_of(c, number);

	if (w)
		watch_remove(c, w);
}

uint64_t
evd__watch_answered(struct evd *c, uint64_t number, uint64_t wire)
{
	struct watch *w = watch_of(c, number);

	if (!w)
		return 0;
	w->wire = wire;
	return number;
}

void
evd__watches_free(struct evd *c)
{
	while (c->n_watches)
		watch_remove(c, &c->watches[0]);
	free(c->watches);
	c->watches = NULL;
	c->watches_size = 0;
	free(c->will.alias);
	free(c->will.event);
	free(c->will.data);
	memset(&c->will, 0, sizeof(c->will));
}

/* ---- what comes -------------------------------------------------------- */

static int
status_of_reason(const char *reason)
{
	if (!strcmp(reason, "failed"))
		return EVD_STATUS_FAILED;
	if (!strcmp(reason, "connection lost"))
		return EVD_STATUS_DIED;
	if (!strcmp(reason, "no such session"))
		return EVD_STATUS_NO_ALIAS;
	return EVD_STATUS_OK;
}

static void
put_string(char *out, size_t size, const char *text)
{
	evd__text_copy(out, size, text, strlen(text));
}

/* EVD_DOWN or EVD_CHILD, with a reason. */
static void
end_init(struct evd *c, struct evd_event *ev, int type, const char *alias,
	const char *reason)
{
	bool now = ev == &c->cur;
	char *name = now ? c->name_z : c->name_q;
	char *alias_z = now ? c->alias_z : c->alias_q;

	evd__event_init(c, ev, type);
	put_string(name, sizeof(c->name_z), reason);
	put_string(alias_z, sizeof(c->alias_z), alias);
	ev->name_z = name;
	ev->alias_z = alias_z;
	ev->status = status_of_reason(reason);
}

static void
down_init(struct evd *c, struct evd_event *ev, uint64_t number,
	const char *alias, const char *reason)
{
	end_init(c, ev, EVD_DOWN, alias, reason);
	ev->number = number;
}

static const char *const changes[] = {"gained", "lost", "failed"};
enum { N_CHANGES = sizeof(changes) / sizeof(changes[0]) };

bool
evd__on_child(struct evd *c, struct evd_event *ev,
	const Eventd__V1__ChildChange *child)
{
	uint64_t change = 0;

	while (change < N_CHANGES && strcmp(changes[change], child->change))
		change++;
	if (change == N_CHANGES)
		return false; /* a later daemon's */
	end_init(c, ev, EVD_CHILD, child->alias, child->reason);
	ev->number = change;
	ev->value = child->session;
	evd__event_set_text(c, ev, child->text, strlen(child->text));
	return true;
}

bool
evd__on_down(struct evd *c, struct evd_event *ev, const Eventd__V1__Down *down)
{
	struct watch *w = watch_of_wire(c, down->watch);

	if (!w || w->pattern) /* it crossed with evd_unwatch() */
		return false;
	down_init(c, ev, w->number, down->alias, down->reason);
	ev->value = down->session;
	evd__event_set_text(c, ev, down->text, strlen(down->text));
	watch_remove(c, w);
	return true;
}

bool
evd__on_name(
	struct evd *c, struct evd_event *ev, const Eventd__V1__NameChange *name)
{
	struct watch *w = watch_of_wire(c, name->watch);
	char *alias = ev == &c->cur ? c->alias_z : c->alias_q;

	if (!w || !w->pattern)
		return false;
	evd__event_init(c, ev, EVD_NAME);
	put_string(alias, sizeof(c->alias_z), name->alias);
	ev->alias_z = alias;
	ev->number = w->number;
	ev->value = name->up ? name->session : 0;
	ev->lost = name->lost;
	return true;
}

/* The connection is gone: so are watches of sessions. Those of names are made
 * again if it comes back. */
void
evd__watches_lost(struct evd *c, bool again)
{
	struct evd_event ev;

	for (size_t i = c->n_watches; i-- > 0;) {
		struct watch *w = &c->watches[i];

		w->wire = 0;
		if (w->pattern && again)
			continue;
		if (!w->pattern && !c->told_down) {
			down_init(c, &ev, w->number, "", "connection lost");
			ev.status = EVD_STATUS_LOST;
			evd__event_queue(c, &ev, true);
		}
		watch_remove(c, w);
	}
}

/* ---- wait -------------------------------------------------------------- */

static uint64_t
wire_ms(const struct evd *c, int timeout_ms)
{
	if (!timeout_ms)
		timeout_ms = c->timeout_ms;
	return timeout_ms < 0 ? UINT64_MAX : (uint64_t)timeout_ms;
}

/* Later than the daemon's, so that its answer comes first. */
static int64_t
local_deadline(const struct evd *c, int timeout_ms)
{
	int64_t deadline = evd__deadline(c, timeout_ms);

	return deadline == INT64_MAX
		       ? deadline
		       : deadline + (int64_t)CALL_SLACK_MS * 1000000;
}

static void
wait_request(Eventd__V1__Request *request, Eventd__V1__Wait *wait,
	const char *alias, uint64_t ms)
{
	eventd__v1__request__init(request);
	eventd__v1__wait__init(wait);
	wait->alias = (char *)(uintptr_t)alias;
	wait->timeout_ms = ms;
	request->verb_case = EVENTD__V1__REQUEST__VERB_WAIT;
	request->wait = wait;
}

int
evd_wait_alias(
	struct evd *c, const char *alias, int timeout_ms, uint64_t *session)
{
	struct response *response = NULL;
	Eventd__V1__Request request;
	Eventd__V1__Wait wait;
	int r;

	EVD_CHECK(c);
	r = evd__alias_check(c, alias);
	if (r)
		return r;
	wait_request(&request, &wait, alias, wire_ms(c, timeout_ms));
	r = evd__request_until(
		c, &request, 0, &response, local_deadline(c, timeout_ms));
	if (r)
		return r;
	if (response->pb->result_case != EVENTD__V1__RESPONSE__RESULT_FOUND)
		r = evd__fail(c, EVD_STATUS_PROTOCOL,
			"the daemon's answer is not what was asked for");
	else if (session)
		*session = response->pb->found->session;
	evd__response_free(response);
	return r;
}

int64_t
evd_wait_alias_start(struct evd *c, const char *alias, int timeout_ms)
{
	Eventd__V1__Request request;
	Eventd__V1__Wait wait;
	int r;

	EVD_CHECK(c);
	r = evd__alias_check(c, alias);
	if (r)
		return r;
	wait_request(&request, &wait, alias, wire_ms(c, timeout_ms));
	return evd__request_send(c, &request, 0, REQUEST_ASYNC);
}

/* ---- watch ------------------------------------------------------------- */

/* What to watch: one of them, and room for the request. */
struct wish {
	const char *alias, *pattern;
	uint64_t session;
	bool link;
	Eventd__V1__Request request;
	Eventd__V1__Watch watch;
	Eventd__V1__WatchNames names;
};

static int
wish_check(struct evd *c, const struct wish *w)
{
	if (w->alias)
		return evd__alias_check(c, w->alias);
	if (w->pattern && !pattern_is_valid(w->pattern, strlen(w->pattern),
				  EVD_ALIAS_MAX))
		return evd__fail(c, EVD_STATUS_INVALID,
			"a pattern is 1 to %d of A-Z a-z 0-9 _ . / - and at "
			"most one *",
			EVD_ALIAS_MAX);
	return 0;
}

static void
wish_request(struct wish *w)
{
	eventd__v1__request__init(&w->request);
	eventd__v1__watch__init(&w->watch);
	eventd__v1__watch_names__init(&w->names);
	if (w->pattern) {
		w->names.pattern = (char *)(uintptr_t)w->pattern;
		w->request.verb_case = EVENTD__V1__REQUEST__VERB_WATCH_NAMES;
		w->request.watch_names = &w->names;
		return;
	}
	if (w->alias)
		w->watch.alias = (char *)(uintptr_t)w->alias;
	w->watch.session = w->session;
	w->watch.link = w->link;
	w->request.verb_case = EVENTD__V1__REQUEST__VERB_WATCH;
	w->request.watch = &w->watch;
}

/* The number of a watch that is about to be asked for, or -errno. */
static int64_t
watch_prepare(struct evd *c, struct wish *w)
{
	int r = wish_check(c, w);
	uint64_t number;

	if (r)
		return r;
	number = watch_add(c, w->pattern);
	if (!number)
		return evd__fail(c, EVD_STATUS_NO_MEMORY, "out of memory");
	wish_request(w);
	return (int64_t)number;
}

static int64_t
watch_now(struct evd *c, struct wish *w)
{
	int64_t number = watch_prepare(c, w);
	const struct watch *entry;
	int r;

	if (number < 0)
		return number;
	r = evd__request(c, &w->request, (uint64_t)number, NULL);
	entry = watch_of(c, (uint64_t)number);
	if (!r && entry && !entry->wire)
		r = evd__fail(c, EVD_STATUS_PROTOCOL,
			"the daemon's answer is not what was asked for");
	if (r && r != -ETIMEDOUT) /* then the answer drops it */
		evd__watch_drop(c, (uint64_t)number);
	return r ? r : number;
}

static int64_t
watch_later(struct evd *c, struct wish *w)
{
	int64_t number = watch_prepare(c, w), request;

	if (number < 0)
		return number;
	request = evd__request_send(
		c, &w->request, (uint64_t)number, REQUEST_ASYNC);
	if (request < 0)
		evd__watch_drop(c, (uint64_t)number);
	return request;
}

int64_t
evd_watch(struct evd *c, const char *alias)
{
	EVD_CHECK(c);
	return watch_now(c, &(struct wish){.alias = alias});
}

int64_t
evd_watch_id(struct evd *c, uint64_t session)
{
	EVD_CHECK(c);
	return watch_now(c, &(struct wish){.session = session});
}

int64_t
evd_link(struct evd *c, const char *alias)
{
	EVD_CHECK(c);
	return watch_now(c, &(struct wish){.alias = alias, .link = true});
}

int64_t
evd_link_start(struct evd *c, const char *alias)
{
	EVD_CHECK(c);
	return watch_later(c, &(struct wish){.alias = alias, .link = true});
}

int64_t
evd_watch_names(struct evd *c, const char *pattern)
{
	EVD_CHECK(c);
	return watch_now(c, &(struct wish){.pattern = pattern});
}

int64_t
evd_watch_start(struct evd *c, const char *alias)
{
	EVD_CHECK(c);
	return watch_later(c, &(struct wish){.alias = alias});
}

int64_t
evd_watch_names_start(struct evd *c, const char *pattern)
{
	EVD_CHECK(c);
	return watch_later(c, &(struct wish){.pattern = pattern});
}

int
evd_pattern_matches(const char *pattern, const char *alias)
{
	size_t size = pattern ? strlen(pattern) : 0;

	if (!pattern_is_valid(pattern, size, EVD_ALIAS_MAX) || !alias)
		return -EINVAL;
	return pattern_matches(pattern, size, alias, strlen(alias));
}

int
evd_unwatch(struct evd *c, int64_t watch)
{
	Eventd__V1__Request request = EVENTD__V1__REQUEST__INIT;
	Eventd__V1__Unwatch unwatch = EVENTD__V1__UNWATCH__INIT;
	struct watch *w;

	EVD_CHECK(c);
	w = watch > 0 ? watch_of(c, (uint64_t)watch) : NULL;
	if (!w || !w->wire)
		return evd__fail(
			c, EVD_STATUS_NOT_FOUND, "no watch %" PRId64, watch);
	unwatch.watch = w->wire;
	request.verb_case = EVENTD__V1__REQUEST__VERB_UNWATCH;
	request.unwatch = &unwatch;
	watch_remove(c, w);
	return evd__request(c, &request, 0, NULL);
}

/* ---- what is left behind ----------------------------------------------- */

static void
will_request(const struct will *will, Eventd__V1__Request *request,
	Eventd__V1__Will *pb)
{
	eventd__v1__request__init(request);
	eventd__v1__will__init(pb);
	if (will->alias) {
		pb->alias = will->alias;
		pb->event = will->event;
		pb->payload.data = will->data;
		pb->payload.len = will->size;
	}
	request->verb_case = EVENTD__V1__REQUEST__VERB_WILL;
	request->will = pb;
}

static void
will_free(struct will *will)
{
	free(will->alias);
	free(will->event);
	free(will->data);
	memset(will, 0, sizeof(*will));
}

static int
will_copy(struct will *will, const char *alias, const char *event,
	const void *data, size_t size)
{
	will->alias = strdup(alias);
	will->event = strdup(event);
	will->data = malloc(size + 1);
	will->size = size;
	if (!will->alias || !will->event || !will->data) {
		will_free(will);
		return -ENOMEM;
	}
	if (size)
		memcpy(will->data, data, size);
	return 0;
}

int
evd_will(struct evd *c, const char *alias, const char *event, const void *data,
	size_t size)
{
	Eventd__V1__Request request;
	Eventd__V1__Will pb;
	struct will will = {0};
	int r = 0;

	EVD_CHECK(c);
	if (alias)
		r = evd__alias_check(c, alias);
	if (!r && alias)
		r = evd__event_check(c, event);
	if (r)
		return r;
	if (alias && will_copy(&will, alias, event, data, size))
		return evd__fail(c, EVD_STATUS_NO_MEMORY, "out of memory");
	will_request(&will, &request, &pb);
	r = evd__request(c, &request, 0, NULL);
	if (r) {
		will_free(&will);
		return r;
	}
	will_free(&c->will);
	c->will = will;
	return 0;
}

/* After a reconnect. */
void
evd__watches_again(struct evd *c)
{
	Eventd__V1__Request request;
	Eventd__V1__Will pb;

	for (size_t i = 0; i < c->n_watches; i++) {
		struct wish w = {.pattern = c->watches[i].pattern};

		if (!w.pattern)
			continue;
		wish_request(&w);
		if (evd__request_send(c, &w.request, c->watches[i].number,
			    REQUEST_AGAIN) > 0)
			c->rebinding++;
	}
	if (!c->will.alias)
		return;
	will_request(&c->will, &request, &pb);
	if (evd__request_send(c, &request, 0, REQUEST_AGAIN) > 0)
		c->rebinding++;
}

/* Tell the daemon that this is no accident, if that makes a difference. */
void
evd__goodbye(struct evd *c)
{
	Eventd__V1__Request request = EVENTD__V1__REQUEST__INIT;
	Eventd__V1__Goodbye goodbye = EVENTD__V1__GOODBYE__INIT;

	if (c->state != CONN_READY ||
		(!c->will.alias && !c->n_bindings && !c->n_watches))
		return;
	request.verb_case = EVENTD__V1__REQUEST__VERB_GOODBYE;
	request.goodbye = &goodbye;
	if (evd__request_send(c, &request, 0, REQUEST_ABANDONED) > 0)
		evd__write(c);
}

/* ---- fields ------------------------------------------------------------ */

int64_t
evd_event_watch(const struct evd_event *event)
{
	if (event->type != EVD_DOWN && event->type != EVD_NAME)
		return 0;
	return (int64_t)event->number;
}

uint64_t
evd_event_session(const struct evd_event *event)
{
	if (event->type != EVD_DOWN && event->type != EVD_NAME &&
		event->type != EVD_CHILD)
		return 0;
	return event->value;
}

const char *
evd_event_reason(const struct evd_event *event)
{
	if (event->type != EVD_DOWN && event->type != EVD_CHILD)
		return "";
	return event->name_z ? event->name_z : "";
}

const char *
evd_event_change(const struct evd_event *event)
{
	return event->type == EVD_CHILD ? changes[event->number] : "";
}

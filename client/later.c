/* Later: delays, alarms and their cancelling.
 * Belongs to the thread that uses the handle. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "status.h"

/* A Delay with what it points to. */
struct delay {
	Eventd__V1__Request request;
	Eventd__V1__Delay delay;
	Eventd__V1__Header **headers; /* pointers, then what they point to */
};

static int
options_take(struct evd *c, const struct evd_delay_options *opt,
	struct evd_delay_options *out)
{
	memset(out, 0, sizeof(*out));
	if (!opt || opt->size < offsetof(struct evd_delay_options, headers))
		return evd__fail(c, EVD_STATUS_INVALID,
			"options: size is %zu, set it to sizeof",
			opt ? opt->size : (size_t)0);
	memcpy(out, opt, opt->size < sizeof(*out) ? opt->size : sizeof(*out));
	if (out->calendar && (out->at_ns || out->delay_ms || out->repeat_ms))
		return evd__fail(c, EVD_STATUS_INVALID,
			"give a calendar, or a delay or time, not both");
	if (out->at_ns && out->delay_ms)
		return evd__fail(c, EVD_STATUS_INVALID,
			"give a delay or a time, not both");
	if (out->at_ns < 0)
		return evd__fail(c, EVD_STATUS_INVALID,
			"the time is before 1970: %" PRId64 " ns", out->at_ns);
	return 0;
}

static int
headers_fill(struct evd *c, struct delay *d, const struct evd_header *headers,
	size_t n)
{
	struct envelope e = {0};
	Eventd__V1__Header *h;
	int r = evd__headers_encode(c, headers, n, &e); /* checks them */

	free((void *)(uintptr_t)e.headers);
	if (r || !n)
		return r;
	d->headers = calloc(n, sizeof(h) + sizeof(*h));
	if (!d->headers)
		return evd__fail(c, EVD_STATUS_NO_MEMORY, "out of memory");
	h = (Eventd__V1__Header *)(d->headers + n);
	for (size_t i = 0; i < n; i++) {
		eventd__v1__header__init(&h[i]);
		h[i].name = (char *)(uintptr_t)headers[i].name;
		h[i].value.data = (uint8_t *)(uintptr_t)headers[i].value;
		h[i].value.len = headers[i].size;
		d->headers[i] = &h[i];
	}
	d->delay.n_headers = n;
	d->delay.headers = d->headers;
	return 0;
}

static int
delay_prepare(struct evd *c, const struct message *m,
	const struct evd_delay_options *opt, struct delay *d)
{
	struct evd_delay_options o;
	struct envelope e;
	int r = options_take(c, opt, &o);

	d->headers = NULL;
	if (!r)
		r = evd__alias_check(c, m->alias);
	if (!r)
		r = evd__ready(c, evd__deadline(c, 0));
	if (!r)
		r = evd__message_check(c, m, &e);
	if (!r && m->size > c->max_payload)
		r = evd__size_failed(c, m->size);
	if (r)
		return r;
	eventd__v1__request__init(&d->request);
	eventd__v1__delay__init(&d->delay);
	d->request.verb_case = EVENTD__V1__REQUEST__VERB_DELAY;
	d->request.delay = &d->delay;
	d->delay.alias = (char *)(uintptr_t)m->alias;
	d->delay.event = (char *)(uintptr_t)m->event;
	d->delay.payload.data = (uint8_t *)(uintptr_t)m->data;
	d->delay.payload.len = m->size;
	d->delay.delay_ms = o.delay_ms;
	d->delay.at_ns = o.at_ns;
	d->delay.repeat_ms = o.repeat_ms;
	d->delay.priority = (Eventd__V1__Priority)o.priority;
	d->delay.ttl_ms = o.ttl_ms;
	d->delay.slack_ms = o.slack_ms;
	d->delay.clock = (Eventd__V1__Clock)o.clock;
	d->delay.misfire = (Eventd__V1__Misfire)o.misfire;
	d->delay.durable = (Eventd__V1__Durability)o.keep;
	if (o.name)
		d->delay.name = (char *)(uintptr_t)o.name;
	if (o.calendar)
		d->delay.calendar = (char *)(uintptr_t)o.calendar;
	if (o.zone)
		d->delay.zone = (char *)(uintptr_t)o.zone;
	return headers_fill(c, d, o.headers, o.n_headers);
}

int64_t
evd_delay_opt(struct evd *c, const char *alias, const char *event,
	const void *data, size_t size, const struct evd_delay_options *opt)
{
	struct message m = {alias, 0, event, data, size, 0};
	struct response *response;
	struct delay d;
	uint64_t timer;
	int r;

	EVD_CHECK(c);
	r = delay_prepare(c, &m, opt, &d);
	if (!r)
		r = evd__request_for(c, &d.request,
			EVENTD__V1__RESPONSE__RESULT_DELAYED, &response);
	free(d.headers);
	if (r)
		return r;
	timer = response->pb->delayed->timer;
	evd__response_free(response);
	if (!timer || timer > INT64_MAX)
		return evd__fail(c, EVD_STATUS_PROTOCOL,
			"the daemon gave a timer the number %" PRIu64, timer);
	return (int64_t)timer;
}

int64_t
evd_delay_start(struct evd *c, const char *alias, const char *event,
	const void *data, size_t size, const struct evd_delay_options *opt)
{
	struct message m = {alias, 0, event, data, size, 0};
	struct delay d;
	int64_t r;

	EVD_CHECK(c);
	r = delay_prepare(c, &m, opt, &d);
	if (!r)
		r = evd__request_send(c, &d.request, 0, REQUEST_ASYNC);
	free(d.headers);
	return r;
}

int64_t
evd_delay(struct evd *c, const char *alias, const char *event, const void *data,
	size_t size, uint64_t delay_ms)
{
	struct evd_delay_options opt = {
		.size = sizeof(opt), .delay_ms = delay_ms};

	return evd_delay_opt(c, alias, event, data, size, &opt);
}

int64_t
evd_alarm(struct evd *c, const char *alias, const char *event, const void *data,
	size_t size, int64_t at_ns)
{
	struct evd_delay_options opt = {.size = sizeof(opt), .at_ns = at_ns};

	EVD_CHECK(c);
	if (!at_ns)
		return evd__fail(c, EVD_STATUS_INVALID,
			"an alarm needs a time, nanoseconds since 1970");
	return evd_delay_opt(c, alias, event, data, size, &opt);
}

int64_t
evd_due_ns(const struct evd *c)
{
	return evd__is_foreign(c) ? 0 : c->timer_due_ns;
}

uint64_t
evd_replaced(const struct evd *c)
{
	return evd__is_foreign(c) ? 0 : c->timer_replaced;
}

static void
cancel_request(Eventd__V1__Request *request, Eventd__V1__Cancel *cancel,
	uint64_t timer)
{
	eventd__v1__request__init(request);
	eventd__v1__cancel__init(cancel);
	cancel->timer = timer;
	request->verb_case = EVENTD__V1__REQUEST__VERB_CANCEL;
	request->cancel = cancel;
}

int
evd_cancel(struct evd *c, uint64_t timer)
{
	Eventd__V1__Request request;
	Eventd__V1__Cancel cancel;

	cancel_request(&request, &cancel, timer);
	return evd__request(c, &request, 0, NULL);
}

int64_t
evd_cancel_start(struct evd *c, uint64_t timer)
{
	Eventd__V1__Request request;
	Eventd__V1__Cancel cancel;

	EVD_CHECK(c);
	cancel_request(&request, &cancel, timer);
	return evd__request_send(c, &request, 0, REQUEST_ASYNC);
}

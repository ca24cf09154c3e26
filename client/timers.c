/* Timers: cancel by name, change, and when a calendar's times are.
 * Belongs to the thread that uses the handle. */
#include <string.h>

#include "internal.h"
#include "status.h"

/* ---- cancel ------------------------------------------------------------- */

static int
name_check(struct evd *c, const char *name)
{
	if (name && name_is_valid(name, strlen(name), ENVELOPE_EVENT_MAX))
		return 0;
	return evd__fail(c, EVD_STATUS_INVALID,
		"a timer's name is 1 to %d of A-Z a-z 0-9 _ . / -",
		ENVELOPE_EVENT_MAX);
}

/* How many there were. */
static int64_t
cancel(struct evd *c, const char *alias, const char *name)
{
	Eventd__V1__Request request = EVENTD__V1__REQUEST__INIT;
	Eventd__V1__Cancel cancel = EVENTD__V1__CANCEL__INIT;
	struct response *response;
	int64_t n;
	int r = evd__alias_check(c, alias);

	if (r)
		return r;
	cancel.alias = (char *)(uintptr_t)alias;
	if (name)
		cancel.name = (char *)(uintptr_t)name;
	cancel.all = !name;
	request.verb_case = EVENTD__V1__REQUEST__VERB_CANCEL;
	request.cancel = &cancel;
	r = evd__request_for(
		c, &request, EVENTD__V1__RESPONSE__RESULT_CANCELLED, &response);
	if (r)
		return r;
	n = (int64_t)(response->pb->cancelled->timers & INT64_MAX);
	evd__response_free(response);
	return n;
}

int
evd_cancel_name(struct evd *c, const char *alias, const char *name)
{
	int64_t r;

	EVD_CHECK(c);
	r = name_check(c, name);
	if (!r)
		r = cancel(c, alias, name);
	return r < 0 ? (int)r : 0;
}

int64_t
evd_cancel_all(struct evd *c, const char *alias)
{
	EVD_CHECK(c);
	return cancel(c, alias, NULL);
}

/* ---- adjust ------------------------------------------------------------- */

static int
adjust_take(struct evd *c, const struct evd_adjust_options *opt,
	struct evd_adjust_options *o)
{
	int r = 0;

	memset(o, 0, sizeof(*o));
	if (!opt || opt->size < offsetof(struct evd_adjust_options, due))
		return evd__fail(c, EVD_STATUS_INVALID,
			"options: size is %zu, set it to sizeof",
			opt ? opt->size : (size_t)0);
	memcpy(o, opt, opt->size < sizeof(*o) ? opt->size : sizeof(*o));
	if (!o->timer) {
		r = evd__alias_check(c, o->alias);
		if (!r)
			r = name_check(c, o->name);
	}
	return r;
}

int64_t
evd_adjust(struct evd *c, const struct evd_adjust_options *opt)
{
	Eventd__V1__Request request = EVENTD__V1__REQUEST__INIT;
	Eventd__V1__Adjust a = EVENTD__V1__ADJUST__INIT;
	struct evd_adjust_options o;
	struct response *response;
	int64_t timer;
	int r;

	EVD_CHECK(c);
	r = adjust_take(c, opt, &o);
	if (r)
		return r;
	a.timer = o.timer;
	if (!o.timer) {
		a.alias = (char *)(uintptr_t)o.alias;
		a.name = (char *)(uintptr_t)o.name;
	}
	a.due = o.due != 0;
	a.delay_ms = o.delay_ms;
	a.at_ns = o.at_ns;
	a.repeat = o.repeat != 0;
	a.repeat_ms = o.repeat_ms;
	request.verb_case = EVENTD__V1__REQUEST__VERB_ADJUST;
	request.adjust = &a;
	r = evd__request_for(
		c, &request, EVENTD__V1__RESPONSE__RESULT_ADJUSTED, &response);
	if (r)
		return r;
	timer = (int64_t)(response->pb->adjusted->timer & INT64_MAX);
	c->timer_due_ns = response->pb->adjusted->due_ns;
	evd__response_free(response);
	return timer;
}

/* ---- calendar ----------------------------------------------------------- */

static const Eventd__V1__CalendarTimes *
times_of(const struct evd_calendar *times)
{
	return ((const struct response *)times)->pb->calendar;
}

int
evd_calendar(struct evd *c, const char *calendar, const char *zone,
	int64_t after_ns, uint32_t limit, struct evd_calendar **times)
{
	Eventd__V1__Request request = EVENTD__V1__REQUEST__INIT;
	Eventd__V1__Calendar want = EVENTD__V1__CALENDAR__INIT;
	struct response *response;
	int r;

	EVD_CHECK(c);
	if (!calendar || !times)
		return evd__fail(c, EVD_STATUS_INVALID,
			"a calendar and where to put its times are needed");
	want.calendar = (char *)(uintptr_t)calendar;
	if (zone)
		want.zone = (char *)(uintptr_t)zone;
	want.after_ns = after_ns;
	want.limit = limit;
	request.verb_case = EVENTD__V1__REQUEST__VERB_CALENDAR;
	request.calendar = &want;
	r = evd__request_for(
		c, &request, EVENTD__V1__RESPONSE__RESULT_CALENDAR, &response);
	if (!r)
		*times = (struct evd_calendar *)response;
	return r;
}

size_t
evd_calendar_count(const struct evd_calendar *times)
{
	return times_of(times)->n_at_ns;
}

int64_t
evd_calendar_at_ns(const struct evd_calendar *times, size_t i)
{
	const Eventd__V1__CalendarTimes *pb = times_of(times);

	return i < pb->n_at_ns ? pb->at_ns[i] : 0;
}

int32_t
evd_calendar_offset_s(const struct evd_calendar *times, size_t i)
{
	const Eventd__V1__CalendarTimes *pb = times_of(times);

	return i < pb->n_offset_s ? pb->offset_s[i] : 0;
}

const char *
evd_calendar_zone(const struct evd_calendar *times)
{
	return times_of(times)->zone;
}

struct evd_calendar *
evd_calendar_free(struct evd_calendar *times)
{
	evd__response_free((struct response *)times);
	return NULL;
}

/* Verbs about time: delay, cancel, timers. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "envelope.h"
#include "kernel/alias.h"
#include "verb/gather.h"

enum {
	TIMERS_PAGE = 1000,
	TIMERS_LOOK = 10000, /* at so many for one page */
	DELAY_HEADERS_MAX = 64,
};
/* A century: sums of it and the clocks do not overflow. */
static const uint64_t delay_max_ms = 100ull * 366 * 24 * 3600 * 1000;

/* ---- delay ------------------------------------------------------------- */

/* As those of envelopes: a consumer's decoder refuses others. */
static bool
headers_ok(const Eventd__V1__Delay *d)
{
	for (size_t i = 0; i < d->n_headers; i++) {
		const char *name = d->headers[i]->name;

		if (!name_is_valid(name, strlen(name), ENVELOPE_EVENT_MAX))
			return false;
	}
	return true;
}

static bool
delay_ok(struct peer *p, uint64_t id, const Eventd__V1__Delay *d)
{
	struct sched *s = atomic_load(&p->session->home);
	char text[VERB_TEXT_MAX];

	if (!verb_is_open(p, id) || !verb_name_ok(p, id, d->alias))
		return false;
	if (!name_is_valid(d->event, strlen(d->event), ENVELOPE_EVENT_MAX)) {
		verb_refuse(p, id, EVD_STATUS_INVALID,
			"an event is 1 to 127 of A-Z a-z 0-9 _ . / -");
		return false;
	}
	if (d->payload.len > s->kernel->limits.max_payload) {
		snprintf(text, sizeof(text),
			"payload of %zu bytes, at most %" PRIu32
			" (MaxPayload= in eventd.conf)",
			d->payload.len, s->kernel->limits.max_payload);
		verb_refuse(p, id, EVD_STATUS_TOO_LARGE, text);
		return false;
	}
	if (d->delay_ms > delay_max_ms || d->repeat_ms > delay_max_ms ||
		d->at_ns < 0 || (d->at_ns && d->delay_ms) ||
		d->n_headers > DELAY_HEADERS_MAX) {
		verb_refuse(p, id, EVD_STATUS_INVALID,
			"a delay is at most a century, either in or at, and "
			"has at most 64 headers");
		return false;
	}
	if (!headers_ok(d)) {
		verb_refuse(p, id, EVD_STATUS_INVALID,
			"a header's name is 1 to 127 of A-Z a-z 0-9 _ . / -");
		return false;
	}
	return true;
}

/* Headers as they travel in envelopes: encoded end to end. False: too many. */
static bool
encode_headers(const Eventd__V1__Delay *d, uint8_t *out, uint32_t *size)
{
	Eventd__V1__Envelope e = EVENTD__V1__ENVELOPE__INIT;

	e.headers = d->headers;
	e.n_headers = d->n_headers;
	if (eventd__v1__envelope__get_packed_size(&e) > ENVELOPE_HEADERS_MAX)
		return false;
	*size = (uint32_t)eventd__v1__envelope__pack(&e, out);
	return true;
}

static struct msg *
delay_message(struct sched *s, const Eventd__V1__Delay *d)
{
	uint8_t headers[ENVELOPE_HEADERS_MAX];
	uint32_t headers_size;

	if (!encode_headers(d, headers, &headers_size))
		return NULL;
	return msg_new(
		&s->pool, &(struct msg_init){
				  .event = d->event,
				  .event_size = (uint8_t)strlen(d->event),
				  .data = d->payload.data,
				  .size = (uint32_t)d->payload.len,
				  .headers = headers,
				  .headers_size = headers_size,
			  });
}

static void
delay_refused(struct peer *p, uint64_t id, const Eventd__V1__Delay *d, int r)
{
	struct sched *s = atomic_load(&p->session->home);
	char text[VERB_TEXT_MAX];

	if (r == DELAY_E_NO_ALIAS) {
		snprintf(text, sizeof(text), "no session holds the alias '%s'",
			d->alias);
		verb_refuse(p, id, EVD_STATUS_NO_ALIAS, text);
	} else if (r == DELAY_E_LIMIT) {
		snprintf(text, sizeof(text),
			"%" PRIu32 " timers of %" PRIu64 " MiB are set, at "
			"most %" PRIu32 " (MaxTimers= in eventd.conf) of %d",
			s->delays.n, s->delays.size >> 20,
			s->kernel->limits.max_timers, DELAYS_SIZE_MAX >> 20);
		verb_refuse(p, id, EVD_STATUS_LIMIT, text);
	} else {
		verb_refuse(p, id, EVD_STATUS_NO_MEMORY, "out of memory");
	}
}

void
verb_delay(struct peer *p, const Eventd__V1__Request *r)
{
	Eventd__V1__Response response = EVENTD__V1__RESPONSE__INIT;
	Eventd__V1__Delayed delayed = EVENTD__V1__DELAYED__INIT;
	struct sched *s = atomic_load(&p->session->home);
	const Eventd__V1__Delay *d = r->delay;
	uint64_t wait_ns = d->delay_ms * NS_PER_MS;
	struct delay_init init = {
		.alias = d->alias,
		.alias_size = (uint32_t)strlen(d->alias),
		.wall = d->at_ns != 0,
		.due_ns = d->at_ns ? (uint64_t)d->at_ns
				   : clock_now(s->kernel->clock) + wait_ns,
		.repeat_ns = d->repeat_ms * NS_PER_MS,
	};
	struct msg *m;
	int e;

	if (!delay_ok(p, r->id, d))
		return;
	m = delay_message(s, d);
	if (!m) {
		verb_refuse(p, r->id, EVD_STATUS_TOO_LARGE,
			"the headers are over 16 KiB");
		return;
	}
	e = delay_set(s, p->session, &init, m, &delayed.timer);
	if (e) {
		msg_free(&s->pool, m);
		delay_refused(p, r->id, d, e);
		return;
	}
	delayed.due_ns =
		d->at_ns ? d->at_ns
			 : (int64_t)(clock_wall(s->kernel->clock) + wait_ns);
	response.id = r->id;
	response.result_case = EVENTD__V1__RESPONSE__RESULT_DELAYED;
	response.delayed = &delayed;
	p->ops->respond(p, &response);
}

/* ---- cancel ------------------------------------------------------------ */

static bool
cancel_visit(struct gather *g, struct sched *s)
{
	if (delay_cancel(s, g->args[0])) {
		g->status = EVD_STATUS_NOT_FOUND;
		snprintf(g->text, sizeof(g->text),
			"no timer %" PRIu64
			": it has fired, was cancelled, or never was",
			g->args[0]);
	}
	return false;
}

void
verb_cancel(struct peer *p, const Eventd__V1__Request *r)
{
	struct sched *s = atomic_load(&p->session->home);
	unsigned index = delay_sched(r->cancel->timer);
	struct gather *g;

	if (index >= s->kernel->n_scheds) {
		verb_refuse(p, r->id, EVD_STATUS_NOT_FOUND, "no such timer");
		return;
	}
	g = gather_new(p, r->id);
	if (!g)
		return;
	g->args[0] = r->cancel->timer;
	g->next = index;
	g->visit = cancel_visit;
	gather_start(g, s);
}

/* ---- timers ------------------------------------------------------------ */

/* Whom it goes to: a session's timer for itself is shown under its name. */
static const char *
target_name(struct sched *s, const struct delay *delay)
{
	const struct session *t;

	if (delay->alias)
		return delay->alias->name;
	t = session_find(s->kernel, delay->msg->to);
	return t && atomic_load(&t->home) == s ? session_name(t) : "";
}

static Eventd__V1__TimerInfo *
timer_info(struct gather *g, struct sched *s, const struct delay *delay)
{
	Eventd__V1__TimerInfo *info = gather_alloc(g, sizeof(*info));
	uint64_t wait = delay->timer.due_ns - clock_now(s->kernel->clock);

	if (!info)
		return NULL;
	eventd__v1__timer_info__init(info);
	info->id = delay->id;
	info->alias = gather_string(g, target_name(s, delay));
	info->event = gather_string(g, delay->msg->event);
	info->due_ns = delay->wall
			       ? (int64_t)delay->timer.due_ns
			       : (int64_t)(clock_wall(s->kernel->clock) + wait);
	info->repeat_ms = delay->repeat_ns / NS_PER_MS;
	info->owner = delay->owner;
	info->size = delay->msg->size;
	return info->alias && info->event ? info : NULL;
}

static bool
is_wanted(const struct gather *g, struct sched *s, const struct delay *delay)
{
	return !g->name[0] || !strcmp(target_name(s, delay), g->name);
}

/* args: after, limit, how many to look at yet; out: Eventd__V1__TimerList */
static bool
timers_visit(struct gather *g, struct sched *s)
{
	Eventd__V1__TimerList *list = g->out;
	struct delay *delay;
	uint64_t after = g->args[0];

	g->args[0] = 0; /* the next scheduler begins at its first */
	while ((delay = delays_next(&s->delays, after))) {
		after = delay->id;
		if (is_wanted(g, s, delay)) {
			list->timers[list->n_timers] = timer_info(g, s, delay);
			if (!list->timers[list->n_timers])
				return false;
			list->n_timers++;
		}
		if (list->n_timers == g->args[1] || --g->args[2] == 0) {
			list->next = after;
			return false;
		}
	}
	return true;
}

/* A page ends, too, when enough has been looked at: a search that finds little
 * does not hold up the loop. */
void
verb_timers(struct peer *p, const Eventd__V1__Request *r)
{
	struct sched *s = atomic_load(&p->session->home);
	const Eventd__V1__Timers *want = r->timers;
	uint32_t limit = want->limit && want->limit < TIMERS_PAGE ? want->limit
								  : TIMERS_PAGE;
	Eventd__V1__TimerList *list;
	Eventd__V1__TimerInfo **timers;
	struct gather *g;

	if (want->alias[0] && !verb_name_ok(p, r->id, want->alias))
		return;
	g = gather_new(p, r->id);
	if (!g)
		return;
	list = gather_alloc(g, sizeof(*list));
	timers = gather_alloc(g, limit * sizeof(Eventd__V1__TimerInfo *));
	if (!list || !timers) {
		gather_answer(g);
		return;
	}
	eventd__v1__timer_list__init(list);
	list->timers = timers;
	g->args[0] = want->after;
	g->args[1] = limit;
	g->args[2] = TIMERS_LOOK;
	strcpy(g->name, want->alias);
	g->out = list;
	g->next = want->after ? delay_sched(want->after) : 0;
	if (g->next >= s->kernel->n_scheds)
		g->next = 0;
	g->visit = timers_visit;
	g->response.result_case = EVENTD__V1__RESPONSE__RESULT_TIMERS;
	g->response.timers = list;
	gather_start(g, s);
}

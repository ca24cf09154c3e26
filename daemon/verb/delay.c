/* The verb delay. One that is to be in the store is set where its mailbox is.
 * Of others, one without a name is set on the connection's loop; a name is
 * kept on the loop that its alias falls to, so that of two set at a time one
 * replaces the other, wherever they come from. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/calendar.h"
#include "envelope.h"
#include "kernel/alias.h"
#include "kernel/journal.h"
#include "verb/gather.h"
#include "verb/time.h"

enum { DELAY_HEADERS_MAX = 64, HOPS_MAX = 8 };

/* ---- what is asked ------------------------------------------------------- */

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
clock_ok(const Eventd__V1__Delay *d)
{
	if ((unsigned)d->durable > EVENTD__V1__DURABILITY__KEEP_VOLATILE ||
		(unsigned)d->clock >= DELAY_CLOCKS ||
		(unsigned)d->misfire >= DELAY_MISFIRES)
		return false;
	if (d->calendar[0])
		return !d->at_ns && !d->delay_ms && !d->repeat_ms &&
		       d->clock != EVENTD__V1__CLOCK__BOOTTIME;
	return !d->at_ns || d->clock != EVENTD__V1__CLOCK__BOOTTIME;
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
	if (!verb_may(p, id, RIGHT_POST, d->alias, d->event) ||
		!verb_has_room(p, id, CHARGE_TIMERS, 1) ||
		!verb_has_room(p, id, CHARGE_BYTES, d->payload.len))
		return false;
	if (d->delay_ms > VERB_DELAY_MAX_MS ||
		d->repeat_ms > VERB_DELAY_MAX_MS ||
		d->slack_ms > VERB_DELAY_MAX_MS || d->at_ns < 0 ||
		(d->at_ns && d->delay_ms) || d->n_headers > DELAY_HEADERS_MAX) {
		verb_refuse(p, id, EVD_STATUS_INVALID,
			"a delay is at most a century, either in or at, and "
			"has at most 64 headers");
		return false;
	}
	if (d->name[0] && !verb_timer_name_ok(p, id, d->name))
		return false;
	if (!clock_ok(d)) {
		verb_refuse(p, id, EVD_STATUS_INVALID,
			"a time and a calendar are of the wall clock, and a "
			"calendar goes with no other time");
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

/* ---- setting it ---------------------------------------------------------- */

/* On its way to other loops; in the arena of the answer. */
struct setting {
	struct delay_init init;
	uint8_t headers[ENVELOPE_HEADERS_MAX];
	uint64_t wait_ns;
	bool waits; /* due_ns is wait_ns from now */
	Eventd__V1__Durability durable;
	unsigned n_hops;
	struct sched *set_at; /* where the one that was set is */
	struct gather *gather;
	struct journal_wait ready;
	struct delay_told told;
	Eventd__V1__Delayed delayed;
};

static void
delay_refused(struct gather *g, struct sched *s, int r)
{
	const struct setting *set = g->out;

	switch (r) {
	case DELAY_E_NO_ALIAS:
		g->status = EVD_STATUS_NO_ALIAS;
		snprintf(g->text, sizeof(g->text),
			"no session holds the alias '%s'", set->init.alias);
		break;
	case DELAY_E_LIMIT:
		g->status = EVD_STATUS_LIMIT;
		snprintf(g->text, sizeof(g->text),
			"%" PRIu32 " timers of %" PRIu64 " MiB are set, at "
			"most %" PRIu32 " (MaxTimers= in eventd.conf) of %d",
			s->delays.n, s->delays.size >> 20,
			s->kernel->limits.max_timers, DELAYS_SIZE_MAX >> 20);
		break;
	case DELAY_E_NEVER:
		g->status = EVD_STATUS_INVALID;
		snprintf(g->text, sizeof(g->text),
			"the calendar '%.200s' has no time to come",
			set->init.calendar->text);
		break;
	case DELAY_E_STORE:
		g->status = EVD_STATUS_IO;
		snprintf(g->text, sizeof(g->text),
			"the store cannot take a timer for '%s'",
			set->init.alias);
		break;
	default:
		g->status = EVD_STATUS_NO_MEMORY;
		strcpy(g->text, "out of memory");
	}
}

/* The timer of that name here, set by a client for the alias; 0: there is
 * none. */
static uint64_t
namesake(struct sched *s, const struct setting *set)
{
	const struct delay_init *init = &set->init;
	const struct alias *alias =
		init->name_size ? alias_find(&s->kernel->aliases, init->alias,
					  init->alias_size)
				: NULL;

	return alias ? delay_named(s, 0, alias, init->name, init->name_size)
		     : 0;
}

/* May the one that it would take the place of go? */
static bool
may_replace(struct gather *g, struct sched *s, const struct setting *set)
{
	uint64_t id = namesake(s, set);

	return !id || verb_timer_may_change(g, s, id);
}

static void
drop_calendar(struct gather *g)
{
	struct setting *set = g->out;

	calendar_unref(set->init.calendar);
	set->init.calendar = NULL;
}

/* Those in the store are with their mailbox, others where names are: the other
 * place is looked at, too. */
static bool
replace_visit(struct gather *g, struct sched *s)
{
	struct setting *set = g->out;
	uint64_t id = namesake(s, set);

	g->pending = false;
	if (id && s != set->set_at && verb_timer_may_change(g, s, id) &&
		delay_cancel(s, id) == 0)
		set->delayed.replaced = id;
	return false;
}

static bool
look_elsewhere(struct gather *g, struct sched *s, struct sched *other)
{
	struct setting *set = g->out;

	set->set_at = s;
	if (set->init.name_size && other != s) {
		g->visit = replace_visit;
		g->hop = other;
	}
	return false;
}

/* ---- in memory ----------------------------------------------------------- */

static struct session *
holder_of(struct kernel *k, const struct setting *set)
{
	const struct alias *alias =
		alias_find(&k->aliases, set->init.alias, set->init.alias_size);

	return alias ? session_find(k, atomic_load(&alias->holder)) : NULL;
}

static struct sched *
home_of(struct kernel *k, const struct setting *set, struct sched *other)
{
	struct session *t = holder_of(k, set);

	return t ? atomic_load(&t->home) : other;
}

static bool
volatile_visit(struct gather *g, struct sched *s)
{
	struct setting *set = g->out;
	struct session *owner = session_find(s->kernel, g->session);
	uint64_t id, replaced;
	int r;

	if (owner && atomic_load(&owner->home) != s)
		owner = NULL;
	if (!may_replace(g, s, set)) {
		drop_calendar(g);
		return false;
	}
	r = delay_set(s, owner, &set->init, &id, &replaced);
	if (r) {
		delay_refused(g, s, r);
		drop_calendar(g);
		return false;
	}
	set->delayed.timer = id;
	set->delayed.replaced = replaced;
	set->delayed.due_ns =
		(int64_t)delay_due_wall_ns(s, delay_find(&s->delays, id));
	drop_calendar(g);
	return look_elsewhere(g, s, home_of(s->kernel, set, s));
}

/* ---- in the store -------------------------------------------------------- */

static struct sched *
names_home(struct sched *s, const struct setting *set)
{
	const struct alias *alias = alias_find(
		&s->kernel->aliases, set->init.alias, set->init.alias_size);

	return alias && set->init.name_size
		       ? s->kernel->scheds[delay_names_home(s, alias)]
		       : s;
}

static void
on_stored(struct delay_told *told, struct sched *s, int r)
{
	struct setting *set = container_of(told, struct setting, told);
	struct gather *g = set->gather;

	if (r)
		delay_refused(g, s, r);
	drop_calendar(g);
	set->delayed.timer = told->id;
	set->delayed.replaced = told->replaced;
	set->delayed.due_ns = (int64_t)told->due_ns;
	set->delayed.durable = true;
	set->set_at = s;
	if (r || !set->init.name_size || names_home(s, set) == s) {
		gather_return(g, s);
		return;
	}
	g->visit = replace_visit;
	sched_run_on(s, names_home(s, set), &g->task);
}

static void
store_it(struct gather *g, struct sched *s, struct session *t)
{
	struct setting *set = g->out;
	struct session *owner = session_find(s->kernel, g->session);
	int r;

	if (owner && atomic_load(&owner->home) != s)
		owner = NULL;
	if (!may_replace(g, s, set)) {
		drop_calendar(g);
		return;
	}
	set->gather = g;
	set->told.told = on_stored;
	r = delay_set_stored(s, owner, t, &set->init, &set->told);
	g->pending = !r;
	if (!r)
		return;
	delay_refused(g, s, r);
	drop_calendar(g);
}

static void
on_ready(struct journal_wait *w, struct sched *s)
{
	struct setting *set = container_of(w, struct setting, ready);

	sched_run_on(s, s, &set->gather->task);
}

/* Is it to be in the store? */
static bool
is_durable(const struct setting *set, const struct session *t)
{
	if (set->durable == EVENTD__V1__DURABILITY__KEEP_AS_MAILBOX)
		return session_journal(t) && !journal_is_partial(t);
	return set->durable == EVENTD__V1__DURABILITY__KEEP_DURABLE;
}

static bool
durable_visit(struct gather *g, struct sched *s, struct session *t)
{
	struct setting *set = g->out;

	if (!session_journal(t) && journal_open_partial(t)) {
		g->status = EVD_STATUS_UNSUPPORTED;
		snprintf(g->text, sizeof(g->text),
			"the mailbox of '%s' keeps nothing: %s",
			set->init.alias, journal_lacks(t));
		drop_calendar(g);
	} else if (!journal_is_ready(t)) {
		set->gather = g;
		set->ready.ready = on_ready;
		g->pending = true;
		journal_await(t, &set->ready);
	} else {
		store_it(g, s, t);
	}
	return false;
}

/* Where its mailbox is, as far as anybody has it. */
static bool
delay_visit(struct gather *g, struct sched *s)
{
	struct setting *set = g->out;
	struct session *t = holder_of(s->kernel, set);

	g->pending = false;
	if (set->waits) {
		set->init.due_ns = delay_now(s, set->init.clock) + set->wait_ns;
		set->waits = false; /* it counts from here */
	}
	if (!t || set->n_hops > HOPS_MAX) {
		delay_refused(g, s, DELAY_E_NO_ALIAS);
		drop_calendar(g);
		return false;
	}
	if (atomic_load(&t->home) != s) {
		g->hop = atomic_load(&t->home);
		set->n_hops++;
		return false;
	}
	if (is_durable(set, t))
		return durable_visit(g, s, t);
	g->visit = volatile_visit;
	g->hop = set->init.name_size ? names_home(s, set) : g->home;
	return false;
}

static void *
copy_of(struct gather *g, const void *data, size_t size)
{
	void *copy = gather_alloc(g, size + 1); /* and a NUL */

	return copy && size ? memcpy(copy, data, size) : copy;
}

/* The request does not outlive its verb. */
static bool
fill_texts(
	struct gather *g, struct delay_init *init, const Eventd__V1__Delay *d)
{
	init->alias = copy_of(g, d->alias, strlen(d->alias));
	init->alias_size = (uint32_t)strlen(d->alias);
	init->event = copy_of(g, d->event, strlen(d->event));
	init->event_size = (uint8_t)strlen(d->event);
	init->data = copy_of(g, d->payload.data, d->payload.len);
	init->size = (uint32_t)d->payload.len;
	init->name = copy_of(g, d->name, strlen(d->name));
	init->name_size = (uint8_t)strlen(d->name);
	return init->alias && init->event && init->data && init->name;
}

static struct setting *
setting_new(struct gather *g, const Eventd__V1__Delay *d)
{
	struct setting *set = gather_alloc(g, sizeof(*set));

	if (!set || !fill_texts(g, &set->init, d))
		return NULL;
	eventd__v1__delayed__init(&set->delayed);
	set->init.by_alias = true;
	set->init.owner = g->session;
	set->init.headers = set->headers;
	set->init.clock = d->at_ns ? DELAY_WALL : (enum delay_clock)d->clock;
	set->init.due_ns = (uint64_t)d->at_ns;
	set->init.repeat_ns = d->repeat_ms * NS_PER_MS;
	set->init.slack_ns = d->slack_ms * NS_PER_MS;
	set->init.urgent = d->priority == EVENTD__V1__PRIORITY__URGENT;
	set->init.ttl_ns = d->ttl_ms * (uint64_t)NS_PER_MS;
	set->init.misfire = (enum delay_misfire)d->misfire;
	set->waits = !d->at_ns;
	set->durable = d->durable;
	set->wait_ns = d->delay_ms * NS_PER_MS;
	return set;
}

/* What can fail with a reason of its own: false, and g has it. */
static bool
fill_rest(struct gather *g, struct setting *set, const Eventd__V1__Delay *d)
{
	char error[CALENDAR_ERROR_SIZE];
	int r;

	if (!encode_headers(d, set->headers, &set->init.headers_size)) {
		g->status = EVD_STATUS_TOO_LARGE;
		strcpy(g->text, "the headers are over 16 KiB");
		return false;
	}
	if (!d->calendar[0])
		return true;
	r = calendar_new(d->calendar, d->zone, &g->home->kernel->zones,
		&set->init.calendar, error);
	if (r)
		verb_calendar_wrong(g, r, d->calendar, error);
	return !r;
}

void
verb_delay(struct peer *p, const Eventd__V1__Request *r)
{
	struct sched *s = atomic_load(&p->session->home);
	const Eventd__V1__Delay *d = r->delay;
	struct setting *set;
	struct gather *g;

	if (!delay_ok(p, r->id, d))
		return;
	g = gather_new(p, r->id);
	if (!g)
		return;
	set = setting_new(g, d);
	if (!set || !fill_rest(g, set, d)) {
		gather_answer(g);
		return;
	}
	set->init.has_uid = true;
	set->init.uid = p->uid;
	g->out = set;
	g->visit = delay_visit;
	g->drop = drop_calendar;
	g->response.result_case = EVENTD__V1__RESPONSE__RESULT_DELAYED;
	g->response.delayed = &set->delayed;
	g->next = s->index;
	gather_start(g, s);
}

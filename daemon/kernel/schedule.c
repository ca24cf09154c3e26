#include "kernel/schedule.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/calendar.h"
#include "base/log.h"
#include "kernel/journal.h"
#include "kernel/sched.h"

enum { NAME_SIZE = DELAY_NAME_MAX + 1 };

/* Its event; of several for one event the second is EVENT.2, and so on. */
static void
name_of(const struct session_spec *spec, size_t index, char name[NAME_SIZE])
{
	const char *event = spec->schedules[index].event;
	unsigned n = 1;

	for (size_t i = 0; i < index; i++)
		n += strcmp(spec->schedules[i].event, event) == 0;
	if (n == 1)
		snprintf(name, NAME_SIZE, "%s", event);
	else
		snprintf(name, NAME_SIZE, "%.*s.%u", DELAY_NAME_MAX - 11, event,
			n);
}

/* Does @delay do what entry @e of the spec asks for? */
static bool
is_same(const struct delay *delay, const struct session_spec *spec,
	const struct spec_schedule *e)
{
	const struct delay_more *more = delay->more;

	return (delay->timer.b & DELAY_SCHEDULE) && more->calendar &&
	       delay_is_stored(delay) == spec->persistent &&
	       more->misfire == spec->misfire &&
	       strcmp(delay_event(delay), e->event) == 0 &&
	       strcmp(more->calendar->text, e->calendar->text) == 0 &&
	       strcmp(calendar_zone(more->calendar),
		       calendar_zone(e->calendar)) == 0;
}

static void
arm_entry(struct sched *sched, struct session *s, size_t i)
{
	const struct spec_schedule *e = &s->spec->schedules[i];
	char name[NAME_SIZE];
	struct delay_init init = {.to = s->id,
		.event = e->event,
		.event_size = (uint8_t)strlen(e->event),
		.misfire = (enum delay_misfire)s->spec->misfire,
		.name = name,
		.schedule = true};
	const struct delay *now;
	int r;

	name_of(s->spec, i, name);
	init.name_size = (uint8_t)strlen(name);
	now = delay_find(&sched->delays,
		delay_named(sched, s->id, NULL, name, init.name_size));
	if (now && is_same(now, s->spec, e))
		return;
	/* The spec may be older than the rules of its zone. */
	init.calendar = calendar_renew(e->calendar, &sched->kernel->zones);
	if (!init.calendar)
		r = -ENOMEM;
	else if (s->spec->persistent)
		r = delay_set_stored(sched, s, s, &init, NULL);
	else
		r = delay_set(sched, s, &init, NULL, NULL);
	calendar_unref(init.calendar);
	if (r == DELAY_E_NEVER)
		log_info("schedule.over", "session=\"%s\" event=%s",
			session_name(s), e->event);
	else if (r)
		log_err("schedule.not-set", "session=\"%s\" event=%s r=%d",
			session_name(s), e->event, r);
}

static bool
is_in_spec(const struct session_spec *spec, const struct delay *delay)
{
	char name[NAME_SIZE];

	for (size_t i = 0; i < spec->n_schedules; i++) {
		name_of(spec, i, name);
		if (strcmp(name, delay_name(delay)) == 0 &&
			is_same(delay, spec, &spec->schedules[i]))
			return true;
	}
	return false;
}

void
schedule_arm(struct session *s)
{
	struct sched *sched = atomic_load(&s->home);
	struct delay *delay, *next;

	if (s->spec->persistent && !journal_is_ready(s))
		return; /* what there is already is not known yet */
	delay = delays_next_of(&sched->delays, s, NULL);
	for (; delay; delay = next) {
		next = delays_next_of(&sched->delays, s, delay);
		if ((delay->timer.b & DELAY_SCHEDULE) &&
			!is_in_spec(s->spec, delay))
			delay_cancel(sched, delay_public_id(delay));
	}
	for (size_t i = 0; i < s->spec->n_schedules; i++)
		arm_entry(sched, s, i);
}

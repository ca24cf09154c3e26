/* Delays that change while they are pending: by being asked to, or for the
 * clock or the rules of its zone have changed. See delays.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/calendar.h"
#include "base/err.h"
#include "base/log.h"
#include "kernel/delay_parts.h"
#include "kernel/delay_store.h"

enum { GUARD_S = 3 * 3600 };

/* ---- being asked to ------------------------------------------------------ */

static int
change_repeat(struct delay *delay, uint64_t repeat_ns)
{
	if (delay->more && delay->more->calendar)
		return DELAY_E_CALENDAR;
	if (!delay->more) {
		delay->more = calloc(1, sizeof(*delay->more) + 1);
		if (!delay->more)
			return err_raise(-ENOMEM);
		delay->more->due_ns = delay->timer.due_ns;
	}
	delay->more->repeat_ns = repeat_ns;
	return 0;
}

int
delay_apply(struct sched *s, struct delay *delay,
	const struct delay_change *change, uint64_t *due)
{
	int r = 0;

	*due = 0;
	if (change->repeat)
		r = change_repeat(delay, change->repeat_ns);
	if (r || !change->due)
		return r;
	if (timer_is_armed(&delay->timer))
		timers_remove(delay_wheel(s, delay), &delay->timer);
	if (change->wall)
		delay->timer.a = DELAY_WALL;
	*due = change->wall ? change->due_ns
			    : delay_sum(delay_now(s, delay_clock(delay)),
				      change->due_ns);
	return 0;
}

int
delay_adjust_told(struct sched *s, uint64_t id,
	const struct delay_change *change, struct delay_told *told)
{
	struct delay *delay = delay_of_id(&s->delays, id);
	uint64_t due;
	int r;

	if (!delay)
		return DELAY_E_FIRED;
	if (delay_is_stored(delay))
		return delay_store_adjust(s, delay, change, told);
	r = delay_apply(s, delay, change, &due);
	if (!r && change->due)
		delay_arm(s, delay, due);
	return r;
}

int
delay_adjust(struct sched *s, uint64_t id, const struct delay_change *change)
{
	return delay_adjust_told(s, id, change, NULL);
}

/* What has run does not run again when the clock is set back by a little; set
 * back by more it is another time. */
uint64_t
delay_next_from_now(const struct delay_more *more, uint64_t now)
{
	const uint64_t guard = GUARD_S * (uint64_t)NS_PER_S;
	uint64_t last = more->last_ns;

	return delay_calendar_after(
		more->calendar, last > now && last - now <= guard ? last : now);
}

static void
rearm(struct sched *s, struct delay *delay, uint64_t due_ns)
{
	if (!timer_is_armed(&delay->timer))
		return; /* it is on its way to the store */
	timers_remove(&s->wall_timers, &delay->timer);
	delay_arm(s, delay, due_ns);
	if (delay_is_stored(delay))
		delay_store_changed(s, delay);
}

void
delays_clock_set(struct sched *s)
{
	uint64_t now = clock_wall(s->kernel->clock), id = 0, next;
	struct delay *delay;

	if (!s->delays.n_calendars)
		return;
	while ((delay = delays_next(&s->delays, id))) {
		id = delay->id;
		if (!delay->more || !delay->more->calendar)
			continue;
		next = delay_next_from_now(delay->more, now);
		if (next && next < delay->more->due_ns)
			rearm(s, delay, next);
	}
}

/* What is due by the old rules and has not fired yet does so. */
static void
renew_zone(struct sched *s, struct delay *delay, uint64_t now)
{
	struct delay_more *more = delay->more;
	struct calendar *c = calendar_renew(more->calendar, &s->kernel->zones);
	uint64_t next;

	if (!c) {
		log_err("delay.no-memory", "what=zone timer=%" PRIu64,
			delay->id);
		return;
	}
	calendar_unref(more->calendar);
	if (c == more->calendar)
		return;
	more->calendar = c;
	next = more->due_ns > now ? delay_next_from_now(more, now) : 0;
	if (next && next != more->due_ns)
		rearm(s, delay, next);
}

void
delays_zones_changed(struct sched *s)
{
	uint64_t now = clock_wall(s->kernel->clock), id = 0;
	struct delay *delay;

	if (!s->delays.n_calendars)
		return;
	while ((delay = delays_next(&s->delays, id))) {
		id = delay->id;
		if (delay->more && delay->more->calendar)
			renew_zone(s, delay, now);
	}
}

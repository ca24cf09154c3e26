/* Delays that are due: their events, and when they are due again. See delays.h.
 */
#include "base/calendar.h"
#include "kernel/delay_parts.h"
#include "kernel/delay_store.h"

enum {
	AGAIN_MS = 10, /* without memory for its event */
};

/* Its calendar's next time; how many were missed in a row is counted. */
static uint64_t
next_by_calendar(struct delay_more *more, uint64_t now, bool missed)
{
	uint64_t from = now > more->due_ns ? now : more->due_ns;

	if (missed && more->misfire == DELAY_ALL &&
		++more->n_missed < DELAYS_MISSED_MAX)
		from = more->due_ns;
	else
		more->n_missed = 0;
	more->last_ns = more->due_ns;
	return delay_calendar_after(more->calendar, from);
}

/* The next due time after @now, on the grid of the first; 0: none. */
static uint64_t
next_due(struct delay *delay, uint64_t now, bool missed)
{
	struct delay_more *more = delay->more;
	uint64_t wait;

	if (!more)
		return 0;
	if (more->calendar)
		return next_by_calendar(more, now, missed);
	if (!more->repeat_ns)
		return 0;
	if (missed && more->misfire == DELAY_ALL &&
		++more->n_missed < DELAYS_MISSED_MAX)
		return delay_sum(more->due_ns, more->repeat_ns);
	more->n_missed = 0;
	wait = more->repeat_ns;
	if (now > more->due_ns)
		wait -= (now - more->due_ns) % more->repeat_ns;
	else
		now = more->due_ns;
	return delay_sum(now, wait);
}

/* Whatever the limit: it was accepted as a timer. */
static void
charge_event(struct sched *s, const struct delay *delay, struct msg *m)
{
	/* At once, for the timer's charge is about to go. */
	const struct user *user = users_charge(&s->kernel->users,
		delay_uid(delay), CHARGE_EVENTS, 1, s->now_ns);

	if (!user)
		return;
	m->flags |= MSG_CHARGED;
	msg_wide(m)->user = user->index;
	charge_add(&s->charges, user->index, 0, msg_charge(m));
}

static struct msg *
event_of(struct sched *s, const struct delay *delay)
{
	const char *event = delay_event(delay);
	const uint8_t *data = (const uint8_t *)event + delay->timer.c + 1;
	uint32_t size = delay->timer.size;
	struct msg *m = msg_new(&s->pool,
		&(struct msg_init){
			.event = event,
			.event_size = delay->timer.c,
			.data = data,
			.size = size,
			.headers = data + size + 1,
			.headers_size =
				delay->more ? delay->more->headers_size : 0,
			.extra = delay->more &&
				 (delay->more->ttl_ns || delay->more->stored),
		});

	if (!m)
		return NULL;
	m->from = delay->owner;
	m->to = delay->timer.b & DELAY_ALIAS
			? atomic_load(&delay_parcel(delay)->alias->holder)
			: delay_parcel(delay)->to;
	m->id = sched_id(s);
	if (delay->timer.b & DELAY_URGENT)
		m->flags |= MSG_URGENT;
	if (delay_uid(delay) != DELAY_NO_UID)
		charge_event(s, delay, m);
	if (delay->more && delay->more->ttl_ns)
		msg_live(m, clock_now(s->kernel->clock), delay->more->ttl_ns);
	return m;
}

/* The last event of a delay is the one accepted when it was set; those before
 * are events of their own, which have yet to be accepted. */
void
delay_post(struct sched *s, struct msg *m)
{
	int r = sched_post(s, m);
	enum msg_end end;

	if (!r)
		return;
	end = m->flags & MSG_ADMITTED ? MSG_END_DEAD : MSG_END_REFUSED;
	msg_end(s, NULL, m, end, sched_status(r), NULL);
}

static bool
is_missed(const struct delay *delay, uint64_t late)
{
	const struct delay_more *more = delay->more;

	return more && (more->calendar || more->stored) &&
	       late > more->slack_ns + (uint64_t)DELAY_MISSED_MS * NS_PER_MS;
}

/* That its clock does not know of. */
static uint64_t
delay_late_ns(const struct delay *delay)
{
	return delay->more && delay->more->stored ? delay->more->stored->late_ns
						  : 0;
}

/* Of a million it is far away, like those beside it in the list of its owner:
 * asked for together they come together. */
static void
look_ahead(const struct delays *d, const struct delay *delay)
{
	__builtin_prefetch(delay_parcel(delay));
	if (delay->next)
		__builtin_prefetch(delay_slot_at(d, delay->next - 1), 1);
	if (delay->prev)
		__builtin_prefetch(delay_slot_at(d, delay->prev - 1), 1);
}

static uint64_t
now_of(struct sched *s, enum delay_clock clock)
{
	return clock == DELAY_MONOTONIC ? clock_near(&s->near, s->kernel->clock)
					: delay_now(s, clock);
}

/* By how much the two clocks differ is the same for all of a turn. */
static uint64_t
wall_of(struct sched *s)
{
	struct delays *d = &s->delays;
	uint64_t now = clock_near(&s->near, s->kernel->clock);

	if (d->wall_turn != s->turns) {
		d->wall_turn = s->turns;
		d->wall_ahead = clock_wall(s->kernel->clock) - now;
	}
	return now + d->wall_ahead;
}

void
delay_fire(struct sched *s, struct timer *timer)
{
	struct delay *delay = container_of(timer, struct delay, timer);
	uint64_t now = now_of(s, delay_clock(delay));
	uint64_t due = delay_due_ns(delay), next;
	uint64_t late = (now > due ? now - due : 0) + delay_late_ns(delay);
	bool missed = is_missed(delay, late);
	bool skip = missed && delay->more->misfire == DELAY_SKIP;
	struct msg *m;

	look_ahead(&s->delays, delay);
	if (!delay->id) /* it has been cancelled: see delays_bury() */
		return;
	if (delay_clock(delay) == DELAY_MONOTONIC && !missed)
		lateness_add(&s->lateness,
			now > timer->due_ns ? now - timer->due_ns : 0);
	m = skip ? NULL : event_of(s, delay);
	if (!skip && !m) { /* out of memory: nothing else ends it, so again */
		timers_add(delay_wheel(s, delay), timer,
			delay_sum(now, AGAIN_MS * NS_PER_MS));
		return;
	}
	if (m) {
		msg_wide(m)->late_ns = late;
		msg_wide(m)->due_ns = wall_of(s) - late;
	}
	next = next_due(delay, now, missed);
	if (delay->more && delay->more->stored) {
		delay_store_fire(s, delay, m, next);
		return;
	}
	if (next)
		delay_arm(s, delay, next);
	else if (m)
		delay_ended(s, delay, DELAY_HAS_FIRED);
	else
		delay_cancelled(s, delay);
	if (!m)
		return;
	if (!next)
		m->flags |= MSG_ADMITTED | MSG_DELAYED;
	delay_post(s, m);
}

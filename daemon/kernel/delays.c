/* Delays: life of one, from being set to its event. See delays.h. */
#include "kernel/delays.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/calendar.h"
#include "base/err.h"
#include "base/fault.h"
#include "kernel/delay_parts.h"
#include "kernel/delay_store.h"
#include "kernel/sched.h"

_Static_assert(sizeof(struct delay) + sizeof(struct delay_parcel) == 88,
	"a million of them count");

/* ---- when --------------------------------------------------------------- */

struct timers *
delay_wheel(struct sched *s, const struct delay *delay)
{
	switch (delay_clock(delay)) {
	case DELAY_WALL:
		return &s->wall_timers;
	case DELAY_BOOTTIME:
		return s->boot_timers;
	case DELAY_MONOTONIC:
	case DELAY_CLOCKS:
		break;
	}
	return &s->timers;
}

uint64_t
delay_now(const struct sched *s, enum delay_clock clock)
{
	switch (clock) {
	case DELAY_WALL:
		return clock_wall(s->kernel->clock);
	case DELAY_BOOTTIME:
		return clock_boot(s->kernel->clock);
	case DELAY_MONOTONIC:
	case DELAY_CLOCKS:
		break;
	}
	return clock_now(s->kernel->clock);
}

uint64_t
delay_due_wall_ns(const struct sched *s, const struct delay *delay)
{
	uint64_t due = delay_due_ns(delay), now, wall;

	if (delay_clock(delay) == DELAY_WALL)
		return due;
	now = delay_now(s, delay_clock(delay));
	wall = clock_wall(s->kernel->clock);
	if (due > now)
		return due - now < UINT64_MAX - wall ? wall + (due - now)
						     : UINT64_MAX;
	return wall > now - due ? wall - (now - due) : 0;
}

/* The roundest number in [@due, @due + @slack], which other delays with slack
 * find, too. */
static uint64_t
coalesced(uint64_t due, uint64_t slack)
{
	uint64_t limit = delay_sum(due, slack), apart = due ^ limit;

	if (!apart)
		return due;
	return limit & ~((UINT64_C(1) << (63 - __builtin_clzll(apart))) - 1);
}

void
delay_arm(struct sched *s, struct delay *delay, uint64_t due_ns)
{
	struct delay_more *more = delay->more;

	if (more) {
		more->due_ns = due_ns;
		if (more->slack_ns)
			due_ns = coalesced(due_ns, more->slack_ns);
	}
	timers_add(delay_wheel(s, delay), &delay->timer, due_ns);
}

uint64_t
delay_calendar_after(const struct calendar *c, uint64_t after_ns)
{
	int64_t next;

	if (!calendar_next(c, (int64_t)(after_ns / NS_PER_US), &next))
		return 0;
	return (uint64_t)next * NS_PER_US;
}

/* ---- setting ------------------------------------------------------------ */

static bool
has_more(const struct delay_init *init)
{
	return init->repeat_ns || init->slack_ns || init->calendar ||
	       init->name_size || init->headers_size || init->ttl_ns ||
	       init->stored;
}

static int
make_more(struct delay *delay, const struct delay_init *init)
{
	struct delay_more *more;

	if (!has_more(init))
		return 0;
	more = FAULT(delay_more)
		       ? NULL
		       : calloc(1, sizeof(*more) + init->name_size + 1u);
	if (!more)
		return err_raise(-ENOMEM);
	delay->more = more;
	more->repeat_ns = init->repeat_ns;
	more->slack_ns = init->slack_ns;
	more->ttl_ns = init->ttl_ns;
	more->headers_size = init->headers_size;
	more->misfire = (uint8_t)init->misfire;
	more->name_size = init->name_size;
	if (init->name_size)
		memcpy(more->name, init->name, init->name_size);
	if (init->calendar)
		more->calendar = calendar_ref(init->calendar);
	return 0;
}

static int
make_bytes(struct delay *delay, const struct delay_init *init)
{
	size_t size = (size_t)init->event_size + 1 + init->size + 1 +
		      init->headers_size;
	struct delay_parcel *parcel = delay_parcel(delay);
	uint8_t *p = parcel->few;

	if (size > DELAY_FEW) {
		p = FAULT(delay_bytes) ? NULL : malloc(size);
		if (!p)
			return err_raise(-ENOMEM);
		parcel->apart = p;
		delay->timer.b |= DELAY_APART;
	}
	delay->timer.c = init->event_size;
	delay->timer.size = init->size;
	memcpy(p, init->event, init->event_size);
	p += init->event_size;
	*p++ = 0;
	if (init->size)
		memcpy(p, init->data, init->size);
	p += init->size;
	*p++ = 0;
	if (init->headers_size)
		memcpy(p, init->headers, init->headers_size);
	return 0;
}

/* An alias must be held when the delay is set: a name mistyped is told now. */
static int
make_target(struct sched *s, struct delay *delay, const struct delay_init *init)
{
	struct aliases *aliases = &s->kernel->aliases;
	struct delay_parcel *parcel = delay_parcel(delay);

	if (!init->alias) {
		parcel->to = init->to;
		return 0;
	}
	if (!init->restored &&
		!alias_holder(aliases, init->alias, init->alias_size))
		return DELAY_E_NO_ALIAS;
	parcel->alias = alias_ref(aliases, init->alias, init->alias_size);
	if (!parcel->alias)
		return err_raise(-ENOMEM);
	delay->timer.b |= DELAY_ALIAS;
	return 0;
}

static int
make_wheel(struct sched *s, enum delay_clock clock)
{
	if (clock != DELAY_BOOTTIME || s->boot_timers)
		return 0;
	s->boot_timers =
		FAULT(delay_wheel) ? NULL : malloc(sizeof(*s->boot_timers));
	if (!s->boot_timers)
		return err_raise(-ENOMEM);
	timers_init(s->boot_timers, clock_boot(s->kernel->clock));
	return 0;
}

static uint64_t
charge_of(const struct delay *delay)
{
	return (uint64_t)delay->timer.size +
	       (delay->more ? delay->more->headers_size : 0);
}

/* What it holds, but for its slot. */
static void
drop_parts(struct sched *s, struct delay *delay)
{
	if (delay->timer.b & DELAY_ALIAS)
		alias_unref(&s->kernel->aliases, delay_parcel(delay)->alias);
	if (delay->timer.b & DELAY_APART)
		free(delay_parcel(delay)->apart);
	if (!delay->more)
		return;
	if (delay->more->calendar)
		calendar_unref(delay->more->calendar);
	free(delay->more);
}

/* A client's: charge his user with it, or (@sign -1) not any more. */
static struct user *
charge_user(struct sched *s, const struct delay *delay, int sign)
{
	struct user *user = NULL;

	if (delay_uid(delay) != DELAY_NO_UID)
		user = users_charge(&s->kernel->users, delay_uid(delay),
			CHARGE_TIMERS, sign, s->now_ns);
	if (user)
		charge_add(&s->charges, user->index, 0,
			sign * (int64_t)charge_of(delay));
	return user;
}

static void
delay_free(struct sched *s, struct delay *delay)
{
	struct delays *d = &s->delays;
	struct delay_more *more = delay->more;

	if (timer_is_armed(&delay->timer))
		timers_remove(delay_wheel(s, delay), &delay->timer);
	if (delay->timer.b & DELAY_LISTED)
		delay_list_out(s, delay);
	if (more && more->calendar)
		d->n_calendars--;
	if (more && more->name_size)
		delay_names_remove(s, delay);
	d->size -= charge_of(delay);
	if (delay_uid(delay) != DELAY_NO_UID)
		charge_user(s, delay, -1);
	if (more && more->stored)
		delay_store_gone(s, more->stored);
	if (more || (delay->timer.b & (DELAY_ALIAS | DELAY_APART)))
		drop_parts(s, delay);
	delay_slot_give(d, delay);
}

static int
make_parts(struct sched *s, struct delay *delay, const struct delay_init *init)
{
	int r = make_target(s, delay, init);

	if (!r)
		r = make_more(delay, init);
	if (!r)
		r = make_bytes(delay, init);
	if (!r)
		r = make_wheel(s, init->clock);
	if (!r && init->name_size)
		r = delay_names_add(s, delay);
	return r;
}

int
delay_make(struct sched *s, struct session *owner,
	const struct delay_init *init, struct delay **out)
{
	struct delay *delay;
	int r = delay_slot_take(&s->delays, &delay);

	if (r)
		return err_pass(r);
	delay->timer.type = TIMER_DELAY;
	delay->timer.a = init->calendar ? DELAY_WALL : (uint8_t)init->clock;
	delay->timer.b = init->by_alias ? DELAY_BY_ALIAS : 0;
	if (init->schedule)
		delay->timer.b |= DELAY_SCHEDULE;
	if (init->urgent)
		delay->timer.b |= DELAY_URGENT;
	if (init->stored)
		delay->timer.b |= DELAY_STORED;
	delay->owner = owner ? owner->id : init->owner;
	delay->more = NULL;
	delay_parcel(delay)->uid = init->has_uid ? init->uid : DELAY_NO_UID;
	r = make_parts(s, delay, init);
	if (r) {
		drop_parts(s, delay);
		delay_slot_give(&s->delays, delay);
		return r;
	}
	if (owner && !init->alias && init->to == owner->id)
		delay->timer.b |= DELAY_SELF;
	if (owner)
		delay_list_in(&s->delays, owner, delay);
	s->delays.size += charge_of(delay);
	if (init->has_uid && !charge_user(s, delay, 1))
		delay_parcel(delay)->uid = DELAY_NO_UID;
	s->delays.n_calendars += init->calendar != NULL;
	*out = delay;
	return 0;
}

uint64_t
delay_namesake(struct sched *s, const struct session *owner,
	const struct delay_init *init)
{
	const struct alias *alias = NULL;

	if (!init->name_size)
		return 0;
	if (init->by_alias) {
		alias = alias_find(
			&s->kernel->aliases, init->alias, init->alias_size);
		if (!alias)
			return 0;
	}
	return delay_named(s, owner ? owner->id : init->owner, alias,
		init->name, init->name_size);
}

int
delay_may_set(struct sched *s, const struct delay_init *init, uint64_t old,
	uint64_t *due)
{
	uint64_t size = (uint64_t)init->size + init->headers_size;

	*due = init->due_ns;
	if (s->delays.n >= s->kernel->limits.max_timers + (old != 0) ||
		size > DELAYS_SIZE_MAX - s->delays.size)
		return DELAY_E_LIMIT;
	if (init->calendar)
		*due = delay_calendar_after(
			init->calendar, clock_wall(s->kernel->clock));
	return init->calendar && !*due ? DELAY_E_NEVER : 0;
}

int
delay_set(struct sched *s, struct session *owner, const struct delay_init *init,
	uint64_t *id, uint64_t *replaced)
{
	uint64_t due, old = delay_namesake(s, owner, init);
	struct delay *delay;
	int r = delay_may_set(s, init, old, &due);

	if (r)
		return r;
	r = delay_make(s, owner, init, &delay);
	if (r)
		return r;
	if (old)
		delay_cancel(s, old);
	s->counters.accepted++;
	delay_arm(s, delay, due);
	if (id)
		*id = delay->id;
	if (replaced)
		*replaced = old;
	return 0;
}

/* ---- taking back -------------------------------------------------------- */

/* It may be half made if it is to be forgotten. */
void
delay_ended(struct sched *s, struct delay *delay, enum delay_fate fate)
{
	if (fate != DELAY_FORGOTTEN) {
		uint64_t id = delay_public_id(delay);

		delay_past_id(
			&s->delays.past, id, delay_counted_from(id), fate);
		delay_names_past(s, delay, fate);
	}
	delay_free(s, delay);
}

void
delay_cancelled(struct sched *s, struct delay *delay)
{
	delay_ended(s, delay, DELAY_WAS_CANCELLED);
	s->counters.cancelled++;
}

/* It goes by no name, holds nothing, and is on the first wheel: delay_free()
 * without all the rest. */
static inline bool
is_plain(const struct delay *delay)
{
	return !delay->more && delay->timer.a == DELAY_MONOTONIC &&
	       (delay->timer.b & (DELAY_LISTED | DELAY_ALIAS | DELAY_APART)) ==
		       DELAY_LISTED;
}

/* Wherever it is kept: false: it is too late. */
static bool
take_back(struct sched *s, struct delay *delay)
{
	if (delay_is_stored(delay))
		return !delay_store_cancel(s, delay, NULL);
	delay_cancelled(s, delay);
	return true;
}

int
delay_cancel_told(struct sched *s, uint64_t id, struct delay_told *told)
{
	struct delay *delay = delay_of_id(&s->delays, id);

	return delay ? delay_store_cancel(s, delay, told) : DELAY_E_FIRED;
}

int
delay_cancel(struct sched *s, uint64_t id)
{
	struct delays *d = &s->delays;
	struct delay *delay = delay_of_id(d, id);

	if (!delay)
		return DELAY_E_FIRED;
	if (!is_plain(delay))
		return take_back(s, delay) ? 0 : DELAY_E_FIRED;
	delay->id = 0;
	d->n--;
	d->size -= delay->timer.size;
	s->counters.cancelled++;
	delay_past_id(&d->past, id, DELAY_GENERATION_AT, DELAY_WAS_CANCELLED);
	d->dead[d->n_dead++] = delay_slot_of(id);
	if (d->n_dead == DELAYS_DEAD_MAX || !s->running)
		delays_bury_them(s);
	return 0;
}

struct delay *
delay_find(struct delays *d, uint64_t id)
{
	return delay_of_id(d, id);
}

uint64_t
delay_public_id(const struct delay *delay)
{
	return delay_is_stored(delay) ? delay->more->stored->id : delay->id;
}

uint64_t
delay_owner(struct sched *s, uint64_t id)
{
	const struct delay *delay = delay_of_id(&s->delays, id);

	return delay ? delay->owner : 0;
}

void
delays_cancel_owned(struct sched *s, struct session *owner, bool schedule)
{
	struct delay *delay, *next;

	delays_bury(s, &s->delays);
	if (!owner->n_timers && !schedule)
		return; /* it may have set many for others */
	if (schedule && !owner->n_timers && !owner->spec)
		return;
	delay = delays_next_of(&s->delays, owner, NULL);
	for (; delay; delay = next) {
		next = delays_next_of(&s->delays, owner, delay);
		if ((delay->timer.b & (DELAY_SELF | DELAY_STORED)) ==
				DELAY_SELF &&
			(schedule || !(delay->timer.b & DELAY_SCHEDULE)))
			delay_cancelled(s, delay);
	}
}

uint32_t
delays_cancel_all(struct sched *s, struct session *owner)
{
	struct delay *delay, *next;
	uint32_t n = 0;

	delays_bury(s, &s->delays);
	delay = delays_next_of(&s->delays, owner, NULL);
	for (; delay; delay = next) {
		next = delays_next_of(&s->delays, owner, delay);
		if (delay->timer.b & DELAY_SCHEDULE)
			continue;
		n += take_back(s, delay);
	}
	return n;
}

uint32_t
delays_cancel_alias(
	struct sched *s, const char *name, size_t size, uint32_t uid)
{
	struct alias *alias = alias_find(&s->kernel->aliases, name, size);
	uint64_t holder = alias ? atomic_load(&alias->holder) : 0, id = 0;
	struct delay *delay;
	uint32_t n = 0;

	while (alias && (delay = delays_next(&s->delays, id))) {
		id = delay->id;
		if (uid != DELAY_NO_UID && delay_uid(delay) != uid)
			continue;
		if (delay->timer.b & DELAY_SCHEDULE)
			continue;
		if (delay->timer.b & DELAY_ALIAS
				? delay_parcel(delay)->alias != alias
				: delay_parcel(delay)->to != holder)
			continue;
		n += take_back(s, delay);
	}
	return n;
}

void
delays_deinit(struct sched *s)
{
	struct delays *d = &s->delays;
	struct delay *delay;
	uint64_t id = 0;

	while ((delay = delays_next(d, id))) {
		id = delay->id;
		delay_cancelled(s, delay);
	}
	delays_bury(s, d);
	delay_slots_shrink(d, 0);
	free(d->chunks);
	free(d->names);
	free(d->stored);
	delay_past_deinit(&d->past);
	delays_init(d, d->sched);
	free(s->boot_timers);
	s->boot_timers = NULL;
}

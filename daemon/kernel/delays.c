#include "kernel/delays.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fault.h"
#include "kernel/idle.h"
#include "kernel/sched.h"

enum { SCHED_BITS = 6, SLOT_BITS = 24, SLOT_MASK = (1 << SLOT_BITS) - 1 };

void
delays_init(struct delays *d, unsigned sched)
{
	memset(d, 0, sizeof(*d));
	d->sched = sched;
}

static uint32_t
slot_of(uint64_t id)
{
	return (uint32_t)(id >> SCHED_BITS) & SLOT_MASK;
}

/* Free slots form a list of odd numbers in place of pointers. */
static bool
slot_is_free(const struct delay *entry)
{
	return (uintptr_t)entry & 1;
}

static int
grow(struct delays *d)
{
	uint32_t n = d->n_slots ? d->n_slots * 2 : 64;
	struct delay **slots;

	if (n > SLOT_MASK)
		return err_raise(-ENOMEM);
	slots = realloc(d->slots, n * sizeof(struct delay *));
	if (!slots)
		return err_raise(-ENOMEM);
	d->slots = slots;
	for (uint32_t i = n; i-- > d->n_slots;) {
		slots[i] = (struct delay *)(((uintptr_t)d->free << 1) | 1);
		d->free = i + 1;
	}
	d->n_slots = n;
	return 0;
}

static int
slot_take(struct delays *d, struct delay *delay)
{
	uint32_t slot;
	int r;

	if (!d->free) {
		r = grow(d);
		if (r)
			return err_pass(r);
	}
	slot = d->free - 1;
	d->free = (uint32_t)((uintptr_t)d->slots[slot] >> 1);
	d->slots[slot] = delay;
	d->n++;
	delay->id = (++d->last << (SLOT_BITS + SCHED_BITS)) |
		    ((uint64_t)slot << SCHED_BITS) | d->sched;
	return 0;
}

static void
slot_give(struct delays *d, struct delay *delay)
{
	uint32_t slot = slot_of(delay->id);

	d->slots[slot] = (struct delay *)(((uintptr_t)d->free << 1) | 1);
	d->free = slot + 1;
	d->n--;
}

static struct delay *
delay_find(struct delays *d, uint64_t id)
{
	uint32_t slot = slot_of(id);
	struct delay *delay;

	if (!id || slot >= d->n_slots)
		return NULL;
	delay = d->slots[slot];
	return !slot_is_free(delay) && delay->id == id ? delay : NULL;
}

struct delay *
delays_next(struct delays *d, uint64_t after)
{
	for (uint32_t i = after ? slot_of(after) + 1 : 0; i < d->n_slots; i++)
		if (!slot_is_free(d->slots[i]))
			return d->slots[i];
	return NULL;
}

static void
owner_lost(struct session *owner)
{
	owner->n_timers--;
	idle_look(owner);
}

/* Everything but its message, which the caller has taken. */
static void
delay_free(struct sched *s, struct delay *delay)
{
	struct session *owner;

	timers_remove(
		delay->wall ? &s->wall_timers : &s->timers, &delay->timer);
	if (delay->owned.next) {
		list_remove(&delay->owned);
		owner = session_find(s->kernel, delay->owner);
		if (owner)
			owner_lost(owner);
	}
	if (delay->alias)
		alias_unref(&s->kernel->aliases, delay->alias);
	s->delays.size -= delay->size;
	slot_give(&s->delays, delay);
	free(delay);
}

/* An alias must be held when the delay is set: a name mistyped is told now. */
static int
delay_aim(struct sched *s, struct delay *delay, const struct delay_init *init)
{
	struct aliases *aliases = &s->kernel->aliases;

	if (!init->alias)
		return 0;
	if (!alias_holder(aliases, init->alias, init->alias_size))
		return DELAY_E_NO_ALIAS;
	delay->alias = alias_ref(aliases, init->alias, init->alias_size);
	return delay->alias ? 0 : err_raise(-ENOMEM);
}

static int
delay_make(struct sched *s, struct session *owner,
	const struct delay_init *init, struct delay **out)
{
	struct delay *delay;
	int r;

	if (s->delays.n >= s->kernel->limits.max_timers)
		return DELAY_E_LIMIT;
	delay = FAULT(delay_make) ? NULL : calloc(1, sizeof(*delay));
	if (!delay)
		return err_raise(-ENOMEM);
	r = delay_aim(s, delay, init);
	if (!r)
		r = slot_take(&s->delays, delay);
	if (r) {
		if (delay->alias)
			alias_unref(&s->kernel->aliases, delay->alias);
		free(delay);
		return r;
	}
	delay->owner = owner ? owner->id : 0;
	delay->repeat_ns = init->repeat_ns;
	delay->wall = init->wall;
	delay->timer.type = TIMER_DELAY;
	*out = delay;
	return 0;
}

int
delay_set(struct sched *s, struct session *owner, const struct delay_init *init,
	struct msg *m, uint64_t *id)
{
	struct delay *delay;
	int r;

	if (msg_charge(m) > DELAYS_SIZE_MAX - s->delays.size)
		return DELAY_E_LIMIT;
	r = delay_make(s, owner, init, &delay);
	if (r)
		return r;
	delay->size = msg_charge(m);
	s->delays.size += delay->size;
	if (owner && !init->alias && init->to == owner->id) {
		list_append(&owner->delays, &delay->owned);
		owner->n_timers++;
	}
	m->to = init->to;
	m->from = delay->owner;
	m->flags |= MSG_ADMITTED | MSG_DELAYED;
	if (!m->id)
		m->id = sched_id(s);
	delay->msg = m;
	s->counters.accepted++;
	timers_add(delay->wall ? &s->wall_timers : &s->timers, &delay->timer,
		init->due_ns);
	if (id)
		*id = delay->id;
	return 0;
}

int
delay_cancel(struct sched *s, uint64_t id)
{
	struct delay *delay = delay_find(&s->delays, id);
	struct msg *m;

	if (!delay)
		return DELAY_E_FIRED;
	m = delay->msg;
	delay_free(s, delay);
	msg_end(s, NULL, m, MSG_END_CANCELLED, EVD_STATUS_CANCELLED, NULL);
	return 0;
}

uint64_t
delay_owner(struct sched *s, uint64_t id)
{
	const struct delay *delay = delay_find(&s->delays, id);

	return delay ? delay->owner : 0;
}

void
delays_cancel_owned(struct sched *s, struct session *owner)
{
	while (!list_is_empty(&owner->delays))
		delay_cancel(
			s, container_of(owner->delays.next, struct delay, owned)
				   ->id);
}

void
delays_deinit(struct sched *s)
{
	struct delay *delay;
	uint64_t id = 0;

	while ((delay = delays_next(&s->delays, id))) {
		id = delay->id;
		delay_cancel(s, id);
	}
	free(s->delays.slots);
	s->delays.slots = NULL;
}

/* The next due time after @now, on the grid of the first. */
static uint64_t
next_due(const struct delay *delay, uint64_t now)
{
	uint64_t behind = now - delay->timer.due_ns;
	uint64_t wait = delay->repeat_ns - behind % delay->repeat_ns;

	return wait < UINT64_MAX - now ? now + wait : UINT64_MAX;
}

/* What goes to the mailbox now: the event itself, or of a repeating delay a
 * copy, which is an event of its own and has yet to be accepted. */
static struct msg *
take_event(struct sched *s, struct delay *delay)
{
	struct msg *m = delay->msg;

	if (delay->repeat_ns) {
		m = msg_clone(&s->pool, m);
		if (m)
			m->flags &= (uint8_t) ~(MSG_ADMITTED | MSG_DELAYED);
	}
	return m;
}

void
delay_fire(struct sched *s, struct timer *timer)
{
	struct delay *delay = container_of(timer, struct delay, timer);
	uint64_t now = delay->wall ? clock_wall(s->kernel->clock) : s->now_ns;
	uint64_t late = now > timer->due_ns ? now - timer->due_ns : 0;
	struct msg *m = take_event(s, delay);
	enum msg_end end;
	int r;

	if (m) {
		m->late_ns = late;
		if (delay->alias)
			m->to = atomic_load(&delay->alias->holder);
	}
	if (delay->repeat_ns)
		timers_add(delay->wall ? &s->wall_timers : &s->timers, timer,
			next_due(delay, now));
	else
		delay_free(s, delay);
	if (!m)
		return; /* out of memory: this round of a repeating one */
	r = sched_post(s, m);
	if (!r)
		return;
	end = m->flags & MSG_ADMITTED ? MSG_END_DEAD : MSG_END_REFUSED;
	msg_end(s, NULL, m, end, sched_status(r), NULL);
}

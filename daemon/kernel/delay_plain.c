/* What most delays are, of which there are many: to the session that sets them,
 * once, by elapsed time, with few bytes. They are set and cancelled here with
 * nothing that only others need. One thread. */
#include <string.h>

#include "base/err.h"
#include "kernel/delay_slots.h"

uint64_t
delay_due_in(struct sched *s, uint64_t wait_ns)
{
	return delay_sum(clock_near(&s->near, s->kernel->clock), wait_ns);
}

static int
set_own_apart(struct sched *s, struct session *owner,
	const struct delay_own *own, uint64_t *id)
{
	struct delay_init init = {.to = owner->id,
		.event = own->event,
		.event_size = own->event_size,
		.data = own->data,
		.size = own->size,
		.due_ns = own->due_ns};

	return delay_set(s, owner, &init, id, NULL);
}

/* delay_set() without all that it has no need of. */
int
delay_set_own(struct sched *s, struct session *owner,
	const struct delay_own *init, uint64_t *id)
{
	struct delays *d = &s->delays;
	struct delay_parcel *parcel;
	struct delay *delay;
	uint8_t *p;
	int r;

	if ((uint64_t)init->event_size + init->size + 2 > DELAY_FEW)
		return set_own_apart(s, owner, init, id);
	if (d->n >= s->kernel->limits.max_timers ||
		init->size > DELAYS_SIZE_MAX - d->size)
		return DELAY_E_LIMIT;
	r = delay_slot_take(d, &delay);
	if (r)
		return err_pass(r);
	delay->timer.type = TIMER_DELAY;
	delay->timer.a = DELAY_MONOTONIC;
	delay->timer.b = DELAY_SELF;
	delay->timer.c = init->event_size;
	delay->timer.size = init->size;
	delay->owner = owner->id;
	delay->more = NULL;
	parcel = delay_parcel(delay);
	parcel->to = owner->id;
	parcel->uid = DELAY_NO_UID;
	p = parcel->few;
	memcpy(p, init->event, init->event_size);
	p += init->event_size;
	*p++ = 0;
	if (init->size)
		memcpy(p, init->data, init->size);
	p[init->size] = 0;
	delay_list_in(d, owner, delay);
	d->size += init->size;
	s->counters.accepted++;
	timers_add(&s->timers, &delay->timer, init->due_ns);
	if (id)
		*id = delay->id;
	return 0;
}

static void
prefetch_around(const struct delays *d, const struct delay *delay)
{
	__builtin_prefetch(delay->timer.next, 1);
	__builtin_prefetch(delay->timer.link, 1);
	if (delay->next)
		__builtin_prefetch(delay_slot_at(d, delay->next - 1), 1);
	if (delay->prev)
		__builtin_prefetch(delay_slot_at(d, delay->prev - 1), 1);
}

/* Those around a timer of a million are far away in memory: asked for together
 * they come together. So cancelling touches the timer alone, and once in a
 * while a few leave their rings at once. */
void
delays_bury_them(struct sched *s)
{
	struct delays *d = &s->delays;
	uint32_t n = d->n_dead;

	for (uint32_t i = 0; i < n; i++)
		prefetch_around(d, delay_slot_at(d, d->dead[i]));
	for (uint32_t i = 0; i < n; i++) {
		struct delay *delay = delay_slot_at(d, d->dead[i]);

		timers_remove(&s->timers, &delay->timer);
		delay_list_out(s, delay);
		delay->next = d->free;
		d->free = d->dead[i] + 1;
	}
	d->n_dead = 0;
	if (!d->n)
		delay_slots_none(d);
}

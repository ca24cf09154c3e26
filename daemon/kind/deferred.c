#include "kind/deferred.h"

#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "kernel/sched.h"

enum { SLOTS_MIN = 16 };

/* Ids differ in high bits (generation) and in low ones (slot). */
static uint32_t
place(const struct deferred *d, uint64_t call)
{
	return (uint32_t)((call * 0x9e3779b97f4a7c15ull) >> 32) & d->mask;
}

static void
insert(struct deferred *d, uint64_t call)
{
	uint32_t i = place(d, call);

	while (d->slots[i])
		i = (i + 1) & d->mask;
	d->slots[i] = call;
}

static int
grow(struct deferred *d)
{
	uint32_t old = d->slots ? d->mask + 1 : 0;
	uint64_t *from = d->slots;
	uint64_t *slots = calloc(old ? old * 2 : SLOTS_MIN, sizeof(*slots));

	if (!slots)
		return err_raise(-ENOMEM);
	d->slots = slots;
	d->mask = (old ? old * 2 : SLOTS_MIN) - 1;
	for (uint32_t i = 0; i < old; i++)
		if (from[i])
			insert(d, from[i]);
	free(from);
	return 0;
}

int
deferred_add(struct deferred *d, uint64_t call)
{
	int r;

	if (d->n >= DEFERRED_MAX)
		return DEFERRED_E_MANY;
	if (!d->slots || d->n * 2 > d->mask) {
		r = grow(d);
		if (r)
			return err_pass(r);
	}
	insert(d, call);
	d->n++;
	return 0;
}

/* Fill the hole at @i with what comes later in its run. */
static void
close_hole(struct deferred *d, uint32_t i)
{
	uint32_t k = i;

	for (;;) {
		d->slots[i] = 0;
		for (;;) {
			uint32_t home;

			k = (k + 1) & d->mask;
			if (!d->slots[k])
				return;
			home = place(d, d->slots[k]);
			if (((k - home) & d->mask) >= ((k - i) & d->mask))
				break;
		}
		d->slots[i] = d->slots[k];
		i = k;
	}
}

bool
deferred_remove(struct deferred *d, uint64_t call)
{
	uint32_t i;

	if (!d->slots || !call)
		return false;
	for (i = place(d, call); d->slots[i] != call; i = (i + 1) & d->mask)
		if (!d->slots[i])
			return false;
	close_hole(d, i);
	d->n--;
	return true;
}

void
deferred_deinit(struct deferred *d, struct sched *sched)
{
	static const char text[] = "the session ended before it answered";

	for (uint32_t i = 0; d->n && i <= d->mask; i++)
		if (d->slots[i])
			sched_reply(sched, d->slots[i], EVD_STATUS_DIED, text,
				sizeof(text) - 1);
	free(d->slots);
	d->slots = NULL;
	d->n = 0;
}

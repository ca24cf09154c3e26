#include "kernel/callset.h"

#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/fault.h"

enum { SLOTS_MIN = 16 };

/* Ids differ in high bits (generation) and in low ones (slot). */
static uint32_t
place(const struct callset *set, uint64_t call)
{
	return (uint32_t)((call * 0x9e3779b97f4a7c15ull) >> 32) & set->mask;
}

static void
insert(struct callset *set, struct callset_slot slot)
{
	uint32_t i = place(set, slot.call);

	while (set->slots[i].call)
		i = (i + 1) & set->mask;
	set->slots[i] = slot;
}

static int
grow(struct callset *set)
{
	uint32_t old = set->slots ? set->mask + 1 : 0;
	uint32_t n = old ? old * 2 : SLOTS_MIN;
	struct callset_slot *from = set->slots;
	struct callset_slot *slots =
		FAULT(callset_grow) ? NULL : calloc(n, sizeof(*slots));

	if (!slots)
		return err_raise(-ENOMEM);
	set->slots = slots;
	set->mask = n - 1;
	for (uint32_t i = 0; i < old; i++)
		if (from[i].call)
			insert(set, from[i]);
	free(from);
	return 0;
}

int
callset_add(struct callset *set, uint64_t call, uint64_t deadline_ns)
{
	int r;

	if (!set->slots || set->n * 2 > set->mask) {
		r = grow(set);
		if (r)
			return err_pass(r);
	}
	insert(set, (struct callset_slot){call, deadline_ns});
	set->n++;
	return 0;
}

const struct callset_slot *
callset_find(const struct callset *set, uint64_t call)
{
	uint32_t i;

	if (!set->slots || !call)
		return NULL;
	i = place(set, call);
	for (; set->slots[i].call != call; i = (i + 1) & set->mask)
		if (!set->slots[i].call)
			return NULL;
	return &set->slots[i];
}

/* Fill the hole at @i with what comes later in its run. */
static void
close_hole(struct callset *set, uint32_t i)
{
	uint32_t k = i;

	for (;;) {
		set->slots[i].call = 0;
		for (;;) {
			uint32_t home;

			k = (k + 1) & set->mask;
			if (!set->slots[k].call)
				return;
			home = place(set, set->slots[k].call);
			if (((k - home) & set->mask) >= ((k - i) & set->mask))
				break;
		}
		set->slots[i] = set->slots[k];
		i = k;
	}
}

bool
callset_remove(struct callset *set, uint64_t call, uint64_t *deadline_ns)
{
	const struct callset_slot *slot = callset_find(set, call);

	if (!slot)
		return false;
	if (deadline_ns)
		*deadline_ns = slot->deadline_ns;
	close_hole(set, (uint32_t)(slot - set->slots));
	set->n--;
	return true;
}

void
callset_deinit(struct callset *set)
{
	free(set->slots);
	*set = (struct callset){.slots = NULL};
}

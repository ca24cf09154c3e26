#include "kind/deferred.h"

#include "base/err.h"
#include "kernel/sched.h"

int
deferred_add(struct deferred *d, uint64_t call, uint64_t deadline_ns)
{
	int r;

	if (d->calls.n >= DEFERRED_MAX)
		return DEFERRED_E_MANY;
	r = callset_add(&d->calls, call, deadline_ns);
	return r ? err_pass(r) : 0;
}

bool
deferred_remove(struct deferred *d, uint64_t call)
{
	return callset_remove(&d->calls, call, NULL);
}

bool
deferred_find(const struct deferred *d, uint64_t call, uint64_t *deadline_ns)
{
	const struct callset_slot *slot = callset_find(&d->calls, call);

	if (slot)
		*deadline_ns = slot->deadline_ns;
	return slot != NULL;
}

void
deferred_deinit(struct deferred *d, struct sched *sched)
{
	static const char text[] = "the session ended before it answered";
	struct callset *set = &d->calls;

	for (uint32_t i = 0; set->n && i <= set->mask; i++)
		if (set->slots[i].call)
			sched_reply(sched, set->slots[i].call, EVD_STATUS_DIED,
				text, sizeof(text) - 1);
	callset_deinit(set);
}

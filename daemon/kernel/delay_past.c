/* What has become of delays that are no more. See delay_past.h. */
#include "kernel/delay_past.h"

#include <stdlib.h>

#include "base/fault.h"

static enum delay_fate
fate_of(uint64_t entry, uint64_t key)
{
	if (!entry || entry >> 1 != key)
		return DELAY_FORGOTTEN;
	return entry & 1 ? DELAY_WAS_CANCELLED : DELAY_HAS_FIRED;
}

enum delay_fate
delay_past_fate(
	const struct delay_past *past, uint64_t id, unsigned counted_from)
{
	return fate_of(past->ids[(id >> counted_from) % DELAY_PAST_IDS], id);
}

void
delay_past_name(struct delay_past *past, uint64_t hash, enum delay_fate fate)
{
	uint64_t key = hash >> 1;

	if (!past->names)
		past->names = FAULT(delay_past) ? NULL
						: calloc(DELAY_PAST_NAMES,
							  sizeof(*past->names));
	if (past->names)
		past->names[key % DELAY_PAST_NAMES] =
			key << 1 | (fate == DELAY_WAS_CANCELLED);
}

enum delay_fate
delay_past_fate_of_name(const struct delay_past *past, uint64_t hash)
{
	uint64_t key = hash >> 1;

	if (!past->names)
		return DELAY_FORGOTTEN;
	return fate_of(past->names[key % DELAY_PAST_NAMES], key);
}

void
delay_past_deinit(struct delay_past *past)
{
	free(past->names);
	past->names = NULL;
}

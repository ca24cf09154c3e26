#pragma once
/* What has become of delays that are no more: of the last DELAY_PAST_IDS by id
 * and, as names are fewer, the last DELAY_PAST_NAMES by name, about, for each
 * has its place in a table until another comes that has the same. One thread.
 */
#include <stdint.h>

enum {
	DELAY_PAST_IDS = 2048,
	DELAY_PAST_NAMES = 1024,
};

/* What has become of a delay, as far as is still known. */
enum delay_fate {
	DELAY_PENDING,
	DELAY_HAS_FIRED,
	DELAY_WAS_CANCELLED,
	DELAY_FORGOTTEN, /* fired or cancelled, or none that was ever set */
	DELAY_NEVER_WAS,
};

struct delay_past {
	uint64_t ids[DELAY_PAST_IDS]; /* twice the id, + 1: cancelled */
	uint64_t *names; /* hashes, the last bit likewise; NULL: none yet */
};

/* @fate: DELAY_HAS_FIRED or DELAY_WAS_CANCELLED; of a name: if there is
 * memory. Ids count from the bit @counted_from on: those that are set one after
 * another have other places. */
static inline void
delay_past_id(struct delay_past *past, uint64_t id, unsigned counted_from,
	enum delay_fate fate)
{
	past->ids[(id >> counted_from) % DELAY_PAST_IDS] =
		id << 1 | (fate == DELAY_WAS_CANCELLED);
}
void delay_past_name(
	struct delay_past *past, uint64_t hash, enum delay_fate fate);

/* One of those two, or DELAY_FORGOTTEN. */
enum delay_fate delay_past_fate(
	const struct delay_past *past, uint64_t id, unsigned counted_from);
enum delay_fate delay_past_fate_of_name(
	const struct delay_past *past, uint64_t hash);

void delay_past_deinit(struct delay_past *past);

#pragma once
/* Acks: which posts of a connection are not settled yet, in the order they
 * came. Few wait while any number passes them, so it is a queue of those that
 * wait, not a map of those that have passed. One thread. */
#include <stdbool.h>
#include <stdint.h>

struct acks {
	uint64_t *ring;         /* rising numbers; a settled one is marked */
	uint32_t head, n, room; /* room is a power of two, or 0 */
	uint32_t n_settled;     /* marked ones of the n */
};

void acks_deinit(struct acks *a);
/* Post @seq, higher than all before, has come: 0 or -ENOMEM. */
int acks_add(struct acks *a, uint64_t seq);
/* It is settled; true: it was the first that was not. */
bool acks_settle_any(struct acks *a, uint64_t seq);
static inline bool
acks_settle(struct acks *a, uint64_t seq)
{
	if (!a->n || a->n_settled || a->ring[a->head] != seq)
		return acks_settle_any(a, seq);
	a->head = (a->head + 1) & (a->room - 1); /* mostly it is the first */
	a->n--;
	return true;
}
/* All up to this one are settled; @last: the last that was added. */
static inline uint64_t
acks_upto(const struct acks *a, uint64_t last)
{
	return a->n ? a->ring[a->head] - 1 : last;
}

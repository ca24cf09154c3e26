#include "net/acks.h"

#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/fault.h"

#define SETTLED (1ull << 63)

enum { ACKS_ROOM = 16 };

void
acks_deinit(struct acks *a)
{
	free(a->ring);
	*a = (struct acks){0};
}

static uint64_t *
at(const struct acks *a, uint32_t i)
{
	return &a->ring[(a->head + i) & (a->room - 1)];
}

/* Move those that wait to the front of @ring, which may be the same. */
static void
compact(struct acks *a, uint64_t *ring, uint32_t room)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < a->n; i++) {
		uint64_t seq = *at(a, i);

		if (seq & SETTLED)
			continue;
		if (ring == a->ring)
			*at(a, n++) = seq;
		else
			ring[n++] = seq;
	}
	if (ring != a->ring) {
		free(a->ring);
		a->ring = ring;
		a->room = room;
		a->head = 0;
	}
	a->n = n;
	a->n_settled = 0;
}

static int
make_room(struct acks *a)
{
	uint32_t room = a->room ? a->room * 2 : ACKS_ROOM;
	uint64_t *ring;

	if (a->n && a->n_settled >= a->n / 2) {
		compact(a, a->ring, a->room);
		return 0;
	}
	ring = FAULT(acks_add) ? NULL : malloc(room * sizeof(*ring));
	if (!ring)
		return err_raise(-ENOMEM);
	compact(a, ring, room);
	return 0;
}

int
acks_add(struct acks *a, uint64_t seq)
{
	if (a->n == a->room) {
		int r = make_room(a);

		if (r)
			return err_pass(r);
	}
	*at(a, a->n++) = seq;
	return 0;
}

static void
mark(struct acks *a, uint64_t seq)
{
	uint32_t low = 0, high = a->n;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		uint64_t *entry = at(a, middle);

		if ((*entry & ~SETTLED) == seq) {
			a->n_settled += !(*entry & SETTLED);
			*entry |= SETTLED;
			return;
		}
		if ((*entry & ~SETTLED) < seq)
			low = middle + 1;
		else
			high = middle;
	}
}

bool
acks_settle_any(struct acks *a, uint64_t seq)
{
	if (!a->n || *at(a, 0) != seq) {
		mark(a, seq);
		return false;
	}
	do {
		a->head = (a->head + 1) & (a->room - 1);
		a->n--;
		if (!a->n || !(*at(a, 0) & SETTLED))
			return true;
		a->n_settled--;
	} while (true);
}

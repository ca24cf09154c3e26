#pragma once
/* What tests of large payloads share. */
#include <stdlib.h>

#include "fixture.h"

enum { MIB = 1 << 20, ALL_SEALS = 15 };

static inline int
large_setup(void **state)
{
	int r = rig_setup(state);
	struct rig *rig = *state;

	rig->kernel.limits.max_payload = 8 * MIB;
	rig->server.window_bytes = 16 * MIB;
	return r;
}

static inline uint8_t *
pattern(size_t size)
{
	uint8_t *data = malloc(size);

	assert_non_null(data);
	for (size_t i = 0; i < size; i++)
		data[i] = (uint8_t)(i * 31 + (i >> 12));
	return data;
}

static inline int64_t
used(struct rig *rig, enum charge_kind kind)
{
	const struct user *user = rig_conn(rig, 0)->peer.user;

	rig_turn(rig); /* which adds up */
	return atomic_load(&user->used[kind]);
}

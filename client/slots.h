#pragma once
/* Slots: numbered entries, found in O(1) by numbers that are never used
 * twice. Belongs to the thread that uses the handle. */
#include <stdint.h>

enum { SLOTS_BITS = 16, SLOTS_MAX = 65535 };

struct slot {
	uint64_t number; /* 0: free */
	uint64_t value;
	uint32_t kind, mode;
	uint32_t next_free; /* index + 1 */
};

struct slots {
	struct slot *v;
	uint32_t n, size, free; /* free: index + 1 of the first */
	uint32_t used;
	uint64_t generation;
};

/* A new entry, NULL if @max are used or out of memory. The pointer is valid
 * until the next slots_add(). */
struct slot *slots_add(struct slots *s, uint32_t max);
struct slot *slots_find(const struct slots *s, uint64_t number); /* or NULL */
void slots_remove(struct slots *s, struct slot *slot);
void slots_clear(struct slots *s); /* numbers go on */
void slots_deinit(struct slots *s);

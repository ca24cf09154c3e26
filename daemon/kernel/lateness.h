#pragma once
/* Lateness: how long after their due times timers fired, as a histogram whose
 * buckets are wider the later: four for each doubling, from a microsecond on.
 * One thread. */
#include <stddef.h>
#include <stdint.h>

enum {
	LATENESS_FIRST_BITS = 10, /* the first bucket: less than 2^10 ns */
	LATENESS_PART_BITS = 2,   /* of a doubling */
	LATENESS_LAST_BITS = 42,  /* the last: 2^42 ns, 73 minutes, and more */
	LATENESS_BUCKETS = ((LATENESS_LAST_BITS - LATENESS_FIRST_BITS)
				   << LATENESS_PART_BITS) +
			   2,
};

struct lateness {
	uint64_t n;
	uint64_t max_ns;
	uint64_t buckets[LATENESS_BUCKETS];
};

static inline unsigned
lateness_bucket(uint64_t ns)
{
	unsigned bits;

	if (ns < UINT64_C(1) << LATENESS_FIRST_BITS)
		return 0;
	if (ns >= UINT64_C(1) << LATENESS_LAST_BITS)
		return LATENESS_BUCKETS - 1;
	bits = 63 - (unsigned)__builtin_clzll(ns);
	return ((bits - LATENESS_FIRST_BITS) << LATENESS_PART_BITS) + 1 +
	       (unsigned)(ns >> (bits - LATENESS_PART_BITS) &
			  ((1 << LATENESS_PART_BITS) - 1));
}

static inline void
lateness_add(struct lateness *l, uint64_t ns)
{
	l->n++;
	l->buckets[lateness_bucket(ns)]++;
	if (ns > l->max_ns)
		l->max_ns = ns;
}

/* What is in the bucket is less than that; UINT64_MAX for the last. */
uint64_t lateness_bound(unsigned bucket);
/* So many of 1,000 were not later than what is returned. 0: there are none. */
uint64_t lateness_of_thousand(const struct lateness *l, unsigned thousandths);
void lateness_merge(struct lateness *to, const struct lateness *from);

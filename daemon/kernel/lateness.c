/* Lateness: reading the histogram. One thread. */
#include "kernel/lateness.h"

uint64_t
lateness_bound(unsigned bucket)
{
	const unsigned parts = 1u << LATENESS_PART_BITS;
	unsigned bits;

	if (bucket == 0)
		return UINT64_C(1) << LATENESS_FIRST_BITS;
	if (bucket >= LATENESS_BUCKETS - 1)
		return UINT64_MAX;
	bits = (bucket - 1) / parts + LATENESS_FIRST_BITS;
	return (UINT64_C(1) << bits) +
	       (((bucket - 1) % parts + 1ull) << (bits - LATENESS_PART_BITS));
}

uint64_t
lateness_of_thousand(const struct lateness *l, unsigned thousandths)
{
	uint64_t wanted = l->n / 1000 * thousandths +
			  (l->n % 1000 * thousandths + 999) / 1000;
	uint64_t sum = 0;
	unsigned i = 0;

	if (!l->n)
		return 0;
	for (; i < LATENESS_BUCKETS; i++) {
		sum += l->buckets[i];
		if (sum >= wanted && sum)
			break;
	}
	return lateness_bound(i) < l->max_ns ? lateness_bound(i) : l->max_ns;
}

void
lateness_merge(struct lateness *to, const struct lateness *from)
{
	to->n += from->n;
	for (unsigned i = 0; i < LATENESS_BUCKETS; i++)
		to->buckets[i] += from->buckets[i];
	if (from->max_ns > to->max_ns)
		to->max_ns = from->max_ns;
}

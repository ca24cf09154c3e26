#include "kernel/dead_search.h"

#include <string.h>

enum { TOKEN_BITS = 56 }; /* of a page's end, beside its scheduler */

static bool
matches(const struct dead_search *search, const struct dead *d)
{
	return (!search->alias || strcmp(search->alias, d->alias) == 0) &&
	       (!search->session || search->session == d->session);
}

struct dead *
dead_search_next(struct dead_search *search, struct sched *s, bool *more)
{
	struct dead *d;

	*more = false;
	while ((d = dead_next(s, search->after, search->reason))) {
		if (search->until && d->id > search->until)
			break;
		if (!search->looks) {
			*more = true;
			return NULL;
		}
		search->looks--;
		search->after = d->id;
		if (matches(search, d))
			return d;
	}
	search->after = 0;
	return NULL;
}

uint64_t
dead_token(uint64_t id)
{
	return (uint64_t)dead_sched(id) << TOKEN_BITS | id >> 6;
}

uint64_t
dead_token_id(uint64_t token)
{
	uint64_t mask = (UINT64_C(1) << TOKEN_BITS) - 1;

	return (token & mask) << 6 | token >> TOKEN_BITS;
}

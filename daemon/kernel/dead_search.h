#pragma once
/* Dead search: the letters that somebody asks for, scheduler by scheduler, each
 * on its own thread. */
#include "kernel/dead.h"

enum { DEAD_LOOK = 10000 }; /* letters looked at for one page */

/* Zero it, then say what is looked for. */
struct dead_search {
	const char *alias;       /* it was for; NULL: any */
	uint64_t session;        /* likewise; 0: any */
	enum dead_reason reason; /* DEAD_NONE: any */
	uint64_t after;          /* on the scheduler that is asked next */
	uint64_t until;          /* the last there; 0: all */
	uint64_t looks;          /* that are left; DEAD_LOOK at first */
};

/* The next letter here, or NULL; *@more: there may be some behind `after`, but
 * enough has been looked at. Without more, the next scheduler begins at its
 * first. */
struct dead *dead_search_next(
	struct dead_search *search, struct sched *s, bool *more);

/* The end of a page, as a number that does not fall: ids of letters rise on one
 * scheduler alone. */
uint64_t dead_token(uint64_t id);
uint64_t dead_token_id(uint64_t token);

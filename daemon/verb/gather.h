#pragma once
/* Gather: ask every scheduler in turn, then answer. A task goes from one
 * scheduler to the next, does its part on each one's thread, and comes home
 * to the connection that asked; that may have gone meanwhile. */
#include "arena.h"
#include "verb/verb.h"

enum { GATHER_ARENA_MAX = 16 << 20 };

struct gather {
	struct sched_task task;
	struct sched *home;
	uint64_t session;      /* of the connection */
	struct peer *peer;     /* only while session_find(session) succeeds */
	struct rights *rights; /* of the peer; good on any thread */
	struct rights *about;  /* of whom it asks, a reference; or NULL */
	const struct peer_ops *ops; /* good on any thread */
	uint64_t request;
	uint64_t only;    /* ask the home of this session alone; 0: all */
	unsigned next;    /* scheduler to ask */
	int status;       /* of the answer */
	uint8_t denied;   /* 1 + enum right to `name` that was found missing */
	bool is_answered; /* by somebody else, maybe later */
	char text[VERB_TEXT_MAX];
	struct arena arena; /* of all that the answer holds */
	Eventd__V1__Response response;
	/* One scheduler's part, on its thread. False: that is enough. It may
	 * set `again`: it has more to do there, in another turn; or `pending`:
	 * gather_return() tells when it is done, and that is enough. */
	bool (*visit)(struct gather *g, struct sched *s);
	/* Back home: fill in @response. May be NULL. */
	void (*finish)(struct gather *g);
	/* It is never finished, for the daemon ends: let go of `out`. May be
	 * NULL. */
	void (*drop)(struct gather *g);
	/* Set by a visit: the next one is here, whatever `next` says. */
	struct sched *hop;
	uint64_t args[4]; /* of the verb */
	char name[256];
	void *out;
	bool again, pending;
};

/* For @p's request @id; NULL: out of memory, and told so. */
struct gather *gather_new(struct peer *p, uint64_t id);
/* Ask; consumes @g. */
void gather_start(struct gather *g, struct sched *here);
/* What was pending on the thread of @here is done; consumes @g. */
void gather_return(struct gather *g, struct sched *here);
/* Answer now; consumes @g. On the connection's thread. */
void gather_answer(struct gather *g);
/* Zeroed memory for the answer; NULL: it is too much. */
void *gather_alloc(struct gather *g, size_t size);
char *gather_string(struct gather *g, const char *text);
/* May who asks see @t, of this thread? One of its aliases, or, of one without,
 * all that have none; and always what is its user's own. */
bool gather_sees(const struct gather *g, struct session *t);

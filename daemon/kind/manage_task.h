#pragma once
/* One request of manage.h on its way. The thread it is on. */
#include "kernel/dead_search.h"
#include "kernel/queue.h"
#include "kind/manage.h"

/* The answer as it grows. */
struct manage_out {
	uint8_t *data;
	size_t size, room;
	bool failed; /* out of memory */
};

struct manage {
	struct sched_task task;
	uint64_t call; /* that is answered */
	uint8_t op;    /* enum manage_op */
	bool again;    /* there is more to do here, in another turn */
	bool pending;  /* manage_end() will be called */
	bool looked;   /* search.until is of this scheduler */
	int set;
	unsigned next; /* scheduler to visit */
	int status;
	uint64_t session, n, skip, next_page, left, first_status;
	uint32_t limit, bytes;
	bool on;
	struct queue_walk walk;
	struct queue_move move;
	struct queue_purge purge;
	struct dead_search search;
	struct manage_out out; /* entries */
	char alias[256], to[256], event[128];
	char text[MANAGE_TEXT];
	size_t n_ids;
	uint64_t ids[];
};

void manage_end(struct manage *m, struct sched *here);
/* No session @m->session here: it is over. */
void manage_fail(struct manage *m, int status, const char *text);
void manage_put(struct manage_out *out, uint64_t number);
void manage_put_text(struct manage_out *out, const void *text, size_t size);
static inline bool
manage_is_long(const struct manage *m)
{
	return m->out.size > 1 << 20;
}

/* One scheduler's part. True: the next one has to do with it, too. */
bool manage_visit_queue(struct manage *m, struct sched *s);   /* _queue.c */
bool manage_visit_letters(struct manage *m, struct sched *s); /* _dead.c */

#pragma once
/* Mailboxes, dead letters and profiles as native sessions manage them. Comes
 * with plugin.h; include that. */
#include <stddef.h>
#include <stdint.h>

#include "eventd/plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What is asked of a mailbox: zero it, set @size and what is wanted. */
struct evd_queue_args {
	size_t size;             /* sizeof(struct evd_queue_args) */
	const char *alias;       /* whose; NULL: */
	uint64_t session;        /* by id; 0: of this session */
	const char *reply_event; /* the answer is this event */
	/* of evd_ctx_queue_peek(): */
	uint64_t after; /* a page begins behind so many events */
	uint32_t limit; /* events in a page, 0: 100, at most 1,000; of a move:
			 * in all, 0: no limit */
	uint32_t bytes; /* of each payload, at most 4,096 */
	uint64_t id;    /* this event alone; 0: all */
	/* of evd_ctx_queue_purge(): */
	const char *event; /* of this name; NULL: all */
	/* of evd_ctx_queue_move(): */
	const char *to;
};

/* What is asked of dead letters. */
struct evd_dead_args {
	size_t size;       /* sizeof(struct evd_dead_args) */
	const char *alias; /* letters of the session that holds it; NULL: */
	uint64_t session;  /* by id; 0: of this session */
	int all;           /* or of anybody */
	const char *reply_event; /* the answer is this event */
	const char *for_alias;   /* only those for this alias; NULL: any */
	const char *reason;      /* "overflow", "no-alias", "expired", "died",
				  * "refused", "attempts", "unhandled"; NULL:
				  * any */
	const uint64_t *ids;     /* these, at most 1,000; NULL: all of them */
	size_t n_ids;
	uint64_t after; /* a page begins here: evd_answer.next */
	uint32_t limit; /* letters in a page, 0: 100, at most 1,000 */
	uint32_t bytes; /* of each payload, at most 4,096 */
	const char *to; /* of evd_ctx_dead_requeue(): NULL: as it was */
};

enum evd_queue_op {
	EVD_QUEUE_PAUSE,
	EVD_QUEUE_RESUME,
	EVD_QUEUE_PEEK,
	EVD_QUEUE_PURGE,
	EVD_QUEUE_MOVE,
};
enum evd_dead_op {
	EVD_DEAD_LIST,
	EVD_DEAD_SHOW,
	EVD_DEAD_REQUEUE,
	EVD_DEAD_PURGE,
};

/* The answer to either, and to evd_ctx_profile(). */
struct evd_answer {
	size_t size;      /* sizeof(struct evd_answer) */
	uint64_t n;       /* entries that follow, or what was changed */
	uint64_t next;    /* the next page begins here; 0: there is none */
	uint64_t left;    /* of a change: what could not be changed */
	int status;       /* why, EVD_STATUS_* */
	const char *text; /* and for people, or "" */
	int on;           /* the mailbox is paused; the profile is on */
};

/* An event that waits. */
struct evd_queued {
	size_t size;       /* sizeof(struct evd_queued) */
	uint64_t position; /* 0: the front */
	uint64_t id, from;
	const char *event;
	const void *data; /* the first data_size bytes, and a NUL */
	size_t data_size, payload_size;
	uint32_t attempt;
	int is_call, urgent;
};

struct evd_letter {
	size_t size; /* sizeof(struct evd_letter) */
	uint64_t id, event_id, from;
	uint64_t session; /* it was for; 0: nobody */
	const char *alias, *event, *reason, *text;
	const void *data; /* the first data_size bytes, and a NUL */
	size_t data_size, payload_size;
	int64_t time_ns; /* since the epoch */
	uint32_t attempt;
	int status;
};

/* What events of one name have cost. */
struct evd_profile_row {
	size_t size; /* sizeof(struct evd_profile_row) */
	const char *event;
	uint64_t calls, own_ns, whole_ns, wait_ns, wait_max_ns;
	uint64_t n_late, late_ns, late_max_ns;
};

/* ---- mailboxes, dead letters, profiles ----------------------------------- */

/* A session may ask this of itself and of its children, and of others if its
 * file says ManageOthers=yes. The answer comes as the event args->reply_event,
 * once, with a status; if that is 0, its handler reads the rest by
 * evd_ctx_managed() and the functions below it. All of these return 0, or
 * -ENOENT (nobody holds the alias), -EACCES, -EINVAL, -EDQUOT (MaxCalls=),
 * -ENOMEM; then nothing comes. */

/* Let its events wait. They are accepted as ever, replies and notices go on. */
static inline int
evd_ctx_queue_pause(struct evd_ctx *ctx, const struct evd_queue_args *args)
{
	return EVD_HOST(ctx)->queue(ctx, EVD_QUEUE_PAUSE, args);
}

static inline int
evd_ctx_queue_resume(struct evd_ctx *ctx, const struct evd_queue_args *args)
{
	return EVD_HOST(ctx)->queue(ctx, EVD_QUEUE_RESUME, args);
}

/* A page of what waits. */
static inline int
evd_ctx_queue_peek(struct evd_ctx *ctx, const struct evd_queue_args *args)
{
	return EVD_HOST(ctx)->queue(ctx, EVD_QUEUE_PEEK, args);
}

/* End what waits as cancelled. */
static inline int
evd_ctx_queue_purge(struct evd_ctx *ctx, const struct evd_queue_args *args)
{
	return EVD_HOST(ctx)->queue(ctx, EVD_QUEUE_PURGE, args);
}

/* Move what waits to the session that holds args->to, in order, as it is. */
static inline int
evd_ctx_queue_move(struct evd_ctx *ctx, const struct evd_queue_args *args)
{
	return EVD_HOST(ctx)->queue(ctx, EVD_QUEUE_MOVE, args);
}

/* A page of letters. */
static inline int
evd_ctx_dead_list(struct evd_ctx *ctx, const struct evd_dead_args *args)
{
	return EVD_HOST(ctx)->dead(ctx, EVD_DEAD_LIST, args);
}

/* One letter, args->ids[0], with its whole payload. */
static inline int
evd_ctx_dead_show(struct evd_ctx *ctx, const struct evd_dead_args *args)
{
	return EVD_HOST(ctx)->dead(ctx, EVD_DEAD_SHOW, args);
}

/* Post their events again. */
static inline int
evd_ctx_dead_requeue(struct evd_ctx *ctx, const struct evd_dead_args *args)
{
	return EVD_HOST(ctx)->dead(ctx, EVD_DEAD_REQUEUE, args);
}

/* Forget them. */
static inline int
evd_ctx_dead_purge(struct evd_ctx *ctx, const struct evd_dead_args *args)
{
	return EVD_HOST(ctx)->dead(ctx, EVD_DEAD_PURGE, args);
}

/* What the events of a session, 0: of this one, have cost. It is measured while
 * the profile is on: @set above 0 switches it on, below 0 off. */
static inline int
evd_ctx_profile(
	struct evd_ctx *ctx, uint64_t session, int set, const char *reply_event)
{
	return EVD_HOST(ctx)->profile(ctx, session, set, reply_event);
}

/* The answer that the running handler is given. 0, or -EINVAL: it is given none
 * of these, or one that failed. Set answer->size. */
static inline int
evd_ctx_managed(struct evd_ctx *ctx, struct evd_answer *answer)
{
	return EVD_HOST(ctx)->managed(ctx, answer);
}

/* The next entry of a page, good until the handler returns. 0, -ENOENT: there
 * is no more, or -EINVAL. Set event->size. */
static inline int
evd_ctx_next_queued(struct evd_ctx *ctx, struct evd_queued *event)
{
	return EVD_HOST(ctx)->next_queued(ctx, event);
}

static inline int
evd_ctx_next_letter(struct evd_ctx *ctx, struct evd_letter *letter)
{
	return EVD_HOST(ctx)->next_letter(ctx, letter);
}

static inline int
evd_ctx_next_row(struct evd_ctx *ctx, struct evd_profile_row *row)
{
	return EVD_HOST(ctx)->next_row(ctx, row);
}

#ifdef __cplusplus
}
#endif

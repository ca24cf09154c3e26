#pragma once
/* libevd: mailboxes and dead letters. Part of client.h, which includes it and
 * tells the rules; the functions wait and fail as those of look.h. */
#include <eventd/client.h>

#ifdef __cplusplus
extern "C" {
#endif

struct evd_queue;  /* a page of a mailbox: evd_queue_peek() */
struct evd_queued; /* one of its events */
struct evd_deads;  /* a page of dead letters: evd_dead_list() */
struct evd_dead;   /* one of them */

/* ---- mailboxes ---------------------------------------------------------- */

/**
 * evd_queue_peek() - a page of the events that wait in a mailbox
 * @skip:  so many are passed over: 0, then evd_queue_next() of the page before
 * @limit: events a page; 0: the daemon's default, 100
 * @bytes: of each payload at most, up to 4,096; they are told to who may
 *         manage the mailbox alone: root, the daemon's user, who has bound it
 * @page:  set on success; release with evd_queue_free()
 *
 * Events that come or leave between two pages shift the later ones.
 *
 * Return: 0, or -ENOENT, -EINVAL and the errors of look.h.
 */
EVD_API int evd_queue_peek(struct evd *c, const char *alias, uint64_t skip,
	uint32_t limit, uint32_t bytes, struct evd_queue **page);
/* The one event of this id: a page of one. Also -ESRCH: it does not wait. */
EVD_API int evd_queue_peek_id(struct evd *c, const char *alias, uint64_t id,
	uint32_t bytes, struct evd_queue **page);
EVD_API size_t evd_queue_count(const struct evd_queue *page);
EVD_API const struct evd_queued *evd_queue_at(
	const struct evd_queue *page, size_t i);
EVD_API uint64_t evd_queue_next(const struct evd_queue *page);
EVD_API struct evd_queue *evd_queue_free(struct evd_queue *page);

EVD_API uint64_t evd_queued_position(const struct evd_queued *q);
EVD_API uint64_t evd_queued_id(const struct evd_queued *q);
EVD_API const char *evd_queued_event(const struct evd_queued *q);
/* Id of the session that sent it; 0: none. */
EVD_API uint64_t evd_queued_from(const struct evd_queued *q);
/* Payload bytes, and the head of them that was told. */
EVD_API uint64_t evd_queued_size(const struct evd_queued *q);
EVD_API const void *evd_queued_data(const struct evd_queued *q, size_t *size);
/* A reply is expected. */
EVD_API bool evd_queued_is_call(const struct evd_queued *q);
/* Deliveries so far. */
EVD_API uint32_t evd_queued_attempt(const struct evd_queued *q);
EVD_API bool evd_queued_is_urgent(const struct evd_queued *q);

/* Its events wait from now on; new ones are accepted as ever, and its control
 * lane goes on. 0, or -ENOENT, -EACCES ... */
EVD_API int evd_queue_pause(struct evd *c, const char *alias);
EVD_API int evd_queue_resume(struct evd *c, const char *alias);
/* End what is queued now, or what of it is called @event, as cancelled.
 * @purged: how many; may be NULL. */
EVD_API int evd_queue_purge(
	struct evd *c, const char *alias, const char *event, uint64_t *purged);
/**
 * evd_queue_move() - move events from the front of a mailbox to another's end
 * @limit: at most so many; 0: all that is queued now
 * @moved: how many were; may be NULL
 * @left:  how many of those asked for were not; may be NULL
 *
 * Ids, senders and order stay, and so do the bounds of the target.
 *
 * Return: 0, also if not all were moved: then evd_last_error() tells why, and
 * evd_last_status() is EVD_STATUS_FULL or another. -ENOENT, -EACCES, -EINVAL:
 * both are one session, -EDQUOT: a move is under way.
 */
EVD_API int evd_queue_move(struct evd *c, const char *alias, const char *to,
	uint64_t limit, uint64_t *moved, uint64_t *left);

/* ---- dead letters ------------------------------------------------------- */

/* Which letters: all fields that are set must match. */
struct evd_dead_filter {
	const char *alias;  /* they were for; NULL or "": any */
	const char *reason; /* "overflow", "no-alias", "expired", "died",
			     * "refused", "attempts", "unhandled"; NULL: any */
};

/* @after: 0, then evd_deads_next() of the page before; @limit 0: 100. */
EVD_API int evd_dead_list(struct evd *c, const struct evd_dead_filter *filter,
	uint64_t after, uint32_t limit, struct evd_deads **page);
/* One letter with its payload: a page of one. -ESRCH: there is none. */
EVD_API int evd_dead_show(struct evd *c, uint64_t id, struct evd_deads **page);
EVD_API size_t evd_deads_count(const struct evd_deads *page);
EVD_API const struct evd_dead *evd_deads_at(
	const struct evd_deads *page, size_t i);
EVD_API uint64_t evd_deads_next(const struct evd_deads *page);
EVD_API struct evd_deads *evd_deads_free(struct evd_deads *page);

EVD_API uint64_t evd_dead_id(const struct evd_dead *d);
EVD_API const char *evd_dead_reason(const struct evd_dead *d);
/* EVD_STATUS_*, and why, for people. */
EVD_API int evd_dead_status(const struct evd_dead *d);
EVD_API const char *evd_dead_text(const struct evd_dead *d);
EVD_API const char *evd_dead_alias(const struct evd_dead *d);
EVD_API const char *evd_dead_event(const struct evd_dead *d);
EVD_API uint64_t evd_dead_event_id(const struct evd_dead *d);
EVD_API uint64_t evd_dead_from(const struct evd_dead *d);
EVD_API uint64_t evd_dead_to(const struct evd_dead *d);
EVD_API uint64_t evd_dead_size(const struct evd_dead *d);
EVD_API int64_t evd_dead_time_ns(const struct evd_dead *d);
EVD_API uint32_t evd_dead_attempt(const struct evd_dead *d);
/* The payload, from evd_dead_show() alone and for who may manage the daemon. */
EVD_API const void *evd_dead_data(const struct evd_dead *d, size_t *size);

/* What became of the letters. */
struct evd_dead_result {
	uint64_t letters; /* posted again, or forgotten */
	uint64_t failed;  /* are still there */
	int status;       /* of the first that failed; evd_last_error() */
	uint64_t next;    /* for @after of the next page; 0: that was all */
};
/* Post the events of @n letters again, to the alias @to or, if it is NULL, to
 * their own. 0, also if some failed; -EACCES ... */
EVD_API int evd_dead_requeue(struct evd *c, const uint64_t *ids, size_t n,
	const char *to, struct evd_dead_result *result);
/* A page of those that match; the next with @after result->next, until 0. */
EVD_API int evd_dead_requeue_matching(struct evd *c,
	const struct evd_dead_filter *filter, const char *to, uint64_t after,
	struct evd_dead_result *result);
/* Forget letters, likewise. */
EVD_API int evd_dead_purge(struct evd *c, const uint64_t *ids, size_t n,
	struct evd_dead_result *result);
EVD_API int evd_dead_purge_matching(struct evd *c,
	const struct evd_dead_filter *filter, uint64_t after,
	struct evd_dead_result *result);

/* ---- one delivery ------------------------------------------------------ */

/**
 * evd_give_back() - a delivery is not handled: it comes again
 * @event:    of evd_next(), not settled
 * @delay_ms: milliseconds until then; -1: as RetryDelay= of its session says
 *
 * Waits for the daemon's answer. It comes again with evd_event_attempt() one
 * higher; after MaxAttempts= it is a dead letter.
 *
 * Return: 0, or -EINVAL (not a delivery), -ESRCH (it was settled, or its lease
 * has ended), -EPIPE (the connection it came by is lost), -EOPNOTSUPP (a delay,
 * for a mailbox without a session file), and the errors of requests.
 */
EVD_API int evd_give_back(
	struct evd *c, const struct evd_event *event, int delay_ms);

/**
 * evd_extend() - a delivery is held for longer
 * @lease_ms: milliseconds from now; 0: as Lease= of its session says
 *
 * Return: as evd_give_back().
 */
EVD_API int evd_extend(
	struct evd *c, const struct evd_event *event, uint32_t lease_ms);

/* ---- the store ---------------------------------------------------------- */

enum evd_store_op {
	EVD_STORE_STATS = 0,
	EVD_STORE_CHECK = 1,     /* read all; durable posts wait meanwhile */
	EVD_STORE_BACKUP = 2,    /* copy all to a new file, likewise */
	EVD_STORE_COMPACT = 250, /* give free space back, likewise */
	EVD_STORE_SALVAGE = 251, /* evd_store_salvage() */
};

struct evd_store_report {
	char state[16];     /* "ok", "degraded", "broken", "off" */
	char text[256];     /* why not ok, or "" */
	uint64_t size;      /* bytes of the file */
	uint64_t mailboxes; /* that hold events, */
	uint64_t events;    /* and those */
	uint64_t commits;   /* since the daemon's start */
	uint64_t failed;    /* commits that failed */
	uint64_t last_ns;   /* that a commit took */
	uint64_t max_ns;
	uint64_t damaged; /* events that could not be read */
	uint64_t checked; /* EVD_STORE_CHECK: events looked at */
	uint64_t freed;   /* EVD_STORE_COMPACT: bytes */
	/* evd_store_salvage(): events that were counted and are lost; whether
	 * there may be more of them; what is in the new file is in events,
	 * mailboxes and damaged. */
	uint64_t lost;
	int lost_unknown;
};

/**
 * evd_store() - tell of the daemon's store, check it, copy it, make it smaller
 * @path:   EVD_STORE_BACKUP: an absolute path where the daemon may make a file
 *          that is not there yet; else NULL
 * @report: set on success
 *
 * Return: 0, or -EACCES (all but EVD_STORE_STATS is for those who may manage),
 * -EIO, -EOPNOTSUPP (there is no store), -EINVAL, and the errors of requests.
 */
EVD_API int evd_store(struct evd *c, enum evd_store_op op, const char *path,
	struct evd_store_report *report);
/**
 * evd_store_salvage() - read what can be read of a damaged store
 * @from:   absolute, a file that was set aside; it stays as it is
 * @to:     absolute, a file that is not there yet; the daemon makes it
 * @report: set on success
 *
 * Return: as evd_store(); -EIO if nothing can be read.
 */
EVD_API int evd_store_salvage(struct evd *c, const char *from, const char *to,
	struct evd_store_report *report);

#ifdef __cplusplus
}
#endif

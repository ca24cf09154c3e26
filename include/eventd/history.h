#pragma once
/* libevd: what became of an event. Part of client.h, which includes it and
 * tells the rules; the functions wait and fail as those of look.h. */
#include <eventd/client.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The daemon keeps the history of events that were posted with EVD_POST_TRACE,
 * of durable ones, and of those that came to a bad end, as far as History= in
 * eventd.conf lets it. */

/* The id of the event of the last post with EVD_POST_TRACE that the daemon has
 * told of: after evd_post_wait() of that one. 0: none. */
EVD_API uint64_t evd_traced_id(const struct evd *c);

enum evd_step {
	EVD_STEP_ACCEPTED = 1,  /* session: its sender */
	EVD_STEP_DELIVERED = 2, /* session: its handler; text: to which client
				 */
	EVD_STEP_RETURNED = 3,  /* it will be tried again, after took_ns */
	EVD_STEP_ENDED = 4,     /* took_ns: since it was given to its handler */
	EVD_STEP_RESTORED = 5,  /* it was found in the store at a start */
	EVD_STEP_LETTER = 6,    /* it is kept as a dead letter */
	EVD_STEP_REPEATED = 7,  /* its key was accepted before; text: when */
};

struct evd_history; /* evd_why() */
struct evd_line;    /* one step of it */

/**
 * evd_why() - tell what became of an event
 * @id:      of the event: evd_traced_id(), evd_event_id(), evd_queued_id(),
 *           evd_dead_event_id()
 * @history: set on success: steps in the order of time; release with
 *           evd_history_free()
 *
 * Return: 0, or -ESRCH (nothing is known of it, or nothing that you may see),
 * and the errors of look.h.
 */
EVD_API int evd_why(struct evd *c, uint64_t id, struct evd_history **history);
EVD_API size_t evd_history_count(const struct evd_history *h);
EVD_API const struct evd_line *evd_history_at(
	const struct evd_history *h, size_t i);
EVD_API uint64_t evd_history_next(const struct evd_history *h); /* 0 */
EVD_API struct evd_history *evd_history_free(struct evd_history *h);

EVD_API int evd_line_step(const struct evd_line *line); /* enum evd_step */
/* "accepted", "delivered" ... */
EVD_API const char *evd_line_word(const struct evd_line *line);
EVD_API int64_t evd_line_time_ns(const struct evd_line *line);
EVD_API uint64_t evd_line_session(const struct evd_line *line);
EVD_API const char *evd_line_alias(const struct evd_line *line);
EVD_API const char *evd_line_event(const struct evd_line *line);
/* How often it had been given to a handler before. */
EVD_API uint32_t evd_line_attempt(const struct evd_line *line);
EVD_API uint64_t evd_line_took_ns(const struct evd_line *line);
/* Ended, letter: EVD_STATUS_*; "handled", "expired", "cancelled", "dropped",
 * "dead" or "refused", of a letter its reason; and why, for people. */
EVD_API int evd_line_status(const struct evd_line *line);
EVD_API const char *evd_line_end(const struct evd_line *line);
EVD_API const char *evd_line_text(const struct evd_line *line);
EVD_API uint64_t evd_line_letter(const struct evd_line *line);

#ifdef __cplusplus
}
#endif

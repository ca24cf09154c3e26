#pragma once
/* libevd: how much a poster may have under way, and what it does when that is
 * used up. Part of client.h, which includes it and tells the rules.
 *
 * A post that finds no room waits for it in evd_post() (evd_set_blocking(),
 * with a deadline: evd_set_timeout(), or the options' timeout_ms), or returns
 * -EAGAIN (evd_set_blocking(c, false), or EVD_POST_TRY). Who then asks by
 * evd_want_room() is told by EVD_ROOM. */
#include <eventd/client.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * evd_set_window() - bound the posts that are under way
 * @posts: so many that are not settled; 0: as many as the daemon grants
 * @bytes: of payload in them, one may exceed it; 0: the same
 *
 * Counts at once, within what the daemon grants. Those that are gathered and
 * not written count, too.
 *
 * Return: 0, or -ECHILD.
 */
EVD_API int evd_set_window(struct evd *c, uint64_t posts, uint64_t bytes);

/**
 * evd_want_room() - be told when a post would be taken
 * @size: its payload, bytes
 *
 * Never waits. One wish at a time: the last one counts.
 *
 * Return: 1: it would be now, 0: EVD_ROOM comes from evd_next() when it would
 * be, or -ENOTCONN, -EMSGSIZE, -ECHILD.
 */
EVD_API int evd_want_room(struct evd *c, size_t size);

/* The bytes of payload in the posts that are under way, of which
 * evd_posts_pending() says how many there are. */
EVD_API uint64_t evd_bytes_pending(const struct evd *c);

#ifdef __cplusplus
}
#endif

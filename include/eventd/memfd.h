#pragma once
/* libevd: large payloads as sealed memfds, which are mapped instead of copied.
 * Part of client.h, which includes it and tells the rules. */
#include <eventd/client.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Payloads that are larger travel so, once evd_set_memfd() is on; and those
 * that are over evd_max_payload(). */
enum { EVD_MEMFD_MIN = 1 << 20 };

/**
 * evd_set_memfd() - pass large payloads as descriptors
 * @use: true: payloads of posts, calls and replies that are larger than
 *       EVD_MEMFD_MIN travel as a sealed memfd, and deliveries and replies may
 *       come so. false (default): all travels as bytes
 *
 * Counts from the next connection on, if its daemon takes memfds. A delivery or
 * reply that came so is like any other; its payload is mapped, not copied.
 *
 * Return: 0, or -EISCONN, -ENOMEM, -ECHILD.
 */
EVD_API int evd_set_memfd(struct evd *c, bool use);

/* How large such a payload may be (MaxMemfd= of the daemon), bytes; 0: none is
 * taken, or evd_set_memfd() is off. */
EVD_API uint64_t evd_max_memfd(const struct evd *c);

/**
 * evd_post_memfd() - post what a memfd holds, without a copy
 * @fd:   a memfd of @size bytes with the seals F_SEAL_SHRINK, F_SEAL_GROW,
 *        F_SEAL_WRITE and F_SEAL_SEAL; stays the caller's, who may close it
 *        when this returns
 * @size: more than 65536, up to evd_max_memfd()
 * @opt:  may be NULL
 *
 * Return: as evd_post_opt(), and -EINVAL (it is no such memfd), -EMSGSIZE,
 * -EOPNOTSUPP (evd_max_memfd() is 0), -EMFILE.
 */
EVD_API int64_t evd_post_memfd(struct evd *c, const char *alias,
	const char *event, int fd, size_t size,
	const struct evd_post_options *opt);

/**
 * evd_reply_memfd() - answer a call with what a memfd holds, without a copy
 * @call: evd_event_call() of the delivery
 * @fd:   as of evd_post_memfd()
 * @size: the same
 *
 * Return: as evd_reply(), and -EINVAL (it is no such memfd), -EMSGSIZE,
 * -EOPNOTSUPP (the daemon takes no such replies), -EMFILE.
 */
EVD_API int evd_reply_memfd(struct evd *c, uint64_t call, int fd, size_t size);

/* Delivery, reply: the memfd that its payload came in, to be mapped or passed
 * on; borrowed, as the event is. -1: it came as bytes. */
EVD_API int evd_event_memfd(const struct evd_event *event);

#ifdef __cplusplus
}
#endif

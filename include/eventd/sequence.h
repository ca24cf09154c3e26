#pragma once
/* libevd: posts that are accepted once, also when the connection is lost before
 * they are acknowledged. Part of client.h, which includes it and tells the
 * rules. */
#include <eventd/client.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { EVD_CLIENT_ID_MAX = 40 };

/**
 * evd_set_client_id() - number posts, and send again what was not settled
 * @id:    1..EVD_CLIENT_ID_MAX bytes of A-Z a-z 0-9 _ . / -, of this program
 *         alone; NULL: no more, as for a new handle
 * @first: number of the next post; 0: one that is above all that any handle
 *         took before by the clock
 *
 * From now on each post without a key has one made of the id and a number that
 * rises by one. With evd_set_reconnect() posts that were not settled when the
 * connection was lost are not told as failed: they are sent again, in order and
 * before all others, when it is back, and what had come in is accepted once.
 * The daemon knows keys for DedupWindow= and at most MaxKeys= of them a
 * mailbox, with those of a durable one also when it has been started again.
 *
 * They are held in memory within the window. Who keeps his own numbers across
 * runs, and posts again what he does not know the outcome of, gives the first
 * of those as @first. Not calls, forwarded ones and those given by memfd.
 *
 * Return: 0, or -EINVAL, -ENOMEM, -ECHILD.
 */
EVD_API int evd_set_client_id(struct evd *c, const char *id, uint64_t first);

/* The number of the next post; 0: there is no id. */
EVD_API uint64_t evd_client_sequence(const struct evd *c);

#ifdef __cplusplus
}
#endif

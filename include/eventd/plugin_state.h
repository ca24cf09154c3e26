#pragma once
/* Durable state of plugins: values by key that outlive the session's state and
 * the daemon, for sessions with Durable=yes. Included by plugin.h. */

#ifdef __cplusplus
extern "C" {
#endif

/* The value called @key: its bytes, *@size of them, good until the handler
 * returns or changes it; NULL: there is none. */
static inline const void *
evd_ctx_state_get(struct evd_ctx *ctx, const char *key, size_t *size)
{
	return EVD_HOST(ctx)->state_get(ctx, key, size);
}

/* Change it; @data NULL: there is to be none. It is kept in one step with the
 * end of the event that is being handled: if the handler or the daemon fails
 * before, both are as they were. 0, -EOPNOTSUPP (the mailbox is not durable, or
 * Concurrency= lets handlers run side by side), -EDQUOT (DurableState=),
 * -EINVAL (a key has 1 to 127 bytes), -ENOMEM. */
static inline int
evd_ctx_state_set(
	struct evd_ctx *ctx, const char *key, const void *data, size_t size)
{
	return EVD_HOST(ctx)->state_set(ctx, key, data, size);
}

#ifdef __cplusplus
}
#endif

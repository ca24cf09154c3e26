/* Durable state of plugins: the part of evd_host that is about it. The home's
 * thread. */
#include <errno.h>
#include <string.h>

#include "kernel/state.h"
#include "kind/native.h"

const void *
native_state_get(struct evd_ctx *ctx, const char *key, size_t *size)
{
	const struct native *n = (const struct native *)ctx;
	struct state_value v;

	if (state_get(n->session, key, strlen(key), &v))
		return NULL;
	*size = v.size;
	return v.data;
}

int
native_state_set(
	struct evd_ctx *ctx, const char *key, const void *data, size_t size)
{
	const struct native *n = (const struct native *)ctx;
	int r = state_set(n->session, key, strlen(key), data, size);

	switch (r) {
	case STATE_E_VOLATILE:
	case STATE_E_MANY:
		return -EOPNOTSUPP;
	case STATE_E_FULL:
		return -EDQUOT;
	case STATE_E_KEY:
		return -EINVAL;
	default:
		return r;
	}
}

/* Names of native sessions: part of the host of plugin.h. The home's thread.
 */
#include <errno.h>
#include <string.h>

#include "kernel/names.h"
#include "kernel/sched.h"
#include "kernel/ties.h"
#include "kind/native.h"
#include "proto/envelope.h"
#include "proto/status.h"

static struct native *
native_of(struct evd_ctx *ctx)
{
	return (struct native *)ctx;
}

static int
errno_of(int r)
{
	return r ? -status_errno(claim_status(r)) : 0;
}

enum claim_mode
native_claim_mode(unsigned flags)
{
	if (flags & EVD_BIND_REPLACE)
		return CLAIM_REPLACE;
	return flags & EVD_BIND_QUEUE ? CLAIM_QUEUE : CLAIM_REFUSE;
}

int
native_bind(struct evd_ctx *ctx, const char *alias, unsigned flags)
{
	struct claim_init init = {
		.name = alias,
		.size = strlen(alias),
		.mode = native_claim_mode(flags),
		.allow_replace = flags & EVD_BIND_ALLOW_REPLACE,
	};
	int r = claim_make(native_of(ctx)->session, &init);
	return r == CLAIM_E_QUEUED ? 1 : errno_of(r);
}

int
native_unbind(struct evd_ctx *ctx, const char *alias)
{
	return errno_of(
		claim_drop(native_of(ctx)->session, alias, strlen(alias)));
}

int
native_wait(struct evd_ctx *ctx, const char *alias, uint64_t timeout_ms,
	const char *reply_event)
{
	struct native *n = native_of(ctx);
	struct native_call *call;
	int r;

	if (!name_is_valid(
		    reply_event, strlen(reply_event), ENVELOPE_EVENT_MAX))
		return -EINVAL;
	call = native_call_new(n, reply_event);
	if (!call)
		return -ENOMEM;
	if (!timeout_ms)
		timeout_ms = native_sched(n)->kernel->limits.call_timeout_ms;
	r = claim_wait(
		n->session, alias, strlen(alias), timeout_ms, (uintptr_t)call);
	if (r)
		native_call_free(call);
	return errno_of(r);
}

int
native_watch_names(struct evd_ctx *ctx, const char *pattern, uint64_t *number)
{
	uint64_t mine;
	int r = names_watch(native_of(ctx)->session, pattern, strlen(pattern),
		number ? number : &mine);

	return r ? -status_errno(ties_status(r)) : 0;
}

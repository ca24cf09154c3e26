/* Names of native sessions: part of the host of plugin.h. The home's thread.
 */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "kernel/claim.h"
#include "kernel/crowd.h"
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

/* The rest of @flags is for aliases that one has alone. */
static int
join(struct evd_ctx *ctx, const char *alias, unsigned flags)
{
	const unsigned modes = EVD_BIND_AS_SHARED | EVD_BIND_AS_FANOUT;
	struct crowd_wish wish = {
		.alias = alias,
		.size = strlen(alias),
		.mode = flags & EVD_BIND_AS_SHARED ? BIND_SHARED : BIND_FANOUT,
		.window = flags >> 16,
	};
	char text[256];
	int r;

	if ((flags & modes) == modes || (flags & 0xffff & ~modes))
		return -EINVAL;
	r = crowd_join(native_of(ctx)->session, &wish, text, sizeof(text));
	if (r == CROWD_E_QUEUED)
		return 1;
	if (r)
		log_debug(
			"crowd.refused", "alias=%s reason=\"%s\"", alias, text);
	return r ? -status_errno(r) : 0;
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
	int r;

	if (flags & (EVD_BIND_AS_SHARED | EVD_BIND_AS_FANOUT))
		return join(ctx, alias, flags);
	r = claim_make(native_of(ctx)->session, &init);
	return r == CLAIM_E_QUEUED ? 1 : errno_of(r);
}

int
native_unbind(struct evd_ctx *ctx, const char *alias)
{
	struct session *s = native_of(ctx)->session;
	int r = claim_drop(s, alias, strlen(alias));

	if (r && crowd_leave(s, alias, strlen(alias)))
		r = 0;
	return errno_of(r);
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

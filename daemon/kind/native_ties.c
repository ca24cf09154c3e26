/* Watches and links of native sessions: part of the host of plugin.h. The
 * home's thread. */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "kernel/sched.h"
#include "kernel/tie.h"
#include "kind/native.h"
#include "proto/status.h"

static struct native *
native_of(struct evd_ctx *ctx)
{
	return (struct native *)ctx;
}

static int
errno_of(int r)
{
	return r ? -status_errno(ties_status(r)) : 0;
}

int
native_watch(struct evd_ctx *ctx, const struct evd_watch_args *watch,
	uint64_t *number)
{
	struct native *n = native_of(ctx);
	struct tie_init init = {
		.session = watch->session,
		.alias = watch->alias,
		.link = watch->link != 0,
	};
	uint64_t mine;

	if (watch->alias)
		init.session = alias_holder(&native_sched(n)->kernel->aliases,
			watch->alias, strlen(watch->alias));
	if (init.link && !init.session)
		return -ENOENT;
	return errno_of(tie_make(n->session, &init, number ? number : &mine));
}

int
native_unwatch(struct evd_ctx *ctx, uint64_t number)
{
	return errno_of(ties_unwatch(native_of(ctx)->session, number));
}

int
native_unlink(struct evd_ctx *ctx, uint64_t session)
{
	return errno_of(tie_unlink(native_of(ctx)->session, session));
}

int
native_trap(struct evd_ctx *ctx, int on)
{
	return ties_trap(native_of(ctx)->session, on != 0);
}

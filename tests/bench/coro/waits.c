/* A plugin for coro_bench: `wait` waits until `go` has come once for each, and
 * `none` does nothing, in a stack of its own. */
#include <stdint.h>

#include "eventd/plugin_wait.h"

static int
on_wait(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	(void)state, (void)m;
	return evd_sleep(ctx, 3600 * 1000u) ? 0 : -1;
}

static int
on_none(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	(void)ctx, (void)state, (void)m;
	return 0;
}

static const struct evd_handler handlers[] = {
	{"wait", on_wait},
	{"none", on_none},
};

EVD_PLUGIN_EXPORT extern const struct evd_plugin eventd_plugin;
const struct evd_plugin eventd_plugin = {
	.abi = EVD_PLUGIN_ABI,
	.size = sizeof(struct evd_plugin),
	.name = "waits",
	.handlers = handlers,
	.n_handlers = sizeof handlers / sizeof handlers[0],
	.flags = EVD_PLUGIN_WAITS,
};

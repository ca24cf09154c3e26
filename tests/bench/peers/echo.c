/* The session behind the echo scenarios: answers a call with its payload. */
#include <stddef.h>

#include "eventd/plugin.h"

static int
on_any(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	(void)state;
	return evd_ctx_reply(ctx, m->call, 0, m->data, m->size);
}

EVD_PLUGIN_EXPORT const struct evd_plugin eventd_plugin;
EVD_PLUGIN_EXPORT const struct evd_plugin eventd_plugin = {
	.abi = EVD_PLUGIN_ABI,
	.size = sizeof eventd_plugin,
	.name = "bench-echo",
	.fallback = on_any,
};

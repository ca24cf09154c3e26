/* The session behind the echo scenarios: answers a call with its payload. */
#include <stddef.h>
#include <time.h>

#include "eventd/plugin.h"

static int
on_any(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	(void)state;
	return evd_ctx_reply(ctx, m->call, 0, m->data, m->size);
}

/* It blocks its thread for a millisecond. */
static int
on_nap(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	struct timespec ms = {.tv_nsec = 1000000};

	nanosleep(&ms, NULL);
	return on_any(ctx, state, m);
}

static const struct evd_handler handlers[] = {
	{"nap", on_nap},
};

EVD_PLUGIN_EXPORT const struct evd_plugin eventd_plugin;
EVD_PLUGIN_EXPORT const struct evd_plugin eventd_plugin = {
	.abi = EVD_PLUGIN_ABI,
	.size = sizeof eventd_plugin,
	.name = "bench-echo",
	.handlers = handlers,
	.n_handlers = sizeof handlers / sizeof handlers[0],
	.fallback = on_any,
};

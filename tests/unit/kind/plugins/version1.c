/* A plugin whose one handler says which build it is; no state, no fallback. */
#include "eventd/plugin.h"

#ifndef VERSION
#define VERSION "1"
#endif

static int
on_version(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	(void)state;
	return evd_ctx_reply(ctx, m->call, 0, VERSION, sizeof(VERSION) - 1);
}

static int
on_echo(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	(void)state;
	return evd_ctx_post_alias(
		ctx, "probe", "echoed", "version " VERSION, 9);
	(void)m;
}

static const struct evd_handler handlers[] = {
	{"version", on_version},
	{"echo", on_echo},
};

EVD_PLUGIN_EXPORT extern const struct evd_plugin eventd_plugin;
const struct evd_plugin eventd_plugin = {
	.abi = EVD_PLUGIN_ABI,
	.size = sizeof(struct evd_plugin),
	.name = "version",
	.handlers = handlers,
	.n_handlers = 2,
};

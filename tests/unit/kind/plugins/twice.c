/* Its table of handlers is wrong. */
#include "eventd/plugin.h"

int on_x(struct evd_ctx *ctx, void *state, const struct evd_message *m);

int
on_x(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	(void)ctx, (void)state, (void)m;
	return 0;
}

static const struct evd_handler handlers[] = {{"x", on_x}, {"x", on_x}};

EVD_PLUGIN_EXPORT extern const struct evd_plugin eventd_plugin;
const struct evd_plugin eventd_plugin = {
	.abi = EVD_PLUGIN_ABI,
	.size = sizeof(struct evd_plugin),
	.name = "twice",
	.handlers = handlers,
	.n_handlers = sizeof handlers / sizeof handlers[0],
};

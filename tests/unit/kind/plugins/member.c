/* A plugin that consumes an alias beside others: `shared` or `fanout` says
 * which, with the alias as payload, when it starts or is asked. What comes it
 * tells to "probe". */
#include <eventd/plugin.h>
#include <stdio.h>
#include <string.h>

static int
answer(struct evd_ctx *ctx, const struct evd_message *m, int number)
{
	char text[32];
	int n = snprintf(text, sizeof(text), "%d", number);

	return evd_ctx_reply(ctx, m->call, 0, text, (size_t)n);
}

static int
on_shared(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	(void)state;
	return answer(ctx, m,
		evd_ctx_bind(
			ctx, m->data, EVD_BIND_AS_SHARED | EVD_BIND_WINDOW(2)));
}

static int
on_fanout(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	(void)state;
	return answer(ctx, m, evd_ctx_bind(ctx, m->data, EVD_BIND_AS_FANOUT));
}

static int
on_both(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	(void)state;
	return answer(ctx, m,
		evd_ctx_bind(
			ctx, m->data, EVD_BIND_AS_FANOUT | EVD_BIND_QUEUE));
}

static int
on_leave(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	(void)state;
	return answer(ctx, m, evd_ctx_unbind(ctx, m->data));
}

static int
on_work(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	char text[64];
	int n = snprintf(text, sizeof(text), "%s %d", (const char *)m->data,
		m->from != 0);

	(void)state;
	if (m->call)
		return evd_ctx_reply(ctx, m->call, 0, "plugin", 6);
	return evd_ctx_post_alias(ctx, "probe", "plugin", text, (size_t)n);
}

static const struct evd_handler handlers[] = {
	{"shared", on_shared},
	{"fanout", on_fanout},
	{"both", on_both},
	{"leave", on_leave},
	{"work", on_work},
};

EVD_PLUGIN_EXPORT extern const struct evd_plugin eventd_plugin;
const struct evd_plugin eventd_plugin = {
	.abi = EVD_PLUGIN_ABI,
	.size = sizeof(struct evd_plugin),
	.name = "member",
	.handlers = handlers,
	.n_handlers = sizeof handlers / sizeof handlers[0],
};

/* A plugin that watches, links and takes names; it posts what it learns to
 * "probe". */
#include <eventd/plugin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int
tell(struct evd_ctx *ctx, const char *event, const char *text)
{
	return evd_ctx_post_alias(ctx, "probe", event, text, strlen(text));
}

static int
answer(struct evd_ctx *ctx, const struct evd_message *m, int64_t number)
{
	char text[32];
	int n = snprintf(text, sizeof(text), "%lld", (long long)number);

	return evd_ctx_reply(ctx, m->call, 0, text, (size_t)n);
}

static int
on_watch(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	uint64_t number = 0;
	int r = evd_ctx_watch(ctx, m->data, 0, &number);

	(void)state;
	return answer(ctx, m, r ? r : (int64_t)number);
}

static int
on_unwatch(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	(void)state;
	return answer(
		ctx, m, evd_ctx_unwatch(ctx, strtoull(m->data, NULL, 10)));
}

static int
on_link(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	(void)state;
	return answer(ctx, m, evd_ctx_link(ctx, m->data, 0));
}

static int
on_unlink(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	(void)state;
	return answer(ctx, m, evd_ctx_unlink(ctx, strtoull(m->data, NULL, 10)));
}

static int
on_trap(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	(void)state;
	return answer(ctx, m, evd_ctx_trap(ctx, m->size != 0));
}

static int
on_bind(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	const char *text = m->data;
	unsigned flags = (unsigned)(text[0] - '0');

	(void)state;
	return answer(ctx, m, evd_ctx_bind(ctx, text + 1, flags));
}

static int
on_unbind(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	(void)state;
	return answer(ctx, m, evd_ctx_unbind(ctx, m->data));
}

static int
on_wait(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	(void)state;
	return answer(ctx, m, evd_ctx_wait(ctx, m->data, 1000, "found"));
}

static int
on_found(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	uint64_t holder = 0;
	char text[32];

	(void)state;
	if (!m->status)
		memcpy(&holder, m->data, sizeof(holder));
	snprintf(text, sizeof(text), "%d %d", m->status, holder != 0);
	return tell(ctx, "found", text);
}

static int
on_watch_names(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	uint64_t number = 0;
	int r = evd_ctx_watch_names(ctx, m->data, &number);

	(void)state;
	return answer(ctx, m, r ? r : (int64_t)number);
}

static int
on_notice(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	const struct evd_notice *n = m->data;
	char text[256];

	(void)state;
	if (m->size < sizeof(*n))
		return tell(ctx, "short", m->data);
	snprintf(text, sizeof(text), "%s %d %s %s|%s", m->event, n->up,
		n->alias, n->reason, n->text);
	return tell(ctx, "told", text);
}

static int
on_gap(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	const struct evd_notice *n = m->data;
	char text[64];

	(void)state;
	snprintf(text, sizeof(text), "%s %d %d", m->event, (int)n->lost,
		n->to > n->from);
	return tell(ctx, "told", text);
}

static const struct evd_handler handlers[] = {
	{"watch", on_watch},
	{"unwatch", on_unwatch},
	{"link", on_link},
	{"unlink", on_unlink},
	{"trap", on_trap},
	{"bind", on_bind},
	{"unbind", on_unbind},
	{"wait", on_wait},
	{"found", on_found},
	{"watch-names", on_watch_names},
	{"_down", on_notice},
	{"_name", on_notice},
	{"_alias", on_notice},
	{"_gap", on_gap},
};

EVD_PLUGIN_EXPORT extern const struct evd_plugin eventd_plugin;
const struct evd_plugin eventd_plugin = {
	.abi = EVD_PLUGIN_ABI,
	.size = sizeof(struct evd_plugin),
	.name = "names",
	.handlers = handlers,
	.n_handlers = sizeof handlers / sizeof handlers[0],
};

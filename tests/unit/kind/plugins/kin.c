/* A plugin that spawns itself and scripts; it posts what it learns of its
 * children to "probe". */
#include <errno.h>
#include <eventd/plugin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t last;

static int
answer(struct evd_ctx *ctx, const struct evd_message *m, int64_t number)
{
	char text[32];
	int n = snprintf(text, sizeof(text), "%lld", (long long)number);

	return evd_ctx_reply(ctx, m->call, 0, text, (size_t)n);
}

/* With an alias that is taken: it stands in line, or takes it over. */
static int
on_contend(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	struct evd_spawn_args args = {.alias = "contended",
		.names = m->size ? EVD_BIND_REPLACE | EVD_BIND_ALLOW_REPLACE
				 : EVD_BIND_QUEUE};

	(void)state;
	return answer(ctx, m, evd_ctx_spawn(ctx, &args, &last));
}

/* "ALIAS" or "ALIAS SCRIPT" */
static int
on_spawn(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	static const char *const params[] = {"n=5", "text=a=b"};
	struct evd_spawn_args args = {.params = params,
		.n_params = 2,
		.restart = EVD_RESTART_ON_FAILURE,
		.strategy = EVD_STRATEGY_ALL};
	char *copy = strdup(m->data), *space = strchr(copy, ' ');
	int r;

	(void)state;
	if (space)
		*space++ = 0;
	args.alias = copy;
	args.script = space;
	r = evd_ctx_spawn(ctx, &args, &last);
	free(copy);
	return answer(ctx, m, r);
}

static int
on_wrong(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	static const char *const params[] = {"no equal sign"};
	struct evd_spawn_args wrong[] = {
		{.script = "relative.lua"},
		{.plugin = "relative.so"},
		{.script = "/a.lua", .plugin = "/a.so"},
		{.alias = "no good"},
		{.loop = 7},
		{.restart = 9},
		{.names = 8},
		{.strategy = 9},
		{.params = params, .n_params = 1},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		if (evd_ctx_spawn(ctx, &wrong[i], NULL) != -EINVAL)
			return answer(ctx, m, (int64_t)i);
	return answer(ctx, m, -1);
}

static int
on_stop(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	(void)state;
	return answer(ctx, m, evd_ctx_stop_child(ctx, last));
}

/* How many there are, and whether the second is the last that it spawned. */
static int
on_children(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	uint64_t some[2] = {0};
	size_t n = evd_ctx_children(ctx, some, 2);

	(void)state;
	return answer(ctx, m, (int64_t)n * 10 + (n && some[1] == last));
}

static int
on_parent(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	(void)state;
	return answer(ctx, m, (int64_t)evd_ctx_parent(ctx));
}

static int
on_param(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	const char *value = evd_ctx_param(ctx, m->data);

	(void)state;
	return evd_ctx_reply(
		ctx, m->call, 0, value ? value : "", value ? strlen(value) : 0);
}

static int
on_attempt(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	uint32_t attempt = evd_ctx_attempt(ctx);

	(void)state;
	return attempt < 3 ? -EIO : answer(ctx, m, attempt);
}

static int
on_leave(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	(void)state;
	evd_ctx_exit(ctx, m->data);
	return 0;
}

static int
on_fail(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	(void)ctx, (void)state, (void)m;
	return -EIO;
}

static int
on_child(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	const struct evd_notice *n = m->data;
	char text[256];
	int size = snprintf(text, sizeof(text), "%s %s %s|%s", n->change,
		n->alias, n->reason, n->text);

	(void)state;
	return evd_ctx_post_alias(ctx, "probe", "told", text, (size_t)size);
}

static const struct evd_handler handlers[] = {
	{"spawn", on_spawn},
	{"contend", on_contend},
	{"wrong", on_wrong},
	{"stop", on_stop},
	{"parent", on_parent},
	{"children", on_children},
	{"param", on_param},
	{"attempt", on_attempt},
	{"exit", on_leave},
	{"fail", on_fail},
	{"_child", on_child},
};

EVD_PLUGIN_EXPORT extern const struct evd_plugin eventd_plugin;
const struct evd_plugin eventd_plugin = {
	.abi = EVD_PLUGIN_ABI,
	.size = sizeof(struct evd_plugin),
	.name = "kin",
	.handlers = handlers,
	.n_handlers = sizeof(handlers) / sizeof(handlers[0]),
};

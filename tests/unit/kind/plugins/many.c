/* A plugin that spawns as many of itself as it is asked for, each with an
 * alias, a few hundred a turn; and one that sets timers and cancels those of
 * others. */
#include <eventd/plugin.h>
#include <stdio.h>
#include <stdlib.h>

enum { PER_TURN = 500 };

static unsigned long n_made;
static unsigned long n_wanted;
static uint64_t caller;

static int
answer(struct evd_ctx *ctx, uint64_t call, long long number)
{
	char text[32];
	int n = snprintf(text, sizeof(text), "%lld", number);

	return evd_ctx_reply(ctx, call, 0, text, (size_t)n);
}

static int
spawn_one(struct evd_ctx *ctx, unsigned long number)
{
	char alias[32];
	struct evd_spawn_args args = {.alias = alias};
	uint64_t id;

	snprintf(alias, sizeof(alias), "many/%07lu", number);
	return evd_ctx_spawn(ctx, &args, &id);
}

static int
on_more(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	int r = 0;

	(void)state;
	(void)m;
	for (unsigned i = 0; !r && i < PER_TURN && n_made < n_wanted; i++) {
		r = spawn_one(ctx, n_made);
		n_made += !r;
	}
	if (r || n_made == n_wanted)
		return answer(ctx, caller, r ? r : (long long)n_made);
	return evd_ctx_post_id(ctx, evd_ctx_self(ctx), "more", "", 0);
}

/* So many; answered when they are there, or with why not */
static int
on_make(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	n_wanted = strtoul(m->data, NULL, 10);
	caller = evd_ctx_defer(ctx);
	return on_more(ctx, state, m);
}

static int
on_set(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	uint64_t timer = 0;
	int r = evd_ctx_delay(ctx, NULL, "rung", "", 0, 3600000, 0, &timer);

	(void)state;
	return answer(ctx, m->call, r ? r : (long long)timer);
}

static int
on_cancel(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	(void)state;
	return answer(
		ctx, m->call, evd_ctx_cancel(ctx, strtoull(m->data, NULL, 10)));
}

static int
on_adjust(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	struct evd_adjust_args args = {
		.size = sizeof(args), .due = 1, .delay_ms = 7200000};

	(void)state;
	return answer(ctx, m->call,
		evd_ctx_adjust(ctx, strtoull(m->data, NULL, 10), NULL, &args));
}

static const struct evd_handler handlers[] = {
	{"make", on_make},
	{"more", on_more},
	{"set", on_set},
	{"cancel", on_cancel},
	{"adjust", on_adjust},
};

EVD_PLUGIN_EXPORT extern const struct evd_plugin eventd_plugin;
const struct evd_plugin eventd_plugin = {
	.abi = EVD_PLUGIN_ABI,
	.size = sizeof(struct evd_plugin),
	.name = "many",
	.handlers = handlers,
	.n_handlers = sizeof(handlers) / sizeof(handlers[0]),
};

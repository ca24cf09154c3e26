/* Durable timers and durable state of a plugin, for tests/integration. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "eventd/plugin.h"

static int
reply(struct evd_ctx *ctx, const struct evd_message *m, const char *text)
{
	return evd_ctx_reply(ctx, m->call, 0, text, strlen(text));
}

/* Count the event in the state; "fail" then fails. */
static int
on_count(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	size_t size = 0;
	const void *data = evd_ctx_state_get(ctx, "n", &size);
	unsigned n = 0;
	int r;

	(void)state;
	if (data && size == sizeof(n))
		memcpy(&n, data, sizeof(n));
	n++;
	r = evd_ctx_state_set(ctx, "n", &n, sizeof(n));
	if (r)
		return r;
	return m->size == 4 && memcmp(m->data, "fail", 4) == 0 ? -EIO : 0;
}

static int
on_get(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	size_t size = 0;
	const void *data = evd_ctx_state_get(ctx, "n", &size);
	char text[32];
	unsigned n = 0;

	(void)state;
	if (data && size == sizeof(n))
		memcpy(&n, data, sizeof(n));
	snprintf(text, sizeof(text), "%u", n);
	return reply(ctx, m, text);
}

static int
on_set(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	struct evd_timer_args args = {
		.size = sizeof(args),
		.event = "count",
		.name = "later",
		.delay_ms = 3600000,
		.keep = EVD_KEEP_DURABLE,
		.reply_event = "was-set",
	};

	(void)state, (void)m;
	return evd_ctx_timer(ctx, &args, NULL);
}

/* Its id is found again by its name. */
static int
on_was_set(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	struct evd_timer_set set;
	struct evd_timer_info info = {.size = sizeof(info)};

	(void)state;
	if (m->size != sizeof(set))
		return -EINVAL;
	memcpy(&set, m->data, sizeof(set));
	if (evd_ctx_next_timer(ctx, 0, &info) || info.id != set.id ||
		!info.durable)
		return -EINVAL;
	return evd_ctx_state_set(ctx, "id", &set.id, sizeof(set.id));
}

/* "yes": the timer whose id is in the state is there. */
static int
on_check(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	struct evd_timer_info info = {.size = sizeof(info)};
	size_t size = 0;
	const void *id = evd_ctx_state_get(ctx, "id", &size);

	(void)state;
	if (!id || size != sizeof(info.id))
		return reply(ctx, m, "no id");
	if (evd_ctx_next_timer(ctx, 0, &info))
		return reply(ctx, m, "no timer");
	return reply(
		ctx, m, memcmp(id, &info.id, size) == 0 ? "yes" : "another");
}

static int
on_soon(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	struct evd_adjust_args args = {
		.size = sizeof(args), .due = 1, .delay_ms = 1};

	(void)state, (void)m;
	return evd_ctx_adjust(ctx, 0, "later", &args);
}

static const struct evd_handler handlers[] = {
	{"count", on_count},
	{"get", on_get},
	{"set", on_set},
	{"was-set", on_was_set},
	{"check", on_check},
	{"soon", on_soon},
};

EVD_PLUGIN_EXPORT extern const struct evd_plugin eventd_plugin;
const struct evd_plugin eventd_plugin = {
	.abi = EVD_PLUGIN_ABI,
	.size = sizeof(struct evd_plugin),
	.name = "durable",
	.handlers = handlers,
	.n_handlers = sizeof(handlers) / sizeof(handlers[0]),
};

/* A plugin that does everything the API offers, on request. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "eventd/plugin.h"

struct state {
	struct evd_target *target;
	uint32_t echo; /* handler reference */
	uint64_t deferred, timer;
	unsigned n;
};

static int stops; /* of all sessions of this image */

static int
answer(struct evd_ctx *ctx, const struct evd_message *m, const char *text)
{
	return evd_ctx_reply(ctx, m->call, 0, text, strlen(text));
}

static int
answer_number(struct evd_ctx *ctx, const struct evd_message *m, long number)
{
	char text[32];

	snprintf(text, sizeof text, "%ld", number);
	return answer(ctx, m, text);
}

static int
on_echo(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	struct state *s = state;

	s->n++;
	return evd_ctx_reply(ctx, m->call, 0, m->data, m->size);
}

static int
on_count(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	return answer_number(ctx, m, ((struct state *)state)->n);
}

static int
on_silent(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	(void)ctx, (void)state, (void)m;
	return 0;
}

/* Payload: the alias; later posts go to it by reference. */
static int
on_resolve(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	struct state *s = state;

	evd_ctx_release(ctx, s->target);
	s->target = evd_ctx_resolve(ctx, m->data);
	s->echo = s->target ? evd_ctx_handler(ctx, s->target, "echo") : 0;
	return answer_number(ctx, m, s->echo != 0);
}

static int
on_post(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	struct state *s = state;

	return answer_number(ctx, m,
		evd_ctx_post(ctx, s->target, s->echo, m->data, m->size));
}

/* Payload: the event's name, to the sender. */
static int
on_post_id(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	(void)state;
	return answer_number(
		ctx, m, evd_ctx_post_id(ctx, m->from, m->data, "id", 2));
}

static int
on_post_alias(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	(void)state;
	return answer_number(
		ctx, m, evd_ctx_post_alias(ctx, m->data, "hello", "alias", 5));
}

static int
on_big(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	size_t size = 2 << 20;
	char *data = calloc(1, size);
	int r = data ? evd_ctx_post_alias(ctx, "probe", "big", data, size) : 0;

	(void)state;
	free(data);
	return answer_number(ctx, m, r);
}

/* Payload: the alias to call; the reply goes to probe. */
static int
on_call(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	(void)state;
	return answer_number(ctx, m,
		evd_ctx_call(ctx, m->data, "hold", "q", 1, 500, "answered"));
}

static int
on_answered(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	char text[256];

	(void)state;
	snprintf(text, sizeof text, "%d:%.*s", m->status, (int)m->size,
		(const char *)m->data);
	return evd_ctx_post_alias(ctx, "probe", "told", text, strlen(text));
}

static int
on_defer(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	struct state *s = state;

	(void)m;
	s->deferred = evd_ctx_defer(ctx);
	return 0;
}

static int
on_undefer(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	struct state *s = state;

	(void)m;
	return evd_ctx_reply(ctx, s->deferred, 1, "late", 4);
}

static int
on_delay(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	struct state *s = state;

	return answer_number(ctx, m,
		evd_ctx_delay(ctx, m->size ? m->data : NULL, "tick", "t", 1,
			100, 100, &s->timer));
}

/* What: "set", "cancel", "all", "later", "list", "calendar", "wrong". */
static int
on_timer(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	struct evd_timer_args args = {.size = sizeof args,
		.event = "tick",
		.data = "t",
		.data_size = 1,
		.name = "n",
		.delay_ms = 1000,
		.slack_ms = 1,
		.clock = EVD_CLOCK_BOOTTIME};
	struct evd_adjust_args change = {
		.size = sizeof change, .due = 1, .delay_ms = 5000};
	struct evd_timer_info info = {.size = sizeof info};
	const char *what = m->data;
	char text[256];
	int r;

	(void)state;
	if (strcmp(what, "cancel") == 0)
		return answer_number(ctx, m, evd_ctx_cancel_name(ctx, "n"));
	if (strcmp(what, "all") == 0)
		return answer_number(ctx, m, (int)evd_ctx_cancel_all(ctx));
	if (strcmp(what, "later") == 0)
		return answer_number(
			ctx, m, evd_ctx_adjust(ctx, 0, "n", &change));
	if (strcmp(what, "list") == 0) {
		r = evd_ctx_next_timer(ctx, 0, &info);
		if (r)
			return answer_number(ctx, m, r);
		snprintf(text, sizeof text, "%s %s %d %s %d", info.name,
			info.event, (int)info.clock,
			info.calendar ? info.calendar : "-",
			evd_ctx_next_timer(ctx, info.id, &info));
		return answer(ctx, m, text);
	}
	if (strcmp(what, "set") != 0) {
		args.calendar = strcmp(what, "calendar") ? "99:00" : "*:*:0/7";
		args.delay_ms = 0;
		args.clock = EVD_CLOCK_WALL;
	}
	return answer_number(ctx, m, evd_ctx_timer(ctx, &args, NULL));
}

static int
on_tick(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	(void)state;
	return evd_ctx_post_alias(ctx, "probe", "tock", m->data, m->size);
}

static int
on_cancel(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	return answer_number(
		ctx, m, evd_ctx_cancel(ctx, ((struct state *)state)->timer));
}

static int
on_self(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	const char *color = evd_ctx_param(ctx, "color");
	char text[256];

	(void)state;
	evd_ctx_log(ctx, 7, "self");
	snprintf(text, sizeof text, "%s %s %s %d", evd_ctx_alias(ctx),
		color ? color : "-", m->event, evd_ctx_self(ctx) != 0);
	return answer(ctx, m, text);
}

static int
on_fail(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	(void)ctx, (void)state, (void)m;
	return -EIO;
}

static int
on_stops(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	(void)state;
	return answer_number(ctx, m, stops);
}

static int
fallback(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	char text[160];

	(void)state;
	snprintf(text, sizeof text, "fallback %s", m->event);
	return answer(ctx, m, text);
}

static int
start(struct evd_ctx *ctx, void **state)
{
	const char *fail = evd_ctx_param(ctx, "fail");

	if (fail)
		return -(int)strtol(fail, NULL, 10);
	*state = calloc(1, sizeof(struct state));
	return *state ? 0 : -ENOMEM;
}

static void
stop(struct evd_ctx *ctx, void *state)
{
	stops++;
	evd_ctx_post_alias(ctx, "probe", "stopped", "", 0);
	free(state);
}

static const struct evd_handler handlers[] = {
	{"echo", on_echo},
	{"count", on_count},
	{"silent", on_silent},
	{"resolve", on_resolve},
	{"post", on_post},
	{"post-id", on_post_id},
	{"post-alias", on_post_alias},
	{"big", on_big},
	{"call", on_call},
	{"answered", on_answered},
	{"defer", on_defer},
	{"undefer", on_undefer},
	{"delay", on_delay},
	{"tick", on_tick},
	{"cancel", on_cancel},
	{"timer", on_timer},
	{"self", on_self},
	{"fail", on_fail},
	{"stops", on_stops},
};

EVD_PLUGIN_EXPORT extern const struct evd_plugin eventd_plugin;
const struct evd_plugin eventd_plugin = {
	.abi = EVD_PLUGIN_ABI,
	.size = sizeof(struct evd_plugin),
	.name = "good",
	.handlers = handlers,
	.n_handlers = sizeof handlers / sizeof handlers[0],
	.fallback = fallback,
	.start = start,
	.stop = stop,
};

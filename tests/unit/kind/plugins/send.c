/* A plugin that sends and receives beside the plain way, on request. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "eventd/plugin.h"

struct state {
	uint64_t call, deferred;
	char log[512];
};

static void
note(struct state *s, const char *text)
{
	size_t n = strlen(s->log);

	snprintf(s->log + n, sizeof s->log - n, "%s ", text);
}

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
on_log(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	struct state *s = state;
	int r = answer(ctx, m, s->log);

	s->log[0] = '\0';
	return r;
}

/* An event with a header, twice by its key, and an urgent one. */
static int
on_send(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	const struct evd_ctx_header header = {"color", "red", 3};
	struct evd_send_args args = {
		.size = sizeof args,
		.session = evd_ctx_self(ctx),
		.event = "noted",
		.data = "a",
		.data_size = 1,
		.headers = &header,
		.n_headers = 1,
		.key = "once",
	};
	int r = evd_ctx_yield(ctx, "noted", "y", 1);

	(void)state;
	r = r ? r : evd_ctx_send(ctx, &args);
	r = r ? r : evd_ctx_send(ctx, &args);
	args.key = NULL;
	args.headers = NULL;
	args.n_headers = 0;
	args.urgent = 1;
	args.ttl_ms = 1000;
	args.data = "u";
	r = r ? r : evd_ctx_send(ctx, &args);
	return answer_number(ctx, m, r);
}

static int
on_noted(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	char text[64];
	size_t size;
	const void *color = evd_ctx_header(ctx, "color", &size);

	snprintf(text, sizeof text, "%s%s%.*s", m->urgent ? "!" : "",
		(const char *)m->data, (int)size,
		color ? (const char *)color : "");
	note(state, text);
	return 0;
}

static int
on_wrong(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	const struct evd_ctx_header bad = {"a b", "", 0};
	struct evd_send_args args = {
		.size = sizeof args, .alias = "probe", .event = "e", .key = ""};
	long sum = evd_ctx_send(ctx, &args) == -EINVAL;

	(void)state;
	args.key = NULL;
	args.headers = &bad;
	args.n_headers = 1;
	sum += evd_ctx_send(ctx, &args) == -EINVAL;
	args.n_headers = 0;
	args.alias = "nobody";
	sum += evd_ctx_send(ctx, &args) == -ENOENT;
	args.size = 8;
	sum += evd_ctx_send(ctx, &args) == -EINVAL;
	sum += evd_ctx_cancel_call(ctx, 77) == -ESRCH;
	sum += evd_ctx_forward(ctx, &args) == -EINVAL;
	return answer_number(ctx, m, sum);
}

/* Ask the alias in the payload to hold, for a minute. */
static int
on_ask(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	struct state *s = state;
	struct evd_send_args args = {
		.size = sizeof args,
		.alias = m->data,
		.event = "hold",
		.timeout_ms = 60000,
		.reply_event = "got",
	};

	if (m->call)
		s->deferred = evd_ctx_defer(ctx);
	return evd_ctx_ask(ctx, &args, &s->call);
}

/* "got" tells when it was handled. */
static int
on_post_level(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	struct state *s = state;
	struct evd_send_args args = {
		.size = sizeof args,
		.alias = m->data,
		.event = "posted",
		.level = EVD_HANDLED,
		.reply_event = "got",
	};

	return evd_ctx_post_level(ctx, &args, &s->call);
}

static int
on_got(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	struct state *s = state;
	char text[64];

	(void)ctx;
	snprintf(text, sizeof text, "%s%d%s", m->re == s->call ? "got" : "?",
		m->status, m->status ? "" : (const char *)m->data);
	note(s, text);
	return 0;
}

static int
on_cancel(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	return answer_number(ctx, m,
		evd_ctx_cancel_call(ctx, ((struct state *)state)->call));
}

static int
on_hold(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	struct state *s = state;

	note(s, m->left_ns > 0 ? "held" : "forever");
	s->deferred = evd_ctx_defer(ctx);
	return 0;
}

static int
on_cancelled(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	struct state *s = state;

	(void)ctx;
	note(s, m->re == s->deferred ? "cancelled" : "cancelled?");
	return 0;
}

static int
on_forward(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	struct evd_send_args args = {.size = sizeof args, .alias = "probe"};

	(void)state;
	if (m->size > 0)
		args.event = "echo";
	return evd_ctx_forward(ctx, &args);
}

static int
on_forward_deferred(
	struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	struct evd_send_args args = {
		.size = sizeof args,
		.alias = "probe",
		.event = "echo",
		.data = "late",
		.data_size = 4,
		.call = ((struct state *)state)->deferred,
	};
	int r = evd_ctx_forward(ctx, &args);

	r = r ? r : evd_ctx_forward(ctx, &args) == -ESRCH ? 0 : -EFAULT;
	return answer_number(ctx, m, r);
}

/* Payload: how many are enough, and who is asked third. */
static int
on_gather(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	const char *text = m->data;
	const char *const aliases[] = {"probe", "nobody", text + 1};
	struct evd_send_args args = {
		.size = sizeof args,
		.aliases = aliases,
		.n_aliases = 3,
		.n_wanted = (size_t)(text[0] - '0'),
		.event = "echo",
		.data = "hi",
		.data_size = 2,
		.timeout_ms = 1000,
		.reply_event = "gathered",
	};
	char line[32];

	snprintf(line, sizeof line, "%d", evd_ctx_gather(ctx, &args));
	note(state, line);
	return 0;
}

static int
on_gathered(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	struct evd_ctx_answer a;
	char text[128];

	snprintf(text, sizeof text, "status%d", m->status);
	note(state, text);
	for (size_t i = 0; evd_ctx_answer(ctx, i, &a) == 0; i++) {
		snprintf(text, sizeof text, "%s=%d%s", a.alias, a.status,
			a.status ? "" : (const char *)a.data);
		note(state, text);
	}
	return 0;
}

/* ---- a state machine --------------------------------------------------- */

static const struct evd_handler closed[];

static int
on_open(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	(void)m;
	note(state, "open");
	evd_ctx_become(ctx, NULL, 0);
	return evd_ctx_unstash(ctx) == 2 ? 0 : -EFAULT;
}

static int
on_use_closed(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	(void)m;
	note(state, "not-yet");
	return evd_ctx_stash(ctx);
}

static const struct evd_handler closed[] = {
	{"open", on_open},
	{"use", on_use_closed},
};

static int
on_close(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	(void)state, (void)m;
	evd_ctx_become(ctx, closed, 2);
	return 0;
}

static int
on_use(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	char text[64];

	(void)ctx;
	snprintf(text, sizeof text, "use%s", (const char *)m->data);
	note(state, text);
	return 0;
}

static const struct evd_handler handlers[] = {
	{"log", on_log},
	{"send", on_send},
	{"noted", on_noted},
	{"wrong", on_wrong},
	{"ask", on_ask},
	{"post-level", on_post_level},
	{"got", on_got},
	{"cancel", on_cancel},
	{"hold", on_hold},
	{"_cancelled", on_cancelled},
	{"echo", on_forward},
	{"forward", on_forward},
	{"forward-deferred", on_forward_deferred},
	{"gather", on_gather},
	{"gathered", on_gathered},
	{"close", on_close},
	{"use", on_use},
};

static int
start(struct evd_ctx *ctx, void **state)
{
	(void)ctx;
	*state = calloc(1, sizeof(struct state));
	return *state ? 0 : -ENOMEM;
}

static void
stop(struct evd_ctx *ctx, void *state)
{
	(void)ctx;
	free(state);
}

EVD_PLUGIN_EXPORT extern const struct evd_plugin eventd_plugin;
const struct evd_plugin eventd_plugin = {
	.abi = EVD_PLUGIN_ABI,
	.size = sizeof(struct evd_plugin),
	.name = "send",
	.handlers = handlers,
	.n_handlers = sizeof handlers / sizeof handlers[0],
	.start = start,
	.stop = stop,
};

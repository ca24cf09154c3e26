/* A plugin whose handlers wait, and note in what order things happened. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "eventd/plugin_wait.h"
#include "eventd/status.h"

struct state {
	char log[1024];
	int started;
};

/* Of a handler that is left where it is: nobody frees its state. */
static struct state *volatile left;

static void
note(struct state *s, const char *text)
{
	size_t n = strlen(s->log);

	snprintf(s->log + n, sizeof s->log - n, "%s ", text);
}

static void
note_errno(struct state *s, const char *text, int r)
{
	char line[128];

	snprintf(line, sizeof line, "%s=%s", text,
		r ? strerrorname_np(r < 0 ? -r : r) : "0");
	note(s, line);
}

static int
answer(struct evd_ctx *ctx, const struct evd_message *m, const char *text)
{
	return evd_ctx_reply(ctx, m->call, 0, text, strlen(text));
}

static int
on_log(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	struct state *s = state;
	int r = answer(ctx, m, s->log);

	s->log[0] = '\0';
	return r;
}

static int
on_note(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	(void)ctx;
	note(state, m->data);
	return 0;
}

/* Sleep so many milliseconds, and answer with the payload. */
static int
on_sleep(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	int r = evd_sleep(ctx, strtoul(m->data, NULL, 10));

	note_errno(state, "sleep", r);
	return r ? 0 : answer(ctx, m, m->data);
}

/* Twice, to see what a second wait says. */
static int
on_sleep_twice(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	note_errno(state, "first", evd_sleep(ctx, 1000));
	note_errno(state, "second", evd_sleep(ctx, 1000));
	return answer(ctx, m, "slept");
}

static int
on_ask(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	struct evd_send_args args = {
		.size = sizeof args,
		.alias = "probe",
		.event = "hold",
		.data = m->data,
		.data_size = m->size,
		.timeout_ms = 500,
	};
	struct evd_message reply = {.data = ""};
	char text[256];
	int r = evd_await_call(ctx, &args, &reply);

	note_errno(state, "asked", r);
	snprintf(text, sizeof text, "%s:%s", (const char *)m->data,
		(const char *)reply.data);
	return answer(ctx, m, text);
}

static int
on_ask_nobody(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	struct evd_send_args args = {
		.size = sizeof args, .alias = "nobody", .event = "hello"};
	struct evd_message reply;

	note_errno(state, "nobody", evd_await_call(ctx, &args, &reply));
	args.alias = "wait";
	note_errno(state, "self", evd_await_call(ctx, &args, &reply));
	return answer(ctx, m, "");
}

/* Post with each level, and where that cannot be. */
static int
on_levels(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	struct evd_send_args args = {
		.size = sizeof args,
		.alias = "probe",
		.event = "posted",
		.level = EVD_ACCEPTED,
		.timeout_ms = 500,
	};
	uint64_t id = 0;

	note_errno(state, "accepted", evd_await_post(ctx, &args));
	args.level = EVD_DURABLE;
	note_errno(state, "durable", evd_await_post(ctx, &args));
	args.level = EVD_HANDLED;
	note_errno(state, "handled", evd_await_post(ctx, &args));
	args.durable = 1;
	note_errno(state, "kept", evd_await_post(ctx, &args));
	args.durable = 0;
	args.trace = &id;
	note_errno(state, "traced", evd_await_post(ctx, &args));
	note_errno(state, id ? "told" : "not", 0);
	args.trace = NULL;
	args.level = EVD_HANDLED + 1;
	note_errno(state, "wrong", evd_await_post(ctx, &args));
	args.level = EVD_DELIVERED;
	args.alias = "wait";
	note_errno(state, "self", evd_await_post(ctx, &args));
	args.alias = "none";
	note_errno(state, "nobody", evd_await_post(ctx, &args));
	args.alias = "busy";
	note_errno(state, "delivered", evd_await_post(ctx, &args));
	return answer(ctx, m, "");
}

/* Wait for the event `go`, or what the payload names. */
static int
on_await(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	struct evd_await_args args = {
		.size = sizeof args,
		.event = m->size ? m->data : "go",
		.timeout_ms = 200,
	};
	struct evd_message event;
	int r;

	for (int i = 0; i < 2; i++) {
		r = evd_await_event(ctx, &args, &event);
		note_errno(state, "awaited", r);
		if (r)
			return 0;
		note(state, event.data);
		if (event.call)
			evd_ctx_reply(ctx, event.call, 0, "took it", 7);
	}
	return 0;
}

static int
is_long(const struct evd_message *m, void *data)
{
	return m->size > *(size_t *)data;
}

static int
on_await_long(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	size_t least = 3;
	struct evd_await_args args = {
		.size = sizeof args,
		.matches = is_long,
		.data = &least,
		.timeout_ms = UINT64_MAX,
	};
	struct evd_message event;

	(void)m;
	note_errno(state, "long", evd_await_event(ctx, &args, &event));
	note(state, event.data);
	return -EIO; /* the one that was awaited is lost, too */
}

/* A call whose answer comes as an event, then one that is waited for. */
static int
on_late(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	evd_ctx_call(ctx, "probe", "echo", "late", 4, 0, "late_answer");
	note_errno(state, "sleep", evd_sleep(ctx, 50));
	return answer(ctx, m, "");
}

static int
on_late_answer(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	note(state, m->data);
	note_errno(state, "then", evd_sleep(ctx, 10));
	note_errno(state, m->re ? "re" : "none", m->status);
	return 0;
}

static int
on_gather(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	static const char *const aliases[] = {"probe"};
	struct evd_send_args args = {
		.size = sizeof args,
		.event = "echo",
		.data = "g",
		.data_size = 1,
		.reply_event = "gathered",
		.aliases = aliases,
		.n_aliases = 1,
	};
	int r = evd_ctx_gather(ctx, &args);

	note_errno(state, "sleep", evd_sleep(ctx, 50));
	return r ? r : answer(ctx, m, "");
}

static int
on_gathered(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	struct evd_ctx_answer a;
	char text[64];

	(void)m;
	note_errno(state, "waits", evd_sleep(ctx, 1));
	snprintf(text, sizeof text, "gathered:%s",
		evd_ctx_answer(ctx, 0, &a) ? "none" : (const char *)a.data);
	note(state, text);
	note_errno(state, "stash", evd_ctx_stash(ctx));
	return 0;
}

/* The payload is the event to ask with and how many are to answer. */
static int
on_await_gather(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	static const char *const aliases[] = {"probe", "nobody", "probe"};
	char event[32];
	int n = 0;
	struct evd_send_args args = {
		.size = sizeof args,
		.event = event,
		.data = "g",
		.data_size = 1,
		.aliases = aliases,
		.n_aliases = 3,
		.timeout_ms = 100,
	};
	struct evd_ctx_answer a;

	if (sscanf(m->data, "%31s %d", event, &n) != 2)
		return -EINVAL;
	args.n_wanted = (size_t)n;
	note_errno(state, "gather", evd_await_gather(ctx, &args));
	for (size_t i = 0; !evd_ctx_answer(ctx, i, &a); i++)
		note(state, a.status == EVD_STATUS_NO_ALIAS    ? "no-alias"
			    : a.status == EVD_STATUS_CANCELLED ? "cancelled"
			    : a.status == EVD_STATUS_TIMEOUT   ? "timeout"
			    : a.status                         ? "?"
							       : a.data);
	note_errno(state, "again", evd_await_gather(ctx, &args));
	return answer(ctx, m, "");
}

static int
on_look(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	struct evd_queue_args args = {
		.size = sizeof args, .reply_event = "looked", .bytes = 100};

	(void)m;
	note_errno(state, "look", evd_ctx_queue_peek(ctx, &args));
	return 0;
}

static int
on_looked(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	struct evd_queued q = {.size = sizeof q};

	note_errno(state, "looked", m->status);
	note_errno(state, "first", evd_ctx_next_queued(ctx, &q));
	note(state, q.data ? q.data : "none");
	note_errno(state, "waits", evd_sleep(ctx, 10));
	note_errno(state, "second", evd_ctx_next_queued(ctx, &q));
	note(state, q.data ? q.data : "none");
	return 0;
}

static int
on_stash(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	(void)m;
	if (evd_ctx_attempt(ctx) && !((struct state *)state)->started++) {
		evd_ctx_stash(ctx);
		note_errno(state, "stashing", evd_sleep(ctx, 10));
		return 0;
	}
	note(state, "again");
	return 0;
}

static int
on_unstash(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	(void)state, (void)m;
	return evd_ctx_unstash(ctx) < 0;
}

static int
on_crash(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	(void)state, (void)m;
	evd_sleep(ctx, 10);
	return -EBADMSG;
}

/* It will not listen. */
static int
on_stubborn(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	(void)m;
	left = state;
	for (int i = 0; i >= 0;)
		evd_sleep(ctx, 10);
	return 0;
}

static int
dive(volatile char *above, int n)
{
	volatile char here[200];

	here[0] = (char)n;
	here[199] = above ? above[0] : 0;
	return n > 1000000 ? 0 : dive(here, n + 1) + here[0] + here[199];
}

static int
on_overflow(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	(void)state;
	if (m->size)
		evd_sleep(ctx, 10);
	return dive(NULL, 0);
}

static int
on_plain(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	note_errno(state, "plain", evd_sleep(ctx, 10));
	return answer(ctx, m, "");
}

static const struct evd_handler handlers[] = {
	{"log", on_log},
	{"note", on_note},
	{"sleep", on_sleep},
	{"sleep_twice", on_sleep_twice},
	{"ask", on_ask},
	{"ask_nobody", on_ask_nobody},
	{"levels", on_levels},
	{"await", on_await},
	{"await_long", on_await_long},
	{"late", on_late},
	{"late_answer", on_late_answer},
	{"gather", on_gather},
	{"gathered", on_gathered},
	{"await_gather", on_await_gather},
	{"look", on_look},
	{"looked", on_looked},
	{"stash", on_stash},
	{"unstash", on_unstash},
	{"crash", on_crash},
	{"stubborn", on_stubborn},
	{"overflow", on_overflow},
	{"plain", on_plain},
};

static int
start(struct evd_ctx *ctx, void **state)
{
	struct state *s = calloc(1, sizeof *s);
	const char *pause = evd_ctx_param(ctx, "pause");

	if (!s)
		return -ENOMEM;
	*state = s;
	if (pause)
		note_errno(
			s, "start", evd_sleep(ctx, strtoul(pause, NULL, 10)));
	if (evd_ctx_param(ctx, "fail")) {
		free(s);
		return -EBADMSG;
	}
	return 0;
}

/* What the test is told of the end, it reads from the probe. */
static void
stop(struct evd_ctx *ctx, void *state)
{
	struct state *s = state;

	note_errno(s, "stop", evd_sleep(ctx, 1));
	evd_ctx_post_alias(ctx, "probe", "end", s->log, strlen(s->log));
	free(s);
}

#ifdef WAITING
static const evd_handler_fn waiting[] = {on_sleep, on_ask};
#endif

EVD_PLUGIN_EXPORT extern const struct evd_plugin eventd_plugin;
const struct evd_plugin eventd_plugin = {
	.abi = EVD_PLUGIN_ABI,
	.size = sizeof(struct evd_plugin),
	.name = "wait",
	.handlers = handlers,
	.n_handlers = sizeof handlers / sizeof handlers[0],
	.start = start,
	.stop = stop,
#ifdef WAITING
	.waiting = waiting,
	.n_waiting = sizeof waiting / sizeof waiting[0],
#else
	.flags = EVD_PLUGIN_WAITS,
#endif
};

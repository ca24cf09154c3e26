/* A plugin that manages a mailbox, letters or profile, its own or that of the
 * alias in the payload's rest, as the payload's first word says, and posts what
 * it learns to `probe`. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "eventd/plugin.h"

static int
tell(struct evd_ctx *ctx, const char *text)
{
	return evd_ctx_post_alias(ctx, "probe", "told", text, strlen(text));
}

static int
answer_number(struct evd_ctx *ctx, const struct evd_message *m, long number)
{
	char text[32];

	snprintf(text, sizeof text, "%ld", number);
	return evd_ctx_reply(ctx, m->call, 0, text, strlen(text));
}

static int
on_queue(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	const char *of = strchr(m->data, ' ');
	struct evd_queue_args args = {
		.size = sizeof args,
		.alias = of ? of + 1 : NULL,
		.reply_event = "managed",
		.limit = 2,
		.bytes = 8,
		.to = "probe",
	};
	int r = -EINVAL;

	(void)state;
	if (strncmp(m->data, "pause", 5) == 0)
		r = evd_ctx_queue_pause(ctx, &args);
	else if (strncmp(m->data, "resume", 6) == 0)
		r = evd_ctx_queue_resume(ctx, &args);
	else if (strncmp(m->data, "peek", 4) == 0)
		r = evd_ctx_queue_peek(ctx, &args);
	else if (strncmp(m->data, "purge", 5) == 0)
		r = evd_ctx_queue_purge(ctx, &args);
	else if (strncmp(m->data, "move", 4) == 0)
		r = evd_ctx_queue_move(ctx, &args);
	return answer_number(ctx, m, r);
}

/* `all` goes with what is asked. */
static int
on_dead(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	const char *word = m->data;
	uint64_t id = strtoull(word + 5, NULL, 10);
	struct evd_dead_args args = {
		.size = sizeof args,
		.reply_event = "managed",
		.ids = &id,
		.n_ids = id != 0,
		.bytes = 8,
		.all = word[4] == '+',
		.reason = "unhandled",
	};
	int r = -EINVAL;

	(void)state;
	if (strncmp(word, "list", 4) == 0)
		r = evd_ctx_dead_list(ctx, &args);
	else if (strncmp(word, "show", 4) == 0)
		r = evd_ctx_dead_show(ctx, &args);
	else if (strncmp(word, "post", 4) == 0)
		r = evd_ctx_dead_requeue(ctx, &args);
	else if (strncmp(word, "drop", 4) == 0)
		r = evd_ctx_dead_purge(ctx, &args);
	return answer_number(ctx, m, r);
}

static int
on_profile(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	(void)state;
	return answer_number(ctx, m, evd_ctx_profile(ctx, 0, 1, "managed"));
}

/* Every entry, whatever it is. */
static void
read_entries(struct evd_ctx *ctx, char *text, size_t size)
{
	struct evd_queued e = {.size = sizeof e};
	struct evd_letter l = {.size = sizeof l};
	struct evd_profile_row row = {.size = sizeof row};
	size_t n = strlen(text);

	while (evd_ctx_next_queued(ctx, &e) == 0)
		n += (size_t)snprintf(text + n, size - n, " %s=%s@%d", e.event,
			(const char *)e.data, (int)e.position);
	while (evd_ctx_next_letter(ctx, &l) == 0)
		n += (size_t)snprintf(text + n, size - n, " %s:%s=%s#%d",
			l.reason, l.event, (const char *)l.data, (int)l.id);
	while (evd_ctx_next_row(ctx, &row) == 0)
		n += (size_t)snprintf(text + n, size - n, " %s*%d", row.event,
			(int)row.calls);
}

static int
on_managed(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	struct evd_answer a = {.size = sizeof a};
	char text[512];
	int r = evd_ctx_managed(ctx, &a);

	(void)state;
	if (r)
		snprintf(text, sizeof text, "%d status %d", r, m->status);
	else
		snprintf(text, sizeof text, "n%d next%d left%d status%d on%d",
			(int)a.n, (int)a.next, (int)a.left, a.status, a.on);
	read_entries(ctx, text, sizeof text);
	return tell(ctx, text);
}

static int
on_wrong(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	struct evd_queue_args q = {.size = 1, .reply_event = "managed"};
	struct evd_dead_args d = {.size = 1, .reply_event = "managed"};
	long sum = evd_ctx_queue_pause(ctx, &q) == -EINVAL;

	(void)state;
	sum += evd_ctx_dead_list(ctx, &d) == -EINVAL;
	q.size = sizeof q;
	d.size = sizeof d;
	sum += evd_ctx_queue_move(ctx, &q) == -EINVAL; /* where to? */
	sum += evd_ctx_dead_show(ctx, &d) == -EINVAL;  /* which? */
	d.reason = "no";
	sum += evd_ctx_dead_list(ctx, &d) == -EINVAL;
	q.alias = "nobody";
	sum += evd_ctx_queue_pause(ctx, &q) == -ENOENT;
	q.alias = "probe";
	sum += evd_ctx_queue_pause(ctx, &q) == -EACCES;
	q.alias = NULL;
	q.event = "a b";
	sum += evd_ctx_queue_purge(ctx, &q) == -EINVAL;
	q.reply_event = NULL;
	sum += evd_ctx_queue_pause(ctx, &q) == -EINVAL;
	return answer_number(ctx, m, sum);
}

static int
on_note(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	(void)ctx, (void)state, (void)m;
	return 0;
}

static const struct evd_handler handlers[] = {
	{"queue", on_queue},
	{"dead", on_dead},
	{"profile", on_profile},
	{"managed", on_managed},
	{"wrong", on_wrong},
	{"note", on_note},
};

EVD_PLUGIN_EXPORT extern const struct evd_plugin eventd_plugin;
const struct evd_plugin eventd_plugin = {
	.abi = EVD_PLUGIN_ABI,
	.size = sizeof(struct evd_plugin),
	.name = "manage",
	.handlers = handlers,
	.n_handlers = sizeof handlers / sizeof handlers[0],
};

/* Ping and pong: the experiment of 2000, what one event costs between two
 * sessions of one process. Both sessions are of this plugin, each with the
 * other's alias in its [Params] as peer=.
 *
 *	eventctl call ping run 1000000          by references
 *	eventctl call ping run-by-id 1000000
 *	eventctl call ping run-by-alias 1000000
 *
 * The reply says how many nanoseconds an event took. Build it like this:
 *
 *	cc -shared -fPIC -O2 -o pingpong.so pingpong.c */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "eventd/plugin.h"
#include "eventd/status.h"

enum mode { BY_REFERENCE, BY_ID, BY_ALIAS };

struct player {
	const char *peer;          /* alias */
	struct evd_target *target; /* the same, resolved */
	uint32_t ping, pong;       /* its handlers */
	uint64_t call;             /* the run to be answered; 0: none */
	uint64_t rounds, left;
	uint64_t started_ns;
};

static uint64_t
now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- the end of a run -------------------------------------------------- */

static int
answer(struct evd_ctx *ctx, uint64_t call, int status, const char *text)
{
	return evd_ctx_reply(ctx, call, status, text, strlen(text));
}

static int
finish(struct evd_ctx *ctx, struct player *p)
{
	double ns = (double)(now_ns() - p->started_ns);
	uint64_t call = p->call;
	char text[128];

	snprintf(text, sizeof text, "%" PRIu64 " events, %.1f ns each",
		2 * p->rounds, ns / (double)(2 * p->rounds));
	p->call = 0;
	return answer(ctx, call, 0, text);
}

/* A post was refused: the caller is told, this session goes on. */
static int
give_up(struct evd_ctx *ctx, struct player *p, int r)
{
	uint64_t call = p->call;
	char text[128];

	snprintf(text, sizeof text, "the peer cannot be reached: %s",
		strerror(-r));
	p->call = 0;
	return answer(ctx, call, EVD_STATUS_HANDLER, text);
}

/* ---- playing ----------------------------------------------------------- */

static int
serve(struct evd_ctx *ctx, struct player *p, enum mode mode, uint64_t id)
{
	switch (mode) {
	case BY_REFERENCE:
		return evd_ctx_post(ctx, p->target, p->ping, NULL, 0);
	case BY_ID:
		return evd_ctx_post_id(ctx, id, "ping-by-id", NULL, 0);
	case BY_ALIAS:
		return evd_ctx_post_alias(
			ctx, p->peer, "ping-by-alias", NULL, 0);
	}
	return -EINVAL;
}

/* A pong came back. */
static int
next_round(struct evd_ctx *ctx, struct player *p, enum mode mode, uint64_t id)
{
	int r;

	if (!p->call)
		return 0; /* of a run that was given up */
	if (--p->left == 0)
		return finish(ctx, p);
	r = serve(ctx, p, mode, id);
	return r ? give_up(ctx, p, r) : 0;
}

static int
on_ping(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	struct player *p = state;

	(void)m;
	evd_ctx_post(ctx, p->target, p->pong, NULL, 0);
	return 0;
}

static int
on_pong(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	return next_round(ctx, state, BY_REFERENCE, m->from);
}

static int
on_ping_by_id(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	(void)state;
	evd_ctx_post_id(ctx, m->from, "pong-by-id", NULL, 0);
	return 0;
}

static int
on_pong_by_id(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	return next_round(ctx, state, BY_ID, m->from);
}

static int
on_ping_by_alias(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	struct player *p = state;

	(void)m;
	evd_ctx_post_alias(ctx, p->peer, "pong-by-alias", NULL, 0);
	return 0;
}

static int
on_pong_by_alias(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	return next_round(ctx, state, BY_ALIAS, m->from);
}

/* ---- starting a run ---------------------------------------------------- */

static int
begin(struct evd_ctx *ctx, struct player *p, const struct evd_message *m,
	enum mode mode)
{
	char *end;
	unsigned long long rounds = strtoull(m->data, &end, 10);
	int r;

	if (*end || rounds < 1 || rounds > 1000000000)
		return answer(ctx, m->call, EVD_STATUS_INVALID,
			"how many rounds? 1 to 1000000000");
	if (p->call)
		return answer(
			ctx, m->call, EVD_STATUS_HANDLER, "a run is under way");
	p->call = evd_ctx_defer(ctx);
	if (!p->call)
		return 0; /* nobody wants to know: it was a post */
	p->rounds = p->left = rounds;
	p->started_ns = now_ns();
	/* Its id is not known yet: the first ping goes by alias. */
	r = mode == BY_ID
		    ? evd_ctx_post_alias(ctx, p->peer, "ping-by-id", NULL, 0)
		    : serve(ctx, p, mode, 0);
	return r ? give_up(ctx, p, r) : 0;
}

static int
on_run(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	return begin(ctx, state, m, BY_REFERENCE);
}

static int
on_run_by_id(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	return begin(ctx, state, m, BY_ID);
}

static int
on_run_by_alias(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	return begin(ctx, state, m, BY_ALIAS);
}

/* ---- the session ------------------------------------------------------- */

static int
start(struct evd_ctx *ctx, void **state)
{
	const char *peer = evd_ctx_param(ctx, "peer");
	struct player *p;

	if (!peer) {
		evd_ctx_log(ctx, 3, "[Params] needs peer=");
		return -EINVAL;
	}
	p = calloc(1, sizeof *p);
	if (!p)
		return -ENOMEM;
	p->peer = peer;
	p->target = evd_ctx_resolve(ctx, peer);
	if (p->target) {
		p->ping = evd_ctx_handler(ctx, p->target, "ping");
		p->pong = evd_ctx_handler(ctx, p->target, "pong");
	}
	if (!p->ping || !p->pong) {
		free(p);
		return -EINVAL;
	}
	*state = p;
	return 0;
}

static void
stop(struct evd_ctx *ctx, void *state)
{
	(void)ctx;
	free(state);
}

static const struct evd_handler handlers[] = {
	{"ping", on_ping},
	{"pong", on_pong},
	{"ping-by-id", on_ping_by_id},
	{"pong-by-id", on_pong_by_id},
	{"ping-by-alias", on_ping_by_alias},
	{"pong-by-alias", on_pong_by_alias},
	{"run", on_run},
	{"run-by-id", on_run_by_id},
	{"run-by-alias", on_run_by_alias},
};

EVD_PLUGIN_EXPORT extern const struct evd_plugin eventd_plugin;
const struct evd_plugin eventd_plugin = {
	.abi = EVD_PLUGIN_ABI,
	.size = sizeof(struct evd_plugin),
	.name = "pingpong",
	.handlers = handlers,
	.n_handlers = sizeof handlers / sizeof handlers[0],
	.start = start,
	.stop = stop,
};

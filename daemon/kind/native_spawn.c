/* Native sessions that make, leave and end sessions. The home's thread. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/kin.h"
#include "kernel/sched.h"
#include "kind/kind.h"
#include "kind/native_wait.h"
#include "proto/envelope.h"
#include "proto/status.h"

static struct session *
session_of(struct evd_ctx *ctx)
{
	return ((struct native *)ctx)->session;
}

/* ---- what is wanted ------------------------------------------------------ */

static bool
args_are_sane(const struct evd_spawn_args *args, unsigned n_scheds)
{
	if (args->plugin && args->script)
		return false;
	if ((args->plugin && args->plugin[0] != '/') ||
		(args->script && args->script[0] != '/'))
		return false;
	if (args->alias && !name_is_valid(args->alias, strlen(args->alias),
				   ENVELOPE_ALIAS_MAX))
		return false;
	if (args->names & ~(unsigned)(EVD_BIND_QUEUE | EVD_BIND_REPLACE |
				      EVD_BIND_ALLOW_REPLACE))
		return false;
	return args->loop <= n_scheds && args->restart <= EVD_RESTART_ALWAYS &&
	       args->strategy <= EVD_STRATEGY_REST;
}

static int
add_params(struct session_spec *spec, const struct evd_spawn_args *args)
{
	int r = 0;

	for (size_t i = 0; i < args->n_params && !r; i++) {
		const char *equal = strchr(args->params[i], '=');
		char *key;

		if (!equal)
			return -EINVAL;
		key = strndup(
			args->params[i], (size_t)(equal - args->params[i]));
		r = key ? spec_add_param(spec, key, equal + 1) : -ENOMEM;
		free(key);
	}
	return r;
}

static void
set_life(struct session_spec *spec, const struct evd_spawn_args *args)
{
	if (args->restart)
		spec->restart = (enum restart_mode)(args->restart - 1);
	spec->strategy = (enum strategy)args->strategy;
	spec->idle_ms = args->idle_ms;
	spec->on_demand = args->on_demand != 0;
	spec->collect = args->collect != 0;
	spec->if_taken = native_claim_mode(args->names);
	spec->allow_replace = args->names & EVD_BIND_ALLOW_REPLACE;
	if (args->loop)
		spec->loop = (int)args->loop - 1;
}

static int
fill(struct session_spec *spec, const struct session_spec *from,
	const struct evd_spawn_args *args)
{
	const char *path = args->script   ? args->script
			   : args->plugin ? args->plugin
					  : from->path;
	const char *slash = strrchr(path, '/');
	int r = spec_inherit(spec, from);

	spec->kind = strdup(args->script ? "lua" : "native");
	spec->path = strdup(path);
	if (asprintf(&spec->name, "%s/%s", from->name ? from->name : "spawned",
		    slash ? slash + 1 : path) < 0)
		spec->name = NULL;
	if (!r && (!spec->kind || !spec->path || !spec->name))
		r = -ENOMEM;
	if (!r && args->alias)
		r = spec_add_alias(spec, args->alias);
	if (!r)
		r = add_params(spec, args);
	set_life(spec, args);
	return r;
}

/* ---- for the host -------------------------------------------------------- */

int
native_spawn(struct evd_ctx *ctx, const struct evd_spawn_args *args,
	uint64_t *session)
{
	struct session *s = session_of(ctx);
	struct native *n = (struct native *)ctx;
	struct spawn spawn = {.ops = args->script ? &kind_lua : &kind_native};
	int r;

	if (!args_are_sane(args, native_sched(n)->kernel->n_scheds) ||
		n->stopping)
		return -EINVAL;
	spawn.spec = spec_new();
	if (!spawn.spec)
		return -ENOMEM;
	r = fill(spawn.spec, s->spec, args);
	if (!r)
		r = -status_errno(session_spawn(s, &spawn));
	spec_unref(spawn.spec);
	if (!r && session)
		*session = spawn.id;
	return r;
}

void
native_exit(struct evd_ctx *ctx, const char *text)
{
	session_exit_with(session_of(ctx), text);
}

struct stopping {
	struct evd_ctx *ctx;
	uint64_t child;
};

/* Whatever the child does at its end needs more stack than a coroutine has. */
static void
stop_child(struct coro *co, void *arg)
{
	const struct stopping *s = arg;

	(void)co;
	kin_kill(session_of(s->ctx), s->child);
}

int
native_stop_child(struct evd_ctx *ctx, uint64_t session)
{
	struct stopping stopping = {ctx, session};

	if (!kin_child(session_of(ctx), session))
		return -ESRCH;
	native_outside((struct native *)ctx, stop_child, &stopping);
	return 0;
}

uint64_t
native_parent(struct evd_ctx *ctx)
{
	const struct kin *kin = session_of(ctx)->kin;

	return kin ? kin->parent : 0;
}

size_t
native_children(struct evd_ctx *ctx, uint64_t *sessions, size_t n)
{
	const struct kin *kin = session_of(ctx)->kin;
	size_t i = 0;

	if (!kin)
		return 0;
	LIST_FOREACH (node, &kin->children) {
		if (i == n)
			break;
		sessions[i++] = container_of(node, struct child, link)->id;
	}
	return kin->n_children;
}

uint32_t
native_attempt(struct evd_ctx *ctx)
{
	const struct msg *m = ((struct native *)ctx)->current;

	return m ? m->attempt + 1u : 0;
}

/* Verbs that make and end sessions: spawn, stop and restart. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/alias.h"
#include "kernel/journal.h"
#include "kind/kind.h"
#include "verb/daemon_ops.h"
#include "verb/gather.h"

/* ---- spawn ------------------------------------------------------------- */

/* out: the spec, a reference; args: the session's id, is it tied? */
static bool
spawn_visit(struct gather *g, struct sched *s)
{
	struct session_spec *spec = g->out;
	struct session *t = session_new(s, kind_find(spec->kind), spec, NULL);

	g->out = spec_unref(spec);
	if (!t) {
		g->status = EVD_STATUS_LIMIT;
		snprintf(g->text, sizeof(g->text),
			"no more sessions (MaxSessions=%u) or no memory",
			s->kernel->limits.max_sessions);
	} else if (t->life == SESSION_FAILED) {
		g->status = EVD_STATUS_TAKEN;
		snprintf(g->text, sizeof(g->text), "%s",
			t->health && t->health->reason
				? t->health->reason
				: "an alias cannot be taken");
		session_stop_for(t, EXIT_FAILED);
	} else {
		g->args[0] = t->id;
	}
	return false;
}

static void
spawn_drop(struct gather *g)
{
	spec_unref(g->out);
}

static void
spawn_finish(struct gather *g)
{
	Eventd__V1__Spawned *spawned = gather_alloc(g, sizeof(*spawned));

	if (!spawned)
		return;
	eventd__v1__spawned__init(spawned);
	spawned->session = g->args[0];
	g->response.result_case = EVENTD__V1__RESPONSE__RESULT_SPAWNED;
	g->response.spawned = spawned;
}

/* As a child of the connection that asks; on its loop. */
static void
spawn_tied(struct gather *g, struct session_spec *spec)
{
	struct spawn spawn = {.ops = kind_find(spec->kind), .spec = spec};

	g->finish = spawn_finish;
	if (session_find(g->home->kernel, g->session)) { /* else: nobody asks */
		g->status = session_spawn(g->peer->session, &spawn);
		g->args[0] = spawn.id;
		snprintf(g->text, sizeof(g->text), "%s", spawn.text);
	}
	spec_unref(spec);
	gather_answer(g);
}

static void
spawn_refuse(struct gather *g, int status, const char *text)
{
	g->status = status;
	snprintf(g->text, sizeof(g->text), "%s", text ? text : "");
	gather_answer(g);
}

static void
described(void *arg, int status, const char *text, struct session_spec *spec)
{
	struct gather *g = arg;

	if (status) {
		spawn_refuse(g, status, text);
		return;
	}
	if (!kind_find(spec->kind)) {
		spec_unref(spec);
		spawn_refuse(g, EVD_STATUS_INVALID,
			"a mailbox for clients needs a session file in "
			"sessions.d");
		return;
	}
	if (g->args[1]) {
		spawn_tied(g, spec);
		return;
	}
	g->out = spec;
	g->next = spec->loop < 0 ? g->home->index : (unsigned)spec->loop;
	g->visit = spawn_visit;
	g->drop = spawn_drop;
	g->finish = spawn_finish;
	gather_start(g, g->home);
}

/* What is wrong with it, or NULL. */
static const char *
spawn_fault(const Eventd__V1__Spawn *spawn)
{
	const char *paths[] = {spawn->file, spawn->script, spawn->plugin};
	unsigned n = 0;

	for (size_t i = 0; i < 3; i++) {
		n += *paths[i] != 0;
		if (*paths[i] && *paths[i] != '/')
			return "its file, script or plugin is an absolute path";
	}
	if (n != 1)
		return "it needs a file, a script or a plugin, and one of them";
	if (*spawn->file && spawn->n_aliases)
		return "the aliases are those in the file";
	if (*spawn->file && (spawn->if_taken || spawn->allow_replace))
		return "the file says if others hold its aliases: IfTaken=, "
		       "AllowReplace=";
	if (spawn->if_taken > EVENTD__V1__IF_TAKEN__TAKEN_REPLACE)
		return "there is no such if_taken";
	if (spawn->n_aliases > SPAWN_NAMES_MAX ||
		spawn->n_params > SPAWN_NAMES_MAX)
		return "it has too many aliases or parameters";
	for (size_t i = 0; i < spawn->n_params; i++)
		if (memchr(spawn->params[i]->value.data, 0,
			    spawn->params[i]->value.len))
			return "a parameter's value has a NUL byte";
	return NULL;
}

/* Keys and values as strings. */
static bool
take_params(struct gather *g, const Eventd__V1__Spawn *spawn,
	struct session_order *order)
{
	order->n_params = spawn->n_params;
	order->keys = gather_alloc(g, (order->n_params + 1) * sizeof(char *));
	order->values = gather_alloc(g, (order->n_params + 1) * sizeof(char *));
	if (!order->keys || !order->values)
		return false;
	for (size_t i = 0; i < order->n_params; i++) {
		const Eventd__V1__Header *param = spawn->params[i];
		char *value = gather_alloc(g, param->value.len + 1);

		if (!value)
			return false;
		memcpy(value, param->value.data, param->value.len);
		order->keys[i] = param->name;
		order->values[i] = value;
	}
	return true;
}

void
verb_spawn(struct peer *p, const Eventd__V1__Request *r)
{
	const struct peer_shared *shared = p->shared;
	const Eventd__V1__Spawn *spawn = r->spawn;
	struct session_order order = {.file = spawn->file,
		.script = spawn->script,
		.plugin = spawn->plugin,
		.aliases = spawn->aliases,
		.n_aliases = spawn->n_aliases,
		.if_taken = (uint32_t)spawn->if_taken,
		.allow_replace = spawn->allow_replace};
	const char *fault = spawn_fault(spawn);
	struct gather *g;

	if (!verb_may_manage(p, r->id) || !verb_is_open(p, r->id))
		return;
	for (size_t i = 0; i < spawn->n_aliases; i++)
		if (!verb_name_ok(p, r->id, spawn->aliases[i]))
			return;
	if (fault) {
		verb_refuse(p, r->id, EVD_STATUS_INVALID, fault);
		return;
	}
	if (!shared->daemon || !shared->daemon->describe) {
		verb_refuse(p, r->id, EVD_STATUS_UNSUPPORTED,
			"no sessions can be made here");
		return;
	}
	g = gather_new(p, r->id);
	if (!g)
		return;
	g->args[1] = spawn->tie;
	if (take_params(g, spawn, &order))
		shared->daemon->describe(
			shared->daemon_data, g->home, &order, described, g);
	else
		gather_answer(g);
}

/* ---- stop and restart -------------------------------------------------- */

/* The holder of the alias, of this thread and no client's; else NULL, and
 * @g has why it cannot be @done. */
static struct session *
hosted(struct gather *g, struct sched *s, const char *done)
{
	struct session *t = session_find(s->kernel, g->only);

	if (!t || atomic_load(&t->home) != s) {
		g->status = EVD_STATUS_NO_ALIAS;
		snprintf(g->text, sizeof(g->text),
			"no session holds the alias '%s'", g->name);
		return NULL;
	}
	if (session_is_hosted(t))
		return t;
	g->status = EVD_STATUS_UNSUPPORTED;
	snprintf(g->text, sizeof(g->text),
		"'%s' belongs to a client and cannot be %s", g->name, done);
	return NULL;
}

static bool
stop_visit(struct gather *g, struct sched *s)
{
	struct session *t = hosted(g, s, "stopped");

	if (t) {
		journal_forget(t);
		session_stop_for(t, EXIT_KILLED);
	}
	return false;
}

static bool
restart_visit(struct gather *g, struct sched *s)
{
	struct session *t = hosted(g, s, "restarted");

	if (t)
		session_restart(t, t->spec);
	return false;
}

static void
visit_holder(struct peer *p, uint64_t id, const char *alias,
	bool (*visit)(struct gather *g, struct sched *s))
{
	struct sched *s = atomic_load(&p->session->home);
	struct gather *g;

	if (!verb_name_ok(p, id, alias) ||
		!verb_may(p, id, RIGHT_MANAGE, alias, NULL))
		return;
	g = gather_new(p, id);
	if (!g)
		return;
	strcpy(g->name, alias);
	g->only = alias_holder(&s->kernel->aliases, alias, strlen(alias));
	g->visit = visit;
	gather_start(g, s);
}

void
verb_stop(struct peer *p, const Eventd__V1__Request *r)
{
	visit_holder(p, r->id, r->stop->alias, stop_visit);
}

void
verb_restart(struct peer *p, const Eventd__V1__Request *r)
{
	visit_holder(p, r->id, r->restart->alias, restart_visit);
}

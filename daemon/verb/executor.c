/* The verb set_executor: who runs a session's handlers from now on. */
#include <stdio.h>
#include <string.h>

#include "kernel/alias.h"
#include "kernel/away.h"
#include "verb/gather.h"

enum { EXECUTORS_TEXT = 256 };

/* "loop, worker, slow", cut if it does not fit. */
static void
list_executors(const struct kernel *k, char text[EXECUTORS_TEXT])
{
	size_t n = (size_t)snprintf(text, EXECUTORS_TEXT, "loop");
	struct executor *x;

	for (uint32_t i = 0;
		n < EXECUTORS_TEXT && (x = kernel_executor_at(k, i)); i++)
		n += (size_t)snprintf(
			text + n, EXECUTORS_TEXT - n, ", %s", x->name);
}

static void
set(struct gather *g, struct session *t)
{
	const struct kernel *k = g->home->kernel;
	const char *name = g->out;
	bool loop = strcmp(name, "loop") == 0;
	struct executor *x = loop ? NULL : kernel_executor(k, name);
	char all[EXECUTORS_TEXT];
	int r;

	if (!loop && !x) {
		list_executors(k, all);
		g->status = EVD_STATUS_INVALID;
		snprintf(g->text, sizeof(g->text),
			"there is no executor '%s'; there are %s", name, all);
		return;
	}
	r = session_set_executor(t, x);
	if (r == AWAY_E_KIND) {
		g->status = EVD_STATUS_UNSUPPORTED;
		snprintf(g->text, sizeof(g->text),
			"'%s' is run by its loop alone: it is of the kind %s%s",
			g->name, t->ops->kind,
			t->ops->goes_away ? ", with handlers that wait" : "");
	} else if (r) {
		g->status = EVD_STATUS_NO_MEMORY;
		snprintf(g->text, sizeof(g->text), "out of memory");
	}
}

static bool
executor_visit(struct gather *g, struct sched *s)
{
	struct session *t = session_find(s->kernel, g->only);

	if (t && atomic_load(&t->home) == s) {
		set(g, t);
		return false;
	}
	g->status = EVD_STATUS_NO_ALIAS;
	snprintf(g->text, sizeof(g->text), "no session holds the alias '%s'",
		g->name);
	return false;
}

void
verb_set_executor(struct peer *p, const Eventd__V1__Request *r)
{
	struct sched *s = atomic_load(&p->session->home);
	const char *alias = r->set_executor->alias;
	struct gather *g;

	if (!verb_name_ok(p, r->id, alias) ||
		!verb_may(p, r->id, RIGHT_MANAGE, alias, NULL))
		return;
	g = gather_new(p, r->id);
	if (!g)
		return;
	strcpy(g->name, alias);
	g->out = gather_string(g, r->set_executor->executor);
	g->only = alias_holder(&s->kernel->aliases, alias, strlen(alias));
	g->visit = executor_visit;
	if (g->out)
		gather_start(g, s);
	else
		gather_answer(g);
}

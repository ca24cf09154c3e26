#include "verb/gather.h"

#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "kernel/alias.h"

static void
gather_free(struct gather *g)
{
	arena_deinit(&g->arena);
	rights_unref(g->rights);
	rights_unref(g->about);
	free(g);
}

static void
on_drop(struct sched_task *task)
{
	struct gather *g = container_of(task, struct gather, task);

	if (g->drop)
		g->drop(g);
	gather_free(g);
}

struct gather *
gather_new(struct peer *p, uint64_t id)
{
	struct gather *g = calloc(1, sizeof(*g));

	if (!g) {
		verb_refuse(p, id, EVD_STATUS_NO_MEMORY, "out of memory");
		return NULL;
	}
	arena_init(&g->arena, GATHER_ARENA_MAX);
	g->task.drop = on_drop;
	eventd__v1__response__init(&g->response);
	g->home = atomic_load(&p->session->home);
	g->session = p->session->id;
	g->peer = p;
	g->rights = p->rights ? rights_ref(p->rights) : NULL;
	g->ops = p->ops;
	g->request = id;
	p->n_requests++;
	return g;
}

void
gather_answer(struct gather *g)
{
	struct peer *p = g->peer;

	if (session_find(g->home->kernel, g->session)) {
		p->n_requests--;
		if (g->denied)
			g->status = peer_deny(p, (enum right)(g->denied - 1),
				g->name, NULL, g->text, sizeof(g->text));
		if (!g->status && g->finish)
			g->finish(g);
		if (g->status)
			g->response.result_case =
				EVENTD__V1__RESPONSE__RESULT__NOT_SET;
		g->response.id = g->request;
		g->response.status = (uint32_t)g->status;
		if (g->status)
			g->response.text = g->text;
		if (!g->is_answered)
			p->ops->respond(p, &g->response);
	}
	gather_free(g);
}

static void
on_home(struct sched *s, struct sched_task *task)
{
	(void)s;
	gather_answer(container_of(task, struct gather, task));
}

void
gather_return(struct gather *g, struct sched *here)
{
	if (here == g->home) {
		gather_answer(g);
		return;
	}
	g->task.run = on_home;
	sched_run_on(here, g->home, &g->task);
}

static void
on_visit(struct sched *s, struct sched_task *task)
{
	struct gather *g = container_of(task, struct gather, task);
	struct kernel *k = s->kernel;

	for (;;) {
		bool more;

		g->hop = NULL;
		more = g->visit(g, s);
		if (g->pending)
			return; /* @g may be gone */
		if (g->hop) {
			sched_run_on(s, g->hop, &g->task);
			return;
		}
		if (g->again) {
			g->again = false;
			sched_run_on(s, s, &g->task);
			return;
		}
		g->next++;
		if (!more || g->only || g->next >= k->n_scheds) {
			gather_return(g, s);
			return;
		}
		if (k->scheds[g->next] != s)
			break;
	}
	sched_run_on(s, k->scheds[g->next], &g->task);
}

void
gather_start(struct gather *g, struct sched *here)
{
	struct kernel *k = here->kernel;
	struct sched *first = k->scheds[g->next];
	struct session *s = g->only ? session_find(k, g->only) : NULL;

	if (s)
		first = atomic_load(&s->home);
	g->task.run = on_visit;
	if (first == here)
		on_visit(here, &g->task);
	else
		sched_run_on(here, first, &g->task);
}

void *
gather_alloc(struct gather *g, size_t size)
{
	void *p = arena_alloc(&g->arena, size);

	if (!p) {
		g->status = EVD_STATUS_TOO_LARGE;
		strcpy(g->text, "the answer is too large: ask for less");
		return NULL;
	}
	memset(p, 0, size);
	return p;
}

char *
gather_string(struct gather *g, const char *text)
{
	size_t size = strlen(text) + 1;
	char *copy = gather_alloc(g, size);

	return copy ? memcpy(copy, text, size) : NULL;
}

bool
gather_sees(const struct gather *g, struct session *t)
{
	struct peer_face face;

	if (g->rights->open & 1 << RIGHT_SEE)
		return true;
	for (const struct alias *a = t->aliases; a; a = a->sibling)
		if (rights_may(g->rights, RIGHT_SEE, a->name, NULL))
			return true;
	if (g->ops->behind(t, &face) && face.uid == g->rights->creds.uid)
		return true;
	return !t->aliases && rights_may(g->rights, RIGHT_SEE, "", NULL);
}

/* The verb profile: switches profiling and tells what it found. Each scheduler
 * tells of its own sessions on its own thread. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/alias.h"
#include "stats/profile.h"
#include "verb/gather.h"

enum { PROFILE_PAGE = 64 }; /* slots; with their rows less than a frame */

/* Places in gather.args. */
enum { ARG_FIRST, ARG_END, ARG_SET, ARG_RESET };

static Eventd__V1__ProfileRow *
row_info(struct gather *g, const struct sched *s, const struct profile_row *row)
{
	Eventd__V1__ProfileRow *out = gather_alloc(g, sizeof(*out));
	const struct kernel *k = s->kernel;

	if (!out)
		return NULL;
	eventd__v1__profile_row__init(out);
	out->event = gather_string(g, row->event);
	if (!out->event)
		return NULL;
	out->calls = row->calls;
	out->own_ns = profile_ns(k, row->own);
	out->whole_ns = profile_ns(k, row->whole);
	out->wait_ns = profile_ns(k, row->wait);
	out->wait_max_ns = profile_ns(k, row->wait_max);
	out->late = row->n_late;
	out->late_ns = row->late_ns;
	out->late_max_ns = row->late_max_ns;
	return out;
}

static bool
put_rows(struct gather *g, const struct sched *s, const struct session *t,
	Eventd__V1__SessionProfile *out)
{
	const struct profile_row *row;
	uint32_t at = 0;
	size_t n = 0;

	while (profile_next(s, t, &at))
		n++;
	out->rows = gather_alloc(g, (n + 1) * sizeof(out->rows[0]));
	if (!out->rows)
		return false;
	at = 0;
	while ((row = profile_next(s, t, &at))) {
		out->rows[out->n_rows] = row_info(g, s, row);
		if (!out->rows[out->n_rows++])
			return false;
	}
	return true;
}

/* False: no memory. Sessions without figures are left out. */
static bool
put_session(struct gather *g, const struct sched *s, const struct session *t)
{
	Eventd__V1__ProfileReport *report = g->out;
	Eventd__V1__SessionProfile *out;
	uint32_t at = 0;

	if (!profile_next(s, t, &at))
		return true;
	out = gather_alloc(g, sizeof(*out));
	if (!out)
		return false;
	eventd__v1__session_profile__init(out);
	out->id = t->id;
	out->alias = gather_string(g, session_name(t));
	out->kind = (char *)t->ops->kind;
	out->on = profile_is_on(s, t);
	if (!out->alias || !put_rows(g, s, t, out))
		return false;
	report->sessions[report->n_sessions++] = out;
	return true;
}

static bool
alias_visit(struct gather *g, struct sched *s)
{
	Eventd__V1__ProfileReport *report = g->out;
	struct session *t = session_find(s->kernel, g->only);

	if (!t || atomic_load(&t->home) != s) {
		g->status = EVD_STATUS_NO_ALIAS;
		snprintf(g->text, sizeof(g->text),
			"no session holds the alias '%s'", g->name);
		return false;
	}
	report->on = s->profile.all;
	if (g->args[ARG_SET] && s->profile.all) {
		g->status = EVD_STATUS_INVALID;
		snprintf(g->text, sizeof(g->text),
			"all sessions are profiled: one cannot be switched");
	} else if (g->args[ARG_SET] &&
		   profile_set(s, t,
			   g->args[ARG_SET] ==
				   EVENTD__V1__PROFILE_SWITCH__PROFILE_ON)) {
		g->status = EVD_STATUS_NO_MEMORY;
		snprintf(g->text, sizeof(g->text), "out of memory");
	} else {
		put_session(g, s, t);
	}
	return false;
}

static void
switch_all(struct gather *g, struct sched *s)
{
	if (g->args[ARG_SET])
		profile_set_all(
			s, g->args[ARG_SET] ==
				   EVENTD__V1__PROFILE_SWITCH__PROFILE_ON);
	if (g->args[ARG_RESET])
		profile_reset(s);
}

static bool
page_visit(struct gather *g, struct sched *s)
{
	Eventd__V1__ProfileReport *report = g->out;

	switch_all(g, s);
	report->on = s->profile.all;
	report->gone_calls += s->profile.gone_calls;
	report->gone_ns += profile_ns(s->kernel, s->profile.gone_ticks);
	for (uint32_t slot = (uint32_t)g->args[ARG_FIRST];
		slot < g->args[ARG_END]; slot++) {
		struct session *t = session_at(s->kernel, slot);

		if (!t || !atomic_load(&t->id) || atomic_load(&t->home) != s ||
			!gather_sees(g, t))
			continue;
		/* a slot may have been used again since another told of it */
		if (report->n_sessions == PROFILE_PAGE || !put_session(g, s, t))
			return false;
	}
	return true;
}

static void
want_page(struct gather *g, uint64_t after)
{
	uint64_t last = atomic_load(&g->home->kernel->sessions.n_slots);
	Eventd__V1__ProfileReport *report = g->out;

	g->args[ARG_FIRST] = (after & SESSION_SLOT_MASK) + 1;
	g->args[ARG_END] = g->args[ARG_FIRST] + PROFILE_PAGE;
	if (g->args[ARG_END] <= last)
		report->next = g->args[ARG_END] - 1;
	else
		g->args[ARG_END] = last + 1; /* the table ends there */
	g->visit = page_visit;
}

static bool
request_ok(struct peer *p, uint64_t id, const Eventd__V1__Profile *want)
{
	if (want->alias[0] && !verb_name_ok(p, id, want->alias))
		return false;
	if (want->alias[0] && !verb_may(p, id, RIGHT_SEE, want->alias, NULL))
		return false;
	if (want->alias[0] && want->reset) {
		verb_refuse(p, id, EVD_STATUS_INVALID,
			"figures are reset for all sessions at once");
		return false;
	}
	return (!want->set && !want->reset) ||
	       verb_may(p, id, RIGHT_MANAGE, want->alias, NULL);
}

static bool
report_make(struct gather *g)
{
	Eventd__V1__ProfileReport *report = gather_alloc(g, sizeof(*report));

	if (!report)
		return false;
	eventd__v1__profile_report__init(report);
	report->sessions =
		gather_alloc(g, PROFILE_PAGE * sizeof(report->sessions[0]));
	g->out = report;
	g->response.result_case = EVENTD__V1__RESPONSE__RESULT_PROFILE;
	g->response.profile = report;
	return report->sessions;
}

void
verb_profile(struct peer *p, const Eventd__V1__Request *r)
{
	struct sched *s = atomic_load(&p->session->home);
	const Eventd__V1__Profile *want = r->profile;
	struct gather *g;

	if (!request_ok(p, r->id, want))
		return;
	g = gather_new(p, r->id);
	if (!g)
		return;
	if (!report_make(g)) {
		gather_answer(g);
		return;
	}
	g->args[ARG_SET] = want->set;
	g->args[ARG_RESET] = want->reset;
	if (want->alias[0]) {
		strcpy(g->name, want->alias);
		g->only = alias_holder(
			&s->kernel->aliases, want->alias, strlen(want->alias));
		g->visit = alias_visit;
	} else {
		want_page(g, want->after);
	}
	gather_start(g, s);
}

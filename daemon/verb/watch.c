/* Verbs about other sessions: wait for an alias, watch sessions and names, and
 * what is posted when the client dies. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "envelope.h"
#include "kernel/claim.h"
#include "kernel/dead.h"
#include "kernel/names.h"
#include "kernel/tie.h"
#include "verb/gather.h"

static struct sched *
sched_of(const struct peer *p)
{
	return atomic_load(&p->session->home);
}

/* ---- wait -------------------------------------------------------------- */

void
verb_wait(struct peer *p, const Eventd__V1__Request *r)
{
	const char *alias = r->wait->alias;
	struct claim_init init = {.name = alias, .size = strlen(alias)};
	uint64_t ms = r->wait->timeout_ms;
	char text[VERB_TEXT_MAX];
	int e;

	if (!verb_is_open(p, r->id) || !verb_name_ok(p, r->id, alias) ||
		!verb_may(p, r->id, RIGHT_WATCH, alias, NULL) ||
		!verb_has_room(p, r->id, CHARGE_CALLS, 1))
		return;
	if (!ms)
		ms = sched_of(p)->kernel->limits.call_timeout_ms;
	e = claim_wait(p->session, alias, init.size, ms, r->id);
	if (e)
		verb_refuse(p, r->id, claim_status(e),
			claim_explain(
				p->session, &init, e, text, sizeof(text)));
}

void
verb_found(struct peer *p, uint64_t id, const struct msg *reply)
{
	Eventd__V1__Response response = EVENTD__V1__RESPONSE__INIT;
	Eventd__V1__Found found = EVENTD__V1__FOUND__INIT;

	if (msg_status(reply)) {
		verb_refuse(p, id, (int)msg_status(reply),
			"the alias has not appeared in time");
		return;
	}
	memcpy(&found.session, reply->data, sizeof(found.session));
	response.id = id;
	response.result_case = EVENTD__V1__RESPONSE__RESULT_FOUND;
	response.found = &found;
	p->ops->respond(p, &response);
}

/* ---- watch ------------------------------------------------------------- */

static void
answer_watched(struct peer *p, uint64_t id, int r, uint64_t number)
{
	Eventd__V1__Response response = EVENTD__V1__RESPONSE__INIT;
	Eventd__V1__Watched watched = EVENTD__V1__WATCHED__INIT;
	char text[VERB_TEXT_MAX];

	if (r) {
		verb_refuse(p, id, ties_status(r),
			ties_explain(p->session, r, text, sizeof(text)));
		return;
	}
	watched.watch = number;
	response.id = id;
	response.result_case = EVENTD__V1__RESPONSE__RESULT_WATCHED;
	response.watched = &watched;
	p->ops->respond(p, &response);
}

/* By its number: its names decide, and its home knows them. */
static bool
watch_visit(struct gather *g, struct sched *s)
{
	struct session *t = session_find(s->kernel, g->only);
	const struct alias *a =
		t && atomic_load(&t->home) == s ? t->aliases : NULL;
	bool may = !a && rights_may(g->rights, RIGHT_WATCH, "", NULL);

	for (; a && !may; a = a->sibling) {
		may = rights_may(g->rights, RIGHT_WATCH, a->name, NULL);
		strcpy(g->name, a->name);
	}
	if (!may)
		g->denied = 1 + RIGHT_WATCH;
	return false;
}

/* A client is told of the end of who it is linked with; it does not fail. */
static void
watch_now(struct peer *p, uint64_t id, const struct tie_init *init)
{
	uint64_t number = 0;
	int e = init->link ? ties_trap(p->session, true) : 0;

	if (!e)
		e = tie_make(p->session, init, &number);
	answer_watched(p, id, e, number);
}

static void
watch_finish(struct gather *g)
{
	g->is_answered = true;
	watch_now(g->peer, g->request,
		&(struct tie_init){
			.session = g->only, .link = g->args[0] != 0});
}

static void
watch_asked(struct peer *p, uint64_t id, const struct tie_init *init)
{
	struct gather *g = gather_new(p, id);

	if (!g)
		return;
	g->only = init->session;
	g->args[0] = init->link;
	g->visit = watch_visit;
	g->finish = watch_finish;
	gather_start(g, sched_of(p));
}

void
verb_watch(struct peer *p, const Eventd__V1__Request *r)
{
	const Eventd__V1__Watch *watch = r->watch;
	struct tie_init init = {
		.session = watch->session,
		.link = watch->link,
	};

	if (watch->alias[0] && !verb_name_ok(p, r->id, watch->alias))
		return;
	if ((watch->link &&
		    !verb_may(p, r->id, RIGHT_MANAGE, watch->alias, NULL)) ||
		!verb_has_room(p, r->id, CHARGE_WATCHES, 1))
		return;
	if (watch->alias[0]) {
		if (!verb_may(p, r->id, RIGHT_WATCH, watch->alias, NULL))
			return;
		init.alias = watch->alias;
		init.session = alias_holder(&sched_of(p)->kernel->aliases,
			watch->alias, strlen(watch->alias));
	} else if (!(p->rights->open & 1 << RIGHT_WATCH)) {
		watch_asked(p, r->id, &init);
		return;
	}
	watch_now(p, r->id, &init);
}

void
verb_unwatch(struct peer *p, const Eventd__V1__Request *r)
{
	int e = ties_cut(p->session, r->unwatch->watch);

	verb_refuse(p, r->id, ties_status(e), e ? "no such watch" : "");
}

void
verb_watch_names(struct peer *p, const Eventd__V1__Request *r)
{
	const char *pattern = r->watch_names->pattern;
	uint64_t number = 0;
	int e;

	if (!verb_has_room(p, r->id, CHARGE_WATCHES, 1))
		return;
	e = names_watch(p->session, pattern, strlen(pattern), &number);

	answer_watched(p, r->id, e, number);
}

/* ---- what the client leaves -------------------------------------------- */

struct will {
	struct alias *alias; /* a reference */
	struct msg *m;
};

static void
will_free(struct peer *p)
{
	struct sched *s = sched_of(p);

	if (!p->will)
		return;
	alias_unref(&s->kernel->aliases, p->will->alias);
	if (p->will->m)
		msg_free(&s->pool, p->will->m);
	free(p->will);
	p->will = NULL;
}

/* As the event that it will be. */
static int
will_charge(struct peer *p, char *text, size_t size)
{
	struct sched *s = sched_of(p);
	struct msg *m = p->will->m;
	enum charge_kind kind =
		charge_take(&s->charges, p->user->index, msg_charge(m));

	if (kind != CHARGES) {
		will_free(p);
		return user_refuse(&s->kernel->users, p->user, kind, s->now_ns,
			text, size);
	}
	m->flags |= MSG_CHARGED;
	msg_wide(m)->user = p->user->index;
	return EVD_STATUS_OK;
}

static int
will_set(struct peer *p, const Eventd__V1__Will *w, char *text, size_t size)
{
	struct sched *s = sched_of(p);
	struct will *will = calloc(1, sizeof(*will));

	if (!will)
		return EVD_STATUS_NO_MEMORY;
	will_free(p);
	p->will = will;
	will->alias =
		alias_ref(&s->kernel->aliases, w->alias, strlen(w->alias));
	will->m = msg_new(
		&s->pool, &(struct msg_init){
				  .event = w->event,
				  .event_size = (uint8_t)strlen(w->event),
				  .data = w->payload.data,
				  .size = (uint32_t)w->payload.len,
			  });
	if (will->alias && will->m)
		return will_charge(p, text, size);
	if (will->m)
		msg_free(&s->pool, will->m);
	alias_unref(&s->kernel->aliases, will->alias);
	free(will);
	p->will = NULL;
	return EVD_STATUS_NO_MEMORY;
}

static int
will_check(struct peer *p, const Eventd__V1__Will *w, char *text, size_t size)
{
	uint32_t most = sched_of(p)->kernel->limits.max_payload;

	if (!name_is_valid(w->event, strlen(w->event), ENVELOPE_EVENT_MAX)) {
		snprintf(text, size,
			"an event is 1 to 127 of A-Z a-z 0-9 _ . / -");
		return EVD_STATUS_INVALID;
	}
	if (w->payload.len > most) {
		snprintf(text, size,
			"payload of %zu bytes, at most %" PRIu32
			" (MaxPayload= in eventd.conf)",
			w->payload.len, most);
		return EVD_STATUS_TOO_LARGE;
	}
	return EVD_STATUS_OK;
}

void
verb_will(struct peer *p, const Eventd__V1__Request *r)
{
	const Eventd__V1__Will *w = r->will;
	char text[VERB_TEXT_MAX] = "";
	int status;

	if (!w->alias[0]) {
		will_free(p);
		verb_refuse(p, r->id, EVD_STATUS_OK, "");
		return;
	}
	if (!verb_name_ok(p, r->id, w->alias))
		return;
	if (!verb_may(p, r->id, RIGHT_POST, w->alias, w->event))
		return;
	status = will_check(p, w, text, sizeof(text));
	if (!status)
		status = will_set(p, w, text, sizeof(text));
	verb_refuse(p, r->id, status, text);
}

void
verb_goodbye(struct peer *p, const Eventd__V1__Request *r)
{
	p->goodbye = true;
	will_free(p);
	verb_refuse(p, r->id, EVD_STATUS_OK, "");
}

void
verb_execute_will(struct peer *p)
{
	struct sched *s = sched_of(p);
	struct will *will = p->will;
	struct msg *m;
	int r;

	if (!will || atomic_load(&s->kernel->stopping) ||
		!rights_may(p->rights, RIGHT_POST, will->alias->name,
			will->m->event)) {
		will_free(p);
		return;
	}
	m = will->m;
	will->m = NULL;
	m->from = p->session->id;
	m->to = atomic_load(&will->alias->holder);
	m->flags |= MSG_MAY_PARK;
	if (!m->to) { /* as any other post to such a name */
		log_warn("will.lost",
			"conn=%" PRIu64 " alias=%s event=%s reason=\"no "
			"session holds the alias\"",
			m->from, will->alias->name, m->event);
		s->counters.refused++;
		dead_no_alias(s, m, will->alias->name);
		will_free(p);
		return;
	}
	log_info("will.posted", "conn=%" PRIu64 " alias=%s event=%s", m->from,
		will->alias->name, m->event);
	r = sched_post(s, m);
	if (r)
		msg_end(s, NULL, m, MSG_END_REFUSED, sched_status(r), NULL);
	will_free(p);
}

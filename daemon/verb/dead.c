/* Verbs about dead letters: list, show, requeue, purge. Each scheduler tells of
 * its own. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "kernel/alias.h"
#include "kernel/dead_search.h"
#include "verb/gather.h"

enum {
	DEAD_PAGE = 100,
	DEAD_PAGE_MAX = 1000,
	DEAD_STEP = 100, /* letters posted again or forgotten at once */
	IDS_MAX = 1000,
};

/* One request, on its way. */
struct search {
	struct dead_search wanted;
	char alias[256], to[256];
	size_t limit, n_done;
	bool requeue;
	uint64_t *ids; /* n_ids of them; or a search */
	size_t n_ids;
	Eventd__V1__DeadPage page;
	Eventd__V1__DeadChanged changed;
};

/* ---- the search -------------------------------------------------------- */

static bool
reason_ok(struct peer *p, uint64_t id, const char *word)
{
	if (!*word || dead_reason_of(word))
		return true;
	verb_refuse(p, id, EVD_STATUS_INVALID,
		"a reason is overflow, no-alias, expired, died, refused, "
		"attempts or unhandled");
	return false;
}

static struct gather *
ask(struct peer *p, uint64_t id, const char *alias, const char *reason,
	uint64_t after)
{
	struct search *search;
	struct gather *g;

	if ((*alias && !verb_name_ok(p, id, alias)) ||
		!reason_ok(p, id, reason))
		return NULL;
	g = gather_new(p, id);
	search = g ? gather_alloc(g, sizeof(*search)) : NULL;
	if (!g)
		return NULL;
	if (!search) {
		gather_answer(g);
		return NULL;
	}
	strcpy(search->alias, alias);
	search->wanted = (struct dead_search){
		.alias = *alias ? search->alias : NULL,
		.reason = dead_reason_of(reason),
		.after = dead_token_id(after),
		.looks = DEAD_LOOK,
	};
	eventd__v1__dead_page__init(&search->page);
	eventd__v1__dead_changed__init(&search->changed);
	g->out = search;
	g->next = dead_sched(search->wanted.after);
	if (g->next >= g->home->kernel->n_scheds)
		g->next = 0;
	return g;
}

/* ---- list and show ----------------------------------------------------- */

static Eventd__V1__DeadLetter *
letter_of(struct gather *g, const struct dead *d)
{
	Eventd__V1__DeadLetter *l = gather_alloc(g, sizeof(*l));
	const struct msg *m = d->msg;

	if (!l)
		return NULL;
	eventd__v1__dead_letter__init(l);
	l->id = d->id;
	l->reason = (char *)dead_word((enum dead_reason)d->reason);
	l->status = (uint32_t)d->status;
	l->text = gather_string(g, dead_text(d));
	l->alias = gather_string(g, d->alias);
	l->event = gather_string(g, m->event);
	l->event_id = m->id;
	l->from = m->from;
	l->to = d->session;
	l->size = m->size;
	l->time_ns = (int64_t)d->time_ns;
	l->attempt = m->attempt;
	return l->text && l->alias && l->event ? l : NULL;
}

static bool
sees(const struct gather *g, const struct dead *d)
{
	return rights_may(g->rights, RIGHT_SEE, d->alias, NULL);
}

static bool
list_visit(struct gather *g, struct sched *s)
{
	struct search *search = g->out;
	Eventd__V1__DeadPage *page = &search->page;
	struct dead *d;
	bool more;

	while ((d = dead_search_next(&search->wanted, s, &more))) {
		Eventd__V1__DeadLetter *l;

		if (!sees(g, d))
			continue;
		l = letter_of(g, d);
		if (!l)
			return false;
		page->letters[page->n_letters++] = l;
		if (page->n_letters == search->limit) {
			page->next = dead_token(d->id);
			return false;
		}
	}
	if (more)
		page->next = dead_token(search->wanted.after);
	return !more;
}

void
verb_dead_list(struct peer *p, const Eventd__V1__Request *r)
{
	const Eventd__V1__DeadList *want = r->dead_list;
	size_t limit = want->limit ? want->limit : DEAD_PAGE;
	struct gather *g =
		ask(p, r->id, want->alias, want->reason, want->after);
	struct search *search;

	if (!g)
		return;
	search = g->out;
	search->limit = limit < DEAD_PAGE_MAX ? limit : DEAD_PAGE_MAX;
	search->page.letters = gather_alloc(
		g, search->limit * sizeof(Eventd__V1__DeadLetter *));
	if (!search->page.letters) {
		gather_answer(g);
		return;
	}
	g->visit = list_visit;
	g->response.result_case = EVENTD__V1__RESPONSE__RESULT_DEAD_PAGE;
	g->response.dead_page = &search->page;
	gather_start(g, g->home);
}

static void
no_letter(struct gather *g, uint64_t id)
{
	g->status = EVD_STATUS_NOT_FOUND;
	snprintf(g->text, sizeof(g->text),
		"no dead letter %" PRIu64
		": it was posted again, forgotten, or never was",
		id);
}

static bool
show_visit(struct gather *g, struct sched *s)
{
	struct search *search = g->out;
	const struct dead *d = dead_find(s, search->ids[0]);
	Eventd__V1__DeadLetter *l;

	if (!d || !sees(g, d)) {
		no_letter(g, search->ids[0]);
		return false;
	}
	l = letter_of(g, d);
	search->page.letters = gather_alloc(g, sizeof(l));
	if (!l || !search->page.letters)
		return false;
	search->page.letters[search->page.n_letters++] = l;
	if (!d->msg->size ||
		!rights_may(g->rights, RIGHT_MANAGE, d->alias, NULL))
		return false;
	l->payload.data = gather_alloc(g, d->msg->size);
	if (!l->payload.data)
		return false;
	memcpy(l->payload.data, msg_payload(d->msg), d->msg->size);
	l->payload.len = d->msg->size;
	return false;
}

/* The letters to begin with, and where the first of them is. */
static bool
take_ids(struct gather *g, const uint64_t *ids, size_t n)
{
	struct search *search = g->out;

	if (n > IDS_MAX) {
		g->status = EVD_STATUS_INVALID;
		snprintf(g->text, sizeof(g->text),
			"at most %d letters are named at once", IDS_MAX);
		return false;
	}
	search->ids = gather_alloc(g, (n + 1) * sizeof(*ids));
	if (!search->ids)
		return false;
	if (n)
		memcpy(search->ids, ids, n * sizeof(*ids));
	search->n_ids = n;
	return true;
}

void
verb_dead_show(struct peer *p, const Eventd__V1__Request *r)
{
	uint64_t id = r->dead_show->id;
	struct gather *g = ask(p, r->id, "", "", 0);
	struct search *search;

	if (!g)
		return;
	search = g->out;
	if (dead_sched(id) >= g->home->kernel->n_scheds)
		no_letter(g, id);
	if (g->status || !take_ids(g, &id, 1)) {
		gather_answer(g);
		return;
	}
	g->next = dead_sched(id);
	g->visit = show_visit;
	g->response.result_case = EVENTD__V1__RESPONSE__RESULT_DEAD_PAGE;
	g->response.dead_page = &search->page;
	gather_start(g, g->home);
}

/* ---- requeue and purge ------------------------------------------------- */

static void
change_failed(struct gather *g, int status, const char *text)
{
	struct search *search = g->out;
	Eventd__V1__DeadChanged *changed = &search->changed;

	if (!changed->failed++) {
		char *copy = gather_string(g, text);

		changed->status = (uint32_t)status;
		if (copy)
			changed->text = copy;
	}
}

static void
requeue(struct gather *g, struct sched *s, struct dead *d)
{
	struct search *search = g->out;
	const char *alias = search->to[0] ? search->to : d->alias;
	uint64_t holder =
		alias_holder(&s->kernel->aliases, alias, strlen(alias));
	char text[VERB_TEXT_MAX];
	int r;

	if (!holder) {
		snprintf(text, sizeof(text), "no session holds the alias '%s'",
			alias);
		change_failed(g, EVD_STATUS_NO_ALIAS, text);
		return;
	}
	r = dead_requeue(s, d, holder);
	if (r)
		change_failed(g, sched_status(r),
			sched_explain(s, r, holder, text, sizeof(text)));
	else
		search->changed.letters++;
}

static void
change(struct gather *g, struct sched *s, struct dead *d)
{
	struct search *search = g->out;

	if (search->requeue) {
		requeue(g, s, d);
		return;
	}
	dead_drop(s, d);
	search->changed.letters++;
}

/* Those named that are here. */
static bool
named_visit(struct gather *g, struct sched *s)
{
	struct search *search = g->out;

	for (size_t i = 0; i < search->n_ids; i++) {
		struct dead *d;

		if (dead_sched(search->ids[i]) != s->index)
			continue;
		d = dead_find(s, search->ids[i]);
		if (d) {
			change(g, s, d);
			continue;
		}
		no_letter(g, search->ids[i]);
		g->status = EVD_STATUS_OK;
		change_failed(g, EVD_STATUS_NOT_FOUND, g->text);
	}
	return true;
}

/* A page of those that match; of many the rest waits for the next request. */
static bool
matching_visit(struct gather *g, struct sched *s)
{
	struct search *search = g->out;
	struct dead *d;
	bool more;

	while ((d = dead_search_next(&search->wanted, s, &more))) {
		change(g, s, d);
		if (++search->n_done == DEAD_STEP) {
			search->changed.next = dead_token(search->wanted.after);
			return false;
		}
	}
	if (more)
		search->changed.next = dead_token(search->wanted.after);
	return !more;
}

static void
start_change(struct gather *g, const uint64_t *ids, size_t n)
{
	struct search *search = g->out;

	if (!take_ids(g, ids, n)) {
		gather_answer(g);
		return;
	}
	if (n)
		g->next = 0;
	g->visit = n ? named_visit : matching_visit;
	g->response.result_case = EVENTD__V1__RESPONSE__RESULT_DEAD_CHANGED;
	g->response.dead_changed = &search->changed;
	gather_start(g, g->home);
}

/* Those for one alias, who manages that; others, who manages all. */
static bool
may_change(struct peer *p, uint64_t id, const char *alias, size_t n_ids)
{
	if (*alias && !verb_name_ok(p, id, alias))
		return false;
	return verb_may(p, id, RIGHT_MANAGE, n_ids ? "" : alias, NULL);
}

void
verb_dead_requeue(struct peer *p, const Eventd__V1__Request *r)
{
	const Eventd__V1__DeadRequeue *want = r->dead_requeue;
	struct search *search;
	struct gather *g;

	if (!verb_is_open(p, r->id) ||
		!may_change(p, r->id, want->alias, want->n_ids))
		return;
	if (want->to[0] && (!verb_name_ok(p, r->id, want->to) ||
				   !verb_may_post_all(p, r->id, want->to)))
		return;
	g = ask(p, r->id, want->alias, want->reason, want->after);
	if (!g)
		return;
	search = g->out;
	search->requeue = true;
	strcpy(search->to, want->to);
	start_change(g, want->ids, want->n_ids);
}

void
verb_dead_purge(struct peer *p, const Eventd__V1__Request *r)
{
	const Eventd__V1__DeadPurge *want = r->dead_purge;
	struct gather *g;

	if (!may_change(p, r->id, want->alias, want->n_ids))
		return;
	g = ask(p, r->id, want->alias, want->reason, want->after);
	if (g)
		start_change(g, want->ids, want->n_ids);
}

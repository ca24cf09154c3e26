/* Verbs about the mailbox of a session: peek, pause, resume, purge, move. What
 * takes long goes in steps, so that the loop of the session is not held up. */
#include <stdio.h>
#include <string.h>

#include "kernel/alias.h"
#include "kernel/queue.h"
#include "verb/gather.h"

enum { PEEK_PAGE = 100, PEEK_PAGE_MAX = 1000, PEEK_BYTES_MAX = 4096 };

/* One request about a mailbox, on its way. */
struct inspection {
	struct queue_walk walk;
	struct queue_move move;
	struct queue_purge purge;
	struct gather *gather;
	uid_t uid; /* who asks */
	bool manager;
	bool manages; /* this mailbox */
	bool pause;
	uint64_t skip, limit, n_seen, id; /* peek */
	uint32_t bytes;
	char event[128]; /* purge */
	char to[256];    /* move */
	Eventd__V1__QueuePage page;
	Eventd__V1__QueueChanged changed;
};

/* Who binds an alias minds its mailbox. */
static bool
may_manage(struct gather *g, struct session *t)
{
	const struct inspection *in = g->out;
	struct peer_face face;

	return in->manager || (g->ops->behind(t, &face) && face.uid == in->uid);
}

static void
no_session(struct gather *g, const char *alias)
{
	g->status = EVD_STATUS_NO_ALIAS;
	snprintf(g->text, sizeof(g->text), "no session holds the alias '%s'",
		alias);
}

/* The session on its home's thread, or NULL and an answer. */
static struct session *
find(struct gather *g, struct sched *s)
{
	struct session *t = session_find(s->kernel, g->only);

	if (t && atomic_load(&t->home) == s)
		return t;
	no_session(g, g->name);
	return NULL;
}

/* The same for who changes it. */
static struct session *
find_to_manage(struct gather *g, struct sched *s)
{
	struct session *t = find(g, s);

	if (!t || may_manage(g, t))
		return t;
	g->denied = 1 + RIGHT_MANAGE;
	return NULL;
}

static struct gather *
ask(struct peer *p, uint64_t id, const char *alias,
	bool (*visit)(struct gather *g, struct sched *s))
{
	struct sched *s = atomic_load(&p->session->home);
	struct inspection *in;
	struct gather *g;

	if (!verb_name_ok(p, id, alias) ||
		!verb_may(p, id, RIGHT_SEE, alias, NULL))
		return NULL;
	g = gather_new(p, id);
	if (!g)
		return NULL;
	in = gather_alloc(g, sizeof(*in));
	if (!in) {
		gather_answer(g);
		return NULL;
	}
	in->gather = g;
	in->uid = p->uid;
	in->manager = rights_may(p->rights, RIGHT_MANAGE, alias, NULL);
	eventd__v1__queue_page__init(&in->page);
	eventd__v1__queue_changed__init(&in->changed);
	g->out = in;
	strcpy(g->name, alias);
	g->only = alias_holder(&s->kernel->aliases, alias, strlen(alias));
	g->visit = visit;
	g->response.result_case = EVENTD__V1__RESPONSE__RESULT_QUEUE_CHANGED;
	g->response.queue_changed = &in->changed;
	return g;
}

static void
start(struct peer *p, struct gather *g)
{
	gather_start(g, atomic_load(&p->session->home));
}

/* ---- peek -------------------------------------------------------------- */

static bool
put_payload(struct gather *g, Eventd__V1__QueuedEvent *e, const struct msg *m)
{
	const struct inspection *in = g->out;
	size_t size = m->size < in->bytes ? m->size : in->bytes;

	if (!size)
		return true;
	e->payload.data = gather_alloc(g, size);
	if (!e->payload.data)
		return false;
	memcpy(e->payload.data, msg_payload(m), size);
	e->payload.len = size;
	return true;
}

static bool
put_event(struct gather *g, const struct msg *m)
{
	struct inspection *in = g->out;
	Eventd__V1__QueuedEvent *e = gather_alloc(g, sizeof(*e));

	if (!e)
		return false;
	eventd__v1__queued_event__init(e);
	e->position = in->n_seen - 1;
	e->id = m->id;
	e->event = gather_string(g, m->event);
	e->from = msg_sender(m);
	e->size = m->size;
	e->call = msg_call(m) != 0;
	e->attempt = m->attempt;
	e->urgent = m->flags & MSG_URGENT;
	if (!e->event || (in->manages && !put_payload(g, e, m)))
		return false;
	in->page.events[in->page.n_events++] = e;
	return true;
}

/* The next one: false when the page is complete. */
static bool
peek_see(void *arg, const struct msg *m)
{
	struct gather *g = arg;
	struct inspection *in = g->out;

	if (in->page.n_events == in->limit) {
		in->page.next = in->n_seen;
		return false;
	}
	in->n_seen++;
	if (in->n_seen <= in->skip || (in->id && m->id != in->id))
		return true;
	return put_event(g, m) && !in->id;
}

static void
peek_end(struct gather *g)
{
	const struct inspection *in = g->out;

	if (!in->id || in->page.n_events || g->status)
		return;
	g->status = EVD_STATUS_NOT_FOUND;
	snprintf(g->text, sizeof(g->text), "no such event waits for '%s'",
		g->name);
}

static void
peek_looked(struct sched *s, void *arg, int status)
{
	struct gather *g = arg;

	if (status) {
		g->status = EVD_STATUS_IO;
		snprintf(g->text, sizeof(g->text), "the store says %s",
			strerror(-status));
	}
	peek_end(g);
	gather_return(g, s);
}

enum peeked { PEEK_MORE, PEEK_FULL, PEEK_OVER };

/* Look on in memory. */
static enum peeked
peek_step(struct gather *g, struct session *t)
{
	struct inspection *in = g->out;
	const struct msg *m;

	for (unsigned looks = QUEUE_STEP; looks; looks--) {
		m = queue_walk_next(&in->walk, t);
		if (!m)
			return PEEK_OVER;
		if (!peek_see(g, m))
			return PEEK_FULL;
	}
	return PEEK_MORE;
}

/* What is in memory comes first, then what is in the store alone. */
static bool
peek_visit(struct gather *g, struct sched *s)
{
	struct inspection *in = g->out;
	struct session *t = find(g, s);
	enum peeked peeked;

	if (!t)
		return false;
	if (!in->walk.open)
		queue_look_open(&in->walk, t);
	in->manages = may_manage(g, t);
	peeked = peek_step(g, t);
	g->again = peeked == PEEK_MORE;
	if (g->again)
		return false;
	queue_walk_close(&in->walk, s);
	if (peeked == PEEK_OVER)
		g->pending =
			journal_look(t, &(struct journal_look){in->walk.stored,
						peek_see, peek_looked, g});
	if (!g->pending)
		peek_end(g);
	return false;
}

void
verb_queue_peek(struct peer *p, const Eventd__V1__Request *r)
{
	const Eventd__V1__QueuePeek *want = r->queue_peek;
	uint64_t limit = want->limit ? want->limit : PEEK_PAGE;
	struct gather *g = ask(p, r->id, want->alias, peek_visit);
	struct inspection *in;

	if (!g)
		return;
	in = g->out;
	in->skip = want->skip;
	in->limit = limit < PEEK_PAGE_MAX ? limit : PEEK_PAGE_MAX;
	in->bytes = want->bytes < PEEK_BYTES_MAX ? want->bytes : PEEK_BYTES_MAX;
	in->id = want->id;
	in->page.events =
		gather_alloc(g, in->limit * sizeof(Eventd__V1__QueuedEvent *));
	if (!in->page.events) {
		gather_answer(g);
		return;
	}
	g->response.result_case = EVENTD__V1__RESPONSE__RESULT_QUEUE_PAGE;
	g->response.queue_page = &in->page;
	start(p, g);
}

/* ---- pause and resume -------------------------------------------------- */

/* It is so now; whether it will be after a restart, the store says. */
static void
pause_stored(struct sched *s, void *arg, int status)
{
	struct gather *g = arg;
	const struct inspection *in = g->out;

	if (status) {
		g->status = EVD_STATUS_IO;
		snprintf(g->text, sizeof(g->text),
			"'%s' is %s, but only until eventd ends: the store "
			"says %s",
			g->name, in->pause ? "paused" : "resumed",
			strerror(-status));
	}
	gather_return(g, s);
}

static bool
pause_visit(struct gather *g, struct sched *s)
{
	struct inspection *in = g->out;
	struct session *t = find_to_manage(g, s);

	if (!t)
		return false;
	if (in->pause)
		queue_pause(t);
	else
		queue_resume(t);
	in->changed.paused = in->pause;
	g->pending = journal_pause(t, in->pause, pause_stored, g);
	return false;
}

static void
set_pause(struct peer *p, uint64_t id, const char *alias, bool pause)
{
	struct gather *g = ask(p, id, alias, pause_visit);

	if (!g)
		return;
	((struct inspection *)g->out)->pause = pause;
	start(p, g);
}

void
verb_queue_pause(struct peer *p, const Eventd__V1__Request *r)
{
	set_pause(p, r->id, r->queue_pause->alias, true);
}

void
verb_queue_resume(struct peer *p, const Eventd__V1__Request *r)
{
	set_pause(p, r->id, r->queue_resume->alias, false);
}

/* ---- purge ------------------------------------------------------------- */

static void
purged(struct queue_purge *purge, struct sched *s)
{
	struct inspection *in = container_of(purge, struct inspection, purge);
	struct session *t = session_find(s->kernel, purge->session);
	struct gather *g = in->gather;

	in->changed.events = purge->n;
	in->changed.paused = t && queue_is_paused(t);
	g->status = purge->status;
	if (g->status == EVD_STATUS_LIMIT)
		snprintf(g->text, sizeof(g->text),
			"'%s' is being purged already", g->name);
	else if (g->status)
		snprintf(g->text, sizeof(g->text),
			"the store fails: '%s' is as it was, or will be "
			"purged when it can be",
			g->name);
	gather_return(g, s);
}

static bool
purge_visit(struct gather *g, struct sched *s)
{
	struct inspection *in = g->out;

	if (!find_to_manage(g, s))
		return false;
	in->purge = (struct queue_purge){.session = g->only,
		.event = in->event[0] ? in->event : NULL,
		.done = purged};
	g->pending = true;
	queue_purge_start(&in->purge, s);
	return false;
}

void
verb_queue_purge(struct peer *p, const Eventd__V1__Request *r)
{
	const Eventd__V1__QueuePurge *want = r->queue_purge;
	struct gather *g;
	struct inspection *in;

	if (strlen(want->event) >= sizeof(in->event)) {
		verb_refuse(p, r->id, EVD_STATUS_INVALID,
			"an event is 1 to 127 of A-Z a-z 0-9 _ . / -");
		return;
	}
	g = ask(p, r->id, want->alias, purge_visit);
	if (!g)
		return;
	in = g->out;
	strcpy(in->event, want->event);
	start(p, g);
}

/* ---- move -------------------------------------------------------------- */

static void
moved(struct queue_move *move, struct sched *s)
{
	struct inspection *in = container_of(move, struct inspection, move);
	struct session *t = session_find(s->kernel, move->from);

	in->changed.events = move->moved;
	in->changed.status = (uint32_t)move->status;
	in->changed.left = in->limit - move->moved;
	in->changed.paused = t && queue_is_paused(t);
	gather_return(in->gather, s);
}

static bool
move_visit(struct gather *g, struct sched *s)
{
	struct inspection *in = g->out;
	struct session *t = find_to_manage(g, s);
	uint64_t to = alias_holder(&s->kernel->aliases, in->to, strlen(in->to));

	if (!t)
		return false;
	if (!to) {
		no_session(g, in->to);
		return false;
	}
	if (to == g->only || (t->box_bits & BOX_MOVING)) {
		g->status =
			to == g->only ? EVD_STATUS_INVALID : EVD_STATUS_LIMIT;
		snprintf(g->text, sizeof(g->text),
			to == g->only
				? "'%s' and its target are the same session"
				: "events of '%s' are being moved already",
			g->name);
		return false;
	}
	if (!in->limit || in->limit > t->box.n)
		in->limit = t->box.n;
	in->move = (struct queue_move){.from = g->only,
		.to = to,
		.left = (uint32_t)in->limit,
		.done = moved};
	g->pending = true;
	queue_move_start(&in->move, s);
	return false;
}

void
verb_queue_move(struct peer *p, const Eventd__V1__Request *r)
{
	const Eventd__V1__QueueMove *want = r->queue_move;
	struct gather *g;
	struct inspection *in;

	if (!verb_name_ok(p, r->id, want->to) ||
		!verb_may_post_all(p, r->id, want->to))
		return;
	g = ask(p, r->id, want->alias, move_visit);
	if (!g)
		return;
	in = g->out;
	strcpy(in->to, want->to);
	in->limit = want->limit;
	start(p, g);
}

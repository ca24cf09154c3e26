#include "kernel/crowd.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/log.h"
#include "kernel/notice.h"
#include "kernel/sched.h"
#include "kernel/ties.h"
#include "proto/envelope.h"
#include "proto/status.h"

/* A crowd that a session has joined, or asked to. */
struct crowd_tie {
	struct list link; /* in ties.crowds */
	uint64_t token;
	uint64_t slot;        /* whose events they are; 0: not known yet */
	struct msg *farewell; /* made beforehand: no failing */
	uint32_t mode, window;
	size_t size;
	char alias[];
};

/* On its way to the holder of the alias, wherever that lives, and back. */
struct crowd_ask {
	struct sched_task task;
	struct sched *home; /* of the member */
	struct msg *farewell;
	uint64_t slot;
	unsigned n_hops;
	int status;
	char text[256];
	struct crowd_member who;
};

enum { HOPS_MAX = 16 }; /* after an alias that changes its holder */

static struct sched *
home_of(const struct session *s)
{
	return atomic_load_explicit(&s->home, memory_order_relaxed);
}

static const struct crowd_ops *
ops_of(const struct sched *s)
{
	return s->kernel->crowds;
}

/* ---- going back ---------------------------------------------------------- */

/* Of @owner, or, if that is 0, anybody's; the newest first. */
struct returning {
	uint64_t owner;
	struct msg *newest;
};

static bool
returns(const struct returning *r, const struct msg *m)
{
	return (m->flags & MSG_LENT) && (!r->owner || m->from == r->owner);
}

static void
keep(struct returning *r, struct msg *m)
{
	msg_link(m, r->newest);
	r->newest = m;
}

static void
take_admitted(struct session *s, struct returning *r)
{
	struct mailbox_cursor cursor = {0};
	struct msg *m;

	if (mailbox_track(&s->box, &cursor))
		return; /* out of memory: it handles them, then */
	while ((m = mailbox_ahead(&s->box, &cursor))) {
		if (!returns(r, m)) {
			cursor.at = m;
			continue;
		}
		mailbox_take_ahead(&s->box, &cursor);
		home_of(s)->queued--;
		keep(r, m);
	}
	mailbox_untrack(&s->box, &cursor);
}

static void
take_parked(struct session *s, struct returning *r)
{
	for (uint32_t n = s->box.n_parked; n; n--) {
		struct msg *m = mailbox_pop_parked(&s->box);

		if (returns(r, m))
			keep(r, m);
		else /* which it was before: there is a way */
			(void)mailbox_park(&s->box, m);
	}
}

static void
give_back(struct session *s, uint64_t owner)
{
	struct sched *sched = home_of(s);
	struct returning r = {.owner = owner};
	struct msg *m;

	if (!s->lent || (!s->box.n && !s->box.n_parked))
		return;
	take_admitted(s, &r);
	take_parked(s, &r);
	while ((m = r.newest)) {
		r.newest = msg_next(m);
		msg_end(sched, s, m,
			m->flags & MSG_ADMITTED ? MSG_END_CANCELLED
						: MSG_END_REFUSED,
			EVD_STATUS_UNAVAILABLE, NULL);
	}
}

void
crowds_give_back(struct session *s)
{
	give_back(s, 0);
}

/* ---- what it has joined -------------------------------------------------- */

static struct crowd_tie *
tie_find(const struct session *s, const char *alias, size_t size)
{
	if (!s->ties)
		return NULL;
	LIST_FOREACH (node, &s->ties->crowds) {
		struct crowd_tie *t =
			container_of(node, struct crowd_tie, link);

		if (t->size == size && !memcmp(t->alias, alias, size))
			return t;
	}
	return NULL;
}

static struct crowd_tie *
tie_of_token(const struct session *s, uint64_t token)
{
	if (!s || !s->ties)
		return NULL;
	LIST_FOREACH (node, &s->ties->crowds) {
		struct crowd_tie *t =
			container_of(node, struct crowd_tie, link);

		if (t->token == token)
			return t;
	}
	return NULL;
}

static struct crowd_tie *
tie_add(struct session *s, const struct crowd_wish *wish)
{
	struct crowd_tie *t = ties_get(s) && !FAULT(crowd_tie)
				      ? calloc(1, sizeof(*t) + wish->size + 1)
				      : NULL;

	if (!t)
		return NULL;
	t->token = sched_id(home_of(s));
	t->size = wish->size;
	memcpy(t->alias, wish->alias, wish->size);
	list_append(&s->ties->crowds, &t->link);
	s->ties->n++;
	s->ties->n_crowds++;
	return t;
}

static void
say_farewell(struct sched *s, struct msg *farewell, uint64_t slot)
{
	farewell->to = slot;
	ops_of(s)->leave(s, farewell);
}

static void
tie_end(struct session *s, struct crowd_tie *t)
{
	struct sched *sched = home_of(s);

	list_remove(&t->link);
	s->ties->n--;
	s->ties->n_crowds--;
	if (t->farewell)
		say_farewell(sched, t->farewell, t->slot);
	free(t);
}

bool
crowd_leave(struct session *s, const char *alias, size_t size)
{
	struct crowd_tie *t = tie_find(s, alias, size);

	if (!t)
		return false;
	if (t->slot)
		give_back(s, t->slot);
	tie_end(s, t);
	return true;
}

void
crowds_end(struct session *s)
{
	crowds_give_back(s);
	LIST_FOREACH (node, &s->ties->crowds)
		tie_end(s, container_of(node, struct crowd_tie, link));
}

size_t
crowds_memory(const struct session *s)
{
	return s->ties->n_crowds *
	       (sizeof(struct crowd_tie) + sizeof(struct msg));
}

/* ---- asking -------------------------------------------------------------- */

void
crowd_tell(struct sched *s, uint64_t member, const char *alias, int status,
	const char *text)
{
	struct notice n = {
		.session = status ? 0 : member,
		.up = !status,
		.alias = alias,
		.reason = status ? status_word(status) : NULL,
		.text = text,
	};
	struct msg *m = notice_new(&s->pool, notice_alias, &n);

	if (!m) {
		log_err("kernel.no-memory", "what=crowd alias=%s", alias);
		return;
	}
	m->to = member;
	sched_control(s, m);
}

static void
ask_free(struct crowd_ask *ask)
{
	if (ask->farewell)
		msg_free(&ask->home->pool, ask->farewell);
	free(ask);
}

static void
on_ask_drop(struct sched_task *task)
{
	free(container_of(task, struct crowd_ask, task)); /* the pools go */
}

/* On the member's thread: which may have gone, or left, meanwhile. */
static int
ask_end(struct crowd_ask *ask, char *text, size_t size)
{
	struct sched *s = ask->home;
	struct session *member = session_find(s->kernel, ask->who.session);
	struct crowd_tie *t = tie_of_token(member, ask->who.token);
	int status = ask->status;

	snprintf(text, size, "%s", ask->text);
	if (status && t && !t->farewell) {
		tie_end(member, t);
	} else if (!status && t) {
		t->slot = ask->slot;
		if (!t->farewell)
			t->farewell = TAKE(ask->farewell);
	} else if (!status) {
		say_farewell(s, TAKE(ask->farewell), ask->slot);
	}
	ask_free(ask);
	return status;
}

static bool
is_of_file(const struct session *s, const char *alias)
{
	for (size_t i = 0; s->spec && i < s->spec->n_binds; i++)
		if (!strcmp(s->spec->binds[i].alias, alias))
			return true;
	return false;
}

/* Its supervisor tries again. */
static void
join_failed(struct session *s, const char *alias, const char *text)
{
	session_fail(s, "Bind=%s in its file: %s", alias, text);
}

static void
on_answer(struct sched *s, struct sched_task *task)
{
	struct crowd_ask *ask = container_of(task, struct crowd_ask, task);
	uint64_t member = ask->who.session;
	struct session *t = session_find(s->kernel, member);
	bool tell = tie_of_token(t, ask->who.token) != NULL;
	char alias[sizeof(ask->who.alias)], text[sizeof(ask->text)];
	int status;

	memcpy(alias, ask->who.alias, sizeof(alias));
	status = ask_end(ask, text, sizeof(text));
	if (tell && status && is_of_file(t, alias))
		join_failed(t, alias, text);
	else if (tell)
		crowd_tell(s, member, alias, status, text);
}

/* Who holds the alias, if it lives here, and else where it does. */
static struct sched *
holder_at(struct sched *s, const struct crowd_ask *ask, struct session **out)
{
	uint64_t id = alias_holder(
		&s->kernel->aliases, ask->who.alias, strlen(ask->who.alias));
	struct session *t = session_find(s->kernel, id);

	*out = t;
	return t ? home_of(t) : s;
}

/* False: it lives elsewhere. */
static bool
ask_here(struct sched *s, struct crowd_ask *ask, struct sched **at)
{
	struct session *holder;

	do {
		*at = holder_at(s, ask, &holder);
		if (*at != s && ask->n_hops < HOPS_MAX)
			return false;
		if (*at != s)
			ask->status = EVD_STATUS_UNAVAILABLE;
		else
			ask->status = ops_of(s)->join(s, holder, &ask->who,
				&ask->slot, ask->text, sizeof(ask->text));
		/* Others, too, may have found it free, and one has taken it. */
	} while (ask->status == EVD_STATUS_TAKEN && !holder &&
		 ask->n_hops++ < HOPS_MAX);
	return true;
}

static void
on_ask(struct sched *s, struct sched_task *task)
{
	struct crowd_ask *ask = container_of(task, struct crowd_ask, task);
	struct sched *at;

	ask->n_hops++;
	if (ask_here(s, ask, &at)) {
		task->run = on_answer;
		at = ask->home;
	}
	sched_run_on(s, at, task);
}

static uint32_t
window_of(const struct crowd_wish *wish)
{
	return wish->window ? wish->window : CROWD_WINDOW;
}

static struct crowd_ask *
ask_new(struct session *s, const struct crowd_wish *wish, uint64_t token)
{
	struct crowd_ask *ask =
		FAULT(crowd_ask) ? NULL : calloc(1, sizeof(*ask));

	if (!ask)
		return NULL;
	ask->home = home_of(s);
	ask->task = (struct sched_task){.run = on_ask, .drop = on_ask_drop};
	ask->farewell = msg_new(&ask->home->pool,
		&(struct msg_init){.event = "", .event_static = true});
	if (!ask->farewell) {
		free(ask);
		return NULL;
	}
	ask->farewell->from = session_id(s);
	msg_wide(ask->farewell)->seq = token;
	ask->who.session = session_id(s);
	ask->who.token = token;
	ask->who.mode = wish->mode;
	ask->who.window = window_of(wish);
	ask->who.blocks = !s->spec || spec_says(s->spec, OVERFLOW_BLOCK);
	snprintf(ask->who.name, sizeof(ask->who.name), "%s", session_name(s));
	memcpy(ask->who.alias, wish->alias, wish->size);
	return ask;
}

static int
refuse(int status, const char *why, char *text, size_t size)
{
	snprintf(text, size, "%s", why);
	return status;
}

static int
check(const struct session *s, const struct crowd_wish *wish, char *text,
	size_t size)
{
	int r = ties_check(s);

	if (!ops_of(home_of(s)))
		return refuse(EVD_STATUS_UNSUPPORTED,
			"nobody here shares aliases", text, size);
	if (!name_is_valid(wish->alias, wish->size, ENVELOPE_ALIAS_MAX))
		return refuse(EVD_STATUS_INVALID,
			"an alias is 1 to 255 of A-Z a-z 0-9 _ . / -", text,
			size);
	if (wish->window > CROWD_WINDOW_MAX)
		return refuse(EVD_STATUS_INVALID, "a window is 1 to 65535",
			text, size);
	if (r == TIE_E_LIMIT && tie_find(s, wish->alias, wish->size))
		r = 0; /* it is there already */
	if (r)
		ties_explain(s, r, text, size);
	return ties_status(r);
}

int
crowd_join(struct session *s, const struct crowd_wish *wish, char *text,
	size_t size)
{
	struct crowd_tie *t = tie_find(s, wish->alias, wish->size);
	int r = check(s, wish, text, size);
	struct crowd_ask *ask;
	struct sched *at;

	if (r)
		return r;
	if (!t)
		t = tie_add(s, wish);
	ask = t ? ask_new(s, wish, t->token) : NULL;
	if (!ask) {
		if (t && !t->farewell)
			tie_end(s, t);
		return refuse(
			EVD_STATUS_NO_MEMORY, "out of memory", text, size);
	}
	t->mode = wish->mode;
	t->window = window_of(wish);
	s->lent = true;
	if (ask_here(ask->home, ask, &at))
		return ask_end(ask, text, size);
	sched_run_on(ask->home, at, &ask->task);
	return CROWD_E_QUEUED;
}

/* ---- what its file says -------------------------------------------------- */

void
crowds_begin(struct session *s)
{
	uint64_t id = session_id(s);
	char text[256];

	for (size_t i = 0; i < s->spec->n_binds; i++) {
		const struct spec_bind *b = &s->spec->binds[i];
		int r = crowd_join(s,
			&(struct crowd_wish){
				b->alias, strlen(b->alias), b->mode, b->window},
			text, sizeof(text));

		if (r && r != CROWD_E_QUEUED) {
			join_failed(s, b->alias, text);
			return;
		}
		if (session_find(home_of(s)->kernel, id) != s)
			return;
	}
}

void
crowds_text(const struct session *s, char *text, size_t size)
{
	size_t n = 0;

	*text = '\0';
	if (!s->ties)
		return;
	LIST_FOREACH (node, &s->ties->crowds) {
		struct crowd_tie *t =
			container_of(node, struct crowd_tie, link);

		if (t->size + 32 > size - n)
			return;
		n += (size_t)snprintf(text + n, size - n, "%s%s:%s",
			n ? " " : "", t->alias, bind_mode_words[t->mode]);
		if (t->mode == BIND_SHARED)
			n += (size_t)snprintf(
				text + n, size - n, ":%" PRIu32, t->window);
	}
}

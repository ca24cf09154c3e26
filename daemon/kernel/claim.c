#include "kernel/claim.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/log.h"
#include "kernel/alias.h"
#include "kernel/idle.h"
#include "kernel/names.h"
#include "kernel/notice.h"
#include "kernel/ties.h"
#include "proto/envelope.h"

struct claim {
	struct list line;    /* in alias_line.claims; under the lock */
	struct list own;     /* in ties.claims; its session's thread */
	struct alias *alias; /* a reference */
	struct sched *home;
	uint64_t session;
	bool allow_replace;
	bool replace; /* the holder is to make room */
	bool stays;   /* until its session is gone */
	/* under the lock: */
	bool granted; /* its session is the holder: the task is on its way */
	bool is_ended;
	struct sched_task task;
};

/* A call that is answered when the alias has a holder. */
struct alias_wait {
	struct list line; /* in alias_line.waits; under the lock */
	struct alias *alias;
	uint64_t call;
};

static struct sched *
home_of(const struct session *s)
{
	return atomic_load_explicit(&s->home, memory_order_relaxed);
}

static struct aliases *
aliases_of(const struct session *s)
{
	return &home_of(s)->kernel->aliases;
}

/* ---- the line ---------------------------------------------------------- */

static struct alias_line *
line_get_locked(struct alias *a)
{
	if (a->line)
		return a->line;
	a->line = FAULT(alias_line) ? NULL : malloc(sizeof(*a->line));
	if (!a->line)
		return NULL;
	list_init(&a->line->claims);
	list_init(&a->line->waits);
	return a->line;
}

static void
line_leave_locked(struct alias *a, struct list *node)
{
	struct alias_line *line = a->line;

	list_remove(node);
	if (!line || !list_is_empty(&line->claims) ||
		!list_is_empty(&line->waits))
		return;
	free(line);
	a->line = NULL;
}

struct claim *
claim_first_locked(const struct alias *a)
{
	if (!a->line || list_is_empty(&a->line->claims))
		return NULL;
	return container_of(a->line->claims.next, struct claim, line);
}

bool
claim_waits_locked(const struct alias *a)
{
	return a->line && !list_is_empty(&a->line->waits);
}

uint64_t
claim_grant_locked(struct alias *a, struct claim *claim)
{
	line_leave_locked(a, &claim->line);
	claim->granted = true;
	a->allow_replace = claim->allow_replace;
	return claim->session;
}

/* The holder is to make room for the first in line. */
static bool
is_pressed(struct aliases *t, struct alias *a)
{
	const struct claim *first;
	bool pressed;

	pthread_mutex_lock(&t->lock);
	first = claim_first_locked(a);
	pressed = first && first->replace && a->allow_replace;
	pthread_mutex_unlock(&t->lock);
	return pressed;
}

/* ---- telling ----------------------------------------------------------- */

/* @s has got @a, or has lost it to the session @by. */
static void
tell(struct session *s, const struct alias *a, bool held, uint64_t by)
{
	struct sched *sched = home_of(s);
	struct notice n = {
		.session = by,
		.up = held,
		.alias = a->name,
		.reason = held ? NULL : "replaced",
	};
	struct msg *m;

	log_debug("alias.moved",
		"alias=%s session=%" PRIu64 " held=%d by=%" PRIu64, a->name,
		s->id, held, by);
	if (s->ops->alias) {
		s->ops->alias(s, a->name, held, by);
		return;
	}
	m = notice_new(&sched->pool, notice_alias, &n);
	if (!m) {
		log_err("kernel.no-memory", "what=alias alias=%s", a->name);
		return;
	}
	m->to = s->id;
	sched_control(sched, m);
}

/* Answer those who wait for @a, which is held; one at a time, as an answer may
 * free it. */
static void
answer_waits(struct sched *sched, struct alias *a)
{
	struct aliases *t = &sched->kernel->aliases;
	struct alias_wait *wait;
	uint64_t call, holder;

	do {
		call = 0;
		pthread_mutex_lock(&t->lock);
		holder = atomic_load(&a->holder);
		if (holder && claim_waits_locked(a)) {
			wait = container_of(
				a->line->waits.next, struct alias_wait, line);
			call = wait->call;
			line_leave_locked(a, &wait->line);
		}
		pthread_mutex_unlock(&t->lock);
		if (call && sched_reply(sched, call, EVD_STATUS_OK, &holder,
				    sizeof(holder)))
			log_err("kernel.no-memory", "what=wait alias=%s",
				a->name);
	} while (call);
}

void
alias_after(
	struct sched *sched, struct alias *a, const struct alias_after *after)
{
	if (after->granted)
		sched_run_on(
			sched, after->granted->home, &after->granted->task);
	names_wake(sched, after->wake);
	if (after->waits)
		answer_waits(sched, a);
}

/* ---- claims ------------------------------------------------------------ */

static void
chain_add(struct session *s, struct alias *a)
{
	a->sibling = s->aliases;
	s->aliases = a;
}

static bool
chain_remove(struct session *s, const struct alias *a)
{
	struct alias **link = &s->aliases;

	while (*link && *link != a)
		link = &(*link)->sibling;
	if (!*link)
		return false;
	*link = a->sibling;
	return true;
}

int
claim_release(struct session *s, struct alias *a)
{
	struct alias_after after = {0};
	struct aliases *t = aliases_of(s);
	int r = alias_drop_after(t, a, s->id, &after);

	alias_after(home_of(s), a, &after);
	return r;
}

/* The holder, @s, makes room for the first in line. It may end of it. */
static void
yield_alias(struct session *s, struct alias *a)
{
	struct kernel *k = home_of(s)->kernel;
	uint64_t id = s->id;
	struct aliases *t = aliases_of(s);
	struct alias *kept = alias_ref(t, a->name, a->size);

	if (!kept || !chain_remove(s, a)) {
		alias_unref(t, kept);
		return;
	}
	claim_release(s, a);
	tell(s, kept, false, atomic_load(&kept->holder));
	if (session_find(k, id) == s)
		idle_look(s);
	alias_unref(t, kept);
}

static void
claim_free(struct claim *claim)
{
	alias_unref(&claim->home->kernel->aliases, claim->alias);
	free(claim);
}

static void
on_granted_drop(struct sched_task *task)
{
	struct claim *claim = container_of(task, struct claim, task);

	if (claim->is_ended)
		claim_free(claim);
	else
		claim->granted = false; /* its session ends it */
}

static void
on_granted(struct sched *sched, struct sched_task *task)
{
	struct claim *claim = container_of(task, struct claim, task);
	struct alias *a = claim->alias;
	struct session *s = session_find(sched->kernel, claim->session);

	if (claim->is_ended) {
		claim_free(claim);
		return;
	}
	list_remove(&claim->own);
	s->ties->n--;
	s->ties->n_claims--;
	chain_add(s, a);
	tell(s, a, true, s->id);
	if (session_find(sched->kernel, claim->session) == s &&
		is_pressed(&sched->kernel->aliases, a))
		yield_alias(s, a);
	claim_free(claim);
}

/* A holder is asked to make room; it may be the holder no more. */
struct nudge {
	struct sched_task task;
	struct aliases *aliases;
	struct alias *alias; /* a reference */
	uint64_t holder;
};

static void
on_nudge_drop(struct sched_task *task)
{
	struct nudge *nudge = container_of(task, struct nudge, task);

	alias_unref(nudge->aliases, nudge->alias);
	free(nudge);
}

static void
on_nudge(struct sched *sched, struct sched_task *task)
{
	struct nudge *nudge = container_of(task, struct nudge, task);
	struct session *s = session_find(sched->kernel, nudge->holder);

	if (s && home_of(s) == sched &&
		is_pressed(nudge->aliases, nudge->alias))
		yield_alias(s, nudge->alias);
	on_nudge_drop(task);
}

static struct nudge *
nudge_new(struct session *s, struct alias *a)
{
	struct nudge *nudge = malloc(sizeof(*nudge));

	if (!nudge)
		return NULL;
	nudge->task =
		(struct sched_task){.run = on_nudge, .drop = on_nudge_drop};
	nudge->aliases = aliases_of(s);
	nudge->alias = alias_ref(nudge->aliases, a->name, a->size);
	return nudge;
}

/* The holder is on another scheduler, or here: it lets go in a turn of its
 * own. */
static void
nudge_send(struct session *s, struct nudge *nudge)
{
	struct sched *sched = home_of(s);
	struct session *t;

	nudge->holder = atomic_load(&nudge->alias->holder);
	t = session_find(sched->kernel, nudge->holder);
	sched_run_on(sched, t ? home_of(t) : sched, &nudge->task);
}

static struct claim *
claim_new(struct session *s, const struct claim_init *init)
{
	struct claim *claim =
		FAULT(claim_new) ? NULL : calloc(1, sizeof(*claim));

	if (!claim)
		return NULL;
	claim->alias = alias_ref(aliases_of(s), init->name, init->size);
	if (!claim->alias) {
		free(claim);
		return NULL;
	}
	list_init(&claim->line);
	list_init(&claim->own);
	claim->home = home_of(s);
	claim->session = s->id;
	claim->allow_replace = init->allow_replace;
	claim->replace = init->mode == CLAIM_REPLACE;
	claim->stays = init->stays;
	claim->task =
		(struct sched_task){.run = on_granted, .drop = on_granted_drop};
	return claim;
}

/* Into the line, or be granted it if it has become free. */
static int
line_up(struct claim *claim, struct alias_after *after)
{
	struct aliases *t = &claim->home->kernel->aliases;
	struct alias *a = claim->alias;
	int r = CLAIM_E_QUEUED;

	pthread_mutex_lock(&t->lock);
	if (!atomic_load(&a->holder)) {
		a->refs++;
		claim->granted = true;
		a->allow_replace = claim->allow_replace;
		atomic_store_explicit(
			&a->holder, claim->session, memory_order_release);
		names_changed_locked(t, a, claim->session, &after->wake);
		after->granted = claim;
		after->waits = claim_waits_locked(a);
	} else if (claim->replace && !a->allow_replace) {
		r = CLAIM_E_FIXED;
	} else if (!line_get_locked(a)) {
		r = err_raise(-ENOMEM);
	} else if (claim->replace) {
		list_append(a->line->claims.next, &claim->line);
	} else {
		list_append(&a->line->claims, &claim->line);
	}
	pthread_mutex_unlock(&t->lock);
	return r;
}

static int
wait_in_line(struct session *s, const struct claim_init *init)
{
	struct claim *claim = ties_get(s) ? claim_new(s, init) : NULL;
	struct nudge *nudge = NULL;
	struct alias_after after = {0};
	int r = claim ? 0 : err_raise(-ENOMEM);

	if (claim && claim->replace) {
		nudge = nudge_new(s, claim->alias);
		r = nudge ? 0 : err_raise(-ENOMEM);
	}
	if (!r)
		r = line_up(claim, &after);
	if (r != CLAIM_E_QUEUED) {
		if (nudge)
			on_nudge_drop(&nudge->task);
		if (claim)
			claim_free(claim);
		return r;
	}
	list_append(&s->ties->claims, &claim->own);
	s->ties->n++;
	s->ties->n_claims++;
	if (nudge)
		nudge_send(s, nudge);
	alias_after(home_of(s), claim->alias, &after);
	return r;
}

static struct alias *
held_by(const struct session *s, const char *name, size_t size)
{
	struct alias *a = s->aliases;

	while (a && (a->size != size || memcmp(a->name, name, size)))
		a = a->sibling;
	return a;
}

static struct claim *
claimed_by(const struct session *s, const char *name, size_t size)
{
	if (!s->ties)
		return NULL;
	LIST_FOREACH (node, &s->ties->claims) {
		struct claim *claim = container_of(node, struct claim, own);
		const struct alias *a = claim->alias;

		if (a->size == size && !memcmp(a->name, name, size))
			return claim;
	}
	return NULL;
}

static void
allow_replace(struct session *s, struct alias *a, bool allow)
{
	struct aliases *t = aliases_of(s);

	pthread_mutex_lock(&t->lock);
	if (atomic_load(&a->holder) == s->id)
		a->allow_replace = allow;
	pthread_mutex_unlock(&t->lock);
}

static int
take_now(struct session *s, const struct claim_init *init)
{
	struct aliases *t = aliases_of(s);
	struct alias_after after = {0};
	struct alias *a;
	int r = alias_take_after(t, init->name, init->size, s->id, &a, &after);

	if (r)
		return r;
	if (init->allow_replace)
		allow_replace(s, a, true);
	chain_add(s, a);
	alias_after(home_of(s), a, &after);
	return 0;
}

int
claim_make(struct session *s, const struct claim_init *init)
{
	struct alias *a = held_by(s, init->name, init->size);
	int r;

	if (a) {
		allow_replace(s, a, init->allow_replace);
		return 0;
	}
	if (claimed_by(s, init->name, init->size))
		return CLAIM_E_QUEUED;
	if (s->life >= SESSION_STOPPING)
		return CLAIM_E_ENDING;
	r = take_now(s, init);
	if (r != ALIAS_E_TAKEN || init->mode == CLAIM_REFUSE)
		return r;
	if (ties_check(s))
		return CLAIM_E_LIMIT;
	return wait_in_line(s, init);
}

/* Out of the line; what it has been granted is let go. */
static void
claim_end(struct session *s, struct claim *claim)
{
	struct aliases *t = aliases_of(s);
	bool granted;

	list_remove(&claim->own);
	s->ties->n--;
	s->ties->n_claims--;
	pthread_mutex_lock(&t->lock);
	line_leave_locked(claim->alias, &claim->line);
	granted = claim->granted;
	pthread_mutex_unlock(&t->lock);
	if (!granted) {
		claim_free(claim);
		return;
	}
	claim->is_ended = true; /* the task frees it */
	claim_release(s, claim->alias);
}

int
claim_drop(struct session *s, const char *name, size_t size)
{
	struct alias *a = held_by(s, name, size);
	struct claim *claim = a ? NULL : claimed_by(s, name, size);

	if (claim) {
		claim_end(s, claim);
		return 0;
	}
	if (!a)
		return ALIAS_E_NONE;
	chain_remove(s, a);
	return claim_release(s, a);
}

size_t
claims_memory(const struct session *s)
{
	return s->ties->n_claims * sizeof(struct claim);
}

void
claims_end(struct session *s)
{
	LIST_FOREACH (node, &s->ties->claims) {
		struct claim *claim = container_of(node, struct claim, own);

		if (!claim->stays)
			claim_end(s, claim);
	}
}

void
claims_end_all(struct session *s)
{
	while (!list_is_empty(&s->ties->claims))
		claim_end(s,
			container_of(s->ties->claims.next, struct claim, own));
}

/* ---- words ------------------------------------------------------------- */

int
claim_status(int r)
{
	switch (r) {
	case 0:
	case CLAIM_E_QUEUED:
		return EVD_STATUS_OK;
	case ALIAS_E_TAKEN:
	case CLAIM_E_FIXED:
		return EVD_STATUS_TAKEN;
	case ALIAS_E_NAME:
	case CLAIM_E_ENDING:
		return EVD_STATUS_INVALID;
	case ALIAS_E_NONE:
		return EVD_STATUS_NOT_FOUND;
	case CLAIM_E_LIMIT:
	case CLAIM_E_CALLS:
		return EVD_STATUS_LIMIT;
	default:
		return EVD_STATUS_NO_MEMORY;
	}
}

const char *
claim_explain(const struct session *s, const struct claim_init *init, int r,
	char *text, size_t text_size)
{
	uint64_t holder = alias_holder(aliases_of(s), init->name, init->size);
	int size = (int)init->size;

	switch (r) {
	case ALIAS_E_TAKEN:
	case CLAIM_E_FIXED:
		snprintf(text, text_size,
			"the alias '%.*s' is held by session %" PRIu64
			"%s (eventctl status %.*s)",
			size, init->name, holder,
			r == CLAIM_E_FIXED ? ", which does not let itself be "
					     "replaced (AllowReplace=)"
					   : "",
			size, init->name);
		break;
	case ALIAS_E_NAME:
		snprintf(text, text_size,
			"an alias is 1 to 255 of A-Z a-z 0-9 _ . / -");
		break;
	case ALIAS_E_NONE:
		snprintf(text, text_size,
			"the session does not hold the alias '%.*s'", size,
			init->name);
		break;
	case CLAIM_E_LIMIT:
		ties_explain(s, TIE_E_LIMIT, text, text_size);
		break;
	case CLAIM_E_CALLS:
		sched_explain(home_of(s), SCHED_E_LIMIT, 0, text, text_size);
		break;
	case CLAIM_E_ENDING:
		ties_explain(s, TIE_E_ENDING, text, text_size);
		break;
	default:
		snprintf(text, text_size, "out of memory");
		break;
	}
	return text;
}

/* ---- waits ------------------------------------------------------------- */

/* 0: in the line; or the holder. */
static int
wait_line_up(struct aliases *t, struct alias_wait *wait, uint64_t *holder)
{
	struct alias *a = wait->alias;
	int r = 0;

	pthread_mutex_lock(&t->lock);
	*holder = atomic_load(&a->holder);
	if (!*holder) {
		if (line_get_locked(a))
			list_append(&a->line->waits, &wait->line);
		else
			r = err_raise(-ENOMEM);
	}
	pthread_mutex_unlock(&t->lock);
	return r;
}

static struct alias_wait *
wait_new(struct session *s, const char *name, size_t size)
{
	struct alias_wait *wait =
		FAULT(alias_wait) ? NULL : calloc(1, sizeof(*wait));

	if (!wait)
		return NULL;
	list_init(&wait->line);
	wait->alias = alias_ref(aliases_of(s), name, size);
	if (!wait->alias) {
		free(wait);
		return NULL;
	}
	return wait;
}

void
claim_wait_end(struct sched *sched, struct call *call)
{
	struct aliases *t = &sched->kernel->aliases;
	struct alias_wait *wait = call->wait;

	call->wait = NULL;
	pthread_mutex_lock(&t->lock);
	line_leave_locked(wait->alias, &wait->line);
	pthread_mutex_unlock(&t->lock);
	alias_unref(t, wait->alias);
	free(wait);
}

int
claim_wait(struct session *s, const char *name, size_t size, uint64_t ms,
	uint64_t token)
{
	struct sched *sched = home_of(s);
	struct alias_wait *wait;
	uint64_t id, holder;
	int r;

	if (!name_is_valid(name, size, ENVELOPE_ALIAS_MAX))
		return ALIAS_E_NAME;
	wait = wait_new(s, name, size);
	if (!wait)
		return err_raise(-ENOMEM);
	r = session_sleep(s, token, ms, &id);
	if (r) {
		alias_unref(aliases_of(s), wait->alias);
		free(wait);
		return r == SCHED_E_LIMIT ? CLAIM_E_CALLS : -ENOMEM;
	}
	wait->call = id;
	calls_find(&sched->calls, id)->wait = wait;
	r = wait_line_up(aliases_of(s), wait, &holder);
	if (!r && holder)
		r = sched_reply(
			sched, id, EVD_STATUS_OK, &holder, sizeof(holder));
	if (r)
		session_forget(s, id);
	return r;
}

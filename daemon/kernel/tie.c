#include "kernel/tie.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/log.h"
#include "kernel/claim.h"
#include "kernel/crowd.h"
#include "kernel/names.h"
#include "kernel/notice.h"
#include "kernel/sched.h"

/* Shared by all that are told of one end. */
struct tie_story {
	_Atomic uint32_t refs;
	enum tie_end_why why;
	char *text;  /* behind the name */
	char name[]; /* of the session that ended */
};

struct tie_end {
	struct list
		link; /* in ties.ends; empty: it is over, or not yet there */
	struct sched *home;
	uint64_t session;
	uint64_t number; /* in ties.places, if it wants to be told; 0 */
	uint8_t index;   /* in tie.ends */
	/* what it has told the other end */
	bool cut; /* the tie ended, not the session */
	enum tie_end_why why;
	struct tie_story *story;
};

/* The way to the other end, if that is on another scheduler. */
struct tie_trip {
	struct sched_task task;
	struct tie *tie;
};

/* Each end has a reference as long as it is in its list or what it tells is
 * on its way. */
struct tie {
	_Atomic uint32_t refs;
	bool link;
	struct tie_end ends[2]; /* the one that asked for it; the other */
	struct tie_trip *trips; /* of each end; NULL: both live here */
	char *alias;            /* of the asked one; behind the name */
	char name[];            /* of the one that asked */
};

static struct sched *
home_of(const struct session *s)
{
	return atomic_load_explicit(&s->home, memory_order_relaxed);
}

static struct tie *
tie_of(struct tie_end *end)
{
	return container_of(end - end->index, struct tie, ends[0]);
}

static struct tie_end *
other_of(struct tie_end *end)
{
	return &tie_of(end)->ends[!end->index];
}

/* ---- what is shared ---------------------------------------------------- */

/* NULL when out of memory: then they learn no more than why. */
static struct tie_story *
story_new(const struct session *s, enum tie_end_why why, const char *text)
{
	const char *name = session_name(s);
	size_t size = strlen(name) + 1, more = text ? strlen(text) + 1 : 1;
	struct tie_story *story = malloc(sizeof(*story) + size + more);

	if (!story)
		return NULL;
	atomic_init(&story->refs, 1);
	story->why = why;
	memcpy(story->name, name, size);
	story->text = story->name + size;
	memcpy(story->text, text ? text : "", more);
	return story;
}

static struct tie_story *
story_ref(struct tie_story *story)
{
	if (story)
		atomic_fetch_add_explicit(
			&story->refs, 1, memory_order_relaxed);
	return story;
}

static void
story_unref(struct tie_story *story)
{
	if (story && atomic_fetch_sub(&story->refs, 1) == 1)
		free(story);
}

static void
tie_unref(struct tie *tie)
{
	if (atomic_fetch_sub(&tie->refs, 1) > 1)
		return;
	story_unref(tie->ends[0].story);
	story_unref(tie->ends[1].story);
	free(tie->trips);
	free(tie);
}

static struct tie *
tie_new(struct session *s, const struct tie_init *init, struct sched *there)
{
	const char *name = session_name(s);
	const char *alias = init->alias ? init->alias : "";
	size_t size = strlen(name) + 1, more = strlen(alias) + 1;
	struct tie *tie =
		FAULT(tie_new) ? NULL : calloc(1, sizeof(*tie) + size + more);

	if (!tie)
		return NULL;
	if (there != home_of(s)) {
		tie->trips = calloc(2, sizeof(struct tie_trip));
		if (!tie->trips) {
			free(tie);
			return NULL;
		}
		tie->trips[0].tie = tie->trips[1].tie = tie;
	}
	atomic_init(&tie->refs, 2);
	tie->link = init->link;
	memcpy(tie->name, name, size);
	tie->alias = tie->name + size;
	memcpy(tie->alias, alias, more);
	tie->ends[1].index = 1;
	tie->ends[0].session = s->id;
	tie->ends[1].session = init->session;
	tie->ends[0].home = home_of(s);
	tie->ends[1].home = there;
	list_init(&tie->ends[0].link);
	list_init(&tie->ends[1].link);
	return tie;
}

/* ---- the ties of a session --------------------------------------------- */

static uint32_t *
count_of(struct ties *t, struct tie_end *end)
{
	if (tie_of(end)->link)
		return &t->n_links;
	return end->index ? &t->n_watchers : &t->n_watches;
}

static void
end_attach(struct ties *t, struct tie_end *end)
{
	list_append(&t->ends, &end->link);
	++*count_of(t, end);
	t->n_ends++;
	if (end->index == 0)
		t->n++;
}

static bool
end_is_attached(const struct tie_end *end)
{
	return !list_is_empty(&end->link);
}

static void
end_detach(struct ties *t, struct tie_end *end)
{
	list_remove(&end->link);
	--*count_of(t, end);
	t->n_ends--;
	if (end->index == 0)
		t->n--;
	if (end->number)
		ties_number_give(t, end->number);
}

/* ---- being told -------------------------------------------------------- */

/* Other than by its own or somebody's will. */
static bool
is_failure(enum tie_end_why why)
{
	return why == TIE_FAILED || why == TIE_LOST || why == TIE_NONE;
}

const char *
tie_why_word(enum tie_end_why why)
{
	static const char *const words[] = {
		[TIE_NORMAL] = "normal",
		[TIE_STOPPED] = "stopped",
		[TIE_FAILED] = "failed",
		[TIE_LOST] = "connection lost",
		[TIE_NONE] = "no such session",
		[TIE_KILLED] = "killed",
		[TIE_IDLE] = "idle",
		[TIE_UNREFERENCED] = "unreferenced",
	};

	return words[why];
}

/* What @end is told of @from, the other end. */
static void
describe(struct tie_end *end, const struct tie_end *from, struct notice *n)
{
	const struct tie *tie = tie_of(end);
	const struct tie_story *story = from->story;
	const char *name = from->index ? tie->alias : tie->name;

	*n = (struct notice){
		.watch = end->number,
		.session = from->session,
		.alias = *name || !story ? name : story->name,
		.reason = tie_why_word(from->why),
		.text = story ? story->text : NULL,
	};
}

static void
tell_down(struct session *s, const struct notice *n)
{
	struct sched *sched = home_of(s);
	struct notice brief = *n;
	struct msg *m = notice_new(&sched->pool, notice_down, n);

	if (!m) {
		brief.text = NULL;
		m = notice_new(&sched->pool, notice_down, &brief);
	}
	if (!m) {
		log_err("kernel.no-memory", "what=down session=%" PRIu64,
			n->session);
		return;
	}
	m->to = s->id;
	sched_control(sched, m);
}

/* In a turn of its own: what failed may be what a handler just stopped. */
struct takedown {
	struct sched_task task;
	uint64_t session;
	char text[SESSION_REASON_MAX];
};

static void
on_takedown_drop(struct sched_task *task)
{
	free(container_of(task, struct takedown, task));
}

static void
on_takedown(struct sched *sched, struct sched_task *task)
{
	struct takedown *t = container_of(task, struct takedown, task);
	struct session *s = session_find(sched->kernel, t->session);

	if (s && home_of(s) == sched)
		session_fail(s, "%s", t->text);
	free(t);
}

static void
take_down(struct session *s, const struct notice *n)
{
	struct sched *sched = home_of(s);
	struct takedown *t = malloc(sizeof(*t));

	if (!t) {
		session_stop(s);
		return;
	}
	t->task.run = on_takedown;
	t->task.drop = on_takedown_drop;
	t->session = s->id;
	snprintf(t->text, sizeof(t->text),
		"the linked session %" PRIu64 "%s%s ended: %s%s%s", n->session,
		*n->alias ? " " : "", n->alias, n->reason,
		n->text && *n->text ? ": " : "", n->text ? n->text : "");
	sched_run_on(sched, sched, &t->task);
}

/* The other end, @from, is over: on the thread of @end's home. */
static void
end_told(struct tie_end *end, struct tie_end *from)
{
	struct tie *tie = tie_of(end);
	struct notice n;
	struct session *s;

	if (!end_is_attached(end))
		return;
	s = session_find(end->home->kernel, end->session);
	describe(end, from, &n);
	end_detach(s->ties, end);
	if (!end->number || from->cut)
		; /* it does not want to know */
	else if (!tie->link || s->ties->trap)
		tell_down(s, &n);
	else if (is_failure(from->why))
		take_down(s, &n);
	tie_unref(tie);
}

/* ---- telling ----------------------------------------------------------- */

static void
on_trip_drop(struct sched_task *task)
{
	tie_unref(container_of(task, struct tie_trip, task)->tie);
}

static void
on_told(struct sched *sched, struct sched_task *task)
{
	struct tie_trip *trip = container_of(task, struct tie_trip, task);
	struct tie *tie = trip->tie;
	struct tie_end *from = &tie->ends[trip - tie->trips];

	(void)sched;
	end_told(other_of(from), from);
	tie_unref(tie);
}

/* @end is in no list any more; its reference goes with what it tells. */
static void
end_tell(struct tie_end *end, enum tie_end_why why, struct tie_story *story)
{
	struct tie *tie = tie_of(end);
	struct tie_end *other = other_of(end);
	struct tie_trip *trip;

	end->why = why;
	end->story = story_ref(story);
	if (!tie->trips) {
		end_told(other, end);
		tie_unref(tie);
		return;
	}
	trip = &tie->trips[end->index];
	trip->task.run = on_told;
	trip->task.drop = on_trip_drop;
	sched_run_on(end->home, other->home, &trip->task);
}

/* It goes on without a state: its places in line are left. */
static void
ties_keep(struct session *s, struct ties *t)
{
	free(t->places);
	if (list_is_empty(&t->claims)) {
		free(t);
		return;
	}
	t->places = NULL;
	t->n_places = t->free = t->n_told = 0;
	t->trap = false;
	s->ties = t;
}

void
ties_drop(struct session *s)
{
	if (!s->ties)
		return;
	claims_end_all(s);
	ties_keep(s, TAKE(s->ties));
}

void
ties_end(struct session *s, enum tie_end_why why, const char *text)
{
	struct ties *t = s->ties;
	struct tie_story *story;

	if (!t)
		return;
	claims_end(s);
	names_end(s);
	crowds_end(s);
	s->ties = NULL; /* nothing below finds its way back to it */
	story = t->n_ends ? story_new(s, why, text) : NULL;
	while (!list_is_empty(&t->ends)) {
		struct tie_end *end =
			container_of(t->ends.next, struct tie_end, link);

		end_detach(t, end);
		end_tell(end, why, story);
	}
	story_unref(story);
	ties_keep(s, t);
}

/* A tie is half of either end. */
size_t
tie_memory(const struct session *s)
{
	return s->ties->n_ends * sizeof(struct tie) / 2;
}

/* ---- making ------------------------------------------------------------ */

/* Can anybody be told of the end of @t, which lives here? */
static enum tie_end_why
state_of(const struct session *t)
{
	if (!t || t->life >= SESSION_STOPPING)
		return TIE_NONE;
	return t->life == SESSION_FAILED ? TIE_FAILED : TIE_NORMAL;
}

/* The other end is made on its home. It is told as if it had ended if that
 * cannot be. */
static void
end_make(struct tie_end *end)
{
	struct session *t = session_find(end->home->kernel, end->session);
	enum tie_end_why why;
	struct tie_story *story = NULL;
	struct ties *ties = NULL;

	if (t && home_of(t) != end->home)
		t = NULL;
	why = state_of(t);
	if (why == TIE_NORMAL) {
		ties = ties_get(t);
		if (ties && tie_of(end)->link &&
			ties_number(ties, end, TIE_KIND_END, &end->number))
			ties = NULL;
	}
	if (ties) {
		end_attach(ties, end);
		return;
	}
	if (why == TIE_NORMAL) {
		why = TIE_FAILED;
		story = story_new(t, why, "out of memory for a watch of it");
	} else if (why == TIE_FAILED) {
		story = story_new(t, why, t->health ? t->health->reason : NULL);
	}
	end_tell(end, why, story);
	story_unref(story);
}

static void
on_make(struct sched *sched, struct sched_task *task)
{
	struct tie_trip *trip = container_of(task, struct tie_trip, task);

	(void)sched;
	end_make(&trip->tie->ends[1]);
}

static bool
is_linked(const struct session *s, uint64_t other)
{
	if (!s->ties)
		return false;
	LIST_FOREACH (node, &s->ties->ends) {
		struct tie_end *end = container_of(node, struct tie_end, link);

		if (tie_of(end)->link && other_of(end)->session == other)
			return true;
	}
	return false;
}

int
tie_make(struct session *s, const struct tie_init *init, uint64_t *number)
{
	struct sched *here = home_of(s), *there = here;
	struct session *t = session_find(here->kernel, init->session);
	int r = init->session == s->id ? TIE_E_SELF : ties_check(s);
	struct tie *tie;

	*number = 0;
	if (r || (init->link && is_linked(s, init->session)))
		return r;
	if (t)
		there = home_of(t);
	if (!ties_get(s))
		return err_raise(-ENOMEM);
	tie = tie_new(s, init, there);
	if (!tie || ties_number(s->ties, &tie->ends[0], TIE_KIND_END,
			    &tie->ends[0].number)) {
		if (tie) {
			tie_unref(tie);
			tie_unref(tie);
		}
		return err_raise(-ENOMEM);
	}
	*number = tie->ends[0].number;
	end_attach(s->ties, &tie->ends[0]);
	if (there == here) {
		end_make(&tie->ends[1]);
		return 0;
	}
	tie->trips[1].task.run = on_make;
	tie->trips[1].task.drop = on_trip_drop;
	sched_run_on(here, there, &tie->trips[1].task);
	return 0;
}

/* On the thread of its session. */
static void
end_cut(struct session *s, struct tie_end *end)
{
	end_detach(s->ties, end);
	end->cut = true;
	end_tell(end, TIE_NORMAL, NULL);
}

int
tie_unwatch(struct session *s, uint64_t number)
{
	struct tie_end *end = ties_find(s->ties, number, TIE_KIND_END);

	if (!end || tie_of(end)->link)
		return TIE_E_NONE;
	end_cut(s, end);
	return 0;
}

int
tie_cut(struct session *s, uint64_t number)
{
	struct tie_end *end = ties_find(s->ties, number, TIE_KIND_END);

	if (!end)
		return TIE_E_NONE;
	end_cut(s, end);
	return 0;
}

int
tie_unlink(struct session *s, uint64_t other)
{
	int r = TIE_E_NONE;

	if (!s->ties)
		return r;
	LIST_FOREACH (node, &s->ties->ends) {
		struct tie_end *end = container_of(node, struct tie_end, link);

		if (!tie_of(end)->link || other_of(end)->session != other)
			continue;
		end_cut(s, end);
		r = 0;
	}
	return r;
}

#include "kernel/names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/list.h"
#include "kernel/notice.h"
#include "kernel/sched.h"
#include "kernel/ties.h"
#include "proto/envelope.h"
#include "proto/pattern.h"

struct names_change {
	struct names_change *next;
	uint64_t session; /* the holder; 0: none any more */
	uint64_t lost;    /* so many before it are not here */
	char alias[];
};

struct names_watch {
	struct list link; /* in aliases.watches, under the lock */
	struct list own;  /* in ties.names */
	struct sched *home;
	uint64_t session;
	uint64_t number;
	/* under the lock: */
	struct names_change *first, *last;
	struct names_watch *next_wake;
	uint64_t lost;
	uint32_t n;    /* changes */
	bool on_way;   /* the task is: it must not be freed */
	bool is_ended; /* nobody wants it: the task frees it */
	struct sched_task task;
	size_t size;
	char pattern[];
};

static struct sched *
home_of(const struct session *s)
{
	return atomic_load_explicit(&s->home, memory_order_relaxed);
}

/* ---- writing down ------------------------------------------------------ */

static void
add_locked(struct names_watch *w, const struct alias *a, uint64_t session)
{
	struct names_change *change = NULL;

	if (w->n < NAMES_PENDING_MAX && !FAULT(names_change))
		change = malloc(sizeof(*change) + a->size + 1u);
	if (!change) {
		w->lost++;
		return;
	}
	change->next = NULL;
	change->session = session;
	change->lost = w->lost;
	w->lost = 0;
	memcpy(change->alias, a->name, a->size + 1u);
	if (w->first)
		w->last->next = change;
	else
		w->first = change;
	w->last = change;
	w->n++;
}

void
names_changed_locked(struct aliases *t, const struct alias *a, uint64_t session,
	struct names_watch **wake)
{
	LIST_FOREACH (node, &t->watches) {
		struct names_watch *w =
			container_of(node, struct names_watch, link);

		if (!pattern_matches(w->pattern, w->size, a->name, a->size))
			continue;
		add_locked(w, a, session);
		if (w->on_way)
			continue;
		w->on_way = true;
		w->next_wake = *wake;
		*wake = w;
	}
}

void
names_wake(struct sched *sched, struct names_watch *wake)
{
	while (wake) {
		struct names_watch *w = wake;

		wake = w->next_wake; /* it may be gone once it is under way */
		sched_run_on(sched, w->home, &w->task);
	}
}

/* ---- telling ----------------------------------------------------------- */

static void
changes_free(struct names_watch *w)
{
	while (w->first) {
		struct names_change *change = w->first;

		w->first = change->next;
		free(change);
	}
}

static void
watch_free(struct names_watch *w)
{
	changes_free(w);
	free(w);
}

/* The next change to be told, or NULL; @room: there may be more. */
static struct names_change *
take(struct names_watch *w, bool room)
{
	struct aliases *t = &w->home->kernel->aliases;
	struct names_change *change = NULL;

	pthread_mutex_lock(&t->lock);
	if (room && w->first) {
		change = w->first;
		w->first = change->next;
		w->n--;
	} else {
		w->on_way = false;
	}
	pthread_mutex_unlock(&t->lock);
	return change;
}

static void
tell(struct session *s, struct names_watch *w,
	const struct names_change *change)
{
	struct sched *sched = home_of(s);
	struct notice n = {
		.watch = w->number,
		.session = change->session,
		.lost = change->lost,
		.up = change->session != 0,
		.alias = change->alias,
	};
	struct msg *m = notice_new(&sched->pool, notice_name, &n);

	if (!m) {
		pthread_mutex_lock(&sched->kernel->aliases.lock);
		w->lost += change->lost + 1;
		pthread_mutex_unlock(&sched->kernel->aliases.lock);
		return;
	}
	s->ties->n_told++;
	m->to = s->id;
	sched_control(sched, m);
}

/* @w is on its way, here. */
static void
tell_all(struct names_watch *w)
{
	struct session *s = session_find(w->home->kernel, w->session);
	struct names_change *change;

	while ((change = take(w, s->ties->n_told < NAMES_TOLD_MAX))) {
		tell(s, w, change);
		free(change);
	}
}

static void
on_woken(struct sched *sched, struct sched_task *task)
{
	struct names_watch *w = container_of(task, struct names_watch, task);

	(void)sched;
	if (w->is_ended)
		watch_free(w);
	else
		tell_all(w);
}

static void
on_woken_drop(struct sched_task *task)
{
	struct names_watch *w = container_of(task, struct names_watch, task);

	if (w->is_ended)
		watch_free(w);
	else
		w->on_way = false; /* its session ends it */
}

/* Go on with those that had to wait for room. */
void
names_taken(struct session *s)
{
	struct ties *t = s->ties;

	if (!t || !t->n_told || --t->n_told != NAMES_TOLD_MAX / 2)
		return;
	LIST_FOREACH (node, &t->names) {
		struct names_watch *w =
			container_of(node, struct names_watch, own);
		struct aliases *aliases = &w->home->kernel->aliases;
		bool mine;

		pthread_mutex_lock(&aliases->lock);
		mine = !w->on_way && w->first;
		if (mine)
			w->on_way = true;
		pthread_mutex_unlock(&aliases->lock);
		if (mine)
			tell_all(w);
	}
}

/* ---- beginning and end ------------------------------------------------- */

static struct names_watch *
watch_new(struct session *s, const char *pattern, size_t size)
{
	struct names_watch *w =
		FAULT(names_watch) ? NULL : calloc(1, sizeof(*w) + size);

	if (!w)
		return NULL;
	w->home = home_of(s);
	w->session = s->id;
	w->task.run = on_woken;
	w->task.drop = on_woken_drop;
	w->size = size;
	memcpy(w->pattern, pattern, size);
	return w;
}

int
names_watch(
	struct session *s, const char *pattern, size_t size, uint64_t *number)
{
	struct aliases *t = &home_of(s)->kernel->aliases;
	struct names_watch *w;
	int r = pattern_is_valid(pattern, size, ENVELOPE_ALIAS_MAX)
			? ties_check(s)
			: TIE_E_PATTERN;

	if (r)
		return r;
	w = ties_get(s) ? watch_new(s, pattern, size) : NULL;
	if (!w || ties_number(s->ties, w, TIE_KIND_NAMES, &w->number)) {
		free(w);
		return err_raise(-ENOMEM);
	}
	s->ties->n++;
	s->ties->n_watches++;
	list_append(&s->ties->names, &w->own);
	pthread_mutex_lock(&t->lock);
	list_append(&t->watches, &w->link);
	pthread_mutex_unlock(&t->lock);
	*number = w->number;
	return 0;
}

size_t
names_memory(const struct session *s)
{
	struct aliases *t = &home_of(s)->kernel->aliases;
	size_t size = 0;

	pthread_mutex_lock(&t->lock);
	LIST_FOREACH (node, &s->ties->names) {
		const struct names_watch *w =
			container_of(node, struct names_watch, own);

		size += sizeof(*w) + w->size +
			w->n * (sizeof(*w->first) + NAMES_CHANGE_GUESS);
	}
	pthread_mutex_unlock(&t->lock);
	return size;
}

static void
watch_end(struct session *s, struct names_watch *w)
{
	struct aliases *t = &w->home->kernel->aliases;
	bool on_way;

	list_remove(&w->own);
	s->ties->n--;
	s->ties->n_watches--;
	ties_number_give(s->ties, w->number);
	pthread_mutex_lock(&t->lock);
	list_remove(&w->link);
	on_way = w->on_way;
	pthread_mutex_unlock(&t->lock);
	w->is_ended = true; /* its home's, like the task */
	if (!on_way)
		watch_free(w);
}

int
names_unwatch(struct session *s, uint64_t number)
{
	struct names_watch *w = ties_find(s->ties, number, TIE_KIND_NAMES);

	if (!w)
		return TIE_E_NONE;
	watch_end(s, w);
	return 0;
}

void
names_end(struct session *s)
{
	while (!list_is_empty(&s->ties->names))
		watch_end(s, container_of(s->ties->names.next,
				     struct names_watch, own));
}

/* Queue: see queue.h. Moves are in move.c. */
#include "kernel/queue.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "kernel/aside.h"
#include "kernel/journal.h"
#include "kernel/notice.h"

static struct sched *
home_of(const struct session *s)
{
	return atomic_load_explicit(&s->home, memory_order_relaxed);
}

/* ---- the spec ------------------------------------------------------------ */

/* Cursors of classes are ours; those of walks are not. */
static void
forget_classes(struct session *s)
{
	struct mailbox_cursor **link, *c;

	if (!s->box.rare)
		return;
	link = &s->box.rare->cursors;
	while ((c = *link)) {
		if (!c->owner) {
			link = &c->next;
			continue;
		}
		*link = c->next;
		free(c);
	}
}

void
queue_configure(struct session *s)
{
	const struct session_spec *spec = s->spec;

	forget_classes(s);
	mailbox_limit(&s->box, spec->max_events, spec->max_bytes);
	s->box_bits &= (uint8_t) ~(BOX_WATER | BOX_CHOOSY);
	if (spec->n_rules || spec->overflow != OVERFLOW_BLOCK)
		s->box_bits |= BOX_CHOOSY;
	if (spec->high.events || spec->high.percent) {
		s->box_bits |= BOX_WATER;
		queue_rise(home_of(s), s);
	}
	if (s->box_bits & BOX_ABOVE)
		queue_fall(home_of(s), s);
}

void
queue_use(struct session *s, struct session_spec *spec)
{
	s->spec = spec_ref(spec);
	queue_configure(s);
}

void
queue_deinit(struct session *s)
{
	forget_classes(s);
}

/* ---- levels -------------------------------------------------------------- */

/* Whether the mailbox holds @over (or, else, no more than) the mark; of
 * percents, of either bound. */
static bool
is_over(const struct mailbox *box, const struct water_mark *mark, bool high)
{
	uint64_t n = (uint64_t)box->n * 100, size = box->size * 100;
	uint64_t n_mark = (uint64_t)box->max_n * mark->percent;
	uint64_t size_mark = box->max_size * mark->percent;

	if (mark->events)
		return high ? box->n >= mark->events : box->n > mark->events;
	return high ? n >= n_mark || size >= size_mark
		    : n > n_mark || size > size_mark;
}

static void
tell_level(struct sched *s, struct session *t, const char *event)
{
	const char *name = t->spec->water_alias;
	const struct mailbox *box = &t->box;
	uint64_t to = atomic_load(&t->id);
	char text[512];
	int size;
	struct msg *m;

	if (name)
		to = alias_holder(&s->kernel->aliases, name, strlen(name));
	if (!to)
		return;
	size = snprintf(text, sizeof(text),
		"alias=%s queued=%" PRIu32 " queued_bytes=%" PRIu64
		" max_events=%" PRIu32 " max_bytes=%" PRIu64,
		session_name(t), box->n, box->size, box->max_n, box->max_size);
	m = msg_new(&s->pool, &(struct msg_init){.event = event,
				      .event_size = (uint8_t)strlen(event),
				      .event_static = true,
				      .data = text,
				      .size = (uint32_t)size});
	if (!m)
		return; /* the next crossing tells again */
	m->to = to;
	m->from = atomic_load(&t->id);
	sched_control(s, m);
}

void
queue_rise(struct sched *s, struct session *t)
{
	if ((t->box_bits & BOX_ABOVE) ||
		!is_over(&t->box, &t->spec->high, true))
		return;
	t->box_bits |= BOX_ABOVE;
	tell_level(s, t, notice_high_water);
}

void
queue_fall(struct sched *s, struct session *t)
{
	if ((t->box_bits & BOX_WATER) && is_over(&t->box, &t->spec->low, false))
		return;
	t->box_bits &= (uint8_t)~BOX_ABOVE;
	if (t->box_bits & BOX_WATER)
		tell_level(s, t, notice_low_water);
}

/* Events have left it by another way than its handlers. */
static void
emptied(struct sched *s, struct session *t)
{
	if (t->box_bits & BOX_ABOVE)
		queue_fall(s, t);
	sched_enqueue(s, t);
	session_admit_parked(s, t); /* last: posters are told */
}

/* ---- gaps ---------------------------------------------------------------- */

static void
tell_gap(struct sched *s, struct session *t)
{
	struct msg *m =
		t->life == SESSION_FAILED
			? NULL
			: notice_new(&s->pool, notice_gap, &(struct notice){0});

	if (!m)
		return; /* the next that is dropped tells of all */
	m->to = atomic_load(&t->id);
	t->box.rare->gap.on_way = true;
	sched_control(s, m);
}

/* @id is about to be dropped. */
static void
note_gap(struct sched *s, struct session *t, uint64_t id)
{
	struct mailbox_gap *gap;

	if (!t->ops->gaps || !mailbox_rare(&t->box))
		return;
	gap = &t->box.rare->gap;
	if (!gap->n++)
		gap->from = id;
	gap->to = id;
	if (!gap->on_way)
		tell_gap(s, t);
}

void
queue_gap_fill(struct session *s, struct msg *m)
{
	struct mailbox_gap *gap = s->box.rare ? &s->box.rare->gap : NULL;

	if (!gap || !gap->n)
		return; /* it tells of another mailbox */
	notice_widen(m, gap->from, gap->to, gap->n);
	gap->n = 0;
}

void
queue_gap_taken(struct session *s)
{
	if (s->box.rare)
		s->box.rare->gap.on_way = false;
}

/* ---- overflow ------------------------------------------------------------ */

/* By how far the class has been searched for its oldest event. */
static struct mailbox_cursor *
class_cursor(struct session *t, const void *class)
{
	struct mailbox_cursor *c = t->box.rare ? t->box.rare->cursors : NULL;

	while (c && c->owner != class)
		c = c->next;
	if (c)
		return c;
	c = FAULT(class_cursor) ? NULL : calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	c->owner = class;
	if (mailbox_track(&t->box, c)) {
		free(c);
		return NULL;
	}
	return c;
}

/* What tells classes apart, by address. */
static const void *
class_of(const struct session_spec *spec, const struct msg *m)
{
	size_t i = spec_overflow_class(spec, m->event);

	return i < spec->n_rules ? (const void *)&spec->rules[i] : spec;
}

/* The oldest event of @class, taken out, or NULL. No event is passed twice:
 * they come behind the cursor and leave before it. */
static struct msg *
take_oldest(struct session *t, struct mailbox_cursor *c, const void *class)
{
	struct msg *m;

	while ((m = mailbox_ahead(&t->box, c))) {
		if (class_of(t->spec, m) == class)
			return mailbox_take_ahead(&t->box, c);
		c->at = m;
	}
	return NULL;
}

/* Evict older events of the class of @m until it fits. 0, SCHED_E_FULL: it does
 * not, or SCHED_E_NO_SESSION: @t has ended meanwhile. */
static int
make_room(struct sched *s, struct session *t, struct msg *m)
{
	const void *class = class_of(t->spec, m);
	struct mailbox_cursor *c = class_cursor(t, class);
	uint64_t id = atomic_load(&t->id);
	struct msg *old;

	/* Nothing overtakes what is parked. */
	if (!c || t->box.n_parked || msg_charge(m) > t->box.max_size)
		return SCHED_E_FULL;
	while (!mailbox_has_room(&t->box, m)) {
		old = take_oldest(t, c, class);
		if (!old)
			return SCHED_E_FULL;
		s->queued--;
		note_gap(s, t, old->id);
		if ((m->flags & MSG_BEYOND) && !(old->flags & MSG_CHARGED))
			msg_uncharge(&s->pool, m); /* nor is its place */
		msg_end(s, t, old, MSG_END_DROPPED, EVD_STATUS_DROPPED, NULL);
		if (session_find(s->kernel, id) != t)
			return SCHED_E_NO_SESSION; /* its poster stopped it */
	}
	return 0;
}

static void
drop(struct sched *s, struct session *t, struct msg *m)
{
	m->flags |= MSG_ADMITTED;
	if (m->flags & MSG_EXTRA)
		aside_admitted(s, t, m);
	t->accepted++;
	s->counters.accepted++;
	note_gap(s, t, m->id);
	msg_end(s, t, m, MSG_END_DROPPED, EVD_STATUS_DROPPED, NULL);
}

static int
drop_oldest(struct sched *s, struct session *t, struct msg *m)
{
	int r = make_room(s, t, m);

	if (r == SCHED_E_NO_SESSION)
		return r;
	if (r) {
		drop(s, t, m);
		return 0;
	}
	if (session_journal(t))
		return journal_take(s, t, m);
	mailbox_push(&t->box, m);
	if (t->run == SESSION_IDLE && !t->queued)
		sched_enqueue(s, t);
	sched_admitted(s, t, m);
	return 0;
}

int
queue_overflow(struct sched *s, struct session *t, struct msg *m)
{
	switch (spec_overflow(t->spec, m->event)) {
	case OVERFLOW_BLOCK:
		return mailbox_push(&t->box, m) ? SCHED_E_FULL : 0;
	case OVERFLOW_REFUSE:
		if (m->flags & MSG_MANY) /* others have it */
			note_gap(s, t, m->id);
		return SCHED_E_FULL;
	case OVERFLOW_DROP_OLDEST:
		return drop_oldest(s, t, m);
	case OVERFLOW_DROP_NEWEST:
		drop(s, t, m);
		return 0;
	case OVERFLOW_DISCONNECT:
		if (!t->ops->overflowed)
			return SCHED_E_FULL;
		drop(s, t, m);
		t->ops->overflowed(t);
		return 0;
	}
	return SCHED_E_FULL;
}

void
queue_narrow(struct session *s)
{
	struct mailbox *box = &s->box;

	/* one that is empty takes one more, so that it always gets on */
	mailbox_limit(box, box->n < box->max_n ? box->n : box->max_n,
		box->size < box->max_size ? box->size : box->max_size);
}

bool
queue_widen(struct session *s)
{
	const struct session_spec *spec = s->spec;

	if (!spec || (s->box.max_n == spec->max_events &&
			     s->box.max_size == spec->max_bytes))
		return false;
	mailbox_limit(&s->box, spec->max_events, spec->max_bytes);
	return true;
}

/* ---- pausing ------------------------------------------------------------- */

void
queue_pause(struct session *s)
{
	s->box_bits |= BOX_PAUSED;
}

void
queue_resume(struct session *s)
{
	s->box_bits &= (uint8_t)~BOX_PAUSED;
	sched_enqueue(home_of(s), s);
}

/* ---- looking ------------------------------------------------------------- */

void
queue_walk_open(struct queue_walk *w, struct session *s)
{
	*w = (struct queue_walk){
		.session = atomic_load(&s->id), .left = s->box.n};
	if (mailbox_track(&s->box, &w->cursor))
		w->left = 0; /* out of memory: it sees nothing */
	else
		w->open = true;
}

void
queue_look_open(struct queue_walk *w, struct session *s)
{
	queue_walk_open(w, s);
	w->stored = journal_mark(s);
	if (w->left)
		w->left -= (uint32_t)journal_backlog(s);
}

void
queue_walk_close(struct queue_walk *w, struct sched *s)
{
	struct session *t = session_find(s->kernel, w->session);

	if (w->open && t)
		mailbox_untrack(&t->box, &w->cursor);
	w->open = false;
}

const struct msg *
queue_walk_next(struct queue_walk *w, struct session *s)
{
	struct msg *m = w->left ? mailbox_ahead(&s->box, &w->cursor) : NULL;

	if (m) {
		w->left--;
		w->cursor.at = m;
	}
	return m;
}

uint32_t
queue_purge(struct sched *sched, struct queue_walk *w, const char *event)
{
	struct session *s = session_find(sched->kernel, w->session);
	uint32_t n = 0, looks = QUEUE_STEP;
	struct msg *m = NULL;

	while (s && looks-- && w->left &&
		(m = mailbox_ahead(&s->box, &w->cursor))) {
		w->left--;
		if (event && strcmp(m->event, event) != 0) {
			w->cursor.at = m;
			continue;
		}
		mailbox_take_ahead(&s->box, &w->cursor);
		sched->queued--;
		n++;
		msg_end(sched, s, m, MSG_END_CANCELLED, EVD_STATUS_CANCELLED,
			NULL);
		s = session_find(sched->kernel, w->session);
	}
	if (s && session_journal(s))
		journal_ran(sched, s);
	if (!s || !w->left || (!m && !journal_is_reading(s)))
		queue_walk_close(w, sched);
	if (s)
		emptied(sched, s);
	return n;
}

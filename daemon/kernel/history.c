/* History: lines in pieces of memory, see history.h. */
#include "kernel/history.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "kernel/alias.h"

enum { TEXT_MAX = 200 }; /* bytes of why */

struct history *
history_of(struct sched *s)
{
	uint64_t max = s->kernel->limits.history / HISTORY_PIECE;

	if (s->history || !max)
		return s->history;
	s->history = FAULT(history_new) ? NULL : calloc(1, sizeof(*s->history));
	if (!s->history)
		return NULL;
	s->history->max = max < UINT32_MAX ? (uint32_t)max : UINT32_MAX;
	s->history->timer.type = TIMER_HISTORY;
	return s->history;
}

void
history_drop_first(struct history *h)
{
	struct history_piece *p = h->first;

	if (p->no && h->n_gone == h->gone_room) {
		uint32_t room = h->gone_room ? h->gone_room * 2 : 16;
		uint64_t *gone = realloc(h->gone, room * sizeof(*gone));

		if (gone) {
			h->gone = gone;
			h->gone_room = room;
		}
	}
	if (p->no && h->n_gone < h->gone_room) /* else the next run does it */
		h->gone[h->n_gone++] = p->no;
	h->first = p->next;
	if (!h->first) {
		h->last = NULL;
		h->newest = NULL;
	}
	h->n--;
	free(p);
}

static struct history_piece *
piece_with_room(struct history *h, size_t size)
{
	struct history_piece *p = h->last;

	if (p && p->used + size <= HISTORY_PIECE)
		return p;
	while (h->n >= h->max)
		history_drop_first(h);
	p = FAULT(history_piece) ? NULL : calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	if (h->last)
		h->last->next = p;
	else
		h->first = p;
	h->last = p;
	h->n++;
	return p;
}

/* ---- writing ------------------------------------------------------------- */

/* Texts of a line, which may be "". */
struct words {
	const char *alias, *event, *text;
};

static uint8_t
length(const char *text, size_t most)
{
	return (uint8_t)strnlen(text, most);
}

static char *
put_text(char *at, const char *text, uint8_t size)
{
	memcpy(at, text, size);
	at[size] = '\0';
	return at + size + 1;
}

/* Those of durable events are for the store as well. */
static void
add(struct sched *s, const struct history_line *head, const struct words *w,
	bool keep)
{
	struct history *h = history_of(s);
	struct history_line line = *head, *to;
	struct history_piece *p;
	char *at;

	line.alias_size = length(w->alias, 255);
	line.event_size = length(w->event, 255);
	line.text_size = length(w->text, TEXT_MAX);
	line.size = (uint16_t)((sizeof(line) + line.alias_size +
				       line.event_size + line.text_size + 10) /
			       8 * 8);
	p = h ? piece_with_room(h, line.size) : NULL;
	if (!p)
		return;
	to = (struct history_line *)(void *)(p->bytes + p->used);
	*to = line;
	at = put_text(to->texts, w->alias, line.alias_size);
	at = put_text(at, w->event, line.event_size);
	put_text(at, w->text, line.text_size);
	p->used += line.size;
	h->newest = to;
	if (!keep)
		return;
	p->keeps = true;
	history_touch(s);
}

static bool
is_durable(const struct msg *m)
{
	const struct msg_extra *extra = msg_extra(m);

	return extra && extra->batch;
}

static bool
is_wanted(const struct msg *m)
{
	const struct msg_extra *extra = msg_extra(m);

	return extra && (extra->traced || extra->batch);
}

/* Exact for those that ask. */
static uint64_t
wall_of(struct sched *s, const struct msg *m)
{
	const struct msg_extra *extra = msg_extra(m);

	return extra && extra->traced ? clock_wall(s->kernel->clock)
				      : sched_wall_ns(s);
}

static uint64_t
now_of(const struct sched *s, const struct msg *m)
{
	return msg_extra(m)->traced ? clock_now(s->kernel->clock) : s->now_ns;
}

static struct history_line
line_of(struct sched *s, const struct msg *m, enum history_step step)
{
	return (struct history_line){
		.id = m->id,
		.time_ns = wall_of(s, m),
		.step = (uint8_t)step,
		.attempt = m->attempt,
	};
}

static struct words
words_of(const struct session *t, const struct msg *m, const char *text)
{
	return (struct words){
		t ? session_name(t) : "", m->event, text ? text : ""};
}

void
history_accepted(struct sched *s, const struct session *t, const struct msg *m)
{
	struct history_line line;
	struct words w;

	if (!is_wanted(m))
		return;
	line = line_of(s, m, HISTORY_ACCEPTED);
	w = words_of(t, m, NULL);
	line.who = m->from;
	add(s, &line, &w, is_durable(m));
}

void
history_taken(struct sched *s, const struct msg *m)
{
	if (is_wanted(m))
		msg_extra(m)->taken_ns = now_of(s, m);
}

/* The last line of all is one of this delivery. */
static bool
is_told(const struct sched *s, const struct msg *m)
{
	const struct history_line *line =
		s->history ? s->history->newest : NULL;

	return line && line->id == m->id && line->step == HISTORY_DELIVERED &&
	       line->attempt == m->attempt;
}

void
history_delivered(struct sched *s, const struct session *t, const struct msg *m,
	const char *to)
{
	struct history_line line;
	struct words w;

	if (!is_wanted(m) || (!to && is_told(s, m)))
		return;
	line = line_of(s, m, HISTORY_DELIVERED);
	w = words_of(t, m, to);
	line.who = session_id(t);
	add(s, &line, &w, is_durable(m));
}

void
history_returned(struct sched *s, const struct session *t, const struct msg *m,
	uint64_t rest_ns, const char *why)
{
	struct history_line line;
	struct words w;

	if (!is_wanted(m))
		return;
	line = line_of(s, m, HISTORY_RETURNED);
	w = words_of(t, m, why);
	line.who = session_id(t);
	line.ns = rest_ns;
	add(s, &line, &w, is_durable(m));
}

void
history_repeated(struct sched *s, const struct session *t, const struct msg *m,
	uint64_t first)
{
	char text[64] = "before a start of the daemon";
	struct history_line line;
	struct words w;

	if (!is_wanted(m))
		return;
	if (first)
		snprintf(text, sizeof(text), "as event %" PRIu64, first);
	line = line_of(s, m, HISTORY_REPEATED);
	w = words_of(t, m, text);
	line.who = m->from;
	add(s, &line, &w, false);
}

void
history_restored(struct sched *s, const struct session *t, const struct msg *m)
{
	struct history_line line = line_of(s, m, HISTORY_RESTORED);
	struct words w = words_of(t, m, NULL);

	line.who = session_id(t);
	add(s, &line, &w, true);
}

/* One of many copies of an event is not worth a line. */
void
history_ended(struct sched *s, const struct session *owner, const struct msg *m,
	const struct history_end *end)
{
	bool bad = end->end != MSG_END_HANDLED && m->op == MSG_EVENT &&
		   !(m->flags & MSG_SHARED);
	const struct msg_extra *extra = msg_extra(m);
	struct history_line line;
	struct words w;

	if ((!bad && !is_wanted(m)) || s->closing)
		return;
	line = line_of(s, m, HISTORY_ENDED);
	w = words_of(owner, m, end->text);
	if (end->alias)
		w.alias = end->alias;
	else if (!*w.alias && s->leaving)
		w.alias = s->leaving;
	line.who = owner ? atomic_load(&owner->id) : m->to;
	line.end = (uint8_t)end->end;
	line.status = (uint32_t)end->status;
	if (extra && extra->taken_ns)
		line.ns = now_of(s, m) - extra->taken_ns;
	add(s, &line, &w, is_durable(m));
}

/* ---- reading ------------------------------------------------------------- */

static const struct history_line *
line_in(const struct history_piece *p, uint32_t at)
{
	return (const struct history_line *)(const void *)(p->bytes + at);
}

static bool
is_in(const struct history_piece *p, const struct history_line *line)
{
	const uint8_t *at = (const uint8_t *)line;

	return at >= p->bytes && at < p->bytes + p->used;
}

const struct history_line *
history_next(struct sched *s, uint64_t id, const struct history_line *after)
{
	const struct history_piece *p = s->history ? s->history->first : NULL;
	uint32_t at = 0;

	while (p && after && !is_in(p, after))
		p = p->next;
	if (p && after)
		at = (uint32_t)((const uint8_t *)after - p->bytes) +
		     after->size;
	for (; p; p = p->next, at = 0)
		for (; at < p->used; at += line_in(p, at)->size)
			if (line_in(p, at)->id == id)
				return line_in(p, at);
	return NULL;
}

void
history_free(struct sched *s)
{
	struct history *h = s->history;

	if (!h)
		return;
	timers_remove(&s->timers, &h->timer);
	while (h->first)
		history_drop_first(h);
	free(h->gone);
	free(h);
	s->history = NULL;
}

/* The verb why: what became of one event. Each scheduler tells the lines of its
 * history, and the dead letter that it keeps. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/dead.h"
#include "kernel/history.h"
#include "verb/gather.h"

enum { LINES_MAX = 1000 };

struct why {
	Eventd__V1__History history;
	Eventd__V1__HistoryLine *lines[LINES_MAX];
};

static const char *const end_words[] = {
	[MSG_END_HANDLED] = "handled",
	[MSG_END_EXPIRED] = "expired",
	[MSG_END_CANCELLED] = "cancelled",
	[MSG_END_DROPPED] = "dropped",
	[MSG_END_DEAD] = "dead",
	[MSG_END_REFUSED] = "refused",
};

static bool
sees(const struct gather *g, const char *alias)
{
	return rights_may(g->rights, RIGHT_SEE, alias, NULL);
}

static Eventd__V1__HistoryLine *
line_new(struct gather *g, Eventd__V1__HistoryStep step, const char *alias,
	const char *event, const char *text)
{
	struct why *why = g->out;
	Eventd__V1__HistoryLine *line = NULL;

	if (why->history.n_lines < LINES_MAX)
		line = gather_alloc(g, sizeof(*line));
	if (!line)
		return NULL;
	eventd__v1__history_line__init(line);
	line->step = step;
	line->alias = gather_string(g, alias);
	line->event = gather_string(g, event);
	line->text = gather_string(g, text);
	if (!line->alias || !line->event || !line->text)
		return NULL;
	why->lines[why->history.n_lines++] = line;
	return line;
}

static void
put_line(struct gather *g, const struct history_line *l)
{
	Eventd__V1__HistoryLine *line =
		line_new(g, (Eventd__V1__HistoryStep)l->step, history_alias(l),
			history_event(l), history_text(l));

	if (!line)
		return;
	line->time_ns = (int64_t)l->time_ns;
	line->session = l->who;
	line->attempt = l->attempt;
	line->took_ns = l->ns;
	line->status = l->status;
	if (l->step == HISTORY_ENDED)
		line->end = (char *)(uintptr_t)end_words[l->end];
}

static void
put_letters(struct gather *g, struct sched *s)
{
	for (struct dead *d = NULL;
		(d = dead_next(s, d ? d->id : 0, DEAD_NONE));) {
		Eventd__V1__HistoryLine *line;

		if (d->msg->id != g->args[0] || !sees(g, d->alias))
			continue;
		line = line_new(g, EVENTD__V1__HISTORY_STEP__STEP_LETTER,
			d->alias, d->msg->event, dead_text(d));
		if (!line)
			return;
		line->time_ns = (int64_t)d->time_ns;
		line->session = d->session;
		line->attempt = d->msg->attempt;
		line->status = (uint32_t)d->status;
		line->letter = d->id;
		line->end = (char *)(uintptr_t)dead_word(
			(enum dead_reason)d->reason);
	}
}

static bool
why_visit(struct gather *g, struct sched *s)
{
	const struct history_line *l = NULL;

	while ((l = history_next(s, g->args[0], l)))
		if (sees(g, history_alias(l)))
			put_line(g, l);
	put_letters(g, s);
	return true;
}

/* By time, but the letter is where it is now; those of one time stay as they
 * came. */
static bool
is_before(const Eventd__V1__HistoryLine *a, const Eventd__V1__HistoryLine *b)
{
	if (!a->letter != !b->letter)
		return !a->letter;
	return a->time_ns < b->time_ns;
}

static void
sort(struct why *why)
{
	for (size_t i = 1; i < why->history.n_lines; i++) {
		Eventd__V1__HistoryLine *line = why->lines[i];
		size_t at = i;

		for (; at && is_before(line, why->lines[at - 1]); at--)
			why->lines[at] = why->lines[at - 1];
		why->lines[at] = line;
	}
}

static void
why_finish(struct gather *g)
{
	struct why *why = g->out;

	if (g->status)
		return;
	if (why->history.n_lines) {
		sort(why);
		return;
	}
	g->status = EVD_STATUS_NOT_FOUND;
	snprintf(g->text, sizeof(g->text),
		"nothing is known of event %" PRIu64
		": it ended too long ago (History=), or it was volatile, "
		"not traced, and nothing befell it",
		g->args[0]);
}

void
verb_why(struct peer *p, const Eventd__V1__Request *r)
{
	struct gather *g = gather_new(p, r->id);
	struct why *why = g ? gather_alloc(g, sizeof(*why)) : NULL;

	if (!g)
		return;
	if (!why) {
		gather_answer(g);
		return;
	}
	eventd__v1__history__init(&why->history);
	why->history.lines = why->lines;
	g->out = why;
	g->args[0] = r->why->id;
	g->visit = why_visit;
	g->finish = why_finish;
	g->response.result_case = EVENTD__V1__RESPONSE__RESULT_HISTORY;
	g->response.history = &why->history;
	gather_start(g, g->home);
}

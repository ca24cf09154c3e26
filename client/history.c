/* What became of an event: see eventd/history.h. Belongs to the thread that
 * uses the handle; a history to whoever owns it: a struct response, see
 * look.c. */

#include "page.h"

EVD_PAGE(history, line, History, history, lines)

static const Eventd__V1__HistoryLine *
line_pb(const struct evd_line *line)
{
	return (const Eventd__V1__HistoryLine *)line;
}

int
evd_why(struct evd *c, uint64_t id, struct evd_history **history)
{
	Eventd__V1__Request request = EVENTD__V1__REQUEST__INIT;
	Eventd__V1__Why why = EVENTD__V1__WHY__INIT;

	EVD_CHECK(c);
	why.id = id;
	request.verb_case = EVENTD__V1__REQUEST__VERB_WHY;
	request.why = &why;
	return evd__request_for(c, &request,
		EVENTD__V1__RESPONSE__RESULT_HISTORY,
		(struct response **)history);
}

uint64_t
evd_traced_id(const struct evd *c)
{
	return evd__is_foreign(c) ? 0 : c->traced_id;
}

bool
evd__on_traced(
	struct evd *c, struct evd_event *ev, const Eventd__V1__Traced *traced)
{
	c->traced_id = traced->id;
	if (c->sync.post == traced->seq)
		return false;
	evd__event_init(c, ev, EVD_POST_ID);
	ev->number = c->win.base + traced->seq;
	ev->e.id = traced->id;
	return true;
}

int
evd_line_step(const struct evd_line *line)
{
	return (int)line_pb(line)->step;
}

const char *
evd_line_word(const struct evd_line *line)
{
	static const char *const words[] = {
		[EVD_STEP_ACCEPTED] = "accepted",
		[EVD_STEP_DELIVERED] = "delivered",
		[EVD_STEP_RETURNED] = "returned",
		[EVD_STEP_ENDED] = "ended",
		[EVD_STEP_RESTORED] = "restored",
		[EVD_STEP_LETTER] = "dead-letter",
		[EVD_STEP_REPEATED] = "repeated",
	};
	unsigned step = (unsigned)line_pb(line)->step;

	return step < sizeof(words) / sizeof(words[0]) && words[step]
		       ? words[step]
		       : "unknown";
}

int64_t
evd_line_time_ns(const struct evd_line *line)
{
	return line_pb(line)->time_ns;
}

uint64_t
evd_line_session(const struct evd_line *line)
{
	return line_pb(line)->session;
}

const char *
evd_line_alias(const struct evd_line *line)
{
	return line_pb(line)->alias;
}

const char *
evd_line_event(const struct evd_line *line)
{
	return line_pb(line)->event;
}

uint32_t
evd_line_attempt(const struct evd_line *line)
{
	return line_pb(line)->attempt;
}

uint64_t
evd_line_took_ns(const struct evd_line *line)
{
	return line_pb(line)->took_ns;
}

int
evd_line_status(const struct evd_line *line)
{
	return (int)line_pb(line)->status;
}

const char *
evd_line_end(const struct evd_line *line)
{
	return line_pb(line)->end;
}

const char *
evd_line_text(const struct evd_line *line)
{
	return line_pb(line)->text;
}

uint64_t
evd_line_letter(const struct evd_line *line)
{
	return line_pb(line)->letter;
}

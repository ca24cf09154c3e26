/* Queue: mailboxes. Belongs to the thread that uses the handle; pages to
 * whoever owns them: a struct response each, see look.c. */
#include "eventd/queue.h"

#include <stddef.h>

#include "page.h"

EVD_PAGE(queue, queued, QueuePage, queue_page, events)

static const Eventd__V1__QueuedEvent *
queued_pb(const struct evd_queued *q)
{
	return (const Eventd__V1__QueuedEvent *)q;
}

static int
peek(struct evd *c, Eventd__V1__QueuePeek *peek, struct evd_queue **page)
{
	Eventd__V1__Request request = EVENTD__V1__REQUEST__INIT;
	int r;

	EVD_CHECK(c);
	r = evd__alias_check(c, peek->alias);
	if (r)
		return r;
	request.verb_case = EVENTD__V1__REQUEST__VERB_QUEUE_PEEK;
	request.queue_peek = peek;
	return evd__request_for(c, &request,
		EVENTD__V1__RESPONSE__RESULT_QUEUE_PAGE,
		(struct response **)page);
}

int
evd_queue_peek(struct evd *c, const char *alias, uint64_t skip, uint32_t limit,
	uint32_t bytes, struct evd_queue **page)
{
	Eventd__V1__QueuePeek want = EVENTD__V1__QUEUE_PEEK__INIT;

	want.alias = (char *)(uintptr_t)alias;
	want.skip = skip;
	want.limit = limit;
	want.bytes = bytes;
	return peek(c, &want, page);
}

int
evd_queue_peek_id(struct evd *c, const char *alias, uint64_t id, uint32_t bytes,
	struct evd_queue **page)
{
	Eventd__V1__QueuePeek want = EVENTD__V1__QUEUE_PEEK__INIT;

	want.alias = (char *)(uintptr_t)alias;
	want.id = id;
	want.bytes = bytes;
	return peek(c, &want, page);
}

uint64_t
evd_queued_position(const struct evd_queued *q)
{
	return queued_pb(q)->position;
}

uint64_t
evd_queued_id(const struct evd_queued *q)
{
	return queued_pb(q)->id;
}

const char *
evd_queued_event(const struct evd_queued *q)
{
	return queued_pb(q)->event;
}

uint64_t
evd_queued_from(const struct evd_queued *q)
{
	return queued_pb(q)->from;
}

uint64_t
evd_queued_size(const struct evd_queued *q)
{
	return queued_pb(q)->size;
}

const void *
evd_queued_data(const struct evd_queued *q, size_t *size)
{
	*size = queued_pb(q)->payload.len;
	return queued_pb(q)->payload.data;
}

bool
evd_queued_is_call(const struct evd_queued *q)
{
	return queued_pb(q)->call;
}

uint32_t
evd_queued_attempt(const struct evd_queued *q)
{
	return queued_pb(q)->attempt;
}

bool
evd_queued_is_urgent(const struct evd_queued *q)
{
	return queued_pb(q)->urgent;
}

/* ---- changes ---- */

/* Send @request about @alias; @changed, if not NULL, is copied. */
static int
change(struct evd *c, const char *alias, Eventd__V1__Request *request,
	Eventd__V1__QueueChanged *changed)
{
	struct response *response;
	int r;

	EVD_CHECK(c);
	r = evd__alias_check(c, alias);
	if (!r)
		r = evd__request_for(c, request,
			EVENTD__V1__RESPONSE__RESULT_QUEUE_CHANGED, &response);
	if (r)
		return r;
	*changed = *response->pb->queue_changed;
	evd__response_free(response);
	return 0;
}

int
evd_queue_pause(struct evd *c, const char *alias)
{
	Eventd__V1__Request request = EVENTD__V1__REQUEST__INIT;
	Eventd__V1__QueuePause pause = EVENTD__V1__QUEUE_PAUSE__INIT;
	Eventd__V1__QueueChanged changed = EVENTD__V1__QUEUE_CHANGED__INIT;

	pause.alias = (char *)(uintptr_t)alias;
	request.verb_case = EVENTD__V1__REQUEST__VERB_QUEUE_PAUSE;
	request.queue_pause = &pause;
	return change(c, alias, &request, &changed);
}

int
evd_queue_resume(struct evd *c, const char *alias)
{
	Eventd__V1__Request request = EVENTD__V1__REQUEST__INIT;
	Eventd__V1__QueueResume resume = EVENTD__V1__QUEUE_RESUME__INIT;
	Eventd__V1__QueueChanged changed = EVENTD__V1__QUEUE_CHANGED__INIT;

	resume.alias = (char *)(uintptr_t)alias;
	request.verb_case = EVENTD__V1__REQUEST__VERB_QUEUE_RESUME;
	request.queue_resume = &resume;
	return change(c, alias, &request, &changed);
}

int
evd_queue_purge(
	struct evd *c, const char *alias, const char *event, uint64_t *purged)
{
	Eventd__V1__Request request = EVENTD__V1__REQUEST__INIT;
	Eventd__V1__QueuePurge purge = EVENTD__V1__QUEUE_PURGE__INIT;
	Eventd__V1__QueueChanged changed = EVENTD__V1__QUEUE_CHANGED__INIT;
	int r;

	EVD_CHECK(c);
	r = event && *event ? evd__event_check(c, event) : 0;
	if (r)
		return r;
	purge.alias = (char *)(uintptr_t)alias;
	if (event)
		purge.event = (char *)(uintptr_t)event;
	request.verb_case = EVENTD__V1__REQUEST__VERB_QUEUE_PURGE;
	request.queue_purge = &purge;
	r = change(c, alias, &request, &changed);
	if (!r && purged)
		*purged = changed.events;
	return r;
}

int
evd_queue_move(struct evd *c, const char *alias, const char *to, uint64_t limit,
	uint64_t *moved, uint64_t *left)
{
	Eventd__V1__Request request = EVENTD__V1__REQUEST__INIT;
	Eventd__V1__QueueMove move = EVENTD__V1__QUEUE_MOVE__INIT;
	Eventd__V1__QueueChanged changed = EVENTD__V1__QUEUE_CHANGED__INIT;
	int r;

	EVD_CHECK(c);
	r = evd__alias_check(c, to);
	if (r)
		return r;
	move.alias = (char *)(uintptr_t)alias;
	move.to = (char *)(uintptr_t)to;
	move.limit = limit;
	request.verb_case = EVENTD__V1__REQUEST__VERB_QUEUE_MOVE;
	request.queue_move = &move;
	r = change(c, alias, &request, &changed);
	if (r)
		return r;
	if (changed.status)
		evd__fail(c, (int)changed.status,
			"%" PRIu64 " events moved, %" PRIu64
			" are left: the mailbox of '%s' takes no more",
			changed.events, changed.left, to);
	if (moved)
		*moved = changed.events;
	if (left)
		*left = changed.left;
	return 0;
}

/* Dead letters. Belongs to the thread that uses the handle; pages to whoever
 * owns them: a struct response each, see look.c. */
#include <stddef.h>

#include "eventd/queue.h"
#include "page.h"

EVD_PAGE(deads, dead, DeadPage, dead_page, letters)

static const Eventd__V1__DeadLetter *
dead_pb(const struct evd_dead *d)
{
	return (const Eventd__V1__DeadLetter *)d;
}

/* ---- looking ---- */

static char *
text_or_empty(const char *text)
{
	return (char *)(uintptr_t)(text ? text : "");
}

int
evd_dead_list(struct evd *c, const struct evd_dead_filter *filter,
	uint64_t after, uint32_t limit, struct evd_deads **page)
{
	Eventd__V1__Request request = EVENTD__V1__REQUEST__INIT;
	Eventd__V1__DeadList list = EVENTD__V1__DEAD_LIST__INIT;

	EVD_CHECK(c);
	if (filter) {
		list.alias = text_or_empty(filter->alias);
		list.reason = text_or_empty(filter->reason);
	}
	list.after = after;
	list.limit = limit;
	request.verb_case = EVENTD__V1__REQUEST__VERB_DEAD_LIST;
	request.dead_list = &list;
	return evd__request_for(c, &request,
		EVENTD__V1__RESPONSE__RESULT_DEAD_PAGE,
		(struct response **)page);
}

int
evd_dead_show(struct evd *c, uint64_t id, struct evd_deads **page)
{
	Eventd__V1__Request request = EVENTD__V1__REQUEST__INIT;
	Eventd__V1__DeadShow show = EVENTD__V1__DEAD_SHOW__INIT;

	EVD_CHECK(c);
	show.id = id;
	request.verb_case = EVENTD__V1__REQUEST__VERB_DEAD_SHOW;
	request.dead_show = &show;
	return evd__request_for(c, &request,
		EVENTD__V1__RESPONSE__RESULT_DEAD_PAGE,
		(struct response **)page);
}

uint64_t
evd_dead_id(const struct evd_dead *d)
{
	return dead_pb(d)->id;
}

const char *
evd_dead_reason(const struct evd_dead *d)
{
	return dead_pb(d)->reason;
}

int
evd_dead_status(const struct evd_dead *d)
{
	return (int)dead_pb(d)->status;
}

const char *
evd_dead_text(const struct evd_dead *d)
{
	return dead_pb(d)->text;
}

const char *
evd_dead_alias(const struct evd_dead *d)
{
	return dead_pb(d)->alias;
}

const char *
evd_dead_event(const struct evd_dead *d)
{
	return dead_pb(d)->event;
}

uint64_t
evd_dead_event_id(const struct evd_dead *d)
{
	return dead_pb(d)->event_id;
}

uint64_t
evd_dead_from(const struct evd_dead *d)
{
	return dead_pb(d)->from;
}

uint64_t
evd_dead_to(const struct evd_dead *d)
{
	return dead_pb(d)->to;
}

uint64_t
evd_dead_size(const struct evd_dead *d)
{
	return dead_pb(d)->size;
}

int64_t
evd_dead_time_ns(const struct evd_dead *d)
{
	return dead_pb(d)->time_ns;
}

uint32_t
evd_dead_attempt(const struct evd_dead *d)
{
	return dead_pb(d)->attempt;
}

const void *
evd_dead_data(const struct evd_dead *d, size_t *size)
{
	*size = dead_pb(d)->payload.len;
	return dead_pb(d)->payload.data;
}

/* ---- changing ---- */

static int
change(struct evd *c, Eventd__V1__Request *request,
	struct evd_dead_result *result)
{
	const Eventd__V1__DeadChanged *pb;
	struct response *response;
	int r = evd__request_for(c, request,
		EVENTD__V1__RESPONSE__RESULT_DEAD_CHANGED, &response);

	if (r)
		return r;
	pb = response->pb->dead_changed;
	*result = (struct evd_dead_result){
		.letters = pb->letters,
		.failed = pb->failed,
		.status = (int)pb->status,
		.next = pb->next,
	};
	if (pb->failed)
		evd__fail_text(c, (int)pb->status, pb->text, strlen(pb->text));
	evd__response_free(response);
	return 0;
}

static int
requeue(struct evd *c, Eventd__V1__DeadRequeue *want, const char *to,
	struct evd_dead_result *result)
{
	Eventd__V1__Request request = EVENTD__V1__REQUEST__INIT;
	int r = to && *to ? evd__alias_check(c, to) : 0;

	if (r)
		return r;
	want->to = text_or_empty(to);
	request.verb_case = EVENTD__V1__REQUEST__VERB_DEAD_REQUEUE;
	request.dead_requeue = want;
	return change(c, &request, result);
}

static int
none_named(struct evd_dead_result *result)
{
	*result = (struct evd_dead_result){.letters = 0};
	return 0;
}

int
evd_dead_requeue(struct evd *c, const uint64_t *ids, size_t n, const char *to,
	struct evd_dead_result *result)
{
	Eventd__V1__DeadRequeue want = EVENTD__V1__DEAD_REQUEUE__INIT;

	EVD_CHECK(c);
	if (!n)
		return none_named(result);
	want.ids = (uint64_t *)(uintptr_t)ids;
	want.n_ids = n;
	return requeue(c, &want, to, result);
}

int
evd_dead_requeue_matching(struct evd *c, const struct evd_dead_filter *filter,
	const char *to, uint64_t after, struct evd_dead_result *result)
{
	Eventd__V1__DeadRequeue want = EVENTD__V1__DEAD_REQUEUE__INIT;

	EVD_CHECK(c);
	want.alias = text_or_empty(filter ? filter->alias : NULL);
	want.reason = text_or_empty(filter ? filter->reason : NULL);
	want.after = after;
	return requeue(c, &want, to, result);
}

static int
purge(struct evd *c, Eventd__V1__DeadPurge *want,
	struct evd_dead_result *result)
{
	Eventd__V1__Request request = EVENTD__V1__REQUEST__INIT;

	request.verb_case = EVENTD__V1__REQUEST__VERB_DEAD_PURGE;
	request.dead_purge = want;
	return change(c, &request, result);
}

int
evd_dead_purge(struct evd *c, const uint64_t *ids, size_t n,
	struct evd_dead_result *result)
{
	Eventd__V1__DeadPurge want = EVENTD__V1__DEAD_PURGE__INIT;

	EVD_CHECK(c);
	if (!n)
		return none_named(result);
	want.ids = (uint64_t *)(uintptr_t)ids;
	want.n_ids = n;
	return purge(c, &want, result);
}

int
evd_dead_purge_matching(struct evd *c, const struct evd_dead_filter *filter,
	uint64_t after, struct evd_dead_result *result)
{
	Eventd__V1__DeadPurge want = EVENTD__V1__DEAD_PURGE__INIT;

	EVD_CHECK(c);
	want.alias = text_or_empty(filter ? filter->alias : NULL);
	want.reason = text_or_empty(filter ? filter->reason : NULL);
	want.after = after;
	return purge(c, &want, result);
}

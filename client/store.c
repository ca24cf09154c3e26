/* Store: how the daemon's store stands. Belongs to the thread that uses the
 * handle. */
#include <stdio.h>
#include <string.h>

#include "eventd/queue.h"
#include "internal.h"

static void
report_get(struct evd_store_report *out, const Eventd__V1__StoreReport *pb)
{
	snprintf(out->state, sizeof(out->state), "%s", pb->state);
	snprintf(out->text, sizeof(out->text), "%s", pb->text);
	out->size = pb->size;
	out->mailboxes = pb->mailboxes;
	out->events = pb->events;
	out->commits = pb->commits;
	out->failed = pb->failed;
	out->last_ns = pb->last_ns;
	out->max_ns = pb->max_ns;
	out->damaged = pb->damaged;
	out->checked = pb->checked;
	out->freed = pb->freed;
	out->lost = pb->lost;
	out->lost_unknown = pb->lost_unknown;
}

static int
ask(struct evd *c, Eventd__V1__Store *store, struct evd_store_report *report)
{
	Eventd__V1__Request request = EVENTD__V1__REQUEST__INIT;
	struct response *response;
	int r;

	request.verb_case = EVENTD__V1__REQUEST__VERB_STORE;
	request.store = store;
	r = evd__request_for(
		c, &request, EVENTD__V1__RESPONSE__RESULT_STORE, &response);
	if (r)
		return r;
	report_get(report, response->pb->store);
	evd__response_free(response);
	return 0;
}

int
evd_store(struct evd *c, enum evd_store_op op, const char *path,
	struct evd_store_report *report)
{
	Eventd__V1__Store store = EVENTD__V1__STORE__INIT;

	EVD_CHECK(c);
	store.op = (Eventd__V1__StoreOp)op;
	if (path)
		store.path = (char *)(uintptr_t)path;
	return ask(c, &store, report);
}

int
evd_store_salvage(struct evd *c, const char *from, const char *to,
	struct evd_store_report *report)
{
	Eventd__V1__Store store = EVENTD__V1__STORE__INIT;

	EVD_CHECK(c);
	store.op = EVENTD__V1__STORE_OP__STORE_SALVAGE;
	store.path = (char *)(uintptr_t)from;
	store.to = (char *)(uintptr_t)to;
	return ask(c, &store, report);
}

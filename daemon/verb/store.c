/* The verb store: how it stands, whether it is sound, a copy of it, and so on.
 * All but the first are for managers. */
#include <stdio.h>
#include <string.h>

#include "verb/daemon_ops.h"
#include "verb/gather.h"

static void
store_done(
	void *arg, int status, const char *text, const struct store_report *r)
{
	struct gather *g = arg;
	Eventd__V1__StoreReport report = EVENTD__V1__STORE_REPORT__INIT;

	g->status = status;
	if (status) {
		snprintf(g->text, sizeof(g->text), "%s", text);
		gather_answer(g);
		return;
	}
	report.state = (char *)r->state;
	report.text = (char *)r->text;
	report.size = r->size;
	report.mailboxes = r->mailboxes;
	report.events = r->events;
	report.commits = r->commits;
	report.failed = r->failed;
	report.last_ns = r->last_ns;
	report.max_ns = r->max_ns;
	report.damaged = r->damaged;
	report.checked = r->checked;
	report.freed = r->freed;
	report.lost = r->lost;
	report.lost_unknown = r->lost_unknown;
	g->response.result_case = EVENTD__V1__RESPONSE__RESULT_STORE;
	g->response.store = &report;
	gather_answer(g);
}

void
verb_store(struct peer *p, const Eventd__V1__Request *r)
{
	const struct peer_shared *shared = p->shared;
	struct store_ask ask = {
		(int)r->store->op, r->store->path, r->store->to};
	struct gather *g;

	if (r->store->op != EVENTD__V1__STORE_OP__STORE_STATS &&
		!verb_may_manage(p, r->id))
		return;
	if (!shared->daemon || !shared->daemon->store) {
		verb_refuse(p, r->id, EVD_STATUS_UNSUPPORTED,
			"nothing here is stored");
		return;
	}
	g = gather_new(p, r->id);
	if (g)
		shared->daemon->store(
			shared->daemon_data, g->home, &ask, store_done, g);
}

/* Give: what a consumer tells of one delivery, beside that it is settled.
 * Belongs to the thread that uses the handle. */
#include <inttypes.h>

#include "internal.h"

static int
check(struct evd *c, const struct evd_event *event)
{
	const struct binding *b;

	if (event->type != EVD_DELIVERY)
		return evd__fail(
			c, EVD_STATUS_INVALID, "only a delivery is held");
	if (event->epoch != c->epoch)
		return evd__fail(c, EVD_STATUS_LOST,
			"the connection that the event came by is lost");
	b = evd__binding(c, event->binding);
	if (!b || b->serial != event->serial)
		return evd__fail(c, EVD_STATUS_NOT_FOUND,
			"binding %" PRIu32 " is gone", event->binding);
	return 0;
}

int
evd_give_back(struct evd *c, const struct evd_event *event, int delay_ms)
{
	Eventd__V1__Request request = EVENTD__V1__REQUEST__INIT;
	Eventd__V1__GiveBack give = EVENTD__V1__GIVE_BACK__INIT;
	int r;

	EVD_CHECK(c);
	r = check(c, event);
	if (r)
		return r;
	give.binding = event->binding;
	give.delivery = event->number;
	give.delayed = delay_ms >= 0;
	give.delay_ms = delay_ms > 0 ? (uint32_t)delay_ms : 0;
	request.verb_case = EVENTD__V1__REQUEST__VERB_GIVE_BACK;
	request.give_back = &give;
	return evd__request(c, &request, 0, NULL);
}

int
evd_extend(struct evd *c, const struct evd_event *event, uint32_t lease_ms)
{
	Eventd__V1__Request request = EVENTD__V1__REQUEST__INIT;
	Eventd__V1__Extend extend = EVENTD__V1__EXTEND__INIT;
	int r;

	EVD_CHECK(c);
	r = check(c, event);
	if (r)
		return r;
	extend.binding = event->binding;
	extend.delivery = event->number;
	extend.lease_ms = lease_ms;
	request.verb_case = EVENTD__V1__REQUEST__VERB_EXTEND;
	request.extend = &extend;
	return evd__request(c, &request, 0, NULL);
}

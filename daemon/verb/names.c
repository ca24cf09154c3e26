/* Verbs about names: resolve, bind, unbind. */
#include <string.h>

#include "verb/verb.h"

/* Whether somebody holds an alias is told to those who may do something with
 * it. */
static bool
may_know(struct peer *p, uint64_t id, const char *alias)
{
	return rights_some(p->rights, RIGHT_POST, alias) ||
	       rights_some(p->rights, RIGHT_CALL, alias) ||
	       verb_may(p, id, RIGHT_SEE, alias, NULL);
}

void
verb_resolve(struct peer *p, const Eventd__V1__Request *r)
{
	Eventd__V1__Response response = EVENTD__V1__RESPONSE__INIT;
	Eventd__V1__Resolved resolved = EVENTD__V1__RESOLVED__INIT;
	char text[VERB_TEXT_MAX] = "";
	int status;

	if (!verb_name_ok(p, r->id, r->resolve->alias) ||
		!may_know(p, r->id, r->resolve->alias))
		return;
	status = p->ops->resolve(
		p, r->resolve->alias, &resolved.ref, text, sizeof(text));
	if (status) {
		verb_refuse(p, r->id, status, text);
		return;
	}
	response.id = r->id;
	response.result_case = EVENTD__V1__RESPONSE__RESULT_RESOLVED;
	response.resolved = &resolved;
	p->ops->respond(p, &response);
}

void
verb_bind(struct peer *p, const Eventd__V1__Request *r)
{
	enum right right = r->bind->mode == EVENTD__V1__BIND_MODE__BIND_MONITOR
				   ? RIGHT_SEE
				   : RIGHT_BIND;

	if (verb_is_open(p, r->id) && verb_name_ok(p, r->id, r->bind->alias) &&
		verb_may(p, r->id, right, r->bind->alias, NULL))
		p->ops->bind(p, r->id, r->bind);
}

void
verb_unbind(struct peer *p, const Eventd__V1__Request *r)
{
	p->ops->unbind(p, r->id, r->unbind->binding);
}

void
verb_give_back(struct peer *p, const Eventd__V1__Request *r)
{
	const Eventd__V1__GiveBack *g = r->give_back;
	struct delivery_change change = {.binding = g->binding,
		.delivery = g->delivery,
		.ms = g->delay_ms,
		.timed = g->delayed,
		.give_back = true};

	p->ops->change(p, r->id, &change);
}

void
verb_extend(struct peer *p, const Eventd__V1__Request *r)
{
	const Eventd__V1__Extend *e = r->extend;
	struct delivery_change change = {.binding = e->binding,
		.delivery = e->delivery,
		.ms = e->lease_ms,
		.timed = e->lease_ms > 0};

	p->ops->change(p, r->id, &change);
}

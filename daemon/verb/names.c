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
	if (verb_is_open(p, r->id) && verb_name_ok(p, r->id, r->bind->alias) &&
		verb_may(p, r->id, RIGHT_BIND, r->bind->alias, NULL))
		p->ops->bind(p, r->id, r->bind);
}

void
verb_unbind(struct peer *p, const Eventd__V1__Request *r)
{
	p->ops->unbind(p, r->id, r->unbind->binding);
}

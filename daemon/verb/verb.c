#include "verb/verb.h"

#include <stdio.h>
#include <string.h>

#include "envelope.h"

void
verb_refuse(struct peer *p, uint64_t id, int status, const char *text)
{
	Eventd__V1__Response response = EVENTD__V1__RESPONSE__INIT;

	response.id = id;
	response.status = (uint32_t)status;
	response.text = (char *)text;
	p->ops->respond(p, &response);
}

bool
verb_is_open(struct peer *p, uint64_t id)
{
	struct sched *s = atomic_load(&p->session->home);

	if (!atomic_load(&s->kernel->stopping))
		return true;
	verb_refuse(p, id, EVD_STATUS_UNAVAILABLE, "eventd is stopping");
	return false;
}

bool
verb_name_ok(struct peer *p, uint64_t id, const char *alias)
{
	if (name_is_valid(alias, strlen(alias), ENVELOPE_ALIAS_MAX))
		return true;
	verb_refuse(p, id, EVD_STATUS_INVALID,
		"an alias is 1 to 255 of A-Z a-z 0-9 _ . / -");
	return false;
}

bool
verb_may_manage(struct peer *p, uint64_t id)
{
	char text[VERB_TEXT_MAX];

	if (p->uid == 0 || p->uid == p->shared->owner)
		return true;
	snprintf(text, sizeof(text),
		"uid %u may not manage the daemon, only root and uid %u may",
		(unsigned)p->uid, (unsigned)p->shared->owner);
	verb_refuse(p, id, EVD_STATUS_DENIED, text);
	return false;
}

void
verb_ping(struct peer *p, const Eventd__V1__Request *r)
{
	Eventd__V1__Response response = EVENTD__V1__RESPONSE__INIT;
	Eventd__V1__Pong pong = EVENTD__V1__PONG__INIT;

	pong.payload = r->ping->payload;
	response.id = r->id;
	response.result_case = EVENTD__V1__RESPONSE__RESULT_PONG;
	response.pong = &pong;
	p->ops->respond(p, &response);
}

void
verb_run(struct peer *p, const Eventd__V1__Request *r)
{
	switch (r->verb_case) {
	case EVENTD__V1__REQUEST__VERB_RESOLVE:
		verb_resolve(p, r);
		return;
	case EVENTD__V1__REQUEST__VERB_BIND:
		verb_bind(p, r);
		return;
	case EVENTD__V1__REQUEST__VERB_UNBIND:
		verb_unbind(p, r);
		return;
	case EVENTD__V1__REQUEST__VERB_WAIT:
		verb_wait(p, r);
		return;
	case EVENTD__V1__REQUEST__VERB_WATCH:
		verb_watch(p, r);
		return;
	case EVENTD__V1__REQUEST__VERB_UNWATCH:
		verb_unwatch(p, r);
		return;
	case EVENTD__V1__REQUEST__VERB_WATCH_NAMES:
		verb_watch_names(p, r);
		return;
	case EVENTD__V1__REQUEST__VERB_WILL:
		verb_will(p, r);
		return;
	case EVENTD__V1__REQUEST__VERB_GOODBYE:
		verb_goodbye(p, r);
		return;
	case EVENTD__V1__REQUEST__VERB_DELAY:
		verb_delay(p, r);
		return;
	case EVENTD__V1__REQUEST__VERB_CANCEL:
		verb_cancel(p, r);
		return;
	case EVENTD__V1__REQUEST__VERB_ADJUST:
		verb_adjust(p, r);
		return;
	case EVENTD__V1__REQUEST__VERB_CALENDAR:
		verb_calendar(p, r);
		return;
	case EVENTD__V1__REQUEST__VERB_LIST:
		verb_list(p, r);
		return;
	case EVENTD__V1__REQUEST__VERB_STATUS:
		verb_status(p, r);
		return;
	case EVENTD__V1__REQUEST__VERB_TIMERS:
		verb_timers(p, r);
		return;
	case EVENTD__V1__REQUEST__VERB_RELOAD:
		verb_reload(p, r);
		return;
	case EVENTD__V1__REQUEST__VERB_PING:
		verb_ping(p, r);
		return;
	case EVENTD__V1__REQUEST__VERB_RESTART:
		verb_restart(p, r);
		return;
	case EVENTD__V1__REQUEST__VERB_CANCEL_CALL:
		verb_cancel_call(p, r);
		return;
	case EVENTD__V1__REQUEST__VERB_PROFILE:
		verb_profile(p, r);
		return;
	case EVENTD__V1__REQUEST__VERB_SPAWN:
		verb_spawn(p, r);
		return;
	case EVENTD__V1__REQUEST__VERB_STOP:
		verb_stop(p, r);
		return;
	case EVENTD__V1__REQUEST__VERB__NOT_SET:
	default: /* of a later version */
		verb_refuse(p, r->id, EVD_STATUS_UNSUPPORTED,
			"this daemon does not know the request");
	}
}

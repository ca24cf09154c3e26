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
verb_is_manager(const struct peer *p)
{
	return p->uid == 0 || p->uid == p->shared->owner;
}

bool
verb_may_manage(struct peer *p, uint64_t id)
{
	char text[VERB_TEXT_MAX];

	if (verb_is_manager(p))
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

#define ROW(verb, run) [EVENTD__V1__REQUEST__VERB_##verb] = (run)

void
verb_run(struct peer *p, const Eventd__V1__Request *r)
{
	static void (*const verbs[])(
		struct peer * p, const Eventd__V1__Request *r) = {
		ROW(RESOLVE, verb_resolve),
		ROW(BIND, verb_bind),
		ROW(UNBIND, verb_unbind),
		ROW(WAIT, verb_wait),
		ROW(WATCH, verb_watch),
		ROW(UNWATCH, verb_unwatch),
		ROW(WATCH_NAMES, verb_watch_names),
		ROW(WILL, verb_will),
		ROW(GOODBYE, verb_goodbye),
		ROW(DELAY, verb_delay),
		ROW(CANCEL, verb_cancel),
		ROW(ADJUST, verb_adjust),
		ROW(CALENDAR, verb_calendar),
		ROW(LIST, verb_list),
		ROW(STATUS, verb_status),
		ROW(TIMERS, verb_timers),
		ROW(RELOAD, verb_reload),
		ROW(PING, verb_ping),
		ROW(RESTART, verb_restart),
		ROW(CANCEL_CALL, verb_cancel_call),
		ROW(PROFILE, verb_profile),
		ROW(SPAWN, verb_spawn),
		ROW(STOP, verb_stop),
		ROW(QUEUE_PEEK, verb_queue_peek),
		ROW(QUEUE_PAUSE, verb_queue_pause),
		ROW(QUEUE_RESUME, verb_queue_resume),
		ROW(QUEUE_PURGE, verb_queue_purge),
		ROW(QUEUE_MOVE, verb_queue_move),
		ROW(DEAD_LIST, verb_dead_list),
		ROW(DEAD_SHOW, verb_dead_show),
		ROW(DEAD_REQUEUE, verb_dead_requeue),
		ROW(DEAD_PURGE, verb_dead_purge),
	};
	size_t i = (size_t)r->verb_case;

	if (i < sizeof(verbs) / sizeof(verbs[0]) && verbs[i])
		verbs[i](p, r);
	else /* none, or of a later version */
		verb_refuse(p, r->id, EVD_STATUS_UNSUPPORTED,
			"this daemon does not know the request");
}

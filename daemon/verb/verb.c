#include "verb/verb.h"

#include <inttypes.h>
#include <string.h>

#include "base/log.h"
#include "envelope.h"
#include "kernel/alias.h"
#include "kernel/ties.h"

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

int
peer_deny(struct peer *p, enum right right, const char *alias,
	const char *event, char *text, size_t size)
{
	struct sched *s = atomic_load(&p->session->home);
	struct verdict v = rights_ask(p->rights, right, alias, event);
	struct session *t = session_find(s->kernel,
		alias_holder(&s->kernel->aliases, alias, strlen(alias)));

	rights_explain(p->rights, &v, text, size);
	atomic_fetch_add_explicit(&p->shared->denied, 1, memory_order_relaxed);
	if (p->user)
		atomic_fetch_add_explicit(
			&p->user->denied, 1, memory_order_relaxed);
	if (v.rule)
		atomic_fetch_add_explicit(
			&v.rule->refused, 1, memory_order_relaxed);
	if (t)
		atomic_fetch_add_explicit(&t->denied, 1, memory_order_relaxed);
	log_warn("policy.denied",
		"conn=%" PRIu64 " uid=%u pid=%d right=%s alias=%s event=%s "
		"rule=%s:%u",
		p->session->id, (unsigned)p->uid, (int)p->pid,
		right_words[right], alias, event ? event : "",
		v.rule ? v.rule->file : "default", v.rule ? v.rule->line : 0);
	return EVD_STATUS_DENIED;
}

bool
verb_may_post_all(struct peer *p, uint64_t id, const char *alias)
{
	char text[VERB_TEXT_MAX];

	if (!verb_may(p, id, RIGHT_POST, alias, NULL))
		return false;
	if (rights_all(p->rights, RIGHT_POST, alias))
		return true;
	(void)peer_deny(p, RIGHT_POST, alias, NULL, text, sizeof(text));
	verb_refuse(p, id, EVD_STATUS_DENIED,
		"there are events that you may not post to the target, and "
		"those to be posted may be of any name");
	return false;
}

bool
verb_may(struct peer *p, uint64_t id, enum right right, const char *alias,
	const char *event)
{
	char text[VERB_TEXT_MAX];

	if (rights_may(p->rights, right, alias, event))
		return true;
	verb_refuse(p, id,
		peer_deny(p, right, alias, event, text, sizeof(text)), text);
	return false;
}

static void
charge(struct peer *p, enum charge_kind kind, uint32_t *charged, uint32_t now)
{
	struct sched *s = atomic_load(&p->session->home);
	int64_t more = (int64_t)now - *charged;

	if (!more)
		return;
	*charged = now;
	user_charge(&s->kernel->users, p->user, kind, more, s->now_ns);
}

void
peer_charge(struct peer *p)
{
	const struct session *s = p->session;

	charge(p, CHARGE_CALLS, &p->charged_calls, s->n_calls);
	charge(p, CHARGE_WATCHES, &p->charged_watches,
		s->ties ? s->ties->n : 0);
}

int
peer_lacks_room(struct peer *p, enum charge_kind kind, uint64_t n, char *text,
	size_t size)
{
	struct sched *s = atomic_load(&p->session->home);

	peer_charge(p);
	if (user_has_room(p->user, kind, 0, n))
		return EVD_STATUS_OK;
	return user_refuse(
		&s->kernel->users, p->user, kind, s->now_ns, text, size);
}

bool
verb_has_room(struct peer *p, uint64_t id, enum charge_kind kind, uint64_t n)
{
	char text[VERB_TEXT_MAX];
	int status = peer_lacks_room(p, kind, n, text, sizeof(text));

	if (status)
		verb_refuse(p, id, status, text);
	return !status;
}

bool
verb_may_manage(struct peer *p, uint64_t id)
{
	return verb_may(p, id, RIGHT_MANAGE, "", NULL);
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
		ROW(GIVE_BACK, verb_give_back),
		ROW(EXTEND, verb_extend),
		ROW(STORE, verb_store),
		ROW(WHY, verb_why),
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
		ROW(LIMITS, verb_limits),
		ROW(POLICY, verb_policy),
		ROW(POLICY_EXPLAIN, verb_policy_explain),
		ROW(PROFILE, verb_profile),
		ROW(SPAWN, verb_spawn),
		ROW(STOP, verb_stop),
		ROW(SET_EXECUTOR, verb_set_executor),
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

/* Ends: what becomes of an event that is over, and who is told of it. The
 * scheduler's thread. */
#include "kernel/sched.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "kernel/aside.h"
#include "kernel/dead.h"
#include "kernel/history.h"
#include "kernel/journal.h"
#include "kernel/note.h"

/* ---- tellings ---------------------------------------------------------- */

void
sched_tell(struct sched *s, uint64_t to, uint64_t seq, uint32_t size,
	int status, const char *text)
{
	struct session *poster = session_find(s->kernel, to);
	struct sched *home;
	struct msg *note;

	if (!poster)
		return;
	home = atomic_load_explicit(&poster->home, memory_order_relaxed);
	if (home == s) {
		if (poster->begun)
			poster->ops->settled(poster, seq, size, status, text);
		return;
	}
	note = note_new(s, text);
	if (!note) {
		log_err("kernel.no-memory", "what=settle seq=%" PRIu64, seq);
		return;
	}
	note->op = MSG_SETTLE;
	note->to = to;
	msg_wide(note)->seq = seq;
	msg_wide(note)->settled_size = size;
	msg_wide(note)->status = (uint32_t)status;
	sched_stage(s, home, note);
}

void
sched_settle(struct sched *s, struct msg *m, int status, const char *text)
{
	m->flags &= (uint16_t)~MSG_ACK;
	sched_tell(s, m->from, msg_seq(m), m->size, status, text);
}

void
sched_settle_level(struct sched *s, struct msg *m, enum msg_level level)
{
	if ((m->flags & MSG_ACK) && msg_level(m) <= level)
		sched_settle(s, m, EVD_STATUS_OK, NULL);
}

void
sched_settled_arrived(struct sched *s, struct msg *note)
{
	struct session *poster = session_find(s->kernel, note->to);

	if (poster && atomic_load(&poster->home) == s && poster->begun)
		poster->ops->settled(poster, msg_seq(note),
			msg_settled_size(note), (int)msg_status(note),
			note->size ? (const char *)note->data : NULL);
	msg_free(&s->pool, note);
}

static void
count_end(struct counters *c, enum msg_end end)
{
	switch (end) {
	case MSG_END_HANDLED:
		c->handled++;
		break;
	case MSG_END_EXPIRED:
		c->expired++;
		break;
	case MSG_END_CANCELLED:
		c->cancelled++;
		break;
	case MSG_END_DROPPED:
		c->dropped++;
		break;
	case MSG_END_DEAD:
		c->dead++;
		break;
	case MSG_END_REFUSED:
		c->refused++;
		break;
	}
}

static enum dead_reason
reason_of(enum msg_end end, int status)
{
	if (end == MSG_END_HANDLED || end == MSG_END_CANCELLED)
		return DEAD_NONE;
	if (end == MSG_END_DROPPED)
		return DEAD_OVERFLOW;
	if (end == MSG_END_EXPIRED)
		return DEAD_EXPIRED;
	switch (status) {
	case EVD_STATUS_FULL:
		return DEAD_OVERFLOW;
	case EVD_STATUS_NO_ALIAS:
		return DEAD_NO_ALIAS;
	case EVD_STATUS_EXPIRED:
		return DEAD_EXPIRED;
	case EVD_STATUS_DIED:
		return DEAD_DIED;
	case EVD_STATUS_LIMIT:
	case EVD_STATUS_POISON:
		return DEAD_ATTEMPTS;
	case EVD_STATUS_FAILED:
		return DEAD_REFUSED;
	default:
		return end == MSG_END_DEAD ? DEAD_UNHANDLED : DEAD_REFUSED;
	}
}

/* What the poster that asked for an ack is told. A dropped event has been
 * accepted: who asked for no more has what it asked for. */
static int
told_status(const struct msg *m, enum msg_end end, int status)
{
	return end == MSG_END_DROPPED && msg_level(m) == MSG_LEVEL_ACCEPTED
		       ? EVD_STATUS_OK
		       : status;
}

/* Whose it is will have another answer its call. */
static bool
is_given_back(const struct msg *m, int told)
{
	return (m->flags & MSG_LENT) && told == EVD_STATUS_UNAVAILABLE;
}

void
msg_end(struct sched *s, struct session *owner, struct msg *m, enum msg_end end,
	int status, const char *text)
{
	enum dead_reason reason = reason_of(end, status);
	struct dead *dead = NULL;
	int told = told_status(m, end, status);

	if (m->flags & (MSG_MANY | MSG_LENT)) { /* others have it */
		reason = DEAD_NONE;
		if (end == MSG_END_DEAD)
			end = m->flags & MSG_LENT ? MSG_END_CANCELLED
						  : MSG_END_DROPPED;
		else if (end == MSG_END_REFUSED && (m->flags & MSG_LENT))
			told = EVD_STATUS_UNAVAILABLE;
	}

	/* Counted first: whoever is told may stop the owner. */
	count_end(&s->counters, end);
	if (owner && end == MSG_END_HANDLED)
		owner->handled++;
	else if (owner && session_health(owner))
		count_end(&owner->health->ends, end);
	if (status && !text)
		text = sched_end_text(status);
	if (reason)
		dead = dead_new(s, owner, m,
			&(struct dead_end){reason, status, text, NULL});
	if (end != MSG_END_HANDLED || (m->flags & MSG_EXTRA))
		history_ended(s, owner, m,
			&(struct history_end){end, status, text, NULL});
	if (m->flags & MSG_EXTRA)
		journal_ended(s, m, told);
	if (msg_call(m) && !(m->flags & MSG_REPLIED) && !is_given_back(m, told))
		sched_reply(s, msg_call(m), status, text,
			text ? (uint32_t)strlen(text) : 0);
	if (m->flags & MSG_ACK)
		sched_settle(s, m, told, told ? text : NULL);
	if (m->flags & MSG_EXTRA)
		aside_ended(s, m, status, text);
	if (end != MSG_END_HANDLED)
		log_debug("event.ended",
			"event_id=%" PRIu64 " event=%s to=%" PRIu64
			" status=%d",
			m->id, m->event, m->to, status);
	if (dead)
		dead_keep(s, dead, m);
	else
		msg_free(&s->pool, m);
}

/* ---- in words ---------------------------------------------------------- */

int
sched_status(int r)
{
	switch (r) {
	case 0:
		return EVD_STATUS_OK;
	case SCHED_E_NO_SESSION:
		return EVD_STATUS_NO_ALIAS;
	case SCHED_E_FULL:
		return EVD_STATUS_FULL;
	case SCHED_E_FAILED:
		return EVD_STATUS_FAILED;
	case SCHED_E_LIMIT:
		return EVD_STATUS_LIMIT;
	case SCHED_E_VOLATILE:
		return EVD_STATUS_UNSUPPORTED;
	case -ENOMEM:
		return EVD_STATUS_NO_MEMORY;
	default:
		return EVD_STATUS_INTERNAL;
	}
}

const char *
sched_end_text(int status)
{
	switch (status) {
	case EVD_STATUS_DIED:
		return "the session died before it handled the event";
	case EVD_STATUS_NO_ALIAS:
		return "no session holds the alias";
	case EVD_STATUS_FULL:
		return "the mailbox is full";
	case EVD_STATUS_DROPPED:
		return "the mailbox was full and its Overflow= dropped it";
	case EVD_STATUS_FAILED:
		return "the session has failed and is not restarted";
	case EVD_STATUS_EXPIRED:
		return "the event expired before it was handled";
	case EVD_STATUS_CANCELLED:
		return "it was cancelled";
	case EVD_STATUS_POISON:
		return "its session or its consumer died with it again and "
		       "again (MaxAttempts=)";
	default:
		return "the event was not handled";
	}
}

static void
explain_full(struct session *t, char *text, size_t size)
{
	const struct mailbox *box = &t->box;
	const char *where =
		t->spec && t->spec->origin ? t->spec->origin : "the binding";

	snprintf(text, size,
		"the mailbox of '%s' is full: %u of %u events, %" PRIu64
		" of %" PRIu64 " bytes (MaxEvents= and MaxBytes= of %s)",
		session_name(t), box->n, box->max_n, box->size, box->max_size,
		where);
}

const char *
sched_explain(struct sched *s, int r, uint64_t session, char *text, size_t size)
{
	struct session *t = session_find(s->kernel, session);

	if (t && atomic_load(&t->home) != s)
		t = NULL;
	if (r == SCHED_E_FULL && t)
		explain_full(t, text, size);
	else if (r == SCHED_E_FAILED && t)
		snprintf(text, size,
			"the session '%s' has failed: %s (eventctl restart)",
			session_name(t),
			t->health && t->health->reason ? t->health->reason
						       : "no reason known");
	else if (r == SCHED_E_LIMIT)
		snprintf(text, size,
			"%u calls are outstanding (MaxCalls= in eventd.conf)",
			s->kernel->limits.max_calls);
	else if (r == SCHED_E_VOLATILE)
		snprintf(text, size, "the mailbox of '%s' keeps nothing: %s",
			t ? session_name(t) : "",
			t ? journal_lacks(t) : "it lives elsewhere");
	else
		snprintf(text, size, "%s", sched_end_text(sched_status(r)));
	return text;
}

/* What becomes of an event whose handler was interrupted: it is tried again, or
 * ends. See life.h. The thread of the session's home. */
#include <stdio.h>

#include "kernel/history.h"
#include "kernel/journal.h"
#include "kernel/life.h"
#include "kernel/sched.h"

static struct sched *
home_of(const struct session *s)
{
	return atomic_load_explicit(&s->home, memory_order_relaxed);
}

bool
life_put_back(struct session *s, struct msg *m, bool crashed)
{
	uint32_t most = s->spec ? s->spec->max_attempts : 0;

	s->before &= (uint8_t)~BEFORE_RETRIES;
	if (most < 2 || (crashed && m->attempt + 1u >= most) ||
		(m->flags & MSG_LENT)) /* that is its owner's to say */
		return false;
	if (crashed)
		m->attempt++;
	history_returned(home_of(s), s, m, 0, life_crash_text(s));
	if (m->attempt)
		s->before |= BEFORE_RETRIES;
	mailbox_unpop(&s->box, m);
	home_of(s)->queued++;
	return true;
}

/* It has crashed its session for the last time. */
void
life_end_event(struct session *s, struct msg *m)
{
	const char *why = life_crash_text(s);
	char text[SESSION_REASON_MAX + 64];

	if (!m->attempt) {
		msg_end(home_of(s), s, m, MSG_END_DEAD, EVD_STATUS_DIED, why);
		return;
	}
	snprintf(text, sizeof(text),
		"it crashed its session %u times (MaxAttempts=): %s",
		m->attempt + 1u, why ? why : "");
	msg_end(home_of(s), s, m, MSG_END_DEAD, EVD_STATUS_POISON, text);
}

/* A durable event that was interrupted comes again. */
static bool
keep_durable(struct session *s, struct msg *m)
{
	const struct msg_extra *extra = msg_extra(m);

	if (!session_journal(s) || !extra || !extra->batch)
		return false;
	if (m->attempt < UINT8_MAX)
		m->attempt++;
	mailbox_unpop(&s->box, m);
	home_of(s)->queued++;
	return true;
}

void
life_drop(struct session *s, struct msg *m, bool crashed)
{
	if (!crashed && keep_durable(s, m))
		return;
	if (!s->stopping && life_put_back(s, m, crashed))
		return;
	if (crashed)
		life_end_event(s, m);
	else
		msg_end(home_of(s), s, m, MSG_END_DEAD, life_gone(m), NULL);
}

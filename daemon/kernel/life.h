#pragma once
/* Life: how a session starts, fails, ends and is started again. The home's
 * thread. kernel/session.h has what kinds and others may ask for; this is for
 * the kernel's own files. */
#include "kernel/session.h"

/* Give it a state: it is STARTING and has none. */
void life_start(struct sched *sched, struct session *s);
/* All that it starts after have settled. */
void life_open(struct session *s);
/* Another scheduler made it for this one. */
void life_settle(struct session *s);
/* Drop the state of one that runs no handler now; its next life is the
 * caller's to say. False: it was to stop for good, and has ended. */
bool life_rest(struct session *s, enum session_exit why);
/* The same; then it waits for events if it starts on demand, else it ends. */
void life_sleep(struct session *s, enum session_exit why);
/* @m, which crashed it or was being handled when its state went, is tried
 * again by the next incarnation. False: it is not, and still the caller's. */
bool life_put_back(struct session *s, struct msg *m, bool crashed);
/* @m, which was being handled, is tried again or dead. */
void life_drop(struct session *s, struct msg *m, bool crashed);
/* It fails before it has a state. */
void life_refuse(struct session *s, const char *why);
/* Takes @reason, a malloc()ed text or NULL. */
void life_set_reason(struct session *s, char *reason);
/* It has asked to exit or to stop and no handler of it is active. */
void life_finish(struct session *s);
/* How an event ends that has crashed it. */
void life_end_event(struct session *s, struct msg *m);
/* How an event ends whose session went before it was handled. */
static inline int
life_gone(const struct msg *m)
{
	return m->flags & MSG_LENT ? EVD_STATUS_UNAVAILABLE : EVD_STATUS_DIED;
}
/* Why it crashed, for those who wait for what it was handling; or NULL. */
static inline const char *
life_crash_text(const struct session *s)
{
	return s->health ? s->health->reason : NULL;
}

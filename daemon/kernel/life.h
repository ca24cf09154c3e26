#pragma once
/* Life: how a session starts, fails, ends and is started again. The home's
 * thread. kernel/session.h has what kinds and others may ask for; this is for
 * the kernel's own files. */
#include "kernel/session.h"

/* Give it a state: it is STARTING and has none. */
void life_start(struct sched *sched, struct session *s);
/* It has asked to exit or to stop and no handler of it is active. */
void life_finish(struct session *s);
/* Why it crashed, for those who wait for what it was handling; or NULL. */
static inline const char *
life_crash_text(const struct session *s)
{
	return s->health ? s->health->reason : NULL;
}

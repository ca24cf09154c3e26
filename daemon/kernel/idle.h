#pragma once
/* Idle: sessions that end by themselves, because nothing has happened for a
 * while (IdleStop=) or because nothing refers to them (Collect=yes). The
 * home's thread. */
#include "kernel/kin.h"

/* It is up: count from now. */
void idle_begin(struct session *s);
void idle_due(struct sched *sched, struct kin *kin);
/* Nothing is queued, under way or owed. */
bool idle_is(const struct session *s);
/* It has run; it may end here if nothing refers to it. */
void idle_ran(struct sched *sched, struct session *s);
/* Something that referred to it has gone: look at it soon. */
void idle_look(struct session *s);

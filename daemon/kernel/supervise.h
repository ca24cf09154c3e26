#pragma once
/* Supervision: what happens to a session that failed. Its policy is in its
 * spec: never, on failure or always; pauses that double up to a limit, with
 * jitter; a budget of failures within a window, after which it stays failed
 * until somebody restarts it. The home's thread. */
#include <stdbool.h>

#include "kernel/session.h"

/* @s has no state any more; @crashed: it failed, else it ended by itself.
 * True: it will be started again or stays as failed; false: it is to go. */
bool supervise_ended(struct session *s, bool crashed);
/* The pause is over. */
void supervise_due(struct sched *sched, struct session_health *health);
/* Forget past failures: somebody restarts it by hand. */
void supervise_reset(struct session *s);

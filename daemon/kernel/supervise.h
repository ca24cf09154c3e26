#pragma once
/* Supervision: what happens to a session that failed. Its policy is in its
 * spec: never, on failure or always; pauses that double up to a limit, with
 * jitter; a budget of failures within a window, after which it stays failed
 * until somebody restarts it. A member of a group leaves the budget to the
 * group (kernel/team.c). The home's thread. */
#include <stdbool.h>

#include "kernel/session.h"

/* @s has no state any more; @crashed: it failed, else it ended by itself;
 * @again: by an event that has been counted as a failure before. True: it will
 * be started again or stays as failed; false: it is to go. */
bool supervise_ended(struct session *s, bool crashed, bool again);
/* The pause is over. */
void supervise_due(struct sched *sched, struct session_health *health);
/* Forget past failures: somebody restarts it by hand. */
void supervise_reset(struct session *s);

/* ---- for groups ---------------------------------------------------------- */

/* One failure of a member of the group @s: true if its budget allows it. */
bool supervise_count(struct session *s);
/* Its budget is spent: fail, or leave it to the group above. */
void supervise_group_failed(struct session *s, const char *text);
/* Wait, without a pause that ends by itself. */
void supervise_hold(struct session *s);
/* Start again: now, after a pause, or not at all. */
void supervise_again(struct session *s);
void supervise_retry(struct session *s, uint64_t pause_ns);
void supervise_halt(struct session *s, const char *text);

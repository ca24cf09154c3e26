#pragma once
/* What the verbs about time share. */
#include "verb/gather.h"

/* A century: sums of it and the clocks do not overflow. */
#define VERB_DELAY_MAX_MS (UINT64_C(100) * 366 * 24 * 3600 * 1000)

/* The name is valid; else an answer has been sent. */
bool verb_timer_name_ok(struct peer *p, uint64_t id, const char *name);
/* Whom a timer goes to: a session's for itself is shown under its name. */
const char *verb_timer_target(struct sched *s, const struct delay *delay);
/* May who asks change the timer @id of @s? His user has set it, or he manages
 * whom it goes to; or there is none. Else g->denied and g->name are set. */
bool verb_timer_may_change(struct gather *g, struct sched *s, uint64_t id);
/* The answer is that calendar_new() said @r and @error. */
void verb_calendar_wrong(
	struct gather *g, int r, const char *text, const char *error);

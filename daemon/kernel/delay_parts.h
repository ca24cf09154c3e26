#pragma once
/* What the files of delays share: making one, arming it, its end. One thread.
 */
#include "kernel/delay_slots.h"

struct timers *delay_wheel(struct sched *s, const struct delay *delay);
/* Due at @due_ns of its clock; it is armed nowhere. */
void delay_arm(struct sched *s, struct delay *delay, uint64_t due_ns);
/* The calendar's next time after @after_ns, or 0: there is none. */
uint64_t delay_calendar_after(const struct calendar *c, uint64_t after_ns);
/* A pending one that is armed nowhere yet. */
int delay_make(struct sched *s, struct session *owner,
	const struct delay_init *init, struct delay **out);
/* It goes; DELAY_FORGOTTEN: nobody is to know that it was. */
void delay_ended(struct sched *s, struct delay *delay, enum delay_fate fate);
void delay_cancelled(struct sched *s, struct delay *delay);
/* May one be set as @init says, in the place of @old, if that is not 0? *@due
 * is when: 0 or DELAY_E_*. */
int delay_may_set(struct sched *s, const struct delay_init *init, uint64_t old,
	uint64_t *due);
/* The one that goes when @init comes; 0: none. */
uint64_t delay_namesake(struct sched *s, const struct session *owner,
	const struct delay_init *init);
/* Change what it is; *@due is when it is to be armed for, 0: not anew. */
int delay_apply(struct sched *s, struct delay *delay,
	const struct delay_change *change, uint64_t *due);
/* When the calendar of @more is due next: what has run does not run again when
 * the clock is set back by a little. */
uint64_t delay_next_from_now(const struct delay_more *more, uint64_t now);
/* Post the event of a delay; last: the delay has ended. */
void delay_post(struct sched *s, struct msg *m);

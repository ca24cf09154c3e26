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
/* It goes: its slot tells what has become of it, until it is another's. */
void delay_ended(struct sched *s, struct delay *delay, enum delay_flag how);
void delay_cancelled(struct sched *s, struct delay *delay);

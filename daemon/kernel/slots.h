#pragma once
/* Slots: the memory of sessions, which is never unmapped, and their ids, which
 * are never used again. Any thread takes and gives; kernel/session.h finds. */
#include <stdint.h>

struct sched;
struct session;
struct sessions;

/* 0 or -ENOMEM. */
int slots_init(struct sessions *table, uint32_t n_max);
void slots_deinit(struct sessions *table);

/* A zeroed session that lives on @sched and is not to be found yet: its id is
 * to be last_id. NULL: out of memory, or MaxSessions= is reached. */
struct session *slots_take(struct sched *sched);
/* It is off the run queue and its id is retired. */
void slots_give(struct sched *sched, struct session *s);

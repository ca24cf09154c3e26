#pragma once
/* Profile: per session and event how often, how long by itself and with what
 * it waited for, how long it stood in the mailbox and how late its timer was.
 *
 * Time is the CPU's tick counter between two points on a loop's thread: what
 * the system takes the CPU away for counts too. Each scheduler's thread keeps
 * and reads its own sessions' figures. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kernel;
struct sched;
struct session;

enum { PROFILE_ROWS_MAX = 64 }; /* events of a session; others are one row */

/* One event of one session; ticks until profile_ns() */
struct profile_row {
	char *event; /* NULL: no row */
	uint32_t hash;
	uint8_t size;
	uint64_t calls;
	uint64_t own;   /* in its handler */
	uint64_t whole; /* until it was over, what it waited for included */
	uint64_t wait, wait_max; /* in the mailbox */
	uint64_t n_late;         /* by a timer */
	uint64_t late_ns, late_max_ns;
};

/* Before threads run: measure, with all sessions on if @all. */
void profile_init(struct kernel *k);
/* Every session of this scheduler, or none. */
void profile_set_all(struct sched *s, bool on);
/* One session; of no effect while all are on. -ENOMEM. */
int profile_set(struct sched *s, struct session *t, bool on);
bool profile_is_on(const struct sched *s, const struct session *t);
/* Forget all figures of this scheduler. */
void profile_reset(struct sched *s);

/* The rows of @t in no order: call with *@at 0 first, until NULL. */
const struct profile_row *profile_next(
	const struct sched *s, const struct session *t, uint32_t *at);
/* Ticks as nanoseconds; any thread. */
uint64_t profile_ns(const struct kernel *k, uint64_t ticks);
/* Bytes that the figures of @t take. */
size_t profile_memory(const struct session *t);

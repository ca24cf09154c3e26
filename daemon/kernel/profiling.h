#pragma once
/* Profiling: what the kernel tells whoever measures its events; stats/profile
 * does. Off, it costs a test of one pointer an event.
 *
 * Time is told in laps: each call here ends one and begins the next, so that
 * an event costs one reading of the clock and what the kernel itself does
 * counts to the event that follows. The scheduler's thread. */
#include <stdbool.h>
#include <stdint.h>

struct msg;
struct sched;
struct session;

struct profile_ops {
	/* A lap begins: a turn, or the scheduler was asleep. */
	void (*lap)(struct sched *s);
	/* @t has run @m with this enum session_result; it is still there. */
	void (*ran)(
		struct sched *s, struct session *t, struct msg *m, int result);
	/* @m, waited in or leased, is over; @inside: by a handler of @t. */
	void (*over)(
		struct sched *s, struct session *t, struct msg *m, bool inside);
	/* What is told next took @cpu_ns of the CPU and @wall_ns in all, on
	 * another thread. */
	void (*was_away)(struct sched *s, uint64_t wall_ns, uint64_t cpu_ns);
	/* @t did something else, of this name. */
	void (*spent)(struct sched *s, struct session *t, const char *what,
		uint8_t size);
};

/* Measure by @ops from now on; NULL: no more. */
void profiling_set(struct sched *s, const struct profile_ops *ops);

/* The beginning of a session's figures. */
struct profile {
	/* @t goes: free t->health->profile. */
	void (*gone)(struct sched *s, struct session *t);
};

/* Of one scheduler. */
struct profiling {
	const struct profile_ops *ops;   /* NULL: off, and no taps */
	const struct profile_ops *inner; /* of who measures, NULL: off */
	struct tap *taps;                /* see tap.h */
	uint64_t lap;     /* ticks, when it began; 0: nobody measures */
	uint64_t blocked; /* ticks that what runs has not used */
	bool all;         /* every session, not those asked for */
	bool tsc;         /* ticks are the CPU's, else nanoseconds */
	uint32_t n_own;   /* sessions asked for */
	uint32_t own;     /* requests for one before this are void */
	uint32_t reset;   /* figures from before this are void */
	uint64_t gone_calls, gone_ticks; /* of sessions that are no more */
};

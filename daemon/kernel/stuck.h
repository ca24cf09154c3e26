#pragma once
/* Stuck: a handler that an executor's thread runs and that has not returned
 * for longer than the executor allows. It may do so for ever and harms nobody
 * but its own session; it is told of once, and counted until it returns.
 *
 * Who monitors the session is told, too, and when it has returned; of a loop's
 * handler no more than that, for meanwhile the loop tells nobody anything.
 *
 * Who holds the session's home; the numbers in struct executor, any thread. */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct away;
struct sched;
struct session;

enum { STUCK_NAME_SIZE = 64, STUCK_EVENT_SIZE = 128 };

/* What is to be told of one. */
struct stuck {
	uint64_t session;
	uint64_t event_id;
	uint64_t since_ns; /* elapsed clock, as struct away has it */
	uint64_t ns;       /* it has run so long */
	pid_t thread;
	uint32_t on_stall;             /* enum stall_action */
	bool is_script;                /* a signal disturbs nothing in it */
	char name[STUCK_NAME_SIZE];    /* of its session */
	char program[STUCK_NAME_SIZE]; /* its script or plugin */
	char executor[STUCK_NAME_SIZE];
	char event[STUCK_EVENT_SIZE];
};

/* What a thread runs of @s, which is away, and since when: 0, it waits for one.
 * @event is good while the home is held. */
struct stuck_run {
	const char *event; /* "(reply)": it goes on with one */
	uint64_t event_id;
	uint64_t since_ns;
	pid_t thread;
};
void stuck_see(const struct session *s, struct stuck_run *out);

/* Session @id, if it is one of @s and stuck, and was not told of: count it. */
bool stuck_look(struct sched *s, uint64_t id, struct stuck *out);
/* What @a ran has returned, and had been counted. */
void stuck_end(struct away *a);

/* What a handler was that has kept its thread: for who monitors @t. */
struct stuck_report {
	const char *event;
	uint64_t event_id;
	const char *executor;
	uint64_t ns;
};
void stuck_tell(struct sched *s, struct session *t, const char *notice,
	const struct stuck_report *report);
/* ... and the log: it has returned. */
void stuck_returned(
	struct sched *s, struct session *t, const struct stuck_report *report);

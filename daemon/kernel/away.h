#pragma once
/* Away: sessions whose handlers run on other threads than their home's.
 *
 * Such a session, when it has something to do, is handed to its executor: it
 * is SESSION_AWAY, and nobody else runs it, starts it, stops it or fails it
 * until it is back; what wants to is kept for then. One event after the other
 * is run on the executor's thread without any lock. Whatever touches the
 * kernel does so while that thread *holds* the home scheduler, which then
 * belongs to it as it else belongs to its own thread: executor_ops.hold() and
 * drop() see to that, for a scheduler whose thread lets go of it while it
 * sleeps. So kernel code knows nothing of this but away.c.
 *
 * What a session has taken to run counts as leased. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "kernel/msg.h"
#include "kernel/session.h"

struct await;
struct executor_ops;
struct sched;

/* A way to run sessions that are not run by their loop; exec/ has three. */
struct executor {
	const struct executor_ops *ops; /* ops->hand is set */
	const char *name;
	_Atomic bool gone;           /* no session is to get it any more */
	_Atomic uint32_t n_sessions; /* whose executor it is */
	_Atomic uint64_t n_runs;     /* pieces of work, ever */
	_Atomic uint64_t stuck_ns; /* a handler that runs longer is; 0: none */
	_Atomic uint32_t n_stuck;  /* now; see stuck.h */
	_Atomic uint64_t n_stuck_ever;
};

enum away_what {
	AWAY_NOTHING,
	AWAY_EVENT,
	AWAY_NOTICE,
	AWAY_REPLY,
	AWAY_AWAITED, /* an event that a handler waits for */
};

/* Of one session with an executor of its own. Who holds its home may touch
 * it, and while it is away only the thread that runs it may but for `later`,
 * `fails` and `restarts`. */
struct away {
	struct away *next; /* the executor's, while it is away */
	struct session *session;
	struct sched *sched; /* its home */
	struct executor *executor;
	struct executor *then; /* when it is back; see moves */
	struct msg *m;         /* what is run now */
	struct await *await;   /* AWAY_AWAITED: by whom */
	uint8_t what;          /* enum away_what */
	uint8_t was;           /* enum session_run, before it went away */
	bool retries;          /* the event crashed it before */
	bool held;             /* this thread holds the home */
	bool pinned;           /* ... until what is run has ended */
	bool moves;            /* `then` is to be its executor */
	bool restarts;
	bool profiled;
	bool is_stuck;     /* ... and counted so */
	char *stuck_event; /* in what, while it is; NULL */
	uint64_t stuck_event_id;
	unsigned depth;             /* of away_enter() */
	uint32_t n_left;            /* events until others' turn */
	uint64_t now_ns;            /* the home's clock when this was taken */
	uint64_t wall_ns, cpu_ns;   /* when it began; profiling: its CPU time */
	struct msg_queue later;     /* for when it is back */
	struct session_spec *spec;  /* to be restarted with; a reference */
	char *fails;                /* why it is to fail */
	size_t memory;              /* of the state, when it was last back */
	struct session_waits waits; /* ... and of its handlers */
	uint32_t n_stuck;           /* times that it was, ever */
	_Atomic pid_t thread;       /* that ran it last */
	_Atomic uint64_t since_ns;  /* it runs; 0: it waits for its turn */
};

/* What this thread runs for a session that is away; NULL: nothing. */
extern _Thread_local struct away *away_here
	__attribute__((tls_model("initial-exec")));

/* ---- for kinds, whose code runs on any thread ------------------------- */

void away_take(struct away *a);
void away_drop(struct away *a);
void away_hold_on(struct away *a);

/* Around all that touches the kernel; may be nested. Nothing on a home's own
 * thread. */
static inline void
away_enter(void)
{
	struct away *a = away_here;

	if (a && !a->depth++ && !a->held)
		away_take(a);
}

static inline void
away_leave(void)
{
	struct away *a = away_here;

	if (a && !--a->depth && !a->pinned)
		away_drop(a);
}

/* From here on to the end of what is run. */
static inline void
away_pin(void)
{
	struct away *a = away_here;

	if (a && !a->pinned)
		away_hold_on(a);
}

/* What follows in what is run does without again. */
static inline void
away_unpin(void)
{
	struct away *a = away_here;

	if (!a || !a->pinned)
		return;
	a->pinned = false;
	if (!a->depth)
		away_drop(a);
}

/* ---- for executors ---------------------------------------------------- */

/* Run what was handed out. Its executor's thread; then @a may be gone, or have
 * been handed out again. */
void away_run(struct away *a);

/* ---- for the kernel, which holds the home ----------------------------- */

/* Have @s run by @x from now on, NULL: by its loop. Takes effect at once, or
 * when it is back. 0, AWAY_E_KIND: sessions of its kind are run by their loop
 * alone, or -ENOMEM. */
enum { AWAY_E_KIND = 1 };
int session_set_executor(struct session *s, struct executor *x);
/* The same by what its spec says. */
void away_configure(struct session *s);
/* Its spec says @name from now on, NULL: nothing. -ENOMEM: as before. */
int away_reconfigure(struct session *s, const char *name);
/* The one it has, or is about to have; NULL: its loop. */
struct executor *session_executor(const struct session *s);
/* Hand @s out if it has something to do. */
void away_out(struct sched *sched, struct session *s);
/* It goes for good. */
void away_free(struct session *s);
static inline bool
away_is_out(const struct session *s)
{
	return s->run == SESSION_AWAY;
}
/* The thread that runs it does this: it is not in its own way. */
static inline bool
away_is_own(const struct session *s)
{
	return away_here && away_here->session == s;
}
/* Give @m to the scheduler again when @s, which is away, is back. */
void away_keep(struct session *s, struct msg *m);
/* Keep that it is to fail, or to be started again. */
void away_keep_failure(struct session *s, char *reason);
void away_keep_restart(struct session *s, struct session_spec *spec);

#pragma once
/* Scheduler: one per loop thread. It holds the run queue of its sessions, the
 * timers and pending calls made there, and the inbox through which other
 * schedulers reach it. Everything belongs to its thread, but for the inbox
 * and the wake-up.
 *
 * The path of one event: sched_post() -> the receiver's mailbox (or the
 * outbox to its home) -> run queue -> sched_turn() -> session_ops.run() ->
 * msg_end(). */
#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernel/calls.h"
#include "kernel/delays.h"
#include "kernel/kernel.h"
#include "kernel/lateness.h"
#include "kernel/msg.h"
#include "kernel/profiling.h"
#include "kernel/session.h"
#include "kernel/timers.h"

/* What runs things: a scheduler's thread, or an executor of sessions. Each has
 * those of these that it needs; see exec/. */
struct executor_ops {
	const char *name;
	/* The inbox has become non-empty and the scheduler may be asleep. Any
	 * thread. */
	void (*wake)(struct sched *s);
	/* Of a scheduler: until drop() it is the calling thread's, which is not
	 * its own and runs a session that is away. NULL: it always is. */
	void (*hold)(struct sched *s);
	void (*drop)(struct sched *s);
	/* Of a session's executor: have away_run(@a) called, soon, on a thread
	 * of its own. Any thread that holds the home, or comes from it. */
	void (*hand)(struct executor *x, struct away *a);
};

enum {
	TIMER_CALL = 1,
	TIMER_DELAY = 2,
	TIMER_RESTART = 3,
	TIMER_IDLE = 20,
	TIMER_TEAM = 21,
	TIMER_JOURNAL = 22,
	TIMER_HISTORY = 27,
};

/* Why an event came to a bad end; dead.h keeps them. */
enum dead_reason {
	DEAD_NONE,
	DEAD_OVERFLOW,  /* no room, or dropped for another to have some */
	DEAD_NO_ALIAS,  /* nobody holds the alias */
	DEAD_EXPIRED,   /* not handled in time */
	DEAD_DIED,      /* its session ended or crashed */
	DEAD_REFUSED,   /* the session or the daemon did not take it */
	DEAD_ATTEMPTS,  /* tried too often */
	DEAD_UNHANDLED, /* no handler, or its handler said that it failed */
	DEAD_REASONS,
};

struct dead_queue {
	struct dead *head, *tail;
	uint64_t size; /* bytes */
	uint32_t n;
};

struct dead_letters {
	struct dead_queue queues[DEAD_REASONS];
	uint64_t size;
	uint64_t total;     /* ever */
	uint64_t forgotten; /* for the bounds */
	uint32_t n;
};

/* A function to run on a scheduler's thread. */
struct sched_task {
	void (*run)(struct sched *s, struct sched_task *task);
	/* It will never be run: the schedulers end. May be NULL. */
	void (*drop)(struct sched_task *task);
	struct msg msg; /* its place in an inbox */
};

struct sched {
	struct kernel *kernel;
	const struct executor_ops *executor;
	void *executor_data;
	unsigned index;
	uint64_t now_ns; /* monotonic, of this turn */
	struct session *run_head, *run_tail;
	struct session *running;
	uint32_t n_runnable; /* on the run queue */
	struct profiling profile;
	uint64_t turns;              /* ever */
	uint64_t wall_ns, wall_turn; /* sched_wall_ns() */
	uint64_t next_id;            /* of a message, see sched_id() */
	struct msg_pool pool;
	struct charges charges;
	struct timers timers;       /* monotonic */
	struct timers wall_timers;  /* of alarms: wall clock */
	struct timers *boot_timers; /* NULL until there is one */
	struct clock_near near;     /* what delays count from */
	struct lateness lateness;   /* of delays by elapsed time */
	struct calls calls;
	struct delays delays;
	struct counters counters; /* of all sessions ever, and of delays */
	struct dead_letters dead;
	struct history *history; /* NULL: nothing was worth it */
	const char *leaving; /* the name of the session that is ending now */
	uint64_t transit_in, transit_out; /* accepted events that moved home */
	uint64_t queued;   /* admitted events now, all mailboxes */
	uint32_t n_failed; /* sessions in the failed state */
	uint32_t n_away;   /* sessions that have or had an executor */
	bool closing;      /* sched_deinit() runs: no new sessions */
	struct msg_queue outbox[KERNEL_LOOPS_MAX];
	uint64_t outbox_set;     /* bit i: outbox[i] holds something */
	struct msg_queue spares; /* see note.h */
	uint32_t n_spares;
	struct journal *journals; /* that have news for the store */
	struct epoch_reader reader;
	_Alignas(64) _Atomic(struct msg *) inbox; /* newest batch first */
	_Atomic bool asleep;
};

/* Make scheduler @index of @k; -ENOMEM or -ENOSPC. */
int sched_init(struct sched *s, struct kernel *k, unsigned index,
	const struct executor_ops *executor, void *executor_data);
/* Stops and frees every session first. After its thread has ended. */
void sched_deinit(struct sched *s);

/* ---- posting --------------------------------------------------------- */

enum {
	SCHED_E_NO_SESSION = 1, /* `to` is no session (any more) */
	SCHED_E_FULL = 2,       /* no room, and it may not wait */
	SCHED_E_FAILED = 3,     /* the session is in the failed state */
	SCHED_E_LIMIT = 4,      /* session_call(): MaxCalls= are outstanding */
	SCHED_E_VOLATILE = 5,   /* it asks for durability, which is not there */
};

/**
 * sched_post() - post @m to the session m->to
 *
 * Consumes @m on success only. With MSG_ACK the sender's ops.settled() tells
 * the fate once and nothing is returned but 0. Without it, a refusal on the
 * same scheduler is the return value; on another it ends as a dead letter.
 *
 * Return: 0 or SCHED_E_*.
 */
int sched_post(struct sched *s, struct msg *m);
/* The same to m->to that is known to be @t and to live here. There is a shorter
 * way for plain ones: sched_takes(). */
int sched_post_here(struct sched *s, struct session *t, struct msg *m);
/* EVD_STATUS_* of a SCHED_E_*, INTERNAL or NO_MEMORY of an errno. */
int sched_status(int r);
/* Why: names the session, the limit, its value and the key that changes it.
 * Returns @text, of @size bytes. */
const char *sched_explain(
	struct sched *s, int r, uint64_t session, char *text, size_t size);

/* Answer @call with @status and @data. Any number of answers may come, the
 * first counts. -ENOMEM. */
int sched_reply(struct sched *s, uint64_t call, int status, const void *data,
	uint32_t size);
/* The same, well, with the payload of @region, which it takes over unless it
 * fails. */
int sched_reply_region(
	struct sched *s, uint64_t call, struct msg_region *region);

/* Tell the session m->to something that is no event and is not counted: kinds
 * use it between each other and between schedulers. In order with all else that
 * goes from here to there; at once if it lives here. If there is no such
 * session any more, m->call is answered with EVD_STATUS_DIED. Consumes @m. */
void sched_note(struct sched *s, struct msg *m);

/* Give the session m->to the event @m in its control lane: it is run before
 * all that is queued, whatever the length and the bounds of the mailbox, also
 * while that is paused, though not in the middle of a handler that waits. It is
 * counted as accepted when it is run, nobody is told of its end, and without a
 * handler or a session it is forgotten. In order with all else that goes from
 * here to there. Consumes @m. For what tells of lives, names and levels. */
void sched_control(struct sched *s, struct msg *m);
/* Hand @m, which is no event, to the scheduler of m->to: it is taken there in
 * a later turn, also if that is this one. Consumes @m. */
void sched_send(struct sched *s, struct msg *m);

/* Every end of an event passes here: its call is answered with @status if
 * nobody has, its poster is told, it is counted by @end, and freed. */
enum msg_end {
	MSG_END_HANDLED,
	MSG_END_EXPIRED,
	MSG_END_CANCELLED,
	MSG_END_DROPPED,
	MSG_END_DEAD,
	MSG_END_REFUSED, /* it was never accepted */
};
void msg_end(struct sched *s, struct session *owner, struct msg *m,
	enum msg_end end, int status, const char *text);
/* session_done() of one that ends so, if @status is not 0. */
void session_done_as(struct session *s, struct msg *m, enum msg_end end,
	int status, const char *text);

/* Run task->run() on the thread of @target. The task is the caller's until
 * then and the function's from then on. Any scheduler's thread. */
void sched_run_on(
	struct sched *s, struct sched *target, struct sched_task *task);
/* The same from a thread that is no scheduler's. */
void sched_inject(struct sched *target, struct sched_task *task);

/* ---- for the executor ------------------------------------------------ */

/* One turn: take the inbox, fire timers, start and run sessions up to the
 * budget, publish the outboxes. True: there is more to do now. */
bool sched_turn(struct sched *s);
/* Hand what was staged for other schedulers to them. */
void sched_publish(struct sched *s);
/* When the next timer wants a turn, in ns of the monotonic clock; UINT64_MAX:
 * never. The wall clock's timers are converted by the present offset. */
uint64_t sched_next_ns(struct sched *s);
/* Whether that may be before @before_ns: costs less. */
bool sched_may_be_due(const struct sched *s, uint64_t before_ns);
/* About to sleep: false if something came since the turn, then do not. */
bool sched_sleep(struct sched *s);
void sched_awake(struct sched *s); /* no longer asleep; reads the clock */
/* The calling thread holds it while its own sleeps ... */
void sched_visit(struct sched *s);
/* ... and lets go of it again, having left work for it or not. */
void sched_leave(struct sched *s, bool wanted);
/* The wall clock was set. */
void sched_clock_set(struct sched *s);

/* ---- for the kernel's own files -------------------------------------- */

/* Send @m to @target, another scheduler, at the end of the turn. */
void sched_stage(struct sched *s, struct sched *target, struct msg *m);
/* @m has been given a place in the mailbox of @t: it is accepted. Last: its
 * poster, who is told, may stop @t. */
void sched_admitted(struct sched *s, struct session *t, struct msg *m);
/* What is due, up to a bound: true if there may be more. */
bool sched_fire_timers(struct sched *s);
/* Put a session on the run queue, if it is not there. */
static inline void
sched_enqueue(struct sched *s, struct session *t)
{
	if (t->queued)
		return;
	t->queued = true;
	t->next = NULL;
	if (s->run_head)
		s->run_tail->next = t;
	else
		s->run_head = t;
	s->run_tail = t;
	s->n_runnable++;
}
/* Run what @t has to do up to its budget: how many events it was. */
int session_run(struct sched *s, struct session *t);
/* Tell the poster of @m, which has MSG_ACK, once. */
void sched_settle(struct sched *s, struct msg *m, int status, const char *text);
/* The same of a post that is not there any more. */
void sched_tell(struct sched *s, uint64_t poster, uint64_t seq, uint32_t size,
	int status, const char *text);
/* The poster waits for no more than @level of @m, or goes on waiting. */
void sched_settle_level(struct sched *s, struct msg *m, enum msg_level level);
/* What sched_tell() tells from elsewhere; consumes @note. */
void sched_settled_arrived(struct sched *s, struct msg *note);
/* A text for people on how an event ended. */
const char *sched_end_text(int status);
/* Tell @callee that nobody waits for the answer to @call. */
void sched_cancel_at(struct sched *s, uint64_t call, uint64_t callee);
/* What session_cancel_call() and session_forward() tell; consumes @m. */
void sched_cancel_arrived(struct sched *s, struct msg *m);
void sched_moved_arrived(struct sched *s, struct msg *m);
/* Give a reply to whoever waits for it here, or count it as late. */
void sched_reply_arrived(struct sched *s, struct msg *reply);
/* Do what @m says, which has come to this scheduler. */
void sched_arrived(struct sched *s, struct msg *m);
/* A pending call of this scheduler is over without an answer. */
void sched_call_expired(struct sched *s, struct call *call);
/* The wall clock as it was when it was first asked for in this turn. */
static inline uint64_t
sched_wall_ns(struct sched *s)
{
	if (s->wall_turn != s->turns) {
		s->wall_turn = s->turns;
		s->wall_ns = clock_wall(s->kernel->clock);
	}
	return s->wall_ns;
}
/* A fresh message id: unique in the daemon, rising on one scheduler. */
static inline uint64_t
sched_id(struct sched *s)
{
	uint64_t id = s->next_id;

	s->next_id = id + 64;
	return id;
}

/* The hot path in two halves, so that a kind that makes the event knows at once
 * what becomes of it: @t, of this scheduler, takes a plain event of @size bytes
 * now, and nobody is told of it. */
static inline bool
sched_takes(const struct sched *s, const struct session *t, uint32_t size)
{
	assert(atomic_load_explicit(&t->home, memory_order_relaxed) == s);
	(void)s;
	return session_is_plain(t) && !t->box.n_parked &&
	       mailbox_has_space(&t->box, size);
}

/* Then: @m has an id and no flag but MSG_ADMITTED. */
static inline void
sched_put(struct sched *s, struct session *t, struct msg *m)
{
	t->box.n++;
	t->box.size += msg_charge(m);
	m->stamp = s->profile.lap;
	msg_queue_push(&t->box.admitted, m);
	t->accepted++;
	s->counters.accepted++;
	s->queued++;
	if (t->run == SESSION_IDLE)
		sched_enqueue(s, t);
}

/* Others wait for room before a plain event for @t, of this scheduler, and no
 * spec says what to do about that: it joins them by sched_park(). */
static inline bool
sched_parks(const struct sched *s, const struct session *t)
{
	const struct msg *first = t->box.admitted.head;

	return t->box.n_parked && !s->profile.ops && session_is_calm(t) &&
	       !(t->box_bits & BOX_CHOOSY) && first &&
	       !(first->flags & MSG_EXTRA); /* it may have expired */
}

/* Then: @m has an id and MSG_MAY_PARK, and is not urgent. */
static inline void
sched_park(struct session *t, struct msg *m)
{
	t->box.n_parked++;
	msg_ring_push(&t->box.parked, m);
}

/* msg_end() of what its session @t handled: the hot path. */
static inline void
sched_handled(struct sched *s, struct session *t, struct msg *m)
{
	const unsigned rare = MSG_ACK | MSG_EXTRA;

	if ((m->flags & rare) || msg_call(m)) {
		state_commit(t);
		if ((m->flags & rare) || !(m->flags & MSG_REPLIED)) {
			msg_end(s, t, m, MSG_END_HANDLED, EVD_STATUS_OK, NULL);
			return;
		}
	}
	t->handled++;
	s->counters.handled++;
	msg_free(&s->pool, m);
}

#pragma once
/* Session: one actor. Private state behind session_ops, one mailbox, a
 * control lane, any number of aliases; it handles one event at a time.
 *
 * All of it belongs to the thread of its home scheduler, but for id and home,
 * which any thread may read while it holds the session's id: sessions live in
 * memory that is never unmapped, and an id is never used again. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/list.h"
#include "eventd/status.h"
#include "kernel/kernel.h"
#include "kernel/mailbox.h"
#include "kernel/spec.h"
#include "kernel/timers.h"

struct await;
struct away;
struct call;
struct executor;
struct gate;
struct journal;
struct kin;
struct profile;
struct sched;
struct session;
struct state;
struct stall;
struct ties;

/* What a handler waits for in the middle. */
enum session_wait {
	SESSION_WAIT_TIME,
	SESSION_WAIT_ANSWER, /* or several, or how far a post has come */
	SESSION_WAIT_EVENT,
	SESSION_WAITS,
};

struct session_waits {
	uint32_t n; /* handlers that wait */
	uint32_t for_what[SESSION_WAITS];
	uint32_t stack_high; /* bytes: the deepest that one waited; 0: none */
};

/* What became of an event given to session_ops.run(). */
enum session_result {
	SESSION_DONE,   /* handled; the kernel ends it */
	SESSION_WAIT,   /* the handler waits: session_done() comes later, and no
			 * other event until then */
	SESSION_LEASED, /* handed on: session_done() comes later; give more */
	SESSION_HELD,   /* not taken: offer it again after session_wake() */
	SESSION_CRASHED, /* the handler failed and session_fail() was called */
	SESSION_UNHANDLED, /* no handler for it: a dead letter */
	SESSION_STASHED,   /* put aside, session_may_stash() having said yes */
};

struct session_ops {
	const char *kind;
	/* Create the state. SESSION_DONE: it is up. SESSION_WAIT: it will be,
	 * session_started() says when. SESSION_CRASHED: session_fail() said
	 * why. */
	enum session_result (*start)(struct session *s);
	/* Handle @m; it stays the kernel's, but is the kind's to keep until
	 * session_done() with WAIT and LEASED. */
	enum session_result (*run)(struct session *s, struct msg *m);
	/* The outcome of session_call() or session_sleep(): @reply->status and
	 * payload; freed by the kernel afterwards. */
	void (*reply)(struct session *s, uint64_t token, struct msg *reply);
	/* The same of @size bytes at @data, inside the replier's handler, where
	 * reply() may be called then as well. NULL: it may not. */
	void (*answer)(struct session *s, uint64_t token, int status,
		const void *data, uint32_t size);
	/* The fate of a post with MSG_ACK; @size is its payload's; @text is
	 * NULL if it went well. */
	void (*settled)(struct session *s, uint64_t seq, uint32_t size,
		int status, const char *text);
	/* The session is going away: free the state. @crashed: without another
	 * handler run (no `_stop`). Events held by LEASED must end here, by
	 * session_done() or session_return(). */
	void (*stop)(struct session *s, bool crashed);
	size_t (*memory)(const struct session *s); /* bytes of the state */
	/* @m, which is now the kind's, came by sched_note(). NULL: none do. */
	void (*note)(struct session *s, struct msg *m);
	/* The caller of @call, which may be deferred, handed on or being
	 * handled, wants no reply any more: true if it was there. NULL: the
	 * kind is not told. */
	bool (*cancelled)(struct session *s, uint64_t call);
	/* It has got the alias @name, or lost it to the session @by: what
	 * claim_make() left for later. NULL: the event `_alias` tells. */
	void (*alias)(
		struct session *s, const char *name, bool held, uint64_t by);
	/* session_restart() of one that is up: its spec and aliases may have
	 * changed, its state stays. NULL: it is stopped and started. */
	void (*renew)(struct session *s);
	/* It owes somebody something that no counter here tells of, such as a
	 * deferred reply: it is not idle. NULL: never. */
	bool (*owes)(const struct session *s);
	/* It has no room, and OVERFLOW_DISCONNECT: the kind ends it. NULL: its
	 * poster is told. */
	void (*overflowed)(struct session *s);
	/* It may be given a `_gap`: what its overflow dropped. */
	bool gaps;
	/* The event @m that @a waited for, which is over; as LEASED. */
	void (*awaited)(struct session *s, struct await *a, struct msg *m);
	/* The event that its handler has now, or NULL; from a signal on the
	 * thread that runs it. NULL: not known. */
	const struct msg *(*handles)(const struct session *s);
	/* Likewise: its handler does not return; answer @st, now or as soon as
	 * that thread can, and stop what runs if @stops. False, or NULL: by
	 * the frames of its stack. */
	bool (*stalled)(const struct session *s, struct stall *st, bool stops);
	/* How many handlers wait; *@out is all 0. NULL: none can. */
	void (*waits)(const struct session *s, struct session_waits *out);
	/* Children outlive the state: stop() sees to them. */
	bool keeps_children;
	/* Its run() and reply() may run on other threads than its home's, as
	 * kernel/away.h says. */
	bool goes_away;
	/* @m, which was found in the store and counts as leased, rests until
	 * @due_ns, monotonic; then session_return(). NULL: nothing does. */
	void (*rest)(struct session *s, struct msg *m, uint64_t due_ns);
	/* It has a state, and another executor than before. May be NULL. */
	void (*moved)(struct session *s);
};

enum { SESSION_REASON_MAX = 2048 }; /* bytes of why it failed, with NUL */

enum session_life {
	SESSION_STARTING,
	SESSION_UP,
	SESSION_DORMANT, /* without a state until the next event */
	SESSION_BACKOFF, /* failed; will be started again by itself */
	SESSION_FAILED,  /* failed; stays so until asked to */
	SESSION_STOPPING,
	SESSION_DEAD,
};

/* Why a session, or its last incarnation, ended. */
enum session_exit {
	EXIT_NONE,
	EXIT_NORMAL,  /* it asked to */
	EXIT_STOPPED, /* its parent, its file or the daemon went, or restart */
	EXIT_FAILED,
	EXIT_KILLED,       /* somebody stopped it */
	EXIT_IDLE,         /* IdleStop= */
	EXIT_UNREFERENCED, /* Collect=yes and nothing referred to it */
};

enum session_run {
	SESSION_IDLE, /* nothing stands in the way of the next event */
	SESSION_RUNNING,
	SESSION_BUSY,    /* a handler waits in the middle */
	SESSION_ON_HOLD, /* run() said SESSION_HELD */
	SESSION_AWAY,    /* its executor has it; see away.h */
};

/* Of a mailbox that somebody minds. */
enum session_box {
	BOX_PAUSED = 1, /* its events wait; see queue_pause() */
	BOX_MOVING = 2, /* some are on their way to another; see queue_move() */
	BOX_WATER = 4,  /* has marks */
	BOX_ABOVE = 8,  /* was filled to the high one, and not emptied since */
	BOX_CHOOSY = 16,  /* its spec says more than Overflow=block */
	BOX_DURABLE = 32, /* has a journal */
	BOX_AWAITS = 64,  /* a handler waits for one of its events */
	BOX_HELD = BOX_PAUSED | BOX_MOVING,
	BOX_TOLD = BOX_WATER | BOX_AWAITS, /* what comes is told */
	BOX_OFF = 128, /* it is run by an executor, not by its loop */
	BOX_APART = BOX_HELD | BOX_OFF, /* the loop does not run its events */
};

/* What goes before its next event, or is to be done with it. */
enum session_before {
	BEFORE_CALLED = 1,  /* there may be something in its control lane */
	BEFORE_RETRIES = 2, /* none, but that event crashed it before */
};

struct counters {
	uint64_t accepted, handled, expired, cancelled, dropped, dead;
	uint64_t refused; /* never accepted */
	uint64_t leased;  /* now */
};

/* How restarts stand, and what else few sessions have; made at the first use
 * and kept while the session object lives. */
struct session_health {
	struct timer timer; /* the next start */
	uint64_t session;   /* whose */
	uint64_t window_ns; /* start of the budget's window, monotonic */
	union {
		uint64_t restart_wall_ns; /* in BACKOFF */
		struct gate *gate;        /* with session.gated */
	};
	uint32_t in_window; /* failures */
	uint32_t in_a_row;
	uint32_t restarts;       /* ever */
	char *reason;            /* of the last failure */
	struct profile *profile; /* stats/profile's, or NULL */
	struct journal *journal; /* its durable mailbox, or NULL */
	struct away *away;       /* NULL: never had an executor */
	struct state *state;     /* its durable state; NULL: it has none */
	struct counters ends;    /* what is not in struct session */
};

/* First what other threads read, and what seldom changes; a cache line behind
 * that what changes with each event. */
struct session {
	_Atomic uint64_t id; /* 0: free */
	_Atomic(struct sched *) home;
	const struct session_ops *ops;
	void *state;                   /* the kind's */
	struct session_spec *spec;     /* a reference; NULL: of a connection */
	struct alias *aliases;         /* through alias.sibling */
	struct session_health *health; /* or NULL, see session_health() */
	struct ties *ties;             /* watches and links; NULL: none */
	uint64_t started_ns;           /* monotonic, its state */
	struct session *next;          /* run queue, or free list */
	/* What changes with each event stands apart from what seldom does: a
	 * load of both would wait for the store of one. */
	uint8_t run;       /* enum session_run */
	bool queued;       /* on the run queue */
	bool begun : 1;    /* STARTING: start() has been called */
	bool stopping : 1; /* it will not be started again */
	bool gated : 1;    /* it has a gate: it has not settled yet */
	bool lent : 1;     /* its mailbox may hold events of others: crowd.h */
	uint8_t why : 4;   /* enum tie_end_why: if it is stopped */
	uint8_t exit : 4;  /* enum session_exit, of the last end */
	/* What seldom changes and is looked at for each event, in one word. */
	union {
		struct {
			uint8_t life;     /* enum session_life */
			uint8_t box_bits; /* enum session_box */
			bool exiting;     /* when its handler returns */
			uint8_t before;   /* enum session_before */
		};
		uint32_t standing; /* session_standing() */
	};
	uint64_t accepted, handled; /* events, ever */
	struct mailbox box;
	struct msg_ring control; /* replies; run before and despite events */
	struct msg_ring notices; /* events of the control lane */
	struct kin *kin;         /* family, idle time; NULL: neither */
	union {
		struct msg *current; /* being handled, or waited in */
		uint64_t last_id;    /* not published, dead or free: its id */
	};
	uint32_t starts;   /* of its state, ever */
	uint32_t leased;   /* events, now */
	uint32_t n_calls;  /* outstanding */
	uint32_t calls;    /* they, see calls_first() */
	uint32_t delays;   /* it has set, see delays_next_of() */
	uint32_t n_timers; /* of those, to itself */
	/* Requests for it that were refused by policy; any thread. */
	_Atomic uint32_t denied;
};

_Static_assert(sizeof(struct session) <= 232, "a million of them count");

/**
 * session_new() - make a session on this scheduler and start it
 * @sched: the home; its thread
 * @ops:   of the kind
 * @spec:  a reference is taken; NULL for sessions of a connection, which
 *         have default bounds and are never restarted
 * @state: initial state for ops, the kind's own meaning
 *
 * It is started at once for @spec NULL, else by the next turn. If an alias of
 * its spec is taken it is in the failed state from the start.
 *
 * Return: the session, or NULL when out of memory or at MaxSessions=.
 */
struct session *session_new(struct sched *sched, const struct session_ops *ops,
	struct session_spec *spec, void *state);
/* The same for one that starts in an order; takes the reference to @gate, which
 * may be NULL. */
struct session *session_new_after(struct sched *sched,
	const struct session_ops *ops, struct session_spec *spec, void *state,
	struct gate *gate);
/* A child of @parent, which is told of it by `_child` signals, and which it
 * does not outlive. Its home is spec->loop, or else that of the parent. There
 * its aliases are taken before this returns; elsewhere later, and one that is
 * taken ends the child. The thread of the parent's home.
 *
 * EVD_STATUS_OK and spawn->id; or LIMIT, TAKEN, NO_MEMORY and spawn->text. */
struct spawn {
	const struct session_ops *ops;
	struct session_spec *spec; /* a reference is taken; parent is set */
	void *state;
	uint64_t id;
	char text[256];
};
int session_spawn(struct session *parent, struct spawn *spawn);
/* Give it one more name. 0, ALIAS_E_TAKEN, ALIAS_E_NAME or -ENOMEM. */
int session_add_alias(struct session *s, const char *name, size_t size);
int session_drop_alias(struct session *s, const char *name, size_t size);
/* First alias, or "" if none. */
const char *session_name(const struct session *s);

/* Find by id. Any thread may ask; only the home's thread may use more than
 * id and home of the answer. NULL: no such session (any more). */
static inline struct session *session_find(struct kernel *k, uint64_t id);
/* Handlers that wait; while another thread runs it, as it went there. */
void session_waiting(const struct session *s, struct session_waits *out);

/* ---- for kinds, on the home's thread --------------------------------- */

/* SESSION_WAIT from start() ends well. */
void session_started(struct session *s);
/* The handler of @m (WAIT or LEASED) ended with @status: 0 handled; an error
 * dead-letters it. Answers its call if nobody did. Frees @m. */
void session_done(struct session *s, struct msg *m, int status);
/* @m, held by LEASED, goes back to the front of the mailbox: call it for the
 * newest first. */
void session_return(struct session *s, struct msg *m);
/* @m, held by LEASED, was being handled when its session failed, and has
 * @crashed it, or when it stops: as MaxAttempts= says it is tried again, or it
 * is a dead letter. */
void session_abandon(struct session *s, struct msg *m, bool crashed);
/* May the event being handled, @m, be put aside? 0, SCHED_E_FULL: its place in
 * the mailbox has been taken meanwhile, or -ENOMEM. Then run() may return
 * SESSION_STASHED, or, after WAIT, session_stash() may be called. */
int session_may_stash(struct session *s, const struct msg *m);
void session_stash(struct session *s, struct msg *m);
/* All that is aside goes back to the front of the mailbox, in order: how
 * many. It is not handled before the present handler has returned. */
uint32_t session_unstash(struct session *s);
/* After SESSION_HELD: try again. */
void session_wake(struct session *s);
/* The session has failed: free the state, end what it was handling as dead
 * with the reason, and let the policy decide. Legal inside start() and run(),
 * which must then return SESSION_CRASHED, and inside reply(). */
void session_fail(struct session *s, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Post @m and have ops.reply(@token) called once: with the answer, or with
 * an error status, EVD_STATUS_TIMEOUT after @timeout_ms (0: the default), or
 * at m->deadline_ns if that is earlier: a call made for another that has its
 * deadline. 0, or as sched_post(): then reply() is not called. */
int session_call(struct session *s, struct msg *m, uint64_t token,
	uint32_t timeout_ms, uint64_t *call);
/* The first half of that for the hot path, of a call to @to that nothing is
 * known to stand against: it is pending, and counts from the turn. The event is
 * to have its id and due_ns. NULL: not so, or out of memory; session_forget()
 * takes it back. */
struct call *session_begin_call(
	struct session *s, uint64_t to, uint64_t token, uint32_t timeout_ms);
/* Post @m, which asks for no reply, and have ops.reply(@token) called once when
 * it has reached @level or has failed; times as above. It has an extra if
 * @level is MSG_LEVEL_DURABLE. Consumes @m unless SCHED_E_LIMIT or -ENOMEM is
 * returned: then reply() is not called. session_settled() is the ops.settled()
 * of kinds that do this. */
int session_post(struct session *s, struct msg *m, enum msg_level level,
	uint64_t token, uint32_t timeout_ms, uint64_t *call);
void session_settled(struct session *s, uint64_t seq, uint32_t size, int status,
	const char *text);
/* ops.reply(@token) with EVD_STATUS_TIMEOUT after @ms. */
int session_sleep(
	struct session *s, uint64_t token, uint64_t ms, uint64_t *call);
/* No reply is wanted any more, nor given, and the callee is told: its event
 * ends as cancelled if it has not been taken yet. */
enum { SESSION_E_NO_CALL = 1 };
int session_cancel_call(struct session *s, uint64_t call);
/* The same by token, and reply() comes with EVD_STATUS_CANCELLED. */
int session_cancel_token(struct session *s, uint64_t token);
/* Post @m, to another session, in place of the event that came with @call (0:
 * none) and @deadline_ns: the reply goes to the first caller, who still waits
 * no longer. As sched_post(); the caller has then to forget @call. */
int session_forward(
	struct session *s, uint64_t call, uint64_t deadline_ns, struct msg *m);
/* No reply is wanted any more; the callee is not told. */
void session_forget(struct session *s, uint64_t call);

/* ---- lifecycle, on the home's thread --------------------------------- */

/* Stop for good: `_stop` runs, then queued events end as dead (DIED), aliases
 * go, the id is retired. Deferred to the end of the run if it is running. */
void session_stop(struct session *s);
/* The same, for another reason than that things are shut down. */
void session_stop_for(struct session *s, enum session_exit why);
/* It asked to end by itself: as session_stop(), but Restart=always starts it
 * again. Takes effect when its handler has returned, however often it waits
 * until then. */
void session_exit(struct session *s);
/* The same with a text of why, for people; @text may be NULL. */
void session_exit_with(struct session *s, const char *text);
/* It is of a file or was spawned: it can be started again, and be stopped by
 * others. Else it is a client's. */
static inline bool
session_is_hosted(const struct session *s)
{
	return s->spec && !s->spec->of_client;
}
/* Start again now, with a fresh budget: a failed, backing-off or running one
 * (its state is stopped first), but not from its own handler. It was made with
 * a spec. The mailbox stays. */
void session_restart(struct session *s, struct session_spec *spec);
const char *session_state_word(const struct session *s);
const char *session_exit_word(enum session_exit why); /* "" for none */
size_t session_memory(const struct session *s);

/* ---- for the kernel's own files -------------------------------------- */

static inline uint32_t
session_standing(
	uint8_t life, uint8_t box_bits, uint8_t exiting, uint8_t before)
{
	const uint8_t bytes[] = {life, box_bits, exiting, before};
	uint32_t standing;

	memcpy(&standing, bytes, sizeof(standing));
	return standing;
}

/* It is up, takes its events one after the other and tells nobody of the
 * level of its mailbox. */
static inline bool
session_is_calm(const struct session *s)
{
	uint32_t mind =
		session_standing(0xff, (uint8_t)~BOX_CHOOSY, 0xff, 0xff);

	return (s->standing & mind) == session_standing(SESSION_UP, 0, 0, 0);
}

/* It is calm but for who runs it: its mailbox takes events as they come. */
static inline bool
session_is_plain(const struct session *s)
{
	uint32_t mind = session_standing(
		0xff, (uint8_t) ~(BOX_CHOOSY | BOX_OFF), 0xff, 0xff);

	return (s->standing & mind) == session_standing(SESSION_UP, 0, 0, 0);
}

/* @m goes before its events. */
static inline void
session_call_in(struct session *s, struct msg_ring *lane, struct msg *m)
{
	s->before |= BEFORE_CALLED;
	msg_ring_push(lane, m);
}

/* The next turn starts it. */
void session_begin(struct session *s);
/* One of its own is answered, or nobody waits any more. */
void session_end_call(struct session *s, struct call *call);
/* The caller of @call, an event for @s, wants no reply; see aside.h. */
void session_call_cancelled(struct session *s, uint64_t call);
/* No room will come soon: end what waits for it, and say why. */
void session_refuse_parked(struct session *s, int status);
/* Take in what waits for room, as far as there is room. */
void session_admit_parked(struct sched *sched, struct session *s);
/* @m has been run with @result: an accepted event, which no longer counts as
 * queued, or one of the control lane. */
void session_conclude(struct sched *sched, struct session *s, struct msg *m,
	enum session_result result);
void session_conclude_notice(struct sched *sched, struct session *s,
	struct msg *m, enum session_result result);
/* The one place where life changes. */
void session_enter(struct session *s, enum session_life life);
/* There is a store now, where there was none: if @s, which has a spec, failed
 * for that it starts, and what is kept for it comes. */
void session_store_is_there(struct session *s);

/* ---- the table ------------------------------------------------------- */

enum { SESSION_SLOT_MASK = (1 << SESSION_SLOT_BITS) - 1 };

/* Made if need be; NULL: out of memory. */
struct session_health *session_health(struct session *s);
static inline struct journal *
session_journal(const struct session *s)
{
	return s->health ? s->health->journal : NULL;
}
static inline struct away *
session_away(const struct session *s)
{
	return s->health ? s->health->away : NULL;
}
/* A handler of @s has ended well: what it changed of the durable state is kept,
 * together with the end of its event, which is told next. */
void state_commit_it(struct session *s);
static inline void
state_commit(struct session *s)
{
	if (s->health && s->health->state)
		state_commit_it(s);
}
/* All that is counted of it. What ended badly while there was no memory to
 * count it is missing here, but not in sched.counters. */
struct counters session_counters(const struct session *s);
/* When its state was started, by the wall clock as it is now; 0: never. */
uint64_t session_started_wall_ns(const struct session *s);

/* The id of one that is known to be there. */
static inline uint64_t
session_id(const struct session *s)
{
	return atomic_load_explicit(&s->id, memory_order_relaxed);
}

/* The session in @slot, which may be free; NULL: no such slot. */
static inline struct session *
session_at(struct kernel *k, uint32_t slot)
{
	return slot <= k->sessions.n_max ? &k->sessions.all[slot] : NULL;
}

static inline struct session *
session_find(struct kernel *k, uint64_t id)
{
	struct session *s = session_at(k, (uint32_t)id & SESSION_SLOT_MASK);

	if (!s || atomic_load_explicit(&s->id, memory_order_acquire) != id)
		return NULL;
	return s;
}

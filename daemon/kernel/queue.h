#pragma once
/* Queue: what the kernel and its users do with the mailbox of a session beside
 * running it: overflow, levels, pausing, looking, purging, moving. The home's
 * thread, but for what says otherwise. */
#include "kernel/journal.h"
#include "kernel/sched.h"
#include "kernel/session.h"

/* The mailbox is as @s's spec has it from now on. */
void queue_configure(struct session *s);
/* Forget what hangs on the mailbox of a session that ends. */
void queue_deinit(struct session *s);

/* @m does not fit into the mailbox of @t, whose spec says what happens then.
 * Consumes @m on success: 0 (also if it was dropped), or SCHED_E_FULL, or
 * SCHED_E_NO_SESSION. */
int queue_overflow(struct sched *s, struct session *t, struct msg *m);

/* For now it takes no more than it holds, as what it is given is beyond what
 * its user may have: then its overflow sees to that. And as its spec has it
 * again; false: it is. */
void queue_narrow(struct session *s);
bool queue_widen(struct session *s);

/* @m is a `_gap` of @s, to be taken now: it says what was dropped so far. */
void queue_gap_fill(struct session *s, struct msg *m);
/* It has been taken. */
void queue_gap_taken(struct session *s);
/* The mailbox is as @spec has it, of a session that has none; it may say no
 * more than that of a mailbox. Takes a reference. */
void queue_use(struct session *s, struct session_spec *spec);

/* ---- levels -------------------------------------------------------------- */

/* With BOX_WATER: it may have reached the high mark. */
void queue_rise(struct sched *s, struct session *t);
/* With BOX_ABOVE: it may have fallen to the low mark. */
void queue_fall(struct sched *s, struct session *t);

/* ---- pausing ------------------------------------------------------------- */

/* Its events wait, its control lane goes on; new ones are accepted as ever. */
void queue_pause(struct session *s);
void queue_resume(struct session *s);
static inline bool
queue_is_paused(const struct session *s)
{
	return s->box_bits & BOX_PAUSED;
}

/* ---- looking ------------------------------------------------------------- */

enum { QUEUE_STEP = 4096 }; /* events looked at or ended in one turn */

/* One look through the events that are queued when it begins; it may take
 * several turns. */
struct queue_walk {
	struct mailbox_cursor cursor;
	uint64_t session;
	struct journal_mark stored; /* for what is in the store alone */
	uint32_t left;              /* to look at yet */
	bool open;
};

void queue_walk_open(struct queue_walk *w, struct session *s);
/* The same, but only through what is in memory then; journal_look() from
 * w->stored on finds the rest. */
void queue_look_open(struct queue_walk *w, struct session *s);
/* The session is there no more: the walk is over. */
void queue_walk_close(struct queue_walk *w, struct sched *s);
/* The next event, or NULL at the end. */
const struct msg *queue_walk_next(struct queue_walk *w, struct session *s);

/* End the events among the next QUEUE_STEP of the walk that are called @event
 * (NULL: all) as cancelled: how many. The walk is closed when it is over. */
uint32_t queue_purge(
	struct sched *sched, struct queue_walk *w, const char *event);

/* The same from the beginning to the end, of what is in the store alone as
 * well: of a durable mailbox either all of it is purged or, if it cannot be
 * written, none, whatever happens meanwhile. */
struct queue_purge {
	struct sched_task task;
	uint64_t session;
	const char *event; /* NULL: all */
	struct queue_walk walk;
	bool walked, stored;
	uint64_t n; /* so many have ended */
	int status; /* OK, IO, LIMIT (one is under way), NO_MEMORY */
	/* On the session's home; the purge is the caller's again. */
	void (*done)(struct queue_purge *p, struct sched *home);
};

/* session, event and done are set; on the home of the session, which is there.
 */
void queue_purge_start(struct queue_purge *p, struct sched *s);

/* ---- moving -------------------------------------------------------------- */

/* Events on their way from the front of one mailbox to the end of another, as
 * they are: ids, senders and order stay. Meanwhile the source rests. What does
 * not fit goes back to where it was. */
struct queue_move {
	struct sched_task task;
	struct sched *home; /* of the source */
	uint64_t from, to;  /* sessions */
	uint32_t left;      /* to move yet */
	uint32_t moved;
	int status; /* why it is over: OK, FULL, NO_ALIAS, FAILED, DIED */
	struct msg_queue batch;
	uint32_t n_batch;
	uint32_t n_taken;             /* of the source at a time */
	struct journal_place *places; /* where they are in its store, or NULL */
	struct sched_task safe;       /* what has arrived is safe there */
	bool is_safe, is_back;
	/* On the thread of @home; the move is the caller's again. */
	void (*done)(struct queue_move *move, struct sched *home);
};

/* from, to, left and done are set; on the home of the source, which is there
 * and not BOX_MOVING yet. */
void queue_move_start(struct queue_move *move, struct sched *s);
/* Accepted events that @task carries, if it is a move on its way. */
uint32_t queue_carried(struct sched_task *task);

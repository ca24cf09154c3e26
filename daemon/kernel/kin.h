#pragma once
/* Kin: what a session is to others: whose child it is and which children it
 * has. Made for those sessions alone that need it, and kept until their end.
 * The home's thread.
 *
 * Parent and child may live on different schedulers. They tell each other by
 * messages (MSG_KIN), which are taken in a later turn even on one scheduler:
 * nothing here runs inside anybody's handler, but for kin_adopt(). */
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "kernel/msg.h"
#include "kernel/session.h"
#include "kernel/timers.h"

enum { KIN_DEPTH_MAX = 64 };      /* children of children of ... */
enum { KIN_NOTICES_MAX = 65536 }; /* not yet read; then no more children */

/* What one says to the other: msg.handler. */
enum kin_op {
	/* to the parent */
	KIN_JOIN = 1, /* seq: its order; text: its name */
	KIN_LEFT,     /* it is in another group now */
	KIN_LOST,     /* it has ended; text: name, reason and why */
	KIN_FAILED,   /* seq: how long to pause; status: enum kin_failed */
	KIN_GAVE_UP,  /* it stays failed; text: name, reason and why */
	KIN_DOWN,     /* answers KIN_SUSPEND */
	KIN_UP,       /* answers KIN_START, once it is up */
	/* to the child */
	KIN_SETTLE,  /* it is new here: begin */
	KIN_STOP,    /* end; status: why, enum session_exit */
	KIN_LEAVE,   /* there is no group any more */
	KIN_RETRY,   /* start again after the pause */
	KIN_SUSPEND, /* drop your state and wait */
	KIN_START,   /* start, if you wait */
	KIN_HALT,    /* fail; text: why */
};
/* With KIN_FAILED: its strategy, and whether it is no failure to count. */
enum kin_failed { KIN_STRATEGY = 0xff, KIN_AGAIN = 0x100 };

struct child {
	struct list link; /* in kin.children, in the order of their start */
	uint64_t id;
	int64_t order;
	bool down;     /* it has no state and waits for us */
	bool affected; /* to be stopped and started */
	bool asked;    /* its answer is awaited */
	char name[];
};

enum team_phase { TEAM_CALM, TEAM_STOPPING, TEAM_PAUSE, TEAM_STARTING };

struct kin {
	uint64_t session; /* whose this is */
	uint64_t parent;  /* session; 0: none */
	struct list children;
	uint32_t n_children;
	int64_t last_order; /* of those that it spawned */
	uint32_t n_notices; /* sent since there were none, at least */
	bool grouped;       /* the parent is its group */
	bool held;          /* its parent says when it starts again */
	bool tell_up;       /* the parent waits for KIN_UP */
	uint8_t depth;      /* of how many generations it is */
	uint8_t phase;      /* enum team_phase, of its children */
	uint64_t pause_ns;  /* before they are started again */
	uint64_t retry_ns;  /* of itself, after KIN_RETRY */
	uint64_t busy_ns;   /* when it last did anything, with IdleStop= */
	struct timer idle;  /* TIMER_IDLE */
	struct timer team;  /* TIMER_TEAM */
};

/* Bytes held for it and its children's places; it has kin. */
size_t kin_memory(const struct session *s);
/* Its kin, made if need be; NULL: out of memory. */
struct kin *kin_of(struct session *s);
/* Its end: tell the parent, free all. Its children have gone already. */
void kin_ended(struct session *s);
/* As session_stop() of all children, the newest first. */
void kin_drop_children(struct session *s);
/* @id is a child of @s from now on. 0, KIN_E_MANY or -ENOMEM. */
enum { KIN_E_MANY = 1 };
int kin_adopt(struct session *s, uint64_t id, const char *name);
/* It has not become a child after all: forget it, and end it. */
void kin_disown(struct session *s, uint64_t id);
/* End the child @id because somebody says so; it tells @s of it. */
void kin_kill(struct session *s, uint64_t id);
struct child *kin_child(const struct session *s, uint64_t id); /* or NULL */
/* Become a member of the group that its spec names; if there is one. */
void kin_join(struct session *s);
void kin_leave(struct session *s);
/* It has failed and has no state: leave the rest to its parent. False: it has
 * none that wants to know. */
bool kin_report(struct session *s, uint64_t pause_ns, bool again);
/* It stays failed: tell a parent that is no group. */
void kin_gave_up(struct session *s);
/* Its life has changed, and the parent waits for it to be up: or to be as far
 * as it comes. */
void kin_settled(struct session *s);
/* A MSG_KIN has come. Consumes @m. */
void kin_arrived(struct sched *sched, struct msg *m);
/* To @to from @s; @text may be NULL. */
struct kin_words {
	uint64_t seq;
	uint32_t status;
	const char *text;
};
int kin_tell(struct session *s, uint64_t to, enum kin_op op,
	const struct kin_words *words);

/* ---- kernel/team.c: children that are started again together ------------- */

void team_failed(struct session *s, struct child *c, const struct msg *m);
void team_down(struct session *s, struct child *c);
void team_up(struct session *s, struct child *c);
/* Something has changed, such as a child that has gone: go on. */
void team_step(struct session *s);
void team_calm(struct session *s); /* there are no children any more */
void team_due(struct sched *sched, struct kin *kin);
/* Of a group: its members, in order. */
void team_start_all(struct session *s);
void team_suspend_all(struct session *s);
void team_halt(struct session *s, const char *text);

/* ---- kernel/group.c: sessions that only supervise ------------------------ */

extern const struct session_ops group_ops; /* Kind=group */

#pragma once
/* Notice: an event that tells a session of other sessions and of names, with
 * fields instead of a payload of bytes. It goes by sched_control(), so nothing
 * that is queued delays or evicts it. Any thread. */
#include <stdbool.h>
#include <stdint.h>

struct msg;
struct msg_pool;

struct notice {
	uint64_t watch;   /* number of the watch it answers; 0: of none */
	uint64_t session; /* whom it is about; 0: nobody */
	uint64_t lost;    /* notices of this watch that were left out before; or
			   * events that were dropped */
	uint64_t from, to; /* the first and the last of those events */
	bool up;           /* a name: it has appeared, or is held now */
	const char *alias, *reason, *text; /* NULL is read back as "" */
	const char *change; /* of a child: "gained", "lost", "failed" */
};

/* Their events. Nobody else can post one: it is told by its place in memory,
 * not by its letters. */
extern const char notice_down[];  /* "_down": a watched session ended */
extern const char notice_name[];  /* "_name": an alias came or went */
extern const char notice_child[]; /* "_child": a child came or went */
extern const char notice_alias[]; /* "_alias": one of its own came or went */
extern const char notice_gap[];   /* "_gap": its mailbox dropped events */
/* Of its mailbox: with a text as payload, not fields. */
extern const char notice_high_water[]; /* "_high_water": filled to its mark */
extern const char notice_low_water[];  /* "_low_water": and emptied again */
/* To monitors alone, with a text: what a handler did that kept its thread. */
extern const char notice_stuck[];    /* "_stuck": it has not returned yet */
extern const char notice_returned[]; /* "_returned": now it has */

/* NULL: out of memory. */
struct msg *notice_new(
	struct msg_pool *p, const char *event, const struct notice *n);
/* Is @event called as they are? Others that are so are not for handlers that
 * expect a notice. */
bool notice_is_name(const char *event);
/* Is @m one with fields? Then its payload is not for people. */
bool notice_is(const struct msg *m);
/* Is it one with a text? */
bool notice_is_text(const struct msg *m);
/* @m is a `_gap`: @lost more events have been dropped, up to @to. */
void notice_widen(struct msg *m, uint64_t from, uint64_t to, uint64_t lost);
/* Its strings are good as long as @m. */
void notice_read(const struct msg *m, struct notice *n);

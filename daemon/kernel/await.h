#pragma once
/* Await: a handler in the middle that waits for one event of its session's own
 * mailbox, whatever stands before it there. What is awaited is taken out by
 * the session's next run, before other events are; while the mailbox is paused
 * it stays. The home's thread. */
#include <stdbool.h>

#include "kernel/mailbox.h"

struct sched;
struct session;

struct await {
	struct await *next;           /* begun later, of the same session */
	struct mailbox_cursor cursor; /* what is ahead has not been looked at */
	bool (*matches)(const struct await *a, const struct msg *m);
};

/* From now on; @a->matches is set. It ends when session_ops.awaited() is given
 * an event, or by await_end(), which has to be called before the state goes.
 * 0 or -ENOMEM. */
int await_begin(struct session *s, struct await *a);
void await_end(struct session *s, struct await *a);

/* ---- for the kernel's own files ---------------------------------------- */

/* Something may be awaited that has not been looked at. */
bool await_has_more(const struct session *s);
/* Look at some events: take out one that is awaited, by *@whose, or NULL. */
struct msg *await_take(
	struct sched *sched, struct session *s, struct await **whose);
/* Give it: how many events it was. */
int await_run(struct sched *sched, struct session *s);
/* @m has come to the mailbox. */
void await_arrived(struct sched *sched, struct session *s, const struct msg *m);
/* Events have come to the front: look at all again. */
void await_again(struct session *s);

#pragma once
/* Leaders: the threads of a pool take turns to run the loops whose sessions it
 * has. The one that leads waits in the loop for work; when that comes for such
 * a session, it makes another thread of the pool lead and runs the session
 * itself, so that no work changes hands. When all are busy the last one keeps
 * the loop, which never stands still, and what comes waits for a thread.
 *
 * A loop's own first thread joins the pool when it first passes the loop on,
 * and leaves it when the loop has ended. */
#include "exec/pool.h"

struct loop;

/* executor_ops.hand(). */
void leader_hand(struct executor *x, struct away *a);
/* What the thread that leads @l is to run itself, while @next leads; NULL:
 * there is nothing, or nobody. */
struct away *leader_pass(
	struct loop *l, struct pool *p, struct pool_thread **next);
/* @next goes on with @l. */
void leader_follow(struct pool_thread *next, struct loop *l);
/* Lead @l from now on: what it is to run in the end, or NULL. */
struct away *leader_lead(struct pool_thread *t, struct loop *l);
/* The first thread of @l, which has passed it on for @a, is one of the pool's
 * until the loop has ended. */
void leader_join(struct loop *l, struct away *a);
/* Its first thread runs a session that does not return: say so. */
void leader_tell_stuck(const struct loop *l);
/* @l has ended: its first thread, wherever it is, may go. */
void leader_end(struct loop *l);

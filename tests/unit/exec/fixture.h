#pragma once
/* For the tests of exec/: a kernel with loops in real threads, and sessions
 * whose handlers are functions of the test. Handlers only count; the test's
 * thread asserts when they say that they are done. */
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "exec/loop.h"
#include "kernel/away.h"

enum { LOOPS_MAX = 4, PATIENCE_S = 100 };

struct rig {
	struct kernel kernel;
	struct loop *loops[LOOPS_MAX];
	unsigned n_loops;
	sem_t done;
};

struct loop *loop_alloc(void);
struct rig *rig_new(unsigned n_loops);
void rig_start(struct rig *rig);
/* Until rig_done() has been called @n times. */
void rig_await(struct rig *rig, unsigned n);
void rig_done(struct rig *rig); /* any thread */
void rig_stop(struct rig *rig); /* and join */
void rig_free(struct rig *rig); /* nothing must be left open */
/* cmocka's. */
int setup_one(void **state);
int setup_two(void **state);
int setup_four(void **state);
int teardown(void **state);

struct actor {
	struct rig *rig;
	struct loop *loop;
	struct session *session;
	uint64_t id;
	void (*on_run)(struct actor *a, struct msg *m);
	void (*on_reply)(struct actor *a, uint64_t token);
	struct actor *peer;
	uint64_t n, limit;
	uint64_t due_ns, best_late_ns, n_early;
	uint64_t n_settled, n_replies;
	unsigned n_inside; /* handlers that run */
};

/* Before its loop runs. */
void actor_init(struct actor *a, struct rig *rig, unsigned loop);
/* An event with @number as its payload. On the thread of @from. */
struct msg *msg_of(struct actor *from, const struct actor *to, uint64_t number);
void post(struct actor *from, const struct actor *to, uint64_t number);

/* ---- a crowd --------------------------------------------------------- */

/* Actors that all send to all in turn, posts and calls, some with acks. What
 * comes twice, out of order or not at all is seen in the end. */
enum { CROWD = 16 };

struct crowd_plan {
	uint64_t each; /* that one sends and gets, calls among them */
	uint64_t batch, call_every, ack_every;
};

struct crowd {
	struct rig *rig;
	struct crowd_plan plan;
	struct actor actors[CROWD];
	uint64_t sent[CROWD];
	uint64_t seen[CROWD][CROWD]; /* by receiver, sender */
	uint64_t n_received[CROWD], n_wrong[CROWD];
	bool done[CROWD];
};

/* On all loops of @rig, which do not run yet. */
struct crowd *crowd_new(struct rig *rig, const struct crowd_plan *plan);
/* Until all have got all; then the loops have ended. */
void crowd_await(struct crowd *c);
/* Nothing was lost, and the books are right. */
void crowd_check(const struct crowd *c);

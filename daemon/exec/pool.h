#pragma once
/* Pool: threads that run sessions which are not to be run by their loops. What
 * they run may block. Threads are made when they are first needed, up to the
 * pool's number, and then stay.
 *
 *   worker      runnable sessions stand in one queue; any idle thread takes
 *               the next
 *   threadpool  a runnable session is given to one particular idle thread,
 *               which is the one that is woken
 *   leader      threads take turns to run the loops, see leader.h
 *
 * Any thread, unless said otherwise. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernel/away.h"
#include "kernel/kernel.h"

struct loop;
struct stuck;

enum pool_type { POOL_WORKER, POOL_THREADPOOL, POOL_LEADER };
extern const char *const pool_type_words[]; /* by enum pool_type; NULL ends */

enum {
	POOL_THREADS_DEFAULT = 8,
	POOL_THREADS_MAX = 1024,
};

struct pool_init {
	const char *name; /* copied */
	enum pool_type type;
	uint32_t n_threads;
	uint64_t busy_ns;      /* an idle thread looks so long, then sleeps */
	uint64_t stuck_ns;     /* a handler that runs longer is; 0: none */
	const cpu_set_t *cpus; /* NULL: any */
	/* In each thread, first and last; for what kinds need there. */
	int (*thread_init)(void);
	void (*thread_deinit)(void);
};

/* Of an idle thread. Who has taken it from the stack sets WOKEN. */
enum pool_word { WORD_LOOKS, WORD_SLEEPS, WORD_WOKEN };

struct pool_thread {
	struct pool *pool;
	struct pool_thread *next; /* idle ones */
	struct pool_thread *next_guest;
	struct away *job;   /* threadpool, leader: given to it */
	struct loop *leads; /* leader: a loop to go on with */
	struct loop *own;   /* leader: whose first thread it is */
	_Atomic(struct away *) runs;
	_Atomic uint64_t session; /* whose work that is */
	_Atomic uint32_t word;    /* enum pool_word */
	_Atomic bool ended;
	pthread_t thread;
	pid_t tid; /* under the pool's lock; 0: it ends, or has not begun */
	bool joined;
};

struct pool {
	struct executor executor; /* first */
	enum pool_type type;
	_Atomic uint64_t busy_ns;
	int (*thread_init)(void);
	void (*thread_deinit)(void);
	char *name;
	_Atomic uint32_t n_ended; /* threads, ever */
	_Atomic uint64_t n_woken; /* how often a sleeping one was woken */
	pthread_mutex_t lock;     /* of all below */
	uint32_t n_max;           /* threads */
	bool has_cpus;
	cpu_set_t cpus;
	/* The first n_places are or were threads. */
	struct pool_thread *threads[POOL_THREADS_MAX];
	uint32_t n_places, n_threads;
	uint32_t n_made;          /* threads, ever */
	struct pool_thread *idle; /* last in, first out: its cache is warm */
	uint32_t n_idle;
	uint32_t n_guests; /* leader: threads that are loops' own */
	struct pool_thread *guests;
	struct away *head, *tail; /* in wait for a thread */
	uint32_t n_queued, most_queued;
	bool stop;
};

/* How it stands, for people. */
struct pool_state {
	uint32_t n_threads, n_busy, n_queued, most_queued, n_sessions, n_stuck;
	uint64_t n_runs, n_woken, n_stuck_ever;
};

/* NULL: out of memory. No thread is made yet. */
struct pool *pool_new(const struct pool_init *init);
/* Threads, CPUs and how busily they look from now on; name and type stay. What
 * was retired may be used again. */
void pool_change(struct pool *p, const struct pool_init *init);
/* No session is to get it any more; its threads end once none has it. Before
 * that those that have it may go on, and are to be moved. */
void pool_retire(struct pool *p);
/* Whether a retired one is at its end; to be asked once sessions have left. */
void pool_settle(struct pool *p);
/* No more work is to come: threads end when nothing waits. How many have not
 * ended after @ms, which are named in the log: then the pool and the kernel
 * must be left alone. After the loops' threads, or with nothing away. */
unsigned pool_stop(struct pool *p, uint32_t ms);
/* What it runs does not return: say so. */
void pool_tell_stuck(const struct pool_thread *t);
struct pool *pool_free(struct pool *p); /* after pool_stop() */
void pool_look(struct pool *p, struct pool_state *state);
/* Those of @home that threads run and that are stuck, and were not told of: up
 * to @max to @out. Who holds @home. */
uint32_t pool_look_stuck(
	struct pool *p, struct sched *home, struct stuck *out, uint32_t max);

/* ---- for the folder's own files --------------------------------------- */

/* Do what there is to do until the pool ends, or the loop that @t owns. */
void pool_serve(struct pool_thread *t);
/* Under the lock: an idle thread, or a new one which waits for pool_rouse();
 * NULL: all are busy. */
struct pool_thread *pool_follower(struct pool *p);
void pool_rouse(struct pool_thread *t);
/* The same; from a loop's turn: once that lets go of its baton, for until then
 * the thread would but wait for it. */
void pool_rouse_soon(struct pool_thread *t);
void pool_rouse_all(struct pool_thread *first);
/* Under the lock: the next that waits, or NULL. */
struct away *pool_take(struct pool *p);
/* Under the lock. Once it is not idle any more: pool_rouse() it. */
bool pool_unidle(struct pool *p, struct pool_thread *t);
void pool_put(struct pool *p, struct away *a);

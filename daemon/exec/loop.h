#pragma once
/* The loop executor: one loop in one thread, running one scheduler.
 *
 * A turn: wait (io.h); connections read and post, and libuv's callbacks run if
 * it has some; then the scheduler's turn runs sessions; then what was deferred
 * to the end of the turn runs (each connection writes once); then the outboxes
 * are published. While there is more to do the loop does not sleep.
 *
 * Everything is the loop's thread's, but for loop_inject() and loop_stop(), and
 * but for what a thread does to it that holds its baton: once the loop has a
 * session with an executor it lets go of that while it sleeps. Nobody but its
 * thread enters libuv. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "exec/baton.h"
#include "exec/io.h"
#include "kernel/away.h"
#include "kernel/sched.h"

struct pool;
struct pool_thread;

/* Something to do at the end of the turn, once however often asked. */
struct loop_flush {
	struct loop_flush *next;
	void (*run)(struct loop_flush *flush);
	bool queued;
};

struct loop {
	uv_loop_t uv;
	struct sched sched;
	uv_prepare_t anchor; /* keeps libuv's clock of timers running */
	struct io io;
	struct io_watch on_uv;    /* libuv's own epoll */
	struct io_watch on_wake;  /* an eventfd */
	struct io_watch on_timer; /* a timerfd: libuv knows no less than 1 ms */
	struct io_watch on_clock; /* a timerfd: the wall clock is set */
	uint64_t timer_ns; /* when on_timer is armed for; UINT64_MAX: not */
	bool busy;         /* there is more to do: it does not sleep */
	bool shares;       /* it lets go of the baton while it sleeps */
	bool naps;         /* it does so now */
	bool touched;      /* libuv's handles were changed meanwhile */
	bool slept;        /* before this turn: the clock is read */
	bool uv_waits;     /* libuv is to be looked at in the next turn */
	struct baton baton;
	uint64_t busy_ns; /* that it looks for work before it sleeps */
	uint32_t n_vain;  /* times in a row that it did so in vain */
	/* Whether some pool's threads take turns to run it, see leader.h. */
	struct pool_thread *to_rouse; /* when it lets go of the baton */
	struct pool *leads;         /* it has work for a leader of that pool */
	struct pool_thread *member; /* its first thread, once that has led */
	/* Who runs it, or did last; good once it is led. */
	_Atomic(pthread_t) leader;
	_Atomic bool is_led;
	_Atomic bool ended; /* nobody runs it any more */
	_Atomic bool stop;
	_Atomic uint64_t turns;   /* for the watchdog: it turns */
	_Atomic uint64_t n_woken; /* how often somebody ended its sleep */
	struct loop_flush *flush_head, **flush_tail;
	uint8_t *read_buffer; /* LOOP_READ_SIZE bytes, shared by connections */
	pthread_t thread;
	bool started;
	void *net; /* what net/ keeps for this loop */
};

enum { LOOP_READ_SIZE = 256 * 1024 };

/* Make the loop and its scheduler @index of @k; negative errno, and then it
 * leaves nothing behind. */
int loop_init(struct loop *l, struct kernel *k, unsigned index);
/* Closes every handle; after its thread has ended, and those of all loops of
 * the kernel. Handles that others left open are logged (a bug) and closed.
 * Negative errno if some stay open. Nothing if loop_init() has failed. */
int loop_deinit(struct loop *l);
/* Run in the calling thread until loop_stop(). If leaders run it (leader.h)
 * that thread is one of them. */
void loop_run(struct loop *l);
/* The same for as long as the calling thread leads: until loop_stop(), or until
 * there is an event for it to run, which is returned. @p: which pool's it is,
 * or NULL. */
struct away *loop_lead(struct loop *l, struct pool *p);
/* The loop that the calling thread runs just now, or NULL. */
extern _Thread_local struct loop *loop_here;
/* Run in a thread of its own; loop_join() waits for its end. */
int loop_start(struct loop *l);
void loop_join(struct loop *l);
/* Any thread. The loop ends after its turn. */
void loop_stop(struct loop *l);
/* Run task->run() on the loop's thread. Any thread. */
void loop_inject(struct loop *l, struct sched_task *task);
/* One turn in the calling thread, which sleeps if nothing is to do and @sleeps.
 * For those who drive a loop by themselves. */
void loop_once(struct loop *l, bool sleeps);
/* Run flush->run() at the end of this turn. */
static inline void
loop_defer(struct loop *l, struct loop_flush *flush)
{
	if (flush->queued)
		return;
	flush->queued = true;
	flush->next = NULL;
	*l->flush_tail = flush;
	l->flush_tail = &flush->next;
}
/* A handle of libuv was started, stopped or closed, perhaps by a thread that
 * holds the baton while the loop sleeps. */
static inline void
loop_touch(struct loop *l)
{
	l->touched = true;
}
static inline struct loop *
loop_of(struct sched *s)
{
	return s->executor_data;
}

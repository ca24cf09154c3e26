#pragma once
/* Fault: what becomes of a coroutine whose stack is too small. The write into
 * the guard below it raises SIGSEGV, whose handler runs on a stack of its
 * own. If whoever runs the coroutine can do without it, coro_resume() returns
 * with CORO_OVERFLOWED and the frames are given up where they are; else, and
 * for every other fault inside a coroutine, the process says who it was and
 * goes the way it would have gone without us.
 *
 * The handler is the process's; the alternate stack is each thread's. */
#include <stdbool.h>
#include <stddef.h>

struct coro;

/* Called by the signal handler: nothing but memory may be read. */
struct coro_fault_ops {
	/* May the frames be given up at the instruction @pc? */
	bool (*may_leave)(const struct coro *co, const void *pc);
	/* Who is it? Up to @size bytes to @text: how many. */
	size_t (*describe)(const struct coro *co, char *text, size_t size);
};

/* From now on; @ops stay. 0 or a negative errno. Once, or again with the
 * same. */
int coro_fault_init(const struct coro_fault_ops *ops);
/* Put back what handled faults before. */
void coro_fault_deinit(void);
int coro_fault_thread_init(void);
void coro_fault_thread_deinit(void);
/* The instruction that a signal interrupted; @context as handlers are given it.
 */
const void *coro_fault_pc(const void *context);
/* Last words, to standard error: who and @what. */
void coro_fault_say(const struct coro *co, const char *what);

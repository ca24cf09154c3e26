#pragma once
/* Coroutine: a function with a stack of its own, which may stop in the middle
 * and be gone on with, by the same thread or another one. Who runs it waits
 * until it stops or ends; runs may be nested.
 *
 * Stacks come from the process's own store of them (stacks.h), as a thread's
 * few free ones do (no lock). One thread at a time touches a coroutine.
 *
 * What a coroutine keeps across a wait is its stack. Not `errno`, nor the
 * address of anything thread-local: it may go on on another thread, and
 * compilers remember both. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coro/switch.h"

#if defined(__SANITIZE_ADDRESS__)
#define CORO_ASAN 1
#elif defined(__SANITIZE_THREAD__)
#define CORO_TSAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CORO_ASAN 1
#elif __has_feature(thread_sanitizer)
#define CORO_TSAN 1
#endif
#endif
#ifndef CORO_ASAN
#define CORO_ASAN 0
#endif
#ifndef CORO_TSAN
#define CORO_TSAN 0
#endif

#if CORO_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#elif CORO_TSAN
#include <sanitizer/tsan_interface.h>
#endif

struct coro;
struct coro_contexts; /* without a switch of our own: see contexts.h */
struct coro_slab;

typedef void (*coro_fn)(struct coro *co, void *arg);

enum coro_state {
	CORO_READY, /* not run yet */
	CORO_WAITS, /* it has stopped in the middle */
	CORO_ENDED,
	CORO_OVERFLOWED, /* its stack was too small; see fault.h */
};

struct coro {
	struct coro_place self, back; /* where it is, and who runs it */
	coro_fn fn;
	void *arg;
	coro_fn outside; /* to be run on the other stack; NULL: nothing */
	void *outside_arg;
	struct coro_contexts *contexts; /* NULL: by our own switch */
	struct coro *next;              /* free */
	struct coro_slab *slab;
	char *low;        /* lowest byte of its stack */
	uint32_t index;   /* in its slab */
	uint8_t state;    /* enum coro_state */
	bool is_made;     /* its stack holds the frame that runs fn */
	bool is_guarded;  /* below low nothing can be written */
	bool is_checked;  /* instead: by a mark that an overflow overwrites */
	bool by_contexts; /* not by our own switch */
#if CORO_ASAN
	void *fake;
	const void *back_low;
	size_t back_size;
#elif CORO_TSAN
	void *fiber, *back_fiber;
#endif
};

/* A coroutine that will run @fn, or NULL: out of memory. */
struct coro *coro_new(coro_fn fn, void *arg);
/* Give its stack back, also that of one that waits: what it holds in its
 * frames is lost then. Accepts NULL, returns NULL. */
struct coro *coro_free(struct coro *co);
/* Run it until it waits, ends or overflows. */
enum coro_state coro_resume(struct coro *co);
/* The one that runs on this thread, or NULL. */
struct coro *coro_running(void);
/* This thread may go on with coroutines that another has begun. */
void coro_thread_init(void);
/* Free ones of this thread go to the others. Before the thread ends. */
void coro_thread_deinit(void);

/* The memory of its stack, which is free, is about to go; for stacks.c. */
void coro_unmake(struct coro *co);

/* ---- inside it --------------------------------------------------------- */

void coro_contexts_leave(struct coro *co);

/* Say to the sanitizer that the stack changes, and that it has. */
static inline __attribute__((always_inline)) void
coro_note_leave(struct coro *co)
{
#if CORO_ASAN
	__sanitizer_start_switch_fiber(&co->fake, co->back_low, co->back_size);
#elif CORO_TSAN
	__tsan_switch_to_fiber(co->back_fiber, 0);
#else
	(void)co;
#endif
}

static inline __attribute__((always_inline)) void
coro_note_entered(struct coro *co)
{
#if CORO_ASAN
	__sanitizer_finish_switch_fiber(
		co->fake, &co->back_low, &co->back_size);
#else
	(void)co;
#endif
}

static inline __attribute__((always_inline)) void
coro_leave(struct coro *co)
{
	coro_note_leave(co);
	if (co->contexts)
		coro_contexts_leave(co);
	else
		coro_switch(&co->self, &co->back);
	coro_note_entered(co);
}

/* Stop here until coro_resume(). */
static inline __attribute__((always_inline)) void
coro_wait(struct coro *co)
{
	co->state = CORO_WAITS;
	coro_leave(co);
}

/* Run @fn on the stack of whoever runs this one, and go on: for what needs
 * more room than a coroutine has. */
static inline void
coro_outside(struct coro *co, coro_fn fn, void *arg)
{
	co->outside = fn;
	co->outside_arg = arg;
	coro_leave(co);
}

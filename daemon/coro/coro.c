#include "coro/coro.h"

#include <stdlib.h>
#include <string.h>

#include "coro/contexts.h"
#include "coro/fault.h"
#include "coro/stacks.h"

enum {
	CACHE_MAX = 64,   /* free ones that a thread keeps for itself */
	CACHE_BATCH = 32, /* handed over at once */
};

/* A thread's own. The signal handler reads `running`: no lazy allocation of
 * thread-local memory. */
static _Thread_local struct {
	struct coro *running;
	struct coro *free;
	uint32_t n_free;
	bool is_ready;
} own __attribute__((tls_model("initial-exec")));

struct coro *
coro_running(void)
{
	return own.running;
}

/* ---- the first frame --------------------------------------------------- */

static void
end_run(struct coro *co)
{
	co->state = CORO_ENDED;
	coro_leave(co);
}

#if CORO_ASAN
/* The sanitizer frees what it keeps beside the stack. */
static void
leave_for_good(struct coro *co)
{
	co->state = CORO_ENDED;
	__sanitizer_start_switch_fiber(NULL, co->back_low, co->back_size);
	if (co->contexts)
		coro_contexts_leave(co);
	else
		coro_switch(&co->self, &co->back);
}
#endif

/* Entered by a jump, once for a stack: it runs one function after another. */
static __attribute__((noinline, noreturn)) void
coro_main(void)
{
	struct coro *co = own.running;

#if CORO_ASAN
	__sanitizer_finish_switch_fiber(NULL, &co->back_low, &co->back_size);
#endif
	while (co->fn) {
		co->fn(co, co->arg);
		end_run(co);
	}
#if CORO_ASAN
	leave_for_good(co);
#endif
	abort(); /* nobody resumes it again */
}

static void
make(struct coro *co)
{
	char *top = stacks_top(co);
	uintptr_t sp = (uintptr_t)top & ~(uintptr_t)63;

	co->contexts = NULL;
#if CORO_TSAN
	if (!co->fiber)
		co->fiber = __tsan_create_fiber(0);
#endif
	co->is_made = true;
	if (co->by_contexts) {
		coro_contexts_make(co, top, coro_main);
		return;
	}
	/* A return address of nowhere ends what unwinds the stack. */
	memset((void *)(sp - 64), 0, 64);
	sp -= 64;
#if defined(__x86_64__)
	sp -= sizeof(void *); /* as if by a call */
	*(void **)sp = NULL;
#endif
	co->self = (struct coro_place){(void *)sp, NULL, (void *)coro_main};
}

/* ---- running ----------------------------------------------------------- */

static inline __attribute__((always_inline)) void
enter(struct coro *co)
{
#if CORO_ASAN
	void *fake = NULL;

	__sanitizer_start_switch_fiber(&fake, co->low, stacks_size(co));
#elif CORO_TSAN
	co->back_fiber = __tsan_get_current_fiber();
	__tsan_switch_to_fiber(co->fiber, 0);
#endif
	if (co->contexts)
		coro_contexts_enter(co);
	else
		coro_switch(&co->back, &co->self);
#if CORO_ASAN
	__sanitizer_finish_switch_fiber(fake, NULL, NULL);
#endif
}

__attribute__((noinline)) static void
run_outside(struct coro *co, struct coro *outer)
{
	coro_fn fn = co->outside;

	co->outside = NULL;
	own.running = outer;
	fn(co, co->outside_arg);
	own.running = co;
}

/* It wrote over what lies beyond its stack: nothing here can be trusted. */
__attribute__((noinline)) static void
check_mark(const struct coro *co)
{
	if (stacks_mark_is_whole(co))
		return;
	coro_fault_say(co, "overflowed its stack, which has no guard");
	abort();
}

enum coro_state
coro_resume(struct coro *co)
{
	struct coro *outer = own.running;

	own.running = co;
	enter(co);
	while (__builtin_expect(co->outside != NULL, 0)) {
		run_outside(co, outer);
		enter(co);
	}
	own.running = outer;
	if (__builtin_expect(co->is_checked, 0))
		check_mark(co);
	return (enum coro_state)co->state;
}

/* ---- having and giving back -------------------------------------------- */

void
coro_thread_init(void)
{
	if (!own.is_ready)
		own.is_ready = coro_fault_thread_init() == 0;
}

__attribute__((noinline)) static struct coro *
take_slowly(void)
{
	struct coro *co;

	coro_thread_init();
	co = stacks_take_free(CACHE_BATCH, &own.n_free);
	if (co) {
		own.free = co->next;
		own.n_free--;
	} else {
		co = stacks_take();
	}
	if (co && !co->is_made)
		make(co);
	return co;
}

struct coro *
coro_new(coro_fn fn, void *arg)
{
	struct coro *co = own.free;

	if (__builtin_expect(co != NULL, 1)) {
		own.free = co->next;
		own.n_free--;
	} else {
		co = take_slowly();
		if (!co)
			return NULL;
	}
	co->fn = fn;
	co->arg = arg;
	co->state = CORO_READY;
	return co;
}

/* Its frames are given up where they are; make() begins anew. */
static void
give_up(struct coro *co)
{
	co->is_made = false;
#if CORO_ASAN
	__asan_unpoison_memory_region(
		co->low, (size_t)(stacks_top(co) - co->low));
#elif CORO_TSAN
	if (co->fiber)
		__tsan_destroy_fiber(co->fiber);
	co->fiber = NULL;
#endif
	make(co);
}

/* Those beyond the first @keep. */
static void
spill(uint32_t keep)
{
	struct coro **link = &own.free, *rest;

	for (uint32_t i = 0; i < keep && *link; i++)
		link = &(*link)->next;
	rest = *link;
	*link = NULL;
	own.n_free = own.n_free < keep ? own.n_free : keep;
	if (rest)
		stacks_give(rest);
}

struct coro *
coro_free(struct coro *co)
{
	if (!co)
		return NULL;
	if (__builtin_expect(
		    co->state == CORO_WAITS || co->state == CORO_OVERFLOWED, 0))
		give_up(co);
	co->next = own.free;
	own.free = co;
	if (__builtin_expect(++own.n_free > CACHE_MAX, 0))
		spill(CACHE_MAX - CACHE_BATCH);
	return NULL;
}

void
coro_thread_deinit(void)
{
	spill(0);
	coro_fault_thread_deinit();
	own.is_ready = false;
}

void
coro_unmake(struct coro *co)
{
	if (!co->is_made)
		return;
#if CORO_ASAN
	if (co->state != CORO_READY || co->fake) {
		co->fn = NULL;
		coro_resume(co);
	}
	co->fake = NULL;
	__asan_unpoison_memory_region(
		co->low, (size_t)(stacks_top(co) - co->low));
#elif CORO_TSAN
	__tsan_destroy_fiber(co->fiber);
	co->fiber = NULL;
#endif
	co->is_made = false;
}

#pragma once
/* Stacks: memory for coroutines, the process's as its address space is.
 *
 * A slab is one mapping with many stacks; under each lies a guard that cannot
 * be written. Linux 6.13 can guard pages within a mapping. Before, each guard
 * splits its mapping in three, and vm.max_map_count (65,530) bounds how many
 * there can be: beyond a quarter of that number stacks have no guard but a
 * mark on the far side of the gap, which is looked at whenever the coroutine
 * stops; an overflow is found after it has done its damage, and the process
 * ends.
 *
 * Stacks of coroutines that have ended stay as they are, up to a number;
 * beyond it their memory goes back, and a slab without any is unmapped.
 *
 * Any thread, by a lock. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct coro;

enum coro_guard {
	CORO_GUARD_AUTO,    /* the first of these that can be */
	CORO_GUARD_MADVISE, /* MADV_GUARD_INSTALL */
	CORO_GUARD_PROTECT, /* mprotect() */
	CORO_GUARD_MARK,
};

enum {
	CORO_STACK_SIZE = 64 << 10,
	CORO_STACK_MIN = 16 << 10,
	CORO_STACK_MAX = 64 << 20,
	CORO_STACKS_KEEP = 1024,
	CORO_GAP = 16 << 10, /* bytes of a guard */
	CORO_SLAB = 64,      /* stacks of one */
	CORO_MARK_SIZE = 16, /* bytes */
};

struct coro_settings {
	size_t stack_size;     /* bytes; 0: CORO_STACK_SIZE */
	uint32_t keep;         /* free stacks that stay as they are */
	enum coro_guard guard; /* the best that is allowed */
	bool contexts;         /* by ucontext instead of our own switch */
	uint32_t max_guarded;  /* by mprotect(); 0: by vm.max_map_count */
};

struct coro_stacks {
	size_t stack_size;
	uint32_t n;            /* that there is room for */
	uint32_t n_free;       /* as they are; threads have a few more */
	uint32_t n_unguarded;  /* that there is room for */
	size_t size;           /* bytes of memory for their books */
	enum coro_guard guard; /* of the newest slab; AUTO: there is none */
	bool contexts;
};

/* Before the first one is needed; 0, or -EBUSY: there are some. */
int coro_setup(const struct coro_settings *settings);
void coro_stacks(struct coro_stacks *out);
/* Give back the memory of all that are free, but for those that threads have:
 * how many stacks there is room for afterwards. */
uint32_t coro_trim(void);

/* ---- for coro.c -------------------------------------------------------- */

/* One with a stack, made or not, or NULL: out of memory. */
struct coro *stacks_take(void);
/* Up to @max that are made and free, chained; how many in *@n. */
struct coro *stacks_take_free(uint32_t max, uint32_t *n);
/* A chain of free ones. */
void stacks_give(struct coro *first);
/* From where its frames go down. */
char *stacks_top(const struct coro *co);
size_t stacks_size(const struct coro *co);
/* The mark below it is as it was. */
bool stacks_mark_is_whole(const struct coro *co);
/* Whether @address lies in the gap below the stack. */
bool stacks_is_gap(const struct coro *co, const void *address);

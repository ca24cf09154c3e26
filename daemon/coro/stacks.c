#include "coro/stacks.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/list.h"
#include "coro/coro.h"

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

enum {
	COLORS = 8,       /* tops that do not share their cache lines */
	COLOR_SIZE = 128, /* bytes */
	MAPS_SHARE = 4,   /* guards are a quarter of vm.max_map_count, */
	MAPS_MAX = 65530, /* which is mostly that */
	PAGE_MAX = 65536,
};

/* Stacks whose memory is not in use are chained in their slab. */
struct coro_slab {
	struct list link; /* in the.slabs, if some are unused */
	char *base;
	size_t size;
	struct coro *unused;
	uint32_t n_unused;
	enum coro_guard guard;
	struct coro coros[CORO_SLAB];
};

/* In the mark on the far side of a gap. */
static const unsigned char mark[CORO_MARK_SIZE] = {0xc0, 0x40, 0x57, 0xac, 0x4b,
	0xe5, 0x0d, 0xd1, 0x3a, 0x96, 0x2f, 0x78, 0x81, 0x5e, 0xc7, 0x1b};

/* The process's, as its address space is. */
static struct {
	pthread_mutex_t lock;
	struct list slabs;  /* that have unused stacks */
	struct coro *free;  /* as they were when they ended */
	uint32_t n_free, n; /* n: in all slabs */
	uint32_t n_guarded; /* by mprotect() */
	uint32_t n_unguarded;
	uint32_t max_guarded;
	size_t stack_size, page;
	uint32_t keep;
	enum coro_guard best; /* AUTO: not known yet */
	enum coro_guard last;
	bool contexts;
	bool is_set;
} the = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- settings ---------------------------------------------------------- */

static uint32_t
read_max_guarded(void)
{
	FILE *file = fopen("/proc/sys/vm/max_map_count", "re");
	unsigned long n = 0;
	char text[32];

	if (file && fgets(text, sizeof(text), file))
		n = strtoul(text, NULL, 10);
	if (file)
		fclose(file);
	n = (n ? n : MAPS_MAX) / MAPS_SHARE;
	return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

static size_t
round_up(size_t size, size_t unit)
{
	return (size + unit - 1) / unit * unit;
}

static void
set(const struct coro_settings *s)
{
	size_t size = s->stack_size ? s->stack_size : CORO_STACK_SIZE;
	long page = sysconf(_SC_PAGESIZE);

	if (size < CORO_STACK_MIN)
		size = CORO_STACK_MIN;
	if (size > CORO_STACK_MAX)
		size = CORO_STACK_MAX;
	the.page = page > 0 && page <= PAGE_MAX ? (size_t)page : PAGE_MAX;
	the.stack_size = round_up(size, the.page);
	the.keep = s->keep;
	the.best = s->guard;
	the.last = CORO_GUARD_AUTO;
	the.max_guarded = s->max_guarded ? s->max_guarded : read_max_guarded();
	the.contexts = s->contexts || !CORO_SWITCH || coro_has_shadow_stack();
	list_init(&the.slabs);
	the.is_set = true;
}

static void
set_default(void)
{
	if (!the.is_set)
		set(&(struct coro_settings){.keep = CORO_STACKS_KEEP});
}

int
coro_setup(const struct coro_settings *settings)
{
	int r = 0;

	pthread_mutex_lock(&the.lock);
	if (the.n)
		r = err_raise(-EBUSY);
	else
		set(settings);
	pthread_mutex_unlock(&the.lock);
	return r;
}

void
coro_stacks(struct coro_stacks *out)
{
	pthread_mutex_lock(&the.lock);
	set_default();
	*out = (struct coro_stacks){
		.stack_size = the.stack_size,
		.n = the.n,
		.n_free = the.n_free,
		.n_unguarded = the.n_unguarded,
		.size = the.n / CORO_SLAB * sizeof(struct coro_slab),
		.guard = the.last,
		.contexts = the.contexts,
	};
	pthread_mutex_unlock(&the.lock);
}

/* ---- places ------------------------------------------------------------ */

static size_t
gap_size(void)
{
	return round_up(CORO_GAP, the.page);
}

/* From the lowest byte of the gap of one stack to that of the next. */
static size_t
stride(void)
{
	return gap_size() + the.stack_size;
}

static char *
end_of(const struct coro *co)
{
	return co->low + the.stack_size;
}

char *
stacks_top(const struct coro *co)
{
	return end_of(co) - CORO_MARK_SIZE - co->index % COLORS * COLOR_SIZE;
}

size_t
stacks_size(const struct coro *co)
{
	return (size_t)(stacks_top(co) - co->low);
}

/* At the end of the stack below: what overflows comes there first, and no page
 * is touched that is not in use anyway. */
static char *
mark_of(const struct coro *co)
{
	return co->low - gap_size() - CORO_MARK_SIZE;
}

bool
stacks_mark_is_whole(const struct coro *co)
{
	return memcmp(mark_of(co), mark, CORO_MARK_SIZE) == 0;
}

bool
stacks_is_gap(const struct coro *co, const void *address)
{
	const char *at = address;

	return at < co->low && at >= co->low - gap_size();
}

/* ---- slabs ------------------------------------------------------------- */

/* In place of the gap there is a page below the first stack for its mark. */
static size_t
slab_size(void)
{
	return the.page + CORO_SLAB * stride();
}

static bool
install_guard(char *at)
{
	return !FAULT(coro_guard) &&
	       madvise(at, gap_size(), MADV_GUARD_INSTALL) == 0;
}

/* What guards the stacks of a new slab. */
static enum coro_guard
choose_guard(char *base)
{
	if (the.best <= CORO_GUARD_MADVISE && install_guard(base + the.page))
		return CORO_GUARD_MADVISE;
	if (the.best <= CORO_GUARD_MADVISE)
		the.best = CORO_GUARD_PROTECT; /* this kernel cannot */
	if (the.best <= CORO_GUARD_PROTECT &&
		the.n_guarded + CORO_SLAB <= the.max_guarded)
		return CORO_GUARD_PROTECT;
	return CORO_GUARD_MARK;
}

static char *
map(size_t size)
{
	char *base;

	if (FAULT(coro_map))
		return NULL;
	base = mmap(NULL, size, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
	if (base == MAP_FAILED)
		return NULL;
	/* A huge page would be one for the first byte of any stack. */
	madvise(base, size, MADV_NOHUGEPAGE);
	return base;
}

static void
count(enum coro_guard guard, int n)
{
	the.n += (uint32_t)n;
	if (guard == CORO_GUARD_PROTECT)
		the.n_guarded += (uint32_t)n;
	if (guard == CORO_GUARD_MARK)
		the.n_unguarded += (uint32_t)n;
}

static struct coro_slab *
slab_new(void)
{
	struct coro_slab *slab =
		FAULT(coro_slab) ? NULL : calloc(1, sizeof(*slab));

	if (!slab)
		return NULL;
	slab->size = slab_size();
	slab->base = map(slab->size);
	if (!slab->base) {
		free(slab);
		return NULL;
	}
	slab->guard = the.last = choose_guard(slab->base);
	for (uint32_t i = CORO_SLAB; i-- > 0;) {
		struct coro *co = &slab->coros[i];

		co->slab = slab;
		co->index = i;
		co->low = slab->base + the.page + i * stride() + gap_size();
		co->next = slab->unused;
		slab->unused = co;
	}
	slab->n_unused = CORO_SLAB;
	count(slab->guard, CORO_SLAB);
	list_append(&the.slabs, &slab->link);
	return slab;
}

/* All of its stacks are unused. */
static void
slab_free(struct coro_slab *slab)
{
	count(slab->guard, -CORO_SLAB);
	list_remove(&slab->link);
	munmap(slab->base, slab->size);
	free(slab);
}

/* ---- one stack --------------------------------------------------------- */

static void
guard_it(struct coro *co)
{
	char *gap = co->low - gap_size();

	if (co->is_guarded)
		return;
	switch (co->slab->guard) {
	case CORO_GUARD_AUTO:
	case CORO_GUARD_MADVISE:
		co->is_guarded = install_guard(gap);
		break;
	case CORO_GUARD_PROTECT:
		co->is_guarded = mprotect(gap, gap_size(), PROT_NONE) == 0;
		break;
	case CORO_GUARD_MARK:
		break;
	}
	co->is_checked = !co->is_guarded;
	if (co->is_checked)
		memcpy(mark_of(co), mark, CORO_MARK_SIZE);
}

static struct coro *
take_unused(void)
{
	struct coro_slab *slab;
	struct coro *co;

	if (list_is_empty(&the.slabs) && !slab_new())
		return NULL;
	slab = container_of(the.slabs.next, struct coro_slab, link);
	co = slab->unused;
	slab->unused = co->next;
	if (--slab->n_unused == 0)
		list_remove(&slab->link);
	guard_it(co);
	co->by_contexts = the.contexts;
	return co;
}

/* Another one stays, so that one more or less maps and unmaps nothing. */
static bool
is_spare(const struct coro_slab *slab)
{
	return slab->n_unused == CORO_SLAB && the.slabs.next != the.slabs.prev;
}

/* The page that holds the mark of the stack above is that stack's as well. */
static void
drop_memory(struct coro *co)
{
	size_t size = the.stack_size;

	if (co->slab->guard != CORO_GUARD_MADVISE)
		size -= the.page;
	madvise(co->low, size, MADV_DONTNEED);
}

static void
put_unused(struct coro *co)
{
	struct coro_slab *slab = co->slab;

	coro_unmake(co);
	drop_memory(co);
	co->next = slab->unused;
	slab->unused = co;
	if (slab->n_unused++ == 0)
		list_append(&the.slabs, &slab->link);
	if (is_spare(slab))
		slab_free(slab);
}

static void
shrink(uint32_t keep)
{
	while (the.n_free > keep) {
		struct coro *co = the.free;

		the.free = co->next;
		the.n_free--;
		put_unused(co);
	}
}

/* ---- for coro.c -------------------------------------------------------- */

struct coro *
stacks_take(void)
{
	struct coro *co;

	pthread_mutex_lock(&the.lock);
	set_default();
	co = take_unused();
	pthread_mutex_unlock(&the.lock);
	return co;
}

struct coro *
stacks_take_free(uint32_t max, uint32_t *n)
{
	struct coro *first, **link = &first;

	*n = 0;
	pthread_mutex_lock(&the.lock);
	while (*n < max && the.free) {
		*link = the.free;
		link = &the.free->next;
		the.free = the.free->next;
		the.n_free--;
		++*n;
	}
	*link = NULL;
	pthread_mutex_unlock(&the.lock);
	return first;
}

void
stacks_give(struct coro *first)
{
	struct coro *next;

	pthread_mutex_lock(&the.lock);
	for (; first; first = next) {
		next = first->next;
		first->next = the.free;
		the.free = first;
		the.n_free++;
	}
	shrink(the.keep);
	pthread_mutex_unlock(&the.lock);
}

uint32_t
coro_trim(void)
{
	struct coro_slab *slab;
	uint32_t n;

	pthread_mutex_lock(&the.lock);
	set_default();
	shrink(0);
	LIST_FOREACH (node, &the.slabs) {
		slab = container_of(node, struct coro_slab, link);
		if (slab->n_unused == CORO_SLAB)
			slab_free(slab);
	}
	n = the.n;
	pthread_mutex_unlock(&the.lock);
	return n;
}

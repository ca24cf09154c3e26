#include "kind/lua_memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kind/lua_session.h"
#include "kind/lua_watch.h"

enum {
	STEP = 16, /* bytes between two sizes */
	CLASSES = LUA_MEMORY_SURE / STEP,
	KEEP = 64 << 10,  /* bytes of each size */
	LARGE = 64 << 10, /* bytes: no more at once for who is late */
};

#if defined(__SANITIZE_ADDRESS__)
#define KEEPS_BLOCKS 0 /* they would hide their use after the end */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KEEPS_BLOCKS 0
#endif
#endif
#ifndef KEEPS_BLOCKS
#define KEEPS_BLOCKS 1
#endif

struct block {
	struct block *next;
};

/* The thread's own. */
struct kept {
	struct block *first;
	size_t room; /* for more of them */
};
#define ROOM_FOR(size)                \
	{                             \
		.room = KEEP / (size) \
	}
static _Thread_local struct kept kept[CLASSES] __attribute__((
	tls_model("initial-exec"))) = {ROOM_FOR(16), ROOM_FOR(32), ROOM_FOR(48),
	ROOM_FOR(64), ROOM_FOR(80), ROOM_FOR(96), ROOM_FOR(112), ROOM_FOR(128)};

static inline size_t
class_of(size_t size)
{
	return (size - 1) / STEP;
}

static inline bool
is_small(size_t size)
{
	return size <= LUA_MEMORY_SURE;
}

__attribute__((noinline)) static void *
take_new(struct lua_session *ls, size_t size)
{
	void *p = malloc(is_small(size) ? (class_of(size) + 1) * STEP : size);

	if (p)
		ls->size += size;
	return p;
}

/* What @ls has is counted here and in give(). */
static inline void *
take(struct lua_session *ls, size_t size)
{
	struct kept *k;
	struct block *b;

	if (!is_small(size) || !(b = kept[class_of(size)].first))
		return take_new(ls, size);
	k = &kept[class_of(size)];
	k->first = b->next;
	k->room++;
	ls->size += size;
	return b;
}

static inline void
give(struct lua_session *ls, void *p, size_t size)
{
	struct block *b = p;
	struct kept *k;

	ls->size -= size;
	if (!KEEPS_BLOCKS || !is_small(size) || !kept[class_of(size)].room) {
		free(p);
		return;
	}
	k = &kept[class_of(size)];
	b->next = k->first;
	k->first = b;
	k->room--;
}

static inline bool
is_too_much(const struct lua_session *ls, size_t more)
{
	return ls->max_size && ls->size + more > ls->max_size;
}

static void *
move(struct lua_session *ls, void *p, size_t old, size_t size)
{
	void *q = take(ls, size);

	if (!q)
		return NULL;
	memcpy(q, p, old < size ? old : size);
	give(ls, p, old);
	return q;
}

__attribute__((noinline)) static void *
resize(struct lua_session *ls, void *p, size_t old, size_t size)
{
	bool small = is_small(old), smaller = is_small(size);
	void *q = p;

	if (size > old && is_too_much(ls, size - old))
		return NULL;
	if (small != smaller || (small && class_of(old) != class_of(size)))
		q = move(ls, p, old, size);
	else if ((q = small ? p : realloc(p, size)))
		ls->size += size - old;
	if (q || size > old)
		return q;
	ls->size += size - old; /* it may always shrink */
	return p;
}

/* A __call that is its own table makes Lua push it for ever within one
 * instruction, where no hook runs, and move all of the stack each time. All
 * that can stop it is that it gets no larger stack, which is a new block. */
static inline bool
is_too_late(size_t size)
{
	return size > LARGE && lua_watch_is_late_now();
}

void *
lua_allocate(void *data, void *p, size_t old, size_t size)
{
	struct lua_session *ls = data;

	if (p && size)
		return resize(ls, p, old, size);
	if (p) {
		give(ls, p, old);
		return NULL;
	}
	/* @old is a type */
	if (!size || is_too_much(ls, size) || is_too_late(size))
		return NULL;
	return take(ls, size);
}

bool
lua_memory_is_sure(struct lua_session *ls, size_t size)
{
	void *p;

	if (is_too_much(ls, size))
		return false;
	if (!KEEPS_BLOCKS || kept[class_of(size)].first)
		return true;
	p = take(ls, size);
	if (p)
		give(ls, p, size);
	return p;
}

void
lua_memory_thread_deinit(void)
{
	for (size_t i = 0; i < CLASSES; i++) {
		struct block *b;

		while ((b = kept[i].first)) {
			kept[i].first = b->next;
			kept[i].room++;
			free(b);
		}
	}
}

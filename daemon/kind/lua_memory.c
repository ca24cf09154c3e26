#include "kind/lua_memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kind/lua_session.h"

enum {
	STEP = 16, /* bytes between two sizes */
	CLASSES = LUA_MEMORY_SURE / STEP,
	KEEP = 64 << 10, /* bytes of each size */
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
	size_t size; /* bytes */
};
static _Thread_local struct kept kept[CLASSES];

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
take_new(size_t size)
{
	return malloc(is_small(size) ? (class_of(size) + 1) * STEP : size);
}

static inline void *
take(size_t size)
{
	struct kept *k;
	struct block *b;

	if (!is_small(size))
		return take_new(size);
	k = &kept[class_of(size)];
	b = k->first;
	if (!b)
		return take_new(size);
	size = (class_of(size) + 1) * STEP;
	k->first = b->next;
	k->size -= size;
	return b;
}

static inline void
give(void *p, size_t size)
{
	struct block *b = p;
	struct kept *k;

	if (!KEEPS_BLOCKS || !is_small(size)) {
		free(p);
		return;
	}
	k = &kept[class_of(size)];
	if (k->size >= KEEP) {
		free(p);
		return;
	}
	b->next = k->first;
	k->first = b;
	k->size += (class_of(size) + 1) * STEP;
}

static void *
change(void *p, size_t old, size_t size)
{
	void *q;

	if (!is_small(old) && !is_small(size))
		return realloc(p, size);
	if (is_small(old) && is_small(size) && class_of(old) == class_of(size))
		return p;
	q = take(size);
	if (!q)
		return NULL;
	memcpy(q, p, old < size ? old : size);
	give(p, old);
	return q;
}

static inline bool
is_too_much(const struct lua_session *ls, size_t more)
{
	return ls->max_size && ls->size + more > ls->max_size;
}

__attribute__((noinline)) static void *
resize(struct lua_session *ls, void *p, size_t old, size_t size)
{
	void *q;

	if (size > old && is_too_much(ls, size - old))
		return NULL;
	q = change(p, old, size);
	if (!q)
		return size <= old ? p : NULL; /* it may always shrink */
	ls->size += size - old;
	return q;
}

void *
lua_allocate(void *data, void *p, size_t old, size_t size)
{
	struct lua_session *ls = data;

	if (p && size)
		return resize(ls, p, old, size);
	if (p) {
		give(p, old);
		ls->size -= old;
		return NULL;
	}
	if (!size || is_too_much(ls, size)) /* @old is a type */
		return NULL;
	p = take(size);
	if (p)
		ls->size += size;
	return p;
}

bool
lua_memory_is_sure(struct lua_session *ls, size_t size)
{
	void *p;

	if (is_too_much(ls, size))
		return false;
	if (!KEEPS_BLOCKS || kept[class_of(size)].first)
		return true;
	p = take(size);
	if (p)
		give(p, size);
	return p;
}

void
lua_memory_thread_deinit(void)
{
	for (size_t i = 0; i < CLASSES; i++) {
		struct block *b;

		while ((b = kept[i].first)) {
			kept[i].first = b->next;
			free(b);
		}
		kept[i].size = 0;
	}
}

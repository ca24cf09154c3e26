#pragma once
/* The memory of Lua states. Small blocks that a state gives back stay with the
 * thread for the next who wants one of that size: a collection frees hundreds
 * at once, more than malloc() keeps at hand. What a state has is counted
 * against its MemoryMax= as it was asked for. The thread that the state runs
 * on. */
#include <stdbool.h>
#include <stddef.h>

struct lua_session;

/* Lua's allocator; @data is a struct lua_session. */
void *lua_allocate(void *data, void *p, size_t old, size_t size);
/* The next allocation of @size bytes of @ls, at most LUA_MEMORY_SURE, will
 * succeed. */
enum { LUA_MEMORY_SURE = 128 };
bool lua_memory_is_sure(struct lua_session *ls, size_t size);
/* Free what the thread keeps. */
void lua_memory_thread_deinit(void);

/* Kinds by word. Constant; any thread. */
#include "kind/kind.h"

#include <string.h>

#include "coro/coro.h"
#include "kernel/kin.h"
#include "kind/lua_memory.h"
#include "kind/lua_watch.h"

static const struct session_ops *const kinds[] = {
	&kind_lua, &kind_native, &group_ops};

const struct session_ops *
kind_find(const char *word)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strcmp(kinds[i]->kind, word) == 0)
			return kinds[i];
	return NULL;
}

const char *
kind_words(void)
{
	return "lua, native, group";
}

int
kind_thread_init(void)
{
	return lua_watch_thread_init();
}

void
kind_thread_deinit(void)
{
	lua_watch_thread_deinit();
	lua_memory_thread_deinit();
	coro_thread_deinit();
}

#pragma once
/* What a script says again and again: aliases it posts to and names of events.
 * A string that was given twice is kept from being collected, so that its
 * address means it and nothing has to be looked up or checked again. Part of
 * struct lua_session. */
#include <stdint.h>

#include "kernel/alias.h"

#include <lua.h>

struct lua_session;

enum { LUA_SAID = 8 }; /* of each; a power of two */

struct lua_said_alias {
	const void *string;  /* the last one given in this place */
	struct alias *alias; /* NULL: it was not given twice */
};

struct lua_said_event {
	const void *string;
	const char *text;
	size_t size; /* 0: it was not given twice */
};

struct lua_said {
	struct lua_said_alias aliases[LUA_SAID];
	struct lua_said_event events[LUA_SAID];
};

static inline unsigned
lua_said_place(const void *string)
{
	return (unsigned)((uintptr_t)string >> 4 ^ (uintptr_t)string >> 7) %
	       LUA_SAID;
}

/* The session id that holds the alias, the string at @i; 0: nobody. Raises. */
uint64_t lua_said_holder(lua_State *L, int i);
/* The same if @i, of any type, has been kept; else NULL. */
static inline struct alias *
lua_said_alias(lua_State *L, int i, const struct lua_said *said)
{
	const void *string = lua_topointer(L, i);
	const struct lua_said_alias *a = &said->aliases[lua_said_place(string)];

	return a->string == string ? a->alias : NULL;
}

/* The string at @i is a good event's name: keep that in mind. Raises. */
void lua_said_good(lua_State *L, int i, const char *text, size_t size);
/* What @i, of any type, is if it has been kept; else NULL. */
static inline const struct lua_said_event *
lua_said_event(lua_State *L, int i, const struct lua_said *said)
{
	const void *string = lua_topointer(L, i);
	const struct lua_said_event *e = &said->events[lua_said_place(string)];

	return e->string == string && e->size ? e : NULL;
}

void lua_said_deinit(struct lua_session *ls);

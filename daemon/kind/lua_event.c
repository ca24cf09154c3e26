/* The second argument of a handler: the event, as fields. One object for all
 * events of a session; it speaks of the one that is being handled and of none
 * in between, so a script that keeps it keeps nothing alive. */
#include <string.h>

#include "base/clock.h"
#include "kernel/msg.h"
#include "kind/lua_session.h"

static void
push_nonzero(lua_State *L, uint64_t number)
{
	if (number)
		lua_pushinteger(L, (lua_Integer)number);
	else
		lua_pushnil(L);
}

static int
event_index(lua_State *L)
{
	const struct lua_session *ls = lua_session_of(L);
	const struct msg *m = ls->m;
	const char *key = lua_tostring(L, 2);

	if (!m || !key)
		return 0;
	if (strcmp(key, "event") == 0)
		lua_pushlstring(L, m->event, m->event_size);
	else if (strcmp(key, "id") == 0)
		push_nonzero(L, m->id);
	else if (strcmp(key, "from") == 0)
		push_nonzero(L, m->from);
	else if (strcmp(key, "is_call") == 0)
		lua_pushboolean(L, ls->is_call);
	else if (strcmp(key, "late") == 0)
		lua_pushnumber(L, (lua_Number)m->late_ns / NS_PER_S);
	else if (strcmp(key, "attempt") == 0)
		lua_pushinteger(L, m->attempt + 1);
	else
		return 0;
	return 1;
}

static int
event_newindex(lua_State *L)
{
	return luaL_error(L, "an event cannot be changed");
}

void
lua_open_event(lua_State *L)
{
	static const luaL_Reg methods[] = {
		{"__index", event_index},
		{"__newindex", event_newindex},
		{NULL, NULL},
	};

	lua_newuserdatauv(L, 0, 0);
	luaL_newlib(L, methods);
	lua_pushliteral(L, "eventd.event");
	lua_setfield(L, -2, "__name");
	lua_pushboolean(L, 0);
	lua_setfield(L, -2, "__metatable");
	lua_setmetatable(L, -2);
}

/* A session as a state machine: a table of handlers that goes before the main
 * one for a time, and events put aside until then. */
#include "kernel/notice.h"
#include "kernel/sched.h"
#include "kind/call_notice.h"
#include "kind/lua_send.h"
#include "kind/lua_session.h"

/* Keys into the registry, by address: the state's table and its name. */
static const char key_state, key_name;

/* ---- become ------------------------------------------------------------ */

/* The table on top is the state, called by the name below it or nil. */
static void
enter(lua_State *L)
{
	lua_session_peek(L)->has_state = !lua_isnil(L, -1);
	lua_rawsetp(L, LUA_REGISTRYINDEX, &key_state);
	lua_rawsetp(L, LUA_REGISTRYINDEX, &key_name);
}

/* The state that the name on top means. */
static void
enter_named(lua_State *L)
{
	const char *name = lua_tostring(L, -1);

	lua_rawgetp(L, LUA_REGISTRYINDEX, &lua_key_handlers);
	if (lua_getfield(L, -1, "states") != LUA_TTABLE)
		luaL_error(L, "the table of handlers has no 'states'");
	lua_pushvalue(L, -3);
	if (lua_gettable(L, -2) != LUA_TTABLE)
		luaL_error(L, "there is no state '%s'", name);
	lua_replace(L, -3);
	lua_pop(L, 1);
	enter(L);
}

/* eventd.become([state]): a name in `states`, a table, or none */
static int
states_become(lua_State *L)
{
	lua_settop(L, 1);
	switch (lua_type(L, 1)) {
	case LUA_TSTRING:
		enter_named(L);
		return 0;
	case LUA_TTABLE:
		lua_pushnil(L);
		lua_insert(L, 1);
		enter(L);
		return 0;
	case LUA_TNIL:
		lua_pushnil(L);
		enter(L);
		return 0;
	default:
		return luaL_typeerror(L, 1, "name of a state or table");
	}
}

/* eventd.state(): the name of the state, or nil */
static int
states_state(lua_State *L)
{
	lua_rawgetp(L, LUA_REGISTRYINDEX, &key_name);
	return 1;
}

/* ---- which handler ----------------------------------------------------- */

/* An entry of a state's table on top: a function; the name of the next state;
 * or both, {function, name}. Leaves the function, if there is one. */
static bool
take_entry(lua_State *L)
{
	int type = lua_type(L, -1);

	if (type == LUA_TFUNCTION)
		return true;
	if (type == LUA_TTABLE) {
		if (lua_rawgeti(L, -1, 2) == LUA_TSTRING)
			enter_named(L);
		else
			lua_pop(L, 1);
		lua_rawgeti(L, -1, 1);
		lua_replace(L, -2);
		return lua_isfunction(L, -1);
	}
	if (type != LUA_TSTRING)
		luaL_error(L, "an entry of a state is a function, the name of "
			      "a state or {function, name}");
	lua_pushvalue(L, -1);
	enter_named(L);
	return false;
}

/* It has an entry, and that needs no function to run. */
static int
nothing(lua_State *L)
{
	(void)L;
	return 0;
}

/* The entry for @name in the table at @table, if any. */
static bool
push_entry(lua_State *L, int table, const char *name, size_t size)
{
	bool there;

	lua_pushlstring(L, name, size);
	there = lua_gettable(L, table) != LUA_TNIL;
	if (there && !take_entry(L)) {
		lua_pop(L, 1);
		lua_pushcfunction(L, nothing);
	}
	if (!there)
		lua_pop(L, 1);
	return there;
}

static bool
push_function(lua_State *L, int table, const char *name, size_t size)
{
	lua_pushlstring(L, name, size);
	if (lua_gettable(L, table) == LUA_TFUNCTION)
		return true;
	lua_pop(L, 1);
	return false;
}

static bool
push_in_state(lua_State *L, int handlers, const struct msg *m, bool is_open)
{
	int state;

	lua_rawgetp(L, LUA_REGISTRYINDEX, &key_state);
	state = lua_gettop(L);
	if (is_open &&
		(push_entry(L, state, m->event, m->event_size) ||
			push_function(L, handlers, m->event, m->event_size)))
		return true;
	return push_entry(L, state, "_default", 8) ||
	       push_function(L, handlers, "_default", 8);
}

bool
lua_push_handler(lua_State *L, int handlers, const struct msg *m)
{
	bool is_notice = m->event[0] == '_' &&
			 (notice_is(m) || notice_is_text(m) ||
				 call_notice_is_cancelled(m->event));
	bool is_open = m->event[0] != '_' || is_notice;

	if (is_notice)
		return push_function(L, handlers, m->event, m->event_size);
	if (lua_session_peek(L)->has_state)
		return push_in_state(L, handlers, m, is_open);
	if (is_open && push_function(L, handlers, m->event, m->event_size))
		return true;
	return push_function(L, handlers, "_default", 8);
}

/* ---- stash ------------------------------------------------------------- */

/* eventd.stash(): true, or nil, word and text */
static int
states_stash(lua_State *L)
{
	struct lua_session *ls = lua_session_of(L);
	uint64_t self = ls->session->id;
	int r;

	if (!ls->m)
		return luaL_error(L, "no event is being handled");
	r = session_may_stash(ls->session, ls->m);
	if (r) {
		lua_pushinteger(L, (lua_Integer)self);
		return lua_push_refusal(L, r, self, lua_gettop(L));
	}
	ls->stashed = true;
	lua_pushboolean(L, 1);
	return 1;
}

/* eventd.unstash(): how many */
static int
states_unstash(lua_State *L)
{
	lua_pushinteger(L, session_unstash(lua_session_of(L)->session));
	return 1;
}

void
lua_open_states(lua_State *L, int eventd)
{
	static const luaL_Reg functions[] = {
		{"become", states_become},
		{"state", states_state},
		{"stash", states_stash},
		{"unstash", states_unstash},
		{NULL, NULL},
	};

	lua_pushvalue(L, eventd);
	luaL_setfuncs(L, functions, 0);
	lua_pop(L, 1);
}

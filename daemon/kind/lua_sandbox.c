/* What scripts may use of Lua's own libraries: all that computes, nothing that
 * reaches files, processes or other sessions, undoes a limit or runs bytecode.
 *
 * __gc is refused: hooks do not run in finalizers, so one that loops could not
 * be stopped. __close is there. */
#include <lualib.h>
#include <string.h>

#include "kind/lua_match.h"
#include "kind/lua_session.h"
#include "kind/lua_watch.h"
#include "kind/session_log.h"

/* ---- base -------------------------------------------------------------- */

/* load() with the mode "t", whatever it was asked for. Upvalue: Lua's. */
static int
sandbox_load(lua_State *L)
{
	int n = lua_gettop(L) > 3 ? 4 : 3;

	luaL_checkany(L, 1);
	lua_settop(L, n);
	lua_pushliteral(L, "t");
	lua_replace(L, 3);
	lua_pushvalue(L, lua_upvalueindex(1));
	lua_insert(L, 1);
	lua_call(L, n, LUA_MULTRET);
	return lua_gettop(L);
}

static int
sandbox_setmetatable(lua_State *L)
{
	int type = lua_type(L, 2);

	luaL_checktype(L, 1, LUA_TTABLE);
	luaL_argexpected(
		L, type == LUA_TNIL || type == LUA_TTABLE, 2, "nil or table");
	if (luaL_getmetafield(L, 1, "__metatable") != LUA_TNIL)
		return luaL_error(L, "cannot change a protected metatable");
	if (type == LUA_TTABLE) {
		lua_pushliteral(L, "__gc");
		if (lua_rawget(L, 2) != LUA_TNIL)
			return luaL_error(L,
				"__gc is not available in sessions; use "
				"__close or _stop");
	}
	lua_settop(L, 2);
	lua_setmetatable(L, 1);
	return 1;
}

/* Upvalue: the script's message handler. */
static int
guarded_handler(lua_State *L)
{
	lua_settop(L, 1);
	if (lua_watch_is_late())
		return 1;
	lua_pushvalue(L, lua_upvalueindex(1));
	lua_insert(L, 1);
	lua_call(L, 1, 1);
	return 1;
}

static int
xpcall_ended(lua_State *L, int status, lua_KContext context)
{
	if (status == LUA_OK || status == LUA_YIELD)
		return lua_gettop(L) - (int)context;
	lua_pushboolean(L, 0);
	lua_pushvalue(L, -2);
	return 2;
}

/* As Lua's own, but the handler does not run once the time is up. */
static int
sandbox_xpcall(lua_State *L)
{
	int n = lua_gettop(L), status;

	luaL_checktype(L, 2, LUA_TFUNCTION);
	lua_pushvalue(L, 2);
	lua_pushcclosure(L, guarded_handler, 1);
	lua_replace(L, 2);
	lua_pushboolean(L, 1);
	lua_pushvalue(L, 1);
	lua_rotate(L, 3, 2);
	status = lua_pcallk(L, n - 2, LUA_MULTRET, 2, 2, xpcall_ended);
	return xpcall_ended(L, status, 2);
}

static int
sandbox_collectgarbage(lua_State *L)
{
	static const char *const options[] = {"collect", "count", "step", NULL};

	switch (luaL_checkoption(L, 1, "collect", options)) {
	case 0:
		lua_pushinteger(L, lua_gc(L, LUA_GCCOLLECT));
		break;
	case 1:
		lua_pushnumber(
			L, (lua_Number)lua_gc(L, LUA_GCCOUNT) +
				   (lua_Number)lua_gc(L, LUA_GCCOUNTB) / 1024);
		break;
	default:
		lua_pushboolean(L,
			lua_gc(L, LUA_GCSTEP, (int)luaL_optinteger(L, 2, 0)));
		break;
	}
	return 1;
}

/* To the log: there is no terminal to write to. */
static int
sandbox_print(lua_State *L)
{
	struct lua_session *ls = lua_session_of(L);
	int n = lua_gettop(L);
	luaL_Buffer b;
	size_t size;
	const char *text;

	luaL_buffinit(L, &b);
	for (int i = 1; i <= n; i++) {
		luaL_tolstring(L, i, NULL);
		luaL_addvalue(&b);
		if (i < n)
			luaL_addchar(&b, '\t');
	}
	luaL_pushresult(&b);
	text = lua_tolstring(L, -1, &size);
	session_log(ls->session, &ls->log, LOG_L_INFO, text, size);
	return 0;
}

static void
open_base(lua_State *L)
{
	static const char *const barred[] = {"dofile", "loadfile", "warn"};
	static const luaL_Reg functions[] = {
		{"setmetatable", sandbox_setmetatable},
		{"collectgarbage", sandbox_collectgarbage},
		{"xpcall", sandbox_xpcall},
		{"print", sandbox_print},
		{NULL, NULL},
	};

	luaL_requiref(L, LUA_GNAME, luaopen_base, 1);
	for (size_t i = 0; i < sizeof(barred) / sizeof(barred[0]); i++) {
		lua_pushnil(L);
		lua_setfield(L, -2, barred[i]);
	}
	luaL_setfuncs(L, functions, 0);
	lua_getfield(L, -1, "load");
	lua_pushcclosure(L, sandbox_load, 1);
	lua_setfield(L, -2, "load");
	lua_pop(L, 1);
}

/* ---- C functions that can be made to loop without end ------------------ */

enum {
	LOOP_MAX = 1 << 26, /* rounds within one call */
	SORT_MAX = 50000,   /* elements sorted without a look at the time */
};

/* Upvalue: Lua's own, called with what is on the stack. */
static int
call_own(lua_State *L)
{
	lua_pushvalue(L, lua_upvalueindex(1));
	lua_insert(L, 1);
	lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
	return lua_gettop(L);
}

/* Of nothing, any number of times. */
static int
sandbox_rep(lua_State *L)
{
	size_t size, between;

	luaL_checklstring(L, 1, &size);
	luaL_checkinteger(L, 2);
	luaL_optlstring(L, 3, "", &between);
	if (size == 0 && between == 0) {
		lua_pushliteral(L, "");
		return 1;
	}
	return call_own(L);
}

static int
sandbox_move(lua_State *L)
{
	lua_Integer from = luaL_checkinteger(L, 2);
	lua_Integer to = luaL_checkinteger(L, 3);

	luaL_argcheck(L,
		to < from || (lua_Unsigned)to - (lua_Unsigned)from < LOOP_MAX,
		3, "too many elements to move");
	return call_own(L);
}

/* insert() and remove(): __len may say anything. */
static int
sandbox_shift(lua_State *L)
{
	if (luaL_getmetafield(L, 1, "__len") != LUA_TNIL) {
		lua_pop(L, 1);
		luaL_argcheck(
			L, luaL_len(L, 1) < LOOP_MAX, 1, "too many elements");
	}
	return call_own(L);
}

static int
is_less(lua_State *L)
{
	lua_watch_check(L);
	lua_pushboolean(L, lua_compare(L, 1, 2, LUA_OPLT));
	return 1;
}

/* A sort that Lua does alone cannot be stopped: a long one asks in between. */
static int
sandbox_sort(lua_State *L)
{
	if (lua_isnoneornil(L, 2) && lua_rawlen(L, 1) > SORT_MAX) {
		lua_settop(L, 1);
		lua_pushcfunction(L, is_less);
	}
	return call_own(L);
}

/* Puts @guard before the function @name of the table on top of the stack. */
static void
guard_function(lua_State *L, const char *name, lua_CFunction guard)
{
	lua_getfield(L, -1, name);
	lua_pushcclosure(L, guard, 1);
	lua_setfield(L, -2, name);
}

/* ---- other libraries --------------------------------------------------- */

/* A library under its name, reduced to @kept (NULL-terminated). */
static void
open_some_of(lua_State *L, const char *name, lua_CFunction open,
	const char *const *kept)
{
	lua_pushcfunction(L, open);
	lua_call(L, 0, 1);
	lua_newtable(L);
	for (; *kept; kept++) {
		lua_getfield(L, -2, *kept);
		lua_setfield(L, -2, *kept);
	}
	lua_setglobal(L, name);
	lua_pop(L, 1);
}

static void
open_libraries(lua_State *L)
{
	static const char *const os[] = {
		"time", "clock", "date", "difftime", NULL};
	static const char *const debug[] = {"traceback", NULL};

	luaL_requiref(L, LUA_TABLIBNAME, luaopen_table, 1);
	guard_function(L, "move", sandbox_move);
	guard_function(L, "insert", sandbox_shift);
	guard_function(L, "remove", sandbox_shift);
	guard_function(L, "sort", sandbox_sort);
	luaL_requiref(L, LUA_MATHLIBNAME, luaopen_math, 1);
	luaL_requiref(L, LUA_UTF8LIBNAME, luaopen_utf8, 1);
	luaL_requiref(L, LUA_STRLIBNAME, luaopen_string, 1);
	guard_function(L, "rep", sandbox_rep);
	lua_open_patterns(L);
	lua_pushnil(L);
	lua_setfield(L, -2, "dump");
	lua_pop(L, 4);
	open_some_of(L, LUA_OSLIBNAME, luaopen_os, os);
	open_some_of(L, LUA_DBLIBNAME, luaopen_debug, debug);
}

/* ---- require ----------------------------------------------------------- */

/* Module "a.b" is the file a/b.lua. */
static void
push_module_path(lua_State *L, const char *name)
{
	luaL_gsub(L, name, ".", "/");
	lua_pushliteral(L, ".lua");
	lua_concat(L, 2);
	lua_push_path(L, lua_tostring(L, -1));
	lua_remove(L, -2);
	if (!lua_path_exists(lua_tostring(L, -1)))
		luaL_error(L, "module '%s' is not there: no %s", name,
			lua_tostring(L, -1));
}

/* Upvalue: the table of what has been required, false while it loads. */
static int
sandbox_require(lua_State *L)
{
	const char *name = luaL_checkstring(L, 1);

	lua_settop(L, 1);
	if (lua_getfield(L, lua_upvalueindex(1), name) != LUA_TNIL) {
		if (!lua_toboolean(L, -1))
			luaL_error(L, "module '%s' requires itself", name);
		return 1;
	}
	push_module_path(L, name);
	lua_pushboolean(L, 0);
	lua_setfield(L, lua_upvalueindex(1), name);
	lua_load_path(L, lua_tostring(L, -1));
	lua_pushvalue(L, 1);
	lua_call(L, 1, 1);
	if (!lua_toboolean(L, -1)) {
		lua_pop(L, 1);
		lua_pushboolean(L, 1);
	}
	lua_pushvalue(L, -1);
	lua_setfield(L, lua_upvalueindex(1), name);
	return 1;
}

static void
open_require(lua_State *L)
{
	lua_newtable(L);
	lua_pushcclosure(L, sandbox_require, 1);
	lua_setglobal(L, "require");
}

void
lua_open_sandbox(lua_State *L)
{
	open_base(L);
	open_libraries(L);
	open_require(L);
	lua_settop(L, 0);
}

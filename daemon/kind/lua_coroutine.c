/* The coroutine library, as Lua's but for what resumes and closes: the watch
 * has to know which Lua thread runs, and a coroutine that waits for the
 * kernel makes the one that resumed it wait, too, up to the handler. So
 * eventd.call() may stand anywhere in a script's coroutines. */
#include <lualib.h>

#include "kind/lua_session.h"
#include "kind/lua_wait.h"
#include "kind/lua_watch.h"

enum {
	STEP_FAILED = -1, /* the error is on top */
	STEP_WAITS = -2,
	CLOSE_DEPTH = 32, /* __close within __close; each takes C stack */
};

static lua_State *
check_coroutine(lua_State *L)
{
	struct lua_session *ls = lua_session_peek(L);
	lua_State *co = lua_tothread(L, 1);

	luaL_argexpected(L, co, 1, "coroutine");
	if (co == ls->L || co == ls->co || lua_tasks_have(L, co))
		luaL_argerror(L, 1, "this coroutine is a handler's own");
	return co;
}

/* Results of @co to @L, as in Lua's own auxresume(). */
static int
take_results(lua_State *L, lua_State *co, int status, int n)
{
	if (status != LUA_OK && status != LUA_YIELD) {
		lua_xmove(co, L, 1);
		return STEP_FAILED;
	}
	if (!lua_checkstack(L, n + 1)) {
		lua_pop(co, n);
		lua_pushliteral(L, "too many results to resume");
		return STEP_FAILED;
	}
	lua_xmove(co, L, n);
	return n;
}

static int
step(lua_State *L, lua_State *co, int n_args)
{
	struct lua_session *ls = lua_session_peek(L);
	struct lua_frame frame = {L, ls->frames};
	int status, n;

	if (!lua_checkstack(co, n_args)) {
		lua_pushliteral(L, "too many arguments to resume");
		return STEP_FAILED;
	}
	lua_xmove(L, co, n_args);
	ls->frames = &frame;
	lua_watch_switch(co);
	status = lua_resume(co, L, n_args, &n);
	ls->frames = frame.up;
	lua_watch_switch(L);
	if (status == LUA_YIELD && ls->yields)
		return STEP_WAITS;
	return take_results(L, co, status, n);
}

/* ---- coroutine.resume -------------------------------------------------- */

static int
resume_ended(lua_State *L, int r)
{
	lua_pushboolean(L, r >= 0);
	if (r == STEP_FAILED)
		r = 1;
	lua_insert(L, -(r + 1));
	return r + 1;
}

static int
resume_on(lua_State *L, int status, lua_KContext context)
{
	int r = step(L, (lua_State *)context, 0);

	(void)status;
	if (r == STEP_WAITS)
		return lua_yieldk(L, 0, context, resume_on);
	return resume_ended(L, r);
}

static int
co_resume(lua_State *L)
{
	lua_State *co = check_coroutine(L);
	int r = step(L, co, lua_gettop(L) - 1);

	if (r == STEP_WAITS)
		return lua_yieldk(L, 0, (lua_KContext)co, resume_on);
	return resume_ended(L, r);
}

/* ---- coroutine.close --------------------------------------------------- */

static int
reset(lua_State *L, lua_State *co)
{
	struct lua_session *ls = lua_session_peek(L);
	struct lua_frame frame = {L, ls->frames};
	int status;

	if (ls->closing >= CLOSE_DEPTH)
		luaL_error(L, "C stack overflow");
	if (lua_watch_is_late()) /* its __close would run without hooks */
		luaL_error(L, "cannot close a coroutine any more");
	ls->closing++;
	ls->frames = &frame;
	lua_watch_switch(co);
	status = lua_resetthread(co);
	ls->frames = frame.up;
	ls->closing--;
	lua_watch_switch(L);
	return status;
}

/* Not one that runs, nor one that waits for another it resumed. */
static bool
may_close(lua_State *L, lua_State *co)
{
	lua_Debug ar;

	if (co == L)
		return false;
	return lua_status(co) != LUA_OK || !lua_getstack(co, 0, &ar);
}

static int
co_close(lua_State *L)
{
	lua_State *co = check_coroutine(L);

	if (!may_close(L, co))
		return luaL_error(L, "cannot close a running coroutine");
	if (reset(L, co) == LUA_OK) {
		lua_pushboolean(L, 1);
		return 1;
	}
	lua_pushboolean(L, 0);
	lua_xmove(co, L, 1);
	return 2;
}

/* ---- coroutine.wrap ---------------------------------------------------- */

static int
wrap_failed(lua_State *L, lua_State *co)
{
	int status = lua_status(co);

	if (status != LUA_OK && status != LUA_YIELD && !lua_watch_is_late()) {
		status = reset(L, co);
		lua_xmove(co, L, 1);
	}
	if (status != LUA_ERRMEM && lua_type(L, -1) == LUA_TSTRING) {
		luaL_where(L, 1);
		lua_insert(L, -2);
		lua_concat(L, 2);
	}
	return lua_error(L);
}

static int
wrap_on(lua_State *L, int status, lua_KContext context)
{
	lua_State *co = lua_tothread(L, lua_upvalueindex(1));
	int r = step(L, co, context ? 0 : lua_gettop(L));

	(void)status;
	if (r == STEP_WAITS)
		return lua_yieldk(L, 0, 1, wrap_on);
	return r == STEP_FAILED ? wrap_failed(L, co) : r;
}

static int
wrapped(lua_State *L)
{
	return wrap_on(L, LUA_OK, 0);
}

static int
co_wrap(lua_State *L)
{
	lua_State *co;

	luaL_checktype(L, 1, LUA_TFUNCTION);
	co = lua_newthread(L);
	lua_pushvalue(L, 1);
	lua_xmove(L, co, 1);
	lua_pushcclosure(L, wrapped, 1);
	return 1;
}

/* ---- coroutine.yield --------------------------------------------------- */

static int co_yield (lua_State *L)
{
	if (L == lua_session_peek(L)->co)
		return luaL_error(L,
			"attempt to yield from outside a coroutine (handlers "
			"wait with eventd.call and eventd.sleep)");
	return lua_yield(L, lua_gettop(L));
}

void
lua_open_coroutine(lua_State *L)
{
	static const luaL_Reg functions[] = {
		{"resume", co_resume},
		{"close", co_close},
		{"wrap", co_wrap},
		{"yield", co_yield },
		{NULL, NULL},
	};

	luaL_requiref(L, LUA_COLIBNAME, luaopen_coroutine, 1);
	luaL_setfuncs(L, functions, 0);
	lua_pop(L, 1);
}

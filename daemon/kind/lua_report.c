/* Errors of scripts as text for the session's supervisor. An error object may
 * be anything, with a __tostring that fails, loops or eats memory; so making
 * text of it is protected, watched and has memory of its own. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "kind/lua_session.h"
#include "kind/lua_watch.h"

enum {
	TRACE_MAX = 2048,
	SLACK = 64 << 10, /* bytes beyond MemoryMax= for a report */
	REPORT_MS = 200,
};

struct lua_report {
	char *text; /* LUA_REPORT_MAX bytes */
	size_t n;
	lua_State *from;
	char trace[TRACE_MAX];
};

static void
append(struct lua_report *r, const char *text, size_t size)
{
	size_t room = LUA_REPORT_MAX - 1 - r->n;

	if (size > room)
		size = room;
	memcpy(r->text + r->n, text, size);
	r->n += size;
	r->text[r->n] = '\0';
}

static bool
has_lua_level(lua_State *L)
{
	lua_Debug ar;

	for (int level = 0; level < 32 && lua_getstack(L, level, &ar); level++)
		if (lua_getinfo(L, "S", &ar) && *ar.what != 'C')
			return true;
	return false;
}

/* Of @from, to r->trace; nothing if no line of a script is in it. */
static void
take_trace(lua_State *L, struct lua_report *r, lua_State *from, int level)
{
	if (!has_lua_level(from))
		return;
	luaL_traceback(L, from, NULL, level);
	snprintf(r->trace, sizeof(r->trace), "%s", lua_tostring(L, -1));
	lua_pop(L, 1);
}

static int
on_error(lua_State *L)
{
	struct lua_report *r = lua_session_of(L)->report;

	if (r && !*r->trace)
		take_trace(L, r, L, 1);
	return 1;
}

static int
trace_from(lua_State *L)
{
	struct lua_report *r = lua_touserdata(L, 1);

	take_trace(L, r, r->from, 0);
	return 0;
}

static int
describe(lua_State *L)
{
	struct lua_report *r = lua_touserdata(L, 1);
	size_t size;
	const char *text;

	if (lua_type(L, 2) != LUA_TSTRING)
		append(r, "error object ", 13);
	text = luaL_tolstring(L, 2, &size);
	append(r, text, size);
	return 0;
}

/* lua_pcall() of the function and arguments on the main thread. */
static int
watched_pcall(struct lua_session *ls, int n_args, int handler, uint32_t ms)
{
	struct lua_watch_mark before;
	int status;

	lua_watch_enter(&before, ls->L, ms);
	status = lua_pcall(ls->L, n_args, 0, handler);
	lua_watch_leave(&before);
	return status;
}

/* Text of the error object on top of the main thread, which is popped. */
static void
take_message(struct lua_session *ls, struct lua_report *r, int status)
{
	lua_State *L = ls->L;
	size_t most = ls->max_size;
	char text[64];
	int type = lua_type(L, -1);

	ls->max_size += most ? SLACK : 0;
	lua_pushcfunction(L, describe);
	lua_insert(L, -2);
	lua_pushlightuserdata(L, r);
	lua_insert(L, -2);
	if (watched_pcall(ls, 2, 0, REPORT_MS)) {
		lua_pop(L, 1);
		snprintf(text, sizeof(text), "of type %s, without a text",
			lua_typename(L, type));
		append(r, text, strlen(text));
	}
	ls->max_size = most;
	if (status == LUA_ERRMEM) {
		snprintf(text, sizeof(text), " (MemoryMax=%zu)", most);
		append(r, text, strlen(text));
	}
}

static void
take_all(struct lua_session *ls, struct lua_report *r, int status)
{
	take_message(ls, r, status);
	if (*r->trace) {
		append(r, "\n", 1);
		append(r, r->trace, strlen(r->trace));
	}
}

int
lua_protect(struct lua_session *ls, lua_CFunction fn, void *arg,
	char text[LUA_REPORT_MAX])
{
	struct lua_report report = {.text = text}, *outer = ls->report;
	lua_State *L = ls->L;
	int status, base = lua_gettop(L);

	*text = '\0';
	ls->report = &report;
	lua_pushcfunction(L, on_error);
	lua_pushcfunction(L, fn);
	lua_pushlightuserdata(L, arg);
	status = watched_pcall(ls, 1, base + 1, ls->handler_ms);
	ls->report = outer;
	if (status)
		take_all(ls, &report, status);
	lua_settop(L, base);
	return status;
}

void
lua_report(struct lua_session *ls, int status, char text[LUA_REPORT_MAX])
{
	struct lua_report report = {.text = text, .from = ls->co};
	lua_State *L = ls->L;

	*text = '\0';
	if (status == LUA_SESSION_LATE) {
		snprintf(text, LUA_REPORT_MAX,
			"handler ran longer than HandlerTimeout=%" PRIu32 "ms",
			ls->handler_ms);
		return;
	}
	ls->max_size += ls->max_size ? SLACK : 0;
	lua_pushcfunction(L, trace_from);
	lua_pushlightuserdata(L, &report);
	if (watched_pcall(ls, 1, 0, REPORT_MS))
		lua_pop(L, 1);
	ls->max_size -= ls->max_size ? SLACK : 0;
	lua_xmove(ls->co, L, 1);
	take_all(ls, &report, status);
}

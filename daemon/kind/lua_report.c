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
	TRACE_LEVELS = 16,
	MESSAGE_MAX = LUA_REPORT_MAX - TRACE_MAX,
	SLACK = 64 << 10, /* bytes beyond MemoryMax= for a report */
	REPORT_MS = 200,
};

struct lua_report {
	char *text;
	size_t size; /* of its room, with a NUL */
	size_t n;
};

static void
append(struct lua_report *r, const char *text, size_t size)
{
	size_t room = r->size - 1 - r->n;

	if (size > room)
		size = room;
	memcpy(r->text + r->n, text, size);
	r->n += size;
	r->text[r->n] = '\0';
}

/* What a level is called, as Lua's own tracebacks have it. */
static void
append_level(struct lua_report *r, const lua_Debug *ar)
{
	char line[256];

	if (*ar->what == 'C' && !ar->name)
		return; /* ours, that called the handler */
	if (*ar->what == 'C')
		snprintf(line, sizeof(line), "\n\t[C]: in %s '%s'",
			ar->namewhat, ar->name);
	else if (*ar->what == 'm')
		snprintf(line, sizeof(line), "\n\t%s:%d: in main chunk",
			ar->short_src, ar->currentline);
	else if (ar->name && *ar->namewhat)
		snprintf(line, sizeof(line), "\n\t%s:%d: in %s '%s'",
			ar->short_src, ar->currentline, ar->namewhat, ar->name);
	else
		snprintf(line, sizeof(line), "\n\t%s:%d: in function <%s:%d>",
			ar->short_src, ar->currentline, ar->short_src,
			ar->linedefined);
	append(r, line, strlen(line));
}

/* The innermost levels of @L: is a line of a script there? Unlike
 * luaL_traceback() it takes no memory, and no time that grows with the depth
 * of a recursion that has filled it. */
static bool
append_levels(struct lua_report *r, lua_State *L, int level)
{
	bool has_line = false;
	lua_Debug ar;
	int last = level + TRACE_LEVELS;

	for (; level < last && lua_getstack(L, level, &ar); level++) {
		lua_getinfo(L, "Sln", &ar);
		has_line = has_line || *ar.what != 'C';
		append_level(r, &ar);
	}
	if (level == last && lua_getstack(L, level, &ar))
		append(r, "\n\t...", 5);
	return has_line;
}

/* Nothing if no line of a script is there. */
static void
append_trace(struct lua_report *r, lua_State *L, int level)
{
	static const char title[] = "\nstack traceback:";
	size_t before = r->n;

	append(r, title, sizeof(title) - 1);
	if (!append_levels(r, L, level))
		r->text[r->n = before] = '\0';
}

void
lua_report_where(
	const struct lua_session *ls, lua_State *L, char *text, size_t size)
{
	struct lua_report r = {text, size, 0};

	text[0] = '\0';
	append_levels(&r, L, 0);
	for (const struct lua_frame *f = ls->frames; f; f = f->up)
		append_levels(&r, f->L, 0);
}

static int
on_error(lua_State *L)
{
	struct lua_report *r = lua_session_peek(L)->report;

	if (r && !r->n)
		append_trace(r, L, 1);
	return 1;
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
	append(r, text, size < MESSAGE_MAX ? size : MESSAGE_MAX);
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

/* Text of the error object on top of the main thread, which is popped. Who has
 * no memory left is lent some for it. */
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

int
lua_protect(struct lua_session *ls, lua_CFunction fn, void *arg,
	char text[LUA_REPORT_MAX])
{
	char trace_text[TRACE_MAX] = "";
	struct lua_report trace = {trace_text, TRACE_MAX, 0};
	struct lua_report report = {text, LUA_REPORT_MAX, 0};
	struct lua_report *outer = ls->report;
	lua_State *L = ls->L;
	int status, base = lua_gettop(L);

	*text = '\0';
	ls->report = &trace;
	lua_pushcfunction(L, on_error);
	lua_pushcfunction(L, fn);
	lua_pushlightuserdata(L, arg);
	status = watched_pcall(ls, 1, base + 1, ls->handler_ms);
	ls->report = outer;
	if (status) {
		take_message(ls, &report, status);
		append(&report, trace_text, trace.n);
	}
	lua_settop(L, base);
	return status;
}

void
lua_report(struct lua_session *ls, int status, char text[LUA_REPORT_MAX])
{
	struct lua_report report = {text, LUA_REPORT_MAX, 0};

	*text = '\0';
	if (status == LUA_SESSION_STALLED) {
		snprintf(text, LUA_REPORT_MAX, "%s", lua_watch_stalled_text());
		return;
	}
	if (status == LUA_SESSION_LATE) {
		snprintf(text, LUA_REPORT_MAX,
			"handler ran longer than HandlerTimeout=%" PRIu32 "ms",
			ls->handler_ms);
		return;
	}
	lua_xmove(ls->co, ls->L, 1);
	take_message(ls, &report, status);
	append_trace(&report, ls->co, 0);
}

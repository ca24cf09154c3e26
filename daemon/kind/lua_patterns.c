/* string.find, match, gmatch and gsub with the matcher of lua_match.c, as Lua
 * 5.4 has them. */
#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include <lauxlib.h>

#include "kind/lua_match.h"

static void
match_init(struct lua_match *m, lua_State *L, int text, int pattern)
{
	size_t size;

	m->L = L;
	m->text = luaL_checklstring(L, text, &size);
	m->text_end = m->text + size;
	m->pattern = luaL_checklstring(L, pattern, &size);
	m->pattern_end = m->pattern + size;
	m->steps = 0;
	m->n_captures = 0;
}

/* Where a search begins, counted from 0; argument @i. */
static size_t
check_start(lua_State *L, int i, size_t size)
{
	lua_Integer at = luaL_optinteger(L, i, 1);

	if (at > 0)
		return (size_t)at - 1;
	if (at == 0 || at < -(lua_Integer)size)
		return 0;
	return (size_t)((lua_Integer)size + at);
}

/* ---- find and match ---------------------------------------------------- */

static bool
is_plain(const struct lua_match *m)
{
	static const char special[] = "^$*+?.([%-";

	for (const char *p = m->pattern; p < m->pattern_end; p++)
		if (*p && strchr(special, *p))
			return false;
	return true;
}

static int
push_none(lua_State *L)
{
	lua_pushnil(L);
	return 1;
}

/* The pattern as it is, in the text from @at; or NULL. */
static const char *
find_text(struct lua_match *m, const char *at)
{
	size_t size = (size_t)(m->pattern_end - m->pattern);

	if (!size)
		return at;
	for (; (size_t)(m->text_end - at) >= size; at++) {
		size_t places = (size_t)(m->text_end - at) - size + 1;

		at = memchr(at, *m->pattern, places);
		if (!at || memcmp(at, m->pattern, size) == 0)
			return at;
		lua_match_spend(m, 1 + size / 64);
	}
	return NULL;
}

static int
find_plainly(struct lua_match *m, size_t start)
{
	size_t size = (size_t)(m->pattern_end - m->pattern);
	const char *found = find_text(m, m->text + start);

	if (!found)
		return push_none(m->L);
	lua_pushinteger(m->L, found - m->text + 1);
	lua_pushinteger(m->L, found - m->text + (lua_Integer)size);
	return 2;
}

/* Take a `^` away from the pattern: was there one? */
static bool
take_anchor(struct lua_match *m)
{
	if (*m->pattern != '^')
		return false;
	m->pattern++;
	return true;
}

static int
search(lua_State *L, bool find)
{
	struct lua_match m;
	const char *at, *end;
	size_t start;
	bool anchored;

	match_init(&m, L, 1, 2);
	start = check_start(L, 3, (size_t)(m.text_end - m.text));
	if (start > (size_t)(m.text_end - m.text))
		return push_none(L);
	if (find && (lua_toboolean(L, 4) || is_plain(&m)))
		return find_plainly(&m, start);
	anchored = take_anchor(&m);
	at = m.text + start;
	do {
		end = lua_match_at(&m, at);
	} while (!end && at++ < m.text_end && !anchored);
	if (!end)
		return push_none(L);
	if (!find)
		return lua_match_push_all(&m, at, end);
	lua_pushinteger(L, at - m.text + 1);
	lua_pushinteger(L, end - m.text);
	return lua_match_push_all(&m, NULL, NULL) + 2;
}

static int
string_find(lua_State *L)
{
	return search(L, true);
}

static int
string_match(lua_State *L)
{
	return search(L, false);
}

/* ---- gmatch ------------------------------------------------------------ */

/* Upvalues: text, pattern, where to go on and the end of the last match, both
 * counted from 0; -1: there was none. */
enum { UP_TEXT = 1, UP_PATTERN, UP_AT, UP_LAST };

static int
next_match(lua_State *L)
{
	lua_Integer last = lua_tointeger(L, lua_upvalueindex(UP_LAST));
	lua_Integer start = lua_tointeger(L, lua_upvalueindex(UP_AT));
	struct lua_match m;
	const char *end;

	match_init(
		&m, L, lua_upvalueindex(UP_TEXT), lua_upvalueindex(UP_PATTERN));
	if (start > m.text_end - m.text)
		return 0;
	for (const char *at = m.text + start; at <= m.text_end; at++) {
		end = lua_match_at(&m, at);
		if (!end || end - m.text == last)
			continue;
		lua_pushinteger(L, end - m.text);
		lua_copy(L, -1, lua_upvalueindex(UP_AT));
		lua_replace(L, lua_upvalueindex(UP_LAST));
		return lua_match_push_all(&m, at, end);
	}
	return 0;
}

static int
string_gmatch(lua_State *L)
{
	size_t size, start;

	luaL_checklstring(L, 1, &size);
	luaL_checkstring(L, 2);
	start = check_start(L, 3, size);
	lua_settop(L, 2);
	lua_pushinteger(L, (lua_Integer)(start < size + 1 ? start : size + 1));
	lua_pushinteger(L, -1);
	lua_pushcclosure(L, next_match, 4);
	return 1;
}

/* ---- gsub -------------------------------------------------------------- */

/* The replacement is a string with %0 to %9 in it. */
static void
add_string(struct lua_match *m, luaL_Buffer *b, const char *at, const char *end)
{
	lua_State *L = m->L;
	size_t size;
	const char *p = lua_tolstring(L, 3, &size), *last = p + size, *escape;

	while ((escape = memchr(p, '%', (size_t)(last - p)))) {
		luaL_addlstring(b, p, (size_t)(escape - p));
		p = escape + 2;
		if (escape[1] == '%') {
			luaL_addchar(b, '%');
		} else if (escape[1] == '0') {
			luaL_addlstring(b, at, (size_t)(end - at));
		} else if (isdigit((unsigned char)escape[1])) {
			lua_match_push(m, escape[1] - '1', at, end);
			luaL_addvalue(b);
		} else {
			luaL_error(L, "invalid use of '%%' in replacement "
				      "string");
		}
	}
	luaL_addlstring(b, p, (size_t)(last - p));
}

/* Add what stands for the match: is it something else? */
static bool
add_value(struct lua_match *m, luaL_Buffer *b, const char *at, const char *end,
	int type)
{
	lua_State *L = m->L;

	if (type == LUA_TFUNCTION) {
		lua_pushvalue(L, 3);
		lua_call(L, lua_match_push_all(m, at, end), 1);
	} else if (type == LUA_TTABLE) {
		lua_match_push(m, 0, at, end);
		lua_gettable(L, 3);
	} else {
		add_string(m, b, at, end);
		return true;
	}
	if (!lua_toboolean(L, -1)) {
		lua_pop(L, 1);
		luaL_addlstring(b, at, (size_t)(end - at));
		return false;
	}
	if (!lua_isstring(L, -1))
		luaL_error(L, "invalid replacement value (a %s)",
			luaL_typename(L, -1));
	luaL_addvalue(b);
	return true;
}

/* The text with its first @most matches replaced goes to @b, but for the rest
 * behind them, which begins at the value returned. */
static const char *
replace(struct lua_match *m, luaL_Buffer *b, lua_Integer most, bool anchored,
	lua_Integer *n, bool *changed)
{
	const char *at = m->text, *last = NULL, *end;
	int type = lua_type(m->L, 3);

	while (*n < most) {
		end = lua_match_at(m, at);
		if (end && end != last) {
			++*n;
			if (add_value(m, b, at, end, type))
				*changed = true;
			at = last = end;
		} else if (at < m->text_end) {
			luaL_addchar(b, *at++);
		} else {
			break;
		}
		if (anchored)
			break;
	}
	return at;
}

static int
string_gsub(lua_State *L)
{
	struct lua_match m;
	lua_Integer n = 0, most;
	int type = lua_type(L, 3);
	bool anchored, changed = false;
	luaL_Buffer b;
	const char *rest;

	match_init(&m, L, 1, 2);
	luaL_argexpected(L,
		type == LUA_TNUMBER || type == LUA_TSTRING ||
			type == LUA_TFUNCTION || type == LUA_TTABLE,
		3, "string/function/table");
	most = luaL_optinteger(L, 4, m.text_end - m.text + 1);
	anchored = take_anchor(&m);
	luaL_buffinit(L, &b);
	rest = replace(&m, &b, most, anchored, &n, &changed);
	if (changed) {
		luaL_addlstring(&b, rest, (size_t)(m.text_end - rest));
		luaL_pushresult(&b);
	} else {
		lua_pushvalue(L, 1);
	}
	lua_pushinteger(L, n);
	return 2;
}

void
lua_open_patterns(lua_State *L)
{
	static const luaL_Reg functions[] = {
		{"find", string_find},
		{"match", string_match},
		{"gmatch", string_gmatch},
		{"gsub", string_gsub},
		{NULL, NULL},
	};

	luaL_setfuncs(L, functions, 0);
}

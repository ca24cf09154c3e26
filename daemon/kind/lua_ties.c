/* What scripts do to learn of the end of other sessions: watch, link, trap.
 * What they learn comes as events with a table, see lua_push_notice(). */
#include "kernel/notice.h"
#include "kernel/sched.h"
#include "kernel/tie.h"
#include "kind/lua_session.h"

static void
set_text(lua_State *L, const char *key, const char *text)
{
	if (!*text)
		return;
	lua_pushstring(L, text);
	lua_setfield(L, -2, key);
}

static void
set_number(lua_State *L, const char *key, uint64_t number)
{
	if (!number)
		return;
	lua_pushinteger(L, (lua_Integer)number);
	lua_setfield(L, -2, key);
}

void
lua_push_notice(lua_State *L, const struct msg *m)
{
	struct notice n;

	notice_read(m, &n);
	lua_createtable(L, 0, 6);
	if (m->event == notice_gap) {
		set_number(L, "from", n.from);
		set_number(L, "to", n.to);
		set_number(L, "count", n.lost);
		return;
	}
	set_number(L, "watch", n.watch);
	set_number(L, "id", n.session);
	set_number(L, "lost", n.lost);
	set_text(L, "alias", n.alias);
	set_text(L, "reason", n.reason);
	set_text(L, "text", n.text);
	set_text(L, "change", n.change);
	if (m->event != notice_down && m->event != notice_child) {
		lua_pushboolean(L, n.up);
		lua_setfield(L, -2, "up");
	}
}

/* nil, a status word and why. */
static int
push_refused(lua_State *L, int r)
{
	char text[256];

	return lua_push_failure(L, ties_status(r),
		ties_explain(
			lua_session_of(L)->session, r, text, sizeof(text)));
}

static const char *
alias_given(lua_State *L)
{
	return lua_type(L, 1) == LUA_TSTRING ? lua_tostring(L, 1) : NULL;
}

/* eventd.watch(alias or id): the watch's number; `_down` comes once. */
static int
api_watch(lua_State *L)
{
	struct tie_init init = {
		.session = lua_check_to(L, 1), .alias = alias_given(L)};
	uint64_t number;
	int r = tie_make(lua_session_of(L)->session, &init, &number);

	if (r)
		return push_refused(L, r);
	lua_pushinteger(L, (lua_Integer)number);
	return 1;
}

/* eventd.unwatch(number): was there such a watch? */
static int
api_unwatch(lua_State *L)
{
	uint64_t number = (uint64_t)luaL_checkinteger(L, 1);

	lua_pushboolean(L, !ties_unwatch(lua_session_of(L)->session, number));
	return 1;
}

/* eventd.link(alias or id) */
static int
api_link(lua_State *L)
{
	struct tie_init init = {.session = lua_check_to(L, 1),
		.alias = alias_given(L),
		.link = true};
	uint64_t number;
	int r;

	if (!init.session)
		return lua_push_refusal(L, SCHED_E_NO_SESSION, 0, 1);
	r = tie_make(lua_session_of(L)->session, &init, &number);
	if (r)
		return push_refused(L, r);
	lua_pushboolean(L, 1);
	return 1;
}

/* eventd.unlink(alias or id): were they linked? */
static int
api_unlink(lua_State *L)
{
	uint64_t other = lua_check_to(L, 1);

	lua_pushboolean(L, !tie_unlink(lua_session_of(L)->session, other));
	return 1;
}

/* eventd.trap(boolean) */
static int
api_trap(lua_State *L)
{
	luaL_checktype(L, 1, LUA_TBOOLEAN);
	if (ties_trap(lua_session_of(L)->session, lua_toboolean(L, 1)))
		return luaL_error(L, "not enough memory");
	lua_pushboolean(L, 1);
	return 1;
}

void
lua_open_ties(lua_State *L, int eventd)
{
	static const luaL_Reg functions[] = {
		{"watch", api_watch},
		{"unwatch", api_unwatch},
		{"link", api_link},
		{"unlink", api_unlink},
		{"trap", api_trap},
		{NULL, NULL},
	};

	lua_pushvalue(L, eventd);
	luaL_setfuncs(L, functions, 0);
	lua_pop(L, 1);
}

/* What scripts do with names: take and drop aliases while they run, wait for
 * one to appear, be told of those that come and go. */
#include <string.h>

#include "kernel/claim.h"
#include "kernel/crowd.h"
#include "kernel/names.h"
#include "kernel/sched.h"
#include "kernel/ties.h"
#include "kind/lua_session.h"
#include "proto/status.h"

/* ---- bind -------------------------------------------------------------- */

enum claim_mode
lua_check_if_taken(lua_State *L, int options)
{
	static const char *const words[] = {"refuse", "queue", "replace", NULL};
	enum claim_mode mode = CLAIM_REFUSE;

	if (lua_getfield(L, options, "if_taken") != LUA_TNIL)
		mode = (enum claim_mode)luaL_checkoption(L, -1, NULL, words);
	lua_pop(L, 1);
	return mode;
}

/* The field `mode`, and of one that others have as well what belongs to it. */
static void
check_mode(lua_State *L, struct crowd_wish *wish)
{
	static const char *const words[] = {
		"exclusive", "shared", "fanout", NULL};
	lua_Integer window;

	if (lua_getfield(L, 2, "mode") != LUA_TNIL)
		wish->mode = (uint32_t)luaL_checkoption(L, -1, NULL, words);
	if (lua_getfield(L, 2, "window") != LUA_TNIL) {
		window = luaL_checkinteger(L, -1);
		luaL_argcheck(L, window >= 1 && window <= CROWD_WINDOW_MAX, 2,
			"window is 1 to 65535");
		wish->window = (uint32_t)window;
	}
	lua_pop(L, 2);
}

static int
join(lua_State *L, const struct crowd_wish *wish)
{
	char text[512];
	int r = crowd_join(
		lua_session_of(L)->session, wish, text, sizeof(text));

	if (r == CROWD_E_QUEUED)
		lua_pushliteral(L, "queued");
	else if (r)
		return lua_push_failure(L, r, text);
	else
		lua_pushboolean(L, 1);
	return 1;
}

/* eventd.bind(alias [, {if_taken = , allow_replace = , mode = , window = }]):
 * true, or "queued" if `_alias` will tell. */
static int
api_bind(lua_State *L)
{
	struct session *s = lua_session_of(L)->session;
	struct claim_init init = {.mode = CLAIM_REFUSE};
	struct crowd_wish wish = {.mode = BIND_EXCLUSIVE};
	char text[512];
	int r;

	luaL_checktype(L, 1, LUA_TSTRING);
	init.name = lua_tolstring(L, 1, &init.size);
	if (!lua_isnoneornil(L, 2)) {
		luaL_checktype(L, 2, LUA_TTABLE);
		init.mode = lua_check_if_taken(L, 2);
		lua_getfield(L, 2, "allow_replace");
		init.allow_replace = lua_toboolean(L, -1);
		check_mode(L, &wish);
	}
	wish.alias = init.name;
	wish.size = init.size;
	if (wish.mode != BIND_EXCLUSIVE) {
		luaL_argcheck(L, init.mode == CLAIM_REFUSE, 2,
			"if_taken is for mode exclusive: in others all join");
		return join(L, &wish);
	}
	r = claim_make(s, &init);
	if (r == CLAIM_E_QUEUED)
		lua_pushliteral(L, "queued");
	else if (r)
		return lua_push_failure(L, claim_status(r),
			claim_explain(s, &init, r, text, sizeof(text)));
	else
		lua_pushboolean(L, 1);
	return 1;
}

/* eventd.unbind(alias): did it hold it, share it, or stand in line for it? */
static int
api_unbind(lua_State *L)
{
	struct session *s = lua_session_of(L)->session;
	const char *name;
	size_t size;

	luaL_checktype(L, 1, LUA_TSTRING);
	name = lua_tolstring(L, 1, &size);
	lua_pushboolean(
		L, !claim_drop(s, name, size) || crowd_leave(s, name, size));
	return 1;
}

/* ---- wait -------------------------------------------------------------- */

/* The holder's id, or nil, status word and text. */
static int
wait_on(lua_State *L, int status, lua_KContext context)
{
	const struct msg *reply = lua_session_of(L)->reply;
	uint64_t holder;

	(void)status, (void)context;
	if (!reply)
		return lua_push_failure(L, EVD_STATUS_CANCELLED, NULL);
	if (msg_status(reply))
		return lua_push_failure(L, (int)msg_status(reply),
			"the alias has not appeared in time");
	memcpy(&holder, reply->data, sizeof(holder));
	lua_pushinteger(L, (lua_Integer)holder);
	return 1;
}

/* eventd.wait(alias [, timeout]) */
static int
api_wait(lua_State *L)
{
	struct lua_session *ls = lua_session_of(L);
	uint64_t ms = ls->sched->kernel->limits.call_timeout_ms;
	struct claim_init init = {.mode = CLAIM_REFUSE};
	char text[512];
	int r;

	luaL_checktype(L, 1, LUA_TSTRING);
	init.name = lua_tolstring(L, 1, &init.size);
	if (!lua_isnoneornil(L, 2))
		ms = (lua_check_ns(L, 2) + NS_PER_MS - 1) / NS_PER_MS;
	lua_check_wait(L, "eventd.wait");
	r = claim_wait(ls->session, init.name, init.size, ms, ++ls->last_token);
	if (r)
		return lua_push_failure(L, claim_status(r),
			claim_explain(
				ls->session, &init, r, text, sizeof(text)));
	lua_waits_for(ls, SESSION_WAIT_ANSWER);
	return lua_wait(L, wait_on);
}

/* ---- names ------------------------------------------------------------- */

/* eventd.watch_names(pattern): the watch's number; `_name` tells. */
static int
api_watch_names(lua_State *L)
{
	struct session *s = lua_session_of(L)->session;
	char text[256];
	uint64_t number;
	size_t size;
	const char *pattern = luaL_checklstring(L, 1, &size);
	int r = names_watch(s, pattern, size, &number);

	if (r)
		return lua_push_failure(L, ties_status(r),
			ties_explain(s, r, text, sizeof(text)));
	lua_pushinteger(L, (lua_Integer)number);
	return 1;
}

void
lua_open_names(lua_State *L, int eventd)
{
	static const luaL_Reg functions[] = {
		{"bind", api_bind},
		{"unbind", api_unbind},
		{"wait", api_wait},
		{"watch_names", api_watch_names},
		{NULL, NULL},
	};

	lua_pushvalue(L, eventd);
	luaL_setfuncs(L, functions, 0);
	lua_pop(L, 1);
}

/* The table `eventd` of scripts: replies and what a session knows of itself;
 * other files add what they have. Functions return nil, a status word and a
 * text where the kernel refuses; a wrong argument is an error. */
#include <string.h>

#include "kernel/sched.h"
#include "kind/lua_send.h"
#include "kind/lua_session.h"
#include "kind/lua_wait.h"
#include "kind/session_log.h"
#include "proto/status.h"

/* ---- replies ----------------------------------------------------------- */

static int
send_reply(lua_State *L, uint64_t call, int status, int i)
{
	struct lua_session *ls = lua_session_of(L);
	char number[LUA_DATA_MAX];
	size_t size;
	const char *data = lua_check_data(L, i, number, &size);

	if (sched_reply(ls->sched, call, status, data, (uint32_t)size))
		return luaL_error(L, "not enough memory for the reply");
	lua_pushboolean(L, 1);
	return 1;
}

/* To the event being handled; false if it wants none (any more). */
static int
reply_to_current(lua_State *L, int status)
{
	struct msg *m = lua_session_of(L)->m;

	if (!m || !msg_call(m) || (m->flags & MSG_REPLIED)) {
		lua_pushboolean(L, 0);
		return 1;
	}
	send_reply(L, msg_call(m), status, 1);
	m->flags |= MSG_REPLIED;
	return 1;
}

static int
reply_with(lua_State *L, int status)
{
	struct lua_session *ls = lua_session_of(L);
	uint64_t call;

	if (lua_gettop(L) < 2)
		return reply_to_current(L, status);
	call = (uint64_t)luaL_checkinteger(L, 1);
	if (!deferred_remove(&ls->deferred, call))
		return lua_push_failure(L, EVD_STATUS_NOT_FOUND,
			"no such deferred call: it has been answered or is "
			"another session's");
	return send_reply(L, call, status, 2);
}

/* eventd.reply(data), eventd.reply(token, data) */
static int
api_reply(lua_State *L)
{
	return reply_with(L, EVD_STATUS_OK);
}

/* eventd.reply_error(text), eventd.reply_error(token, text) */
static int
api_reply_error(lua_State *L)
{
	return reply_with(L, EVD_STATUS_HANDLER);
}

/* eventd.defer(): a token, or nil if no reply is wanted */
static int
api_defer(lua_State *L)
{
	struct lua_session *ls = lua_session_of(L);
	struct msg *m = ls->m;
	int r;

	if (!m || !msg_call(m) || (m->flags & MSG_REPLIED)) {
		lua_pushnil(L);
		return 1;
	}
	r = deferred_add(&ls->deferred, msg_call(m), msg_deadline_ns(m));
	if (r == DEFERRED_E_MANY)
		return luaL_error(L, "%d calls are deferred, the most possible",
			DEFERRED_MAX);
	if (r)
		return luaL_error(L, "not enough memory to defer a call");
	lua_pushinteger(L, (lua_Integer)msg_call(m));
	msg_uncall(m);
	return 1;
}

/* ---- the session ------------------------------------------------------- */

/* eventd.log([level,] text) */
static int
api_log(lua_State *L)
{
	static const char *const words[] = {
		"error", "warning", "info", "debug", NULL};
	static const int levels[] = {
		LOG_L_ERR, LOG_L_WARN, LOG_L_INFO, LOG_L_DEBUG};
	struct lua_session *ls = lua_session_of(L);
	int level = LOG_L_INFO, i = 1;
	const char *text;
	size_t size;

	if (lua_gettop(L) > 1)
		level = levels[luaL_checkoption(L, i++, NULL, words)];
	text = luaL_checklstring(L, i, &size);
	session_log(ls->session, &ls->log, level, text, size);
	return 0;
}

static int
api_self(lua_State *L)
{
	lua_pushinteger(L, (lua_Integer)lua_session_of(L)->session->id);
	return 1;
}

static int
api_alias(lua_State *L)
{
	const char *alias = session_first_alias(lua_session_of(L)->session);

	if (*alias)
		lua_pushstring(L, alias);
	else
		lua_pushnil(L);
	return 1;
}

/* The chain has the newest first. */
static int
api_aliases(lua_State *L)
{
	const struct alias *a = lua_session_of(L)->session->aliases;
	lua_Integer n = 0;

	for (const struct alias *i = a; i; i = i->sibling)
		n++;
	lua_newtable(L);
	for (; a; a = a->sibling, n--) {
		lua_pushlstring(L, a->name, a->size);
		lua_rawseti(L, -2, n);
	}
	return 1;
}

/* eventd.resolve(alias): the holder's id, or nil */
static int
api_resolve(lua_State *L)
{
	uint64_t id;

	luaL_checktype(L, 1, LUA_TSTRING);
	id = lua_check_to(L, 1);
	if (!id)
		return lua_push_refusal(L, SCHED_E_NO_SESSION, 0, 1);
	lua_pushinteger(L, (lua_Integer)id);
	return 1;
}

static void
push_params(lua_State *L, const struct session_spec *spec)
{
	lua_newtable(L);
	for (size_t i = 0; i < spec->n_params; i++) {
		lua_pushstring(L, spec->params[i].value);
		lua_setfield(L, -2, spec->params[i].key);
	}
}

void
lua_open_eventd(lua_State *L)
{
	static const luaL_Reg functions[] = {
		{"reply", api_reply},
		{"reply_error", api_reply_error},
		{"defer", api_defer},
		{"log", api_log},
		{"self", api_self},
		{"alias", api_alias},
		{"aliases", api_aliases},
		{"resolve", api_resolve},
		{NULL, NULL},
	};

	luaL_newlib(L, functions);
	push_params(L, lua_session_of(L)->session->spec);
	lua_setfield(L, -2, "params");
	lua_open_send(L, lua_gettop(L));
	lua_open_states(L, lua_gettop(L));
	lua_open_time(L, lua_gettop(L));
	lua_open_wait(L, lua_gettop(L));
	lua_open_spawn(L, lua_gettop(L));
	lua_open_ties(L, lua_gettop(L));
	lua_open_names(L, lua_gettop(L));
	lua_open_manage(L, lua_gettop(L));
	lua_open_durable(L, lua_gettop(L));
	lua_setglobal(L, "eventd");
}

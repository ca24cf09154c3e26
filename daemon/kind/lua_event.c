/* The second argument of a handler: the event, as fields. One object for all
 * events of a session; it speaks of the one that is being handled and of none
 * in between, so a script that keeps it keeps nothing alive. */
#include <string.h>

#include "base/clock.h"
#include "kernel/sched.h"
#include "kind/lua_session.h"
#include "proto/headers.h"
#include "proto/status.h"

static void
push_nonzero(lua_State *L, uint64_t number)
{
	if (number)
		lua_pushinteger(L, (lua_Integer)number);
	else
		lua_pushnil(L);
}

static void
push_headers(lua_State *L, const struct msg *m)
{
	const uint8_t *p = msg_headers(m), *end = p + m->headers_size;
	struct header h;

	lua_newtable(L);
	while (headers_next(&p, end, &h)) {
		lua_pushlstring(L, h.name, h.name_size);
		lua_pushlstring(L, h.value, h.size);
		lua_rawset(L, -3);
	}
}

/* Seconds that the caller waits yet; nil: nobody waits. */
static void
push_deadline(lua_State *L, const struct lua_session *ls)
{
	const struct msg *m = ls->m;
	uint64_t now;

	if (!ls->is_call || !msg_deadline_ns(m)) {
		lua_pushnil(L);
		return;
	}
	now = clock_now(ls->sched->kernel->clock);
	lua_pushnumber(
		L, msg_deadline_ns(m) > now
			   ? (lua_Number)(msg_deadline_ns(m) - now) / NS_PER_S
			   : 0);
}

/* Of an answer that comes as an event: the call, or how it failed. */
static void
push_answer_field(lua_State *L, const struct msg *m, bool status)
{
	const struct msg_extra *extra = msg_extra(m);

	if (!extra || !extra->re || (status && !extra->status))
		lua_pushnil(L);
	else if (status)
		lua_pushstring(L, status_word((int)extra->status));
	else
		lua_pushinteger(L, (lua_Integer)extra->re);
}

/* Seconds since 1970; nil: no timer fired it. */
static void
push_due(lua_State *L, uint64_t due_ns)
{
	if (due_ns)
		lua_pushnumber(L, (lua_Number)due_ns / NS_PER_S);
	else
		lua_pushnil(L);
}

/* Fields that few scripts ask for. */
static int
push_rare(lua_State *L, const struct lua_session *ls, const char *key)
{
	const struct msg *m = ls->m;

	if (strcmp(key, "headers") == 0)
		push_headers(L, m);
	else if (strcmp(key, "deadline") == 0)
		push_deadline(L, ls);
	else if (strcmp(key, "priority") == 0)
		lua_pushstring(L, m->flags & MSG_URGENT ? "urgent" : "normal");
	else if (strcmp(key, "call") == 0)
		push_answer_field(L, m, false);
	else if (strcmp(key, "error") == 0)
		push_answer_field(L, m, true);
	else
		return 0;
	return 1;
}

static int
event_index(lua_State *L)
{
	const struct lua_session *ls = lua_session_peek(L);
	const struct msg *m = ls->m;
	const char *key = lua_tostring(L, 2);

	if (!m || !key)
		return 0;
	if (strcmp(key, "event") == 0)
		lua_pushlstring(L, m->event, m->event_size);
	else if (strcmp(key, "id") == 0)
		push_nonzero(L, m->id);
	else if (strcmp(key, "from") == 0)
		push_nonzero(L, msg_sender(m));
	else if (strcmp(key, "is_call") == 0)
		lua_pushboolean(L, ls->is_call);
	else if (strcmp(key, "late") == 0)
		lua_pushnumber(L, (lua_Number)msg_late_ns(m) / NS_PER_S);
	else if (strcmp(key, "due") == 0)
		push_due(L, msg_due_ns(m));
	else if (strcmp(key, "attempt") == 0)
		lua_pushinteger(L, m->attempt + 1);
	else
		return push_rare(L, ls, key);
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

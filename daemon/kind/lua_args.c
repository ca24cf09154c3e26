/* Arguments of the functions that scripts call, checked, and what these
 * functions return when the kernel refuses. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "kernel/dead.h"
#include "kernel/sched.h"
#include "kind/lua_session.h"
#include "proto/envelope.h"
#include "proto/status.h"

uint64_t
lua_check_to(lua_State *L, int i)
{
	struct alias *alias = lua_said_alias(L, i, &lua_session_of(L)->said);
	int type;

	if (alias)
		return atomic_load_explicit(
			&alias->holder, memory_order_acquire);
	type = lua_type(L, i);
	if (type == LUA_TSTRING)
		return lua_said_holder(L, i);
	if (type != LUA_TNUMBER)
		luaL_typeerror(L, i, "alias or session id");
	return (uint64_t)luaL_checkinteger(L, i);
}

/* The decimal digits of @n, as Lua writes them but without a string of its
 * own; at the end of @text. */
static const char *
integer_text(lua_Integer n, char text[LUA_DATA_MAX], size_t *size)
{
	static const char digits[] =
		"00010203040506070809101112131415161718192021222324"
		"25262728293031323334353637383940414243444546474849"
		"50515253545556575859606162636465666768697071727374"
		"75767778798081828384858687888990919293949596979899";
	char *end = text + LUA_DATA_MAX, *p = end;
	lua_Unsigned large = n < 0 ? 0 - (lua_Unsigned)n : (lua_Unsigned)n;
	uint32_t rest;

	for (; large > UINT32_MAX; large /= 100) /* two at a time */
		memcpy(p -= 2, digits + 2 * (large % 100), 2);
	for (rest = (uint32_t)large; rest >= 10; rest /= 100)
		memcpy(p -= 2, digits + 2 * (rest % 100), 2);
	if (rest || p == end)
		*--p = (char)('0' + rest);
	if (n < 0)
		*--p = '-';
	*size = (size_t)(end - p);
	return p;
}

const char *
lua_check_data(lua_State *L, int i, char number[LUA_DATA_MAX], size_t *size)
{
	const char *data;
	uint32_t most;
	int type;

	if (lua_isinteger(L, i))
		return integer_text(lua_tointeger(L, i), number, size);
	type = lua_type(L, i);
	if (type == LUA_TNIL || type == LUA_TNONE) {
		*size = 0;
		return "";
	}
	if (type != LUA_TSTRING && type != LUA_TNUMBER)
		luaL_error(L,
			"a %s cannot be a payload: send a string, a number "
			"or nil (string.pack and string.format make strings)",
			lua_typename(L, type));
	data = lua_tolstring(L, i, size);
	most = lua_session_peek(L)->sched->kernel->limits.max_payload;
	if (*size > most)
		luaL_error(L, "a payload of %I bytes: at most %I (MaxPayload=)",
			(lua_Integer)*size, (lua_Integer)most);
	return data;
}

const char *
lua_check_event_name(lua_State *L, int i, size_t *size)
{
	const struct lua_said_event *said =
		lua_said_event(L, i, &lua_session_of(L)->said);
	const char *event;

	if (said) {
		*size = said->size;
		return said->text;
	}
	event = luaL_checklstring(L, i, size);
	luaL_argcheck(L, name_is_valid(event, *size, ENVELOPE_EVENT_MAX), i,
		"not an event's name: 1 to 127 of A-Z a-z 0-9 _ . / -");
	if (lua_type(L, i) == LUA_TSTRING)
		lua_said_good(L, i, event, *size);
	return event;
}

struct msg *
lua_check_msg(lua_State *L, int event, int data)
{
	struct msg_init init = {.event = NULL};

	return lua_check_init(L, event, data, &init);
}

struct msg *
lua_check_init(lua_State *L, int event, int data, const struct msg_init *with)
{
	struct lua_session *ls = lua_session_of(L);
	struct msg_init init = *with;
	char number[LUA_DATA_MAX];
	size_t event_size, size;
	struct msg *m;

	init.event = lua_check_event_name(L, event, &event_size);
	init.event_size = (uint8_t)event_size;
	init.data = lua_check_data(L, data, number, &size);
	init.size = (uint32_t)size;
	m = msg_new(&ls->sched->pool, &init);
	if (!m)
		luaL_error(L, "not enough memory for an event");
	return m;
}

uint64_t
lua_check_ns(lua_State *L, int i)
{
	const lua_Number most = 3155760000.0; /* 100 years */
	lua_Number seconds = luaL_checknumber(L, i);

	luaL_argcheck(L, seconds >= 0 && seconds <= most, i,
		"seconds must be from 0 to 3155760000");
	return (uint64_t)(seconds * NS_PER_S);
}

uint32_t
lua_check_timeout_ms(lua_State *L, int i)
{
	uint64_t ms;

	if (lua_isnoneornil(L, i))
		return 0;
	ms = (lua_check_ns(L, i) + NS_PER_MS - 1) / NS_PER_MS;
	luaL_argcheck(L, ms <= UINT32_MAX, i, "a time-out of over 49 days");
	return ms ? (uint32_t)ms : 1;
}

int
lua_push_failure(lua_State *L, int status, const char *text)
{
	lua_pushnil(L);
	lua_pushstring(L, status_word(status));
	lua_pushstring(L, text ? text : status_text(status));
	return 3;
}

void
lua_free_refused(lua_State *L, struct msg *m, int i)
{
	struct sched *s = lua_session_of(L)->sched;

	if (m->to == 0 && lua_type(L, i) == LUA_TSTRING)
		dead_no_alias(s, m, lua_tostring(L, i));
	else
		msg_free(&s->pool, m);
}

int
lua_push_refusal(lua_State *L, int r, uint64_t session, int i)
{
	struct lua_session *ls = lua_session_of(L);
	char text[512];

	if (session && r != SCHED_E_NO_SESSION)
		return lua_push_failure(L, sched_status(r),
			sched_explain(
				ls->sched, r, session, text, sizeof(text)));
	lua_pushnil(L);
	lua_pushstring(L, status_word(EVD_STATUS_NO_ALIAS));
	if (lua_type(L, i) == LUA_TSTRING)
		lua_pushfstring(L, "no session holds the alias '%s'",
			lua_tostring(L, i));
	else
		lua_pushfstring(
			L, "no session has the id %I", lua_tointeger(L, i));
	return 3;
}

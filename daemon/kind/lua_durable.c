/* eventd.durable: values of a script that outlive its state, by key, as fields.
 * What a handler changes is kept together with the end of its event. */
#include <string.h>

#include "kernel/sched.h"
#include "kernel/state.h"
#include "kind/lua_session.h"

/* The first byte of a value. */
enum { TAG_STRING = 's', TAG_INTEGER = 'i', TAG_NUMBER = 'n', TAG_BOOL = 'b' };

static void
push_value(lua_State *L, const struct state_value *v)
{
	const char *data = v->data;
	lua_Integer integer;
	lua_Number number;

	if (!v->size) {
		lua_pushliteral(L, "");
	} else if (*data == TAG_INTEGER && v->size == 1 + sizeof(integer)) {
		memcpy(&integer, data + 1, sizeof(integer));
		lua_pushinteger(L, integer);
	} else if (*data == TAG_NUMBER && v->size == 1 + sizeof(number)) {
		memcpy(&number, data + 1, sizeof(number));
		lua_pushnumber(L, number);
	} else if (*data == TAG_BOOL && v->size == 2) {
		lua_pushboolean(L, data[1]);
	} else {
		lua_pushlstring(L, data + 1, v->size - 1);
	}
}

static const char *
check_key(lua_State *L, int i, size_t *size)
{
	if (lua_type(L, i) != LUA_TSTRING)
		luaL_error(L, "a key of eventd.durable is a string, not a %s",
			luaL_typename(L, i));
	return lua_tolstring(L, i, size);
}

static int
durable_index(lua_State *L)
{
	const struct lua_session *ls = lua_session_of(L);
	struct state_value v;
	size_t size;
	const char *key = check_key(L, 2, &size);

	if (state_get(ls->session, key, size, &v))
		lua_pushnil(L);
	else
		push_value(L, &v);
	return 1;
}

/* The bytes of the value at @i, which are on the stack from then on. */
static const char *
encode(lua_State *L, int i, size_t *size)
{
	char bytes[1 + sizeof(lua_Integer) + sizeof(lua_Number)];
	lua_Integer integer;
	lua_Number number;

	switch (lua_type(L, i)) {
	case LUA_TSTRING:
		lua_pushliteral(L, "s");
		lua_pushvalue(L, i);
		lua_concat(L, 2);
		return lua_tolstring(L, -1, size);
	case LUA_TBOOLEAN:
		bytes[0] = TAG_BOOL;
		bytes[1] = (char)lua_toboolean(L, i);
		return lua_pushlstring(L, bytes, *size = 2);
	case LUA_TNUMBER:
		break;
	default:
		luaL_error(L,
			"a value of eventd.durable is a string, a number, a "
			"boolean or nil, not a %s",
			luaL_typename(L, i));
	}
	*size = 1 + sizeof(integer);
	if (lua_isinteger(L, i)) {
		integer = lua_tointeger(L, i);
		bytes[0] = TAG_INTEGER;
		memcpy(bytes + 1, &integer, sizeof(integer));
	} else {
		number = lua_tonumber(L, i);
		bytes[0] = TAG_NUMBER;
		memcpy(bytes + 1, &number, sizeof(number));
	}
	return lua_pushlstring(L, bytes, *size);
}

static int
refused(lua_State *L, int r)
{
	const struct session *s = lua_session_peek(L)->session;

	switch (r) {
	case STATE_E_VOLATILE:
		return luaL_error(
			L, "eventd.durable needs Durable=yes in [Mailbox]");
	case STATE_E_FULL:
		return luaL_error(L,
			"eventd.durable holds %d bytes of %d "
			"(DurableState= in [Mailbox])",
			(int)state_size(s), (int)s->spec->state_max);
	case STATE_E_MANY:
		return luaL_error(L,
			"eventd.durable is for one handler at a time "
			"(Concurrency=)");
	case STATE_E_KEY:
		return luaL_error(L,
			"a key of eventd.durable has 1 to %d bytes",
			STATE_KEY_MAX);
	default:
		return luaL_error(L, "not enough memory for eventd.durable");
	}
}

static int
durable_newindex(lua_State *L)
{
	struct lua_session *ls = lua_session_of(L);
	size_t key_size, size = 0;
	const char *key = check_key(L, 2, &key_size), *data = NULL;
	int r;

	if (!lua_isnil(L, 3))
		data = encode(L, 3, &size);
	r = state_set(ls->session, key, key_size, data, size);
	return r ? refused(L, r) : 0;
}

static int
durable_next(lua_State *L)
{
	const struct lua_session *ls = lua_session_of(L);
	size_t size = 0, next_size;
	const char *key = NULL, *next;
	struct state_value v;

	if (!lua_isnil(L, 2))
		key = check_key(L, 2, &size);
	if (state_next(ls->session, key, size, &next, &next_size, &v)) {
		lua_pushnil(L);
		return 1;
	}
	lua_pushlstring(L, next, next_size);
	push_value(L, &v);
	return 2;
}

static int
durable_pairs(lua_State *L)
{
	lua_pushcfunction(L, durable_next);
	lua_pushvalue(L, 1);
	lua_pushnil(L);
	return 3;
}

void
lua_open_durable(lua_State *L, int eventd)
{
	static const luaL_Reg functions[] = {
		{"__index", durable_index},
		{"__newindex", durable_newindex},
		{"__pairs", durable_pairs},
		{NULL, NULL},
	};

	lua_newuserdatauv(L, 0, 0);
	luaL_newlib(L, functions);
	lua_pushliteral(L, "eventd.durable");
	lua_setfield(L, -2, "__name");
	lua_pushboolean(L, 0);
	lua_setfield(L, -2, "__metatable");
	lua_setmetatable(L, -2);
	lua_setfield(L, eventd, "durable");
}

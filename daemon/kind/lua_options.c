/* The table of options that functions which send take as their last argument:
 * { headers = {NAME = VALUE}, priority = "urgent", ttl = SECONDS, key = KEY,
 * timeout = SECONDS, reply = EVENT, n = NUMBER, call = TOKEN, wait = LEVEL }.
 */
#include <string.h>

#include "base/clock.h"
#include "kernel/sched.h"
#include "kind/lua_send.h"
#include "kind/lua_session.h"
#include "proto/envelope.h"
#include "proto/headers.h"

/* The value is on top. */
static void
put_header(lua_State *L, struct lua_options *o)
{
	struct header h = {.name = NULL};
	int type = lua_type(L, -1);

	if (lua_type(L, -2) != LUA_TSTRING)
		luaL_error(L, "headers is a table of NAME = VALUE");
	if (type != LUA_TSTRING && type != LUA_TNUMBER)
		luaL_error(L, "the header '%s' is a %s: send a string",
			lua_tostring(L, -2), lua_typename(L, type));
	h.name = lua_tolstring(L, -2, &h.name_size);
	if (!name_is_valid(h.name, h.name_size, ENVELOPE_EVENT_MAX))
		luaL_error(L,
			"not a header's name: 1 to 127 of A-Z a-z 0-9 _ . / -");
	h.value = lua_tolstring(L, -1, &h.size);
	if (h.size > ENVELOPE_HEADERS_MAX ||
		o->headers_size + headers_room(&h) > ENVELOPE_HEADERS_MAX)
		luaL_error(L, "headers of over %d bytes", ENVELOPE_HEADERS_MAX);
	o->headers_size =
		(uint32_t)(headers_put(o->headers + o->headers_size, &h) -
			   o->headers);
}

static void
take_headers(lua_State *L, struct lua_options *o)
{
	if (lua_type(L, -1) != LUA_TTABLE)
		luaL_error(L, "headers is a table of NAME = VALUE");
	luaL_checkstack(L, 4, NULL);
	lua_pushnil(L);
	while (lua_next(L, -2)) {
		put_header(L, o);
		lua_pop(L, 1);
	}
}

static void
take_priority(lua_State *L, struct lua_options *o)
{
	const char *word = lua_tostring(L, -1);

	if (lua_type(L, -1) != LUA_TSTRING ||
		(strcmp(word, "urgent") && strcmp(word, "normal")))
		luaL_error(L, "priority is \"urgent\" or \"normal\"");
	o->urgent = word[0] == 'u';
}

static void
take_ttl(lua_State *L, struct lua_options *o)
{
	o->ttl_ns = lua_check_ns(L, lua_gettop(L));
	if (!o->ttl_ns)
		luaL_error(L, "ttl is more than 0 seconds");
}

static void
take_key(lua_State *L, struct lua_options *o)
{
	size_t size = 0;

	if (lua_type(L, -1) == LUA_TSTRING)
		o->key = lua_tolstring(L, -1, &size);
	if (!size || size > MSG_KEY_MAX)
		luaL_error(L, "key is a string of 1 to %d bytes", MSG_KEY_MAX);
	o->key_size = (uint8_t)size;
}

static void
take_timeout(lua_State *L, struct lua_options *o)
{
	o->timeout_ms = lua_check_timeout_ms(L, lua_gettop(L));
}

static void
take_reply(lua_State *L, struct lua_options *o)
{
	size_t size = 0;

	if (lua_type(L, -1) == LUA_TSTRING)
		o->reply = lua_tolstring(L, -1, &size);
	if (!o->reply || !name_is_valid(o->reply, size, ENVELOPE_EVENT_MAX) ||
		o->reply[0] == '_')
		luaL_error(L, "reply is the name of an event");
	o->reply_size = (uint8_t)size;
}

static void
take_n(lua_State *L, struct lua_options *o)
{
	lua_Integer n = lua_isinteger(L, -1) ? lua_tointeger(L, -1) : 0;

	if (n < 1 || n > UINT32_MAX)
		luaL_error(L, "n is a number of answers, 1 or more");
	o->n = (uint32_t)n;
}

static void
take_call(lua_State *L, struct lua_options *o)
{
	if (!lua_isinteger(L, -1))
		luaL_error(L, "call is what eventd.defer returned");
	o->call = (uint64_t)lua_tointeger(L, -1);
}

static void
take_wait(lua_State *L, struct lua_options *o)
{
	static const char *const levels[] = {
		[MSG_LEVEL_ACCEPTED] = "accepted",
		[MSG_LEVEL_DURABLE] = "durable",
		[MSG_LEVEL_DELIVERED] = "delivered",
		[MSG_LEVEL_HANDLED] = "handled",
	};
	const char *word =
		lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";

	for (int i = 0; i <= MSG_LEVEL_HANDLED; i++) {
		if (strcmp(word, levels[i]) != 0)
			continue;
		o->level = (uint8_t)i;
		o->waits = true;
		return;
	}
	luaL_error(L, "wait is \"accepted\", \"durable\", \"delivered\" or "
		      "\"handled\"");
}

static bool
check_flag(lua_State *L, const char *name)
{
	if (!lua_isboolean(L, -1))
		luaL_error(L, "%s is true or false", name);
	return lua_toboolean(L, -1);
}

static void
take_durable(lua_State *L, struct lua_options *o)
{
	o->durable = check_flag(L, "durable");
}

static void
take_trace(lua_State *L, struct lua_options *o)
{
	o->trace = check_flag(L, "trace");
}

static const struct {
	const char *name;
	unsigned bit;
	void (*take)(lua_State *L, struct lua_options *o);
} options[] = {
	{"headers", LUA_OPT_HEADERS, take_headers},
	{"priority", LUA_OPT_PRIORITY, take_priority},
	{"ttl", LUA_OPT_TTL, take_ttl},
	{"key", LUA_OPT_KEY, take_key},
	{"timeout", LUA_OPT_TIMEOUT, take_timeout},
	{"reply", LUA_OPT_REPLY, take_reply},
	{"n", LUA_OPT_N, take_n},
	{"call", LUA_OPT_CALL, take_call},
	{"wait", LUA_OPT_WAIT, take_wait},
	{"durable", LUA_OPT_DURABLE, take_durable},
	{"trace", LUA_OPT_TRACE, take_trace},
};

/* The value is on top, its name below. */
static void
take_option(lua_State *L, unsigned allowed, struct lua_options *o)
{
	const char *name = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2)
							  : "(not a name)";

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		if (!(options[i].bit & allowed) ||
			strcmp(options[i].name, name))
			continue;
		options[i].take(L, o);
		return;
	}
	luaL_error(L, "there is no option '%s' here", name);
}

void
lua_check_options(lua_State *L, int i, unsigned allowed, struct lua_options *o)
{
	memset(o, 0, offsetof(struct lua_options, headers));
	if (lua_isnoneornil(L, i))
		return;
	luaL_checktype(L, i, LUA_TTABLE);
	luaL_checkstack(L, 4, NULL);
	lua_pushnil(L);
	while (lua_next(L, i)) {
		take_option(L, allowed, o);
		lua_pop(L, 1);
	}
}

/* What @o says of @m, which was made with it. */
static void
apply(const struct lua_session *ls, const struct lua_options *o, struct msg *m)
{
	struct msg_extra *extra = msg_extra(m);

	if (o->urgent)
		m->flags |= MSG_URGENT;
	if (!extra)
		return;
	msg_live(m, ls->sched->now_ns, o->ttl_ns);
	extra->durable = o->durable;
	extra->traced = o->trace;
	if (o->trace) /* told before it is posted */
		m->id = sched_id(ls->sched);
	extra->key_size = o->key_size;
	if (o->key_size)
		memcpy(extra->key, o->key, o->key_size);
}

struct msg *
lua_check_event(lua_State *L, int event, int data, const struct lua_options *o)
{
	const struct lua_session *ls = lua_session_of(L);
	struct msg_init init = {
		.headers = o->headers,
		.headers_size = o->headers_size,
		.extra = o->ttl_ns || o->key_size || o->durable || o->trace ||
			 o->level == MSG_LEVEL_DURABLE,
	};
	struct msg *m = lua_check_init(L, event, data, &init);

	apply(ls, o, m);
	return m;
}

#pragma once
/* Sending from scripts: options, and calls under way. The home's thread. */
#include <stdbool.h>
#include <stdint.h>

#include <lua.h>

#include "base/list.h"
#include "proto/envelope.h"

struct lua_session;
struct msg;
struct msg_init;

/* Which options a function takes. */
enum lua_option {
	LUA_OPT_HEADERS = 1,
	LUA_OPT_PRIORITY = 2,
	LUA_OPT_TTL = 4,
	LUA_OPT_KEY = 8,
	LUA_OPT_TIMEOUT = 16,
	LUA_OPT_REPLY = 32,
	LUA_OPT_N = 64,
	LUA_OPT_CALL = 128,
	LUA_OPT_WAIT = 256,
	LUA_OPT_DURABLE = 512,
	LUA_OPT_TRACE = 1024,
	LUA_OPT_EVENT = LUA_OPT_HEADERS | LUA_OPT_PRIORITY | LUA_OPT_TTL,
};

/* Strings are borrowed from the table. */
struct lua_options {
	const char *key, *reply;
	uint64_t ttl_ns, call;
	uint32_t timeout_ms, n;
	uint32_t headers_size;
	uint8_t key_size, reply_size;
	uint8_t level; /* enum msg_level, if it waits */
	bool urgent, waits, durable, trace;
	uint8_t headers[ENVELOPE_HEADERS_MAX];
};

/* A call whose answer comes as an event. */
struct lua_asked {
	struct list link; /* in lua_session.asked */
	uint64_t call;
	uint8_t size;
	char event[];
};
/* In the tokens of those; the rest is the place. */
#define LUA_ASKED_TOKEN (UINT64_C(1) << 63)

/* ---- lua_options.c; each may raise ------------------------------------- */

/* The table at @i, if there is one, of the options @allowed. */
void lua_check_options(
	lua_State *L, int i, unsigned allowed, struct lua_options *o);
/* An event to be sent, from a name, a payload and options; the caller's. */
struct msg *lua_check_event(
	lua_State *L, int event, int data, const struct lua_options *o);

/* ---- lua_send.c -------------------------------------------------------- */

void lua_open_send(lua_State *L, int eventd); /* raises */
/* A reply that nobody waits for in a handler: true if it was one. */
bool lua_asked_reply(
	struct lua_session *ls, uint64_t token, const struct msg *reply);
void lua_send_deinit(struct lua_session *ls);

/* ---- lua_states.c ------------------------------------------------------ */

/* Push the function for the event, or nothing: false. It may change the state.
 * @handlers: stack index of the main table. Raises. */
bool lua_push_handler(lua_State *L, int handlers, const struct msg *m);
void lua_open_states(lua_State *L, int eventd); /* raises */

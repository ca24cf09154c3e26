/* Running handlers. The coroutine's stack holds the table of handlers, the
 * event object and the names of events at its bottom, for good; each run puts a
 * C function with these as arguments on top and resumes that. The same
 * coroutine serves every event: one that has ended is as good as new.
 *
 * Most events need nothing that could raise an error before their handler runs:
 * for these the handler itself is resumed, see run_plainly(). */
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "kernel/msg.h"
#include "kernel/notice.h"
#include "kernel/sched.h"
#include "kind/call_notice.h"
#include "kind/lua_memory.h"
#include "kind/lua_send.h"
#include "kind/lua_session.h"
#include "kind/lua_watch.h"

const char lua_key_handlers, lua_key_event;
static const char key_coroutine, key_keys;

enum {
	SLOT_HANDLERS = 1,
	SLOT_EVENT,
	SLOT_KEYS, /* a list of strings, those of lua_session.keys */
	SLOTS = SLOT_KEYS,
};

void
lua_run_init(lua_State *L)
{
	struct lua_session *ls = lua_session_peek(L);
	lua_State *co = lua_newthread(L);

	lua_rawsetp(L, LUA_REGISTRYINDEX, &key_coroutine);
	lua_pushvalue(L, -1);
	lua_rawsetp(L, LUA_REGISTRYINDEX, &lua_key_handlers);
	lua_xmove(L, co, 1);
	lua_open_event(L);
	lua_createtable(L, LUA_KEYS, 0);
	lua_xmove(L, co, 2);
	assert(lua_gettop(co) == SLOTS);
	ls->co = co;
	ls->n_slots = SLOTS;
	lua_pushvalue(co, SLOT_EVENT);
	lua_pushvalue(co, SLOT_KEYS);
	lua_xmove(co, L, 2);
	lua_rawsetp(L, LUA_REGISTRYINDEX, &key_keys);
	lua_rawsetp(L, LUA_REGISTRYINDEX, &lua_key_event);
}

void
lua_run_slots(struct lua_session *ls, lua_State *L)
{
	(void)ls;
	lua_rawgetp(L, LUA_REGISTRYINDEX, &lua_key_handlers);
	lua_rawgetp(L, LUA_REGISTRYINDEX, &lua_key_event);
	lua_rawgetp(L, LUA_REGISTRYINDEX, &key_keys);
}

/* ---- on the coroutine -------------------------------------------------- */

/* The returned value answers the call. */
static void
answer(lua_State *L, struct lua_session *ls)
{
	struct msg *m = ls->m;
	char number[LUA_DATA_MAX];
	const char *data;
	size_t size;
	int r;

	if (!m || !msg_call(m) || (m->flags & MSG_REPLIED) || ls->stashed ||
		lua_isnil(L, -1))
		return;
	data = lua_check_data(L, lua_gettop(L), number, &size);
	lua_session_of(L); /* the kernel from here on */
	r = sched_reply(
		ls->sched, msg_call(m), EVD_STATUS_OK, data, (uint32_t)size);
	if (r)
		luaL_error(L, "not enough memory for the reply");
	m->flags |= MSG_REPLIED;
}

static int
handled(lua_State *L, int status, lua_KContext context)
{
	(void)status, (void)context;
	answer(L, lua_session_peek(L));
	return 0;
}

static unsigned
key_place(const struct msg *m)
{
	uint8_t first = (uint8_t)m->event[0];
	uint8_t last = (uint8_t)m->event[m->event_size - 1];

	return (first + 3u * last + m->event_size) % LUA_KEYS;
}

/* The next time its name is at hand. */
static void
remember(lua_State *L, const struct msg *m)
{
	unsigned place = key_place(m);
	struct lua_key *key = &lua_session_peek(L)->keys[place];

	if (m->event_size > sizeof(key->name) || m->event[0] == '_')
		return;
	key->size = 0;
	lua_pushlstring(L, m->event, m->event_size);
	lua_rawseti(L, SLOT_KEYS, (lua_Integer)place + 1);
	memcpy(key->name, m->event, m->event_size);
	key->size = m->event_size;
}

static int
handle_event(lua_State *L)
{
	struct lua_session *ls = lua_session_peek(L);
	const struct msg *m = ls->m;
	bool notice = m->event[0] == '_' && notice_is(m);

	remember(L, m);
	if (!lua_push_handler(L, SLOT_HANDLERS, m)) {
		ls->is_unhandled = true;
		return 0;
	}
	if (notice)
		lua_push_notice(L, m);
	else if (call_notice_is_cancelled(m->event))
		lua_pushinteger(L, (lua_Integer)msg_extra(m)->re);
	else
		lua_pushlstring(L, (const char *)msg_payload(m), m->size);
	lua_pushvalue(L, SLOT_EVENT);
	lua_callk(L, 2, 1, 0, handled);
	return handled(L, LUA_OK, 0);
}

static int
started(lua_State *L, int status, lua_KContext context)
{
	(void)L, (void)status, (void)context;
	return 0;
}

static int
handle_start(lua_State *L)
{
	if (lua_getfield(L, SLOT_HANDLERS, "_start") != LUA_TFUNCTION)
		return 0;
	lua_callk(L, 0, 0, 0, started);
	return 0;
}

/* ---- from outside ------------------------------------------------------ */

static int
resume(struct lua_session *ls, int n_args)
{
	struct lua_watch_mark before;
	enum lua_watch_late late;
	int status, n;

	lua_watch_enter(&before, ls->co, ls->handler_ms);
	status = lua_resume(ls->co, NULL, n_args, &n);
	late = lua_watch_leave(&before);
	/* One that is late may have been refused memory for that. */
	if (late && (status == LUA_OK || status == LUA_YIELD ||
			    status == LUA_ERRMEM))
		return late == LUA_WATCH_LATE ? LUA_SESSION_LATE
					      : LUA_SESSION_STALLED;
	if (status == LUA_OK) {
		if (n != SLOTS)
			lua_settop(ls->co, SLOTS);
	} else if (status == LUA_YIELD) {
		assert(ls->yields); /* coroutine.yield() refuses to */
		ls->yields = false;
		lua_pop(ls->co, n);
	}
	return status;
}

static int
run(struct lua_session *ls, lua_CFunction fn)
{
	lua_pushcfunction(ls->co, fn);
	for (int slot = 1; slot <= SLOTS; slot++)
		lua_pushvalue(ls->co, slot);
	return resume(ls, SLOTS);
}

/* Push the string that is the name of @m, if it is at hand. */
static bool
push_key(struct lua_session *ls, const struct msg *m)
{
	unsigned place = key_place(m);
	const struct lua_key *key = &ls->keys[place];

	if (key->size != m->event_size ||
		!msg_same(key->name, m->event, m->event_size))
		return false;
	lua_rawgeti(ls->co, SLOT_KEYS, (lua_Integer)place + 1);
	return true;
}

/* Enough for a string of the payload: then making it cannot fail. */
static bool
payload_is_sure(struct lua_session *ls, const struct msg *m)
{
	enum { HEAD = 32 }; /* more than Lua puts before a string */

	return m->size <= LUA_MEMORY_SURE - HEAD &&
	       lua_memory_is_sure(ls, m->size + HEAD);
}

/* A post whose handler is a function in the table itself, so that no metatable
 * has a say: no function of Lua's that is called here can raise. False: nothing
 * has been done. */
static bool
run_plainly(struct lua_session *ls, const struct msg *m, int *status)
{
	lua_State *co = ls->co;

	if (ls->is_call || ls->has_state || !payload_is_sure(ls, m) ||
		!push_key(ls, m))
		return false;
	if (lua_rawget(co, SLOT_HANDLERS) != LUA_TFUNCTION) {
		lua_settop(co, SLOTS);
		return false;
	}
	lua_pushlstring(co, (const char *)msg_payload(m), m->size);
	lua_pushvalue(co, SLOT_EVENT);
	*status = resume(ls, 2);
	return true;
}

int
lua_run_start(struct lua_session *ls)
{
	return run(ls, handle_start);
}

int
lua_run_event(struct lua_session *ls)
{
	int status;

	ls->is_unhandled = false;
	if (run_plainly(ls, ls->m, &status))
		return status;
	return run(ls, handle_event);
}

int
lua_run_on(struct lua_session *ls)
{
	return resume(ls, 0);
}

static int
handle_stop(lua_State *L)
{
	lua_rawgetp(L, LUA_REGISTRYINDEX, &lua_key_handlers);
	if (lua_getfield(L, -1, "_stop") == LUA_TFUNCTION)
		lua_call(L, 0, 0);
	return 0;
}

void
lua_run_stop(struct lua_session *ls)
{
	char text[LUA_REPORT_MAX];

	if (lua_protect(ls, handle_stop, NULL, text))
		log_warn("session.stop-failed",
			"session=\"%s\" reason=\"_stop: %s\"",
			session_name(ls->session), text);
}

/* ---- waiting ----------------------------------------------------------- */

void
lua_check_wait(lua_State *L, const char *what)
{
	struct lua_session *ls = lua_session_peek(L);
	bool can = lua_isyieldable(L);

	if (ls->stage == LUA_STAGE_STOPPING)
		luaL_error(L, "%s waits, which _stop cannot", what);
	if (ls->stage == LUA_STAGE_LOADING)
		luaL_error(L, "%s waits, which only handlers and _start can",
			what);
	for (struct lua_frame *f = ls->frames; f; f = f->up)
		can = can && lua_isyieldable(f->L);
	if (!can)
		luaL_error(L,
			"%s cannot wait here: inside a function that Lua "
			"calls by itself (a metamethod, or one given to "
			"table.sort, string.gsub, load, require)",
			what);
}

int
lua_wait(lua_State *L, lua_KFunction k)
{
	return lua_wait_with(L, k, 0);
}

int
lua_wait_with(lua_State *L, lua_KFunction k, lua_KContext context)
{
	lua_session_peek(L)->yields = true;
	return lua_yieldk(L, 0, context, k);
}

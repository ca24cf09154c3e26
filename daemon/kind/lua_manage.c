/* What scripts do with mailboxes, dead letters and profiles, their own and
 * those that manage.h lets them: eventd.queue.*, eventd.dead.*,
 * eventd.profile(). All of these wait. */
#include <string.h>

#include "base/clock.h"
#include "kind/lua_session.h"
#include "kind/manage.h"
#include "proto/status.h"

/* ---- asking ------------------------------------------------------------ */

/* The session that argument @i means; none: oneself. 0: nobody. */
static uint64_t
check_of(lua_State *L, int i)
{
	if (lua_isnoneornil(L, i))
		return lua_session_of(L)->session->id;
	return lua_check_to(L, i);
}

/* Wait for the answer, then run @k. */
static int
ask(lua_State *L, enum manage_op op, const struct manage_args *args,
	lua_KFunction k)
{
	struct lua_session *ls = lua_session_of(L);
	char text[MANAGE_TEXT];
	int status;

	lua_check_wait(
		L, op >= MANAGE_LETTERS ? "eventd.dead" : "eventd.queue");
	status = manage_ask(ls->session, op, args, ++ls->last_token, text);
	if (status)
		return lua_push_failure(L, status, text);
	lua_waits_for(ls, SESSION_WAIT_ANSWER);
	return lua_wait(L, k);
}

/* The same of one session; argument @i said which. */
static int
ask_of(lua_State *L, enum manage_op op, const struct manage_args *args, int i,
	lua_KFunction k)
{
	if (!args->session)
		return lua_push_refusal(L, SCHED_E_NO_SESSION, 0, i);
	return ask(L, op, args, k);
}

/* False: it failed, and what to return is on the stack. */
static bool
take_answer(lua_State *L, struct manage_answer *a)
{
	const struct msg *reply = lua_session_of(L)->reply;
	int status = reply ? (int)msg_status(reply) : EVD_STATUS_CANCELLED;

	if (!status && manage_open(a, reply->data, reply->size))
		return true;
	lua_pushnil(L);
	lua_pushstring(L, status_word(status));
	if (reply && reply->size)
		lua_pushlstring(L, (const char *)reply->data, reply->size);
	else
		lua_pushstring(L, status_text(status));
	return false;
}

static void
set_number(lua_State *L, const char *key, uint64_t number)
{
	lua_pushinteger(L, (lua_Integer)number);
	lua_setfield(L, -2, key);
}

/* Of sessions: nil is none. */
static void
set_id(lua_State *L, const char *key, uint64_t number)
{
	if (number)
		set_number(L, key, number);
}

static void
set_seconds(lua_State *L, const char *key, uint64_t ns)
{
	lua_pushnumber(L, (lua_Number)ns / NS_PER_S);
	lua_setfield(L, -2, key);
}

static void
set_text(lua_State *L, const char *key, const char *text, uint64_t size)
{
	lua_pushlstring(L, text, (size_t)size);
	lua_setfield(L, -2, key);
}

static void
set_flag(lua_State *L, const char *key, bool flag)
{
	lua_pushboolean(L, flag);
	lua_setfield(L, -2, key);
}

/* Push where the next page begins, or nil. */
static void
push_next(lua_State *L, uint64_t next)
{
	if (next)
		lua_pushinteger(L, (lua_Integer)next);
	else
		lua_pushnil(L);
}

/* A field of the options at @i, which may be nil: its type, on top. */
static int
get_option(lua_State *L, int i, const char *key)
{
	if (lua_isnoneornil(L, i)) {
		lua_pushnil(L);
		return LUA_TNIL;
	}
	luaL_checktype(L, i, LUA_TTABLE);
	return lua_getfield(L, i, key);
}

/* A number in there that is not negative; 0: none. */
static uint64_t
number_option(lua_State *L, int i, const char *key)
{
	uint64_t number = 0;

	if (get_option(L, i, key) != LUA_TNIL) {
		if (!lua_isinteger(L, -1) || lua_tointeger(L, -1) < 0)
			luaL_error(L, "%s is a number of 0 or more", key);
		number = (uint64_t)lua_tointeger(L, -1);
	}
	lua_pop(L, 1);
	return number;
}

/* A string in there, which the table keeps; NULL: none. */
static const char *
string_option(lua_State *L, int i, const char *key)
{
	const char *text = NULL;

	if (get_option(L, i, key) != LUA_TNIL) {
		if (lua_type(L, -1) != LUA_TSTRING)
			luaL_error(L, "%s is a string", key);
		text = lua_tostring(L, -1);
	}
	lua_pop(L, 1);
	return text;
}

static uint32_t
small(uint64_t number)
{
	return number < UINT32_MAX ? (uint32_t)number : UINT32_MAX;
}

/* ---- queue ------------------------------------------------------------- */

static int
paused(lua_State *L, int status, lua_KContext context)
{
	struct manage_answer a;

	(void)status, (void)context;
	if (!take_answer(L, &a))
		return 3;
	lua_pushboolean(L, 1);
	return 1;
}

/* eventd.queue.pause([of]) */
static int
queue_do_pause(lua_State *L)
{
	struct manage_args args = {.session = check_of(L, 1)};

	return ask_of(L, MANAGE_PAUSE, &args, 1, paused);
}

/* eventd.queue.resume([of]) */
static int
queue_do_resume(lua_State *L)
{
	struct manage_args args = {.session = check_of(L, 1)};

	return ask_of(L, MANAGE_RESUME, &args, 1, paused);
}

static void
push_event(lua_State *L, const struct manage_event *e)
{
	lua_createtable(L, 0, 9);
	set_number(L, "position", e->position);
	set_number(L, "id", e->id);
	set_id(L, "from", e->from);
	set_number(L, "size", e->size);
	set_number(L, "attempt", e->attempt + 1);
	set_flag(L, "is_call", e->call);
	set_text(L, "priority", e->urgent ? "urgent" : "normal", 6);
	set_text(L, "event", e->event, e->event_size);
	set_text(L, "data", e->data, e->data_size);
}

/* The list, and where the next page begins. */
static int
peeked(lua_State *L, int status, lua_KContext context)
{
	struct manage_answer a;
	struct manage_event e;
	lua_Integer n = 0;

	(void)status, (void)context;
	if (!take_answer(L, &a))
		return 3;
	lua_newtable(L);
	while (manage_next_event(&a, &e)) {
		push_event(L, &e);
		lua_rawseti(L, -2, ++n);
	}
	push_next(L, a.next);
	return 2;
}

/* eventd.queue.peek([of [, {after = , limit = , bytes = , id = }]]) */
static int
queue_do_peek(lua_State *L)
{
	struct manage_args args = {.session = check_of(L, 1)};
	uint64_t id;

	lua_settop(L, 2);
	args.after = number_option(L, 2, "after");
	args.limit = small(number_option(L, 2, "limit"));
	args.bytes = small(number_option(L, 2, "bytes"));
	id = number_option(L, 2, "id");
	args.ids = &id;
	args.n_ids = id != 0;
	return ask_of(L, MANAGE_PEEK, &args, 1, peeked);
}

/* How many. If some were left: how many of these, and why, too. */
static int
changed(lua_State *L, int status, lua_KContext context)
{
	struct manage_answer a;

	(void)status, (void)context;
	if (!take_answer(L, &a))
		return 3;
	lua_pushinteger(L, (lua_Integer)a.n);
	if (!a.left || !a.status)
		return 1;
	lua_pushinteger(L, (lua_Integer)a.left);
	lua_pushstring(L, status_word((int)a.status));
	lua_pushstring(L, *a.text ? a.text : status_text((int)a.status));
	return 4;
}

/* eventd.queue.purge([of [, event]]) */
static int
queue_do_purge(lua_State *L)
{
	struct manage_args args = {.session = check_of(L, 1)};

	args.event = luaL_optstring(L, 2, NULL);
	return ask_of(L, MANAGE_PURGE, &args, 1, changed);
}

/* eventd.queue.move(of, to [, limit]) */
static int
queue_do_move(lua_State *L)
{
	struct manage_args args = {.session = check_of(L, 1)};
	lua_Integer limit = luaL_optinteger(L, 3, 0);

	luaL_checktype(L, 2, LUA_TSTRING);
	luaL_argcheck(L, limit >= 0, 3, "a number of 0 or more");
	args.to = lua_tostring(L, 2);
	args.limit = small((uint64_t)limit);
	return ask_of(L, MANAGE_MOVE, &args, 1, changed);
}

/* ---- dead -------------------------------------------------------------- */

static void
push_letter(lua_State *L, const struct manage_letter *l)
{
	lua_createtable(L, 0, 13);
	set_number(L, "id", l->id);
	set_number(L, "event_id", l->event_id);
	set_id(L, "from", l->from);
	set_id(L, "session", l->session);
	set_number(L, "size", l->size);
	set_number(L, "attempt", l->attempt + 1);
	set_seconds(L, "time", l->time_ns);
	set_text(L, "reason", l->reason, strlen(l->reason));
	lua_pushstring(L, status_word((int)l->status));
	lua_setfield(L, -2, "error");
	set_text(L, "alias", l->alias, strlen(l->alias));
	set_text(L, "event", l->event, strlen(l->event));
	set_text(L, "text", l->text, strlen(l->text));
	set_text(L, "data", l->data, l->data_size);
}

static int
listed(lua_State *L, int status, lua_KContext context)
{
	struct manage_answer a;
	struct manage_letter l;
	lua_Integer n = 0;

	(void)status, (void)context;
	if (!take_answer(L, &a))
		return 3;
	lua_newtable(L);
	while (manage_next_letter(&a, &l)) {
		push_letter(L, &l);
		lua_rawseti(L, -2, ++n);
	}
	push_next(L, a.next);
	return 2;
}

static int
shown(lua_State *L, int status, lua_KContext context)
{
	struct manage_answer a;
	struct manage_letter l;

	(void)status, (void)context;
	if (!take_answer(L, &a))
		return 3;
	if (manage_next_letter(&a, &l))
		push_letter(L, &l);
	else
		lua_pushnil(L);
	return 1;
}

/* Whose letters: options.of, an alias or id; options.all; or one's own. */
static uint64_t
whose(lua_State *L, int i)
{
	uint64_t session;

	get_option(L, i, "all");
	if (lua_toboolean(L, -1)) {
		lua_pop(L, 1);
		return 0;
	}
	get_option(L, i, "of");
	session = check_of(L, lua_gettop(L));
	if (!session)
		luaL_error(L, "of is '%s', which is no session",
			luaL_tolstring(L, -1, NULL));
	lua_pop(L, 2);
	return session;
}

/* Which letters the options at @i mean. */
static void
check_letters(lua_State *L, int i, struct manage_args *args)
{
	const char *reason = string_option(L, i, "reason");

	args->session = whose(L, i);
	args->alias = string_option(L, i, "alias");
	if (!reason)
		return;
	args->reason = dead_reason_of(reason);
	if (!args->reason)
		luaL_error(L,
			"reason is '%s', not one of overflow, no-alias, "
			"expired, died, refused, attempts, unhandled",
			reason);
}

/* eventd.dead.list([{of = , all = , alias = , reason = , after = , limit = ,
 * bytes = }]) */
static int
dead_do_list(lua_State *L)
{
	struct manage_args args = {.session = 0};

	lua_settop(L, 1);
	check_letters(L, 1, &args);
	args.after = number_option(L, 1, "after");
	args.limit = small(number_option(L, 1, "limit"));
	args.bytes = small(number_option(L, 1, "bytes"));
	return ask(L, MANAGE_LETTERS, &args, listed);
}

/* eventd.dead.show(id [, {of = , all = }]) */
static int
dead_do_show(lua_State *L)
{
	uint64_t id = (uint64_t)luaL_checkinteger(L, 1);
	struct manage_args args = {.ids = &id, .n_ids = 1};

	lua_settop(L, 2);
	args.session = whose(L, 2);
	return ask(L, MANAGE_LETTER, &args, shown);
}

/* Ids of argument 1: one, a list, or nil: all that match. They lie in a
 * userdata on top of the stack. */
static void
check_ids(lua_State *L, struct manage_args *args)
{
	size_t n = lua_isnil(L, 1) ? 0 : 1;
	uint64_t *ids;

	if (lua_type(L, 1) == LUA_TTABLE) {
		n = lua_rawlen(L, 1);
		luaL_argcheck(L, n && n <= MANAGE_IDS_MAX, 1,
			"a list of 1 to 1000 letters");
	}
	ids = lua_newuserdatauv(L, (n + 1) * sizeof(*ids), 0);
	if (n && lua_type(L, 1) != LUA_TTABLE)
		ids[0] = (uint64_t)luaL_checkinteger(L, 1);
	for (size_t i = 0; lua_type(L, 1) == LUA_TTABLE && i < n; i++) {
		lua_rawgeti(L, 1, (lua_Integer)i + 1);
		ids[i] = (uint64_t)luaL_checkinteger(L, -1);
		lua_pop(L, 1);
	}
	args->ids = ids;
	args->n_ids = n;
}

static int
change_letters(lua_State *L, enum manage_op op)
{
	struct manage_args args = {.session = 0};

	lua_settop(L, 2);
	check_letters(L, 2, &args);
	if (op == MANAGE_REQUEUE)
		args.to = string_option(L, 2, "to");
	check_ids(L, &args);
	return ask(L, op, &args, changed);
}

/* eventd.dead.requeue([ids [, {of = , all = , alias = , reason = , to = }]]) */
static int
dead_do_requeue(lua_State *L)
{
	return change_letters(L, MANAGE_REQUEUE);
}

/* eventd.dead.purge([ids [, {of = , all = , alias = , reason = }]]) */
static int
dead_do_purge(lua_State *L)
{
	return change_letters(L, MANAGE_FORGET);
}

/* ---- profile ----------------------------------------------------------- */

static void
push_row(lua_State *L, const struct manage_row *row)
{
	lua_createtable(L, 0, 8);
	set_text(L, "event", row->event, strlen(row->event));
	set_number(L, "calls", row->calls);
	set_seconds(L, "own", row->own_ns);
	set_seconds(L, "whole", row->whole_ns);
	set_seconds(L, "wait", row->wait_ns);
	set_seconds(L, "wait_max", row->wait_max_ns);
	set_number(L, "timers", row->n_late);
	set_seconds(L, "late", row->late_ns);
	set_seconds(L, "late_max", row->late_max_ns);
}

/* The rows, and whether it is on. */
static int
profiled(lua_State *L, int status, lua_KContext context)
{
	struct manage_answer a;
	struct manage_row row;
	lua_Integer n = 0;

	(void)status, (void)context;
	if (!take_answer(L, &a))
		return 3;
	lua_newtable(L);
	while (manage_next_row(&a, &row)) {
		push_row(L, &row);
		lua_rawseti(L, -2, ++n);
	}
	lua_pushboolean(L, a.on);
	return 2;
}

/* eventd.profile([of [, on]]) */
static int
api_profile(lua_State *L)
{
	struct manage_args args = {.session = check_of(L, 1)};

	if (!lua_isnoneornil(L, 2))
		args.set = lua_toboolean(L, 2) ? 1 : -1;
	return ask_of(L, MANAGE_PROFILE, &args, 1, profiled);
}

void
lua_open_manage(lua_State *L, int eventd)
{
	static const luaL_Reg queue[] = {
		{"pause", queue_do_pause},
		{"resume", queue_do_resume},
		{"peek", queue_do_peek},
		{"purge", queue_do_purge},
		{"move", queue_do_move},
		{NULL, NULL},
	};
	static const luaL_Reg dead[] = {
		{"list", dead_do_list},
		{"show", dead_do_show},
		{"requeue", dead_do_requeue},
		{"purge", dead_do_purge},
		{NULL, NULL},
	};

	luaL_newlib(L, queue);
	lua_setfield(L, eventd, "queue");
	luaL_newlib(L, dead);
	lua_setfield(L, eventd, "dead");
	lua_pushcfunction(L, api_profile);
	lua_setfield(L, eventd, "profile");
}

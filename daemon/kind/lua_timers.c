/* Timers of a script that are pending: cancel, adjust, list. A script reaches
 * its own alone, by id or by name. */
#include "base/calendar.h"
#include "base/clock.h"
#include "kernel/sched.h"
#include "kind/lua_session.h"
#include "proto/status.h"

/* The timer that argument 1 means, if it is one of this session's; or 0. */
static uint64_t
check_own(lua_State *L)
{
	struct lua_session *ls = lua_session_of(L);
	const char *name;
	uint64_t id;
	size_t size;

	if (lua_type(L, 1) == LUA_TSTRING) {
		name = lua_check_timer_name(L, 1, &size);
		return delay_named(
			ls->sched, ls->session->id, NULL, name, size);
	}
	id = (uint64_t)luaL_checkinteger(L, 1);
	if ((!delay_id_is_stored(id) && delay_sched(id) != ls->sched->index) ||
		delay_owner(ls->sched, id) != ls->session->id)
		return 0;
	return id;
}

/* What has become of the one that argument 1 means, which is not pending. */
static enum delay_fate
fate_of(lua_State *L)
{
	struct lua_session *ls = lua_session_of(L);
	struct delay_name name = {.owner = ls->session->id};

	if (lua_type(L, 1) != LUA_TSTRING)
		return delay_fate(
			&ls->sched->delays, (uint64_t)lua_tointeger(L, 1));
	name.name = lua_tolstring(L, 1, &name.size);
	return delay_fate_of_name(ls->sched, &name);
}

/* eventd.cancel(id or name): whether it was pending; if not, what has become of
 * it, as far as is known */
static int
timers_cancel(lua_State *L)
{
	uint64_t id = check_own(L);
	enum delay_fate fate = DELAY_PENDING;
	bool done = id && !delay_cancel(lua_session_of(L)->sched, id);

	if (!done)
		fate = fate_of(L);
	lua_pushboolean(L, done);
	if (fate == DELAY_HAS_FIRED)
		lua_pushliteral(L, "fired");
	else if (fate == DELAY_WAS_CANCELLED)
		lua_pushliteral(L, "cancelled");
	else
		lua_pushnil(L);
	return 2;
}

/* eventd.cancel_all(): how many */
static int
timers_cancel_all(lua_State *L)
{
	struct lua_session *ls = lua_session_of(L);

	lua_pushinteger(L, delays_cancel_all(ls->sched, ls->session));
	return 1;
}

static bool
push_field(lua_State *L, const char *key)
{
	return lua_getfield(L, 2, key) != LUA_TNIL;
}

/* Argument 2: seconds from now, or a table with `delay` or `at`, `every`. */
static void
check_change(lua_State *L, struct delay_change *change)
{
	if (lua_type(L, 2) != LUA_TTABLE) {
		change->due = true;
		change->due_ns = lua_check_ns(L, 2);
		return;
	}
	if (push_field(L, "delay")) {
		change->due = true;
		change->due_ns = lua_check_ns(L, -1);
	}
	if (push_field(L, "at")) {
		luaL_argcheck(L, !change->due, 2, "either delay or at");
		change->due = change->wall = true;
		change->due_ns = lua_check_wall_ns(L, -1);
	}
	if (push_field(L, "every")) {
		change->repeat = true;
		change->repeat_ns = lua_check_ns(L, -1);
		luaL_argcheck(L,
			!change->repeat_ns || change->repeat_ns >= NS_PER_MS, 2,
			"every at least 0.001 seconds, or 0 for once");
	}
	luaL_argcheck(L, change->due || change->repeat, 2,
		"delay, at or every is missing");
}

/* eventd.adjust(id or name, change): whether it had not fired */
static int
timers_adjust(lua_State *L)
{
	struct delay_change change = {.due = false};
	uint64_t id = check_own(L);
	int r;

	check_change(L, &change);
	r = id ? delay_adjust(lua_session_of(L)->sched, id, &change)
	       : DELAY_E_FIRED;
	if (r == DELAY_E_CALENDAR)
		return lua_push_failure(L, EVD_STATUS_INVALID,
			"the timer repeats by its calendar");
	if (r < 0)
		return luaL_error(L, "not enough memory for a timer");
	lua_pushboolean(L, r == 0);
	return 1;
}

/* ---- list --------------------------------------------------------------- */

static void
set_seconds(lua_State *L, const char *key, uint64_t ns)
{
	if (!ns)
		return;
	lua_pushnumber(L, (lua_Number)ns / NS_PER_S);
	lua_setfield(L, -2, key);
}

static void
set_text(lua_State *L, const char *key, const char *text)
{
	lua_pushstring(L, text);
	lua_setfield(L, -2, key);
}

static void
push_timer(lua_State *L, const struct sched *s, const struct delay *delay)
{
	const struct delay_more *more = delay->more;

	lua_createtable(L, 0, 8);
	lua_pushinteger(L, (lua_Integer)delay_public_id(delay));
	lua_setfield(L, -2, "id");
	lua_pushinteger(L, delay->timer.size);
	lua_setfield(L, -2, "size");
	set_text(L, "event", delay_event(delay));
	set_text(L, "clock", lua_clock_word(delay_clock(delay)));
	set_seconds(L, "due", delay_due_wall_ns(s, delay));
	if (delay->timer.b & DELAY_ALIAS)
		set_text(L, "alias", delay_parcel(delay)->alias->name);
	if (!more)
		return;
	if (more->name_size)
		set_text(L, "name", more->name);
	set_seconds(L, "every", more->repeat_ns);
	set_seconds(L, "slack", more->slack_ns);
	if (delay_is_stored(delay)) {
		lua_pushboolean(L, true);
		lua_setfield(L, -2, "durable");
	}
	if (more->calendar || delay_is_stored(delay))
		set_text(L, "misfire",
			lua_misfire_word((enum delay_misfire)more->misfire));
	if (!more->calendar)
		return;
	set_text(L, "calendar", more->calendar->text);
	set_text(L, "zone", calendar_zone(more->calendar));
}

/* eventd.timers(): those of this session, a table each */
static int
timers_list(lua_State *L)
{
	struct lua_session *ls = lua_session_of(L);
	struct delays *d = &ls->sched->delays;
	const struct delay *delay = NULL;

	lua_newtable(L);
	for (lua_Integer i = 1; (delay = delays_next_of(d, ls->session, delay));
		i++) {
		push_timer(L, ls->sched, delay);
		lua_rawseti(L, -2, i);
	}
	return 1;
}

void
lua_open_timers(lua_State *L, int eventd)
{
	static const luaL_Reg functions[] = {
		{"cancel", timers_cancel},
		{"cancel_all", timers_cancel_all},
		{"adjust", timers_adjust},
		{"timers", timers_list},
		{NULL, NULL},
	};

	lua_pushvalue(L, eventd);
	luaL_setfuncs(L, functions, 0);
	lua_pop(L, 1);
}

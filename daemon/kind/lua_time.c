/* Time for scripts: delays, alarms, sleeping and the clocks. Seconds are
 * numbers with fractions; they come from the kernel's clock. */
#include "base/clock.h"
#include "kernel/sched.h"
#include "kind/lua_session.h"
#include "proto/status.h"

enum { REPEAT_MIN_MS = 1 };

static int
push_delay_failure(lua_State *L, int r, int alias)
{
	struct lua_session *ls = lua_session_of(L);

	switch (r) {
	case DELAY_E_NO_ALIAS:
		return lua_push_refusal(L, SCHED_E_NO_SESSION, 0, alias);
	case DELAY_E_LIMIT:
		lua_pushfstring(L, "%d timers are set (MaxTimers=)",
			(int)ls->sched->kernel->limits.max_timers);
		return lua_push_failure(
			L, EVD_STATUS_LIMIT, lua_tostring(L, -1));
	default:
		return luaL_error(L, "not enough memory for a timer");
	}
}

/* Event and data are arguments 2 and 3, the alias, if any, the fourth. */
static int
set_delay(lua_State *L, struct delay_init *init)
{
	struct lua_session *ls = lua_session_of(L);
	size_t size = 0;
	uint64_t id;
	struct msg *m;
	int r;

	if (lua_isnoneornil(L, 4))
		init->to = ls->session->id;
	else
		init->alias = luaL_checklstring(L, 4, &size);
	init->alias_size = (uint32_t)size;
	m = lua_check_msg(L, 2, 3);
	r = delay_set(ls->sched, ls->session, init, m, &id);
	if (r) {
		msg_free(&ls->sched->pool, m);
		return push_delay_failure(L, r, 4);
	}
	lua_pushinteger(L, (lua_Integer)id);
	return 1;
}

/* eventd.delay(seconds, event [, data [, alias [, every]]]) */
static int
time_delay(lua_State *L)
{
	const struct kernel *k = lua_session_of(L)->sched->kernel;
	struct delay_init init = {.due_ns = clock_now(k->clock)};

	init.due_ns += lua_check_ns(L, 1);
	if (!lua_isnoneornil(L, 5)) {
		init.repeat_ns = lua_check_ns(L, 5);
		luaL_argcheck(L, init.repeat_ns >= REPEAT_MIN_MS * NS_PER_MS, 5,
			"at least 0.001 seconds");
	}
	return set_delay(L, &init);
}

/* eventd.alarm(unix time, event [, data [, alias]]) */
static int
time_alarm(lua_State *L)
{
	const lua_Number most = 9000000000.0;
	lua_Number when = luaL_checknumber(L, 1);
	struct delay_init init = {.wall = true};

	luaL_argcheck(L, when >= 0 && when <= most, 1,
		"seconds since 1970 are expected, up to 9000000000");
	init.due_ns = (uint64_t)(when * NS_PER_S);
	return set_delay(L, &init);
}

/* eventd.cancel(id): whether it had not fired */
static int
time_cancel(lua_State *L)
{
	struct lua_session *ls = lua_session_of(L);
	uint64_t id = (uint64_t)luaL_checkinteger(L, 1);

	lua_pushboolean(
		L, delay_sched(id) == ls->sched->index &&
			   delay_owner(ls->sched, id) == ls->session->id &&
			   !delay_cancel(ls->sched, id));
	return 1;
}

static int
sleep_on(lua_State *L, int status, lua_KContext context)
{
	(void)L, (void)status, (void)context;
	return 0;
}

/* eventd.sleep(seconds) */
static int
time_sleep(lua_State *L)
{
	struct lua_session *ls = lua_session_of(L);
	uint64_t ns = lua_check_ns(L, 1);
	int r;

	lua_check_wait(L, "eventd.sleep");
	r = session_sleep(ls->session, ++ls->last_token,
		(ns + NS_PER_MS - 1) / NS_PER_MS, NULL);
	if (r)
		return luaL_error(
			L, "cannot sleep: %s", status_text(sched_status(r)));
	ls->waits_for = ls->last_token;
	return lua_wait(L, sleep_on);
}

/* eventd.now(): seconds since 1970 */
static int
time_now(lua_State *L)
{
	const struct kernel *k = lua_session_of(L)->sched->kernel;

	lua_pushnumber(L, (lua_Number)clock_wall(k->clock) / NS_PER_S);
	return 1;
}

/* eventd.monotonic(): seconds of a clock that is never set */
static int
time_monotonic(lua_State *L)
{
	const struct kernel *k = lua_session_of(L)->sched->kernel;

	lua_pushnumber(L, (lua_Number)clock_now(k->clock) / NS_PER_S);
	return 1;
}

void
lua_open_time(lua_State *L, int eventd)
{
	static const luaL_Reg functions[] = {
		{"delay", time_delay},
		{"alarm", time_alarm},
		{"cancel", time_cancel},
		{"sleep", time_sleep},
		{"now", time_now},
		{"monotonic", time_monotonic},
		{NULL, NULL},
	};

	lua_pushvalue(L, eventd);
	luaL_setfuncs(L, functions, 0);
	lua_pop(L, 1);
}

/* Time for scripts: setting timers and the clocks. Seconds are
 * numbers with fractions; they come from the kernel's clock. */
#include <string.h>

#include "base/calendar.h"
#include "base/clock.h"
#include "kernel/delay_ask.h"
#include "kernel/sched.h"
#include "kind/lua_session.h"
#include "proto/envelope.h"
#include "proto/status.h"

/* 60 years */
#define LUA_SECONDS_MAX 1893456000.0

enum { REPEAT_MIN_MS = 1, OPTIONS = 4 /* the argument that has them */ };

static const char *const clock_words[] = {
	"monotonic", "boottime", "wall", NULL};
static const char *const misfire_words[] = {"once", "skip", "all", NULL};

const char *
lua_clock_word(enum delay_clock clock)
{
	return clock_words[clock];
}

const char *
lua_misfire_word(enum delay_misfire misfire)
{
	return misfire_words[misfire];
}

/* ---- options ------------------------------------------------------------ */

/* Push field @key of the options: whether they have it. */
static bool
push_option(lua_State *L, const char *key)
{
	return lua_getfield(L, OPTIONS, key) != LUA_TNIL;
}

/* Rounded up: only 0 is none. What is no number at all (0/0) is in no range. */
static uint64_t
option_ns(lua_State *L, const char *key)
{
	uint64_t ns = 0;
	lua_Number s;

	if (push_option(L, key)) {
		s = lua_type(L, -1) == LUA_TNUMBER ? lua_tonumber(L, -1) : -1;
		if (!(s >= 0 && s <= LUA_SECONDS_MAX))
			luaL_error(L,
				"the option '%s' is seconds, from 0 to %d", key,
				(int)LUA_SECONDS_MAX);
		ns = (uint64_t)(s * NS_PER_S);
		if (!ns && s > 0)
			ns = 1;
	}
	lua_pop(L, 1);
	return ns;
}

/* The text stays good while the options do. */
static const char *
option_text(lua_State *L, const char *key, size_t *size)
{
	const char *text = NULL;

	*size = 0;
	if (push_option(L, key)) {
		if (lua_type(L, -1) != LUA_TSTRING)
			luaL_error(L, "the option '%s' is a string", key);
		text = lua_tolstring(L, -1, size);
	}
	lua_pop(L, 1);
	return text;
}

static int
option_word(lua_State *L, const char *key, const char *const *words)
{
	size_t size;
	const char *text = option_text(L, key, &size);

	if (!text)
		return 0;
	for (int i = 0; words[i]; i++)
		if (strcmp(text, words[i]) == 0)
			return i;
	return luaL_error(L, "the option '%s' cannot be '%s'", key, text);
}

/* A misspelt option would be one that is silently not there. */
static void
check_keys(lua_State *L, const char *const *keys)
{
	lua_pushnil(L);
	while (lua_next(L, OPTIONS)) {
		int i = 0;

		lua_pop(L, 1);
		if (lua_type(L, -1) == LUA_TSTRING)
			while (keys[i] && strcmp(keys[i], lua_tostring(L, -1)))
				i++;
		if (lua_type(L, -1) != LUA_TSTRING || !keys[i])
			luaL_error(L, "there is no option '%s'",
				luaL_tolstring(L, -1, NULL));
	}
}

const char *
lua_check_timer_name(lua_State *L, int i, size_t *size)
{
	const char *name = luaL_checklstring(L, i, size);

	luaL_argcheck(L, name_is_valid(name, *size, DELAY_NAME_MAX), i,
		"not a timer's name: 1 to 127 of A-Z a-z 0-9 _ . / -");
	return name;
}

static void
option_name(lua_State *L, struct delay_init *init)
{
	size_t size;

	init->name = option_text(L, "name", &size);
	if (init->name && !name_is_valid(init->name, size, DELAY_NAME_MAX))
		luaL_error(L, "a timer's name is 1 to 127 of A-Z a-z 0-9 "
			      "_ . / -");
	init->name_size = (uint8_t)size;
}

static void
option_alias(lua_State *L, struct delay_init *init)
{
	size_t size;

	init->alias = option_text(L, "alias", &size);
	init->alias_size = (uint32_t)size;
}

/* What each of its events is like. */
static void
option_event(lua_State *L, struct delay_init *init)
{
	static const char *const words[] = {"normal", "urgent", NULL};

	init->urgent = option_word(L, "priority", words) == 1;
	init->ttl_ns = option_ns(L, "ttl");
}

/* It may be that it waits: errors of that before there is anything to lose. */
static void
option_durable(lua_State *L, struct delay_init *init)
{
	if (push_option(L, "durable")) {
		if (lua_type(L, -1) != LUA_TBOOLEAN)
			luaL_error(L, "the option 'durable' is true or false");
		init->stored = lua_toboolean(L, -1);
	}
	lua_pop(L, 1);
	if (init->stored)
		lua_check_wait(L, "a durable timer");
	init->misfire =
		(enum delay_misfire)option_word(L, "misfire", misfire_words);
}

static void
check_repeat(lua_State *L, uint64_t ns)
{
	if (ns && ns < REPEAT_MIN_MS * NS_PER_MS)
		luaL_error(L, "every at least 0.001 seconds");
}

/* ---- setting ------------------------------------------------------------ */

static int
push_delay_failure(lua_State *L, int r, const struct delay_init *init)
{
	struct lua_session *ls = lua_session_of(L);
	const char *text;

	switch (r) {
	case DELAY_E_NO_ALIAS:
		text = lua_pushfstring(
			L, "no session holds the alias '%s'", init->alias);
		return lua_push_failure(L, EVD_STATUS_NO_ALIAS, text);
	case DELAY_E_LIMIT:
		text = lua_pushfstring(L, "%d timers are set (MaxTimers=)",
			(int)ls->sched->kernel->limits.max_timers);
		return lua_push_failure(L, EVD_STATUS_LIMIT, text);
	case DELAY_E_NEVER:
		return lua_push_failure(L, EVD_STATUS_INVALID,
			"the calendar has no time to come");
	default:
		return luaL_error(L, "not enough memory for a timer");
	}
}

/* What became of a durable one: as of others. */
static int
stored_on(lua_State *L, int status, lua_KContext context)
{
	const struct msg *reply = lua_session_of(L)->reply;
	struct delay_answer answer;
	int why = reply ? (int)msg_status(reply) : EVD_STATUS_CANCELLED;

	(void)status, (void)context;
	if (why)
		return lua_push_failure(L, why,
			reply && reply->size ? (const char *)reply->data
					     : NULL);
	memcpy(&answer, reply->data, sizeof(answer));
	lua_pushinteger(L, (lua_Integer)answer.id);
	lua_pushboolean(L, answer.replaced != 0);
	return 2;
}

/* It waits until it is in the store. */
static int
store_delay(lua_State *L, const struct delay_init *init)
{
	struct lua_session *ls = lua_session_of(L);
	int r = session_delay(ls->session, init, ++ls->last_token, NULL);

	calendar_unref(init->calendar);
	if (r)
		return luaL_error(L, "cannot set a timer: %s",
			status_text(sched_status(r)));
	ls->waits_for = ls->last_token;
	return lua_wait(L, stored_on);
}

/* Event and data are arguments 2 and 3. The id, and whether an earlier one of
 * the name was replaced. */
static int
set_delay(lua_State *L, struct delay_init *init)
{
	struct lua_session *ls = lua_session_of(L);
	char number[LUA_DATA_MAX];
	uint64_t id, replaced;
	size_t size;
	int r;

	if (!init->alias)
		init->to = ls->session->id;
	init->event = lua_check_event_name(L, 2, &size);
	init->event_size = (uint8_t)size;
	init->data = lua_check_data(L, 3, number, &size);
	init->size = (uint32_t)size;
	if (init->stored)
		return store_delay(L, init);
	r = delay_set(ls->sched, ls->session, init, &id, &replaced);
	if (init->calendar)
		calendar_unref(init->calendar);
	if (r)
		return push_delay_failure(L, r, init);
	lua_pushinteger(L, (lua_Integer)id);
	lua_pushboolean(L, replaced != 0);
	return 2;
}

/* Alias and repetition are arguments 4 and 5, or options. */
static void
read_options(lua_State *L, struct delay_init *init)
{
	static const char *const keys[] = {"alias", "every", "name", "slack",
		"clock", "priority", "ttl", "durable", "misfire", NULL};
	size_t size;

	if (lua_type(L, OPTIONS) == LUA_TTABLE) {
		check_keys(L, keys);
		option_alias(L, init);
		option_name(L, init);
		option_event(L, init);
		option_durable(L, init);
		init->repeat_ns = option_ns(L, "every");
		init->slack_ns = option_ns(L, "slack");
		init->clock =
			(enum delay_clock)option_word(L, "clock", clock_words);
	} else if (!lua_isnoneornil(L, OPTIONS)) {
		init->alias = luaL_checklstring(L, OPTIONS, &size);
		init->alias_size = (uint32_t)size;
	}
	if (!lua_isnoneornil(L, OPTIONS + 1)) {
		init->repeat_ns = lua_check_ns(L, OPTIONS + 1);
		luaL_argcheck(L, init->repeat_ns > 0, OPTIONS + 1,
			"at least 0.001 seconds");
	}
	check_repeat(L, init->repeat_ns);
}

/* eventd.delay(seconds, event [, data [, options]]), or in place of options
 * alias [, every] */
static int
time_delay(lua_State *L)
{
	struct lua_session *ls = lua_session_of(L);
	struct delay_init init = {.alias = NULL};
	uint64_t wait = lua_check_ns(L, 1);

	read_options(L, &init);
	init.due_ns = delay_now(ls->sched, init.clock) + wait;
	return set_delay(L, &init);
}

uint64_t
lua_check_wall_ns(lua_State *L, int i)
{
	const lua_Number most = 9000000000.0;
	lua_Number when = luaL_checknumber(L, i);

	luaL_argcheck(L, when >= 0 && when <= most, i,
		"seconds since 1970 are expected, up to 9000000000");
	return (uint64_t)(when * NS_PER_S);
}

/* eventd.alarm(unix time, event [, data [, options]]) */
static int
time_alarm(lua_State *L)
{
	struct delay_init init = {.alias = NULL};

	init.due_ns = lua_check_wall_ns(L, 1);
	read_options(L, &init);
	if (init.clock == DELAY_BOOTTIME)
		luaL_error(L, "an alarm is of the wall clock");
	init.clock = DELAY_WALL;
	return set_delay(L, &init);
}

/* eventd.schedule(calendar, event [, data [, options]]) */
static int
time_schedule(lua_State *L)
{
	static const char *const keys[] = {"alias", "name", "slack", "zone",
		"misfire", "priority", "ttl", "durable", NULL};
	struct lua_session *ls = lua_session_of(L);
	const char *text = luaL_checkstring(L, 1), *zone = NULL;
	struct delay_init init = {.alias = NULL};
	char error[CALENDAR_ERROR_SIZE];
	size_t size;
	int r;

	(void)lua_check_event_name(
		L, 2, &size); /* errors before the reference */
	(void)lua_check_data(L, 3, (char[LUA_DATA_MAX]){0}, &size);
	if (!lua_isnoneornil(L, OPTIONS)) {
		luaL_checktype(L, OPTIONS, LUA_TTABLE);
		check_keys(L, keys);
		option_alias(L, &init);
		option_name(L, &init);
		option_event(L, &init);
		option_durable(L, &init);
		init.slack_ns = option_ns(L, "slack");
		zone = option_text(L, "zone", &size);
	}
	r = calendar_new(
		text, zone, &ls->sched->kernel->zones, &init.calendar, error);
	if (r < 0)
		return luaL_error(L, "not enough memory for a calendar");
	if (r)
		return lua_push_failure(L, EVD_STATUS_INVALID, error);
	return set_delay(L, &init);
}

/* ---- clocks ------------------------------------------------------------- */

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
		{"schedule", time_schedule},
		{"now", time_now},
		{"monotonic", time_monotonic},
		{NULL, NULL},
	};

	lua_pushvalue(L, eventd);
	luaL_setfuncs(L, functions, 0);
	lua_pop(L, 1);
	lua_open_timers(L, eventd);
}

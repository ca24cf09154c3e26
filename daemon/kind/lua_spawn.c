/* Sessions that scripts make: Lua sessions from files beside the script. They
 * belong to the one that made them: it may stop them, and they end with it. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "kernel/kin.h"
#include "kernel/sched.h"
#include "kind/kind.h"
#include "kind/lua_session.h"
#include "kind/session_log.h"

/* ---- the specification ------------------------------------------------- */

/* It lies in a userdata, which frees it if anything here raises an error. */
static int
box_gc(lua_State *L)
{
	struct session_spec **box = lua_touserdata(L, 1);

	*box = spec_unref(*box);
	return 0;
}

static struct session_spec *
push_spec(lua_State *L)
{
	struct session_spec **box = lua_newuserdatauv(L, sizeof(*box), 0);

	*box = NULL;
	lua_newtable(L);
	lua_pushcfunction(L, box_gc);
	lua_setfield(L, -2, "__gc");
	lua_setmetatable(L, -2);
	*box = spec_new();
	if (!*box)
		luaL_error(L, "not enough memory for a session");
	return *box;
}

static void
check_memory(lua_State *L, bool is_there)
{
	if (!is_there)
		luaL_error(L, "not enough memory for a session");
}

/* Limits and restarts are the parent's. */
static void
inherit(lua_State *L, struct session_spec *spec, const char *script)
{
	const struct lua_session *ls = lua_session_of(L);
	const struct session_spec *from = ls->session->spec;
	const char *name = from->name ? from->name : "spawned";

	check_memory(L, spec_inherit(spec, from) == 0);
	spec->kind = strdup("lua");
	check_memory(L, spec->kind);
	if (asprintf(&spec->name, "%s/%s", name, script) < 0)
		spec->name = NULL;
	check_memory(L, spec->name);
}

static void
add_alias(lua_State *L, struct session_spec *spec, int i)
{
	if (lua_type(L, i) != LUA_TSTRING)
		luaL_error(L, "alias is a %s, not a name or a list of names",
			luaL_typename(L, i));
	check_memory(L, spec_add_alias(spec, lua_tostring(L, i)) == 0);
}

static void
read_aliases(lua_State *L, struct session_spec *spec)
{
	if (lua_getfield(L, 1, "alias") == LUA_TTABLE) {
		lua_Integer n = luaL_len(L, -1);

		for (lua_Integer i = 1; i <= n; i++) {
			lua_geti(L, -1, i);
			add_alias(L, spec, -1);
			lua_pop(L, 1);
		}
	} else if (!lua_isnil(L, -1)) {
		add_alias(L, spec, -1);
	}
	lua_pop(L, 1);
}

static void
read_params(lua_State *L, struct session_spec *spec)
{
	if (lua_getfield(L, 1, "params") == LUA_TNIL) {
		lua_pop(L, 1);
		return;
	}
	luaL_checktype(L, -1, LUA_TTABLE);
	for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
		if (lua_type(L, -2) != LUA_TSTRING || !lua_isstring(L, -1))
			luaL_error(L,
				"params has a %s for a %s; keys are "
				"strings, values strings or numbers",
				luaL_typename(L, -1), luaL_typename(L, -2));
		lua_pushvalue(L, -1); /* tostring changes what it reads */
		check_memory(L, spec_add_param(spec, lua_tostring(L, -3),
					lua_tostring(L, -1)) == 0);
		lua_pop(L, 1);
	}
	lua_pop(L, 1);
}

/* A field that is one of @words: its place, or @now if it is not given. */
static int
read_word(lua_State *L, const char *field, const char *const *words, int now)
{
	int i = 0;

	if (lua_getfield(L, 1, field) == LUA_TSTRING)
		for (i = 0; words[i]; i++)
			if (strcmp(words[i], lua_tostring(L, -1)) == 0)
				now = i;
	if (!lua_isnil(L, -1) &&
		(lua_type(L, -1) != LUA_TSTRING || !words[now] ||
			strcmp(words[now], lua_tostring(L, -1)) != 0))
		luaL_error(L, "%s is '%s', not one of %s, %s, %s", field,
			luaL_tolstring(L, -1, NULL), words[0], words[1],
			words[2]);
	lua_pop(L, 1);
	return now;
}

static void
read_loop(lua_State *L, struct session_spec *spec)
{
	const struct lua_session *ls = lua_session_of(L);
	lua_Integer loop;

	if (lua_getfield(L, 1, "loop") != LUA_TNIL) {
		loop = luaL_checkinteger(L, -1);
		if (loop < 0 || loop >= ls->sched->kernel->n_scheds)
			luaL_error(L, "loop is %d, of loops 0 to %d", (int)loop,
				(int)ls->sched->kernel->n_scheds - 1);
		spec->loop = (int)loop;
	}
	lua_pop(L, 1);
}

static void
read_idle(lua_State *L, struct session_spec *spec)
{
	if (lua_getfield(L, 1, "idle_stop") != LUA_TNIL) {
		spec->idle_ms = lua_check_ns(L, lua_gettop(L)) / NS_PER_MS;
		if (!spec->idle_ms)
			spec->idle_ms = 1;
	}
	lua_pop(L, 1);
}

/* What becomes of its names. */
static void
read_taking(lua_State *L, struct session_spec *spec)
{
	spec->if_taken = lua_check_if_taken(L, 1);
	lua_getfield(L, 1, "allow_replace");
	spec->allow_replace = lua_toboolean(L, -1);
	lua_pop(L, 1);
}

/* When it starts, ends and starts again. */
static void
read_life(lua_State *L, struct session_spec *spec)
{
	static const char *const restart[] = {
		"no", "on-failure", "always", NULL};
	static const char *const strategy[] = {"one", "all", "rest", NULL};

	spec->restart = (enum restart_mode)read_word(
		L, "restart", restart, (int)spec->restart);
	spec->strategy =
		(enum strategy)read_word(L, "strategy", strategy, STRATEGY_ONE);
	read_loop(L, spec);
	read_idle(L, spec);
	lua_getfield(L, 1, "collect");
	spec->collect = lua_toboolean(L, -1);
	lua_getfield(L, 1, "on_demand");
	spec->on_demand = lua_toboolean(L, -1);
	lua_pop(L, 2);
}

static struct session_spec *
check_spec(lua_State *L)
{
	struct session_spec *spec;
	const char *script;

	luaL_checktype(L, 1, LUA_TTABLE);
	lua_settop(L, 1);
	if (lua_getfield(L, 1, "script") != LUA_TSTRING)
		luaL_argerror(L, 1, "its script is the name of a file");
	script = lua_tostring(L, 2);
	spec = push_spec(L);
	lua_push_path(L, script);
	spec->path = strdup(lua_tostring(L, -1));
	check_memory(L, spec->path);
	inherit(L, spec, script);
	read_aliases(L, spec);
	read_taking(L, spec);
	read_params(L, spec);
	read_life(L, spec);
	return spec;
}

/* ---- spawn and stop ---------------------------------------------------- */

/* eventd.spawn{script = , alias = , params = , ...}: the session's id */
static int
api_spawn(lua_State *L)
{
	struct lua_session *ls = lua_session_of(L);
	struct spawn spawn = {.ops = &kind_lua, .spec = check_spec(L)};
	int status;

	if (ls->stage == LUA_STAGE_STOPPING)
		return luaL_error(L, "_stop cannot spawn");
	if (ls->depth >= LUA_SPAWN_DEPTH)
		return lua_push_failure(L, EVD_STATUS_LIMIT,
			"spawned sessions spawn sessions 8 deep at most");
	spawn.state = lua_idle_state(ls->depth + 1);
	status = session_spawn(ls->session, &spawn);
	if (status)
		return lua_push_failure(L, status, spawn.text);
	lua_pushinteger(L, (lua_Integer)spawn.id);
	return 1;
}

/* eventd.stop(): itself. eventd.stop(id): one it spawned. */
static int
api_stop(lua_State *L)
{
	struct lua_session *ls = lua_session_of(L);
	uint64_t id =
		(uint64_t)luaL_optinteger(L, 1, (lua_Integer)ls->session->id);
	bool there;

	if (id == ls->session->id) {
		if (ls->stage != LUA_STAGE_STOPPING)
			session_stop_for(ls->session, EXIT_NORMAL);
		lua_pushboolean(L, 1);
		return 1;
	}
	if (!kin_child(ls->session, id))
		return lua_push_failure(L, EVD_STATUS_DENIED,
			"a session stops itself and those it spawned");
	there = session_find(ls->sched->kernel, id);
	kin_kill(ls->session, id);
	lua_pushboolean(L, there);
	return 1;
}

/* eventd.exit([text]): end when the handler has returned; Restart=always and
 * Start=on-demand may start it again. */
static int
api_exit(lua_State *L)
{
	struct lua_session *ls = lua_session_of(L);
	const char *text = luaL_optstring(L, 1, NULL);

	if (ls->stage != LUA_STAGE_STOPPING)
		session_exit_with(ls->session, text);
	return 0;
}

/* eventd.parent(): an id, or nil */
static int
api_parent(lua_State *L)
{
	const struct kin *kin = lua_session_of(L)->session->kin;

	if (kin && kin->parent)
		lua_pushinteger(L, (lua_Integer)kin->parent);
	else
		lua_pushnil(L);
	return 1;
}

/* eventd.children(): ids, in the order in which they were spawned */
static int
api_children(lua_State *L)
{
	const struct kin *kin = lua_session_of(L)->session->kin;
	lua_Integer n = 0;

	lua_newtable(L);
	if (!kin)
		return 1;
	LIST_FOREACH (node, &kin->children) {
		lua_pushinteger(
			L, (lua_Integer)container_of(node, struct child, link)
				   ->id);
		lua_rawseti(L, -2, ++n);
	}
	return 1;
}

void
lua_open_spawn(lua_State *L, int eventd)
{
	static const luaL_Reg functions[] = {
		{"spawn", api_spawn},
		{"stop", api_stop},
		{"exit", api_exit},
		{"parent", api_parent},
		{"children", api_children},
		{NULL, NULL},
	};

	lua_pushvalue(L, eventd);
	luaL_setfuncs(L, functions, 0);
	lua_pop(L, 1);
}

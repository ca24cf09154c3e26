/* Sessions that scripts make: Lua sessions from files beside the script. They
 * belong to the one that made them: it may stop them, and they end with it. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "kernel/sched.h"
#include "kind/kind.h"
#include "kind/lua_session.h"
#include "kind/session_log.h"

/* ---- children ---------------------------------------------------------- */

/* Those that are still there, or NULL for those that are not. */
static struct session *
find_child(struct lua_session *ls, uint64_t id)
{
	struct session *s = session_find(ls->sched->kernel, id);

	return s && atomic_load(&s->home) == ls->sched ? s : NULL;
}

static void
forget_dead_children(struct lua_session *ls)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < ls->n_children; i++)
		if (find_child(ls, ls->children[i]))
			ls->children[n++] = ls->children[i];
	ls->n_children = n;
}

static int
room_for_child(struct lua_session *ls)
{
	uint32_t more = ls->max_children ? ls->max_children * 2 : 8;
	uint64_t *children;

	if (ls->n_children == ls->max_children)
		forget_dead_children(ls);
	if (ls->n_children * 2 < ls->max_children)
		return 0;
	children = reallocarray(ls->children, more, sizeof(*children));
	if (!children)
		return err_raise(-ENOMEM);
	ls->children = children;
	ls->max_children = more;
	return 0;
}

static bool
is_child(const struct lua_session *ls, uint64_t id)
{
	for (uint32_t i = 0; i < ls->n_children; i++)
		if (ls->children[i] == id)
			return true;
	return false;
}

void
lua_spawn_deinit(struct lua_session *ls)
{
	while (ls->n_children) {
		struct session *s =
			find_child(ls, ls->children[--ls->n_children]);

		if (s)
			session_stop(s);
	}
	free(ls->children);
	ls->children = NULL;
}

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

	spec->restart = from->restart;
	spec->restart_ms = from->restart_ms;
	spec->restart_max_ms = from->restart_max_ms;
	spec->restart_burst = from->restart_burst;
	spec->restart_window_ms = from->restart_window_ms;
	spec->memory_max = from->memory_max;
	spec->handler_ms = from->handler_ms;
	spec->parent = ls->session->id;
	check_memory(L, spec_copy_mailbox(spec, from) == 0);
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
	read_params(L, spec);
	return spec;
}

/* ---- spawn and stop ---------------------------------------------------- */

static int
push_not_started(lua_State *L, struct session *s)
{
	const char *why = s->health ? s->health->reason : NULL;

	lua_pushnil(L);
	lua_pushliteral(L, "alias-taken");
	lua_pushstring(L, why ? why : "an alias cannot be taken");
	return 3;
}

/* eventd.spawn{script = , alias = , params = }: the session's id */
static int
api_spawn(lua_State *L)
{
	struct lua_session *ls = lua_session_of(L);
	struct session_spec *spec = check_spec(L);
	struct session *s;
	int n;

	if (ls->stage == LUA_STAGE_STOPPING)
		return luaL_error(L, "_stop cannot spawn");
	if (ls->depth >= LUA_SPAWN_DEPTH)
		return lua_push_failure(L, EVD_STATUS_LIMIT,
			"spawned sessions spawn sessions 8 deep at most");
	check_memory(L, room_for_child(ls) == 0);
	s = session_new(
		ls->sched, &kind_lua, spec, lua_idle_state(ls->depth + 1));
	if (!s)
		return lua_push_failure(L, EVD_STATUS_LIMIT,
			"no more sessions (MaxSessions=) or no memory");
	ls->children[ls->n_children++] = s->id;
	if (s->life == SESSION_FAILED) {
		n = push_not_started(L, s);
		ls->n_children--;
		session_stop(s);
		return n;
	}
	lua_pushinteger(L, (lua_Integer)s->id);
	return 1;
}

/* eventd.stop(): itself. eventd.stop(id): one it spawned. */
static int
api_stop(lua_State *L)
{
	struct lua_session *ls = lua_session_of(L);
	uint64_t id =
		(uint64_t)luaL_optinteger(L, 1, (lua_Integer)ls->session->id);
	struct session *s;

	if (id == ls->session->id) {
		if (ls->stage != LUA_STAGE_STOPPING)
			session_stop(ls->session);
		lua_pushboolean(L, 1);
		return 1;
	}
	if (!is_child(ls, id))
		return lua_push_failure(L, EVD_STATUS_DENIED,
			"a session stops itself and those it spawned");
	s = find_child(ls, id);
	if (s)
		session_stop(s);
	lua_pushboolean(L, s != NULL);
	return 1;
}

void
lua_open_spawn(lua_State *L, int eventd)
{
	static const luaL_Reg functions[] = {
		{"spawn", api_spawn},
		{"stop", api_stop},
		{NULL, NULL},
	};

	lua_pushvalue(L, eventd);
	luaL_setfuncs(L, functions, 0);
	lua_pop(L, 1);
}

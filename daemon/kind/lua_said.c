#include "kind/lua_said.h"

#include "kernel/sched.h"
#include "kind/lua_session.h"

/* In the registry, by address: a list of the strings that are kept, events
 * behind aliases. */
static const char key_strings;

static void
keep_string(lua_State *L, int i, unsigned place)
{
	i = lua_absindex(L, i);
	luaL_checkstack(L, 3, NULL);
	if (lua_rawgetp(L, LUA_REGISTRYINDEX, &key_strings) != LUA_TTABLE) {
		lua_pop(L, 1);
		lua_createtable(L, 2 * LUA_SAID, 0);
		lua_pushvalue(L, -1);
		lua_rawsetp(L, LUA_REGISTRYINDEX, &key_strings);
	}
	lua_pushvalue(L, i);
	lua_rawseti(L, -2, (lua_Integer)place + 1);
	lua_pop(L, 1);
}

static struct aliases *
table_of(const struct lua_session *ls)
{
	return &ls->sched->kernel->aliases;
}

/* The second time in its place: remember it. */
static void
keep_alias(lua_State *L, int i, struct lua_said_alias *said)
{
	struct lua_session *ls = lua_session_of(L);
	size_t size;
	const char *text = lua_tolstring(L, i, &size);

	if (said->alias)
		return;
	keep_string(L, i, (unsigned)(said - ls->said.aliases));
	said->alias = alias_ref(table_of(ls), text, size);
}

uint64_t
lua_said_holder(lua_State *L, int i)
{
	struct lua_session *ls = lua_session_of(L);
	const void *string = lua_topointer(L, i);
	struct lua_said_alias *said = &ls->said.aliases[lua_said_place(string)];
	const char *text;
	size_t size;

	if (said->string == string) {
		keep_alias(L, i, said);
	} else {
		said->alias = alias_unref(table_of(ls), said->alias);
		said->string = string;
	}
	text = lua_tolstring(L, i, &size);
	return alias_holder(table_of(ls), text, size);
}

void
lua_said_good(lua_State *L, int i, const char *text, size_t size)
{
	struct lua_session *ls = lua_session_of(L);
	const void *string = lua_topointer(L, i);
	struct lua_said_event *said = &ls->said.events[lua_said_place(string)];

	if (said->string == string) {
		keep_string(
			L, i, LUA_SAID + (unsigned)(said - ls->said.events));
		said->text = text;
		said->size = size;
		return;
	}
	said->string = string;
	said->size = 0;
}

void
lua_said_deinit(struct lua_session *ls)
{
	for (unsigned i = 0; i < LUA_SAID; i++)
		alias_unref(table_of(ls), ls->said.aliases[i].alias);
}

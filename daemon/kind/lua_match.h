#pragma once
/* Patterns of Lua 5.4, as string.find and its kin have them, but watched: a
 * pattern that goes back and forth without end is stopped at the time limit as
 * any loop of a script is. */
#include <stddef.h>
#include <stdint.h>

#include <lua.h>

enum { LUA_MATCH_CAPTURES = 32, LUA_MATCH_DEPTH = 200 };

struct lua_capture {
	const char *at;
	ptrdiff_t size; /* or LUA_MATCH_OPEN, LUA_MATCH_POSITION */
};
#define LUA_MATCH_OPEN (-1)
#define LUA_MATCH_POSITION (-2)

struct lua_match {
	lua_State *L;
	const char *text, *text_end; /* NUL-terminated, as Lua's strings are */
	const char *pattern, *pattern_end;
	uint32_t steps;
	int depth; /* calls within calls that are left */
	int n_captures;
	struct lua_capture captures[LUA_MATCH_CAPTURES];
};

/* Does the pattern match at @at? The end of the match, or NULL. Raises. */
const char *lua_match_at(struct lua_match *m, const char *at);
/* It takes that much time; now and then: is it late? Raises. */
void lua_match_spend(struct lua_match *m, size_t steps);
/* Push capture @i of the match from @at to @end; of none the match is the
 * first. Raises. */
void lua_match_push(
	struct lua_match *m, int i, const char *at, const char *end);
/* Push all: how many. @at NULL: none for the match itself. */
int lua_match_push_all(struct lua_match *m, const char *at, const char *end);

/* string.find, match, gmatch and gsub, into the table on top. */
void lua_open_patterns(lua_State *L);

#include "kind/lua_match.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include <lauxlib.h>

#include "kind/lua_watch.h"

enum { ESCAPE = '%', STEPS = 1 << 14 }; /* between two looks at the time */

/* So that a place of a match is two registers. */
#define INLINE inline __attribute__((always_inline))

static const char *go(struct lua_match *m, const char *s, const char *p);

__attribute__((noinline)) static void
look(struct lua_match *m)
{
	m->steps = 0;
	lua_watch_check(m->L);
}

static inline void
spend(struct lua_match *m, size_t steps)
{
	m->steps += steps < STEPS ? (uint32_t)steps : STEPS;
	if (m->steps >= STEPS)
		look(m);
}

void
lua_match_spend(struct lua_match *m, size_t steps)
{
	spend(m, steps);
}

/* ---- one character ----------------------------------------------------- */

static bool
is_in_class(int c, int letter)
{
	bool is;

	switch (tolower(letter)) {
	case 'a':
		is = isalpha(c);
		break;
	case 'c':
		is = iscntrl(c);
		break;
	case 'd':
		is = isdigit(c);
		break;
	case 'g':
		is = isgraph(c);
		break;
	case 'l':
		is = islower(c);
		break;
	case 'p':
		is = ispunct(c);
		break;
	case 's':
		is = isspace(c);
		break;
	case 'u':
		is = isupper(c);
		break;
	case 'w':
		is = isalnum(c);
		break;
	case 'x':
		is = isxdigit(c);
		break;
	case 'z': /* of old, not documented any more */
		is = c == 0;
		break;
	default:
		return letter == c;
	}
	return is != (isupper(letter) != 0);
}

/* A set, from its bracket to the one that closes it at @last. */
static bool
is_in_set(int c, const char *p, const char *last)
{
	bool is = true;

	p++;
	if (*p == '^') {
		is = false;
		p++;
	}
	while (p < last) {
		int from = (unsigned char)p[0], to = (unsigned char)p[1];

		if (from == ESCAPE) {
			if (is_in_class(c, to))
				return is;
			p += 2;
		} else if (to == '-' && p + 2 < last) {
			if (from <= c && c <= (unsigned char)p[2])
				return is;
			p += 3;
		} else {
			if (from == c)
				return is;
			p++;
		}
	}
	return !is;
}

static const char *
set_end(const struct lua_match *m, const char *p)
{
	p++;
	if (*p == '^')
		p++;
	for (bool first = true; first || *p != ']'; first = false) {
		if (p == m->pattern_end)
			luaL_error(m->L, "malformed pattern (missing ']')");
		p += *p == ESCAPE && p + 1 < m->pattern_end ? 2 : 1;
	}
	return p + 1;
}

/* The end of what stands for one character at @p. */
static const char *
single_end(const struct lua_match *m, const char *p)
{
	if (*p == '[')
		return set_end(m, p);
	if (*p != ESCAPE)
		return p + 1;
	if (p + 1 == m->pattern_end)
		luaL_error(m->L, "malformed pattern (ends with '%%')");
	return p + 2;
}

/* Is the character at @s what @p to @end says? */
static inline bool
is_single(const struct lua_match *m, const char *s, const char *p,
	const char *end)
{
	int c;

	if (s >= m->text_end)
		return false;
	c = (unsigned char)*s;
	switch (*p) {
	case '.':
		return true;
	case ESCAPE:
		return is_in_class(c, (unsigned char)p[1]);
	case '[':
		return is_in_set(c, p, end - 1);
	default:
		return (unsigned char)*p == c;
	}
}

/* ---- captures ---------------------------------------------------------- */

static const char *
open_capture(struct lua_match *m, const char *s, const char *p, ptrdiff_t size)
{
	const char *end;

	if (m->n_captures >= LUA_MATCH_CAPTURES)
		luaL_error(m->L, "too many captures");
	m->captures[m->n_captures] = (struct lua_capture){s, size};
	m->n_captures++;
	end = go(m, s, p);
	if (!end)
		m->n_captures--;
	return end;
}

static const char *
close_capture(struct lua_match *m, const char *s, const char *p)
{
	int i = m->n_captures - 1;
	const char *end;

	while (i >= 0 && m->captures[i].size != LUA_MATCH_OPEN)
		i--;
	if (i < 0)
		luaL_error(m->L, "invalid pattern capture");
	m->captures[i].size = s - m->captures[i].at;
	end = go(m, s, p);
	if (!end)
		m->captures[i].size = LUA_MATCH_OPEN;
	return end;
}

/* What capture @digit has matched, once more. */
static const char *
match_back(struct lua_match *m, const char *s, int digit)
{
	int i = digit - '1';
	size_t size;

	if (i < 0 || i >= m->n_captures ||
		m->captures[i].size == LUA_MATCH_OPEN)
		luaL_error(m->L, "invalid capture index %%%d", i + 1);
	size = (size_t)m->captures[i].size; /* of a position: too much */
	if ((size_t)(m->text_end - s) < size ||
		memcmp(m->captures[i].at, s, size) != 0)
		return NULL;
	spend(m, size / 64);
	return s + size;
}

/* ---- more than one character ------------------------------------------- */

/* %bxy, whose x is at @p. */
static const char *
match_balance(struct lua_match *m, const char *s, const char *p)
{
	size_t deep = 1;

	if (m->pattern_end - p < 2)
		luaL_error(
			m->L, "malformed pattern (missing arguments to '%%b')");
	if (s >= m->text_end || *s != p[0])
		return NULL;
	for (const char *t = s + 1; t < m->text_end; t++) {
		spend(m, 1);
		if (*t == p[1]) {
			if (--deep == 0)
				return t + 1;
		} else if (*t == p[0]) {
			deep++;
		}
	}
	return NULL;
}

/* %f[set], whose set is at @p: its end if the frontier is here. */
static const char *
match_frontier(struct lua_match *m, const char *s, const char *p)
{
	const char *end;
	int before = s == m->text ? 0 : (unsigned char)s[-1];

	if (*p != '[')
		luaL_error(m->L, "missing '[' after '%%f' in pattern");
	end = set_end(m, p);
	if (is_in_set(before, p, end - 1) ||
		!is_in_set((unsigned char)*s, p, end - 1))
		return NULL;
	return end;
}

/* As many as there are, then fewer. */
static const char *
match_most(struct lua_match *m, const char *s, const char *p, const char *after)
{
	const char *last = s, *end;

	while (is_single(m, last, p, after))
		last++;
	spend(m, (size_t)(last - s));
	for (; last >= s; last--) {
		end = go(m, last, after + 1);
		if (end)
			return end;
	}
	return NULL;
}

/* None, then more. */
static const char *
match_fewest(
	struct lua_match *m, const char *s, const char *p, const char *after)
{
	const char *end;

	while (!(end = go(m, s, after + 1)) && is_single(m, s, p, after))
		s++;
	return end;
}

/* ---- the pattern ------------------------------------------------------- */

/* Where the match and the pattern go on. */
struct place {
	const char *s, *p;
};

/* One character and what follows it. True: go on at *@at; else the match ends
 * at at->s, or there is none: NULL. */
static INLINE bool
step_single(struct lua_match *m, struct place *at)
{
	const char *s = at->s, *p = at->p, *after = single_end(m, p), *end;

	at->p = after + 1;
	if (!is_single(m, s, p, after)) {
		if (*after == '*' || *after == '?' || *after == '-')
			return true;
		at->s = NULL;
		return false;
	}
	switch (*after) {
	case '?':
		end = go(m, s + 1, after + 1);
		at->s = end ? end : s;
		return !end;
	case '+':
		at->s = match_most(m, s + 1, p, after);
		return false;
	case '*':
		at->s = match_most(m, s, p, after);
		return false;
	case '-':
		at->s = match_fewest(m, s, p, after);
		return false;
	default:
		*at = (struct place){s + 1, after};
		return true;
	}
}

/* What begins with an escape; otherwise as step_single(). */
static INLINE bool
step_escape(struct lua_match *m, struct place *at)
{
	const char *p = at->p;

	if (p[1] == 'b') {
		at->s = match_balance(m, at->s, p + 2);
		at->p = p + 4;
		return at->s;
	}
	if (p[1] == 'f') {
		at->p = match_frontier(m, at->s, p + 2);
		if (!at->p)
			at->s = NULL;
		return at->p;
	}
	if (!isdigit((unsigned char)p[1]))
		return step_single(m, at);
	at->s = match_back(m, at->s, (unsigned char)p[1]);
	at->p = p + 2;
	return at->s;
}

static INLINE bool
step(struct lua_match *m, struct place *at)
{
	const char *p = at->p;

	switch (*p) {
	case '(':
		at->s = p[1] == ')'
				? open_capture(
					  m, at->s, p + 2, LUA_MATCH_POSITION)
				: open_capture(m, at->s, p + 1, LUA_MATCH_OPEN);
		return false;
	case ')':
		at->s = close_capture(m, at->s, p + 1);
		return false;
	case '$':
		if (p + 1 != m->pattern_end)
			return step_single(m, at);
		if (at->s != m->text_end)
			at->s = NULL;
		return false;
	case ESCAPE:
		return step_escape(m, at);
	default:
		return step_single(m, at);
	}
}

/* Match the rest of the pattern, from @p, at @s. */
static const char *
go(struct lua_match *m, const char *s, const char *p)
{
	struct place at = {s, p};

	if (m->depth-- == 0)
		luaL_error(m->L, "pattern too complex");
	do
		spend(m, 1);
	while (at.p != m->pattern_end && step(m, &at));
	m->depth++;
	return at.s;
}

const char *
lua_match_at(struct lua_match *m, const char *at)
{
	m->n_captures = 0;
	m->depth = LUA_MATCH_DEPTH;
	return go(m, at, m->pattern);
}

void
lua_match_push(struct lua_match *m, int i, const char *at, const char *end)
{
	const struct lua_capture *c = &m->captures[i];

	if (i >= m->n_captures && i != 0)
		luaL_error(m->L, "invalid capture index %%%d", i + 1);
	if (i >= m->n_captures)
		lua_pushlstring(m->L, at, (size_t)(end - at));
	else if (c->size == LUA_MATCH_POSITION)
		lua_pushinteger(m->L, c->at - m->text + 1);
	else if (c->size == LUA_MATCH_OPEN)
		luaL_error(m->L, "unfinished capture");
	else
		lua_pushlstring(m->L, c->at, (size_t)c->size);
}

int
lua_match_push_all(struct lua_match *m, const char *at, const char *end)
{
	int n = m->n_captures ? m->n_captures : at != NULL;

	luaL_checkstack(m->L, n, "too many captures");
	for (int i = 0; i < n; i++)
		lua_match_push(m, i, at, end);
	return n;
}

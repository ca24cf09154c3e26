/* daemon/kind/lua_match.c and lua_patterns.c against Lua's own functions, and
 * what those cannot: be stopped (B94). */
#include "rig.h"

#include <lauxlib.h>
#include <lualib.h>

#include "kind/lua_match.h"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { ROUNDS = 8000 }; /* each takes ten times as long */
#else
enum { ROUNDS = 150000 };
#endif
enum { TEXT_MAX = 24 };

static uint64_t seed;

static unsigned
any(unsigned n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(seed >> 33) % n;
}

/* Words that patterns are made of, more of what goes well together. */
static void
random_pattern(char *out, size_t *size)
{
	static const char *const words[] = {"a", "b", "ab", ".", "%a", "%d",
		"%w", "%S", "%z", "[ab]", "[^a]", "[%a_]", "[a-c]", "[]]",
		"[^]]", "[a-]", "[%]b]", "(", ")", "()", "(a", "b)", "%1", "%2",
		"%0", "*", "+", "-", "?", "*", "-", "^", "$", "%b()", "%bab",
		"%f[a]", "%f[^a]", "%f[%z]", "%", "[", "]", "%b", "%f", "%g",
		"%%", "c", "0", ""};
	unsigned n = any(7);

	*size = 0;
	for (unsigned i = 0; i < n; i++) {
		const char *w = words[any(sizeof(words) / sizeof(*words))];

		memcpy(out + *size, w, strlen(w));
		*size += strlen(w);
		if (!*w)
			out[(*size)++] = '\0';
	}
}

static void
random_text(char *out, size_t *size)
{
	static const char letters[] = "aaabbbcab01_()] -%";

	*size = any(TEXT_MAX);
	for (size_t i = 0; i < *size; i++)
		out[i] = letters[any(sizeof(letters))]; /* NUL, too */
}

/* How the functions of the table @library are tried; whatever happens is told
 * as one string. */
static const char tries[] =
	"local lib, op, s, p, i, r = ...\n"
	"local out = {}\n"
	"local function tell(...)\n"
	"  for k = 1, select('#', ...) do\n"
	"    local v = select(k, ...)\n"
	"    out[#out + 1] = math.type(v) or type(v)\n"
	"    out[#out + 1] = tostring(v) end\n"
	"end\n"
	"local reps = {r, '<%0>', '%1%%', '%2', '%x', {a = 1, ab = false,\n"
	"  ['('] = 'o'}, function(...) tell(...) return ... end,\n"
	"  function() return {} end}\n"
	"tell(pcall(function()\n"
	"  if op == 0 then tell(lib.find(s, p, i))\n"
	"  elseif op == 1 then tell(lib.match(s, p, i))\n"
	"  elseif op == 2 then tell(lib.find(s, p, i, true))\n"
	"  elseif op == 3 then\n"
	"    local n = 0\n"
	"    for a, b, c in lib.gmatch(s, p, i) do\n"
	"      tell(a, b, c) n = n + 1 if n > 60 then break end end\n"
	"  elseif op < 12 then tell(lib.gsub(s, p, reps[op - 3]))\n"
	"  else tell(lib.gsub(s, p, reps[op - 11], i)) end\n"
	"end))\n"
	"return table.concat(out, '|')";

static const char *
try(lua_State *L, const char *library, const char *const *strings,
	const size_t *sizes, const int *numbers)
{
	lua_getglobal(L, "try");
	lua_getglobal(L, library);
	lua_pushinteger(L, numbers[0]);
	lua_pushlstring(L, strings[0], sizes[0]);
	lua_pushlstring(L, strings[1], sizes[1]);
	lua_pushinteger(L, numbers[1]);
	lua_pushlstring(L, strings[2], sizes[2]);
	assert_int_equal(lua_pcall(L, 6, 1, 0), LUA_OK);
	return lua_tostring(L, -1);
}

static lua_State *
both(void)
{
	lua_State *L = luaL_newstate();

	assert_non_null(L);
	luaL_openlibs(L);
	lua_newtable(L);
	lua_open_patterns(L);
	lua_setglobal(L, "own");
	assert_int_equal(luaL_loadstring(L, tries), LUA_OK);
	lua_setglobal(L, "try");
	return L;
}

static void
test_random_patterns_are_as_luas(void **state)
{
	lua_State *L = both();
	char text[TEXT_MAX], pattern[64], with[TEXT_MAX];
	const char *strings[] = {text, pattern, with};
	size_t sizes[3];

	(void)state;
	for (unsigned round = 0; round < ROUNDS; round++) {
		int numbers[2] = {(int)any(20), (int)any(16) - 6};
		const char *a, *b;

		random_text(text, &sizes[0]);
		random_pattern(pattern, &sizes[1]);
		random_text(with, &sizes[2]);
		a = try(L, "string", strings, sizes, numbers);
		b = try(L, "own", strings, sizes, numbers);
		if (!lua_rawequal(L, 1, 2))
			fail_msg("%d '%.*s' '%.*s' %d: %s, not %s", numbers[0],
				(int)sizes[0], text, (int)sizes[1], pattern,
				numbers[1], b, a);
		lua_settop(L, 0);
	}
	lua_close(L);
}

/* What random ones seldom are. */
static void
test_chosen_patterns_are_as_luas(void **state)
{
	static const char *const chosen[][2] = {
		{"key = value", "^(%w+)%s*=%s*(%w+)$"},
		{"THE (quick) fox", "%((%a+)%)"},
		{"THE (quick) fox", "%f[%a]%a+%f[%A]"},
		{"x\\y\"z\"", "([\"'])(.-)%1"},
		{"((a)(b))c", "%b()"},
		{"aaaaaaaaaaaaaaaaaaaa", "a-a-a-a-b"},
		{"hello", "()ll()"},
		{"abc", "(a)(b)(c)(a)?"},
		{"", ""},
		{"abc", "[%"},
		{"abc", "(()"},
		{"a.b", "%."},
		{"caf\xc3\xa9 \xff", "[\x80-\xff]+"},
		{"abc", "(.)(.)(.)(.?)(.?)(.?)(.?)(.?)(.?)(.?)(.?)(.?)(.?)"
			"(.?)(.?)(.?)(.?)(.?)(.?)(.?)(.?)(.?)(.?)(.?)(.?)(.?)"
			"(.?)(.?)(.?)(.?)(.?)(.?)(.?)"},
	};
	lua_State *L = both();

	(void)state;
	for (size_t i = 0; i < sizeof(chosen) / sizeof(*chosen); i++)
		for (int op = 0; op < 20; op++) {
			const char *strings[] = {
				chosen[i][0], chosen[i][1], "%1-%0"};
			size_t sizes[] = {
				strlen(strings[0]), strlen(strings[1]), 5};
			int numbers[] = {op, 1};
			const char *a =
				try(L, "string", strings, sizes, numbers);

			assert_string_equal(
				try(L, "own", strings, sizes, numbers), a);
			lua_settop(L, 0);
		}
	lua_close(L);
}

/* As deep as Lua's, and no deeper. */
static void
test_depth_is_as_luas(void **state)
{
	static const char script[] = "for n = 190, 210 do\n"
				     "  local p = ('a?'):rep(n) .. 'b'\n"
				     "  local s = ('a'):rep(n) .. 'b'\n"
				     "  local a, x = pcall(string.find, s, p)\n"
				     "  local b, y = pcall(own.find, s, p)\n"
				     "  assert(a == b and x == y, n)\n"
				     "end";
	lua_State *L = both();

	(void)state;
	if (luaL_dostring(L, script) != LUA_OK)
		fail_msg("%s", lua_tostring(L, -1));
	lua_close(L);
}

/* B94. The session ends with its time limit, not with the pattern. */
static void
test_a_hostile_pattern_is_stopped(void **state)
{
	static const char *const calls[] = {
		"('a'):rep(50000):find(('.-'):rep(30) .. 'b')",
		"('a'):rep(300):match(('a*'):rep(40) .. 'b')",
		"('a'):rep(300):gsub(('a?'):rep(99) .. ('a'):rep(250) .. 'b',"
		" '')",
		"('x'):rep(9e5):gmatch('(.-)%1%1%1%1y')()",
		"('('):rep(2e6):match('.-%b()')",
		"('a'):rep(4e6):find(('a'):rep(2e6) .. 'b', 1, true)",
		"pcall(string.find, ('a'):rep(300), ('a*'):rep(40) .. 'b')",
		"coroutine.wrap(function() return ('a'):rep(300):find("
		"('a*'):rep(40) .. 'b') end)()",
	};
	struct rig *rig = *state;
	char script[512];

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		struct session_spec *spec;
		struct session *a;

		snprintf(script, sizeof(script),
			"return { x = function() return %s end }", calls[i]);
		spec = rig_lua_spec(rig, "a", script);
		spec->handler_ms = 60;
		a = rig_start(rig, spec);
		rig_call(rig, "a", "x", "");
		assert_int_equal(rig->status, EVD_STATUS_DIED);
		rig_expect_failed(
			a, "handler ran longer than HandlerTimeout=60ms");
		session_stop(a);
		rig_turn(rig);
	}
}

/* B94. So are these, or refused. */
static void
test_huge_work_is_stopped_or_refused(void **state)
{
	static const char *const calls[][2] = {
		{"#('x'):rep(1e9)", "not enough memory"},
		{"#('x'):rep(1e12)", "resulting string too large|not enough"},
		{"(function() while true do (('%99s'):rep(50)):format("
		 "table.unpack({1,2,3}, 1, 50)) end end)()",
			"HandlerTimeout"},
		{"(function() while true do string.format('%99d', 7) end end)"
		 "()",
			"HandlerTimeout"},
		{"string.format('%1000d', 7)", "invalid conversion"},
		{"(function() local s = 'x' while true do s = s .. s end end)"
		 "()",
			"not enough memory"},
		{"table.concat({}, 'x', 1, 1e9)", "invalid value"},
		{"table.unpack({}, 1, 1e9)", "too many results"},
		{"utf8.char(table.unpack({}, 1, 1e8))", "too many results"},
		{"(function() local t = {} for i = 1, 2e5 do t[i] = i * 7919 "
		 "% 200003 end while true do table.sort(t) t[1] = t[#t] "
		 "end end)()",
			"HandlerTimeout"},
		{"(function() local t = {} for i = 1, 1e6 do t[i] = i * "
		 "7919 % 1000003 end table.sort(t) end)()",
			"HandlerTimeout"},
		{"(function() repeat until false end)()", "HandlerTimeout"},
	};
	struct rig *rig = *state;
	char script[512];

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		struct session_spec *spec;
		struct session *a;
		char *second, *wanted = strdup(calls[i][1]);

		snprintf(script, sizeof(script),
			"return { x = function() return %s end }", calls[i][0]);
		spec = rig_lua_spec(rig, "a", script);
		spec->handler_ms =
			strstr(wanted, "HandlerTimeout") ? 60 : 60000;
		a = rig_start(rig, spec);
		rig_call(rig, "a", "x", "");
		assert_int_equal(rig->status, EVD_STATUS_DIED);
		second = strchr(wanted, '|');
		if (second)
			*second++ = '\0';
		if (!strstr(rig_reason(a), wanted) &&
			!(second && strstr(rig_reason(a), second)))
			fail_msg("%s: %s", calls[i][0], rig_reason(a));
		free(wanted);
		session_stop(a);
		rig_turn(rig);
	}
}

int
main(void)
{
#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random_patterns_are_as_luas),
		cmocka_unit_test(test_chosen_patterns_are_as_luas),
		cmocka_unit_test(test_depth_is_as_luas),
		TEST(test_a_hostile_pattern_is_stopped),
		TEST(test_huge_work_is_stopped_or_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

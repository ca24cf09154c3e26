/* What scripts cannot do, and what they can. */
#include "rig.h"

/* The reply of a handler with the body @body. */
static const char *
eval(struct rig *rig, const char *body)
{
	char script[2048];
	struct session *s;

	snprintf(script, sizeof(script),
		"return {\nx = function(data, ev) %s end }", body);
	s = rig_lua(rig, "a", script);
	assert_string_equal(session_state_word(s), "up");
	rig_call(rig, "a", "x", "data");
	session_stop(s);
	rig_turn(rig);
	return rig->reply;
}

static void
test_dangerous_names_are_absent(void **state)
{
	static const char *const names[] = {
		"io",
		"package",
		"dofile",
		"loadfile",
		"warn",
		"os.execute",
		"os.exit",
		"os.remove",
		"os.rename",
		"os.getenv",
		"os.tmpname",
		"os.setlocale",
		"string.dump",
		"debug.getregistry",
		"debug.sethook",
		"debug.setmetatable",
		"debug.getinfo",
		"debug.getupvalue",
		"debug.setuservalue",
	};
	char body[128];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(body, sizeof(body), "return type(%s)", names[i]);
		assert_string_equal(eval(*state, body), "nil");
	}
}

static void
test_useful_names_are_there(void **state)
{
	static const char *const names[] = {
		"os.time",
		"os.date",
		"os.clock",
		"os.difftime",
		"debug.traceback",
		"string.format",
		"string.pack",
		"table.concat",
		"math.random",
		"utf8.char",
		"coroutine.wrap",
		"require",
		"load",
		"pcall",
		"print",
		"eventd.post",
	};
	char body[128];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(body, sizeof(body), "return type(%s)", names[i]);
		assert_string_equal(eval(*state, body), "function");
	}
}

/* B94: no hook runs within a C function. */
static void
test_one_call_loops_no_longer_than_it_may(void **state)
{
	static const char long_one[] =
		"local t = setmetatable({}, {__len = function()"
		"  return math.maxinteger - 1 end})";
	static const char *const calls[] = {
		"table.move({1}, 1, 1e18, 2)",
		"table.move({1}, math.mininteger, -5, 1)",
		"table.insert(t, 1, 0)",
		"table.remove(t, 1)",
	};
	char body[256];

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		snprintf(body, sizeof(body),
			"%s local ok, why = pcall(function() %s end) "
			"return ok and 'done' or why:match('too many')",
			long_one, calls[i]);
		assert_string_equal(eval(*state, body), "too many");
	}
	assert_string_equal(eval(*state, "return (''):rep(1e18)"), "");
	assert_string_equal(eval(*state, "return ('ab'):rep(2, '-')"), "ab-ab");
	assert_string_equal(
		eval(*state, "local t = {1, 2, 3} table.insert(t, 4) "
			     "table.insert(t, 1, 0) table.remove(t, 2) "
			     "table.move(t, 1, 4, 2) "
			     "return table.concat(t)"),
		"00234");
}

static void
test_load_takes_text_only(void **state)
{
	struct rig *rig = *state;

	assert_string_equal(eval(rig, "return load('return 6 * 7')()"), "42");
	assert_string_equal(
		eval(rig, "return load('return a', 'c', 'bt', {a = 1})()"),
		"1");
	assert_string_equal(
		eval(rig, "return tostring(load('\\27Lua'))"), "nil");
	assert_string_equal(
		eval(rig, "return tostring(load('\\27Lua', 'x', 'b'))"), "nil");
	assert_string_equal(eval(rig, "local parts = {'return ', '7'}\n"
				      "return load(function()\n"
				      "  return table.remove(parts, 1) end)()"),
		"7");
	assert_non_null(
		strstr(eval(rig, "return select(2, load('x = = 1', '=mine'))"),
			"mine:1:"));
}

static void
test_finalizers_are_refused(void **state)
{
	struct rig *rig = *state;

	assert_non_null(
		strstr(eval(rig, "return select(2, pcall(setmetatable, {},\n"
				 "  {__gc = function() end}))"),
			"__gc is not available"));
	assert_string_equal(
		eval(rig, "local mt = {}\n"
			  "local t = setmetatable({}, mt)\n"
			  "mt.__gc = function() while true do end end\n"
			  "t = nil collectgarbage() return 'alive'"),
		"alive");
}

static void
test_setmetatable_is_luas(void **state)
{
	struct rig *rig = *state;

	assert_string_equal(
		eval(rig, "return setmetatable({}, {__index = {a = 'b'}}).a"),
		"b");
	assert_string_equal(
		eval(rig,
			"return tostring(getmetatable(setmetatable({}, nil)))"),
		"nil");
	assert_non_null(strstr(
		eval(rig, "local t = setmetatable({}, {__metatable = 1})\n"
			  "return select(2, pcall(setmetatable, t, {}))"),
		"protected metatable"));
	assert_non_null(strstr(
		eval(rig, "return select(2, pcall(setmetatable, {}, 1))"),
		"nil or table expected"));
}

static void
test_collectgarbage_cannot_be_stopped(void **state)
{
	struct rig *rig = *state;

	assert_non_null(strstr(
		eval(rig, "return select(2, pcall(collectgarbage, 'stop'))"),
		"invalid option 'stop'"));
	assert_non_null(strstr(
		eval(rig,
			"return select(2, pcall(collectgarbage, 'setpause'))"),
		"invalid option"));
	assert_string_equal(
		eval(rig,
			"return math.type(collectgarbage('count')) .. ' ' ..\n"
			"  collectgarbage() .. ' ' ..\n"
			"  tostring(type(collectgarbage('step')))"),
		"float 0 boolean");
}

static void
test_print_harms_nobody(void **state)
{
	assert_string_equal(
		eval(*state, "print('a', 1, nil, {}) print() return 'ok'"),
		"ok");
}

static void
test_xpcall_is_luas(void **state)
{
	struct rig *rig = *state;

	assert_string_equal(
		eval(rig, "return table.concat({tostring(xpcall(function(a)\n"
			  "  return a end, print, 5)),\n"
			  "  select(2, xpcall(function(...)\n"
			  "    return select('#', ...) end, print, 1, 2, 3)),\n"
			  "  select(2, xpcall(error, function(m)\n"
			  "    return 'm:' .. m end, 'boom'))}, ' ')"),
		"true 3 m:boom");
	assert_non_null(
		strstr(eval(rig, "return select(2, pcall(xpcall, print))"),
			"function expected"));
}

static void
test_xpcall_may_wait(void **state)
{
	struct rig *rig = *state;

	rig_lua(rig, "a",
		"return { x = function()\n"
		"  return select(2, xpcall(function()\n"
		"    return eventd.call('probe', 'echo', 'e') end, print))\n"
		"end }");
	rig_expect(rig, "a", "x", "", "e");
}

/* ---- require ----------------------------------------------------------- */

static void
write_module(struct rig *rig, const char *name, const char *text)
{
	rig_write(rig, name, text, strlen(text));
}

static void
test_require_loads_once_from_beside_the_script(void **state)
{
	struct rig *rig = *state;
	char command[128];

	snprintf(command, sizeof(command), "mkdir '%s/lib'", rig->dir);
	assert_int_equal(system(command), 0);
	write_module(rig, "m.lua", "#!/usr/bin/lua\nreturn {n = 1}");
	write_module(rig, "lib/n.lua", "count = (count or 0) + 1");
	assert_string_equal(eval(rig, "local m = require 'm' m.n = m.n + 1\n"
				      "return require('m').n"),
		"2");
	assert_string_equal(
		eval(rig, "require 'lib.n' require 'lib.n' return count"), "1");
	assert_string_equal(
		eval(rig, "return tostring(require 'lib.n')"), "true");
}

static void
test_require_stays_below_the_directory(void **state)
{
	static const char *const names[] = {
		"../m",
		"..",
		"/etc/passwd",
		"a/../../m",
		"",
		"a b",
		"...x",
	};
	char body[128];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(body, sizeof(body),
			"return tostring(pcall(require, '%s'))", names[i]);
		assert_string_equal(eval(*state, body), "false");
	}
}

static void
test_require_tells_what_is_wrong(void **state)
{
	struct rig *rig = *state;

	write_module(rig, "bad.lua", "x = = 1");
	write_module(rig, "self.lua", "return require 'self'");
	write_module(rig, "waits.lua", "eventd.sleep(1)");
	assert_non_null(
		strstr(eval(rig, "return select(2, pcall(require, 'none'))"),
			"module 'none' is not there: no "));
	assert_non_null(
		strstr(eval(rig, "return select(2, pcall(require, 'bad'))"),
			"bad.lua:1:"));
	assert_non_null(
		strstr(eval(rig, "return select(2, pcall(require, 'self'))"),
			"module 'self' requires itself"));
	assert_non_null(
		strstr(eval(rig, "return select(2, pcall(require, 'waits'))"),
			"eventd.sleep cannot wait here"));
}

int
main(void)
{
#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_dangerous_names_are_absent),
		TEST(test_useful_names_are_there),
		TEST(test_one_call_loops_no_longer_than_it_may),
		TEST(test_load_takes_text_only),
		TEST(test_finalizers_are_refused),
		TEST(test_setmetatable_is_luas),
		TEST(test_collectgarbage_cannot_be_stopped),
		TEST(test_print_harms_nobody),
		TEST(test_xpcall_is_luas),
		TEST(test_xpcall_may_wait),
		TEST(test_require_loads_once_from_beside_the_script),
		TEST(test_require_stays_below_the_directory),
		TEST(test_require_tells_what_is_wrong),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Errors of every kind (B91): each is that session's failure, with a reason
 * that helps, and nobody else's. */
#include "rig.h"

#include "kind/lua_session.h"

/* A script whose handler `x` has the body @body. */
static struct session *
failing(struct rig *rig, const char *body)
{
	char script[2048];
	struct session *s;

	snprintf(script, sizeof(script),
		"return {\nx = function(data, ev) %s end }", body);
	rig_lua(rig, "good", "return { x = function() return 'good' end }");
	s = rig_lua(rig, "a", script);
	assert_string_equal(session_state_word(s), "up");
	rig_call(rig, "a", "x", "data");
	assert_int_equal(rig->status, EVD_STATUS_DIED);
	rig_expect(rig, "good", "x", "", "good");
	return s;
}

static void
test_error_has_event_id_line_and_traceback(void **state)
{
	struct session *s = failing(*state, "local function f() error('x!')\n"
					    "end f()");

	rig_expect_failed(s, "event x (id ");
	rig_expect_failed(s, "a.lua:2: x!");
	rig_expect_failed(s, "stack traceback:");
	rig_expect_failed(s, "in local 'f'");
}

static void
test_error_nil(void **state)
{
	rig_expect_failed(failing(*state, "error(nil)"), "error object nil");
}

static void
test_error_table(void **state)
{
	rig_expect_failed(failing(*state, "error({})"), "error object table: ");
}

static void
test_error_with_tostring(void **state)
{
	rig_expect_failed(
		failing(*state, "error(setmetatable({}, {__tostring =\n"
				"function() return 'mine' end}))"),
		"error object mine");
}

static void
test_error_with_failing_tostring(void **state)
{
	rig_expect_failed(
		failing(*state, "error(setmetatable({}, {__tostring =\n"
				"function() error('again') end}))"),
		"of type table, without a text");
}

static void
test_error_with_endless_tostring(void **state)
{
	rig_expect_failed(
		failing(*state, "error(setmetatable({}, {__tostring =\n"
				"function() while true do end end}))"),
		"of type table, without a text");
}

static void
test_error_in_close(void **state)
{
	rig_expect_failed(
		failing(*state, "local c <close> = setmetatable({},\n"
				"{__close = function() error('closing') end})"),
		"closing");
}

static void
test_error_after_a_wait(void **state)
{
	struct rig *rig = *state;
	struct session *s = rig_lua(rig, "a",
		"return { x = function() eventd.sleep(1) error('late') end }");

	rig_call_later(rig, "a", "x", "");
	rig_turn(rig);
	rig_advance(rig, 1100);
	rig_expect_failed(s, "late");
	assert_int_equal(rig->status, EVD_STATUS_DIED);
}

/* Endless recursion with so much memory. */
static struct session *
recursing(struct rig *rig, uint64_t memory_max)
{
	struct session_spec *spec = rig_lua_spec(rig, "a",
		"return { x = function()\n"
		"  local function f() return 1 + f() end f() end }");
	struct session *s;

	spec->memory_max = memory_max;
	s = rig_start(rig, spec);
	rig_call(rig, "a", "x", "");
	rig_expect_failed(s, "in upvalue 'f'");
	return s;
}

static void
test_stack_overflow(void **state)
{
	rig_expect_failed(recursing(*state, 0), "stack overflow");
}

static void
test_endless_recursion_ends_at_the_memory_limit(void **state)
{
	rig_expect_failed(recursing(*state, 8 << 20), "not enough memory");
}

static void
test_c_stack_overflow(void **state)
{
	rig_expect_failed(failing(*state, "local function f(s)\n"
					  "return s:gsub('.', f) end f('x')"),
		"C stack overflow");
}

static void
test_out_of_memory(void **state)
{
	struct session *s = failing(
		*state, "local t = {} for i = 1, 1e9 do t[i] = {i} end");

	rig_expect_failed(s, "not enough memory (MemoryMax=67108864)");
	rig_expect_failed(s, "stack traceback:");
}

static void
test_out_of_memory_at_once(void **state)
{
	rig_expect_failed(
		failing(*state, "return ('x'):rep(1e9)"), "not enough memory");
}

static void
test_caught_out_of_memory_goes_on(void **state)
{
	struct rig *rig = *state;

	rig_lua(rig, "a",
		"return { x = function()\n"
		"  local ok, why = pcall(string.rep, 'x', 1e9)\n"
		"  return why end }");
	rig_expect(rig, "a", "x", "", "not enough memory");
}

static void
test_long_errors_are_cut(void **state)
{
	struct session *s = failing(*state, "error(('x'):rep(100000))");

	rig_expect_failed(s, "xxxx");
	assert_true(strlen(rig_reason(s)) < LUA_REPORT_MAX + 100);
}

static void
test_table_as_reply(void **state)
{
	struct rig *rig = *state;

	rig_expect_failed(
		failing(rig, "return {}"), "a table cannot be a payload");
}

static void
test_table_is_no_reply_to_a_post(void **state)
{
	struct rig *rig = *state;
	struct session *s =
		rig_lua(rig, "a", "return { x = function() return {} end }");

	rig_post(rig, "a", "x", "");
	rig_turn(rig);
	assert_string_equal(session_state_word(s), "up");
}

/* ---- scripts that do not even start ------------------------------------ */

static void
test_syntax_error_has_file_and_line(void **state)
{
	struct session *s =
		rig_lua(*state, "a", "return {\nx = function( end }");

	rig_expect_failed(s, "a.lua:2:");
	rig_expect_failed(s, "near 'end'");
}

static void
test_missing_file(void **state)
{
	struct rig *rig = *state;

	rig_expect_failed(rig_start(rig, rig_spec(rig, "lua", "a", "no.lua")),
		"no.lua: No such file or directory");
}

static void
test_directory_as_script(void **state)
{
	struct rig *rig = *state;

	rig_expect_failed(rig_start(rig, rig_spec(rig, "lua", "a", "/tmp")),
		"script /tmp: not a regular file");
}

static void
test_script_that_returns_no_table(void **state)
{
	rig_expect_failed(rig_lua(*state, "a", "return 5"),
		"it returned a number, not its table of handlers");
}

static void
test_script_that_fails_while_it_loads(void **state)
{
	struct session *s = rig_lua(*state, "a", "\nlocal x = nil + 1");

	rig_expect_failed(s, "a.lua:2: attempt to perform arithmetic");
	rig_expect_failed(s, "in main chunk");
}

static void
test_bytecode_is_refused(void **state)
{
	rig_expect_failed(rig_lua(*state, "a", "\x1bLuaT"),
		"attempt to load a binary chunk");
}

static void
test_start_that_fails(void **state)
{
	rig_expect_failed(
		rig_lua(*state, "a",
			"return { _start = function() error('no disk') end }"),
		"_start: ");
}

static void
test_start_that_fails_after_a_wait(void **state)
{
	struct rig *rig = *state;
	struct session *s = rig_lua(rig, "a",
		"return { _start = function() eventd.sleep(1)\n"
		"error('no disk') end }");

	rig_advance(rig, 1100);
	rig_expect_failed(s, "no disk");
}

/* Whatever allocation fails, in loading or handling, it is this session's
 * failure, or none. */
static void
test_any_memory_limit_is_survived(void **state)
{
	struct rig *rig = *state;
	const char *script =
		"local t = {}\n"
		"return { _start = function() eventd.sleep(0) end,\n"
		"  x = function(d, ev)\n"
		"    for i = 1, 200 do t[#t + 1] = {d .. i, ev.id} end\n"
		"    eventd.post('probe', 'got', d)\n"
		"    local co = coroutine.wrap(function()\n"
		"      eventd.sleep(0) end)\n"
		"    co()\n"
		"    return #t\n"
		"  end }";

	for (uint64_t kib = 64; kib < 256; kib += 1) {
		struct session_spec *spec = rig_lua_spec(rig, "a", script);
		struct session *s;

		spec->memory_max = kib << 10;
		s = rig_start(rig, spec);
		rig_advance(rig, 1);
		for (int i = 0; i < 10; i++) {
			if (s->life == SESSION_FAILED)
				break;
			rig_post(rig, "a", "x", "payload");
			rig_turn(rig);
			rig_advance(rig, 1);
		}
		if (s->life == SESSION_FAILED)
			rig_expect_failed(s, "not enough memory");
		session_stop(s);
		rig_turn(rig);
	}
}

int
main(void)
{
#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_error_has_event_id_line_and_traceback),
		TEST(test_error_nil),
		TEST(test_error_table),
		TEST(test_error_with_tostring),
		TEST(test_error_with_failing_tostring),
		TEST(test_error_with_endless_tostring),
		TEST(test_error_in_close),
		TEST(test_error_after_a_wait),
		TEST(test_stack_overflow),
		TEST(test_endless_recursion_ends_at_the_memory_limit),
		TEST(test_c_stack_overflow),
		TEST(test_out_of_memory),
		TEST(test_out_of_memory_at_once),
		TEST(test_caught_out_of_memory_goes_on),
		TEST(test_long_errors_are_cut),
		TEST(test_table_as_reply),
		TEST(test_table_is_no_reply_to_a_post),
		TEST(test_syntax_error_has_file_and_line),
		TEST(test_missing_file),
		TEST(test_directory_as_script),
		TEST(test_script_that_returns_no_table),
		TEST(test_script_that_fails_while_it_loads),
		TEST(test_bytecode_is_refused),
		TEST(test_start_that_fails),
		TEST(test_start_that_fails_after_a_wait),
		TEST(test_any_memory_limit_is_survived),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

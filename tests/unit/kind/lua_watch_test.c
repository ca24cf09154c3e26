/* Time limits: by the thread's timer and, where there is none, by the hook
 * (B94, B95). */
#include "rig.h"

#include <lauxlib.h>
#include <time.h>

#include "kind/lua_watch.h"

enum { LIMIT_MS = 30 };

static int
setup_by_hook(void **state)
{
	int r = rig_setup(state);

	kind_thread_init();
	lua_watch_by_hook(true);
	return r;
}

/* Handler `x` with the body @body, for 30 ms of CPU time. */
static struct session *
slow(struct rig *rig, const char *body)
{
	char script[2048];
	struct session_spec *spec;
	struct session *s;

	snprintf(script, sizeof(script),
		"return {\nx = function(data, ev) %s end }", body);
	spec = rig_lua_spec(rig, "a", script);
	spec->handler_ms = LIMIT_MS;
	s = rig_start(rig, spec);
	rig_lua(rig, "good", "return { x = function() return 'good' end }");
	rig_call(rig, "a", "x", "data");
	rig_expect(rig, "good", "x", "", "good");
	return s;
}

static void
expect_stopped(void **state, const char *body)
{
	struct session *s = slow(*state, body);

	rig_expect_failed(s, "handler ran longer than HandlerTimeout=30ms");
	rig_expect_failed(s, "event x (id ");
	rig_expect_failed(s, "stack traceback:");
}

static void
test_endless_loop(void **state)
{
	expect_stopped(state, "while true do end");
}

static void
test_repeat_until_false(void **state)
{
	expect_stopped(state, "repeat until false");
}

static void
test_endless_calls(void **state)
{
	expect_stopped(state, "while true do string.format('%d', 1) end");
}

static void
test_pcall_does_not_save_it(void **state)
{
	expect_stopped(state,
		"while true do\npcall(function() while true do end end)\n"
		"end");
}

static void
test_nested_pcalls_do_not_save_it(void **state)
{
	expect_stopped(state, "local function f(n)\n"
			      "  if n == 0 then while true do end end\n"
			      "  while true do pcall(f, n - 1) end\n"
			      "end f(20)");
}

static void
test_xpcall_does_not_save_it(void **state)
{
	expect_stopped(state,
		"while true do xpcall(function() while true do end end,\n"
		"  function() while true do end end) end");
}

static void
test_coroutine_does_not_save_it(void **state)
{
	expect_stopped(state, "while true do\n"
			      "  local co = coroutine.create(function()\n"
			      "    while true do end end)\n"
			      "  coroutine.resume(co)\nend");
}

static void
test_wrapped_coroutines_do_not_save_it(void **state)
{
	expect_stopped(state,
		"while true do pcall(coroutine.wrap(function()\n"
		"  coroutine.wrap(function() while true do end end)()\n"
		"end)) end");
}

static void
test_many_short_coroutines(void **state)
{
	expect_stopped(
		state, "while true do coroutine.wrap(function() end)() end");
}

static void
test_close_handler_does_not_save_it(void **state)
{
	expect_stopped(state,
		"local function forever() while true do end end\n"
		"local c <close> = setmetatable({}, {__close = forever})\n"
		"forever()");
}

static void
test_coroutine_close_is_watched(void **state)
{
	expect_stopped(state,
		"local co = coroutine.create(function()\n"
		"  local c <close> = setmetatable({}, {__close = function()\n"
		"    while true do end end})\n"
		"  coroutine.yield() end)\n"
		"coroutine.resume(co)\n"
		"coroutine.close(co)\n"
		"while true do end");
}

static void
test_metamethod_and_sort(void **state)
{
	expect_stopped(state,
		"local t = {} for i = 1, 100 do t[i] = i end\n"
		"while true do pcall(table.sort, t, function(a, b)\n"
		"  while true do end end) end");
}

/* A coroutine that died of the hook has its hooks off. */
static void
test_close_after_the_time_is_up(void **state)
{
	expect_stopped(state,
		"local function forever() while true do end end\n"
		"coroutine.wrap(function()\n"
		"  local c <close> = setmetatable({}, {__close = forever})\n"
		"  forever() end)()");
}

static void
test_late_end_is_a_failure(void **state)
{
	struct session *s =
		slow(*state, "return pcall(function() while true do end end)");

	rig_expect_failed(s, "handler ran longer than HandlerTimeout=30ms");
}

static void
test_main_chunk_is_watched(void **state)
{
	struct rig *rig = *state;
	struct session_spec *spec = rig_lua_spec(rig, "a", "while true do end");

	spec->handler_ms = LIMIT_MS;
	rig_expect_failed(rig_start(rig, spec), "HandlerTimeout=30ms");
}

static void
test_stop_is_watched(void **state)
{
	struct rig *rig = *state;
	struct session_spec *spec = rig_lua_spec(rig, "a",
		"return { _stop = function() while true do end end }");
	struct session *s;

	spec->handler_ms = LIMIT_MS;
	s = rig_start(rig, spec);
	session_stop(s);
	rig_turn(rig);
	rig_lua(rig, "a", "return { x = function() return 'new' end }");
	rig_expect(rig, "a", "x", "", "new");
}

static void
test_limit_is_each_handlers_own(void **state)
{
	struct rig *rig = *state;
	struct session_spec *spec = rig_lua_spec(rig, "a",
		"return { x = function()\n"
		"  local t = os.clock()\n"
		"  while os.clock() < t + 0.03 do end\n"
		"  eventd.sleep(1)\n"
		"  t = os.clock()\n"
		"  while os.clock() < t + 0.03 do end\n"
		"  return 'in time' end }");

	/* ten times two parts of 30 ms are more than it, one is far less */
	spec->handler_ms = 400;
	rig_start(rig, spec);
	for (int i = 0; i < 10; i++) {
		rig_call_later(rig, "a", "x", "");
		rig_turn(rig);
		rig_advance(rig, 1100);
		assert_string_equal(rig->reply, "in time");
		rig->reply[0] = '\0';
	}
}

static void
test_no_limit(void **state)
{
	struct rig *rig = *state;
	struct session_spec *spec = rig_lua_spec(rig, "a",
		"return { x = function()\n"
		"  local t = os.clock()\n"
		"  while os.clock() < t + 0.1 do end\n"
		"  return 'done' end }");

	spec->handler_ms = 0;
	rig_start(rig, spec);
	rig_expect(rig, "a", "x", "", "done");
}

static double
cpu_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / NS_PER_S;
}

#if defined(__SANITIZE_THREAD__)
enum { SIGNALS_ARE_LATE = 1 }; /* a hook is always on then */
#else
enum { SIGNALS_ARE_LATE = 0 };
#endif

/* A hook that was armed at the last moment does not hurt the next handler. */
static void
test_hook_left_behind_goes_away(void **state)
{
	struct lua_watch_mark before;
	lua_State *L = luaL_newstate();
	double start = cpu_seconds();

	(void)state;
	lua_watch_enter(&before, L, 10);
	while (!lua_gethook(L) && cpu_seconds() < start + 5)
		; /* as a C function would */
	lua_watch_leave(&before);
	assert_non_null(lua_gethook(L));
	lua_watch_enter(&before, L, 10000);
	assert_int_equal(luaL_dostring(L, "for i = 1, 100 do end"), LUA_OK);
	assert_false(lua_watch_leave(&before));
	lua_close(L);
}

/* B95: what is in time runs without a hook; that is what watching costs. */
static void
test_in_time_there_is_no_hook(void **state)
{
	struct lua_watch_mark before;
	lua_State *L = luaL_newstate();

	(void)state;
	if (SIGNALS_ARE_LATE)
		skip();
	for (int i = 0; i < 100; i++) {
		lua_watch_enter(&before, L, 60000);
		assert_int_equal(
			luaL_dostring(L, "for i = 1, 1000 do end"), LUA_OK);
		assert_null(lua_gethook(L));
		assert_int_equal(lua_gethookmask(L), 0);
		assert_false(lua_watch_leave(&before));
	}
	lua_close(L);
}

int
main(void)
{
#define BY_TIMER(name) \
	cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
#define BY_HOOK(name)                                                     \
	{                                                                 \
#name "_by_hook", name, setup_by_hook, rig_teardown, NULL \
	}
#define TEST(name) BY_TIMER(name), BY_HOOK(name)
	const struct CMUnitTest tests[] = {
		TEST(test_endless_loop),
		TEST(test_repeat_until_false),
		TEST(test_endless_calls),
		TEST(test_pcall_does_not_save_it),
		TEST(test_nested_pcalls_do_not_save_it),
		TEST(test_xpcall_does_not_save_it),
		TEST(test_coroutine_does_not_save_it),
		TEST(test_wrapped_coroutines_do_not_save_it),
		TEST(test_many_short_coroutines),
		TEST(test_close_handler_does_not_save_it),
		TEST(test_coroutine_close_is_watched),
		TEST(test_metamethod_and_sort),
		TEST(test_close_after_the_time_is_up),
		TEST(test_late_end_is_a_failure),
		TEST(test_main_chunk_is_watched),
		TEST(test_stop_is_watched),
		TEST(test_limit_is_each_handlers_own),
		TEST(test_no_limit),
		BY_TIMER(test_hook_left_behind_goes_away),
		BY_TIMER(test_in_time_there_is_no_hook),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

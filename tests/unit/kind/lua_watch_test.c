/* Time limits: by the thread's timer and, where there is none, by the hook
 * (B94, B95). */
#include "rig.h"

#include <errno.h>
#include <lauxlib.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "kernel/stall.h"
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

/* B94: one instruction without end, in which no hook runs. */
static void
test_call_of_itself(void **state)
{
	struct session *s = slow(*state, "local t = setmetatable({}, {})\n"
					 "getmetatable(t).__call = t\nt()");

	rig_expect_failed(s, "handler ran longer than HandlerTimeout=30ms");
}

static void
test_call_of_itself_in_pcall(void **state)
{
	expect_stopped(state, "local t = setmetatable({}, {})\n"
			      "getmetatable(t).__call = t\n"
			      "while true do pcall(t) end");
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

/* ---- where it is ------------------------------------------------------- */

/* Who asks: another thread, by a signal to this one. */
static struct asking {
	struct rig *rig;
	pthread_t thread;
	struct stall stall;
	bool stops;
	uint64_t since_ns;      /* CPU time: it was first seen in a handler */
	volatile bool is_asked; /* it ran a handler then */
	_Atomic bool there, told, enough;
} asking;

enum { THERE_MS = 10 }; /* of CPU time; to where it stays it takes far less */

static uint64_t
cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

static void
on_ask(int number)
{
	const struct session *s = asking.rig->s.running;
	const struct msg *m = s ? s->ops->handles(s) : NULL;
	int saved_errno = errno;

	(void)number;
	if (!m)
		return;
	if (!asking.since_ns)
		asking.since_ns = cpu_ns();
	if (asking.there)
		asking.is_asked =
			s->ops->stalled(s, &asking.stall, asking.stops);
	asking.there =
		cpu_ns() - asking.since_ns > THERE_MS * (uint64_t)NS_PER_MS;
	errno = saved_errno;
}

static void *
ask_until_told(void *arg)
{
	/* a handler that is stopped is not there to be asked again */
	unsigned patience_ms = asking.stops ? 1000 : 20;

	(void)arg;
	while (!asking.enough && !asking.there) {
		pthread_kill(asking.thread, SIGUSR1);
		usleep(1000);
	}
	while (!asking.enough && !asking.told) {
		stall_ask(&asking.stall);
		pthread_kill(asking.thread, SIGUSR1);
		if (stall_wait(&asking.stall, patience_ms) &&
			*asking.stall.text)
			asking.told = true;
	}
	return NULL;
}

/* Call `x` of the script while somebody asks again and again. */
static struct session *
ask(struct rig *rig, const char *script, bool stops)
{
	struct sigaction action = {.sa_handler = on_ask};
	struct session_spec *spec = rig_lua_spec(rig, "a", script);
	struct session *s;
	pthread_t thread;

	memset(&asking, 0, sizeof(asking));
	stall_init(&asking.stall);
	asking.rig = rig;
	asking.stops = stops;
	asking.thread = pthread_self();
	spec->handler_ms = stops ? 0 : 60000;
	s = rig_start(rig, spec);
	sigaction(SIGUSR1, &action, NULL);
	assert_int_equal(
		pthread_create(&thread, NULL, ask_until_told, NULL), 0);
	rig_call(rig, "a", "x", "data");
	asking.enough = true;
	pthread_join(thread, NULL);
	signal(SIGUSR1, SIG_IGN);
	return s;
}

static void
expect_told(const char *part)
{
	if (!strstr(asking.stall.text, part))
		fail_msg("'%s' is not in: %s", part, asking.stall.text);
}

static void
test_it_tells_where_it_is_and_goes_on(void **state)
{
	struct session *s = ask(*state,
		"local function deep(n) if n > 0 then return 1 + deep(n - 1)\n"
		"  end local i = 0 while i < 60000000 do i = i + 1 end\n"
		"return i end\n"
		"return { x = function() local r = deep(3) return r end }",
		false);

	if (!asking.told)
		skip(); /* signals are held back, or it was too quick */
	expect_told("a.lua:2: in ");
	expect_told("'deep'");
	expect_told("a.lua:4: in function <");
	assert_string_equal(session_state_word(s), "up");
}

#if !defined(__SANITIZE_THREAD__) /* it holds signals back */
static void
test_it_is_told_through_coroutines_and_stopped(void **state)
{
	struct session *s = ask(*state,
		"local function spin() while true do end end\n"
		"return { x = function()\n"
		"  pcall(coroutine.wrap(function()\n"
		"    while true do pcall(spin) end end)) return 'saved' end }",
		true);

	assert_true(asking.told);
	expect_told("a.lua:1: in ");
	expect_told("a.lua:4: in ");
	expect_told("a.lua:3: in function <");
	rig_expect_failed(s, "handler held up its loop (OnStall=stop)");
	rig_expect_failed(s, "event x (id ");
}

/* What searches a long text is ours, and asks. */
static void
test_a_search_is_stopped_as_well(void **state)
{
	struct session *s = ask(*state,
		"return { x = function()\n"
		"  return ('a'):rep(1000):find(('a-'):rep(30) .. 'b') end }",
		true);

	assert_true(asking.told);
	expect_told("a.lua:2: in ");
	rig_expect_failed(s, "handler held up its loop (OnStall=stop)");
}
#endif

/* Asked in the middle of a handler, given up, and then others run. */
static void
test_a_question_that_was_given_up_does_no_harm(void **state)
{
	struct rig *rig = *state;
	struct stall st;
	struct lua_watch_mark before;
	struct session *s = rig_lua(
		rig, "a", "return { x = function() return 'fine' end }");
	lua_State *L = luaL_newstate();

	stall_init(&st);
	stall_ask(&st);
	assert_false(lua_watch_ask(s, &st, false)); /* nothing runs */
	*(void **)lua_getextraspace(L) = NULL;
	assert_true(stall_begin(&st));
	stall_end(&st);
	assert_true(stall_wait(&st, 1000));
	stall_ask(&st);
	assert_false(stall_wait(&st, 1));
	assert_false(stall_begin(&st)); /* nobody waits any more */
	lua_watch_enter(&before, L, 0);
	assert_int_equal(lua_watch_leave(&before), LUA_WATCH_IN_TIME);
	rig_expect(rig, "a", "x", "", "fine");
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
		TEST(test_call_of_itself),
		TEST(test_call_of_itself_in_pcall),
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
		BY_TIMER(test_it_tells_where_it_is_and_goes_on),
#if !defined(__SANITIZE_THREAD__)
		BY_TIMER(test_it_is_told_through_coroutines_and_stopped),
		BY_TIMER(test_a_search_is_stopped_as_well),
#endif
		BY_TIMER(test_a_question_that_was_given_up_does_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

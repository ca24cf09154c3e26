/* Both kinds run by executors: what a handler asks of the kernel it gets on
 * whatever thread it runs, and nothing stays held when it has it. One
 * scheduler, whose own thread is the test's. Worth most under ThreadSanitizer.
 */
#include "rig.h"

#include <pthread.h>
#include <sched.h>

#include "exec/pool.h"
#include "kernel/away.h"

static pthread_mutex_t baton = PTHREAD_MUTEX_INITIALIZER;

static void
hold(struct sched *s)
{
	(void)s;
	pthread_mutex_lock(&baton);
}

static void
drop(struct sched *s)
{
	(void)s;
	pthread_mutex_unlock(&baton);
}

static const struct executor_ops shared = {
	.name = "shared", .wake = rig_wake, .hold = hold, .drop = drop};

struct far {
	struct rig *rig;
	struct pool *pool;
};

/* The test's thread holds the scheduler but while it waits. */
static int
setup(void **state)
{
	struct far *far = calloc(1, sizeof(*far));
	void *rig;

	assert_non_null(far);
	rig_setup(&rig);
	far->rig = rig;
	far->rig->k.clock = &clock_system;
	far->rig->s.executor = &shared;
	far->pool = pool_new(&(struct pool_init){.name = "pool",
		.type = POOL_WORKER,
		.n_threads = 4,
		.thread_init = kind_thread_init,
		.thread_deinit = kind_thread_deinit});
	assert_non_null(far->pool);
	assert_int_equal(
		kernel_executor_add(&far->rig->k, &far->pool->executor), 0);
	pthread_mutex_lock(&baton);
	sched_turn(&far->rig->s);
	*state = far;
	return 0;
}

static int
teardown(void **state)
{
	struct far *far = *state;
	void *rig = far->rig;

	pthread_mutex_unlock(&baton);
	assert_int_equal(pool_stop(far->pool, 100000), 0);
	rig_teardown(&rig);
	pool_free(far->pool);
	free(far);
	return 0;
}

static void
step(struct far *far)
{
	sched_turn(&far->rig->s);
	pthread_mutex_unlock(&baton);
	sched_yield();
	pthread_mutex_lock(&baton);
}

static const char *
ask(struct far *far, const char *alias, const char *event, const char *data)
{
	struct rig *rig = far->rig;
	unsigned n = rig->n_replies;

	rig_call_later(rig, alias, event, data);
	while (rig->n_replies == n)
		step(far);
	return rig->reply;
}

static struct session *
start(struct far *far, struct session_spec *spec, bool away)
{
	if (away)
		spec->executor = strdup("pool");
	return rig_start(far->rig, spec);
}

static struct session *
start_lua(struct far *far, const char *alias, const char *script, bool away)
{
	return start(far, rig_lua_spec(far->rig, alias, script), away);
}

static void
test_a_script_asks_the_kernel_from_a_pool(void **state)
{
	struct far *far = *state;
	struct session *s;

	start_lua(far, "echo", "return { echo = function(d) return d end }",
		false);
	s = start_lua(far, "far",
		"local got = 0\n"
		"return { x = function(n)\n"
		"  for i = 1, n do\n"
		"    assert(eventd.call('echo', 'echo', i) == tostring(i))\n"
		"    eventd.yield('got')\n"
		"    eventd.delay(0, 'got')\n"
		"    local id = eventd.delay(60, 'never')\n"
		"    assert(eventd.cancel(id))\n"
		"  end\n"
		"  eventd.sleep(0.001)\n"
		"  eventd.bind('second')\n"
		"  return #eventd.aliases() end,\n"
		"got = function() got = got + 1 end,\n"
		"never = function() error('never') end,\n"
		"count = function() return got end }",
		true);
	assert_string_equal(ask(far, "far", "x", "300"), "2");
	while (atoi(ask(far, "far", "count", "")) < 600)
		;
	assert_string_equal(ask(far, "far", "count", ""), "600");
	assert_int_equal(rig_of(far->rig->probe)->status, 0);
	assert_true(atomic_load(&far->pool->executor.n_runs) >= 600);
	assert_ptr_equal(session_executor(s), &far->pool->executor);
}

/* Some wait for events and times beside each other, and are given them. */
static void
test_handlers_wait_beside_each_other_on_a_pool(void **state)
{
	struct far *far = *state;
	struct session_spec *spec = rig_lua_spec(far->rig, "far",
		"local n = 0\n"
		"return { pair = function(name)\n"
		"  local data = assert(eventd.await_event(name, 30))\n"
		"  eventd.sleep(0.001)\n"
		"  n = n + data end,\n"
		"late = function()\n"
		"  local _, e = eventd.await_event('x', 0.001)\n"
		"  assert(e == 'timeout', e); n = n + 1 end,\n"
		"count = function() return n end }");
	struct session *s;

	spec->concurrency = 20;
	s = start(far, spec, true);
	for (int i = 0; i < 100; i++) {
		rig_post(far->rig, "far", "pair", i % 2 ? "odd" : "even");
		rig_post(far->rig, "far", i % 2 ? "odd" : "even", "1");
		rig_post(far->rig, "far", "late", "");
	}
	while (atoi(ask(far, "far", "count", "")) < 200)
		assert_string_equal(session_state_word(s), "up");
	while (s->leased)
		step(far);
	assert_int_equal(s->box.n, 0);
	assert_int_equal(session_counters(s).dead, 0);
	assert_int_equal(far->rig->s.calls.n, 0);
	assert_ptr_equal(session_executor(s), &far->pool->executor);
}

static struct session_spec *
waiting(struct far *far, uint32_t concurrency)
{
	struct session_spec *spec =
		rig_spec(far->rig, "native", "wait", PLUGIN_DIR "/wait.so");

	spec->concurrency = concurrency;
	return spec;
}

static void
until_all_handled(struct far *far, const struct session *s)
{
	while (s->leased || s->box.n || s->notices.tail || s->control.tail ||
		s->run == SESSION_AWAY) {
		assert_string_equal(session_state_word(s), "up");
		step(far);
	}
}

/* On stacks that go on on other threads than they stopped on. */
static void
test_plugins_wait_on_a_pool(void **state)
{
	static const char *const events[] = {
		"sleep", "await", "go", "go", "late", "gather", "look"};
	struct far *far = *state;
	struct session *s = start(far, waiting(far, 50), true);

	for (int i = 0; i < 30; i++)
		for (unsigned j = 0; j < 7; j++)
			rig_post(far->rig, "wait", events[j], j ? "" : "3");
	until_all_handled(far, s);
	assert_string_equal(ask(far, "wait", "sleep", "2"), "2");
	ask(far, "wait", "await_gather", "echo 2");
	assert_int_equal(rig_of(far->rig->probe)->status, 0);
	until_all_handled(far, s);
	assert_int_equal(session_counters(s).dead, 0);
	assert_int_equal(far->rig->s.calls.n, 0);
	assert_ptr_equal(session_executor(s), &far->pool->executor);
	assert_true(atomic_load(&far->pool->executor.n_runs) >= 210);
}

/* They wait while whoever runs them changes, and while they stop. */
static void
test_waiting_plugins_change_who_runs_them(void **state)
{
	struct far *far = *state;
	struct session *s = start(far, waiting(far, 50), false);
	uint64_t id = s->id;

	for (int i = 0; i < 40; i++) {
		rig_post(far->rig, "wait", "sleep", "2");
		rig_post(far->rig, "wait", "note", "x");
		assert_int_equal(session_set_executor(s,
					 i % 2 ? NULL : &far->pool->executor),
			0);
		for (int j = 0; j < i % 5; j++)
			step(far);
	}
	until_all_handled(far, s);
	assert_int_equal(session_counters(s).handled, 80);
	session_set_executor(s, &far->pool->executor);
	for (int i = 0; i < 40; i++)
		rig_post(far->rig, "wait", "sleep", "100000");
	while (session_counters(s).leased < 40)
		step(far);
	session_stop(s);
	while (session_find(&far->rig->k, id))
		step(far);
	assert_int_equal(far->rig->s.calls.n, 0);
	assert_int_equal(far->rig->s.counters.leased, 0);
}

/* How often the test's thread had the scheduler while the script ran. */
static unsigned
turns_during(struct far *far, const struct session *s, const char *event)
{
	uint64_t n = session_counters(s).handled;
	unsigned turns = 0;

	rig_post(far->rig, "far", event, "");
	for (; session_counters(s).handled == n; turns++) {
		step(far);
		if (session_counters(s).dead)
			fail_msg("%s: %s", event, rig_reason(s));
	}
	return turns;
}

/* A busy machine may be slow once, but not each time. */
static void
get_on(struct far *far, const struct session *s, const char *event)
{
	for (unsigned i = 0; i < 400; i++)
		if (turns_during(far, s, event) > 2)
			return;
	fail_msg("%s holds the kernel while it computes", event);
}

/* An error or a coroutine in between does not leave the kernel held: the
 * test's thread gets on while the script does nothing but compute. */
static void
test_nothing_stays_held(void **state)
{
	static const char script[] =
		"local function busy()\n"
		"  local n, from = 0, os.clock()\n"
		"  while eventd.params.go ~= 'x' and n < 3e6 do n = n + 1 end\n"
		"end\n"
		"local M = {}\n"
		"function M.error()\n"
		"  assert(not pcall(eventd.post, {}, {}))\n"
		"  busy() end\n"
		"function M.coroutine()\n"
		"  local co = coroutine.create(function()\n"
		"    eventd.post('probe', 'n', 1) eventd.post({}, 1) end)\n"
		"  assert(not coroutine.resume(co))\n"
		"  busy() end\n"
		"function M.meta()\n"
		"  local t = setmetatable({}, {__index = function(_, k)\n"
		"    coroutine.wrap(function() end)()\n"
		"    eventd.self()\n"
		"    if k == 'priority' then return 'urgent' end end})\n"
		"  eventd.post('probe', 'n', 2, t)\n"
		"  busy() end\n"
		"function M.plain() eventd.post('probe', 'n', 3) busy() end\n"
		"return M";
	static const char *const events[] = {
		"error", "coroutine", "meta", "plain"};
	struct far *far = *state;
	struct session *s = start_lua(far, "far", script, true);

	for (unsigned i = 0; i < 4; i++)
		get_on(far, s, events[i]);
}

/* B94 */
static void
test_a_script_is_stopped_at_its_limit_on_a_pool(void **state)
{
	struct far *far = *state;
	struct session_spec *spec = rig_lua_spec(far->rig, "far",
		"return { spin = function()\n"
		"  while true do eventd.self() end end,\n"
		"grow = function() local t = {}\n"
		"  while true do t[#t + 1] = ('x'):rep(1000) end end,\n"
		"ok = function() return 'ok' end }");
	struct session *s;

	spec->handler_ms = 30;
	spec->memory_max = 1 << 20;
	spec->restart = RESTART_ON_FAILURE;
	spec->restart_ms = 1;
	s = start(far, spec, true);
	ask(far, "far", "spin", "");
	assert_int_equal(far->rig->status, EVD_STATUS_DIED);
	assert_non_null(strstr(rig_reason(s), "HandlerTimeout"));
	ask(far, "far", "grow", "");
	assert_int_equal(far->rig->status, EVD_STATUS_DIED);
	assert_non_null(strstr(rig_reason(s), "MemoryMax"));
	assert_string_equal(ask(far, "far", "ok", ""), "ok");
}

static struct session_spec *
player(struct far *far, const char *alias, const char *peer)
{
	struct session_spec *spec = rig_spec(
		far->rig, "native", alias, EXAMPLES_DIR "/native/pingpong.so");

	spec_add_param(spec, "peer", peer);
	return spec;
}

static void
test_plugins_play_from_a_pool(void **state)
{
	struct far *far = *state;
	struct session *s;

	start(far, player(far, "ping", "pong"), false);
	s = start(far, player(far, "pong", "ping"), true);
	assert_non_null(strstr(ask(far, "ping", "run", "2000"), " events, "));
	assert_non_null(strstr(ask(far, "pong", "run", "2000"), " events, "));
	for (int i = 0; i < 20; i++) {
		assert_int_equal(session_set_executor(s,
					 i % 2 ? &far->pool->executor : NULL),
			0);
		assert_non_null(
			strstr(ask(far, "ping", "run-by-id", "200"), "events"));
	}
}

/* While it is away whoever wants something of it waits for that. */
static void
test_what_happens_to_one_that_is_away_happens_later(void **state)
{
	struct far *far = *state;
	struct session *s = start_lua(far, "far",
		"local n = 0 while n < 1e5 do n = n + 1 end\n"
		"return { busy = function()\n"
		"  local n = 0 while n < 5e6 do n = n + 1 end return 'x' end,\n"
		"who = function() return eventd.self() end }",
		true);
	uint32_t starts = s->starts;
	uint64_t id = s->id;

	rig_post(far->rig, "far", "busy", "");
	while (s->run != SESSION_AWAY)
		step(far);
	session_restart(s, s->spec);
	assert_int_equal(s->run, SESSION_AWAY);
	assert_int_equal(s->starts, starts);
	assert_int_equal(strtoull(ask(far, "far", "who", ""), NULL, 10), id);
	assert_int_equal(s->starts, starts + 1);
	rig_post(far->rig, "far", "busy", "");
	while (s->run != SESSION_AWAY)
		step(far);
	session_stop(s);
	assert_int_equal(s->run, SESSION_AWAY);
	while (session_find(&far->rig->k, id))
		step(far);
}

int
main(void)
{
#define AWAY_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		AWAY_TEST(test_a_script_asks_the_kernel_from_a_pool),
		AWAY_TEST(test_handlers_wait_beside_each_other_on_a_pool),
		AWAY_TEST(test_plugins_wait_on_a_pool),
		AWAY_TEST(test_waiting_plugins_change_who_runs_them),
		AWAY_TEST(test_nothing_stays_held),
		AWAY_TEST(test_a_script_is_stopped_at_its_limit_on_a_pool),
		AWAY_TEST(test_plugins_play_from_a_pool),
		AWAY_TEST(test_what_happens_to_one_that_is_away_happens_later),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

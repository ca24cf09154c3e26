#include "rig.h"

/* "a" evaluates what it is sent; beside it lies child.lua. */
static struct session *
parent(struct rig *rig)
{
	static const char child[] =
		"return { who = function()\n"
		"    return eventd.alias() .. ' ' .. (eventd.params.n or '')\n"
		"  end,\n"
		"  grow = function()\n"
		"    return table.concat({select(2,\n"
		"      eventd.spawn{script = 'child.lua'})}, ': ') end,\n"
		"  boom = function() error('boom') end,\n"
		"  _stop = function()\n"
		"    eventd.post('probe', 'bye', eventd.alias()) end }";

	rig_write(rig, "child.lua", child, sizeof(child) - 1);
	return rig_lua(rig, "a",
		"function try(...)\n"
		"  return table.concat({select(2, ...)}, ': ') end\n"
		"return { x = function(data)\n"
		"  return load('return ' .. data)() end }");
}

static void
test_spawned_session_runs_with_alias_and_params(void **state)
{
	struct rig *rig = *state;
	struct session *s = parent(rig);
	struct session *child;

	rig_call(rig, "a", "x",
		"eventd.spawn{script = 'child.lua', alias = {'c', 'd'},"
		"params = {n = 5, [ 'x' ] = 'y'}}");
	rig_expect(rig, "c", "who", "", "c 5");
	rig_expect(rig, "d", "who", "", "c 5");
	child = session_find(&rig->k, alias_holder(&rig->k.aliases, "c", 1));
	assert_true(child->spec->parent == s->id);
	assert_true(child->spec->handler_ms == s->spec->handler_ms);
	assert_string_equal(child->spec->name, "a/child.lua");
}

static void
test_a_childs_alias_may_be_taken(void **state)
{
	struct rig *rig = *state;
	uint64_t first;

	parent(rig);
	rig_call(rig, "a", "x",
		"eventd.spawn{script = 'child.lua', alias = 'c',"
		"if_taken = 'replace', allow_replace = true}");
	first = alias_holder(&rig->k.aliases, "c", 1);
	rig_expect(rig, "a", "x",
		"select(2, eventd.spawn{script = 'child.lua', alias = 'c'})",
		"alias-taken");
	rig_call(rig, "a", "x",
		"eventd.spawn{script = 'child.lua', alias = 'c',"
		"if_taken = 'queue', params = {n = 'queued'}}");
	assert_int_equal(alias_holder(&rig->k.aliases, "c", 1), first);
	rig_call(rig, "a", "x",
		"eventd.spawn{script = 'child.lua', alias = 'c',"
		"if_taken = 'replace', params = {n = 'new'}}");
	rig_expect(rig, "c", "who", "", "c new");
	rig_call(rig, "a", "x", "tostring(eventd.stop(eventd.resolve 'c'))");
	rig_expect(rig, "c", "who", "", "c queued");
	rig_expect(rig, "a", "x",
		"tostring(select(2, pcall(eventd.spawn, {script = 'child.lua',"
		"if_taken = 'perhaps'}))):match('perhaps')",
		"perhaps");
}

static void
test_stop_ends_a_child_at_once(void **state)
{
	struct rig *rig = *state;

	parent(rig);
	rig_call(rig, "a", "x",
		"eventd.spawn{script = 'child.lua', alias = 'c'}");
	rig_expect(rig, "a", "x", "tostring(eventd.stop(eventd.resolve 'c'))",
		"true");
	assert_string_equal(rig->data, "c");
	rig_expect(rig, "a", "x", "tostring(eventd.resolve 'c')", "nil");
}

static void
test_children_end_with_their_parent(void **state)
{
	struct rig *rig = *state;
	struct session *s = parent(rig);
	uint32_t before = atomic_load(&rig->k.sessions.n);

	for (int i = 0; i < 20; i++)
		rig_call(rig, "a", "x",
			"tostring(eventd.spawn{script = 'child.lua'})");
	assert_int_equal(atomic_load(&rig->k.sessions.n), before + 20);
	session_stop(s);
	rig_turn(rig);
	assert_int_equal(atomic_load(&rig->k.sessions.n), before - 1);
}

static void
test_children_end_when_their_parent_fails(void **state)
{
	struct rig *rig = *state;
	struct session *s = parent(rig);
	uint32_t before = atomic_load(&rig->k.sessions.n);

	rig_call(rig, "a", "x", "eventd.spawn{script = 'child.lua'}");
	rig_call(rig, "a", "x", "error('x')");
	rig_expect_failed(s, "x");
	assert_int_equal(atomic_load(&rig->k.sessions.n), before);
}

static void
test_a_session_stops_only_itself_and_its_own(void **state)
{
	struct rig *rig = *state;
	struct session *s = parent(rig);

	rig_lua(rig, "other", "return { x = function() return 'here' end }");
	rig_call(rig, "a", "x", "try(eventd.stop(eventd.resolve 'other'))");
	assert_non_null(strstr(rig->reply, "denied: a session stops itself"));
	rig_expect(rig, "other", "x", "", "here");
	rig_call(rig, "a", "x", "try(eventd.stop(12345))");
	assert_non_null(strstr(rig->reply, "denied"));
	rig_expect(rig, "a", "x", "tostring(eventd.stop())", "true");
	assert_true(atomic_load(&s->id) == 0);
}

static void
test_stop_of_itself_ends_the_handler_first(void **state)
{
	struct rig *rig = *state;

	rig_lua(rig, "a",
		"return { x = function()\n"
		"  eventd.stop() eventd.post('probe', 'x', 'after') end,\n"
		"  _stop = function()\n"
		"    eventd.post('probe', 'x', 'stop') eventd.stop()\n"
		"    eventd.post('probe', 'x', tostring(pcall(eventd.spawn,\n"
		"      {script = 'a.lua'}))) end }");
	rig_post(rig, "a", "x", "");
	rig_turn(rig);
	assert_string_equal(rig->all, "after stop false ");
}

static void
test_taken_alias_is_told(void **state)
{
	struct rig *rig = *state;
	uint32_t before;

	parent(rig);
	before = atomic_load(&rig->k.sessions.n);
	rig_call(rig, "a", "x",
		"try(eventd.spawn{script = 'child.lua', alias = 'probe'})");
	assert_string_equal(rig->reply,
		"alias-taken: the alias 'probe' is held by another session");
	assert_int_equal(atomic_load(&rig->k.sessions.n), before);
}

static void
test_wrong_arguments(void **state)
{
	static const char *const calls[][2] = {
		{"", "table expected"},
		{", {}", "its script is the name"},
		{", {script = 5}", "its script is the name"},
		{", {script = '../x.lua'}", "not a file below"},
		{", {script = '/etc/passwd'}", "not a file below"},
		{", {script = 'c.lua', alias = 5}", "alias is a number"},
		{", {script = 'c.lua', alias = {{}}}", "alias is a table"},
		{", {script = 'c.lua', params = 5}", "table expected"},
		{", {script = 'c.lua', params = {5}}", "params has a number"},
		{", {script = 'c.lua', params = {a = {}}}",
			"params has a table for a string"},
	};
	struct rig *rig = *state;
	char expression[256];
	uint32_t before;

	parent(rig);
	before = atomic_load(&rig->k.sessions.n);
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		snprintf(expression, sizeof(expression),
			"select(2, pcall(eventd.spawn%s))", calls[i][0]);
		rig_call(rig, "a", "x", expression);
		if (!strstr(rig->reply, calls[i][1]))
			fail_msg("%s: %s", calls[i][0], rig->reply);
	}
	assert_int_equal(atomic_load(&rig->k.sessions.n), before);
}

static void
test_missing_script_fails_the_child_alone(void **state)
{
	struct rig *rig = *state;
	struct session *child;

	parent(rig);
	rig_call(rig, "a", "x",
		"eventd.spawn{script = 'none.lua', alias = 'c'}");
	child = session_find(&rig->k, alias_holder(&rig->k.aliases, "c", 1));
	rig_expect_failed(child, "none.lua: No such file");
	rig_expect(rig, "a", "x", "1", "1");
}

static void
test_depth_and_number_are_limited(void **state)
{
	struct rig *rig = *state;
	static const char deep[] =
		"local n = tonumber(eventd.params.n or 0)\n"
		"return { _start = function()\n"
		"  local id, word, text = eventd.spawn{script = 'deep.lua',\n"
		"    params = {n = n + 1}}\n"
		"  if not id then\n"
		"    eventd.post('probe', 'end', n .. ' ' .. word) end end }";

	parent(rig);
	rig_write(rig, "deep.lua", deep, sizeof(deep) - 1);
	rig_call(rig, "a", "x", "eventd.spawn{script = 'deep.lua'}");
	assert_string_equal(rig->data, "7 limit");
	rig->k.limits.max_sessions = atomic_load(&rig->k.sessions.n);
	rig_call(rig, "a", "x", "try(eventd.spawn{script = 'child.lua'})");
	assert_non_null(strstr(rig->reply, "limit: no more sessions"));
}

static void
test_failing_child_restarts_as_its_parent_would(void **state)
{
	struct rig *rig = *state;
	struct session *s = parent(rig), *child;

	s->spec->restart = RESTART_ON_FAILURE;
	rig_call(rig, "a", "x",
		"eventd.spawn{script = 'child.lua', alias = 'c'}");
	child = session_find(&rig->k, alias_holder(&rig->k.aliases, "c", 1));
	rig_call(rig, "c", "boom", "");
	assert_string_equal(session_state_word(child), "backoff");
	rig_advance(rig, 1000);
	rig_expect(rig, "c", "who", "", "c ");
}

/* "p" spawns what it is told to and tells the probe of its children. */
static struct session *
teller(struct rig *rig)
{
	parent(rig);
	return rig_lua(rig, "p",
		"local M = {}\n"
		"function M.x(data) return load('return ' .. data)() end\n"
		"function M._child(n, ev)\n"
		"  eventd.post('probe', ev.event, n.change .. ' ' ..\n"
		"    n.alias ..\n"
		"    ' ' .. (n.reason or '-') .. ' ' .. (n.text or '-')) end\n"
		"return M");
}

static void
test_child_tells_of_gain_and_loss(void **state)
{
	struct rig *rig = *state;

	teller(rig);
	rig_call(rig, "p", "x",
		"eventd.spawn{script = 'child.lua', alias = 'c'}");
	assert_string_equal(rig->data, "gained c - -");
	rig_expect(rig, "p", "x", "#eventd.children()", "1");
	rig_expect(rig, "p", "x", "tostring(eventd.parent())", "nil");
	rig_call(rig, "p", "x", "tostring(eventd.stop(eventd.resolve 'c'))");
	assert_string_equal(rig->data, "lost c killed -");
	rig_expect(rig, "p", "x", "#eventd.children()", "0");
}

/* B91: whatever is thrown, the parent hears of it and lives on. */
static void
test_child_that_stays_failed_is_told(void **state)
{
	struct rig *rig = *state;
	struct session *child;

	teller(rig);
	rig_call(rig, "p", "x",
		"eventd.spawn{script = 'child.lua', alias = 'c',"
		"restart = 'no'}");
	rig_call(rig, "c", "boom", "");
	assert_int_equal(
		strncmp(rig->data, "failed c failed event boom", 26), 0);
	child = session_find(&rig->k, alias_holder(&rig->k.aliases, "c", 1));
	assert_string_equal(session_state_word(child), "failed");
	rig_expect(rig, "p", "x", "1", "1");
}

static void
test_child_cannot_be_forged(void **state)
{
	struct rig *rig = *state;
	unsigned before;

	teller(rig);
	before = rig->n_events;
	rig_post(rig, "p", "_child", "lost c failed x");
	rig_turn(rig);
	assert_int_equal(rig->n_events, before);
}

static void
test_strategies_are_of_the_children(void **state)
{
	struct rig *rig = *state;
	struct session *s[3];
	char call[128];

	teller(rig);
	for (int i = 0; i < 3; i++) {
		char alias[] = {(char)('z' - i), 0}; /* not by name */

		snprintf(call, sizeof(call),
			"eventd.spawn{script = 'child.lua', alias = '%s',"
			"restart = 'on-failure', strategy = 'rest'}",
			alias);
		rig_call(rig, "p", "x", call);
		s[i] = session_find(
			&rig->k, alias_holder(&rig->k.aliases, alias, 1));
	}
	rig_call(rig, "y", "boom", "");
	rig_advance(rig, 500);
	assert_true(!s[0]->health || !s[0]->health->restarts);
	assert_int_equal(s[1]->health->restarts, 1);
	assert_int_equal(s[2]->health->restarts, 1);
	assert_string_equal(session_state_word(s[2]), "up");
}

static void
test_wrong_lives_are_told(void **state)
{
	static const char *const calls[][2] = {
		{"restart = 'sometimes'", "restart is 'sometimes', not one"},
		{"restart = 5", "restart is '5', not one"},
		{"strategy = 'some'", "strategy is 'some'"},
		{"loop = 1", "loop is 1, of loops 0 to 0"},
		{"loop = -1", "loop is -1"},
		{"idle_stop = -1", ""},
	};
	struct rig *rig = *state;
	char text[256];

	parent(rig);
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		snprintf(text, sizeof(text),
			"select(2, pcall(eventd.spawn, {script = 'child.lua',"
			"%s}))",
			calls[i][0]);
		rig_call(rig, "a", "x", text);
		if (!strstr(rig->reply, calls[i][1]))
			fail_msg("%s: %s", calls[i][0], rig->reply);
	}
	assert_true(
		!session_find(&rig->k, alias_holder(&rig->k.aliases, "a", 1))
			 ->kin);
}

static void
test_an_idle_child_ends_and_one_on_demand_comes_back(void **state)
{
	struct rig *rig = *state;

	teller(rig);
	rig_call(rig, "p", "x",
		"eventd.spawn{script = 'child.lua', alias = 'c',"
		"idle_stop = 1, on_demand = true, params = {n = 7}}");
	rig_expect(rig, "c", "who", "", "c 7");
	rig_advance(rig, 1100);
	assert_string_equal(session_state_word(session_find(&rig->k,
				    alias_holder(&rig->k.aliases, "c", 1))),
		"dormant");
	rig_expect(rig, "c", "who", "", "c 7");
	rig_call(rig, "p", "x",
		"eventd.spawn{script = 'child.lua', alias = 'd',"
		"idle_stop = 1}");
	rig_advance(rig, 1100);
	assert_non_null(strstr(rig->all, "lost d idle - "));
}

static void
test_a_child_nobody_refers_to_is_collected(void **state)
{
	struct rig *rig = *state;

	teller(rig);
	rig_call(rig, "p", "x",
		"eventd.spawn{script = 'child.lua',"
		"collect = true}");
	rig_turn(rig);
	assert_non_null(strstr(rig->all, "lost p/child.lua unreferenced - "));
}

/* A deferred reply is owed: it keeps a session from being idle. */
static void
test_a_deferred_reply_keeps_a_session_up(void **state)
{
	struct rig *rig = *state;
	struct session_spec *spec = rig_lua_spec(rig, "d",
		"local t\n"
		"return { ask = function() t = eventd.defer() end,\n"
		"  tell = function() eventd.reply(t, 'late') end }");
	struct session *s;

	spec->idle_ms = 1000;
	s = rig_start(rig, spec);
	rig_call_later(rig, "d", "ask", "");
	rig_turn(rig);
	rig_advance(rig, 5000);
	assert_string_equal(session_state_word(s), "up");
	rig_post(rig, "d", "tell", "");
	rig_turn(rig);
	assert_string_equal(rig->reply, "late");
	rig_advance(rig, 2500);
	assert_int_equal(alias_holder(&rig->k.aliases, "d", 1), 0);
}

static void
test_exit_tells_why(void **state)
{
	struct rig *rig = *state;

	teller(rig);
	rig_call(rig, "p", "x",
		"eventd.spawn{script = 'quit.lua', alias = 'q'}");
	rig_write(rig, "quit.lua",
		"return { go = function(d) eventd.exit(d) end }", 46);
	session_restart(
		session_find(&rig->k, alias_holder(&rig->k.aliases, "q", 1)),
		NULL);
	rig_turn(rig);
	rig_post(rig, "q", "go", "all done");
	rig_turn(rig);
	assert_string_equal(rig->data, "lost q normal all done");
}

int
main(void)
{
#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_spawned_session_runs_with_alias_and_params),
		TEST(test_a_childs_alias_may_be_taken),
		TEST(test_stop_ends_a_child_at_once),
		TEST(test_children_end_with_their_parent),
		TEST(test_children_end_when_their_parent_fails),
		TEST(test_a_session_stops_only_itself_and_its_own),
		TEST(test_stop_of_itself_ends_the_handler_first),
		TEST(test_taken_alias_is_told),
		TEST(test_wrong_arguments),
		TEST(test_missing_script_fails_the_child_alone),
		TEST(test_depth_and_number_are_limited),
		TEST(test_failing_child_restarts_as_its_parent_would),
		TEST(test_child_tells_of_gain_and_loss),
		TEST(test_child_that_stays_failed_is_told),
		TEST(test_child_cannot_be_forged),
		TEST(test_strategies_are_of_the_children),
		TEST(test_wrong_lives_are_told),
		TEST(test_an_idle_child_ends_and_one_on_demand_comes_back),
		TEST(test_a_child_nobody_refers_to_is_collected),
		TEST(test_a_deferred_reply_keeps_a_session_up),
		TEST(test_exit_tells_why),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

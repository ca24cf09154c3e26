#include "rig.h"

static void
test_handler_gets_payload_and_event(void **state)
{
	struct rig *rig = *state;

	rig_lua(rig, "a",
		"return { greet = function(data, ev)\n"
		"  return data .. ' ' .. ev.event .. ' ' ..\n"
		"    tostring(ev.is_call) .. ' ' .. type(ev.id) .. ' ' ..\n"
		"    ev.attempt .. ' ' .. ev.late\n"
		"end }");
	rig_expect(rig, "a", "greet", "hello", "hello greet true number 1 0.0");
}

static void
test_nil_and_numbers_answer(void **state)
{
	struct rig *rig = *state;

	rig_lua(rig, "a",
		"return { none = function() end,\n"
		"  number = function() return 42 end,\n"
		"  empty = function() return '' end,\n"
		"  bytes = function(d) return d .. '\\0x' end }");
	rig_expect(rig, "a", "none", "", "");
	rig_expect(rig, "a", "number", "", "42");
	rig_expect(rig, "a", "empty", "", "");
	rig_expect(rig, "a", "bytes", "ab", "ab");
}

static void
test_unknown_event_is_a_dead_letter(void **state)
{
	struct rig *rig = *state;
	struct session *s = rig_lua(rig, "a", "return {}");

	rig_call(rig, "a", "what", "");
	assert_int_equal(rig->status, EVD_STATUS_HANDLER);
	assert_non_null(strstr(rig->reply, "no handler"));
	assert_int_equal(session_counters(s).dead, 1);
	assert_string_equal(session_state_word(s), "up");
}

static void
test_default_takes_what_has_no_handler(void **state)
{
	struct rig *rig = *state;

	rig_lua(rig, "a",
		"return { a = function() return 'a' end, notafunction = 1,\n"
		"  _stop = function() error('never by post') end,\n"
		"  _default = function(d, ev) return 'default ' .. ev.event\n"
		"end }");
	rig_expect(rig, "a", "a", "", "a");
	rig_expect(rig, "a", "b", "", "default b");
	rig_expect(rig, "a", "notafunction", "", "default notafunction");
	rig_expect(rig, "a", "_stop", "", "default _stop");
}

static void
test_handlers_may_be_inherited(void **state)
{
	struct rig *rig = *state;

	rig_lua(rig, "a",
		"return setmetatable({}, {__index = {\n"
		"  x = function() return 'inherited' end }})");
	rig_expect(rig, "a", "x", "", "inherited");
}

static void
test_start_runs_before_events_and_may_wait(void **state)
{
	struct rig *rig = *state;
	struct session *s = session_new(&rig->s, &kind_lua,
		rig_lua_spec(rig, "a",
			"local t = 0\n"
			"return { _start = function()\n"
			"  eventd.sleep(1); t = t + 1; eventd.sleep(1)\n"
			"  t = t + 1 end,\n"
			"  t = function() return t end }"),
		NULL);

	spec_unref(s->spec); /* the session holds one */
	rig_call_later(rig, "a", "t", "");
	rig_turn(rig);
	assert_string_equal(session_state_word(s), "starting");
	rig_advance(rig, 1100);
	assert_int_equal(rig->n_replies, 0);
	rig_advance(rig, 1100);
	assert_string_equal(session_state_word(s), "up");
	assert_int_equal(rig->n_replies, 1);
	assert_string_equal(rig->reply, "2");
}

static void
test_events_are_handled_one_at_a_time(void **state)
{
	struct rig *rig = *state;

	rig_lua(rig, "a",
		"return { slow = function(d)\n"
		"  eventd.post('probe', 'in', d)\n"
		"  eventd.sleep(1)\n"
		"  eventd.post('probe', 'out', d)\n"
		"end }");
	rig_post(rig, "a", "slow", "1");
	rig_post(rig, "a", "slow", "2");
	rig_turn(rig);
	assert_string_equal(rig->all, "1 ");
	rig_advance(rig, 1100);
	assert_string_equal(rig->all, "1 1 2 ");
	rig_advance(rig, 1100);
	assert_string_equal(rig->all, "1 1 2 2 ");
}

static void
test_call_waits_and_returns_the_reply(void **state)
{
	struct rig *rig = *state;

	rig_lua(rig, "a",
		"return { ask = function(d)\n"
		"  return 'got ' .. eventd.call('probe', 'hold', d)\n"
		"end }");
	rig_call_later(rig, "a", "ask", "x");
	rig_turn(rig);
	assert_int_equal(rig->n_replies, 0);
	rig_answer(rig, 0, "y");
	assert_string_equal(rig->reply, "got y");
}

static void
test_call_tells_errors_as_word_and_text(void **state)
{
	struct rig *rig = *state;

	rig_lua(rig, "a",
		"return { ask = function(d)\n"
		"  local r, word, text = eventd.call('probe', 'hold')\n"
		"  return tostring(r) .. ' ' .. word .. ' ' .. text\n"
		"end }");
	rig_call_later(rig, "a", "ask", "");
	rig_turn(rig);
	rig_answer(rig, EVD_STATUS_HANDLER, "no such file");
	assert_string_equal(rig->reply, "nil handler-error no such file");
}

static void
test_call_times_out(void **state)
{
	struct rig *rig = *state;

	rig_lua(rig, "a",
		"return { ask = function(d)\n"
		"  local r, word = eventd.call('probe', 'hold', nil, 0.5)\n"
		"  return word end }");
	rig_call_later(rig, "a", "ask", "");
	rig_turn(rig);
	rig_advance(rig, 400);
	assert_int_equal(rig->n_replies, 0);
	rig_advance(rig, 200);
	assert_string_equal(rig->reply, "timeout");
	rig_answer(rig, 0, "too late"); /* reaches nobody */
	assert_int_equal(atomic_load(&rig->k.late_replies), 1);
}

static void
test_call_to_nobody_and_to_itself(void **state)
{
	struct rig *rig = *state;

	rig_lua(rig, "a",
		"return { nobody = function()\n"
		"  local r, word, text = eventd.call('nobody', 'x')\n"
		"  return word .. ': ' .. text end,\n"
		"  gone = function()\n"
		"    return select(3, eventd.call(99, 'x')) end,\n"
		"  me = function()\n"
		"    local ok, why = pcall(eventd.call, 'a', 'me')\n"
		"    return why end }");
	rig_expect(rig, "a", "nobody", "",
		"no-alias: no session holds the alias 'nobody'");
	rig_expect(rig, "a", "gone", "", "no session has the id 99");
	rig_call(rig, "a", "me", "");
	assert_non_null(strstr(rig->reply, "calls itself"));
}

static void
test_waits_inside_pcall_and_after_errors(void **state)
{
	struct rig *rig = *state;

	rig_lua(rig, "a",
		"return { x = function()\n"
		"  local ok, why = pcall(function()\n"
		"    eventd.sleep(1); error('oops') end)\n"
		"  eventd.sleep(1)\n"
		"  return why end }");
	rig_call_later(rig, "a", "x", "");
	rig_turn(rig);
	rig_advance(rig, 1100);
	rig_advance(rig, 1100);
	assert_non_null(strstr(rig->reply, "oops"));
}

static void
test_ten_thousand_waits(void **state)
{
	struct rig *rig = *state;
	struct session *s = rig_lua(rig, "a",
		"return { x = function()\n"
		"  for i = 1, 5000 do\n"
		"    assert(eventd.call('probe', 'echo', i) == tostring(i))\n"
		"    eventd.sleep(0)\n"
		"  end\n"
		"  return 'done' end }");

	rig_call_later(rig, "a", "x", "");
	for (int i = 0; i < 10000 && !rig->n_replies; i++)
		rig_advance(rig, 1);
	assert_string_equal(rig->reply, "done");
	assert_int_equal(rig->n_events, 5000);
	assert_int_equal(s->n_calls, 0);
}

static void
test_coroutine_is_reused(void **state)
{
	struct rig *rig = *state;
	struct session *s = rig_lua(rig, "a",
		"local seen, n = {}, 0\n"
		"return { x = function()\n"
		"  local co = coroutine.running()\n"
		"  if not seen[co] then n = n + 1; seen[co] = true end\n"
		"  return n end }");
	size_t before;

	rig_expect(rig, "a", "x", "", "1");
	rig_expect(rig, "a", "x", "", "1");
	before = session_memory(s);
	for (int i = 0; i < 10000; i++)
		rig_post(rig, "a", "x", "");
	rig_turn(rig);
	assert_true(session_memory(s) < before + 65536);
	rig_expect(rig, "a", "x", "", "1");
}

static void
test_event_says_nothing_once_handled(void **state)
{
	struct rig *rig = *state;

	rig_lua(rig, "a",
		"local kept\n"
		"return { keep = function(d, ev) kept = ev; ev = nil end,\n"
		"  _stop = function()\n"
		"    eventd.post('probe', 'kept', tostring(kept.id) .. ' ' ..\n"
		"      tostring(kept.event) .. ' ' .. tostring(kept.none))\n"
		"  end,\n"
		"  set = function(d, ev)\n"
		"    return select(2, pcall(function() ev.id = 1 end)) end }");
	rig_post(rig, "a", "keep", "");
	rig_call(rig, "a", "set", "");
	assert_non_null(strstr(rig->reply, "cannot be changed"));
	session_stop(
		session_find(&rig->k, alias_holder(&rig->k.aliases, "a", 1)));
	rig_turn(rig);
	assert_string_equal(rig->data, "nil nil nil");
}

static void
test_stop_while_a_handler_waits(void **state)
{
	struct rig *rig = *state;
	struct session *s = rig_lua(rig, "a",
		"return { x = function() eventd.call('probe', 'hold') end,\n"
		"  _stop = function()\n"
		"    eventd.post('probe', 'bye', 'bye') end }");

	rig_call_later(rig, "a", "x", "");
	rig_turn(rig);
	session_stop(s);
	rig_turn(rig);
	assert_int_equal(rig->status, EVD_STATUS_DIED);
	assert_string_equal(rig->data, "bye");
	rig_answer(rig, 0, "too late");
	assert_int_equal(rig->n_replies, 1);
}

static void
test_stop_cannot_wait(void **state)
{
	struct rig *rig = *state;
	struct session *s = rig_lua(rig, "a",
		"return { _stop = function()\n"
		"  local _, one = pcall(eventd.sleep, 1)\n"
		"  local _, two = pcall(eventd.call, 'probe', 'hold')\n"
		"  local co = coroutine.wrap(function()\n"
		"    return select(2, pcall(eventd.sleep, 1)) end)\n"
		"  eventd.post('probe', 'x',\n"
		"    one .. '|' .. two .. '|' .. co())\n"
		"end }");

	session_stop(s);
	rig_turn(rig);
	assert_string_equal(rig->data,
		"eventd.sleep waits, which _stop cannot|"
		"eventd.call waits, which _stop cannot|"
		"eventd.sleep waits, which _stop cannot");
}

static void
test_failing_stop_harms_nobody(void **state)
{
	struct rig *rig = *state;

	rig_lua(rig, "b", "return { x = function() return 'b' end }");
	session_stop(rig_lua(
		rig, "a", "return { _stop = function() error({}) end }"));
	rig_turn(rig);
	rig_expect(rig, "b", "x", "", "b");
}

static void
test_stop_does_not_run_before_start_has_ended(void **state)
{
	struct rig *rig = *state;
	struct session *s = rig_lua(rig, "a",
		"return { _start = function() eventd.sleep(100) end,\n"
		"  _stop = function() eventd.post('probe', 'x', 'no') end }");

	session_stop(s);
	rig_turn(rig);
	assert_int_equal(rig->n_events, 0);
}

static void
test_restart_takes_the_new_script(void **state)
{
	struct rig *rig = *state;
	const char *two = "return { v = function() return 'two' end }";
	struct session *s = rig_lua(rig, "a",
		"return { v = function() return 'one' end,\n"
		"  wait = function() eventd.sleep(10) end }");

	rig_expect(rig, "a", "v", "", "one");
	rig_post(rig, "a", "wait", "");
	rig_turn(rig);
	rig_write(rig, "a.lua", two, strlen(two));
	session_restart(s, NULL);
	rig_turn(rig);
	rig_expect(rig, "a", "v", "", "two");
	rig_advance(rig, 20000);
	rig_expect(rig, "a", "v", "", "two");
}

static void
test_crash_answers_the_caller_and_restarts(void **state)
{
	struct rig *rig = *state;
	struct session_spec *spec = rig_lua_spec(rig, "a",
		"local n = 0\n"
		"return { boom = function() error('boom') end,\n"
		"  n = function() n = n + 1; return n end }");
	struct session *s;

	spec->restart = RESTART_ON_FAILURE;
	s = rig_start(rig, spec);
	rig_expect(rig, "a", "n", "", "1");
	rig_call(rig, "a", "boom", "");
	assert_int_equal(rig->status, EVD_STATUS_DIED);
	assert_string_equal(session_state_word(s), "backoff");
	rig_advance(rig, 1000);
	assert_string_equal(session_state_word(s), "up");
	rig_expect(rig, "a", "n", "", "1");
}

int
main(void)
{
#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_handler_gets_payload_and_event),
		TEST(test_nil_and_numbers_answer),
		TEST(test_unknown_event_is_a_dead_letter),
		TEST(test_default_takes_what_has_no_handler),
		TEST(test_handlers_may_be_inherited),
		TEST(test_start_runs_before_events_and_may_wait),
		TEST(test_events_are_handled_one_at_a_time),
		TEST(test_call_waits_and_returns_the_reply),
		TEST(test_call_tells_errors_as_word_and_text),
		TEST(test_call_times_out),
		TEST(test_call_to_nobody_and_to_itself),
		TEST(test_waits_inside_pcall_and_after_errors),
		TEST(test_ten_thousand_waits),
		TEST(test_coroutine_is_reused),
		TEST(test_event_says_nothing_once_handled),
		TEST(test_stop_while_a_handler_waits),
		TEST(test_stop_cannot_wait),
		TEST(test_failing_stop_harms_nobody),
		TEST(test_stop_does_not_run_before_start_has_ended),
		TEST(test_restart_takes_the_new_script),
		TEST(test_crash_answers_the_caller_and_restarts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

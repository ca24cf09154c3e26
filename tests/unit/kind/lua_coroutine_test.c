/* Waiting inside coroutines that a script makes (B92), and Lua's own rules for
 * the functions that are replaced. */
#include "rig.h"

/* Handler `x` with the body @body, called; whatever it waits for comes. */
static const char *
eval(struct rig *rig, const char *body)
{
	char script[2048];
	struct session *s;
	unsigned n = rig->n_replies;

	snprintf(script, sizeof(script),
		"return {\nx = function(data, ev) %s end }", body);
	s = rig_lua(rig, "a", script);
	assert_string_equal(session_state_word(s), "up");
	rig_call_later(rig, "a", "x", "data");
	rig_turn(rig);
	for (int i = 0; i < 100 && rig->n_replies == n; i++)
		rig_advance(rig, 1000);
	assert_int_equal(rig->n_replies, n + 1);
	if (s->life == SESSION_FAILED)
		fail_msg("%s", rig_reason(s));
	session_stop(s);
	rig_turn(rig);
	return rig->reply;
}

static void
test_wrap_and_resume_are_luas(void **state)
{
	struct rig *rig = *state;

	assert_string_equal(eval(rig, "local f = coroutine.wrap(function(a)\n"
				      "  local b = coroutine.yield(a + 1)\n"
				      "  return b * 2 end)\n"
				      "return f(1) .. ' ' .. f(10)"),
		"2 20");
	eval(rig, "local co = coroutine.create(function(...)\n"
		  "  coroutine.yield(select('#', ...)) error('e') end)\n"
		  "local a, b = coroutine.resume(co, 1, 2, 3)\n"
		  "local c, d = coroutine.resume(co)\n"
		  "local e, f = coroutine.resume(co)\n"
		  "return table.concat({tostring(a), b, tostring(c), d,\n"
		  "  tostring(e), f, coroutine.status(co)}, ' ')");
	assert_non_null(strstr(rig->reply, "true 3 false "));
	assert_non_null(strstr(
		rig->reply, "e false cannot resume dead coroutine dead"));
}

static void
test_close_is_luas(void **state)
{
	assert_string_equal(
		eval(*state, "local log = {}\n"
			     "local co = coroutine.create(function()\n"
			     "  local c <close> = setmetatable({}, {__close =\n"
			     "    function() log[1] = 'closed' end})\n"
			     "  coroutine.yield() end)\n"
			     "coroutine.resume(co)\n"
			     "local ok = coroutine.close(co)\n"
			     "local bad = coroutine.create(error)\n"
			     "coroutine.resume(bad, 'why')\n"
			     "local no, why = coroutine.close(bad)\n"
			     "local me = coroutine.running()\n"
			     "me = pcall(coroutine.close, me)\n"
			     "return table.concat({log[1], tostring(ok),\n"
			     "  tostring(no), why, tostring(me),\n"
			     "  coroutine.status(co)}, ' ')"),
		"closed true false why false dead");
}

static void
test_call_inside_a_coroutine(void **state)
{
	assert_string_equal(
		eval(*state, "local co = coroutine.create(function(a)\n"
			     "  local b = eventd.call('probe', 'echo', 'b')\n"
			     "  return a .. b .. 'c'\n"
			     "end)\n"
			     "local ok, r = coroutine.resume(co, 'a')\n"
			     "return tostring(ok) .. r"),
		"trueabc");
}

static void
test_sleep_in_nested_wraps_and_generators(void **state)
{
	assert_string_equal(eval(*state, "local function gen()\n"
					 "  return coroutine.wrap(function()\n"
					 "    for i = 1, 3 do\n"
					 "      coroutine.wrap(function()\n"
					 "        eventd.sleep(1) end)()\n"
					 "      coroutine.yield(i)\n"
					 "      eventd.sleep(1)\n"
					 "    end end) end\n"
					 "local s = ''\n"
					 "for i in gen() do s = s .. i end\n"
					 "return s"),
		"123");
}

static void
test_error_after_a_wait_in_a_coroutine(void **state)
{
	struct rig *rig = *state;

	eval(rig, "local co = coroutine.create(function()\n"
		  "  eventd.sleep(1) error('deep') end)\n"
		  "local ok, why = coroutine.resume(co)\n"
		  "local ok2, why2 = pcall(coroutine.wrap(function()\n"
		  "  eventd.sleep(1) error('deeper') end))\n"
		  "return tostring(ok) .. why .. tostring(ok2) .. why2");
	assert_non_null(strstr(rig->reply, "false"));
	assert_non_null(strstr(rig->reply, "deep"));
	assert_non_null(strstr(rig->reply, "deeper"));
}

static void
test_wait_where_lua_cannot_yield(void **state)
{
	struct rig *rig = *state;

	eval(rig,
		"return select(2, pcall(table.sort, {2, 1, 3}, function(a, b)\n"
		"  eventd.sleep(1) return a < b end))");
	assert_non_null(strstr(rig->reply, "eventd.sleep cannot wait here"));
	eval(rig, "return select(2, pcall(string.gsub, 'a', '.', function()\n"
		  "  local co = coroutine.wrap(function()\n"
		  "    eventd.call('probe', 'echo') end)\n"
		  "  co() end))");
	assert_non_null(strstr(rig->reply, "eventd.call cannot wait here"));
}

static void
test_yield_in_a_handler_is_an_error(void **state)
{
	assert_non_null(strstr(
		eval(*state, "return select(2, pcall(coroutine.yield, 1))"),
		"attempt to yield from outside a coroutine"));
}

static void
test_handlers_own_coroutine_is_not_to_be_touched(void **state)
{
	struct rig *rig = *state;
	struct session *s = rig_lua(rig, "a",
		"local main = coroutine.running()\n"
		"local mine\n"
		"return { x = function()\n"
		"    mine = coroutine.running()\n"
		"    local t = {}\n"
		"    for _, co in ipairs{main, mine} do\n"
		"      t[#t + 1] = tostring(pcall(coroutine.resume, co))\n"
		"      t[#t + 1] = tostring(pcall(coroutine.close, co))\n"
		"    end\n"
		"    return table.concat(t, ' ')\n"
		"  end,\n"
		"  wait = function() eventd.sleep(10) end,\n"
		"  _stop = function()\n"
		"    local _, why = pcall(coroutine.resume, mine)\n"
		"    eventd.post('probe', 'why', why) end }");

	rig_expect(rig, "a", "x", "", "false false false false");
	rig_post(rig, "a", "wait", "");
	rig_turn(rig);
	session_stop(s);
	rig_turn(rig);
	assert_non_null(strstr(rig->data, "handler's own"));
}

static void
test_stop_may_end_coroutines_that_wait(void **state)
{
	struct rig *rig = *state;
	struct session *s = rig_lua(rig, "a",
		"local one, two = coroutine.create(function()\n"
		"    local r, word = eventd.call('probe', 'hold')\n"
		"    eventd.post('probe', 'word', word) end)\n"
		"return { x = function() coroutine.resume(one) end,\n"
		"  _stop = function()\n"
		"    coroutine.resume(one) coroutine.close(one) end }");

	rig_post(rig, "a", "x", "");
	rig_turn(rig);
	session_stop(s);
	rig_turn(rig);
	assert_string_equal(rig->data, "cancelled");
}

static void
test_closing_forever_is_an_error(void **state)
{
	struct rig *rig = *state;

	eval(rig, "local function nest()\n"
		  "  local co = coroutine.create(function()\n"
		  "    local c <close> = setmetatable({}, {__close = nest})\n"
		  "    coroutine.yield() end)\n"
		  "  coroutine.resume(co)\n"
		  "  local ok, why = coroutine.close(co)\n"
		  "  if not ok then error(why) end\n"
		  "end\n"
		  "return select(2, pcall(nest))");
	assert_non_null(strstr(rig->reply, "overflow"));
}

static void
test_resuming_forever_is_an_error(void **state)
{
	struct rig *rig = *state;

	eval(rig, "local function nest() return coroutine.wrap(nest)() end\n"
		  "return select(2, pcall(nest))");
	assert_non_null(strstr(rig->reply, "overflow"));
}

int
main(void)
{
#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_wrap_and_resume_are_luas),
		TEST(test_close_is_luas),
		TEST(test_call_inside_a_coroutine),
		TEST(test_sleep_in_nested_wraps_and_generators),
		TEST(test_error_after_a_wait_in_a_coroutine),
		TEST(test_wait_where_lua_cannot_yield),
		TEST(test_yield_in_a_handler_is_an_error),
		TEST(test_handlers_own_coroutine_is_not_to_be_touched),
		TEST(test_stop_may_end_coroutines_that_wait),
		TEST(test_closing_forever_is_an_error),
		TEST(test_resuming_forever_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

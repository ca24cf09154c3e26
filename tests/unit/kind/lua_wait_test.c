/* daemon/kind/lua_wait.c: handlers of scripts that wait for times and events,
 * alone and beside each other. */
#include "kind/lua_wait.h"

#include "waits.h"

static const char script[] =
	"local function tell(...)\n"
	"  eventd.post('probe', 'out', table.concat({...}, ','))\n"
	"end\n"
	"local M = {}\n"
	"function M.note(d) tell('note', d) end\n"
	"function M.sleep(d)\n"
	"  local r, word = eventd.sleep(tonumber(d))\n"
	"  tell('slept', d, tostring(word))\n"
	"  return d\n"
	"end\n"
	"function M.twice()\n"
	"  for i = 1, 2 do\n"
	"    local r, word = eventd.sleep(1)\n"
	"    tell(i, tostring(word))\n"
	"  end\n"
	"  return 'slept'\n"
	"end\n"
	"function M.await(name)\n"
	"  local d, e, t = eventd.await_event(name, 0.2)\n"
	"  if d then tell(d, e.event) else tell('no', e) end\n"
	"  if d and e.call then eventd.reply(e.call, 'took it') end\n"
	"end\n"
	"function M.from(id)\n"
	"  local d, e = eventd.await_event('go', {from = tonumber(id)})\n"
	"  tell(d, e.from)\n"
	"end\n"
	"function M.ask(q)\n"
	"  local a, word = eventd.call('probe', 'hold', q)\n"
	"  tell(a or word)\n"
	"  return a\n"
	"end\n"
	"function M.crash() eventd.sleep(0.01); error('oops') end\n"
	"function M.inner()\n"
	"  local co = coroutine.wrap(function()\n"
	"    local d = eventd.await_event('go'); coroutine.yield(d)\n"
	"  end)\n"
	"  tell('inner', co())\n"
	"end\n"
	"function M.share() other = coroutine.running(); eventd.sleep(1) end\n"
	"function M.resume() return tostring(pcall(coroutine.resume, other)) "
	"end\n"
	"function M.gather()\n"
	"  local list, n = eventd.gather({'probe'}, 'hold')\n"
	"  tell('gathered', n, list[1].reply)\n"
	"end\n"
	"function M._stop() tell('stop') end\n"
	"return M\n";

static struct session *
begin(struct rig *rig, uint32_t concurrency)
{
	struct session_spec *spec = rig_lua_spec(rig, "a", script);

	spec->concurrency = concurrency;
	return rig_start(rig, spec);
}

/* ---- alone ------------------------------------------------------------- */

static void
test_an_event_is_taken_out_of_turn(void **state)
{
	struct rig *rig = *state;
	struct session *s = begin(rig, 1);

	rig_post(rig, "a", "await", "go");
	rig_post(rig, "a", "note", "later");
	rig_post(rig, "a", "go", "it");
	rig_turn(rig);
	assert_string_equal(rig->all, "it,go note,later ");
	assert_int_equal(session_counters(s).leased, 0);
	expect_counted(s);
	rig_post(rig, "a", "await", "go");
	rig_turn(rig);
	rig_expect(rig, "a", "go", "again", "took it");
	expect_counted(s);
	assert_int_equal(rig->s.calls.n, 0);
}

static void
test_an_event_does_not_come(void **state)
{
	struct rig *rig = *state;

	begin(rig, 1);
	rig_post(rig, "a", "await", "go");
	rig_turn(rig);
	rig_post(rig, "a", "note", "later");
	pass(rig, 200);
	assert_string_equal(rig->all, "no,timeout note,later ");
}

static void
test_an_event_of_a_sender(void **state)
{
	struct rig *rig = *state;
	char id[32];
	struct msg *m;

	begin(rig, 1);
	snprintf(id, sizeof(id), "%llu", (unsigned long long)rig->probe->id);
	rig_post(rig, "a", "from", id);
	rig_turn(rig);
	m = rig_msg(rig, "a", "go", "other", 5);
	m->from = 0;
	assert_int_equal(sched_post(&rig->s, m), 0);
	rig_turn(rig);
	assert_int_equal(rig->n_events, 0);
	rig_post(rig, "a", "go", "mine");
	rig_turn(rig);
	assert_int_equal(strncmp(rig->all, "mine,", 5), 0);
	assert_non_null(strstr(rig->all, id));
}

static void
test_waiting_for_an_event_inside_a_coroutine(void **state)
{
	struct rig *rig = *state;

	begin(rig, 1);
	rig_post(rig, "a", "inner", "");
	rig_turn(rig);
	rig_post(rig, "a", "go", "deep");
	rig_turn(rig);
	assert_string_equal(rig->all, "inner,deep ");
}

static void
test_arguments_are_checked(void **state)
{
	struct rig *rig = *state;
	struct session *s;

	s = rig_lua(rig, "b",
		"return { x = function()\n"
		"  local bad = {{}, {'a b'}, {'x', -1}, {'x', {from = 'x'}}}\n"
		"  for i, b in ipairs(bad) do\n"
		"    assert(not pcall(eventd.await_event, b[1], b[2]), i)\n"
		"  end\n"
		"  assert(not pcall(table.sort, {1, 2}, function()\n"
		"    eventd.await_event('go') end))\n"
		"  return 'good' end }");
	rig_expect(rig, "b", "x", "", "good");
	assert_int_equal(rig->s.calls.n, 0);
	expect_counted(s);
}

static void
test_the_deadline_comes_in_the_line_that_waits(void **state)
{
	struct rig *rig = *state;
	struct msg *m;

	begin(rig, 1);
	m = rig_msg(rig, "a", "twice", "", 0);
	assert_int_equal(session_call(rig->probe, m, 1, 300, NULL), 0);
	rig_turn(rig);
	pass(rig, 310);
	assert_string_equal(rig->all, "1,timeout 2,timeout ");
}

static void
test_cancelling_comes_in_the_line_that_waits(void **state)
{
	struct rig *rig = *state;
	uint64_t call;
	struct msg *m;

	for (uint32_t concurrency = 1; concurrency < 3; concurrency++) {
		struct session *s = begin(rig, concurrency);

		m = rig_msg(rig, "a", "twice", "", 0);
		assert_int_equal(session_call(rig->probe, m, 1, 0, &call), 0);
		rig_turn(rig);
		assert_int_equal(session_cancel_call(rig->probe, call), 0);
		rig_turn(rig);
		assert_string_equal(rig->all, "1,cancelled 2,cancelled ");
		assert_int_equal(rig->s.calls.n, 0);
		expect_counted(s);
		session_stop(s);
		rig_turn(rig);
		rig->all[0] = '\0';
	}
}

static void
test_who_waits_is_told_to_end(void **state)
{
	struct rig *rig = *state;
	struct session *s = begin(rig, 1);

	rig_call_later(rig, "a", "sleep", "5");
	rig_turn(rig);
	session_stop(s);
	rig_turn(rig);
	assert_string_equal(rig->all, "slept,5,cancelled stop ");
	assert_int_equal(rig->n_replies, 1);
	assert_string_equal(rig->reply, "5"); /* it still could */
}

static void
test_a_second_wait_ends_the_handler_that_stops(void **state)
{
	struct rig *rig = *state;
	struct session *s = begin(rig, 1);

	rig_post(rig, "a", "twice", "");
	rig_turn(rig);
	session_stop(s);
	rig_turn(rig);
	assert_string_equal(rig->all, "1,cancelled stop ");
}

/* ---- beside each other ------------------------------------------------- */

static void
test_as_many_wait_as_the_file_allows(void **state)
{
	struct rig *rig = *state;
	struct session *s = begin(rig, 3);

	for (int i = 0; i < 5; i++)
		rig_post(rig, "a", "sleep", "0.1");
	rig_post(rig, "a", "note", "last");
	rig_turn(rig);
	assert_int_equal(session_counters(s).leased, 3);
	assert_int_equal(s->box.n, 3);
	expect_counted(s);
	pass(rig, 100);
	assert_int_equal(session_counters(s).leased, 2);
	assert_int_equal(s->box.n, 0);
	expect_counted(s);
	pass(rig, 100);
	assert_int_equal(session_counters(s).leased, 0);
	assert_string_equal(rig->all,
		"slept,0.1,nil slept,0.1,nil slept,0.1,nil note,last "
		"slept,0.1,nil slept,0.1,nil ");
	assert_int_equal(session_counters(s).handled, 6);
}

static void
test_each_gets_its_own_answer(void **state)
{
	struct rig *rig = *state;
	uint64_t first;

	begin(rig, 3);
	rig_call_later(rig, "a", "ask", "1");
	rig_turn(rig);
	first = rig->held;
	rig_call_later(rig, "a", "ask", "2");
	rig_turn(rig);
	rig_answer(rig, 0, "two");
	assert_string_equal(rig->reply, "two");
	rig->held = first;
	rig_answer(rig, 0, "one");
	assert_string_equal(rig->reply, "one");
	assert_string_equal(rig->all, "1 2 two one ");
	rig_post(rig, "a", "gather", "");
	rig_post(rig, "a", "sleep", "0.1");
	rig_turn(rig);
	rig_answer(rig, 0, "x");
	pass(rig, 100);
	assert_string_equal(
		rig->all, "1 2 two one  gathered,1,x slept,0.1,nil ");
}

static void
test_who_waits_goes_before_who_would_begin(void **state)
{
	struct rig *rig = *state;
	struct session *s = begin(rig, 4);

	rig_post(rig, "a", "await", "note");
	rig_turn(rig);
	rig_post(rig, "a", "note", "x");
	rig_post(rig, "a", "note", "y");
	rig_turn(rig);
	assert_string_equal(rig->all, "x,note note,y ");
	expect_counted(s);
}

static void
test_one_that_fails_ends_the_others(void **state)
{
	struct rig *rig = *state;
	struct session *s = begin(rig, 4);

	rig_call_later(rig, "a", "sleep", "1");
	rig_post(rig, "a", "await", "go");
	rig_post(rig, "a", "crash", "");
	rig_turn(rig);
	pass(rig, 10);
	rig_expect_failed(s, "event crash");
	rig_expect_failed(s, "oops");
	assert_string_equal(rig->all, "");
	assert_int_equal(session_counters(s).dead, 3);
	assert_int_equal(session_counters(s).leased, 0);
	assert_int_equal(rig->status, EVD_STATUS_DIED);
	assert_int_equal(rig->s.calls.n, 0);
	expect_counted(s);
}

static void
test_all_that_wait_are_told_to_end(void **state)
{
	struct rig *rig = *state;
	struct session *s = begin(rig, 4);

	rig_post(rig, "a", "sleep", "1");
	rig_post(rig, "a", "await", "go");
	rig_post(rig, "a", "sleep", "2");
	rig_turn(rig);
	session_restart(s, NULL);
	rig_turn(rig);
	assert_string_equal(rig->all, "slept,1,cancelled no,cancelled "
				      "slept,2,cancelled stop ");
	assert_int_equal(session_counters(s).leased, 0);
	assert_int_equal(session_counters(s).dead, 3);
	assert_int_equal(rig->s.calls.n, 0);
	expect_counted(s);
}

static void
test_a_handlers_coroutine_is_its_own(void **state)
{
	struct rig *rig = *state;

	begin(rig, 3);
	rig_post(rig, "a", "share", "");
	rig_turn(rig);
	rig_expect(rig, "a", "resume", "", "false");
}

static void
test_coroutines_are_used_again(void **state)
{
	struct rig *rig = *state;
	struct session *s = begin(rig, 100);
	size_t size = 0;

	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < 100; i++)
			rig_post(rig, "a", "sleep", "0.01");
		rig_turn(rig);
		assert_int_equal(session_counters(s).leased, 100);
		pass(rig, 10);
		assert_int_equal(session_counters(s).leased, 0);
		rig->all[0] = '\0';
		if (round == 3)
			size = session_memory(s);
	}
	assert_true(session_memory(s) < size * 2);
	expect_counted(s);
}

#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

/* Two coroutines deep, and after a wait. */
static void
test_an_overflow_after_a_wait_is_the_sessions_failure(void **state)
{
	struct rig *rig = *state;
	struct session_spec *spec = rig_lua_spec(rig, "a",
		"local function dive() return 1 + dive() end\n"
		"return { x = function()\n"
		"  coroutine.wrap(function()\n"
		"    eventd.sleep(0.01)\n"
		"    coroutine.wrap(dive)() end)() end }");
	struct session *s;

	spec->memory_max = 0;
	spec->handler_ms = 0;
	s = rig_start(rig, spec);
	rig_lua(rig, "good", "return { x = function() return 'good' end }");
	rig_post(rig, "a", "x", "");
	rig_turn(rig);
	assert_string_equal(session_state_word(s), "up");
	pass(rig, 10);
	rig_expect_failed(s, "stack overflow");
	rig_expect_failed(s, "event x (id ");
	expect_counted(s);
	rig_expect(rig, "good", "x", "", "good");
}

/* ---- exit -------------------------------------------------------------- */

static struct session *
begin_leaver(struct rig *rig)
{
	struct session_spec *spec = rig_lua_spec(rig, "a",
		"local function tell(w) eventd.post('probe', 'n', w) end\n"
		"return { nap = function(s)\n"
		"  local _, e = eventd.sleep(tonumber(s))\n"
		"  tell(e or 'napped') end,\n"
		"await = function() tell(eventd.await_event('go')) end,\n"
		"bye = function() eventd.exit('done') end,\n"
		"note = tell, _stop = function() tell('stop') end }");

	spec->concurrency = 4;
	return rig_start(rig, spec);
}

/* No other begins, those that have begun end, and then the session does. */
static void
test_exit_lets_those_that_wait_end(void **state)
{
	struct rig *rig = *state;
	struct session *s = begin_leaver(rig);
	uint64_t id = s->id, dead = rig->s.dead.n;

	rig_post(rig, "a", "nap", "0.1");
	rig_post(rig, "a", "await", "");
	rig_post(rig, "a", "bye", "");
	rig_post(rig, "a", "note", "x");
	rig_turn(rig);
	assert_string_equal(rig->all, "");
	expect_counted(s);
	pass(rig, 100);
	assert_string_equal(rig->all, "napped ");
	rig_post(rig, "a", "go", "went");
	rig_turn(rig);
	assert_string_equal(rig->all, "napped went stop ");
	assert_null(session_find(&rig->k, id));
	assert_int_equal(rig->s.dead.n, dead + 1); /* the note */
}

static void
test_it_is_seen_what_they_wait_for(void **state)
{
	static const char code[] =
		"return { nap = function() eventd.sleep(0.1) end,\n"
		"ask = function() eventd.call('probe', 'hold', '', 0.1) end,\n"
		"all = function()\n"
		"  eventd.gather({'probe'}, 'hold', '', {timeout = 0.1}) end,\n"
		"get = function() eventd.await_event('no', 0.1) end }";
	static const char *const events[] = {"nap", "ask", "all", "get", "nap"};
	struct rig *rig = *state;

	for (uint32_t most = 1; most < 10; most += 8) {
		struct session_spec *spec = rig_lua_spec(rig, "a", code);
		struct session *s;

		spec->concurrency = most;
		s = rig_start(rig, spec);
		for (unsigned i = 0; i < 5; i++)
			rig_post(rig, "a", events[i], "");
		rig_turn(rig);
		if (most == 1)
			expect_waiting(s, 1, 0, 0);
		else
			expect_waiting(s, 2, 2, 1);
		for (int i = 0; i < 6; i++)
			pass(rig, 100);
		expect_waiting(s, 0, 0, 0);
		session_stop(s);
		rig_turn(rig);
	}
}

static void
test_a_stop_does_not_wait_as_exit_does(void **state)
{
	struct rig *rig = *state;
	struct session *s = begin_leaver(rig);
	uint64_t id = s->id;

	rig_post(rig, "a", "nap", "100");
	rig_post(rig, "a", "bye", "");
	rig_turn(rig);
	assert_non_null(session_find(&rig->k, id));
	session_stop(s);
	rig_turn(rig);
	assert_string_equal(rig->all, "cancelled stop ");
	assert_null(session_find(&rig->k, id));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_an_event_is_taken_out_of_turn),
		TEST(test_an_event_does_not_come),
		TEST(test_an_event_of_a_sender),
		TEST(test_waiting_for_an_event_inside_a_coroutine),
		TEST(test_arguments_are_checked),
		TEST(test_the_deadline_comes_in_the_line_that_waits),
		TEST(test_cancelling_comes_in_the_line_that_waits),
		TEST(test_who_waits_is_told_to_end),
		TEST(test_a_second_wait_ends_the_handler_that_stops),
		TEST(test_as_many_wait_as_the_file_allows),
		TEST(test_each_gets_its_own_answer),
		TEST(test_who_waits_goes_before_who_would_begin),
		TEST(test_one_that_fails_ends_the_others),
		TEST(test_all_that_wait_are_told_to_end),
		TEST(test_a_handlers_coroutine_is_its_own),
		TEST(test_coroutines_are_used_again),
		TEST(test_an_overflow_after_a_wait_is_the_sessions_failure),
		TEST(test_exit_lets_those_that_wait_end),
		TEST(test_a_stop_does_not_wait_as_exit_does),
		TEST(test_it_is_seen_what_they_wait_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

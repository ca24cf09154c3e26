/* daemon/kind/{lua_time,lua_timers}.c: names, options, calendars, changes. */
#include "rig.h"

/* "a" runs @body in `_start`; `tick` tells the probe its data and times. */
static struct session *
with(struct rig *rig, const char *body)
{
	char script[2048];
	struct session *s;

	snprintf(script, sizeof(script),
		"return {\n_start = function() %s end,\n"
		"tick = function(data, ev)\n"
		"  local due = ev.due and ev.due - born or 0\n"
		"  eventd.post('probe', 'tick', "
		"string.format('%%s %%.3f %%.3f', data, due, ev.late)) end,\n"
		"x = function(data) return load('return ' .. data)() end }",
		body);
	s = rig_lua(rig, "a", script);
	if (s->life != SESSION_UP)
		fail_msg("%s", rig_reason(s));
	return s;
}

static void
test_an_event_tells_its_times(void **state)
{
	struct rig *rig = *state;

	with(rig, "born = eventd.now()\neventd.delay(2, 'tick', 'd')");
	rig_advance(rig, 2500);
	assert_string_equal(rig->data, "d 2.000 0.500");
	rig_expect(rig, "a", "x", "tostring(eventd.post('a', 'tick', 'p'))",
		"true");
	rig_turn(rig);
	assert_string_equal(rig->data, "p 0.000 0.000");
}

static void
test_a_name_replaces_and_cancels(void **state)
{
	struct rig *rig = *state;

	with(rig, "born = eventd.now()\n"
		  "local _, r = eventd.delay(1, 'tick', '1', {name = 'n'})\n"
		  "first = tostring(r)\n"
		  "_, r = eventd.delay(2, 'tick', '2', {name = 'n'})\n"
		  "second = tostring(r)");
	rig_expect(rig, "a", "x", "first .. ' ' .. second", "false true");
	rig_advance(rig, 3000);
	assert_int_equal(rig->n_events, 1);
	assert_string_equal(rig->data, "2 2.000 1.000");
	rig_expect(rig, "a", "x",
		"select(2, eventd.cancel('n')) .. tostring(eventd.cancel('n'))",
		"firedfalse");
	rig_expect(
		rig, "a", "x", "tostring(select(2, eventd.cancel(7)))", "nil");
	rig_expect(rig, "a", "x",
		"#tostring(eventd.delay(9, 'tick', 'z', {name = 'n'})) > 0 and "
		"tostring(eventd.cancel('n')) .. "
		"select(2, eventd.cancel('n'))",
		"truecancelled");
}

static void
test_adjust(void **state)
{
	struct rig *rig = *state;

	with(rig, "born = eventd.now()\n"
		  "id = eventd.delay(100, 'tick', 'd', {name = 'n'})");
	rig_expect(rig, "a", "x", "tostring(eventd.adjust('n', 1))", "true");
	rig_expect(rig, "a", "x", "tostring(eventd.adjust(id, {every = 1}))",
		"true");
	for (int i = 1; i <= 3; i++) {
		rig_advance(rig, 1001);
		assert_int_equal(rig->n_events, i);
	}
	rig_expect(rig, "a", "x",
		"tostring(eventd.adjust(id, {at = eventd.now() + 50, "
		"every = 0}))",
		"true");
	rig_advance(rig, 49000);
	assert_int_equal(rig->n_events, 3);
	rig_advance(rig, 1001);
	assert_int_equal(rig->n_events, 4);
	rig_expect(rig, "a", "x", "tostring(eventd.adjust(id, 1))", "false");
	rig_expect(rig, "a", "x", "select(2, pcall(eventd.adjust, 'n', {}))",
		"bad argument #2 to '?' (delay, at or every is missing)");
}

static void
test_calendars(void **state)
{
	struct rig *rig = *state;

	with(rig, "born = eventd.now()\n"
		  "eventd.schedule('*:*:0/10', 'tick', 'c', "
		  "{zone = 'Europe/Berlin', misfire = 'skip', name = 'c'})");
	rig_advance(rig, 10001);
	rig_advance(rig, 10000);
	assert_int_equal(rig->n_events, 2);
	rig_expect(rig, "a", "x",
		"(function() local t = eventd.timers()[1] return t.name .. "
		"' ' .. t.calendar .. ' ' .. t.zone .. ' ' .. t.misfire .. "
		"' ' .. t.clock .. ' ' .. t.due - born end)()",
		"c *:*:0/10 Europe/Berlin skip wall 30.0");
	rig_expect(rig, "a", "x", "select(2, eventd.schedule('25:00', 'tick'))",
		"invalid");
	rig_expect(rig, "a", "x", "select(3, eventd.schedule('25:00', 'tick'))",
		"a hour is from 0 to 23, not 25");
	rig_expect(rig, "a", "x",
		"select(3, eventd.schedule('daily', 'tick', '', {zone = "
		"'No/Where'}))",
		"the time zone 'No/Where' cannot be used: there is none");
	rig_expect(rig, "a", "x", "select(3, eventd.adjust('c', {every = 5}))",
		"the timer repeats by its calendar");
}

static void
test_all_are_listed_and_cancelled(void **state)
{
	struct rig *rig = *state;

	with(rig, "eventd.delay(1, 'tick', 'abc', {slack = 2, every = 3, "
		  "clock = 'boottime'})\n"
		  "eventd.delay(1, 'tick', '', 'probe')");
	rig_expect(rig, "a", "x",
		"(function() local t = eventd.timers()[2] return t.event .. "
		"' ' .. t.size .. ' ' .. t.slack .. ' ' .. t.every .. ' ' .. "
		"t.clock end)()",
		"tick 3 2.0 3.0 boottime");
	rig_expect(rig, "a", "x", "eventd.timers()[1].alias", "probe");
	rig_expect(rig, "a", "x", "eventd.cancel_all()", "2");
	rig_expect(rig, "a", "x", "#eventd.timers()", "0");
	rig_advance(rig, 10000);
	assert_int_equal(rig->n_events, 0);
}

static void
test_bad_options_are_errors(void **state)
{
	static const char *const calls[][2] = {
		{"eventd.delay, 1, 'x', '', {nam = 'n'}", "no option 'nam'"},
		{"eventd.delay, 1, 'x', '', {'n'}", "no option '1'"},
		{"eventd.delay, 1, 'x', '', {name = 'a b'}", "timer's name"},
		{"eventd.delay, 1, 'x', '', {name = 5}", "is a string"},
		{"eventd.delay, 1, 'x', '', {clock = 'sun'}",
			"cannot be 'sun'"},
		{"eventd.delay, 1, 'x', '', {slack = -1}", "is seconds"},
		{"eventd.delay, 1, 'x', '', {slack = 0/0}", "is seconds"},
		{"eventd.delay, 1, 'x', '', {every = 1e-12}", "at least 0.001"},
		{"eventd.delay, 1, 'x', '', {every = 1e-9}", "0.001"},
		{"eventd.alarm, 1, 'x', '', {clock = 'boottime'}", "wall"},
		{"eventd.schedule, 'daily', 'x', '', {every = 1}",
			"no option 'every'"},
		{"eventd.schedule, 'daily', 'x', '', 'a'", "table expected"},
		{"eventd.schedule, 'daily', 'no good'", "not an event"},
		{"eventd.adjust, 'n', {at = 1, delay = 1}", "either"},
		{"eventd.cancel, 'a b'", "not a timer's name"},
	};
	struct rig *rig = *state;
	char expression[256];

	with(rig, "");
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		snprintf(expression, sizeof(expression), "select(2, pcall(%s))",
			calls[i][0]);
		rig_call(rig, "a", "x", expression);
		if (!strstr(rig->reply, calls[i][1]))
			fail_msg("%s: %s", calls[i][0], rig->reply);
	}
	assert_int_equal(rig->s.delays.n, 0);
}

int
main(void)
{
#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_an_event_tells_its_times),
		TEST(test_a_name_replaces_and_cancels),
		TEST(test_adjust),
		TEST(test_calendars),
		TEST(test_all_are_listed_and_cancelled),
		TEST(test_bad_options_are_errors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "rig.h"

/* "a" runs @body in `_start`. */
static struct session *
with(struct rig *rig, const char *body)
{
	char script[2048];
	struct session *s;

	snprintf(script, sizeof(script),
		"return {\n_start = function() %s end,\n"
		"tick = function(data, ev)\n"
		"  eventd.post('probe', 'tick', data .. '@' .. ev.late) end,\n"
		"x = function(data) return load('return ' .. data)() end }",
		body);
	s = rig_lua(rig, "a", script);
	if (s->life != SESSION_UP)
		fail_msg("%s", rig_reason(s));
	return s;
}

static void
test_delay_to_oneself_and_to_an_alias(void **state)
{
	struct rig *rig = *state;

	with(rig, "eventd.delay(0.5, 'tick', 'mine')\n"
		  "eventd.delay(1, 'x', 'yours', 'probe')");
	rig_advance(rig, 400);
	assert_int_equal(rig->n_events, 0);
	rig_advance(rig, 101);
	assert_non_null(strstr(rig->data, "mine@0.00"));
	rig_advance(rig, 500);
	assert_string_equal(rig->data, "yours");
}

static void
test_delay_repeats_until_cancelled(void **state)
{
	struct rig *rig = *state;

	with(rig, "id = eventd.delay(1, 'tick', 't', nil, 1)");
	for (int i = 1; i <= 5; i++) {
		rig_advance(rig, 1000);
		rig_advance(rig, 1); /* ticks are rounded up */
		assert_int_equal(rig->n_events, i);
	}
	rig_expect(rig, "a", "x", "tostring(eventd.cancel(id))", "true");
	rig_expect(rig, "a", "x", "tostring(eventd.cancel(id))", "false");
	rig_advance(rig, 10000);
	assert_int_equal(rig->n_events, 5);
}

static void
test_alarm_is_of_the_wall_clock(void **state)
{
	struct rig *rig = *state;

	with(rig, "eventd.alarm(eventd.now() + 100, 'x', 'at', 'probe')\n"
		  "eventd.alarm(0, 'x', 'past', 'probe')");
	rig_advance(rig, 1);
	assert_string_equal(rig->data, "past");
	rig_advance(rig, 99000);
	assert_string_equal(rig->data, "past");
	rig->clock.wall_ns += (uint64_t)NS_PER_S * 2; /* it is set */
	sched_clock_set(&rig->s);
	rig_turn(rig);
	assert_string_equal(rig->data, "at");
}

static void
test_only_its_own_timers_can_be_cancelled(void **state)
{
	struct rig *rig = *state;

	with(rig, "id = eventd.delay(1, 'x', 'fired', 'probe')");
	rig_lua(rig, "b",
		"return { x = function(id)\n"
		"  return tostring(eventd.cancel(math.tointeger(id))) end }");
	rig_call(rig, "a", "x", "id");
	rig_expect(rig, "b", "x", rig->reply, "false");
	rig_expect(rig, "b", "x", "0", "false");
	rig_expect(rig, "b", "x", "-1", "false");
	rig_advance(rig, 1001);
	assert_string_equal(rig->data, "fired");
}

static void
test_timers_to_itself_end_with_the_session(void **state)
{
	struct rig *rig = *state;
	struct session *s = with(rig,
		"for i = 1, 100 do eventd.delay(i, 'tick', 'x', nil, 1) end");

	assert_int_equal(s->n_timers, 100);
	session_stop(s);
	rig_advance(rig, 1000000);
	assert_int_equal(rig->n_events, 0);
	assert_int_equal(rig->s.delays.n, 0);
}

static void
test_bad_times_are_errors(void **state)
{
	static const char *const calls[][2] = {
		{"eventd.delay, -1, 'x'", "seconds must be"},
		{"eventd.delay, 0/0, 'x'", "seconds must be"},
		{"eventd.delay, 1/0, 'x'", "seconds must be"},
		{"eventd.delay, 'soon', 'x'", "number expected"},
		{"eventd.delay, 1", "string expected"},
		{"eventd.delay, 1, 'x', nil, nil, 0", "at least 0.001"},
		{"eventd.delay, 1, 'x', nil, {every = true}", "is seconds"},
		{"eventd.delay, 1, 'x', {}", "cannot be a payload"},
		{"eventd.alarm, -1, 'x'", "seconds since 1970"},
		{"eventd.alarm, 1e10, 'x'", "seconds since 1970"},
		{"eventd.alarm, 0/0, 'x'", "seconds since 1970"},
		{"eventd.sleep, -1", "seconds must be"},
		{"eventd.sleep", "number expected"},
		{"eventd.cancel", "number expected"},
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

static void
test_delay_to_nobody_and_too_many(void **state)
{
	struct rig *rig = *state;

	with(rig, "");
	rig_call(rig, "a", "x",
		"table.concat({select(2,"
		"eventd.delay(1, 'x', '', 'nobody'))}, ': ')");
	assert_string_equal(
		rig->reply, "no-alias: no session holds the alias 'nobody'");
	rig->k.limits.max_timers = 1;
	rig_expect(rig, "a", "x", "type(eventd.delay(1, 'tick'))", "number");
	rig_call(rig, "a", "x",
		"table.concat({select(2, eventd.delay(1, 'x'))}, ': ')");
	assert_string_equal(rig->reply, "limit: 1 timers are set (MaxTimers=)");
}

static void
test_clocks_are_the_kernels(void **state)
{
	struct rig *rig = *state;
	double before;

	with(rig, "");
	rig_call(rig, "a", "x", "eventd.now() - eventd.monotonic()");
	before = strtod(rig->reply, NULL);
	rig_advance(rig, 5000);
	rig_call(rig, "a", "x", "eventd.now() - eventd.monotonic()");
	assert_true(strtod(rig->reply, NULL) - before < 0.001);
	rig_call(rig, "a", "x", "eventd.now()");
	assert_true(strtod(rig->reply, NULL) -
			    (double)rig->clock.wall_ns / NS_PER_S <
		    0.001);
}

int
main(void)
{
#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_delay_to_oneself_and_to_an_alias),
		TEST(test_delay_repeats_until_cancelled),
		TEST(test_alarm_is_of_the_wall_clock),
		TEST(test_only_its_own_timers_can_be_cancelled),
		TEST(test_timers_to_itself_end_with_the_session),
		TEST(test_bad_times_are_errors),
		TEST(test_delay_to_nobody_and_too_many),
		TEST(test_clocks_are_the_kernels),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

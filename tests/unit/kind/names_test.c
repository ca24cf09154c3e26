/* Names as Lua and native sessions have them: bind, wait, watch_names. */
#include "rig.h"

/* Evaluates what it is sent; tells the probe of `_alias` and `_name`. */
static struct session *
talker(struct rig *rig, const char *alias)
{
	return rig_lua(rig, alias,
		"return { x = function(data)\n"
		"    return tostring(load('return ' .. data)()) end,\n"
		"  _alias = function(n) eventd.post('probe', 'told',\n"
		"    eventd.alias() .. (n.up and '+' or '-') .. n.alias\n"
		"    .. ' ' .. tostring(n.reason)) end,\n"
		"  _name = function(n) eventd.post('probe', 'told',\n"
		"    n.alias .. tostring(n.up) .. math.type(n.watch)) end }");
}

static void
test_bind_takes_and_unbind_drops(void **state)
{
	struct rig *rig = *state;

	talker(rig, "a");
	talker(rig, "b");
	rig_expect(rig, "a", "x", "eventd.bind 'printer'", "true");
	rig_expect(rig, "a", "x", "eventd.bind 'printer'", "true");
	rig_expect(rig, "printer", "x", "#eventd.aliases()", "2");
	rig_expect(rig, "b", "x", "select(2, eventd.bind 'printer')",
		"alias-taken");
	rig_expect(rig, "b", "x", "select(2, eventd.bind 'a b')", "invalid");
	rig_expect(rig, "a", "x", "eventd.unbind 'printer'", "true");
	rig_expect(rig, "a", "x", "eventd.unbind 'printer'", "false");
	rig_expect(rig, "b", "x", "eventd.bind 'printer'", "true");
	rig_expect(rig, "b", "x", "pcall(eventd.bind, 'x', {if_taken = 'no'})",
		"false");
}

static void
test_a_queued_alias_comes_with_an_event(void **state)
{
	struct rig *rig = *state;
	struct session *a = talker(rig, "a");

	talker(rig, "b");
	rig_expect(rig, "b", "x", "eventd.bind('a', {if_taken = 'queue'})",
		"queued");
	session_stop(a);
	rig_turn(rig);
	assert_string_equal(rig->data, "b+a nil");
	rig_expect(rig, "a", "x", "eventd.alias()", "b");
}

static void
test_a_replaced_holder_is_told(void **state)
{
	struct rig *rig = *state;

	talker(rig, "a");
	talker(rig, "b");
	rig_expect(rig, "a", "x", "eventd.bind('p', {allow_replace = true})",
		"true");
	rig_expect(rig, "b", "x", "eventd.bind('p', {if_taken = 'replace'})",
		"queued");
	rig_turn(rig);
	assert_string_equal(rig->all, "a-p replaced b+p nil ");
	rig_expect(rig, "a", "x",
		"select(3, eventd.bind('p', {if_taken = 'replace'})):match "
		"'which does not let itself be replaced'",
		"which does not let itself be replaced");
}

static void
test_a_file_may_allow_replacement(void **state)
{
	struct rig *rig = *state;
	struct session_spec *spec = rig_lua_spec(rig, "old",
		"return { _alias = function(n)\n"
		"  eventd.post('probe', 'told', n.alias) end }");

	spec->allow_replace = true;
	rig_start(rig, spec);
	talker(rig, "b");
	rig_expect(rig, "b", "x", "eventd.bind('old', {if_taken = 'replace'})",
		"queued");
	rig_turn(rig);
	rig_expect(rig, "old", "x", "eventd.alias()", "b");
}

static void
test_wait_ends_when_the_alias_appears(void **state)
{
	struct rig *rig = *state;

	talker(rig, "a");
	rig_expect(rig, "a", "x",
		"eventd.wait 'probe' == eventd.resolve 'probe'", "true");
	rig_call_later(rig, "a", "x",
		"eventd.wait('late', 5) == eventd.resolve 'late'");
	rig_turn(rig);
	talker(rig, "late");
	rig_turn(rig);
	assert_string_equal(rig->reply, "true");
	rig_call_later(rig, "a", "x", "select(2, eventd.wait('never', 5))");
	rig_turn(rig);
	rig_advance(rig, 6000);
	assert_string_equal(rig->reply, "timeout");
	rig_expect(rig, "a", "x", "select(2, eventd.wait 'a b')", "invalid");
}

static void
test_names_that_come_and_go_are_events(void **state)
{
	struct rig *rig = *state;
	struct session *d;

	talker(rig, "a");
	rig_call(rig, "a", "x", "eventd.watch_names 'dev/*'");
	d = rig_lua(rig, "d",
		"eventd.bind 'dev/1'\n"
		"return {}");
	rig_turn(rig);
	assert_string_equal(rig->data, "dev/1trueinteger");
	session_stop(d);
	rig_turn(rig);
	assert_string_equal(rig->data, "dev/1falseinteger");
	rig_expect(rig, "a", "x", "eventd.unwatch(eventd.watch_names('*'))",
		"true");
	rig_expect(rig, "a", "x", "select(2, eventd.watch_names 'a b')",
		"invalid");
}

/* B2 */
static void
test_what_the_mailbox_dropped_is_told(void **state)
{
	struct rig *rig = *state;
	struct session_spec *spec = rig_lua_spec(rig, "l",
		"return { e = function() end, _gap = function(g)\n"
		"  eventd.post('probe', 'told', g.count .. ' '\n"
		"    .. tostring(g.to > g.from)) end }");

	spec->max_events = 2;
	spec->overflow = OVERFLOW_DROP_OLDEST;
	rig_start(rig, spec);
	spec = rig_spec(rig, "native", "n", PLUGIN_DIR "/names.so");
	spec->max_events = 2;
	spec->overflow = OVERFLOW_DROP_NEWEST;
	rig_start(rig, spec);
	rig_turn(rig);
	for (int i = 0; i < 5; i++)
		rig_post(rig, "l", "e", "");
	rig_turn(rig);
	assert_string_equal(rig->data, "3 true");
	for (int i = 0; i < 6; i++)
		rig_post(rig, "n", "e", "");
	rig_turn(rig);
	assert_string_equal(rig->data, "_gap 4 1");
}

static void
test_native_sessions_have_the_same(void **state)
{
	struct rig *rig = *state;
	struct session *n = rig_start(
		rig, rig_spec(rig, "native", "n", PLUGIN_DIR "/names.so"));
	struct session *a = talker(rig, "a");

	rig_expect(rig, "n", "bind", "0one", "0");
	rig_expect(rig, "n", "bind", "0a", "-98"); /* EADDRINUSE */
	rig_expect(rig, "n", "bind", "1a", "1");
	rig_expect(rig, "n", "unbind", "one", "0");
	rig_expect(rig, "n", "unbind", "one", "-3");
	assert_true(
		strtoll(rig_call(rig, "n", "watch-names", "a"), NULL, 10) > 0);
	rig_expect(rig, "n", "wait", "late", "0");
	session_stop(a);
	rig_turn(rig);
	assert_non_null(strstr(rig->all, "_alias 1 a |"));
	assert_non_null(strstr(rig->all, "_name 1 a |"));
	rig_expect(rig, "a", "bind", "0late", "0");
	rig_turn(rig);
	assert_string_equal(rig->data, "0 1"); /* found */
	rig_call(rig, "n", "wait", "never");
	rig_advance(rig, 2000);
	assert_string_equal(rig->data, "16 0"); /* timeout */
	session_stop(n);
	rig_turn(rig);
}

#define TEST(test) \
	cmocka_unit_test_setup_teardown(test, rig_setup, rig_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_bind_takes_and_unbind_drops),
		TEST(test_a_queued_alias_comes_with_an_event),
		TEST(test_a_replaced_holder_is_told),
		TEST(test_a_file_may_allow_replacement),
		TEST(test_wait_ends_when_the_alias_appears),
		TEST(test_names_that_come_and_go_are_events),
		TEST(test_what_the_mailbox_dropped_is_told),
		TEST(test_native_sessions_have_the_same),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

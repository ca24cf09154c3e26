/* Watches and links as Lua and native sessions have them. */
#include "rig.h"

/* "w" evaluates what it is sent and tells the probe of `_down`; "b" can fail,
 * exit and be stopped. */
static struct session *
watcher(struct rig *rig)
{
	return rig_lua(rig, "w",
		"return { x = function(data)\n"
		"    return tostring(load('return ' .. data)()) end,\n"
		"  _down = function(d, ev) eventd.post('probe', 'told',\n"
		"    string.format('%s %s %s %s|%s', ev.event,\n"
		"    d.watch and math.type(d.watch), d.alias, d.reason,\n"
		"    d.text)) end }");
}

static struct session *
mortal(struct rig *rig, const char *alias)
{
	return rig_lua(rig, alias,
		"return { boom = function() error('boom', 0) end,\n"
		"  quit = function() eventd.stop() end,\n"
		"  wait = function() eventd.sleep(3600) end,\n"
		"  alive = function() return 'yes' end }");
}

static void
test_down_comes_with_a_table(void **state)
{
	struct rig *rig = *state;

	watcher(rig);
	mortal(rig, "b");
	rig_expect(rig, "w", "x", "math.type(eventd.watch 'b')", "integer");
	rig_post(rig, "b", "boom", "");
	rig_turn(rig);
	assert_string_equal(rig->event, "told");
	assert_int_equal(
		strncmp(rig->data, "_down integer b failed|event boom", 33), 0);
	assert_non_null(strstr(rig->data, "boom"));
}

static void
test_a_stop_of_its_own_is_normal(void **state)
{
	struct rig *rig = *state;

	watcher(rig);
	mortal(rig, "b");
	rig_call(rig, "w", "x", "eventd.watch(eventd.resolve 'b')");
	rig_post(rig, "b", "quit", "");
	rig_turn(rig);
	assert_string_equal(rig->data, "_down integer b normal|nil");
}

static void
test_a_name_without_a_holder_is_down_at_once(void **state)
{
	struct rig *rig = *state;

	watcher(rig);
	rig_call(rig, "w", "x", "eventd.watch 'nobody'");
	rig_turn(rig);
	assert_string_equal(
		rig->data, "_down integer nobody no such session|nil");
}

static void
test_unwatch_says_whether_it_was_there(void **state)
{
	struct rig *rig = *state;
	struct session *b;

	watcher(rig);
	b = mortal(rig, "b");
	rig_expect(rig, "w", "x", "eventd.unwatch(eventd.watch 'b')", "true");
	rig_expect(rig, "w", "x", "eventd.unwatch(77)", "false");
	session_stop(b);
	rig_turn(rig);
	assert_string_equal(rig->event, "");
}

static void
test_links_fall_together_and_trap_prevents_it(void **state)
{
	struct rig *rig = *state;
	struct session *w = watcher(rig), *b = mortal(rig, "b");

	mortal(rig, "c");
	rig_expect(rig, "w", "x", "eventd.link 'b'", "true");
	rig_expect(
		rig, "w", "x", "select(2, eventd.link 'nobody')", "no-alias");
	rig_post(rig, "w", "x", "eventd.trap(true)");
	rig_post(rig, "b", "boom", "");
	rig_turn(rig);
	assert_non_null(strstr(rig->data, "b failed|event boom"));
	assert_string_equal(session_state_word(w), "up");
	rig_call(rig, "w", "x", "eventd.trap(false)");
	rig_expect(rig, "w", "x", "eventd.link 'c'", "true");
	rig_post(rig, "c", "boom", "");
	rig_turn(rig);
	rig_expect_failed(w, "linked session");
	rig_expect_failed(b, "boom");
}

static void
test_a_link_takes_down_one_that_waits(void **state)
{
	struct rig *rig = *state;
	struct session *b = mortal(rig, "b");

	watcher(rig);
	rig_post(rig, "b", "wait", "");
	rig_turn(rig);
	rig_expect(rig, "w", "x", "eventd.link 'b'", "true");
	rig_post(rig, "w", "x", "error('no', 0)");
	rig_turn(rig);
	rig_expect_failed(b, "linked session");
	assert_int_equal(session_counters(b).dead, 1); /* what it waited in */
}

static void
test_unlinked_ones_live_on(void **state)
{
	struct rig *rig = *state;

	watcher(rig);
	mortal(rig, "b");
	rig_call(rig, "w", "x", "eventd.link 'b'");
	rig_expect(rig, "w", "x", "eventd.unlink 'b'", "true");
	rig_expect(rig, "w", "x", "eventd.unlink 'b'", "false");
	rig_post(rig, "w", "x", "error('no', 0)");
	rig_turn(rig);
	rig_expect(rig, "b", "alive", "", "yes");
}

static void
test_wrong_arguments_are_errors(void **state)
{
	struct rig *rig = *state;

	watcher(rig);
	rig_expect(rig, "w", "x", "pcall(eventd.watch, {})", "false");
	rig_expect(rig, "w", "x", "pcall(eventd.trap, 1)", "false");
	rig_expect(rig, "w", "x", "select(3, eventd.watch 'w')",
		"a session does not watch itself");
	rig->k.limits.max_watches = 1;
	rig_call(rig, "w", "x", "eventd.watch 'probe'");
	rig_expect(rig, "w", "x", "select(3, eventd.watch 'probe')",
		"the session w has 1 watches, links and claims "
		"(MaxWatches= in eventd.conf)");
}

/* What others post under such a name is no notice. */
static void
test_down_cannot_be_forged(void **state)
{
	struct rig *rig = *state;
	struct session *w = watcher(rig);

	rig_post(rig, "w", "_down", "0123456789012345678901234567890123456789");
	rig_turn(rig);
	assert_int_equal(session_counters(w).dead, 1);
	assert_string_equal(session_state_word(w), "up");
}

static void
test_down_without_a_handler_is_no_dead_letter(void **state)
{
	struct rig *rig = *state;
	struct session *c = rig_lua(rig, "c",
		"return { x = function() return eventd.watch 'nobody' end,\n"
		"  _default = function(d, ev) error(ev.event) end }");

	rig_call(rig, "c", "x", "");
	rig_turn(rig);
	assert_string_equal(session_state_word(c), "up");
	assert_int_equal(session_counters(c).dead, 0);
}

/* ---- native ------------------------------------------------------------ */

static struct session *
native(struct rig *rig, const char *alias)
{
	struct session *s = rig_start(
		rig, rig_spec(rig, "native", alias, PLUGIN_DIR "/names.so"));

	if (s->life != SESSION_UP)
		fail_msg("%s", rig_reason(s));
	return s;
}

static void
test_native_gets_down_as_a_struct(void **state)
{
	struct rig *rig = *state;
	const char *number;

	native(rig, "n");
	mortal(rig, "b");
	number = rig_call(rig, "n", "watch", "b");
	rig_expect(rig, "n", "unwatch", number, "0");
	rig_expect(rig, "n", "unwatch", "5", "-3"); /* ESRCH */
	rig_call(rig, "n", "watch", "b");
	rig_post(rig, "b", "quit", "");
	rig_turn(rig);
	assert_string_equal(rig->data, "_down 0 b normal|");
	rig_call(rig, "n", "watch", "b");
	rig_turn(rig);
	assert_string_equal(rig->data, "_down 0 b no such session|");
}

static void
test_native_links_and_traps(void **state)
{
	struct rig *rig = *state;
	struct session *n = native(rig, "n");

	mortal(rig, "b");
	mortal(rig, "c");
	rig_expect(rig, "n", "link", "nobody", "-2"); /* ENOENT */
	rig_expect(rig, "n", "link", "b", "0");
	rig_expect(rig, "n", "trap", "on", "0");
	rig_post(rig, "b", "boom", "");
	rig_turn(rig);
	assert_non_null(strstr(rig->data, "_down 0 b failed|event boom"));
	rig_expect(rig, "n", "unlink", "7", "-3");
	rig_expect(rig, "n", "link", "c", "0");
	rig_expect(rig, "n", "trap", "", "0");
	rig_post(rig, "c", "boom", "");
	rig_turn(rig);
	rig_expect_failed(n, "linked session");
}

static void
test_a_forged_down_reaches_no_native_handler(void **state)
{
	struct rig *rig = *state;
	struct session *n = native(rig, "n");

	rig_post(rig, "n", "_down", "x");
	rig_turn(rig);
	assert_string_equal(rig->event, "");
	assert_int_equal(session_counters(n).dead, 1);
}

#define TEST(test) \
	cmocka_unit_test_setup_teardown(test, rig_setup, rig_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_down_comes_with_a_table),
		TEST(test_a_stop_of_its_own_is_normal),
		TEST(test_a_name_without_a_holder_is_down_at_once),
		TEST(test_unwatch_says_whether_it_was_there),
		TEST(test_links_fall_together_and_trap_prevents_it),
		TEST(test_a_link_takes_down_one_that_waits),
		TEST(test_unlinked_ones_live_on),
		TEST(test_wrong_arguments_are_errors),
		TEST(test_down_cannot_be_forged),
		TEST(test_down_without_a_handler_is_no_dead_letter),
		TEST(test_native_gets_down_as_a_struct),
		TEST(test_native_links_and_traps),
		TEST(test_a_forged_down_reaches_no_native_handler),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

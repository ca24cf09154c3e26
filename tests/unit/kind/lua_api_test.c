#include "rig.h"

/* A session "a" whose handler `x` has the body @body. */
static struct session *
with(struct rig *rig, const char *body)
{
	char script[2048];
	struct session *s;

	snprintf(script, sizeof(script),
		"return {\nx = function(data, ev) %s end }", body);
	s = rig_lua(rig, "a", script);
	assert_string_equal(session_state_word(s), "up");
	return s;
}

static const char *
eval(struct rig *rig, const char *body)
{
	struct session *s = with(rig, body);

	rig_call(rig, "a", "x", "data");
	if (s->life == SESSION_FAILED)
		fail_msg("%s", rig_reason(s));
	session_stop(s);
	rig_turn(rig);
	return rig->reply;
}

/* What the error of a wrong argument says. */
static void
expect_error(struct rig *rig, const char *call, const char *text)
{
	char body[1024];

	snprintf(body, sizeof(body), "return select(2, pcall(%s))", call);
	if (!strstr(eval(rig, body), text))
		fail_msg("%s: %s", call, rig->reply);
}

static void
test_post_by_alias_and_by_id(void **state)
{
	struct rig *rig = *state;

	assert_string_equal(
		eval(rig, "local ok = eventd.post('probe', 'one', 'by alias')\n"
			  "local id = eventd.resolve('probe')\n"
			  "eventd.post(id, 'two', 2)\n"
			  "eventd.post(ev.from, 'three')\n"
			  "return tostring(ok)"),
		"true");
	assert_int_equal(rig->n_events, 3);
	assert_string_equal(rig->all, "by alias 2  ");
	assert_true(rig->from != 0);
}

static void
test_numbers_are_sent_as_lua_writes_them(void **state)
{
	static const char *const numbers[] = {"0", "-1", "1.5", "1e+100",
		"9223372036854775807", "-9223372036854775808", "-0.0", "3.0"};
	char body[128];

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		snprintf(body, sizeof(body),
			"return math.tointeger('%s') or %s", numbers[i],
			numbers[i]);
		if (strchr(numbers[i], '.'))
			snprintf(body, sizeof(body), "return %s", numbers[i]);
		assert_string_equal(eval(*state, body), numbers[i]);
	}
}

static void
test_refused_posts_tell_why(void **state)
{
	struct rig *rig = *state;
	struct session_spec *spec =
		rig_lua_spec(rig, "full", "return { _default = print }");

	spec->max_events = 1;
	rig_start(rig, spec);
	rig_lua(rig, "broken", "return { x = function() error('broken') end }");
	rig_post(rig, "broken", "x", "");
	rig_turn(rig);
	assert_string_equal(eval(rig, "return table.concat({select(2,\n"
				      "  eventd.post('nobody', 'x'))}, ': ')"),
		"no-alias: no session holds the alias 'nobody'");
	assert_string_equal(eval(rig, "return table.concat({select(2,\n"
				      "  eventd.post(77, 'x'))}, ': ')"),
		"no-alias: no session has the id 77");
	assert_non_null(strstr(eval(rig, "eventd.post('full', 'x')\n"
					 "return table.concat({select(2,\n"
					 "  eventd.post('full', 'x'))}, ': ')"),
		"full: the mailbox of 'full' is full"));
	assert_non_null(
		strstr(eval(rig, "return table.concat({select(2,\n"
				 "  eventd.post('broken', 'x'))}, ': ')"),
			"failed: the session 'broken' has failed"));
}

static void
test_wrong_arguments_are_errors(void **state)
{
	struct rig *rig = *state;

	expect_error(rig, "eventd.post", "alias or session id expected");
	expect_error(rig, "eventd.post, {}", "alias or session id expected");
	expect_error(rig, "eventd.post, 1.5, 'x'", "no integer");
	expect_error(rig, "eventd.post, 'probe'", "string expected, got no");
	expect_error(rig, "eventd.post, 'probe', 'a b'", "an event's name");
	expect_error(rig, "eventd.post, 'probe', ''", "an event's name");
	expect_error(
		rig, "eventd.post, 'probe', ('x'):rep(128)", "an event's name");
	expect_error(rig, "eventd.post, 'probe', 'x', {}",
		"a table cannot be a payload");
	expect_error(rig, "eventd.post, 'probe', 'x', true",
		"a boolean cannot be a payload");
	expect_error(rig, "eventd.post, 'probe', 'x', ('x'):rep(1048577)",
		"a payload of 1048577 bytes: at most 1048576");
	expect_error(rig, "eventd.call, 'probe', 'x', '', -1", "seconds must");
	expect_error(rig, "eventd.call, 'probe', 'x', '', 1e9", "49 days");
	expect_error(rig, "eventd.log, 'shout', 'x'", "invalid option 'shout'");
	expect_error(rig, "eventd.log", "string expected");
	expect_error(rig, "eventd.resolve, 1", "string expected");
	expect_error(rig, "eventd.reply, 1.5, 'x'", "no integer");
	expect_error(rig, "eventd.reply, {}", "a table cannot be a payload");
	assert_int_equal(rig->n_events, 0);
}

static void
test_limits_of_names_and_payloads(void **state)
{
	struct rig *rig = *state;

	assert_string_equal(
		eval(rig, "assert(eventd.post('probe', ('x'):rep(127), ''))\n"
			  "local big = ('y'):rep(1048576)\n"
			  "assert(eventd.post('probe', 'x', big))\n"
			  "return 'sent'"),
		"sent");
	assert_int_equal(rig->n_events, 2);
}

/* ---- replies ----------------------------------------------------------- */

static void
test_reply_counts_once(void **state)
{
	struct rig *rig = *state;

	assert_string_equal(eval(rig, "local a = eventd.reply('first')\n"
				      "local b = eventd.reply('second')\n"
				      "local s = tostring(a) .. tostring(b)\n"
				      "eventd.post('probe', 'x', s)\n"
				      "return 'third'"),
		"first");
	assert_string_equal(rig->data, "truefalse");
	assert_int_equal(rig->n_replies, 1);
}

static void
test_reply_error(void **state)
{
	struct rig *rig = *state;

	assert_string_equal(eval(rig, "eventd.reply_error('no such user')"),
		"no such user");
	assert_int_equal(rig->status, EVD_STATUS_HANDLER);
}

static void
test_reply_to_a_post_is_no_reply(void **state)
{
	struct rig *rig = *state;

	with(rig, "eventd.post('probe', 'x', tostring(eventd.reply('r')) ..\n"
		  "  tostring(eventd.defer()) .. tostring(ev.is_call))");
	rig_post(rig, "a", "x", "");
	rig_turn(rig);
	assert_string_equal(rig->data, "falsenilfalse");
	assert_int_equal(rig->n_replies, 0);
}

static void
test_deferred_reply(void **state)
{
	struct rig *rig = *state;

	rig_lua(rig, "a",
		"local tokens = {}\n"
		"return {\n"
		"  ask = function(d, ev)\n"
		"    assert(ev.is_call)\n"
		"    tokens[#tokens + 1] = eventd.defer()\n"
		"    assert(ev.is_call and not eventd.defer())\n"
		"    return 'ignored' end,\n"
		"  answer = function(d)\n"
		"    local t = table.remove(tokens, 1)\n"
		"    return tostring(eventd.reply(t, d))\n"
		"  end,\n"
		"  fail = function(d)\n"
		"    eventd.reply_error(table.remove(tokens, 1), d) end }");
	rig_call_later(rig, "a", "ask", "");
	rig_call_later(rig, "a", "ask", "");
	rig_turn(rig);
	assert_int_equal(rig->n_replies, 0);
	rig_post(rig, "a", "answer", "later");
	rig_turn(rig);
	assert_int_equal(rig->n_replies, 1);
	assert_string_equal(rig->reply, "later");
	rig_post(rig, "a", "fail", "sorry");
	rig_turn(rig);
	assert_string_equal(rig->reply, "sorry");
	assert_int_equal(rig->status, EVD_STATUS_HANDLER);
}

static void
test_nobody_elses_call_can_be_answered(void **state)
{
	struct rig *rig = *state;

	rig_lua(rig, "b", "return { x = function() eventd.defer() end }");
	rig_call_later(rig, "b", "x", "");
	rig_turn(rig);
	assert_string_equal(
		eval(rig, "local t = eventd.defer()\n"
			  "for d = -200, 200 do\n"
			  "  if d ~= 0 then\n"
			  "    local ok, word = eventd.reply(t + d, 'forged')\n"
			  "    assert(word == 'not-found')\n"
			  "  end end\n"
			  "eventd.reply(t, 'mine')\n"
			  "assert(select(2, eventd.reply(t, 'again')) == "
			  "'not-found')"),
		"mine");
	assert_int_equal(rig->n_replies, 1);
}

static void
test_deferred_calls_die_with_the_session(void **state)
{
	struct rig *rig = *state;
	struct session *s = with(rig, "eventd.defer()");

	rig_call_later(rig, "a", "x", "");
	rig_turn(rig);
	session_stop(s);
	rig_turn(rig);
	assert_int_equal(rig->n_replies, 1);
	assert_int_equal(rig->status, EVD_STATUS_DIED);
}

/* ---- itself ------------------------------------------------------------ */

static void
test_self_aliases_and_params(void **state)
{
	struct rig *rig = *state;
	struct session_spec *spec = rig_lua_spec(rig, "a",
		"return { x = function()\n"
		"  return table.concat({eventd.alias(),\n"
		"    table.concat(eventd.aliases(), ','),\n"
		"    eventd.params.color, tostring(eventd.params.none),\n"
		"    tostring(eventd.self() == eventd.resolve('a'))}, ' ')\n"
		"end }");

	spec_add_alias(spec, "second");
	spec_add_param(spec, "color", "blue");
	spec_add_param(spec, "color", "red");
	rig_start(rig, spec);
	rig_expect(rig, "a", "x", "", "a a,second red nil true");
}

static void
test_session_without_alias(void **state)
{
	struct rig *rig = *state;
	struct session_spec *spec = rig_lua_spec(rig, "a",
		"return { _start = function()\n"
		"  eventd.post('probe', 'x', tostring(eventd.alias()) ..\n"
		"    #eventd.aliases()) end }");

	free(spec->aliases[0]);
	spec->n_aliases = 0;
	rig_start(rig, spec);
	assert_string_equal(rig->data, "nil0");
}

static void
test_log_takes_any_text(void **state)
{
	assert_string_equal(
		eval(*state, "eventd.log('a \"quoted\" line\\n\\0\\27\\xff')\n"
			     "eventd.log('error', ('x'):rep(100000))\n"
			     "eventd.log('debug', '')\n"
			     "return 'ok'"),
		"ok");
}

int
main(void)
{
#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_post_by_alias_and_by_id),
		TEST(test_numbers_are_sent_as_lua_writes_them),
		TEST(test_refused_posts_tell_why),
		TEST(test_wrong_arguments_are_errors),
		TEST(test_limits_of_names_and_payloads),
		TEST(test_reply_counts_once),
		TEST(test_reply_error),
		TEST(test_reply_to_a_post_is_no_reply),
		TEST(test_deferred_reply),
		TEST(test_nobody_elses_call_can_be_answered),
		TEST(test_deferred_calls_die_with_the_session),
		TEST(test_self_aliases_and_params),
		TEST(test_session_without_alias),
		TEST(test_log_takes_any_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

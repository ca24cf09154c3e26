/* daemon/kind/lua_said.c, lua_memory.c and the plain way of lua_run.c: what is
 * kept at hand means what it did, whatever scripts do meanwhile. */
#include "rig.h"

static void
test_an_alias_follows_its_holder(void **state)
{
	struct rig *rig = *state;
	struct session *old;
	int i;

	rig_lua(rig, "a",
		"return { x = function(data)\n"
		"  local ok, word = eventd.post('b', 'e', data)\n"
		"  return word or 'ok' end }");
	old = rig_lua(rig, "b", "return { e = function() end }");
	for (i = 0; i < 3; i++)
		rig_expect(rig, "a", "x", "1", "ok");
	session_stop(old);
	rig_turn(rig);
	for (i = 0; i < 3; i++)
		rig_expect(rig, "a", "x", "2", "no-alias");
	rig_lua(rig, "b",
		"return { e = function(data)\n"
		"  eventd.post('probe', 'got', data) end }");
	rig_expect(rig, "a", "x", "3", "ok");
	rig_turn(rig);
	assert_string_equal(rig->data, "3");
}

/* Strings come and go, at the same addresses. */
static void
test_many_names_are_told_apart(void **state)
{
	struct rig *rig = *state;

	rig_lua(rig, "a",
		"local M, n = {}, 0\n"
		"for i = 1, 60 do M['e' .. i] = function(data)\n"
		"  assert(tonumber(data) == i) n = n + 1 end end\n"
		"M.go = function() for round = 1, 20 do\n"
		"  for i = 1, 60 do\n"
		"    assert(eventd.post('a' .. (i % 2 == 0 and '' or '/b'),\n"
		"      'e' .. i, i))\n"
		"    if i % 7 == 0 then collectgarbage() end\n"
		"  end end end\n"
		"M.n = function() return n end\n"
		"assert(eventd.bind 'a/b')\n"
		"return M");
	rig_call(rig, "a", "go", "");
	assert_int_equal(rig->status, 0);
	rig_turn(rig);
	rig_expect(rig, "a", "n", "", "1200");
}

static void
test_wrong_names_stay_wrong(void **state)
{
	struct rig *rig = *state;

	rig_lua(rig, "a",
		"return { x = function()\n"
		"  for i = 1, 4 do\n"
		"    assert(not pcall(eventd.post, 'a', 'bad name'))\n"
		"    assert(not pcall(eventd.post, 'a', {}))\n"
		"    assert(not pcall(eventd.post, {}, 'e'))\n"
		"    assert(not eventd.post('no such', 'e'))\n"
		"    assert(eventd.post('a', 7, 1))\n"
		"  end return 'ok' end, ['7'] = function() end }");
	rig_expect(rig, "a", "x", "", "ok");
}

/* A table of handlers may be changed, also while its events come plainly. */
static void
test_handlers_change_while_events_come(void **state)
{
	struct rig *rig = *state;

	rig_lua(rig, "a",
		"local M = {}\n"
		"local function say(word) return function(data)\n"
		"  eventd.post('probe', 'said', word .. data) end end\n"
		"M.e = say 'one'\n"
		"M.two = function() M.e = say 'two' end\n"
		"M.none = function() M.e = nil end\n"
		"M.meta = function() setmetatable(M, {__index=function(t, k)\n"
		"  return k == 'e' and say 'meta' or nil end}) end\n"
		"M._default = say 'default'\n"
		"return M");
	for (int i = 0; i < 2; i++)
		rig_post(rig, "a", "e", "1");
	rig_post(rig, "a", "two", "");
	for (int i = 0; i < 2; i++)
		rig_post(rig, "a", "e", "2");
	rig_post(rig, "a", "none", "");
	for (int i = 0; i < 2; i++)
		rig_post(rig, "a", "e", "3");
	rig_post(rig, "a", "meta", "");
	for (int i = 0; i < 2; i++)
		rig_post(rig, "a", "e", "4");
	rig_turn(rig);
	assert_string_equal(
		rig->all, "one1 one1 two2 two2 default3 default3 meta4 meta4 ");
}

static void
test_a_plain_handler_may_wait_and_fail(void **state)
{
	struct rig *rig = *state;
	struct session *a = rig_lua(rig, "a",
		"return { e = function(data, ev)\n"
		"  local r = eventd.call('probe', 'hold', data)\n"
		"  eventd.post('probe', 'said', r .. ev.event .. #data)\n"
		"  if r == 'no' then error 'as told' end end }");

	for (int i = 0; i < 3; i++) {
		rig_post(rig, "a", "e", i == 1 ? "" : "long");
		rig_turn(rig);
		rig_answer(rig, 0, i == 2 ? "no" : "yes");
		assert_string_equal(rig->data, i == 0   ? "yese4"
					       : i == 1 ? "yese0"
							: "noe4");
	}
	rig_expect_failed(a, "as told");
	rig_expect_failed(a, "event e (id ");
}

/* What the short way carries is what the long one does; a receiver that does
 * not take it at once has its say, too. */
static void
test_said_posts_carry_what_they_are_given(void **state)
{
	struct rig *rig = *state;
	struct session_spec *spec =
		rig_lua_spec(rig, "b", "return { keep = function() end }");
	struct session *b;

	spec->max_events = 8;
	b = rig_start(rig, spec);
	rig_lua(rig, "a",
		"local post = eventd.post\n"
		"return { x = function(data)\n"
		"  for i = 1, 3 do post('probe', 'got', 'warm') end\n"
		"  for _, v in ipairs{0, -7, 10, 99, 100, 1000, 4294967295,\n"
		"    4294967296, -1234567,\n"
		"    math.maxinteger, math.mininteger, 1.5,\n"
		"    ('z'):rep(100)} do\n"
		"    assert(post('probe', 'got', v)) end\n"
		"  assert(post('probe', 'got', nil))\n"
		"  assert(not pcall(post, 'probe', 'got', {}))\n"
		"  local long = ('z'):rep(1 << 21)\n"
		"  assert(not pcall(post, 'probe', 'got', long))\n"
		"  local n, word = 0\n"
		"  for i = 1, 12 do\n"
		"    local ok, w = post('b', 'keep', i)\n"
		"    if ok then n = n + 1 else word = w end end\n"
		"  return n .. word end }");
	rig_expect(rig, "a", "x", "", "8full");
	assert_string_equal(rig->event, "got");
	assert_non_null(strstr(rig->all,
		"warm warm warm 0 -7 10 99 100 1000 4294967295 4294967296 "
		"-1234567 9223372036854775807 -9223372036854775808 1.5 zzzz"));
	assert_int_equal(b->handled, 8);
	assert_int_equal(b->accepted, 8);
}

/* Up to the last byte, whatever the payload, and counted exactly. */
static void
test_memory_is_limited_plainly(void **state)
{
	struct rig *rig = *state;
	struct session_spec *spec = rig_lua_spec(rig, "a",
		"local kept = {}\n"
		"return { e = function(data) kept[#kept + 1] = data end }");
	struct session *a;
	char text[16];

	spec->memory_max = 100 << 10;
	a = rig_start(rig, spec);
	for (int i = 0; a->life == SESSION_UP; i++) {
		assert_true(i < 20000);
		snprintf(text, sizeof(text), "%d", i);
		rig_post(rig, "a", "e", text);
		rig_turn(rig);
		assert_true(a->life != SESSION_UP ||
			    kind_lua.memory(a) < (104 << 10) + 4096);
	}
	rig_expect_failed(a, "not enough memory");
}

int
main(void)
{
#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_an_alias_follows_its_holder),
		TEST(test_many_names_are_told_apart),
		TEST(test_wrong_names_stay_wrong),
		TEST(test_handlers_change_while_events_come),
		TEST(test_a_plain_handler_may_wait_and_fail),
		TEST(test_said_posts_carry_what_they_are_given),
		TEST(test_memory_is_limited_plainly),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

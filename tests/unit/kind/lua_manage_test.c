/* daemon/kind/lua_manage.c and what it stands on: mailboxes, dead letters and
 * profiles as scripts manage them. */
#include "rig.h"

#include "kernel/queue.h"
#include "stats/profile.h"

/* Evaluates what it is sent, which may wait; `boom` fails. */
static const char talker[] =
	"return { x = function(data)\n"
	"    local t = table.pack(assert(load('return ' .. data))())\n"
	"    for i = 1, t.n do t[i] = tostring(t[i]) end\n"
	"    return table.concat(t, ' ') end,\n"
	"  kid = function()\n"
	"    return eventd.spawn{script = 'kid.lua', alias = 'kid'} end,\n"
	"  _child = function() end }";

static const char kid[] =
	"return { x = function(data)\n"
	"    return tostring(load('return ' .. data)()) end,\n"
	"  note = function() end }";

static struct session *
start(struct rig *rig, const char *alias, bool others)
{
	struct session_spec *spec = rig_lua_spec(rig, alias, talker);

	spec->manage_others = others;
	return rig_start(rig, spec);
}

static void
start_kid(struct rig *rig, const char *parent)
{
	rig_write(rig, "kid.lua", kid, sizeof(kid) - 1);
	rig_call(rig, parent, "kid", "");
	assert_int_equal(rig->status, 0);
}

static void
post_many(struct rig *rig, const char *alias, const char *event, int n)
{
	char text[16];

	for (int i = 0; i < n; i++) {
		snprintf(text, sizeof(text), "%d", i);
		rig_post(rig, alias, event, text);
	}
}

static void
test_a_child_is_paused_and_peeked_at(void **state)
{
	struct rig *rig = *state;

	start(rig, "a", false);
	start_kid(rig, "a");
	rig_expect(rig, "a", "x", "eventd.queue.pause 'kid'", "true");
	post_many(rig, "kid", "note", 5);
	rig_turn(rig);
	rig_expect(rig, "a", "x",
		"(function() local l, next = eventd.queue.peek('kid',\n"
		"{limit = 3, bytes = 9})\n"
		"return #l, next, l[1].event, l[2].data, l[3].position,\n"
		"l[1].size, l[1].is_call, l[1].priority, l[1].attempt end)()",
		"3 3 note 1 2 1 false normal 1");
	rig_expect(rig, "a", "x",
		"(function() local l, next = eventd.queue.peek('kid',\n"
		"{after = 3}) return #l, next, l[2].data == '' end)()",
		"2 nil true");
	rig_expect(rig, "a", "x",
		"(function() local l = eventd.queue.peek 'kid'\n"
		"m = eventd.queue.peek('kid', {id = l[4].id, bytes = 9})\n"
		"return #m, m[1].data end)()",
		"1 3");
	rig_expect(rig, "a", "x",
		"(select(2, eventd.queue.peek('kid', {id = 7})))", "not-found");
	rig_expect(rig, "a", "x", "eventd.queue.resume 'kid'", "true");
	rig_expect(rig, "a", "x", "#eventd.queue.peek 'kid'", "0");
}

static void
test_purge_ends_what_waits(void **state)
{
	struct rig *rig = *state;

	start(rig, "a", false);
	start_kid(rig, "a");
	rig_expect(rig, "a", "x", "eventd.queue.pause 'kid'", "true");
	post_many(rig, "kid", "note", 3);
	post_many(rig, "kid", "other", 2);
	rig_expect(rig, "a", "x", "eventd.queue.purge('kid', 'other')", "2");
	rig_expect(rig, "a", "x", "eventd.queue.purge 'kid'", "3");
	assert_int_equal(rig->s.counters.cancelled, 5);
	/* itself: what came behind the call */
	rig_call_later(rig, "a", "x", "eventd.queue.purge()");
	post_many(rig, "a", "x", 2);
	rig_turn(rig);
	assert_string_equal(rig->reply, "2");
}

static void
test_move_takes_what_fits(void **state)
{
	struct rig *rig = *state;
	struct session_spec *spec = rig_lua_spec(rig, "b", talker);

	start(rig, "a", false);
	start_kid(rig, "a");
	spec->max_events = 3;
	queue_pause(rig_start(rig, spec));
	rig_expect(rig, "a", "x", "eventd.queue.pause 'kid'", "true");
	post_many(rig, "kid", "note", 5);
	rig_expect(rig, "a", "x", "eventd.queue.move('kid', 'b', 2)", "2");
	rig_call(rig, "a", "x", "eventd.queue.move('kid', 'b')");
	assert_non_null(strstr(rig->reply, "1 2 full "));
	rig_expect(rig, "a", "x", "(select(2, eventd.queue.move('kid', 'no')))",
		"no-alias");
	rig_expect(rig, "a", "x",
		"(select(2, eventd.queue.move('kid', 'kid')))", "invalid");
	assert_int_equal(rig->s.queued, 5);
}

static void
test_others_are_managed_by_leave_alone(void **state)
{
	struct rig *rig = *state;

	start(rig, "a", false);
	start(rig, "boss", true);
	rig_lua(rig, "b", kid);
	rig_call(rig, "a", "x", "eventd.queue.pause 'b'");
	assert_non_null(strstr(rig->reply, "nil denied "));
	assert_non_null(strstr(rig->reply, "ManageOthers=yes"));
	rig_expect(
		rig, "a", "x", "(select(2, eventd.queue.peek 'b'))", "denied");
	rig_expect(rig, "a", "x", "(select(2, eventd.profile 'b'))", "denied");
	rig_expect(rig, "a", "x", "(select(2, eventd.dead.list{all = true}))",
		"denied");
	rig_expect(rig, "a", "x", "(select(2, eventd.queue.pause 'nobody'))",
		"no-alias");
	rig_expect(rig, "boss", "x", "eventd.queue.pause 'b'", "true");
	rig_expect(rig, "boss", "x", "#eventd.dead.list{all = true}", "0");
	rig_expect(rig, "boss", "x", "(select(2, eventd.queue.pause(77)))",
		"no-alias");
}

/* Only what is its own: not the letter without an alias. */
static void
test_letters_are_listed_and_shown(void **state)
{
	struct rig *rig = *state;

	start(rig, "a", false);
	start(rig, "boss", true);
	post_many(rig, "a", "unknown", 3);
	rig_turn(rig);
	rig_expect(rig, "a", "x", "(select(2, eventd.post('no', 'e')))",
		"no-alias");
	rig_expect(rig, "a", "x",
		"(function() local l, next = eventd.dead.list{limit = 2}\n"
		"local m = eventd.dead.list{after = next, bytes = 1}\n"
		"return #l, l[1].reason, l[1].event, l[1].alias, l[1].error,\n"
		"l[1].data == '', #m, m[1].data, l[1].time > 0 end)()",
		"2 unhandled unknown a handler-error true 1 2 true");
	rig_expect(rig, "a", "x",
		"(function() local l = eventd.dead.list()\n"
		"return eventd.dead.show(l[2].id).data end)()",
		"1");
	rig_expect(rig, "a", "x", "(select(2, eventd.dead.show(640)))",
		"not-found");
	rig_expect(rig, "boss", "x",
		"(function() local l = eventd.dead.list{all = true,\n"
		"alias = 'no', reason = 'no-alias'}\n"
		"return #l, l[1].event, l[1].session end)()",
		"1 e nil");
	rig_expect(rig, "boss", "x", "#eventd.dead.list{of = 'a'}", "3");
	rig_expect(rig, "boss", "x",
		"(function() local l = eventd.dead.list{of = 'a'}\n"
		"return (select(2, eventd.dead.show(l[1].id))) end)()",
		"not-found");
}

/* What dies again meanwhile is not taken again. */
static void
test_letters_are_posted_again(void **state)
{
	struct rig *rig = *state;

	start(rig, "a", false);
	rig_lua(rig, "b", kid);
	post_many(rig, "a", "note", 250);
	rig_turn(rig);
	rig_expect(rig, "a", "x", "eventd.dead.requeue()", "250");
	rig_turn(rig);
	rig_expect(rig, "a", "x", "#eventd.dead.list{limit = 999}", "250");
	rig_expect(rig, "a", "x",
		"(function() local l = eventd.dead.list()\n"
		"return eventd.dead.requeue({l[1].id, l[2].id, 5},\n"
		"{to = 'b'}) end)()",
		"2 1 not-found no dead letter 5 of it: it was posted again, "
		"forgotten, or never was");
	rig_expect(rig, "a", "x",
		"eventd.dead.requeue(nil, {to = 'no',\n"
		"reason = 'died'})",
		"0");
	rig_call(rig, "a", "x", "eventd.dead.requeue(nil, {to = 'no'})");
	assert_non_null(strstr(rig->reply, "0 248 no-alias "));
	rig_expect(rig, "a", "x",
		"eventd.dead.purge(nil, {reason = "
		"'unhandled'})",
		"248");
	rig_expect(rig, "a", "x", "#eventd.dead.list()", "0");
}

static void
test_wrong_arguments_are_errors(void **state)
{
	static const char *const wrong[] = {
		"eventd.queue.pause(true)",
		"eventd.queue.peek(nil, 1)",
		"eventd.queue.peek(nil, {after = -1})",
		"eventd.queue.peek(nil, {limit = 'x'})",
		"eventd.queue.move(nil, nil)",
		"eventd.queue.move(nil, 'b', -1)",
		"eventd.dead.list{reason = 'no'}",
		"eventd.dead.list{of = 'nobody'}",
		"eventd.dead.show()",
		"eventd.dead.requeue({})",
		"eventd.dead.requeue('x')",
		"eventd.dead.purge({1, 'x'})",
		"eventd.dead.requeue(nil, {to = 1})",
	};
	struct rig *rig = *state;
	char text[128];

	start(rig, "a", false);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		snprintf(text, sizeof(text),
			"(pcall(function() return %s end))", wrong[i]);
		rig_expect(rig, "a", "x", text, "false");
	}
	rig_expect(rig, "a", "x", "(select(2, eventd.queue.purge(nil, 'a b')))",
		"invalid");
	rig_expect(rig, "a", "x", "(select(2, eventd.queue.move(nil, 'a b')))",
		"invalid");
}

static void
test_the_profile_tells_of_stop_too(void **state)
{
	struct rig *rig = *state;
	struct session *a;
	struct session_spec *spec;

	rig->k.scheds[0] = &rig->s;
	a = start(rig, "a", false);
	rig_expect(rig, "a", "x", "(select(2, eventd.profile()))", "false");
	rig_expect(rig, "a", "x", "(select(2, eventd.profile(nil, true)))",
		"true");
	rig_expect(rig, "a", "x",
		"(function() for _, row in ipairs(eventd.profile()) do\n"
		"if row.event == 'x' then return row.calls, row.own >= 0,\n"
		"row.timers end end end)()",
		"1 true 0");
	spec = spec_ref(a->spec);
	session_restart(a, spec);
	spec_unref(spec);
	rig_turn(rig);
	rig_expect(rig, "a", "x",
		"(function() for _, row in ipairs(eventd.profile()) do\n"
		"if row.event == '_stop' then return row.calls end end end)()",
		"1");
	profile_set_all(&rig->s, true);
	rig_expect(rig, "a", "x", "(select(2, eventd.profile(nil, false)))",
		"invalid");
}

/* Its answer is late, and nobody's. */
static void
test_who_asked_may_be_gone(void **state)
{
	struct rig *rig = *state;
	struct session *a = start(rig, "a", false);

	rig_call_later(rig, "a", "x", "eventd.queue.move(nil, 'probe')");
	post_many(rig, "a", "note", 3);
	sched_turn(&rig->s);
	session_stop(a);
	rig_turn(rig);
	assert_int_equal(rig->s.n_runnable, 0);
}

int
main(void)
{
#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_a_child_is_paused_and_peeked_at),
		TEST(test_purge_ends_what_waits),
		TEST(test_move_takes_what_fits),
		TEST(test_others_are_managed_by_leave_alone),
		TEST(test_letters_are_listed_and_shown),
		TEST(test_letters_are_posted_again),
		TEST(test_wrong_arguments_are_errors),
		TEST(test_the_profile_tells_of_stop_too),
		TEST(test_who_asked_may_be_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

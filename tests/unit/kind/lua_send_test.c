/* What scripts send and how they receive it beside the plain way. */
#include "rig.h"

static void
call(struct rig *rig, const char *alias, const char *event)
{
	rig_expect(rig, alias, event, "", "ok");
}

static void
test_yield_posts_to_oneself_behind_what_is_queued(void **state)
{
	struct rig *rig = *state;

	rig_lua(rig, "a",
		"local M, log = {}, ''\n"
		"function M.go() assert(eventd.yield('later', 'x')) end\n"
		"function M.later(d, ev)\n"
		"  log = log .. 'later' .. d .. (ev.from == eventd.self() and "
		"'!' or '?') end\n"
		"function M.other() log = log .. 'other ' end\n"
		"function M.log() return log end\n"
		"return M");
	rig_post(rig, "a", "go", "");
	rig_post(rig, "a", "other", "");
	rig_turn(rig);
	rig_expect(rig, "a", "log", "", "other laterx!");
}

static void
test_options_are_carried(void **state)
{
	struct rig *rig = *state;

	rig_lua(rig, "b",
		"local M, log = {}, ''\n"
		"function M.e(d, ev)\n"
		"  log = log .. d .. ev.priority .. (ev.headers.trace or '-') "
		".. ' ' end\n"
		"function M.slow() eventd.sleep(1) end\n"
		"function M.log() return log end\n"
		"return M");
	rig_lua(rig, "a",
		"local M = {}\n"
		"function M.go()\n"
		"  assert(eventd.post('b', 'slow'))\n"
		"  assert(eventd.post('b', 'e', 1))\n"
		"  assert(eventd.post('b', 'e', 2, {ttl = 0.5}))\n"
		"  assert(eventd.post('b', 'e', 3, {ttl = 5, key = 'k',\n"
		"    headers = {trace = 'abc', n = 7}}))\n"
		"  assert(eventd.post('b', 'e', 4, {key = 'k'}))\n"
		"  assert(eventd.post('b', 'e', 5, {priority = 'urgent'}))\n"
		"  return 'ok'\n"
		"end\n"
		"return M");
	call(rig, "a", "go");
	rig_advance(rig, 1100);
	rig_expect(rig, "b", "log", "", "5urgent- 1normal- 3normalabc ");
}

static void
test_wrong_options_are_errors(void **state)
{
	struct rig *rig = *state;

	rig_lua(rig, "a",
		"local M = {}\n"
		"local function bad(o, what)\n"
		"  local ok, e = pcall(eventd.post, 'probe', 'e', '', o)\n"
		"  assert(not ok and e:find(what, 1, true), e)\n"
		"end\n"
		"function M.go()\n"
		"  bad({colour = 1}, \"no option 'colour'\")\n"
		"  bad({timeout = 1}, \"no option 'timeout'\")\n"
		"  bad({reply = 'e'}, \"no option 'reply'\")\n"
		"  bad({wait = 'stored'}, 'durable')\n"
		"  bad({wait = 3}, 'durable')\n"
		"  bad({durable = 1}, 'true or false')\n"
		"  bad({trace = 'yes'}, 'true or false')\n"
		"  bad({trace = true, wait = 'handled', reply = 'e'}, "
		"\"'trace' here with 'reply'\")\n"
		"  bad({priority = 'high'}, 'urgent')\n"
		"  bad({ttl = 0}, 'more than 0')\n"
		"  bad({key = ''}, '1 to 64')\n"
		"  bad({key = ('k'):rep(65)}, '1 to 64')\n"
		"  bad({headers = 3}, 'NAME = VALUE')\n"
		"  bad({headers = {['a b'] = 1}}, \"not a header's name\")\n"
		"  bad({headers = {a = {}}}, 'table')\n"
		"  bad({headers = {a = ('x'):rep(16384)}}, '16384')\n"
		"  bad(7, 'table')\n"
		"  return 'ok'\n"
		"end\n"
		"return M");
	call(rig, "a", "go");
	assert_int_equal(rig->n_events, 0);
}

/* B26 */
static void
test_a_nested_call_has_what_is_left(void **state)
{
	struct rig *rig = *state;
	struct msg *m;

	rig_lua(rig, "a",
		"local M, word = {}, ''\n"
		"function M.go(_, ev)\n"
		"  assert(ev.deadline > 0.9 and ev.deadline <= 1)\n"
		"  local _, w = eventd.call('probe', 'hold', '', 60)\n"
		"  word = w\n"
		"end\n"
		"function M.word(_, ev) return word end\n"
		"return M");
	m = rig_msg(rig, "a", "go", "", 0);
	assert_int_equal(session_call(rig->probe, m, 1, 1000, NULL), 0);
	rig_turn(rig);
	assert_true(rig->held != 0);
	rig_advance(rig, 1100);
	assert_int_equal(rig->status, EVD_STATUS_TIMEOUT);
	rig_expect(rig, "a", "word", "", "timeout");
}

/* What eventd.post() says with the option `wait`, and when. */
static const char poster[] =
	"local M, log = {}, ''\n"
	"local function say(level, ...)\n"
	"  log = log .. level .. '=' .. tostring((...))\n"
	"  if (...) == nil then log = log .. ':' .. select(2, ...) end\n"
	"  log = log .. ' '\n"
	"end\n"
	"function M.go(level)\n"
	"  say(level, eventd.post('b', 'e', '', {wait = level}))\n"
	"end\n"
	"function M.brief(level)\n"
	"  say(level, eventd.post('b', 'e', '', {wait = level,\n"
	"    timeout = 0.1}))\n"
	"end\n"
	"function M.nobody()\n"
	"  say('nobody', eventd.post('none', 'e', '', {wait = 'handled'}))\n"
	"end\n"
	"function M.self()\n"
	"  assert(eventd.post('a', 'note', '', {wait = 'accepted'}))\n"
	"  local ok, e = pcall(eventd.post, 'a', 'note', '',\n"
	"    {wait = 'handled'})\n"
	"  say('self', not ok and e:find('for ever') and true)\n"
	"end\n"
	"function M.note() log = log .. 'note ' end\n"
	"function M.later(level)\n"
	"  number = eventd.post('b', 'e', '', {wait = level, reply = 'told'})\n"
	"end\n"
	"function M.told(text, ev)\n"
	"  assert(ev.call == number)\n"
	"  say('told', not ev.error or nil, ev.error)\n"
	"end\n"
	"function M.cancel() say('cancel', eventd.cancel_call(number)) end\n"
	"function M.log() local l = log log = '' return l end\n"
	"return M";

static void
begin_levels(struct rig *rig)
{
	struct session_spec *spec = rig_lua_spec(rig, "b",
		"return {e = function() eventd.sleep(1) end,\n"
		"  fail = function() error('it fails') end}");

	rig_lua(rig, "a", poster);
	spec->max_events = 2;
	rig_start(rig, spec);
}

static void
test_a_post_waits_for_its_level(void **state)
{
	struct rig *rig = *state;

	begin_levels(rig);
	rig_post(rig, "a", "go", "accepted");
	rig_post(rig, "a", "go", "delivered");
	rig_turn(rig);
	rig_advance(rig, 500); /* the first is handled for a second */
	assert_int_equal(rig->s.calls.n, 2); /* a sleep and a wait */
	rig_advance(rig, 600);
	rig_expect(rig, "a", "log", "", "accepted=true delivered=true ");
	rig_advance(rig, 1100);
	rig_post(rig, "a", "go", "handled");
	rig_turn(rig);
	rig_advance(rig, 950);
	assert_int_equal(rig->s.calls.n, 2);
	rig_advance(rig, 1100);
	rig_expect(rig, "a", "log", "", "handled=true ");
	assert_int_equal(rig->s.calls.n, 0);
}

static void
test_a_post_that_is_waited_for_may_fail(void **state)
{
	struct rig *rig = *state;

	begin_levels(rig);
	rig_post(rig, "a", "go", "durable");
	rig_post(rig, "a", "nobody", "");
	rig_turn(rig);
	rig_expect(rig, "a", "log", "",
		"durable=nil:unsupported nobody=nil:no-alias ");
	rig_post(rig, "b", "e", "");
	rig_turn(rig);
	rig_post(rig, "a", "brief", "delivered"); /* it waits in the mailbox */
	rig_turn(rig);
	rig_advance(rig, 110);
	rig_expect(rig, "a", "log", "", "delivered=nil:timeout ");
	rig_post(rig, "b", "e", "");
	rig_post(rig, "a", "go", "accepted");
	rig_turn(rig);
	rig_expect(rig, "a", "log", "", "accepted=nil:full ");
	for (int i = 0; i < 4; i++) /* its end finds nobody who waits */
		rig_advance(rig, 1100);
	assert_int_equal(rig->s.calls.n, 0);
	rig_expect(rig, "a", "self", "", "");
	rig_expect(rig, "a", "log", "", "self=true note ");
}

static void
test_a_post_tells_that_its_session_died(void **state)
{
	struct rig *rig = *state;

	rig_lua(rig, "a", poster);
	rig_lua(rig, "b", "return {e = function() error('it fails') end}");
	rig_post(rig, "a", "go", "handled");
	rig_turn(rig);
	rig_expect(rig, "a", "log", "", "handled=nil:died ");
	rig_post(rig, "a", "go", "delivered");
	rig_turn(rig);
	rig_expect(rig, "a", "log", "", "delivered=nil:failed ");
}

static void
test_a_level_may_be_told_by_an_event(void **state)
{
	struct rig *rig = *state;

	begin_levels(rig);
	rig_post(rig, "a", "later", "handled");
	rig_turn(rig);
	rig_expect(rig, "a", "log", "", "");
	rig_advance(rig, 1100);
	rig_expect(rig, "a", "log", "", "told=true ");
	rig_expect(rig, "a", "cancel", "", "");
	rig_post(rig, "a", "later", "durable");
	rig_turn(rig);
	rig_expect(rig, "a", "log", "", "cancel=false told=nil:unsupported ");
	rig_post(rig, "a", "later", "handled");
	rig_post(rig, "a", "cancel", "");
	rig_turn(rig);
	rig_advance(rig, 1100);
	rig_expect(rig, "a", "log", "", "cancel=true ");
	assert_int_equal(rig->s.calls.n, 0);
}

static void
test_an_answer_may_come_as_an_event(void **state)
{
	struct rig *rig = *state;

	rig_lua(rig, "a",
		"local M, log, id = {}, ''\n"
		"function M.go()\n"
		"  id = eventd.call('probe', 'echo', 'hi', {reply = 'got'})\n"
		"  assert(math.type(id) == 'integer')\n"
		"  assert(eventd.call('probe', 'hold', '', {reply = 'got',\n"
		"    timeout = 1}))\n"
		"end\n"
		"function M.got(d, ev)\n"
		"  log = log .. (ev.error or d) .. (ev.call == id and '!' or "
		"'?')\n"
		"end\n"
		"function M.log() return log end\n"
		"return M");
	rig_post(rig, "a", "go", "");
	rig_turn(rig);
	rig_expect(rig, "a", "log", "", "hi!");
	rig_advance(rig, 1100);
	rig_expect(rig, "a", "log", "", "hi!timeout?");
}

static void
test_a_call_under_way_can_be_cancelled(void **state)
{
	struct rig *rig = *state;

	rig_lua(rig, "b",
		"local M, t, log = {}, nil, ''\n"
		"function M.ask() t = eventd.defer() end\n"
		"function M._cancelled(call, ev)\n"
		"  log = log .. (call == t and 'cancelled' or 'what?')\n"
		"  assert(eventd.reply(call, 'x') == nil)\n"
		"end\n"
		"function M._default(d, ev) log = log .. ev.event end\n"
		"function M.log() return log end\n"
		"return M");
	rig_lua(rig, "a",
		"local M, id = {}\n"
		"function M.go() id = eventd.call('b', 'ask', '',\n"
		"  {reply = 'got'}) end\n"
		"function M.got() error('it was cancelled') end\n"
		"function M.cancel()\n"
		"  assert(eventd.cancel_call(id) == true)\n"
		"  assert(eventd.cancel_call(id) == false)\n"
		"  return 'ok'\n"
		"end\n"
		"return M");
	rig_post(rig, "a", "go", "");
	rig_turn(rig);
	call(rig, "a", "cancel");
	rig_expect(rig, "b", "log", "", "cancelled");
	rig_post(rig, "b", "_cancelled", "9"); /* is not the kernel's */
	rig_turn(rig);
	rig_expect(rig, "b", "log", "", "cancelled_cancelled");
}

static void
test_a_forwarded_call_is_answered_by_the_next(void **state)
{
	struct rig *rig = *state;

	rig_lua(rig, "a",
		"local M, t = {}\n"
		"function M.echo() assert(eventd.forward('probe')) end\n"
		"function M.other()\n"
		"  assert(eventd.forward('probe', 'echo', 'changed'))\n"
		"  return 'not this'\n"
		"end\n"
		"function M.nobody()\n"
		"  local r, w = eventd.forward('nobody')\n"
		"  return w\n"
		"end\n"
		"function M.later() t = eventd.defer() end\n"
		"function M.now()\n"
		"  assert(eventd.forward('probe', 'echo', 'late',\n"
		"    {call = t}))\n"
		"  assert(not pcall(eventd.forward, 'probe', 'e', '',\n"
		"    {call = t}))\n"
		"end\n"
		"return M");
	rig_expect(rig, "a", "echo", "hello", "hello");
	rig_expect(rig, "a", "other", "hello", "changed");
	rig_expect(rig, "a", "nobody", "", "no-alias");
	rig_call_later(rig, "a", "later", "");
	rig_turn(rig);
	rig_post(rig, "a", "now", "");
	rig_turn(rig);
	assert_string_equal(rig->reply, "late");
	assert_int_equal(rig->k.late_replies, 0);
}

static void
test_a_forwarded_event_keeps_its_headers(void **state)
{
	struct rig *rig = *state;

	rig_lua(rig, "c",
		"return {e = function(d, ev)\n"
		"  eventd.post('probe', 'got', d .. ev.headers.h) end}");
	rig_lua(rig, "b", "return {e = function() eventd.forward('c') end}");
	rig_lua(rig, "a",
		"return {go = function() eventd.post('b', 'e', 'data',\n"
		"  {headers = {h = '!'}}) end}");
	rig_post(rig, "a", "go", "");
	rig_turn(rig);
	assert_string_equal(rig->data, "data!");
}

static void
test_gather_asks_many(void **state)
{
	struct rig *rig = *state;
	static const char script[] =
		"local M = {}\n"
		"function M.ask(d)\n"
		"  if d == 'fail' then eventd.reply_error('no') return end\n"
		"  eventd.sleep(tonumber(eventd.alias()))\n"
		"  return eventd.alias() .. d\n"
		"end\n"
		"return M";
	static const char *const names[] = {"1", "2", "3"};

	for (size_t i = 0; i < 3; i++)
		rig_lua(rig, names[i], script);
	rig_lua(rig, "a",
		"local M, out = {}, ''\n"
		"local function tell(list, good)\n"
		"  out = good .. ':'\n"
		"  for _, r in ipairs(list) do\n"
		"    out = out .. ' ' .. r.alias .. '=' ..\n"
		"      (r.reply or r.error)\n"
		"  end\n"
		"end\n"
		"function M.all() tell(eventd.gather({'1', '2', '3', 'no'},\n"
		"  'ask', '!')) end\n"
		"function M.two() tell(eventd.gather({'3', '2', '1'}, 'ask',\n"
		"  '?', {n = 2})) end\n"
		"function M.late() tell(eventd.gather({'1', '2', '3'}, 'ask',\n"
		"  '', {timeout = 1.5})) end\n"
		"function M.none() tell(eventd.gather({'x', 'y'}, 'ask')) end\n"
		"function M.fail()\n"
		"  tell(eventd.gather({'1'}, 'ask', 'fail')) end\n"
		"function M.out() return out end\n"
		"return M");
	rig_post(rig, "a", "all", "");
	rig_turn(rig);
	rig_advance(rig, 3100);
	rig_expect(rig, "a", "out", "", "3: 1=1! 2=2! 3=3! no=no-alias");
	rig_post(rig, "a", "two", "");
	rig_turn(rig);
	rig_advance(rig, 2100);
	rig_expect(rig, "a", "out", "", "2: 3=cancelled 2=2? 1=1?");
	rig_advance(rig, 2100);
	rig_post(rig, "a", "late", "");
	rig_turn(rig);
	rig_advance(rig, 1100);
	rig_advance(rig, 500);
	rig_expect(rig, "a", "out", "", "1: 1=1 2=timeout 3=timeout");
	rig_advance(rig, 3000);
	rig_post(rig, "a", "none", "");
	rig_turn(rig);
	rig_expect(rig, "a", "out", "", "0: x=no-alias y=no-alias");
	rig_post(rig, "a", "fail", "");
	rig_turn(rig);
	rig_expect(rig, "a", "out", "", "0: 1=handler-error");
}

static void
test_gather_takes_a_list(void **state)
{
	struct rig *rig = *state;

	rig_lua(rig, "a",
		"return {go = function()\n"
		"  assert(not pcall(eventd.gather, {}, 'e'))\n"
		"  assert(not pcall(eventd.gather, {true}, 'e'))\n"
		"  assert(not pcall(eventd.gather, 'b', 'e'))\n"
		"  assert(not pcall(eventd.gather, {'b'}, 'e', '', {n = 0}))\n"
		"  local many = {}\n"
		"  for i = 1, 1025 do many[i] = 'probe' end\n"
		"  assert(not pcall(eventd.gather, many, 'e'))\n"
		"  return 'ok'\n"
		"end}");
	call(rig, "a", "go");
}

/* All that it was asked for ends with it. */
static void
test_a_session_may_end_while_it_gathers(void **state)
{
	struct rig *rig = *state;
	struct session *a = rig_lua(rig, "a",
		"return {go = function()\n"
		"  eventd.call('probe', 'hold', '', {reply = 'got'})\n"
		"  eventd.gather({'probe', 'probe'}, 'hold')\n"
		"end}");

	rig_post(rig, "a", "go", "");
	rig_turn(rig);
	session_stop(a);
	rig_turn(rig);
	sched_reply(&rig->s, rig->held, 0, "x", 1);
	rig_turn(rig);
	assert_int_equal(rig->k.late_replies, 1);
}

/* ---- states ------------------------------------------------------------ */

static void
test_a_state_goes_before_the_main_table(void **state)
{
	struct rig *rig = *state;

	rig_lua(rig, "a",
		"local M = {states = {}}\n"
		"M.states.idle = {\n"
		"  work = function(d) eventd.become('busy') return 'started' "
		"end,\n"
		"}\n"
		"M.states.busy = {\n"
		"  work = function() eventd.reply_error('busy') end,\n"
		"  done = 'idle',\n"
		"  reset = {function() return 'was ' .. eventd.state() end, "
		"'idle'},\n"
		"  _default = function(d, ev)\n"
		"    return 'busy? ' .. ev.event end,\n"
		"}\n"
		"function M._start() eventd.become('idle') end\n"
		"function M.state() return eventd.state() or 'none' end\n"
		"function M.none() eventd.become() return 'ok' end\n"
		"function M._default() return 'main' end\n"
		"return M");
	rig_expect(rig, "a", "state", "", "idle");
	rig_expect(rig, "a", "other", "", "main");
	rig_expect(rig, "a", "work", "", "started");
	assert_string_equal(rig_call(rig, "a", "work", ""), "busy");
	rig_expect(rig, "a", "other", "", "busy? other");
	rig_expect(rig, "a", "state", "", "busy");
	rig_expect(rig, "a", "done", "", "");
	rig_expect(rig, "a", "state", "", "idle");
	rig_expect(rig, "a", "work", "", "started");
	rig_expect(rig, "a", "reset", "", "was idle");
	call(rig, "a", "none");
	rig_expect(rig, "a", "state", "", "none");
	rig_expect(rig, "a", "work", "", "main");
}

static void
test_a_state_may_be_any_table(void **state)
{
	struct rig *rig = *state;

	rig_lua(rig, "a",
		"local M = {}\n"
		"function M.go()\n"
		"  eventd.become{x = function() return 'x' end}\n"
		"  assert(eventd.state() == nil)\n"
		"  assert(not pcall(eventd.become, 'nosuch'))\n"
		"  assert(not pcall(eventd.become, 7))\n"
		"  return 'ok'\n"
		"end\n"
		"return M");
	call(rig, "a", "go");
	rig_expect(rig, "a", "x", "", "x");
}

static void
test_a_wrong_entry_is_the_sessions_failure(void **state)
{
	struct rig *rig = *state;
	struct session *a = rig_lua(rig, "a",
		"local M = {}\n"
		"function M._start() eventd.become{e = 7} end\n"
		"return M");

	rig_post(rig, "a", "e", "");
	rig_turn(rig);
	rig_expect_failed(a, "an entry of a state");
}

static void
test_what_is_stashed_is_handled_later_and_in_order(void **state)
{
	struct rig *rig = *state;
	struct session *a = rig_lua(rig, "a",
		"local M = {states = {}}\n"
		"M.states.waiting = {\n"
		"  ready = function() eventd.become('up')\n"
		"    assert(eventd.unstash() == 3) end,\n"
		"  _default = function() assert(eventd.stash()) return 'no' "
		"end,\n"
		"}\n"
		"M.states.up = { e = function(d) eventd.post('probe', 'p', d)\n"
		"  return 'yes' end }\n"
		"function M._start() eventd.become('waiting') end\n"
		"return M");
	unsigned n = rig->n_replies;

	rig_post(rig, "a", "e", "1");
	rig_call_later(rig, "a", "e", "2");
	rig_post(rig, "a", "e", "3");
	rig_turn(rig);
	assert_int_equal(rig->n_replies, n);
	assert_int_equal(a->box.n, 3);
	rig_post(rig, "a", "ready", "");
	rig_post(rig, "a", "e", "4");
	rig_turn(rig);
	assert_string_equal(rig->all, "1 2 3 4 ");
	assert_string_equal(rig->reply, "yes");
	assert_int_equal(a->box.n, 0);
}

static void
test_an_event_can_be_stashed_after_waiting(void **state)
{
	struct rig *rig = *state;
	struct session *a = rig_lua(rig, "a",
		"local M, n = {}, 0\n"
		"function M.e(d)\n"
		"  n = n + 1\n"
		"  eventd.sleep(1)\n"
		"  if n == 1 then assert(eventd.stash()) return 'no' end\n"
		"  return 'yes' .. n\n"
		"end\n"
		"function M.back() eventd.unstash() end\n"
		"return M");

	rig_call_later(rig, "a", "e", "");
	rig_turn(rig);
	rig_advance(rig, 1100);
	assert_int_equal(a->box.n, 1);
	rig_post(rig, "a", "back", "");
	rig_turn(rig);
	rig_advance(rig, 1100);
	assert_string_equal(rig->reply, "yes2");
}

static void
test_a_full_stash_is_told(void **state)
{
	struct rig *rig = *state;
	struct session *a = rig_lua(rig, "a",
		"local M = {}\n"
		"function M.e()\n"
		"  assert(eventd.yield('x'))\n"
		"  local ok, word = eventd.stash()\n"
		"  return tostring(ok) .. word\n"
		"end\n"
		"return M");

	mailbox_limit(&a->box, 1, 1000);
	rig_expect(rig, "a", "e", "", "nilfull");
}

int
main(void)
{
#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_yield_posts_to_oneself_behind_what_is_queued),
		TEST(test_options_are_carried),
		TEST(test_wrong_options_are_errors),
		TEST(test_a_nested_call_has_what_is_left),
		TEST(test_a_post_waits_for_its_level),
		TEST(test_a_post_that_is_waited_for_may_fail),
		TEST(test_a_post_tells_that_its_session_died),
		TEST(test_a_level_may_be_told_by_an_event),
		TEST(test_an_answer_may_come_as_an_event),
		TEST(test_a_call_under_way_can_be_cancelled),
		TEST(test_a_forwarded_call_is_answered_by_the_next),
		TEST(test_a_forwarded_event_keeps_its_headers),
		TEST(test_gather_asks_many),
		TEST(test_gather_takes_a_list),
		TEST(test_a_session_may_end_while_it_gathers),
		TEST(test_a_state_goes_before_the_main_table),
		TEST(test_a_state_may_be_any_table),
		TEST(test_a_wrong_entry_is_the_sessions_failure),
		TEST(test_what_is_stashed_is_handled_later_and_in_order),
		TEST(test_an_event_can_be_stashed_after_waiting),
		TEST(test_a_full_stash_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* daemon/kind/native_send.c, through a plugin. */
#include "rig.h"

static struct session *
start(struct rig *rig, const char *alias)
{
	struct session *s = rig_start(
		rig, rig_spec(rig, "native", alias, PLUGIN_DIR "/send.so"));

	if (s->life != SESSION_UP)
		fail_msg("%s", rig_reason(s));
	return s;
}

static void
test_events_are_sent_as_said(void **state)
{
	struct rig *rig = *state;

	start(rig, "a");
	rig_expect(rig, "a", "send", "", "0");
	rig_expect(rig, "a", "log", "", "!u y ared ");
}

static void
test_wrong_arguments_are_refused(void **state)
{
	struct rig *rig = *state;

	start(rig, "a");
	rig_expect(rig, "a", "wrong", "", "6");
}

/* B26 */
static void
test_a_nested_call_has_what_is_left(void **state)
{
	struct rig *rig = *state;
	struct msg *m;

	start(rig, "a");
	m = rig_msg(rig, "a", "ask", "probe", 5);
	assert_int_equal(session_call(rig->probe, m, 1, 1000, NULL), 0);
	rig_turn(rig);
	assert_true(rig->held != 0);
	rig_advance(rig, 1100);
	assert_int_equal(rig->status, EVD_STATUS_TIMEOUT);
	rig_expect(rig, "a", "log", "", "got16 ");
}

static void
test_a_call_is_answered_or_cancelled(void **state)
{
	struct rig *rig = *state;

	start(rig, "a");
	rig_post(rig, "a", "ask", "probe");
	rig_turn(rig);
	rig_answer(rig, 0, "yes");
	rig_expect(rig, "a", "log", "", "got0yes ");
	rig_expect(rig, "a", "cancel", "", "-3");
	start(rig, "b");
	rig_post(rig, "a", "ask", "b");
	rig_turn(rig);
	rig_expect(rig, "a", "cancel", "", "0");
	rig_expect(rig, "a", "log", "", "");
	rig_expect(rig, "b", "log", "", "held cancelled ");
	rig_post(rig, "b", "_cancelled", ""); /* is not the daemon's */
	rig_turn(rig);
	rig_expect(rig, "b", "log", "", "");
}

static void
test_a_level_is_told_by_an_event(void **state)
{
	struct rig *rig = *state;

	start(rig, "a");
	rig_post(rig, "a", "post-level", "probe");
	rig_turn(rig);
	assert_string_equal(rig->event, "posted");
	rig_expect(rig, "a", "log", "", "got0 ");
	rig_expect(rig, "a", "cancel", "", "-3");
	rig_post(rig, "a", "post-level", "probe");
	rig_expect(rig, "a", "cancel", "", "0"); /* before it is handled */
	rig_expect(rig, "a", "log", "", "");
	assert_int_equal(rig->n_events, 2);
	assert_int_equal(rig->s.calls.n, 0);
}

static void
test_calls_are_forwarded(void **state)
{
	struct rig *rig = *state;

	start(rig, "a");
	rig_expect(rig, "a", "forward", "hello", "hello");
	rig_expect(rig, "a", "echo", "", "");
	assert_string_equal(rig->event, "echo");
	rig_call_later(rig, "a", "hold", "");
	rig_turn(rig);
	rig_post(rig, "a", "forward-deferred", "");
	rig_turn(rig);
	assert_string_equal(rig->reply, "late");
	assert_int_equal(rig->n_replies, 3);
}

static void
test_many_are_asked(void **state)
{
	struct rig *rig = *state;

	start(rig, "a");
	rig_post(rig, "a", "gather", "0probe");
	rig_turn(rig);
	rig_expect(rig, "a", "log", "",
		"0 status16 probe=0hi nobody=5 probe=0hi ");
	rig_post(rig, "a", "gather", "1probe");
	rig_turn(rig);
	rig_expect(
		rig, "a", "log", "", "0 status0 probe=0hi nobody=5 probe=17 ");
}

/* With the session that asked. */
static void
test_a_gather_may_be_left_open(void **state)
{
	struct rig *rig = *state;
	struct session *a = start(rig, "a");

	rig_lua(rig, "slow", "return {echo = function() eventd.sleep(9) end}");
	rig_post(rig, "a", "gather", "0slow");
	rig_turn(rig);
	session_stop(a);
	rig_advance(rig, 10000);
	assert_int_equal(rig->k.late_replies, 1);
}

static void
test_a_state_machine_stashes(void **state)
{
	struct rig *rig = *state;
	struct session *a = start(rig, "a");

	rig_post(rig, "a", "close", "");
	rig_post(rig, "a", "use", "1");
	rig_post(rig, "a", "use", "2");
	rig_turn(rig);
	assert_int_equal(a->box.n, 2);
	rig_post(rig, "a", "open", "");
	rig_post(rig, "a", "use", "3");
	rig_expect(rig, "a", "log", "", "not-yet not-yet open use1 use2 use3 ");
}

int
main(void)
{
#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_events_are_sent_as_said),
		TEST(test_wrong_arguments_are_refused),
		TEST(test_a_nested_call_has_what_is_left),
		TEST(test_a_call_is_answered_or_cancelled),
		TEST(test_a_level_is_told_by_an_event),
		TEST(test_calls_are_forwarded),
		TEST(test_many_are_asked),
		TEST(test_a_gather_may_be_left_open),
		TEST(test_a_state_machine_stashes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

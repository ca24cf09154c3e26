#include "rig.h"

#include "eventd/plugin.h"

static struct session *
start_good(struct rig *rig, const char *alias)
{
	struct session *s = rig_start(
		rig, rig_spec(rig, "native", alias, PLUGIN_DIR "/good.so"));

	if (s->life != SESSION_UP)
		fail_msg("%s", rig_reason(s));
	return s;
}

static void
test_handlers_answer(void **state)
{
	struct rig *rig = *state;

	start_good(rig, "a");
	rig_expect(rig, "a", "echo", "hello", "hello");
	rig_expect(rig, "a", "count", "", "1");
	rig_expect(rig, "a", "silent", "", "");
	rig_expect(rig, "a", "whatever", "", "fallback whatever");
}

static void
test_each_session_has_its_own_state(void **state)
{
	struct rig *rig = *state;

	start_good(rig, "a");
	start_good(rig, "b");
	rig_expect(rig, "a", "echo", "x", "x");
	rig_expect(rig, "a", "count", "", "1");
	rig_expect(rig, "b", "count", "", "0");
}

static void
test_no_fallback_means_dead_letter(void **state)
{
	struct rig *rig = *state;
	struct session *s = rig_start(
		rig, rig_spec(rig, "native", "a", PLUGIN_DIR "/version1.so"));

	rig_call(rig, "a", "whatever", "");
	assert_int_equal(rig->status, EVD_STATUS_HANDLER);
	assert_int_equal(session_counters(s).dead, 1);
	assert_string_equal(session_state_word(s), "up");
}

static void
test_post_by_reference(void **state)
{
	struct rig *rig = *state;

	start_good(rig, "a");
	start_good(rig, "b");
	rig_expect(rig, "a", "resolve", "b", "1");
	rig_expect(rig, "a", "post", "x", "0");
	rig_expect(rig, "a", "post", "x", "0");
	rig_expect(rig, "b", "count", "", "2");
}

static void
test_reference_follows_the_alias(void **state)
{
	struct rig *rig = *state;
	struct session *b;

	start_good(rig, "a");
	rig_expect(rig, "a", "resolve", "b", "1"); /* nobody holds it yet */
	rig_expect(rig, "a", "post", "x", "-2");   /* ENOENT */
	b = start_good(rig, "b");
	rig_expect(rig, "a", "post", "x", "0");
	rig_expect(rig, "b", "count", "", "1");
	session_stop(b);
	rig_turn(rig);
	rig_expect(rig, "a", "post", "x", "-2");
	/* another plugin, with the handler at another index */
	b = rig_start(
		rig, rig_spec(rig, "native", "b", PLUGIN_DIR "/version1.so"));
	rig_expect(rig, "a", "post", "x", "0");
	assert_string_equal(rig->data, "version 1");
	session_stop(b);
	rig_turn(rig);
	/* another kind */
	rig_lua(rig, "b",
		"return { echo = function(d)\n"
		"  eventd.post('probe', 'lua', d) end }");
	rig_expect(rig, "a", "post", "to lua", "0");
	assert_string_equal(rig->data, "to lua");
	rig_expect(rig, "a", "resolve", "not a name", "0");
}

/* Its id stays, its plugin changes: an index of old means nothing. */
static void
test_reference_survives_a_restart_with_another_plugin(void **state)
{
	struct rig *rig = *state;
	struct session_spec *spec =
		rig_spec(rig, "native", "b", PLUGIN_DIR "/version1.so");
	struct session *b;

	start_good(rig, "a");
	b = start_good(rig, "b");
	rig_expect(rig, "a", "resolve", "b", "1");
	rig_expect(rig, "a", "post", "x", "0");
	session_restart(b, spec);
	spec_unref(spec);
	rig_turn(rig);
	rig_expect(rig, "a", "post", "x", "0");
	assert_string_equal(rig->data, "version 1");
}

static void
test_post_by_id_and_alias(void **state)
{
	struct rig *rig = *state;

	start_good(rig, "a");
	rig_expect(rig, "a", "post-id", "hello", "0");
	assert_string_equal(rig->event, "hello");
	assert_string_equal(rig->data, "id");
	rig_expect(rig, "a", "post-alias", "probe", "0");
	assert_string_equal(rig->data, "alias");
	rig_expect(rig, "a", "post-id", "a b", "-22");      /* EINVAL */
	rig_expect(rig, "a", "post-id", "", "-22");         /* EINVAL */
	rig_expect(rig, "a", "post-alias", "nobody", "-2"); /* ENOENT */
	rig_expect(rig, "a", "big", "", "-90");             /* EMSGSIZE */
	assert_int_equal(rig->n_events, 2);
}

static void
test_full_and_failed_are_told(void **state)
{
	struct rig *rig = *state;
	struct session_spec *spec =
		rig_lua_spec(rig, "slow", "return { _default = print }");
	struct session *slow;

	spec->max_events = 1;
	slow = rig_start(rig, spec);
	start_good(rig, "a");
	rig_post(rig, "a", "post-alias", "slow");
	rig_expect(rig, "a", "post-alias", "slow", "-11"); /* EAGAIN */
	slow->life = SESSION_FAILED;
	rig_expect(rig, "a", "post-alias", "slow", "-113"); /* EHOSTUNREACH */
}

static void
test_call_comes_back_as_an_event(void **state)
{
	struct rig *rig = *state;

	start_good(rig, "a");
	rig_expect(rig, "a", "call", "probe", "0");
	rig_answer(rig, 0, "fine");
	assert_string_equal(rig->data, "0:fine");
	rig_expect(rig, "a", "call", "probe", "0");
	rig_answer(rig, EVD_STATUS_HANDLER, "bad");
	assert_string_equal(rig->data, "1:bad");
	rig_expect(rig, "a", "call", "probe", "0");
	rig_advance(rig, 600);
	assert_non_null(strstr(rig->data, "16:"));
	rig_expect(rig, "a", "call", "nobody", "-2");
}

static void
test_stop_with_calls_and_defers_outstanding(void **state)
{
	struct rig *rig = *state;
	struct session *s = start_good(rig, "a");

	rig_expect(rig, "a", "call", "probe", "0");
	rig_call_later(rig, "a", "defer", "");
	rig_turn(rig);
	assert_int_equal(rig->n_replies, 1);
	session_stop(s);
	rig_turn(rig);
	assert_int_equal(rig->n_replies, 2);
	assert_int_equal(rig->status, EVD_STATUS_DIED);
	rig_answer(rig, 0, "too late");
	assert_string_equal(rig->event, "stopped");
}

static void
test_deferred_reply(void **state)
{
	struct rig *rig = *state;

	start_good(rig, "a");
	rig_call_later(rig, "a", "defer", "");
	rig_turn(rig);
	assert_int_equal(rig->n_replies, 0);
	rig_post(rig, "a", "undefer", "");
	rig_turn(rig);
	assert_string_equal(rig->reply, "late");
	assert_int_equal(rig->status, 1);
}

static void
test_delay_and_cancel(void **state)
{
	struct rig *rig = *state;

	start_good(rig, "a");
	rig_expect(rig, "a", "delay", "", "0");
	for (int i = 1; i <= 3; i++) {
		rig_advance(rig, 100);
		rig_advance(rig, 1);
		assert_int_equal(rig->n_events, i);
	}
	rig_expect(rig, "a", "cancel", "", "0");
	rig_expect(rig, "a", "cancel", "", "-3"); /* ESRCH */
	rig_expect(rig, "a", "delay", "nobody", "-2");
	rig->k.limits.max_timers = 0;
	rig_expect(rig, "a", "delay", "", "-122"); /* EDQUOT */
}

static void
test_timers(void **state)
{
	struct rig *rig = *state;

	start_good(rig, "a");
	rig_expect(rig, "a", "timer", "set", "0");
	rig_expect(rig, "a", "timer", "set", "1"); /* instead of the first */
	rig_expect(rig, "a", "timer", "list", "n tick 1 - -2");
	rig_expect(rig, "a", "timer", "later", "0");
	rig_advance(rig, 4500);
	assert_int_equal(rig->n_events, 0);
	rig_advance(rig, 502);
	assert_int_equal(rig->n_events, 1);
	rig_expect(rig, "a", "timer", "later", "-3"); /* ESRCH */
	rig_expect(rig, "a", "timer", "calendar", "0");
	rig_expect(rig, "a", "timer", "list", "n tick 2 *:*:0/7 -2");
	rig_advance(rig, 7001);
	assert_int_equal(rig->n_events, 2);
	rig_expect(rig, "a", "timer", "cancel", "0");
	rig_expect(rig, "a", "timer", "cancel", "-3");
	rig_expect(rig, "a", "timer", "wrong", "-22"); /* EINVAL */
	rig_expect(rig, "a", "timer", "set", "0");
	rig_expect(rig, "a", "timer", "all", "1");
	rig_expect(rig, "a", "timer", "list", "-2"); /* ENOENT */
}

static void
test_self(void **state)
{
	struct rig *rig = *state;
	struct session_spec *spec =
		rig_spec(rig, "native", "a", PLUGIN_DIR "/good.so");

	spec_add_param(spec, "color", "red");
	rig_start(rig, spec);
	rig_expect(rig, "a", "self", "", "a red self 1");
}

static void
test_failing_handler_fails_its_session_and_frees(void **state)
{
	struct rig *rig = *state;
	struct session *s = start_good(rig, "a");

	rig_call(rig, "a", "fail", "");
	assert_int_equal(rig->status, EVD_STATUS_DIED);
	rig_expect_failed(s, "event fail (id ");
	rig_expect_failed(s, "its handler returned -5 (Input/output error)");
	assert_string_equal(rig->event, "stopped");
}

static void
test_failing_start(void **state)
{
	struct rig *rig = *state;
	struct session_spec *spec =
		rig_spec(rig, "native", "a", PLUGIN_DIR "/good.so");

	spec_add_param(spec, "fail", "13");
	rig_expect_failed(rig_start(rig, spec),
		"good.so: start() returned -13 (Permission denied)");
	assert_int_equal(rig->n_events, 0); /* no stop() without a start() */
}

/* Of a handler index only this session's own strings are believed. */
static void
test_forged_handler_index_is_ignored(void **state)
{
	struct rig *rig = *state;

	start_good(rig, "a");
	for (unsigned index = 0; index < 65536; index += 13) {
		struct msg *m = rig_msg(rig, "a", "echo", "x", 1);

		m->handler = (uint16_t)index;
		assert_int_equal(sched_post(&rig->s, m), 0);
	}
	rig_turn(rig);
	rig_expect(rig, "a", "count", "", "5042");
}

static void
test_a_timer_is_its_setters_alone(void **state)
{
	struct rig *rig = *state;
	char timer[32];

	rig_start(rig, rig_spec(rig, "native", "a", PLUGIN_DIR "/many.so"));
	rig_start(rig, rig_spec(rig, "native", "b", PLUGIN_DIR "/many.so"));
	snprintf(timer, sizeof(timer), "%s", rig_call(rig, "a", "set", ""));
	assert_true(strtoull(timer, NULL, 10) > 0);
	rig_expect(rig, "b", "cancel", timer, "-3"); /* ESRCH */
	rig_expect(rig, "b", "adjust", timer, "-3");
	rig_expect(rig, "a", "adjust", timer, "0");
	rig_expect(rig, "a", "cancel", timer, "0");
	rig_expect(rig, "a", "cancel", timer, "-3");
}

int
main(void)
{
#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_handlers_answer),
		TEST(test_each_session_has_its_own_state),
		TEST(test_no_fallback_means_dead_letter),
		TEST(test_post_by_reference),
		TEST(test_reference_follows_the_alias),
		TEST(test_reference_survives_a_restart_with_another_plugin),
		TEST(test_post_by_id_and_alias),
		TEST(test_full_and_failed_are_told),
		TEST(test_call_comes_back_as_an_event),
		TEST(test_stop_with_calls_and_defers_outstanding),
		TEST(test_deferred_reply),
		TEST(test_delay_and_cancel),
		TEST(test_timers),
		TEST(test_self),
		TEST(test_failing_handler_fails_its_session_and_frees),
		TEST(test_failing_start),
		TEST(test_forged_handler_index_is_ignored),
		TEST(test_a_timer_is_its_setters_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

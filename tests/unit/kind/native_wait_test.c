/* daemon/kind/native_wait.c, native_task.c, native_late.c: handlers of plugins
 * that wait in the middle. */
#include "kind/native_wait.h"

#include <sys/wait.h>

#include "base/fault.h"
#include "coro/stacks.h"
#include "kernel/queue.h"
#include "waits.h"

static struct session_spec *
spec_of(struct rig *rig, const char *alias)
{
	return rig_spec(rig, "native", alias, PLUGIN_DIR "/wait.so");
}

static struct session *
begin(struct rig *rig)
{
	return rig_start(rig, spec_of(rig, "wait"));
}

static struct session *
begin_many(struct rig *rig, uint32_t concurrency)
{
	struct session_spec *spec = spec_of(rig, "wait");

	spec->concurrency = concurrency;
	return rig_start(rig, spec);
}

static void
expect_log(struct rig *rig, const char *log)
{
	assert_string_equal(rig_call(rig, "wait", "log", ""), log);
}

/* cmocka has put its own handlers in place of ours. */
static void
handle_faults(void)
{
	if (CORO_ASAN)
		skip(); /* its own code overflows, which cannot be left */
	coro_fault_deinit();
	assert_int_equal(coro_fault_init(&native_fault_ops), 0);
}

/* ---- times ------------------------------------------------------------- */

static void
test_a_handler_sleeps_and_answers(void **state)
{
	struct rig *rig = *state;
	struct session *s = begin(rig);

	rig_call_later(rig, "wait", "sleep", "100");
	rig_turn(rig);
	assert_int_equal(rig->n_replies, 0);
	assert_int_equal(session_counters(s).leased, 1);
	expect_counted(s);
	rig_advance(rig, 99);
	assert_int_equal(rig->n_replies, 0);
	pass(rig, 1);
	assert_int_equal(rig->n_replies, 1);
	assert_string_equal(rig->reply, "100");
	assert_int_equal(session_counters(s).leased, 0);
	expect_counted(s);
	expect_log(rig, "sleep=0 ");
}

static void
test_it_is_seen_what_they_wait_for(void **state)
{
	struct rig *rig = *state;
	struct session *s = begin_many(rig, 10);
	struct session_waits w;

	expect_waiting(s, 0, 0, 0);
	for (int i = 0; i < 3; i++)
		rig_post(rig, "wait", "sleep", "100");
	rig_post(rig, "wait", "ask", "q");
	rig_post(rig, "wait", "await_gather", "hold 1");
	rig_post(rig, "wait", "await", "go");
	rig_turn(rig);
	expect_waiting(s, 3, 2, 1);
	session_waiting(s, &w);
	assert_true(w.stack_high > 100 && w.stack_high < 8192);
	pass(rig, 100);
	pass(rig, 1000);
	expect_waiting(s, 0, 0, 0);
}

static void
test_one_handler_at_a_time(void **state)
{
	struct rig *rig = *state;
	struct session *s = begin(rig);

	rig_post(rig, "wait", "sleep", "100");
	rig_post(rig, "wait", "note", "a");
	rig_post(rig, "wait", "sleep", "100");
	rig_post(rig, "wait", "note", "b");
	rig_turn(rig);
	assert_int_equal(s->box.n, 3);
	pass(rig, 100);
	assert_int_equal(s->box.n, 1);
	pass(rig, 100);
	assert_int_equal(s->box.n, 0);
	expect_log(rig, "sleep=0 a sleep=0 b ");
}

static void
test_as_many_wait_as_the_file_allows(void **state)
{
	struct rig *rig = *state;
	struct session *s = begin_many(rig, 3);

	for (int i = 0; i < 5; i++)
		rig_post(rig, "wait", "sleep", "100");
	rig_post(rig, "wait", "note", "last");
	rig_turn(rig);
	assert_int_equal(session_counters(s).leased, 3);
	assert_int_equal(s->box.n, 3);
	expect_counted(s);
	pass(rig, 100);
	assert_int_equal(s->box.n, 0);
	assert_int_equal(session_counters(s).leased, 2);
	expect_counted(s);
	pass(rig, 100);
	assert_int_equal(session_counters(s).leased, 0);
	expect_log(rig, "sleep=0 sleep=0 sleep=0 last sleep=0 sleep=0 ");
}

static void
test_the_deadline_comes_in_the_line_that_waits(void **state)
{
	struct rig *rig = *state;
	struct msg *m;

	begin(rig);
	m = rig_msg(rig, "wait", "sleep_twice", "", 0);
	assert_int_equal(session_call(rig->probe, m, 1, 300, NULL), 0);
	rig_turn(rig);
	pass(rig, 310);
	assert_int_equal(rig->n_replies, 1);
	assert_int_equal(rig->status, EVD_STATUS_TIMEOUT);
	expect_log(rig, "first=ETIMEDOUT second=ETIMEDOUT ");
}

static void
test_cancelling_comes_in_the_line_that_waits(void **state)
{
	struct rig *rig = *state;
	uint64_t call;
	struct msg *m;

	begin(rig);
	m = rig_msg(rig, "wait", "sleep_twice", "", 0);
	assert_int_equal(session_call(rig->probe, m, 1, 0, &call), 0);
	rig_turn(rig);
	assert_int_equal(session_cancel_call(rig->probe, call), 0);
	rig_turn(rig);
	expect_log(rig, "first=ECANCELED second=ECANCELED ");
	assert_int_equal(rig->s.calls.n, 0);
}

static void
test_cancelling_goes_on_to_who_is_asked(void **state)
{
	struct rig *rig = *state;
	uint64_t call;
	struct msg *m;

	begin(rig);
	m = rig_msg(rig, "wait", "ask", "q", 1);
	assert_int_equal(session_call(rig->probe, m, 1, 0, &call), 0);
	rig_turn(rig);
	assert_true(rig->held != 0);
	assert_int_equal(session_cancel_call(rig->probe, call), 0);
	rig_turn(rig);
	expect_log(rig, "asked=ECANCELED ");
}

/* ---- answers ----------------------------------------------------------- */

static void
test_a_handler_waits_for_an_answer(void **state)
{
	struct rig *rig = *state;

	begin(rig);
	rig_call_later(rig, "wait", "ask", "question");
	rig_turn(rig);
	assert_string_equal(rig->data, "question");
	rig_answer(rig, 0, "answer");
	assert_string_equal(rig->reply, "question:answer");
	expect_log(rig, "asked=0 ");
}

static void
test_an_error_and_no_answer_are_told(void **state)
{
	struct rig *rig = *state;

	begin(rig);
	rig_call_later(rig, "wait", "ask", "q");
	rig_turn(rig);
	rig_answer(rig, EVD_STATUS_HANDLER, "no");
	assert_string_equal(rig->reply, "q:no");
	rig_call_later(rig, "wait", "ask", "q");
	rig_turn(rig);
	pass(rig, 500);
	assert_int_equal(rig->n_replies, 2);
	rig_call_later(rig, "wait", "ask_nobody", "");
	rig_turn(rig);
	assert_int_equal(rig->n_replies, 3);
	rig_call(rig, "wait", "log", "");
	assert_non_null(strstr(rig->reply, "asked=ETIMEDOUT nobody=ENOENT "
					   "self=EDEADLK "));
	assert_null(strstr(rig->reply, "asked=0"));
}

static void
test_a_handler_waits_for_a_level(void **state)
{
	struct rig *rig = *state;

	begin(rig);
	rig_lua(rig, "busy", "return {e = function() eventd.sleep(9) end}");
	rig_post(rig, "busy", "e", "");
	rig_call_later(rig, "wait", "levels", "");
	rig_turn(rig);
	assert_int_equal(rig->n_replies, 0);
	pass(rig, 500);
	assert_int_equal(rig->n_replies, 1);
	expect_log(rig, "accepted=0 durable=EOPNOTSUPP handled=0 "
			"kept=EOPNOTSUPP traced=0 told=0 wrong=EINVAL "
			"self=EDEADLK nobody=ENOENT delivered=ETIMEDOUT ");
	pass(rig, 9000);
	assert_int_equal(rig->s.calls.n, 0);
}

static void
test_answers_not_waited_for_come_in_turn(void **state)
{
	struct rig *rig = *state;
	struct session *s = begin(rig);

	rig_call_later(rig, "wait", "late", "");
	rig_turn(rig);
	assert_int_equal(session_counters(s).leased, 1);
	pass(rig, 50);
	pass(rig, 10);
	expect_log(rig, "sleep=0 late then=0 re=0 ");
	expect_counted(s);
}

static void
test_gathered_answers_come_in_turn(void **state)
{
	struct rig *rig = *state;
	struct session *s = begin(rig);

	rig_call_later(rig, "wait", "gather", "");
	rig_turn(rig);
	pass(rig, 50);
	assert_int_equal(session_counters(s).leased, 1);
	expect_counted(s);
	pass(rig, 1);
	expect_log(rig, "sleep=0 waits=0 gathered:g stash=EINVAL ");
	expect_counted(s);
}

static void
test_a_handler_waits_for_many(void **state)
{
	struct rig *rig = *state;
	struct session *s = begin(rig);

	rig_call(rig, "wait", "await_gather", "echo 2");
	expect_log(rig, "gather=0 g no-alias g again=0 ");
	rig_call(rig, "wait", "await_gather", "echo 1");
	expect_log(rig, "gather=0 g no-alias cancelled again=0 ");
	rig_call_later(rig, "wait", "await_gather", "echo 3");
	rig_turn(rig);
	expect_log(rig, "gather=ETIMEDOUT g no-alias g again=ETIMEDOUT ");
	expect_counted(s);
	assert_int_equal(rig->s.calls.n, 0);
}

static void
test_some_of_many_do_not_answer(void **state)
{
	struct rig *rig = *state;
	struct session *s = begin(rig);

	rig_call_later(rig, "wait", "await_gather", "hold 1");
	rig_turn(rig);
	assert_int_equal(session_counters(s).leased, 1);
	rig_answer(rig, 0, "mine"); /* of the one that was asked last */
	pass(rig, 100);
	expect_log(rig, "gather=0 cancelled no-alias mine again=ETIMEDOUT ");
	assert_int_equal(rig->s.calls.n, 0);
	expect_counted(s);
}

static void
test_who_waits_for_many_is_told_to_end(void **state)
{
	struct rig *rig = *state;
	struct session *s = begin(rig);
	struct msg *m = rig_msg(rig, "wait", "await_gather", "hold 2", 6);

	assert_int_equal(session_call(rig->probe, m, 1, 60, NULL), 0);
	rig_turn(rig);
	pass(rig, 60);
	expect_log(rig, "gather=ETIMEDOUT timeout no-alias timeout "
			"again=ETIMEDOUT ");
	rig_post(rig, "wait", "await_gather", "hold 2");
	rig_turn(rig);
	session_stop(s);
	rig_turn(rig);
	assert_string_equal(rig->event, "end");
	assert_string_equal(rig->data,
		"gather=ECANCELED cancelled no-alias cancelled "
		"again=ECANCELED stop=EPERM ");
}

static void
test_the_handler_of_an_answer_may_wait(void **state)
{
	struct rig *rig = *state;
	struct session *s = begin(rig);

	rig_post(rig, "wait", "look", "");
	rig_post(rig, "wait", "sleep", "7");
	rig_post(rig, "wait", "note", "one");
	rig_post(rig, "wait", "note", "two");
	rig_turn(rig);
	pass(rig, 7);
	assert_int_equal(session_counters(s).leased, 1);
	expect_counted(s);
	pass(rig, 10);
	pass(rig, 10);
	expect_log(rig, "look=0 looked=0 first=0 7 waits=0 second=0 one "
			"sleep=0 one two ");
	expect_counted(s);
}

/* ---- events ------------------------------------------------------------ */

static void
test_an_event_is_taken_out_of_turn(void **state)
{
	struct rig *rig = *state;
	struct session *s = begin(rig);

	rig_post(rig, "wait", "await", "");
	rig_post(rig, "wait", "note", "later");
	rig_post(rig, "wait", "go", "one");
	rig_turn(rig);
	assert_int_equal(session_counters(s).leased, 1);
	assert_int_equal(
		session_counters(s).handled, 1); /* it waits for another */
	expect_counted(s);
	rig_expect(rig, "wait", "go", "two", "took it");
	expect_log(rig, "awaited=0 one awaited=0 two later ");
	assert_int_equal(session_counters(s).leased, 0);
	expect_counted(s);
}

static void
test_an_event_does_not_come(void **state)
{
	struct rig *rig = *state;
	struct session *s = begin(rig);

	rig_post(rig, "wait", "await", "other");
	rig_post(rig, "wait", "go", "one");
	rig_turn(rig);
	pass(rig, 200);
	assert_int_equal(session_counters(s).leased, 0);
	rig_call(rig, "wait", "log", "");
	assert_string_equal(rig->reply, "awaited=ETIMEDOUT ");
	assert_int_equal(session_counters(s).dead, 1); /* nobody handles `go` */
	expect_counted(s);
}

static void
test_an_urgent_event_is_seen_though_it_comes_first(void **state)
{
	struct rig *rig = *state;
	struct msg *m;

	begin(rig);
	rig_post(rig, "wait", "await", "");
	rig_post(rig, "wait", "note", "a");
	rig_turn(rig);
	m = rig_msg(rig, "wait", "go", "now", 3);
	m->flags |= MSG_URGENT;
	assert_int_equal(sched_post(&rig->s, m), 0);
	rig_turn(rig);
	pass(rig, 200);
	expect_log(rig, "awaited=0 now awaited=ETIMEDOUT a ");
}

static void
test_a_paused_mailbox_gives_nothing(void **state)
{
	struct rig *rig = *state;
	struct session *s = begin(rig);

	rig_post(rig, "wait", "await", "");
	rig_turn(rig);
	queue_pause(s);
	rig_post(rig, "wait", "go", "one");
	rig_turn(rig);
	assert_int_equal(s->box.n, 1);
	queue_resume(s);
	rig_turn(rig);
	assert_int_equal(s->box.n, 0);
	assert_int_equal(session_counters(s).handled, 1);
	expect_counted(s);
}

static void
test_an_event_may_be_chosen_by_a_function(void **state)
{
	struct rig *rig = *state;
	struct session *s = begin(rig);

	rig_post(rig, "wait", "await_long", "");
	rig_post(rig, "wait", "note", "abc");
	rig_turn(rig);
	rig_post(rig, "wait", "note", "abcd");
	rig_turn(rig);
	rig_expect_failed(s, "event await_long");
	assert_int_equal(
		session_counters(s).dead, 2); /* what it was given, too */
	assert_int_equal(session_counters(s).leased, 0);
	expect_counted(s);
}

static void
test_who_waits_goes_before_who_would_begin(void **state)
{
	struct rig *rig = *state;
	struct session *s = begin_many(rig, 4);

	rig_post(rig, "wait", "await", "note");
	rig_turn(rig);
	rig_post(rig, "wait", "note", "a");
	rig_post(rig, "wait", "note", "b");
	rig_post(rig, "wait", "note", "c");
	rig_turn(rig);
	expect_log(rig, "awaited=0 a awaited=0 b c ");
	expect_counted(s);
}

static void
test_an_event_is_stashed_after_a_wait(void **state)
{
	struct rig *rig = *state;
	struct session *s = begin(rig);

	rig_post(rig, "wait", "stash", "");
	rig_turn(rig);
	pass(rig, 10);
	assert_int_equal(s->box.n, 1);
	rig_post(rig, "wait", "unstash", "");
	rig_turn(rig);
	expect_log(rig, "stashing=0 again ");
	expect_counted(s);
}

/* ---- the end ----------------------------------------------------------- */

static void
test_who_waits_is_told_to_end(void **state)
{
	struct rig *rig = *state;
	struct session *s = begin(rig);

	rig_call_later(rig, "wait", "sleep_twice", "");
	rig_turn(rig);
	session_stop(s);
	rig_turn(rig);
	assert_string_equal(rig->event, "end");
	assert_string_equal(
		rig->data, "first=ECANCELED second=ECANCELED stop=EPERM ");
	assert_int_equal(rig->n_replies, 1);
	assert_string_equal(rig->reply, "slept"); /* it still could */
}

static void
test_all_that_wait_are_told_to_end(void **state)
{
	struct rig *rig = *state;
	struct session *s = begin_many(rig, 10);

	for (int i = 0; i < 3; i++)
		rig_call_later(rig, "wait", "sleep", "100");
	rig_post(rig, "wait", "await", "");
	rig_turn(rig);
	session_stop(s);
	rig_turn(rig);
	assert_string_equal(rig->data,
		"sleep=ECANCELED sleep=ECANCELED sleep=ECANCELED "
		"awaited=ECANCELED stop=EPERM ");
	assert_int_equal(rig->n_replies, 3);
	assert_int_equal(rig->status, EVD_STATUS_DIED);
	assert_int_equal(rig->s.calls.n, 0);
	assert_int_equal(rig->s.counters.leased, 0);
}

static void
test_a_restart_ends_who_waits(void **state)
{
	struct rig *rig = *state;
	struct session *s = begin(rig);

	rig_post(rig, "wait", "sleep", "100");
	rig_turn(rig);
	session_restart(s, NULL);
	rig_turn(rig);
	assert_string_equal(rig->data, "sleep=ECANCELED stop=EPERM ");
	assert_string_equal(session_state_word(s), "up");
	expect_log(rig, "");
	expect_counted(s);
}

static void
test_a_failure_after_a_wait_names_the_event(void **state)
{
	struct rig *rig = *state;
	struct session *s = begin(rig);

	rig_call_later(rig, "wait", "crash", "");
	rig_turn(rig);
	pass(rig, 10);
	rig_expect_failed(s, "event crash (id ");
	rig_expect_failed(s, "its handler returned -74 (Bad message)");
	assert_int_equal(rig->status, EVD_STATUS_DIED);
	assert_int_equal(session_counters(s).dead, 1);
	expect_counted(s);
}

static void
test_one_of_many_that_fails_ends_the_others(void **state)
{
	struct rig *rig = *state;
	struct session *s = begin_many(rig, 10);

	rig_post(rig, "wait", "sleep", "100");
	rig_post(rig, "wait", "crash", "");
	rig_post(rig, "wait", "sleep", "100");
	rig_turn(rig);
	pass(rig, 10);
	rig_expect_failed(s, "event crash");
	assert_int_equal(session_counters(s).dead, 3);
	assert_int_equal(session_counters(s).leased, 0);
	expect_counted(s);
}

static void
test_innocent_ones_are_tried_again(void **state)
{
	struct rig *rig = *state;
	struct session_spec *spec = spec_of(rig, "wait");
	struct session *s;

	spec->concurrency = 10;
	spec->max_attempts = 2;
	spec->restart = RESTART_ON_FAILURE;
	s = rig_start(rig, spec);
	rig_post(rig, "wait", "sleep", "100");
	rig_post(rig, "wait", "crash", "");
	rig_turn(rig);
	pass(rig, 10);
	assert_int_equal(session_counters(s).dead, 0);
	assert_int_equal(s->box.n, 2);
	expect_counted(s);
	pass(rig, 1000);
	pass(rig, 1000);
	pass(rig, 1000);
	assert_int_equal(
		session_counters(s).dead, 1); /* the one that crashes */
	expect_counted(s);
}

static void
test_who_does_not_end_is_left_where_it_is(void **state)
{
	struct rig *rig = *state;
	struct session *s = begin(rig);

	rig_post(rig, "wait", "stubborn", "");
	rig_turn(rig);
	session_restart(s, NULL);
	rig_turn(rig);
	assert_string_not_equal(rig->event, "end"); /* stop() is not called */
	assert_string_equal(session_state_word(s), "up");
	expect_log(rig, "");
}

static void
test_start_may_wait(void **state)
{
	struct rig *rig = *state;
	struct session_spec *spec = spec_of(rig, "wait");
	struct session *s;

	assert_int_equal(spec_add_param(spec, "pause", "100"), 0);
	s = rig_start(rig, spec);
	assert_string_equal(session_state_word(s), "starting");
	rig_post(rig, "wait", "note", "first");
	rig_turn(rig);
	assert_int_equal(s->box.n, 1);
	pass(rig, 100);
	assert_string_equal(session_state_word(s), "up");
	expect_log(rig, "start=0 first ");
}

static void
test_start_may_fail_after_a_wait(void **state)
{
	struct rig *rig = *state;
	struct session_spec *spec = spec_of(rig, "wait");
	struct session *s;

	assert_int_equal(spec_add_param(spec, "pause", "100"), 0);
	assert_int_equal(spec_add_param(spec, "fail", "1"), 0);
	s = rig_start(rig, spec);
	pass(rig, 100);
	rig_expect_failed(s, "start() returned -74");
}

static void
test_an_overflow_is_the_sessions_failure(void **state)
{
	struct rig *rig = *state;
	struct session *s = begin(rig);

	handle_faults();
	for (int waited = 0; waited < 2; waited++) {
		rig_call_later(rig, "wait", "overflow", waited ? "1" : "");
		rig_turn(rig);
		pass(rig, 10);
		rig_expect_failed(s, "event overflow (id ");
		rig_expect_failed(s, "its handler overflowed its stack of 64 "
				     "KiB (CoroutineStack=)");
		assert_int_equal(rig->status, EVD_STATUS_DIED);
		assert_int_equal(session_counters(s).dead, waited + 1);
		expect_counted(s);
		session_restart(s, NULL);
		rig_turn(rig);
		expect_log(rig, "");
	}
	assert_string_not_equal(rig->event, "end"); /* stop() is not called */
}

static void
test_an_overflow_ends_others_without_a_word(void **state)
{
	struct rig *rig = *state;
	struct session *s = begin_many(rig, 10);

	handle_faults();
	rig_post(rig, "wait", "sleep", "100");
	rig_post(rig, "wait", "overflow", "");
	rig_turn(rig);
	rig_expect_failed(s, "overflowed");
	assert_int_equal(session_counters(s).dead, 2);
	assert_int_equal(rig->s.calls.n, 0);
	expect_counted(s);
}

static void
test_only_those_named_may_wait(void **state)
{
	struct rig *rig = *state;

	rig_start(rig,
		rig_spec(rig, "native", "wait", PLUGIN_DIR "/wait_some.so"));
	rig_call_later(rig, "wait", "sleep", "10");
	rig_call_later(rig, "wait", "plain", "");
	rig_turn(rig);
	pass(rig, 10);
	assert_int_equal(rig->n_replies, 2);
	expect_log(rig, "sleep=0 plain=EPERM ");
}

static void
test_no_stack_is_a_failure(void **state)
{
	struct rig *rig = *state;
	struct session *s = begin(rig);

	coro_thread_deinit();
	coro_trim();
	fault_arm("coro_slab", 1);
	rig_post(rig, "wait", "sleep", "10");
	rig_turn(rig);
	rig_expect_failed(s, "Cannot allocate memory");
	expect_counted(s);
}

static void
test_many_sessions_wait_at_once(void **state)
{
	enum { N = CORO_TSAN ? 20 : 1000 };
	struct rig *rig = *state;
	struct session *s = begin_many(rig, N);

	for (int i = 0; i < N + 1; i++)
		rig_post(rig, "wait", "sleep", "100");
	rig_turn(rig);
	assert_int_equal(session_counters(s).leased, N);
	assert_int_equal(s->box.n, 1);
	pass(rig, 100);
	pass(rig, 100);
	assert_int_equal(session_counters(s).handled, N + 1);
	expect_counted(s);
}

#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_a_handler_sleeps_and_answers),
		TEST(test_it_is_seen_what_they_wait_for),
		TEST(test_one_handler_at_a_time),
		TEST(test_as_many_wait_as_the_file_allows),
		TEST(test_the_deadline_comes_in_the_line_that_waits),
		TEST(test_cancelling_comes_in_the_line_that_waits),
		TEST(test_cancelling_goes_on_to_who_is_asked),
		TEST(test_a_handler_waits_for_an_answer),
		TEST(test_an_error_and_no_answer_are_told),
		TEST(test_a_handler_waits_for_a_level),
		TEST(test_answers_not_waited_for_come_in_turn),
		TEST(test_gathered_answers_come_in_turn),
		TEST(test_a_handler_waits_for_many),
		TEST(test_some_of_many_do_not_answer),
		TEST(test_who_waits_for_many_is_told_to_end),
		TEST(test_the_handler_of_an_answer_may_wait),
		TEST(test_an_event_is_taken_out_of_turn),
		TEST(test_an_event_does_not_come),
		TEST(test_an_urgent_event_is_seen_though_it_comes_first),
		TEST(test_a_paused_mailbox_gives_nothing),
		TEST(test_an_event_may_be_chosen_by_a_function),
		TEST(test_who_waits_goes_before_who_would_begin),
		TEST(test_an_event_is_stashed_after_a_wait),
		TEST(test_who_waits_is_told_to_end),
		TEST(test_all_that_wait_are_told_to_end),
		TEST(test_a_restart_ends_who_waits),
		TEST(test_a_failure_after_a_wait_names_the_event),
		TEST(test_one_of_many_that_fails_ends_the_others),
		TEST(test_innocent_ones_are_tried_again),
		TEST(test_who_does_not_end_is_left_where_it_is),
		TEST(test_start_may_wait),
		TEST(test_start_may_fail_after_a_wait),
		TEST(test_an_overflow_is_the_sessions_failure),
		TEST(test_an_overflow_ends_others_without_a_word),
		TEST(test_only_those_named_may_wait),
		TEST(test_no_stack_is_a_failure),
		TEST(test_many_sessions_wait_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

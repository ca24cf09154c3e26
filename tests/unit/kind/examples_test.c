/* The example sessions, as a reader of docs/examples would use them. */
#include "rig.h"

static struct session_spec *
example(struct rig *rig, const char *alias, const char *file)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", EXAMPLES_DIR, file);
	return rig_spec(rig,
		strcmp(strrchr(file, '.'), ".so") == 0 ? "native" : "lua",
		alias, path);
}

static void
start_example(struct rig *rig, struct session_spec *spec)
{
	struct session *s = rig_start(rig, spec);

	if (s->life != SESSION_UP)
		fail_msg("%s", rig_reason(s));
}

/* ---- greeter ----------------------------------------------------------- */

static void
test_greeter(void **state)
{
	struct rig *rig = *state;

	start_example(rig, example(rig, "greeter", "lua/greeter.lua"));
	rig_expect(rig, "greeter", "greet", "World", "Hello, World!");
	rig_expect(rig, "greeter", "count", "", "1");
	rig_call(rig, "greeter", "greet", "");
	assert_int_equal(rig->status, EVD_STATUS_HANDLER);
	rig_call(rig, "greeter", "remind", "2.5 tea");
	assert_int_equal(rig->status, 0);
	assert_int_equal(rig->s.delays.n, 1);
	rig_advance(rig, 2600);
	assert_int_equal(rig->s.delays.n, 0);
	rig_call(rig, "greeter", "remind", "later");
	assert_int_equal(rig->status, EVD_STATUS_HANDLER);
}

/* ---- thumbs ------------------------------------------------------------ */

static void
start_thumbs(struct rig *rig)
{
	struct session_spec *spec = example(rig, "thumbs", "lua/thumbs.lua");

	spec_add_param(spec, "seconds", "1");
	spec_add_param(spec, "timeout", "10");
	spec->restart = RESTART_ON_FAILURE;
	start_example(rig, spec);
}

static void
test_thumbs_does_jobs_in_parallel(void **state)
{
	struct rig *rig = *state;

	start_thumbs(rig);
	rig_expect(rig, "thumbs", "add", "a.jpg", "1");
	rig_expect(rig, "thumbs", "add", "b.png", "2");
	rig_expect(rig, "thumbs", "add", "c.jpeg", "3");
	rig_expect(rig, "thumbs", "status", "",
		"1 waiting, 2 running, 0 done, 0 failed");
	rig_advance(rig, 1100);
	rig_expect(rig, "thumbs", "status", "",
		"0 waiting, 1 running, 2 done, 0 failed");
	rig_advance(rig, 1100);
	rig_expect(rig, "thumbs", "status", "3",
		"c.jpeg: done, attempt 1: c.thumb.png");
	rig_call(rig, "thumbs", "status", "4");
	assert_int_equal(rig->status, EVD_STATUS_HANDLER);
	rig_call(rig, "thumbs", "add", "");
	assert_int_equal(rig->status, EVD_STATUS_HANDLER);
}

static void
test_thumbs_tries_a_failing_job_again(void **state)
{
	struct rig *rig = *state;

	start_thumbs(rig);
	rig_call(rig, "thumbs", "add", "notes.txt");
	for (int i = 0; i < 3; i++)
		rig_advance(rig, 1100);
	rig_expect(rig, "thumbs", "status", "1",
		"notes.txt: failed, attempt 3: notes.txt is no picture");
}

static void
test_thumbs_survives_a_worker_that_crashes(void **state)
{
	struct rig *rig = *state;

	start_thumbs(rig);
	rig_call(rig, "thumbs", "add", "x.crash");
	for (int i = 0; i < 40; i++)
		rig_advance(rig, 1000);
	rig_expect(rig, "thumbs", "status", "1",
		"x.crash: failed, attempt 3: no answer within 10 s");
	rig_call(rig, "thumbs", "add", "a.jpg");
	rig_call(rig, "thumbs", "add", "b.jpg");
	rig_advance(rig, 1100);
	rig_expect(rig, "thumbs", "status", "",
		"0 waiting, 0 running, 2 done, 1 failed");
}

/* ---- debouncer --------------------------------------------------------- */

static void
start_debouncer(struct rig *rig)
{
	struct session_spec *spec =
		example(rig, "debouncer", "lua/debouncer.lua");

	spec_add_param(spec, "target", "probe");
	spec_add_param(spec, "event", "settled");
	spec_add_param(spec, "quiet", "1");
	spec_add_param(spec, "most", "5");
	start_example(rig, spec);
}

static void
test_debouncer_fires_once_after_quiet(void **state)
{
	struct rig *rig = *state;

	start_debouncer(rig);
	for (int i = 0; i < 4; i++) {
		rig_post(rig, "debouncer", "changed", i < 3 ? "a" : "last");
		rig_turn(rig);
		rig_advance(rig, 900);
	}
	assert_int_equal(rig->n_events, 0);
	rig_advance(rig, 200);
	assert_int_equal(rig->n_events, 1);
	assert_string_equal(rig->event, "settled");
	assert_string_equal(rig->data, "4 last");
	rig_advance(rig, 10000);
	assert_int_equal(rig->n_events, 1);
	rig_post(rig, "debouncer", "other", "b");
	rig_turn(rig);
	rig_advance(rig, 1100);
	assert_string_equal(rig->data, "1 b");
}

static void
test_debouncer_does_not_wait_for_ever(void **state)
{
	struct rig *rig = *state;

	start_debouncer(rig);
	for (int i = 0; i < 55; i++) {
		rig_post(rig, "debouncer", "changed", "x");
		rig_turn(rig);
		rig_advance(rig, 100);
	}
	assert_int_equal(rig->n_events, 1);
}

static void
test_debouncer_needs_a_target(void **state)
{
	struct rig *rig = *state;

	rig_expect_failed(
		rig_start(rig, example(rig, "d", "lua/debouncer.lua")),
		"[Params] needs target=");
}

/* ---- watchdog ---------------------------------------------------------- */

static void
test_watchdog_reports_changes_once(void **state)
{
	struct rig *rig = *state;
	struct session_spec *spec =
		example(rig, "watchdog", "lua/watchdog.lua");
	struct session *target;

	spec_add_param(spec, "target", "target");
	spec_add_param(spec, "every", "10");
	spec_add_param(spec, "timeout", "2");
	spec_add_param(spec, "report", "probe");
	start_example(rig, spec);
	rig_advance(rig, 1);
	assert_string_equal(rig->event, "alert");
	assert_string_equal(rig->data,
		"target does not answer: no-alias: no session holds the "
		"alias 'target'");
	rig_advance(rig, 10001);
	assert_int_equal(rig->n_events, 1);
	target = rig_lua(rig, "target",
		"return { ping = function() if hang then eventd.defer() end\n"
		"  end, hang = function() hang = true end }");
	rig_advance(rig, 10001);
	assert_string_equal(rig->data, "target answers again");
	rig_post(rig, "target", "hang", "");
	rig_advance(rig, 10001);
	assert_int_equal(rig->n_events, 2);
	rig_advance(rig, 2100);
	assert_non_null(strstr(rig->data, "does not answer: timeout: "));
	rig_call(rig, "watchdog", "status", "");
	assert_non_null(strstr(rig->reply, "3 of 4 checks failed"));
	session_stop(target);
}

/* ---- ping and pong ----------------------------------------------------- */

static void
start_players(struct rig *rig)
{
	static const char *const names[][2] = {
		{"ping", "pong"}, {"pong", "ping"}};

	for (int i = 0; i < 2; i++) {
		struct session_spec *spec =
			example(rig, names[i][0], "native/pingpong.so");

		spec_add_param(spec, "peer", names[i][1]);
		start_example(rig, spec);
	}
}

static void
test_ping_and_pong_play_in_all_ways(void **state)
{
	static const char *const events[] = {
		"run", "run-by-id", "run-by-alias"};
	struct rig *rig = *state;

	start_players(rig);
	for (int i = 0; i < 3; i++) {
		rig_call(rig, "ping", events[i], "1000");
		assert_int_equal(rig->status, 0);
		assert_non_null(strstr(rig->reply, "2000 events, "));
	}
	rig_call(rig, "pong", "run", "1");
	assert_non_null(strstr(rig->reply, "2 events, "));
}

static void
test_ping_refuses_nonsense(void **state)
{
	static const char *const rounds[] = {
		"", "0", "-1", "x", "5x", "1000000001", "99999999999999999999"};
	struct rig *rig = *state;

	start_players(rig);
	for (size_t i = 0; i < sizeof(rounds) / sizeof(rounds[0]); i++) {
		rig_call(rig, "ping", "run", rounds[i]);
		assert_int_equal(rig->status, EVD_STATUS_INVALID);
	}
	session_stop(session_find(
		&rig->k, alias_holder(&rig->k.aliases, "pong", 4)));
	rig_call(rig, "ping", "run", "5");
	assert_int_equal(rig->status, EVD_STATUS_HANDLER);
	assert_non_null(strstr(rig->reply, "cannot be reached"));
}

int
main(void)
{
#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_greeter),
		TEST(test_thumbs_does_jobs_in_parallel),
		TEST(test_thumbs_tries_a_failing_job_again),
		TEST(test_thumbs_survives_a_worker_that_crashes),
		TEST(test_debouncer_fires_once_after_quiet),
		TEST(test_debouncer_does_not_wait_for_ever),
		TEST(test_debouncer_needs_a_target),
		TEST(test_watchdog_reports_changes_once),
		TEST(test_ping_and_pong_play_in_all_ways),
		TEST(test_ping_refuses_nonsense),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

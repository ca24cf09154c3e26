/* Native sessions that make, leave and end sessions. */
#include "rig.h"

#include "kernel/kin.h"

static struct session *
start(struct rig *rig)
{
	struct session *s = rig_start(
		rig, rig_spec(rig, "native", "a", PLUGIN_DIR "/kin.so"));

	assert_string_equal(session_state_word(s), "up");
	return s;
}

static struct session *
holder(struct rig *rig, const char *alias)
{
	return session_find(
		&rig->k, alias_holder(&rig->k.aliases, alias, strlen(alias)));
}

static void
test_a_plugin_spawns_itself(void **state)
{
	struct rig *rig = *state;
	struct session *s = start(rig);
	char parent[32];

	snprintf(parent, sizeof(parent), "%llu", (unsigned long long)s->id);
	rig_expect(rig, "a", "spawn", "b", "0");
	assert_string_equal(rig->data, "gained b |");
	rig_expect(rig, "b", "param", "n", "5");
	rig_expect(rig, "b", "param", "text", "a=b");
	rig_expect(rig, "b", "parent", "", parent);
	rig_expect(rig, "a", "parent", "", "0");
	rig_expect(rig, "a", "spawn", "b", "-98"); /* EADDRINUSE */
	rig_expect(rig, "a", "stop", "", "0");
	rig_turn(rig);
	assert_string_equal(rig->data, "lost b killed|");
	rig_expect(rig, "a", "stop", "", "-3"); /* ESRCH */
	assert_null(holder(rig, "b"));
}

static void
test_a_plugin_spawns_a_script(void **state)
{
	struct rig *rig = *state;
	char *path = rig_path(rig, "c.lua"), words[128];
	static const char text[] =
		"return { x = function() return eventd.params.n end }";

	start(rig);
	rig_write(rig, "c.lua", text, sizeof(text) - 1);
	snprintf(words, sizeof(words), "c %s", path);
	rig_expect(rig, "a", "spawn", words, "0");
	rig_expect(rig, "c", "x", "", "5");
	free(path);
}

static void
test_children_are_listed_in_order(void **state)
{
	struct rig *rig = *state;

	start(rig);
	rig_expect(rig, "a", "children", "", "0");
	rig_call(rig, "a", "spawn", "b");
	rig_expect(rig, "a", "children", "", "10");
	rig_call(rig, "a", "spawn", "c");
	rig_expect(rig, "a", "children", "", "21");
	rig_call(rig, "a", "spawn", "d"); /* the third is not in the list */
	rig_expect(rig, "a", "children", "", "30");
	rig_call(rig, "a", "stop", "");
	rig_turn(rig);
	rig_expect(rig, "a", "children", "", "20");
}

static void
test_a_childs_alias_may_be_taken(void **state)
{
	struct rig *rig = *state;
	uint64_t first;

	start(rig);
	rig_expect(rig, "a", "contend", "x", "0");
	first = holder(rig, "contended")->id;
	rig_expect(rig, "a", "contend", "", "0");
	assert_int_equal(holder(rig, "contended")->id, first);
	rig_expect(rig, "a", "contend", "x", "0");
	assert_int_not_equal(holder(rig, "contended")->id, first);
	rig_expect(rig, "a", "stop", "", "0"); /* the one that replaced it */
	rig_turn(rig);
	assert_non_null(holder(rig, "contended")); /* who stood in line */
	assert_int_not_equal(holder(rig, "contended")->id, first);
}

static void
test_wrong_arguments_are_refused(void **state)
{
	struct rig *rig = *state;

	start(rig);
	rig_expect(rig, "a", "wrong", "", "-1");
	assert_null(holder(rig, "a")->kin);
}

static void
test_exit_and_failure_are_told(void **state)
{
	struct rig *rig = *state;

	start(rig);
	rig_call(rig, "a", "spawn", "b");
	rig_call(rig, "b", "exit", "job done");
	rig_turn(rig);
	assert_string_equal(rig->data, "lost b normal|job done");
	rig_call(rig, "a", "spawn", "c");
	rig_call(rig, "a", "spawn", "d");
	rig_call(rig, "c", "fail", "");
	rig_advance(rig, 200);
	/* all of them, since their strategy says so */
	assert_int_equal(holder(rig, "c")->health->restarts, 1);
	assert_int_equal(holder(rig, "d")->health->restarts, 1);
	assert_string_equal(session_state_word(holder(rig, "c")), "up");
}

static void
test_attempts_are_told(void **state)
{
	struct rig *rig = *state;
	struct session *s = start(rig);

	s->spec->max_attempts = 3;
	s->spec->restart = RESTART_ON_FAILURE;
	rig_call_later(rig, "a", "attempt", "");
	rig_turn(rig);
	for (int i = 0; i < 3; i++)
		rig_advance(rig, 500);
	assert_string_equal(rig->reply, "3");
	assert_int_equal(s->health->restarts, 2);
}

/* B97: children, timers and calls of a plugin that goes. */
static void
test_children_go_before_their_plugin_is_left(void **state)
{
	struct rig *rig = *state;
	struct session *s = start(rig);
	uint32_t before = atomic_load(&rig->k.sessions.n);
	char alias[16];

	for (int i = 0; i < 50; i++) {
		snprintf(alias, sizeof(alias), "c%d", i);
		rig_call(rig, "a", "spawn", alias);
	}
	session_restart(s, s->spec);
	rig_turn(rig);
	assert_int_equal(atomic_load(&rig->k.sessions.n), before);
	rig_expect(rig, "a", "parent", "", "0");
}

/* B97: what it leaves behind runs on in an image that stays: its thread, the
 * destructors of that, what it has for the end of the process. */
static void
test_a_lively_plugin_may_go_and_come_back(void **state)
{
	struct rig *rig = *state;

	for (int life = 1; life <= 3; life++) {
		struct session *s = rig_start(rig,
			rig_spec(rig, "native", "l", PLUGIN_DIR "/lively.so"));
		char text[16];

		assert_int_equal(s->life, SESSION_UP);
		rig_advance(rig, 1500);
		snprintf(text, sizeof(text), "%d", life);
		rig_expect(rig, "l", "poke", "", text);
		session_stop(s);
		rig_turn(rig);
		rig_answer(rig, 0, "too late");
		rig_advance(rig, 5000);
	}
	rig_start(rig, rig_spec(rig, "native", "l", PLUGIN_DIR "/lively.so"));
	rig_expect(rig, "l", "finish", "", "1");
}

int
main(void)
{
#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_a_plugin_spawns_itself),
		TEST(test_a_plugin_spawns_a_script),
		TEST(test_children_are_listed_in_order),
		TEST(test_a_childs_alias_may_be_taken),
		TEST(test_wrong_arguments_are_refused),
		TEST(test_exit_and_failure_are_told),
		TEST(test_attempts_are_told),
		TEST(test_children_go_before_their_plugin_is_left),
		TEST(test_a_lively_plugin_may_go_and_come_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* daemon/kind/native_manage.c, through a plugin. */
#include "rig.h"

static struct session *
start(struct rig *rig, const char *alias, bool others)
{
	struct session_spec *spec =
		rig_spec(rig, "native", alias, PLUGIN_DIR "/manage.so");
	struct session *s;

	spec->manage_others = others;
	s = rig_start(rig, spec);
	if (s->life != SESSION_UP)
		fail_msg("%s", rig_reason(s));
	return s;
}

/* Ask; what it learns is @told. */
static void
expect(struct rig *rig, const char *event, const char *what, const char *told)
{
	rig_expect(rig, "a", event, what, "0");
	assert_string_equal(rig->event, "told");
	assert_string_equal(rig->data, told);
}

static void
test_a_mailbox_is_managed(void **state)
{
	struct rig *rig = *state;

	start(rig, "a", true);
	rig_lua(rig, "b", "return {}");
	expect(rig, "queue", "pause b", "n0 next0 left0 status0 on1");
	for (int i = 0; i < 3; i++)
		rig_post(rig, "b", "e", i ? "x" : "y");
	rig_turn(rig);
	expect(rig, "queue", "peek b",
		"n2 next2 left0 status0 on1 e=y@0 e=x@1");
	expect(rig, "queue", "move b", "n2 next0 left0 status0 on1");
	expect(rig, "queue", "purge b", "n1 next0 left0 status0 on1");
	expect(rig, "queue", "resume b", "n0 next0 left0 status0 on0");
	expect(rig, "queue", "peek", "n0 next0 left0 status0 on0");
	expect(rig, "queue", "move probe", "-22 status 2");
}

static void
test_letters_are_managed(void **state)
{
	struct rig *rig = *state;

	start(rig, "a", false);
	rig_post(rig, "a", "what", "data");
	rig_turn(rig);
	expect(rig, "dead", "list",
		"n1 next0 left0 status0 on0 unhandled:what=data#64");
	expect(rig, "dead", "show 64",
		"n1 next0 left0 status0 on0 unhandled:what=data#64");
	expect(rig, "dead", "post", "n1 next0 left0 status0 on0");
	expect(rig, "dead", "drop 64", "n0 next0 left1 status18 on0");
	expect(rig, "dead", "drop", "n1 next0 left0 status0 on0");
	rig_expect(rig, "a", "dead", "list+", "-13"); /* EACCES */
}

static void
test_the_profile_is_told(void **state)
{
	struct rig *rig = *state;

	start(rig, "a", false);
	expect(rig, "profile", "", "n0 next0 left0 status0 on1");
	rig_post(rig, "a", "note", "");
	rig_turn(rig);
	rig_expect(rig, "a", "profile", "", "0");
	assert_non_null(strstr(rig->data, " note*1"));
}

static void
test_wrong_arguments_are_refused(void **state)
{
	struct rig *rig = *state;

	start(rig, "a", false);
	rig_expect(rig, "a", "wrong", "", "9");
	rig_post(rig, "a", "managed", "no answer");
	rig_turn(rig);
	assert_string_equal(rig->data, "-22 status 0");
}

int
main(void)
{
#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_a_mailbox_is_managed),
		TEST(test_letters_are_managed),
		TEST(test_the_profile_is_told),
		TEST(test_wrong_arguments_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

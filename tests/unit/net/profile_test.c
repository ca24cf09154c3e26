/* The request profile, asked over a connection on another loop. */
#include "fixture.h"
#include "stats/profile.h"

static Eventd__V1__ProfileReport *
profile(struct client *c, Eventd__V1__Profile *want, int status)
{
	Eventd__V1__Request r = EVENTD__V1__REQUEST__INIT;

	r.verb_case = EVENTD__V1__REQUEST__VERB_PROFILE;
	r.profile = want;
	return client_request(c, &r, status)->profile;
}

static void
test_profile(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 1);
	Eventd__V1__Profile want = EVENTD__V1__PROFILE__INIT;
	Eventd__V1__ProfileReport *report;

	profile_init(&rig->kernel);
	fake_new(rig, 0, "box");
	want.set = EVENTD__V1__PROFILE_SWITCH__PROFILE_ON;
	assert_true(profile(c, &want, EVD_STATUS_OK)->on);
	client_expect_ack(c, client_post(c, "box", "hello"));
	rig_run(rig);
	want.set = EVENTD__V1__PROFILE_SWITCH__PROFILE_KEEP;
	want.alias = (char *)"box";
	report = profile(c, &want, EVD_STATUS_OK);
	assert_int_equal(report->n_sessions, 1);
	assert_string_equal(report->sessions[0]->alias, "box");
	assert_true(report->sessions[0]->on);
	assert_int_equal(report->sessions[0]->n_rows, 1);
	assert_string_equal(report->sessions[0]->rows[0]->event, "hello");
	assert_int_equal(report->sessions[0]->rows[0]->calls, 1);
	want.set = EVENTD__V1__PROFILE_SWITCH__PROFILE_OFF;
	profile(c, &want, EVD_STATUS_INVALID);
	want.alias = (char *)"nobody";
	profile(c, &want, EVD_STATUS_NO_ALIAS);
	want.alias = (char *)"no name";
	profile(c, &want, EVD_STATUS_INVALID);
	want.alias = (char *)"";
	want.reset = true;
	assert_int_equal(profile(c, &want, EVD_STATUS_OK)->n_sessions, 0);
	client_free(c);
}

static void
test_only_some_may_switch(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0);
	Eventd__V1__Profile want = EVENTD__V1__PROFILE__INIT;

	rig_become(rig, 0, 1234, 4321);
	profile(c, &want, EVD_STATUS_OK);
	want.set = EVENTD__V1__PROFILE_SWITCH__PROFILE_ON;
	profile(c, &want, EVD_STATUS_DENIED);
	want.set = EVENTD__V1__PROFILE_SWITCH__PROFILE_KEEP;
	want.reset = true;
	profile(c, &want, EVD_STATUS_DENIED);
	assert_null(rig->loops[0].sched.profile.ops);
	client_free(c);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			test_profile, rig_setup_two, rig_teardown),
		cmocka_unit_test_setup_teardown(
			test_only_some_may_switch, rig_setup_two, rig_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

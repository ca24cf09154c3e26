/* Watching over the wire, on one loop and across two: wait, watch, names, the
 * will, and binds that queue or replace. */
#include <stdio.h>
#include <stdlib.h>

#include "fixture.h"
#include "kernel/claim.h"
#include "kernel/dead.h"
#include "net/mailslot.h"

static unsigned
far(const struct rig *rig)
{
	return rig->n_loops - 1;
}

static uint64_t
ask_bind(struct client *c, const char *alias, uint64_t binding, int if_taken,
	bool allow)
{
	Eventd__V1__Request r = EVENTD__V1__REQUEST__INIT;
	Eventd__V1__Bind bind = EVENTD__V1__BIND__INIT;

	bind.alias = (char *)alias;
	bind.binding = binding;
	bind.if_taken = (Eventd__V1__IfTaken)if_taken;
	bind.allow_replace = allow;
	r.verb_case = EVENTD__V1__REQUEST__VERB_BIND;
	r.bind = &bind;
	return client_ask(c, &r);
}

static uint64_t
ask_wait(struct client *c, const char *alias, uint64_t ms)
{
	Eventd__V1__Request r = EVENTD__V1__REQUEST__INIT;
	Eventd__V1__Wait wait = EVENTD__V1__WAIT__INIT;

	wait.alias = (char *)alias;
	wait.timeout_ms = ms;
	r.verb_case = EVENTD__V1__REQUEST__VERB_WAIT;
	r.wait = &wait;
	return client_ask(c, &r);
}

static uint64_t
ask_unbind(struct client *c, uint64_t binding)
{
	Eventd__V1__Request r = EVENTD__V1__REQUEST__INIT;
	Eventd__V1__Unbind unbind = EVENTD__V1__UNBIND__INIT;

	unbind.binding = binding;
	r.verb_case = EVENTD__V1__REQUEST__VERB_UNBIND;
	r.unbind = &unbind;
	return client_ask(c, &r);
}

static uint64_t
watch(struct client *c, const char *alias, int status)
{
	Eventd__V1__Request r = EVENTD__V1__REQUEST__INIT;
	Eventd__V1__Watch w = EVENTD__V1__WATCH__INIT;
	Eventd__V1__Response *response;

	w.alias = (char *)alias;
	r.verb_case = EVENTD__V1__REQUEST__VERB_WATCH;
	r.watch = &w;
	response = client_request(c, &r, status);
	return status ? 0 : response->watched->watch;
}

static void
unwatch(struct client *c, uint64_t number, int status)
{
	Eventd__V1__Request r = EVENTD__V1__REQUEST__INIT;
	Eventd__V1__Unwatch w = EVENTD__V1__UNWATCH__INIT;

	w.watch = number;
	r.verb_case = EVENTD__V1__REQUEST__VERB_UNWATCH;
	r.unwatch = &w;
	client_request(c, &r, status);
}

static uint64_t
watch_names(struct client *c, const char *pattern, int status)
{
	Eventd__V1__Request r = EVENTD__V1__REQUEST__INIT;
	Eventd__V1__WatchNames w = EVENTD__V1__WATCH_NAMES__INIT;
	Eventd__V1__Response *response;

	w.pattern = (char *)pattern;
	r.verb_case = EVENTD__V1__REQUEST__VERB_WATCH_NAMES;
	r.watch_names = &w;
	response = client_request(c, &r, status);
	return status ? 0 : response->watched->watch;
}

static void
will(struct client *c, const char *alias, const char *event, int status)
{
	Eventd__V1__Request r = EVENTD__V1__REQUEST__INIT;
	Eventd__V1__Will w = EVENTD__V1__WILL__INIT;

	w.alias = (char *)alias;
	w.event = (char *)event;
	w.payload.data = (uint8_t *)"x";
	w.payload.len = 1;
	r.verb_case = EVENTD__V1__REQUEST__VERB_WILL;
	r.will = &w;
	client_request(c, &r, status);
}

static void
goodbye(struct client *c)
{
	Eventd__V1__Request r = EVENTD__V1__REQUEST__INIT;
	Eventd__V1__Goodbye bye = EVENTD__V1__GOODBYE__INIT;

	r.verb_case = EVENTD__V1__REQUEST__VERB_GOODBYE;
	r.goodbye = &bye;
	client_request(c, &r, EVD_STATUS_OK);
}

static const Eventd__V1__Down *
expect_down(struct client *c, uint64_t number, const char *reason)
{
	const Eventd__V1__Frame *frame = client_next(c);

	assert_non_null(frame);
	assert_non_null(frame->notice);
	assert_int_equal(
		frame->notice->what_case, EVENTD__V1__NOTICE__WHAT_DOWN);
	assert_true(frame->notice->down->watch == number);
	assert_string_equal(frame->notice->down->reason, reason);
	return frame->notice->down;
}

static void
expect_name(struct client *c, const char *alias, bool up)
{
	const Eventd__V1__Frame *frame = client_next(c);

	assert_non_null(frame);
	assert_non_null(frame->notice);
	assert_int_equal(
		frame->notice->what_case, EVENTD__V1__NOTICE__WHAT_NAME);
	assert_string_equal(frame->notice->name->alias, alias);
	assert_int_equal(frame->notice->name->up, up);
	assert_int_equal(frame->notice->name->session != 0, up);
}

static void
expect_unbound(struct client *c, uint64_t binding, const char *text)
{
	const Eventd__V1__Frame *frame = client_next(c);

	assert_non_null(frame);
	assert_non_null(frame->notice);
	assert_int_equal(
		frame->notice->what_case, EVENTD__V1__NOTICE__WHAT_UNBOUND);
	assert_int_equal(frame->notice->unbound->binding, binding);
	assert_int_equal(frame->notice->unbound->status, EVD_STATUS_TAKEN);
	assert_non_null(strstr(frame->notice->unbound->text, text));
}

/* ---- watch ------------------------------------------------------------- */

static void
test_a_client_that_dies_is_told_as_lost(void **state)
{
	struct rig *rig = *state;
	struct client *w = client_hello(rig, 0),
		      *c = client_hello(rig, far(rig));
	uint64_t number;

	client_bind(c, "job", 1, 0);
	number = watch(w, "job", EVD_STATUS_OK);
	client_expect_silence(w);
	client_free(c);
	assert_string_equal(
		expect_down(w, number, "connection lost")->alias, "job");
	unwatch(w, number, EVD_STATUS_NOT_FOUND);
	client_expect_silence(w);
	client_free(w);
}

static void
test_a_goodbye_is_a_normal_end(void **state)
{
	struct rig *rig = *state;
	struct client *w = client_hello(rig, 0),
		      *c = client_hello(rig, far(rig));
	uint64_t one, two;

	client_bind(c, "job", 1, 0);
	client_bind(c, "job2", 2, 0);
	one = watch(w, "job", EVD_STATUS_OK);
	two = watch(w, "job2", EVD_STATUS_OK);
	client_expect_response(c, ask_unbind(c, 1), EVD_STATUS_OK);
	expect_down(w, one, "normal");
	goodbye(c);
	client_free(c);
	expect_down(w, two, "normal");
	client_free(w);
}

static void
test_one_that_is_gone_is_told_at_once(void **state)
{
	struct rig *rig = *state;
	struct client *w = client_hello(rig, 0);

	expect_down(w, watch(w, "nobody", EVD_STATUS_OK), "no such session");
	watch(w, "no name", EVD_STATUS_INVALID);
	rig->kernel.limits.max_watches = 1;
	fake_new(rig, far(rig), "fake");
	unwatch(w, watch(w, "fake", EVD_STATUS_OK), EVD_STATUS_OK);
	watch(w, "fake", EVD_STATUS_OK);
	watch(w, "fake", EVD_STATUS_LIMIT);
	client_free(w);
}

static void
test_a_stop_is_told_as_stopped(void **state)
{
	struct rig *rig = *state;
	struct client *w = client_hello(rig, 0);
	struct fake *fake = fake_new(rig, far(rig), "fake");
	uint64_t number = watch(w, "fake", EVD_STATUS_OK);

	session_stop(fake->session);
	rig_run(rig);
	expect_down(w, number, "stopped");
	client_free(w);
}

/* ---- wait -------------------------------------------------------------- */

static void
test_wait_is_answered_when_the_alias_appears(void **state)
{
	struct rig *rig = *state;
	struct client *w = client_hello(rig, 0),
		      *c = client_hello(rig, far(rig));
	uint64_t first = ask_wait(w, "late", 0), id;

	client_expect_silence(w);
	client_bind(c, "late", 1, 0);
	assert_true(client_expect_response(w, first, EVD_STATUS_OK)
			    ->found->session != 0);
	id = ask_wait(w, "late", 1);
	client_expect_response(w, id, EVD_STATUS_OK);
	id = ask_wait(w, "never", 1);
	client_expect_response(w, id, EVD_STATUS_TIMEOUT);
	id = ask_wait(w, "no name", 1);
	client_expect_response(w, id, EVD_STATUS_INVALID);
	ask_wait(w, "never", UINT64_MAX);
	client_free(w); /* while it waits */
	client_free(c);
}

/* ---- links -------------------------------------------------------------- */

static uint64_t
link_to(struct client *c, const char *alias, int status)
{
	Eventd__V1__Request r = EVENTD__V1__REQUEST__INIT;
	Eventd__V1__Watch w = EVENTD__V1__WATCH__INIT;
	Eventd__V1__Response *response;

	w.alias = (char *)alias;
	w.link = true;
	r.verb_case = EVENTD__V1__REQUEST__VERB_WATCH;
	r.watch = &w;
	response = client_request(c, &r, status);
	return status ? 0 : response->watched->watch;
}

static void
test_what_a_client_is_linked_with_dies_with_it(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0), *d = client_hello(rig, 0);
	struct client *e = client_hello(rig, 0);
	struct fake *job = fake_new(rig, far(rig), "job");
	uint64_t id = job->session->id;
	uint64_t number = link_to(c, "job", EVD_STATUS_OK);

	unwatch(c, number, EVD_STATUS_OK);
	client_free(c); /* it is not linked any more */
	link_to(d, "job", EVD_STATUS_OK);
	goodbye(d);
	client_free(d);
	rig_run(rig);
	assert_non_null(session_find(&rig->kernel, id));
	link_to(e, "job", EVD_STATUS_OK);
	client_free(e);
	RIG_UNTIL(rig, !session_find(&rig->kernel, id));
}

static void
test_a_linked_client_is_told_and_lives_on(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0),
		      *holder = client_hello(rig, far(rig));
	uint64_t number;

	client_bind(holder, "job", 1, 0);
	number = link_to(c, "job", EVD_STATUS_OK);
	client_free(holder);
	expect_down(c, number, "connection lost");
	client_expect_alive(c);
	number = link_to(c, "nobody", EVD_STATUS_OK);
	expect_down(c, number, "no such session");
	client_free(c);
}

static void
test_a_link_is_for_managers(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0);

	fake_new(rig, far(rig), "job");
	rig_become(rig, 0, 12345, 54321);
	link_to(c, "job", EVD_STATUS_DENIED);
	client_free(c);
}

/* Its alias is linked with what fails: the binding ends, not the client. */
static void
test_a_binding_may_fail(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0);
	struct session *s;

	client_bind(c, "job", 1, 0);
	client_post(c, "job", "e");
	client_expect_delivery(c, 1, "e");
	client_expect_ack(c, 1);
	s = session_find(
		&rig->kernel, alias_holder(&rig->kernel.aliases, "job", 3));
	session_fail(s, "a linked session has failed");
	assert_non_null(client_next(c));
	assert_non_null(c->frame->notice);
	assert_non_null(c->frame->notice->unbound);
	assert_int_equal(c->frame->notice->unbound->status, EVD_STATUS_DIED);
	client_bind(c, "job", 1, 0); /* the number and the alias are free */
	rig_check(rig);
	client_free(c);
}

/* ---- names ------------------------------------------------------------- */

static void
test_names_are_told_in_order(void **state)
{
	struct rig *rig = *state;
	struct client *w = client_hello(rig, 0),
		      *c = client_hello(rig, far(rig));
	uint64_t number = watch_names(w, "dev/*", EVD_STATUS_OK);

	client_bind(c, "dev/1", 1, 0);
	client_bind(c, "other", 2, 0);
	client_bind(c, "dev/2", 3, 0);
	client_free(c);
	expect_name(w, "dev/1", true);
	expect_name(w, "dev/2", true);
	expect_name(w, "dev/1", false);
	expect_name(w, "dev/2", false);
	unwatch(w, number, EVD_STATUS_OK);
	watch_names(w, "no name", EVD_STATUS_INVALID);
	fake_new(rig, far(rig), "dev/3");
	client_expect_silence(w);
	client_free(w);
}

/* B74 */
static void
test_a_hostile_pattern_is_refused(void **state)
{
	enum { SIZE = 64 << 10 };
	struct rig *rig = *state;
	struct client *w = client_hello(rig, 0);
	char *huge = malloc(SIZE + 1);

	assert_non_null(huge);
	memset(huge, 'a', SIZE);
	huge[SIZE] = '\0';
	watch_names(w, huge, EVD_STATUS_INVALID);
	memset(huge, '*', SIZE);
	watch_names(w, huge, EVD_STATUS_INVALID);
	free(huge);
	watch_names(w, "", EVD_STATUS_INVALID);
	watch_names(w, "a*b*", EVD_STATUS_INVALID);
	watch_names(w, "*", EVD_STATUS_OK);
	fake_new(rig, far(rig), "any.name");
	expect_name(w, "any.name", true);
	client_free(w);
}

/* ---- will -------------------------------------------------------------- */

static void
test_a_will_is_posted_when_the_client_dies(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0);
	struct fake *heir = fake_new(rig, far(rig), "heir");

	will(c, "heir", "first", EVD_STATUS_OK);
	will(c, "heir", "died", EVD_STATUS_OK); /* instead of it */
	client_free(c);
	RIG_UNTIL(rig, heir->n_run);
	assert_string_equal(heir->last, "died");
	assert_int_equal(heir->n_run, 1);
}

static void
test_no_will_is_posted_after_a_goodbye(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0), *d = client_hello(rig, 0);
	struct client *e = client_hello(rig, 0);
	struct fake *heir = fake_new(rig, far(rig), "heir");

	will(c, "heir", "died", EVD_STATUS_OK);
	goodbye(c);
	will(d, "heir", "died", EVD_STATUS_OK);
	will(d, "", "", EVD_STATUS_OK); /* taken back */
	will(d, "no name", "died", EVD_STATUS_INVALID);
	will(d, "heir", "no name", EVD_STATUS_INVALID);
	will(e, "nobody", "died", EVD_STATUS_OK);
	client_free(c);
	client_free(d);
	client_free(e);
	rig_run(rig);
	assert_int_equal(heir->n_run, 0);
}

static void
test_a_will_that_nobody_takes_is_a_dead_letter(void **state)
{
	struct rig *rig = *state;
	struct sched *s = &rig->loops[0].sched;
	struct client *c = client_hello(rig, 0);
	uint64_t refused = s->counters.refused;
	const struct dead *d;

	will(c, "nobody", "died", EVD_STATUS_OK);
	client_free(c);
	RIG_UNTIL(rig, dead_next(s, 0, DEAD_NONE));
	d = dead_next(s, 0, DEAD_NONE);
	assert_int_equal(d->reason, DEAD_NO_ALIAS);
	assert_string_equal(d->alias, "nobody");
	assert_string_equal(d->msg->event, "died");
	assert_true(d->msg->from && d->msg->id);
	assert_true(*dead_text(d));
	assert_int_equal(s->counters.refused, refused + 1);
	rig_check(rig);
}

/* ---- if taken ---------------------------------------------------------- */

static void
test_a_queued_bind_is_answered_in_its_turn(void **state)
{
	struct rig *rig = *state;
	struct client *a = client_hello(rig, 0),
		      *b = client_hello(rig, far(rig));
	struct client *c = client_hello(rig, 0);
	uint64_t second, third;

	client_bind(a, "job", 1, 0);
	client_expect_response(
		b, ask_bind(b, "job", 1, 0, false), EVD_STATUS_TAKEN);
	client_expect_response(
		b, ask_bind(b, "job", 1, 2, false), EVD_STATUS_TAKEN);
	second = ask_bind(b, "job", 1, 1, false);
	client_expect_silence(b);
	third = ask_bind(c, "job", 1, 1, false);
	client_expect_silence(c);
	client_free(a);
	client_expect_response(b, second, EVD_STATUS_OK);
	client_post(c, "job", "one");
	client_expect_delivery(b, 1, "one");
	client_expect_ack(c, 1);
	client_expect_alive(c);
	client_free(b);
	client_expect_response(c, third, EVD_STATUS_OK);
	client_free(c);
}

static void
test_a_queued_bind_can_be_given_up(void **state)
{
	struct rig *rig = *state;
	struct client *a = client_hello(rig, 0),
		      *b = client_hello(rig, far(rig));
	uint64_t id, unbind;

	client_bind(a, "job", 1, 0);
	id = ask_bind(b, "job", 1, 1, false);
	client_expect_silence(b);
	unbind = ask_unbind(b, 1);
	client_expect_response(b, id, EVD_STATUS_CANCELLED);
	client_expect_response(b, unbind, EVD_STATUS_OK);
	ask_bind(b, "job", 1, 1, false);
	client_expect_silence(b);
	client_free(b); /* in line */
	client_free(a);
	rig_run(rig);
	assert_true(alias_holder(&rig->kernel.aliases, "job", 3) == 0);
}

static void
test_a_holder_is_replaced_and_told(void **state)
{
	struct rig *rig = *state;
	struct client *a = client_hello(rig, 0),
		      *b = client_hello(rig, far(rig));
	uint64_t id = ask_bind(a, "job", 1, 0, true);

	client_expect_response(a, id, EVD_STATUS_OK);
	id = ask_bind(b, "job", 5, 2, false);
	expect_unbound(a, 1, "replaced by session");
	client_expect_response(b, id, EVD_STATUS_OK);
	client_post(a, "job", "one");
	client_expect_delivery(b, 5, "one");
	client_free(a);
	client_free(b);
}

/* ---- mailslots --------------------------------------------------------- */

static void
slot_new(struct rig *rig)
{
	struct session_spec *spec = spec_new();

	assert_non_null(spec);
	spec->kind = strdup("client");
	spec->name = strdup("jobs");
	assert_int_equal(spec_add_alias(spec, "jobs"), 0);
	assert_non_null(
		session_new(&rig->loops[0].sched, &mailslot_ops, spec, NULL));
	spec_unref(spec);
	rig_run(rig);
}

static void
test_consumers_of_a_mailslot_queue_and_replace(void **state)
{
	struct rig *rig = *state;
	struct client *a, *b = client_hello(rig, far(rig));
	struct client *c = client_hello(rig, 0),
		      *d = client_hello(rig, far(rig));
	uint64_t id, second, third;

	slot_new(rig);
	a = client_hello(rig, far(rig));
	client_bind(a, "jobs", 1, 0);
	client_expect_response(
		b, ask_bind(b, "jobs", 1, 2, false), EVD_STATUS_TAKEN);
	second = ask_bind(b, "jobs", 1, 1, true);
	client_expect_silence(b);
	third = ask_bind(c, "jobs", 1, 1, false);
	client_expect_silence(c);
	client_free(a);
	client_expect_response(b, second, EVD_STATUS_OK);
	id = ask_bind(d, "jobs", 1, 2, false);
	expect_unbound(b, 1, "replaced by session");
	client_expect_response(d, id, EVD_STATUS_OK);
	client_post(b, "jobs", "one");
	client_expect_delivery(d, 1, "one");
	id = ask_unbind(c, 1);
	client_expect_response(c, third, EVD_STATUS_CANCELLED);
	client_expect_response(c, id, EVD_STATUS_OK);
	client_free(d);
	rig_run(rig);
	client_bind(c, "jobs", 1, 0);
	client_expect_delivery(c, 1, "one"); /* it was not settled */
	client_free(b);
	client_free(c);
}

#define BOTH(test)                                                      \
	cmocka_unit_test_setup_teardown(test, rig_setup, rig_teardown), \
	{                                                               \
#test "_far", test, rig_setup_two, rig_teardown, NULL   \
	}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(test_a_client_that_dies_is_told_as_lost),
		BOTH(test_a_goodbye_is_a_normal_end),
		BOTH(test_one_that_is_gone_is_told_at_once),
		BOTH(test_a_stop_is_told_as_stopped),
		BOTH(test_wait_is_answered_when_the_alias_appears),
		BOTH(test_what_a_client_is_linked_with_dies_with_it),
		BOTH(test_a_linked_client_is_told_and_lives_on),
		BOTH(test_a_link_is_for_managers),
		cmocka_unit_test_setup_teardown(
			test_a_binding_may_fail, rig_setup, rig_teardown),
		BOTH(test_names_are_told_in_order),
		BOTH(test_a_hostile_pattern_is_refused),
		BOTH(test_a_will_is_posted_when_the_client_dies),
		BOTH(test_no_will_is_posted_after_a_goodbye),
		BOTH(test_a_will_that_nobody_takes_is_a_dead_letter),
		BOTH(test_a_queued_bind_is_answered_in_its_turn),
		BOTH(test_a_queued_bind_can_be_given_up),
		BOTH(test_a_holder_is_replaced_and_told),
		BOTH(test_consumers_of_a_mailslot_queue_and_replace),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

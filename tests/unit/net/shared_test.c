/* Binds in mode shared: several clients consume one alias, be it that of a
 * session file or one that their binding makes. Two loops: the mailbox is on
 * the first, the clients on either. */
#include <stdio.h>
#include <stdlib.h>

#include "fixture.h"
#include "kernel/spec.h"
#include "net/mailslot.h"

static struct session *
slot_new(struct rig *rig, enum bind_mode mode)
{
	struct session_spec *spec = spec_new();
	struct session *s;

	assert_non_null(spec);
	spec->kind = strdup("client");
	spec->name = strdup("jobs");
	spec->origin = strdup("/etc/jobs.conf");
	spec->mode = mode;
	assert_int_equal(spec_add_alias(spec, "jobs"), 0);
	s = session_new(&rig->loops[0].sched, &mailslot_ops, spec, NULL);
	spec_unref(spec);
	assert_non_null(s);
	rig_run(rig);
	return s;
}

static Eventd__V1__Response *
bind_as(struct client *c, Eventd__V1__BindMode mode, uint32_t window,
	Eventd__V1__IfTaken if_taken, int status)
{
	Eventd__V1__Request r = EVENTD__V1__REQUEST__INIT;
	Eventd__V1__Bind bind = EVENTD__V1__BIND__INIT;

	bind.alias = (char *)"jobs";
	bind.binding = 1;
	bind.window_events = window;
	bind.mode = mode;
	bind.if_taken = if_taken;
	r.verb_case = EVENTD__V1__REQUEST__VERB_BIND;
	r.bind = &bind;
	return client_request(c, &r, status);
}

#define SHARED EVENTD__V1__BIND_MODE__BIND_SHARED
#define ALONE EVENTD__V1__BIND_MODE__BIND_EXCLUSIVE
#define REFUSE EVENTD__V1__IF_TAKEN__TAKEN_REFUSE
#define QUEUE EVENTD__V1__IF_TAKEN__TAKEN_QUEUE

static struct client *
sharer(struct rig *rig, unsigned loop, uint32_t window)
{
	struct client *c = client_hello(rig, loop);

	bind_as(c, SHARED, window, REFUSE, EVD_STATUS_OK);
	return c;
}

static void
unbind(struct client *c)
{
	Eventd__V1__Request r = EVENTD__V1__REQUEST__INIT;
	Eventd__V1__Unbind unbind = EVENTD__V1__UNBIND__INIT;

	unbind.binding = 1;
	r.verb_case = EVENTD__V1__REQUEST__VERB_UNBIND;
	r.unbind = &unbind;
	client_request(c, &r, EVD_STATUS_OK);
}

static void
post_n(struct rig *rig, struct client *poster, int from, int n)
{
	char event[16];

	for (int i = from; i < from + n; i++) {
		snprintf(event, sizeof(event), "e%d", i);
		client_post(poster, "jobs", event);
	}
	rig_run(rig);
}

static void
expect(struct client *c, const char *event, unsigned attempt)
{
	assert_int_equal(client_expect_delivery(c, 1, event)->attempt, attempt);
}

static struct session *
holder(struct rig *rig)
{
	uint64_t id = alias_holder(&rig->kernel.aliases, "jobs", 4);

	return session_find(&rig->kernel, id);
}

/* Each test: of a session file's mailbox, or of one that the first makes. */
#define FILE_AND_FREE(test)                    \
	static void test##_file(void **state)  \
	{                                      \
		slot_new(*state, BIND_SHARED); \
		test(*state);                  \
	}                                      \
	static void test##_free(void **state)  \
	{                                      \
		test(*state);                  \
	}

/* ---- who gets what ------------------------------------------------------- */

static void
test_the_least_loaded_gets_the_next(struct rig *rig)
{
	struct client *a = sharer(rig, 0, 10), *b = sharer(rig, 1, 10);
	struct client *poster = client_hello(rig, 0);

	post_n(rig, poster, 0, 4);
	expect(a, "e0", 0);
	expect(b, "e1", 0);
	expect(a, "e2", 0);
	expect(b, "e3", 0);
	client_settle(b, 1, 2);
	rig_run(rig);
	post_n(rig, poster, 4, 3); /* a has two, b none */
	expect(b, "e4", 0);
	expect(b, "e5", 0);
	expect(a, "e6", 0);
	assert_int_equal(session_counters(holder(rig)).leased, 5);
	rig_check(rig);
	client_free(a);
	client_free(b);
	client_free(poster);
}
FILE_AND_FREE(test_the_least_loaded_gets_the_next)

static void
test_each_has_no_more_than_its_window(struct rig *rig)
{
	struct client *a = sharer(rig, 0, 1), *b = sharer(rig, 1, 3);
	struct client *poster = client_hello(rig, 1);

	post_n(rig, poster, 0, 6);
	expect(a, "e0", 0);
	expect(b, "e1", 0);
	expect(b, "e2", 0);
	expect(b, "e3", 0);
	client_expect_ack(poster, 6);
	client_expect_silence(a);
	client_expect_silence(b);
	assert_int_equal(holder(rig)->box.n, 2);
	client_settle(a, 1, 1);
	rig_run(rig);
	expect(a, "e4", 0);
	client_expect_silence(b);
	client_free(a);
	client_free(b);
	client_free(poster);
}
FILE_AND_FREE(test_each_has_no_more_than_its_window)

/* One whose socket is full does not keep the others from theirs. */
static void
test_one_that_does_not_read_holds_up_nobody(struct rig *rig)
{
	enum { N = 200, SIZE = 8000, WINDOW = 1000 };
	struct client *slow = sharer(rig, 0, WINDOW);
	struct client *fast = sharer(rig, 0, WINDOW);
	struct client *poster = client_hello(rig, 1);
	unsigned got = 0;

	for (int i = 0; i < N; i++)
		client_post_size(poster, "jobs", "e", SIZE);
	client_expect_ack(poster, N);
	RIG_UNTIL(rig, !holder(rig)->box.n || holder(rig)->run);
	while (client_poll(fast)) {
		client_settle(fast, 1, ++got);
		rig_run(rig);
	}
	assert_true(got > N / 2); /* all that the slow one had no room for */
	assert_int_equal(holder(rig)->box.n, 0);
	rig_check(rig);
	client_free(slow);
	client_free(fast);
	client_free(poster);
}
FILE_AND_FREE(test_one_that_does_not_read_holds_up_nobody)

/* ---- the end of one ------------------------------------------------------ */

static void
test_what_the_dead_held_goes_to_the_others_in_order(struct rig *rig)
{
	struct client *a = sharer(rig, 0, 10), *b = sharer(rig, 1, 3);
	struct client *poster = client_hello(rig, 0);

	post_n(rig, poster, 0, 6);
	expect(b, "e1", 0);
	client_free(a); /* had 0, 2 and 4 */
	client_settle(b, 1, 1);
	expect(b, "e3", 0);
	expect(b, "e5", 0);
	expect(b, "e0", 1);
	client_settle(b, 1, 4);
	expect(b, "e2", 1);
	expect(b, "e4", 1);
	client_settle(b, 1, 6);
	rig_run(rig);
	assert_int_equal(session_counters(holder(rig)).handled, 6);
	rig_check(rig);
	client_free(b);
	client_free(poster);
}
FILE_AND_FREE(test_what_the_dead_held_goes_to_the_others_in_order)

static void
test_a_call_of_the_dead_goes_to_another(struct rig *rig)
{
	struct client *a = sharer(rig, 1, 10), *b = sharer(rig, 0, 10);
	struct client *caller = client_hello(rig, 0);
	uint64_t call;

	post_n(rig, caller, 0, 1);
	expect(a, "e0", 0);
	client_expect_ack(caller, 1);
	client_call(caller, "jobs", "sum", 7, "2");
	call = client_expect_delivery(b, 1, "sum")->call;
	client_reply(b, call, 0, "4");
	client_expect_reply(caller, 7, 0, "4");
	client_free(a);
	client_free(b);
	client_free(caller);
}
FILE_AND_FREE(test_a_call_of_the_dead_goes_to_another)

/* What is queued when the last goes stays in a file's mailbox ... */
static void
test_a_files_mailbox_outlasts_its_consumers(void **state)
{
	struct rig *rig = *state;
	struct session *slot = slot_new(rig, BIND_SHARED);
	struct client *a = sharer(rig, 0, 1), *poster = client_hello(rig, 0);

	post_n(rig, poster, 0, 2);
	expect(a, "e0", 0);
	unbind(a);
	assert_int_equal(slot->box.n, 2);
	client_free(a);
	client_free(poster);
}

/* ... and ends with the mailbox that they made. */
static void
test_the_mailbox_that_they_made_ends_with_the_last(void **state)
{
	struct rig *rig = *state;
	struct client *a = sharer(rig, 0, 1), *b = sharer(rig, 1, 1);
	struct client *poster = client_hello(rig, 0);

	post_n(rig, poster, 0, 3);
	expect(a, "e0", 0);
	unbind(a);
	client_expect_ack(poster, 3);
	assert_non_null(holder(rig));
	client_free(b);
	RIG_UNTIL(rig, !holder(rig));
	assert_int_equal(rig->loops[0].sched.counters.dead, 3);
	rig_check(rig);
	client_bind(poster, "jobs", 1, 1); /* alone */
	client_free(a);
	client_free(poster);
}

/* ---- modes do not mix ---------------------------------------------------- */

static void
test_one_that_wants_it_alone_is_told_who_shares_it(struct rig *rig)
{
	struct client *a = sharer(rig, 0, 1), *b = client_hello(rig, 1);
	const char *text = bind_as(b, ALONE, 1, REFUSE, EVD_STATUS_TAKEN)->text;

	assert_non_null(strstr(text, "in mode shared, not exclusive"));
	assert_non_null(strstr(text, "1 of them, uid "));
	client_free(a);
	client_free(b);
}
FILE_AND_FREE(test_one_that_wants_it_alone_is_told_who_shares_it)

static void
test_one_that_would_share_is_told_who_has_it_alone(void **state)
{
	struct rig *rig = *state;
	struct client *a = client_hello(rig, 0), *b = client_hello(rig, 1);
	const char *text;

	client_bind(a, "jobs", 1, 1);
	text = bind_as(b, SHARED, 1, REFUSE, EVD_STATUS_TAKEN)->text;
	assert_non_null(strstr(text, "'jobs' is held by session"));
	client_free(a);
	client_free(b);
}

static void
test_a_files_mode_is_named(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 1);
	const char *text;

	slot_new(rig, BIND_EXCLUSIVE);
	text = bind_as(c, SHARED, 1, REFUSE, EVD_STATUS_TAKEN)->text;
	assert_non_null(strstr(text, "Mode= of /etc/jobs.conf"));
	assert_non_null(strstr(text, "exclusive, not shared: nobody now"));
	client_free(c);
}

/* Until all that share it are gone. */
static void
test_one_may_stand_in_line_behind_those_that_share(void **state)
{
	struct rig *rig = *state;
	struct client *a = sharer(rig, 0, 1), *b = client_hello(rig, 1);
	Eventd__V1__Request r = EVENTD__V1__REQUEST__INIT;
	Eventd__V1__Bind bind = EVENTD__V1__BIND__INIT;
	uint64_t request;

	bind.alias = (char *)"jobs";
	bind.binding = 1;
	bind.if_taken = QUEUE;
	r.verb_case = EVENTD__V1__REQUEST__VERB_BIND;
	r.bind = &bind;
	request = client_ask(b, &r);
	client_expect_silence(b);
	unbind(a);
	client_expect_response(b, request, EVD_STATUS_OK);
	client_free(a);
	client_free(b);
}

static void
test_sharing_is_no_matter_of_queues(void **state)
{
	struct rig *rig = *state;
	struct client *a = client_hello(rig, 0);
	const char *text =
		bind_as(a, SHARED, 1, QUEUE, EVD_STATUS_INVALID)->text;

	assert_non_null(
		strstr(text, "only a bind of mode exclusive may queue"));
	client_free(a);
}

#define TEST(test) \
	cmocka_unit_test_setup_teardown(test, rig_setup_two, rig_teardown)
#define TESTS(test) TEST(test##_file), TEST(test##_free)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TESTS(test_the_least_loaded_gets_the_next),
		TESTS(test_each_has_no_more_than_its_window),
		TESTS(test_one_that_does_not_read_holds_up_nobody),
		TESTS(test_what_the_dead_held_goes_to_the_others_in_order),
		TESTS(test_a_call_of_the_dead_goes_to_another),
		TEST(test_a_files_mailbox_outlasts_its_consumers),
		TEST(test_the_mailbox_that_they_made_ends_with_the_last),
		TESTS(test_one_that_wants_it_alone_is_told_who_shares_it),
		TEST(test_one_that_would_share_is_told_who_has_it_alone),
		TEST(test_a_files_mode_is_named),
		TEST(test_one_may_stand_in_line_behind_those_that_share),
		TEST(test_sharing_is_no_matter_of_queues),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

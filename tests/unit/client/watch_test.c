/* Watching: waits, watches of sessions and names, the will, binds that queue.
 */
#include "client/fake.h"

static void
respond_watched(struct fake *f, uint64_t request, uint64_t watch)
{
	Eventd__V1__Response response = EVENTD__V1__RESPONSE__INIT;
	Eventd__V1__Watched watched = EVENTD__V1__WATCHED__INIT;

	watched.watch = watch;
	response.id = request;
	response.result_case = EVENTD__V1__RESPONSE__RESULT_WATCHED;
	response.watched = &watched;
	fake_respond(f, &response);
}

static void
send_down(struct fake *f, uint64_t watch, const char *reason)
{
	Eventd__V1__Frame frame = EVENTD__V1__FRAME__INIT;
	Eventd__V1__Notice notice = EVENTD__V1__NOTICE__INIT;
	Eventd__V1__Down down = EVENTD__V1__DOWN__INIT;

	down.watch = watch;
	down.session = 5;
	down.alias = (char *)"job";
	down.reason = (char *)reason;
	down.text = (char *)"why";
	notice.what_case = EVENTD__V1__NOTICE__WHAT_DOWN;
	notice.down = &down;
	frame.notice = &notice;
	fake_send(f, &frame);
}

static void
send_child(struct fake *f, const char *change)
{
	Eventd__V1__Frame frame = EVENTD__V1__FRAME__INIT;
	Eventd__V1__Notice notice = EVENTD__V1__NOTICE__INIT;
	Eventd__V1__ChildChange child = EVENTD__V1__CHILD_CHANGE__INIT;

	child.session = 6;
	child.alias = (char *)"kid";
	child.change = (char *)change;
	child.reason = (char *)"killed";
	child.text = (char *)"why";
	notice.what_case = EVENTD__V1__NOTICE__WHAT_CHILD;
	notice.child = &child;
	frame.notice = &notice;
	fake_send(f, &frame);
}

static void
send_name(struct fake *f, uint64_t watch, const char *alias, uint64_t session)
{
	Eventd__V1__Frame frame = EVENTD__V1__FRAME__INIT;
	Eventd__V1__Notice notice = EVENTD__V1__NOTICE__INIT;
	Eventd__V1__NameChange name = EVENTD__V1__NAME_CHANGE__INIT;

	name.watch = watch;
	name.alias = (char *)alias;
	name.up = session != 0;
	name.session = session;
	name.lost = 3;
	notice.what_case = EVENTD__V1__NOTICE__WHAT_NAME;
	notice.name = &name;
	frame.notice = &notice;
	fake_send(f, &frame);
}

static void
test_a_watch_is_told_once(void **state)
{
	struct fake *f = *state;
	const struct evd_event *ev;
	int64_t number;

	respond_watched(f, FAKE_NUMBER(1), 900);
	number = evd_watch(f->c, "job");
	assert_true(number > 0);
	assert_string_equal(fake_read(f)->request->watch->alias, "job");
	send_down(f, 900, "failed");
	ev = fake_next_is(f, EVD_DOWN);
	assert_true(evd_event_watch(ev) == number);
	assert_true(evd_event_session(ev) == 5);
	assert_string_equal(evd_event_alias(ev), "job");
	assert_string_equal(evd_event_reason(ev), "failed");
	assert_string_equal(evd_event_text(ev), "why");
	assert_int_equal(evd_event_status(ev), EVD_STATUS_FAILED);
	assert_string_equal(evd_event_type_name(evd_event_type(ev)), "down");
	send_down(f, 900, "failed"); /* nobody asked for it */
	fake_settle_down(f);
	assert_int_equal(evd_unwatch(f->c, number), -ESRCH);
}

static void
test_children_tell_of_themselves(void **state)
{
	struct fake *f = *state;
	const struct evd_event *ev;

	send_child(f, "adopted"); /* a word that is not known yet */
	send_child(f, "lost");
	ev = fake_next_is(f, EVD_CHILD);
	assert_string_equal(evd_event_change(ev), "lost");
	assert_string_equal(evd_event_reason(ev), "killed");
	assert_string_equal(evd_event_alias(ev), "kid");
	assert_string_equal(evd_event_text(ev), "why");
	assert_true(evd_event_session(ev) == 6);
	assert_true(evd_event_watch(ev) == 0);
	assert_string_equal(evd_event_type_name(EVD_CHILD), "child");
}

static void
test_unwatch_and_refusals(void **state)
{
	struct fake *f = *state;
	int64_t number;

	fake_respond_status(f, FAKE_NUMBER(1), EVD_STATUS_LIMIT, "10000");
	assert_int_equal(evd_watch(f->c, "job"), -EDQUOT);
	fake_read(f);
	fake_respond_status(f, FAKE_NUMBER(2), 0, ""); /* of another kind */
	assert_int_equal(evd_watch_id(f->c, 7), -EPROTO);
	assert_true(fake_read(f)->request->watch->session == 7);
	respond_watched(f, FAKE_NUMBER(3), 901);
	number = evd_watch_id(f->c, 7);
	fake_read(f);
	fake_respond_status(f, FAKE_NUMBER(4), 0, "");
	assert_int_equal(evd_unwatch(f->c, number), 0);
	assert_true(fake_read(f)->request->unwatch->watch == 901);
	send_down(f, 901, "normal"); /* it crossed */
	fake_settle_down(f);
	assert_int_equal(evd_watch(f->c, "no name"), -EINVAL);
}

static void
test_names_come_and_go(void **state)
{
	struct fake *f = *state;
	const struct evd_event *ev;
	int64_t request = evd_watch_names_start(f->c, "dev/*"), number;

	assert_int_equal(evd_flush(f->c), 0);
	assert_string_equal(
		fake_read(f)->request->watch_names->pattern, "dev/*");
	respond_watched(f, (uint64_t)request, 33);
	number = (int64_t)evd_event_result(fake_next_is(f, EVD_RESPONSE));
	assert_true(number > 0);
	send_name(f, 33, "dev/1", 8);
	ev = fake_next_is(f, EVD_NAME);
	assert_true(evd_event_watch(ev) == number);
	assert_string_equal(evd_event_alias(ev), "dev/1");
	assert_true(evd_event_session(ev) == 8);
	assert_int_equal(evd_event_lost(ev), 3);
	send_name(f, 33, "dev/1", 0);
	assert_true(evd_event_session(fake_next_is(f, EVD_NAME)) == 0);
}

/* B2 */
static void
test_a_gap_is_an_event(void **state)
{
	struct evd_bind_options opt = {
		.size = sizeof(opt),
		.overflow = "drop-oldest",
		.max_events = 7,
		.max_bytes = 800,
	};
	Eventd__V1__Frame frame = EVENTD__V1__FRAME__INIT;
	Eventd__V1__Notice notice = EVENTD__V1__NOTICE__INIT;
	Eventd__V1__Gap gap = EVENTD__V1__GAP__INIT;
	struct fake *f = *state;
	const Eventd__V1__Mailbox *box;
	const struct evd_event *ev;

	assert_true(evd_bind_opt_start(f->c, "job", &opt) > 0);
	assert_int_equal(evd_flush(f->c), 0);
	box = fake_read(f)->request->bind->mailbox;
	assert_non_null(box);
	assert_string_equal(box->overflow, "drop-oldest");
	assert_int_equal(box->max_events, 7);
	assert_int_equal(box->max_bytes, 800);
	gap.binding = f->frame->request->bind->binding;
	gap.from = 5;
	gap.to = 9;
	gap.count = 3;
	notice.what_case = EVENTD__V1__NOTICE__WHAT_GAP;
	notice.gap = &gap;
	frame.notice = &notice;
	fake_send(f, &frame);
	ev = fake_next_is(f, EVD_GAP);
	assert_string_equal(evd_event_alias(ev), "job");
	assert_int_equal(evd_event_lost(ev), 3);
	assert_int_equal(evd_event_gap_from(ev), 5);
	assert_int_equal(evd_event_gap_to(ev), 9);
	assert_string_equal(evd_event_type_name(EVD_GAP), "gap");
}

/* B113: what was watched is told as lost; names and the will are made again. */
static void
test_after_a_loss(void **state)
{
	struct fake *f = *state;
	const struct evd_event *ev;
	int64_t session, names;

	assert_int_equal(evd_set_reconnect(f->c, 1, 2), 0);
	respond_watched(f, FAKE_NUMBER(1), 1);
	session = evd_watch(f->c, "job");
	respond_watched(f, FAKE_NUMBER(2), 2);
	names = evd_watch_names(f->c, "*");
	fake_respond_status(f, FAKE_NUMBER(3), 0, "");
	assert_int_equal(evd_will(f->c, "heir", "died", "xy", 2), 0);
	fake_hang_up(f);
	ev = fake_next_is(f, EVD_DOWN);
	assert_true(evd_event_watch(ev) == session);
	assert_string_equal(evd_event_reason(ev), "connection lost");
	assert_int_equal(evd_event_status(ev), EVD_STATUS_LOST);
	fake_next_is(f, EVD_DISCONNECTED);
	fake_work_until(f, f->listener);
	fake_accept(f);
	fake_send_welcome(f);
	fake_work_until(f, f->fd);
	assert_string_equal(fake_read(f)->request->watch_names->pattern, "*");
	respond_watched(f, f->frame->request->id, 77);
	assert_string_equal(fake_read(f)->request->will->alias, "heir");
	assert_int_equal(f->frame->request->will->payload.len, 2);
	fake_respond_status(f, f->frame->request->id, 0, "");
	fake_next_is(f, EVD_RECONNECTED);
	send_name(f, 77, "x", 1);
	assert_true(evd_event_watch(fake_next_is(f, EVD_NAME)) == names);
}

static void
test_close_says_goodbye_if_it_matters(void **state)
{
	struct fake *f = *state;

	assert_int_equal(evd_close(f->c), 0);
	fake_wait(f->fd, POLLIN);
	assert_int_equal(read(f->fd, f->dir, 1), 0); /* nothing to say */
	fake_hang_up(f);
	fake_connect(f);
	fake_respond_status(f, FAKE_NUMBER(1), 0, "");
	assert_int_equal(evd_will(f->c, "heir", "died", NULL, 0), 0);
	assert_non_null(fake_read(f)->request->will);
	assert_int_equal(evd_close(f->c), 0);
	assert_int_equal(fake_read(f)->request->verb_case,
		EVENTD__V1__REQUEST__VERB_GOODBYE);
}

static void
test_a_will_can_be_taken_back(void **state)
{
	struct fake *f = *state;

	fake_respond_status(f, FAKE_NUMBER(1), 0, "");
	assert_int_equal(evd_will(f->c, "heir", "died", NULL, 0), 0);
	fake_read(f);
	fake_respond_status(f, FAKE_NUMBER(2), 0, "");
	assert_int_equal(evd_will(f->c, NULL, NULL, NULL, 0), 0);
	assert_string_equal(fake_read(f)->request->will->alias, "");
	assert_int_equal(evd_close(f->c), 0);
	fake_wait(f->fd, POLLIN);
	assert_int_equal(read(f->fd, f->dir + 63, 1), 0);
	assert_int_equal(evd_will(f->c, "no name", "e", NULL, 0), -EINVAL);
	assert_int_equal(evd_will(f->c, "a", "no name", NULL, 0), -EINVAL);
}

static void
test_wait_passes_its_time_on(void **state)
{
	struct fake *f = *state;
	Eventd__V1__Response response = EVENTD__V1__RESPONSE__INIT;
	Eventd__V1__Found found = EVENTD__V1__FOUND__INIT;
	uint64_t session = 0;

	found.session = 44;
	response.id = FAKE_NUMBER(1);
	response.result_case = EVENTD__V1__RESPONSE__RESULT_FOUND;
	response.found = &found;
	fake_respond(f, &response);
	assert_int_equal(evd_wait_alias(f->c, "late", 1234, &session), 0);
	assert_int_equal(session, 44);
	assert_int_equal(fake_read(f)->request->wait->timeout_ms, 1234);
	fake_respond_status(f, FAKE_NUMBER(2), EVD_STATUS_TIMEOUT, "no");
	assert_int_equal(evd_wait_alias(f->c, "late", -1, NULL), -ETIMEDOUT);
	assert_true(fake_read(f)->request->wait->timeout_ms == UINT64_MAX);
	assert_int_equal(evd_wait_alias(f->c, "late", 1, NULL), -ETIMEDOUT);
}

static void
test_a_bind_that_waits_too_long_leaves_the_line(void **state)
{
	struct fake *f = *state;
	struct evd_bind_options opt = {
		.size = sizeof(opt),
		.if_taken = EVD_TAKEN_QUEUE,
		.allow_replace = 1,
		.timeout_ms = 2,
	};

	assert_int_equal(evd_bind_opt(f->c, "job", &opt), -ETIMEDOUT);
	assert_int_equal(evd_flush(f->c), 0);
	assert_int_equal(fake_read(f)->request->bind->if_taken,
		EVENTD__V1__IF_TAKEN__TAKEN_QUEUE);
	assert_true(f->frame->request->bind->allow_replace);
	assert_int_equal(fake_read(f)->request->unbind->binding, 1);
	fake_respond_status(f, FAKE_NUMBER(1), EVD_STATUS_CANCELLED, "");
	fake_respond_status(f, f->frame->request->id, 0, "");
	fake_settle_down(f);
	opt.if_taken = 3;
	assert_int_equal(evd_bind_opt(f->c, "job", &opt), -EINVAL);
}

#define TEST(test) \
	cmocka_unit_test_setup_teardown(test, fake_setup, fake_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_a_watch_is_told_once),
		TEST(test_children_tell_of_themselves),
		TEST(test_unwatch_and_refusals),
		TEST(test_names_come_and_go),
		TEST(test_a_gap_is_an_event),
		TEST(test_after_a_loss),
		TEST(test_close_says_goodbye_if_it_matters),
		TEST(test_a_will_can_be_taken_back),
		TEST(test_wait_passes_its_time_on),
		TEST(test_a_bind_that_waits_too_long_leaves_the_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Sending beside the plain way: options, cancelled and forwarded calls, many
 * asked at once, deadlines. */
#include "client/fake.h"

/* The number of the @n'th of several calls under way. */
static uint64_t
number(unsigned n)
{
	return FAKE_NUMBER(n) | (n - 1);
}

static void
send_reply(struct fake *f, uint64_t re, uint32_t status, const char *data)
{
	Eventd__V1__Envelope e = EVENTD__V1__ENVELOPE__INIT;

	e.re = re;
	e.status = status;
	e.payload.data = (uint8_t *)(uintptr_t)data;
	e.payload.len = strlen(data);
	fake_send_envelope(f, &e);
}

static void
deliver_call(struct fake *f, int binding, uint64_t call, uint32_t deadline_ms)
{
	Eventd__V1__Envelope e = EVENTD__V1__ENVELOPE__INIT;

	e.to = (uint64_t)binding;
	e.event = (char *)"ask";
	e.call = call;
	e.deadline_ms = deadline_ms;
	e.priority = EVENTD__V1__PRIORITY__URGENT;
	fake_send_envelope(f, &e);
}

static void
test_posts_carry_their_options(void **state)
{
	struct fake *f = *state;
	struct evd_post_options opt = {
		.size = sizeof(opt),
		.priority = EVD_URGENT,
		.ttl_ms = 700,
		.key = "order 7",
	};
	const Eventd__V1__Envelope *e;

	assert_int_equal(evd_post_opt(f->c, "box", "e", "x", 1, &opt), 1);
	assert_int_equal(evd_flush(f->c), 0);
	e = fake_read(f)->envelopes[0];
	assert_int_equal(e->priority, EVENTD__V1__PRIORITY__URGENT);
	assert_int_equal(e->ttl_ms, 700);
	assert_int_equal(e->key.len, 7);
	assert_memory_equal(e->key.data, "order 7", 7);
	opt.key = "";
	assert_int_equal(evd_post_opt(f->c, "box", "e", "x", 1, &opt), -EINVAL);
	opt.key = NULL;
	opt.priority = 2;
	assert_int_equal(evd_post_opt(f->c, "box", "e", "x", 1, &opt), -EINVAL);
	opt.priority = 0;
	opt.forward = 77;
	assert_int_equal(evd_post_opt(f->c, "box", "e", "x", 1, &opt), -ESRCH);
}

static void
test_calls_carry_their_options(void **state)
{
	struct fake *f = *state;
	struct evd_header header = {"h", "v", 1};
	struct evd_call_options opt = {
		.size = sizeof(opt),
		.timeout_ms = 1234,
		.priority = EVD_URGENT,
		.ttl_ms = 99,
		.headers = &header,
		.n_headers = 1,
	};
	struct evd_event *reply;
	const Eventd__V1__Envelope *e;

	send_reply(f, number(1), 0, "yes");
	assert_int_equal(
		evd_call_opt(f->c, "box", "e", "x", 1, &opt, &reply), 0);
	evd_event_free(reply);
	e = fake_read(f)->envelopes[0];
	assert_int_equal(e->timeout_ms, 1234);
	assert_int_equal(e->ttl_ms, 99);
	assert_int_equal(e->priority, EVENTD__V1__PRIORITY__URGENT);
	assert_string_equal(e->headers[0]->name, "h");
	opt.priority = 9;
	assert_int_equal(
		evd_call_opt(f->c, "box", "e", "x", 1, &opt, &reply), -EINVAL);
}

static void
test_a_call_is_cancelled(void **state)
{
	struct fake *f = *state;
	int64_t call = evd_call_start(f->c, "box", "e", "x", 1, 0);
	const struct evd_event *ev;

	assert_true(call > 0);
	assert_int_equal(evd_call_cancel(f->c, (uint64_t)call), 0);
	assert_int_equal(evd_flush(f->c), 0);
	assert_int_equal(fake_read(f)->envelopes[0]->call, call);
	assert_int_equal(fake_read(f)->request->cancel_call->call, call);
	send_reply(f, (uint64_t)call, EVD_STATUS_CANCELLED, "");
	ev = fake_next_is(f, EVD_REPLY);
	assert_int_equal(evd_event_status(ev), EVD_STATUS_CANCELLED);
	assert_int_equal(evd_call_cancel(f->c, (uint64_t)call), -ESRCH);
}

static void
test_a_delivered_call_that_was_cancelled_is_told(void **state)
{
	struct fake *f = *state;
	Eventd__V1__Frame frame = EVENTD__V1__FRAME__INIT;
	Eventd__V1__Notice notice = EVENTD__V1__NOTICE__INIT;
	Eventd__V1__CallCancelled cancelled = EVENTD__V1__CALL_CANCELLED__INIT;
	const struct evd_event *ev;
	uint64_t call;

	fake_bind(f, "mine", 1, 100);
	deliver_call(f, 1, 501, 0);
	ev = fake_next_is(f, EVD_DELIVERY);
	call = evd_event_call(ev);
	assert_int_equal(evd_event_priority(ev), EVD_URGENT);
	assert_int_equal(evd_defer(f->c, ev), 0);
	cancelled.call = 501;
	notice.what_case = EVENTD__V1__NOTICE__WHAT_CALL_CANCELLED;
	notice.call_cancelled = &cancelled;
	frame.notice = &notice;
	fake_send(f, &frame);
	ev = fake_next_is(f, EVD_CALL_CANCELLED);
	assert_int_equal(evd_event_call(ev), call);
	assert_string_equal(
		evd_event_type_name(EVD_CALL_CANCELLED), "call-cancelled");
	assert_int_equal(evd_reply(f->c, call, "x", 1), -ESRCH);
	fake_send(f, &frame); /* of one that is not ours any more */
	fake_settle_down(f);
}

static void
test_a_delivered_call_is_forwarded(void **state)
{
	struct fake *f = *state;
	const struct evd_event *ev;
	uint64_t call;

	fake_bind(f, "mine", 1, 100);
	deliver_call(f, 1, 501, 0);
	ev = fake_next_is(f, EVD_DELIVERY);
	call = evd_event_call(ev);
	assert_int_equal(evd_forward(f->c, call, "box", "ask", "x", 1), 1);
	assert_int_equal(evd_forward(f->c, call, "box", "ask", "x", 1), -ESRCH);
	assert_int_equal(evd_forward(f->c, 0, "box", "ask", "x", 1), -EINVAL);
	assert_int_equal(evd_flush(f->c), 0);
	assert_int_equal(fake_read(f)->envelopes[0]->forward, 501);
	assert_int_equal(f->frame->envelopes[0]->seq, 1);
	assert_int_equal(evd_next(f->c, &ev), 0); /* settles, no empty reply */
	assert_int_equal(evd_flush(f->c), 0);
	assert_non_null(fake_read(f)->settle);
	assert_int_equal(f->frame->n_envelopes, 0);
}

/* B26 */
static void
test_a_nested_call_has_what_is_left(void **state)
{
	struct fake *f = *state;
	const struct evd_event *ev;

	fake_bind(f, "mine", 1, 100);
	deliver_call(f, 1, 501, 800);
	ev = fake_next_is(f, EVD_DELIVERY);
	assert_int_equal(evd_event_deadline_ms(ev), 800);
	assert_true(evd_call_start(f->c, "box", "e", "x", 1, 60000) > 0);
	assert_int_equal(evd_flush(f->c), 0);
	assert_in_range(fake_read(f)->envelopes[0]->timeout_ms, 1, 800);
	assert_int_equal(evd_reply(f->c, evd_event_call(ev), "", 0), 0);
	assert_true(evd_call_start(f->c, "box", "e", "x", 1, 60000) > 0);
	assert_int_equal(evd_flush(f->c), 0);
	fake_read(f);
	assert_int_equal(
		f->frame->envelopes[f->frame->n_envelopes - 1]->timeout_ms,
		60000);
}

static const char *const three[] = {"a", "b", "c"};

static void
test_gather_waits_for_all(void **state)
{
	struct fake *f = *state;
	struct evd_answers *a = NULL;
	size_t size;

	send_reply(f, number(2), EVD_STATUS_NO_ALIAS, "nobody");
	send_reply(f, number(3), 0, "three");
	send_reply(f, number(1), 0, "one");
	assert_int_equal(evd_gather(f->c, three, 3, "e", "x", 1, NULL, &a), 2);
	assert_int_equal(evd_answers_count(a), 3);
	assert_string_equal(evd_answers_alias(a, 1), "b");
	assert_int_equal(evd_answers_status(a, 0), 0);
	assert_memory_equal(evd_answers_data(a, 0, &size), "one", 3);
	assert_int_equal(size, 3);
	assert_int_equal(evd_answers_status(a, 1), EVD_STATUS_NO_ALIAS);
	assert_memory_equal(evd_answers_data(a, 1, &size), "nobody", 6);
	assert_memory_equal(evd_answers_data(a, 2, &size), "three", 5);
	assert_string_equal(evd_answers_alias(a, 3), "");
	evd_answers_free(a);
	assert_null(evd_answers_free(NULL));
}

static void
test_gather_cancels_when_there_are_enough(void **state)
{
	struct fake *f = *state;
	struct evd_call_options opt = {.size = sizeof(opt), .n_wanted = 1};
	struct evd_answers *a = NULL;

	send_reply(f, number(2), 0, "two");
	assert_int_equal(evd_gather(f->c, three, 3, "e", "x", 1, &opt, &a), 1);
	assert_int_equal(evd_answers_status(a, 0), EVD_STATUS_CANCELLED);
	assert_int_equal(evd_answers_status(a, 1), 0);
	evd_answers_free(a);
	assert_int_equal(fake_read(f)->n_envelopes, 3);
	assert_int_equal(fake_read(f)->request->cancel_call->call, number(1));
	assert_int_equal(fake_read(f)->request->cancel_call->call, number(3));
	send_reply(f, number(1), EVD_STATUS_CANCELLED, "");
	fake_settle_down(f); /* nobody waits for it */
}

static void
test_gather_ends_with_its_deadline_and_connection(void **state)
{
	struct fake *f = *state;
	struct evd_call_options opt = {.size = sizeof(opt), .timeout_ms = 1};
	struct evd_answers *a = NULL;

	assert_int_equal(evd_gather(f->c, three, 2, "e", "x", 1, &opt, &a), 0);
	assert_int_equal(evd_answers_status(a, 1), EVD_STATUS_TIMEOUT);
	evd_answers_free(a);
	assert_int_equal(
		evd_gather(f->c, three, 0, "e", "x", 1, &opt, &a), -EINVAL);
	fake_hang_up(f);
	opt.timeout_ms = 5000;
	assert_int_equal(
		evd_gather(f->c, three, 2, "e", "x", 1, &opt, &a), -EPIPE);
}

#define OPEN(name) \
	cmocka_unit_test_setup_teardown(name, fake_setup, fake_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		OPEN(test_posts_carry_their_options),
		OPEN(test_calls_carry_their_options),
		OPEN(test_a_call_is_cancelled),
		OPEN(test_a_delivered_call_that_was_cancelled_is_told),
		OPEN(test_a_delivered_call_is_forwarded),
		OPEN(test_a_nested_call_has_what_is_left),
		OPEN(test_gather_waits_for_all),
		OPEN(test_gather_cancels_when_there_are_enough),
		OPEN(test_gather_ends_with_its_deadline_and_connection),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

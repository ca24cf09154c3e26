/* Bindings, deliveries and settling. */
#include "client/fake.h"

static void
deliver_many(struct fake *f, int binding, int n)
{
	for (int i = 0; i < n; i++)
		fake_deliver(f, binding, "event", "data", 0);
}

static void
test_bind_and_receive(void **state)
{
	struct fake *f = *state;
	Eventd__V1__Envelope e = EVENTD__V1__ENVELOPE__INIT;
	Eventd__V1__Header h = EVENTD__V1__HEADER__INIT, *headers[] = {&h, &h};
	const struct evd_event *ev;
	struct evd_header header;
	size_t size;
	int binding;

	fake_respond_bound(f, FAKE_NUMBER(1), 10);
	binding = evd_bind(f->c, "a.b", 10, 4096);
	assert_int_equal(binding, 1);
	assert_int_equal(fake_read(f)->request->bind->window_events, 10);
	assert_int_equal(f->frame->request->bind->window_bytes, 4096);
	h.name = (char *)"trace";
	h.value.data = (uint8_t *)"12";
	h.value.len = 2;
	e.to = 1;
	e.event = (char *)"changed";
	e.payload.data = (uint8_t *)"p\0q";
	e.payload.len = 3;
	e.id = UINT64_C(1) << 60;
	e.from = 5;
	e.attempt = 2;
	e.late_ns = 12345;
	e.headers = headers;
	e.n_headers = 2;
	fake_send_envelope(f, &e);
	ev = fake_next_is(f, EVD_DELIVERY);
	assert_string_equal(
		evd_event_type_name(evd_event_type(ev)), "delivery");
	assert_string_equal(evd_event_name(ev), "changed");
	assert_string_equal(evd_event_alias(ev), "a.b");
	assert_int_equal(evd_event_binding(ev), 1);
	assert_int_equal(evd_event_size(ev), 3);
	assert_memory_equal(evd_event_data(ev), "p\0q", 3);
	assert_true(evd_event_id(ev) == UINT64_C(1) << 60);
	assert_int_equal(evd_event_from(ev), 5);
	assert_int_equal(evd_event_attempt(ev), 2);
	assert_int_equal(evd_event_late_ns(ev), 12345);
	assert_int_equal(evd_event_call(ev), 0);
	assert_int_equal(evd_event_status(ev), 0);
	assert_string_equal(evd_event_text(ev), "");
	assert_int_equal(evd_event_n_headers(ev), 2);
	assert_int_equal(evd_event_header_at(ev, 1, &header, &size), 0);
	assert_int_equal(size, 5);
	assert_memory_equal(header.name, "trace", 5);
	assert_int_equal(evd_event_header_at(ev, 2, &header, &size), -ERANGE);
	assert_memory_equal(evd_event_header(ev, "trace", &size), "12", 2);
	assert_int_equal(size, 2);
	assert_null(evd_event_header(ev, "trac", &size));
}

/* A copy has all of it, also when the handle is gone; so has its copy. */
static void
test_copies_live_on(void **state)
{
	struct fake *f = *state;
	struct evd_event *copy, *second;
	int binding = fake_bind(f, "mine", 1, 10);

	fake_deliver(f, binding, "hello", "world", 7);
	copy = evd_event_dup(fake_next_is(f, EVD_DELIVERY));
	assert_non_null(copy);
	second = evd_event_dup(copy);
	evd_free(f->c);
	f->c = NULL;
	copy = evd_event_free(copy);
	assert_null(copy);
	assert_string_equal(evd_event_name(second), "hello");
	assert_string_equal(evd_event_alias(second), "mine");
	assert_memory_equal(evd_event_data(second), "world", 5);
	assert_int_equal(evd_event_id(second), 1000);
	assert_int_not_equal(evd_event_call(second), 0);
	evd_event_free(second);
	evd_event_free(NULL);
}

static void
test_borrowed_events_are_not_freed(void **state)
{
	struct fake *f = *state;
	int binding = fake_bind(f, "mine", 1, 10);
	const struct evd_event *ev;

	fake_deliver(f, binding, "hello", "world", 0);
	ev = fake_next_is(f, EVD_DELIVERY);
	evd_event_free((struct evd_event *)(uintptr_t)ev);
	assert_string_equal(evd_event_name(ev), "hello");
	/* the same for one that waited while something else was asked */
	fake_deliver(f, binding, "second", "x", 0);
	fake_respond_status(f, FAKE_NUMBER(2), 0, "");
	assert_int_equal(evd_cancel(f->c, 5), 0);
	ev = fake_next_is(f, EVD_DELIVERY);
	evd_event_free((struct evd_event *)(uintptr_t)ev);
	assert_string_equal(evd_event_name(ev), "second");
}

static void
test_bind_refused(void **state)
{
	struct fake *f = *state;

	fake_respond_status(
		f, FAKE_NUMBER(1), EVD_STATUS_TAKEN, "session 9 holds 'mine'");
	assert_int_equal(evd_bind(f->c, "mine", 0, 0), -EADDRINUSE);
	assert_string_equal(evd_last_error(f->c), "session 9 holds 'mine'");
	fake_read(f);
	assert_int_equal(evd_bind(f->c, "not valid", 0, 0), -EINVAL);
	assert_int_equal(fake_bind(f, "other", 2, 5), 1); /* free again */
}

static void
test_bind_start_and_unbind_start(void **state)
{
	struct fake *f = *state;
	const struct evd_event *ev;
	int64_t request = evd_bind_start(f->c, "mine", 0, 0);

	assert_true(request > 0);
	assert_int_equal(evd_flush(f->c), 0);
	assert_int_equal(fake_read(f)->request->id, request);
	fake_respond_bound(f, (uint64_t)request, 5);
	ev = fake_next_is(f, EVD_RESPONSE);
	assert_int_equal(evd_event_request(ev), request);
	assert_int_equal(evd_event_status(ev), 0);
	assert_int_equal(evd_event_result(ev), 1);
	request = evd_unbind_start(f->c, 1);
	assert_true(request > 0);
	assert_int_equal(evd_flush(f->c), 0);
	fake_respond_status(f, (uint64_t)request, 0, "");
	assert_int_equal(
		evd_event_request(fake_next_is(f, EVD_RESPONSE)), request);
	assert_int_equal(evd_unbind(f->c, 1), -ESRCH);
	assert_int_equal(evd_unbind(f->c, -1), -ESRCH);
	assert_int_equal(evd_unbind(f->c, 70000), -ESRCH);
	fake_read(f);
	request = evd_bind_start(f->c, "mine", 0, 0);
	fake_respond_status(f, (uint64_t)request, EVD_STATUS_DENIED, "no");
	ev = fake_next_is(f, EVD_RESPONSE);
	assert_int_equal(evd_event_status(ev), EVD_STATUS_DENIED);
	assert_string_equal(evd_event_text(ev), "no");
	assert_int_equal(evd_event_result(ev), 0);
}

/* Told at half the window, and before waiting; never one by one. */
static void
test_settles_are_cumulative(void **state)
{
	struct fake *f = *state;
	const struct evd_event *ev;
	int binding = fake_bind(f, "mine", 1, 10);

	deliver_many(f, binding, 7);
	for (int i = 0; i < 5; i++)
		fake_next_is(f, EVD_DELIVERY);
	fake_assert_quiet(f); /* four are settled: the fifth is in hand */
	fake_next_is(f, EVD_DELIVERY);
	assert_int_equal(fake_read(f)->settle->upto, 5);
	assert_int_equal(f->frame->settle->binding, binding);
	fake_next_is(f, EVD_DELIVERY);
	assert_int_equal(evd_next(f->c, &ev), 0);
	fake_assert_quiet(f);
	assert_int_equal(evd_wait(f->c, 1), 0);
	assert_int_equal(fake_read(f)->settle->upto, 7);
	fake_assert_quiet(f);
}

static void
test_settles_by_hand(void **state)
{
	struct fake *f = *state;
	int binding = fake_bind(f, "mine", 1, 10);
	struct evd_event *second;

	assert_int_equal(evd_set_manual_settle(f->c, true), 0);
	deliver_many(f, binding, 2);
	fake_deliver(f, binding, "call", "x", 50);
	fake_next_is(f, EVD_DELIVERY);
	second = evd_event_dup(fake_next_is(f, EVD_DELIVERY));
	fake_next_is(f, EVD_DELIVERY);
	fake_settle_down(f);
	assert_int_equal(evd_flush(f->c), 0);
	fake_assert_quiet(f); /* neither settled nor answered */
	assert_int_equal(evd_settle(f->c, second), 0);
	assert_int_equal(evd_settle(f->c, second), 0);
	assert_int_equal(evd_flush(f->c), 0);
	assert_int_equal(fake_read(f)->settle->upto, 2);
	fake_assert_quiet(f);
	fake_hang_up(f);
	assert_int_equal(
		evd_settle(f->c, fake_next_is(f, EVD_DISCONNECTED)), -EINVAL);
	assert_int_equal(evd_settle(f->c, second), -EPIPE);
	evd_event_free(second);
}

/* Two bindings count on their own. */
static void
test_settles_per_binding(void **state)
{
	struct fake *f = *state;
	int a = fake_bind(f, "a", 1, 100), b = fake_bind(f, "b", 2, 100);
	uint64_t seen[3] = {0};

	deliver_many(f, a, 3);
	deliver_many(f, b, 2);
	deliver_many(f, a, 1);
	for (int i = 0; i < 6; i++)
		fake_next_is(f, EVD_DELIVERY);
	fake_settle_down(f);
	assert_int_equal(evd_flush(f->c), 0);
	for (int i = 0; i < 2; i++) {
		fake_read(f);
		assert_in_range(f->frame->settle->binding, 1, 2);
		seen[f->frame->settle->binding] = f->frame->settle->upto;
	}
	assert_int_equal(seen[a], 4);
	assert_int_equal(seen[b], 2);
}

static void
test_unbind_lets_go(void **state)
{
	struct fake *f = *state;
	const struct evd_event *ev;
	int binding = fake_bind(f, "mine", 1, 100);

	fake_deliver(f, binding, "first", "1", 0);
	fake_deliver(f, binding, "second", "2", 0);
	fake_respond_status(f, FAKE_NUMBER(2), 0, "");
	ev = fake_next_is(f, EVD_DELIVERY);
	assert_int_equal(evd_unbind(f->c, binding), 0);
	assert_int_equal(evd_flush(f->c), 0);
	assert_int_equal(fake_read(f)->request->unbind->binding, binding);
	/* borrowed, and those that were read, stay */
	assert_string_equal(evd_event_alias(ev), "mine");
	assert_int_equal(evd_settle(f->c, ev), -ESRCH);
	ev = fake_next_is(f, EVD_DELIVERY);
	assert_string_equal(evd_event_name(ev), "second");
	assert_string_equal(evd_event_alias(ev), "mine");
	fake_settle_down(f);
	assert_int_equal(evd_flush(f->c), 0);
	fake_assert_quiet(f); /* settling them would be for nobody */
}

static void
test_unbound_by_the_daemon(void **state)
{
	struct fake *f = *state;
	Eventd__V1__Frame frame = EVENTD__V1__FRAME__INIT;
	Eventd__V1__Notice notice = EVENTD__V1__NOTICE__INIT;
	Eventd__V1__Unbound unbound = EVENTD__V1__UNBOUND__INIT;
	const struct evd_event *ev;
	int binding = fake_bind(f, "mine", 1, 100);

	unbound.binding = (uint64_t)binding;
	unbound.status = EVD_STATUS_DENIED;
	unbound.text = (char *)"policy changed";
	notice.what_case = EVENTD__V1__NOTICE__WHAT_UNBOUND;
	notice.unbound = &unbound;
	frame.notice = &notice;
	fake_send(f, &frame);
	fake_send(f, &frame); /* of nothing, the second time */
	ev = fake_next_is(f, EVD_UNBOUND);
	assert_int_equal(evd_event_binding(ev), binding);
	assert_string_equal(evd_event_alias(ev), "mine");
	assert_string_equal(evd_event_text(ev), "policy changed");
	assert_int_equal(evd_event_status(ev), EVD_STATUS_DENIED);
	fake_settle_down(f);
	assert_int_equal(evd_unbind(f->c, binding), -ESRCH);
}

/* A daemon that delivers without end while the program waits for something
 * else is stopped at the limit. */
static void
test_unread_events_are_limited(void **state)
{
	struct fake *f = *state;
	static char data[30001];
	const struct evd_event *ev;
	int binding = fake_bind(f, "mine", 1, 100), n = 0;

	memset(data, 'x', 30000);
	assert_int_equal(evd_set_max_queued(f->c, 65536), 0);
	for (int i = 0; i < 3; i++)
		fake_deliver(f, binding, "event", data, 0);
	assert_int_equal(evd_ping(f->c, NULL), -EPIPE);
	for (;;) {
		ev = fake_next(f);
		if (evd_event_type(ev) == EVD_DISCONNECTED)
			break;
		assert_int_equal(evd_event_type(ev), EVD_DELIVERY);
		n++;
	}
	assert_int_equal(n, 2);
	assert_int_equal(evd_event_status(ev), EVD_STATUS_LIMIT);
	assert_non_null(strstr(evd_event_text(ev), "evd_set_max_queued"));
}

int
main(void)
{
#define OPEN(test) \
	cmocka_unit_test_setup_teardown(test, fake_setup, fake_teardown)
	const struct CMUnitTest tests[] = {
		OPEN(test_bind_and_receive),
		OPEN(test_copies_live_on),
		OPEN(test_borrowed_events_are_not_freed),
		OPEN(test_bind_refused),
		OPEN(test_bind_start_and_unbind_start),
		OPEN(test_settles_are_cumulative),
		OPEN(test_settles_by_hand),
		OPEN(test_settles_per_binding),
		OPEN(test_unbind_lets_go),
		OPEN(test_unbound_by_the_daemon),
		OPEN(test_unread_events_are_limited),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Calls, asked and answered. */
#include "client/fake.h"

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
test_call_returns_the_reply(void **state)
{
	struct fake *f = *state;
	struct evd_event *reply = NULL;

	send_reply(f, FAKE_NUMBER(1), 0, "pong");
	assert_int_equal(
		evd_call(f->c, "box", "ping", "x", 1, 1500, &reply), 0);
	assert_int_equal(evd_event_type(reply), EVD_REPLY);
	assert_int_equal(evd_event_size(reply), 4);
	assert_memory_equal(evd_event_data(reply), "pong", 4);
	evd_event_free(reply);
	assert_int_equal(fake_read(f)->envelopes[0]->call, FAKE_NUMBER(1));
	assert_int_equal(f->frame->envelopes[0]->timeout_ms, 1500);
	assert_int_equal(f->frame->envelopes[0]->seq, 0);
	/* the daemon's default; no interest in the reply */
	send_reply(f, FAKE_NUMBER(2), 0, "");
	assert_int_equal(evd_call(f->c, "box", "ping", "x", 1, 0, NULL), 0);
	assert_int_equal(fake_read(f)->envelopes[0]->timeout_ms, 5000);
	/* for ever */
	send_reply(f, FAKE_NUMBER(3), 0, "");
	assert_int_equal(evd_call(f->c, "box", "ping", "x", 1, -1, NULL), 0);
	assert_int_equal(fake_read(f)->envelopes[0]->timeout_ms, UINT32_MAX);
}

static void
test_call_returns_the_error(void **state)
{
	struct fake *f = *state;
	struct evd_event *reply = NULL;

	send_reply(f, FAKE_NUMBER(1), EVD_STATUS_HANDLER, "no such\ndisk");
	assert_int_equal(
		evd_call(f->c, "box", "ping", "x", 1, 0, &reply), -EREMOTEIO);
	assert_null(reply);
	assert_string_equal(evd_last_error(f->c), "no such disk");
	assert_int_equal(evd_last_status(f->c), EVD_STATUS_HANDLER);
	send_reply(f, FAKE_NUMBER(2), EVD_STATUS_DIED, "");
	assert_int_equal(
		evd_call(f->c, "box", "ping", "x", 1, 0, &reply), -EHOSTDOWN);
	assert_string_equal(
		evd_last_error(f->c), evd_status_text(EVD_STATUS_DIED));
	/* a status that this library does not know */
	send_reply(f, FAKE_NUMBER(3), 4000000000u, "");
	assert_int_equal(
		evd_call(f->c, "box", "ping", "x", 1, 0, &reply), -EFAULT);
	send_reply(f, FAKE_NUMBER(4), 999, "new");
	assert_int_equal(
		evd_call(f->c, "box", "ping", "x", 1, 0, &reply), -EIO);
}

/* B26: a late reply is given to no other call. */
static void
test_late_reply_is_dropped(void **state)
{
	struct fake *f = *state;
	struct evd_event *reply;

	assert_int_equal(
		evd_call(f->c, "box", "ping", "x", 1, 1, &reply), -ETIMEDOUT);
	send_reply(f, FAKE_NUMBER(1), 0, "late");
	send_reply(f, FAKE_NUMBER(2), 0, "mine");
	assert_int_equal(evd_call(f->c, "box", "ping", "x", 1, 0, &reply), 0);
	assert_memory_equal(evd_event_data(reply), "mine", 4);
	evd_event_free(reply);
	fake_settle_down(f);
}

static void
test_calls_started_are_answered_in_any_order(void **state)
{
	struct fake *f = *state;
	const struct evd_event *ev;
	int64_t calls[4];

	for (int i = 0; i < 4; i++) {
		calls[i] = evd_call_start(f->c, "box", "e", "x", 1, 0);
		assert_true(calls[i] > 0);
	}
	assert_int_equal(evd_call_start(f->c, "box", "e", "x", 1, 0), -EAGAIN);
	assert_non_null(strstr(evd_last_error(f->c), "daemon's limit is 4"));
	assert_int_equal(evd_flush(f->c), 0);
	assert_int_equal(fake_read(f)->n_envelopes, 4);
	send_reply(f, (uint64_t)calls[2], 0, "two");
	send_reply(f, (uint64_t)calls[2], 0, "two again");
	send_reply(f, (uint64_t)calls[0], EVD_STATUS_FULL, "full");
	ev = fake_next_is(f, EVD_REPLY);
	assert_int_equal(evd_event_call(ev), calls[2]);
	assert_int_equal(evd_event_status(ev), 0);
	assert_memory_equal(evd_event_data(ev), "two", 3);
	ev = fake_next_is(f, EVD_REPLY);
	assert_int_equal(evd_event_call(ev), calls[0]);
	assert_int_equal(evd_event_status(ev), EVD_STATUS_FULL);
	assert_string_equal(evd_event_text(ev), "full");
	fake_hang_up(f);
	for (int i = 0; i < 2; i++) {
		ev = fake_next_is(f, EVD_REPLY);
		assert_int_equal(evd_event_status(ev), EVD_STATUS_LOST);
		assert_true((int64_t)evd_event_call(ev) == calls[1] ||
			    (int64_t)evd_event_call(ev) == calls[3]);
		assert_true(*evd_event_text(ev));
	}
	fake_next_is(f, EVD_DISCONNECTED);
}

static void
test_call_ends_with_the_connection(void **state)
{
	struct fake *f = *state;
	struct evd_event *reply;

	fake_hang_up(f);
	assert_int_equal(
		evd_call(f->c, "box", "ping", "x", 1, 0, &reply), -EPIPE);
	assert_int_equal(evd_last_status(f->c), EVD_STATUS_LOST);
	fake_next_is(f, EVD_DISCONNECTED);
	assert_int_equal(
		evd_call(f->c, "box", "ping", "x", 1, 0, &reply), -ENOTCONN);
}

/* What arrives while a call waits is kept, in order. */
static void
test_events_wait_for_the_call(void **state)
{
	struct fake *f = *state;
	const struct evd_event *ev;
	struct evd_event *reply;

	fake_bind(f, "mine", 1, 100);
	fake_deliver(f, 1, "one", "1", 0);
	fake_deliver(f, 1, "two", "22", 9);
	send_reply(f, FAKE_NUMBER(1), 0, "pong");
	fake_deliver(f, 1, "three", "333", 0);
	assert_int_equal(evd_call(f->c, "box", "ping", "x", 1, 0, &reply), 0);
	evd_event_free(reply);
	ev = fake_next_is(f, EVD_DELIVERY);
	assert_string_equal(evd_event_name(ev), "one");
	assert_string_equal(evd_event_alias(ev), "mine");
	assert_int_equal(evd_event_id(ev), 1000);
	assert_int_equal(evd_event_from(ev), 2000);
	ev = fake_next_is(f, EVD_DELIVERY);
	assert_string_equal(evd_event_name(ev), "two");
	assert_memory_equal(evd_event_data(ev), "22", 2);
	assert_int_not_equal(evd_event_call(ev), 0);
	ev = fake_next_is(f, EVD_DELIVERY);
	assert_string_equal(evd_event_name(ev), "three");
}

/* A borrowed event stays as it is while a call made for it waits. */
static void
test_borrowed_event_survives_a_call(void **state)
{
	struct fake *f = *state;
	static char big[300001];
	const struct evd_event *ev;
	struct evd_event *reply;

	memset(big, 'b', 300000);
	fake_bind(f, "mine", 1, 100);
	fake_deliver(f, 1, "question", "the payload", 41);
	ev = fake_next_is(f, EVD_DELIVERY);
	for (int i = 0; i < 3; i++) {
		int fd = evd_fd(f->c), size = 1 << 20;

		setsockopt(f->fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
		(void)fd;
		send_reply(f, FAKE_NUMBER(i + 1), 0, big);
		assert_int_equal(
			evd_call(f->c, "box", "e", "x", 1, 0, &reply), 0);
		assert_int_equal(evd_event_size(reply), 300000);
		evd_event_free(reply);
		assert_string_equal(evd_event_name(ev), "question");
		assert_int_equal(evd_event_size(ev), 11);
		assert_memory_equal(evd_event_data(ev), "the payload", 11);
	}
	assert_int_equal(evd_reply(f->c, evd_event_call(ev), evd_event_data(ev),
				 evd_event_size(ev)),
		0);
	assert_int_equal(evd_flush(f->c), 0);
	while (fake_read(f)->envelopes[0]->re != 41)
		assert_int_not_equal(f->frame->envelopes[0]->call, 0);
	assert_int_equal(f->frame->envelopes[0]->payload.len, 11);
}

static void
test_replies(void **state)
{
	struct fake *f = *state;
	const struct evd_event *ev;
	uint64_t call;

	fake_bind(f, "mine", 1, 100);
	fake_deliver(f, 1, "q", "1", 501);
	fake_deliver(f, 1, "q", "2", 502);
	ev = fake_next_is(f, EVD_DELIVERY);
	call = evd_event_call(ev);
	assert_int_equal(evd_reply(f->c, call, "answer", 6), 0);
	assert_int_equal(evd_reply(f->c, call, "again", 5), -ESRCH);
	assert_int_equal(evd_reply(f->c, 0, "x", 1), -EINVAL);
	ev = fake_next_is(f, EVD_DELIVERY);
	assert_int_equal(
		evd_reply_error(f->c, evd_event_call(ev), "broken"), 0);
	fake_settle_down(f);
	assert_int_equal(evd_flush(f->c), 0);
	assert_int_equal(fake_read(f)->n_envelopes, 2);
	assert_int_equal(f->frame->envelopes[0]->re, 501);
	assert_int_equal(f->frame->envelopes[0]->status, 0);
	assert_memory_equal(f->frame->envelopes[0]->payload.data, "answer", 6);
	assert_int_equal(f->frame->envelopes[1]->re, 502);
	assert_int_equal(f->frame->envelopes[1]->status, EVD_STATUS_HANDLER);
	assert_memory_equal(f->frame->envelopes[1]->payload.data, "broken", 6);
}

/* A call that is passed over gets an empty reply; one that is deferred does
 * not, and can be answered much later. */
static void
test_replies_are_empty_or_deferred(void **state)
{
	struct fake *f = *state;
	const struct evd_event *ev;
	struct evd_event *copy;
	uint64_t call;

	fake_bind(f, "mine", 1, 100);
	for (uint64_t i = 501; i <= 503; i++)
		fake_deliver(f, 1, "q", "1", i);
	fake_next_is(f, EVD_DELIVERY);
	ev = fake_next_is(f, EVD_DELIVERY);
	call = evd_event_call(ev);
	assert_int_equal(evd_defer(f->c, ev), 0);
	copy = evd_event_dup(ev);
	assert_non_null(copy);
	fake_next_is(f, EVD_DELIVERY);
	assert_int_equal(evd_defer(f->c, copy), -EINVAL);
	fake_settle_down(f);
	assert_int_equal(evd_flush(f->c), 0);
	for (uint64_t i = 501; i <= 503; i += 2) {
		while (!fake_read(f)->n_envelopes)
			assert_non_null(f->frame->settle);
		assert_int_equal(f->frame->envelopes[0]->re, i);
		assert_int_equal(f->frame->envelopes[0]->payload.len, 0);
		if (f->frame->n_envelopes == 2) {
			assert_int_equal(f->frame->envelopes[1]->re, 503);
			break;
		}
	}
	assert_int_equal(evd_event_call(copy), call);
	assert_int_equal(evd_reply(f->c, call, "later", 5), 0);
	assert_int_equal(evd_flush(f->c), 0);
	while (!fake_read(f)->n_envelopes)
		assert_non_null(f->frame->settle);
	assert_int_equal(f->frame->envelopes[0]->re, 502);
	evd_event_free(copy);
}

static void
test_reply_to_a_lost_connection(void **state)
{
	struct fake *f = *state;
	const struct evd_event *ev;
	uint64_t call;

	fake_bind(f, "mine", 1, 100);
	fake_deliver(f, 1, "q", "1", 501);
	ev = fake_next_is(f, EVD_DELIVERY);
	call = evd_event_call(ev);
	assert_int_equal(evd_defer(f->c, ev), 0);
	fake_hang_up(f);
	fake_next_is(f, EVD_DISCONNECTED);
	assert_int_equal(evd_reply(f->c, call, "x", 1), -EPIPE);
	fake_connect(f);
	assert_int_equal(evd_reply(f->c, call, "x", 1), -EPIPE);
	fake_assert_quiet(f);
}

static void
test_call_by_id(void **state)
{
	struct fake *f = *state;
	struct evd_event *reply;
	uint64_t id;

	fake_respond_resolved(f, FAKE_NUMBER(1), 33);
	assert_int_equal(evd_resolve(f->c, "box", &id), 0);
	fake_read(f);
	send_reply(f, FAKE_NUMBER(1), 0, "pong");
	assert_int_equal(evd_call_id(f->c, id, "ping", "x", 1, 0, &reply), 0);
	evd_event_free(reply);
	assert_int_equal(fake_read(f)->envelopes[0]->to, 33);
	assert_string_equal(f->frame->envelopes[0]->alias, "");
	assert_int_equal(
		evd_call_id(f->c, id + 1, "ping", "x", 1, 0, &reply), -ESRCH);
	assert_true(evd_call_start_id(f->c, id, "ping", "x", 1, 0) > 0);
}

int
main(void)
{
#define OPEN(test) \
	cmocka_unit_test_setup_teardown(test, fake_setup, fake_teardown)
	const struct CMUnitTest tests[] = {
		OPEN(test_call_returns_the_reply),
		OPEN(test_call_returns_the_error),
		OPEN(test_late_reply_is_dropped),
		OPEN(test_calls_started_are_answered_in_any_order),
		OPEN(test_call_ends_with_the_connection),
		OPEN(test_events_wait_for_the_call),
		OPEN(test_borrowed_event_survives_a_call),
		OPEN(test_replies),
		OPEN(test_replies_are_empty_or_deferred),
		OPEN(test_reply_to_a_lost_connection),
		OPEN(test_call_by_id),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

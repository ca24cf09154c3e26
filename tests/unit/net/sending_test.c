/* Sending beside the plain way, as clients do it: priority, time to live, keys,
 * forwarding and cancelling calls, deadlines. The sender's connection is on the
 * first loop, the consumer's on the last. */
#include "fixture.h"
#include "net/mailslot.h"

static struct client *
consumer(struct rig *rig, const char *alias, uint32_t window)
{
	struct client *c = client_hello(rig, rig->n_loops - 1);

	client_bind(c, alias, 1, window);
	return c;
}

/* A post with what @e says, accepted or failed as the test expects. */
static uint64_t
send_post(struct client *c, Eventd__V1__Envelope *e, const char *alias,
	const char *event)
{
	e->alias = (char *)alias;
	e->event = (char *)event;
	e->seq = ++c->seq;
	client_envelope(c, e);
	return e->seq;
}

static void
send_call(struct client *c, const char *alias, const char *event, uint64_t call,
	uint32_t timeout_ms)
{
	Eventd__V1__Envelope e = EVENTD__V1__ENVELOPE__INIT;

	e.alias = (char *)alias;
	e.event = (char *)event;
	e.call = call;
	e.timeout_ms = timeout_ms;
	client_envelope(c, &e);
}

static void
cancel_call(struct client *c, uint64_t call, uint64_t *id)
{
	Eventd__V1__Request r = EVENTD__V1__REQUEST__INIT;
	Eventd__V1__CancelCall cancel = EVENTD__V1__CANCEL_CALL__INIT;

	cancel.call = call;
	r.verb_case = EVENTD__V1__REQUEST__VERB_CANCEL_CALL;
	r.cancel_call = &cancel;
	*id = client_ask(c, &r);
}

static void
test_urgent_posts_are_delivered_first(void **state)
{
	struct rig *rig = *state;
	struct client *a = client_hello(rig, 0), *b = consumer(rig, "box", 1);
	Eventd__V1__Envelope e = EVENTD__V1__ENVELOPE__INIT;

	client_post(a, "box", "one");
	client_expect_ack(a, 1);
	assert_int_equal(client_expect_delivery(b, 1, "one")->priority, 0);
	client_post(a, "box", "two");
	client_expect_ack(a, 2);
	e.priority = EVENTD__V1__PRIORITY__URGENT;
	client_expect_ack(a, send_post(a, &e, "box", "now"));
	client_settle(b, 1, 1);
	assert_int_equal(client_expect_delivery(b, 1, "now")->priority,
		EVENTD__V1__PRIORITY__URGENT);
	client_settle(b, 1, 2);
	client_expect_delivery(b, 1, "two");
	client_free(a);
	client_free(b);
}

static void
test_a_priority_of_later_versions_is_told(void **state)
{
	struct rig *rig = *state;
	struct client *a = client_hello(rig, 0);
	Eventd__V1__Envelope e = EVENTD__V1__ENVELOPE__INIT;

	fake_new(rig, 0, "fake");
	e.priority = (Eventd__V1__Priority)7;
	client_expect_failure(
		a, send_post(a, &e, "fake", "x"), EVD_STATUS_UNSUPPORTED);
	client_expect_ack(a, 1);
	client_free(a);
}

static void
test_what_expires_at_a_full_consumer_is_not_delivered(void **state)
{
	struct rig *rig = *state;
	struct client *a = client_hello(rig, 0), *b = consumer(rig, "box", 1);
	Eventd__V1__Envelope e = EVENTD__V1__ENVELOPE__INIT;
	uint64_t end;

	client_post(a, "box", "one");
	client_expect_ack(a, 1);
	client_expect_delivery(b, 1, "one");
	e.ttl_ms = 5;
	e.level = EVENTD__V1__LEVEL__HANDLED;
	send_post(a, &e, "box", "short");
	client_expect_silence(a);
	end = rig_now() + 10 * NS_PER_MS;
	RIG_UNTIL(rig, rig_now() > end);
	client_post(a, "box", "two");
	client_settle(b, 1, 1);
	client_expect_failure(a, 2, EVD_STATUS_EXPIRED);
	client_expect_delivery(b, 1, "two");
	client_free(a);
	client_free(b);
}

static void
test_a_post_sent_again_is_handled_once(void **state)
{
	struct rig *rig = *state;
	struct client *a = client_hello(rig, 0), *b;
	struct fake *fake = fake_new(rig, rig->n_loops - 1, "fake");
	Eventd__V1__Envelope e = EVENTD__V1__ENVELOPE__INIT;

	e.key.data = (uint8_t *)"order 12";
	e.key.len = 8;
	client_expect_ack(a, send_post(a, &e, "fake", "buy"));
	client_free(a); /* the ack is lost; it tries again */
	b = client_hello(rig, 0);
	e.level = EVENTD__V1__LEVEL__HANDLED;
	client_expect_ack(b, send_post(b, &e, "fake", "buy"));
	assert_int_equal(fake->n_run, 1);
	e.key.len = 7;
	client_expect_ack(b, send_post(b, &e, "fake", "buy"));
	assert_int_equal(fake->n_run, 2);
	client_free(b);
}

static void
test_keys_are_checked(void **state)
{
	struct rig *rig = *state;
	struct client *a = client_hello(rig, 0);
	Eventd__V1__Envelope e = EVENTD__V1__ENVELOPE__INIT;
	uint8_t key[65] = {0};

	fake_new(rig, 0, "fake");
	e.key.data = key;
	e.key.len = sizeof(key);
	client_expect_failure(
		a, send_post(a, &e, "fake", "x"), EVD_STATUS_INVALID);
	client_expect_ack(a, 1);
	e.key.len = 64;
	client_expect_ack(a, send_post(a, &e, "fake", "x"));
	e.seq = 0;
	e.call = 3;
	client_envelope(a, &e);
	client_expect_reply(
		a, 3, EVD_STATUS_INVALID, "a key is for posts, not calls");
	client_free(a);
}

/* B26 */
static void
test_a_delivered_call_tells_how_long_its_caller_waits(void **state)
{
	struct rig *rig = *state;
	struct client *a = client_hello(rig, 0), *b = consumer(rig, "box", 0);
	Eventd__V1__Envelope *e;

	send_call(a, "box", "ask", 1, 5000);
	e = client_expect_delivery(b, 1, "ask");
	assert_in_range(e->deadline_ms, 1, 5000);
	client_reply(b, e->call, 0, "yes");
	client_expect_reply(a, 1, 0, "yes");
	client_post(a, "box", "post");
	assert_int_equal(client_expect_delivery(b, 1, "post")->deadline_ms, 0);
	client_free(a);
	client_free(b);
}

static void
test_a_forwarded_call_is_answered_by_the_next(void **state)
{
	struct rig *rig = *state;
	struct client *a = client_hello(rig, 0), *b = consumer(rig, "box", 0);
	Eventd__V1__Envelope e = EVENTD__V1__ENVELOPE__INIT;

	fake_new(rig, 0, "fake");
	send_call(a, "box", "ask", 1, 0);
	e.forward = client_expect_delivery(b, 1, "ask")->call;
	e.payload.data = (uint8_t *)"hello";
	e.payload.len = 5;
	send_post(b, &e, "nobody", "echo");
	client_expect_failure(b, 1, EVD_STATUS_NO_ALIAS);
	client_expect_ack(b, 1); /* and the call is still its own */
	client_expect_ack(b, send_post(b, &e, "fake", "echo"));
	client_expect_reply(a, 1, 0, "hello");
	send_post(b, &e, "fake", "echo");
	client_expect_failure(b, 3, EVD_STATUS_NOT_FOUND);
	client_free(a);
	client_free(b);
}

static void
test_a_cancelled_call_is_told_to_both(void **state)
{
	struct rig *rig = *state;
	struct client *a = client_hello(rig, 0), *b = consumer(rig, "box", 0);
	const Eventd__V1__Frame *frame;
	uint64_t call, id;

	send_call(a, "box", "ask", 7, 0);
	call = client_expect_delivery(b, 1, "ask")->call;
	cancel_call(a, 7, &id);
	client_expect_reply(
		a, 7, EVD_STATUS_CANCELLED, "the caller cancelled it");
	client_expect_response(a, id, EVD_STATUS_OK);
	frame = client_next(b);
	assert_non_null(frame->notice);
	assert_int_equal(frame->notice->call_cancelled->call, call);
	client_reply(b, call, 0, "late");
	client_expect_silence(a);
	assert_int_equal(rig->kernel.late_replies, 1);
	cancel_call(a, 7, &id);
	client_expect_response(a, id, EVD_STATUS_NOT_FOUND);
	client_free(a);
	client_free(b);
}

static void
test_a_call_cancelled_in_the_queue_is_not_delivered(void **state)
{
	struct rig *rig = *state;
	struct client *a = client_hello(rig, 0), *b = consumer(rig, "box", 1);
	uint64_t id;

	client_post(a, "box", "one");
	client_expect_ack(a, 1);
	client_expect_delivery(b, 1, "one");
	send_call(a, "box", "ask", 7, 0);
	client_post(a, "box", "two");
	client_expect_ack(a, 2);
	cancel_call(a, 7, &id);
	client_expect_reply(
		a, 7, EVD_STATUS_CANCELLED, "the caller cancelled it");
	client_expect_response(a, id, EVD_STATUS_OK);
	client_settle(b, 1, 1);
	client_expect_delivery(b, 1, "two");
	client_free(a);
	client_free(b);
}

/* Through the mailbox of a session file. */
static void
test_a_call_at_a_mailslot_is_cancelled_and_has_a_deadline(void **state)
{
	struct rig *rig = *state;
	struct session_spec *spec = spec_new();
	struct client *a = client_hello(rig, 0), *b;
	Eventd__V1__Envelope *e;
	uint64_t call, id;

	assert_int_equal(spec_add_alias(spec, "jobs"), 0);
	assert_non_null(
		session_new(&rig->loops[0].sched, &mailslot_ops, spec, NULL));
	spec_unref(spec);
	rig_run(rig);
	b = consumer(rig, "jobs", 0);
	send_call(a, "jobs", "ask", 7, 5000);
	e = client_expect_delivery(b, 1, "ask");
	assert_in_range(e->deadline_ms, 1, 5000);
	call = e->call;
	cancel_call(a, 7, &id);
	client_expect_reply(
		a, 7, EVD_STATUS_CANCELLED, "the caller cancelled it");
	assert_int_equal(client_next(b)->notice->call_cancelled->call, call);
	client_free(a);
	client_free(b);
}

#define BOTH(name)                                                      \
	cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown), \
		cmocka_unit_test_setup_teardown(                        \
			name, rig_setup_two, rig_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(test_urgent_posts_are_delivered_first),
		BOTH(test_a_priority_of_later_versions_is_told),
		BOTH(test_what_expires_at_a_full_consumer_is_not_delivered),
		BOTH(test_a_post_sent_again_is_handled_once),
		BOTH(test_keys_are_checked),
		BOTH(test_a_delivered_call_tells_how_long_its_caller_waits),
		BOTH(test_a_forwarded_call_is_answered_by_the_next),
		BOTH(test_a_cancelled_call_is_told_to_both),
		BOTH(test_a_call_cancelled_in_the_queue_is_not_delivered),
		BOTH(test_a_call_at_a_mailslot_is_cancelled_and_has_a_deadline),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

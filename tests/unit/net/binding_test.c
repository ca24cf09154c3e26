/* Aliases that clients bind: deliveries, windows, settling, calls and their
 * replies, and what is left when a consumer goes. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "fixture.h"

static Eventd__V1__Response *
ask_bind(struct client *c, const char *alias, uint64_t binding, int status)
{
	Eventd__V1__Request r = EVENTD__V1__REQUEST__INIT;
	Eventd__V1__Bind bind = EVENTD__V1__BIND__INIT;

	bind.alias = (char *)alias;
	bind.binding = binding;
	bind.window_events = UINT32_MAX;
	bind.window_bytes = UINT64_MAX;
	r.verb_case = EVENTD__V1__REQUEST__VERB_BIND;
	r.bind = &bind;
	return client_request(c, &r, status);
}

static void
ask_unbind(struct client *c, uint64_t binding, int status)
{
	Eventd__V1__Request r = EVENTD__V1__REQUEST__INIT;
	Eventd__V1__Unbind unbind = EVENTD__V1__UNBIND__INIT;

	unbind.binding = binding;
	r.verb_case = EVENTD__V1__REQUEST__VERB_UNBIND;
	r.unbind = &unbind;
	client_request(c, &r, status);
}

/* ---- bind and unbind --------------------------------------------------- */

static void
test_an_alias_is_bound_once(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0), *d = client_hello(rig, 0);

	ask_bind(c, "box", 1, EVD_STATUS_OK);
	assert_true(c->frame->response->bound->session != 0);
	assert_int_equal(
		c->frame->response->bound->window_events, BINDING_EVENTS_MAX);
	assert_int_equal(
		c->frame->response->bound->window_bytes, BINDING_BYTES_MAX);
	ask_bind(d, "box", 1, EVD_STATUS_TAKEN);
	assert_non_null(strstr(d->frame->response->text, "box"));
	ask_bind(c, "box", 2, EVD_STATUS_TAKEN);
	fake_new(rig, 0, "sink");
	ask_bind(c, "sink", 2, EVD_STATUS_TAKEN);
	ask_unbind(c, 1, EVD_STATUS_OK);
	ask_bind(d, "box", 1, EVD_STATUS_OK);
	client_free(c);
	client_free(d);
}

static void
test_numbers_of_bindings_are_checked(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0);

	ask_bind(c, "box", 0, EVD_STATUS_INVALID);
	ask_bind(c, "box", 65536, EVD_STATUS_INVALID);
	ask_bind(c, "box", UINT64_MAX, EVD_STATUS_INVALID);
	ask_bind(c, "no name", 1, EVD_STATUS_INVALID);
	ask_bind(c, "box", 65535, EVD_STATUS_OK);
	ask_bind(c, "other", 65535, EVD_STATUS_INVALID);
	ask_unbind(c, 1, EVD_STATUS_NOT_FOUND);
	ask_unbind(c, 65535, EVD_STATUS_OK);
	ask_unbind(c, 65535, EVD_STATUS_NOT_FOUND);
	client_free(c);
}

static void
test_bindings_have_a_limit(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0);
	char alias[32];

	for (unsigned i = CONN_BINDINGS_MAX; i > 0; i--) {
		snprintf(alias, sizeof(alias), "box.%u", i);
		ask_bind(c, alias, i, EVD_STATUS_OK);
	}
	ask_bind(c, "one.more", 60000, EVD_STATUS_LIMIT);
	ask_unbind(c, 7, EVD_STATUS_OK);
	ask_bind(c, "one.more", 60000, EVD_STATUS_OK);
	client_post(c, "box.4096", "hit");
	client_expect_delivery(c, 4096, "hit");
	client_expect_ack(c, 1);
	client_settle(c, 4096, 1);
	client_expect_alive(c);
	client_free(c);
	RIG_UNTIL(rig, !conn_count(&rig->loops[0]));
	assert_int_equal(atomic_load(&rig->kernel.sessions.n), 0);
}

static void
test_sessions_have_a_limit(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0);

	rig->kernel.limits.max_sessions = 2;
	ask_bind(c, "box", 1, EVD_STATUS_OK);
	ask_bind(c, "other", 2, EVD_STATUS_LIMIT);
	client_free(c);
}

/* ---- deliveries -------------------------------------------------------- */

static void
test_a_delivery_has_all_that_was_posted(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0), *d = client_hello(rig, 0);
	Eventd__V1__Envelope post = EVENTD__V1__ENVELOPE__INIT, *e;
	Eventd__V1__Header header = EVENTD__V1__HEADER__INIT, *one = &header;

	client_bind(c, "box", 7, 0);
	header.name = (char *)"trace";
	header.value.data = (uint8_t *)"\0\1\2";
	header.value.len = 3;
	post.alias = (char *)"box";
	post.event = (char *)"hit";
	post.payload.data = (uint8_t *)"payload";
	post.payload.len = 7;
	post.headers = &one;
	post.n_headers = 1;
	post.seq = 1;
	client_envelope(d, &post);
	client_expect_ack(d, 1);
	e = client_expect_delivery(c, 7, "hit");
	assert_int_equal(e->payload.len, 7);
	assert_memory_equal(e->payload.data, "payload", 7);
	assert_int_equal(e->n_headers, 1);
	assert_string_equal(e->headers[0]->name, "trace");
	assert_int_equal(e->headers[0]->value.len, 3);
	assert_true(e->id != 0);
	assert_true(e->from != 0);
	assert_int_equal(e->call, 0);
	assert_int_equal(e->attempt, 0);
	client_free(c);
	client_free(d);
}

static void
test_the_window_stops_one_binding_alone(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0), *d = client_hello(rig, 0);

	client_bind(c, "slow", 1, 2);
	client_bind(c, "fast", 2, 2);
	for (int i = 0; i < 5; i++)
		client_post(d, "slow", "hit");
	client_expect_ack(d, 5);
	client_expect_delivery(c, 1, "hit");
	client_expect_delivery(c, 1, "hit");
	client_expect_silence(c);
	for (unsigned i = 1; i <= 5; i++) {
		client_post(d, "fast", "hit");
		client_expect_delivery(c, 2, "hit");
		client_settle(c, 2, i);
	}
	client_settle(c, 1, 1);
	client_expect_delivery(c, 1, "hit");
	client_expect_silence(c);
	client_settle(c, 1, 3);
	client_expect_delivery(c, 1, "hit");
	client_expect_delivery(c, 1, "hit");
	client_settle(c, 1, 5);
	client_settle(c, 1, 2); /* old news */
	client_expect_silence(c);
	rig_check(rig);
	assert_int_equal(rig->loops[0].sched.counters.handled, 10);
	client_free(c);
	client_free(d);
}

static void
test_bytes_close_the_window(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0), *d = client_hello(rig, 0);

	client_bind(c, "box", 1, 0); /* 1 MiB */
	for (int i = 0; i < 4; i++) {
		client_post_size(d, "box", "big", 600 << 10);
		client_expect_ack(d, d->seq);
	}
	client_expect_delivery(c, 1, "big");
	client_expect_delivery(c, 1, "big");
	client_expect_silence(c);
	client_settle(c, 1, 2);
	client_expect_delivery(c, 1, "big");
	client_expect_delivery(c, 1, "big");
	client_free(c);
	client_free(d);
}

static void
test_settling_more_than_was_delivered_is_an_error(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0), *d = client_hello(rig, 0);

	client_bind(c, "box", 1, 0);
	client_post(d, "box", "hit");
	client_expect_delivery(c, 1, "hit");
	client_settle(c, 9, 100); /* no such binding: it may be over */
	client_expect_alive(c);
	client_settle(c, 1, 2);
	client_expect_error(c, EVD_STATUS_PROTOCOL);
	client_free(c);
	client_free(d);
}

static void
test_levels_reach_the_consumer(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0), *d = client_hello(rig, 0);

	client_bind(c, "box", 1, 1);
	client_post_level(d, "box", "hit", EVENTD__V1__LEVEL__HANDLED);
	client_expect_delivery(c, 1, "hit");
	client_expect_silence(d);
	client_post_level(d, "box", "hit", EVENTD__V1__LEVEL__DELIVERED);
	client_expect_silence(d);
	client_settle(c, 1, 1);
	client_expect_ack(d, 2);
	client_free(c);
	client_free(d);
}

static void
test_a_client_posts_to_itself(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0);

	client_bind(c, "box", 1, 0);
	client_call(c, "box", "ask", 5, "me");
	client_expect_delivery(c, 1, "ask");
	client_reply(c, c->frame->envelopes[0]->call, 0, "myself");
	client_expect_reply(c, 5, 0, "myself");
	client_post_level(c, "box", "hit", EVENTD__V1__LEVEL__HANDLED);
	client_expect_delivery(c, 1, "hit");
	client_free(c); /* with an ack of its own to come */
	RIG_UNTIL(rig, !conn_count(&rig->loops[0]));
	rig_check(rig);
}

/* ---- calls ------------------------------------------------------------- */

static uint64_t
expect_call(struct client *c, uint64_t binding)
{
	uint64_t call = client_expect_delivery(c, binding, "ask")->call;

	assert_true(call != 0);
	return call;
}

static void
test_calls_are_answered_in_any_order(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0), *d = client_hello(rig, 0);
	uint64_t one, two;

	client_bind(c, "box", 1, 0);
	client_call(d, "box", "ask", 11, "one");
	client_call(d, "box", "ask", 12, "two");
	one = expect_call(c, 1);
	two = expect_call(c, 1);
	client_settle(c, 1, 2); /* settled is not answered */
	client_expect_silence(d);
	client_reply(c, two, 0, "2");
	client_expect_reply(d, 12, 0, "2");
	client_reply(c, one, EVD_STATUS_HANDLER, "no");
	client_expect_reply(d, 11, EVD_STATUS_HANDLER, "no");
	client_reply(c, one, 0, "again");
	client_expect_silence(d);
	assert_int_equal(atomic_load(&rig->kernel.late_replies), 1);
	client_free(c);
	client_free(d);
}

static void
test_handles_are_the_connections_own(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0), *d = client_hello(rig, 0);
	struct client *thief = client_hello(rig, 0);
	uint64_t call;

	client_bind(c, "box", 1, 0);
	client_call(d, "box", "ask", 11, "");
	call = expect_call(c, 1);
	client_reply(thief, call, 0, "stolen");
	client_expect_silence(d);
	client_reply(c, call, 0, "mine");
	client_expect_reply(d, 11, 0, "mine");
	client_free(c);
	client_free(d);
	client_free(thief);
}

static void
test_a_late_reply_is_counted(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0), *d = client_hello(rig, 0);
	Eventd__V1__Envelope e = EVENTD__V1__ENVELOPE__INIT;
	uint64_t call;

	client_bind(c, "box", 1, 0);
	e.alias = (char *)"box";
	e.event = (char *)"ask";
	e.call = 1;
	e.timeout_ms = 2;
	client_envelope(d, &e);
	call = expect_call(c, 1);
	client_expect_reply(d, 1, EVD_STATUS_TIMEOUT, NULL);
	client_reply(c, call, 0, "late");
	client_expect_silence(d);
	assert_int_equal(atomic_load(&rig->kernel.late_replies), 1);
	client_free(c);
	client_free(d);
}

static void
test_an_open_call_is_answered_after_its_unbind(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0), *d = client_hello(rig, 0);
	uint64_t call;

	client_bind(c, "box", 1, 0);
	client_call(d, "box", "ask", 11, "");
	call = expect_call(c, 1);
	client_settle(c, 1, 1);
	ask_unbind(c, 1, EVD_STATUS_OK);
	client_reply(c, call, 0, "still");
	client_expect_reply(d, 11, 0, "still");
	client_free(c);
	client_free(d);
}

static void
test_unanswered_calls_are_limited(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0), *d;
	uint64_t i = 0;

	rig->server.max_calls = 3 * CONN_INBOUND_MAX;
	d = client_hello(rig, 0);
	client_bind(c, "box", 1, 1000);
	while (i < CONN_INBOUND_MAX) {
		client_call(d, "box", "ask", ++i, "");
		expect_call(c, 1);
		client_settle(c, 1, i);
	}
	assert_null(client_poll(d));
	client_call(d, "box", "ask", ++i, "");
	expect_call(c, 1);
	client_expect_reply(d, 1, EVD_STATUS_LIMIT, NULL); /* the oldest */
	client_free(c);
	for (i = 2; i <= CONN_INBOUND_MAX + 1; i++) {
		assert_non_null(client_next(d));
		assert_int_equal(
			d->frame->envelopes[0]->status, EVD_STATUS_DIED);
	}
	client_free(d);
}

/* ---- the end of a consumer --------------------------------------------- */

static void
test_a_consumer_dies_with_all_in_its_hands(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0), *d = client_hello(rig, 0);
	const struct counters *n = &rig->loops[0].sched.counters;

	client_bind(c, "box", 1, 3);
	client_post_level(d, "box", "hit", EVENTD__V1__LEVEL__HANDLED);
	client_call(d, "box", "ask", 11, "");
	client_post(d, "box", "hit");
	client_post(d, "box", "hit"); /* not delivered */
	client_call(d, "box", "ask", 12, "");
	client_expect_delivery(c, 1, "hit");
	expect_call(c, 1);
	client_expect_delivery(c, 1, "hit");
	client_expect_silence(c);
	client_settle(c, 1, 0);
	assert_int_equal(n->leased, 3);
	client_free(c);
	/* whose order is that of the daemon: one failure and two replies */
	for (unsigned got = 0; got != 7;) {
		assert_non_null(client_next(d));
		if (d->frame->n_failures) {
			assert_int_equal(d->frame->failures[0]->seq, 1);
			assert_int_equal(
				d->frame->failures[0]->status, EVD_STATUS_DIED);
			got |= 1;
		} else if (d->frame->n_envelopes) {
			assert_int_equal(d->frame->envelopes[0]->status,
				EVD_STATUS_DIED);
			got |= 2u << (d->frame->envelopes[0]->re - 11);
		}
	}
	client_expect_ack(d, 3);
	rig_check(rig);
	assert_int_equal(n->accepted, 5);
	assert_int_equal(n->dead, 5);
	assert_int_equal(n->leased, 0);
	client_free(d);
}

static void
test_an_unbind_ends_what_was_delivered(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0), *d = client_hello(rig, 0);

	client_bind(c, "box", 1, 1);
	client_post_level(d, "box", "hit", EVENTD__V1__LEVEL__HANDLED);
	client_post_level(d, "box", "hit", EVENTD__V1__LEVEL__HANDLED);
	client_expect_delivery(c, 1, "hit");
	ask_unbind(c, 1, EVD_STATUS_OK);
	client_settle(c, 1, 1); /* crossed it */
	client_expect_failure(d, 1, EVD_STATUS_DIED);
	client_expect_failure(d, 2, EVD_STATUS_DIED);
	client_expect_ack(d, 2);
	rig_check(rig);
	client_expect_alive(c);
	client_free(c);
	client_free(d);
}

static void
test_the_poster_dies_first(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0), *d = client_hello(rig, 0);
	uint64_t call;

	client_bind(c, "box", 1, 0);
	client_post_level(d, "box", "hit", EVENTD__V1__LEVEL__HANDLED);
	client_call(d, "box", "ask", 11, "");
	client_expect_delivery(c, 1, "hit");
	call = expect_call(c, 1);
	client_free(d);
	RIG_UNTIL(rig, conn_count(&rig->loops[0]) == 1);
	client_free(client_hello(rig, 0)); /* in its place */
	client_settle(c, 1, 2);
	client_reply(c, call, 0, "to nobody");
	client_expect_alive(c);
	assert_int_equal(atomic_load(&rig->kernel.late_replies), 1);
	client_free(c);
}

/* ---- two loops --------------------------------------------------------- */

static void
test_between_loops(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0), *d = client_hello(rig, 1);
	uint64_t call;

	client_bind(c, "box", 1, 2);
	client_post_level(d, "box", "hit", EVENTD__V1__LEVEL__ACCEPTED);
	client_expect_ack(d, 1);
	client_post_level(d, "box", "hit", EVENTD__V1__LEVEL__DELIVERED);
	client_expect_ack(d, 2);
	client_post_level(d, "box", "hit", EVENTD__V1__LEVEL__HANDLED);
	client_expect_silence(d);
	client_expect_delivery(c, 1, "hit");
	client_expect_delivery(c, 1, "hit");
	client_settle(c, 1, 2);
	client_expect_delivery(c, 1, "hit");
	client_expect_silence(d);
	client_settle(c, 1, 3);
	client_expect_ack(d, 3);
	client_call(d, "box", "ask", 5, "?");
	call = expect_call(c, 1);
	client_reply(c, call, 0, "!");
	client_expect_reply(d, 5, 0, "!");
	client_settle(c, 1, 4);
	client_call(d, "box", "ask", 6, "?");
	expect_call(c, 1);
	client_post_level(d, "box", "hit", EVENTD__V1__LEVEL__HANDLED);
	client_expect_delivery(c, 1, "hit");
	client_free(c);
	client_expect_failure(d, 4, EVD_STATUS_DIED);
	client_expect_reply(d, 6, EVD_STATUS_DIED, NULL);
	client_expect_ack(d, 4);
	rig_check(rig);
	client_free(d);
}

static void
test_parked_on_another_loop(void **state)
{
	struct rig *rig = *state;
	struct fake *slow = fake_new(rig, 0, "slow");
	struct client *d = client_hello(rig, 1);
	Eventd__V1__Envelope e = EVENTD__V1__ENVELOPE__INIT;

	mailbox_limit(&slow->session->box, 1, 1 << 20);
	client_post(d, "slow", "wait");
	client_expect_ack(d, 1);
	client_post(d, "slow", "hit");
	client_expect_ack(d, 2);
	client_post(d, "slow", "parked");
	e.alias = (char *)"slow";
	e.event = (char *)"hit";
	e.flags = EVENTD__V1__ENVELOPE_FLAG__NO_WAIT;
	e.seq = 4;
	client_envelope(d, &e);
	client_expect_failure(d, 4, EVD_STATUS_FULL);
	client_call(d, "slow", "echo", 1, "");
	assert_non_null(client_next(d)); /* also 4 */
	assert_int_equal(d->frame->ack->also[0], 4);
	client_expect_reply(d, 1, EVD_STATUS_FULL, NULL);
	fake_finish(slow);
	client_expect_ack(d, 4);
	client_free(d);
}

int
main(void)
{
#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
#define TWO(name) \
	cmocka_unit_test_setup_teardown(name, rig_setup_two, rig_teardown)
	const struct CMUnitTest tests[] = {
		TWO(test_an_alias_is_bound_once),
		TEST(test_numbers_of_bindings_are_checked),
		TEST(test_bindings_have_a_limit),
		TEST(test_sessions_have_a_limit),
		TEST(test_a_delivery_has_all_that_was_posted),
		TEST(test_the_window_stops_one_binding_alone),
		TEST(test_bytes_close_the_window),
		TEST(test_settling_more_than_was_delivered_is_an_error),
		TEST(test_levels_reach_the_consumer),
		TEST(test_a_client_posts_to_itself),
		TEST(test_calls_are_answered_in_any_order),
		TEST(test_handles_are_the_connections_own),
		TEST(test_a_late_reply_is_counted),
		TEST(test_an_open_call_is_answered_after_its_unbind),
		TEST(test_unanswered_calls_are_limited),
		TEST(test_a_consumer_dies_with_all_in_its_hands),
		TEST(test_an_unbind_ends_what_was_delivered),
		TEST(test_the_poster_dies_first),
		TWO(test_between_loops),
		TWO(test_parked_on_another_loop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

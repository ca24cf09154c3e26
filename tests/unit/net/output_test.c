/* What goes to a client: acks in and out of order, failures, slow readers. */
#include <stdlib.h>
#include <unistd.h>

#include "fixture.h"

/* ---- acks -------------------------------------------------------------- */

static void
test_acks_are_cumulative(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0);

	fake_new(rig, 0, "sink");
	for (int i = 0; i < 100; i++)
		client_post(c, "sink", "hit");
	assert_non_null(client_next(c));
	assert_int_equal(c->frame->ack->upto, 100);
	assert_int_equal(c->frame->ack->n_also, 0);
	client_expect_silence(c);
	client_free(c);
}

static void
test_levels_are_acked_when_they_are_reached(void **state)
{
	struct rig *rig = *state;
	struct fake *sink = fake_new(rig, 0, "sink");
	struct client *c = client_hello(rig, 0);

	client_post(c, "sink", "wait");
	client_expect_ack(c, 1);
	client_post_level(c, "sink", "one", EVENTD__V1__LEVEL__ACCEPTED);
	client_expect_ack(c, 2);
	client_post_level(c, "sink", "wait", EVENTD__V1__LEVEL__DELIVERED);
	client_expect_silence(c);
	fake_finish(sink);
	client_expect_ack(c, 3);
	client_post_level(c, "sink", "wait", EVENTD__V1__LEVEL__HANDLED);
	fake_finish(sink);
	client_expect_silence(c); /* it is waited in now */
	fake_finish(sink);
	client_expect_ack(c, 4);
	client_free(c);
}

static void
test_a_crash_fails_the_post_that_waited_for_it(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0);

	fake_new(rig, 0, "sink");
	client_post_level(c, "sink", "crash", EVENTD__V1__LEVEL__HANDLED);
	client_expect_failure(c, 1, EVD_STATUS_DIED);
	client_expect_ack(c, 1);
	client_free(c);
}

/* Take acks until @n posts after the first are acked by `also`. */
static void
take_also(struct client *c, uint64_t upto, uint64_t *next, uint64_t n)
{
	while (*next <= n) {
		assert_non_null(client_next(c));
		assert_non_null(c->frame->ack);
		assert_int_equal(c->frame->ack->upto, upto);
		for (size_t i = 0; i < c->frame->ack->n_also; i++)
			assert_int_equal(c->frame->ack->also[i], (*next)++);
	}
}

static void
test_posts_pass_one_that_is_parked(void **state)
{
	struct rig *rig = *state;
	struct fake *slow = fake_new(rig, 0, "slow");
	struct client *c = client_hello(rig, 0);
	uint64_t next = 4;

	fake_new(rig, 0, "sink");
	mailbox_limit(&slow->session->box, 1, 1 << 20);
	client_post(c, "slow", "wait");
	client_post(c, "slow", "hit");
	client_expect_ack(c, 2);
	client_post(c, "slow", "parked"); /* 3 */
	for (int i = 0; i < 10; i++)
		client_post(c, "sink", "hit");
	take_also(c, 2, &next, 13);
	client_expect_silence(c);
	fake_finish(slow);
	client_expect_ack(c, 13);
	client_free(c);
}

/* More posts pass it than the window has places, so often that what one was
 * must not be taken for another. */
static void
test_a_whole_window_passes_two_that_are_parked(void **state)
{
	struct rig *rig = *state;
	struct fake *slow = fake_new(rig, 0, "slow");
	struct client *c;
	uint64_t next = 5;

	rig->server.window_posts = 8;
	c = client_hello(rig, 0);
	fake_new(rig, 0, "sink");
	mailbox_limit(&slow->session->box, 1, 1 << 20);
	client_post(c, "slow", "wait");
	client_post(c, "slow", "wait");
	client_expect_ack(c, 2);
	client_post(c, "slow", "wait"); /* 3 and 4 are parked */
	client_post(c, "slow", "wait");
	for (int i = 0; i < 40; i++) {
		client_post(c, "sink", "hit");
		take_also(c, 2, &next, c->seq);
	}
	fake_finish(slow); /* 3 is admitted, 4 is not */
	client_expect_ack(c, 3);
	client_expect_silence(c);
	fake_finish(slow);
	client_expect_ack(c, c->seq);
	for (int i = 0; i < 40; i++)
		client_post(c, "sink", "hit"), client_expect_ack(c, c->seq);
	fake_finish(slow);
	rig_run(rig);
	fake_finish(slow);
	client_free(c);
}

/* Whatever the order, each post is acked once and upto never passes one that
 * is not. */
static void
test_acks_in_any_order(void **state)
{
	enum { N = 3000, SLOTS = 6 };
	struct rig *rig = *state;
	struct fake *fakes[SLOTS];
	struct client *c;
	bool done[N + 1] = {false};
	uint64_t posted[SLOTS] = {0};
	uint32_t random = 12345;

	rig->server.window_posts = SLOTS;
	c = client_hello(rig, 0);
	for (unsigned i = 0; i < SLOTS; i++) {
		char alias[] = "fake0";

		alias[4] = (char)('0' + i);
		fakes[i] = fake_new(rig, 0, alias);
	}
	while (c->seq < N) {
		unsigned i = (random = random * 1103515245 + 12345) >> 16;
		char alias[] = "fake0";
		uint64_t low = 1;

		i %= SLOTS;
		alias[4] = (char)('0' + i);
		if (!posted[i]) {
			posted[i] = client_post_level(
				c, alias, "wait", EVENTD__V1__LEVEL__HANDLED);
			rig_turn(rig);
			rig_turn(rig);
			continue;
		}
		fake_finish(fakes[i]);
		assert_non_null(client_next(c));
		assert_non_null(c->frame->ack);
		done[posted[i]] = true;
		posted[i] = 0;
		while (done[low])
			low++;
		assert_int_equal(c->frame->ack->upto, low - 1);
	}
	for (unsigned i = 0; i < SLOTS; i++)
		if (posted[i])
			fake_finish(fakes[i]);
	client_expect_ack(c, c->seq);
	client_free(c);
}

/* ---- full mailboxes ---------------------------------------------------- */

static void
test_no_wait_fails_with_full(void **state)
{
	struct rig *rig = *state;
	struct fake *slow = fake_new(rig, 0, "slow");
	struct client *c = client_hello(rig, 0);
	Eventd__V1__Envelope e = EVENTD__V1__ENVELOPE__INIT;

	mailbox_limit(&slow->session->box, 2, 1 << 20);
	client_post(c, "slow", "wait");
	client_expect_ack(c, 1);
	client_post(c, "slow", "hit");
	client_post(c, "slow", "hit");
	client_expect_ack(c, 3);
	e.alias = (char *)"slow";
	e.event = (char *)"hit";
	e.flags = EVENTD__V1__ENVELOPE_FLAG__NO_WAIT;
	e.seq = c->seq = 4;
	client_envelope(c, &e);
	client_expect_failure(c, 4, EVD_STATUS_FULL);
	assert_non_null(strstr(c->frame->failures[0]->text, "slow"));
	assert_non_null(strstr(c->frame->failures[0]->text, "MaxEvents="));
	client_expect_ack(c, 4);
	client_call(c, "slow", "echo", 1, ""); /* calls never wait */
	client_expect_reply(c, 1, EVD_STATUS_FULL, NULL);
	fake_finish(slow);
	client_free(c);
}

static void
test_parked_posts_are_admitted_in_order(void **state)
{
	struct rig *rig = *state;
	struct fake *slow = fake_new(rig, 0, "slow");
	struct client *c = client_hello(rig, 0), *d = client_hello(rig, 0);

	mailbox_limit(&slow->session->box, 1, 1 << 20);
	client_post(c, "slow", "wait");
	client_expect_ack(c, 1);
	client_post(c, "slow", "one");
	client_expect_ack(c, 2);
	client_post(d, "slow", "wait");
	client_expect_silence(d);
	client_post(c, "slow", "three");
	client_expect_silence(c);
	assert_int_equal(slow->session->box.n_parked, 2);
	fake_finish(slow);
	client_expect_ack(d, 1);
	assert_string_equal(slow->last, "wait");
	client_expect_ack(c, 3);
	fake_finish(slow);
	rig_run(rig);
	assert_string_equal(slow->last, "three");
	assert_int_equal(slow->n_run, 4);
	client_free(c);
	client_free(d);
}

static void
test_parked_posts_fail_with_their_session(void **state)
{
	struct rig *rig = *state;
	struct fake *slow = fake_new(rig, 0, "slow");
	struct client *c = client_hello(rig, 0);

	mailbox_limit(&slow->session->box, 1, 1 << 20);
	client_post(c, "slow", "wait");
	client_post_level(c, "slow", "hit", EVENTD__V1__LEVEL__HANDLED);
	client_expect_ack(c, 1);
	client_post(c, "slow", "parked");
	client_expect_silence(c);
	session_stop(slow->session);
	client_expect_failure(c, 2, EVD_STATUS_DIED);
	client_expect_failure(c, 3, EVD_STATUS_DIED);
	client_expect_ack(c, 3);
	client_free(c);
}

static void
test_parked_posts_outlive_their_poster(void **state)
{
	struct rig *rig = *state;
	struct fake *slow = fake_new(rig, 0, "slow");
	struct client *c = client_hello(rig, 0);

	mailbox_limit(&slow->session->box, 1, 1 << 20);
	for (int i = 0; i < 5; i++)
		client_post(c, "slow", i ? "hit" : "wait");
	client_expect_ack(c, 2);
	client_free(c);
	RIG_UNTIL(rig, !conn_count(&rig->loops[0]));
	fake_finish(slow);
	rig_check(rig);
	assert_int_equal(slow->n_run, 5);
}

/* ---- slow readers ------------------------------------------------------ */

static void
test_deliveries_wait_for_a_reader(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0), *reader, *other;
	struct conn *conn;
	size_t most = 0;

	reader = client_hello(rig, 0);
	conn = rig_conn(rig, 0);
	client_bind(reader, "slow", 1, 60000);
	for (int i = 0; i < 3000; i++) {
		client_post_size(c, "slow", "hit", 1024);
		if (outbuf_size(&conn->out) > most)
			most = outbuf_size(&conn->out);
	}
	rig_run(rig);
	assert_true(most < CONN_OUT_HIGH + 65536);
	other = client_hello(rig, 0);
	client_expect_alive(other);
	client_free(other);
	for (unsigned i = 1; i <= 3000; i++) {
		client_expect_delivery(reader, 1, "hit");
		client_settle(reader, 1, i);
	}
	rig_check(rig);
	client_expect_ack(c, 3000);
	client_free(reader);
	client_free(c);
}

/* Answers that nobody can hold back end a connection that does not read. */
static void
test_a_reader_of_nothing_is_given_up(void **state)
{
	enum { SIZE = 1 << 20 };
	struct rig *rig = *state;
	struct fake *sink = fake_new(rig, 0, "sink");
	struct client *c = client_hello(rig, 0);
	uint8_t *data = calloc(1, SIZE);
	int n = 0;

	assert_non_null(data);
	for (uint64_t i = 1; i <= 100; i++)
		client_call(c, "sink", "defer", i, "");
	rig_run(rig);
	assert_int_equal(sink->n_calls, 100);
	for (; n < 100 && conn_count(&rig->loops[0]); n++) {
		sched_reply(
			&rig->loops[0].sched, sink->calls[n], 0, data, SIZE);
		assert_true(outbuf_size(&rig_conn(rig, 0)->out) <=
			    CONN_OUT_MAX + SIZE + 1024);
		rig_run(rig);
	}
	assert_in_range(n, 50, 80);
	RIG_UNTIL(rig, !conn_count(&rig->loops[0]));
	free(data);
	client_free(c);
}

/* One answer may be larger than all that may wait. */
static void
test_a_large_answer_is_sent_whole(void **state)
{
	struct rig *rig = *state;
	struct fake *sink = fake_new(rig, 0, "sink");
	size_t size = CONN_OUT_MAX + 12345;
	struct client *c = client_hello(rig, 0);
	uint8_t *data = calloc(1, size);

	assert_non_null(data);
	client_call(c, "sink", "defer", 1, "");
	rig_run(rig);
	sched_reply(&rig->loops[0].sched, sink->call, 0, data, (uint32_t)size);
	client_expect_reply(c, 1, EVD_STATUS_OK, NULL);
	assert_int_equal(c->frame->envelopes[0]->payload.len, size);
	client_expect_alive(c);
	free(data);
	client_free(c);
}

/* Nothing follows an error frame, and nothing more is delivered. */
static void
test_nothing_follows_an_error(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0), *d = client_hello(rig, 0);
	static const uint8_t garbage[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

	client_bind(c, "box", 1, 100);
	client_post_size(d, "box", "big", 1 << 20); /* unread, so it lingers */
	client_expect_ack(d, 1);
	client_write(c, garbage, sizeof(garbage));
	rig_run(rig);
	client_post(d, "box", "hit");
	rig_run(rig);
	client_expect_delivery(c, 1, "big");
	client_expect_error(c, EVD_STATUS_PROTOCOL);
	client_free(c);
	client_free(d);
}

static void
test_a_client_that_never_reads_its_error(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0), *d = client_hello(rig, 0);
	static const uint8_t garbage[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

	client_bind(c, "box", 1, 100);
	client_post_size(d, "box", "big", 1 << 20);
	client_expect_ack(d, 1);
	client_write(c, garbage, sizeof(garbage));
	rig_run(rig);
	assert_int_equal(conn_count(&rig->loops[0]), 2);
	client_free(c); /* no leak of it or its bindings */
	RIG_UNTIL(rig, conn_count(&rig->loops[0]) == 1);
	rig_check(rig);
	client_free(d);
}

int
main(void)
{
#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_acks_are_cumulative),
		TEST(test_levels_are_acked_when_they_are_reached),
		TEST(test_a_crash_fails_the_post_that_waited_for_it),
		TEST(test_posts_pass_one_that_is_parked),
		TEST(test_a_whole_window_passes_two_that_are_parked),
		TEST(test_acks_in_any_order),
		TEST(test_no_wait_fails_with_full),
		TEST(test_parked_posts_are_admitted_in_order),
		TEST(test_parked_posts_fail_with_their_session),
		TEST(test_parked_posts_outlive_their_poster),
		TEST(test_deliveries_wait_for_a_reader),
		TEST(test_a_reader_of_nothing_is_given_up),
		TEST(test_a_large_answer_is_sent_whole),
		TEST(test_nothing_follows_an_error),
		TEST(test_a_client_that_never_reads_its_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

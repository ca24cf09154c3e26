/* What comes from a client: frames, envelopes, requests, and all that is
 * wrong with them. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fixture.h"

/* ---- bytes ------------------------------------------------------------- */

static void
test_garbage_ends_the_connection(void **state)
{
	static const uint8_t garbage[] = "GET / HTTP/1.1\r\nHost: eventd\r\n"
					 "Accept: everything, please\r\n\r\n"
					 "and then some more, for the frame";
	struct client *c = client_hello(*state, 0);

	client_write(c, garbage, sizeof(garbage));
	client_expect_error(c, EVD_STATUS_PROTOCOL);
	client_free(c);
}

static void
test_a_frame_over_the_limit_is_refused_at_its_head(void **state)
{
	struct client *c = client_hello(*state, 0);
	uint64_t most = c->frame->welcome->max_frame;
	uint8_t head[FRAME_HEAD_MAX];

	client_write(c, head, varint_put(head, most + 1));
	client_expect_error(c, EVD_STATUS_TOO_LARGE);
	client_free(c);
}

static void
test_an_over_long_length_is_refused(void **state)
{
	static const uint8_t head[] = {0x80, 0x80, 0x80, 0x80, 0x80, 0x01};
	struct client *c = client_hello(*state, 0);

	client_write(c, head, sizeof(head));
	client_expect_error(c, EVD_STATUS_PROTOCOL);
	client_free(c);
}

static size_t
pack(const Eventd__V1__Frame *frame, uint8_t *out)
{
	size_t size = eventd__v1__frame__get_packed_size(frame);
	size_t head = varint_put(out, size);

	eventd__v1__frame__pack(frame, out + head);
	return head + size;
}

static size_t
pack_post(uint8_t *out, uint64_t seq)
{
	Eventd__V1__Frame frame = EVENTD__V1__FRAME__INIT;
	Eventd__V1__Envelope e = EVENTD__V1__ENVELOPE__INIT, *list = &e;
	uint8_t payload[200] = {1, 2, 3};

	e.alias = (char *)"sink";
	e.event = (char *)"hit";
	e.payload.data = payload;
	e.payload.len = sizeof(payload);
	e.seq = seq;
	frame.envelopes = &list;
	frame.n_envelopes = 1;
	return pack(&frame, out);
}

static void
test_a_frame_comes_in_two_pieces_cut_anywhere(void **state)
{
	struct rig *rig = *state;
	struct fake *sink = fake_new(rig, 0, "sink");
	struct client *c = client_hello(rig, 0);
	uint8_t bytes[512];
	size_t size = pack_post(bytes, 1);

	for (size_t cut = 1; cut < size; cut++) {
		size = pack_post(bytes, cut);
		client_write(c, bytes, cut);
		rig_run(rig);
		assert_int_equal(sink->n_run, cut - 1);
		client_write(c, bytes + cut, size - cut);
		client_expect_ack(c, cut);
		assert_int_equal(sink->n_run, cut);
	}
	client_free(c);
}

static void
test_bytes_come_one_by_one(void **state)
{
	struct rig *rig = *state;
	struct fake *sink = fake_new(rig, 0, "sink");
	struct client *c = client_hello(rig, 0);
	uint8_t bytes[512];
	size_t size = pack_post(bytes, 1);

	for (size_t i = 0; i < size; i++) {
		client_write(c, bytes + i, 1);
		rig_turn(rig);
	}
	client_expect_ack(c, 1);
	assert_int_equal(sink->n_run, 1);
	client_free(c);
}

static void
test_a_client_vanishes_in_the_middle_of_a_frame(void **state)
{
	struct rig *rig = *state;
	struct fake *sink = fake_new(rig, 0, "sink");
	uint8_t bytes[512];
	size_t size = pack_post(bytes, 1);

	for (size_t cut = 1; cut < size; cut += 7) {
		struct client *c = client_hello(rig, 0);

		client_write(c, bytes, cut);
		rig_run(rig);
		client_free(c);
		RIG_UNTIL(rig, !conn_count(&rig->loops[0]));
	}
	assert_int_equal(sink->n_run, 0);
}

static void
test_what_came_before_a_half_close_is_done(void **state)
{
	struct rig *rig = *state;
	struct fake *sink = fake_new(rig, 0, "sink");
	struct client *c = client_hello(rig, 0);

	for (int i = 0; i < 1000; i++)
		client_post(c, "sink", "hit");
	assert_int_equal(shutdown(c->fd, SHUT_WR), 0);
	RIG_UNTIL(rig, !conn_count(&rig->loops[0]));
	rig_run(rig);
	assert_int_equal(sink->n_run, 1000);
	client_free(c);
}

static void
test_frames_larger_than_the_read_buffer(void **state)
{
	struct rig *rig = *state;
	struct fake *sink = fake_new(rig, 0, "sink");
	struct client *c = client_hello(rig, 0);

	for (uint64_t i = 1; i <= 8; i++) {
		client_post_size(c, "sink", "big", (i * 131072) - 4096);
		client_post(c, "sink", "small");
		client_expect_ack(c, 2 * i);
	}
	assert_int_equal(sink->n_run, 16);
	assert_null(rig_conn(rig, 0)->in); /* nothing is kept */
	client_free(c);
}

static void
test_many_posts_in_one_frame(void **state)
{
	enum { N = 1000 };
	struct rig *rig = *state;
	struct fake *sink = fake_new(rig, 0, "sink");
	struct client *c = client_hello(rig, 0);
	Eventd__V1__Frame frame = EVENTD__V1__FRAME__INIT;
	Eventd__V1__Envelope envelopes[N], *list[N];

	for (unsigned i = 0; i < N; i++) {
		eventd__v1__envelope__init(&envelopes[i]);
		envelopes[i].alias = (char *)"sink";
		envelopes[i].event = (char *)"hit";
		envelopes[i].seq = i + 1;
		list[i] = &envelopes[i];
	}
	frame.envelopes = list;
	frame.n_envelopes = N;
	client_send(c, &frame);
	client_expect_ack(c, N);
	rig_run(rig);
	assert_int_equal(sink->n_run, N);
	client_free(c);
}

/* ---- what frames hold -------------------------------------------------- */

/* One part of field @field with body @body, as a frame. */
static void
send_part(struct client *c, unsigned field, const void *body, size_t size)
{
	uint8_t out[1024], *p = out + FRAME_HEAD_MAX, head[FRAME_HEAD_MAX];
	size_t n;

	p += varint_put(p, field << 3 | 2);
	p += varint_put(p, size);
	memcpy(p, body, size);
	n = (size_t)(p + size - out) - FRAME_HEAD_MAX;
	client_write(c, head, varint_put(head, n));
	client_write(c, out + FRAME_HEAD_MAX, n);
}

static void
test_unknown_fields_are_passed_over(void **state)
{
	/* in the frame: a varint, fixed64, bytes and fixed32; then a ping
	 * with unknown fields in the request and in its verb */
	static const uint8_t frame[] = {0xa0, 0x06, 0x05, 0xa9, 0x06, 1, 2, 3,
		4, 5, 6, 7, 8, 0xb2, 0x06, 2, 'h', 'i', 0xbd, 0x06, 1, 2, 3, 4,
		0x3a, 12, 0x08, 9, 0xa0, 0x06, 7, 0x5a, 5, 0x0a, 0, 0xa0, 0x06,
		1};
	uint8_t head = sizeof(frame);
	struct client *c = client_hello(*state, 0);

	client_write(c, &head, 1);
	client_write(c, frame, sizeof(frame));
	client_expect_response(c, 9, EVD_STATUS_OK);
	assert_non_null(c->frame->response->pong);
	client_free(c);
}

static void
test_an_unknown_request_is_told_and_the_connection_lives(void **state)
{
	static const uint8_t request[] = {0x08, 77, 0xc2, 0x3e, 1, 0};
	static const uint8_t none[] = {0x08, 78};
	struct client *c = client_hello(*state, 0);

	send_part(c, 7, request, sizeof(request));
	client_expect_response(c, 77, EVD_STATUS_UNSUPPORTED);
	send_part(c, 7, none, sizeof(none));
	client_expect_response(c, 78, EVD_STATUS_UNSUPPORTED);
	client_expect_alive(c);
	client_free(c);
}

static void
test_nesting_without_end_is_refused(void **state)
{
	/* No message of ours is recursive: a known field of a known message
	 * as deep as it goes, then more of the same. */
	uint8_t bytes[600];
	struct client *c = client_hello(*state, 0);

	memset(bytes, 0x0a, sizeof(bytes));
	send_part(c, 7, bytes, sizeof(bytes));
	client_expect_error(c, EVD_STATUS_PROTOCOL);
	client_free(c);
}

static void
test_a_request_of_endless_fields_is_refused(void **state)
{
	/* 500 times the same sub-message: protobuf-c would merge each */
	uint8_t bytes[1000];
	struct client *c = client_hello(*state, 0);

	for (unsigned i = 0; i < sizeof(bytes); i += 2) {
		bytes[i] = 0x12;
		bytes[i + 1] = 0;
	}
	send_part(c, 7, bytes, sizeof(bytes));
	client_expect_error(c, EVD_STATUS_PROTOCOL);
	client_free(c);
}

/* Each part that a client may send, empty, with its fields twice, and with
 * each field of each wire type: an answer or an error, never a crash. */
static size_t
put_value(uint8_t *p, unsigned field, unsigned type)
{
	static const uint8_t value[] = {3, 'a', 'b', 'c', 0, 0, 0, 0};
	static const uint8_t sizes[] = {1, 8, 4, 0, 0, 4};
	size_t n = varint_put(p, field << 3 | type);

	memcpy(p + n, value, sizes[type]);
	return n + sizes[type];
}

static void
poke(struct rig *rig, unsigned part, const uint8_t *body, size_t size)
{
	struct client *c =
		part == 5 ? client_open(rig, 0) : client_hello(rig, 0);

	send_part(c, part, body, size);
	rig_run(rig);
	while (client_poll(c))
		;
	client_free(c);
	rig_run(rig);
}

static void
test_fields_missing_twice_and_of_wrong_types(void **state)
{
	static const unsigned parts[] = {1, 2, 3, 4, 5, 7, 8, 9, 10};
	static const unsigned types[] = {0, 1, 2, 5};
	struct rig *rig = *state;
	struct fake *sink = fake_new(rig, 0, "abc");
	uint8_t body[64];

	for (unsigned i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
		poke(rig, parts[i], body, 0);
		for (unsigned field = 1; field <= 17; field++)
			for (unsigned t = 0; t < 4; t++) {
				size_t n = put_value(body, field, types[t]);

				poke(rig, parts[i], body, n);
				n += put_value(body + n, field, types[t]);
				poke(rig, parts[i], body, n);
			}
	}
	for (unsigned verb = 2; verb <= 12; verb++)
		for (unsigned field = 1; field <= 7; field++)
			for (unsigned t = 0; t < 4; t++) {
				size_t n = put_value(body + 2, field, types[t]);

				body[0] = (uint8_t)(verb << 3 | 2);
				body[1] = (uint8_t)n;
				poke(rig, 7, body, n + 2);
			}
	assert_int_equal(sink->n_run, 0);
	RIG_UNTIL(rig, !conn_count(&rig->loops[0]));
	assert_int_equal(atomic_load(&rig->kernel.sessions.n), 1);
}

/* ---- posts ------------------------------------------------------------- */

static void
test_a_gap_in_the_sequence_ends_the_connection(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0);

	fake_new(rig, 0, "sink");
	client_post(c, "sink", "hit");
	client_expect_ack(c, 1);
	c->seq++;
	client_post(c, "sink", "hit");
	client_expect_error(c, EVD_STATUS_PROTOCOL);
	client_free(c);
}

static void
test_a_repeated_sequence_ends_the_connection(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0);

	fake_new(rig, 0, "sink");
	client_post(c, "sink", "hit");
	client_expect_ack(c, 1);
	c->seq--;
	client_post(c, "sink", "hit");
	client_expect_error(c, EVD_STATUS_PROTOCOL);
	client_free(c);
}

static void
test_posts_that_cannot_be_fail_alone(void **state)
{
	struct rig *rig = *state;
	struct fake *sink = fake_new(rig, 0, "sink");
	struct client *c = client_hello(rig, 0);
	Eventd__V1__Envelope e = EVENTD__V1__ENVELOPE__INIT;

	client_post(c, "nobody", "hit");
	client_expect_failure(c, 1, EVD_STATUS_NO_ALIAS);
	client_expect_ack(c, 1);
	client_post_size(c, "sink", "hit", rig->kernel.limits.max_payload + 1);
	client_expect_failure(c, 2, EVD_STATUS_TOO_LARGE);
	client_expect_ack(c, 2);
	client_post(c, "sink", NULL);
	client_expect_failure(c, 3, EVD_STATUS_INVALID);
	client_expect_ack(c, 3);
	client_post_level(c, "sink", "hit", EVENTD__V1__LEVEL__DURABLE);
	client_expect_failure(c, 4, EVD_STATUS_UNSUPPORTED);
	client_expect_ack(c, 4);
	client_post_level(c, "sink", "hit", 99);
	client_expect_failure(c, 5, EVD_STATUS_UNSUPPORTED);
	client_expect_ack(c, 5);
	e.to = 12345;
	e.event = (char *)"hit";
	e.seq = c->seq = 6;
	client_envelope(c, &e);
	client_expect_failure(c, 6, EVD_STATUS_INVALID);
	client_expect_ack(c, 6);
	assert_int_equal(rig->loops[0].sched.counters.refused, 6);
	client_post_size(c, "sink", "hit", rig->kernel.limits.max_payload);
	client_expect_ack(c, 7);
	assert_int_equal(sink->n_run, 1);
	client_free(c);
}

static void
test_names_outside_the_alphabet_end_the_connection(void **state)
{
	static const char *const names[] = {
		"a b", "a\x7f", "\xc3\xa9", "a:b", "a*"};

	for (unsigned i = 0; i < sizeof(names) / sizeof(*names); i++) {
		struct client *c = client_hello(*state, 0);

		client_post(c, names[i], "hit");
		client_expect_error(c, EVD_STATUS_PROTOCOL);
		client_free(c);
		c = client_hello(*state, 0);
		client_post(c, "sink", names[i]);
		client_expect_error(c, EVD_STATUS_PROTOCOL);
		client_free(c);
	}
}

static void
test_more_than_the_window_ends_the_connection(void **state)
{
	struct rig *rig = *state;
	struct fake *sink = fake_new(rig, 0, "sink");
	struct client *c = client_hello(rig, 0);

	mailbox_limit(&sink->session->box, 1, 1 << 20);
	client_post(c, "sink", "wait");
	rig_run(rig);
	for (uint32_t i = 0; i < rig->server.window_posts + 1; i++)
		client_post(c, "sink", "hit"); /* all but one are parked */
	client_expect_ack(c, 2);
	client_expect_silence(c);
	client_post(c, "sink", "hit");
	client_expect_error(c, EVD_STATUS_LIMIT);
	client_free(c);
	RIG_UNTIL(rig, !conn_count(&rig->loops[0]));
	fake_finish(sink);
	rig_check(rig);
}

static void
test_more_bytes_than_the_window_end_the_connection(void **state)
{
	struct rig *rig = *state;
	struct fake *sink = fake_new(rig, 0, "sink");
	struct client *c = client_hello(rig, 0);

	mailbox_limit(&sink->session->box, 1, 1 << 20);
	client_post(c, "sink", "wait");
	client_post(c, "sink", "hit");
	client_expect_ack(c, 2);
	for (int i = 0; i < 5; i++) /* the fifth takes it to 5 MiB of 4 */
		client_post_size(c, "sink", "big", 1 << 20);
	client_expect_silence(c);
	client_post_size(c, "sink", "big", 0);
	client_expect_error(c, EVD_STATUS_LIMIT);
	client_free(c);
	RIG_UNTIL(rig, !conn_count(&rig->loops[0]));
	fake_finish(sink);
	rig_check(rig);
}

static void
test_a_reference_follows_its_alias(void **state)
{
	struct rig *rig = *state;
	struct fake *first = fake_new(rig, 0, "sink"), *second;
	struct client *c = client_hello(rig, 0);
	Eventd__V1__Envelope e = EVENTD__V1__ENVELOPE__INIT;

	e.to = client_resolve(c, "sink");
	e.event = (char *)"hit";
	e.seq = 1;
	client_envelope(c, &e);
	client_expect_ack(c, 1);
	session_stop(first->session);
	e.seq = 2;
	client_envelope(c, &e);
	client_expect_failure(c, 2, EVD_STATUS_NO_ALIAS);
	client_expect_ack(c, 2);
	second = fake_new(rig, 0, "sink");
	e.seq = 3;
	client_envelope(c, &e);
	client_expect_ack(c, 3);
	assert_int_equal(first->n_run, 1);
	assert_int_equal(second->n_run, 1);
	client_free(c);
}

static void
test_references_have_a_limit(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0);
	Eventd__V1__Request r = EVENTD__V1__REQUEST__INIT;
	Eventd__V1__Resolve resolve = EVENTD__V1__RESOLVE__INIT;

	fake_new(rig, 0, "sink");
	assert_int_equal(client_resolve(c, "sink"), 1);
	rig_conn(rig, 0)->n_refs = CONN_REFS_MAX; /* as if */
	resolve.alias = (char *)"sink";
	r.verb_case = EVENTD__V1__REQUEST__VERB_RESOLVE;
	r.resolve = &resolve;
	client_request(c, &r, EVD_STATUS_LIMIT);
	rig_conn(rig, 0)->n_refs = 1;
	resolve.alias = (char *)"nobody";
	client_request(c, &r, EVD_STATUS_NO_ALIAS);
	resolve.alias = (char *)"no name";
	client_request(c, &r, EVD_STATUS_INVALID);
	client_free(c);
}

/* ---- calls ------------------------------------------------------------- */

static void
test_a_call_is_answered(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0);

	fake_new(rig, 0, "sink");
	client_call(c, "sink", "echo", 5, "hello");
	client_expect_reply(c, 5, EVD_STATUS_OK, "hello");
	client_call(c, "sink", "hit", 6, "hello"); /* it says nothing */
	client_expect_reply(c, 6, EVD_STATUS_OK, "");
	client_call(c, "nobody", "echo", 7, "hello");
	client_expect_reply(c, 7, EVD_STATUS_NO_ALIAS, NULL);
	client_call(c, "sink", "crash", 8, "hello");
	client_expect_reply(c, 8, EVD_STATUS_DIED, NULL);
	client_free(c);
}

static void
test_calls_are_answered_in_any_order(void **state)
{
	struct rig *rig = *state;
	struct fake *sink = fake_new(rig, 0, "sink");
	struct client *c = client_hello(rig, 0);

	client_call(c, "sink", "defer", 1, "");
	client_call(c, "sink", "echo", 2, "two");
	client_expect_reply(c, 2, EVD_STATUS_OK, "two");
	sched_reply(&rig->loops[0].sched, sink->call, 0, "one", 3);
	client_expect_reply(c, 1, EVD_STATUS_OK, "one");
	sched_reply(&rig->loops[0].sched, sink->call, 0, "one", 3);
	client_expect_silence(c); /* a second reply is late */
	assert_int_equal(atomic_load(&rig->kernel.late_replies), 1);
	client_free(c);
}

static void
test_a_call_has_a_deadline(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0);
	Eventd__V1__Envelope e = EVENTD__V1__ENVELOPE__INIT;

	fake_new(rig, 0, "sink");
	e.alias = (char *)"sink";
	e.event = (char *)"defer";
	e.call = 9;
	e.timeout_ms = 5;
	client_envelope(c, &e);
	client_expect_reply(c, 9, EVD_STATUS_TIMEOUT, NULL);
	client_free(c);
}

static void
test_outstanding_calls_are_limited(void **state)
{
	struct rig *rig = *state;
	struct client *c;

	rig->server.max_calls = 3;
	c = client_hello(rig, 0);
	fake_new(rig, 0, "sink");
	for (uint64_t i = 1; i <= 3; i++)
		client_call(c, "sink", "defer", i, "");
	client_expect_silence(c);
	client_call(c, "sink", "echo", 4, "");
	client_expect_reply(c, 4, EVD_STATUS_LIMIT, NULL);
	client_free(c);
}

static void
test_a_forged_reply_is_counted_and_ignored(void **state)
{
	struct rig *rig = *state;
	struct fake *sink = fake_new(rig, 0, "sink");
	struct client *c = client_hello(rig, 0);
	struct client *d = client_hello(rig, 0);

	client_call(c, "sink", "defer", 1, "");
	client_expect_silence(c);
	client_reply(d, sink->call, 0, "forged");
	client_reply(d, 1, 0, "forged");
	client_reply(d, UINT64_MAX, 0, "forged");
	client_expect_silence(c);
	assert_int_equal(atomic_load(&rig->kernel.late_replies), 3);
	sched_reply(&rig->loops[0].sched, sink->call, 0, "true", 4);
	client_expect_reply(c, 1, EVD_STATUS_OK, "true");
	client_free(c);
	client_free(d);
}

/* ---- backlog ----------------------------------------------------------- */

/* A million requests, their answers unread: little is held, and all are
 * answered once they are read. */
static size_t
fill(struct client *c, const uint8_t *bytes, size_t size, size_t most)
{
	size_t sent = 0, idle = 0;

	while (sent < most && idle < 200) {
		ssize_t n = send(c->fd, bytes + sent % size, size - sent % size,
			MSG_NOSIGNAL);

		idle = n > 0 ? 0 : idle + 1;
		sent += n > 0 ? (size_t)n : 0;
		rig_turn(c->rig);
	}
	return sent;
}

static void
drain(struct client *c, uint64_t want)
{
	for (uint64_t n = 0; n < want; n++) {
		assert_non_null(client_next(c));
		assert_non_null(c->frame->response);
	}
}

static void
test_unread_answers_stop_the_reading(void **state)
{
	enum { N = 1000000, SIZE = 6 };
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0);
	struct conn *conn = rig_conn(rig, 0);
	uint8_t *bytes = malloc((size_t)N * SIZE);
	size_t sent;

	assert_non_null(bytes);
	/* each 6 bytes: a frame with a list request, and an empty frame */
	for (size_t i = 0; i < N; i++)
		memcpy(bytes + i * SIZE, "\x04\x3a\x02\x3a\x00\x00", SIZE);
	sent = fill(c, bytes, (size_t)N * SIZE, (size_t)N * SIZE);
	assert_true(sent < (size_t)N * SIZE);
	assert_true(outbuf_size(&conn->out) < 2 * CONN_OUT_HIGH);
	assert_true(conn->in_room <= 2 * LOOP_READ_SIZE);
	drain(c, (sent + 1) / SIZE);
	client_expect_silence(c);
	free(bytes);
	client_free(c);
}

/* The same within one frame, which is as long as a frame may be. */
static void
test_a_frame_of_requests_is_answered_as_it_is_read(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0);
	struct conn *conn = rig_conn(rig, 0);
	size_t n = c->frame->welcome->max_frame / 4, most = 0;
	uint8_t *bytes = malloc(n * 4 + 16);
	size_t head = varint_put(bytes, n * 4);

	assert_non_null(bytes);
	for (size_t i = 0; i < n; i++)
		memcpy(bytes + head + 4 * i, "\x3a\x02\x3a\x00", 4);
	fill(c, bytes, head + n * 4, head + n * 4);
	for (int i = 0; i < 1000; i++) {
		rig_turn(rig);
		if (outbuf_size(&conn->out) > most)
			most = outbuf_size(&conn->out);
	}
	assert_true(most < 2 * CONN_OUT_HIGH);
	assert_true(conn->in_room <= 4 << 20);
	drain(c, n);
	client_expect_silence(c);
	assert_null(conn->in);
	free(bytes);
	client_free(c);
}

static void
test_a_frame_of_failing_posts_is_answered_as_it_is_read(void **state)
{
	enum { N = 50000 };
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0);
	struct conn *conn = rig_conn(rig, 0);
	uint8_t *bytes = malloc(N * 16 + 16), *p = bytes + FRAME_HEAD_MAX;
	uint8_t head[FRAME_HEAD_MAX];
	uint64_t failed = 0;
	size_t most = 0;

	assert_non_null(bytes);
	for (uint64_t i = 1; i <= N; i++) {
		uint8_t body[16] = {0x12, 1, 'x', 0x1a, 1, 'e', 0x28};
		size_t size = 7 + varint_put(body + 7, i);

		*p++ = 0x0a;
		p += varint_put(p, size);
		memcpy(p, body, size);
		p += size;
	}
	client_write(c, head,
		varint_put(head, (size_t)(p - bytes) - FRAME_HEAD_MAX));
	fill(c, bytes + FRAME_HEAD_MAX, (size_t)(p - bytes) - FRAME_HEAD_MAX,
		(size_t)(p - bytes) - FRAME_HEAD_MAX);
	while (failed < N) {
		assert_non_null(client_next(c));
		if (outbuf_size(&conn->out) > most)
			most = outbuf_size(&conn->out);
		failed += c->frame->n_failures;
		if (c->frame->n_failures)
			assert_int_equal(c->frame->failures[0]->seq, failed);
	}
	assert_true(most < 2 * CONN_OUT_HIGH);
	client_expect_ack(c, N);
	free(bytes);
	client_free(c);
}

/* One turn does not serve one client's requests alone. */
static void
test_requests_share_turns(void **state)
{
	enum { N = 5000 };
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0);
	struct client *d = client_hello(rig, 0);
	uint8_t bytes[N * 6];
	unsigned before = 0;

	for (unsigned i = 0; i < N; i++) /* timers */
		memcpy(bytes + i * 6UL, "\x04\x3a\x02\x4a\x00\x00", 6);
	assert_int_equal(send(c->fd, bytes, sizeof(bytes), 0), sizeof(bytes));
	client_expect_alive(d);
	while (client_poll(c))
		before++;
	assert_true(before < 500);
	drain(c, N - before);
	client_free(c);
	client_free(d);
}

int
main(void)
{
#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_garbage_ends_the_connection),
		TEST(test_a_frame_over_the_limit_is_refused_at_its_head),
		TEST(test_an_over_long_length_is_refused),
		TEST(test_a_frame_comes_in_two_pieces_cut_anywhere),
		TEST(test_bytes_come_one_by_one),
		TEST(test_a_client_vanishes_in_the_middle_of_a_frame),
		TEST(test_what_came_before_a_half_close_is_done),
		TEST(test_frames_larger_than_the_read_buffer),
		TEST(test_many_posts_in_one_frame),
		TEST(test_unknown_fields_are_passed_over),
		TEST(test_an_unknown_request_is_told_and_the_connection_lives),
		TEST(test_nesting_without_end_is_refused),
		TEST(test_a_request_of_endless_fields_is_refused),
		TEST(test_fields_missing_twice_and_of_wrong_types),
		TEST(test_a_gap_in_the_sequence_ends_the_connection),
		TEST(test_a_repeated_sequence_ends_the_connection),
		TEST(test_posts_that_cannot_be_fail_alone),
		TEST(test_names_outside_the_alphabet_end_the_connection),
		TEST(test_more_than_the_window_ends_the_connection),
		TEST(test_more_bytes_than_the_window_end_the_connection),
		TEST(test_a_reference_follows_its_alias),
		TEST(test_references_have_a_limit),
		TEST(test_a_call_is_answered),
		TEST(test_calls_are_answered_in_any_order),
		TEST(test_a_call_has_a_deadline),
		TEST(test_outstanding_calls_are_limited),
		TEST(test_a_forged_reply_is_counted_and_ignored),
		TEST(test_unread_answers_stop_the_reading),
		TEST(test_a_frame_of_requests_is_answered_as_it_is_read),
		TEST(test_a_frame_of_failing_posts_is_answered_as_it_is_read),
		TEST(test_requests_share_turns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

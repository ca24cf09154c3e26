/* Large payloads: read to where they stay, and written from there. The clients
 * are hostile where they can be. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fault.h"
#include "envelope.h"
#include "kernel/dead.h"
#include "large.h"
#include "net/landing.h"
#include "passing.h"

/* An envelope's frame, with payload @data in its usual place. */
static uint8_t *
frame_of(struct client *c, const struct envelope *rest, const uint8_t *data,
	uint32_t size, size_t *out_size)
{
	struct envelope e = *rest;
	uint8_t *out;

	e.alias = "sink";
	e.alias_size = 4;
	e.event = "store";
	e.event_size = 5;
	e.payload = data;
	e.payload_size = size;
	e.seq = e.call || e.re ? 0 : ++c->seq;
	out = malloc(envelope_bound(&e) + 16);
	assert_non_null(out);
	*out_size = envelope_encode_frame(&e, out);
	return out;
}

/* ---- landing ------------------------------------------------------------- */

/* Whatever the pieces are in which it comes. */
static void
test_a_large_payload_lands_in_its_message(void **state)
{
	static const size_t pieces[] = {1, 3, 100, 70000, 65536, 300000};
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0);
	uint8_t *data = pattern(MIB);
	size_t size, at = 0;
	struct envelope rest = {.call = 7};
	uint8_t *frame = frame_of(c, &rest, data, MIB, &size);

	fake_new(rig, 0, "sink");
	for (size_t i = 0; at < size; i++) {
		size_t n =
			pieces[i % 6] < size - at ? pieces[i % 6] : size - at;

		client_write(c, frame + at, n);
		at += n;
		rig_turn(rig);
		if (at > 200000 && at < size)
			assert_non_null(rig_conn(rig, 0)->landing);
	}
	rig_run(rig);
	assert_null(rig_conn(rig, 0)->landing);
	assert_null(rig_conn(rig, 0)->in);
	client_expect_reply(c, 7, EVD_STATUS_OK, "");
	client_expect_alive(c);
	assert_int_equal(used(rig, CHARGE_BYTES), 0);
	free(frame);
	free(data);
	client_free(c);
}

/* It is charged when it is announced, and held by nobody when it stalls. */
static void
test_one_that_stalls_is_charged_and_goes(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0), *other = client_hello(rig, 0);
	uint8_t *data = pattern(4 * MIB);
	size_t size;
	struct envelope rest = {0};
	uint8_t *frame = frame_of(c, &rest, data, 4 * MIB, &size);

	fake_new(rig, 0, "sink");
	client_write(c, frame, 100000);
	rig_run(rig);
	assert_int_equal(used(rig, CHARGE_BYTES), 4 * MIB);
	assert_int_equal(used(rig, CHARGE_EVENTS), 1);
	client_expect_alive(other);
	client_free(c);
	rig_run(rig);
	assert_int_equal(used(rig, CHARGE_BYTES), 0);
	assert_int_equal(used(rig, CHARGE_EVENTS), 0);
	free(frame);
	free(data);
	client_free(other);
}

/* What its user may not hold is read and thrown away: it fails alone. */
static void
test_one_beyond_the_limit_fails_alone(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0);
	struct user *user = rig_conn(rig, 0)->peer.user;
	uint8_t *data = pattern(MIB);
	size_t size;
	struct envelope rest = {0};
	uint8_t *frame = frame_of(c, &rest, data, MIB, &size);

	fake_new(rig, 0, "sink");
	atomic_store(&user->max[CHARGE_BYTES], 500000);
	client_write(c, frame, size);
	client_expect_failure(c, 1, EVD_STATUS_LIMIT);
	client_expect_ack(c, 1);
	assert_int_equal(used(rig, CHARGE_BYTES), 0);
	client_post(c, "sink", "small");
	client_expect_ack(c, 2);
	assert_true(atomic_load(&user->refused[CHARGE_BYTES]) > 0);
	free(frame);
	free(data);
	client_free(c);
}

static void
test_without_memory_it_fails_alone(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0);
	uint8_t *data = pattern(MIB);
	size_t size;
	struct envelope rest = {0};
	uint8_t *frame = frame_of(c, &rest, data, MIB, &size);

	fake_new(rig, 0, "sink");
	fault_arm("msg_region_new", 1);
	client_write(c, frame, size);
	client_expect_failure(c, 1, EVD_STATUS_NO_MEMORY);
	client_expect_ack(c, 1);
	fault_arm("msg_region_new", 0);
	fault_arm("landing_new", 1); /* then it is read as others are */
	frame[size - 1] = 2;         /* the next seq */
	c->seq = 2;
	client_write(c, frame, size);
	client_expect_ack(c, 2);
	fault_arm("landing_new", 0);
	assert_int_equal(used(rig, CHARGE_BYTES), 0);
	free(frame);
	free(data);
	client_free(c);
}

/* Fields given twice: the last one counts, wherever it stands. */
static void
test_a_second_payload_counts(void **state)
{
	static const uint8_t second[] = {0x22, 2, 'h', 'i'};
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0);
	uint8_t *data = pattern(MIB), *out;
	struct envelope e = {
		.alias = "sink",
		.alias_size = 4,
		.event = "echo",
		.event_size = 4,
		.payload = data,
		.payload_size = MIB,
		.call = 9,
	};
	size_t size = envelope_size(&e) + sizeof(second), n;

	fake_new(rig, 0, "sink");
	out = malloc(size + 32);
	n = varint_put(out, 1 + varint_size(size) + size);
	out[n++] = 0x0a;
	n += varint_put(out + n, size);
	n += envelope_encode(&e, out + n);
	memcpy(out + n, second, sizeof(second));
	client_write(c, out, n + sizeof(second));
	client_expect_reply(c, 9, EVD_STATUS_OK, "hi");
	assert_int_equal(used(rig, CHARGE_BYTES), 0);
	free(out);
	free(data);
	client_free(c);
}

/* Any single byte before the payload may be wrong: it ends well or with an
 * error, and nothing stays charged. */
static void
test_a_broken_large_frame_leaves_nothing(void **state)
{
	struct rig *rig = *state;
	uint8_t *data = pattern(300000);
	struct client *look = client_hello(rig, 0);

	fake_new(rig, 0, "sink");
	for (size_t at = 0; at < 24; at++) {
		struct client *c = client_hello(rig, 0);
		struct envelope rest = {0};
		size_t size;
		uint8_t *frame = frame_of(c, &rest, data, 300000, &size);

		frame[at] ^= 0x11;
		client_write(c, frame, size / 2);
		rig_run(rig);
		shutdown(c->fd, SHUT_WR);
		rig_run(rig);
		client_free(c);
		free(frame);
	}
	rig_run(rig);
	assert_int_equal(used(rig, CHARGE_BYTES), 0);
	client_expect_alive(look);
	free(data);
	client_free(look);
}

/* ---- going out ----------------------------------------------------------- */

/* To who does not read: no copy is made for it, and others go on. */
static void
test_a_large_delivery_is_not_copied(void **state)
{
	enum { N = 6 };
	struct rig *rig = *state;
	struct client *slow = client_hello(rig, 0), *c;
	const struct conn *conn = rig_conn(rig, 0);
	uint8_t *data = pattern(MIB);
	size_t size;

	client_bind(slow, "sink", 1, 100);
	c = client_hello(rig, 0);
	for (int i = 0; i < N; i++) {
		struct envelope rest = {0};
		uint8_t *frame = frame_of(c, &rest, data, MIB, &size);

		client_write(c, frame, size);
		free(frame);
	}
	rig_run(rig);
	assert_non_null(conn->large.body);
	assert_true(outbuf_size(&conn->out) < 4096);
	for (int i = 0; i < N; i++) {
		const Eventd__V1__Envelope *e =
			client_expect_delivery(slow, 1, "store");

		assert_int_equal(e->payload.len, MIB);
		assert_memory_equal(e->payload.data, data, MIB);
		client_settle(slow, 1, (uint64_t)i + 1);
	}
	rig_run(rig);
	assert_null(conn->large.body);
	while (c->frame == NULL || !c->frame->ack || c->frame->ack->upto < N)
		assert_non_null(client_next(c));
	assert_int_equal(used(rig, CHARGE_BYTES), 0);
	free(data);
	client_free(slow);
	client_free(c);
}

/* It may settle what has not been written to it yet, and may go at any time. */
static void
test_one_that_settles_early_or_goes_does_no_harm(void **state)
{
	struct rig *rig = *state;
	struct client *slow = client_hello(rig, 0), *c;
	uint8_t *data = pattern(2 * MIB);
	struct envelope rest = {0};
	size_t size;
	uint8_t *frame;

	client_bind(slow, "sink", 1, 100);
	c = client_hello(rig, 0);
	frame = frame_of(c, &rest, data, 2 * MIB, &size);
	client_write(c, frame, size);
	rig_run(rig);
	client_settle(slow, 1, 1);
	rig_run(rig);
	assert_memory_equal(
		client_expect_delivery(slow, 1, "store")->payload.data, data,
		2 * MIB);
	free(frame);
	frame = frame_of(c, &rest, data, 2 * MIB, &size);
	client_write(c, frame, size);
	rig_run(rig);
	client_free(slow);
	rig_run(rig);
	client_expect_ack(c, 2);
	assert_int_equal(used(rig, CHARGE_BYTES), 0);
	free(frame);
	free(data);
	client_free(c);
}

/* With its bytes, and lets them go. */
static void
test_one_that_nobody_takes_is_a_dead_letter(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0);
	struct envelope rest = {.headers_size = 0};
	uint8_t *data = pattern(MIB);
	struct dead *dead;
	size_t size;
	uint8_t *frame = frame_of(c, &rest, data, MIB, &size);

	client_write(c, frame, size);
	client_expect_failure(c, 1, EVD_STATUS_NO_ALIAS);
	dead = dead_next(&rig->loops[0].sched, 0, DEAD_NONE);
	assert_non_null(dead);
	assert_int_equal(dead->msg->size, MIB);
	assert_memory_equal(msg_payload(dead->msg), data, MIB);
	dead_drop(&rig->loops[0].sched, dead);
	free(frame);
	free(data);
	client_free(c);
}

int
main(void)
{
#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, large_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_a_large_payload_lands_in_its_message),
		TEST(test_one_that_stalls_is_charged_and_goes),
		TEST(test_one_beyond_the_limit_fails_alone),
		TEST(test_without_memory_it_fails_alone),
		TEST(test_a_second_payload_counts),
		TEST(test_a_broken_large_frame_leaves_nothing),
		TEST(test_a_large_delivery_is_not_copied),
		TEST(test_one_that_settles_early_or_goes_does_no_harm),
		TEST(test_one_that_nobody_takes_is_a_dead_letter),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

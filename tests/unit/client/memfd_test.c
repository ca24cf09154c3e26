/* Large payloads as memfds, both ways, and a daemon that lies about them. */
#include <stdbool.h>

#include "fake.h"

#include <sys/mman.h>

#include "envelope.h"
#include "passing.h"

enum { MIB = 1 << 20, SEALS = 15 };

static char feature_memfd[] = FEATURE_MEMFD,
	    feature_replies[] = FEATURE_MEMFD_REPLIES;
static char *features[] = {feature_memfd, feature_replies};

static int
setup(void **state)
{
	struct fake *f;

	fake_setup_idle(state);
	f = *state;
	f->welcome.max_memfd = 16 * MIB;
	f->welcome.features = features;
	f->welcome.n_features = 2;
	f->welcome.window_bytes = 64 * MIB;
	assert_int_equal(evd_set_memfd(f->c, true), 0);
	fake_connect(f);
	assert_string_equal(f->frame->hello->features[0], FEATURE_MEMFD);
	assert_string_equal(
		f->frame->hello->features[1], FEATURE_MEMFD_REPLIES);
	return 0;
}

static uint8_t *
pattern(size_t size)
{
	uint8_t *data = malloc(size);

	assert_non_null(data);
	for (size_t i = 0; i < size; i++)
		data[i] = (uint8_t)(i * 7 + (i >> 9));
	return data;
}

static unsigned
open_fds(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* The frame that comes next, and the descriptors with it. */
static Eventd__V1__Envelope *
read_passed(struct fake *f, struct passed *passed)
{
	static uint8_t bytes[4096];
	struct iovec part = {bytes, sizeof(bytes)};
	size_t head, body;
	ssize_t n;

	fake_wait(f->fd, POLLIN);
	n = passed_receive(f->fd, &part, 1, 0, passed);
	assert_true(n > 0);
	assert_int_equal(
		frame_take(bytes, (size_t)n, sizeof(bytes), &head, &body), 0);
	assert_int_equal(head + body, n);
	if (f->frame)
		eventd__v1__frame__free_unpacked(f->frame, NULL);
	f->frame = eventd__v1__frame__unpack(NULL, body, bytes + head);
	assert_non_null(f->frame);
	assert_int_equal(f->frame->n_envelopes, 1);
	return f->frame->envelopes[0];
}

/* ---- going out ----------------------------------------------------------- */

static void
expect_memfd(struct fake *f, const uint8_t *data, size_t size)
{
	struct passed passed = {0};
	const Eventd__V1__Envelope *e = read_passed(f, &passed);
	int fd = passed_take(&passed);
	void *map;

	assert_int_equal(e->memfd_size, size);
	assert_int_equal(e->payload.len, 0);
	assert_int_equal(memfd_check(fd, size), 0);
	assert_int_equal(passed.n, 0);
	map = memfd_map(fd, size);
	assert_memory_equal(map, data, size);
	memfd_unmap(map, size);
	close(fd);
}

static void
test_a_large_post_travels_as_a_memfd(void **state)
{
	struct fake *f = *state;
	uint8_t *data = pattern(3 * MIB);
	unsigned before = open_fds();

	assert_int_equal(evd_max_memfd(f->c), 16 * MIB);
	assert_int_equal(evd_post(f->c, "a", "small", "x", 1), 0);
	assert_int_equal(evd_flush(f->c), 0);
	assert_string_equal(fake_read(f)->envelopes[0]->event, "small");
	assert_int_equal(evd_post(f->c, "a", "e", data, 3 * MIB), 0);
	assert_int_equal(evd_post(f->c, "a", "e", data, 2 * MIB), 0);
	assert_int_equal(evd_flush(f->c), 0);
	expect_memfd(f, data, 3 * MIB);
	expect_memfd(f, data, 2 * MIB);
	assert_int_equal(open_fds(), before);
	fake_send_ack(f, 3, NULL, 0);
	assert_int_equal(evd_drain(f->c, 0), 0);
	free(data);
}

static void
test_a_large_call_travels_as_a_memfd(void **state)
{
	struct fake *f = *state;
	uint8_t *data = pattern(2 * MIB);

	assert_true(evd_call_start(f->c, "a", "e", data, 2 * MIB, 0) > 0);
	assert_int_equal(evd_flush(f->c), 0);
	expect_memfd(f, data, 2 * MIB);
	free(data);
}

static void
test_a_memfd_of_ones_own_is_posted_as_it_is(void **state)
{
	struct fake *f = *state;
	uint8_t *data = pattern(MIB / 2);
	int fd = memfd_new(data, MIB / 2), other;

	assert_true(evd_post_memfd(f->c, "a", "e", fd, MIB / 2, NULL) > 0);
	close(fd);
	assert_int_equal(evd_flush(f->c), 0);
	expect_memfd(f, data, MIB / 2);
	other = memfd_create("open", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(other, MIB), 0);
	assert_int_equal(
		evd_post_memfd(f->c, "a", "e", other, MIB, NULL), -EINVAL);
	close(other);
	assert_int_equal(
		evd_post_memfd(f->c, "a", "e", -1, MIB, NULL), -EINVAL);
	free(data);
}

static void
test_one_over_the_limit_is_refused(void **state)
{
	struct fake *f = *state;
	uint8_t *data = calloc(1, 17 * MIB);

	assert_int_equal(evd_post(f->c, "a", "e", data, 17 * MIB), -EMSGSIZE);
	assert_int_equal(
		evd_delay(f->c, "a", "e", data, 2 * MIB, 5), -EMSGSIZE);
	fake_assert_quiet(f);
	free(data);
}

/* B79: the socket takes it in pieces; the descriptor goes once. */
static void
test_a_descriptor_goes_once_behind_a_slow_socket(void **state)
{
	struct fake *f = *state;
	uint8_t *data = pattern(2 * MIB);
	struct passed passed = {0};
	unsigned n_fds = 0;
	size_t got = 0, want;
	static uint8_t bytes[65536];

	assert_int_equal(evd_set_blocking(f->c, false), 0);
	assert_int_equal(evd_post(f->c, "a", "e", data, MIB), 0);
	assert_int_equal(evd_post(f->c, "a", "e", data, 2 * MIB), 0);
	want = MIB + 20;
	while (got < want || n_fds == 0) {
		struct iovec part = {bytes, sizeof(bytes)};
		ssize_t n =
			passed_receive(f->fd, &part, 1, MSG_DONTWAIT, &passed);
		int fd;

		evd_flush(f->c);
		if (n > 0)
			got += (size_t)n;
		while ((fd = passed_take(&passed)) >= 0) {
			assert_true(got > MIB); /* not before its envelope */
			n_fds++;
			close(fd);
		}
	}
	assert_int_equal(evd_flush(f->c), 0);
	assert_int_equal(n_fds, 1);
	free(data);
}

/* ---- coming in ----------------------------------------------------------- */

static void
bind_box(struct fake *f)
{
	Eventd__V1__Response response = EVENTD__V1__RESPONSE__INIT;
	Eventd__V1__Bound bound = EVENTD__V1__BOUND__INIT;
	int64_t number = evd_bind_start(f->c, "box", 0, 0);

	assert_true(number > 0);
	assert_int_equal(evd_flush(f->c), 0);
	response.id = fake_read(f)->request->id;
	response.result_case = EVENTD__V1__RESPONSE__RESULT_BOUND;
	bound.window_events = 100;
	bound.window_bytes = 64 * MIB;
	response.bound = &bound;
	fake_respond(f, &response);
	fake_next_is(f, EVD_RESPONSE);
}

static void
deliver(struct fake *f, uint64_t to, int fd, uint32_t size, uint64_t re)
{
	uint8_t out[300];
	struct envelope e = {
		.to = to,
		.event = "e",
		.event_size = 1,
		.memfd_size = size,
		.re = re,
	};
	struct iovec part = {out, envelope_encode_frame(&e, out)};

	assert_int_equal(passed_send(f->fd, &part, 1, fd), part.iov_len);
	if (fd >= 0)
		close(fd);
}

static void
test_a_delivery_is_mapped_and_let_go(void **state)
{
	struct fake *f = *state;
	uint8_t *data = pattern(2 * MIB);
	const struct evd_event *ev;
	struct evd_event *copy;
	unsigned before;

	bind_box(f);
	before = open_fds();
	deliver(f, 1, memfd_new(data, 2 * MIB), 2 * MIB, 0);
	ev = fake_next_is(f, EVD_DELIVERY);
	assert_int_equal(evd_event_size(ev), 2 * MIB);
	assert_memory_equal(evd_event_data(ev), data, 2 * MIB);
	assert_int_equal(memfd_check(evd_event_memfd(ev), 2 * MIB), 0);
	copy = evd_event_dup(ev);
	fake_settle_down(f);
	assert_memory_equal(evd_event_data(copy), data, 2 * MIB);
	evd_event_free(copy);
	assert_int_equal(open_fds(), before);
	deliver(f, 1, memfd_new(data, MIB), MIB, 0); /* never looked at */
	assert_int_equal(evd_wait(f->c, FAKE_WAIT_MS), 1);
	evd_close(f->c);
	free(data);
}

/* While something else is waited for it is queued, as a map. */
static void
test_a_queued_delivery_stays_mapped(void **state)
{
	struct fake *f = *state;
	uint8_t *data = pattern(2 * MIB);
	const struct evd_event *ev;

	bind_box(f);
	deliver(f, 1, memfd_new(data, 2 * MIB), 2 * MIB, 0);
	assert_int_equal(evd_post(f->c, "a", "e", "x", 1), 0);
	fake_send_ack(f, 1, NULL, 0);
	evd_flush(f->c);
	assert_int_equal(evd_drain(f->c, 0), 0);
	ev = fake_next_is(f, EVD_DELIVERY);
	assert_memory_equal(evd_event_data(ev), data, 2 * MIB);
	fake_settle_down(f);
	free(data);
}

/* ---- replies ------------------------------------------------------------- */

static void
deliver_call(struct fake *f, uint64_t handle)
{
	Eventd__V1__Envelope e = EVENTD__V1__ENVELOPE__INIT;

	e.to = 1;
	e.event = (char *)"e";
	e.call = handle;
	fake_send_envelope(f, &e);
}

static void
test_a_reply_is_mapped_and_let_go(void **state)
{
	struct fake *f = *state;
	uint8_t *data = pattern(2 * MIB);
	unsigned before = open_fds();
	int64_t call = evd_call_start(f->c, "a", "e", "", 0, 0);
	const struct evd_event *ev;
	struct evd_event *copy;

	assert_int_equal(evd_flush(f->c), 0);
	deliver(f, 0, memfd_new(data, 2 * MIB), 2 * MIB,
		fake_read(f)->envelopes[0]->call);
	ev = fake_next_is(f, EVD_REPLY);
	assert_int_equal(evd_event_call(ev), call);
	assert_int_equal(evd_event_status(ev), 0);
	assert_int_equal(evd_event_size(ev), 2 * MIB);
	assert_memory_equal(evd_event_data(ev), data, 2 * MIB);
	assert_int_equal(memfd_check(evd_event_memfd(ev), 2 * MIB), 0);
	copy = evd_event_dup(ev);
	fake_settle_down(f);
	assert_memory_equal(evd_event_data(copy), data, 2 * MIB);
	evd_event_free(copy);
	assert_int_equal(open_fds(), before);
	free(data);
}

/* It is written before the call waits: the calls' numbers are known. */
static void
test_a_call_that_waits_gets_a_map(void **state)
{
	struct fake *f = *state;
	uint8_t *data = pattern(2 * MIB);
	unsigned before = open_fds();
	struct evd_event *reply = NULL;
	uint64_t call;

	assert_true(evd_call_start(f->c, "a", "e", "", 0, 0) > 0);
	assert_int_equal(evd_flush(f->c), 0);
	call = fake_read(f)->envelopes[0]->call;
	deliver(f, 0, memfd_new(data, 2 * MIB), 2 * MIB, call);
	deliver(f, 0, memfd_new(data, MIB), MIB,
		call + FAKE_NUMBER(1) + 1); /* of the slot behind it */
	assert_int_equal(evd_call(f->c, "a", "e", "", 0, 0, &reply), 0);
	assert_int_equal(evd_event_size(reply), MIB);
	assert_memory_equal(evd_event_data(reply), data, MIB);
	evd_event_free(reply);
	assert_int_equal(/* the other waited in the queue, as a map */
		evd_event_size(fake_next_is(f, EVD_REPLY)), 2 * MIB);
	fake_settle_down(f);
	assert_int_equal(open_fds(), before);
	free(data);
}

static void
expect_reply(struct fake *f, uint64_t re, const uint8_t *data, size_t size)
{
	expect_memfd(f, data, size);
	assert_int_equal(f->frame->envelopes[0]->re, re);
}

static void
test_a_large_reply_travels_as_a_memfd(void **state)
{
	struct fake *f = *state;
	uint8_t *data = pattern(2 * MIB);
	int fd = memfd_new(data, MIB / 2);
	const struct evd_event *ev;
	unsigned before;

	bind_box(f);
	before = open_fds();
	evd_set_manual_settle(f->c, true);
	deliver_call(f, 77);
	ev = fake_next_is(f, EVD_DELIVERY);
	assert_int_equal(evd_reply(f->c, evd_event_call(ev), data, 2 * MIB), 0);
	assert_int_equal(
		evd_reply(f->c, evd_event_call(ev), data, 2 * MIB), -ESRCH);
	assert_int_equal(evd_flush(f->c), 0);
	expect_reply(f, 77, data, 2 * MIB);
	deliver_call(f, 78);
	ev = fake_next_is(f, EVD_DELIVERY);
	assert_int_equal(
		evd_reply_memfd(f->c, evd_event_call(ev), fd, MIB), -EINVAL);
	assert_int_equal(
		evd_reply_memfd(f->c, evd_event_call(ev), fd, MIB / 2), 0);
	close(fd);
	assert_int_equal(evd_flush(f->c), 0);
	expect_reply(f, 78, data, MIB / 2);
	assert_int_equal(open_fds(), before - 1);
	free(data);
}

/* One that knows memfds, but not as replies. */
static void
test_an_older_daemon_gets_no_reply_so(void **state)
{
	struct fake *f = *state;
	uint8_t *data = pattern(2 * MIB);
	int fd = memfd_new(data, 2 * MIB);
	uint64_t call;

	fake_hang_up(f);
	fake_next_is(f, EVD_DISCONNECTED);
	f->welcome.n_features = 1;
	fake_connect(f);
	bind_box(f);
	deliver_call(f, 77);
	call = evd_event_call(fake_next_is(f, EVD_DELIVERY));
	assert_int_equal(evd_reply(f->c, call, data, 2 * MIB), -EMSGSIZE);
	assert_int_equal(evd_reply_memfd(f->c, call, fd, 2 * MIB), -EOPNOTSUPP);
	assert_int_equal(evd_reply(f->c, call, data, 1000), 0);
	assert_int_equal(evd_flush(f->c), 0);
	assert_int_equal(fake_read(f)->envelopes[0]->payload.len, 1000);
	close(fd);
	free(data);
}

static int
memfd_with(size_t size, int seals)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

/* A daemon that lies loses the connection, and leaves no descriptor. */
static void
test_a_daemon_that_lies_is_left(void **state)
{
	struct fake *f = *state;
	unsigned before = 0;

	for (int i = 0; i < 6; i++) {
		switch (i) {
		case 0: /* none came */
			deliver(f, 1, -1, MIB, 0);
			break;
		case 1: /* it may change */
			deliver(f, 1, memfd_with(MIB, 0), MIB, 0);
			break;
		case 2: /* it is shorter */
			deliver(f, 1, memfd_with(MIB - 1, SEALS), MIB, 0);
			break;
		case 3: /* no memfd at all */
			deliver(f, 1, open("/dev/zero", O_RDONLY), MIB, 0);
			break;
		case 4: /* a reply that may grow */
			deliver(f, 0, memfd_with(MIB, F_SEAL_SHRINK), MIB, 5);
			break;
		case 5: /* no event tells of it */
			deliver(f, 99, memfd_with(MIB, SEALS), 0, 0);
			break;
		}
		assert_int_equal(
			evd_event_status(fake_next_is(f, EVD_DISCONNECTED)),
			EVD_STATUS_PROTOCOL);
		close(f->fd);
		f->fd = -1;
		assert_int_equal(evd_process(f->c) <= 0, 1);
		if (!i)
			before = open_fds();
		assert_int_equal(open_fds(), before);
		fake_connect(f);
	}
	/* for a binding that crossed its end: let go */
	before = open_fds();
	deliver(f, 99, memfd_with(MIB, SEALS), MIB, 0);
	fake_settle_down(f);
	assert_int_equal(open_fds(), before);
	/* the same of an answer that nobody waits for any more */
	deliver(f, 0, memfd_with(MIB, SEALS), MIB, 5);
	fake_settle_down(f);
	assert_int_equal(open_fds(), before);
	assert_true(evd_is_connected(f->c));
}

/* An older daemon, or one that takes none. */
static void
test_without_the_daemons_word_all_are_bytes(void **state)
{
	struct fake *f = *state;
	uint8_t *data = calloc(1, 2 * MIB);

	f->welcome.max_memfd = 0;
	fake_connect(f);
	assert_int_equal(evd_max_memfd(f->c), 0);
	assert_int_equal(evd_post(f->c, "a", "e", data, 2 * MIB), -EMSGSIZE);
	assert_int_equal(evd_set_memfd(f->c, true), -EISCONN);
	free(data);
}

static int
setup_idle(void **state)
{
	fake_setup_idle(state);
	return evd_set_memfd(((struct fake *)*state)->c, true);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, fake_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_a_large_post_travels_as_a_memfd),
		TEST(test_a_large_call_travels_as_a_memfd),
		TEST(test_a_memfd_of_ones_own_is_posted_as_it_is),
		TEST(test_one_over_the_limit_is_refused),
		TEST(test_a_descriptor_goes_once_behind_a_slow_socket),
		TEST(test_a_delivery_is_mapped_and_let_go),
		TEST(test_a_queued_delivery_stays_mapped),
		TEST(test_a_reply_is_mapped_and_let_go),
		TEST(test_a_call_that_waits_gets_a_map),
		TEST(test_a_large_reply_travels_as_a_memfd),
		TEST(test_an_older_daemon_gets_no_reply_so),
		TEST(test_a_daemon_that_lies_is_left),
		cmocka_unit_test_setup_teardown(
			test_without_the_daemons_word_all_are_bytes, setup_idle,
			fake_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Large payloads: read to where they stay, written from there, or passed as
 * sealed memfds. The clients are hostile where they can be. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fault.h"
#include "envelope.h"
#include "fixture.h"
#include "kernel/dead.h"
#include "net/landing.h"
#include "passing.h"

enum { MIB = 1 << 20, ALL_SEALS = 15 };

static int
setup(void **state)
{
	int r = rig_setup(state);
	struct rig *rig = *state;

	rig->kernel.limits.max_payload = 8 * MIB;
	rig->server.window_bytes = 16 * MIB;
	return r;
}

static uint8_t *
pattern(size_t size)
{
	uint8_t *data = malloc(size);

	assert_non_null(data);
	for (size_t i = 0; i < size; i++)
		data[i] = (uint8_t)(i * 31 + (i >> 12));
	return data;
}

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

static int64_t
used(struct rig *rig, enum charge_kind kind)
{
	const struct user *user = rig_conn(rig, 0)->peer.user;

	rig_turn(rig); /* which adds up */
	return atomic_load(&user->used[kind]);
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

/* ---- memfds -------------------------------------------------------------- */

static struct client *
client_memfd(struct rig *rig)
{
	struct client *c = client_open(rig, 0);
	Eventd__V1__Frame frame = EVENTD__V1__FRAME__INIT;
	Eventd__V1__Hello hello = EVENTD__V1__HELLO__INIT;
	char name[] = "a test", memfd[] = FEATURE_MEMFD;
	char *features[] = {memfd};

	hello.version = 1;
	hello.name = name;
	hello.features = features;
	hello.n_features = 1;
	frame.hello = &hello;
	client_send(c, &frame);
	assert_non_null(client_next(c));
	assert_int_equal(c->frame->welcome->max_memfd, rig->server.max_memfd);
	assert_string_equal(c->frame->welcome->features[0], FEATURE_MEMFD);
	return c;
}

/* Announce @size bytes in @fd, which is closed here; -1: send none. */
static void
post_fd(struct client *c, int fd, uint32_t size)
{
	uint8_t out[300];
	struct envelope e = {
		.alias = "sink",
		.alias_size = 4,
		.event = "store",
		.event_size = 5,
		.seq = ++c->seq,
		.memfd_size = size,
	};
	struct iovec part = {out, envelope_encode_frame(&e, out)};

	assert_int_equal(passed_send(c->fd, &part, 1, fd), part.iov_len);
	if (fd >= 0)
		close(fd);
	rig_run(c->rig);
}

static int
memfd_with(size_t size, int seals)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static unsigned
open_fds(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void
test_a_memfd_is_mapped_and_let_go(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_memfd(rig);
	struct fake *fake = fake_new(rig, 0, "sink");
	unsigned before = open_fds();
	uint8_t *data = pattern(3 * MIB + 5);

	post_fd(c, memfd_new(data, 3 * MIB + 5), 3 * MIB + 5);
	client_expect_ack(c, 1);
	assert_int_equal(fake->n_run, 1);
	assert_int_equal(open_fds(), before);
	assert_int_equal(atomic_load(&rig->server.n_memfds), 0);
	assert_int_equal(used(rig, CHARGE_BYTES), 0);
	free(data);
	client_free(c);
}

/* While it is held it is charged like bytes, and may be looked at. */
static void
test_a_memfd_is_charged_while_it_is_held(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_memfd(rig);
	struct fake *fake = fake_new(rig, 0, "sink");
	uint8_t *data = pattern(2 * MIB);
	uint8_t out[100];
	struct envelope e = {
		.alias = "sink",
		.alias_size = 4,
		.event = "wait",
		.event_size = 4,
		.seq = ++c->seq,
		.memfd_size = 2 * MIB,
	};
	struct iovec part = {out, envelope_encode_frame(&e, out)};
	int fd = memfd_new(data, 2 * MIB);

	passed_send(c->fd, &part, 1, fd);
	close(fd);
	rig_run(rig);
	assert_non_null(fake->held);
	assert_int_equal(used(rig, CHARGE_BYTES), 2 * MIB);
	assert_int_equal(atomic_load(&rig->server.n_memfds), 1);
	assert_memory_equal(msg_payload(fake->held), data, 2 * MIB);
	assert_int_equal(msg_payload(fake->held)[2 * MIB], 0);
	client_free(c); /* it outlives its connection */
	rig_run(rig);
	assert_int_equal(atomic_load(&rig->server.n_memfds), 1);
	fake_finish(fake);
	rig_run(rig);
	assert_int_equal(atomic_load(&rig->server.n_memfds), 0);
	free(data);
}

struct hostile {
	const char *what;
	int fd;
	uint32_t size;
	int status;
};

/* B79: what is no sealed memfd of that size fails its post alone. */
static void
test_hostile_descriptors_fail_their_posts(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_memfd(rig);
	unsigned before = open_fds();
	int ends[2], pair[2];

	fake_new(rig, 0, "sink");
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	const struct hostile all[] = {
		{"unsealed", memfd_with(MIB, 0), MIB, EVD_STATUS_INVALID},
		{"may shrink", memfd_with(MIB, ALL_SEALS & ~F_SEAL_SHRINK), MIB,
			EVD_STATUS_INVALID},
		{"may be written", memfd_with(MIB, ALL_SEALS & ~F_SEAL_WRITE),
			MIB, EVD_STATUS_INVALID},
		{"may be sealed further", memfd_with(MIB, 14), MIB,
			EVD_STATUS_INVALID},
		{"larger", memfd_with(2 * MIB, ALL_SEALS), MIB,
			EVD_STATUS_INVALID},
		{"truncated", memfd_with(MIB - 1, ALL_SEALS), MIB,
			EVD_STATUS_INVALID},
		{"empty", memfd_with(0, ALL_SEALS), MIB, EVD_STATUS_INVALID},
		{"small", memfd_with(100, ALL_SEALS), 100, EVD_STATUS_INVALID},
		{"over the limit", memfd_with(MIB, ALL_SEALS), 4000000000u,
			EVD_STATUS_TOO_LARGE},
		{"a pipe", ends[0], MIB, EVD_STATUS_INVALID},
		{"a socket", pair[0], MIB, EVD_STATUS_INVALID},
		{"a directory", open("/", O_RDONLY | O_CLOEXEC), MIB,
			EVD_STATUS_INVALID},
		{"a device", open("/dev/zero", O_RDONLY | O_CLOEXEC), MIB,
			EVD_STATUS_INVALID},
	};
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		assert_true(all[i].fd >= 0);
		post_fd(c, all[i].fd, all[i].size);
		client_expect_failure(c, i + 1, all[i].status);
		client_expect_ack(c, i + 1);
	}
	close(ends[1]);
	close(pair[1]);
	assert_int_equal(open_fds(), before);
	assert_int_equal(atomic_load(&rig->server.n_memfds), 0);
	assert_int_equal(used(rig, CHARGE_BYTES), 0);
	client_expect_alive(c);
	client_free(c);
}

/* What breaks the protocol ends the connection, and no descriptor stays. */
static void
test_descriptors_out_of_place_end_the_connection(void **state)
{
	struct rig *rig = *state;
	unsigned before = open_fds();
	struct client *c = client_memfd(rig);
	uint8_t zero = 0;
	struct iovec part = {&zero, 1}; /* an empty frame */

	fake_new(rig, 0, "sink");
	post_fd(c, -1, MIB); /* none */
	client_expect_error(c, EVD_STATUS_PROTOCOL);
	client_free(c);
	c = client_memfd(rig); /* one that no envelope tells of */
	int fd = memfd_with(MIB, ALL_SEALS);

	passed_send(c->fd, &part, 1, fd);
	rig_run(rig);
	client_expect_error(c, EVD_STATUS_PROTOCOL);
	client_free(c);
	close(fd);
	rig_run(rig);
	assert_int_equal(open_fds(), before);
}

/* As many as the kernel takes in one message. */
static void
send_many(struct client *c, int fd, unsigned n)
{
	static union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(253 * sizeof(int))];
	} control;
	uint8_t zero = 0;
	struct iovec part = {&zero, 1};
	struct msghdr m = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = CMSG_SPACE(n * sizeof(int)),
	};
	struct cmsghdr *head = CMSG_FIRSTHDR(&m);

	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(n * sizeof(int));
	for (unsigned i = 0; i < n; i++)
		memcpy(CMSG_DATA(head) + i * sizeof(fd), &fd, sizeof(fd));
	assert_int_equal(sendmsg(c->fd, &m, MSG_NOSIGNAL), 1);
}

static void
test_many_descriptors_at_once_are_all_closed(void **state)
{
	static const unsigned counts[] = {2, 5, 22, 253};
	struct rig *rig = *state;
	unsigned before = open_fds();
	int fd = memfd_with(MIB, ALL_SEALS);

	for (size_t i = 0; i < 4; i++) {
		struct client *c = client_memfd(rig);

		send_many(c, fd, counts[i]);
		rig_run(rig);
		client_expect_error(c, EVD_STATUS_PROTOCOL);
		client_free(c);
		rig_run(rig);
		assert_int_equal(open_fds(), before + 1);
	}
	close(fd);
}

/* Who has not said that it may pass some passes none: the kernel drops them. */
static void
test_without_the_feature_none_are_taken(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0);
	unsigned before = open_fds();
	int fd = memfd_with(MIB, ALL_SEALS);

	assert_int_equal(c->frame->welcome->max_memfd, 0);
	send_many(c, fd, 253);
	close(fd);
	rig_run(rig);
	assert_int_equal(open_fds(), before);
	client_expect_alive(c);
	post_fd(c, -1, MIB);
	client_expect_error(c, EVD_STATUS_PROTOCOL);
	client_free(c);
}

static void
test_a_connection_has_no_more_than_its_share(void **state)
{
	enum { MANY = 70, SIZE = 70000 };
	struct rig *rig = *state;
	struct client *c = client_memfd(rig), *other = client_hello(rig, 0);
	unsigned before = open_fds(), failed = 0;
	struct dead *dead;

	client_bind(other, "sink", 1, 1);
	for (int i = 0; i < MANY; i++)
		post_fd(c, memfd_with(SIZE, ALL_SEALS), SIZE);
	assert_true(atomic_load(&rig->server.n_memfds) <= 64);
	while (failed < MANY && client_poll(c))
		failed += c->frame->n_failures > 0;
	assert_int_equal(failed, MANY - 64);
	client_free(other);
	client_free(c);
	rig_run(rig);
	while ((dead = dead_next(&rig->loops[0].sched, 0, DEAD_NONE)))
		dead_drop(&rig->loops[0].sched, dead);
	assert_int_equal(atomic_load(&rig->server.n_memfds), 0);
	assert_true(open_fds() <= before);
}

/* It goes on as a descriptor to who takes some, as bytes to who does not. */
static void
test_a_memfd_goes_to_clients_as_they_want_it(void **state)
{
	struct rig *rig = *state;
	struct client *poster = client_memfd(rig), *taker = client_memfd(rig);
	struct client *plain;
	uint8_t *data = pattern(MIB), out[300];
	struct passed passed = {0};
	struct iovec part = {out, sizeof(out)};
	Eventd__V1__Envelope *e;
	ssize_t n = -1;
	int fd;

	client_bind(taker, "sink", 1, 10);
	post_fd(poster, memfd_new(data, MIB), MIB);
	client_expect_ack(poster, 1);
	n = passed_receive(taker->fd, &part, 1, MSG_DONTWAIT, &passed);
	assert_true(n > 0);
	assert_int_equal(passed.n, 1); /* B79: exactly one */
	fd = passed_take(&passed);
	assert_int_equal(memfd_check(fd, MIB), 0);
	void *map = memfd_map(fd, MIB);

	assert_memory_equal(map, data, MIB);
	memfd_unmap(map, MIB);
	close(fd);
	client_settle(taker, 1, 1);
	client_free(taker);
	rig_run(rig);
	plain = client_hello(rig, 0);
	client_bind(plain, "sink", 1, 10);
	post_fd(poster, memfd_new(data, MIB), MIB);
	e = client_expect_delivery(plain, 1, "store");
	assert_int_equal(e->memfd_size, 0);
	assert_int_equal(e->payload.len, MIB);
	assert_memory_equal(e->payload.data, data, MIB);
	client_settle(plain, 1, 1);
	rig_run(rig);
	assert_int_equal(atomic_load(&rig->server.n_memfds), 0);
	free(data);
	client_free(plain);
	client_free(poster);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, rig_teardown)
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
		TEST(test_a_memfd_is_mapped_and_let_go),
		TEST(test_a_memfd_is_charged_while_it_is_held),
		TEST(test_hostile_descriptors_fail_their_posts),
		TEST(test_descriptors_out_of_place_end_the_connection),
		TEST(test_many_descriptors_at_once_are_all_closed),
		TEST(test_without_the_feature_none_are_taken),
		TEST(test_a_connection_has_no_more_than_its_share),
		TEST(test_a_memfd_goes_to_clients_as_they_want_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Payloads that are sealed memfds: posts, calls, deliveries and replies. The
 * clients are hostile where they can be. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "envelope.h"
#include "kernel/dead.h"
#include "large.h"
#include "passing.h"

static struct client *
client_memfd(struct rig *rig)
{
	struct client *c = client_open(rig, 0);
	Eventd__V1__Frame frame = EVENTD__V1__FRAME__INIT;
	Eventd__V1__Hello hello = EVENTD__V1__HELLO__INIT;
	char name[] = "a test", memfd[] = FEATURE_MEMFD;
	char replies[] = FEATURE_MEMFD_REPLIES;
	char *features[] = {memfd, replies};

	hello.version = 1;
	hello.name = name;
	hello.features = features;
	hello.n_features = 2;
	frame.hello = &hello;
	client_send(c, &frame);
	assert_non_null(client_next(c));
	assert_int_equal(c->frame->welcome->max_memfd, rig->server.max_memfd);
	assert_string_equal(c->frame->welcome->features[0], FEATURE_MEMFD);
	assert_string_equal(
		c->frame->welcome->features[1], FEATURE_MEMFD_REPLIES);
	return c;
}

/* Send @e with @fd, which is closed here; -1: with none. */
static void
send_fd(struct client *c, const struct envelope *e, int fd)
{
	uint8_t out[300];
	struct iovec part = {out, envelope_encode_frame(e, out)};

	assert_int_equal(passed_send(c->fd, &part, 1, fd), part.iov_len);
	if (fd >= 0)
		close(fd);
	rig_run(c->rig);
}

/* Announce @size bytes in @fd. */
static void
post_fd(struct client *c, int fd, uint32_t size)
{
	send_fd(c,
		&(struct envelope){
			.alias = "sink",
			.alias_size = 4,
			.event = "store",
			.event_size = 5,
			.seq = ++c->seq,
			.memfd_size = size,
		},
		fd);
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

/* ---- replies ------------------------------------------------------------- */

/* @asker calls @answerer, who has "ask" bound, for the @nth time, and gets
 * @size bytes of @fd. */
static void
answer_fd(struct client *answerer, struct client *asker, unsigned nth, int fd,
	uint32_t size)
{
	const Eventd__V1__Envelope *e;

	client_call(asker, "ask", "e", 7, "");
	e = client_expect_delivery(answerer, 2, "e");
	send_fd(answerer, &(struct envelope){.re = e->call, .memfd_size = size},
		fd);
	client_settle(answerer, 2, nth);
}

static void
expect_large_reply(struct client *c, const uint8_t *data, uint32_t size)
{
	const Eventd__V1__Envelope *e = client_next(c)->envelopes[0];

	assert_int_equal(e->re, 7);
	assert_int_equal(e->memfd_size, 0);
	assert_int_equal(e->payload.len, size);
	assert_memory_equal(e->payload.data, data, size);
}

static void
test_a_reply_goes_on_as_the_memfd_that_it_is(void **state)
{
	struct rig *rig = *state;
	struct client *answerer = client_memfd(rig), *asker = client_memfd(rig);
	struct client *plain = client_hello(rig, 0);
	uint8_t *data = pattern(MIB), out[300];
	unsigned before = open_fds();
	struct passed passed = {0};
	struct iovec part = {out, sizeof(out)};
	int fd;

	client_bind(answerer, "ask", 2, 10);
	answer_fd(answerer, asker, 1, memfd_new(data, MIB), MIB);
	assert_true(
		passed_receive(asker->fd, &part, 1, MSG_DONTWAIT, &passed) > 0);
	fd = passed_take(&passed);
	assert_int_equal(memfd_check(fd, MIB), 0);
	assert_int_equal(passed_take(&passed), -1);
	close(fd);
	answer_fd(answerer, plain, 2, memfd_new(data, MIB), MIB);
	expect_large_reply(plain, data, MIB);
	rig_run(rig);
	assert_int_equal(atomic_load(&rig->server.n_memfds), 0);
	assert_int_equal(open_fds(), before);
	free(data);
	client_free(plain);
	client_free(asker);
	client_free(answerer);
}

/* B79: who asked is told; who answers so stays. */
static void
test_a_hostile_reply_is_an_error_of_the_handler(void **state)
{
	struct rig *rig = *state;
	struct client *answerer = client_memfd(rig), *asker = client_memfd(rig);
	unsigned before = open_fds();

	client_bind(answerer, "ask", 2, 10);
	answer_fd(answerer, asker, 1, memfd_with(MIB, 0), MIB);
	client_expect_reply(asker, 7, EVD_STATUS_HANDLER,
		"the reply: the memfd lacks one of the seals shrink, grow, "
		"write and seal");
	answer_fd(answerer, asker, 2, memfd_with(MIB - 1, ALL_SEALS), MIB);
	client_expect_reply(asker, 7, EVD_STATUS_HANDLER,
		"the reply: the memfd is not as large as memfd_size says");
	answer_fd(answerer, asker, 3, open("/dev/zero", O_RDONLY), MIB);
	client_expect_reply(asker, 7, EVD_STATUS_HANDLER,
		"the reply: the descriptor is no memfd");
	answer_fd(answerer, asker, 4, memfd_with(MIB, ALL_SEALS), 4000000000u);
	client_expect_reply(asker, 7, EVD_STATUS_TOO_LARGE,
		"the reply: the memfd is over MaxMemfd= in eventd.conf");
	/* to a call that it has not */
	send_fd(answerer, &(struct envelope){.re = 999, .memfd_size = MIB},
		memfd_with(MIB, ALL_SEALS));
	client_expect_alive(answerer);
	client_expect_alive(asker);
	assert_int_equal(atomic_load(&rig->server.n_memfds), 0);
	assert_int_equal(open_fds(), before);
	send_fd(answerer, &(struct envelope){.re = 999, .memfd_size = MIB}, -1);
	client_expect_error(answerer, EVD_STATUS_PROTOCOL);
	client_free(asker);
	client_free(answerer);
}

/* Callers that do not read hold what was answered; others are answered yet. */
static void
test_where_no_memfd_may_be_held_a_reply_is_copied(void **state)
{
	enum { MANY = 64 };
	struct rig *rig = *state;
	struct client *answerer = client_memfd(rig);
	struct client *other = client_hello(rig, 0);
	uint8_t *data = pattern(MIB);

	client_bind(other, "sink", 1, 1);
	client_bind(answerer, "ask", 2, 10);
	for (int i = 0; i < MANY; i++)
		post_fd(answerer, memfd_with(70000, ALL_SEALS), 70000);
	assert_int_equal(atomic_load(&rig->server.n_memfds), MANY);
	while (client_poll(other))
		;
	client_call(other, "ask", "e", 7, "");
	while (!client_next(answerer)->n_envelopes)
		;
	send_fd(answerer,
		&(struct envelope){.re = answerer->frame->envelopes[0]->call,
			.memfd_size = MIB},
		memfd_new(data, MIB));
	assert_int_equal(atomic_load(&rig->server.n_memfds), MANY);
	expect_large_reply(other, data, MIB);
	free(data);
	client_free(other);
	client_free(answerer);
}

int
main(void)
{
#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, large_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_a_memfd_is_mapped_and_let_go),
		TEST(test_a_memfd_is_charged_while_it_is_held),
		TEST(test_hostile_descriptors_fail_their_posts),
		TEST(test_descriptors_out_of_place_end_the_connection),
		TEST(test_many_descriptors_at_once_are_all_closed),
		TEST(test_without_the_feature_none_are_taken),
		TEST(test_a_connection_has_no_more_than_its_share),
		TEST(test_a_memfd_goes_to_clients_as_they_want_it),
		TEST(test_a_reply_goes_on_as_the_memfd_that_it_is),
		TEST(test_a_hostile_reply_is_an_error_of_the_handler),
		TEST(test_where_no_memfd_may_be_held_a_reply_is_copied),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

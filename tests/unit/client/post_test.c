/* Posting: gathering, the window, acks, failures, levels. */
#include <pthread.h>
#include <time.h>

#include "client/fake.h"

/* The posts of the next frames, until @n have come. */
static void
expect_posts(struct fake *f, uint64_t first, size_t n)
{
	while (n) {
		assert_true(fake_read(f)->n_envelopes > 0);
		for (size_t i = 0; i < f->frame->n_envelopes; i++, first++, n--)
			assert_int_equal(f->frame->envelopes[i]->seq, first);
	}
}

static void
test_posts_are_gathered_into_one_frame(void **state)
{
	struct fake *f = *state;

	for (int i = 0; i < 5; i++)
		assert_int_equal(evd_post(f->c, "box", "msg", "abc", 3), 0);
	fake_assert_quiet(f);
	assert_int_equal(evd_posts_pending(f->c), 5);
	assert_int_equal(evd_events(f->c), POLLIN | POLLOUT);
	assert_int_equal(evd_flush(f->c), 0);
	assert_int_equal(fake_read(f)->n_envelopes, 5);
	for (size_t i = 0; i < 5; i++) {
		const Eventd__V1__Envelope *e = f->frame->envelopes[i];

		assert_int_equal(e->seq, i + 1);
		assert_string_equal(e->alias, "box");
		assert_string_equal(e->event, "msg");
		assert_int_equal(e->payload.len, 3);
		assert_memory_equal(e->payload.data, "abc", 3);
	}
	fake_assert_quiet(f);
}

static void
test_posts_of_all_sizes_arrive(void **state)
{
	struct fake *f = *state;
	static const size_t sizes[] = {0, 1, 60, 100, 110, 120, 127, 128, 129,
		16000, 16200, 16383, 16384, 70000, 300000};
	uint8_t *data = malloc(300000);
	uint64_t seq = 0;

	assert_int_equal(evd_set_blocking(f->c, false), 0);
	for (size_t i = 0; i < 300000; i++)
		data[i] = (uint8_t)(i * 7);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		const Eventd__V1__Envelope *e;

		assert_int_equal(evd_post(f->c, "small", "e", "x", 1), 0);
		assert_int_equal(
			evd_post(f->c, "box", "msg", data, sizes[i]), 0);
		while (evd_flush(f->c) == 1) {
			struct pollfd p = {.fd = f->fd, .events = POLLIN};
			ssize_t n;

			f->in = realloc(f->in, f->n + 400000);
			f->size = f->n + 400000;
			assert_int_equal(poll(&p, 1, FAKE_WAIT_MS), 1);
			n = recv(f->fd, f->in + f->n, 400000, MSG_DONTWAIT);
			assert_true(n > 0);
			f->n += (size_t)n;
		}
		e = fake_read(f)->envelopes[0];
		assert_string_equal(e->alias, "small");
		e = f->frame->n_envelopes == 2 ? f->frame->envelopes[1]
					       : fake_read(f)->envelopes[0];
		assert_int_equal(e->payload.len, sizes[i]);
		assert_memory_equal(e->payload.data, data, sizes[i]);
		seq += 2;
		assert_int_equal(e->seq, seq);
		fake_send_ack(f, seq, NULL, 0);
		fake_settle_down(f);
	}
	free(data);
}

static void
test_posts_are_written_when_64_kib_are_gathered(void **state)
{
	struct fake *f = *state;
	static char data[20000];

	for (int i = 0; i < 3; i++)
		assert_int_equal(
			evd_post(f->c, "box", "msg", data, sizeof(data)), 0);
	fake_assert_quiet(f);
	assert_int_equal(evd_post(f->c, "box", "msg", data, sizeof(data)), 0);
	expect_posts(f, 1, 4);
}

static void
test_bad_arguments_are_named(void **state)
{
	struct fake *f = *state;
	char name[300];
	uint64_t id;

	memset(name, 'a', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	assert_int_equal(evd_post(f->c, "a b", "e", "", 0), -EINVAL);
	assert_non_null(strstr(evd_last_error(f->c), "alias \"a b\""));
	assert_int_equal(evd_last_status(f->c), EVD_STATUS_INVALID);
	assert_int_equal(evd_post(f->c, "", "e", "", 0), -EINVAL);
	assert_int_equal(evd_post(f->c, NULL, "e", "", 0), -EINVAL);
	assert_int_equal(evd_post(f->c, name, "e", "", 0), -EINVAL);
	assert_int_equal(evd_post(f->c, name + 44, "e", "", 0), 0);
	assert_int_equal(evd_post(f->c, "a", "", "", 0), -EINVAL);
	assert_int_equal(evd_post(f->c, "a", NULL, "", 0), -EINVAL);
	assert_int_equal(evd_post(f->c, "a", "\x1b[1m", "", 0), -EINVAL);
	assert_int_equal(evd_post(f->c, "a", name + 171, "", 0), -EINVAL);
	assert_int_equal(evd_post(f->c, "a", name + 172, "", 0), 0);
	assert_int_equal(evd_post(f->c, "a", "e", NULL, 1), -EINVAL);
	assert_int_equal(
		evd_post(f->c, "a", "e", name, (1 << 20) + 1), -EMSGSIZE);
	assert_non_null(strstr(evd_last_error(f->c), "daemon's limit"));
	assert_non_null(strstr(evd_last_error(f->c), "1048576"));
	assert_int_equal(evd_post_id(f->c, 1, "e", "", 0), -ESRCH);
	assert_int_equal(evd_post_id(f->c, 0, "e", "", 0), -ESRCH);
	assert_int_equal(evd_resolve(f->c, "a b", &id), -EINVAL);
	assert_int_equal(evd_flush(f->c), 0);
	expect_posts(f, 1, 2);
}

/* Not blocking: a full window is -EAGAIN, and an ack opens it. */
static void
test_window_full_is_again(void **state)
{
	struct fake *f = *state;

	assert_int_equal(evd_set_blocking(f->c, false), 0);
	for (int i = 0; i < 8; i++)
		assert_int_equal(evd_post(f->c, "box", "msg", "x", 1), 0);
	assert_int_equal(evd_post(f->c, "box", "msg", "x", 1), -EAGAIN);
	assert_int_equal(evd_last_status(f->c), EVD_STATUS_FULL);
	assert_non_null(strstr(evd_last_error(f->c), "window is 8 posts"));
	expect_posts(f, 1, 8);
	fake_send_ack(f, 3, NULL, 0);
	fake_settle_down(f);
	assert_int_equal(evd_posts_pending(f->c), 5);
	for (int i = 0; i < 3; i++)
		assert_int_equal(evd_post(f->c, "box", "msg", "x", 1), 0);
	assert_int_equal(evd_post(f->c, "box", "msg", "x", 1), -EAGAIN);
}

static void
test_window_counts_bytes(void **state)
{
	struct fake *f = *state;
	static char data[1 << 20];

	fake_hang_up(f);
	fake_next_is(f, EVD_DISCONNECTED);
	f->welcome.window_bytes = 1000;
	fake_connect(f);
	assert_int_equal(evd_set_blocking(f->c, false), 0);
	assert_int_equal(evd_post(f->c, "box", "msg", data, 600), 0);
	assert_int_equal(evd_post(f->c, "box", "msg", data, 401), -EAGAIN);
	assert_int_equal(evd_post(f->c, "box", "msg", data, 400), 0);
	assert_int_equal(evd_post(f->c, "box", "msg", "", 0), 0);
	assert_int_equal(evd_flush(f->c), 0);
	expect_posts(f, 1, 3);
	fake_send_ack(f, 3, NULL, 0);
	fake_settle_down(f);
	/* one that alone is over the window may go when nothing else is */
	assert_int_equal(evd_post(f->c, "box", "msg", data, 5000), 0);
	assert_int_equal(evd_post(f->c, "box", "msg", "x", 1), -EAGAIN);
}

/* Acks out of order free their part at once. */
static void
test_acks_out_of_order(void **state)
{
	struct fake *f = *state;
	uint64_t also[] = {4, 2, 2, 99, 0};

	for (int i = 0; i < 5; i++)
		assert_int_equal(evd_post(f->c, "box", "msg", "x", 1), 0);
	assert_int_equal(evd_flush(f->c), 0);
	fake_send_ack(f, 0, also, 5);
	fake_settle_down(f);
	assert_int_equal(evd_posts_pending(f->c), 3);
	fake_send_ack(f, 1, also, 1);
	fake_settle_down(f);
	assert_int_equal(evd_posts_pending(f->c), 2);
	fake_send_ack(f, 5, NULL, 0);
	fake_settle_down(f);
	assert_int_equal(evd_posts_pending(f->c), 0);
	assert_int_equal(evd_drain(f->c, 0), 0);
}

/* A large window takes room as it is used, and what is in flight keeps its
 * place meanwhile: also behind a post that is slow to settle. */
static void
test_large_window_grows_with_its_use(void **state)
{
	struct fake *f = *state;
	static const char data[1000];
	uint64_t also[600], bytes = 0;

	fake_hang_up(f);
	fake_next_is(f, EVD_DISCONNECTED);
	f->welcome.window_posts = 1000;
	fake_connect(f);
	assert_int_equal(evd_set_blocking(f->c, false), 0);
	for (size_t i = 1; i <= 50; i++)
		assert_int_equal(evd_post(f->c, "box", "msg", data, i), 0);
	assert_int_equal(evd_flush(f->c), 0);
	expect_posts(f, 1, 50);
	fake_send_ack(f, 40, NULL, 0);
	fake_settle_down(f);
	for (size_t i = 51; i <= 1040; i++)
		assert_int_equal(evd_post(f->c, "box", "msg", data, i % 10), 0);
	assert_int_equal(evd_post(f->c, "box", "msg", "x", 1), -EAGAIN);
	assert_non_null(strstr(evd_last_error(f->c), "its window is 1000"));
	assert_int_equal(evd_flush(f->c), 0);
	expect_posts(f, 51, 990);
	for (size_t i = 0; i < 600; i++)
		also[i] = 42 + i;
	fake_send_ack(f, 40, also, 600); /* all to 641, but 41 */
	fake_settle_down(f);
	for (size_t i = 642; i <= 1040; i++)
		bytes += i % 10;
	assert_int_equal(evd_posts_pending(f->c), 400);
	assert_int_equal(evd_bytes_pending(f->c), bytes + 41);
	assert_int_equal(evd_post(f->c, "box", "msg", "x", 1), -EAGAIN);
	fake_send_ack(f, 1040, NULL, 0);
	fake_settle_down(f);
	assert_int_equal(evd_bytes_pending(f->c), 0);
	assert_int_equal(evd_post(f->c, "box", "msg", "x", 1), 0);
}

static void
test_ack_of_what_was_not_posted_breaks_the_connection(void **state)
{
	struct fake *f = *state;

	fake_send_ack(f, 1, NULL, 0);
	assert_int_equal(evd_event_status(fake_next_is(f, EVD_DISCONNECTED)),
		EVD_STATUS_PROTOCOL);
}

static void
test_failures_are_told_and_counted(void **state)
{
	struct fake *f = *state;
	const struct evd_event *ev;

	for (int i = 0; i < 3; i++)
		assert_int_equal(evd_post(f->c, "box", "msg", "x", 1), 0);
	assert_int_equal(evd_flush(f->c), 0);
	fake_send_failure(f, 2, EVD_STATUS_NO_ALIAS, "nobody holds 'box'");
	fake_send_ack(f, 3, NULL, 0);
	ev = fake_next_is(f, EVD_POST_FAILED);
	assert_int_equal(evd_event_post(ev), 2);
	assert_int_equal(evd_event_status(ev), EVD_STATUS_NO_ALIAS);
	assert_string_equal(evd_event_text(ev), "nobody holds 'box'");
	assert_string_equal(evd_event_name(ev), "");
	assert_string_equal(evd_event_alias(ev), "");
	assert_int_equal(evd_event_size(ev), 0);
	fake_settle_down(f);
	assert_int_equal(evd_posts_failed(f->c), 1);
	assert_int_equal(evd_drain(f->c, 0), -ENOENT);
	assert_string_equal(evd_last_error(f->c), "nobody holds 'box'");
	assert_int_equal(evd_drain(f->c, 0), 0); /* each failure once */
}

static void
test_post_wait_returns_at_the_ack(void **state)
{
	struct fake *f = *state;
	struct evd_post_options opt = {
		.size = sizeof(opt), .level = EVD_HANDLED};
	const struct evd_event *ev;

	/* the client reads it only when it has posted */
	fake_send_ack(f, 1, NULL, 0);
	assert_int_equal(evd_post_wait(f->c, "box", "msg", "x", 1, &opt), 0);
	assert_int_equal(fake_read(f)->envelopes[0]->level, EVD_HANDLED);
	assert_int_equal(evd_next(f->c, &ev), 0);
}

static void
test_post_wait_returns_the_failure(void **state)
{
	struct fake *f = *state;
	struct evd_post_options opt = {
		.size = sizeof(opt), .flags = EVD_POST_NO_WAIT};
	const struct evd_event *ev;

	fake_send_failure(f, 1, EVD_STATUS_FULL, "mailbox of 'box' is full");
	fake_send_ack(f, 1, NULL, 0);
	assert_int_equal(
		evd_post_wait(f->c, "box", "msg", "x", 1, &opt), -EAGAIN);
	assert_string_equal(evd_last_error(f->c), "mailbox of 'box' is full");
	assert_int_equal(evd_last_status(f->c), EVD_STATUS_FULL);
	assert_int_equal(fake_read(f)->envelopes[0]->flags, 1);
	assert_int_equal(evd_next(f->c, &ev), 0); /* told by the return */
}

static void
test_post_wait_times_out(void **state)
{
	struct fake *f = *state;
	struct evd_post_options opt = {.size = sizeof(opt), .timeout_ms = 5};

	assert_int_equal(
		evd_post_wait(f->c, "box", "msg", "x", 1, &opt), -ETIMEDOUT);
	assert_int_equal(evd_posts_pending(f->c), 1);
	fake_send_ack(f, 1, NULL, 0);
	fake_settle_down(f);
}

static void
test_post_wait_ends_with_the_connection(void **state)
{
	struct fake *f = *state;

	fake_hang_up(f);
	assert_int_equal(
		evd_post_wait(f->c, "box", "msg", "x", 1, NULL), -EPIPE);
	assert_int_equal(evd_last_status(f->c), EVD_STATUS_LOST);
	fake_next_is(f, EVD_DISCONNECTED);
}

static void
test_notify_tells_of_each_level_reached(void **state)
{
	struct fake *f = *state;
	struct evd_post_options opt = {.size = sizeof(opt),
		.flags = EVD_POST_NOTIFY,
		.level = EVD_DELIVERED};
	uint64_t also[] = {6};

	for (int i = 1; i <= 6; i++) {
		opt.flags = i == 4 ? 0 : EVD_POST_NOTIFY;
		assert_int_equal(
			evd_post_opt(f->c, "box", "msg", "x", 1, &opt), i);
	}
	assert_int_equal(evd_flush(f->c), 0);
	assert_int_equal(fake_read(f)->envelopes[0]->level, EVD_DELIVERED);
	fake_send_failure(f, 2, EVD_STATUS_DIED, "");
	fake_send_ack(f, 5, also, 1);
	assert_int_equal(evd_event_post(fake_next_is(f, EVD_POST_FAILED)), 2);
	assert_int_equal(evd_event_post(fake_next_is(f, EVD_POST_SETTLED)), 1);
	assert_int_equal(evd_event_post(fake_next_is(f, EVD_POST_SETTLED)), 3);
	assert_int_equal(evd_event_post(fake_next_is(f, EVD_POST_SETTLED)), 5);
	assert_int_equal(evd_event_post(fake_next_is(f, EVD_POST_SETTLED)), 6);
	fake_settle_down(f);
}

/* Numbers go on where the lost connection's ended. */
static void
test_lost_posts_are_told_one_by_one(void **state)
{
	struct fake *f = *state;
	uint64_t also[] = {4};

	for (int i = 1; i <= 6; i++)
		assert_int_equal(
			evd_post_opt(f->c, "box", "msg", "x", 1, NULL), i);
	assert_int_equal(evd_flush(f->c), 0);
	fake_send_failure(f, 3, EVD_STATUS_FULL, "full");
	fake_send_ack(f, 1, also, 1);
	fake_hang_up(f);
	assert_int_equal(evd_event_post(fake_next_is(f, EVD_POST_FAILED)), 3);
	for (uint64_t i = 2; i <= 6; i++) {
		const struct evd_event *ev;

		if (i == 3 || i == 4)
			continue;
		ev = fake_next_is(f, EVD_POST_FAILED);
		assert_int_equal(evd_event_post(ev), i);
		assert_int_equal(evd_event_status(ev), EVD_STATUS_LOST);
	}
	fake_next_is(f, EVD_DISCONNECTED);
	assert_int_equal(evd_posts_failed(f->c), 4);
	assert_int_equal(evd_drain(f->c, 0), -EAGAIN); /* the first: full */
	fake_connect(f);
	assert_int_equal(evd_post_opt(f->c, "box", "msg", "x", 1, NULL), 7);
	assert_int_equal(evd_flush(f->c), 0);
	expect_posts(f, 1, 1);
	fake_send_failure(f, 1, EVD_STATUS_FULL, "full");
	assert_int_equal(evd_event_post(fake_next_is(f, EVD_POST_FAILED)), 7);
}

static void
test_options_are_checked(void **state)
{
	struct fake *f = *state;
	struct evd_header header = {"trace", "abc", 3}, many[20];
	struct evd_post_options opt = {.size = 4};
	static char big[2000];

	assert_int_equal(evd_post_opt(f->c, "a", "e", "", 0, &opt), -EINVAL);
	opt.size = sizeof(opt) + 64; /* of a later version: the rest is read */
	opt.level = 4;
	assert_int_equal(evd_post_opt(f->c, "a", "e", "", 0, &opt), -EINVAL);
	opt.level = 0;
	opt.size = sizeof(opt);
	opt.flags = 1 << 9;
	assert_int_equal(evd_post_opt(f->c, "a", "e", "", 0, &opt), -EINVAL);
	opt.flags = 0;
	opt.headers = &header;
	opt.n_headers = 1;
	header.name = "a b";
	assert_int_equal(evd_post_opt(f->c, "a", "e", "", 0, &opt), -EINVAL);
	header.name = "trace";
	assert_int_equal(evd_post_opt(f->c, "a", "e", "", 0, &opt), 1);
	for (int i = 0; i < 20; i++)
		many[i] = (struct evd_header){"big", big, sizeof(big)};
	opt.headers = many;
	opt.n_headers = 20;
	assert_int_equal(evd_post_opt(f->c, "a", "e", "", 0, &opt), -E2BIG);
	assert_int_equal(evd_flush(f->c), 0);
	assert_int_equal(fake_read(f)->envelopes[0]->n_headers, 1);
	assert_string_equal(f->frame->envelopes[0]->headers[0]->name, "trace");
	assert_int_equal(f->frame->envelopes[0]->headers[0]->value.len, 3);
}

/* A daemon that acks what comes, from another thread. */
static void *
ack_all(void *arg)
{
	struct fake *f = arg;
	uint64_t n = 0;

	while (n < 20000) {
		fake_read(f);
		for (size_t i = 0; i < f->frame->n_envelopes; i++)
			if (f->frame->envelopes[i]->seq == n + 1)
				n++;
		fake_send_ack(f, n, NULL, 0);
	}
	return NULL;
}

static void
test_blocking_posts_wait_for_the_window(void **state)
{
	struct fake *f = *state;
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, ack_all, f), 0);
	for (int i = 0; i < 20000; i++)
		assert_int_equal(evd_post(f->c, "box", "msg", "hello", 5), 0);
	assert_int_equal(evd_drain(f->c, 0), 0);
	assert_int_equal(evd_posts_pending(f->c), 0);
	pthread_join(thread, NULL);
}

/* A daemon that writes much before it reads: only a client that reads while
 * it writes lets it go on. */
static void *
write_then_read(void *arg)
{
	struct fake *f = arg;
	static char data[4001];

	memset(data, 'd', 4000);
	for (int i = 0; i < 500; i++) /* 2 MB: ten times what a socket holds */
		fake_deliver(f, 1, "flood", data, 0);
	for (uint64_t n = 0; n < 8; n += f->frame->n_envelopes)
		fake_read(f);
	fake_send_ack(f, 8, NULL, 0);
	return NULL;
}

static void
test_writing_never_deadlocks_with_a_writing_daemon(void **state)
{
	struct fake *f = *state;
	static char data[120000];
	const struct evd_event *ev;
	struct timespec start, end;
	pthread_t thread;
	int n = 0;

	fake_bind(f, "mine", 1, 100000);
	clock_gettime(CLOCK_MONOTONIC, &start);
	assert_int_equal(pthread_create(&thread, NULL, write_then_read, f), 0);
	for (int i = 0; i < 8; i++) /* 960 kB */
		assert_int_equal(
			evd_post(f->c, "box", "msg", data, sizeof(data)), 0);
	assert_int_equal(evd_drain(f->c, 0), 0);
	pthread_join(thread, NULL);
	clock_gettime(CLOCK_MONOTONIC, &end); /* nobody ran into a time-out */
	assert_true(end.tv_sec - start.tv_sec < FAKE_WAIT_MS / 1000 / 2);
	while (n < 500) {
		ev = fake_next_is(f, EVD_DELIVERY);
		assert_int_equal(evd_event_size(ev), 4000);
		assert_int_equal(((const char *)evd_event_data(ev))[3999], 'd');
		n++;
	}
}

static void
test_queue_limit_is_ours_and_named(void **state)
{
	struct fake *f = *state;
	static char data[60000];
	int n = 0, r;

	fake_hang_up(f);
	fake_next_is(f, EVD_DISCONNECTED);
	f->welcome.window_bytes = 1 << 30;
	f->welcome.window_posts = 10000;
	assert_int_equal(evd_set_max_queued(f->c, 1), -EINVAL);
	assert_int_equal(evd_set_max_queued(f->c, 1 << 20), 0);
	fake_connect(f);
	assert_int_equal(evd_set_blocking(f->c, false), 0);
	while ((r = evd_post(f->c, "box", "msg", data, sizeof(data))) == 0)
		assert_true(++n < 100);
	assert_int_equal(r, -EAGAIN);
	assert_non_null(strstr(evd_last_error(f->c), "evd_set_max_queued"));
	assert_non_null(strstr(evd_last_error(f->c), "1048576"));
}

static void
test_payload_larger_than_the_queue_is_too_large(void **state)
{
	struct fake *f = *state;
	static char data[100000];

	assert_int_equal(evd_set_max_queued(f->c, 65536), 0);
	assert_int_equal(
		evd_post(f->c, "box", "msg", data, sizeof(data)), -EMSGSIZE);
	assert_non_null(strstr(evd_last_error(f->c), "evd_set_max_queued"));
	assert_int_equal(
		evd_call(f->c, "box", "msg", data, sizeof(data), 0, NULL),
		-EMSGSIZE);
	assert_int_equal(evd_post(f->c, "box", "msg", data, 40000), 0);
}

int
main(void)
{
#define OPEN(test) \
	cmocka_unit_test_setup_teardown(test, fake_setup, fake_teardown)
	const struct CMUnitTest tests[] = {
		OPEN(test_posts_are_gathered_into_one_frame),
		OPEN(test_posts_of_all_sizes_arrive),
		OPEN(test_posts_are_written_when_64_kib_are_gathered),
		OPEN(test_bad_arguments_are_named),
		OPEN(test_window_full_is_again),
		OPEN(test_window_counts_bytes),
		OPEN(test_acks_out_of_order),
		OPEN(test_large_window_grows_with_its_use),
		OPEN(test_ack_of_what_was_not_posted_breaks_the_connection),
		OPEN(test_failures_are_told_and_counted),
		OPEN(test_post_wait_returns_at_the_ack),
		OPEN(test_post_wait_returns_the_failure),
		OPEN(test_post_wait_times_out),
		OPEN(test_post_wait_ends_with_the_connection),
		OPEN(test_notify_tells_of_each_level_reached),
		OPEN(test_lost_posts_are_told_one_by_one),
		OPEN(test_options_are_checked),
		OPEN(test_blocking_posts_wait_for_the_window),
		OPEN(test_writing_never_deadlocks_with_a_writing_daemon),
		OPEN(test_queue_limit_is_ours_and_named),
		OPEN(test_payload_larger_than_the_queue_is_too_large),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

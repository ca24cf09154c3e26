/* What a post does when there is no room: it waits, returns, or is told. */
#include <stdbool.h>

#include "fake.h"

static struct evd_post_options
options(uint32_t flags, int timeout_ms)
{
	return (struct evd_post_options){
		.size = sizeof(struct evd_post_options),
		.flags = flags,
		.timeout_ms = timeout_ms,
	};
}

/* The window of the fake is 8 posts. */
static void
fill(struct fake *f, int n)
{
	for (int i = 0; i < n; i++)
		assert_int_equal(evd_post(f->c, "a", "e", "x", 1), 0);
	evd_flush(f->c);
}

static void
test_it_is_told_of_room_once(void **state)
{
	struct fake *f = *state;

	assert_int_equal(evd_set_blocking(f->c, false), 0);
	fill(f, 8);
	assert_int_equal(evd_posts_pending(f->c), 8);
	assert_int_equal(evd_bytes_pending(f->c), 8);
	assert_int_equal(evd_post(f->c, "a", "e", "x", 1), -EAGAIN);
	assert_int_equal(evd_want_room(f->c, 1), 0);
	assert_int_equal(evd_want_room(f->c, 2), 0);
	fake_settle_down(f);
	fake_send_ack(f, 3, NULL, 0);
	fake_next_is(f, EVD_ROOM);
	assert_string_equal(evd_event_type_name(EVD_ROOM), "room");
	assert_int_equal(evd_post(f->c, "a", "e", "x", 1), 0);
	fake_send_ack(f, 8, NULL, 0);
	fake_settle_down(f);
	assert_int_equal(evd_posts_pending(f->c), 1);
	assert_int_equal(evd_want_room(f->c, 1), 1);
	fake_settle_down(f);
}

/* A handle that waits may be asked not to, for one post. */
static void
test_a_try_does_not_wait(void **state)
{
	struct fake *f = *state;
	struct evd_post_options opt = options(EVD_POST_TRY, 0);

	fill(f, 8);
	assert_int_equal(evd_post_opt(f->c, "a", "e", "x", 1, &opt), -EAGAIN);
	assert_int_equal(evd_last_status(f->c), EVD_STATUS_FULL);
	assert_int_equal(evd_want_room(f->c, 1), 0);
	fake_send_ack(f, 8, NULL, 0);
	fake_next_is(f, EVD_ROOM);
	assert_int_equal(evd_post_opt(f->c, "a", "e", "x", 1, &opt), 9);
}

static void
test_it_waits_no_longer_than_it_was_told(void **state)
{
	struct fake *f = *state;
	struct evd_post_options opt = options(0, 20);

	fill(f, 8);
	assert_int_equal(
		evd_post_opt(f->c, "a", "e", "x", 1, &opt), -ETIMEDOUT);
	fake_send_ack(f, 1, NULL, 0);
	opt.timeout_ms = FAKE_WAIT_MS;
	assert_int_equal(evd_post_opt(f->c, "a", "e", "x", 1, &opt), 9);
}

static void
test_a_poster_bounds_itself_in_count(void **state)
{
	struct fake *f = *state;

	assert_int_equal(evd_set_blocking(f->c, false), 0);
	assert_int_equal(evd_set_window(f->c, 2, 0), 0);
	assert_int_equal(evd_window_posts(f->c), 8);
	fill(f, 2);
	assert_int_equal(evd_post(f->c, "a", "e", "x", 1), -EAGAIN);
	assert_non_null(strstr(evd_last_error(f->c), "evd_set_window()"));
	assert_int_equal(evd_want_room(f->c, 1), 0);
	fake_settle_down(f);
	assert_int_equal(evd_set_window(f->c, 3, 0), 0);
	fake_next_is(f, EVD_ROOM);
	assert_int_equal(evd_post(f->c, "a", "e", "x", 1), 0);
	assert_int_equal(evd_set_window(f->c, 1000, 0), 0);
	fill(f, 5);
	assert_int_equal(evd_post(f->c, "a", "e", "x", 1), -EAGAIN);
	assert_null(strstr(evd_last_error(f->c), "evd_set_window()"));
}

/* One may exceed the bytes; it stays so after a reconnect. */
static void
test_a_poster_bounds_itself_in_bytes(void **state)
{
	struct fake *f = *state;
	static char data[1000];

	assert_int_equal(evd_set_blocking(f->c, false), 0);
	assert_int_equal(evd_set_window(f->c, 0, 500), 0);
	evd_close(f->c);
	fake_hang_up(f);
	fake_connect(f);
	assert_int_equal(evd_post(f->c, "a", "e", data, 1000), 0);
	assert_int_equal(evd_post(f->c, "a", "e", data, 1), -EAGAIN);
	assert_int_equal(evd_want_room(f->c, 1), 0);
	fake_send_ack(f, 1, NULL, 0);
	fake_next_is(f, EVD_ROOM);
	assert_int_equal(evd_post(f->c, "a", "e", data, 400), 0);
	assert_int_equal(evd_post(f->c, "a", "e", data, 101), -EAGAIN);
	assert_int_equal(evd_post(f->c, "a", "e", data, 100), 0);
}

static void
grant(struct fake *f, uint64_t posts, uint64_t bytes)
{
	Eventd__V1__Frame frame = EVENTD__V1__FRAME__INIT;
	Eventd__V1__Notice notice = EVENTD__V1__NOTICE__INIT;
	Eventd__V1__Window window = EVENTD__V1__WINDOW__INIT;
	Eventd__V1__Notice *notices = &notice;

	window.posts = posts;
	window.bytes = bytes;
	notice.what_case = EVENTD__V1__NOTICE__WHAT_WINDOW;
	notice.window = &window;
	frame.notice = notices;
	fake_send(f, &frame);
}

/* The daemon may grant more or less while it is connected. */
static void
test_the_window_follows_what_the_daemon_grants(void **state)
{
	struct fake *f = *state;

	assert_int_equal(evd_set_blocking(f->c, false), 0);
	fill(f, 8);
	assert_int_equal(evd_want_room(f->c, 1), 0);
	grant(f, 200, 2000);
	fake_next_is(f, EVD_ROOM);
	assert_int_equal(evd_window_posts(f->c), 200);
	assert_int_equal(evd_window_bytes(f->c), 2000);
	fill(f, 192); /* more than the ring had room for */
	grant(f, 4, 1000);
	fake_settle_down(f);
	fake_send_ack(f, 196, NULL, 0);
	fake_settle_down(f);
	assert_int_equal(evd_post(f->c, "a", "e", "x", 1), -EAGAIN);
	assert_non_null(strstr(evd_last_error(f->c), "window is 4 posts"));
	fake_send_ack(f, 197, NULL, 0);
	fake_settle_down(f);
	assert_int_equal(evd_post(f->c, "a", "e", "x", 1), 0);
	grant(f, 0, 0); /* that would grant nothing */
	fake_settle_down(f);
	assert_int_equal(evd_window_posts(f->c), 4);
}

/* What this program holds unwritten is room as well. */
static void
test_it_is_told_when_the_socket_takes_more(void **state)
{
	struct fake *f = *state;
	static char data[60000];
	bool told = false;
	int n = 0;

	f->welcome.window_posts = 1000;
	f->welcome.window_bytes = 1 << 30;
	evd_close(f->c);
	fake_hang_up(f);
	fake_connect(f);
	assert_int_equal(evd_set_blocking(f->c, false), 0);
	assert_int_equal(evd_set_max_queued(f->c, 256 * 1024), 0);
	while (evd_post(f->c, "a", "e", data, sizeof(data)) == 0)
		n++;
	assert_true(n < 1000);
	assert_int_equal(evd_last_status(f->c), EVD_STATUS_FULL);
	assert_int_equal(evd_want_room(f->c, sizeof(data)), 0);
	for (int i = 0; i < n && !told; i++) {
		const struct evd_event *ev;

		fake_read(f);
		evd_process(f->c);
		told = evd_next(f->c, &ev) == 1 &&
		       evd_event_type(ev) == EVD_ROOM;
	}
	assert_true(told);
	assert_int_equal(evd_post(f->c, "a", "e", data, sizeof(data)), 0);
}

int
main(void)
{
#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, fake_setup, fake_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_it_is_told_of_room_once),
		TEST(test_a_try_does_not_wait),
		TEST(test_it_waits_no_longer_than_it_was_told),
		TEST(test_a_poster_bounds_itself_in_count),
		TEST(test_a_poster_bounds_itself_in_bytes),
		TEST(test_the_window_follows_what_the_daemon_grants),
		TEST(test_it_is_told_when_the_socket_takes_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The life of a connection: greeting, ending, closing. */
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fixture.h"

static void
send_hello(struct client *c, uint32_t version, const char *name)
{
	Eventd__V1__Frame frame = EVENTD__V1__FRAME__INIT;
	Eventd__V1__Hello hello = EVENTD__V1__HELLO__INIT;

	hello.version = version;
	hello.name = (char *)name;
	frame.hello = &hello;
	client_send(c, &frame);
}

static void
test_hello_is_answered_with_all_limits(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_open(rig, 0);
	Eventd__V1__Welcome *w;

	send_hello(c, 1, "me");
	assert_non_null(client_next(c));
	w = c->frame->welcome;
	assert_non_null(w);
	assert_int_equal(w->version, 1);
	assert_string_equal(w->server, "eventd test");
	assert_int_equal(w->session, rig_conn(rig, 0)->session->id);
	assert_int_equal(w->max_payload, rig->kernel.limits.max_payload);
	assert_true(w->max_frame > w->max_payload);
	assert_int_equal(w->window_posts, rig->server.window_posts);
	assert_int_equal(w->window_bytes, rig->server.window_bytes);
	assert_int_equal(w->max_calls, rig->server.max_calls);
	assert_int_equal(
		w->call_timeout_ms, rig->kernel.limits.call_timeout_ms);
	client_free(c);
}

static void
test_another_version_is_refused(void **state)
{
	static const uint32_t versions[] = {0, 2, UINT32_MAX};

	for (unsigned i = 0; i < 3; i++) {
		struct client *c = client_open(*state, 0);

		send_hello(c, versions[i], "me");
		client_expect_error(c, EVD_STATUS_UNSUPPORTED);
		client_free(c);
	}
}

static void
test_a_second_hello_is_refused(void **state)
{
	struct client *c = client_hello(*state, 0);

	send_hello(c, 1, "me again");
	client_expect_error(c, EVD_STATUS_PROTOCOL);
	client_free(c);
}

static void
test_nothing_comes_before_hello(void **state)
{
	struct rig *rig = *state;
	struct fake *sink = fake_new(rig, 0, "sink");
	struct client *c = client_open(rig, 0);
	Eventd__V1__Request r = EVENTD__V1__REQUEST__INIT;

	client_post(c, "sink", "hit");
	client_expect_error(c, EVD_STATUS_PROTOCOL);
	client_free(c);
	c = client_open(rig, 0);
	client_ask(c, &r);
	client_expect_error(c, EVD_STATUS_PROTOCOL);
	client_free(c);
	c = client_open(rig, 0);
	client_settle(c, 1, 1);
	client_expect_error(c, EVD_STATUS_PROTOCOL);
	client_free(c);
	assert_int_equal(sink->n_run, 0);
}

static void
test_a_stranger_gets_little_room(void **state)
{
	struct client *c = client_open(*state, 0);
	uint8_t head[FRAME_HEAD_MAX];

	client_write(c, head, varint_put(head, 1 << 20));
	client_expect_error(c, EVD_STATUS_TOO_LARGE);
	client_free(c);
}

static void
test_names_are_made_fit_for_logs(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_open(rig, 0);
	char name[300];

	memset(name, 'x', sizeof(name) - 1);
	memcpy(name, "a\n\x1b[1m\xff", 7);
	name[299] = '\0';
	send_hello(c, 1, name);
	assert_non_null(client_next(c));
	assert_memory_equal(rig_conn(rig, 0)->name, "a??[1m?xxx", 10);
	assert_int_equal(strlen(rig_conn(rig, 0)->name), CONN_NAME_MAX - 1);
	client_free(c);
}

/* So long all may take to say hello, and @uid, if there is one. */
static void
let_hello_take(struct rig *rig, uint32_t ms, const uid_t *uid, uint32_t uid_ms)
{
	struct limits *l = limits_new(0, true);

	assert_non_null(l);
	if (uid)
		assert_int_equal(
			limits_set(l, uid, CHARGE_HELLO, uid_ms, "f:1"), 0);
	limits_finish(l, UINT64_MAX, ms);
	users_set_limits(&rig->kernel.users, l);
}

static void
test_each_user_has_a_time_to_say_hello(void **state)
{
	struct rig *rig = *state;
	uid_t uid = getuid(), other = uid + 1;
	struct client *c, *d;

	let_hello_take(rig, 3600000, &uid, 30);
	c = client_open(rig, 0);
	client_expect_error(c, EVD_STATUS_TIMEOUT);
	client_free(c);
	let_hello_take(rig, 3600000, &other, 1);
	c = client_open(rig, 0);
	d = client_hello(rig, 0);
	client_expect_alive(d);
	RIG_UNTIL(rig, conn_count(&rig->loops[0]) == 2);
	/* what counts now counts for who is there */
	let_hello_take(rig, 1, NULL, 0);
	net_set_limits(&rig->nets[0],
		&(struct net_limits){.max_connections = 100,
			.window_posts = rig->server.window_posts,
			.window_bytes = rig->server.window_bytes});
	client_expect_error(c, EVD_STATUS_TIMEOUT);
	client_expect_alive(d);
	client_free(c);
	client_free(d);
}

/* A reload may grant another window: those that are there are told, and more
 * counts for them; less does not, for they may have used what they had. */
static void
test_windows_change_while_clients_are_there(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0);
	static const uint32_t posts[] = {40000, 10};
	const Eventd__V1__Frame *f;

	for (int i = 0; i < 2; i++) {
		net_set_limits(&rig->nets[0],
			&(struct net_limits){.max_connections = 100,
				.window_posts = posts[i],
				.window_bytes = 1 << 20 << i});
		f = client_next(c);
		assert_non_null(f);
		assert_int_equal(
			f->notice->what_case, EVENTD__V1__NOTICE__WHAT_WINDOW);
		assert_int_equal(f->notice->window->posts, posts[i]);
		assert_int_equal(f->notice->window->bytes, 1 << 20 << i);
		assert_int_equal(rig_conn(rig, 0)->window_posts, 40000);
	}
	client_free(c);
	c = client_open(rig, 0);
	send_hello(c, 1, "new");
	f = client_next(c);
	assert_non_null(f);
	assert_int_equal(f->welcome->window_posts, 10);
	assert_int_equal(f->welcome->window_bytes, 2 << 20);
	client_free(c);
}

static void
test_who_says_nothing_is_sent_away(void **state)
{
	struct rig *rig = *state;
	struct client *c, *d, *e;

	let_hello_take(rig, 30, NULL, 0);
	c = client_open(rig, 0);
	d = client_hello(rig, 0);
	e = client_open(rig, 0);
	client_write(e, "\x0c\x2a", 2); /* the beginning of a hello */
	client_expect_error(c, EVD_STATUS_TIMEOUT);
	client_expect_error(e, EVD_STATUS_TIMEOUT);
	client_expect_alive(d);
	assert_int_equal(conn_count(&rig->loops[0]), 1);
	client_free(c);
	client_free(e);
	c = client_open(rig, 0); /* the timer is set again for the next */
	client_expect_error(c, EVD_STATUS_TIMEOUT);
	client_free(c);
	client_free(d);
}

/* A client that says no more gets what it is owed, and then the end. */
static void
test_who_says_no_more_gets_its_answers(void **state)
{
	struct rig *rig = *state;
	struct fake *fake = fake_new(rig, 0, "sink");
	struct client *c = client_hello(rig, 0);

	client_call(c, "sink", "defer", 7, "x");
	client_post_level(c, "sink", "wait", EVENTD__V1__LEVEL__HANDLED);
	shutdown(c->fd, SHUT_WR);
	RIG_UNTIL(rig, fake->held);
	rig_run(rig);
	assert_int_equal(conn_count(&rig->loops[0]), 1);
	assert_int_equal(
		sched_reply(&rig->loops[0].sched, fake->call, 0, "y", 1), 0);
	client_expect_reply(c, 7, EVD_STATUS_OK, "y");
	fake_finish(fake);
	client_expect_ack(c, 1);
	client_expect_end(c);
	client_free(c);
	c = client_hello(rig, 0); /* nothing is owed */
	shutdown(c->fd, SHUT_WR);
	client_expect_end(c);
	client_free(c);
	c = client_hello(rig, 0); /* nobody is there to hear it */
	client_call(c, "sink", "defer", 7, "x");
	shutdown(c->fd, SHUT_WR);
	rig_run(rig);
	assert_int_equal(conn_count(&rig->loops[0]), 1);
	client_free(c);
	RIG_UNTIL(rig, !conn_count(&rig->loops[0]));
	c = client_hello(rig, 0); /* it could not settle */
	client_bind(c, "box", 1, 0);
	client_call(c, "sink", "defer", 7, "x");
	shutdown(c->fd, SHUT_WR);
	RIG_UNTIL(rig, !conn_count(&rig->loops[0]));
	client_free(c);
}

/* A client that calls @event without awaiting its welcome; one turn later. */
static struct client *
open_hasty(struct rig *rig, const char *event)
{
	int far;
	struct client *c = client_new(rig, &far);

	send_hello(c, 1, "hasty");
	if (event)
		client_call(c, "sink", event, 7, "x");
	client_accept(rig, 0, far);
	rig_turn(rig);
	return c;
}

/* One write for the welcome and the answer that comes soon. */
static void
test_welcome_and_answer_go_together(void **state)
{
	struct rig *rig = *state;
	struct fake *fake = fake_new(rig, 0, "sink");
	struct client *c = open_hasty(rig, "defer");
	char none;

	assert_int_equal(fake->n_calls, 1);
	assert_true(rig_conn(rig, 0)->is_patient);
	assert_int_equal(recv(c->fd, &none, 1, MSG_PEEK), -1);
	assert_int_equal(
		sched_reply(&rig->loops[0].sched, fake->call, 0, "y", 1), 0);
	rig_turn(rig);
	assert_non_null(client_poll(c));
	assert_non_null(c->frame->welcome);
	assert_non_null(client_poll(c));
	assert_int_equal(c->frame->n_envelopes, 1);
	client_call(c, "sink", "echo", 8, "z"); /* it is read from again */
	client_expect_reply(c, 8, EVD_STATUS_OK, "z");
	client_free(c);
}

static void
test_a_welcome_waits_for_nothing_else(void **state)
{
	struct rig *rig = *state;
	struct client *c;

	fake_new(rig, 0, "sink");
	c = open_hasty(rig, NULL);
	assert_non_null(client_poll(c));
	client_free(c);
	c = open_hasty(rig, "echo"); /* answered in this very turn */
	assert_non_null(client_poll(c));
	client_free(c);
}

static void
test_a_welcome_waits_no_longer_than_a_moment(void **state)
{
	struct rig *rig = *state;
	struct fake *fake = fake_new(rig, 0, "sink");
	struct client *c[3];

	for (int i = 0; i < 3; i++) /* those after the first, too */
		c[i] = open_hasty(rig, "defer");
	for (int i = 0; i < 3; i++) {
		RIG_UNTIL(rig, client_poll(c[i]));
		assert_non_null(c[i]->frame->welcome);
	}
	assert_int_equal(
		sched_reply(&rig->loops[0].sched, fake->call, 0, "y", 1), 0);
	client_expect_reply(c[2], 7, EVD_STATUS_OK, "y");
	for (int i = 0; i < 3; i++)
		client_free(c[i]);
}

static void
test_one_ends_while_its_welcome_waits(void **state)
{
	struct rig *rig = *state;
	struct client *c;

	fake_new(rig, 0, "sink");
	c = open_hasty(rig, "defer");
	client_free(c);
	RIG_UNTIL(rig, !conn_count(&rig->loops[0]));
	c = open_hasty(rig, "defer");
	conn_close_all(&rig->loops[0]);
	client_expect_end(c);
	client_free(c);
	assert_true(list_is_empty(&rig->nets[0].patient));
}

static void
test_clients_come_and_go(void **state)
{
	struct rig *rig = *state;
	struct client *clients[50];

	fake_new(rig, 0, "sink");
	for (int round = 0; round < 10; round++) {
		for (int i = 0; i < 50; i++) {
			clients[i] = i % 3 ? client_hello(rig, 0)
					   : client_open(rig, 0);
			if (i % 3 == 1)
				client_post(clients[i], "sink", "hit");
		}
		for (int i = 0; i < 50; i++)
			client_free(clients[i]);
	}
	RIG_UNTIL(rig, !conn_count(&rig->loops[0]));
	assert_int_equal(atomic_load(&rig->kernel.sessions.n), 1);
	assert_int_equal(atomic_load(&rig->server.shared.n_connections), 0);
}

static void
test_close_all(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0), *d = client_open(rig, 0);

	client_bind(c, "box", 1, 0);
	client_post_level(c, "box", "hit", EVENTD__V1__LEVEL__HANDLED);
	client_expect_delivery(c, 1, "hit");
	conn_close_all(&rig->loops[0]);
	client_expect_end(c);
	client_expect_end(d);
	client_free(c);
	client_free(d);
}

static void
test_sessions_run_out(void **state)
{
	struct rig *rig = *state;
	uint8_t bytes[200];
	int fds[2];
	ssize_t n;

	rig->kernel.limits.max_sessions = 0;
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	atomic_fetch_add(&rig->server.shared.n_connections, 1);
	assert_true(conn_open(&rig->loops[0], fds[1]) < 0);
	assert_int_equal(atomic_load(&rig->server.shared.n_connections), 0);
	n = recv(fds[0], bytes, sizeof(bytes), 0); /* it is told why */
	assert_true(n > 4);
	assert_memory_equal(bytes + 1, "\x4a", 1);     /* an error */
	assert_memory_equal(bytes + 3, "\x08\x0b", 2); /* status 11 */
	assert_int_equal(recv(fds[0], bytes, 1, 0), 0);
	close(fds[0]);
}

int
main(void)
{
#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_hello_is_answered_with_all_limits),
		TEST(test_another_version_is_refused),
		TEST(test_a_second_hello_is_refused),
		TEST(test_nothing_comes_before_hello),
		TEST(test_a_stranger_gets_little_room),
		TEST(test_names_are_made_fit_for_logs),
		TEST(test_who_says_nothing_is_sent_away),
		TEST(test_each_user_has_a_time_to_say_hello),
		TEST(test_windows_change_while_clients_are_there),
		TEST(test_who_says_no_more_gets_its_answers),
		TEST(test_welcome_and_answer_go_together),
		TEST(test_a_welcome_waits_for_nothing_else),
		TEST(test_a_welcome_waits_no_longer_than_a_moment),
		TEST(test_one_ends_while_its_welcome_waits),
		TEST(test_clients_come_and_go),
		TEST(test_close_all),
		TEST(test_sessions_run_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

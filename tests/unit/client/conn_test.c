/* Connecting, greeting, losing the connection and making it again. */
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "client/fake.h"

static void
test_connect_start_greets(void **state)
{
	struct fake *f = *state;

	assert_int_equal(evd_set_name(f->c, "conn test"), 0);
	assert_false(evd_is_connected(f->c));
	assert_int_equal(evd_fd(f->c), -1);
	assert_int_equal(evd_connect_start(f->c), 0);
	fake_accept(f);
	assert_string_equal(f->frame->hello->name, "conn test");
	assert_false(evd_is_connected(f->c));
	fake_send_welcome(f);
	fake_next_is(f, EVD_CONNECTED);
	assert_true(evd_is_connected(f->c));
	assert_string_equal(evd_server(f->c), "fake 1");
	assert_int_equal(evd_session(f->c), 77);
	assert_int_equal(evd_max_payload(f->c), 1 << 20);
	assert_int_equal(evd_window_posts(f->c), 8);
	assert_string_equal(evd_socket(f->c), f->path);
	assert_int_equal(evd_connect(f->c, 0), -EISCONN);
	assert_int_equal(evd_set_socket(f->c, "/x"), -EISCONN);
	assert_int_equal(evd_events(f->c), POLLIN);
	assert_int_equal(evd_timeout_ms(f->c), -1);
	assert_true(fcntl(evd_fd(f->c), F_GETFD) & FD_CLOEXEC);
}

static void *
greet(void *arg)
{
	struct fake *f = arg;

	f->fd = accept4(f->listener, NULL, NULL, SOCK_CLOEXEC);
	fake_send_welcome(f);
	return NULL;
}

static void
test_connect_waits_for_the_greeting(void **state)
{
	struct fake *f = *state;
	const struct evd_event *ev;
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, greet, f), 0);
	assert_int_equal(evd_connect(f->c, FAKE_WAIT_MS), 0);
	pthread_join(thread, NULL);
	assert_true(evd_is_connected(f->c));
	assert_int_equal(evd_next(f->c, &ev), 0); /* told by the return */
}

static void
test_connect_times_out_without_greeting(void **state)
{
	struct fake *f = *state;

	assert_int_equal(evd_connect(f->c, 20), -ETIMEDOUT);
	assert_int_equal(evd_last_status(f->c), EVD_STATUS_TIMEOUT);
	assert_non_null(strstr(evd_last_error(f->c), "greet"));
	assert_int_equal(evd_fd(f->c), -1);
	assert_int_equal(evd_post(f->c, "a", "e", NULL, 0), -ENOTCONN);
}

static void
test_connect_says_what_is_missing(void **state)
{
	struct fake *f = *state;

	close(f->listener); /* the file stays behind, dead */
	f->listener = -1;
	assert_int_equal(evd_connect(f->c, 0), -ECONNREFUSED);
	assert_non_null(strstr(evd_last_error(f->c), f->path));
	assert_non_null(strstr(evd_last_error(f->c), "is eventd running?"));
	assert_int_equal(evd_last_status(f->c), EVD_STATUS_UNAVAILABLE);
	unlink(f->path);
	assert_int_equal(evd_connect(f->c, 0), -ENOENT);
	assert_int_equal(evd_last_status(f->c), EVD_STATUS_UNAVAILABLE);
	assert_int_equal(evd_connect_start(f->c), -ENOENT);
}

static void
test_connect_refuses_another_version(void **state)
{
	struct fake *f = *state;
	const struct evd_event *ev;

	f->welcome.version = 9;
	assert_int_equal(evd_connect_start(f->c), 0);
	fake_accept(f);
	fake_send_welcome(f);
	ev = fake_next_is(f, EVD_DISCONNECTED);
	assert_int_equal(evd_event_status(ev), EVD_STATUS_PROTOCOL);
	assert_non_null(strstr(evd_event_text(ev), "protocol 9"));
	assert_int_equal(evd_process(f->c), -ENOTCONN);
}

static void
test_connect_refuses_what_is_not_eventd(void **state)
{
	struct fake *f = *state;
	const struct evd_event *ev;

	assert_int_equal(evd_connect_start(f->c), 0);
	fake_accept(f);
	fake_write(f, "HTTP/1.1 400 Bad Request\r\n\r\n", 28);
	fake_hang_up(f);
	ev = fake_next_is(f, EVD_DISCONNECTED);
	assert_int_equal(evd_event_status(ev), EVD_STATUS_LOST);
	assert_int_equal(evd_connect_start(f->c), 0);
	fake_accept(f);
	fake_write(f, "\x03\x08\x01\x00", 4);
	ev = fake_next_is(f, EVD_DISCONNECTED);
	assert_int_equal(evd_event_status(ev), EVD_STATUS_PROTOCOL);
}

/* The last words of the daemon are why the connection ended. */
static void
test_error_frame_is_the_reason(void **state)
{
	struct fake *f = *state;
	Eventd__V1__Frame frame = EVENTD__V1__FRAME__INIT;
	Eventd__V1__Error error = EVENTD__V1__ERROR__INIT;
	const struct evd_event *ev;

	error.status = EVD_STATUS_LIMIT;
	error.text = (char *)"more than the\nwindow";
	frame.error = &error;
	fake_send(f, &frame);
	fake_hang_up(f);
	ev = fake_next_is(f, EVD_DISCONNECTED);
	assert_int_equal(evd_event_status(ev), EVD_STATUS_LIMIT);
	assert_string_equal(evd_event_text(ev), "more than the window");
}

/* It is read also when the first sign of the loss is a failed write. */
static void
test_error_frame_is_read_after_a_failed_write(void **state)
{
	struct fake *f = *state;
	Eventd__V1__Frame frame = EVENTD__V1__FRAME__INIT;
	Eventd__V1__Error error = EVENTD__V1__ERROR__INIT;
	const struct evd_event *ev;

	error.status = EVD_STATUS_DENIED;
	error.text = (char *)"go away";
	frame.error = &error;
	fake_send(f, &frame);
	fake_hang_up(f);
	assert_int_equal(evd_post(f->c, "a", "e", "x", 1), 0);
	assert_int_equal(evd_flush(f->c), -EPIPE);
	ev = fake_next_is(f, EVD_POST_FAILED);
	assert_int_equal(evd_event_status(ev), EVD_STATUS_LOST);
	assert_int_equal(evd_event_post(ev), 1);
	ev = fake_next_is(f, EVD_DISCONNECTED);
	assert_int_equal(evd_event_status(ev), EVD_STATUS_DENIED);
	assert_int_equal(evd_flush(f->c), -ENOTCONN);
	assert_int_equal(evd_posts_failed(f->c), 1);
}

static void
test_notice_of_closing(void **state)
{
	struct fake *f = *state;
	Eventd__V1__Frame frame = EVENTD__V1__FRAME__INIT;
	Eventd__V1__Notice notice = EVENTD__V1__NOTICE__INIT;
	Eventd__V1__Closing closing = EVENTD__V1__CLOSING__INIT;

	closing.text = (char *)"eventd stops";
	notice.what_case = EVENTD__V1__NOTICE__WHAT_CLOSING;
	notice.closing = &closing;
	frame.notice = &notice;
	fake_send(f, &frame);
	assert_string_equal(
		evd_event_text(fake_next_is(f, EVD_CLOSING)), "eventd stops");
	/* of a later version: unknown notices and fields are passed over */
	fake_write(f, "\x03\x52\x01\x00", 4);
	assert_int_equal(evd_process(f->c), 1); /* that one is malformed */
	fake_next_is(f, EVD_DISCONNECTED);
}

static void
test_unknown_parts_are_passed_over(void **state)
{
	struct fake *f = *state;

	/* field 100 with 2 bytes; a notice with only an unknown field 9 */
	fake_write(f, "\x05\xa2\x06\x02xy", 6);
	fake_write(f, "\x05\x52\x03\x4a\x01z", 6);
	fake_write(f, "\x00", 1); /* an empty frame */
	fake_deliver(f, 99, "for.nobody", "x", 0);
	fake_settle_down(f);
	assert_true(evd_is_connected(f->c));
}

/* B113: disconnected, then reconnected with the gap; all is made again. */
static void
test_reconnect_restores_bindings_and_ids(void **state)
{
	struct fake *f = *state;
	const struct evd_event *ev;
	uint64_t id, request, ids[2];
	int binding;

	assert_int_equal(evd_set_reconnect(f->c, 1, 20), 0);
	binding = fake_bind(f, "mine", 1, 16);
	fake_respond_resolved(f, FAKE_NUMBER(2), 501);
	assert_int_equal(evd_resolve(f->c, "theirs", &id), 0);
	fake_read(f);
	assert_int_equal(evd_post_id(f->c, id, "e", "x", 1), 0);
	assert_int_equal(evd_flush(f->c), 0);
	assert_int_equal(fake_read(f)->envelopes[0]->to, 501);
	fake_hang_up(f);

	assert_int_equal(evd_event_status(fake_next_is(f, EVD_POST_FAILED)),
		EVD_STATUS_LOST);
	fake_next_is(f, EVD_DISCONNECTED);
	assert_int_equal(evd_fd(f->c), -1);
	assert_in_range(evd_timeout_ms(f->c), 0, 20);
	fake_work_until(f, f->listener);
	fake_accept(f);
	fake_send_welcome(f);
	fake_work_until(f, f->fd);
	for (int i = 0; i < 2; i++) {
		ids[i] = fake_read(f)->request->id;
		if (f->frame->request->verb_case ==
			EVENTD__V1__REQUEST__VERB_RESOLVE)
			assert_string_equal(
				f->frame->request->resolve->alias, "theirs");
		else
			assert_string_equal(
				f->frame->request->bind->alias, "mine");
	}
	assert_false(evd_is_connected(f->c));
	request = ids[0];
	fake_respond_bound(f, request, 16);
	fake_respond_resolved(f, ids[1], 777);
	ev = fake_next_is(f, EVD_RECONNECTED);
	assert_int_equal(evd_event_lost(ev), 1);
	assert_in_range(evd_event_gap_ms(ev), 1, FAKE_WAIT_MS);
	assert_int_equal(evd_post_id(f->c, id, "e", "y", 1), 0);
	assert_int_equal(evd_flush(f->c), 0);
	assert_int_equal(fake_read(f)->envelopes[0]->to, 777);
	assert_int_equal(f->frame->envelopes[0]->seq, 1);
	fake_deliver(f, binding, "hello", "again", 0);
	ev = fake_next_is(f, EVD_DELIVERY);
	assert_string_equal(evd_event_alias(ev), "mine");
}

/* An id whose alias nobody holds now is used by its name. */
static void
test_reconnect_keeps_ids_that_cannot_be_resolved(void **state)
{
	struct fake *f = *state;
	uint64_t id;

	assert_int_equal(evd_set_reconnect(f->c, 1, 1), 0);
	fake_respond_resolved(f, FAKE_NUMBER(1), 501);
	assert_int_equal(evd_resolve(f->c, "theirs", &id), 0);
	fake_hang_up(f);
	fake_next_is(f, EVD_DISCONNECTED);
	fake_work_until(f, f->listener);
	fake_accept(f);
	fake_send_welcome(f);
	fake_work_until(f, f->fd);
	fake_respond_status(f, fake_read(f)->request->id, EVD_STATUS_NO_ALIAS,
		"no session holds the alias 'theirs'");
	fake_next_is(f, EVD_RECONNECTED);
	assert_int_equal(evd_post_id(f->c, id, "e", "y", 1), 0);
	assert_int_equal(evd_flush(f->c), 0);
	assert_int_equal(fake_read(f)->envelopes[0]->to, 0);
	assert_string_equal(f->frame->envelopes[0]->alias, "theirs");
}

static void
test_reconnect_tells_of_a_binding_that_is_taken(void **state)
{
	struct fake *f = *state;
	const struct evd_event *ev;
	int binding;

	assert_int_equal(evd_set_reconnect(f->c, 1, 1), 0);
	binding = fake_bind(f, "mine", 1, 16);
	fake_hang_up(f);
	fake_next_is(f, EVD_DISCONNECTED);
	fake_work_until(f, f->listener);
	fake_accept(f);
	fake_send_welcome(f);
	fake_work_until(f, f->fd);
	fake_respond_status(f, fake_read(f)->request->id, EVD_STATUS_TAKEN,
		"session 5 holds 'mine'");
	ev = fake_next(f);
	if (evd_event_type(ev) == EVD_RECONNECTED)
		ev = fake_next(f);
	assert_int_equal(evd_event_type(ev), EVD_UNBOUND);
	assert_int_equal(evd_event_status(ev), EVD_STATUS_TAKEN);
	assert_string_equal(evd_event_alias(ev), "mine");
	assert_int_equal(evd_event_binding(ev), binding);
	assert_int_equal(evd_unbind(f->c, binding), -ESRCH);
}

static void
test_reconnect_goes_on_while_nothing_listens(void **state)
{
	struct fake *f = *state;

	assert_int_equal(evd_set_reconnect(f->c, 1, 4), 0);
	close(f->listener);
	fake_hang_up(f);
	fake_next_is(f, EVD_DISCONNECTED);
	for (int i = 0; i < 20; i++) /* some tries fail: told once */
		assert_int_equal(evd_wait(f->c, 1), 0);
	fake_listen(f);
	fake_work_until(f, f->listener);
	fake_accept(f);
	fake_send_welcome(f);
	fake_next_is(f, EVD_RECONNECTED);
}

/* A blocking post waits for the connection to come back. */
static void
test_blocking_post_waits_for_the_reconnect(void **state)
{
	struct fake *f = *state;
	pthread_t thread;

	assert_int_equal(evd_set_reconnect(f->c, 1, 1), 0);
	fake_hang_up(f);
	fake_next_is(f, EVD_DISCONNECTED);
	assert_int_equal(evd_set_blocking(f->c, false), 0);
	assert_int_equal(evd_post(f->c, "a", "e", "x", 1), -EAGAIN);
	assert_int_equal(evd_set_blocking(f->c, true), 0);
	assert_int_equal(pthread_create(&thread, NULL, greet, f), 0);
	assert_int_equal(evd_post(f->c, "a", "e", "x", 1), 0);
	pthread_join(thread, NULL);
	assert_int_equal(evd_flush(f->c), 0);
	assert_non_null(fake_read(f)->hello);
	assert_string_equal(fake_read(f)->envelopes[0]->alias, "a");
}

static void
test_close_forgets_and_connects_again(void **state)
{
	struct fake *f = *state;
	const struct evd_event *ev;

	fake_bind(f, "mine", 1, 16);
	assert_int_equal(evd_close(f->c), 0);
	assert_int_equal(evd_close(f->c), 0);
	assert_int_equal(evd_fd(f->c), -1);
	assert_int_equal(evd_next(f->c, &ev), 0);
	fake_hang_up(f);
	assert_int_equal(evd_set_socket(f->c, f->path), 0);
	fake_connect(f);
	fake_assert_quiet(f);
}

/* B103: every call in a forked child says so, and freeing is safe. */
static void
test_fork_makes_every_call_fail(void **state)
{
	struct fake *f = *state;
	struct evd_event *reply;
	const struct evd_event *ev;
	int status;
	uint64_t id;
	pid_t pid = fork();

	if (pid == 0) {
		struct evd *c = f->c;
		bool ok = evd_post(c, "a", "e", "x", 1) == -ECHILD &&
			  evd_call(c, "a", "e", "x", 1, 0, &reply) == -ECHILD &&
			  evd_call_start(c, "a", "e", "x", 1, 0) == -ECHILD &&
			  evd_next(c, &ev) == -ECHILD &&
			  evd_wait(c, -1) == -ECHILD &&
			  evd_process(c) == -ECHILD && evd_fd(c) == -ECHILD &&
			  evd_events(c) == -ECHILD &&
			  evd_timeout_ms(c) == -ECHILD &&
			  evd_flush(c) == -ECHILD && evd_close(c) == -ECHILD &&
			  evd_drain(c, 0) == -ECHILD &&
			  evd_connect(c, 0) == -ECHILD &&
			  evd_connect_start(c) == -ECHILD &&
			  evd_bind(c, "a", 0, 0) == -ECHILD &&
			  evd_unbind(c, 1) == -ECHILD &&
			  evd_resolve(c, "a", &id) == -ECHILD &&
			  evd_cancel(c, 1) == -ECHILD &&
			  evd_delay(c, "a", "e", "x", 1, 1) == -ECHILD &&
			  evd_ping(c, NULL) == -ECHILD &&
			  evd_reply(c, 1, "x", 1) == -ECHILD &&
			  evd_reload(c, true, NULL) == -ECHILD &&
			  evd_restart(c, "a") == -ECHILD &&
			  evd_set_socket(c, "/x") == -ECHILD &&
			  !evd_is_connected(c) && evd_socket(c) == NULL &&
			  evd_session(c) == 0 && *evd_last_error(c);

		_exit(ok && !evd_free(c) ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	/* the parent's connection lives on */
	assert_int_equal(evd_post(f->c, "a", "e", "x", 1), 0);
	assert_int_equal(evd_flush(f->c), 0);
	assert_int_equal(fake_read(f)->n_envelopes, 1);
}

static bool
is_foreign(struct evd *c)
{
	return evd_set_name(c, "x") == -ECHILD;
}

/* A child's own handle is its own, whatever it got from those before it. */
static void
test_fork_leaves_new_handles_alone(void **state)
{
	struct evd *old = evd_new(), *mine;
	int status;
	pid_t pid;

	(void)state;
	assert_int_equal(evd_set_name(old, "x"), 0);
	pid = fork();
	if (pid == 0) {
		bool ok = is_foreign(old) && (mine = evd_new()) &&
			  !is_foreign(mine) && is_foreign(old);

		pid = ok ? fork() : -1;
		if (pid == 0) {
			ok = is_foreign(old) && is_foreign(mine);
			evd_free(mine);
			mine = evd_new();
			_exit(ok && !is_foreign(mine) && is_foreign(old) ? 0
									 : 1);
		}
		ok = pid > 0 && waitpid(pid, &status, 0) == pid && !status &&
		     !is_foreign(mine);
		_exit(ok ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_false(is_foreign(old));
	evd_free(old);
}

/* All frames of a session, cut at every byte into two reads. */
static void
test_frames_may_be_cut_anywhere(void **state)
{
	struct fake *f = *state;
	uint8_t data[512];
	size_t size = 0;
	int binding = fake_bind(f, "mine", 1, 1000);

	for (int i = 0; i < 3; i++) {
		Eventd__V1__Frame frame = EVENTD__V1__FRAME__INIT;
		Eventd__V1__Envelope e = EVENTD__V1__ENVELOPE__INIT;
		Eventd__V1__Envelope *es[] = {&e, &e};
		uint8_t *packed;
		size_t n;

		e.to = (uint64_t)binding;
		e.event = (char *)"cut";
		e.payload.data = (uint8_t *)"0123456789";
		e.payload.len = 10;
		frame.envelopes = es;
		frame.n_envelopes = 2;
		n = fake_pack(&frame, &packed);
		memcpy(data + size, packed, n);
		size += n;
		free(packed);
	}
	for (size_t cut = 0; cut <= size; cut++) {
		const struct evd_event *ev;
		int n = 0;

		for (int half = 0; half < 2; half++) {
			if (half == 0)
				fake_write(f, data, cut);
			else
				fake_write(f, data + cut, size - cut);
			assert_true(evd_process(f->c) >= 0);
			while (evd_next(f->c, &ev) == 1) {
				assert_int_equal(evd_event_size(ev), 10);
				assert_memory_equal(
					evd_event_data(ev), "0123456789", 10);
				assert_string_equal(evd_event_name(ev), "cut");
				n++;
			}
		}
		assert_int_equal(n, 6);
	}
}

static void
on_signal(int sig)
{
	(void)sig;
}

/* Also of a handler that lets system calls go on by itself. */
static void
test_wait_returns_when_a_signal_comes(void **state)
{
	struct fake *f = *state;
	struct sigaction sa = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	struct itimerval every = {{0, 2000}, {0, 2000}}, never = {0};

	assert_int_equal(sigaction(SIGALRM, &sa, NULL), 0);
	setitimer(ITIMER_REAL, &every, NULL);
	assert_int_equal(evd_wait(f->c, -1), -EINTR);
	/* what has a result to wait for goes on */
	assert_int_equal(evd_set_timeout(f->c, 20), 0);
	assert_int_equal(evd_ping(f->c, NULL), -ETIMEDOUT);
	setitimer(ITIMER_REAL, &never, NULL);
}

int
main(void)
{
#define IDLE(test) \
	cmocka_unit_test_setup_teardown(test, fake_setup_idle, fake_teardown)
#define OPEN(test) \
	cmocka_unit_test_setup_teardown(test, fake_setup, fake_teardown)
	const struct CMUnitTest tests[] = {
		IDLE(test_connect_start_greets),
		IDLE(test_connect_waits_for_the_greeting),
		IDLE(test_connect_times_out_without_greeting),
		IDLE(test_connect_says_what_is_missing),
		IDLE(test_connect_refuses_another_version),
		IDLE(test_connect_refuses_what_is_not_eventd),
		OPEN(test_error_frame_is_the_reason),
		OPEN(test_error_frame_is_read_after_a_failed_write),
		OPEN(test_notice_of_closing),
		OPEN(test_unknown_parts_are_passed_over),
		OPEN(test_reconnect_restores_bindings_and_ids),
		OPEN(test_reconnect_keeps_ids_that_cannot_be_resolved),
		OPEN(test_reconnect_tells_of_a_binding_that_is_taken),
		OPEN(test_reconnect_goes_on_while_nothing_listens),
		OPEN(test_blocking_post_waits_for_the_reconnect),
		OPEN(test_close_forgets_and_connects_again),
		OPEN(test_fork_makes_every_call_fail),
		OPEN(test_fork_leaves_new_handles_alone),
		OPEN(test_frames_may_be_cut_anywhere),
		OPEN(test_wait_returns_when_a_signal_comes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

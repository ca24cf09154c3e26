#pragma once
/* Fake: a scripted daemon in the test's own process and thread: it listens in
 * a directory of its own, and the test says what it reads and writes. Answers
 * to a blocking call are written before the call is made. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "eventd.pb-c.h"
#include "eventd/client.h"
#include "frame.h"

enum { FAKE_WAIT_MS = 10000 };

/* The first number that a handle gives to a call or a request, and the steps
 * between numbers when each is over before the next. */
#define FAKE_NUMBER(n) ((uint64_t)(n) << 16)

struct fake {
	char dir[64];
	char path[96];
	int listener, fd;
	uint8_t *in;
	size_t n, size;
	Eventd__V1__Frame *frame; /* the one read last */
	Eventd__V1__Welcome welcome;
	struct evd *c;
};

static inline void
fake_listen(struct fake *f)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};

	memcpy(sa.sun_path, f->path, strlen(f->path));
	unlink(f->path);
	f->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(f->listener >= 0);
	assert_int_equal(
		bind(f->listener, (struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(listen(f->listener, 8), 0);
}

static inline void
fake_wait(int fd, short events)
{
	struct pollfd p = {.fd = fd, .events = events};

	assert_int_equal(poll(&p, 1, FAKE_WAIT_MS), 1);
}

static inline void
fake_write(struct fake *f, const void *data, size_t size)
{
	const uint8_t *p = data;

	while (size) {
		ssize_t n = send(f->fd, p, size, MSG_NOSIGNAL);

		assert_true(n > 0);
		p += n;
		size -= (size_t)n;
	}
}

static inline size_t
fake_pack(const Eventd__V1__Frame *frame, uint8_t **out)
{
	size_t size = eventd__v1__frame__get_packed_size(frame), head;

	*out = malloc(size + FRAME_HEAD_MAX);
	assert_non_null(*out);
	head = varint_put(*out, size);
	return head + eventd__v1__frame__pack(frame, *out + head);
}

static inline void
fake_send(struct fake *f, const Eventd__V1__Frame *frame)
{
	uint8_t *data;
	size_t size = fake_pack(frame, &data);

	fake_write(f, data, size);
	free(data);
}

/* The next frame of the client; freed by the next call. */
static inline Eventd__V1__Frame *
fake_read(struct fake *f)
{
	size_t head, body;

	if (f->frame)
		eventd__v1__frame__free_unpacked(f->frame, NULL);
	f->frame = NULL;
	while (frame_take(f->in, f->n, 64 << 20, &head, &body)) {
		ssize_t n;

		if (f->size - f->n < 65536) {
			f->size += 1 << 20;
			f->in = realloc(f->in, f->size);
			assert_non_null(f->in);
		}
		fake_wait(f->fd, POLLIN);
		n = recv(f->fd, f->in + f->n, f->size - f->n, 0);
		assert_true(n > 0);
		f->n += (size_t)n;
	}
	f->frame = eventd__v1__frame__unpack(NULL, body, f->in + head);
	assert_non_null(f->frame);
	f->n -= head + body;
	memmove(f->in, f->in + head + body, f->n);
	return f->frame;
}

/* Is there nothing (more) from the client? */
static inline void
fake_assert_quiet(struct fake *f)
{
	struct pollfd p = {.fd = f->fd, .events = POLLIN};

	assert_int_equal(f->n, 0);
	assert_int_equal(poll(&p, 1, 0), 0);
}

static inline void
fake_send_welcome(struct fake *f)
{
	Eventd__V1__Frame frame = EVENTD__V1__FRAME__INIT;

	frame.welcome = &f->welcome;
	fake_send(f, &frame);
}

static inline void
fake_accept(struct fake *f)
{
	fake_wait(f->listener, POLLIN);
	f->n = 0;
	f->fd = accept4(f->listener, NULL, NULL, SOCK_CLOEXEC);
	assert_true(f->fd >= 0);
	assert_non_null(fake_read(f)->hello);
	assert_int_equal(f->frame->hello->version, 1);
}

static inline void
fake_hang_up(struct fake *f)
{
	close(f->fd);
	f->fd = -1;
}

/* evd_process() until there is an event, which is returned. */
static inline const struct evd_event *
fake_next(struct fake *f)
{
	const struct evd_event *ev = NULL;

	assert_int_equal(evd_wait(f->c, FAKE_WAIT_MS), 1);
	assert_int_equal(evd_next(f->c, &ev), 1);
	assert_non_null(ev);
	return ev;
}

static inline const struct evd_event *
fake_next_is(struct fake *f, int type)
{
	const struct evd_event *ev = fake_next(f);

	assert_int_equal(evd_event_type(ev), type);
	return ev;
}

/* What was sent to the client is read; there is no event. */
static inline void
fake_settle_down(struct fake *f)
{
	const struct evd_event *ev;

	assert_int_equal(evd_process(f->c), 0);
	assert_int_equal(evd_next(f->c, &ev), 0);
}

/* Let the client work until @fd is readable; there is no event meanwhile. */
static inline void
fake_work_until(struct fake *f, int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	for (int ms = 0; ms < FAKE_WAIT_MS; ms++) {
		if (poll(&p, 1, 0))
			return;
		assert_int_equal(evd_wait(f->c, 1), 0);
	}
	fail_msg("the client sent nothing");
}

static inline void
fake_connect(struct fake *f)
{
	assert_int_equal(evd_connect_start(f->c), 0);
	fake_accept(f);
	fake_send_welcome(f);
	fake_next_is(f, EVD_CONNECTED);
	assert_true(evd_is_connected(f->c));
}

static inline int
fake_setup_idle(void **state)
{
	struct fake *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	strcpy(f->dir, "/tmp/evd-test-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	snprintf(f->path, sizeof(f->path), "%s/sock", f->dir);
	f->fd = f->listener = -1;
	eventd__v1__welcome__init(&f->welcome);
	f->welcome.version = 1;
	f->welcome.server = (char *)"fake 1";
	f->welcome.session = 77;
	f->welcome.max_frame = 1 << 20;
	f->welcome.max_payload = 1 << 20;
	f->welcome.window_posts = 8;
	f->welcome.window_bytes = 1 << 20;
	f->welcome.max_calls = 4;
	f->welcome.call_timeout_ms = 5000;
	fake_listen(f);
	f->c = evd_new();
	assert_non_null(f->c);
	assert_int_equal(evd_set_socket(f->c, f->path), 0);
	assert_int_equal(evd_set_timeout(f->c, FAKE_WAIT_MS), 0);
	*state = f;
	return 0;
}

static inline int
fake_setup(void **state)
{
	fake_setup_idle(state);
	fake_connect(*state);
	return 0;
}

static inline int
fake_teardown(void **state)
{
	struct fake *f = *state;

	evd_free(f->c);
	if (f->fd >= 0)
		close(f->fd);
	if (f->listener >= 0)
		close(f->listener);
	if (f->frame)
		eventd__v1__frame__free_unpacked(f->frame, NULL);
	free(f->in);
	unlink(f->path);
	rmdir(f->dir);
	free(f);
	return 0;
}

/* ---- frames with one thing ---- */

static inline void
fake_send_envelope(struct fake *f, Eventd__V1__Envelope *e)
{
	Eventd__V1__Frame frame = EVENTD__V1__FRAME__INIT;

	frame.n_envelopes = 1;
	frame.envelopes = &e;
	fake_send(f, &frame);
}

static inline void
fake_send_ack(struct fake *f, uint64_t upto, uint64_t *also, size_t n_also)
{
	Eventd__V1__Frame frame = EVENTD__V1__FRAME__INIT;
	Eventd__V1__Ack ack = EVENTD__V1__ACK__INIT;

	ack.upto = upto;
	ack.also = also;
	ack.n_also = n_also;
	frame.ack = &ack;
	fake_send(f, &frame);
}

static inline void
fake_send_failure(
	struct fake *f, uint64_t seq, uint32_t status, const char *text)
{
	Eventd__V1__Frame frame = EVENTD__V1__FRAME__INIT;
	Eventd__V1__Failure failure = EVENTD__V1__FAILURE__INIT;
	Eventd__V1__Failure *failures = &failure;

	failure.seq = seq;
	failure.status = status;
	failure.text = (char *)(uintptr_t)text;
	frame.failures = &failures;
	frame.n_failures = 1;
	fake_send(f, &frame);
}

static inline void
fake_respond(struct fake *f, Eventd__V1__Response *response)
{
	Eventd__V1__Frame frame = EVENTD__V1__FRAME__INIT;

	frame.response = response;
	fake_send(f, &frame);
}

/* The answer to request number @id: only a status. */
static inline void
fake_respond_status(
	struct fake *f, uint64_t id, uint32_t status, const char *text)
{
	Eventd__V1__Response response = EVENTD__V1__RESPONSE__INIT;

	response.id = id;
	response.status = status;
	response.text = (char *)(uintptr_t)text;
	fake_respond(f, &response);
}

static inline void
fake_respond_bound(struct fake *f, uint64_t id, uint32_t window_events)
{
	Eventd__V1__Response response = EVENTD__V1__RESPONSE__INIT;
	Eventd__V1__Bound bound = EVENTD__V1__BOUND__INIT;

	bound.session = 78;
	bound.window_events = window_events;
	bound.window_bytes = 1 << 20;
	response.id = id;
	response.result_case = EVENTD__V1__RESPONSE__RESULT_BOUND;
	response.bound = &bound;
	fake_respond(f, &response);
}

static inline void
fake_respond_resolved(struct fake *f, uint64_t id, uint64_t ref)
{
	Eventd__V1__Response response = EVENTD__V1__RESPONSE__INIT;
	Eventd__V1__Resolved resolved = EVENTD__V1__RESOLVED__INIT;

	resolved.ref = ref;
	response.id = id;
	response.result_case = EVENTD__V1__RESPONSE__RESULT_RESOLVED;
	response.resolved = &resolved;
	fake_respond(f, &response);
}

/* Bind @alias: the binding's number. @request counts all requests so far. */
static inline int
fake_bind(struct fake *f, const char *alias, uint64_t request, uint32_t window)
{
	int binding;

	fake_respond_bound(f, FAKE_NUMBER(request), window);
	binding = evd_bind(f->c, alias, 0, 0);
	assert_true(binding > 0);
	assert_non_null(fake_read(f)->request);
	assert_string_equal(f->frame->request->bind->alias, alias);
	assert_int_equal(f->frame->request->bind->binding, binding);
	return binding;
}

static inline void
fake_deliver(struct fake *f, int binding, const char *event, const char *data,
	uint64_t call)
{
	Eventd__V1__Envelope e = EVENTD__V1__ENVELOPE__INIT;

	e.to = (uint64_t)binding;
	e.event = (char *)(uintptr_t)event;
	e.payload.data = (uint8_t *)(uintptr_t)data;
	e.payload.len = strlen(data);
	e.call = call;
	e.id = 1000;
	e.from = 2000;
	fake_send_envelope(f, &e);
}

/* Conn: connecting, greeting, losing the connection and making it again; the
 * loop functions of the API. Belongs to the thread that uses the handle. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include "internal.h"
#include "memfd.h"
#include "parts.h"
#include "sequence.h"
#include "status.h"

enum { WELCOME_ARENA_MAX = 1 << 20 };

/* ---- making a connection ---- */

static int
open_failed(struct evd *c, int err)
{
	const char *path = c->socket;

	if (err == ENOENT)
		return evd__fail_errno(
			c, err, "no socket at %s: is eventd running?", path);
	if (err == ECONNREFUSED)
		return evd__fail_errno(c, err,
			"nothing listens at %s: is eventd running?", path);
	if (err == EACCES || err == EPERM)
		return evd__fail_errno(c, EACCES,
			"no right to use %s: see its owner and mode", path);
	if (err == EAGAIN)
		return evd__fail_errno(c, ETIMEDOUT,
			"eventd at %s does not accept connections", path);
	if (err == EMFILE || err == ENFILE)
		return evd__fail_errno(c, err,
			"this program has too many open files (ulimit -n)");
	return evd__fail_errno(
		c, err, "cannot connect to %s: %s", path, strerror(err));
}

/* A connected, blocking socket: the library says MSG_DONTWAIT where it must
 * not wait. Waits only in evd_connect(), until @deadline. */
static int
open_socket(struct evd *c, int64_t deadline)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	int flags = c->connecting ? 0 : SOCK_NONBLOCK;
	int r = evd__socket_path(c, c->socket), fd;

	if (r)
		return r;
	memcpy(sa.sun_path, c->socket, strlen(c->socket));
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
	if (fd < 0)
		return open_failed(c, errno);
	if (c->connecting && deadline != INT64_MAX) {
		int64_t us = (deadline - evd__now_ns()) / 1000;
		struct timeval tv = {us / 1000000, us % 1000000};

		if (us > 0)
			setsockopt(
				fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
	}
	do
		r = connect(fd, (struct sockaddr *)&sa, sizeof(sa));
	while (r && errno == EINTR);
	if (!r && flags)
		r = fcntl(fd, F_SETFL, 0);
	if (r) {
		r = open_failed(c, errno);
		close(fd);
		return r;
	}
	c->fd = fd;
	return 0;
}

/* Connect and send the greeting. */
static int
conn_open(struct evd *c, int64_t deadline)
{
	Eventd__V1__Hello hello = EVENTD__V1__HELLO__INIT;
	char memfd[] = FEATURE_MEMFD, replies[] = FEATURE_MEMFD_REPLIES;
	char *features[] = {memfd, replies};
	int r = open_socket(c, deadline);

	if (r)
		return r;
	evd__io_reset(c);
	c->close_status = 0;
	c->state = CONN_HELLO;
	c->due_ns = deadline != INT64_MAX
			    ? deadline
			    : evd__now_ns() + (int64_t)HELLO_MS * 1000000;
	hello.version = EVD_PROTOCOL_VERSION;
	hello.name = c->name;
	if (c->mem) {
		hello.features = features;
		hello.n_features = 2;
	}
	r = evd__out_message(c, FRAME_HELLO, &hello.base, true);
	if (r) {
		close(c->fd);
		c->fd = -1;
		c->state = CONN_IDLE;
		return evd__fail(c, EVD_STATUS_NO_MEMORY, "out of memory");
	}
	evd__write(c);
	return 0;
}

/* When the next try is made: doubling pauses, up to a quarter taken off so
 * that many clients do not come at once. */
static void
pause_start(struct evd *c)
{
	int64_t now = evd__now_ns();
	int64_t pause = (int64_t)c->pause_ms * 1000000;
	uint64_t noise = ((uint64_t)now ^ (uintptr_t)c >> 4) *
			 UINT64_C(0x9e3779b97f4a7c15);

	pause -= (int64_t)(noise >> 32) * (pause / 4) >> 32;
	c->state = CONN_PAUSE;
	c->due_ns = now + pause;
	c->pause_ms = c->pause_ms > c->max_ms / 2 ? c->max_ms : c->pause_ms * 2;
}

static void
tell_disconnected(struct evd *c, int status, const char *text)
{
	struct evd_event ev;

	if (c->told_down)
		return;
	c->told_down = true;
	evd__event_init(c, &ev, EVD_DISCONNECTED);
	ev.status = status;
	evd__event_set_text(c, &ev, text, strlen(text));
	evd__event_queue(c, &ev, true);
}

void
evd__lost(struct evd *c, int status, const char *text)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
	if (c->state == CONN_READY || c->state == CONN_REBIND)
		c->lost_ns = evd__now_ns();
	c->state = CONN_IDLE; /* so that nothing below sends */
	evd__io_reset(c);
	evd__window_lost(c);
	evd__calls_lost(c);
	evd__requests_lost(c);
	evd__watches_lost(c, c->min_ms != 0);
	evd__bindings_reset(c);
	c->epoch++;
	c->session = 0;
	c->max_payload = 0;
	evd__fail(c, status, "%s", text);
	if (c->connecting)
		return;
	tell_disconnected(c, status, text);
	if (c->min_ms)
		pause_start(c);
	else
		evd__bindings_free(c);
}

/* A try that is due, or a greeting that did not come. */
void
evd__step(struct evd *c)
{
	int status;
	char text[TEXT_MAX];

	if (c->state == CONN_IDLE || c->state == CONN_READY ||
		evd__now_ns() < c->due_ns)
		return;
	if (c->state != CONN_PAUSE) {
		evd__lost(c, EVD_STATUS_TIMEOUT,
			"the daemon did not greet in time");
		return;
	}
	c->due_ns = INT64_MAX;
	if (!conn_open(c, INT64_MAX))
		return;
	status = c->status;
	memcpy(text, c->error, sizeof(text));
	evd__lost(c, status, text);
}

/* ---- the greeting ---- */

static void
conn_on_ready(struct evd *c)
{
	struct evd_event ev;

	c->state = CONN_READY;
	c->due_ns = INT64_MAX;
	c->pause_ms = c->min_ms;
	c->told_down = false;
	if (c->again) {
		evd__event_init(c, &ev, EVD_RECONNECTED);
		ev.value = (uint64_t)(evd__now_ns() - c->lost_ns) / 1000000;
		ev.lost = c->n_lost;
		evd__event_queue(c, &ev, true);
	} else if (!c->connecting) {
		evd__event_init(c, &ev, EVD_CONNECTED);
		evd__event_queue(c, &ev, true);
	}
	c->n_lost = 0;
	c->again = true;
	evd__sequence_resend(c);
	evd__room_tell(c);
}

void
evd__on_rebound(struct evd *c)
{
	if (c->state == CONN_REBIND && --c->rebinding == 0)
		conn_on_ready(c);
}

/* Take the limits; 0 if they make sense. */
static int
take_welcome(struct evd *c, const Eventd__V1__Welcome *w)
{
	char text[96];

	if (w->version != EVD_PROTOCOL_VERSION) {
		snprintf(text, sizeof(text),
			"the daemon speaks protocol %" PRIu32
			", this library %d",
			w->version, EVD_PROTOCOL_VERSION);
		evd__lost(c, EVD_STATUS_PROTOCOL, text);
		return -EPROTO;
	}
	if (!w->window_posts || !w->window_bytes || !w->max_payload) {
		evd__lost(c, EVD_STATUS_PROTOCOL,
			"the daemon's greeting grants no posts");
		return -EPROTO;
	}
	c->session = w->session;
	c->max_payload =
		w->max_payload < FRAME_MAX ? w->max_payload : FRAME_MAX;
	c->max_calls = w->max_calls && w->max_calls < CALLS_MAX ? w->max_calls
								: CALLS_MAX;
	c->call_timeout_ms = w->call_timeout_ms;
	evd__memfd_welcome(c, w);
	evd__text_copy(
		c->server, sizeof(c->server), w->server, strlen(w->server));
	return evd__window_open(c, w->window_posts, w->window_bytes);
}

void
evd__on_welcome(struct evd *c, const uint8_t *data, size_t size)
{
	Eventd__V1__Welcome *w;
	ProtobufCAllocator allocator;
	struct arena arena;

	if (c->state != CONN_HELLO)
		return;
	arena_init(&arena, WELCOME_ARENA_MAX);
	allocator = arena_allocator(&arena);
	w = eventd__v1__welcome__unpack(&allocator, size, data);
	if (!w) {
		arena_deinit(&arena);
		evd__lost(c, EVD_STATUS_PROTOCOL,
			"what listens there is not eventd: it did not greet");
		return;
	}
	if (!take_welcome(c, w)) {
		c->state = CONN_REBIND;
		c->rebinding = 1; /* this one, so that none is the last */
		evd__rebind(c);
		evd__on_rebound(c);
	} else if (c->fd >= 0) {
		evd__lost(c, EVD_STATUS_NO_MEMORY, "out of memory");
	}
	arena_deinit(&arena);
}

/* ---- the API ---- */

static void
connect_prepare(struct evd *c)
{
	c->again = c->told_down = false;
	c->pause_ms = c->min_ms;
	c->rcv_ms = -1;
}

int
evd_connect(struct evd *c, int timeout_ms)
{
	int64_t deadline;
	int r = 0;

	EVD_CHECK(c);
	if (c->state == CONN_READY)
		return evd__fail_errno(
			c, EISCONN, "already connected to %s", c->socket);
	deadline = evd__deadline(c, timeout_ms);
	if (c->state == CONN_IDLE) {
		connect_prepare(c);
		c->connecting = true;
		r = conn_open(c, deadline);
	}
	while (!r && c->state != CONN_READY) {
		evd__pump(c);
		if (c->state == CONN_READY)
			break;
		if (c->state == CONN_IDLE) {
			r = -status_errno(c->status);
			break;
		}
		r = evd__block(c, deadline);
		if (r == -EINTR || r == -ENOTCONN)
			r = 0;
		if (r == -ETIMEDOUT)
			evd__lost(c, EVD_STATUS_TIMEOUT,
				"the daemon did not greet in time");
	}
	c->connecting = false;
	return r;
}

int
evd_connect_start(struct evd *c)
{
	int r;

	EVD_CHECK(c);
	if (c->state != CONN_IDLE)
		return evd__fail_errno(
			c, EISCONN, "already connected, or about to be");
	connect_prepare(c);
	r = conn_open(c, INT64_MAX);
	if (r && c->min_ms) {
		char text[TEXT_MAX];

		memcpy(text, c->error, sizeof(text));
		evd__lost(c, c->status, text);
		return 0;
	}
	return r;
}

int
evd_close(struct evd *c)
{
	int min_ms;

	EVD_CHECK(c);
	if (c->state == CONN_IDLE)
		return 0;
	evd__goodbye(c);
	if (c->state == CONN_IDLE) /* it was lost just now */
		return 0;
	min_ms = c->min_ms;
	c->min_ms = 0;
	c->told_down = true;
	evd__event_release(c);
	evd__lost(c, EVD_STATUS_UNAVAILABLE, "not connected: evd_close()");
	c->min_ms = min_ms;
	return 0;
}

bool
evd_is_connected(const struct evd *c)
{
	return !evd__is_foreign(c) && c->state == CONN_READY;
}

int
evd__ready(struct evd *c, int64_t deadline)
{
	while (c->state != CONN_READY) {
		int r;

		if (c->state == CONN_IDLE)
			return evd__fail_errno(c, ENOTCONN,
				"not connected: evd_connect() first");
		if (!c->blocking)
			return evd__fail(c, EVD_STATUS_FULL,
				"not connected yet: wait for EVD_CONNECTED");
		evd__pump(c);
		if (c->state == CONN_READY)
			break;
		r = evd__block(c, deadline);
		if (r == -ETIMEDOUT)
			return evd__fail(c, EVD_STATUS_TIMEOUT,
				"no connection to %s in time", c->socket);
	}
	return 0;
}

const char *
evd_server(const struct evd *c)
{
	return evd__is_foreign(c) ? "" : c->server;
}

uint64_t
evd_session(const struct evd *c)
{
	return evd__is_foreign(c) ? 0 : c->session;
}

uint64_t
evd_max_payload(const struct evd *c)
{
	return evd__is_foreign(c) ? 0 : c->max_payload;
}

uint64_t
evd_window_posts(const struct evd *c)
{
	return evd__is_foreign(c) ? 0 : c->win.granted_posts;
}

uint64_t
evd_window_bytes(const struct evd *c)
{
	return evd__is_foreign(c) ? 0 : c->win.granted_bytes;
}

int
evd_fd(const struct evd *c)
{
	EVD_CHECK(c);
	return c->fd;
}

int
evd_events(const struct evd *c)
{
	EVD_CHECK(c);
	if (c->fd < 0)
		return 0;
	if (c->write_dead || (!evd__out_pending(c) && !c->dirty))
		return POLLIN;
	return POLLIN | POLLOUT;
}

int
evd_timeout_ms(const struct evd *c)
{
	int64_t ns;

	EVD_CHECK(c);
	if (c->ready || c->first || c->write_dead)
		return 0;
	if (c->state == CONN_IDLE || c->state == CONN_READY ||
		c->due_ns == INT64_MAX)
		return -1;
	ns = c->due_ns - evd__now_ns();
	return ns <= 0 ? 0 : (int)((ns + 999999) / 1000000);
}

/* One round without waiting: 1 if there is an event. */
static int
process(struct evd *c)
{
	int r;

	evd__step(c);
	evd__settles_tell(c);
	evd__write(c);
	if (evd__event_ready(c))
		return 1;
	r = evd__read(c);
	if (r == -ENOMEM)
		return evd__fail(c, EVD_STATUS_NO_MEMORY, "out of memory");
	if (evd__event_ready(c))
		return 1;
	if (c->state == CONN_IDLE)
		return evd__fail_errno(
			c, ENOTCONN, "not connected: evd_connect() first");
	return 0;
}

int
evd_process(struct evd *c)
{
	EVD_CHECK(c);
	evd__event_release(c);
	return process(c);
}

int
evd_wait(struct evd *c, int timeout_ms)
{
	int64_t deadline = INT64_MAX;
	int r;

	EVD_CHECK(c);
	evd__event_release(c);
	if (evd__event_ready(c)) {
		evd__write_stale(c);
		return 1;
	}
	if (timeout_ms == 0)
		return process(c);
	if (timeout_ms > 0)
		deadline = evd__deadline(c, timeout_ms);
	for (;;) {
		r = evd__block(c, deadline);
		if (evd__event_ready(c))
			return 1;
		if (r == -ETIMEDOUT)
			return 0;
		if (r == -EINTR)
			return evd__fail_errno(
				c, EINTR, "a signal came while waiting");
		if (r == -ENOTCONN)
			return evd__fail_errno(c, ENOTCONN,
				"not connected: evd_connect() first");
	}
}

int
evd_flush(struct evd *c)
{
	int64_t deadline = INT64_MAX;
	uint32_t epoch;

	EVD_CHECK(c);
	if (c->state == CONN_IDLE)
		return evd__fail_errno(
			c, ENOTCONN, "not connected: evd_connect() first");
	epoch = c->epoch;
	evd__settles_tell(c);
	evd__write(c);
	while (evd__out_pending(c) || c->write_dead) {
		if (!c->blocking && !c->write_dead)
			return 1;
		if (deadline == INT64_MAX)
			deadline = evd__deadline(c, 0);
		evd__pump(c);
		if (evd__block_write(c, deadline) == -ETIMEDOUT)
			return evd__fail(c, EVD_STATUS_TIMEOUT,
				"the daemon does not read: %zu bytes are left",
				evd__out_pending(c));
	}
	if (c->epoch != epoch)
		return evd__fail(c, EVD_STATUS_LOST, "the connection was lost");
	return 0;
}

/* A hostile daemon: libevd reads any bytes, in any pieces, with things of all
 * kinds outstanding. The first byte says what, the second how it is cut; the
 * rest is what the daemon sends.
 *
 * Reaches inside the handle to give it one end of a socket pair. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "eventd/memfd.h"
#include "eventd/room.h"
#include "internal.h"
#include "parts.h"
#include "passing.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
	MODE_GREETED = 1, /* a good welcome comes first */
	MODE_BUSY = 2,    /* posts, calls and requests are outstanding */
	MODE_PUMP = 4,    /* read as a blocking call does, queueing events */
	MODE_HOLD = 8,    /* keep the given event while reading on */
	MODE_MANUAL = 16,
	MODE_RECONNECT = 32,
	MODE_ROOM = 64,   /* a window of its own, posts that try, room wanted */
	MODE_MEMFD = 128, /* descriptors come with what the daemon sends */
};

enum { MEMFD_SIZE = 70000 };

static void
put(int fd, const uint8_t *data, size_t size)
{
	ssize_t n = send(fd, data, size, MSG_NOSIGNAL);

	(void)n; /* a full socket only makes the input shorter */
}

/* The same with a descriptor, which may be a memfd as it should be. */
static void
put_with_fd(int fd, const uint8_t *data, size_t size, unsigned how)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct iovec iov = {(void *)data, size};
	struct msghdr m = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	struct cmsghdr *head = CMSG_FIRSTHDR(&m);
	int passed = memfd_create("payload", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	ssize_t n;

	if (passed < 0 || ftruncate(passed, MEMFD_SIZE))
		abort();
	if (how & 1)
		fcntl(passed, F_ADD_SEALS,
			F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE |
				F_SEAL_SEAL);
	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(head), &passed, sizeof(passed));
	n = sendmsg(fd, &m, MSG_NOSIGNAL);
	(void)n;
	close(passed);
}

static void
welcome(int fd)
{
	Eventd__V1__Frame frame = EVENTD__V1__FRAME__INIT;
	Eventd__V1__Welcome w = EVENTD__V1__WELCOME__INIT;
	char *features[] = {
		(char *)FEATURE_MEMFD, (char *)FEATURE_MEMFD_REPLIES};
	uint8_t data[256];

	w.version = 1;
	w.session = 1;
	w.max_frame = w.max_payload = 1 << 20;
	w.window_posts = 16;
	w.window_bytes = 1 << 20;
	w.max_memfd = 1 << 20;
	w.features = features;
	w.n_features = 2;
	frame.welcome = &w;
	data[0] = (uint8_t)eventd__v1__frame__get_packed_size(&frame);
	put(fd, data, 1 + eventd__v1__frame__pack(&frame, data + 1));
}

static struct evd *
handle_with(int fd)
{
	struct evd *c = evd_new();

	if (!c)
		abort();
	evd_set_socket(c, "/nonexistent/socket");
	evd_set_blocking(c, false);
	evd_set_timeout(c, 1);
	evd_set_max_queued(c, 65536);
	c->fd = fd;
	c->state = CONN_HELLO;
	c->due_ns = INT64_MAX;
	return c;
}

static void
make_busy(struct evd *c)
{
	struct evd_post_options opt = {
		.size = sizeof(opt), .flags = EVD_POST_NOTIFY};

	evd_bind_start(c, "one", 0, 0);
	evd_bind_start(c, "two", 2, 100);
	evd_resolve_start(c, "three");
	evd_cancel_start(c, 1);
	evd_ping_start(c);
	for (int i = 0; i < 4; i++) {
		evd_post_opt(c, "box", "event", "data", 4, &opt);
		evd_post(c, "box", "event", "data", 4);
		evd_call_start(c, "box", "event", "data", 4, 10);
	}
	c->sync.post = 3;
}

/* Posts until there is no room, and asks to be told of some. */
static void
fill_room(struct evd *c)
{
	struct evd_post_options opt = {
		.size = sizeof(opt), .flags = EVD_POST_TRY, .timeout_ms = 1};
	int64_t r = 0;

	for (int i = 0; i < 40 && r >= 0; i++)
		r = evd_post_opt(c, "box", "event", "data", 4, &opt);
	evd_want_room(c, 4);
	if (evd_bytes_pending(c) > 40 * 4 + 8 * 4)
		abort();
}

/* Touch every byte that the event shows. */
static size_t
look_at(const struct evd_event *ev)
{
	const char *data = evd_event_data(ev);
	struct evd_event *copy = evd_event_dup(ev);
	struct evd_header header;
	size_t sum = 0, name_size;

	for (size_t i = 0; i < evd_event_size(ev); i++)
		sum += (unsigned char)data[i];
	for (size_t i = 0; !evd_event_header_at(ev, i, &header, &name_size);
		i++)
		sum += (unsigned char)header.name[name_size - 1] + header.size;
	sum += strlen(evd_event_name(ev)) + strlen(evd_event_alias(ev)) +
	       strlen(evd_event_text(ev));
	if (copy) {
		if (evd_event_size(copy) != evd_event_size(ev) ||
			strcmp(evd_event_name(copy), evd_event_name(ev)) != 0 ||
			evd_event_n_headers(copy) != evd_event_n_headers(ev))
			abort();
		evd_event_free(copy);
	}
	return sum;
}

static void
act_on(struct evd *c, const struct evd_event *ev)
{
	if (evd_event_type(ev) == EVD_ROOM)
		fill_room(c);
	if (evd_event_type(ev) != EVD_DELIVERY)
		return;
	if (evd_event_call(ev) && evd_event_memfd(ev) >= 0)
		evd_reply_memfd(c, evd_event_call(ev), evd_event_memfd(ev),
			evd_event_size(ev));
	else if (evd_event_call(ev) && evd_event_size(ev) % 3 == 0)
		evd_reply(c, evd_event_call(ev), evd_event_data(ev),
			evd_event_size(ev));
	else if (evd_event_size(ev) % 3 == 1)
		evd_defer(c, ev);
	evd_settle(c, ev);
	if (evd_event_size(ev) == 7)
		evd_unbind_start(c, evd_event_binding(ev));
}

static void
take_events(struct evd *c, unsigned mode)
{
	const struct evd_event *ev;

	if (mode & MODE_PUMP)
		evd__pump(c);
	c->sync.done = false;
	while (evd_next(c, &ev) == 1) {
		size_t sum = look_at(ev);

		act_on(c, ev);
		if (mode & MODE_HOLD) {
			evd__pump(c);
			evd__read(c);
			if (look_at(ev) != sum)
				abort();
		}
		c->sync.done = false;
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fds[2];
	unsigned mode, piece;
	struct evd *c;

	if (size < 2 ||
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds))
		return 0;
	mode = data[0];
	piece = data[1] ? data[1] * 4u : 4096;
	c = handle_with(fds[0]);
	evd_set_manual_settle(c, mode & MODE_MANUAL);
	if (mode & MODE_ROOM)
		evd_set_window(c, 8, 64);
	if (mode & MODE_MEMFD)
		evd_set_memfd(c, true);
	if (mode & MODE_RECONNECT)
		evd_set_reconnect(c, 1, 1);
	if (mode & MODE_GREETED) {
		welcome(fds[1]);
		evd_process(c);
	}
	if (mode & MODE_BUSY)
		make_busy(c);
	if (mode & MODE_ROOM)
		fill_room(c);
	for (data += 2, size -= 2; size;) {
		size_t n = size < piece ? size : piece;

		if (mode & MODE_MEMFD)
			put_with_fd(fds[1], data, n, data[0]);
		else
			put(fds[1], data, n);
		data += n;
		size -= n;
		evd_process(c);
		take_events(c, mode);
	}
	close(fds[1]);
	evd_process(c);
	take_events(c, mode);
	evd_free(c);
	return 0;
}

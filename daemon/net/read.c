/* Reading from a connection: bytes to frames, within bounds. Everything here is
 * hostile until checked. See conn.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "frame.h"
#include "net/conn.h"
#include "net/landing.h"
#include "passing.h"

enum { HELLO_FRAME_MAX = 16384 };

/* A stranger gets no more room than a hello takes. */
static size_t
max_frame(const struct conn *c)
{
	if (c->state == CONN_GREETING)
		return HELLO_FRAME_MAX;
	return (size_t)c->loop->sched.kernel->limits.max_payload +
	       CONN_FRAME_SLACK;
}

static void
pause_input(struct conn *c)
{
	c->input_paused = true;
	loop_defer(c->loop, &c->flush); /* polls no more, and goes on then */
}

/* All whole frames in @data, until it must pause; returns the bytes taken. */
static size_t
take_frames(struct conn *c, const uint8_t *data, size_t size)
{
	size_t at = 0, head, body;
	int r = 0;

	while (conn_is_live(c) && at < size) {
		if (conn_must_pause(c)) {
			pause_input(c);
			break;
		}
		r = frame_take(
			data + at, size - at, max_frame(c), &head, &body);
		if (r)
			break;
		c->in_done =
			conn_on_frame(c, data + at + head, body, c->in_done);
		if (c->in_done < body)
			continue; /* paused in it, or ended */
		c->in_done = 0;
		at += head + body;
	}
	if (r == FRAME_E_MALFORMED)
		conn_end(c, EVD_STATUS_PROTOCOL,
			"a frame's length is no varint");
	else if (r == FRAME_E_TOO_LARGE)
		conn_end(c, EVD_STATUS_TOO_LARGE,
			"a frame is larger than %zu bytes", max_frame(c));
	return at;
}

/* Keep @size bytes of a frame that is not whole. */
static void
keep_rest(struct conn *c, const uint8_t *data, size_t size)
{
	if (!size || !conn_is_live(c) ||
		(!c->input_paused && landing_begin(c, data, size))) {
		c->in_size = 0;
		free(c->in);
		c->in = NULL;
		c->in_room = 0;
		return;
	}
	if (size > c->in_room) {
		uint8_t *in = realloc(c->in, size);

		if (!in) {
			conn_close(c, "out of memory");
			return;
		}
		c->in = in;
		c->in_room = size;
	}
	memmove(c->in, data, size);
	c->in_size = size;
}

ssize_t
conn_receive(struct conn *c, struct iovec *parts, size_t n_parts)
{
	struct msghdr m = {.msg_iov = parts, .msg_iovlen = n_parts};
	ssize_t n;

	if (c->passed)
		n = passed_receive(
			c->fd, parts, n_parts, MSG_DONTWAIT, c->passed);
	else if (n_parts == 1)
		n = recv(c->fd, parts->iov_base, parts->iov_len, MSG_DONTWAIT);
	else
		n = recvmsg(c->fd, &m, MSG_DONTWAIT);
	if (n < 0 && errno == EPROTO)
		conn_end(c, EVD_STATUS_PROTOCOL,
			"one descriptor a message, %d that wait at most",
			PASSED_MAX);
	else if (n == 0)
		conn_end_of_input(c);
	else if (n < 0 && errno != EAGAIN && errno != EINTR)
		conn_close(c, strerror(errno));
	return n;
}

static ssize_t
receive(struct conn *c, uint8_t *to, size_t size)
{
	struct iovec part = {to, size};

	return conn_receive(c, &part, 1);
}

/* A frame that does not fit the loop's buffer is read into one of its own,
 * which grows with what has come, not with what was promised. */
static void
read_large(struct conn *c)
{
	ssize_t n;

	if (c->in_room - c->in_size < LOOP_READ_SIZE / 2) {
		size_t room = c->in_room * 2;
		uint8_t *in = realloc(c->in, room);

		if (!in) {
			conn_close(c, "out of memory");
			return;
		}
		c->in = in;
		c->in_room = room;
	}
	n = receive(c, c->in + c->in_size, c->in_room - c->in_size);
	if (n <= 0)
		return;
	c->in_size += (size_t)n;
	n = (ssize_t)take_frames(c, c->in, c->in_size);
	if (n || !conn_is_live(c))
		keep_rest(c, c->in + n, c->in_size - (size_t)n);
}

void
conn_resume_input(struct conn *c)
{
	size_t taken;

	c->input_paused = false;
	if (!c->in_size)
		return;
	taken = take_frames(c, c->in, c->in_size);
	if (taken || !conn_is_live(c))
		keep_rest(c, c->in + taken, c->in_size - taken);
}

static void
read_some(struct conn *c)
{
	uint8_t *buffer = c->loop->read_buffer;
	size_t size = c->in_size, taken;
	ssize_t n;

	if (size > LOOP_READ_SIZE / 2) {
		read_large(c);
		return;
	}
	if (size)
		memcpy(buffer, c->in, size);
	n = receive(c, buffer + size, LOOP_READ_SIZE - size);
	if (n <= 0)
		return;
	size += (size_t)n;
	taken = take_frames(c, buffer, size);
	if (taken < size || c->in)
		keep_rest(c, buffer + taken, size - taken);
}

void
conn_read(struct conn *c)
{
	if (c->landing)
		landing_read(c);
	else
		read_some(c);
	if (c->passed && c->passed->n && !c->in_size && !c->landing)
		conn_end(c, EVD_STATUS_PROTOCOL,
			"a descriptor came, and no envelope that tells of it");
}

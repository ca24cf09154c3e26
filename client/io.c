/* Io: the output that gathers, the input that is walked in place, waiting.
 * Belongs to the thread that uses the handle. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "frame.h"
#include "internal.h"
#include "memfd.h"
#include "parts.h"
#include "status.h"

enum {
	OUT_FIRST = 4096,      /* of output, until there is more */
	IN_FIRST = 8192,       /* of input, until more comes at once */
	IN_ROOM = 65536,       /* a read is worth while with so much room */
	WAIT_MAX_MS = 3600000, /* then look again */
};

int
evd__io_init(struct evd *c)
{
	c->out.data = malloc(OUT_FIRST);
	c->in.data = malloc(IN_FIRST);
	if (!c->out.data || !c->in.data)
		return -ENOMEM;
	c->out.size = OUT_FIRST;
	c->out.mark = OUT_WRITE;
	c->in.size = IN_FIRST;
	return 0;
}

void
evd__io_deinit(struct evd *c)
{
	free(c->out.data);
	free(c->in.data);
	free(c->in.retired);
	evd__memfd_free(c);
}

/* Does the event that was given out, or will be, lie in the read buffer? */
static bool
in_is_borrowed(const struct evd *c)
{
	return !c->in.retired && (c->ready || c->given == &c->cur);
}

void
evd__io_reset(struct evd *c)
{
	struct inbuf *in = &c->in;

	evd__memfd_reset(c);
	c->out.head = c->out.tail = 0;
	c->out.open = false;
	c->out.mark = OUT_WRITE;
	c->write_dead = false;
	c->rcv_ms = -1;
	in->head = in->tail = in->cursor = in->frame_end = in->want = 0;
	if (in_is_borrowed(c)) {
		in->retired = in->data;
		in->data = NULL;
		in->size = 0;
	}
}

/* ---- output ---- */

/* End the frame that gathers: its length is now known. */
void
evd__out_close(struct evd *c)
{
	struct outbuf *out = &c->out;
	uint8_t *length = out->data + out->frame;
	size_t size = out->tail - out->frame - 2;

	if (!out->open)
		return;
	out->open = false;
	if (size >= 0x80) {
		length[0] = (uint8_t)(size | 0x80);
		length[1] = (uint8_t)(size >> 7);
	} else if (size) { /* a short length takes one byte, not two */
		length[0] = (uint8_t)size;
		memmove(length + 1, length + 2, size);
		out->tail--;
	} else {
		out->tail -= 2;
	}
}

static bool
out_grow(struct outbuf *out, size_t size)
{
	size_t used = out->tail - out->head;
	uint8_t *data;

	if (out->head) { /* what is written makes room */
		memmove(out->data, out->data + out->head, used);
		out->frame -= out->head;
		out->head = 0;
		out->tail = used;
	}
	if (out->size - used >= size)
		return true;
	data = realloc(out->data, used + size + out->size);
	if (!data)
		return false;
	out->data = data;
	out->size += used + size;
	return true;
}

static bool
out_reserve(struct evd *c, size_t size, bool force)
{
	struct outbuf *out = &c->out;

	if (LIKELY(out->size - out->tail >= size))
		return true;
	if (!force && evd__out_pending(c) + size > c->max_queued)
		return false;
	return out_grow(out, size);
}

uint8_t *
evd__out_room(struct evd *c, size_t size, bool force)
{
	evd__out_close(c);
	if (!out_reserve(c, size, force))
		return NULL;
	return c->out.data + c->out.tail;
}

uint8_t *
evd__out_gather_any(struct evd *c, size_t size, bool force)
{
	struct outbuf *out = &c->out;

	if (out->open && out->tail - out->frame - 2 + size > OUT_FRAME_MAX)
		evd__out_close(c);
	if (!out_reserve(c, size + 2, force))
		return NULL;
	if (!out->open) {
		out->frame = out->tail;
		out->tail += 2;
		out->open = true;
	}
	return out->data + out->tail;
}

int
evd__out_envelope(struct evd *c, const struct envelope *e, bool force)
{
	size_t room = envelope_bound(e) + 16;
	uint8_t *p;

	if (UNLIKELY(e->memfd_size))
		return evd__memfd_put(c, e);
	if (UNLIKELY(room > OUT_FRAME_MAX)) {
		p = evd__out_room(c, room, force);
		if (!p)
			return -EAGAIN;
		c->out.tail += envelope_encode_frame(e, p);
		return 0;
	}
	p = evd__out_gather(c, room, force);
	if (UNLIKELY(!p))
		return -EAGAIN;
	c->out.tail += envelope_encode_part(e, p);
	return 0;
}

int
evd__out_message(struct evd *c, unsigned field, const ProtobufCMessage *message,
	bool force)
{
	size_t size = protobuf_c_message_get_packed_size(message);
	size_t body = 1 + varint_size(size) + size;
	uint8_t *p =
		evd__out_room(c, size + PART_HEAD_MAX + FRAME_HEAD_MAX, force);

	if (!p)
		return -EAGAIN;
	p += varint_put(p, body);
	p += part_put_head(p, field, size);
	p += protobuf_c_message_pack(message, p);
	c->out.tail = (size_t)(p - c->out.data);
	return 0;
}

void
evd__write_stale(struct evd *c)
{
	int64_t now;

	if (!evd__out_pending(c) && !c->dirty)
		return;
	now = evd__coarse_ns();
	if (!c->gathered_ns) {
		c->gathered_ns = now;
	} else if (now != c->gathered_ns) {
		c->gathered_ns = 0;
		evd__settles_tell(c);
		evd__write(c);
	}
}

void
evd__write(struct evd *c)
{
	struct outbuf *out = &c->out;

	if (c->fd < 0 || c->write_dead)
		return;
	evd__out_close(c);
	while (out->head < out->tail) {
		ssize_t n;

		if (UNLIKELY(c->mem && c->mem->fd >= 0))
			n = evd__memfd_write(c);
		else
			n = send(c->fd, out->data + out->head,
				out->tail - out->head,
				MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == ENOBUFS)) {
			out->mark = evd__out_pending(c) + OUT_WRITE;
			return;
		}
		if (n < 0) { /* what was sent to us before can be read */
			c->write_dead = true;
			break;
		}
		out->head += (size_t)n;
	}
	out->head = out->tail = 0;
	out->mark = OUT_WRITE;
	c->gathered_ns = 0;
	if (UNLIKELY(c->room_wanted))
		evd__room_tell(c);
}

/* ---- input ---- */

static int
in_move(struct evd *c, size_t size)
{
	struct inbuf *in = &c->in;
	size_t used = in->tail - in->head;
	bool borrowed = in_is_borrowed(c);
	uint8_t *data;

	if (!borrowed && size <= in->size) {
		memmove(in->data, in->data + in->head, used);
	} else {
		data = malloc(size);
		if (!data)
			return -ENOMEM;
		if (used)
			memcpy(data, in->data + in->head, used);
		if (borrowed)
			in->retired = in->data;
		else
			free(in->data);
		in->data = data;
		in->size = size;
	}
	in->cursor -= in->head;
	in->frame_end -= in->head;
	in->head = 0;
	in->tail = used;
	return 0;
}

/* Make room for the rest of the frame, and for a good read. */
static int
in_prepare(struct evd *c)
{
	struct inbuf *in = &c->in;
	size_t used, need, room, size, usual = in->busy ? IN_SIZE : IN_FIRST;

	if (in->cursor == in->frame_end)
		in->head = in->frame_end;
	used = in->tail - in->head;
	need = in->want > used ? in->want - used : 1;
	room = in->size - in->tail;
	size = used + need > usual ? used + need : usual;

	if (!used && !in_is_borrowed(c)) {
		in->head = in->tail = in->cursor = in->frame_end = 0;
		room = in->size;
		if (in->size > IN_SIZE && size <= IN_SIZE) {
			free(in->data); /* the large frame is over */
			in->data = NULL;
			in->size = room = 0;
		}
	}
	if (room >= need && room >= usual / (IN_SIZE / IN_ROOM))
		return 0;
	if (room >= need && size > usual)
		return 0;
	return in_move(c, size);
}

static int
read_flags(struct evd *c, int flags)
{
	struct inbuf *in = &c->in;
	ssize_t n;

	if (in_prepare(c)) {
		evd__lost(c, EVD_STATUS_NO_MEMORY,
			"no memory to read what the daemon sent");
		return -ENOMEM;
	}
	if (c->write_dead)
		flags = MSG_DONTWAIT; /* only what is left */
	if (UNLIKELY(c->mem)) {
		struct iovec part = {in->data + in->tail, in->size - in->tail};

		n = passed_receive(c->fd, &part, 1, flags, &c->mem->in);
	} else {
		n = recv(
			c->fd, in->data + in->tail, in->size - in->tail, flags);
	}
	if (n > 0) {
		in->tail += (size_t)n;
		in->busy |= in->tail == in->size;
		return 1;
	}
	if (n < 0 && errno == EINTR)
		return -EINTR;
	if (n < 0 && errno == EAGAIN && !c->write_dead)
		return 0;
	if (n == 0 || c->write_dead)
		evd__lost(c,
			c->close_status ? c->close_status : EVD_STATUS_LOST,
			c->close_status ? c->close_text
					: "the daemon closed the connection");
	else
		evd__lost(c, EVD_STATUS_LOST, strerror(errno));
	return -EPIPE;
}

int
evd__read(struct evd *c)
{
	if (c->fd < 0)
		return 0;
	return read_flags(c, MSG_DONTWAIT);
}

/* ---- waiting ---- */

int
evd__sync_wait(struct evd *c, int64_t deadline, const char *what)
{
	for (;;) {
		evd__pump(c);
		if (c->sync.done)
			break;
		if (evd__block(c, deadline) == -ETIMEDOUT)
			return evd__fail(c, EVD_STATUS_TIMEOUT,
				"the daemon did not %s in time", what);
	}
	if (c->sync.status == EVD_STATUS_LOST)
		return evd__fail(c, EVD_STATUS_LOST,
			"the connection was lost; the outcome is unknown");
	return c->sync.status ? -status_errno(c->sync.status) : 0;
}

/* Milliseconds from now to @until, rounded up. */
static int
ms_until(int64_t until)
{
	int64_t ns;

	if (until == INT64_MAX)
		return WAIT_MAX_MS;
	ns = until - evd__now_ns();
	if (ns <= 0)
		return 0;
	ns = (ns + 999999) / 1000000;
	return ns > WAIT_MAX_MS ? WAIT_MAX_MS : (int)ns;
}

/* Wait for both directions, as nothing may stop the daemon from writing. */
static int
block_poll(struct evd *c, int ms)
{
	struct pollfd p = {.fd = c->fd, .events = POLLIN | POLLOUT};
	int r = poll(&p, c->fd >= 0, ms);

	if (r < 0)
		return errno == EINTR ? -EINTR : 0;
	if (r && p.revents & ~POLLOUT)
		r = evd__read(c);
	if (p.revents & POLLOUT)
		evd__write(c);
	return r == -EINTR ? r : 0;
}

/* One system call instead of poll and read. The time-out is set only when it
 * changes, so that calls with the same deadline pay for it once. */
static int
block_read(struct evd *c, int ms)
{
	struct timeval tv = {ms / 1000, ms % 1000 * 1000};
	int r;

	if (ms != c->rcv_ms) {
		if (setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)))
			return block_poll(c, ms);
		c->rcv_ms = ms;
	}
	r = read_flags(c, 0);
	return r == -EINTR ? r : 0;
}

/* Wait for what the socket and the clock have; all that could be written is. */
static int
wait_io(struct evd *c, int64_t deadline)
{
	int64_t until = deadline;
	int ms;

	if (c->state != CONN_READY && c->due_ns < until)
		until = c->due_ns;
	ms = ms_until(until);
	if (ms == 0) {
		if (c->state != CONN_READY && until == c->due_ns) {
			evd__step(c);
			return 0;
		}
		return -ETIMEDOUT;
	}
	if (c->fd < 0 || (evd__out_pending(c) && !c->write_dead))
		return block_poll(c, ms);
	return block_read(c, ms);
}

int
evd__block(struct evd *c, int64_t deadline)
{
	if (c->state == CONN_IDLE)
		return -ENOTCONN;
	evd__settles_tell(c);
	evd__write(c);
	return wait_io(c, deadline);
}

int
evd__block_write(struct evd *c, int64_t deadline)
{
	size_t before = evd__out_pending(c);

	if (c->state == CONN_IDLE)
		return -ENOTCONN;
	evd__write(c);
	if (evd__out_pending(c) < before)
		return 0;
	return wait_io(c, deadline);
}

int
evd__room_wait(struct evd *c, size_t size, int64_t deadline)
{
	uint32_t epoch = c->epoch;

	while (evd__out_pending(c) + size > c->max_queued &&
		evd__out_pending(c)) {
		int r;

		if (!c->blocking)
			return evd__fail(c, EVD_STATUS_FULL,
				"%zu bytes wait to be written: the limit of "
				"this program's evd_set_max_queued() is %zu",
				evd__out_pending(c), c->max_queued);
		evd__pump(c);
		r = evd__block_write(c, deadline);
		if (c->epoch != epoch)
			return evd__fail(
				c, EVD_STATUS_LOST, "the connection was lost");
		if (r == -ETIMEDOUT)
			return evd__fail(c, EVD_STATUS_TIMEOUT,
				"the daemon does not read: %zu bytes wait to "
				"be written",
				evd__out_pending(c));
	}
	return 0;
}

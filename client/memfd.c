/* Memfd: large payloads as descriptors beside the bytes of the socket, both
 * ways. What the daemon passes is as hostile as its bytes. Belongs to the
 * thread that uses the handle; a map to whoever has the events that use it. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "memfd.h"
#include "status.h"

struct map {
	_Atomic unsigned refs;
	void *bytes;
	size_t size;
	int fd;
};

/* ---- maps ---- */

struct map *
evd__map_ref(struct map *map)
{
	if (map)
		atomic_fetch_add_explicit(&map->refs, 1, memory_order_relaxed);
	return map;
}

struct map *
evd__map_unref(struct map *map)
{
	if (!map || atomic_fetch_sub_explicit(
			    &map->refs, 1, memory_order_acq_rel) != 1)
		return NULL;
	memfd_unmap(map->bytes, map->size);
	close(map->fd);
	free(map);
	return NULL;
}

size_t
evd__map_size(const struct map *map)
{
	return map ? map->size : 0;
}

int
evd_event_memfd(const struct evd_event *event)
{
	return event->map ? event->map->fd : -1;
}

/* ---- settings and the connection ---- */

int
evd_set_memfd(struct evd *c, bool use)
{
	EVD_CHECK(c);
	if (c->state != CONN_IDLE)
		return evd__fail_errno(c, EISCONN, "connected, or about to be");
	if (use == (c->mem != NULL))
		return 0;
	if (!use) {
		evd__memfd_free(c);
		return 0;
	}
	c->mem = calloc(1, sizeof(*c->mem));
	if (!c->mem)
		return evd__fail(c, EVD_STATUS_NO_MEMORY, "out of memory");
	c->mem->fd = -1;
	passed_init(&c->mem->in);
	return 0;
}

uint64_t
evd_max_memfd(const struct evd *c)
{
	return evd__is_foreign(c) || !c->mem ? 0 : c->mem->max_size;
}

void
evd__memfd_unstage(struct evd *c)
{
	if (c->mem->fd >= 0)
		close(c->mem->fd);
	c->mem->fd = -1;
}

void
evd__memfd_reset(struct evd *c)
{
	if (!c->mem)
		return;
	passed_clear(&c->mem->in);
	evd__memfd_unstage(c);
	c->mem->max_size = 0;
	c->mem->replies = false;
}

void
evd__memfd_free(struct evd *c)
{
	evd__memfd_reset(c);
	free(c->mem);
	c->mem = NULL;
}

void
evd__memfd_welcome(struct evd *c, const Eventd__V1__Welcome *w)
{
	if (!c->mem)
		return;
	c->mem->max_size = w->max_memfd < MEMFD_MAX ? w->max_memfd : MEMFD_MAX;
	for (size_t i = 0; i < w->n_features; i++)
		if (strcmp(w->features[i], FEATURE_MEMFD_REPLIES) == 0)
			c->mem->replies = true;
}

/* ---- going out ---- */

bool
evd__memfd_wants(const struct evd *c, const struct message *m)
{
	if (m->memfd)
		return true;
	return c->mem && m->size <= c->mem->max_size &&
	       (m->size > EVD_MEMFD_MIN || m->size > c->max_payload);
}

bool
evd__memfd_wants_reply(const struct evd *c, const struct message *m)
{
	return m->memfd ||
	       (c->mem && c->mem->replies && evd__memfd_wants(c, m));
}

/* The one before it has to be written first. */
static int
wait_for_other(struct evd *c, int64_t deadline)
{
	uint32_t epoch = c->epoch;

	while (c->mem->fd >= 0) {
		int r;

		evd__write(c);
		if (c->mem->fd < 0)
			break;
		if (!c->blocking)
			return evd__fail(c, EVD_STATUS_FULL,
				"a memfd waits to be written");
		evd__pump(c);
		r = evd__block_write(c, deadline);
		if (c->epoch != epoch)
			return evd__fail(
				c, EVD_STATUS_LOST, "the connection was lost");
		if (r == -ETIMEDOUT)
			return evd__fail(c, EVD_STATUS_TIMEOUT,
				"the daemon does not read: a memfd waits to "
				"be written");
	}
	return 0;
}

int
evd__memfd_stage(struct evd *c, const struct message *m, int64_t deadline)
{
	int r, fd;

	if (!evd_max_memfd(c))
		return evd__fail_errno(c, EOPNOTSUPP,
			"this connection passes no memfds: see "
			"evd_set_memfd(), MaxMemfd= in eventd.conf");
	if (m->size > c->mem->max_size)
		return evd__fail(c, EVD_STATUS_TOO_LARGE,
			"a memfd of %zu bytes is over the daemon's limit of "
			"%" PRIu64,
			m->size, c->mem->max_size);
	r = wait_for_other(c, deadline);
	if (r)
		return r;
	if (m->memfd)
		fd = fcntl(m->memfd - 1, F_DUPFD_CLOEXEC, 0);
	else
		fd = memfd_new(m->data, m->size);
	if (fd < 0)
		return evd__fail_errno(c, m->memfd ? errno : -fd,
			"no memfd can be made: %s",
			strerror(m->memfd ? errno : -fd));
	c->mem->fd = fd;
	return 0;
}

int
evd__memfd_put(struct evd *c, const struct envelope *e)
{
	uint8_t *p = evd__out_room(c, envelope_bound(e) + 16, true);

	if (!p) {
		evd__memfd_unstage(c);
		return -EAGAIN;
	}
	c->mem->before = evd__out_pending(c);
	c->out.tail += envelope_encode_frame(e, p);
	return 0;
}

ssize_t
evd__memfd_write(struct evd *c)
{
	struct outbuf *out = &c->out;
	size_t before = c->mem->before;
	struct iovec part = {
		out->data + out->head, before ? before : out->tail - out->head};
	ssize_t n = passed_send(c->fd, &part, 1, before ? -1 : c->mem->fd);

	if (n <= 0)
		return n;
	if (before) {
		c->mem->before -= (size_t)n;
	} else {
		evd__memfd_unstage(c); /* it is on its way */
	}
	return n;
}

/* What a program wants to pass. */
static int
offered(struct evd *c, int fd, size_t size)
{
	int r = size > MEMFD_MIN ? memfd_check(fd, size) : MEMFD_E_SIZE;

	if (!r)
		return 0;
	return evd__fail(c, EVD_STATUS_INVALID, "%s",
		size > MEMFD_MIN
			? memfd_error_text(r)
			: "payloads of up to 65536 bytes are no memfds");
}

int64_t
evd_post_memfd(struct evd *c, const char *alias, const char *event, int fd,
	size_t size, const struct evd_post_options *opt)
{
	int r;

	EVD_CHECK(c);
	r = offered(c, fd, size);
	if (r)
		return r;
	return evd__post_message(
		c, &(struct message){alias, 0, event, NULL, size, fd + 1}, opt);
}

int
evd_reply_memfd(struct evd *c, uint64_t call, int fd, size_t size)
{
	int r;

	EVD_CHECK(c);
	r = offered(c, fd, size);
	if (r)
		return r;
	if (c->state == CONN_READY && !(c->mem && c->mem->replies))
		return evd__fail_errno(c, EOPNOTSUPP,
			"this connection passes no memfds as replies: see "
			"evd_set_memfd(), MaxMemfd= in eventd.conf");
	return evd__reply_message(
		c, call, &(struct message){.size = size, .memfd = fd + 1});
}

/* ---- coming in ---- */

bool
evd__memfd_take(struct evd *c, struct evd_event *ev)
{
	int fd = c->mem ? passed_take(&c->mem->in) : -1;
	size_t size = ev->e.memfd_size;
	struct map *map = NULL;

	if (fd < 0)
		return false;
	if (size <= MEMFD_MAX && !memfd_check(fd, size))
		map = calloc(1, sizeof(*map));
	if (map)
		map->bytes = memfd_map(fd, size);
	if (!map || !map->bytes) {
		free(map);
		close(fd);
		return false;
	}
	atomic_init(&map->refs, 1);
	map->size = size;
	map->fd = fd;
	ev->map = map;
	ev->e.payload = map->bytes;
	ev->e.payload_size = (uint32_t)size;
	return true;
}

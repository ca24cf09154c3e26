/* Room: how much a poster may have under way, and being told of room. Belongs
 * to the thread that uses the handle. */
#include <errno.h>
#include <stdlib.h>

#include "internal.h"
#include "passing.h"
#include "sequence.h"

enum { RING_FIRST = 64 }; /* posts */

static uint64_t
less(uint64_t granted, uint64_t own)
{
	return own && own < granted ? own : granted;
}

void
evd__window_bound(struct evd *c)
{
	struct window *w = &c->win;

	w->max_posts = less(less(w->granted_posts, c->own_posts), w->mask + 1);
	w->max_bytes = less(w->granted_bytes, c->own_bytes);
}

/* ---- the ring of posts in flight ---- */

/* Twice the room of the ring, up to what was granted. Few connections ever have
 * a window of posts in flight, and each would pay for it when it is made. */
static int
ring_grow(struct window *w)
{
	uint64_t n = w->ring ? (w->mask + 1) * 2 : RING_FIRST;
	uint32_t *ring = malloc(n * sizeof(*ring));

	if (!ring)
		return -ENOMEM;
	for (uint64_t seq = w->acked + 1; seq < w->next; seq++)
		ring[seq & (n - 1)] = w->ring[seq & w->mask];
	free(w->ring);
	w->ring = ring;
	w->mask = n - 1;
	return 0;
}

void
evd__window_grow(struct evd *c)
{
	struct window *w = &c->win;

	/* out of memory: it waits for acks, as behind a full window */
	if (w->next - w->acked <= w->mask + 1 ||
		w->mask + 1 >= w->granted_posts || ring_grow(w))
		return;
	if (w->max_posts) /* else it is shut */
		evd__window_bound(c);
}

int
evd__window_open(struct evd *c, uint64_t posts, uint64_t bytes)
{
	struct window *w = &c->win;

	w->next = 1;
	w->acked = 0;
	w->n = w->bytes = 0;
	if (!w->ring && ring_grow(w))
		return -ENOMEM;
	w->granted_posts = posts > WINDOW_MAX ? WINDOW_MAX : posts;
	w->granted_bytes = bytes;
	evd__window_bound(c);
	return 0;
}

void
evd__window_grant(struct evd *c, uint64_t posts, uint64_t bytes)
{
	struct window *w = &c->win;

	if (!posts || !bytes || !w->granted_posts)
		return;
	w->granted_posts = posts > WINDOW_MAX ? WINDOW_MAX : posts;
	w->granted_bytes = bytes;
	if (w->max_posts) /* else it is shut */
		evd__window_bound(c);
	evd__sequence_resend(c);
	evd__room_tell(c);
}

void
evd__window_deinit(struct evd *c)
{
	free(c->win.ring);
}

/* ---- for programs ---- */

int
evd_set_window(struct evd *c, uint64_t posts, uint64_t bytes)
{
	EVD_CHECK(c);
	c->own_posts = posts;
	c->own_bytes = bytes;
	evd__window_bound(c);
	evd__room_tell(c);
	return 0;
}

uint64_t
evd_bytes_pending(const struct evd *c)
{
	return evd__is_foreign(c) ? 0 : c->win.bytes;
}

static bool
has_room(struct evd *c, size_t size)
{
	evd__window_grow(c);
	return c->state == CONN_READY && evd__window_has_room(&c->win, size) &&
	       evd__out_pending(c) + size <= c->max_queued / 2;
}

int
evd_want_room(struct evd *c, size_t size)
{
	EVD_CHECK(c);
	if (c->state == CONN_IDLE)
		return evd__fail_errno(c, ENOTCONN, "not connected");
	if (size > MEMFD_MAX)
		return evd__size_failed(c, size);
	evd__write(c);
	evd__pump(c);
	if (has_room(c, size))
		return 1;
	c->room_wanted = size + 1;
	return 0;
}

void
evd__room_tell(struct evd *c)
{
	struct evd_event ev;

	if (!c->room_wanted || !has_room(c, c->room_wanted - 1))
		return;
	c->room_wanted = 0;
	evd__event_init(c, &ev, EVD_ROOM);
	evd__event_queue(c, &ev, true);
}

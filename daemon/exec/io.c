#include "exec/io.h"

#include <errno.h>
#include <stddef.h>
#include <unistd.h>

#include "base/err.h"

int
io_init(struct io *io)
{
	list_init(&io->fresh);
	list_init(&io->graves);
	io->fd = epoll_create1(EPOLL_CLOEXEC);
	return io->fd < 0 ? err_raise(-errno) : 0;
}

void
io_deinit(struct io *io)
{
	io_bury(io);
	if (io->fd >= 0)
		close(io->fd);
	io->fd = -1;
}

static void
not_fresh(struct io_watch *w)
{
	list_remove(&w->link);
	w->fresh = 0;
	w->events = 0;
}

int
io_want(struct io *io, struct io_watch *w, uint32_t events)
{
	struct epoll_event e = {.events = events, .data.ptr = w};
	int op = EPOLL_CTL_MOD;

	if (w->fresh && events) {
		w->events = events;
		return 0;
	}
	if (w->fresh)
		not_fresh(w);
	if (events == w->events)
		return 0;
	if (!events)
		op = EPOLL_CTL_DEL; /* else hang-ups would be told */
	else if (!w->events)
		op = EPOLL_CTL_ADD;
	if (epoll_ctl(io->fd, op, w->fd, &e))
		return err_raise(-errno);
	w->events = events;
	return 0;
}

void
io_end(struct io *io, struct io_watch *w, void (*bury)(struct io_watch *))
{
	io_want(io, w, 0);
	w->events = 0;
	w->bury = bury;
	list_append(&io->graves, &w->link);
}

void
io_bury(struct io *io)
{
	LIST_FOREACH (node, &io->graves) {
		struct io_watch *w = container_of(node, struct io_watch, link);

		list_remove(node);
		w->bury(w);
	}
}

void
io_want_soon(struct io *io, struct io_watch *w, uint32_t events)
{
	w->events = events;
	w->fresh = IO_LOOKS;
	list_append(&io->fresh, &w->link);
}

static void
settle(struct io *io, struct io_watch *w)
{
	uint32_t events = w->events;

	not_fresh(w);
	if (io_want(io, w, events))
		w->run(w, 0);
}

void
io_settle(struct io *io)
{
	while (!list_is_empty(&io->fresh))
		settle(io, container_of(io->fresh.next, struct io_watch, link));
}

int
io_wait(struct io *io, int ms)
{
	int n = epoll_wait(io->fd, io->batch, IO_BATCH, ms);

	return n < 0 ? 0 : n; /* a signal: as if nothing had come */
}

static void
look_at_fresh(struct io *io)
{
	struct list seen;

	list_init(&seen);
	while (!list_is_empty(&io->fresh)) {
		struct io_watch *w =
			container_of(io->fresh.next, struct io_watch, link);

		list_remove(&w->link);
		list_append(&seen, &w->link);
		w->run(w, w->events);
		if (w->fresh && !--w->fresh)
			settle(io, w);
	}
	while (!list_is_empty(&seen)) {
		struct list *node = seen.next;

		list_remove(node);
		list_append(&io->fresh, node);
	}
}

void
io_run(struct io *io, int n)
{
	for (int i = 0; i < n; i++) {
		struct io_watch *w = io->batch[i].data.ptr;
		uint32_t events = io->batch[i].events;

		if (events & (EPOLLERR | EPOLLHUP))
			events |= w->events;
		events &= w->events; /* it may have ended in this batch */
		if (events)
			w->run(w, events);
	}
	look_at_fresh(io);
}

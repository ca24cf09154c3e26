#include "exec/io.h"

#include <errno.h>
#include <stddef.h>
#include <unistd.h>

#include "base/err.h"

int
io_init(struct io *io)
{
	io->graves = NULL;
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

int
io_want(struct io *io, struct io_watch *w, uint32_t events)
{
	struct epoll_event e = {.events = events, .data.ptr = w};
	int op = EPOLL_CTL_MOD;

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
	w->next = io->graves;
	io->graves = w;
}

void
io_bury(struct io *io)
{
	struct io_watch *w = io->graves, *next;

	io->graves = NULL;
	for (; w; w = next) {
		next = w->next;
		w->bury(w);
	}
}

int
io_wait(struct io *io, int ms)
{
	int n = epoll_wait(io->fd, io->batch, IO_BATCH, ms);

	return n < 0 ? 0 : n; /* a signal: as if nothing had come */
}

void
io_run(struct io *io, int n)
{
	for (int i = 0; i < n; i++) {
		struct io_watch *w = io->batch[i].data.ptr;
		uint32_t events = io->batch[i].events;

		if (events & (EPOLLERR | EPOLLHUP))
			events |= EPOLLIN | EPOLLOUT;
		events &= w->events; /* it may have ended in this batch */
		if (events)
			w->run(w, events);
	}
}

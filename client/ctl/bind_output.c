/* Output of bind: what is printed is gathered in memory and then written in
 * pieces that a pipe takes without making us wait, so that a reader who does
 * not read keeps us from nothing: signals still end us. See bind.h. One
 * thread. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bind.h"

int
bind_output_init(struct bind *b)
{
	FILE *f = open_memstream(&b->text, &b->size);

	if (!f)
		return ctl_fail(b->ctl, EVD_STATUS_NO_MEMORY, "out of memory");
	b->out = b->ctl->out;
	b->ctl->out = f;
	json_init(&b->ctl->json, f);
	return 0;
}

void
bind_output_deinit(struct bind *b)
{
	if (!b->out)
		return;
	fclose(b->ctl->out);
	b->ctl->out = b->out;
	json_init(&b->ctl->json, b->out);
	b->out = NULL;
	free(b->text);
	b->text = NULL;
}

/* Until @fd takes a piece; false: a signal is to end us first. */
static bool
wait_writable(struct bind *b, int fd)
{
	struct pollfd fds[2] = {
		{.fd = fd, .events = POLLOUT},
		{.fd = b->signal_fd, .events = POLLIN},
	};

	while (!b->stop_signal) {
		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			return true; /* the write will say why */
		if (fds[0].revents)
			return true;
		if (fds[1].revents)
			bind_signals_read(b);
	}
	return false;
}

static int
fail_write(struct bind *b, int err)
{
	if (err == EPIPE)
		return CTL_EXIT_PIPE;
	b->ctl->as_json = false; /* there is nowhere to write it */
	return ctl_fail(b->ctl, EVD_STATUS_IO, "cannot write the output: %s",
		strerror(err));
}

int
bind_output_flush(struct bind *b)
{
	int fd = fileno(b->out);
	size_t piece;
	ssize_t n;

	if (fflush(b->ctl->out) != 0)
		return ctl_fail(b->ctl, EVD_STATUS_NO_MEMORY, "out of memory");
	for (size_t at = 0; at < b->size;) {
		if (!wait_writable(b, fd))
			break;
		piece = b->size - at < PIPE_BUF ? b->size - at : PIPE_BUF;
		n = write(fd, b->text + at, piece);
		if (n < 0 && errno != EINTR && errno != EAGAIN)
			return fail_write(b, errno);
		at += n > 0 ? (size_t)n : 0;
	}
	rewind(b->ctl->out);
	return 0;
}

/* Signals of bind: see bind.h. One thread. */
#include <errno.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "bind.h"

/* One that is ignored, as by nohup, stays so. */
static void
add_unless_ignored(sigset_t *set, int number)
{
	struct sigaction action;

	if (sigaction(number, NULL, &action) == 0 &&
		action.sa_handler == SIG_IGN)
		return;
	sigaddset(set, number);
}

int
bind_signals_init(struct bind *b)
{
	struct sigaction action = {.sa_handler = SIG_DFL};
	sigset_t set;

	sigemptyset(&set);
	add_unless_ignored(&set, SIGINT);
	add_unless_ignored(&set, SIGTERM);
	add_unless_ignored(&set, SIGHUP);
	sigaddset(&set, SIGCHLD);
	/* who ignores it cannot wait for its children */
	sigaction(SIGCHLD, &action, NULL);
	if (sigprocmask(SIG_BLOCK, &set, &b->old_mask) < 0)
		return -errno;
	b->signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	return b->signal_fd < 0 ? -errno : 0;
}

void
bind_signals_deinit(struct bind *b)
{
	if (b->signal_fd < 0)
		return;
	close(b->signal_fd);
	b->signal_fd = -1;
	sigprocmask(SIG_SETMASK, &b->old_mask, NULL);
}

bool
bind_signals_read(struct bind *b)
{
	struct signalfd_siginfo info;
	bool child = false;

	while (read(b->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGCHLD)
			child = true;
		else
			b->stop_signal = (int)info.ssi_signo;
	}
	return child;
}

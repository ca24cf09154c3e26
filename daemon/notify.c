#include "notify.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <systemd/sd-daemon.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"

void
notify_ready(const char *status)
{
	sd_notifyf(0, "READY=1\nSTATUS=%s", status);
}

void
notify_status(const char *status)
{
	sd_notifyf(0, "STATUS=%s", status);
}

/* The time makes it safe with Type=notify-reload: the manager knows whether
 * this or an older READY=1 answers its signal. */
void
notify_reloading(void)
{
	sd_notifyf(0,
		"RELOADING=1\nMONOTONIC_USEC=%" PRIu64
		"\nSTATUS=reading the configuration",
		clock_now(&clock_system) / NS_PER_US);
}

void
notify_stopping(void)
{
	sd_notify(0, "STOPPING=1\nSTATUS=handling what is queued");
}

void
notify_watchdog(void)
{
	sd_notify(0, "WATCHDOG=1");
}

void
notify_failed(int error, const char *status)
{
	sd_notifyf(0, "STATUS=%s\nERRNO=%d", status, error);
}

uint64_t
notify_watchdog_us(void)
{
	uint64_t us = 0;
	int r = sd_watchdog_enabled(0, &us); /* it compares WATCHDOG_PID */

	if (r < 0)
		log_warn("watchdog.ignored",
			"errno=%d reason=\"WATCHDOG_USEC "
			"or WATCHDOG_PID is no number\"",
			-r);
	return r > 0 ? us : 0;
}

static void
names_free(char **names, int n)
{
	for (int i = 0; names && i < n; i++)
		free(names[i]);
	free(names);
}

int
notify_sockets(int fds[])
{
	char **names = NULL;
	int n = sd_listen_fds_with_names(1, &names), taken = 0;

	if (n < 0)
		return err_raise(n);
	for (int i = 0; i < n; i++) {
		int fd = SD_LISTEN_FDS_START + i;

		if (taken < NOTIFY_SOCKETS_MAX &&
			sd_is_socket_unix(fd, SOCK_STREAM, 1, NULL, 0) > 0) {
			fds[taken++] = fd;
			continue;
		}
		log_warn("socket.ignored",
			"fd=%d name=%s reason=\"it is not a Unix stream socket "
			"that listens, or there are over %d\"",
			fd, names[i], NOTIFY_SOCKETS_MAX);
		close(fd);
	}
	names_free(names, n);
	return n > 0 && taken == 0 ? err_raise(-ENOTSOCK) : taken;
}

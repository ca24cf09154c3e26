#pragma once
/* What the service manager is told and what it passes: readiness, status,
 * sockets. Without one all of it does nothing. Any thread. */
#include <stdbool.h>
#include <stdint.h>

enum { NOTIFY_SOCKETS_MAX = 16 };

void notify_ready(const char *status);
void notify_status(const char *status);
void notify_reloading(void);
void notify_stopping(void);
void notify_watchdog(void);
/* The start has failed with @error (an errno) for the reason @status. */
void notify_failed(int error, const char *status);

/* How often a sign of life is wanted, in microseconds; 0: not from us. */
uint64_t notify_watchdog_us(void);

/**
 * notify_sockets() - take the listening sockets that were passed
 * @fds: NOTIFY_SOCKETS_MAX of room; Unix stream sockets that listen, the
 *       caller's from now on. Other descriptors are closed, with a warning.
 *
 * Removes the variables that told of them.
 *
 * Return: how many; 0 if none were passed; negative errno if they cannot be
 * taken, -ENOTSOCK if some were passed and none is such a socket.
 */
int notify_sockets(int fds[]);

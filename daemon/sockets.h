#pragma once
/* Sockets: where clients come in. Those that the service manager passes, or
 * else one of our own, guarded by a lock against a second daemon. The main
 * thread. */
#include <stddef.h>

#include "notify.h"

struct config;

struct sockets {
	int fds[NOTIFY_SOCKETS_MAX];
	unsigned n;
	const char *path; /* of our own, the configuration's; NULL: passed */
	char *lock_path;
	int lock_fd;
};

/**
 * sockets_open() - find the sockets to listen on
 * @config: kept until sockets_close()
 * @why:    on failure: what, where and what to do
 *
 * Return: 0 or negative errno.
 */
int sockets_open(
	struct sockets *s, const struct config *config, char *why, size_t size);
/* The descriptors that are left, and the lock. */
void sockets_close(struct sockets *s);

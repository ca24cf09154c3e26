#include "sockets.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "config.h"
#include "net/listener.h"

/* ---- the lock ---------------------------------------------------------- */

/* The locked file is still the one at its path: its holder may have removed
 * it between our open and our lock. */
static bool
lock_is_current(const struct sockets *s)
{
	struct stat ours, there;

	return fstat(s->lock_fd, &ours) == 0 &&
	       lstat(s->lock_path, &there) == 0 &&
	       ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
}

/* 1: locked; 0: try again. */
static int
lock_try(struct sockets *s)
{
	int r;

	s->lock_fd = open(s->lock_path,
		O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	if (s->lock_fd < 0)
		return err_raise(-errno);
	if (flock(s->lock_fd, LOCK_EX | LOCK_NB) == 0 && lock_is_current(s))
		return 1;
	r = errno == EWOULDBLOCK ? -EWOULDBLOCK : 0;
	close(s->lock_fd);
	s->lock_fd = -1;
	return r ? err_raise(r) : 0;
}

static int
lock_take(struct sockets *s, char *why, size_t size)
{
	int r;

	if (asprintf(&s->lock_path, "%s.lock", s->path) < 0) {
		s->lock_path = NULL;
		return err_raise(-ENOMEM);
	}
	do {
		errno = 0;
		r = lock_try(s);
	} while (r == 0);
	if (r == -EWOULDBLOCK)
		snprintf(why, size,
			"another eventd holds %s; stop it, or give another "
			"--socket",
			s->lock_path);
	else if (r < 0)
		snprintf(why, size, "%s cannot be made: %s", s->lock_path,
			strerror(-r));
	return r < 0 ? err_pass(r) : 0;
}

static void
lock_drop(struct sockets *s)
{
	if (s->lock_fd >= 0) {
		unlink(s->lock_path);
		close(s->lock_fd);
	}
	s->lock_fd = -1;
	free(s->lock_path);
	s->lock_path = NULL;
}

/* ---- our own ----------------------------------------------------------- */

static const char *
type_word(const char *path)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		return "something else";
	if (S_ISLNK(st.st_mode))
		return "a symbolic link";
	if (S_ISDIR(st.st_mode))
		return "a directory";
	return S_ISREG(st.st_mode) ? "a file" : "something else";
}

static int
open_failed(const char *path, int r, char *why, size_t size)
{
	switch (r) {
	case LISTENER_E_IN_USE:
		snprintf(why, size,
			"another eventd answers on %s; stop it, or give "
			"another --socket",
			path);
		return err_raise(-EADDRINUSE);
	case LISTENER_E_NOT_SOCKET:
		snprintf(why, size,
			"there is %s at %s; remove it, or give another "
			"--socket",
			type_word(path), path);
		return err_raise(-EEXIST);
	case LISTENER_E_TOO_LONG:
		snprintf(why, size, "%s has %zu bytes, a socket at most %d",
			path, strlen(path), CONFIG_SOCKET_MAX);
		return err_raise(-ENAMETOOLONG);
	default:
		snprintf(
			why, size, "%s cannot be made: %s", path, strerror(-r));
		return err_pass(r);
	}
}

/* The directory of a default place is made; those of others are the
 * administrator's. */
static int
directory_make(const struct config *c, char *why, size_t size)
{
	char *dir = strdup(c->socket), *slash = dir ? strrchr(dir, '/') : NULL;
	int r = dir ? 0 : err_raise(-ENOMEM);

	if (slash) {
		*slash = '\0';
		if (mkdir(dir, c->user ? 0700 : 0755) < 0 && errno != EEXIST)
			r = err_raise(-errno);
	}
	if (r)
		snprintf(why, size, "%s cannot be made: %s",
			dir ? dir : c->socket, strerror(-r));
	free(dir);
	return r;
}

static int
own_open(struct sockets *s, const struct config *c, char *why, size_t size)
{
	int r = 0;

	s->path = c->socket;
	if (c->socket_is_default)
		r = directory_make(c, why, size);
	if (!r)
		r = lock_take(s, why, size);
	if (r)
		return err_pass(r);
	r = listener_open(s->path, (mode_t)c->socket_mode, &s->fds[0]);
	if (r)
		return open_failed(s->path, r, why, size);
	s->n = 1;
	return 0;
}

int
sockets_open(struct sockets *s, const struct config *c, char *why, size_t size)
{
	int n;

	*s = (struct sockets){.lock_fd = -1};
	snprintf(why, size, "out of memory");
	n = notify_sockets(s->fds);
	if (n == 0)
		return own_open(s, c, why, size);
	if (n > 0) {
		s->n = (unsigned)n;
		return 0;
	}
	snprintf(why, size,
		"the sockets that were passed cannot be used: %s; each must "
		"be a Unix stream socket (ListenStream=/PATH, Accept=no)",
		strerror(-n));
	return err_pass(n);
}

void
sockets_close(struct sockets *s)
{
	for (unsigned i = 0; i < s->n; i++)
		close(s->fds[i]);
	s->n = 0;
	lock_drop(s);
}

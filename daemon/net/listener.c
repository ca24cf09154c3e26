#include "net/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/list.h"
#include "base/log.h"

enum {
	LISTENER_BACKLOG = 1024,
	LISTENER_BATCH = 64,     /* accepted in one go */
	LISTENER_PAUSE_MS = 100, /* after EMFILE */
	LISTENER_TELL_MS = 30000,
};

/* ---- the socket file --------------------------------------------------- */

static int
socket_new(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	return fd < 0 ? err_raise(-errno) : fd;
}

/* Is somebody listening there? A dead socket refuses. */
static bool
is_answered(const struct sockaddr_un *address)
{
	int fd = socket_new();
	bool answered;

	if (fd < 0)
		return true; /* cannot tell: leave it alone */
	answered = !connect(fd, (const struct sockaddr *)address,
			   sizeof(*address)) ||
		   errno != ECONNREFUSED;
	close(fd);
	return answered;
}

/* Make room at the path: only a dead socket is taken away, links are not
 * followed. */
static int
clear_path(const struct sockaddr_un *address)
{
	struct stat st;

	if (lstat(address->sun_path, &st))
		return errno == ENOENT ? 0 : err_raise(-errno);
	if (!S_ISSOCK(st.st_mode))
		return LISTENER_E_NOT_SOCKET;
	if (is_answered(address))
		return LISTENER_E_IN_USE;
	if (unlink(address->sun_path) && errno != ENOENT)
		return err_raise(-errno);
	return 0;
}

int
listener_open(const char *path, mode_t mode, int *out)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	mode_t old;
	int fd, r;

	if (!*path) /* would be an abstract address */
		return err_raise(-EINVAL);
	if (strlen(path) >= sizeof(address.sun_path))
		return LISTENER_E_TOO_LONG;
	memcpy(address.sun_path, path, strlen(path) + 1);
	r = clear_path(&address);
	if (r)
		return r;
	fd = socket_new();
	if (fd < 0)
		return err_pass(fd);
	old = umask(0777 & ~mode); /* never open to more than asked */
	r = bind(fd, (struct sockaddr *)&address, sizeof(address)) ? -errno : 0;
	umask(old);
	if (!r && listen(fd, LISTENER_BACKLOG))
		r = -errno;
	if (r) {
		close(fd);
		return r == -EADDRINUSE ? LISTENER_E_IN_USE : err_raise(r);
	}
	*out = fd;
	return 0;
}

/* ---- accepting --------------------------------------------------------- */

struct handover {
	struct sched_task task;
	int fd;
};

static void
take_over(struct sched *s, struct sched_task *task)
{
	struct handover *h = (struct handover *)task;
	int r = conn_open(loop_of(s), h->fd);

	if (r)
		log_err("conn.failed", "errno=%d", -r);
	free(h);
}

static void
deal_out(struct listener *l, int fd)
{
	struct loop *here = &l->loops[0];
	struct loop *target = &l->loops[l->next++ % l->n_loops];
	struct handover *h;
	int r;

	if (target == here) {
		r = conn_open(here, fd);
		if (r)
			log_err("conn.failed", "errno=%d", -r);
		return;
	}
	h = calloc(1, sizeof(*h));
	if (!h) {
		close(fd);
		atomic_fetch_sub(&l->server->shared.n_connections, 1);
		return;
	}
	h->task.run = take_over;
	h->fd = fd;
	sched_run_on(&here->sched, &target->sched, &h->task);
}

static void listener_on_pause(uv_timer_t *timer);

/* At the first time, and then seldom, however often it rests. */
static void
tell_pause(struct listener *l, int err)
{
	uint64_t now = uv_now(l->pause.loop);

	l->n_pauses++;
	if (l->told_ms && now - l->told_ms < LISTENER_TELL_MS)
		return;
	log_err("listener.paused",
		"errno=%d reason=\"%s\" connections=%" PRIu32 " times=%" PRIu32
		" hint=\"raise LimitNOFILE=\"",
		err, strerror(err),
		atomic_load(&l->server->shared.n_connections), l->n_pauses);
	l->told_ms = now;
	l->n_pauses = 0;
}

/* No descriptor is left: the kernel would tell again and again. Take one
 * caller off the queue by the spare one, and rest. */
static void
run_dry(struct listener *l, int err)
{
	tell_pause(l, err);
	if (l->spare_fd >= 0) {
		int fd;

		close(l->spare_fd);
		fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC);
		if (fd >= 0)
			close(fd);
		l->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	}
	io_want(&l->loops[0].io, &l->watch, 0);
	uv_timer_start(&l->pause, listener_on_pause, LISTENER_PAUSE_MS, 0);
}

static void
listener_on_pause(uv_timer_t *timer)
{
	struct listener *l = timer->data;

	if (l->closing || !io_want(&l->loops[0].io, &l->watch, EPOLLIN))
		return;
	uv_timer_start(&l->pause, listener_on_pause, LISTENER_PAUSE_MS, 0);
}

static void
accepted(struct listener *l, int fd)
{
	uint32_t n = atomic_fetch_add(&l->server->shared.n_connections, 1);

	if (n < l->server->max_connections) {
		deal_out(l, fd);
		return;
	}
	log_warn("listener.full",
		"connections=%" PRIu32
		" hint=\"MaxConnections= in eventd.conf\"",
		n);
	atomic_fetch_sub(&l->server->shared.n_connections, 1);
	conn_turn_away(fd, EVD_STATUS_LIMIT,
		"MaxConnections= of eventd.conf is reached");
}

static int
accept_one(struct listener *l)
{
	if (FAULT(accept)) {
		errno = EMFILE;
		return -1;
	}
	return accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

static void
listener_on_io(struct io_watch *w, uint32_t events)
{
	struct listener *l = container_of(w, struct listener, watch);

	(void)events;
	for (int i = 0; i < LISTENER_BATCH; i++) {
		int fd = accept_one(l);

		if (fd >= 0) {
			accepted(l, fd);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
			errno == ENOMEM)
			run_dry(l, errno);
		else if (errno == ECONNABORTED || errno == EINTR)
			continue;
		return;
	}
}

/* ---- life -------------------------------------------------------------- */

/* The file at its path is ours. */
static void
note_path(struct listener *l, const char *path)
{
	struct stat st;

	l->own = path && strlen(path) < sizeof(l->path) && !lstat(path, &st);
	if (!l->own)
		return;
	memmove(l->path, path, strlen(path) + 1);
	l->dev = st.st_dev;
	l->ino = st.st_ino;
}

int
listener_start(struct listener *l, struct loop *loops, unsigned n_loops,
	struct server *server, int fd, const char *path)
{
	int r;

	memset(l, 0, sizeof(*l));
	l->loops = loops;
	l->n_loops = n_loops;
	l->server = server;
	l->fd = fd;
	l->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	note_path(l, path);
	if (fcntl(fd, F_SETFL, O_NONBLOCK) || fcntl(fd, F_SETFD, FD_CLOEXEC))
		return err_raise(-errno);
	uv_timer_init(&loops[0].uv, &l->pause);
	l->pause.data = l;
	l->watch.fd = fd;
	l->watch.run = listener_on_io;
	r = io_want(&loops[0].io, &l->watch, EPOLLIN);
	return err_pass(r);
}

void
listener_renew(struct listener *l, mode_t mode)
{
	struct stat st;
	int r, fd;

	if (!l->own || l->closing || !lstat(l->path, &st) || errno != ENOENT)
		return;
	r = listener_open(l->path, mode, &fd);
	if (r) {
		log_err("listener.lost",
			"path=\"%s\" status=%d reason=\"it was removed and "
			"cannot be made again\"",
			l->path, r);
		return;
	}
	log_warn("listener.renewed",
		"path=\"%s\" reason=\"somebody had removed it\"", l->path);
	io_want(&l->loops[0].io, &l->watch, 0);
	close(l->fd);
	l->fd = l->watch.fd = fd;
	note_path(l, l->path);
	if (io_want(&l->loops[0].io, &l->watch, EPOLLIN))
		uv_timer_start(
			&l->pause, listener_on_pause, LISTENER_PAUSE_MS, 0);
}

static void
listener_on_closed(uv_handle_t *handle)
{
	struct listener *l = handle->data;

	l->closed = true;
}

/* The file, if it is still ours: another daemon may have taken its place. */
static void
remove_path(struct listener *l)
{
	struct stat st;

	if (l->own && !lstat(l->path, &st) && st.st_dev == l->dev &&
		st.st_ino == l->ino)
		unlink(l->path);
	l->own = false;
}

void
listener_close(struct listener *l)
{
	if (l->closing)
		return;
	l->closing = true;
	remove_path(l);
	io_want(&l->loops[0].io, &l->watch, 0);
	close(l->fd);
	if (l->spare_fd >= 0)
		close(l->spare_fd);
	uv_close((uv_handle_t *)&l->pause, listener_on_closed);
}

bool
listener_is_closed(const struct listener *l)
{
	return l->closed;
}

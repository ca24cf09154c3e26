/* Handle: making one, its settings and its errors.
 * Belongs to the thread that uses the handle. */
#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "internal.h"
#include "sequence.h"
#include "status.h"

enum { QUEUED_MIN = 65536, QUEUED_DEFAULT = 16 << 20, TIMEOUT_MS = 30000 };

/* ---- which process this is ---- */

/* The one thing that all handles of a process share: a page that holds its
 * number and reads 0 in a forked child, so that no call has to ask for the pid.
 * Where the kernel cannot do that, calls ask. Any thread; never unmapped. */
static struct {
	_Atomic(_Atomic uint32_t *) page;
	_Atomic bool asks;
	_Atomic uint32_t last; /* number that was given; a child keeps it */
} process;

static _Atomic uint32_t *
process_page(void)
{
	_Atomic uint32_t *page = atomic_load(&process.page), *other = NULL;
	size_t size = (size_t)sysconf(_SC_PAGESIZE);

	if (page)
		return page;
	page = mmap(NULL, size, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		return NULL;
	if (madvise((void *)page, size, MADV_WIPEONFORK))
		atomic_store(&process.asks, true);
	if (atomic_compare_exchange_strong(&process.page, &other, page))
		return page;
	munmap((void *)page, size);
	return other;
}

/* The first handle of a child gives it the next number. */
static int
alive_init(struct evd *c)
{
	_Atomic uint32_t *page = process_page();
	uint32_t none = 0, next;

	if (!page)
		return -ENOMEM;
	next = atomic_load(&process.last) + 1;
	if (atomic_compare_exchange_strong(page, &none, next))
		none = next;
	atomic_store(&process.last, none);
	c->process = none;
	c->alive = page;
	if (atomic_load(&process.asks))
		c->pid = getpid();
	return 0;
}

struct evd *
evd_new(void)
{
	struct evd *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->fd = -1;
	c->blocking = true;
	c->max_queued = QUEUED_DEFAULT;
	c->timeout_ms = TIMEOUT_MS;
	c->rcv_ms = -1;
	c->name = strndup(program_invocation_short_name, EVD_NAME_MAX);
	if (!c->name || alive_init(c) || evd__io_init(c))
		return evd_free(c);
	return c;
}

struct evd *
evd_free(struct evd *c)
{
	if (!c)
		return NULL;
	if (c->alive && !evd__is_foreign(c))
		evd__goodbye(c);
	if (c->fd >= 0)
		close(c->fd);
	evd__events_clear(c);
	evd__watches_free(c);
	evd__bindings_free(c);
	evd__refs_free(c);
	evd__sequence_free(c);
	evd__window_deinit(c);
	evd__response_free(c->sync.response);
	evd_event_free(c->sync.reply);
	slots_deinit(&c->calls);
	slots_deinit(&c->requests);
	slots_deinit(&c->callers);
	evd__io_deinit(c);
	free(c->path);
	free(c->name);
	free(c);
	return NULL;
}

int64_t
evd__now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

int64_t
evd__coarse_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

int64_t
evd__deadline(const struct evd *c, int timeout_ms)
{
	if (!timeout_ms)
		timeout_ms = c->timeout_ms;
	if (timeout_ms < 0)
		return INT64_MAX;
	return evd__now_ns() + (int64_t)timeout_ms * 1000000;
}

/* ---- errors ---- */

/* Copy a peer's text as one printable line, cut at whole characters. */
void
evd__text_copy(char *out, size_t out_size, const char *text, size_t size)
{
	size_t n = size < out_size - 1 ? size : out_size - 1;

	if (n < size) /* do not cut within a UTF-8 character */
		while (n && ((unsigned char)text[n] & 0xc0) == 0x80)
			n--;
	for (size_t i = 0; i < n; i++) {
		unsigned char ch = (unsigned char)text[i];

		out[i] = ch < ' ' || ch == 0x7f ? ' ' : (char)ch;
	}
	out[n] = '\0';
}

int
evd__foreign(struct evd *c)
{
	evd__fail_errno(c, ECHILD,
		"the handle was made before fork(): make a new one here");
	return -ECHILD;
}

int
evd__fail(struct evd *c, int status, const char *format, ...)
{
	va_list args;

	c->status = status;
	va_start(args, format);
	vsnprintf(c->error, sizeof(c->error), format, args);
	va_end(args);
	return -status_errno(status);
}

int
evd__fail_errno(struct evd *c, int err, const char *format, ...)
{
	va_list args;

	err = abs(err);
	c->status = status_from_errno(err);
	if (err == ECHILD || err == EISCONN || err == ENAMETOOLONG)
		c->status = EVD_STATUS_INVALID;
	if (err == ENOTCONN || err == ENOENT)
		c->status = EVD_STATUS_UNAVAILABLE;
	if (err == E2BIG)
		c->status = EVD_STATUS_TOO_LARGE;
	if (err == EMFILE || err == ENFILE)
		c->status = EVD_STATUS_LIMIT;
	va_start(args, format);
	vsnprintf(c->error, sizeof(c->error), format, args);
	va_end(args);
	return -err;
}

int
evd__fail_text(struct evd *c, int status, const char *text, size_t size)
{
	c->status = status;
	if (size)
		evd__text_copy(c->error, sizeof(c->error), text, size);
	else
		snprintf(c->error, sizeof(c->error), "%s", status_text(status));
	return -status_errno(status);
}

const char *
evd_last_error(const struct evd *c)
{
	return c ? c->error : status_text(EVD_STATUS_NO_MEMORY);
}

int
evd_last_status(const struct evd *c)
{
	return c ? c->status : EVD_STATUS_NO_MEMORY;
}

/* ---- settings ---- */

/* Settings of the connection are fixed while there is one. */
static int
check_idle(struct evd *c, const char *what)
{
	EVD_CHECK(c);
	if (c->state != CONN_IDLE)
		return evd__fail_errno(c, EISCONN,
			"%s cannot be set while connected: evd_close() first",
			what);
	return 0;
}

static int
set_path(struct evd *c, const char *path)
{
	char *copy;

	if (strlen(path) > EVD_SOCKET_MAX)
		return evd__fail_errno(c, ENAMETOOLONG,
			"socket path of %zu bytes is longer than the %d that "
			"the system allows: %.64s...",
			strlen(path), EVD_SOCKET_MAX, path);
	copy = strdup(path);
	if (!copy)
		return evd__fail(c, EVD_STATUS_NO_MEMORY, "out of memory");
	free(c->path);
	c->path = copy;
	return 0;
}

int
evd_set_socket(struct evd *c, const char *path)
{
	int r = check_idle(c, "the socket");

	if (r)
		return r;
	if (!path) {
		free(c->path);
		c->path = NULL;
		return 0;
	}
	if (!*path)
		return evd__fail(
			c, EVD_STATUS_INVALID, "the socket path is empty");
	return set_path(c, path);
}

int
evd_set_user_socket(struct evd *c, bool user)
{
	const char *dir = getenv("XDG_RUNTIME_DIR");
	char path[PATH_MAX];
	int r = check_idle(c, "the socket");

	if (r)
		return r;
	if (!user)
		return set_path(c, EVD_SYSTEM_SOCKET);
	if (!dir || !*dir)
		return evd__fail_errno(c, ENOENT,
			"no socket of this user: XDG_RUNTIME_DIR is not set");
	snprintf(path, sizeof(path), "%s/eventd/eventd.sock", dir);
	return set_path(c, path);
}

int
evd__socket_path(struct evd *c, char *out)
{
	const char *path = c->path ? c->path : getenv("EVENTD_SOCKET");

	if (!path || !*path)
		path = EVD_SYSTEM_SOCKET;
	if (strlen(path) > EVD_SOCKET_MAX)
		return evd__fail_errno(c, ENAMETOOLONG,
			"EVENTD_SOCKET of %zu bytes is longer than the %d that "
			"the system allows: %.64s...",
			strlen(path), EVD_SOCKET_MAX, path);
	memcpy(out, path, strlen(path) + 1);
	return 0;
}

const char *
evd_socket(struct evd *c)
{
	if (evd__is_foreign(c))
		return NULL;
	if (c->state == CONN_IDLE && evd__socket_path(c, c->socket))
		return NULL;
	return c->socket;
}

int
evd_set_name(struct evd *c, const char *name)
{
	size_t size = name ? strlen(name) : 0;
	char *copy;
	int r = check_idle(c, "the name");

	if (r)
		return r;
	if (!size || size > EVD_NAME_MAX)
		return evd__fail(c, EVD_STATUS_INVALID,
			"a name has 1 to %d bytes, not %zu", EVD_NAME_MAX,
			size);
	for (size_t i = 0; i < size; i++)
		if ((unsigned char)name[i] < ' ' || name[i] == 0x7f)
			return evd__fail(c, EVD_STATUS_INVALID,
				"a name has no control characters: byte %zu is",
				i + 1);
	copy = strdup(name);
	if (!copy)
		return evd__fail(c, EVD_STATUS_NO_MEMORY, "out of memory");
	free(c->name);
	c->name = copy;
	return 0;
}

int
evd_set_reconnect(struct evd *c, int min_ms, int max_ms)
{
	EVD_CHECK(c);
	if (!(min_ms == 0 && max_ms == 0) && (min_ms < 1 || max_ms < min_ms))
		return evd__fail(c, EVD_STATUS_INVALID,
			"pauses of %d to %d ms: give 1 <= min <= max, or 0, 0",
			min_ms, max_ms);
	c->min_ms = min_ms;
	c->max_ms = max_ms;
	c->pause_ms = min_ms;
	return 0;
}

int
evd_set_max_queued(struct evd *c, size_t size)
{
	EVD_CHECK(c);
	if (size < QUEUED_MIN)
		return evd__fail(c, EVD_STATUS_INVALID,
			"a queue of %zu bytes is less than %d", size,
			QUEUED_MIN);
	c->max_queued = size;
	return 0;
}

int
evd_set_blocking(struct evd *c, bool blocking)
{
	EVD_CHECK(c);
	c->blocking = blocking;
	return 0;
}

int
evd_set_manual_settle(struct evd *c, bool manual)
{
	EVD_CHECK(c);
	c->manual = manual;
	return 0;
}

int
evd_set_timeout(struct evd *c, int timeout_ms)
{
	EVD_CHECK(c);
	if (timeout_ms == 0 || timeout_ms < -1)
		return evd__fail(c, EVD_STATUS_INVALID,
			"a time-out of %d ms: give 1 or more, or -1",
			timeout_ms);
	c->timeout_ms = timeout_ms;
	return 0;
}

/* ---- words ---- */

const char *
evd_version(void)
{
	return EVD_VERSION;
}

const char *
evd_status_word(int status)
{
	return status_word(status);
}

const char *
evd_status_text(int status)
{
	return status_text(status);
}

int
evd_status_errno(int status)
{
	return status_errno(status);
}

int
evd_status_exit(int status)
{
	return status_exit(status);
}

int
evd_status_from_errno(int err)
{
	return status_from_errno(err);
}

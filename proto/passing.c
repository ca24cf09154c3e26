/* Passing: see passing.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "passing.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL };

void
passed_init(struct passed *p)
{
	p->n = 0;
}

void
passed_clear(struct passed *p)
{
	while (p->n)
		close(p->fds[--p->n]);
}

int
passed_take(struct passed *p)
{
	int fd;

	if (!p->n)
		return -1;
	fd = p->fds[0];
	memmove(p->fds, p->fds + 1, --p->n * sizeof(p->fds[0]));
	return fd;
}

/* ---- the socket ---------------------------------------------------------- */

/* Room for more than may come, so that it is seen and closed; the kernel closes
 * what does not fit. */
union control {
	struct cmsghdr head;
	char bytes[CMSG_SPACE(2 * sizeof(int)) + CMSG_SPACE(64)];
};

/* All of @part to @passed, or closed. False: it is not what may come. */
static bool
take_fds(const struct cmsghdr *part, struct passed *passed)
{
	size_t n = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	const unsigned char *data = CMSG_DATA(part);
	bool good = n == 1 && passed->n < PASSED_MAX;

	for (size_t i = 0; i < n; i++) {
		int fd;

		memcpy(&fd, data + i * sizeof(fd), sizeof(fd));
		if (good)
			passed->fds[passed->n++] = fd;
		else
			close(fd);
	}
	return good;
}

ssize_t
passed_receive(int socket, struct iovec *parts, size_t n, int flags,
	struct passed *passed)
{
	union control control;
	struct msghdr m = {
		.msg_iov = parts,
		.msg_iovlen = n,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	ssize_t got = recvmsg(socket, &m, flags | MSG_CMSG_CLOEXEC);
	bool good = true;

	if (got < 0 || (!m.msg_controllen && !(m.msg_flags & MSG_CTRUNC)))
		return got;
	for (struct cmsghdr *part = CMSG_FIRSTHDR(&m); part;
		part = CMSG_NXTHDR(&m, part)) {
		if (part->cmsg_level == SOL_SOCKET &&
			part->cmsg_type == SCM_RIGHTS)
			good = take_fds(part, passed) && good;
		else
			good = false;
	}
	if (good && !(m.msg_flags & MSG_CTRUNC))
		return got;
	passed_clear(passed);
	errno = EPROTO;
	return -1;
}

ssize_t
passed_send(int socket, struct iovec *parts, size_t n, int fd)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct msghdr m = {.msg_iov = parts, .msg_iovlen = n};

	if (fd >= 0) {
		struct cmsghdr *part;

		m.msg_control = control.bytes;
		m.msg_controllen = sizeof(control.bytes);
		part = CMSG_FIRSTHDR(&m);
		part->cmsg_level = SOL_SOCKET;
		part->cmsg_type = SCM_RIGHTS;
		part->cmsg_len = CMSG_LEN(sizeof(fd));
		memcpy(CMSG_DATA(part), &fd, sizeof(fd));
	}
	return sendmsg(socket, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* ---- memfds -------------------------------------------------------------- */

/* One of huge pages is none: reading it could fail for want of one. */
static bool
is_memfd(int fd, struct stat *st)
{
	struct statfs fs;

	return !fstat(fd, st) && S_ISREG(st->st_mode) && !fstatfs(fd, &fs) &&
	       fs.f_type == TMPFS_MAGIC;
}

int
memfd_check(int fd, size_t size)
{
	struct stat st;
	int seals;

	if (!is_memfd(fd, &st))
		return MEMFD_E_KIND;
	seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0 || (seals & SEALS) != SEALS)
		return MEMFD_E_SEALS;
	/* after the seals: now it cannot change any more */
	if (fstat(fd, &st) || st.st_size < 0 || (size_t)st.st_size != size)
		return MEMFD_E_SIZE;
	return 0;
}

const char *
memfd_error_text(int error)
{
	switch ((enum memfd_error)error) {
	case MEMFD_E_KIND:
		return "the descriptor is no memfd";
	case MEMFD_E_SEALS:
		return "the memfd lacks one of the seals shrink, grow, write "
		       "and seal";
	case MEMFD_E_SIZE:
		return "the memfd is not as large as memfd_size says";
	}
	return "";
}

static int
write_all(int fd, const char *data, size_t size)
{
	while (size) {
		ssize_t n = write(fd, data, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EIO;
		data += n;
		size -= (size_t)n;
	}
	return 0;
}

int
memfd_new(const void *data, size_t size)
{
	int fd = memfd_create("eventd", MFD_CLOEXEC | MFD_ALLOW_SEALING), r;

	if (fd < 0)
		return -errno;
	r = write_all(fd, data, size);
	if (!r && fcntl(fd, F_ADD_SEALS, SEALS))
		r = -errno;
	if (!r)
		return fd;
	close(fd);
	return r;
}

static size_t
map_size(size_t size)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (size / page + 1) * page; /* there is a byte behind it */
}

/* Private, so that the NUL can be put there whatever the maker left. */
void *
memfd_map(int fd, size_t size)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *bytes = mmap(NULL, map_size(size), PROT_READ,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (bytes == MAP_FAILED)
		return NULL;
	if (mmap(bytes, size, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, fd,
		    0) == MAP_FAILED) {
		int error = errno;

		munmap(bytes, map_size(size));
		errno = error;
		return NULL;
	}
	if (size % page)
		bytes[size] = '\0';
	mprotect(bytes, size, PROT_READ);
	return bytes;
}

void
memfd_unmap(void *bytes, size_t size)
{
	if (bytes)
		munmap(bytes, map_size(size));
}

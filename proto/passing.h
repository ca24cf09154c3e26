#pragma once
/* Passing: descriptors that travel beside the bytes of a Unix socket, and the
 * sealed memfds that they are: a large payload in memory that both sides map.
 *
 * A descriptor is sent with the first byte of the frame that tells of it, so
 * that it is there when that frame is whole. Whatever comes is hostile until
 * memfd_check() has said otherwise; no descriptor is ever left open.
 * Any thread. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

/* In Hello.features and Welcome.features. */
#define FEATURE_MEMFD "memfd"
/* ... and replies may be memfds, as posts, calls and deliveries. */
#define FEATURE_MEMFD_REPLIES "memfd-replies"

enum {
	PASSED_MAX = 4,        /* descriptors that wait for their frames */
	MEMFD_MIN = 64 * 1024, /* smaller payloads travel as bytes */
	MEMFD_MAX = 48 << 20,  /* what is passed on as bytes fits a frame */
};

/* Those that have come and that no frame has claimed yet, oldest first. */
struct passed {
	int fds[PASSED_MAX];
	unsigned n;
};

void passed_init(struct passed *p);
/* Close them all. */
void passed_clear(struct passed *p);
/* The oldest, which is the caller's from now on; -1: there is none. */
int passed_take(struct passed *p);

/* recvmsg() with MSG_CMSG_CLOEXEC. More than one descriptor a message, more
 * than PASSED_MAX that wait, or anything else beside the bytes: they are all
 * closed and errno is EPROTO. */
ssize_t passed_receive(int socket, struct iovec *parts, size_t n, int flags,
	struct passed *passed);
/* sendmsg() with @fd beside the first of the bytes; -1: with none. If it
 * returns more than 0, @fd is on its way and must not be sent again. */
ssize_t passed_send(int socket, struct iovec *parts, size_t n, int fd);

/* Why a descriptor cannot be what an envelope announced. */
enum memfd_error {
	MEMFD_E_KIND = 1, /* no memfd */
	MEMFD_E_SEALS,    /* it lacks one of those that keep it as it is */
	MEMFD_E_SIZE,     /* it is not as large as was said */
};
/* 0 if @fd is a memfd of @size bytes that nobody can change any more. */
int memfd_check(int fd, size_t size);
const char *memfd_error_text(int error);
/* A new one with @size bytes of @data, sealed; or -errno. */
int memfd_new(const void *data, size_t size);
/* Its bytes, with a NUL behind them; NULL and errno. It has been checked. */
void *memfd_map(int fd, size_t size);
void memfd_unmap(void *bytes, size_t size);

#pragma once
/* Memfd: the payload of an event that came as a descriptor. It is mapped, not
 * copied, and goes to clients that take descriptors as the same one. A region
 * (kernel/msg.h) that any thread may release; how many there are is counted for
 * each connection and for the daemon. */
#include <stdatomic.h>
#include <stdint.h>

#include "kernel/msg.h"

enum {
	MEMFDS_OF_CONN = 64, /* in the daemon, of one connection's making */
	MEMFDS_OF_ALL = 512, /* in the daemon */
};

/* Of one connection; lives as long as it or one of its memfds. */
struct memfd_gauge {
	_Atomic uint32_t refs;
	_Atomic uint32_t n;
	_Atomic uint32_t *all; /* of the daemon */
};

/* With one reference; NULL: out of memory. */
struct memfd_gauge *memfd_gauge_new(_Atomic uint32_t *all);
struct memfd_gauge *memfd_gauge_unref(struct memfd_gauge *g); /* NULL */

struct memfd_offer {
	struct memfd_gauge *gauge;
	int fd;        /* taken over, whatever happens */
	uint32_t size; /* bytes that it is said to have */
	bool copies;   /* if no more are held, instead of being refused */
};
/**
 * memfd_region() - take a descriptor in
 * @out:  set on success
 * @text: set to why not, of @text_size bytes
 *
 * Return: EVD_STATUS_OK, INVALID (it is not a sealed memfd of that size), LIMIT
 * (there are too many) or NO_MEMORY.
 */
int memfd_region(const struct memfd_offer *o, struct msg_region **out,
	char *text, size_t text_size);
/* The descriptor of a region; -1: it has none. */
int memfd_of(const struct msg_region *region);

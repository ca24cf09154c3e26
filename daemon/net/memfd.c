#include "net/memfd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/list.h"
#include "eventd/status.h"
#include "passing.h"

struct memfd {
	struct msg_region region;
	int fd;
	struct memfd_gauge *gauge;
};

struct memfd_gauge *
memfd_gauge_new(_Atomic uint32_t *all)
{
	struct memfd_gauge *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	atomic_init(&g->refs, 1);
	g->all = all;
	return g;
}

struct memfd_gauge *
memfd_gauge_unref(struct memfd_gauge *g)
{
	if (g && atomic_fetch_sub(&g->refs, 1) == 1)
		free(g);
	return NULL;
}

static void
memfd_release(struct msg_region *region)
{
	struct memfd *m = container_of(region, struct memfd, region);

	memfd_unmap((void *)(uintptr_t)region->bytes, region->size);
	close(m->fd);
	atomic_fetch_sub(&m->gauge->n, 1);
	atomic_fetch_sub(m->gauge->all, 1);
	memfd_gauge_unref(m->gauge);
	free(m);
}

/* One more, if there may be: EVD_STATUS_OK or LIMIT. */
static int
gauge_take(struct memfd_gauge *g, char *text, size_t size)
{
	uint32_t all = atomic_fetch_add(g->all, 1);
	uint32_t n = atomic_fetch_add(&g->n, 1);

	if (n < MEMFDS_OF_CONN && all < MEMFDS_OF_ALL) {
		atomic_fetch_add(&g->refs, 1);
		return EVD_STATUS_OK;
	}
	atomic_fetch_sub(&g->n, 1);
	atomic_fetch_sub(g->all, 1);
	if (n >= MEMFDS_OF_CONN)
		snprintf(text, size,
			"%d memfds of this connection are in the daemon, which "
			"is the most",
			MEMFDS_OF_CONN);
	else
		snprintf(text, size,
			"%d memfds are in the daemon, which is the most",
			MEMFDS_OF_ALL);
	return EVD_STATUS_LIMIT;
}

static int
refuse(int fd, const char *why, char *text, size_t size)
{
	close(fd);
	snprintf(text, size, "%s", why);
	return EVD_STATUS_INVALID;
}

static int
no_memory(int fd, char *text, size_t size)
{
	close(fd);
	snprintf(text, size, "no memory for what the memfd holds");
	return EVD_STATUS_NO_MEMORY;
}

static int
copied(const struct memfd_offer *o, struct msg_region **out, char *text,
	size_t text_size)
{
	struct msg_region *copy = msg_region_new(o->size);
	void *bytes = copy ? memfd_map(o->fd, o->size) : NULL;

	if (!bytes) {
		if (copy)
			copy->release(copy);
		return no_memory(o->fd, text, text_size);
	}
	memcpy((void *)(uintptr_t)copy->bytes, bytes, o->size);
	memfd_unmap(bytes, o->size);
	close(o->fd);
	*out = copy;
	return EVD_STATUS_OK;
}

int
memfd_region(const struct memfd_offer *o, struct msg_region **out, char *text,
	size_t text_size)
{
	struct memfd_gauge *g = o->gauge;
	struct memfd *m;
	int r = memfd_check(o->fd, o->size);

	if (r)
		return refuse(o->fd, memfd_error_text(r), text, text_size);
	r = gauge_take(g, text, text_size);
	if (r && o->copies)
		return copied(o, out, text, text_size);
	if (r) {
		close(o->fd);
		return r;
	}
	m = FAULT(memfd_region) ? NULL : calloc(1, sizeof(*m));
	if (m)
		m->region.bytes = memfd_map(o->fd, o->size);
	if (!m || !m->region.bytes) {
		free(m);
		atomic_fetch_sub(&g->n, 1);
		atomic_fetch_sub(g->all, 1);
		memfd_gauge_unref(g);
		return no_memory(o->fd, text, text_size);
	}
	m->region.size = o->size;
	m->region.release = memfd_release;
	m->fd = o->fd;
	m->gauge = g;
	*out = &m->region;
	return EVD_STATUS_OK;
}

int
memfd_of(const struct msg_region *region)
{
	if (!region || region->release != memfd_release)
		return -1;
	return container_of(region, struct memfd, region)->fd;
}

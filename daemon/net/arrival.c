#include "net/arrival.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "envelope.h"
#include "net/memfd.h"
#include "passing.h"

struct msg *
arrival_message(
	struct conn *c, const struct envelope *e, const struct msg_init *init)
{
	struct msg_region *region = c->arrival ? TAKE(c->arrival->region)
					       : msg_region_new(init->size);
	struct msg *m;

	if (!region)
		return NULL;
	if (!c->arrival)
		memcpy((uint8_t *)(uintptr_t)region->bytes, e->payload,
			e->payload_size);
	m = msg_new_region(&c->loop->sched.pool, init, region);
	if (!m)
		region->release(region);
	return m;
}

void
arrival_run(struct conn *c, struct envelope *e, struct arrival *arrival)
{
	c->arrival = arrival;
	conn_on_event(c, e);
	c->arrival = NULL;
	if (arrival->region) /* nobody wanted it */
		arrival->region->release(arrival->region);
}

/* @fd is of an envelope that says @size: what it holds to @arrival, or a status
 * and why not. */
static int
take_memfd(struct conn *c, uint32_t size, int fd, struct arrival *arrival)
{
	const char *why = NULL;

	if (size <= MEMFD_MIN)
		why = "payloads of up to 64 KiB travel as bytes";
	else if (size > c->server->max_memfd)
		why = "the memfd is over MaxMemfd= in eventd.conf";
	if (!c->memfds)
		c->memfds = memfd_gauge_new(&c->server->n_memfds);
	if (!why && c->memfds)
		return memfd_region(c->memfds, fd, size, &arrival->region,
			arrival->text, sizeof(arrival->text));
	close(fd);
	snprintf(arrival->text, sizeof(arrival->text), "%s",
		why ? why : "out of memory");
	if (!why)
		return EVD_STATUS_NO_MEMORY;
	return size <= MEMFD_MIN ? EVD_STATUS_INVALID : EVD_STATUS_TOO_LARGE;
}

void
arrival_memfd(struct conn *c, struct envelope *e)
{
	struct arrival arrival = {0};
	int fd = c->passed ? passed_take(c->passed) : -1;

	if (fd < 0 || e->re) {
		if (fd >= 0)
			close(fd);
		conn_end(c, EVD_STATUS_PROTOCOL, "%s",
			e->re ? "a reply's payload is no memfd"
			      : "an envelope tells of a memfd, and none came");
		return;
	}
	arrival.status = take_memfd(c, e->memfd_size, fd, &arrival);
	e->payload_size = e->memfd_size;
	e->payload = arrival.region ? arrival.region->bytes : NULL;
	arrival_run(c, e, &arrival);
}

void
arrival_features(struct conn *c, const Eventd__V1__Hello *hello)
{
	for (size_t i = 0; i < hello->n_features; i++) {
		if (strcmp(hello->features[i], FEATURE_MEMFD) != 0 ||
			c->passed || !c->server->max_memfd)
			continue;
		c->passed = malloc(sizeof(*c->passed));
		if (c->passed)
			passed_init(c->passed);
	}
}

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

/* @fd is of @e, which says its size: what it holds to @arrival, or a status and
 * why not. Who answers has no say in how long a caller does not read: where no
 * more memfds are held, a reply is copied. */
static int
take_memfd(struct conn *c, const struct envelope *e, int fd,
	struct arrival *arrival)
{
	uint32_t size = e->memfd_size;
	const char *why = NULL;

	if (size <= MEMFD_MIN)
		why = "payloads of up to 64 KiB travel as bytes";
	else if (size > c->server->max_memfd)
		why = "the memfd is over MaxMemfd= in eventd.conf";
	if (!c->memfds)
		c->memfds = memfd_gauge_new(&c->server->n_memfds);
	if (!why && c->memfds)
		return memfd_region(
			&(struct memfd_offer){c->memfds, fd, size, e->re != 0},
			&arrival->region, arrival->text, sizeof(arrival->text));
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

	if (fd < 0) {
		conn_end(c, EVD_STATUS_PROTOCOL,
			"an envelope tells of a memfd, and none came");
		return;
	}
	arrival.status = take_memfd(c, e, fd, &arrival);
	e->payload_size = e->memfd_size;
	e->payload = arrival.region ? arrival.region->bytes : NULL;
	arrival_run(c, e, &arrival);
}

void
arrival_features(struct conn *c, const Eventd__V1__Hello *hello)
{
	for (size_t i = 0; i < hello->n_features; i++) {
		if (strcmp(hello->features[i], FEATURE_MEMFD_REPLIES) == 0)
			c->takes_replies = true;
		if (strcmp(hello->features[i], FEATURE_MEMFD) != 0 ||
			c->passed || !c->server->max_memfd)
			continue;
		c->passed = malloc(sizeof(*c->passed));
		if (c->passed)
			passed_init(c->passed);
	}
	c->takes_replies = c->takes_replies && c->passed;
}

#include "base/clock.h"

#include <time.h>

#include "base/list.h"

static uint64_t
read_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

static uint64_t
system_monotonic(const struct clock_source *c)
{
	(void)c;
	return read_ns(CLOCK_MONOTONIC);
}

static uint64_t
system_wall(const struct clock_source *c)
{
	(void)c;
	return read_ns(CLOCK_REALTIME);
}

const struct clock_source clock_system = {system_monotonic, system_wall};

static uint64_t
fake_monotonic(const struct clock_source *c)
{
	return container_of(c, struct clock_fake, source)->monotonic_ns;
}

static uint64_t
fake_wall(const struct clock_source *c)
{
	return container_of(c, struct clock_fake, source)->wall_ns;
}

void
clock_fake_init(struct clock_fake *c)
{
	c->source.monotonic_ns = fake_monotonic;
	c->source.wall_ns = fake_wall;
	c->monotonic_ns = 1000ull * NS_PER_S;
	c->wall_ns = 1800000000ull * NS_PER_S;
}

void
clock_fake_advance(struct clock_fake *c, uint64_t ns)
{
	c->monotonic_ns += ns;
	c->wall_ns += ns;
}

#include "base/clock.h"

#include <time.h>

#include "base/list.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

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

static uint64_t
system_boot(const struct clock_source *c)
{
	(void)c;
	return read_ns(CLOCK_BOOTTIME);
}

const struct clock_source clock_system = {
	system_monotonic, system_wall, system_boot};

#if defined(__x86_64__)
uint64_t
clock_near(struct clock_near *near, const struct clock_source *c)
{
	uint64_t ticks;

	if (c != &clock_system)
		return clock_now(c);
	ticks = __rdtsc();
	/* Also if the counter is another CPU's and behind. */
	if (ticks - near->ticks >= CLOCK_NEAR_TICKS || !near->ns) {
		near->ns = clock_now(c);
		near->ticks = ticks;
	}
	return near->ns + CLOCK_NEAR_NS;
}
#else
uint64_t
clock_near(struct clock_near *near, const struct clock_source *c)
{
	(void)near;
	return clock_now(c);
}
#endif

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

static uint64_t
fake_boot(const struct clock_source *c)
{
	const struct clock_fake *fake =
		container_of(c, struct clock_fake, source);

	return fake->monotonic_ns + fake->suspended_ns;
}

void
clock_fake_init(struct clock_fake *c)
{
	c->source.monotonic_ns = fake_monotonic;
	c->source.wall_ns = fake_wall;
	c->source.boot_ns = fake_boot;
	c->suspended_ns = 0;
	c->monotonic_ns = 1000ull * NS_PER_S;
	c->wall_ns = 1800000000ull * NS_PER_S;
}

void
clock_fake_advance(struct clock_fake *c, uint64_t ns)
{
	c->monotonic_ns += ns;
	c->wall_ns += ns;
}

void
clock_fake_suspend(struct clock_fake *c, uint64_t ns)
{
	c->suspended_ns += ns;
	c->wall_ns += ns;
}

#pragma once
/* Clocks behind a small interface, so that tests step time instead of
 * sleeping. Any thread. */
#include <stdint.h>

enum { NS_PER_US = 1000, NS_PER_MS = 1000000, NS_PER_S = 1000000000 };

struct clock_source {
	uint64_t (*monotonic_ns)(const struct clock_source *c);
	uint64_t (*wall_ns)(const struct clock_source *c); /* since the epoch */
	/* monotonic, but goes on while the machine is suspended */
	uint64_t (*boot_ns)(const struct clock_source *c);
};

extern const struct clock_source clock_system;

/* A reading of the system's monotonic clock and when it was taken. One thread
 * each. */
struct clock_near {
	uint64_t ns, ticks;
};
/* CLOCK_NEAR_TICKS of a CPU's counter, which has at least 1 GHz. */
enum { CLOCK_NEAR_TICKS = 8192, CLOCK_NEAR_NS = 8192 };
/* Not before what the monotonic clock says, CLOCK_NEAR_NS after it at most, and
 * never less than the last time: at a third of its cost where there is a
 * counter, for those that ask many times in a row. A fake clock is exact. */
uint64_t clock_near(struct clock_near *near, const struct clock_source *c);

static inline uint64_t
clock_now(const struct clock_source *c)
{
	return c->monotonic_ns(c);
}

static inline uint64_t
clock_wall(const struct clock_source *c)
{
	return c->wall_ns(c);
}

static inline uint64_t
clock_boot(const struct clock_source *c)
{
	return c->boot_ns(c);
}

/* A clock that moves when told to. */
struct clock_fake {
	struct clock_source source;
	uint64_t monotonic_ns, wall_ns;
	uint64_t suspended_ns; /* by so much the boot clock is ahead */
};
void clock_fake_init(struct clock_fake *c);
void clock_fake_advance(struct clock_fake *c, uint64_t ns); /* all clocks */
void clock_fake_suspend(struct clock_fake *c, uint64_t ns);

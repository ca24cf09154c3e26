/* The timers of a scheduler: three wheels, one for each clock, and what is due.
 * Its thread. */
#include "kernel/history.h"
#include "kernel/idle.h"
#include "kernel/journal.h"
#include "kernel/kin.h"
#include "kernel/sched.h"
#include "kernel/supervise.h"

enum {
	FIRE_MAX = 2048, /* timers in one turn */
};

static void
fire(struct sched *s, struct timer *timer)
{
	switch (timer->type) {
	case TIMER_CALL:
		sched_call_expired(s, container_of(timer, struct call, timer));
		break;
	case TIMER_DELAY:
		delay_fire(s, timer);
		break;
	case TIMER_RESTART:
		supervise_due(
			s, container_of(timer, struct session_health, timer));
		break;
	case TIMER_IDLE:
		idle_due(s, container_of(timer, struct kin, idle));
		break;
	case TIMER_TEAM:
		team_due(s, container_of(timer, struct kin, team));
		break;
	case TIMER_JOURNAL:
		journal_retry(s, timer);
		break;
	case TIMER_HISTORY:
		history_due(s, timer);
		break;
	}
}

/* What is due of @t, up to *@left of them. */
static void
fire_from(struct sched *s, struct timers *t, uint64_t now, unsigned *left)
{
	struct timer *timer;

	while (*left && (timer = timers_expire(t, now))) {
		fire(s, timer);
		--*left;
	}
}

bool
sched_fire_timers(struct sched *s)
{
	const struct clock_source *clock = s->kernel->clock;
	unsigned left = FIRE_MAX;

	delays_bury(s, &s->delays);
	fire_from(s, &s->timers, s->now_ns, &left);
	if (s->wall_timers.n)
		fire_from(s, &s->wall_timers, clock_wall(clock), &left);
	if (s->boot_timers && s->boot_timers->n)
		fire_from(s, s->boot_timers, clock_boot(clock), &left);
	return !left;
}

/* When @t wants a turn, of the clock that stands at @clock_ns, in monotonic
 * time. */
static uint64_t
next_from(const struct sched *s, struct timers *t, uint64_t clock_ns)
{
	uint64_t now = clock_now(s->kernel->clock), next = timers_next_ns(t);

	if (next == UINT64_MAX)
		return next;
	next = next > clock_ns ? next - clock_ns : 0;
	return next < UINT64_MAX - now ? now + next : UINT64_MAX;
}

bool
sched_may_be_due(const struct sched *s, uint64_t before_ns)
{
	return (s->timers.n && timers_bound_ns(&s->timers) < before_ns) ||
	       s->wall_timers.n || (s->boot_timers && s->boot_timers->n);
}

uint64_t
sched_next_ns(struct sched *s)
{
	const struct clock_source *clock = s->kernel->clock;
	uint64_t next = timers_next_ns(&s->timers), other;

	if (s->wall_timers.n) {
		other = next_from(s, &s->wall_timers, clock_wall(clock));
		next = other < next ? other : next;
	}
	if (s->boot_timers && s->boot_timers->n) {
		other = next_from(s, s->boot_timers, clock_boot(clock));
		next = other < next ? other : next;
	}
	return next;
}

void
sched_clock_set(struct sched *s)
{
	timers_rebase(&s->wall_timers, clock_wall(s->kernel->clock));
	delays_clock_set(s);
}

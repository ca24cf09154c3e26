#include "kernel/supervise.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/log.h"
#include "kernel/sched.h"

/* Up to a tenth more or less, so that sessions that fail together do not
 * start together. */
static uint64_t
jitter(uint64_t ns, uint64_t seed)
{
	uint64_t span = ns / 5;

	seed = (seed ^ (seed >> 31)) * 0x9e3779b97f4a7c15ull;
	return span ? ns - span / 2 + (seed >> 16) % span : ns;
}

static uint64_t
pause_ns(const struct session *s)
{
	const struct session_spec *spec = s->spec;
	const struct session_health *health = s->health;
	uint64_t ms = spec->restart_ms;
	uint64_t most = spec->restart_max_ms > ms ? spec->restart_max_ms : ms;

	for (uint32_t i = 1; i < health->in_a_row && ms < most; i++)
		ms *= 2;
	if (ms > most)
		ms = most;
	return jitter(ms * NS_PER_MS, s->id + health->restarts);
}

/* Count one failure; true if the budget allows one more start. */
static bool
within_budget(struct session *s, uint64_t now_ns)
{
	struct session_health *health = s->health;
	uint64_t window = s->spec->restart_window_ms * NS_PER_MS;

	if (now_ns - health->window_ns > window) {
		health->window_ns = now_ns;
		health->in_window = 0;
	}
	/* A healthy time as long as the window starts the pauses anew. */
	if (now_ns - health->started_ns > window)
		health->in_a_row = 0;
	health->in_window++;
	health->in_a_row++;
	return health->in_window <= s->spec->restart_burst;
}

static const char *
reason_of(const struct session_health *health, bool crashed)
{
	return crashed && health->reason ? health->reason : "it ended";
}

bool
supervise_ended(struct session *s, bool crashed)
{
	struct sched *sched = atomic_load(&s->home);
	struct session_health *health = s->health;
	uint64_t pause;

	if (!health)
		return false;
	if (!crashed && s->spec->restart != RESTART_ALWAYS)
		return false;
	if (s->spec->restart == RESTART_NO ||
		!within_budget(s, sched->now_ns)) {
		session_enter(s, SESSION_FAILED);
		session_refuse_parked(s, EVD_STATUS_FAILED);
		log_err("session.failed",
			"session=\"%s\" failures=%" PRIu32 " reason=\"%s\"",
			session_name(s), health->in_window,
			reason_of(health, crashed));
		return true;
	}
	pause = pause_ns(s);
	session_enter(s, SESSION_BACKOFF);
	health->restart_wall_ns = clock_wall(sched->kernel->clock) + pause;
	health->timer.type = TIMER_RESTART;
	timers_add(&sched->timers, &health->timer, sched->now_ns + pause);
	log_warn("session.restarts",
		"session=\"%s\" in_ms=%" PRIu64 " reason=\"%s\"",
		session_name(s), pause / NS_PER_MS, reason_of(health, crashed));
	return true;
}

void
supervise_due(struct sched *sched, struct session_health *health)
{
	struct session *s = session_find(sched->kernel, health->session);

	if (!s)
		return;
	health->restarts++;
	session_begin(s);
}

void
supervise_reset(struct session *s)
{
	struct sched *sched = atomic_load(&s->home);
	struct session_health *health = s->health;

	if (!health)
		return;
	timers_remove(&sched->timers, &health->timer);
	health->in_window = 0;
	health->in_a_row = 0;
	health->restarts = 0;
}

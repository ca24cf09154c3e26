#include "kernel/supervise.h"
#include "kernel/crowd.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "kernel/kin.h"
#include "kernel/life.h"
#include "kernel/sched.h"

static struct sched *
home_of(const struct session *s)
{
	return atomic_load_explicit(&s->home, memory_order_relaxed);
}

static void
stop_timer(struct session *s)
{
	if (s->health)
		timers_remove(&home_of(s)->timers, &s->health->timer);
}

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

	for (uint32_t i = 1; health && i < health->in_a_row && ms < most; i++)
		ms *= 2;
	if (ms > most)
		ms = most;
	return jitter(ms * NS_PER_MS, s->id + (health ? health->restarts : 0));
}

/* Count one failure, if it is not one @again; true if the budget allows one
 * more start. */
static bool
within_budget(struct session *s, uint64_t now_ns, bool again)
{
	struct session_health *health = session_health(s);
	uint64_t window = s->spec->restart_window_ms * NS_PER_MS;

	if (!health)
		return false; /* out of memory */
	if (now_ns - health->window_ns > window) {
		health->window_ns = now_ns;
		health->in_window = 0;
	}
	/* A healthy time as long as the window starts the pauses anew. */
	if (now_ns - s->started_ns > window)
		health->in_a_row = 0;
	health->in_window += !again;
	health->in_a_row++;
	return health->in_window <= s->spec->restart_burst;
}

static const char *
reason_of(const struct session_health *health, bool crashed)
{
	return crashed && health && health->reason ? health->reason
						   : "it ended";
}

static void
stay_failed(struct session *s, const char *reason)
{
	const struct session_health *health = s->health;

	session_enter(s, SESSION_FAILED);
	session_refuse_parked(s, EVD_STATUS_FAILED);
	crowds_give_back(s);
	log_err("session.failed",
		"session=\"%s\" failures=%" PRIu32 " reason=\"%s\"",
		session_name(s), health ? health->in_window : 0, reason);
	kin_gave_up(s);
}

bool
supervise_ended(struct session *s, bool crashed, bool again)
{
	bool grouped = s->kin && s->kin->grouped;
	uint64_t pause;

	if (!session_is_hosted(s))
		return false;
	if (!crashed && s->spec->restart != RESTART_ALWAYS)
		return false;
	if (s->spec->restart == RESTART_NO ||
		(!within_budget(s, home_of(s)->now_ns, again) && !grouped)) {
		stay_failed(s, reason_of(s->health, crashed));
		return true;
	}
	pause = pause_ns(s);
	log_warn("session.restarts",
		"session=\"%s\" in_ms=%" PRIu64 " reason=\"%s\"",
		session_name(s), pause / NS_PER_MS,
		reason_of(s->health, crashed));
	session_enter(s, SESSION_BACKOFF);
	if (kin_report(s, pause, again))
		supervise_hold(s);
	else
		supervise_retry(s, pause);
	return true;
}

void
supervise_hold(struct session *s)
{
	session_enter(s, SESSION_BACKOFF);
	stop_timer(s);
	if (s->health)
		s->health->restart_wall_ns = 0;
}

void
supervise_retry(struct session *s, uint64_t pause_ns)
{
	struct sched *sched = home_of(s);
	struct session_health *health;

	if (s->life != SESSION_BACKOFF)
		return; /* somebody has started it by hand */
	health = session_health(s);
	if (!health) {
		stay_failed(s, "out of memory");
		return;
	}
	timers_remove(&sched->timers, &health->timer);
	health->restart_wall_ns = clock_wall(sched->kernel->clock) + pause_ns;
	health->timer.type = TIMER_RESTART;
	timers_add(&sched->timers, &health->timer, sched->now_ns + pause_ns);
}

/* One that waits for events waits for them without a state. */
void
supervise_again(struct session *s)
{
	struct session_health *health = session_health(s);

	stop_timer(s);
	if (health)
		health->restarts++;
	if (health && s->ops->keeps_children)
		health->in_window = 0;
	if (s->spec->on_demand && !s->box.n)
		session_enter(s, SESSION_DORMANT);
	else
		session_begin(s);
}

void
supervise_halt(struct session *s, const char *text)
{
	stop_timer(s);
	life_set_reason(s, strdup(text));
	session_enter(s, SESSION_FAILED);
	session_refuse_parked(s, EVD_STATUS_FAILED);
	crowds_give_back(s);
}

/* Only falls of the group itself make its own pauses longer. */
bool
supervise_count(struct session *s)
{
	bool within = within_budget(s, home_of(s)->now_ns, false);

	if (within)
		s->health->in_a_row--;
	return within;
}

void
supervise_group_failed(struct session *s, const char *text)
{
	life_set_reason(s, strdup(text));
	s->exit = EXIT_FAILED;
	session_enter(s, SESSION_BACKOFF);
	if (session_health(s) && kin_report(s, pause_ns(s), false))
		supervise_hold(s);
	else
		session_enter(s, SESSION_FAILED);
}

void
supervise_due(struct sched *sched, struct session_health *health)
{
	struct session *s = session_find(sched->kernel, health->session);

	if (s)
		supervise_again(s);
}

void
supervise_reset(struct session *s)
{
	struct session_health *health = s->health;

	if (s->kin)
		s->kin->held = false;
	stop_timer(s);
	if (!health)
		return;
	health->in_window = 0;
	health->in_a_row = 0;
	health->restarts = 0;
}

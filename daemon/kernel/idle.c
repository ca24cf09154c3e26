#include "kernel/idle.h"

#include <inttypes.h>

#include "base/log.h"
#include "kernel/life.h"
#include "kernel/sched.h"

static struct sched *
home_of(const struct session *s)
{
	return atomic_load_explicit(&s->home, memory_order_relaxed);
}

bool
idle_is(const struct session *s)
{
	const struct kin *kin = s->kin;

	if (s->life != SESSION_UP || s->run != SESSION_IDLE || s->exiting)
		return false;
	if (s->box.n || s->box.n_parked || s->control.tail || s->notices.tail ||
		s->n_calls || s->n_timers || s->leased)
		return false;
	if (kin && kin->n_children)
		return false;
	return !s->ops->owes || !s->ops->owes(s);
}

/* ---- IdleStop= ----------------------------------------------------------- */

void
idle_begin(struct session *s)
{
	struct sched *sched = home_of(s);
	struct kin *kin = kin_of(s);

	if (!kin) {
		log_warn("session.no-idle-stop",
			"session=\"%s\" reason=\"out of memory\"",
			session_name(s));
		return;
	}
	kin->busy_ns = sched->now_ns;
	timers_remove(&sched->timers, &kin->idle);
	timers_add(&sched->timers, &kin->idle,
		sched->now_ns + s->spec->idle_ms * NS_PER_MS);
}

void
idle_due(struct sched *sched, struct kin *kin)
{
	struct session *s = session_find(sched->kernel, kin->session);
	uint64_t span, due;

	if (!s || s->life != SESSION_UP || !s->spec->idle_ms)
		return;
	span = s->spec->idle_ms * NS_PER_MS;
	due = kin->busy_ns + span;
	if (due > sched->now_ns || !idle_is(s)) {
		if (due <= sched->now_ns)
			due = sched->now_ns + span;
		timers_add(&sched->timers, &kin->idle, due);
		return;
	}
	log_debug("session.idle", "session=\"%s\" for_ms=%" PRIu64,
		session_name(s), s->spec->idle_ms);
	life_sleep(s, EXIT_IDLE);
}

/* ---- Collect= ------------------------------------------------------------ */

void
idle_look(struct session *s)
{
	if (s->kin && s->spec && s->spec->collect && s->life == SESSION_UP)
		sched_enqueue(home_of(s), s);
}

void
idle_ran(struct sched *sched, struct session *s)
{
	s->kin->busy_ns = sched->now_ns;
	if (!s->spec || !s->spec->collect || s->spec->n_schedules ||
		s->aliases || !idle_is(s))
		return;
	log_debug("session.unreferenced", "session_id=%" PRIu64, s->id);
	session_stop_for(s, EXIT_UNREFERENCED);
}

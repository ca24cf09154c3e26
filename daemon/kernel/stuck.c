#include "kernel/stuck.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "kernel/away.h"
#include "kernel/kernel.h"
#include "kernel/notice.h"
#include "kernel/sched.h"
#include "kernel/tap.h"

void
stuck_see(const struct session *s, struct stuck_run *out)
{
	const struct away *a = session_away(s);
	const struct msg *m = a ? a->m : NULL;

	*out = (struct stuck_run){.event = ""};
	if (!a || s->run != SESSION_AWAY)
		return;
	out->since_ns =
		atomic_load_explicit(&a->since_ns, memory_order_relaxed);
	if (!out->since_ns)
		return;
	out->thread = atomic_load_explicit(&a->thread, memory_order_relaxed);
	out->event = a->what == AWAY_REPLY ? "(reply)" : "";
	if (!m || a->what == AWAY_REPLY)
		return;
	out->event = m->event;
	out->event_id = m->id;
}

static void
describe(
	const struct session *s, const struct stuck_run *run, struct stuck *out)
{
	const struct session_spec *spec = s->spec;
	const char *path = spec && spec->path ? spec->path : "";
	const char *slash = strrchr(path, '/');

	snprintf(out->name, sizeof(out->name), "%s", session_name(s));
	snprintf(out->program, sizeof(out->program), "%s",
		slash ? slash + 1 : path);
	snprintf(out->executor, sizeof(out->executor), "%s",
		session_away(s)->executor->name);
	snprintf(out->event, sizeof(out->event), "%s", run->event);
	out->event_id = run->event_id;
	out->since_ns = run->since_ns;
	out->thread = run->thread;
	out->on_stall = spec ? spec->on_stall : 0;
	out->is_script = s->ops->stalled != NULL;
}

void
stuck_tell(struct sched *s, struct session *t, const char *notice,
	const struct stuck_report *report)
{
	char text[STUCK_EVENT_SIZE + STUCK_NAME_SIZE + 64];

	snprintf(text, sizeof(text),
		"event=%.*s id=%" PRIu64 " executor=%.*s ms=%" PRIu64,
		STUCK_EVENT_SIZE - 1, report->event, report->event_id,
		STUCK_NAME_SIZE - 1, report->executor, report->ns / NS_PER_MS);
	tap_tell(s, t, notice, text);
}

bool
stuck_look(struct sched *s, uint64_t id, struct stuck *out)
{
	struct session *t = session_find(s->kernel, id);
	struct stuck_run run;
	struct away *a;
	uint64_t now, limit;

	if (!t || atomic_load(&t->home) != s)
		return false;
	a = session_away(t);
	stuck_see(t, &run);
	now = clock_now(s->kernel->clock);
	if (!run.since_ns || a->is_stuck || now < run.since_ns)
		return false;
	limit = atomic_load_explicit(
		&a->executor->stuck_ns, memory_order_relaxed);
	if (!limit || now - run.since_ns < limit)
		return false;
	a->is_stuck = true;
	a->stuck_event = strdup(run.event);
	a->stuck_event_id = run.event_id;
	a->n_stuck++;
	atomic_fetch_add(&a->executor->n_stuck, 1);
	atomic_fetch_add(&a->executor->n_stuck_ever, 1);
	out->session = id;
	out->ns = now - run.since_ns;
	describe(t, &run, out);
	stuck_tell(s, t, notice_stuck,
		&(struct stuck_report){
			.event = out->event,
			.event_id = out->event_id,
			.executor = out->executor,
			.ns = out->ns,
		});
	return true;
}

void
stuck_returned(
	struct sched *s, struct session *t, const struct stuck_report *report)
{
	log_info("session.returned",
		"session=\"%s\" executor=\"%s\" ms=%" PRIu64
		" text=\"the handler that was stuck has ended\"",
		session_name(t), report->executor, report->ns / NS_PER_MS);
	stuck_tell(s, t, notice_returned, report);
}

void
stuck_end(struct away *a)
{
	char *event = TAKE(a->stuck_event); /* itself may be gone by now */

	a->is_stuck = false;
	atomic_fetch_sub(&a->executor->n_stuck, 1);
	stuck_returned(a->sched, a->session,
		&(struct stuck_report){
			.event = event ? event : "",
			.event_id = a->stuck_event_id,
			.executor = a->executor->name,
			.ns = clock_now(a->sched->kernel->clock) - a->wall_ns,
		});
	free(event);
}

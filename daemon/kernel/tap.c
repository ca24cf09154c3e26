#include "kernel/tap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "kernel/notice.h"
#include "kernel/sched.h"

static void
tap_lap(struct sched *s)
{
	if (s->profile.inner)
		s->profile.inner->lap(s);
}

static bool
is_over(const struct sched *s, const struct tap *tap)
{
	return !session_find(s->kernel, tap->session) ||
	       !session_find(s->kernel, tap->to);
}

static void
look(struct sched *s, struct session *t, const struct msg *m)
{
	struct tap **link = &s->profile.taps, *tap;

	while ((tap = *link)) {
		if (is_over(s, tap)) {
			*link = tap->next;
			free(tap);
			continue;
		}
		if (tap->session == session_id(t))
			tap->seen(s, tap, t, m);
		link = &tap->next;
	}
	if (!s->profile.taps)
		s->profile.ops = s->profile.inner;
}

static void
tap_ran(struct sched *s, struct session *t, struct msg *m, int result)
{
	if (s->profile.inner)
		s->profile.inner->ran(s, t, m, result);
	if (result != SESSION_HELD && !notice_is_name(m->event))
		look(s, t, m);
}

static void
tap_over(struct sched *s, struct session *t, struct msg *m, bool inside)
{
	if (s->profile.inner)
		s->profile.inner->over(s, t, m, inside);
}

static void
tap_was_away(struct sched *s, uint64_t wall_ns, uint64_t cpu_ns)
{
	if (s->profile.inner)
		s->profile.inner->was_away(s, wall_ns, cpu_ns);
}

static void
tap_spent(struct sched *s, struct session *t, const char *what, uint8_t size)
{
	if (s->profile.inner)
		s->profile.inner->spent(s, t, what, size);
}

static const struct profile_ops tap_ops = {
	.lap = tap_lap,
	.ran = tap_ran,
	.over = tap_over,
	.was_away = tap_was_away,
	.spent = tap_spent,
};

void
profiling_set(struct sched *s, const struct profile_ops *ops)
{
	s->profile.inner = ops;
	if (!ops)
		s->profile.lap = 0;
	s->profile.ops = s->profile.taps ? &tap_ops : ops;
}

int
tap_add(struct sched *s, const struct tap *init)
{
	struct tap **link = &s->profile.taps, *tap;
	unsigned n = 0;

	for (; (tap = *link); n++) {
		if (is_over(s, tap)) {
			*link = tap->next;
			free(tap);
		} else {
			link = &tap->next;
		}
	}
	if (n >= TAPS_MAX)
		return err_raise(-ENOSPC);
	tap = malloc(sizeof(*tap));
	if (!tap)
		return err_raise(-ENOMEM);
	*tap = *init;
	tap->next = NULL;
	*link = tap;
	s->profile.ops = &tap_ops;
	return 0;
}

void
tap_tell(
	struct sched *s, struct session *t, const char *event, const char *text)
{
	struct msg *m;

	if (!s->profile.taps)
		return;
	m = msg_new(&s->pool, &(struct msg_init){
				      .event = event,
				      .event_size = (uint8_t)strlen(event),
				      .event_static = true,
				      .data = text,
				      .size = (uint32_t)strlen(text),
			      });
	if (!m)
		return; /* the log has it */
	m->id = sched_id(s);
	m->from = session_id(t);
	look(s, t, m);
	msg_free(&s->pool, m);
}

void
taps_deinit(struct sched *s)
{
	struct tap *tap;

	while ((tap = s->profile.taps)) {
		s->profile.taps = tap->next;
		free(tap);
	}
	s->profile.ops = s->profile.inner;
}

#pragma once
/* For the tests of handlers that wait in the middle, of either kind. */
#include "rig.h"

/* A little more: ticks are rounded up. */
static inline void
pass(struct rig *rig, uint64_t ms)
{
	rig_advance(rig, ms);
	rig_advance(rig, 2);
}

/* Every event is somewhere, at this instant. */
static inline void
expect_counted(const struct session *s)
{
	const struct counters counted = session_counters(s), *c = &counted;

	assert_int_equal(c->accepted, c->handled + c->expired + c->cancelled +
					      c->dropped + c->dead + c->leased +
					      s->box.n);
}

/* So many wait for a time, an answer, an event. */
static inline void
expect_waiting(
	const struct session *s, uint32_t time, uint32_t answer, uint32_t event)
{
	struct session_waits w;

	session_waiting(s, &w);
	assert_int_equal(w.n, time + answer + event);
	assert_int_equal(w.for_what[SESSION_WAIT_TIME], time);
	assert_int_equal(w.for_what[SESSION_WAIT_ANSWER], answer);
	assert_int_equal(w.for_what[SESSION_WAIT_EVENT], event);
}

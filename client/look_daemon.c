/* Look at the daemon: what its part of a status says. Reports belong to whoever
 * owns them. */
#include <stddef.h>

#include "page.h"

static const Eventd__V1__DaemonInfo *
daemon_pb(const struct evd_daemon *d)
{
	return (const Eventd__V1__DaemonInfo *)d;
}

const char *
evd_daemon_server(const struct evd_daemon *d)
{
	return daemon_pb(d)->server;
}

uint32_t
evd_daemon_pid(const struct evd_daemon *d)
{
	return daemon_pb(d)->pid;
}

int64_t
evd_daemon_started_ns(const struct evd_daemon *d)
{
	return daemon_pb(d)->started_ns;
}

uint32_t
evd_daemon_loops(const struct evd_daemon *d)
{
	return daemon_pb(d)->loops;
}

uint64_t
evd_daemon_sessions(const struct evd_daemon *d)
{
	return daemon_pb(d)->sessions;
}

uint64_t
evd_daemon_failed(const struct evd_daemon *d)
{
	return daemon_pb(d)->failed;
}

uint64_t
evd_daemon_connections(const struct evd_daemon *d)
{
	return daemon_pb(d)->connections;
}

uint64_t
evd_daemon_memory(const struct evd_daemon *d)
{
	return daemon_pb(d)->memory;
}

uint64_t
evd_daemon_memory_part(const struct evd_daemon *d, int part)
{
	switch (part) {
	case EVD_MEMORY_PROPORTIONAL:
		return daemon_pb(d)->memory_proportional;
	case EVD_MEMORY_PRIVATE:
		return daemon_pb(d)->memory_private;
	case EVD_MEMORY_SHARED:
		return daemon_pb(d)->memory_shared;
	case EVD_MEMORY_SWAP:
		return daemon_pb(d)->memory_swap;
	default:
		return 0;
	}
}

const char *
evd_daemon_state(const struct evd_daemon *d)
{
	return daemon_pb(d)->state;
}

uint64_t
evd_daemon_late_replies(const struct evd_daemon *d)
{
	return daemon_pb(d)->late_replies;
}

uint64_t
evd_daemon_denied(const struct evd_daemon *d)
{
	return daemon_pb(d)->denied;
}

uint32_t
evd_daemon_budget(const struct evd_daemon *d)
{
	return daemon_pb(d)->budget;
}

uint32_t
evd_daemon_turn_budget(const struct evd_daemon *d)
{
	return daemon_pb(d)->turn_budget;
}

bool
evd_daemon_profile(const struct evd_daemon *d)
{
	return daemon_pb(d)->profile;
}

uint64_t
evd_daemon_loop(const struct evd_daemon *d, size_t i, int value)
{
	const Eventd__V1__LoopInfo *loop;

	if (i >= daemon_pb(d)->n_loop)
		return 0;
	loop = daemon_pb(d)->loop[i];
	switch (value) {
	case EVD_LOOP_TURNS:
		return loop->turns;
	case EVD_LOOP_RUNNABLE:
		return loop->runnable;
	case EVD_LOOP_QUEUED:
		return loop->queued;
	case EVD_LOOP_TIMERS:
		return loop->timers;
	case EVD_LOOP_LATE_COUNT:
		return loop->late_count;
	case EVD_LOOP_LATE_P50:
		return loop->late_p50_ns;
	case EVD_LOOP_LATE_P99:
		return loop->late_p99_ns;
	case EVD_LOOP_LATE_MAX:
		return loop->late_max_ns;
	default: /* of a later version */
		return 0;
	}
}

const char *
evd_daemon_pool_name(const struct evd_daemon *d, size_t i)
{
	return i < daemon_pb(d)->n_pool ? daemon_pb(d)->pool[i]->name : NULL;
}

uint64_t
evd_daemon_pool(const struct evd_daemon *d, size_t i, int value)
{
	const Eventd__V1__PoolInfo *pool;

	if (i >= daemon_pb(d)->n_pool)
		return 0;
	pool = daemon_pb(d)->pool[i];
	switch (value) {
	case EVD_POOL_THREADS:
		return pool->threads;
	case EVD_POOL_BUSY:
		return pool->busy;
	case EVD_POOL_QUEUED:
		return pool->queued;
	case EVD_POOL_SESSIONS:
		return pool->sessions;
	case EVD_POOL_RUNS:
		return pool->runs;
	case EVD_POOL_STUCK:
		return pool->stuck;
	case EVD_POOL_STUCK_EVER:
		return pool->stuck_ever;
	default: /* of a later version */
		return 0;
	}
}

uint64_t
evd_daemon_late(const struct evd_daemon *d, int value)
{
	switch (value) {
	case EVD_LOOP_LATE_COUNT:
		return daemon_pb(d)->late_count;
	case EVD_LOOP_LATE_P50:
		return daemon_pb(d)->late_p50_ns;
	case EVD_LOOP_LATE_P99:
		return daemon_pb(d)->late_p99_ns;
	case EVD_LOOP_LATE_MAX:
		return daemon_pb(d)->late_max_ns;
	default:
		return 0;
	}
}

uint64_t
evd_daemon_late_bucket(const struct evd_daemon *d, size_t i, uint64_t *below_ns)
{
	const Eventd__V1__LateBucket *b;

	if (i >= daemon_pb(d)->n_late_bucket)
		return 0;
	b = daemon_pb(d)->late_bucket[i];
	if (below_ns)
		*below_ns = b->below_ns ? b->below_ns : UINT64_MAX;
	return b->count;
}

uint64_t
evd_daemon_dead_letters(const struct evd_daemon *d)
{
	return daemon_pb(d)->dead_letters;
}

uint64_t
evd_daemon_dead_letter_bytes(const struct evd_daemon *d)
{
	return daemon_pb(d)->dead_letter_bytes;
}

uint64_t
evd_daemon_dead_letters_ever(const struct evd_daemon *d)
{
	return daemon_pb(d)->dead_letters_ever;
}

uint64_t
evd_daemon_dead_letters_forgotten(const struct evd_daemon *d)
{
	return daemon_pb(d)->dead_letters_forgotten;
}

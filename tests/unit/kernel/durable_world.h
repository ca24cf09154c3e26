#pragma once
/* For the tests of what is kept in a store: a daemon's worth of one session,
 * `box`, with a mailbox on a store in memory, who posts to it, and its end and
 * start again. One thread. */
#include "fake_store.h"

#include "kernel/history.h"
#include "kernel/queue.h"

struct world {
	struct fixture *f;
	struct fake_store *store;
	struct fake *box, *poster;
	/* of the box, from world_open() on: */
	enum session_result (*first)(struct fake *fake, struct msg *m);
	uint64_t max_state, max_events; /* 0: the default */
	bool is_volatile, restarts;
	bool history; /* that of the last run is read */
	struct queue_purge purge;
	unsigned n_purged; /* how often that was done */
};

static inline void
world_open(struct world *w)
{
	struct session_spec *spec = fixture_spec(
		"box", w->restarts ? RESTART_ON_FAILURE : RESTART_NO);

	spec->durable = !w->is_volatile;
	if (w->max_events)
		spec->max_events = (uint32_t)w->max_events;
	if (w->max_state)
		spec->state_max = w->max_state;
	w->f = fixture_new(1, NULL);
	w->f->kernel.store = &w->store->store;
	if (w->history)
		history_load(w->f->kernel.scheds[0]);
	w->poster = fake_new(w->f, 0, "poster");
	w->box = fake_hosted(w->f, 0, spec);
	w->box->on_run = w->first;
	fake_store_run(w->f, w->store);
}

static inline int
world_setup(void **state, struct world how)
{
	static struct world world;

	world = how;
	world.store = fake_store_new();
	world_open(&world);
	*state = &world;
	return 0;
}

static inline void
world_close(struct world *w)
{
	session_stop(w->box->session);
	fake_store_run(w->f, w->store);
	fixture_free(w->f);
}

static inline int
teardown(void **state)
{
	struct world *w = *state;

	world_close(w);
	fake_store_free(w->store);
	return 0;
}

/* The daemon ends, in order, and starts again. */
static inline void
restart(struct world *w)
{
	world_close(w);
	fake_store_restart(w->store);
	world_open(w);
	w->f->kernel.scheds[0]->next_id += 1 << 20; /* none is used again */
}

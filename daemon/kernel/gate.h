#pragma once
/* Gates: sessions that start together start in an order. Each that waits for
 * others or is waited for has a gate; it starts when all before it have settled
 * for the first time: they are up, wait for events, have failed or are gone.
 * Sessions may be on any schedulers; a gate that opens is told by a task. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/sched.h"

struct session;
struct start_order;

struct gate {
	struct sched_task task; /* opens it */
	struct start_order *order;
	struct sched *home;        /* once its session has arrived */
	uint64_t session;          /* likewise */
	_Atomic uint32_t n_before; /* not settled yet, and itself */
	uint32_t n_next;
	uint32_t *next; /* gates of those that wait for it */
};

struct start_edge {
	uint32_t before, after;
};

/* Gates 0 to @n - 1; there is no way round. NULL: out of memory. One
 * reference. */
struct start_order *start_order_new(
	uint32_t n, const struct start_edge *edges, size_t n_edges);
struct start_order *start_order_unref(struct start_order *order);
/* For the session @i, which is about to be made: a reference. NULL: it waits
 * for nobody and nobody for it. */
struct gate *start_order_gate(struct start_order *order, uint32_t i);

/* @s is there: may it start at once? Else gate_open() comes. */
bool gate_arrive(struct gate *gate, struct session *s);
/* Its session has settled, or could not be made. Gives the reference up. */
void gate_settle(struct sched *sched, struct gate *gate);

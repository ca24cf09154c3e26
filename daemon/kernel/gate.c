#include "kernel/gate.h"

#include <stdlib.h>

#include "base/fault.h"
#include "kernel/life.h"
#include "kernel/session.h"

struct start_order {
	_Atomic uint32_t refs; /* sessions that have a gate, tasks, the maker */
	uint32_t *next;        /* of all gates */
	struct gate gates[];
};

static void
on_open(struct sched *sched, struct sched_task *task)
{
	struct gate *gate = container_of(task, struct gate, task);
	struct session *s = session_find(sched->kernel, gate->session);

	if (s && s->gated && s->health->gate == gate)
		life_open(s);
	start_order_unref(gate->order);
}

static void
on_drop(struct sched_task *task)
{
	start_order_unref(container_of(task, struct gate, task)->order);
}

/* Room for those that wait for each gate, in one array. */
static void
share_out(struct start_order *order, uint32_t n, const struct start_edge *edges,
	size_t n_edges)
{
	uint32_t *next = order->next;

	for (size_t i = 0; i < n_edges; i++)
		order->gates[edges[i].before].n_next++;
	for (uint32_t i = 0; i < n; i++) {
		order->gates[i].next = next;
		next += order->gates[i].n_next;
		order->gates[i].n_next = 0;
	}
	for (size_t i = 0; i < n_edges; i++) {
		struct gate *before = &order->gates[edges[i].before];

		before->next[before->n_next++] = edges[i].after;
		order->gates[edges[i].after].n_before++;
	}
}

struct start_order *
start_order_new(uint32_t n, const struct start_edge *edges, size_t n_edges)
{
	struct start_order *order =
		FAULT(start_order)
			? NULL
			: calloc(1, sizeof(*order) + n * sizeof(struct gate));

	if (!order)
		return NULL;
	order->next = calloc(n_edges + 1, sizeof(*order->next));
	if (!order->next) {
		free(order);
		return NULL;
	}
	atomic_init(&order->refs, 1);
	for (uint32_t i = 0; i < n; i++) {
		order->gates[i].order = order;
		order->gates[i].task =
			(struct sched_task){.run = on_open, .drop = on_drop};
		atomic_init(&order->gates[i].n_before, 1);
	}
	share_out(order, n, edges, n_edges);
	return order;
}

struct start_order *
start_order_unref(struct start_order *order)
{
	if (order && atomic_fetch_sub(&order->refs, 1) == 1) {
		free(order->next);
		free(order);
	}
	return NULL;
}

struct gate *
start_order_gate(struct start_order *order, uint32_t i)
{
	struct gate *gate = &order->gates[i];

	if (!gate->n_next && atomic_load(&gate->n_before) == 1)
		return NULL;
	atomic_fetch_add(&order->refs, 1);
	return gate;
}

bool
gate_arrive(struct gate *gate, struct session *s)
{
	gate->home = atomic_load(&s->home);
	gate->session = atomic_load(&s->id);
	return atomic_fetch_sub(&gate->n_before, 1) == 1;
}

void
gate_settle(struct sched *sched, struct gate *gate)
{
	struct start_order *order = gate->order;

	for (uint32_t i = 0; i < gate->n_next; i++) {
		struct gate *next = &order->gates[gate->next[i]];

		if (atomic_fetch_sub(&next->n_before, 1) > 1)
			continue;
		atomic_fetch_add(&order->refs, 1);
		sched_run_on(sched, next->home, &next->task);
	}
	start_order_unref(order);
}

#include "kernel/kernel.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "kernel/away.h"
#include "kernel/slots.h"

const struct kernel_limits kernel_limits_default = {
	.max_sessions = 1 << 20,
	.max_timers = 1 << 20,
	.max_calls = 100000,
	.max_watches = 10000,
	.budget = 50,
	.turn_budget = 1000,
	.call_timeout_ms = 30000,
	.max_payload = 1 << 20,
	.dedup_ms = 120000,
	.max_keys = 10000,
	.dead_letters = 1000,
	.dead_bytes = 16 << 20,
	.history = 256 << 10,
};

int
kernel_init(struct kernel *k, const struct kernel_limits *limits,
	const struct clock_source *clock)
{
	int r;

	memset(k, 0, sizeof(*k));
	k->limits = *limits;
	k->clock = clock;
	r = slots_init(&k->sessions, limits->max_sessions);
	if (r)
		return err_fold(r);
	zones_init(&k->zones);
	epoch_init(&k->epoch);
	depot_init(&k->depot);
	r = aliases_init(&k->aliases, &k->epoch);
	if (!r && users_init(&k->users)) {
		aliases_deinit(&k->aliases);
		r = err_raise(-ENOMEM);
	}
	if (r) {
		depot_deinit(&k->depot);
		epoch_deinit(&k->epoch);
		zones_deinit(&k->zones);
		slots_deinit(&k->sessions);
		return err_fold(r);
	}
	return 0;
}

static bool
is_gone(const struct executor *x)
{
	return atomic_load_explicit(&x->gone, memory_order_relaxed);
}

struct executor *
kernel_executor_at(const struct kernel *k, uint32_t i)
{
	uint32_t n = atomic_load(&k->n_executors);

	for (uint32_t at = 0; at < n; at++) {
		struct executor *x = atomic_load(&k->executors[at]);

		if (!is_gone(x) && !i--)
			return x;
	}
	return NULL;
}

struct executor *
kernel_executor(const struct kernel *k, const char *name)
{
	uint32_t n = atomic_load(&k->n_executors);

	for (uint32_t i = 0; i < n; i++) {
		struct executor *x = atomic_load(&k->executors[i]);

		if (!is_gone(x) && strcmp(x->name, name) == 0)
			return x;
	}
	return NULL;
}

int
kernel_executor_add(struct kernel *k, struct executor *x)
{
	uint32_t n = atomic_load(&k->n_executors);

	if (n == KERNEL_EXECUTORS_MAX)
		return err_raise(-ENOSPC);
	atomic_store(&k->executors[n], x);
	atomic_store(&k->n_executors, n + 1);
	return 0;
}

void
kernel_deinit(struct kernel *k)
{
	aliases_deinit(&k->aliases);
	users_deinit(&k->users);
	depot_deinit(&k->depot);
	epoch_deinit(&k->epoch);
	slots_deinit(&k->sessions);
	zones_deinit(&k->zones);
}

#include "kernel/kernel.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "kernel/away.h"

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
	k->sessions.chunks =
		calloc(SESSION_CHUNKS, sizeof(*k->sessions.chunks));
	if (!k->sessions.chunks)
		return err_raise(-ENOMEM);
	pthread_mutex_init(&k->sessions.lock, NULL);
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
		free(k->sessions.chunks);
		return err_fold(r);
	}
	return 0;
}

struct executor *
kernel_executor(const struct kernel *k, const char *name)
{
	for (unsigned i = 0; i < k->n_executors; i++)
		if (strcmp(k->executors[i]->name, name) == 0)
			return k->executors[i];
	return NULL;
}

void
kernel_deinit(struct kernel *k)
{
	aliases_deinit(&k->aliases);
	users_deinit(&k->users);
	depot_deinit(&k->depot);
	epoch_deinit(&k->epoch);
	for (size_t i = 0; i < SESSION_CHUNKS; i++) {
		struct session *chunk = atomic_load(&k->sessions.chunks[i]);

		if (!chunk)
			break;
		free(chunk);
	}
	free(k->sessions.chunks);
	zones_deinit(&k->zones);
	pthread_mutex_destroy(&k->sessions.lock);
}

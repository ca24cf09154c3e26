#pragma once
/* [Pool NAME] of eventd.conf: threads that run sessions; see exec/pool.h. */
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

struct config;
struct config_file;

struct config_pool {
	char *name;
	uint32_t type; /* enum pool_type */
	uint32_t threads;
	uint32_t busy_us;
	uint32_t stuck_ms; /* 0: never */
	bool has_cpus;
	cpu_set_t cpus;
};

/* A key of [Pool NAME]. */
void config_pool_set(struct config_file *f, const char *name, const char *key,
	const char *value);
/* Those that are there without being asked for. 0 or -ENOMEM. */
int config_pools_finish(struct config *c);
/* NULL: there is none of that name. */
const struct config_pool *config_pool_find(
	const struct config *c, const char *name);
void config_pools_free(struct config *c);
/* Microseconds, as in BusyPoll=. */
void config_set_busy(struct config_file *f, const char *key, const char *value,
	uint32_t *out);

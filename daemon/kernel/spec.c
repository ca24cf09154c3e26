/* Session specification: construction by one owner, then shared by count. */
#include "kernel/spec.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"

struct session_spec *
spec_new(void)
{
	struct session_spec *spec = calloc(1, sizeof(*spec));

	if (!spec)
		return NULL;
	atomic_init(&spec->refs, 1);
	spec->max_events = SPEC_MAX_EVENTS;
	spec->max_bytes = SPEC_MAX_BYTES;
	spec->restart = RESTART_ON_FAILURE;
	spec->restart_ms = SPEC_RESTART_MS;
	spec->restart_max_ms = SPEC_RESTART_MAX_MS;
	spec->restart_burst = SPEC_RESTART_BURST;
	spec->restart_window_ms = SPEC_RESTART_WINDOW_MS;
	spec->memory_max = SPEC_MEMORY_MAX;
	spec->handler_ms = SPEC_HANDLER_MS;
	spec->loop = -1;
	return spec;
}

struct session_spec *
spec_ref(struct session_spec *spec)
{
	atomic_fetch_add_explicit(&spec->refs, 1, memory_order_relaxed);
	return spec;
}

static void
spec_free(struct session_spec *spec)
{
	for (size_t i = 0; i < spec->n_aliases; i++)
		free(spec->aliases[i]);
	for (size_t i = 0; i < spec->n_params; i++) {
		free(spec->params[i].key);
		free(spec->params[i].value);
	}
	free(spec->aliases);
	free(spec->params);
	free(spec->name);
	free(spec->origin);
	free(spec->kind);
	free(spec->path);
	free(spec);
}

struct session_spec *
spec_unref(struct session_spec *spec)
{
	if (spec && atomic_fetch_sub_explicit(
			    &spec->refs, 1, memory_order_acq_rel) == 1)
		spec_free(spec);
	return NULL;
}

const char *
spec_param(const struct session_spec *spec, const char *key)
{
	for (size_t i = spec->n_params; i-- > 0;)
		if (strcmp(spec->params[i].key, key) == 0)
			return spec->params[i].value;
	return NULL;
}

int
spec_add_alias(struct session_spec *spec, const char *alias)
{
	char **bigger, *copy = strdup(alias);

	bigger = reallocarray(
		spec->aliases, spec->n_aliases + 1, sizeof(*bigger));
	if (bigger)
		spec->aliases = bigger;
	if (!copy || !bigger) {
		free(copy);
		return err_raise(-ENOMEM);
	}
	spec->aliases[spec->n_aliases++] = copy;
	return 0;
}

int
spec_add_param(struct session_spec *spec, const char *key, const char *value)
{
	struct spec_param *bigger,
		copy = {.key = strdup(key), .value = strdup(value)};

	bigger =
		reallocarray(spec->params, spec->n_params + 1, sizeof(*bigger));
	if (bigger)
		spec->params = bigger;
	if (!copy.key || !copy.value || !bigger) {
		free(copy.key);
		free(copy.value);
		return err_raise(-ENOMEM);
	}
	spec->params[spec->n_params++] = copy;
	return 0;
}

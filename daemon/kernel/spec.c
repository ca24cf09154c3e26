/* Session specification: construction by one owner, then shared by count. */
#include "kernel/spec.h"

#include <stdlib.h>
#include <string.h>

#include "base/calendar.h"
#include "base/err.h"
#include "kernel/delays.h"

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
	spec->concurrency = 1;
	spec->state_max = SPEC_STATE_MAX;
	spec->loop = -1;
	spec->misfire = DELAY_ONCE;
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
	for (size_t i = 0; i < spec->n_rules; i++)
		free(spec->rules[i].pattern);
	free(spec->rules);
	free(spec->water_alias);
	free(spec->dead_letter);
	for (size_t i = 0; i < spec->n_schedules; i++) {
		free(spec->schedules[i].event);
		calendar_unref(spec->schedules[i].calendar);
	}
	for (size_t i = 0; i < spec->n_binds; i++)
		free(spec->binds[i].alias);
	free(spec->binds);
	free(spec->schedules);
	free(spec->aliases);
	free(spec->params);
	free(spec->name);
	free(spec->origin);
	free(spec->kind);
	free(spec->path);
	free(spec->group);
	free(spec->executor);
	for (size_t i = 0; i < spec->n_after; i++)
		free(spec->after[i]);
	free(spec->after);
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

static int
names_add(char ***names, size_t *n, const char *name)
{
	char **bigger, *copy = strdup(name);

	bigger = reallocarray(*names, *n + 1, sizeof(*bigger));
	if (bigger)
		*names = bigger;
	if (!copy || !bigger) {
		free(copy);
		return err_raise(-ENOMEM);
	}
	bigger[(*n)++] = copy;
	return 0;
}

int
spec_add_alias(struct session_spec *spec, const char *alias)
{
	return names_add(&spec->aliases, &spec->n_aliases, alias);
}

int
spec_add_after(struct session_spec *spec, const char *name)
{
	return names_add(&spec->after, &spec->n_after, name);
}

int
spec_add_bind(struct session_spec *spec, const char *alias, uint32_t mode,
	uint32_t window)
{
	struct spec_bind *bigger =
		reallocarray(spec->binds, spec->n_binds + 1, sizeof(*bigger));
	char *copy = strdup(alias);

	if (bigger)
		spec->binds = bigger;
	if (!bigger || !copy) {
		free(copy);
		return err_raise(-ENOMEM);
	}
	bigger[spec->n_binds++] = (struct spec_bind){copy, mode, window};
	return 0;
}

int
spec_add_schedule(
	struct session_spec *spec, const char *event, struct calendar *calendar)
{
	struct spec_schedule *bigger, item = {strdup(event), calendar};

	bigger = reallocarray(
		spec->schedules, spec->n_schedules + 1, sizeof(*bigger));
	if (bigger)
		spec->schedules = bigger;
	if (!item.event || !bigger) {
		free(item.event);
		return err_raise(-ENOMEM);
	}
	spec->schedules[spec->n_schedules++] = item;
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

/* ---- the mailbox ----------------------------------------------------- */

const char *const bind_mode_words[] = {
	[BIND_EXCLUSIVE] = "exclusive",
	[BIND_SHARED] = "shared",
	[BIND_FANOUT] = "fanout",
	NULL,
};

const char *const overflow_words[] = {
	[OVERFLOW_BLOCK] = "block",
	[OVERFLOW_REFUSE] = "refuse",
	[OVERFLOW_DROP_OLDEST] = "drop-oldest",
	[OVERFLOW_DROP_NEWEST] = "drop-newest",
	[OVERFLOW_DISCONNECT] = "disconnect",
	NULL,
};

static bool
pattern_matches(const char *pattern, const char *name)
{
	const char *star = NULL, *from = name;

	while (*name) {
		if (*pattern == '*') {
			star = pattern++;
			from = name;
		} else if (*pattern == *name) {
			pattern++;
			name++;
		} else if (star) { /* the star takes one more */
			pattern = star + 1;
			name = ++from;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return !*pattern;
}

size_t
spec_overflow_class(const struct session_spec *spec, const char *name)
{
	size_t i = 0;

	while (i < spec->n_rules &&
		!pattern_matches(spec->rules[i].pattern, name))
		i++;
	return i;
}

enum overflow
spec_overflow(const struct session_spec *spec, const char *name)
{
	size_t i = spec_overflow_class(spec, name);

	return i < spec->n_rules ? spec->rules[i].overflow : spec->overflow;
}

static bool
pattern_is_valid(const char *pattern, size_t size)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz"
				      "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789_./-*";

	return size > 0 && size <= UINT8_MAX &&
	       strspn(pattern, letters) >= size;
}

static int
rule_add(struct session_spec *spec, const char *pattern, size_t size,
	enum overflow overflow)
{
	struct overflow_rule *bigger;
	char *copy;

	if (!pattern_is_valid(pattern, size))
		return SPEC_E_PATTERN;
	if (spec->n_rules == SPEC_RULES_MAX)
		return SPEC_E_MANY;
	bigger = reallocarray(spec->rules, spec->n_rules + 1, sizeof(*bigger));
	if (!bigger)
		return err_raise(-ENOMEM);
	spec->rules = bigger;
	copy = strndup(pattern, size);
	if (!copy)
		return err_raise(-ENOMEM);
	spec->rules[spec->n_rules++] = (struct overflow_rule){copy, overflow};
	return 0;
}

int
spec_add_overflow(struct session_spec *spec, const char *word)
{
	const char *colon = strchr(word, ':');
	const char *policy = colon ? colon + 1 : word;
	unsigned i = 0;

	while (overflow_words[i] && strcmp(overflow_words[i], policy) != 0)
		i++;
	if (!overflow_words[i])
		return SPEC_E_WORD;
	if (colon)
		return rule_add(
			spec, word, (size_t)(colon - word), (enum overflow)i);
	spec->overflow = (enum overflow)i;
	return 0;
}

int
spec_set_overflow(struct session_spec *spec, const char *text)
{
	char *copy = strdup(text), *rest = copy, *word;
	int r = copy ? 0 : err_raise(-ENOMEM);

	while (!r && (word = strsep(&rest, " \t")))
		if (*word)
			r = spec_add_overflow(spec, word);
	free(copy);
	return r;
}

static int
copy_text(char **to, const char *from)
{
	*to = from ? strdup(from) : NULL;
	return from && !*to ? err_raise(-ENOMEM) : 0;
}

int
spec_copy_mailbox(struct session_spec *spec, const struct session_spec *from)
{
	int r = copy_text(&spec->water_alias, from->water_alias);

	if (!r)
		r = copy_text(&spec->dead_letter, from->dead_letter);
	for (size_t i = 0; i < from->n_rules && !r; i++)
		r = rule_add(spec, from->rules[i].pattern,
			strlen(from->rules[i].pattern),
			from->rules[i].overflow);
	spec->max_events = from->max_events;
	spec->max_bytes = from->max_bytes;
	spec->overflow = from->overflow;
	spec->high = from->high;
	spec->low = from->low;
	return r;
}

int
spec_inherit(struct session_spec *spec, const struct session_spec *from)
{
	spec->restart = from->restart;
	spec->restart_ms = from->restart_ms;
	spec->restart_max_ms = from->restart_max_ms;
	spec->restart_burst = from->restart_burst;
	spec->restart_window_ms = from->restart_window_ms;
	spec->memory_max = from->memory_max;
	spec->handler_ms = from->handler_ms;
	spec->on_stall = from->on_stall;
	spec->concurrency = from->concurrency;
	spec->max_attempts = from->max_attempts;
	if (!spec->executor && copy_text(&spec->executor, from->executor))
		return err_raise(-ENOMEM);
	return spec_copy_mailbox(spec, from);
}

int
spec_set_executor(struct session_spec *spec, const char *name)
{
	char *copy = NULL;

	if (copy_text(&copy, name))
		return err_raise(-ENOMEM);
	free(spec->executor);
	spec->executor = copy;
	return 0;
}

bool
spec_says(const struct session_spec *spec, enum overflow overflow)
{
	for (size_t i = 0; i < spec->n_rules; i++)
		if (spec->rules[i].overflow == overflow)
			return true;
	return spec->overflow == overflow;
}

#include "config_mailbox.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "config_session.h"
#include "config_value.h"
#include "kernel/spec.h"
#include "proto/envelope.h"

static struct session_spec *
spec_of(struct config_file *f)
{
	struct config_session *s = f->target;

	return s->spec;
}

/* ---- Overflow= ---------------------------------------------------------- */

static void
explain_overflow(struct config_file *f, int r, const char *word)
{
	const char *colon = strchr(word, ':');
	const char *policy = colon ? colon + 1 : word;
	const char *near = value_nearest(policy, overflow_words);

	if (r == SPEC_E_MANY)
		config_file_error(f, f->at,
			"Overflow= names more than %d classes of events",
			SPEC_RULES_MAX);
	else if (r == SPEC_E_PATTERN)
		config_file_error(f, f->at,
			"'%.*s' cannot be an event's name; a class is a name, "
			"in which * stands for any text",
			(int)(colon - word), word);
	else if (r == SPEC_E_WORD)
		config_file_error(f, f->at,
			"Overflow= may be block, refuse, drop-oldest or "
			"drop-newest, for a class of events EVENT:block and so "
			"on, not '%s'%s%s%s",
			word, near ? "; did you mean " : "", near ? near : "",
			near ? "?" : "");
	else
		config_file_error(f, f->at, "out of memory");
}

static void
take_overflow(struct config_file *f, const char *word, bool *has_default)
{
	int r;

	if (!strchr(word, ':')) {
		if (*has_default) {
			config_file_error(f, f->at,
				"Overflow= says what to do with all other "
				"events already; put EVENT: before '%s' or "
				"remove it",
				word);
			return;
		}
		*has_default = true;
	}
	r = spec_add_overflow(spec_of(f), word);
	if (!r && spec_says(spec_of(f), OVERFLOW_DISCONNECT))
		r = SPEC_E_WORD; /* of subscribers alone */
	if (r)
		explain_overflow(f, r, word);
}

void
config_set_overflow(
	struct config_file *f, const struct config_key *key, const char *value)
{
	struct config_place start = f->at;
	char *copy = strdup(value), *rest = copy, *word;
	bool has_default = false;

	(void)key;
	if (!copy) {
		config_file_error(f, f->at, "out of memory");
		return;
	}
	while ((word = strsep(&rest, " \t"))) {
		f->at.column = start.column + (unsigned)(word - copy);
		if (*word)
			take_overflow(f, word, &has_default);
	}
	f->at = start;
	free(copy);
}

/* ---- marks -------------------------------------------------------------- */

void
config_set_water(
	struct config_file *f, const struct config_key *key, const char *value)
{
	struct water_mark *mark =
		(struct water_mark *)((char *)spec_of(f) + key->offset);
	size_t digits = strspn(value, "0123456789");
	bool percent = strcmp(value + digits, "%") == 0;
	uint64_t n =
		digits && digits < 10 ? strtoull(value, NULL, 10) : UINT64_MAX;

	if (!digits || (value[digits] && !percent))
		config_file_error(f, f->at,
			"%s= is a number of events, or a percentage of "
			"MaxEvents= and MaxBytes= such as 80%%, not '%s'",
			key->name, value);
	else if (percent ? n > 100 || n < key->min
			 : n > 100000000 || n < key->min)
		config_file_error(f, f->at,
			"%s= is '%s', but it may be %" PRIu64
			" to 100000000 events, or %" PRIu64 "%% to 100%%",
			key->name, value, key->min, key->min);
	else
		*mark = (struct water_mark){
			.events = percent ? 0 : (uint32_t)n,
			.percent = percent ? (uint32_t)n : 0,
		};
}

static bool
is_set(const struct water_mark *mark)
{
	return mark->events || mark->percent;
}

void
config_check_water(struct config_file *f, struct config_place high,
	struct config_place low)
{
	struct session_spec *spec = spec_of(f);

	if (!high.line && low.line)
		config_file_error(f, low, "LowWater= needs HighWater=");
	if (!is_set(&spec->high))
		return; /* none, or it has been told that it is wrong */
	if (!low.line) {
		spec->low.events = spec->high.events / 2;
		spec->low.percent = spec->high.percent / 2;
	} else if (is_set(&spec->low) &&
		   !spec->high.events != !spec->low.events) {
		config_file_error(f, low,
			"HighWater= and LowWater= must both be events or both "
			"be percentages");
	} else if (spec->low.events >= spec->high.events &&
		   spec->low.percent >= spec->high.percent) {
		config_file_error(f, low, "LowWater= must be below HighWater=");
	}
	if (spec->high.events > spec->max_events)
		config_file_error(f, high,
			"HighWater= is above MaxEvents=%" PRIu32
			", which it would never reach",
			spec->max_events);
}

/* ---- aliases ------------------------------------------------------------ */

void
config_set_alias(
	struct config_file *f, const struct config_key *key, const char *value)
{
	char **field = (char **)((char *)spec_of(f) + key->offset);

	if (!name_is_valid(value, strlen(value), ENVELOPE_ALIAS_MAX)) {
		config_file_error(f, f->at,
			"%s= is not a valid alias: '%s'; it has 1 to %d of A-Z "
			"a-z 0-9 _ . / -",
			key->name, value, ENVELOPE_ALIAS_MAX);
		return;
	}
	free(*field);
	*field = strdup(value);
	if (!*field)
		config_file_error(f, f->at, "out of memory");
}

/* ---- digest ------------------------------------------------------------- */

uint64_t
config_mailbox_digest(uint64_t d, const struct session_spec *spec)
{
	d = config_digest_number(d, spec->overflow);
	d = config_digest_number(d, spec->n_rules);
	for (size_t i = 0; i < spec->n_rules; i++) {
		d = config_digest_string(d, spec->rules[i].pattern);
		d = config_digest_number(d, spec->rules[i].overflow);
	}
	d = config_digest_number(d, spec->high.events);
	d = config_digest_number(d, spec->high.percent);
	d = config_digest_number(d, spec->low.events);
	d = config_digest_number(d, spec->low.percent);
	d = config_digest_string(d, spec->water_alias);
	return config_digest_string(d, spec->dead_letter);
}

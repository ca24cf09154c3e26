#include "config_access.h"

#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "config_value.h"
#include "kernel/spec.h"
#include "policy/policy.h"
#include "proto/envelope.h"
#include "proto/pattern.h"

static const char *const keys[RIGHTS + 1] = {
	[RIGHT_POST] = "Post",
	[RIGHT_CALL] = "Call",
	[RIGHT_BIND] = "Bind",
	[RIGHT_WATCH] = "Watch",
	[RIGHT_MANAGE] = "Manage",
	[RIGHT_SEE] = "See",
};

/* The right of @key, or RIGHTS and an error. */
static unsigned
right_of_key(struct config_file *f, const char *key, const char *value)
{
	const char *near = value_nearest(key, keys);
	unsigned right = 0;

	while (right < RIGHTS && strcmp(keys[right], key) != 0)
		right++;
	if (right == RIGHTS && near)
		config_file_error(f, f->key_at,
			"unknown key %s= in [Access]; did you mean %s=?", key,
			near);
	else if (right == RIGHTS)
		config_file_error(f, f->key_at,
			"unknown key %s= in [Access]; there are Post, Call, "
			"Bind, Watch, Manage and See",
			key);
	else if (!*value)
		config_file_error(f, f->at,
			"%s= has no value; give those who may, or none", key);
	return *value ? right : RIGHTS;
}

static bool
pattern_ok(struct config_file *f, const char *what, const char *pattern,
	size_t max)
{
	if (pattern_is_valid(pattern, strlen(pattern), max))
		return true;
	config_file_error(f, f->key_at,
		"'%s' is no %s; it has 1 to %zu of A-Z a-z 0-9 _ . / - and at "
		"most one *",
		pattern, what, max);
	return false;
}

/* What an event is for: it has one only when it is sent. */
static bool
event_ok(struct config_file *f, unsigned right, const char *key, const char *e)
{
	if (!e)
		return true;
	if (right == RIGHT_POST || right == RIGHT_CALL)
		return pattern_ok(f, "event", e, ENVELOPE_EVENT_MAX);
	config_file_error(f, f->key_at,
		"%s= cannot be for an event; only Post= and Call= can", key);
	return false;
}

static void
tell(struct config_file *f, const struct policy_line *line, int r,
	const char *text, struct config_errors *warnings)
{
	if (r == POLICY_E_UNKNOWN)
		config_errors_add(warnings, "%s:%u:%u: %s= %s", f->path,
			f->at.line, f->at.column, keys[line->right], text);
	else if (r == POLICY_E_WORD)
		config_file_error(f, f->at, "%s= %s", keys[line->right], text);
	else if (r == POLICY_E_MANY)
		config_file_error(f, f->at,
			"at most %d words are on a line, and %d lines in all",
			POLICY_WORDS_MAX, POLICY_RULES_MAX);
	else if (r)
		config_file_error(f, f->at, "out of memory");
}

static void
add(struct config_file *f, struct policy *policy, struct policy_line *line,
	struct config_errors *warnings)
{
	char text[512] = "";
	int r;

	line->file = f->path;
	line->line = f->at.line;
	r = policy_add(policy, line, text, sizeof(text));
	tell(f, line, r, text, warnings);
}

/* ---- eventd.conf ------------------------------------------------------- */

void
config_access_set(struct config_file *f, const char *words, const char *key,
	const char *value)
{
	struct config *c = f->target;
	struct policy_line line = {
		.words = value, .layer = POLICY_DAEMON + c->n_files};
	unsigned right = right_of_key(f, key, value);
	char *copy = strdup(words), *rest = copy, *word;
	const char *parts[2] = {"*", NULL};
	size_t n = 0;

	while (copy && (word = strsep(&rest, " \t"))) {
		if (*word && n < 2)
			parts[n] = word;
		n += *word != '\0';
	}
	if (!copy)
		config_file_error(f, f->at, "out of memory");
	else if (n > 2)
		config_file_error(f, f->key_at,
			"the section is [Access ALIAS EVENT], both may be "
			"patterns and be left out");
	else if (right < RIGHTS &&
		 pattern_ok(f, "alias", parts[0], ENVELOPE_ALIAS_MAX) &&
		 event_ok(f, right, key, parts[1])) {
		line.alias = parts[0];
		line.event = parts[1];
		line.right = (enum right)right;
		add(f, c->policy, &line, &c->warnings);
	}
	free(copy);
}

/* ---- session files ----------------------------------------------------- */

void
config_access_add(struct config_file *f, struct config_access *access,
	const char *words, const char *key, const char *value)
{
	struct config_access_line *bigger, line = {.at = f->at};
	const char *event = *words ? words : NULL;
	size_t n = access->n;

	line.right = right_of_key(f, key, value);
	if (line.right == RIGHTS || !event_ok(f, line.right, key, event))
		return;
	bigger = reallocarray(access->lines, n + 1, sizeof(*bigger));
	if (bigger)
		access->lines = bigger;
	line.words = strdup(value);
	line.event = event ? strdup(event) : NULL;
	if (!bigger || !line.words || (event && !line.event)) {
		free(line.words);
		free(line.event);
		config_file_error(f, f->at, "out of memory");
		return;
	}
	access->lines[access->n++] = line;
}

/* What its file names is not taken by clients, but for mailboxes that are there
 * for them, and where the file says so. */
static void
reserve(struct config_file *f, const struct session_spec *spec,
	struct policy *policy)
{
	if (!spec->kind || !strcmp(spec->kind, "client") || spec->allow_replace)
		return;
	for (size_t i = 0; i < spec->n_aliases; i++) {
		struct policy_line line = {.alias = spec->aliases[i],
			.right = RIGHT_BIND,
			.words = "root owner",
			.layer = POLICY_BUILT_IN};

		f->at = (struct config_place){1, 1};
		add(f, policy, &line, NULL);
	}
}

void
config_access_apply(struct config_file *f, struct config_access *access,
	const struct session_spec *spec, struct policy *policy,
	struct config_errors *warnings)
{
	if (policy)
		reserve(f, spec, policy);
	for (size_t i = 0; i < access->n; i++) {
		struct config_access_line *l = &access->lines[i];

		f->at = l->at;
		if (!policy && i == 0)
			config_file_error(f, f->at,
				"[Access] counts in sessions.d alone; say it "
				"in eventd.conf");
		for (size_t k = 0; policy && k < spec->n_aliases; k++) {
			struct policy_line line = {.alias = spec->aliases[k],
				.event = l->event,
				.right = (enum right)l->right,
				.words = l->words,
				.layer = POLICY_SESSION};

			add(f, policy, &line, warnings);
		}
		free(l->event);
		free(l->words);
	}
	free(access->lines);
	*access = (struct config_access){0};
}

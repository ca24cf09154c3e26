#include "config_life.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "config.h"
#include "config_session.h"
#include "kernel/crowd.h"
#include "kernel/spec.h"
#include "proto/envelope.h"

#define GROUP_PREFIX "group/"

enum { AFTER_MAX = 64 };
enum { GROUP_NAME_MAX = ENVELOPE_ALIAS_MAX - (sizeof(GROUP_PREFIX) - 1) };

static struct session_spec *
spec_of(struct config_file *f)
{
	const struct config_session *s = f->target;

	return s->spec;
}

static bool
kind_is(const struct session_spec *spec, const char *kind)
{
	return spec->kind && strcmp(spec->kind, kind) == 0;
}

/* ---- keys ---------------------------------------------------------------- */

/* An alias, and no empty part of a path: "a//b" would be in a group "a/". */
static bool
group_is_valid(const char *name)
{
	size_t size = strlen(name);

	return name_is_valid(name, size, GROUP_NAME_MAX) && name[0] != '/' &&
	       name[size - 1] != '/' && !strstr(name, "//");
}

void
config_set_group(
	struct config_file *f, const struct config_key *key, const char *value)
{
	struct session_spec *spec = spec_of(f);

	(void)key;
	if (!group_is_valid(value)) {
		config_file_error(f, f->at,
			"'%s' cannot name a group; it has 1 to %d of A-Z a-z "
			"0-9 _ . -, with single slashes between groups within "
			"groups",
			value, (int)GROUP_NAME_MAX);
		return;
	}
	free(spec->group);
	spec->group = strdup(value);
	if (!spec->group)
		config_file_error(f, f->at, "out of memory");
}

/* Each of the words that blanks separate to @take, with its column: 0 or
 * -ENOMEM. */
static void
each_word(struct config_file *f, const char *value,
	int (*take)(struct config_file *f, char *word))
{
	struct config_place start = f->at;
	char *copy = strdup(value), *rest = copy, *word;
	bool bad = !copy;

	while (!bad && (word = strsep(&rest, " \t"))) {
		f->at.column = start.column + (unsigned)(word - copy);
		if (*word)
			bad = take(f, word) != 0;
	}
	f->at = start;
	if (bad)
		config_file_error(f, f->at, "out of memory");
	free(copy);
}

static int
add_after(struct config_file *f, char *word)
{
	if (!name_is_valid(word, strlen(word), ENVELOPE_ALIAS_MAX))
		config_file_error(f, f->at,
			"'%s' names no session: After= takes names of "
			"session files, without .conf, and aliases",
			word);
	else if (spec_of(f)->n_after == AFTER_MAX)
		config_file_error(
			f, f->at, "After= takes at most %d names", AFTER_MAX);
	else
		return spec_add_after(spec_of(f), word);
	return 0;
}

void
config_set_after(
	struct config_file *f, const struct config_key *key, const char *value)
{
	(void)key;
	each_word(f, value, add_after);
}

/* "jobs:shared:4"; false: it is no such word. */
static bool
take_bind(char *word, struct spec_bind *out)
{
	char *mode = strchr(word, ':'), *window = NULL, *end;
	unsigned long n = 0;

	if (!mode)
		return false;
	*mode++ = '\0';
	window = strchr(mode, ':');
	if (window) {
		*window++ = '\0';
		n = strtoul(window, &end, 10);
		if (*end || window[0] < '0' || window[0] > '9' || !n ||
			n > CROWD_WINDOW_MAX || strcmp(mode, "shared") != 0)
			return false;
	}
	*out = (struct spec_bind){.alias = word,
		.mode = strcmp(mode, "fanout") ? BIND_SHARED : BIND_FANOUT,
		.window = (uint32_t)n};
	return (out->mode == BIND_FANOUT || !strcmp(mode, "shared")) &&
	       name_is_valid(word, strlen(word), ENVELOPE_ALIAS_MAX);
}

static bool
is_bound(const struct session_spec *spec, const char *alias)
{
	for (size_t i = 0; i < spec->n_binds; i++)
		if (!strcmp(spec->binds[i].alias, alias))
			return true;
	return false;
}

static int
add_bind(struct config_file *f, char *word)
{
	struct session_spec *spec = spec_of(f);
	struct spec_bind bind;

	if (!take_bind(word, &bind))
		config_file_error(f, f->at,
			"Bind= takes words like jobs:shared, jobs:shared:4 and "
			"news:fanout: an alias, a mode and, of shared, how "
			"many events at once, 1 to %d",
			CROWD_WINDOW_MAX);
	else if (is_bound(spec, bind.alias))
		config_file_error(
			f, f->at, "Bind= has the alias '%s' twice", bind.alias);
	else if (spec->n_binds == SPEC_BINDS_MAX)
		config_file_error(f, f->at, "Bind= takes at most %d aliases",
			SPEC_BINDS_MAX);
	else
		return spec_add_bind(spec, bind.alias, bind.mode, bind.window);
	return 0;
}

void
config_set_bind(
	struct config_file *f, const struct config_key *key, const char *value)
{
	(void)key;
	each_word(f, value, add_bind);
}

void
config_check_bind(struct config_file *f, struct config_place at)
{
	const struct session_spec *spec = spec_of(f);

	if (at.line && (kind_is(spec, "client") || kind_is(spec, "group")))
		config_file_error(f, at,
			"Bind= is for sessions that handle events themselves; "
			"it has no meaning with Kind=%s: remove it",
			spec->kind);
	for (size_t i = 0; at.line && i < spec->n_aliases; i++)
		if (is_bound(spec, spec->aliases[i]))
			config_file_error(f, at,
				"the session has the alias '%s' alone, and "
				"cannot bind it beside others as well",
				spec->aliases[i]);
}

void
config_set_order(
	struct config_file *f, const struct config_key *key, const char *value)
{
	char *end;
	long order;

	(void)key;
	errno = 0;
	order = strtol(value, &end, 10);
	if (errno || *end || end == value || order < -1000000 ||
		order > 1000000)
		config_file_error(f, f->at,
			"Order= is a whole number from -1000000 to 1000000, "
			"not '%s'",
			value);
	else
		spec_of(f)->order = (int32_t)order;
}

/* A group is called by its file's name if it is not given another, and is
 * found by an alias of its own. */
static void
check_group(struct config_file *f)
{
	struct session_spec *spec = spec_of(f);
	char alias[ENVELOPE_ALIAS_MAX + 1];
	size_t n = spec->n_aliases;

	if (!spec->group)
		spec->group = strdup(spec->name);
	if (spec->loop < 0)
		spec->loop = 0;
	if (!spec->group || !group_is_valid(spec->group)) {
		config_file_error(f, (struct config_place){0, 0},
			"the file's name is too long for a group's: give "
			"Group=");
		return;
	}
	snprintf(alias, sizeof(alias), GROUP_PREFIX "%s", spec->group);
	for (size_t i = 0; i < n; i++)
		if (strcmp(spec->aliases[i], alias) == 0)
			return;
	config_session_claim(f, alias);
}

/* Nobody but a group is called as groups are. */
static void
check_names(struct config_file *f)
{
	const struct session_spec *spec = spec_of(f);

	for (size_t i = 0; i < spec->n_aliases; i++)
		if (!kind_is(spec, "group") &&
			strncmp(spec->aliases[i], GROUP_PREFIX,
				sizeof(GROUP_PREFIX) - 1) == 0)
			config_file_error(f, (struct config_place){0, 0},
				"the alias '%s' begins with " GROUP_PREFIX
				", as those of groups do; give another",
				spec->aliases[i]);
}

void
config_check_life(struct config_file *f, const struct config_place places[3])
{
	static const char *const names[] = {"Start", "IdleStop", "Collect"};
	const struct session_spec *spec = spec_of(f);

	check_names(f);
	if (kind_is(spec, "group"))
		check_group(f);
	else if (!kind_is(spec, "client"))
		return;
	for (size_t i = 0; i < 3; i++)
		if (places[i].line)
			config_file_error(f, places[i],
				"%s= has no meaning with Kind=%s, which has "
				"no state to make or drop; remove it",
				names[i], spec->kind);
}

void
config_check_mode(struct config_file *f, struct config_place at)
{
	if (at.line && !kind_is(spec_of(f), "client"))
		config_file_error(f, at,
			"Mode= says how clients bind a mailbox of Kind=client; "
			"it has no meaning here: remove it");
}

uint64_t
config_life_digest(uint64_t digest, const struct session_spec *spec)
{
	digest = config_digest_number(digest, spec->idle_ms);
	digest = config_digest_number(digest, spec->on_demand);
	digest = config_digest_number(digest, spec->collect);
	digest = config_digest_number(digest, spec->max_attempts);
	digest = config_digest_number(digest, spec->durable);
	digest = config_digest_number(digest, spec->state_max);
	digest = config_digest_number(digest, spec->mode);
	for (size_t i = 0; i < spec->n_after; i++)
		digest = config_digest_string(digest, spec->after[i]);
	for (size_t i = 0; i < spec->n_binds; i++) {
		digest = config_digest_string(digest, spec->binds[i].alias);
		digest = config_digest_number(digest, spec->binds[i].mode);
		digest = config_digest_number(digest, spec->binds[i].window);
	}
	digest = config_digest_number(digest, spec->lease_ms);
	digest = config_digest_number(digest, spec->retry_ms);
	digest = config_digest_string(digest, spec->group);
	digest = config_digest_number(digest, (uint64_t)spec->order);
	return config_digest_number(digest, spec->strategy);
}

/* ---- groups without a file ----------------------------------------------- */

static bool
group_exists(const struct config *c, const char *name)
{
	for (size_t i = 0; i < c->n_specs; i++)
		if (kind_is(c->specs[i], "group") && c->specs[i]->group &&
			strcmp(c->specs[i]->group, name) == 0)
			return true;
	return false;
}

static int
group_fill(struct session_spec *spec, const char *name, const char *origin)
{
	char *alias = NULL;
	int r = 0;

	if (asprintf(&alias, GROUP_PREFIX "%s", name) < 0)
		return err_raise(-ENOMEM);
	spec->name = strdup(alias);
	spec->kind = strdup("group");
	spec->origin = origin ? strdup(origin) : NULL;
	spec->group = strdup(name);
	spec->loop = 0;
	if (!spec->name || !spec->kind || !spec->group)
		r = err_raise(-ENOMEM);
	if (!r)
		r = spec_add_alias(spec, alias);
	free(alias);
	if (!r)
		spec->digest = config_session_digest(spec);
	return r;
}

static int
group_add(struct config *c, const char *name, const char *origin)
{
	struct session_spec **bigger, *spec;
	int r;

	bigger = reallocarray(c->specs, c->n_specs + 1, sizeof(*bigger));
	if (!bigger)
		return err_raise(-ENOMEM);
	c->specs = bigger;
	spec = spec_new();
	r = spec ? group_fill(spec, name, origin) : err_raise(-ENOMEM);
	if (r) {
		spec_unref(spec);
		return r;
	}
	c->specs[c->n_specs++] = spec;
	return 0;
}

/* The group of @spec: its own, or of a group the one above. NULL: none, or out
 * of memory. */
static char *
group_of(const struct session_spec *spec)
{
	const char *slash;

	if (!spec->group)
		return NULL;
	if (!kind_is(spec, "group"))
		return strdup(spec->group);
	slash = strrchr(spec->group, '/');
	return slash ? strndup(spec->group, (size_t)(slash - spec->group))
		     : NULL;
}

/* Those that are added are looked at in their turn. */
int
config_groups_add(struct config *c)
{
	int r = 0;

	for (size_t i = 0; i < c->n_specs && !r; i++) {
		char *name = group_of(c->specs[i]);

		if (name && !group_exists(c, name))
			r = group_add(c, name, c->specs[i]->origin);
		free(name);
	}
	return r;
}

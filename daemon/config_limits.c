#include "config_limits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "config_value.h"
#include "kernel/users.h"
#include "policy/policy.h"

#define MOST (UINT64_C(1) << 50)

enum { HELLO_MAX_MS = 3600000 };

/* Bytes= is a size, HelloTimeout= a span, the others are numbers. */
static int
value_of(enum charge_kind kind, const char *value, uint64_t *max)
{
	int r;

	if (strcmp(value, "none") == 0) {
		*max = UINT64_MAX;
		return 0;
	}
	r = kind == CHARGE_BYTES   ? value_size(value, max)
	    : kind == CHARGE_HELLO ? value_span(value, max)
				   : value_count(value, max);
	if (!r && *max > MOST)
		return VALUE_E_RANGE;
	if (!r && kind == CHARGE_HELLO && (!*max || *max > HELLO_MAX_MS))
		return VALUE_E_RANGE;
	return r;
}

static enum charge_kind
kind_of(struct config_file *f, const char *key)
{
	const char *near = value_nearest(key, charge_keys);
	unsigned kind = 0;

	while (kind < CHARGES && strcmp(charge_keys[kind], key) != 0)
		kind++;
	if (kind == CHARGES && near)
		config_file_error(f, f->key_at,
			"unknown key %s= in [Limits]; did you mean %s=?", key,
			near);
	else if (kind == CHARGES)
		config_file_error(f, f->key_at,
			"unknown key %s= in [Limits]; eventd.conf(5) lists all",
			key);
	return (enum charge_kind)kind;
}

/* "user:NAME" or "uid:N". 0, or it has been told. */
static int
user_of(struct config_file *f, const char *words, uint32_t *uid)
{
	struct config *c = f->target;
	char text[256];
	int r = policy_user(words, uid, text, sizeof(text));

	if (r == POLICY_E_UNKNOWN)
		config_errors_add(&c->warnings, "%s:%u:%u: [Limits %s]: %s",
			f->path, f->at.line, f->at.column, words, text);
	else if (r == POLICY_E_WORD)
		config_file_error(f, f->key_at,
			"the section is [Limits], [Limits user:NAME] or "
			"[Limits uid:N], not [Limits %s]",
			words);
	else if (r)
		config_file_error(f, f->at, "out of memory");
	return r;
}

void
config_limits_set(struct config_file *f, const char *words, const char *key,
	const char *value)
{
	struct config *c = f->target;
	enum charge_kind kind = kind_of(f, key);
	uint64_t max = 0;
	uint32_t uid;
	char *from;

	if (kind == CHARGES || (*words && user_of(f, words, &uid)))
		return;
	if (value_of(kind, value, &max)) {
		config_file_error(f, f->at, "%s= needs %s, or none", key,
			kind == CHARGE_BYTES   ? "a size such as 64M"
			: kind == CHARGE_HELLO ? "a span such as 10s"
					       : "a number");
		return;
	}
	if (asprintf(&from, "%s:%u", f->path, f->at.line) < 0)
		from = NULL;
	if (!from || limits_set(c->user_limits, *words ? &uid : NULL, kind, max,
			     from))
		config_file_error(f, f->at, "out of memory");
	free(from);
}

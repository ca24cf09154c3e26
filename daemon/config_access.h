#pragma once
/* [Access] of eventd.conf and of session files: who may do what, for the
 * policy of a configuration. As config.h. */
#include <stddef.h>

#include "config_file.h"

struct policy;
struct session_spec;

/* Lines of one session file, until its aliases are known. */
struct config_access {
	struct config_access_line {
		char *event, *words; /* event NULL: any */
		unsigned right;
		struct config_place at;
	} * lines;
	size_t n;
};

/* A key below [Access ALIAS EVENT] of eventd.conf, whose target is a struct
 * config. */
void config_access_set(struct config_file *f, const char *words,
	const char *key, const char *value);
/* The same below [Access EVENT] of a session file. */
void config_access_add(struct config_file *f, struct config_access *access,
	const char *words, const char *key, const char *value);
/* The file has been read: all its lines count for each of its aliases. @policy
 * NULL: they cannot. Frees what @access holds. */
void config_access_apply(struct config_file *f, struct config_access *access,
	const struct session_spec *spec, struct policy *policy,
	struct config_errors *warnings);

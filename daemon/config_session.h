#pragma once
/* Session files: one [Session] with its [Mailbox] and [Params] becomes one
 * session_spec. As config.h. */
#include <stddef.h>

#include "config_access.h"
#include "config_file.h"
#include "config_schedule.h"

struct session_spec;

/* Who has claimed which alias, to tell of a second. */
struct config_alias {
	char *name;
	char *path;
	struct config_place at;
	size_t order;
	bool waits; /* for who holds it: IfTaken= is not refuse */
};
struct config_aliases {
	struct config_alias *items;
	size_t n;
};
void config_aliases_deinit(struct config_aliases *aliases);
/* Tell of every alias that more than one does not wait for. Puts them in
 * order of name. */
void config_aliases_check(
	struct config_aliases *aliases, struct config_errors *errors);

/* The alias @name is to be that of f->target; f->at says where. */
void config_session_claim(struct config_file *f, const char *name);
uint64_t config_session_digest(const struct session_spec *spec);

/* What one file is read into, and with which others. */
struct config;

struct config_session {
	struct session_spec *spec;
	unsigned n_loops;            /* Loop= must be below */
	const struct config *config; /* whose pools there are; NULL: any */
	struct config_aliases *aliases;
	struct config_schedule schedule; /* while a file is read; else zero */
	struct config_access access;     /* likewise */
	struct policy *policy;          /* of [Access]; NULL: it has no place */
	struct config_errors *warnings; /* for them */
};

/**
 * config_session_read() - read the session file @path
 * @name:   of the session: the file's without .conf
 * @s:      n_loops and aliases are the caller's; spec is set if the file
 *          could be read, though it may be wrong: a reference
 * @errors: told what is wrong
 *
 * Return: 0, or -ENOMEM.
 */
int config_session_read(const char *path, const char *name,
	struct config_session *s, struct config_errors *errors);
/* The same for @size bytes of text in memory; files that it names are not
 * looked at. */
int config_session_parse(const char *text, size_t size,
	struct config_session *s, struct config_errors *errors);

/* Digest of one more value, over @digest; NULL is not "". */
uint64_t config_digest_string(uint64_t digest, const char *text);
uint64_t config_digest_number(uint64_t digest, uint64_t value);

#pragma once
/* Policy: the rules about who may do what with which alias, as the
 * configuration has them. Built by one thread, then finished, and immutable
 * from then on but for its counts; reference counted, any thread.
 *
 * A rule is one line: an alias and an event as patterns, a right, and words for
 * those who have it. All lines for the same alias, event and right make a set.
 * Sets are asked the most specific first: that of the alias itself, then of the
 * pattern with the most letters, down to `*`; of one alias, likewise by the
 * event. A set decides for everybody it names, and, if it grants anything, for
 * all others that they have not got the right; one with nothing but denials
 * leaves them to the next. At the end stand the defaults. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "policy/creds.h"

enum right {
	RIGHT_POST,
	RIGHT_CALL,
	RIGHT_BIND,
	RIGHT_WATCH,
	RIGHT_MANAGE,
	RIGHT_SEE,
	RIGHTS,
};
extern const char *const right_words[RIGHTS + 1]; /* NULL at the end */

/* Where a rule stands: a later one replaces all of an earlier one that is for
 * the same alias, event and right. */
enum policy_layer {
	POLICY_BUILT_IN, /* what a session file says by being there */
	POLICY_SESSION,  /* [Access] of a session file */
	POLICY_DAEMON,   /* eventd.conf and its drop-ins, each the next */
};

enum who_kind {
	WHO_NOBODY, /* a name that is not known: never matches */
	WHO_NONE,   /* the word for: grants it to nobody */
	WHO_ANY,
	WHO_OWNER,
	WHO_UID,
	WHO_GID,
	WHO_UNIT,
};

struct who {
	uint8_t kind; /* enum who_kind */
	bool deny;
	uint32_t id;
	char *unit;
};

struct policy_rule {
	char *alias, *event; /* patterns; event NULL: any */
	uint8_t right;       /* enum right */
	uint8_t alias_stars; /* has a `*` */
	uint32_t layer;
	struct who *who; /* n_who */
	size_t n_who;
	char *words; /* as it was written */
	char *file;
	unsigned line;
	bool closes;              /* grants it to somebody or to none */
	size_t set_end;           /* index behind the last of its set */
	_Atomic uint64_t refused; /* times it decided against somebody */
};

/* All sets of one alias pattern. */
struct policy_node {
	const char *alias;
	size_t size;
	size_t first, end; /* rules */
};

struct policy {
	_Atomic uint32_t refs;
	uid_t owner;   /* the user that eventd runs as */
	bool own;      /* a user's instance: others may nothing by default */
	unsigned asks; /* CREDS_*: what else its rules want to know */
	size_t n_rules, n_exact, n_nodes;
	struct policy_rule **rules;
	struct policy_node *nodes; /* exact ones by name, then the patterns */
	uint8_t by_event; /* bit: some rule of the right has an event */
};

enum {
	POLICY_E_WORD = 1,    /* text says which word, and what may be */
	POLICY_E_UNKNOWN = 2, /* added; no such user or group, it never matches:
			       * text says which */
	POLICY_E_MANY = 3,    /* POLICY_WORDS_MAX or POLICY_RULES_MAX */
};
enum { POLICY_WORDS_MAX = 256, POLICY_RULES_MAX = 1 << 20 };

/* NULL: out of memory. One without rules is a policy, too. */
struct policy *policy_new(uid_t owner, bool own);
struct policy *policy_ref(struct policy *p);
struct policy *policy_unref(struct policy *p);

/* What a line says. All is copied. */
struct policy_line {
	const char *alias, *event; /* valid patterns; event NULL: any */
	enum right right;
	const char *words;
	uint32_t layer;
	const char *file;
	unsigned line;
};
/* 0, POLICY_E_* or -ENOMEM. Reads the databases of users and groups. */
int policy_add(struct policy *p, const struct policy_line *line, char *text,
	size_t size);
/* No more comes: 0 or -ENOMEM. */
int policy_finish(struct policy *p);
/* The uid of "user:NAME", "uid:N", "root" or "owner": 0, POLICY_E_WORD,
 * POLICY_E_UNKNOWN and which, or -ENOMEM. */
int policy_user(const char *word, uint32_t *uid, char *text, size_t size);
/* Does @who mean @creds? */
bool who_is(const struct policy *p, const struct who *who,
	const struct creds *creds);
/* The right called @word, or RIGHTS. */
enum right right_of(const char *word);

#pragma once
/* Rights: what one peer may do, by a policy: which of its rules grant it
 * something and which deny it, found once for its credentials. Connections with
 * equal ones share it. Immutable, reference counted, any thread. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/policy.h"

struct rights {
	_Atomic uint32_t refs;
	struct rights *next; /* in the cache of its loop */
	struct policy *policy;
	struct creds creds;
	uint8_t open;    /* bit i: may do the right i to everything */
	uint8_t *grants; /* bit i: rule i names it, */
	uint8_t *denies; /* ... with a `!` */
};

/* Copies @creds. NULL: out of memory. */
struct rights *rights_new(struct policy *p, const struct creds *creds);
struct rights *rights_ref(struct rights *r);
struct rights *rights_unref(struct rights *r);

/* What decides in a case, and how. */
struct verdict {
	enum right right;
	const char *alias, *event; /* as asked */
	bool allowed;
	bool named; /* the rule names the peer; else it names others alone */
	struct policy_rule *rule; /* NULL: the default does */
	const char *text;         /* then: which */
};

/* May it do @right to @alias ("": to the daemon as a whole), with @event
 * (NULL: of none, or with those that no set is for)? */
struct verdict rights_ask(const struct rights *r, enum right right,
	const char *alias, const char *event);
/* With every event. */
bool rights_all(const struct rights *r, enum right right, const char *alias);
/* The same, and no rule is for some events alone. */
bool rights_cover(const struct rights *r, enum right right, const char *alias);
/* With some event, at least. */
bool rights_some(const struct rights *r, enum right right, const char *alias);
static inline bool
rights_may(const struct rights *r, enum right right, const char *alias,
	const char *event)
{
	return (r->open & 1 << right) ||
	       rights_ask(r, right, alias, event).allowed;
}
/* Why, for people: names who, what, and the line or the default. Returns
 * @text, of @size bytes. */
const char *rights_explain(const struct rights *r, const struct verdict *v,
	char *text, size_t size);

/* Rights by credentials, of one loop; its thread. */
struct rights_cache {
	struct rights *head;
	unsigned n;
};
/* A reference; NULL: out of memory. */
struct rights *rights_cached(struct rights_cache *cache, struct policy *p,
	const struct creds *creds);
/* Forget those that nobody else refers to. */
void rights_cache_prune(struct rights_cache *cache);
void rights_cache_clear(struct rights_cache *cache);

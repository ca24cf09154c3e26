#pragma once
/* libevd: rights and limits. Part of client.h, which includes it and tells the
 * rules; the functions wait and fail as those of look.h. */
#include <eventd/client.h>

#ifdef __cplusplus
extern "C" {
#endif

struct evd_policy;  /* a page of rules: evd_policy_show() */
struct evd_rule;    /* one of them: a line of the configuration */
struct evd_verdict; /* what decides in a case: evd_policy_explain() */

/**
 * evd_policy_show() - a page of the rules in force, in the order of asking
 * @after: 0, then evd_policy_next() of the page before
 * @page:  set on success; release with evd_policy_free()
 *
 * Return: 0, or -EACCES: for who may manage the daemon alone; and the errors
 * of look.h.
 */
EVD_API int evd_policy_show(
	struct evd *c, uint64_t after, struct evd_policy **page);
EVD_API size_t evd_policy_count(const struct evd_policy *page);
EVD_API const struct evd_rule *evd_policy_at(
	const struct evd_policy *page, size_t i);
EVD_API uint64_t evd_policy_next(const struct evd_policy *page); /* 0: last */
/* The user that eventd runs as; it is a user's own instance. */
EVD_API uint32_t evd_policy_owner(const struct evd_policy *page);
EVD_API bool evd_policy_is_own(const struct evd_policy *page);
EVD_API struct evd_policy *evd_policy_free(struct evd_policy *page);

/* Patterns; an event "" is any. */
EVD_API const char *evd_rule_alias(const struct evd_rule *r);
EVD_API const char *evd_rule_event(const struct evd_rule *r);
/* "post", "call", "bind", "watch", "manage" or "see" */
EVD_API const char *evd_rule_right(const struct evd_rule *r);
EVD_API const char *evd_rule_words(const struct evd_rule *r); /* as written */
EVD_API const char *evd_rule_file(const struct evd_rule *r);
/* 0: what the session file says by being there. */
EVD_API uint32_t evd_rule_line(const struct evd_rule *r);
/* Times it decided against somebody. */
EVD_API uint64_t evd_rule_denied(const struct evd_rule *r);

/* One word of a rule as it was understood; the strings are the rule's. */
struct evd_who {
	const char *kind; /* "any", "none", "owner", "uid", "gid", "unit", or
			   * "unknown", which never matches */
	uint32_t id;      /* of uid and gid */
	const char *unit;
	bool deny;
};
/* Word @i, from 0. 0 or -ENOENT: it has fewer. */
EVD_API int evd_rule_who(
	const struct evd_rule *r, size_t i, struct evd_who *who);

/* About whom: a connected client by its process, or numbers. */
struct evd_subject {
	uint32_t pid; /* 0: the rest counts */
	uint32_t uid, gid;
	const uint32_t *groups; /* n_groups of them */
	size_t n_groups;
	const char *unit; /* NULL: of none */
};
/**
 * evd_policy_explain() - what would be decided, and by which line
 * @right: a word as of evd_rule_right()
 * @alias: NULL: the daemon as a whole
 * @event: NULL: none in particular
 * @out:   set on success; release with evd_verdict_free()
 *
 * Return: 0, or -EACCES: another user is for who may manage the daemon alone,
 * -ESRCH: no client with that process, -EINVAL; and the errors of look.h.
 */
EVD_API int evd_policy_explain(struct evd *c, const struct evd_subject *subject,
	const char *right, const char *alias, const char *event,
	struct evd_verdict **out);
EVD_API bool evd_verdict_allowed(const struct evd_verdict *v);
/* The rule that decides; NULL: a default does. The verdict's. */
EVD_API const struct evd_rule *evd_verdict_rule(const struct evd_verdict *v);
EVD_API const char *evd_verdict_text(const struct evd_verdict *v);
/* Whom it is about; group @i, from 0: 0 or -ENOENT. */
EVD_API uint32_t evd_verdict_uid(const struct evd_verdict *v);
EVD_API uint32_t evd_verdict_gid(const struct evd_verdict *v);
EVD_API int evd_verdict_group(
	const struct evd_verdict *v, size_t i, uint32_t *gid);
EVD_API const char *evd_verdict_unit(const struct evd_verdict *v);
EVD_API struct evd_verdict *evd_verdict_free(struct evd_verdict *v);

/* ---- limits ------------------------------------------------------------ */

struct evd_limits;      /* a page of users: evd_limits() */
struct evd_user_limits; /* one of them */

/* One limit of a user; the strings are the page's. */
struct evd_limit {
	const char *key;  /* of [Limits], "Events" */
	uint64_t used;    /* now */
	uint64_t max;     /* UINT64_MAX: none */
	const char *from; /* "FILE:LINE" that says so; "": the default */
	uint64_t refused; /* for this limit, since the user was first seen */
	bool near_it;     /* it has been warned of */
};

/**
 * evd_limits() - what users make the daemon hold, and how much they may
 * @uid:   of one user; NULL: a page of all that hold something
 * @after: 0, then evd_limits_next() of the page before
 * @page:  set on success; release with evd_limits_free()
 *
 * Return: 0, or -EACCES: others than oneself are for who may manage the daemon;
 * and the errors of look.h.
 */
EVD_API int evd_limits(struct evd *c, const uint32_t *uid, uint64_t after,
	struct evd_limits **page);
EVD_API size_t evd_limits_count(const struct evd_limits *page);
EVD_API const struct evd_user_limits *evd_limits_at(
	const struct evd_limits *page, size_t i);
EVD_API uint64_t evd_limits_next(const struct evd_limits *page); /* 0: last */
EVD_API struct evd_limits *evd_limits_free(struct evd_limits *page);

EVD_API uint32_t evd_user_uid(const struct evd_user_limits *u);
/* Requests that were refused by policy. */
EVD_API uint64_t evd_user_denied(const struct evd_user_limits *u);
/* Limit @i, from 0: 0, or -ENOENT: there are fewer. */
EVD_API int evd_user_limit(
	const struct evd_user_limits *u, size_t i, struct evd_limit *limit);

#ifdef __cplusplus
}
#endif

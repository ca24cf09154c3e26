/* Rights and limits: the rules of the daemon, what they decide, what is used.
 * Belongs to the thread that uses the handle; what is returned to whoever owns
 * it: a struct response each. */
#include <errno.h>
#include <stddef.h>

#include "eventd/access.h"
#include "page.h"

EVD_PAGE(policy, rule, PolicyRules, policy, rules)

static const Eventd__V1__PolicyRule *
rule_pb(const struct evd_rule *r)
{
	return (const Eventd__V1__PolicyRule *)r;
}

static const Eventd__V1__PolicyVerdict *
verdict_pb(const struct evd_verdict *v)
{
	return ((const struct response *)v)->pb->policy_verdict;
}

static char *
text_or_empty(const char *text)
{
	return (char *)(uintptr_t)(text ? text : "");
}

/* ---- rules ------------------------------------------------------------- */

int
evd_policy_show(struct evd *c, uint64_t after, struct evd_policy **page)
{
	Eventd__V1__Request request = EVENTD__V1__REQUEST__INIT;
	Eventd__V1__PolicyShow show = EVENTD__V1__POLICY_SHOW__INIT;

	EVD_CHECK(c);
	show.after = after;
	request.verb_case = EVENTD__V1__REQUEST__VERB_POLICY;
	request.policy = &show;
	return evd__request_for(c, &request,
		EVENTD__V1__RESPONSE__RESULT_POLICY, (struct response **)page);
}

uint32_t
evd_policy_owner(const struct evd_policy *page)
{
	return policy_pb(page)->owner;
}

bool
evd_policy_is_own(const struct evd_policy *page)
{
	return policy_pb(page)->own;
}

const char *
evd_rule_alias(const struct evd_rule *r)
{
	return rule_pb(r)->alias;
}

const char *
evd_rule_event(const struct evd_rule *r)
{
	return rule_pb(r)->event;
}

const char *
evd_rule_right(const struct evd_rule *r)
{
	return rule_pb(r)->right;
}

const char *
evd_rule_words(const struct evd_rule *r)
{
	return rule_pb(r)->words;
}

const char *
evd_rule_file(const struct evd_rule *r)
{
	return rule_pb(r)->file;
}

uint32_t
evd_rule_line(const struct evd_rule *r)
{
	return rule_pb(r)->line;
}

uint64_t
evd_rule_denied(const struct evd_rule *r)
{
	return rule_pb(r)->denied;
}

int
evd_rule_who(const struct evd_rule *r, size_t i, struct evd_who *who)
{
	const Eventd__V1__PolicyRule *pb = rule_pb(r);

	if (i >= pb->n_who)
		return -ENOENT;
	*who = (struct evd_who){
		.kind = pb->who[i]->kind,
		.id = pb->who[i]->id,
		.unit = pb->who[i]->unit,
		.deny = pb->who[i]->deny,
	};
	return 0;
}

/* ---- verdicts ---------------------------------------------------------- */

int
evd_policy_explain(struct evd *c, const struct evd_subject *subject,
	const char *right, const char *alias, const char *event,
	struct evd_verdict **out)
{
	Eventd__V1__Request request = EVENTD__V1__REQUEST__INIT;
	Eventd__V1__PolicyExplain ask = EVENTD__V1__POLICY_EXPLAIN__INIT;

	EVD_CHECK(c);
	ask.pid = subject->pid;
	ask.uid = subject->uid;
	ask.gid = subject->gid;
	ask.groups = (uint32_t *)(uintptr_t)subject->groups;
	ask.n_groups = subject->n_groups;
	ask.unit = text_or_empty(subject->unit);
	ask.right = text_or_empty(right);
	ask.alias = text_or_empty(alias);
	ask.event = text_or_empty(event);
	request.verb_case = EVENTD__V1__REQUEST__VERB_POLICY_EXPLAIN;
	request.policy_explain = &ask;
	return evd__request_for(c, &request,
		EVENTD__V1__RESPONSE__RESULT_POLICY_VERDICT,
		(struct response **)out);
}

bool
evd_verdict_allowed(const struct evd_verdict *v)
{
	return verdict_pb(v)->allowed;
}

const struct evd_rule *
evd_verdict_rule(const struct evd_verdict *v)
{
	return (const struct evd_rule *)verdict_pb(v)->rule;
}

const char *
evd_verdict_text(const struct evd_verdict *v)
{
	return verdict_pb(v)->text;
}

uint32_t
evd_verdict_uid(const struct evd_verdict *v)
{
	return verdict_pb(v)->uid;
}

uint32_t
evd_verdict_gid(const struct evd_verdict *v)
{
	return verdict_pb(v)->gid;
}

int
evd_verdict_group(const struct evd_verdict *v, size_t i, uint32_t *gid)
{
	const Eventd__V1__PolicyVerdict *pb = verdict_pb(v);

	if (i >= pb->n_groups)
		return -ENOENT;
	*gid = pb->groups[i];
	return 0;
}

const char *
evd_verdict_unit(const struct evd_verdict *v)
{
	return verdict_pb(v)->unit;
}

struct evd_verdict *
evd_verdict_free(struct evd_verdict *v)
{
	evd__response_free((struct response *)v);
	return NULL;
}

/* ---- limits ------------------------------------------------------------ */

static const Eventd__V1__LimitsReport *
limits_pb(const struct evd_limits *page)
{
	return ((const struct response *)page)->pb->limits;
}

static const Eventd__V1__UserLimits *
user_pb(const struct evd_user_limits *u)
{
	return (const Eventd__V1__UserLimits *)u;
}

int
evd_limits(struct evd *c, const uint32_t *uid, uint64_t after,
	struct evd_limits **page)
{
	Eventd__V1__Request request = EVENTD__V1__REQUEST__INIT;
	Eventd__V1__LimitsShow show = EVENTD__V1__LIMITS_SHOW__INIT;

	EVD_CHECK(c);
	show.one = uid != NULL;
	show.uid = uid ? *uid : 0;
	show.after = after;
	request.verb_case = EVENTD__V1__REQUEST__VERB_LIMITS;
	request.limits = &show;
	return evd__request_for(c, &request,
		EVENTD__V1__RESPONSE__RESULT_LIMITS, (struct response **)page);
}

size_t
evd_limits_count(const struct evd_limits *page)
{
	return limits_pb(page)->n_users;
}

const struct evd_user_limits *
evd_limits_at(const struct evd_limits *page, size_t i)
{
	const Eventd__V1__LimitsReport *pb = limits_pb(page);

	return i < pb->n_users ? (const struct evd_user_limits *)pb->users[i]
			       : NULL;
}

uint64_t
evd_limits_next(const struct evd_limits *page)
{
	return limits_pb(page)->next;
}

struct evd_limits *
evd_limits_free(struct evd_limits *page)
{
	evd__response_free((struct response *)page);
	return NULL;
}

uint32_t
evd_user_uid(const struct evd_user_limits *u)
{
	return user_pb(u)->uid;
}

uint64_t
evd_user_denied(const struct evd_user_limits *u)
{
	return user_pb(u)->denied;
}

int
evd_user_limit(
	const struct evd_user_limits *u, size_t i, struct evd_limit *limit)
{
	const Eventd__V1__UserLimits *pb = user_pb(u);
	const Eventd__V1__Limit *l;

	if (i >= pb->n_limits)
		return -ENOENT;
	l = pb->limits[i];
	*limit = (struct evd_limit){
		.key = l->key,
		.used = l->used,
		.max = l->max,
		.from = l->from,
		.refused = l->refused,
		.near_it = l->near,
	};
	return 0;
}

/* Verbs about rights: the rules that are in force, and what decides in a case.
 */
#include <stdlib.h>
#include <string.h>

#include "envelope.h"
#include "pattern.h"
#include "verb/gather.h"

enum { RULES_PAGE = 500 };

/* ---- rules --------------------------------------------------------------- */

static const char *const who_kinds[] = {
	[WHO_NOBODY] = "unknown",
	[WHO_NONE] = "none",
	[WHO_ANY] = "any",
	[WHO_OWNER] = "owner",
	[WHO_UID] = "uid",
	[WHO_GID] = "gid",
	[WHO_UNIT] = "unit",
};

static Eventd__V1__PolicyWho *
who_info(struct gather *g, const struct who *who)
{
	Eventd__V1__PolicyWho *info = gather_alloc(g, sizeof(*info));

	if (!info)
		return NULL;
	eventd__v1__policy_who__init(info);
	info->kind = (char *)who_kinds[who->kind];
	info->id = who->id;
	info->deny = who->deny;
	info->unit = gather_string(g, who->unit ? who->unit : "");
	return info->unit ? info : NULL;
}

/* Copied: a reload may free the rule before the answer is packed. */
static Eventd__V1__PolicyRule *
rule_info(struct gather *g, const struct policy_rule *rule)
{
	Eventd__V1__PolicyRule *info = gather_alloc(g, sizeof(*info));

	if (!info)
		return NULL;
	eventd__v1__policy_rule__init(info);
	info->alias = gather_string(g, rule->alias);
	info->event = gather_string(g, rule->event ? rule->event : "");
	info->right = (char *)right_words[rule->right];
	info->words = gather_string(g, rule->words);
	info->file = gather_string(g, rule->file);
	info->line = rule->layer ? rule->line : 0;
	info->denied = atomic_load(&rule->refused);
	info->who = gather_alloc(
		g, (rule->n_who + 1) * sizeof(Eventd__V1__PolicyWho *));
	if (!info->alias || !info->event || !info->words || !info->file ||
		!info->who)
		return NULL;
	for (; info->n_who < rule->n_who; info->n_who++) {
		info->who[info->n_who] = who_info(g, &rule->who[info->n_who]);
		if (!info->who[info->n_who])
			return NULL;
	}
	return info;
}

static void
put_rules(struct gather *g, uint64_t after)
{
	const struct policy *p = g->rights->policy;
	Eventd__V1__PolicyRules *rules = gather_alloc(g, sizeof(*rules));

	if (!rules)
		return;
	eventd__v1__policy_rules__init(rules);
	g->response.result_case = EVENTD__V1__RESPONSE__RESULT_POLICY;
	g->response.policy = rules;
	rules->owner = p->owner;
	rules->own = p->own;
	rules->rules =
		gather_alloc(g, RULES_PAGE * sizeof(Eventd__V1__PolicyRule *));
	if (!rules->rules)
		return;
	for (; after < p->n_rules && rules->n_rules < RULES_PAGE; after++) {
		Eventd__V1__PolicyRule *info = rule_info(g, p->rules[after]);

		if (!info)
			return;
		rules->rules[rules->n_rules++] = info;
	}
	rules->next = after < p->n_rules ? after : 0;
}

void
verb_policy(struct peer *p, const Eventd__V1__Request *r)
{
	struct gather *g;

	if (!verb_may_manage(p, r->id))
		return;
	g = gather_new(p, r->id);
	if (!g)
		return;
	put_rules(g, r->policy->after);
	gather_answer(g);
}

/* ---- explain ------------------------------------------------------------- */

struct question {
	enum right right;
	char event[ENVELOPE_EVENT_MAX + 1];
	pid_t pid;
	bool manager;
	Eventd__V1__PolicyVerdict verdict;
};

static bool
put_whom(struct gather *g, const struct creds *creds)
{
	struct question *q = g->out;
	Eventd__V1__PolicyVerdict *v = &q->verdict;

	v->uid = creds->uid;
	v->gid = creds->gid;
	v->unit = gather_string(g, creds->unit ? creds->unit : "");
	v->groups =
		gather_alloc(g, (creds->n_groups + 1) * sizeof(v->groups[0]));
	if (!v->unit || !v->groups)
		return false;
	for (; v->n_groups < creds->n_groups; v->n_groups++)
		v->groups[v->n_groups] = creds->groups[v->n_groups];
	return true;
}

static void
put_verdict(struct gather *g)
{
	struct question *q = g->out;
	const char *event = q->event[0] ? q->event : NULL;
	struct verdict v = rights_ask(g->about, q->right, g->name, event);
	char text[VERB_TEXT_MAX];

	q->verdict.allowed = v.allowed;
	q->verdict.text = gather_string(
		g, rights_explain(g->about, &v, text, sizeof(text)));
	if (v.rule)
		q->verdict.rule = rule_info(g, v.rule);
	if (!q->verdict.text || !put_whom(g, &g->about->creds))
		return;
	g->response.result_case = EVENTD__V1__RESPONSE__RESULT_POLICY_VERDICT;
	g->response.policy_verdict = &q->verdict;
}

/* A client of this loop, by the process that it had when it connected. */
static bool
pid_visit(struct gather *g, struct sched *s)
{
	struct question *q = g->out;

	g->about = g->ops->rights_of(s, q->pid);
	return !g->about;
}

static void
explain_finish(struct gather *g)
{
	struct question *q = g->out;

	if (!g->about) {
		g->status = EVD_STATUS_NOT_FOUND;
		strcpy(g->text, "no client with that process is connected");
	} else if (!q->manager &&
		   g->about->creds.uid != g->peer->rights->creds.uid) {
		g->denied = 1 + RIGHT_MANAGE;
		g->status = peer_deny(g->peer, RIGHT_MANAGE, "", NULL, g->text,
			sizeof(g->text));
	} else {
		put_verdict(g);
	}
}

static struct rights *
rights_of_numbers(struct peer *p, const Eventd__V1__PolicyExplain *want)
{
	struct creds given = {.uid = want->uid,
		.gid = want->gid,
		.groups = want->groups, /* ours to put in order */
		.n_groups = (uint32_t)want->n_groups,
		.unit = want->unit[0] ? want->unit : NULL};

	creds_sort(&given);
	return rights_new(p->rights->policy, &given);
}

/* What is wrong with the question, or NULL. */
static const char *
question_fault(const Eventd__V1__PolicyExplain *want)
{
	if (right_of(want->right) == RIGHTS)
		return "a right is post, call, bind, watch, manage or see";
	if (want->event[0] && !name_is_valid(want->event, strlen(want->event),
				      ENVELOPE_EVENT_MAX))
		return "an event is 1 to 127 of A-Z a-z 0-9 _ . / -";
	if (strlen(want->unit) > CREDS_UNIT_MAX)
		return "a unit's name has at most 255 bytes";
	return NULL;
}

void
verb_policy_explain(struct peer *p, const Eventd__V1__Request *r)
{
	const Eventd__V1__PolicyExplain *want = r->policy_explain;
	const char *fault = question_fault(want);
	struct question *q;
	struct gather *g;

	if (fault) {
		verb_refuse(p, r->id, EVD_STATUS_INVALID, fault);
		return;
	}
	if (want->alias[0] && !verb_name_ok(p, r->id, want->alias))
		return;
	g = gather_new(p, r->id);
	q = g ? gather_alloc(g, sizeof(*q)) : NULL;
	if (!q) {
		if (g)
			gather_answer(g);
		return;
	}
	g->out = q;
	eventd__v1__policy_verdict__init(&q->verdict);
	strcpy(g->name, want->alias);
	strcpy(q->event, want->event);
	q->right = right_of(want->right);
	q->pid = (pid_t)want->pid;
	q->manager = rights_may(p->rights, RIGHT_MANAGE, "", NULL);
	g->finish = explain_finish;
	if (want->pid) {
		g->visit = pid_visit;
		gather_start(g, g->home);
		return;
	}
	g->about = rights_of_numbers(p, want);
	if (!g->about) {
		g->status = EVD_STATUS_NO_MEMORY;
		strcpy(g->text, "out of memory");
	}
	gather_answer(g);
}

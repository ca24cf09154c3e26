/* The verb limits: what users make the daemon hold. Their numbers are shared,
 * so that no other loop is asked. */
#include <stdlib.h>
#include <string.h>

#include "verb/gather.h"

enum { USERS_PAGE = 100 };

static bool
put_limit(struct gather *g, Eventd__V1__UserLimits *info, struct user *user,
	enum charge_kind kind)
{
	Eventd__V1__Limit *limit = gather_alloc(g, sizeof(*limit));
	struct users *users = &g->home->kernel->users;
	struct limit now;

	if (!limit)
		return false;
	eventd__v1__limit__init(limit);
	users_limit(users, info->uid, kind, &now);
	if (user) {
		limit->used = users_used(users, user, kind, g->home->now_ns);
		limit->refused = atomic_load(&user->refused[kind]);
		limit->near = atomic_load(&user->warned) >> kind & 1;
	}
	limit->key = (char *)charge_keys[kind];
	limit->max = now.max;
	limit->from = gather_string(g, now.from ? now.from : "");
	free(now.from);
	info->limits[info->n_limits++] = limit;
	return limit->from;
}

/* @user is NULL: he has not been here. */
static bool
put_user(struct gather *g, uint32_t uid, struct user *user)
{
	Eventd__V1__LimitsReport *report = g->out;
	Eventd__V1__UserLimits *info = gather_alloc(g, sizeof(*info));

	if (!info)
		return false;
	eventd__v1__user_limits__init(info);
	info->uid = uid;
	info->denied = user ? atomic_load(&user->denied) : 0;
	info->limits = gather_alloc(g, CHARGES * sizeof(Eventd__V1__Limit *));
	if (!info->limits)
		return false;
	for (unsigned i = 0; i < CHARGES; i++)
		if (!put_limit(g, info, user, (enum charge_kind)i))
			return false;
	report->users[report->n_users++] = info;
	return true;
}

/* Those who hold something or were refused something. */
static bool
is_known(const struct user *user)
{
	uint64_t n = atomic_load(&user->denied);

	for (unsigned i = 0; i < CHARGES; i++)
		n |= (uint64_t)atomic_load(&user->used[i]) |
		     atomic_load(&user->refused[i]);
	return n;
}

static void
put_page(struct gather *g, uint64_t after)
{
	struct users *users = &g->home->kernel->users;
	Eventd__V1__LimitsReport *report = g->out;
	struct user *user;

	for (; after < USERS_MAX && (user = users_look(users, (uint32_t)after));
		after++) {
		if (!is_known(user))
			continue;
		if (report->n_users == USERS_PAGE) {
			report->next = after;
			return;
		}
		if (!put_user(g, atomic_load(&user->uid), user))
			return;
	}
}

void
verb_limits(struct peer *p, const Eventd__V1__Request *r)
{
	const Eventd__V1__LimitsShow *want = r->limits;
	Eventd__V1__LimitsReport *report;
	struct gather *g;

	if (!(want->one && want->uid == p->uid) && !verb_may_manage(p, r->id))
		return;
	g = gather_new(p, r->id);
	report = g ? gather_alloc(g, sizeof(*report)) : NULL;
	if (!g)
		return;
	if (report) {
		eventd__v1__limits_report__init(report);
		report->users = gather_alloc(
			g, USERS_PAGE * sizeof(Eventd__V1__UserLimits *));
		g->out = report;
	}
	g->response.result_case = EVENTD__V1__RESPONSE__RESULT_LIMITS;
	g->response.limits = report;
	if (report && report->users && want->one)
		put_user(g, want->uid,
			users_find(&g->home->kernel->users, want->uid));
	else if (report && report->users)
		put_page(g, want->after);
	gather_answer(g);
}

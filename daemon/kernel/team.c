/* Team: children that are started again together. When one fails, those that
 * its strategy names are suspended, the last first and one after the other;
 * after the pause they are started, the first first, each when the one before
 * it is up. What fails meanwhile joins in. The home's thread of the parent;
 * each child acts on its own. */
#include <stdio.h>

#include "base/log.h"
#include "kernel/kin.h"
#include "kernel/life.h"
#include "kernel/sched.h"
#include "kernel/supervise.h"

static struct sched *
home_of(const struct session *s)
{
	return atomic_load_explicit(&s->home, memory_order_relaxed);
}

static struct child *
child_at(struct list *node)
{
	return container_of(node, struct child, link);
}

/* ---- the sequence -------------------------------------------------------- */

static void
ask(struct session *s, struct child *c, enum kin_op op)
{
	c->asked = true;
	kin_tell(s, c->id, op, NULL);
}

/* True: one is being suspended, or waits to be. */
static bool
stops(struct session *s)
{
	struct list *head = &s->kin->children;

	for (struct list *node = head->prev; node != head; node = node->prev) {
		struct child *c = child_at(node);

		if (!c->affected || c->down)
			continue;
		if (!c->asked)
			ask(s, c, KIN_SUSPEND);
		return true;
	}
	return false;
}

static bool
starts(struct session *s)
{
	LIST_FOREACH (node, &s->kin->children) {
		struct child *c = child_at(node);

		if (!c->affected)
			continue;
		if (!c->asked)
			ask(s, c, KIN_START);
		return true;
	}
	return false;
}

static void
enter(struct session *s, enum team_phase phase)
{
	s->kin->phase = (uint8_t)phase;
	LIST_FOREACH (node, &s->kin->children)
		child_at(node)->asked = false;
}

void
team_step(struct session *s)
{
	struct kin *kin = s->kin;
	struct sched *sched = home_of(s);

	if (kin->phase == TEAM_STOPPING && !stops(s)) {
		enter(s, TEAM_PAUSE);
		timers_add(&sched->timers, &kin->team,
			sched->now_ns + kin->pause_ns);
	} else if (kin->phase == TEAM_STARTING && !starts(s)) {
		enter(s, TEAM_CALM);
	}
}

void
team_due(struct sched *sched, struct kin *kin)
{
	struct session *s = session_find(sched->kernel, kin->session);

	if (!s)
		return;
	enter(s, TEAM_STARTING);
	team_step(s);
}

void
team_calm(struct session *s)
{
	timers_remove(&home_of(s)->timers, &s->kin->team);
	enter(s, TEAM_CALM);
}

void
team_down(struct session *s, struct child *c)
{
	c->asked = false;
	c->down = true;
	team_step(s);
}

void
team_up(struct session *s, struct child *c)
{
	if (s->kin->phase != TEAM_STARTING || !c->asked)
		return; /* it was told to suspend since */
	c->asked = c->down = c->affected = false;
	team_step(s);
}

/* ---- a failure ----------------------------------------------------------- */

static void
mark(struct session *s, const struct child *failed, enum strategy strategy)
{
	bool behind = false;

	LIST_FOREACH (node, &s->kin->children) {
		struct child *c = child_at(node);

		behind = behind || c == failed;
		c->affected = c->affected || strategy == STRATEGY_ALL || behind;
	}
}

/* The group's budget is spent. It fails as a whole, and is one failure to the
 * group above it. */
static void
give_up(struct session *s, const struct child *c, const struct msg *m)
{
	char text[SESSION_REASON_MAX];

	snprintf(text, sizeof(text),
		"the group '%s' has failed: '%s' was its failure %u within "
		"RestartWindowSec=, of %u allowed (RestartBurst=): %.*s",
		s->spec->group ? s->spec->group : session_name(s), c->name,
		s->health ? s->health->in_window : 0, s->spec->restart_burst,
		(int)m->size, (const char *)m->data);
	log_err("group.failed", "session=\"%s\" reason=\"%s\"", session_name(s),
		text);
	team_halt(s, text);
	supervise_group_failed(s, text);
}

void
team_failed(struct session *s, struct child *c, const struct msg *m)
{
	bool group = s->ops->keeps_children;
	enum strategy strategy =
		group ? s->spec->strategy
		      : (enum strategy)(msg_status(m) & KIN_STRATEGY);
	struct kin *kin = s->kin;

	c->down = true;
	c->asked = false;
	if (s->life != SESSION_UP && s->life != SESSION_STARTING)
		return; /* its news crossed our fall */
	if (group && !(msg_status(m) & KIN_AGAIN) && !supervise_count(s)) {
		give_up(s, c, m);
		return;
	}
	if (strategy == STRATEGY_ONE && kin->phase == TEAM_CALM) {
		c->down = false;
		kin_tell(s, c->id, KIN_RETRY, NULL);
		return;
	}
	if (kin->phase == TEAM_CALM || msg_seq(m) > kin->pause_ns)
		kin->pause_ns = msg_seq(m);
	timers_remove(&home_of(s)->timers, &kin->team);
	c->affected = true;
	if (strategy != STRATEGY_ONE)
		mark(s, c, strategy);
	enter(s, TEAM_STOPPING);
	team_step(s);
}

/* ---- groups as a whole --------------------------------------------------- */

void
team_start_all(struct session *s)
{
	if (!s->kin)
		return;
	team_calm(s);
	LIST_FOREACH (node, &s->kin->children)
		child_at(node)->affected = true;
	enter(s, TEAM_STARTING);
	team_step(s);
}

static void
tell_all(struct session *s, enum kin_op op, const char *text)
{
	struct list *head;

	if (!s->kin)
		return;
	team_calm(s);
	head = &s->kin->children;
	for (struct list *node = head->prev; node != head; node = node->prev) {
		struct child *c = child_at(node);

		c->down = true;
		c->affected = false;
		kin_tell(s, c->id, op, &(struct kin_words){.text = text});
	}
}

void
team_suspend_all(struct session *s)
{
	tell_all(s, KIN_SUSPEND, NULL);
}

void
team_halt(struct session *s, const char *text)
{
	tell_all(s, KIN_HALT, text);
}

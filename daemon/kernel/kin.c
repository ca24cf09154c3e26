#include "kernel/kin.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/log.h"
#include "kernel/away.h"
#include "kernel/idle.h"
#include "kernel/life.h"
#include "kernel/notice.h"
#include "kernel/sched.h"
#include "kernel/supervise.h"

enum {
	ALIAS_SIZE = 256,
	NAME_MAX_SIZE = 320, /* of a child, in a message */
	WORDS_MAX = NAME_MAX_SIZE + SESSION_REASON_MAX + 32,
};

static struct sched *
home_of(const struct session *s)
{
	return atomic_load_explicit(&s->home, memory_order_relaxed);
}

struct kin *
kin_of(struct session *s)
{
	struct kin *kin = s->kin;

	if (kin)
		return kin;
	kin = FAULT(kin_of) ? NULL : calloc(1, sizeof(*kin));
	if (!kin)
		return NULL;
	kin->session = s->id ? s->id : s->last_id;
	list_init(&kin->children);
	kin->idle.type = TIMER_IDLE;
	kin->team.type = TIMER_TEAM;
	s->kin = kin;
	return kin;
}

/* ---- telling ------------------------------------------------------- */

static struct msg *
words_new(struct session *s, const char *event, const char *text)
{
	return msg_new(&home_of(s)->pool,
		&(struct msg_init){.event = event,
			.event_size = (uint8_t)strlen(event),
			.event_static = true,
			.data = text,
			.size = text ? (uint32_t)strlen(text) : 0});
}

int
kin_tell(struct session *s, uint64_t to, enum kin_op op,
	const struct kin_words *words)
{
	struct msg *m = words_new(s, "_child", words ? words->text : NULL);

	if (!m) {
		log_err("kernel.no-memory", "what=kin op=%d", (int)op);
		return err_raise(-ENOMEM);
	}
	m->op = MSG_KIN;
	m->handler = (uint16_t)op;
	m->from = s->id ? s->id : s->last_id;
	m->to = to;
	if (words) {
		msg_wide(m)->seq = words->seq;
		msg_wide(m)->status = words->status;
	}
	sched_send(home_of(s), m);
	return 0;
}

/* ---- children ------------------------------------------------------ */

struct child *
kin_child(const struct session *s, uint64_t id)
{
	if (!s->kin)
		return NULL;
	LIST_FOREACH (node, &s->kin->children) {
		struct child *c = container_of(node, struct child, link);

		if (c->id == id)
			return c;
	}
	return NULL;
}

size_t
kin_memory(const struct session *s)
{
	return sizeof(*s->kin) + s->kin->n_children * sizeof(struct child);
}

static void
child_free(struct kin *kin, struct child *c)
{
	list_remove(&c->link);
	kin->n_children--;
	free(c);
}

static bool
child_is_before(const struct child *a, const struct child *b)
{
	if (a->order != b->order)
		return a->order < b->order;
	return strcmp(a->name, b->name) <= 0;
}

static void
child_insert(struct kin *kin, struct child *c)
{
	struct list *at = kin->children.prev;

	while (at != &kin->children &&
		!child_is_before(container_of(at, struct child, link), c))
		at = at->prev;
	c->link.prev = at;
	c->link.next = at->next;
	at->next->prev = &c->link;
	at->next = &c->link;
	kin->n_children++;
}

static int
child_add(struct session *s, uint64_t id, const char *name, int64_t order)
{
	struct kin *kin = kin_of(s);
	size_t size = strlen(name) + 1;
	struct child *c = kin ? malloc(sizeof(*c) + size) : NULL;

	if (!c)
		return err_raise(-ENOMEM);
	*c = (struct child){.id = id, .order = order};
	memcpy(c->name, name, size);
	child_insert(kin, c);
	return 0;
}

/* `_child`, about one that is gained, lost, or stays failed. A group has no
 * handler to tell. */
static void
notify(struct session *s, const struct notice *notice)
{
	struct sched *sched = home_of(s);
	struct msg *m;

	if (s->ops->keeps_children)
		return;
	m = notice_new(&sched->pool, notice_child, notice);
	if (!m) {
		log_err("kernel.no-memory", "what=_child to=%" PRIu64, s->id);
		return;
	}
	if (!s->notices.tail)
		s->kin->n_notices = 0;
	s->kin->n_notices++;
	m->from = notice->session;
	m->to = s->id;
	sched_control(sched, m);
}

int
kin_adopt(struct session *s, uint64_t id, const char *name)
{
	int r;

	if (s->kin && s->notices.tail && s->kin->n_notices >= KIN_NOTICES_MAX)
		return KIN_E_MANY;
	if (!kin_of(s))
		return err_raise(-ENOMEM);
	r = child_add(s, id, name, ++s->kin->last_order);
	if (r)
		return r;
	notify(s, &(struct notice){.change = "gained",
			  .session = id,
			  .up = true,
			  .alias = name});
	return 0;
}

static void
tell_stop(struct session *s, uint64_t id, enum session_exit why)
{
	kin_tell(s, id, KIN_STOP, &(struct kin_words){.status = why});
}

void
kin_disown(struct session *s, uint64_t id)
{
	struct session *t = session_find(home_of(s)->kernel, id);

	if (!t)
		return;
	if (atomic_load(&t->home) != home_of(s)) {
		tell_stop(s, id, EXIT_STOPPED);
		return;
	}
	t->kin->parent = 0;
	session_stop_for(t, EXIT_STOPPED);
}

void
kin_kill(struct session *s, uint64_t id)
{
	struct session *t = session_find(home_of(s)->kernel, id);

	if (!t)
		return;
	if (atomic_load(&t->home) == home_of(s))
		session_stop_for(t, EXIT_KILLED);
	else
		tell_stop(s, id, EXIT_KILLED);
}

/* The newest first. A child on this scheduler has ended when this returns. */
void
kin_drop_children(struct session *s)
{
	struct kin *kin = s->kin;
	struct sched *sched = home_of(s);

	team_calm(s);
	while (!list_is_empty(&kin->children)) {
		struct child *c =
			container_of(kin->children.prev, struct child, link);
		uint64_t id = c->id;
		struct session *t = session_find(sched->kernel, id);

		child_free(kin, c);
		if (!t)
			continue;
		if (atomic_load(&t->home) != sched) {
			tell_stop(s, id, EXIT_STOPPED);
			continue;
		}
		if (t->kin)
			t->kin->parent = 0;
		session_stop_for(t, EXIT_STOPPED);
	}
}

/* ---- what a session tells its parent ------------------------------- */

static const char *
name_of(const struct session *s)
{
	const char *name = session_name(s);

	return *name ? name : "-";
}

static const char *
why_of(const struct session *s)
{
	return s->health && s->health->reason ? s->health->reason : "";
}

static void
tell_end(struct session *s, enum kin_op op)
{
	char text[WORDS_MAX];

	snprintf(text, sizeof(text), "%.*s %s %s", NAME_MAX_SIZE - 16,
		name_of(s), session_exit_word(s->exit), why_of(s));
	kin_tell(s, s->kin->parent, op, &(struct kin_words){.text = text});
}

void
kin_ended(struct session *s)
{
	struct kin *kin = s->kin;
	struct sched *sched = home_of(s);

	if (kin->parent)
		tell_end(s, KIN_LOST);
	timers_remove(&sched->timers, &kin->idle);
	timers_remove(&sched->timers, &kin->team);
	while (!list_is_empty(&kin->children))
		child_free(kin,
			container_of(kin->children.next, struct child, link));
	free(kin);
	s->kin = NULL;
}

/* "a/b" is in the group "a", and so is every session with Group=a. */
static void
group_alias(const struct session *s, char *out, size_t size)
{
	const char *group = s->spec->group, *slash;

	out[0] = 0;
	if (s->ops != &group_ops) {
		snprintf(out, size, "group/%s", group);
		return;
	}
	slash = strrchr(group, '/');
	if (slash)
		snprintf(out, size, "group/%.*s", (int)(slash - group), group);
}

void
kin_join(struct session *s)
{
	char alias[ALIAS_SIZE];
	uint64_t group;
	struct kin *kin;

	if (!s->spec || !s->spec->group || (s->kin && s->kin->parent))
		return; /* that of a child is who spawned it */
	group_alias(s, alias, sizeof(alias));
	group = *alias ? alias_holder(&home_of(s)->kernel->aliases, alias,
				 strlen(alias))
		       : 0;
	if (!group)
		return;
	kin = kin_of(s);
	if (!kin) {
		log_err("session.no-group",
			"session=\"%s\" reason=\"out of memory\"", name_of(s));
		return;
	}
	kin->parent = group;
	kin->grouped = true;
	kin_tell(s, group, KIN_JOIN,
		&(struct kin_words){.seq = (uint64_t)(int64_t)s->spec->order,
			.text = name_of(s)});
}

void
kin_leave(struct session *s)
{
	struct kin *kin = s->kin;

	if (!kin || !kin->grouped)
		return;
	kin_tell(s, kin->parent, KIN_LEFT, NULL);
	kin->parent = 0;
	kin->grouped = kin->held = kin->tell_up = false;
}

bool
kin_report(struct session *s, uint64_t pause_ns, bool again)
{
	struct kin *kin = s->kin;
	uint32_t status = s->spec->strategy | (again ? KIN_AGAIN : 0);

	if (!kin || !kin->parent ||
		(!kin->grouped && s->spec->strategy == STRATEGY_ONE) ||
		!session_find(home_of(s)->kernel, kin->parent))
		return false;
	kin->held = true;
	kin->tell_up = false;
	kin->retry_ns = pause_ns;
	kin_tell(s, kin->parent, KIN_FAILED,
		&(struct kin_words){
			.seq = pause_ns, .status = status, .text = why_of(s)});
	return true;
}

void
kin_gave_up(struct session *s)
{
	if (s->kin && s->kin->parent && !s->kin->grouped)
		tell_end(s, KIN_GAVE_UP);
}

void
kin_settled(struct session *s)
{
	if (s->life != SESSION_UP && s->life != SESSION_DORMANT &&
		s->life != SESSION_FAILED)
		return;
	s->kin->tell_up = false;
	kin_tell(s, s->kin->parent, KIN_UP, NULL);
}

/* ---- at the parent ------------------------------------------------- */

/* Cut the child's words apart: name, reason, why. */
static void
notify_change(struct session *s, const char *change, const struct msg *m)
{
	char words[WORDS_MAX], *rest = words;
	struct notice notice = {.change = change, .session = m->from};

	snprintf(words, sizeof(words), "%.*s", (int)m->size,
		(const char *)m->data);
	notice.alias = strsep(&rest, " ");
	notice.reason = rest ? strsep(&rest, " ") : "";
	notice.text = rest;
	notify(s, &notice);
}

static void
join(struct session *s, const struct msg *m)
{
	char name[NAME_MAX_SIZE];

	snprintf(name, sizeof(name), "%.*s", (int)m->size,
		(const char *)m->data);
	if (s->ops->keeps_children && !kin_child(s, m->from) &&
		child_add(s, m->from, name, (int64_t)msg_seq(m)))
		log_err("kernel.no-memory", "what=group session=\"%s\"", name);
}

static void
lost(struct session *s, struct child *c)
{
	child_free(s->kin, c);
	team_step(s);
	idle_look(s);
}

static void
parent_arrived(struct session *s, struct msg *m)
{
	struct child *c = kin_child(s, m->from);

	if (m->handler == KIN_JOIN)
		join(s, m);
	if (!c) /* of a former life of ours */
		return;
	switch ((enum kin_op)m->handler) {
	case KIN_LOST:
		notify_change(s, "lost", m);
		lost(s, c);
		break;
	case KIN_LEFT:
		lost(s, c);
		break;
	case KIN_GAVE_UP:
		notify_change(s, "failed", m);
		break;
	case KIN_FAILED:
		team_failed(s, c, m);
		break;
	case KIN_DOWN:
		team_down(s, c);
		break;
	case KIN_UP:
		team_up(s, c);
		break;
	case KIN_JOIN:
	case KIN_SETTLE:
	case KIN_STOP:
	case KIN_LEAVE:
	case KIN_RETRY:
	case KIN_SUSPEND:
	case KIN_START:
	case KIN_HALT:
		break;
	}
}

/* ---- at the child -------------------------------------------------- */

/* Drop the state and wait to be told to start. One that has none and waits for
 * nothing but an event stays as it is. */
static void
suspend(struct session *s)
{
	struct kin *kin = s->kin;
	uint64_t parent = kin->parent;

	if (s->ops->keeps_children && s->life == SESSION_UP) {
		team_suspend_all(s);
		supervise_hold(s);
		kin->held = true;
	} else if (s->ops->keeps_children) {
		kin->held = s->life == SESSION_BACKOFF;
	} else if (s->life == SESSION_UP || s->life == SESSION_STARTING ||
		   s->life == SESSION_BACKOFF) {
		kin->held = true;
		if (!life_rest(s, EXIT_STOPPED))
			return; /* it was to stop for good: KIN_LOST says so */
		supervise_hold(s);
	}
	kin->tell_up = false;
	kin_tell(s, parent, KIN_DOWN, NULL);
}

static void
start(struct session *s)
{
	struct kin *kin = s->kin;

	if (!kin->held) {
		kin_tell(s, kin->parent, KIN_UP, NULL);
		return;
	}
	kin->held = false;
	kin->tell_up = true;
	supervise_again(s);
}

static void
halt(struct session *s, const struct msg *m)
{
	char text[SESSION_REASON_MAX];

	snprintf(text, sizeof(text), "%.*s", (int)m->size,
		(const char *)m->data);
	s->kin->tell_up = false;
	if (s->life == SESSION_FAILED)
		return;
	s->kin->held = true;
	if (s->ops->keeps_children)
		team_halt(s, text);
	else if (!life_rest(s, EXIT_STOPPED))
		return;
	supervise_halt(s, text);
}

static void
child_arrived(struct session *s, const struct msg *m)
{
	struct kin *kin = s->kin;

	if (!kin || kin->parent != m->from || s->life >= SESSION_STOPPING)
		return;
	switch ((enum kin_op)m->handler) {
	case KIN_SETTLE:
		life_settle(s);
		break;
	case KIN_STOP:
		if (msg_status(m) != EXIT_KILLED)
			kin->parent = 0; /* it does not wait for the news */
		session_stop_for(s, (enum session_exit)msg_status(m));
		break;
	case KIN_LEAVE:
		kin->parent = 0;
		kin->grouped = false;
		if (kin->held && s->life == SESSION_BACKOFF)
			supervise_retry(s, kin->retry_ns);
		kin->held = false;
		break;
	case KIN_RETRY:
		kin->held = false;
		supervise_retry(s, kin->retry_ns);
		break;
	case KIN_SUSPEND:
		suspend(s);
		break;
	case KIN_START:
		start(s);
		break;
	case KIN_HALT:
		halt(s, m);
		break;
	case KIN_JOIN:
	case KIN_LEFT:
	case KIN_LOST:
	case KIN_FAILED:
	case KIN_GAVE_UP:
	case KIN_DOWN:
	case KIN_UP:
		break;
	}
}

void
kin_arrived(struct sched *sched, struct msg *m)
{
	struct session *s = session_find(sched->kernel, m->to);

	if (s && atomic_load(&s->home) == sched) {
		if (m->handler >= KIN_SETTLE && away_is_out(s)) {
			away_keep(s, m);
			return;
		}
		if (m->handler < KIN_SETTLE)
			parent_arrived(s, m);
		else
			child_arrived(s, m);
	}
	msg_free(&sched->pool, m);
}

/* What is asked of one session: its mailbox and its profile. On its home's
 * thread, in steps where it may take long. */
#include <stdio.h>
#include <string.h>

#include "kernel/alias.h"
#include "kind/manage_task.h"
#include "stats/profile.h"

/* ---- peek -------------------------------------------------------------- */

static void
put_event(struct manage *m, const struct msg *e)
{
	size_t size = e->size < m->bytes ? e->size : m->bytes;
	struct manage_out *out = &m->out;

	manage_put(out, m->left - 1);
	manage_put(out, e->id);
	manage_put(out, msg_sender(e));
	manage_put(out, e->size);
	manage_put(out, e->attempt);
	manage_put(out, msg_call(e) != 0);
	manage_put(out, (e->flags & MSG_URGENT) != 0);
	manage_put_text(out, e->event, e->event_size);
	manage_put_text(out, msg_payload(e), size);
	m->n++;
}

/* The next one; m->left counts what was looked at. False: the page is
 * complete. */
static bool
peek_see(void *arg, const struct msg *e)
{
	struct manage *m = arg;

	if (m->n == m->limit || manage_is_long(m)) {
		m->next_page = m->left;
		return false;
	}
	m->left++;
	if (m->left <= m->skip || (m->n_ids && e->id != m->ids[0]))
		return true;
	put_event(m, e);
	return !m->n_ids && !m->out.failed;
}

static void
peek_end(struct manage *m)
{
	m->left = 0;
	if (m->n_ids && !m->n)
		manage_fail(m, EVD_STATUS_NOT_FOUND, "no such event waits");
}

static void
peek_looked(struct sched *s, void *arg, int status)
{
	struct manage *m = arg;

	if (status)
		manage_fail(m, EVD_STATUS_IO, "the store cannot be read");
	peek_end(m);
	manage_end(m, s);
}

static void
peek(struct manage *m, struct sched *s, struct session *t)
{
	const struct msg *e = NULL;
	unsigned looks = QUEUE_STEP;
	bool full = false;

	if (!m->walk.open)
		queue_look_open(&m->walk, t);
	while (!full && looks-- && (e = queue_walk_next(&m->walk, t)))
		full = !peek_see(m, e);
	m->again = e && !full;
	if (m->again)
		return;
	queue_walk_close(&m->walk, s);
	m->on = queue_is_paused(t);
	if (!full)
		m->pending =
			journal_look(t, &(struct journal_look){m->walk.stored,
						peek_see, peek_looked, m});
	if (!m->pending)
		peek_end(m);
}

/* ---- purge and move ---------------------------------------------------- */

/* Whose events it ends may end the session meanwhile. */
static void
purged(struct queue_purge *purge, struct sched *s)
{
	struct manage *m = container_of(purge, struct manage, purge);
	struct session *t = session_find(s->kernel, m->session);

	m->n = (uint32_t)purge->n;
	m->on = t && queue_is_paused(t);
	if (purge->status)
		manage_fail(m, purge->status, "it cannot be purged now");
	manage_end(m, s);
}

static void
purge(struct manage *m, struct sched *s)
{
	m->purge = (struct queue_purge){.session = m->session,
		.event = m->event[0] ? m->event : NULL,
		.done = purged};
	m->pending = true;
	queue_purge_start(&m->purge, s);
}

static void
moved(struct queue_move *move, struct sched *s)
{
	struct manage *m = container_of(move, struct manage, move);
	struct session *t = session_find(s->kernel, move->from);

	m->n = move->moved;
	m->first_status = (uint64_t)move->status;
	m->left = m->limit - move->moved;
	m->on = t && queue_is_paused(t);
	manage_end(m, s);
}

static void
move(struct manage *m, struct sched *s, struct session *t)
{
	uint64_t to = alias_holder(&s->kernel->aliases, m->to, strlen(m->to));

	if (!to) {
		manage_fail(m, EVD_STATUS_NO_ALIAS, NULL);
	} else if (to == m->session) {
		manage_fail(m, EVD_STATUS_INVALID,
			"a mailbox is not moved to itself");
	} else if (t->box_bits & BOX_MOVING) {
		manage_fail(m, EVD_STATUS_LIMIT,
			"its events are being moved already");
	} else {
		if (!m->limit || m->limit > t->box.n)
			m->limit = t->box.n;
		m->move = (struct queue_move){.from = m->session,
			.to = to,
			.left = m->limit,
			.done = moved};
		m->pending = true;
		queue_move_start(&m->move, s);
	}
}

/* ---- profile ----------------------------------------------------------- */

static void
put_row(struct manage *m, const struct kernel *k, const struct profile_row *row)
{
	struct manage_out *out = &m->out;

	manage_put_text(out, row->event, row->size);
	manage_put(out, row->calls);
	manage_put(out, profile_ns(k, row->own));
	manage_put(out, profile_ns(k, row->whole));
	manage_put(out, profile_ns(k, row->wait));
	manage_put(out, profile_ns(k, row->wait_max));
	manage_put(out, row->n_late);
	manage_put(out, row->late_ns);
	manage_put(out, row->late_max_ns);
	m->n++;
}

static void
profile(struct manage *m, struct sched *s, struct session *t)
{
	const struct profile_row *row;
	uint32_t at = 0;

	if (m->set && s->profile.all)
		manage_fail(m, EVD_STATUS_INVALID,
			"all sessions are profiled: one cannot be switched");
	else if (m->set && profile_set(s, t, m->set > 0))
		manage_fail(m, EVD_STATUS_NO_MEMORY, NULL);
	m->on = profile_is_on(s, t);
	while ((row = profile_next(s, t, &at)))
		put_row(m, s->kernel, row);
}

/* ---- all --------------------------------------------------------------- */

static void
pause_stored(struct sched *s, void *arg, int status)
{
	struct manage *m = arg;

	if (status)
		manage_fail(m, EVD_STATUS_IO,
			"it is so only until eventd ends: the store fails");
	manage_end(m, s);
}

static void
set_pause(struct manage *m, struct session *t)
{
	m->on = m->op == MANAGE_PAUSE;
	if (m->on)
		queue_pause(t);
	else
		queue_resume(t);
	m->pending = journal_pause(t, m->on, pause_stored, m);
}

bool
manage_visit_queue(struct manage *m, struct sched *s)
{
	struct session *t = session_find(s->kernel, m->session);

	if (!t || atomic_load(&t->home) != s)
		manage_fail(m, EVD_STATUS_NO_ALIAS,
			"there is no such session any more");
	else if (m->op == MANAGE_PEEK)
		peek(m, s, t);
	else if (m->op == MANAGE_PURGE)
		purge(m, s);
	else if (m->op == MANAGE_MOVE)
		move(m, s, t);
	else if (m->op == MANAGE_PROFILE)
		profile(m, s, t);
	else
		set_pause(m, t);
	return false;
}

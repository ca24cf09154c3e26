/* How a journal takes events: into an open record, and, when that is safe,
 * into the mailbox or to those that are in the store alone. See journal.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/log.h"
#include "kernel/aside.h"
#include "kernel/delay_store.h"
#include "kernel/journal_batch.h"
#include "kernel/queue.h"
#include "kernel/record.h"

/* ---- taking events ------------------------------------------------------- */

/* A call is of use only while its caller waits, who learns it if the daemon
 * ends: it is stored only so that it keeps its place. So is what asks for no
 * durability in a mailbox that is not durable as a whole. */
bool
journal_wants(const struct session *t, const struct msg *m)
{
	const struct journal *j = session_journal(t);
	const struct msg_extra *extra = msg_extra(m);

	if (j->n_pending || journal_is_unread(j))
		return true; /* nothing overtakes those */
	if (extra && extra->fired)
		return true;
	if (j->partial)
		return extra && extra->durable && !msg_call(m);
	return !msg_call(m) && !(m->flags & MSG_LENT);
}

static bool
has_room(const struct session *t, const struct msg *m)
{
	const struct journal *j = session_journal(t);
	const struct mailbox *box = &t->box;
	uint64_t n = (uint64_t)box->n + j->n_pending;
	uint64_t size = box->size + j->pending_size;

	if (!n)
		return true;
	return n < box->max_n && size < box->max_size &&
	       msg_charge(m) <= box->max_size - size;
}

/* @m with an extra: itself, or a copy in its place. NULL: out of memory. */
static struct msg *
widen(struct sched *s, struct msg *m)
{
	struct msg *copy;

	if (m->flags & MSG_EXTRA)
		return m;
	copy = msg_with_extra(&s->pool, m);
	if (copy)
		msg_free(&s->pool, m);
	return copy;
}

/* Its record, open for @size more bytes. NULL: out of memory. */
static struct batch *
batch_open(struct journal *j, unsigned lane, size_t size)
{
	struct lane *l = &j->lanes[lane];
	struct batch *b = l->last;

	if (b && !b->submitted && !b->closed && b->n < JOURNAL_BATCH &&
		(!b->n || b->size + size <= JOURNAL_BATCH_SIZE))
		return b;
	b = batch_new(j, lane, atomic_fetch_add(&j->store->next_no, 1));
	if (!b)
		return NULL;
	b->size = sizeof(struct batch_head);
	if (l->last)
		l->last->next = b;
	else
		l->first = b;
	l->last = b;
	return b;
}

static int
batch_make_room(struct batch *b, size_t size)
{
	size_t need = b->size + size, room;
	uint8_t *bytes;

	if (need <= b->room)
		return 0;
	room = need < 1024 ? 1024 : need * 2;
	bytes = FAULT(batch_make_room) ? NULL : realloc(b->bytes, room);
	if (!bytes)
		return err_raise(-ENOMEM);
	b->bytes = bytes;
	b->room = (uint32_t)room;
	return 0;
}

static void
batch_add(struct sched *s, struct batch *b, struct msg *m)
{
	struct msg_extra *extra = msg_extra(m);
	struct record r = {.time_ns = sched_wall_ns(s)};

	if (extra->expires_ns)
		r.expires_ns = r.time_ns + extra->expires_ns - s->now_ns;
	b->journal->unwritten += record_size(m);
	b->size += (uint32_t)record_put(b->bytes + b->size, m, &r);
	extra->batch = b;
	extra->place = b->n++;
	b->charge += msg_charge(m);
	b->n_left++;
}

/* Posters are faster than the disk: if nobody has to wait for a sync, for
 * writing they have to, or what is lost with the daemon had no bounds. */
static bool
is_behind(const struct journal *j)
{
	return j->n_pending > 1 || j->unwritten > JOURNAL_WINDOW_SIZE;
}

/* It counts already, or all need not. What a timer sends does so when it is
 * safe: until then it is the timer that counts. */
static bool
need_not_wait(const struct journal *j, const struct msg *m)
{
	bool fired = msg_extra(m)->fired;

	if (j->store->interval_ms && (fired || !is_behind(j)))
		return true;
	return (m->flags & (MSG_DELAYED | MSG_ADMITTED)) && !fired;
}

int
journal_take(struct sched *s, struct session *t, struct msg *m)
{
	struct journal *j = session_journal(t);
	size_t size = record_size(m);
	struct batch *b = batch_open(
		j, m->flags & MSG_URGENT ? LANE_URGENT : LANE_NORMAL, size);

	if (!b || batch_make_room(b, size))
		return err_raise(-ENOMEM);
	m = widen(s, m);
	if (!m ||
		(msg_extra(m)->fired && delay_store_take(msg_extra(m)->fired)))
		return err_raise(-ENOMEM);
	batch_add(s, b, m);
	if (msg_extra(m)->key_size)
		aside_admitted(s, t, m);
	j->n_pending++;
	j->pending_size += msg_charge(m);
	journal_touch(j);
	if (need_not_wait(j, m))
		batch_event_safe(b, m);
	else
		msg_queue_push(&b->msgs, m);
	return 0;
}

/* There is no room. */
static int
refuse_or_park(struct sched *s, struct session *t, struct msg *m)
{
	enum overflow overflow =
		t->spec ? spec_overflow(t->spec, m->event) : OVERFLOW_BLOCK;

	if (overflow != OVERFLOW_BLOCK)
		return queue_overflow(s, t, m);
	return mailbox_park(&t->box, m) ? SCHED_E_FULL : 0;
}

int
journal_deliver(struct sched *s, struct session *t, struct msg *m)
{
	const struct msg_extra *extra = msg_extra(m);

	if (extra && extra->key_size && !session_journal(t)->keys_known) {
		msg_queue_push(&session_journal(t)->early, m);
		return 0;
	}
	if ((t->box.n_parked || !has_room(t, m)) && !(m->flags & MSG_ADMITTED))
		return refuse_or_park(s, t, m);
	return journal_take(s, t, m);
}

/* @m, which was parked and has room now. */
static int
admit(struct sched *s, struct session *t, struct msg *m)
{
	if (journal_wants(t, m))
		return journal_take(s, t, m);
	mailbox_take_in(&t->box, m);
	if (t->run == SESSION_IDLE && !t->queued)
		sched_enqueue(s, t);
	sched_admitted(s, t, m);
	return 0;
}

void
journal_admit_parked(struct sched *s, struct session *t)
{
	uint64_t id = atomic_load(&t->id);
	struct msg *m;

	while (session_find(s->kernel, id) == t && t->box.n_parked) {
		if (aside_end_parked(s, t))
			continue;
		if (!has_room(t, msg_ring_head(&t->box.parked)))
			return;
		m = mailbox_pop_parked(&t->box);
		if (admit(s, t, m))
			msg_end(s, t, m, MSG_END_REFUSED, EVD_STATUS_NO_MEMORY,
				"out of memory");
	}
}

void
journal_ran(struct sched *s, struct session *t)
{
	(void)s;
	if (!t->current)
		state_commit(t);
	if (journal_is_unread(session_journal(t)))
		journal_load(session_journal(t));
}

/* ---- safe ---------------------------------------------------------------- */

/* Whether the events of @b are to be in memory. */
static void
decide(struct batch *b)
{
	struct journal *j = b->journal;
	struct lane *lane = &j->lanes[b->lane];

	b->decided = true;
	b->in_memory = !lane->unread && j->n_loaded < JOURNAL_WINDOW &&
		       j->loaded_size < JOURNAL_WINDOW_SIZE;
	if (b->in_memory)
		return;
	if (!lane->unread)
		lane->next = b->no;
	lane->unread = true;
	lane->n_behind++;
}

/* Who waits for more than that it is safe is remembered until it is read. */
static void
keep_waiter(struct batch *b, const struct msg *m)
{
	struct lane *lane = &b->journal->lanes[b->lane];
	struct waiter *w = FAULT(keep_waiter) ? NULL : calloc(1, sizeof(*w));

	if (!w) {
		log_err("kernel.no-memory", "what=waiter event_id=%" PRIu64,
			m->id);
		return;
	}
	*w = (struct waiter){.no = b->no,
		.from = m->from,
		.seq = msg_seq(m),
		.size = m->size,
		.place = msg_extra(m)->place,
		.level = (uint8_t)msg_level(m)};
	*lane->waiters_end = w;
	lane->waiters_end = &w->next;
}

/* It has its place in the mailbox of @t, but not in memory. */
static void
to_backlog(struct sched *s, struct session *t, struct batch *b, struct msg *m)
{
	struct journal *j = b->journal;

	t->box.n++;
	t->box.size += msg_charge(m);
	j->n_backlog++;
	j->backlog_size += msg_charge(m);
	m->flags |= MSG_ADMITTED;
	sched_settle_level(s, m, MSG_LEVEL_DURABLE);
	sched_admitted(s, t, m); /* a poster that is told may stop @t */
	if ((m->flags & MSG_ACK) && j->session)
		keep_waiter(b, m);
	else if (m->flags & MSG_ACK)
		sched_settle(s, m, EVD_STATUS_DIED, journal_kept_text);
	msg_extra(m)->batch = NULL;
	aside_ended(s, m, EVD_STATUS_OK, NULL); /* its key is known */
	msg_free(&s->pool, m);
}

static void
to_memory(struct sched *s, struct session *t, struct batch *b, struct msg *m)
{
	struct journal *j = b->journal;

	j->n_loaded++;
	j->loaded_size += msg_charge(m);
	mailbox_take_in(&t->box, m);
	if (t->run == SESSION_IDLE && !t->queued)
		sched_enqueue(s, t);
	sched_settle_level(s, m, MSG_LEVEL_DURABLE);
	if (j->session)
		sched_admitted(s, t, m); /* last: its poster may stop @t */
}

/* Its session has gone: it waits for the next one. */
static void
to_nobody(struct sched *s, struct msg *m)
{
	sched_settle_level(s, m, MSG_LEVEL_DURABLE);
	msg_extra(m)->batch = NULL;
	if (m->flags & MSG_ACK)
		sched_settle(s, m, EVD_STATUS_DIED, journal_kept_text);
	msg_free(&s->pool, m);
}

/* @m of @b is safe: it is accepted. */
void
batch_event_safe(struct batch *b, struct msg *m)
{
	struct journal *j = b->journal;

	if (!b->decided)
		decide(b);
	j->n_pending--;
	j->pending_size -= msg_charge(m);
	if (msg_extra(m)->fired)
		delay_store_fired(j->sched, TAKE(msg_extra(m)->fired), m);
	if (!j->session)
		to_nobody(j->sched, m);
	else if (b->in_memory)
		to_memory(j->sched, j->session, b, m);
	else
		to_backlog(j->sched, j->session, b, m);
}

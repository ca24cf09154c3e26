#include "kernel/journal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/log.h"
#include "kernel/aside.h"
#include "kernel/journal_batch.h"
#include "kernel/queue.h"
#include "kernel/record.h"

/* ---- batches ------------------------------------------------------------- */

static void
put_big(uint8_t *out, uint64_t number)
{
	number = __builtin_bswap64(number);
	memcpy(out, &number, sizeof(number));
}

void
batch_key(uint8_t out[BATCH_KEY], const struct journal *j, unsigned lane,
	uint64_t no)
{
	put_big(out, j->box->id);
	out[8] = (uint8_t)lane;
	put_big(out + 9, no);
}

struct batch *
batch_new(struct journal *j, unsigned lane, uint64_t no)
{
	struct batch *b = FAULT(batch_new) ? NULL : calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->journal = j;
	b->lane = (uint8_t)lane;
	b->no = no;
	list_append(&j->batches, &b->link);
	return b;
}

void
batch_free(struct batch *b)
{
	struct journal *j = b->journal;
	struct batch **link = &j->dirty_batches;

	if (b->dirty) {
		while (*link != b)
			link = &(*link)->next_dirty;
		*link = b->next_dirty;
	}
	list_remove(&b->link);
	free(b->bytes);
	free(b->tries);
	free(b);
}

void
batch_release(struct batch *b)
{
	if (!b->safe || b->dirty || b->n_items)
		return;
	if (b->erased || !b->in_memory || !b->journal->session)
		batch_free(b);
}

void
journal_touch(struct journal *j)
{
	if (j->dirty)
		return;
	j->dirty = true;
	j->next_dirty = j->sched->journals;
	j->sched->journals = j;
}

void
batch_touch(struct batch *b)
{
	struct journal *j = b->journal;

	if (!b->dirty) {
		b->dirty = true;
		b->next_dirty = j->dirty_batches;
		j->dirty_batches = b;
	}
	journal_touch(j);
}

/* ---- open and close ------------------------------------------------------ */

static struct journal *
journal_new(struct session *t, struct store_box *box)
{
	struct journal *j = FAULT(journal_new) ? NULL : calloc(1, sizeof(*j));

	if (!j)
		return NULL;
	j->session = t;
	j->sched = atomic_load(&t->home);
	j->store = j->sched->kernel->store;
	j->box = box;
	list_init(&j->batches);
	j->sides_end = &j->sides;
	j->retry.type = TIMER_JOURNAL;
	for (unsigned i = 0; i < LANES; i++) {
		j->lanes[i].unread = true;
		j->lanes[i].waiters_end = &j->lanes[i].waiters;
	}
	return j;
}

/* What is there already is accepted by this session. */
static void
take_over(struct journal *j)
{
	struct session *t = j->session;
	uint64_t n = j->box->n;

	j->n_backlog = n;
	j->backlog_size = j->box->size;
	t->box.n += (uint32_t)n;
	t->box.size += j->box->size;
	t->accepted += n;
	j->sched->counters.accepted += n;
	j->sched->queued += n;
	if (n)
		log_info("mailbox.restored",
			"session=\"%s\" events=%" PRIu64 " bytes=%" PRIu64,
			j->box->name, n, j->box->size);
}

int
journal_open(struct session *t, const char *name)
{
	struct store *store = atomic_load(&t->home)->kernel->store;
	struct store_box *box;
	struct journal *j;

	if (!store)
		return JOURNAL_E_NONE;
	if (store->broken)
		return JOURNAL_E_BROKEN;
	box = store->ops->hold(store, name, strlen(name));
	if (!box)
		return JOURNAL_E_HELD;
	j = session_health(t) ? journal_new(t, box) : NULL;
	if (!j) {
		store->ops->release(store, box);
		return err_raise(-ENOMEM);
	}
	t->health->journal = j;
	t->box_bits |= BOX_DURABLE;
	take_over(j);
	journal_load(j);
	journal_read_rest(j);
	return 0;
}

void
journal_unref(struct journal *j)
{
	struct side_write *side;

	if (j->session || j->n_jobs || j->n_loads || j->n_away || j->dirty ||
		j->lanes[LANE_URGENT].first || j->lanes[LANE_NORMAL].first)
		return;
	LIST_FOREACH (node, &j->batches) /* could not be written: comes again */
		batch_free(container_of(node, struct batch, link));
	timers_remove(&j->sched->timers, &j->retry);
	j->store->ops->release(j->store, j->box);
	while ((side = j->sides)) {
		j->sides = side->next;
		free(side);
	}
	free(j->told);
	free(j);
}

static const char kept_text[] =
	"the session has ended; the event stays in its durable mailbox";

/* Posters of events that are in the store, and that nobody will handle now. */
static void
drop_waiters(struct journal *j)
{
	for (unsigned i = 0; i < LANES; i++) {
		struct lane *lane = &j->lanes[i];
		struct waiter *w;

		while ((w = lane->waiters)) {
			lane->waiters = w->next;
			sched_tell(j->sched, w->from, w->seq, w->size,
				EVD_STATUS_DIED, kept_text);
			free(w);
		}
		lane->waiters_end = &lane->waiters;
	}
}

bool
journal_keep(struct sched *s, struct session *t, struct msg *m)
{
	struct msg_extra *extra = msg_extra(m);
	struct batch *b = extra ? extra->batch : NULL;

	if (!b)
		return false;
	b->journal->n_loaded--;
	b->journal->loaded_size -= msg_charge(m);
	extra->batch = NULL;
	t->accepted--;
	s->counters.accepted--;
	if (m->flags & MSG_ACK)
		sched_settle(s, m, EVD_STATUS_DIED, kept_text);
	if (msg_call(m) && !(m->flags & MSG_REPLIED))
		sched_reply(s, msg_call(m), EVD_STATUS_DIED, kept_text,
			sizeof(kept_text) - 1);
	msg_free(&s->pool, m);
	return true;
}

static void
drop_early(struct journal *j)
{
	struct msg *m;

	while ((m = msg_queue_pop(&j->early)))
		msg_end(j->sched, NULL, m, MSG_END_REFUSED, EVD_STATUS_DIED,
			NULL);
}

void
journal_close(struct session *t)
{
	struct journal *j = session_journal(t);
	struct sched *s;

	if (!j)
		return;
	t->health->journal = NULL;
	s = j->sched;
	t->box_bits &= (uint8_t)~BOX_DURABLE;
	t->box.n -= (uint32_t)j->n_backlog;
	t->box.size -= j->backlog_size;
	s->queued -= j->n_backlog;
	s->counters.accepted -= j->n_backlog;
	t->accepted -= j->n_backlog;
	j->session = NULL;
	drop_early(j);
	drop_waiters(j);
	LIST_FOREACH (node, &j->batches)
		batch_release(container_of(node, struct batch, link));
	journal_touch(j);
	journals_flush(s); /* which frees it if there is no news */
}

size_t
journal_memory(const struct session *t)
{
	const struct journal *j = session_journal(t);

	return j ? sizeof(*j) + j->pending_size : 0;
}

uint64_t
journal_backlog(const struct session *t)
{
	return session_journal(t) ? session_journal(t)->n_backlog : 0;
}

/* ---- taking events ------------------------------------------------------- */

/* A call is of use only while its caller waits, who learns it if the daemon
 * ends: it is stored only so that it keeps its place. */
bool
journal_wants(const struct session *t, const struct msg *m)
{
	const struct journal *j = session_journal(t);

	return !msg_call(m) || j->n_pending || journal_is_unread(j);
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

	if (b && !b->submitted && b->n < JOURNAL_BATCH &&
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
	b->size += (uint32_t)record_put(b->bytes + b->size, m, &r);
	extra->batch = b;
	extra->place = b->n++;
	b->charge += msg_charge(m);
	b->n_left++;
}

static void event_safe(struct batch *b, struct msg *m);

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
	if (!m)
		return err_raise(-ENOMEM);
	batch_add(s, b, m);
	if (msg_extra(m)->key_size)
		aside_admitted(s, t, m);
	j->n_pending++;
	j->pending_size += msg_charge(m);
	journal_touch(j);
	if (j->store->interval_ms || (m->flags & (MSG_DELAYED | MSG_ADMITTED)))
		event_safe(b, m); /* it counts already, or need not wait */
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
		if (journal_take(s, t, m))
			msg_end(s, t, m, MSG_END_REFUSED, EVD_STATUS_NO_MEMORY,
				"out of memory");
	}
}

void
journal_ran(struct sched *s, struct session *t)
{
	(void)s;
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
		sched_settle(s, m, EVD_STATUS_DIED, kept_text);
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
		sched_settle(s, m, EVD_STATUS_DIED, kept_text);
	msg_free(&s->pool, m);
}

/* @m of @b is safe: it is accepted. */
static void
event_safe(struct batch *b, struct msg *m)
{
	struct journal *j = b->journal;

	if (!b->decided)
		decide(b);
	j->n_pending--;
	j->pending_size -= msg_charge(m);
	if (!j->session)
		to_nobody(j->sched, m);
	else if (b->in_memory)
		to_memory(j->sched, j->session, b, m);
	else
		to_backlog(j->sched, j->session, b, m);
}

/* @m could not be stored. */
static void
event_unsafe(struct batch *b, struct msg *m, int status)
{
	struct msg_extra *extra = msg_extra(m);
	struct journal *j = b->journal;
	char text[512];

	j->n_pending--;
	j->pending_size -= msg_charge(m);
	extra->batch = NULL;
	b->ended[extra->place / 64] |= 1ull << (extra->place % 64);
	b->ended_size += msg_charge(m);
	b->n_left--;
	snprintf(text, sizeof(text),
		"the store cannot take an event for '%s': %s", j->box->name,
		strerror(-status));
	msg_end(j->sched, j->session, m, MSG_END_REFUSED, EVD_STATUS_IO, text);
}

void
batch_leave_lane(struct batch *b)
{
	struct lane *lane = &b->journal->lanes[b->lane];
	struct batch **link = &lane->first, *before = NULL;

	while (*link != b) {
		before = *link;
		link = &before->next;
	}
	*link = b->next;
	if (lane->last == b)
		lane->last = before;
	b->next = NULL;
}

enum { RETRY_MS = 200 };

void
journal_retry_later(struct journal *j)
{
	if (!timer_is_armed(&j->retry))
		timers_add(&j->sched->timers, &j->retry,
			j->sched->now_ns + (uint64_t)RETRY_MS * NS_PER_MS);
}

void
journal_retry(struct sched *s, struct timer *timer)
{
	struct journal *j = container_of(timer, struct journal, retry);

	(void)s;
	journal_touch(j);
	if (j->session)
		journal_load(j);
}

/* Those that were accepted before are tried again. */
static void
batch_failed(struct batch *b, int status)
{
	struct msg *m;

	while ((m = msg_queue_pop(&b->msgs)))
		event_unsafe(b, m, status);
	if (b->n_left) {
		b->submitted = false;
		journal_retry_later(b->journal);
		return;
	}
	batch_leave_lane(b);
	batch_free(b);
}

void
batch_written(struct batch *b, int status)
{
	struct journal *j = b->journal;
	struct msg *m;

	if (status) {
		batch_failed(b, status);
		return;
	}
	batch_leave_lane(b);
	b->safe = true;
	free(b->bytes);
	b->bytes = NULL;
	while ((m = msg_queue_pop(&b->msgs)))
		event_safe(b, m);
	batch_release(b);
	if (j->session)
		journal_load(j);
}

/* ---- ends ---------------------------------------------------------------- */

/* Told when it is safe that the event will not come again. Without memory for
 * that, at once. */
static void
tell_later(struct journal *j, struct sched *s, struct msg *m)
{
	struct told *told;

	if (j->n_told == j->told_room) {
		uint32_t room = j->told_room ? j->told_room * 2 : 16;

		told = realloc(j->told, room * sizeof(*told));
		if (!told) {
			sched_settle(s, m, EVD_STATUS_OK, NULL);
			return;
		}
		j->told = told;
		j->told_room = room;
	}
	told = &j->told[j->n_told++];
	*told = (struct told){m->from, msg_seq(m), m->size};
	m->flags &= (uint16_t)~MSG_ACK;
}

void
journal_ended(struct sched *s, struct msg *m, int status)
{
	struct msg_extra *extra = msg_extra(m);
	struct batch *b = extra->batch;
	struct journal *j;

	if (!b)
		return;
	extra->batch = NULL;
	j = b->journal;
	b->ended[extra->place / 64] |= 1ull << (extra->place % 64);
	b->ended_size += msg_charge(m);
	b->n_left--;
	j->n_loaded--;
	j->loaded_size -= msg_charge(m);
	if (!status && (m->flags & MSG_ACK))
		tell_later(j, s, m);
	batch_touch(b);
}

/* ---- moves --------------------------------------------------------------- */

/* Meanwhile it counts as handed over, which keeps its record. */
struct journal_place
journal_detach(struct msg *m)
{
	struct msg_extra *extra = msg_extra(m);
	struct journal_place p = {.batch = extra ? extra->batch : NULL};

	if (!p.batch)
		return p;
	p.place = extra->place;
	p.charge = msg_charge(m);
	extra->batch = NULL;
	p.batch->n_items++;
	p.batch->journal->n_away++;
	p.batch->journal->n_loaded--;
	p.batch->journal->loaded_size -= p.charge;
	return p;
}

void
journal_attach(struct msg *m, const struct journal_place *p)
{
	struct msg_extra *extra = msg_extra(m);

	if (!p->batch)
		return;
	extra->batch = p->batch;
	extra->place = p->place;
	p->batch->n_items--;
	p->batch->journal->n_away--;
	p->batch->journal->n_loaded++;
	p->batch->journal->loaded_size += p->charge;
}

void
journal_end_place(const struct journal_place *p)
{
	struct batch *b = p->batch;

	if (!b)
		return;
	b->n_items--;
	b->journal->n_away--;
	b->ended[p->place / 64] |= 1ull << (p->place % 64);
	b->ended_size += p->charge;
	b->n_left--;
	batch_touch(b);
}

void
journal_leave_place(const struct journal_place *p)
{
	struct journal *j = p->batch->journal;

	p->batch->n_items--;
	j->n_away--;
	batch_release(p->batch);
	journal_unref(j);
}

bool
journal_is_reading(const struct session *t)
{
	const struct journal *j = session_journal(t);

	return j &&
	       (j->lanes[LANE_URGENT].loading || j->lanes[LANE_NORMAL].loading);
}

void
journal_leased(struct msg *m)
{
	struct msg_extra *extra = msg_extra(m);
	struct batch *b = extra->batch;

	if (!b)
		return;
	if (!b->tries)
		b->tries = calloc(1, JOURNAL_BATCH);
	if (!b->tries)
		return;
	b->tries[extra->place] =
		m->attempt < UINT8_MAX ? (uint8_t)(m->attempt + 1) : UINT8_MAX;
	batch_touch(b);
}

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
#include "kernel/delay_store.h"
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
	free(b->rests);
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
	list_init(&j->stored);
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

/* The journal of @t in @box, which is held. */
static int
journal_begin(struct session *t, struct store_box *box, bool partial)
{
	struct store *store = atomic_load(&t->home)->kernel->store;
	struct journal *j = session_health(t) ? journal_new(t, box) : NULL;

	if (!j) {
		store->ops->release(store, box);
		return err_raise(-ENOMEM);
	}
	j->partial = partial;
	t->health->journal = j;
	t->box_bits |= BOX_DURABLE;
	atomic_fetch_add(&j->sched->kernel->n_unready, 1);
	if (box->paused && !partial)
		queue_pause(t);
	take_over(j);
	journal_purge_read(j);
	journal_moved_read(j);
	journal_load(j);
	journal_read_rest(j);
	return 0;
}

static int
open_box(struct session *t, const char *name, bool partial)
{
	struct store *store = atomic_load(&t->home)->kernel->store;
	struct store_box *box;

	if (!store)
		return JOURNAL_E_NONE;
	if (store->broken)
		return JOURNAL_E_BROKEN;
	box = store->ops->hold(store, name, strlen(name));
	return box ? journal_begin(t, box, partial) : JOURNAL_E_HELD;
}

int
journal_open(struct session *t, const char *name)
{
	return open_box(t, name, false);
}

const char *
journal_name(const struct session *t)
{
	const struct session_spec *spec = t->spec;
	const char *name = session_name(t);

	if (spec && spec->n_aliases)
		return spec->aliases[0];
	if (spec && spec->name)
		return spec->name;
	return *name ? name : NULL;
}

int
journal_open_partial(struct session *t)
{
	const char *name = journal_name(t);

	return name ? open_box(t, name, true) : JOURNAL_E_NAMELESS;
}

void
journal_restore(struct session *t, const char *name)
{
	struct store *store = atomic_load(&t->home)->kernel->store;
	struct store_box *box;

	if (!store || store->broken || !name || session_journal(t))
		return;
	box = store->ops->find(store, name, strlen(name));
	if (box && journal_begin(t, box, true))
		log_err("kernel.no-memory", "what=journal session=\"%s\"",
			name);
}

bool
journal_is_partial(const struct session *t)
{
	return session_journal(t) && session_journal(t)->partial;
}

const char *
journal_lacks(const struct session *t)
{
	const struct store *store = atomic_load(&t->home)->kernel->store;

	if (!store)
		return "there is no store";
	if (store->broken)
		return "the store cannot be used";
	return journal_name(t) ? "another session has what the store keeps "
				 "under its name"
			       : "it has no name to be kept under";
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
		side_drop(j, side, -ECANCELED);
	}
	free(j->purge);
	journal_moved_free(j);
	free(j->told);
	free(j);
}

const char journal_kept_text[] =
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
				EVD_STATUS_DIED, journal_kept_text);
			free(w);
		}
		lane->waiters_end = &lane->waiters;
	}
}

bool
journal_has(const struct msg *m)
{
	const struct msg_extra *extra = msg_extra(m);

	return extra && extra->batch;
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
		sched_settle(s, m, EVD_STATUS_DIED, journal_kept_text);
	if (msg_call(m) && !(m->flags & MSG_REPLIED))
		sched_reply(s, msg_call(m), EVD_STATUS_DIED, journal_kept_text,
			(uint32_t)strlen(journal_kept_text));
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
	delay_store_close(j);
	t->health->journal = NULL;
	s = j->sched;
	t->box_bits &= (uint8_t)~BOX_DURABLE;
	t->box.n -= (uint32_t)j->n_backlog;
	t->box.size -= j->backlog_size;
	s->queued -= j->n_backlog;
	s->counters.accepted -= j->n_backlog;
	t->accepted -= j->n_backlog;
	j->session = NULL;
	journal_is_read(j);
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
	if (extra->fired) { /* and is again, later */
		delay_store_unfired(j->sched, TAKE(extra->fired));
		msg_free(&j->sched->pool, m);
		return;
	}
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
	b->journal->unwritten -= b->size - sizeof(struct batch_head);
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

static bool
is_safe(const struct journal *j, const struct safe_wait *w)
{
	for (unsigned i = 0; i < LANES; i++)
		if (j->lanes[i].first && j->lanes[i].first->no <= w->upto[i])
			return false;
	return true;
}

static void
end_waits(struct journal *j)
{
	struct safe_wait **link = &j->safe_waits, *w;

	while ((w = *link)) {
		if (!is_safe(j, w)) {
			link = &w->next;
			continue;
		}
		*link = w->next;
		w->done(j->sched, w->arg, 0);
		free(w);
	}
}

bool
journal_when_safe(struct session *t, journal_done_fn done, void *arg)
{
	struct journal *j = session_journal(t);
	struct safe_wait *w = FAULT(safe_wait) ? NULL : calloc(1, sizeof(*w));

	if (!w)
		return false;
	w->done = done;
	w->arg = arg;
	for (unsigned i = 0; i < LANES; i++)
		if (j->lanes[i].last)
			w->upto[i] = j->lanes[i].last->no;
	if (is_safe(j, w)) {
		free(w);
		return false;
	}
	w->next = j->safe_waits;
	j->safe_waits = w;
	return true;
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
		batch_event_safe(b, m);
	batch_release(b);
	if (j->safe_waits)
		end_waits(j);
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

void
journal_rests(struct msg *m, uint64_t due_ns)
{
	struct msg_extra *extra = msg_extra(m);
	struct batch *b = extra ? extra->batch : NULL;

	if (!b)
		return;
	if (!b->rests)
		b->rests = FAULT(batch_rests)
				   ? NULL
				   : calloc(JOURNAL_BATCH, sizeof(*b->rests));
	if (!b->rests)
		return; /* it comes early if the daemon ends meanwhile */
	b->rests[extra->place] = due_ns;
	batch_touch(b);
}

/* What a journal reads: records of events that were in the store alone, a
 * bounded piece at a time, in their order. See journal.h. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/log.h"
#include "kernel/history.h"
#include "kernel/journal_batch.h"
#include "kernel/record.h"

struct load_job {
	struct store_job job;
	struct store_read read;
	struct journal *journal;
	unsigned lane;
	uint32_t n_behind; /* of the lane, when it was asked for */
};

/* ---- one event ----------------------------------------------------------- */

/* Who waits for the event at @place of @b gets it back. */
static void
take_waiter(struct batch *b, struct msg *m, unsigned place)
{
	struct lane *lane = &b->journal->lanes[b->lane];
	struct waiter *w = lane->waiters;

	if (!w || w->no != b->no || w->place != place)
		return;
	lane->waiters = w->next;
	if (!lane->waiters)
		lane->waiters_end = &lane->waiters;
	m->from = w->from;
	msg_wide(m)->seq = w->seq;
	msg_wide(m)->level = w->level;
	m->flags |= MSG_ACK;
	free(w);
}

void
journal_leave_backlog(struct journal *j, uint64_t size)
{
	struct mailbox *box = &j->session->box;

	if (!j->n_backlog) { /* the count was wrong: it is one more */
		j->session->accepted++;
		j->sched->counters.accepted++;
		j->sched->queued++;
		j->box->n++;
		return;
	}
	j->n_backlog--;
	if (size > j->backlog_size || !j->n_backlog)
		size = j->backlog_size;
	j->backlog_size -= size;
	box->n--;
	box->size -= size;
}

/* A number and a caller of another run mean somebody else now. True: it was a
 * call, and nobody waits for its answer. */
static bool
forget_run(struct journal *j, const struct batch *b, struct msg *m)
{
	bool call = msg_call(m);

	if (b->no >> STORE_RUN_SHIFT == j->store->run)
		return false;
	m->from = 0;
	msg_uncall(m);
	msg_wide(m)->deadline_ns = 0;
	return call;
}

/* It was given back, and rests: it is leased until it is due, as it was, if
 * its session can do that. */
static bool
restore_rest(struct batch *b, struct msg *m, unsigned place)
{
	struct journal *j = b->journal;
	struct session *t = j->session;

	if (!b->rests || b->rests[place] <= j->sched->now_ns || !t->ops->rest ||
		!t->begun)
		return false;
	if (m->attempt)
		m->attempt--; /* it counts when it is back */
	j->sched->queued--;
	t->leased++;
	j->sched->counters.leased++;
	t->ops->rest(t, m, b->rests[place]);
	return true;
}

static void
restore(struct batch *b, struct msg *m, const struct record *r, unsigned place)
{
	struct journal *j = b->journal;
	struct sched *s = j->sched;
	struct session *t = j->session;
	struct msg_extra *extra = msg_extra(m);
	uint64_t wall = sched_wall_ns(s);

	m->to = atomic_load(&t->id);
	if (wall < r->time_ns) /* the clock was ahead then */
		wall = r->time_ns;
	if (r->expires_ns)
		extra->expires_ns = r->expires_ns > wall
					    ? s->now_ns + r->expires_ns - wall
					    : 1;
	extra->batch = b;
	extra->place = (uint16_t)place;
	if (b->tries && b->tries[place] > m->attempt)
		m->attempt = b->tries[place];
	journal_leave_backlog(j, msg_charge(m));
	j->n_loaded++;
	j->loaded_size += msg_charge(m);
	take_waiter(b, m, place);
	if (!restore_rest(b, m, place))
		mailbox_take_in(&t->box, m);
	if (b->no >> STORE_RUN_SHIFT != j->store->run)
		history_restored(s, t, m);
	if (forget_run(j, b, m))
		extra->expires_ns = 1;
}

/* The event at @place cannot be read: it ends here. */
static void
damaged(struct batch *b, unsigned place)
{
	struct journal *j = b->journal;

	b->ended[place / 64] |= 1ull << (place % 64);
	b->n_left--;
	journal_leave_backlog(j, 0);
	j->sched->queued--;
	if (session_health(j->session))
		j->session->health->ends.dead++;
	j->sched->counters.dead++;
	atomic_fetch_add(&j->store->n_damaged, 1);
	log_err("store.damaged",
		"mailbox=\"%s\" record=%" PRIu64
		" place=%u reason=\"its checksum is wrong\"",
		j->box->name, b->no, place);
}

/* ---- one record ---------------------------------------------------------- */

/* A copy of what the marks have at @*at for each event, @size bytes; NULL: it
 * is not there, or out of memory. */
static void *
column(const struct batch *b, const struct store_row *row, size_t *at,
	size_t size)
{
	void *copy;

	if (row->also_size < *at || row->also_size - *at < b->n * size)
		return NULL;
	copy = calloc(JOURNAL_BATCH, size);
	if (copy)
		memcpy(copy, row->also + *at, b->n * size);
	*at += b->n * size;
	return copy;
}

/* What is left of them: by elapsed time, or, after another start of the
 * machine, by the wall clock. */
static void
take_rests(struct batch *b, const struct marks_clocks *was)
{
	struct sched *s = b->journal->sched;
	uint64_t wall = sched_wall_ns(s), gone;

	if (!memcmp(was->boot, b->journal->store->boot, sizeof(was->boot)))
		gone = s->now_ns > was->now_ns ? s->now_ns - was->now_ns : 0;
	else
		gone = wall > was->wall_ns ? wall - was->wall_ns : 0;
	for (unsigned i = 0; i < b->n; i++) {
		uint64_t due = b->rests[i];
		uint64_t left = due > was->wall_ns ? due - was->wall_ns : 0;

		b->rests[i] = left > gone ? s->now_ns + (left - gone) : 0;
	}
}

void
batch_take_marks(struct batch *b, const struct store_row *row)
{
	struct sched *s = b->journal->sched;
	struct marks_clocks clocks = {
		.now_ns = s->now_ns, .wall_ns = sched_wall_ns(s)};
	struct batch_marks marks;
	size_t at = sizeof(marks);

	if (!row->also || row->also_size < sizeof(marks))
		return;
	memcpy(&marks, row->also, sizeof(marks));
	memcpy(b->ended, marks.ended, sizeof(b->ended));
	b->marked = true;
	if (marks.has & MARKS_TRIES)
		b->tries = column(b, row, &at, sizeof(*b->tries));
	if (marks.has & MARKS_RESTS)
		b->rests = column(b, row, &at, sizeof(*b->rests));
	if (!b->rests)
		return;
	if (marks.has & MARKS_CLOCKS && row->also_size >= at + sizeof(clocks))
		memcpy(&clocks, row->also + at, sizeof(clocks));
	take_rests(b, &clocks);
}

static void
count_left(struct batch *b)
{
	for (unsigned i = 0; i < b->n; i++)
		b->n_left = (uint16_t)(b->n_left + !batch_has_ended(b, i));
	b->n_told = (uint16_t)(b->n - b->n_left);
}

/* The events of a record, as far as they can be read. What cannot, for want of
 * memory too, ends as damaged. */
static bool
take_events(struct batch *b, const struct store_row *row)
{
	struct msg_pool *pool = &b->journal->sched->pool;
	size_t at = sizeof(struct batch_head), used = 1;
	bool sound = true;

	for (unsigned place = 0; place < b->n; place++, at += used) {
		struct msg *m = NULL;
		struct record r;
		int e = used ? record_get(pool, row->data + at, row->size - at,
				       &used, &m, &r)
			     : RECORD_E_DAMAGED;

		if (batch_has_ended(b, place)) {
			msg_free(pool, m);
		} else if (e) {
			damaged(b, place);
			sound = false;
		} else if (!journal_moved_takes(b, m, place) &&
			   !journal_purge_takes(b, m, place)) {
			restore(b, m, &r, place);
		}
	}
	return sound;
}

void
batch_purge_row(struct batch *b, const struct store_row *row)
{
	struct msg_pool *pool = &b->journal->sched->pool;
	size_t at = sizeof(struct batch_head), used = 1;

	for (unsigned place = 0; place < b->n && used; place++, at += used) {
		struct msg *m = NULL;
		struct record r;

		if (record_get(pool, row->data + at, row->size - at, &used, &m,
			    &r))
			continue;
		if (batch_has_ended(b, place) ||
			!journal_purge_takes(b, m, place))
			msg_free(pool, m);
	}
}

uint64_t
batch_number(const struct store_row *row)
{
	uint64_t no;

	memcpy(&no, row->key + 9, sizeof(no));
	return __builtin_bswap64(no);
}

/* What is damaged is written to a table of its own, as it is. */
static void
set_aside(struct batch *b, const struct store_row *row)
{
	b->bytes = malloc(row->size);
	if (b->bytes)
		memcpy(b->bytes, row->data, row->size);
	b->aside = b->bytes != NULL;
}

struct batch *
batch_of_row(struct journal *j, unsigned lane, const struct store_row *row)
{
	struct batch_head head = {.n = 0};
	struct batch *b = batch_new(j, lane, batch_number(row));

	if (!b)
		return NULL;
	if (row->size >= sizeof(head))
		memcpy(&head, row->data, sizeof(head));
	if (head.version == BATCH_VERSION && head.n <= JOURNAL_BATCH)
		b->n = head.n;
	b->submitted = b->safe = b->decided = b->in_memory = true;
	b->size = row->size;
	batch_take_marks(b, row);
	count_left(b);
	return b;
}

static void
take_row(struct journal *j, unsigned lane, const struct store_row *row)
{
	struct batch *b = batch_of_row(j, lane, row);

	if (!b)
		return; /* it is there at the next start */
	if (!take_events(b, row) || !b->n)
		set_aside(b, row);
	if (!b->n_left || b->aside)
		batch_touch(b);
}

/* ---- a piece ------------------------------------------------------------- */

/* Those that are not known to be safe come by themselves. */
static bool
is_known(const struct lane *lane, uint64_t no)
{
	return !lane->first || no < lane->first->no;
}

static void
take_rows(struct journal *j, const struct load_job *l)
{
	const struct store_read *read = &l->read;
	struct lane *lane = &j->lanes[l->lane];

	lane->unread = read->more;
	for (uint32_t n = 0; n < read->n; n++) {
		const struct store_row *row = &read->rows[n];

		if (row->key_size != BATCH_KEY)
			continue;
		if (!is_known(lane, batch_number(row))) {
			lane->unread = false;
			break;
		}
		lane->next = batch_number(row) + 1;
		take_row(j, l->lane, row);
	}
	for (struct batch *b = lane->first; b; b = b->next)
		if (b->decided && !b->in_memory)
			lane->unread = true;
	if (lane->n_behind != l->n_behind) /* it may not have seen them */
		lane->unread = true;
}

/* Nothing is left to be read: what is still counted is not there. */
static void
settle_count(struct journal *j)
{
	uint64_t n = j->n_backlog;

	if (journal_is_unread(j) || !n)
		return;
	log_err("store.missing", "mailbox=\"%s\" events=%" PRIu64, j->box->name,
		n);
	while (j->n_backlog)
		journal_leave_backlog(j, 0);
	j->sched->queued -= n;
	if (session_health(j->session))
		j->session->health->ends.dead += n;
	j->sched->counters.dead += n;
	j->box->n = j->box->n > n ? j->box->n - n : 0;
	atomic_fetch_add(&j->store->n_damaged, n);
}

static void
load_done(struct sched *s, struct store_job *job)
{
	struct load_job *l = container_of(job, struct load_job, job);
	struct journal *j = l->journal;

	j->n_loads--;
	j->lanes[l->lane].loading = false;
	if (job->status) {
		log_err("store.unreadable", "mailbox=\"%s\" reason=\"%s\"",
			j->box->name, strerror(-job->status));
		journal_retry_later(j);
	} else if (j->session) {
		take_rows(j, l);
		journal_purge_passed(j->session);
		journal_moved_passed(j->session);
		settle_count(j);
		if (j->session->life == SESSION_DORMANT ||
			j->session->run == SESSION_IDLE)
			sched_enqueue(s, j->session);
		journal_load(j);
	}
	free(l->read.rows);
	free(l);
	journal_unref(j);
}

enum { LOAD_SIZE = 1 << 20, LOAD_ROWS = JOURNAL_WINDOW / 2 };

static void
load(struct journal *j, unsigned i)
{
	struct load_job *l = FAULT(load) ? NULL : calloc(1, sizeof(*l));

	if (!l) {
		journal_retry_later(j);
		return;
	}
	l->journal = j;
	l->lane = i;
	batch_key(l->read.from, j, i, j->lanes[i].next);
	l->read.from_size = BATCH_KEY;
	l->read.prefix = BATCH_KEY - sizeof(uint64_t);
	l->read.table = STORE_EVENTS;
	l->read.also = STORE_MARKS;
	l->read.max_rows = LOAD_ROWS;
	l->read.max_size = LOAD_SIZE;
	l->read.soon = j->lanes[i].next; /* the first: behind what was asked */
	l->n_behind = j->lanes[i].n_behind;
	l->job.read = &l->read;
	l->job.sched = j->sched;
	l->job.done = load_done;
	j->lanes[i].loading = true;
	j->n_loads++;
	j->store->ops->submit(j->store, &l->job, &l->job);
}

void
journal_load(struct journal *j)
{
	if (j->purge && j->purge->active)
		return;
	if (j->session->ops->rest && !j->session->begun)
		return; /* journal_ran() comes behind its start */
	for (unsigned i = 0; i < LANES; i++)
		if (j->lanes[i].unread && !j->lanes[i].loading &&
			j->n_loaded < JOURNAL_WINDOW / 2 &&
			j->loaded_size < JOURNAL_WINDOW_SIZE / 2)
			load(j, i);
}

/* ---- looking ------------------------------------------------------------- */

uint32_t
journal_check_record(const uint8_t *data, size_t size, uint32_t *n)
{
	struct batch_head head = {.n = 0};
	size_t at = sizeof(head), used;
	uint32_t bad = 0;

	*n = 1;
	if (size < sizeof(head))
		return 1;
	memcpy(&head, data, sizeof(head));
	if (head.version != BATCH_VERSION || head.n > JOURNAL_BATCH)
		return 1;
	*n = head.n;
	for (unsigned i = 0; i < head.n; i++, at += used) {
		if (!record_is_sound(data + at, size - at, &used))
			bad++;
		if (!used)
			return bad + head.n - i - 1;
	}
	return bad;
}

/* Looking through what is in the store alone, without reading it in: pieces of
 * bounded size, event by event. See journal.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fault.h"
#include "kernel/journal_batch.h"
#include "kernel/record.h"

enum { LOOK_ROWS = 64, LOOK_SIZE = 1 << 20 };

struct look_job {
	struct store_job job;
	struct store_read read;
	struct journal *journal;
	struct journal_look look;
	struct journal_purge purge; /* of the last run, if @purges */
	bool purges;
	unsigned lane;
	uint64_t next; /* record of the lane */
};

static void step(struct look_job *l);

static void
finish(struct look_job *l, int status)
{
	struct journal *j = l->journal;

	l->look.done(j->sched, l->look.arg, status);
	free(l->read.rows);
	free(l);
	j->n_looks--;
	j->n_loads--;
	journal_unref(j);
}

/* It counts as queued here: it has not ended, nor been moved or purged by the
 * last run. */
static bool
is_here(const struct look_job *l, const struct batch *b, const struct msg *m,
	unsigned place)
{
	return !batch_has_ended(b, place) && !journal_moved_has(b, place) &&
	       !(l->purges && journal_purge_means(&l->purge, b, m));
}

/* The events of a record that are here; false: it is enough. */
static bool
see_row(struct look_job *l, const struct store_row *row)
{
	struct journal *j = l->journal;
	uint64_t no = batch_number(row);
	struct batch b = {.no = no, .journal = j, .lane = (uint8_t)l->lane};
	struct batch_head head = {.n = 0};
	size_t at = sizeof(head), used = 1;
	bool on = true;

	if (row->size < sizeof(head))
		return true;
	memcpy(&head, row->data, sizeof(head));
	b.n = head.version == BATCH_VERSION && head.n <= JOURNAL_BATCH ? head.n
								       : 0;
	batch_take_marks(&b, row);
	for (unsigned place = 0; place < b.n && used && on;
		place++, at += used) {
		struct msg *m = NULL;
		struct record r;

		if (record_get(&j->sched->pool, row->data + at, row->size - at,
			    &used, &m, &r) ||
			!is_here(l, &b, m, place)) {
			msg_free(&j->sched->pool, m);
			continue;
		}
		if (b.tries && b.tries[place] > m->attempt)
			m->attempt = b.tries[place];
		if (no >> STORE_RUN_SHIFT != j->store->run)
			m->from = 0; /* somebody else by now */
		on = l->look.see(l->look.arg, m);
		msg_free(&j->sched->pool, m);
	}
	free(b.tries);
	free(b.rests);
	return on;
}

/* False: there are no more in this lane that count as queued. */
static bool
is_accepted(const struct look_job *l, uint64_t no)
{
	const struct lane *lane = &l->journal->lanes[l->lane];

	return !lane->first || lane->first->decided || no < lane->first->no;
}

static void
look_done(struct sched *s, struct store_job *job)
{
	struct look_job *l = container_of(job, struct look_job, job);
	bool more = l->read.more;

	(void)s;
	if (job->status || !l->journal->session) {
		finish(l, job->status);
		return;
	}
	for (uint32_t i = 0; i < l->read.n; i++) {
		const struct store_row *row = &l->read.rows[i];

		if (row->key_size != BATCH_KEY)
			continue;
		l->next = batch_number(row) + 1;
		if (!is_accepted(l, l->next - 1)) {
			more = false;
			break;
		}
		if (!see_row(l, row)) {
			finish(l, 0);
			return;
		}
	}
	if (!more) {
		l->lane++;
		l->next = 0;
	}
	step(l);
}

static void
step(struct look_job *l)
{
	struct journal *j = l->journal;

	while (l->lane < LANES && l->look.from.next[l->lane] == UINT64_MAX)
		l->lane++;
	if (l->lane == LANES) {
		finish(l, 0);
		return;
	}
	if (l->next < l->look.from.next[l->lane])
		l->next = l->look.from.next[l->lane];
	free(l->read.rows);
	l->read = (struct store_read){.table = STORE_EVENTS,
		.also = STORE_MARKS,
		.from_size = BATCH_KEY,
		.prefix = BATCH_KEY - sizeof(uint64_t),
		.max_rows = LOOK_ROWS,
		.max_size = LOOK_SIZE};
	batch_key(l->read.from, j, l->lane, l->next);
	l->job = (struct store_job){
		.read = &l->read, .sched = j->sched, .done = look_done};
	j->store->ops->submit(j->store, &l->job, &l->job);
}

struct journal_mark
journal_mark(const struct session *t)
{
	const struct journal *j = session_journal(t);
	struct journal_mark mark;

	for (unsigned i = 0; i < LANES; i++)
		mark.next[i] =
			j && j->lanes[i].unread ? j->lanes[i].next : UINT64_MAX;
	return mark;
}

static bool
is_nothing(const struct journal_mark *mark)
{
	return (mark->next[LANE_URGENT] & mark->next[LANE_NORMAL]) ==
	       UINT64_MAX;
}

bool
journal_look(struct session *t, const struct journal_look *look)
{
	struct journal *j = session_journal(t);
	struct look_job *l;

	if (!j || is_nothing(&look->from))
		return false;
	l = FAULT(journal_look) ? NULL : calloc(1, sizeof(*l));
	if (!l)
		return false;
	l->journal = j;
	l->look = *look;
	l->purges = j->purge && !j->purge->active;
	if (l->purges)
		l->purge = *j->purge;
	j->n_looks++;
	j->n_loads++;
	step(l);
	return true;
}

/* Purging a durable mailbox so that a crash leaves all of it purged or none.
 *
 * First it is written that it is about to be done, and up to which records;
 * then the events end, those in memory by the queue and those in the store
 * alone here, a piece at a time; the word of it goes with the last of them. A
 * run that finds the word ends, as it reads them, what it is about. See
 * journal.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fault.h"
#include "kernel/journal_batch.h"
#include "kernel/record.h"

enum { PIECE_ROWS = 64, PIECE_SIZE = 1 << 20, WAITS_MAX = 1000 };

static const char word[] = "purge";

/* The row in STORE_META; little-endian; then the event's name, "": all. */
struct word_row {
	uint64_t upto[LANES];
};

struct word_key {
	uint8_t bytes[sizeof(word) - 1 + sizeof(uint64_t)];
};

struct purge_job {
	struct store_job job;
	struct store_read read;
	struct store_write write;
	struct word_key key;
	struct journal *journal;
	journal_done_fn done;
	void *arg;
	uint64_t *n; /* ended so far */
	unsigned lane, n_waits;
	uint64_t next;
	uint8_t bytes[sizeof(struct word_row) + JOURNAL_EVENT_MAX];
};

static struct word_key
key_of(const struct journal *j)
{
	struct word_key key;

	memcpy(key.bytes, word, sizeof(word) - 1);
	memcpy(key.bytes + sizeof(word) - 1, &j->box->id, sizeof(uint64_t));
	return key;
}

static struct purge_job *
job_new(struct journal *j, journal_done_fn done, void *arg)
{
	struct purge_job *p = FAULT(purge_job) ? NULL : calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->journal = j;
	p->done = done;
	p->arg = arg;
	p->key = key_of(j);
	j->n_loads++;
	return p;
}

static void
job_end(struct purge_job *p, int status)
{
	struct journal *j = p->journal;

	if (p->done)
		p->done(j->sched, p->arg, status);
	free(p->read.rows);
	free(p);
	j->n_loads--;
	journal_unref(j);
}

static void
submit(struct purge_job *p,
	void (*done)(struct sched *s, struct store_job *job))
{
	p->job.sched = p->journal->sched;
	p->job.done = done;
	p->journal->store->ops->submit(p->journal->store, &p->job, &p->job);
}

/* ---- the word ------------------------------------------------------------ */

/* What comes from now on goes into later records. */
static uint64_t
close_lane(struct journal *j, struct lane *lane)
{
	if (!lane->first)
		return atomic_load(&j->store->next_no) - 1;
	lane->last->closed = true;
	return lane->first->no - 1;
}

static void
filter_free(struct journal *j)
{
	free(j->purge);
	j->purge = NULL;
}

static void
word_written(struct sched *s, struct store_job *job)
{
	struct purge_job *p = container_of(job, struct purge_job, job);

	(void)s;
	if (job->status)
		filter_free(p->journal);
	if (job->status && p->journal->session)
		journal_load(p->journal);
	job_end(p, job->status);
}

int
journal_purge_begin(
	struct session *t, const char *event, journal_done_fn done, void *arg)
{
	struct journal *j = session_journal(t);
	struct word_row row;
	struct purge_job *p;

	if (j->purge)
		return JOURNAL_E_PURGING;
	j->purge = FAULT(journal_purge) ? NULL : calloc(1, sizeof(*j->purge));
	p = j->purge ? job_new(j, done, arg) : NULL;
	if (!p) {
		filter_free(j);
		return err_raise(-ENOMEM);
	}
	j->purge->active = true;
	strcpy(j->purge->event, event ? event : "");
	for (unsigned i = 0; i < LANES; i++)
		row.upto[i] = j->purge->upto[i] = close_lane(j, &j->lanes[i]);
	memcpy(p->bytes, &row, sizeof(row));
	strcpy((char *)p->bytes + sizeof(row), j->purge->event);
	p->write = (struct store_write){.table = STORE_META,
		.key = p->key.bytes,
		.key_size = sizeof(p->key.bytes),
		.data = p->bytes,
		.size = (uint32_t)(sizeof(row) + strlen(j->purge->event))};
	p->job.writes = &p->write;
	p->job.n_writes = 1;
	submit(p, word_written);
	return 0;
}

/* The word goes with the marks of what has ended by now. */
void
journal_purge_end(struct session *t)
{
	struct journal *j = session_journal(t);
	struct word_key key;

	if (!j || !j->purge)
		return;
	key = key_of(j);
	filter_free(j);
	if (journal_write_raw(
		    t, STORE_META, key.bytes, sizeof(key.bytes), NULL, 0))
		return; /* the next run looks for them, and finds none */
	journal_load(j);
}

/* ---- a run that finds it ------------------------------------------------- */

static void
word_read(struct sched *s, struct store_job *job)
{
	struct purge_job *p = container_of(job, struct purge_job, job);
	struct journal *j = p->journal;
	const struct store_row *row = p->read.rows;
	struct word_row word_row;

	(void)s;
	if (job->status || !p->read.n || !j->session ||
		row->size < sizeof(word_row) ||
		row->size - sizeof(word_row) >= JOURNAL_EVENT_MAX) {
		job_end(p, job->status);
		return;
	}
	j->purge = calloc(1, sizeof(*j->purge));
	if (j->purge) { /* else the next run does it */
		memcpy(&word_row, row->data, sizeof(word_row));
		memcpy(j->purge->upto, word_row.upto, sizeof(word_row.upto));
		memcpy(j->purge->event, row->data + sizeof(word_row),
			row->size - sizeof(word_row));
	}
	job_end(p, 0);
}

void
journal_purge_read(struct journal *j)
{
	struct purge_job *p = job_new(j, NULL, NULL);

	if (!p)
		return;
	memcpy(p->read.from, p->key.bytes, sizeof(p->key.bytes));
	p->read.from_size = p->read.prefix = sizeof(p->key.bytes);
	p->read.table = STORE_META;
	p->read.also = STORE_TABLES;
	p->read.max_rows = 1;
	p->read.max_size = sizeof(p->bytes);
	p->job.read = &p->read;
	submit(p, word_read);
}

bool
journal_purge_means(const struct journal_purge *purge, const struct batch *b,
	const struct msg *m)
{
	return b->no <= purge->upto[b->lane] &&
	       (!purge->event[0] || strcmp(purge->event, m->event) == 0);
}

/* Its poster waits for more than safety, perhaps. */
static void
take_waiter(struct batch *b, struct msg *m, unsigned place)
{
	struct lane *lane = &b->journal->lanes[b->lane];
	struct waiter **link = &lane->waiters, *w;

	while ((w = *link) && (w->no != b->no || w->place != place))
		link = &w->next;
	if (!w)
		return;
	*link = w->next;
	if (!w->next)
		lane->waiters_end = link;
	m->from = w->from;
	msg_wide(m)->seq = w->seq;
	msg_wide(m)->level = w->level;
	m->flags |= MSG_ACK;
	free(w);
}

bool
journal_purge_takes(struct batch *b, struct msg *m, unsigned place)
{
	struct journal *j = b->journal;

	if (!j->purge || !journal_purge_means(j->purge, b, m))
		return false;
	b->ended[place / 64] |= 1ull << (place % 64);
	b->ended_size += msg_charge(m);
	b->n_left--;
	m->to = atomic_load(&j->session->id);
	journal_leave_backlog(j, msg_charge(m));
	j->sched->queued--;
	take_waiter(b, m, place);
	msg_uncall(m);
	msg_end(j->sched, j->session, m, MSG_END_CANCELLED,
		EVD_STATUS_CANCELLED, NULL);
	batch_touch(b);
	return true;
}

/* All that it is about has been read. */
void
journal_purge_passed(struct session *t)
{
	struct journal *j = session_journal(t);

	if (!j || !j->purge || j->purge->active)
		return;
	for (unsigned i = 0; i < LANES; i++)
		if (j->lanes[i].unread && j->lanes[i].next <= j->purge->upto[i])
			return;
	journal_purge_end(t);
}

/* ---- what is in the store alone ------------------------------------------ */

static void piece_next(struct purge_job *p);

/* Ends of this purge that are not in the store yet. */
static bool
is_unwritten(const struct journal *j)
{
	LIST_FOREACH (node, &j->batches) {
		const struct batch *b = container_of(node, struct batch, link);

		if (!b->in_memory && b->safe && (b->dirty || b->n_items))
			return true;
	}
	return false;
}

static void
piece_written(struct sched *s, struct store_job *job)
{
	struct purge_job *p = container_of(job, struct purge_job, job);

	(void)s;
	if (job->status || !p->journal->session)
		job_end(p, job->status);
	else if (!is_unwritten(p->journal))
		piece_next(p);
	else if (p->n_waits++ < WAITS_MAX)
		submit(p, piece_written); /* an empty job: behind them */
	else
		job_end(p, -EIO);
}

static void
purge_row(struct purge_job *p, const struct store_row *row)
{
	struct journal *j = p->journal;
	uint16_t left;
	struct batch *b = batch_of_row(j, p->lane, row);

	if (!b)
		return;
	left = b->n_left;
	b->in_memory = false;
	batch_purge_row(b, row);
	*p->n += (uint64_t)(left - b->n_left);
	if (left == b->n_left)
		batch_free(b);
}

static void
piece_read(struct sched *s, struct store_job *job)
{
	struct purge_job *p = container_of(job, struct purge_job, job);
	struct journal *j = p->journal;
	bool more = p->read.more;

	(void)s;
	if (job->status || !j->session) {
		job_end(p, job->status);
		return;
	}
	for (uint32_t i = 0; i < p->read.n; i++) {
		const struct store_row *row = &p->read.rows[i];

		if (row->key_size != BATCH_KEY)
			continue;
		p->next = batch_number(row) + 1;
		if (p->next - 1 > j->purge->upto[p->lane]) {
			more = false;
			break;
		}
		purge_row(p, row);
	}
	if (!more) {
		p->lane++;
		p->next = 0;
	}
	free(p->read.rows);
	p->read = (struct store_read){.n = 0};
	p->job = (struct store_job){.read = NULL};
	p->n_waits = 0;
	submit(p, piece_written);
}

static void
piece_next(struct purge_job *p)
{
	struct journal *j = p->journal;

	while (p->lane < LANES && !j->lanes[p->lane].unread)
		p->lane++;
	if (p->lane == LANES) {
		job_end(p, 0);
		return;
	}
	if (p->next < j->lanes[p->lane].next)
		p->next = j->lanes[p->lane].next;
	p->read = (struct store_read){.table = STORE_EVENTS,
		.also = STORE_MARKS,
		.from_size = BATCH_KEY,
		.prefix = BATCH_KEY - sizeof(uint64_t),
		.max_rows = PIECE_ROWS,
		.max_size = PIECE_SIZE};
	batch_key(p->read.from, j, p->lane, p->next);
	p->job = (struct store_job){.read = &p->read};
	submit(p, piece_read);
}

int
journal_purge_rest(
	struct session *t, uint64_t *n, journal_done_fn done, void *arg)
{
	struct purge_job *p = job_new(session_journal(t), done, arg);

	if (!p)
		return err_raise(-ENOMEM);
	p->n = n;
	piece_next(p);
	return 0;
}

/* Moves between durable mailboxes across a crash. With the events that it takes
 * in, the target writes a row that says where they came from; the source
 * erases that row with what ended there. A source that finds such a row in its
 * next run knows that these events have arrived elsewhere: it does not count
 * them from the start on, and lets go of them as it reads them. See journal.h.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/log.h"
#include "kernel/journal_batch.h"
#include "kernel/record.h"

static const char word[] = "moved";

enum { WORD = sizeof(word) - 1, PREFIX = WORD + sizeof(uint64_t) };

/* Which events of one record of the source; the first makes the key its own. */
struct moved_key {
	uint8_t bytes[PREFIX + 1 + sizeof(uint64_t) + sizeof(uint16_t)];
};

struct moved_row {
	uint64_t places[BATCH_WORDS];
	uint64_t size; /* bytes, as mailboxes count; older rows do without */
};
enum { MOVED_ROW_OLD = offsetof(struct moved_row, size) };

/* One of them, found by the next run. */
struct moved {
	struct moved *next;
	struct moved_key key;
	struct moved_row row;
	bool seen;   /* its record was */
	bool passed; /* the row is to be erased */
};

static struct moved_key
key_of(uint64_t box, unsigned lane, uint64_t no, uint16_t first)
{
	struct moved_key key;
	uint8_t *at = key.bytes;

	memcpy(at, word, WORD);
	memcpy(at + WORD, &box, sizeof(box));
	at[PREFIX] = (uint8_t)lane;
	memcpy(at + PREFIX + 1, &no, sizeof(no));
	memcpy(at + PREFIX + 1 + sizeof(no), &first, sizeof(first));
	return key;
}

static struct moved_key
key_of_place(const struct journal_place *p)
{
	return key_of(p->batch->journal->box->id, p->batch->lane, p->batch->no,
		p->place);
}

/* Those of the @n places from @p on that are of one record; *row says which. */
static uint32_t
run_of(const struct journal_place *p, uint32_t n, struct moved_row *row)
{
	uint32_t i = 0;

	*row = (struct moved_row){.size = 0};
	for (; i < n && p[i].batch == p->batch; i++) {
		row->places[p[i].place / 64] |= 1ull << (p[i].place % 64);
		row->size += p[i].charge;
	}
	return i;
}

void
journal_moved_note(
	struct session *to, const struct journal_place *p, uint32_t n)
{
	struct moved_row row;
	uint32_t run;

	for (; n; p += run, n -= run) {
		struct moved_key key;

		run = run_of(p, n, &row);
		if (!p->batch)
			continue;
		key = key_of_place(p);
		if (journal_write_raw(to, STORE_META, key.bytes,
			    sizeof(key.bytes), &row, sizeof(row)))
			log_err("kernel.no-memory", "what=moved");
	}
}

void
journal_moved_end(
	struct session *from, const struct journal_place *p, uint32_t n)
{
	struct moved_row row;
	uint32_t run;

	for (; n; p += run, n -= run) {
		struct moved_key key;

		run = run_of(p, n, &row);
		if (!p->batch)
			continue;
		key = key_of_place(p);
		journal_write_raw(from, STORE_META, key.bytes,
			sizeof(key.bytes), NULL, 0); /* else the next run */
	}
}

/* ---- the next run -------------------------------------------------------- */

struct moved_job {
	struct store_job job;
	struct store_read read;
	struct journal *journal;
};

/* What has arrived elsewhere counts there alone. */
static void
discount(struct journal *j, const struct moved_row *row)
{
	struct session *t = j->session;
	uint64_t size = row->size, n = 0;

	for (unsigned i = 0; i < BATCH_WORDS; i++)
		n += (uint64_t)__builtin_popcountll(row->places[i]);
	if (n > j->n_backlog)
		n = j->n_backlog;
	if (size > j->backlog_size || n == j->n_backlog)
		size = j->backlog_size;
	j->n_backlog -= n;
	j->backlog_size -= size;
	t->box.n -= (uint32_t)n;
	t->box.size -= size;
	t->accepted -= n;
	j->sched->counters.accepted -= n;
	j->sched->queued -= n;
}

static void
take(struct journal *j, const struct store_row *row)
{
	struct moved *m;

	if (row->key_size != sizeof(m->key) ||
		(row->size != sizeof(m->row) && row->size != MOVED_ROW_OLD))
		return;
	m = calloc(1, sizeof(*m));
	if (!m)
		return; /* they come again */
	memcpy(&m->key, row->key, sizeof(m->key));
	memcpy(&m->row, row->data, row->size);
	m->next = j->moved;
	j->moved = m;
	discount(j, &m->row);
}

static void
rows_read(struct sched *s, struct store_job *job)
{
	struct moved_job *r = container_of(job, struct moved_job, job);
	struct journal *j = r->journal;

	(void)s;
	for (uint32_t i = 0; j->session && i < r->read.n; i++)
		take(j, &r->read.rows[i]);
	free(r->read.rows);
	free(r);
	j->n_loads--;
	journal_unref(j);
}

void
journal_moved_read(struct journal *j)
{
	struct moved_job *r = FAULT(moved_job) ? NULL : calloc(1, sizeof(*r));
	struct moved_key key = key_of(j->box->id, 0, 0, 0);

	if (!r)
		return;
	r->journal = j;
	memcpy(r->read.from, key.bytes, PREFIX);
	r->read.from_size = r->read.prefix = PREFIX;
	r->read.table = STORE_META;
	r->read.also = STORE_TABLES;
	r->read.max_rows = UINT32_MAX;
	r->read.max_size = JOURNAL_WINDOW_SIZE;
	r->job.read = &r->read;
	r->job.sched = j->sched;
	r->job.done = rows_read;
	j->n_loads++;
	j->store->ops->submit(j->store, &r->job, &r->job);
}

static struct moved *
moved_find(const struct batch *b, unsigned place)
{
	struct moved_key key = key_of(b->journal->box->id, b->lane, b->no, 0);
	struct moved *m = b->journal->moved;

	while (m && (memcmp(&m->key, &key, sizeof(key) - sizeof(uint16_t)) ||
			    !(m->row.places[place / 64] >> (place % 64) & 1)))
		m = m->next;
	return m;
}

bool
journal_moved_has(const struct batch *b, unsigned place)
{
	return b->journal->moved && moved_find(b, place);
}

bool
journal_moved_takes(struct batch *b, struct msg *m, unsigned place)
{
	struct journal *j = b->journal;
	struct moved *moved = j->moved ? moved_find(b, place) : NULL;

	if (!moved)
		return false;
	moved->seen = true;
	b->ended[place / 64] |= 1ull << (place % 64);
	b->ended_size += msg_charge(m);
	b->n_left--;
	msg_free(&j->sched->pool, m);
	batch_touch(b);
	return true;
}

/* Rows whose events have ended here now go with that; in the end all do. Who
 * looks through the store meanwhile may find these events as they were. */
void
journal_moved_passed(struct session *t)
{
	struct journal *j = session_journal(t);
	bool all = !journal_is_unread(j);

	for (struct moved *m = j->moved; m; m = m->next) {
		if (m->passed || (!m->seen && !all))
			continue;
		m->passed = true;
		journal_write_raw(t, STORE_META, m->key.bytes,
			sizeof(m->key.bytes), NULL, 0);
	}
	if (all && !j->n_looks)
		journal_moved_free(j);
}

void
journal_moved_free(struct journal *j)
{
	struct moved *m;

	while ((m = j->moved)) {
		j->moved = m->next;
		free(m);
	}
}

/* What a journal hands to its store, and what comes back: one job at the end
 * of a turn that has the new records, the marks of events that ended, and the
 * counts of the mailbox. See journal.h. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fault.h"
#include "kernel/journal_batch.h"
#include "kernel/state.h"

enum item_kind { ITEM_RECORD, ITEM_MARKS, ITEM_ERASE };

struct item {
	struct batch *batch;
	uint16_t n;    /* ends that it tells of */
	uint64_t size; /* and their bytes */
	uint8_t kind;
};

struct write_job {
	struct store_job job;
	struct journal *journal;
	struct side_write *sides;
	struct told *told;
	bool ends;
	uint32_t n_told;
	uint32_t n_items;
	struct item *items;
	uint8_t *bytes; /* keys and marks */
	struct store_box_row row;
};

/* ---- making one ---------------------------------------------------------- */

static size_t
marks_size(const struct batch *b)
{
	return sizeof(struct batch_marks) + (b->tries ? b->n : 0u) +
	       (b->rests ? b->n * sizeof(*b->rests) +
				       sizeof(struct marks_clocks)
			 : 0u);
}

static bool
is_to_write(const struct batch *b)
{
	return !b->submitted && b->n_left;
}

/* Records whose events have all ended before they were written. */
static void
drop_ended(struct journal *j)
{
	for (unsigned i = 0; i < LANES; i++) {
		struct batch *b = j->lanes[i].first, *next;

		for (; b; b = next) {
			next = b->next;
			if (b->submitted || b->n_left)
				continue;
			batch_leave_lane(b);
			batch_free(b);
		}
	}
}

/* Items and bytes that what is to be told takes at most. */
static void
measure(const struct journal *j, uint32_t *items, size_t *bytes)
{
	*items = 0;
	*bytes = 0;
	for (unsigned i = 0; i < LANES; i++)
		for (struct batch *b = j->lanes[i].first; b; b = b->next)
			if (is_to_write(b)) {
				*items += 1;
				*bytes += BATCH_KEY;
			}
	for (struct batch *b = j->dirty_batches; b; b = b->next_dirty) {
		*items += 1;
		*bytes += BATCH_KEY + marks_size(b) + 8;
	}
}

static struct write_job *
write_job_new(struct journal *j)
{
	struct write_job *w;
	uint32_t n;
	size_t bytes, n_writes;
	uint8_t *end;

	measure(j, &n, &bytes);
	n_writes = (size_t)n * 3 + 1 + j->n_sides;
	w = FAULT(write_job_new)
		    ? NULL
		    : calloc(1, sizeof(*w) + n * sizeof(struct item) +
					n_writes * sizeof(struct store_write) +
					bytes + 16);
	if (!w)
		return NULL;
	end = (uint8_t *)(w + 1);
	w->items = (struct item *)end;
	end += n * sizeof(struct item);
	w->job.writes = (struct store_write *)end;
	end += n_writes * sizeof(struct store_write);
	w->bytes = end;
	w->journal = j;
	w->job.sched = j->sched;
	return w;
}

static void
add_write(struct write_job *w, unsigned table, const uint8_t *key,
	const void *data, uint32_t size)
{
	w->job.writes[w->job.n_writes++] = (struct store_write){
		.table = (uint8_t)table,
		.key = key,
		.key_size = BATCH_KEY,
		.data = data,
		.size = size,
	};
}

static const uint8_t *
add_key(struct write_job *w, const struct batch *b)
{
	uint8_t *key = w->bytes;

	batch_key(key, b->journal, b->lane, b->no);
	w->bytes += BATCH_KEY;
	return key;
}

static struct item *
add_item(struct write_job *w, struct batch *b, enum item_kind kind)
{
	struct item *item = &w->items[w->n_items++];

	item->batch = b;
	b->n_items++;
	item->kind = (uint8_t)kind;
	return item;
}

static void
add_record(struct write_job *w, struct batch *b)
{
	struct batch_head head = {.version = BATCH_VERSION, .n = b->n};

	memcpy(b->bytes, &head, sizeof(head));
	add_item(w, b, ITEM_RECORD);
	add_write(w, STORE_EVENTS, add_key(w, b), b->bytes, b->size);
	b->submitted = true;
	b->journal->box->n += b->n;
	b->journal->box->size += b->charge;
}

static uint8_t *
put_rests(uint8_t *out, const struct batch *b)
{
	struct sched *s = b->journal->sched;
	struct marks_clocks clocks = {
		.now_ns = s->now_ns, .wall_ns = sched_wall_ns(s)};

	for (unsigned i = 0; i < b->n; i++, out += sizeof(*b->rests)) {
		uint64_t due = 0;

		if (b->rests[i] > clocks.now_ns)
			due = clocks.wall_ns + b->rests[i] - clocks.now_ns;
		memcpy(out, &due, sizeof(due));
	}
	memcpy(clocks.boot, b->journal->store->boot, sizeof(clocks.boot));
	memcpy(out, &clocks, sizeof(clocks));
	return out + sizeof(clocks);
}

static const uint8_t *
put_marks(struct write_job *w, const struct batch *b)
{
	struct batch_marks marks = {.n = b->n,
		.has = (b->tries ? MARKS_TRIES : 0) |
		       (b->rests ? MARKS_RESTS | MARKS_CLOCKS : 0)};
	uint8_t *out = w->bytes, *end = out + sizeof(marks);

	memcpy(marks.ended, b->ended, sizeof(marks.ended));
	memcpy(out, &marks, sizeof(marks));
	if (b->tries)
		end = (uint8_t *)memcpy(end, b->tries, b->n) + b->n;
	if (b->rests)
		end = put_rests(end, b);
	w->bytes = end;
	return out;
}

static void
add_erase(struct write_job *w, const struct batch *b, const uint8_t *key)
{
	if (b->aside)
		add_write(w, STORE_DAMAGED, key, b->bytes, b->size);
	add_write(w, STORE_EVENTS, key, NULL, 0);
	if (b->marked)
		add_write(w, STORE_MARKS, key, NULL, 0);
}

/* What became of its events, or that none is left. */
static void
add_ends(struct write_job *w, struct batch *b)
{
	struct journal *j = b->journal;
	bool all = !b->n_left;
	struct item *item = add_item(w, b, all ? ITEM_ERASE : ITEM_MARKS);
	const uint8_t *key = add_key(w, b);

	item->n = (uint16_t)(b->n - b->n_left - b->n_told);
	item->size = b->ended_size - b->told_size;
	b->n_told = (uint16_t)(b->n_told + item->n);
	b->told_size = b->ended_size;
	j->box->n -= item->n;
	j->box->size -= item->size;
	if (all) {
		add_erase(w, b, key);
	} else {
		b->marked = true;
		add_write(w, STORE_MARKS, key, put_marks(w, b),
			(uint32_t)marks_size(b));
	}
}

struct store_write
journal_box_write(const struct store_box *box, struct store_box_row *row)
{
	*row = (struct store_box_row){
		.id = box->id,
		.n = box->n,
		.size = box->size,
		.flags = (box->standing ? STORE_BOX_STANDING : 0) |
			 (box->paused ? STORE_BOX_PAUSED : 0) |
			 (box->kept ? STORE_BOX_KEPT : 0) |
			 box->traits << STORE_TRAITS_SHIFT,
	};
	return (struct store_write){
		.table = STORE_BOXES,
		.key = box->name,
		.key_size = box->name_size,
		.data = row,
		.size = sizeof(*row),
	};
}

static void
add_box(struct write_job *w)
{
	w->job.writes[w->job.n_writes++] =
		journal_box_write(w->journal->box, &w->row);
}

/* Those that go with new events, or the others: in the order in which they were
 * asked for, so that the last counts. */
static void
add_sides(struct write_job *w, bool ends)
{
	struct journal *j = w->journal;
	struct side_write **link = &j->sides, **end = &w->sides, *side;

	while ((side = *link)) {
		if ((side->kind == SIDE_ENDS) != ends) {
			link = &side->next;
			continue;
		}
		*link = side->next;
		side->next = NULL;
		*end = side;
		end = &side->next;
		j->n_sides--;
		w->job.writes[w->job.n_writes++] = side->write;
	}
	j->sides_end = link;
}

static void write_done(struct sched *s, struct store_job *job);

/* What has ended, apart from what is new: there may be room for it alone, and
 * then it makes more. */
static struct write_job *
make_ends(struct journal *j)
{
	struct write_job *w = write_job_new(j);

	if (!w)
		return NULL;
	for (struct batch *b; (b = j->dirty_batches);) {
		j->dirty_batches = b->next_dirty;
		b->dirty = false;
		add_ends(w, b);
	}
	w->ends = true;
	j->n_ends++;
	w->job.frees = !j->sides;
	add_sides(w, true);
	add_box(w);
	w->told = TAKE(j->told);
	w->n_told = j->n_told;
	j->n_told = j->told_room = 0;
	w->job.done = write_done;
	return w;
}

static struct write_job *
make_records(struct journal *j)
{
	struct write_job *w = write_job_new(j);

	if (!w)
		return NULL;
	for (unsigned i = 0; i < LANES; i++)
		for (struct batch *b = j->lanes[i].first; b; b = b->next)
			if (is_to_write(b))
				add_record(w, b);
	add_sides(w, false);
	add_box(w);
	w->job.done = write_done;
	return w;
}

/* ---- one comes back ------------------------------------------------------ */

static void
marks_failed(const struct item *item)
{
	struct batch *b = item->batch;
	struct journal *j = b->journal;

	b->n_told = (uint16_t)(b->n_told - item->n);
	b->told_size -= item->size;
	j->box->n += item->n;
	j->box->size += item->size;
	if (!b->dirty) { /* once more, with what comes next or a while later */
		b->dirty = true;
		b->next_dirty = j->dirty_batches;
		j->dirty_batches = b;
	}
	journal_retry_later(j);
}

/* What an earlier job could not tell goes with it. */
static void
erased(struct batch *b)
{
	struct journal *j = b->journal;

	j->box->n -= (uint64_t)(b->n - b->n_told);
	j->box->size -= b->ended_size - b->told_size;
	b->n_told = b->n;
	b->told_size = b->ended_size;
	b->erased = true;
}

static void
item_done(const struct item *item, int status)
{
	struct batch *b = item->batch;

	b->n_items--;
	if (item->kind == ITEM_RECORD) {
		if (status) {
			b->journal->box->n -= b->n;
			b->journal->box->size -= b->charge;
		}
		batch_written(b, status);
	} else {
		if (status)
			marks_failed(item);
		else if (item->kind == ITEM_ERASE)
			erased(b);
		batch_release(b);
	}
}

/* They are for ever those of the mailbox: before what was asked for since. */
static void
sides_done(struct journal *j, struct write_job *w)
{
	struct side_write *side, *kept = NULL, **end = &kept;
	struct journal_told *told;

	while ((side = w->sides)) {
		w->sides = side->next;
		if (!w->job.status || side->kind == SIDE_EVENTS) {
			side_drop(j, side, w->job.status);
			continue;
		}
		told = TAKE(side->told);
		if (told)
			told->told(told, j->sched, w->job.status);
		*end = side;
		end = &side->next;
		j->n_sides++;
		journal_retry_later(j);
	}
	if (!kept)
		return;
	*end = j->sides;
	if (!j->sides)
		j->sides_end = end;
	j->sides = kept;
}

static void
tell_all(struct sched *s, const struct write_job *w)
{
	for (uint32_t i = 0; i < w->n_told; i++)
		sched_tell(s, w->told[i].from, w->told[i].seq, w->told[i].size,
			EVD_STATUS_OK, NULL);
}

/* That events were handled is so, whether or not it could be written: they may
 * come again, as they may after a crash. */
static void
write_done(struct sched *s, struct store_job *job)
{
	struct write_job *w = container_of(job, struct write_job, job);
	struct journal *j = w->journal;

	for (uint32_t i = 0; i < w->n_items; i++)
		item_done(&w->items[i], job->status);
	sides_done(j, w);
	tell_all(s, w);
	j->n_jobs--;
	j->n_ends -= w->ends;
	if (!job->status)
		journal_touch(j);
	free(w->told);
	free(w);
	journal_unref(j);
}

/* ---- the end of a turn --------------------------------------------------- */

static bool
has_ends(const struct journal *j)
{
	if (j->dirty_batches || j->n_told)
		return true;
	for (const struct side_write *side = j->sides; side; side = side->next)
		if (side->kind == SIDE_ENDS)
			return true;
	return false;
}

static bool
has_records(const struct journal *j)
{
	for (const struct side_write *side = j->sides; side; side = side->next)
		if (side->kind != SIDE_ENDS)
			return true;
	for (unsigned i = 0; i < LANES; i++)
		for (const struct batch *b = j->lanes[i].first; b; b = b->next)
			if (is_to_write(b))
				return true;
	return false;
}

/* A chain of jobs. */
struct chain {
	struct store_job *first, *last;
};

/* Without memory for it, in a later turn. */
static void
hand_over(struct journal *j, struct chain *chain, struct write_job *w)
{
	if (!w) {
		journal_touch(j);
		return;
	}
	j->n_jobs++;
	if (chain->last)
		chain->last->next = &w->job;
	else
		chain->first = &w->job;
	chain->last = &w->job;
}

/* Durable state says what the ends before it have led to: so a job of them is
 * written only when the one before it has been, or goes with that again. */
static bool
may_tell_ends(const struct journal *j)
{
	return !j->n_ends || !j->session || !state_count(j->session);
}

void
journals_flush(struct sched *s)
{
	struct journal *list = s->journals, *j;
	struct chain chain = {NULL, NULL};

	s->journals = NULL;
	while ((j = list)) {
		bool ready = j->n_jobs < JOURNAL_JOBS;

		list = j->next_dirty;
		j->dirty = false;
		drop_ended(j);
		/* else more comes together until one is back and touches it */
		if (ready && may_tell_ends(j) && has_ends(j))
			hand_over(j, &chain, make_ends(j));
		if (ready && has_records(j))
			hand_over(j, &chain, make_records(j));
		journal_unref(j);
	}
	if (chain.first)
		s->kernel->store->ops->submit(
			s->kernel->store, chain.first, chain.last);
}

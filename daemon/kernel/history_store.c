/* History in the store: a row for each piece, written over while it grows. See
 * history.h. */
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/fault.h"
#include "base/log.h"
#include "kernel/history.h"

enum {
	DELAY_MS = 1000,  /* from the first line to its being written */
	RETRY_MS = 60000, /* after the store has failed */
	ERASE_MAX = 256,  /* rows in one job */
	VERSION = 1,
};

/* In front of a row's bytes; little-endian. */
struct row_head {
	uint32_t version, crc; /* of what follows */
};

struct row_key {
	uint8_t bytes[sizeof(uint64_t)];
};

static struct row_key
key_of(uint64_t no)
{
	struct row_key key;

	no = __builtin_bswap64(no);
	memcpy(key.bytes, &no, sizeof(no));
	return key;
}

/* ---- writing ------------------------------------------------------------- */

struct history_job {
	struct store_job job;
	uint32_t n_pieces, n_erased;
	struct row_key *keys; /* of both */
	uint64_t *numbers;    /* of the pieces, and */
	uint32_t *used;       /* how much of each it has */
	uint8_t *end;         /* of the rows' bytes */
};

static bool
is_to_write(const struct history_piece *p)
{
	return p->keeps && p->used > p->saved;
}

static bool
can_store(const struct sched *s)
{
	return s->kernel->store && !s->kernel->store->broken;
}

static void
arm(struct sched *s, struct history *h, uint64_t ms)
{
	if (!timer_is_armed(&h->timer))
		timers_add(&s->timers, &h->timer, s->now_ns + ms * NS_PER_MS);
}

void
history_touch(struct sched *s)
{
	if (can_store(s) && !s->history->writing)
		arm(s, s->history, DELAY_MS);
}

void
history_due(struct sched *s, struct timer *timer)
{
	(void)timer;
	history_flush(s);
}

static struct history_job *
job_new(struct history *h)
{
	uint32_t n = 0, erase = h->n_gone < ERASE_MAX ? h->n_gone : ERASE_MAX;
	size_t bytes = 0, each;
	struct history_job *job;
	uint8_t *end;

	for (const struct history_piece *p = h->first; p; p = p->next)
		if (is_to_write(p)) {
			n++;
			bytes += sizeof(struct row_head) + p->used;
		}
	if (!n && !erase)
		return NULL;
	each = sizeof(struct store_write) + sizeof(uint64_t) +
	       sizeof(uint32_t) + sizeof(struct row_key);
	job = FAULT(history_job)
		      ? NULL
		      : calloc(1, sizeof(*job) + (n + erase) * each + bytes);
	if (!job)
		return NULL;
	end = (uint8_t *)(job + 1);
	job->job.writes = (struct store_write *)(void *)end;
	end += (n + erase) * sizeof(struct store_write);
	job->numbers = (uint64_t *)(void *)end;
	end += (n + erase) * sizeof(uint64_t);
	job->used = (uint32_t *)(void *)end;
	end += (n + erase) * sizeof(uint32_t);
	job->keys = (struct row_key *)(void *)end;
	job->end = end + (n + erase) * sizeof(struct row_key);
	job->n_erased = erase;
	return job;
}

static struct store_write *
add_write(struct history_job *job, uint64_t no)
{
	uint32_t i = job->job.n_writes++;

	job->keys[i] = key_of(no);
	job->job.writes[i] = (struct store_write){
		.table = STORE_HISTORY,
		.key = &job->keys[i],
		.key_size = sizeof(job->keys[i]),
	};
	return &job->job.writes[i];
}

static void
add_piece(struct history_job *job, struct store *store, struct history_piece *p)
{
	struct row_head head = {VERSION, crc32c(0, p->bytes, p->used)};
	struct store_write *w;

	if (!p->no)
		p->no = atomic_fetch_add(&store->next_no, 1);
	w = add_write(job, p->no);
	w->data = job->end;
	w->size = (uint32_t)sizeof(head) + p->used;
	memcpy(job->end, &head, sizeof(head));
	memcpy(job->end + sizeof(head), p->bytes, p->used);
	job->end += w->size;
	job->numbers[job->n_pieces] = p->no;
	job->used[job->n_pieces++] = p->used;
}

/* Both are in the order of their numbers. */
static void
note_saved(struct history *h, const struct history_job *job)
{
	struct history_piece *p = h->first;

	for (uint32_t i = 0; i < job->n_pieces; i++) {
		while (p && p->no != job->numbers[i])
			p = p->next;
		if (p)
			p->saved = job->used[i];
		else
			p = h->first; /* it has gone meanwhile */
	}
	h->n_gone -= job->n_erased;
	if (h->n_gone)
		memmove(h->gone, h->gone + job->n_erased,
			h->n_gone * sizeof(*h->gone));
}

static void
job_done(struct sched *s, struct store_job *done)
{
	struct history_job *job = container_of(done, struct history_job, job);
	struct history *h = s->history;
	bool more = false;

	if (h) {
		h->writing = false;
		if (!done->status)
			note_saved(h, job);
		for (const struct history_piece *p = h->first; p; p = p->next)
			more |= is_to_write(p);
		if (more || h->n_gone)
			arm(s, h, done->status ? RETRY_MS : DELAY_MS);
	}
	free(job);
}

void
history_flush(struct sched *s)
{
	struct history *h = s->history;
	struct history_job *job;
	uint32_t erase;

	if (!h || h->writing || !can_store(s))
		return;
	timers_remove(&s->timers, &h->timer);
	job = job_new(h);
	if (!job)
		return; /* with the next line */
	erase = job->n_erased;
	for (struct history_piece *p = h->first; p; p = p->next)
		if (is_to_write(p))
			add_piece(job, s->kernel->store, p);
	for (uint32_t i = 0; i < erase; i++)
		add_write(job, h->gone[i]);
	job->job.sched = s;
	job->job.done = job_done;
	h->writing = true;
	s->kernel->store->ops->submit(s->kernel->store, &job->job, &job->job);
}

/* ---- reading ------------------------------------------------------------- */

struct load_job {
	struct store_job job;
	struct store_read read;
};

static bool
line_is_sound(const struct history_line *line, size_t left)
{
	size_t texts;

	if (left < sizeof(*line) || line->size % 8 || line->size > left ||
		line->size < sizeof(*line))
		return false;
	texts = (size_t)line->alias_size + line->event_size + line->text_size +
		3;
	return offsetof(struct history_line, texts) + texts <= line->size &&
	       line->step && line->step < HISTORY_STEPS &&
	       line->end <= MSG_END_REFUSED && !line->texts[line->alias_size] &&
	       !history_event(line)[line->event_size] &&
	       !history_text(line)[line->text_size];
}

/* It is what was written, and can be walked through. */
static bool
piece_is_sound(const struct history_piece *p, const struct row_head *head)
{
	const struct history_line *line;

	if (head->version != VERSION ||
		head->crc != crc32c(0, p->bytes, p->used))
		return false;
	for (uint32_t at = 0; at < p->used; at += line->size) {
		line = (const struct history_line *)(const void *)(p->bytes +
								   at);
		if (!line_is_sound(line, p->used - at))
			return false;
	}
	return true;
}

static struct history_piece *
piece_of(const struct store_row *row)
{
	struct history_piece *p = calloc(1, sizeof(*p));
	struct row_head head;

	if (!p || row->key_size != sizeof(p->no) || row->size < sizeof(head) ||
		row->size - sizeof(head) > HISTORY_PIECE) {
		free(p);
		return NULL;
	}
	memcpy(&p->no, row->key, sizeof(p->no));
	p->no = __builtin_bswap64(p->no);
	memcpy(&head, row->data, sizeof(head));
	p->used = p->saved = row->size - (uint32_t)sizeof(head);
	memcpy(p->bytes, row->data + sizeof(head), p->used);
	p->keeps = true;
	if (piece_is_sound(p, &head))
		return p;
	free(p);
	return NULL;
}

/* They are older than what there is by now. */
static void
take_rows(struct history *h, const struct store_read *read)
{
	struct history_piece *first = h->first, **link = &h->first;

	for (uint32_t i = 0; i < read->n; i++) {
		struct history_piece *p = piece_of(&read->rows[i]);

		if (!p) {
			log_warn("store.damaged", "what=history");
			continue;
		}
		*link = p;
		link = &p->next;
		if (!first)
			h->last = p;
		h->n++;
	}
	*link = first;
	while (h->n > h->max)
		history_drop_first(h);
}

static void
load_done(struct sched *s, struct store_job *job)
{
	struct load_job *l = container_of(job, struct load_job, job);
	struct history *h = history_of(s);

	if (h && !job->status)
		take_rows(h, &l->read);
	if (h && h->n_gone)
		history_touch(s);
	free(l->read.rows);
	free(l);
}

/* It has those of all schedulers. */
void
history_load(struct sched *s)
{
	struct history *h = can_store(s) ? history_of(s) : NULL;
	struct load_job *l = h ? calloc(1, sizeof(*l)) : NULL;

	if (!l)
		return;
	h->max *= s->kernel->n_scheds;
	l->read.table = STORE_HISTORY;
	l->read.also = STORE_TABLES;
	l->read.max_rows = 2 * h->max;
	l->read.max_size = UINT64_MAX;
	l->job.read = &l->read;
	l->job.sched = s;
	l->job.done = load_done;
	s->kernel->store->ops->submit(s->kernel->store, &l->job, &l->job);
}

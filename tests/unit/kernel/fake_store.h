#pragma once
/* A store in memory for the tests of kernel/: it does what it was given when
 * the test says so, or fails, and loses all that has not been done in a crash.
 * One thread. */
#include <stdlib.h>
#include <string.h>

#include "fixture.h"
#include "kernel/store.h"

struct fake_row {
	uint8_t table, key[STORE_KEY_MAX];
	uint16_t key_size;
	uint32_t size;
	uint8_t *data;
};

struct fake_store {
	struct store store;
	struct store_job *first, *last;
	struct store_box *boxes;
	uint64_t last_box;
	struct fake_row *rows; /* sorted */
	size_t n, room;
	int status;        /* of the next steps */
	unsigned n_writes; /* ever */
	unsigned n_jobs;
	/* Reads that need not wait are done at once, and told last: they have
	 * not seen what was written meanwhile. */
	bool late;
	struct store_job *late_jobs;
};

static inline struct fake_store *
fake_store_of(struct store *store)
{
	return container_of(store, struct fake_store, store);
}

static inline int
fake_row_compare(const struct fake_row *row, unsigned table, const void *key,
	size_t size)
{
	size_t n = row->key_size < size ? row->key_size : size;
	int order = (int)row->table - (int)table;

	if (!order)
		order = memcmp(row->key, key, n);
	return order ? order : (int)row->key_size - (int)size;
}

/* The place of the first row that is not before it. */
static inline size_t
fake_store_find(
	struct fake_store *f, unsigned table, const void *key, size_t size)
{
	size_t i = 0;

	while (i < f->n && fake_row_compare(&f->rows[i], table, key, size) < 0)
		i++;
	return i;
}

static inline void
fake_store_write(struct fake_store *f, const struct store_write *w)
{
	size_t i = fake_store_find(f, w->table, w->key, w->key_size);
	bool there = i < f->n && !fake_row_compare(&f->rows[i], w->table,
					 w->key, w->key_size);
	struct fake_row *row;

	f->n_writes++;
	if (there) {
		free(f->rows[i].data);
		f->n--;
		memmove(&f->rows[i], &f->rows[i + 1],
			(f->n - i) * sizeof(*row));
	}
	if (!w->data)
		return;
	if (f->n == f->room) {
		f->room = f->room ? f->room * 2 : 64;
		f->rows = realloc(f->rows, f->room * sizeof(*row));
		assert_non_null(f->rows);
	}
	row = &f->rows[i];
	memmove(row + 1, row, (f->n - i) * sizeof(*row));
	f->n++;
	*row = (struct fake_row){.table = w->table,
		.key_size = w->key_size,
		.size = w->size,
		.data = malloc(w->size + 1)};
	memcpy(row->key, w->key, w->key_size);
	memcpy(row->data, w->data, w->size);
}

static inline const struct fake_row *
fake_store_get(
	struct fake_store *f, unsigned table, const struct fake_row *like)
{
	size_t i;

	if (table == STORE_TABLES)
		return NULL;
	i = fake_store_find(f, table, like->key, like->key_size);
	return i < f->n && !fake_row_compare(&f->rows[i], table, like->key,
				   like->key_size)
		       ? &f->rows[i]
		       : NULL;
}

static inline uint8_t *
fake_copy(uint8_t **end, const void *data, size_t size)
{
	uint8_t *at = *end;

	memcpy(at, data, size);
	*end += size;
	return at;
}

/* Its rows with their bytes in one block, as a store gives them. */
static inline void
fake_store_read(struct fake_store *f, struct store_read *r)
{
	size_t i = fake_store_find(f, r->table, r->from, r->from_size);
	size_t size = 0, bytes = 64;
	uint8_t *end;

	for (size_t k = 0; k < f->n; k++)
		bytes += sizeof(struct store_row) + f->rows[k].size +
			 f->rows[k].key_size;
	r->rows = malloc(bytes * 2);
	end = (uint8_t *)(r->rows + f->n);
	for (; i < f->n; i++) {
		const struct fake_row *row = &f->rows[i], *also;

		if (row->table != r->table || row->key_size < r->prefix ||
			memcmp(row->key, r->from, r->prefix) != 0)
			return;
		if (r->n && (r->n >= r->max_rows ||
				    size + row->size > r->max_size)) {
			r->more = true;
			return;
		}
		size += row->size;
		also = fake_store_get(f, r->also, row);
		r->rows[r->n++] = (struct store_row){
			.key = fake_copy(&end, row->key, row->key_size),
			.key_size = row->key_size,
			.data = fake_copy(&end, row->data, row->size),
			.size = row->size,
			.also = also ? fake_copy(&end, also->data, also->size)
				     : NULL,
			.also_size = also ? also->size : 0,
		};
	}
}

static inline void
fake_store_submit(
	struct store *store, struct store_job *first, struct store_job *last)
{
	struct fake_store *f = fake_store_of(store);

	if (f->late && first == last && first->read && first->read->soon) {
		fake_store_read(f, first->read);
		first->next = f->late_jobs;
		f->late_jobs = first;
		return;
	}
	last->next = NULL;
	if (f->last)
		f->last->next = first;
	else
		f->first = first;
	f->last = last;
}

static inline struct store_box *
fake_store_hold(struct store *store, const char *name, size_t size)
{
	struct fake_store *f = fake_store_of(store);
	struct store_box *box = f->boxes;

	while (box &&
		(box->name_size != size || memcmp(box->name, name, size) != 0))
		box = box->next;
	if (!box) {
		box = calloc(1, sizeof(*box) + size + 1);
		box->id = ++f->last_box;
		box->name_size = (uint8_t)size;
		memcpy(box->name, name, size);
		box->next = f->boxes;
		f->boxes = box;
	}
	if (box->held)
		return NULL;
	box->held = true;
	return box;
}

static inline void
fake_store_release(struct store *store, struct store_box *box)
{
	(void)store;
	box->held = false;
}

static inline struct store_box *
fake_store_held(struct store *store, const char *name, size_t size)
{
	struct store_box *box = fake_store_of(store)->boxes;

	while (box &&
		(box->name_size != size || memcmp(box->name, name, size) != 0))
		box = box->next;
	if (!box || box->held || !(box->n || box->kept))
		return NULL;
	box->held = true;
	return box;
}

static const struct store_ops fake_store_ops = {
	.find = fake_store_held,
	.submit = fake_store_submit,
	.hold = fake_store_hold,
	.release = fake_store_release,
};

/* Do all that was submitted until now; false: there was nothing. */
static inline bool
fake_store_step(struct fake_store *f)
{
	struct store_job *jobs = f->first, *late = f->late_jobs, *next;

	f->late_jobs = NULL;
	f->first = f->last = NULL;
	for (struct store_job *job = jobs; job; job = job->next) {
		job->status = job->n_writes ? f->status : 0;
		for (uint32_t i = 0; !job->status && i < job->n_writes; i++)
			fake_store_write(f, &job->writes[i]);
	}
	for (struct store_job *job = jobs; job; job = job->next)
		if (job->read)
			fake_store_read(f, job->read);
	for (struct store_job *job = jobs; job; job = next) {
		next = job->next;
		f->n_jobs++;
		job->done(job->sched, job);
	}
	for (struct store_job *job = late; job; job = next) {
		next = job->next;
		job->done(job->sched, job);
	}
	return jobs || late;
}

/* Until neither the schedulers nor the store have anything to do. */
static inline void
fake_store_run(struct fixture *fixture, struct fake_store *f)
{
	unsigned n = 0;

	do {
		fixture_run(fixture);
		assert_true(n++ < FIXTURE_TURNS);
	} while (fake_store_step(f));
	fixture_run(fixture);
}

static inline size_t
fake_store_count(const struct fake_store *f, unsigned table)
{
	size_t n = 0;

	for (size_t i = 0; i < f->n; i++)
		n += f->rows[i].table == table;
	return n;
}

static inline struct fake_store *
fake_store_new(void)
{
	struct fake_store *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	f->store.ops = &fake_store_ops;
	f->store.run = 1;
	atomic_store(&f->store.next_no, (1ull << STORE_RUN_SHIFT) + 1);
	return f;
}

/* As a daemon finds it that starts again: boxes are as their rows say. */
static inline void
fake_store_restart(struct fake_store *f)
{
	struct store_box *box;

	assert_null(f->first);
	while ((box = f->boxes)) {
		f->boxes = box->next;
		free(box);
	}
	f->store.run++;
	atomic_store(&f->store.next_no, (f->store.run << STORE_RUN_SHIFT) + 1);
	for (size_t i = 0; i < f->n; i++) {
		const struct fake_row *row = &f->rows[i];
		struct store_box_row stored;

		if (row->table != STORE_BOXES)
			continue;
		memcpy(&stored, row->data, sizeof(stored));
		box = fake_store_hold(
			&f->store, (const char *)row->key, row->key_size);
		box->held = false;
		box->id = stored.id;
		box->n = stored.n;
		box->size = stored.size;
		box->standing = stored.flags & STORE_BOX_STANDING;
		box->paused = stored.flags & STORE_BOX_PAUSED;
		box->traits = stored.flags >> STORE_TRAITS_SHIFT;
		box->kept = stored.flags & STORE_BOX_KEPT;
	}
}

static inline void
fake_store_free(struct fake_store *f)
{
	struct store_box *box;

	while ((box = f->boxes)) {
		f->boxes = box->next;
		free(box);
	}
	for (size_t i = 0; i < f->n; i++)
		free(f->rows[i].data);
	free(f->rows);
	free(f);
}

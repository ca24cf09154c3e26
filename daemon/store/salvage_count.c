/* See salvage_count.h. Lists that are sorted when they are looked into: rows
 * come in the order of keys, unless pages are damaged. */
#include "store/salvage_count.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/journal.h"
#include "kernel/journal_batch.h"

struct ended {
	uint8_t key[BATCH_KEY];
	uint64_t bits[BATCH_WORDS];
};

struct found {
	uint64_t id, n;
	bool named; /* its mailbox is known */
};

struct box {
	struct store_box_row row;
	uint8_t size;
	char name[UINT8_MAX];
};

struct list_of {
	void *all;
	size_t n, room;
};

struct salvage_count {
	struct list_of ended, found, boxes;
	bool sorted;    /* ended is */
	bool is_partly; /* a row could not be counted */
	uint64_t run;
	struct salvage_sum sum;
};

struct salvage_count *
count_new(void)
{
	return calloc(1, sizeof(struct salvage_count));
}

void
count_free(struct salvage_count *c)
{
	if (!c)
		return;
	free(c->ended.all);
	free(c->found.all);
	free(c->boxes.all);
	free(c);
}

/* One more, zeroed; NULL: out of memory. */
static void *
append(struct salvage_count *c, struct list_of *l, size_t size)
{
	size_t room = l->room ? 2 * l->room : 64;
	void *all = l->n < l->room ? l->all : realloc(l->all, room * size);
	char *at;

	if (!all) {
		c->is_partly = true;
		return NULL;
	}
	if (l->n == l->room)
		l->room = room;
	l->all = all;
	at = (char *)all + size * l->n++;
	memset(at, 0, size);
	return at;
}

static int
compare_keys(const void *a, const void *b)
{
	return memcmp(a, b, BATCH_KEY);
}

static int
compare_ids(const void *a, const void *b)
{
	uint64_t x = ((const struct found *)a)->id;
	uint64_t y = ((const struct found *)b)->id;

	return (x > y) - (x < y);
}

void
count_marks(struct salvage_count *c, const uint8_t *key, size_t key_size,
	const uint8_t *data, size_t size)
{
	struct batch_marks marks;
	struct ended *e;

	if (key_size != BATCH_KEY || size < sizeof(marks))
		return;
	e = append(c, &c->ended, sizeof(*e));
	if (!e)
		return;
	memcpy(&marks, data, sizeof(marks));
	memcpy(e->key, key, BATCH_KEY);
	memcpy(e->bits, marks.ended, sizeof(e->bits));
}

/* Of @n events of the record @key so many have ended. */
static uint32_t
ended_of(struct salvage_count *c, const uint8_t *key, uint32_t n)
{
	const struct ended *e;
	uint32_t ended = 0;

	if (!c->sorted && c->ended.n)
		qsort(c->ended.all, c->ended.n, sizeof(*e), compare_keys);
	c->sorted = true;
	e = c->ended.n ? bsearch(key, c->ended.all, c->ended.n, sizeof(*e),
				 compare_keys)
		       : NULL;
	for (uint32_t i = 0; e && i < n; i++)
		ended += e->bits[i / 64] >> (i % 64) & 1;
	return ended;
}

static struct found *
found_last(struct salvage_count *c, uint64_t id)
{
	struct found *f = c->found.all;

	if (c->found.n && f[c->found.n - 1].id == id)
		return &f[c->found.n - 1];
	f = append(c, &c->found, sizeof(*f));
	if (f)
		f->id = id;
	return f;
}

void
count_record(struct salvage_count *c, const uint8_t *key, size_t key_size,
	const uint8_t *data, size_t size)
{
	uint64_t id, no;
	struct found *f;
	uint32_t n, left;

	if (key_size != BATCH_KEY)
		return;
	memcpy(&id, key, sizeof(id));
	memcpy(&no, key + BATCH_KEY - sizeof(no), sizeof(no));
	no = __builtin_bswap64(no) >> STORE_RUN_SHIFT;
	if (no > c->run)
		c->run = no;
	c->sum.damaged += journal_check_record(data, size, &n);
	if (n > JOURNAL_BATCH)
		n = JOURNAL_BATCH;
	left = n - ended_of(c, key, n);
	f = found_last(c, __builtin_bswap64(id));
	if (!f)
		return;
	f->n += left;
	c->sum.events += left;
}

void
count_box(struct salvage_count *c, const uint8_t *key, size_t key_size,
	const uint8_t *data, size_t size)
{
	struct box *b;

	if (!key_size || key_size > sizeof(b->name) || size != sizeof(b->row))
		return;
	b = append(c, &c->boxes, sizeof(*b));
	if (!b)
		return;
	memcpy(&b->row, data, size);
	memcpy(b->name, key, key_size);
	b->size = (uint8_t)key_size;
}

uint64_t
count_run(const struct salvage_count *c)
{
	return c->run;
}

/* Those of one mailbox together. */
static void
join_found(struct salvage_count *c)
{
	struct found *f = c->found.all;
	size_t n = 0;

	if (!c->found.n)
		return;
	qsort(f, c->found.n, sizeof(*f), compare_ids);
	for (size_t i = 1; i < c->found.n; i++) {
		if (f[i].id == f[n].id)
			f[n].n += f[i].n;
		else
			f[++n] = f[i];
	}
	c->found.n = n + 1;
}

/* What was counted of it and what is there. */
static void
settle_box(struct salvage_count *c, struct box *b)
{
	struct found like = {.id = b->row.id};
	struct found *f = c->found.n ? bsearch(&like, c->found.all, c->found.n,
					       sizeof(*f), compare_ids)
				     : NULL;
	uint64_t n = f ? f->n : 0, was = b->row.n;

	if (f)
		f->named = true;
	if (was > n)
		c->sum.lost += was - n;
	if (was != n)
		b->row.size = was ? b->row.size / was * n : 0;
	b->row.n = n;
	c->sum.mailboxes += n > 0;
}

void
count_boxes(struct salvage_count *c,
	void (*put)(void *arg, const char *name, size_t size,
		const struct store_box_row *row),
	void *arg)
{
	struct box *boxes = c->boxes.all;
	struct found *f;
	char name[64];

	c->sum.counts_known = !c->is_partly;
	join_found(c);
	f = c->found.all;
	for (size_t i = 0; i < c->boxes.n; i++) {
		settle_box(c, &boxes[i]);
		put(arg, boxes[i].name, boxes[i].size, &boxes[i].row);
	}
	for (size_t i = 0; i < c->found.n; i++) {
		struct store_box_row row = {.id = f[i].id, .n = f[i].n};

		if (f[i].named || !f[i].n)
			continue;
		c->sum.counts_known = false; /* nobody knows of the others */
		c->sum.mailboxes++;
		snprintf(name, sizeof(name), "salvaged.%" PRIu64, f[i].id);
		put(arg, name, strlen(name), &row);
	}
}

struct salvage_sum
count_sum(const struct salvage_count *c)
{
	return c->sum;
}

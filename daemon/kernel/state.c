#include "kernel/state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/log.h"
#include "kernel/journal_batch.h"
#include "kernel/sched.h"

enum { BUCKETS_MIN = 16 };

struct bytes {
	uint32_t size;
	uint8_t data[];
};

struct entry {
	struct list link;   /* in state.entries */
	struct entry *next; /* in its bucket */
	struct entry *next_dirty;
	uint64_t hash;
	struct bytes *value, *saved; /* NULL: there is none */
	struct side_write *side;     /* of value, if it is dirty */
	bool dirty;                  /* value is not what is kept: saved is */
	uint8_t key_size;
	char key[];
};

struct state {
	struct list entries; /* in the order in which they were made */
	struct entry **buckets;
	uint32_t n_entries, n_buckets;
	uint32_t n; /* that have a value */
	uint64_t size;
	struct entry *dirty;
};

static struct state *
state_of(const struct session *t)
{
	return t->health ? t->health->state : NULL;
}

static const uint64_t *
seed_of(const struct session *t)
{
	return atomic_load(&t->home)->kernel->aliases.key;
}

static uint64_t
cost(const struct entry *e, const struct bytes *value)
{
	return value ? STATE_COST + e->key_size + (uint64_t)value->size : 0;
}

/* ---- entries ------------------------------------------------------------- */

static struct entry *
find(const struct session *t, const char *key, size_t size)
{
	const struct state *st = state_of(t);
	struct entry *e;
	uint64_t hash;

	if (!st || !st->n_entries)
		return NULL;
	hash = hash_bytes(seed_of(t), key, size);
	for (e = st->buckets[hash & (st->n_buckets - 1)]; e; e = e->next)
		if (e->hash == hash && e->key_size == size &&
			memcmp(e->key, key, size) == 0)
			return e;
	return NULL;
}

static int
grow(struct state *st)
{
	uint32_t n = st->n_buckets ? st->n_buckets * 2 : BUCKETS_MIN;
	struct entry **buckets =
		FAULT(state_grow) ? NULL : calloc(n, sizeof(struct entry *));

	if (!buckets)
		return err_raise(-ENOMEM);
	LIST_FOREACH (node, &st->entries) {
		struct entry *e = container_of(node, struct entry, link);

		e->next = buckets[e->hash & (n - 1)];
		buckets[e->hash & (n - 1)] = e;
	}
	free(st->buckets);
	st->buckets = buckets;
	st->n_buckets = n;
	return 0;
}

static struct state *
make_state(struct session *t)
{
	struct session_health *health = session_health(t);

	if (!health || health->state)
		return health ? health->state : NULL;
	health->state =
		FAULT(state_new) ? NULL : calloc(1, sizeof(struct state));
	if (health->state)
		list_init(&health->state->entries);
	return health->state;
}

static struct entry *
make_entry(struct session *t, const char *key, size_t size)
{
	struct state *st = make_state(t);
	struct entry *e, **bucket;

	if (!st || (st->n_entries >= st->n_buckets && grow(st)))
		return NULL;
	e = FAULT(state_entry) ? NULL : calloc(1, sizeof(*e) + size);
	if (!e)
		return NULL;
	e->hash = hash_bytes(seed_of(t), key, size);
	e->key_size = (uint8_t)size;
	memcpy(e->key, key, size);
	bucket = &st->buckets[e->hash & (st->n_buckets - 1)];
	e->next = *bucket;
	*bucket = e;
	list_append(&st->entries, &e->link);
	st->n_entries++;
	return e;
}

static void
free_entry(struct state *st, struct entry *e)
{
	struct entry **link = &st->buckets[e->hash & (st->n_buckets - 1)];

	while (*link != e)
		link = &(*link)->next;
	*link = e->next;
	list_remove(&e->link);
	st->n_entries--;
	free(e->value);
	free(e->saved);
	free(e->side);
	free(e);
}

/* One without a value is of use only while a handler may still go through
 * them. */
static void
drop_if_empty(struct state *st, struct entry *e)
{
	if (!e->value)
		free_entry(st, e);
}

/* ---- asking and changing ------------------------------------------------- */

int
state_get(const struct session *t, const char *key, size_t key_size,
	struct state_value *out)
{
	const struct entry *e = find(t, key, key_size);

	if (!e || !e->value)
		return STATE_E_NONE;
	*out = (struct state_value){e->value->data, e->value->size};
	return 0;
}

static const struct entry *
entry_at(const struct state *st, const struct list *node)
{
	for (; node != &st->entries; node = node->next) {
		const struct entry *e =
			container_of(node, const struct entry, link);

		if (e->value)
			return e;
	}
	return NULL;
}

int
state_next(const struct session *t, const char *key, size_t key_size,
	const char **next, size_t *next_size, struct state_value *out)
{
	const struct state *st = state_of(t);
	const struct entry *e = key ? find(t, key, key_size) : NULL;

	if (!st || (key && !e))
		return STATE_E_NONE;
	e = entry_at(st, e ? e->link.next : st->entries.next);
	if (!e)
		return STATE_E_NONE;
	*next = e->key;
	*next_size = e->key_size;
	*out = (struct state_value){e->value->data, e->value->size};
	return 0;
}

static int
may_set(const struct session *t, size_t key_size)
{
	if (!key_size || key_size > STATE_KEY_MAX)
		return STATE_E_KEY;
	if (!t->spec || !t->spec->durable)
		return STATE_E_VOLATILE;
	if (!session_journal(t) &&
		!atomic_load(&t->home)->kernel->without_store)
		return STATE_E_VOLATILE;
	return t->spec->concurrency > 1 ? STATE_E_MANY : 0;
}

/* The row that says so. *@out is NULL in a run without the store. */
static int
make_side(struct session *t, const struct entry *e, const struct bytes *value,
	struct side_write **out)
{
	struct store_write w = {.table = STORE_STATE,
		.key = e->key,
		.key_size = e->key_size,
		.data = value ? value->data : NULL,
		.size = value ? value->size : 0};

	*out = NULL;
	if (!session_journal(t))
		return 0;
	*out = side_new(session_journal(t), &w, SIDE_ENDS, NULL);
	return *out ? 0 : err_raise(-ENOMEM);
}

static void
change(struct state *st, struct entry *e, struct bytes *value,
	struct side_write *side)
{
	st->size += cost(e, value) - cost(e, e->value);
	st->n += (value != NULL) - (e->value != NULL);
	if (e->dirty) {
		free(e->value);
		free(e->side);
	} else {
		e->saved = e->value;
		e->dirty = true;
		e->next_dirty = st->dirty;
		st->dirty = e;
	}
	e->value = value;
	e->side = side;
}

static int
set_entry(struct session *t, struct entry *e, const void *data, size_t size)
{
	struct state *st = state_of(t);
	struct bytes *value = NULL;
	struct side_write *side;

	if (data) {
		value = FAULT(state_value) ? NULL
					   : malloc(sizeof(*value) + size);
		if (!value)
			return err_raise(-ENOMEM);
		value->size = (uint32_t)size;
		if (size)
			memcpy(value->data, data, size);
	}
	if (value && st->size - cost(e, e->value) + cost(e, value) >
			     t->spec->state_max) {
		free(value);
		return STATE_E_FULL;
	}
	if (make_side(t, e, value, &side)) {
		free(value);
		return err_raise(-ENOMEM);
	}
	change(st, e, value, side);
	return 0;
}

int
state_set(struct session *t, const char *key, size_t key_size, const void *data,
	size_t size)
{
	int r = may_set(t, key_size);
	struct entry *e = r ? NULL : find(t, key, key_size);

	if (r)
		return r;
	if (!e && !data)
		return 0;
	if (data && size > t->spec->state_max)
		return STATE_E_FULL;
	if (!e)
		e = make_entry(t, key, key_size);
	if (!e)
		return err_raise(-ENOMEM);
	r = set_entry(t, e, data, size);
	if (r && !e->dirty)
		drop_if_empty(state_of(t), e);
	return r;
}

/* ---- keeping it, or not -------------------------------------------------- */

void
state_commit_it(struct session *t)
{
	struct state *st = state_of(t);
	struct entry *e;

	while (st && (e = st->dirty)) {
		st->dirty = e->next_dirty;
		e->dirty = false;
		free(e->saved);
		e->saved = NULL;
		if (e->side && session_journal(t))
			side_link(session_journal(t), TAKE(e->side));
		drop_if_empty(st, e);
	}
}

void
state_rollback(struct session *t)
{
	struct state *st = state_of(t);
	struct entry *e;

	while (st && (e = st->dirty)) {
		st->dirty = e->next_dirty;
		e->dirty = false;
		st->size += cost(e, e->saved) - cost(e, e->value);
		st->n += (e->saved != NULL) - (e->value != NULL);
		free(e->value);
		e->value = TAKE(e->saved);
		free(e->side);
		e->side = NULL;
		drop_if_empty(st, e);
	}
}

void
state_restore(struct session *t, const struct store_row *row)
{
	const char *key = (const char *)row->key + sizeof(uint64_t);
	size_t size = row->key_size - sizeof(uint64_t);
	struct entry *e;

	if (!size || size > STATE_KEY_MAX || find(t, key, size))
		return;
	e = make_entry(t, key, size);
	if (e)
		e->value = malloc(sizeof(*e->value) + row->size);
	if (!e || !e->value) {
		if (e)
			drop_if_empty(state_of(t), e);
		session_journal(t)->state_status = -ENOMEM;
		return;
	}
	e->value->size = row->size;
	memcpy(e->value->data, row->data, row->size);
	state_of(t)->size += cost(e, e->value);
	state_of(t)->n++;
}

void
state_free(struct session *t)
{
	struct state *st = state_of(t);

	if (!st)
		return;
	while (!list_is_empty(&st->entries))
		free_entry(
			st, container_of(st->entries.next, struct entry, link));
	free(st->buckets);
	free(st);
	t->health->state = NULL;
}

uint32_t
state_count(const struct session *t)
{
	return state_of(t) ? state_of(t)->n : 0;
}

uint64_t
state_size(const struct session *t)
{
	return state_of(t) ? state_of(t)->size : 0;
}

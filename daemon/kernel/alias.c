/* Aliases: a hash table whose readers take no lock.
 *
 * An open-addressing array of slots with linear probing. A slot goes from
 * empty to an alias to buried, once, and its hash is written before its alias
 * is published; so a reader that sees the alias sees the hash, and one that
 * walks while a writer changes things misses nothing that was there all along.
 * When four fifths of the slots are used, live entries are copied to a new
 * array and that is published; entries never move. The old array goes, like
 * removed entries, when no reader can be in it (kernel/epoch.h). A reader that
 * is still in the old array may find an entry removed since: its memory is
 * good for the same reason.
 *
 * Copying a million entries takes some ten milliseconds of the writer that
 * meets it, and no reader's time. */
#include "kernel/alias.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/pages.h"
#include "kernel/claim.h"
#include "kernel/names.h"
#include "proto/envelope.h"

enum {
	ARRAY_MIN = 64, /* slots; a power of two */
	ARRAY_FULL = 5, /* one of so many stays empty */
};

struct slot {
	uint64_t hash;
	_Atomic(struct alias *) alias; /* NULL: never used; or &buried */
};

struct alias_array {
	size_t mask; /* slots - 1 */
	struct slot *slots;
	struct epoch_item retired;
};

static struct alias buried; /* its address marks slots of removed entries */

/* ---- the array --------------------------------------------------------- */

/* Large ones, all of whose pages are touched, are of huge pages: else looking
 * up a name would miss in the cache of page addresses as well. */
static struct slot *
slots_alloc(size_t n_slots)
{
	size_t size = n_slots * sizeof(struct slot);
	struct slot *slots;

	if (size < PAGES_HUGE)
		return calloc(n_slots, sizeof(*slots));
	slots = pages_map(size);
	if (slots)
		pages_are_huge(slots, size);
	return slots;
}

static struct alias_array *
array_new(size_t n_slots)
{
	struct alias_array *a =
		FAULT(alias_array_new) ? NULL : malloc(sizeof(*a));

	if (!a)
		return NULL;
	a->mask = n_slots - 1;
	a->slots = slots_alloc(n_slots);
	if (a->slots)
		return a;
	free(a);
	return NULL;
}

static void
array_free(struct alias_array *a)
{
	size_t size = (a->mask + 1) * sizeof(a->slots[0]);

	if (size < PAGES_HUGE)
		free(a->slots);
	else
		pages_unmap(a->slots, size);
	free(a);
}

static void
on_array_free(struct epoch_item *item)
{
	array_free(container_of(item, struct alias_array, retired));
}

static void
on_alias_free(struct epoch_item *item)
{
	free(container_of(item, struct alias, retired));
}

static struct alias_array *
array_now(struct aliases *t)
{
	return atomic_load_explicit(&t->array, memory_order_acquire);
}

/* The slot of @name, or the empty one where the search for it ended. */
static inline struct slot *
array_seek(struct alias_array *array, uint64_t hash, const char *name,
	size_t size, struct alias **out)
{
	for (size_t i = (size_t)hash;; i++) {
		struct slot *slot = &array->slots[i & array->mask];
		struct alias *a = atomic_load_explicit(
			&slot->alias, memory_order_acquire);

		*out = a;
		if (!a)
			return slot;
		if (slot->hash == hash && a != &buried && a->size == size &&
			memcmp(a->name, name, size) == 0)
			return slot;
	}
}

static void
slot_publish(struct slot *slot, struct alias *a)
{
	slot->hash = a->hash;
	atomic_store_explicit(&slot->alias, a, memory_order_release);
}

/* The slot that @a, which is in the array, has. */
static struct slot *
array_slot_of(struct alias_array *array, const struct alias *a)
{
	size_t i = (size_t)a->hash;

	while (atomic_load_explicit(&array->slots[i & array->mask].alias,
		       memory_order_relaxed) != a)
		i++;
	return &array->slots[i & array->mask];
}

/* What no reader has seen yet gets a copy of @from, which no other is equal to:
 * without a look at the alias. */
static void
array_copy(struct alias_array *array, const struct slot *from, struct alias *a)
{
	size_t i = (size_t)from->hash;
	struct slot *slot;

	do
		slot = &array->slots[i++ & array->mask];
	while (atomic_load_explicit(&slot->alias, memory_order_relaxed));
	slot->hash = from->hash;
	atomic_store_explicit(&slot->alias, a, memory_order_relaxed);
}

static struct alias *
slot_live(struct slot *slot)
{
	struct alias *a =
		atomic_load_explicit(&slot->alias, memory_order_relaxed);

	return a == &buried ? NULL : a;
}

/* Copy what lives to an array with room to grow. Under the lock. */
static int
rebuild(struct aliases *t)
{
	struct alias_array *old = array_now(t), *bigger;
	size_t n_slots = ARRAY_MIN;

	while (n_slots < 2 * (t->n + 1))
		n_slots *= 2;
	bigger = array_new(n_slots);
	if (!bigger)
		return err_raise(-ENOMEM);
	for (size_t i = 0; i <= old->mask; i++) {
		struct alias *a = slot_live(&old->slots[i]);

		if (a)
			array_copy(bigger, &old->slots[i], a);
	}
	t->n_used = t->n;
	atomic_store_explicit(&t->array, bigger, memory_order_release);
	epoch_retire(t->epoch, &old->retired, on_array_free);
	return 0;
}

/* The entry @name, made without references if need be. Under the lock. */
int
alias_get_locked(
	struct aliases *t, const char *name, size_t size, struct alias **out)
{
	uint64_t hash = hash_bytes(t->key, name, size);
	struct alias *a;
	struct slot *slot;
	size_t room;

	slot = array_seek(array_now(t), hash, name, size, out);
	if (*out)
		return 0;
	if (ARRAY_FULL * (t->n_used + 1) >
		(ARRAY_FULL - 1) * (array_now(t)->mask + 1)) {
		if (rebuild(t) < 0)
			return -ENOMEM;
		slot = array_seek(array_now(t), hash, name, size, out);
	}
	/* a short name may end within the padding, which is set as well */
	room = offsetof(struct alias, name) + size + 1;
	if (room < sizeof(*a))
		room = sizeof(*a);
	a = FAULT(alias_new) ? NULL : malloc(room);
	if (!a)
		return err_raise(-ENOMEM);
	memset(a, 0, offsetof(struct alias, name)); /* it may be no larger */
	a->hash = hash;
	a->size = (uint8_t)size;
	memcpy(a->name, name, size);
	a->name[size] = '\0';
	slot_publish(slot, a);
	t->n++;
	t->n_used++;
	*out = a;
	return 0;
}

/* Give up one reference. Under the lock. */
void
alias_put_locked(struct aliases *t, struct alias *a)
{
	struct slot *slot;

	assert(a->refs > 0);
	if (--a->refs > 0)
		return;
	slot = array_slot_of(array_now(t), a);
	atomic_store_explicit(&slot->alias, &buried, memory_order_release);
	t->n--;
	epoch_retire(t->epoch, &a->retired, on_alias_free);
}

/* ---- the table --------------------------------------------------------- */

int
aliases_init(struct aliases *t, struct epoch *epoch)
{
	struct alias_array *array = array_new(ARRAY_MIN);

	if (!array)
		return err_raise(-ENOMEM);
	if (getrandom(t->key, sizeof(t->key), 0) != sizeof(t->key)) {
		array_free(array);
		return err_raise(-EIO);
	}
	t->key[1] |= 1;
	pthread_mutex_init(&t->lock, NULL);
	atomic_init(&t->array, array);
	t->n = t->n_used = 0;
	t->epoch = epoch;
	list_init(&t->watches);
	return 0;
}

void
aliases_deinit(struct aliases *t)
{
	struct alias_array *array = array_now(t);

	for (size_t i = 0; i <= array->mask; i++)
		free(slot_live(&array->slots[i]));
	array_free(array);
	pthread_mutex_destroy(&t->lock);
}

struct alias *
alias_find(struct aliases *t, const char *name, size_t size)
{
	struct alias *a;

	array_seek(
		array_now(t), hash_bytes(t->key, name, size), name, size, &a);
	return a;
}

void
alias_look_ahead(struct aliases *t, const struct alias *a)
{
	const struct alias_array *array = array_now(t);

	__builtin_prefetch(&array->slots[a->hash & array->mask]);
}

uint64_t
alias_holder(struct aliases *t, const char *name, size_t size)
{
	struct alias *a = alias_find(t, name, size);

	return a ? atomic_load_explicit(&a->holder, memory_order_acquire) : 0;
}

static int
take_locked(struct aliases *t, const char *name, size_t size, uint64_t session,
	struct alias **out)
{
	struct alias *a;
	int r = alias_get_locked(t, name, size, &a);

	if (r < 0)
		return err_pass(r);
	if (atomic_load_explicit(&a->holder, memory_order_relaxed) != 0)
		return ALIAS_E_TAKEN;
	a->refs++;
	a->allow_replace = false;
	atomic_store_explicit(&a->holder, session, memory_order_release);
	*out = a;
	return 0;
}

int
alias_take_after(struct aliases *t, const char *name, size_t size,
	uint64_t session, struct alias **out, struct alias_after *after)
{
	int r;

	assert(session != 0);
	if (!name_is_valid(name, size, ENVELOPE_ALIAS_MAX))
		return ALIAS_E_NAME;
	pthread_mutex_lock(&t->lock);
	r = take_locked(t, name, size, session, out);
	if (!r) {
		names_changed_locked(t, *out, session, &after->wake);
		after->waits = claim_waits_locked(*out);
	}
	pthread_mutex_unlock(&t->lock);
	return r;
}

int
alias_take(struct aliases *t, const char *name, size_t size, uint64_t session,
	struct alias **out)
{
	struct alias_after after = {0};

	return alias_take_after(t, name, size, session, out, &after);
}

/* From its holder to the next in line, or to nobody. */
static void
pass_locked(struct aliases *t, struct alias *a, struct alias_after *after)
{
	struct claim *next = claim_first_locked(a);
	uint64_t session = 0;

	if (next) {
		session = claim_grant_locked(a, next);
		after->granted = next;
		after->waits = claim_waits_locked(a);
	}
	atomic_store_explicit(&a->holder, session, memory_order_release);
	names_changed_locked(t, a, session, &after->wake);
	if (!next)
		alias_put_locked(t, a);
}

int
alias_drop_after(struct aliases *t, struct alias *a, uint64_t session,
	struct alias_after *after)
{
	int r = ALIAS_E_NONE;

	pthread_mutex_lock(&t->lock);
	if (atomic_load_explicit(&a->holder, memory_order_relaxed) == session) {
		pass_locked(t, a, after);
		r = 0;
	}
	pthread_mutex_unlock(&t->lock);
	return r;
}

int
alias_drop(struct aliases *t, struct alias *a, uint64_t session)
{
	struct alias_after after = {0};

	return alias_drop_after(t, a, session, &after);
}

struct alias *
alias_ref(struct aliases *t, const char *name, size_t size)
{
	struct alias *a = NULL;

	if (!name_is_valid(name, size, ENVELOPE_ALIAS_MAX))
		return NULL;
	pthread_mutex_lock(&t->lock);
	if (alias_get_locked(t, name, size, &a) == 0)
		a->refs++;
	pthread_mutex_unlock(&t->lock);
	return a;
}

struct alias *
alias_unref(struct aliases *t, struct alias *a)
{
	if (a) {
		pthread_mutex_lock(&t->lock);
		alias_put_locked(t, a);
		pthread_mutex_unlock(&t->lock);
	}
	return NULL;
}

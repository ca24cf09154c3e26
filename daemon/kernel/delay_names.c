/* Names of delays: a hash table, made when the first name comes. A name counts
 * within a scope: the session that set the delay, or the alias that it goes to.
 * One thread. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/hash.h"
#include "kernel/delays.h"
#include "kernel/sched.h"

enum { BUCKETS_MIN = 16 };

static uint64_t
hash_of(const struct sched *s, uint64_t scope, const char *name, size_t size)
{
	return hash_bytes(s->kernel->aliases.key, name, size) ^
	       scope * UINT64_C(0x9e3779b97f4a7c15);
}

static uint64_t
scope_of(const struct delay *delay)
{
	return delay->timer.b & DELAY_BY_ALIAS
		       ? (uintptr_t)delay_parcel(delay)->alias
		       : delay->owner;
}

static int
grow(struct delays *d)
{
	uint32_t n = d->n_buckets ? d->n_buckets * 2 : BUCKETS_MIN;
	struct delay_more **names =
		FAULT(delay_names) ? NULL : calloc(n, sizeof(*names));

	if (!names)
		return err_raise(-ENOMEM);
	for (uint32_t i = 0; i < d->n_buckets; i++)
		for (struct delay_more *m = d->names[i], *next; m; m = next) {
			next = m->chain;
			m->chain = names[m->hash & (n - 1)];
			names[m->hash & (n - 1)] = m;
		}
	free(d->names);
	d->names = names;
	d->n_buckets = n;
	return 0;
}

int
delay_names_add(struct sched *s, struct delay *delay)
{
	struct delays *d = &s->delays;
	struct delay_more *m = delay->more, **bucket;
	int r = d->n_names < d->n_buckets ? 0 : grow(d);

	if (r)
		return err_pass(r);
	m->delay = delay;
	m->hash = hash_of(s, scope_of(delay), m->name, m->name_size);
	bucket = &d->names[m->hash & (d->n_buckets - 1)];
	m->chain = *bucket;
	*bucket = m;
	d->n_names++;
	return 0;
}

void
delay_names_remove(struct sched *s, struct delay *delay)
{
	struct delays *d = &s->delays;
	struct delay_more **link =
		&d->names[delay->more->hash & (d->n_buckets - 1)];

	while (*link != delay->more)
		link = &(*link)->chain;
	*link = delay->more->chain;
	d->n_names--;
}

uint64_t
delay_named(struct sched *s, uint64_t owner, const struct alias *alias,
	const char *name, size_t size)
{
	uint64_t scope = alias ? (uintptr_t)alias : owner;
	uint64_t hash = hash_of(s, scope, name, size);
	struct delay_more *m = NULL;

	if (s->delays.n_names)
		m = s->delays.names[hash & (s->delays.n_buckets - 1)];
	for (; m; m = m->chain)
		if (m->hash == hash && m->name_size == size &&
			scope_of(m->delay) == scope &&
			!(m->delay->timer.b & DELAY_BY_ALIAS) == !alias &&
			memcmp(m->name, name, size) == 0)
			return delay_public_id(m->delay);
	return 0;
}

/* An alias may go and come again meanwhile, so not by its address. */
void
delay_names_past(
	struct sched *s, const struct delay *delay, enum delay_fate fate)
{
	const struct delay_more *m = delay->more;
	uint64_t scope = delay->owner;

	if (!m || !m->name_size)
		return;
	if (delay->timer.b & DELAY_BY_ALIAS)
		scope = delay_parcel(delay)->alias->hash;
	delay_past_name(&s->delays.past,
		hash_of(s, scope, m->name, m->name_size), fate);
}

enum delay_fate
delay_fate_of_name(struct sched *s, const struct delay_name *name)
{
	uint64_t scope = name->owner;

	if (name->alias)
		scope = hash_bytes(
			s->kernel->aliases.key, name->alias, name->alias_size);
	return delay_past_fate_of_name(
		&s->delays.past, hash_of(s, scope, name->name, name->size));
}

unsigned
delay_names_home(const struct sched *s, const struct alias *alias)
{
	return (unsigned)(alias->hash % s->kernel->n_scheds);
}

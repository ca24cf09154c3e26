#include "ordering.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "config_file.h"
#include "kernel/spec.h"

/* A file's name, or an alias of it. */
struct place {
	const char *name;
	uint32_t i;
};

struct places {
	struct place *v;
	size_t n;
};

static int
place_compare(const void *a, const void *b)
{
	const struct place *x = a, *y = b;
	int r = strcmp(x->name, y->name);

	return r ? r : (x->i > y->i) - (x->i < y->i);
}

static int
places_make(struct places *p, struct session_spec *const *specs, size_t n)
{
	size_t most = 0;

	for (size_t i = 0; i < n; i++)
		most += specs[i] ? 1 + specs[i]->n_aliases : 0;
	p->n = 0;
	p->v = calloc(most + 1, sizeof(*p->v));
	if (!p->v)
		return err_raise(-ENOMEM);
	for (size_t i = 0; i < n; i++) {
		const struct session_spec *s = specs[i];

		if (!s)
			continue;
		p->v[p->n++] = (struct place){s->name, (uint32_t)i};
		for (size_t k = 0; k < s->n_aliases; k++)
			p->v[p->n++] =
				(struct place){s->aliases[k], (uint32_t)i};
	}
	if (p->n > 1)
		qsort(p->v, p->n, sizeof(*p->v), place_compare);
	return 0;
}

/* The first place of that name, or p->n. */
static size_t
places_find(const struct places *p, const char *name)
{
	size_t low = 0, high = p->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (strcmp(p->v[middle].name, name) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low < p->n && !strcmp(p->v[low].name, name) ? low : p->n;
}

/* ---- edges --------------------------------------------------------------- */

struct edges {
	struct start_edge *v;
	size_t n;
};

static int
edge_add(struct edges *e, uint32_t before, uint32_t after)
{
	struct start_edge *bigger = e->v;

	if (!(e->n & (e->n - 1))) /* doubles at powers of two */
		bigger = reallocarray(
			bigger, e->n ? e->n * 2 : 1, sizeof(*bigger));
	if (!bigger)
		return err_raise(-ENOMEM);
	e->v = bigger;
	bigger[e->n++] = (struct start_edge){before, after};
	return 0;
}

/* A name may be that of a file and an alias of the same. */
static int
add_after(struct edges *e, const struct places *p, uint32_t i, const char *name)
{
	size_t at = places_find(p, name);
	int r = 0;

	for (; at < p->n && !r && !strcmp(p->v[at].name, name); at++)
		if (at + 1 == p->n || place_compare(&p->v[at], &p->v[at + 1]))
			r = edge_add(e, p->v[at].i, i);
	return r;
}

static int
member_compare(const void *a, const void *b)
{
	struct session_spec *const *const *x = a, *const *const *y = b;
	const struct session_spec *s = **x, *t = **y;
	int r = strcmp(s->group, t->group);

	if (r)
		return r;
	if (s->order != t->order)
		return s->order < t->order ? -1 : 1;
	return strcmp(s->name, t->name);
}

static bool
is_member(const struct session_spec *s)
{
	return s && s->group && strcmp(s->kind, "group") != 0;
}

/* @members are one group. They are in a row if any has Order=. */
static int
chain(struct edges *e, struct session_spec *const *specs,
	struct session_spec *const **members, size_t n)
{
	bool ordered = false;
	int r = 0;

	for (size_t i = 0; i < n; i++)
		ordered = ordered || (*members[i])->order;
	for (size_t i = 1; i < n && ordered && !r; i++)
		r = edge_add(e, (uint32_t)(members[i - 1] - specs),
			(uint32_t)(members[i] - specs));
	return r;
}

static int
add_groups(struct edges *e, struct session_spec *const *specs, size_t n)
{
	struct session_spec *const **members = calloc(n + 1, sizeof(*members));
	size_t n_members = 0, from = 0;
	int r = members ? 0 : err_raise(-ENOMEM);

	for (size_t i = 0; i < n && !r; i++)
		if (is_member(specs[i]))
			members[n_members++] = &specs[i];
	if (n_members > 1)
		qsort(members, n_members, sizeof(*members), member_compare);
	for (size_t i = 1; i <= n_members && !r; i++) {
		if (i < n_members &&
			!strcmp((*members[i])->group, (*members[from])->group))
			continue;
		r = chain(e, specs, members + from, i - from);
		from = i;
	}
	free(members);
	return r;
}

int
ordering_edges(struct session_spec *const *specs, size_t n,
	struct start_edge **edges, size_t *n_edges)
{
	struct edges e = {NULL, 0};
	struct places p;
	int r = places_make(&p, specs, n);

	for (size_t i = 0; i < n && !r; i++)
		for (size_t k = 0; specs[i] && k < specs[i]->n_after && !r; k++)
			r = add_after(&e, &p, (uint32_t)i, specs[i]->after[k]);
	for (size_t i = 0; i < n && !r; i++) /* what it binds is to be there */
		for (size_t k = 0; specs[i] && k < specs[i]->n_binds && !r; k++)
			r = add_after(
				&e, &p, (uint32_t)i, specs[i]->binds[k].alias);
	if (!r)
		r = add_groups(&e, specs, n);
	free(p.v);
	if (r) {
		free(e.v);
		return r;
	}
	*edges = e.v;
	*n_edges = e.n;
	return 0;
}

/* ---- what is wrong ------------------------------------------------------- */

static int
check_names(struct session_spec *const *specs, size_t n,
	struct config_errors *errors)
{
	struct places p;
	int r = places_make(&p, specs, n);

	for (size_t i = 0; i < n && !r; i++)
		for (size_t k = 0; k < specs[i]->n_after; k++)
			if (places_find(&p, specs[i]->after[k]) == p.n)
				config_errors_add(errors,
					"%s: After=%s names no session file "
					"and no alias of one",
					specs[i]->origin ? specs[i]->origin
							 : specs[i]->name,
					specs[i]->after[k]);
	free(p.v);
	return r;
}

static int
edge_compare(const void *a, const void *b)
{
	const struct start_edge *x = a, *y = b;

	return (x->before > y->before) - (x->before < y->before);
}

/* What is needed to look for a way round, in one allocation. */
struct look {
	uint32_t *n_before; /* not taken out yet */
	uint32_t *first;    /* edge out of each, in order of `before` */
	uint32_t *ready, *next;
};

/* Take out, again and again, those that wait for nobody. */
static void
peel(const struct start_edge *e, size_t n_edges, uint32_t n, struct look *l)
{
	uint32_t head = 0, tail = 0;

	for (uint32_t i = 0; i < n; i++)
		if (!l->n_before[i])
			l->ready[tail++] = i;
	while (head < tail) {
		uint32_t i = l->ready[head++];

		for (size_t k = l->first[i]; k < n_edges && e[k].before == i;
			k++)
			if (!--l->n_before[e[k].after])
				l->ready[tail++] = e[k].after;
	}
}

/* "a after b after a": @at is on the way round, l->next leads back. */
static void
tell_cycle(struct session_spec *const *specs, const struct look *l, uint32_t at,
	struct config_errors *errors)
{
	char text[512];
	uint32_t i = at;
	size_t size =
		(size_t)snprintf(text, sizeof(text), "%s", specs[at]->name);

	do {
		i = l->next[i];
		if (size < sizeof(text))
			size += (size_t)snprintf(text + size,
				sizeof(text) - size, " after %s",
				specs[i]->name);
	} while (i != at);
	config_errors_add(errors,
		"%s: sessions wait for each other to start, by After= or "
		"Order=: %s",
		specs[at]->origin ? specs[at]->origin : specs[at]->name, text);
}

/* Of those that are left each has one before it: go back until it is round. */
static void
find_cycle(struct session_spec *const *specs, const struct start_edge *e,
	size_t n_edges, uint32_t n, struct look *l,
	struct config_errors *errors)
{
	uint32_t at = n;

	for (size_t k = 0; k < n_edges; k++)
		if (l->n_before[e[k].before] && l->n_before[e[k].after]) {
			l->next[e[k].after] = e[k].before;
			at = e[k].after;
		}
	if (at == n)
		return;
	for (uint32_t i = 0; i < n; i++)
		at = l->next[at];
	tell_cycle(specs, l, at, errors);
}

static int
check_cycles(struct session_spec *const *specs, size_t n, struct start_edge *e,
	size_t n_edges, struct config_errors *errors)
{
	uint32_t *room = calloc(4 * n + 1, sizeof(*room));
	struct look l = {room, room + n, room + 2 * n, room + 3 * n};

	if (!room)
		return err_raise(-ENOMEM);
	if (n_edges > 1)
		qsort(e, n_edges, sizeof(*e), edge_compare);
	for (uint32_t i = 0; i < n; i++)
		l.first[i] = (uint32_t)n_edges;
	for (size_t k = n_edges; k-- > 0;) {
		l.first[e[k].before] = (uint32_t)k;
		l.n_before[e[k].after]++;
	}
	peel(e, n_edges, (uint32_t)n, &l);
	find_cycle(specs, e, n_edges, (uint32_t)n, &l, errors);
	free(room);
	return 0;
}

int
ordering_check(struct session_spec *const *specs, size_t n,
	struct config_errors *errors)
{
	struct start_edge *edges = NULL;
	size_t n_edges = 0;
	int r = check_names(specs, n, errors);

	if (!r)
		r = ordering_edges(specs, n, &edges, &n_edges);
	if (!r && n_edges)
		r = check_cycles(specs, n, edges, n_edges, errors);
	free(edges);
	return r;
}

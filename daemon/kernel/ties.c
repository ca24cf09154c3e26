#include "kernel/ties.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/fault.h"
#include "kernel/claim.h"
#include "kernel/crowd.h"
#include "kernel/names.h"
#include "kernel/sched.h"
#include "kernel/tie.h"

enum { NUMBER_BITS = 24 }; /* of the place */

static uint32_t
most(const struct session *s)
{
	return atomic_load(&s->home)->kernel->limits.max_watches;
}

struct ties *
ties_get(struct session *s)
{
	struct ties *t = s->ties;

	if (t)
		return t;
	t = FAULT(ties_get) ? NULL : calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	list_init(&t->ends);
	list_init(&t->claims);
	list_init(&t->names);
	list_init(&t->crowds);
	s->ties = t;
	return t;
}

int
ties_check(const struct session *s)
{
	if (s->life >= SESSION_STOPPING)
		return TIE_E_ENDING;
	return s->ties && s->ties->n >= most(s) ? TIE_E_LIMIT : 0;
}

int
ties_unwatch(struct session *s, uint64_t number)
{
	if (!names_unwatch(s, number))
		return 0;
	return tie_unwatch(s, number);
}

int
ties_cut(struct session *s, uint64_t number)
{
	if (!names_unwatch(s, number))
		return 0;
	return tie_cut(s, number);
}

int
ties_trap(struct session *s, bool on)
{
	if (!ties_get(s))
		return err_raise(-ENOMEM);
	s->ties->trap = on;
	return 0;
}

/* ---- numbers ----------------------------------------------------------- */

static int
places_grow(struct ties *t)
{
	uint32_t n = t->n_places ? t->n_places * 2 : 4;
	struct tie_place *places;

	if (n >> NUMBER_BITS)
		return err_raise(-ENOMEM);
	places = FAULT(tie_places)
			 ? NULL
			 : reallocarray(t->places, n, sizeof(*places));
	if (!places)
		return err_raise(-ENOMEM);
	for (uint32_t i = n; i-- > t->n_places;) {
		places[i] = (struct tie_place){.serial = 1, .next = t->free};
		t->free = i + 1;
	}
	t->places = places;
	t->n_places = n;
	return 0;
}

int
ties_number(struct ties *t, void *what, enum tie_kind kind, uint64_t *number)
{
	struct tie_place *place;
	uint32_t i;

	if (!t->free && places_grow(t))
		return -ENOMEM;
	i = t->free - 1;
	place = &t->places[i];
	t->free = place->next;
	place->what = what;
	place->kind = kind;
	*number = (uint64_t)place->serial << NUMBER_BITS | i;
	return 0;
}

static struct tie_place *
place_of(const struct ties *t, uint64_t number)
{
	uint64_t i = number & ((1u << NUMBER_BITS) - 1);
	struct tie_place *place = i < t->n_places ? &t->places[i] : NULL;

	return place && place->kind && place->serial == number >> NUMBER_BITS
		       ? place
		       : NULL;
}

void *
ties_find(const struct ties *t, uint64_t number, enum tie_kind kind)
{
	const struct tie_place *place = t ? place_of(t, number) : NULL;

	return place && place->kind == kind ? place->what : NULL;
}

void
ties_number_give(struct ties *t, uint64_t number)
{
	struct tie_place *place = place_of(t, number);

	if (!place)
		return;
	place->what = NULL;
	place->kind = TIE_KIND_FREE;
	place->serial++;
	place->next = t->free;
	t->free = (uint32_t)(place - t->places) + 1;
}

/* ---- words ------------------------------------------------------------- */

int
ties_status(int r)
{
	switch (r) {
	case 0:
		return EVD_STATUS_OK;
	case TIE_E_LIMIT:
		return EVD_STATUS_LIMIT;
	case TIE_E_NONE:
		return EVD_STATUS_NOT_FOUND;
	case TIE_E_SELF:
	case TIE_E_ENDING:
	case TIE_E_PATTERN:
		return EVD_STATUS_INVALID;
	default:
		return EVD_STATUS_NO_MEMORY;
	}
}

const char *
ties_explain(const struct session *s, int r, char *text, size_t size)
{
	const char *name = session_name(s);

	switch (r) {
	case TIE_E_LIMIT:
		snprintf(text, size,
			"the %s%s has %" PRIu32
			" watches, links and claims (MaxWatches= in "
			"eventd.conf)",
			*name ? "session " : "connection", name, most(s));
		break;
	case TIE_E_SELF:
		snprintf(text, size, "a session does not watch itself");
		break;
	case TIE_E_ENDING:
		snprintf(text, size, "the session is about to end");
		break;
	case TIE_E_NONE:
		snprintf(text, size, "no such watch");
		break;
	case TIE_E_PATTERN:
		snprintf(text, size,
			"a pattern is 1 to 255 of A-Z a-z 0-9 _ . / - and at "
			"most one *");
		break;
	default:
		snprintf(text, size, "out of memory");
		break;
	}
	return text;
}

size_t
ties_memory(const struct session *s)
{
	const struct ties *t = s->ties;

	if (!t)
		return 0;
	return sizeof(*t) + t->n_places * sizeof(*t->places) +
	       claims_memory(s) + crowds_memory(s) + tie_memory(s) +
	       (list_is_empty(&t->names) ? 0 : names_memory(s));
}

#pragma once
/* Ties: all that a session has to do with others: the ends of its watches and
 * links (tie.h), its claims on aliases (claim.h), the names that it watches
 * (names.h). Few sessions have any of it. What a session asks for itself is
 * counted and limited by MaxWatches=, whatever it is. The session's thread. */
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct session;

enum {
	TIE_E_LIMIT = 1,   /* MaxWatches= are there */
	TIE_E_NONE = 2,    /* no such watch, or link */
	TIE_E_SELF = 3,    /* a session does not watch itself */
	TIE_E_ENDING = 4,  /* the session is about to end itself */
	TIE_E_PATTERN = 5, /* not a pattern of names */
};

enum tie_kind {
	TIE_KIND_FREE,
	TIE_KIND_END,   /* struct tie_end */
	TIE_KIND_NAMES, /* struct names_watch */
};

/* What has a number has a place; others are free. */
struct tie_place {
	void *what;
	enum tie_kind kind;
	uint32_t serial;
	uint32_t next; /* free: place + 1; 0: none */
};

struct ties {
	struct list ends;   /* struct tie_end */
	struct list claims; /* struct claim */
	struct list names;  /* struct names_watch */
	struct list crowds; /* struct crowd_tie */
	struct tie_place *places;
	uint32_t n_places, free; /* place + 1 */
	uint32_t n;              /* asked for by this session */
	uint32_t n_ends;
	/* of those: */
	uint32_t n_watches;  /* of sessions and names, asked for */
	uint32_t n_watchers; /* that others have of it */
	uint32_t n_links;    /* whoever asked */
	uint32_t n_claims;   /* places in line */
	uint32_t n_crowds;   /* that it has joined, or asked to */
	uint32_t n_told;     /* `_name` that it has not taken yet */
	bool trap;
};

/* Those of @s, made if need be; NULL: out of memory. */
struct ties *ties_get(struct session *s);
/* May @s ask for one more? 0, TIE_E_LIMIT or TIE_E_ENDING. */
int ties_check(const struct session *s);
/* End a watch of whatever kind: 0 or TIE_E_NONE. What is on its way comes. */
int ties_unwatch(struct session *s, uint64_t number);
/* The same, or a link. */
int ties_cut(struct session *s, uint64_t number);
/* Does @s live on when one that it is linked with fails? -ENOMEM. */
int ties_trap(struct session *s, bool on);

int ties_status(int r); /* EVD_STATUS_* of a TIE_E_* or errno */
/* Why, for people. Returns @text, of @size bytes. */
const char *ties_explain(
	const struct session *s, int r, char *text, size_t size);

/* ---- for the kernel's own files -------------------------------------- */

/* A number for @what: 0 or -ENOMEM. It means something in this life of the
 * session alone. */
int ties_number(
	struct ties *t, void *what, enum tie_kind kind, uint64_t *number);
/* What has that number, or NULL. */
void *ties_find(const struct ties *t, uint64_t number, enum tie_kind kind);
void ties_number_give(struct ties *t, uint64_t number);
/* Bytes held for what @s has asked for. */
size_t ties_memory(const struct session *s);

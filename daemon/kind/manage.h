#pragma once
/* Manage: what a session asks of a mailbox, of dead letters or of a profile,
 * its own or another's, on whatever loop that lives. It is carried out there;
 * the answer comes as the reply to a call, as bytes that are read below.
 *
 * A session manages itself and its children, and others only if its file says
 * ManageOthers=yes. Its home's thread. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/dead.h"

enum manage_op {
	MANAGE_PAUSE,
	MANAGE_RESUME,
	MANAGE_PEEK,
	MANAGE_PURGE,
	MANAGE_MOVE,
	MANAGE_LETTERS, /* a list of dead ones */
	MANAGE_LETTER,  /* one, with its payload */
	MANAGE_REQUEUE,
	MANAGE_FORGET,
	MANAGE_PROFILE,
};

enum {
	MANAGE_TEXT = 512,
	MANAGE_IDS_MAX = 1000, /* letters named at once */
	MANAGE_PAGE = 100,     /* entries, if no limit is given */
	MANAGE_PAGE_MAX = 1000,
	MANAGE_BYTES_MAX = 4096, /* of each payload in a page */
};

/* What is asked; the rest is 0. Strings are borrowed. */
struct manage_args {
	uint64_t session;        /* whose; of letters 0: anybody's */
	const char *alias;       /* letters of this alias; NULL: any */
	const char *to;          /* move, requeue: an alias; NULL: as it was */
	const char *event;       /* purge: of this name; NULL: all */
	const uint64_t *ids;     /* n_ids letters; or one event, to peek at */
	size_t n_ids;            /* 0: all that match */
	uint64_t after;          /* a page begins behind this */
	uint32_t limit, bytes;   /* of a page; limit also of a move */
	enum dead_reason reason; /* of letters */
	int set;                 /* profile: on if above 0, off if below */
};

/* May @s manage the session @id? 0 asks for all. */
bool manage_may(const struct session *s, uint64_t id);
/* Ask; ops.reply(@token) tells. EVD_STATUS_*, and why in @text. */
int manage_ask(struct session *s, enum manage_op op,
	const struct manage_args *args, uint64_t token, char text[MANAGE_TEXT]);

/* ---- answers ------------------------------------------------------------- */

struct manage_answer {
	const uint8_t *at, *end;
	uint64_t n;      /* entries that follow, or events or letters changed */
	uint64_t next;   /* the page that follows begins behind this; 0: none */
	uint64_t left;   /* not moved, or letters that could not be changed */
	uint64_t status; /* EVD_STATUS_* of the first of those */
	bool on;         /* paused; profiled */
	const char *text; /* and why */
};

/* Strings have a NUL behind them and are good as long as the answer. */
struct manage_event {
	uint64_t position, id, from, size, attempt;
	bool call, urgent;
	const char *event, *data;
	uint64_t event_size, data_size;
};

struct manage_letter {
	uint64_t id, event_id, from, session, size, attempt, time_ns, status;
	const char *reason, *alias, *event, *text, *data;
	uint64_t data_size;
};

struct manage_row {
	const char *event;
	uint64_t calls, own_ns, whole_ns, wait_ns, wait_max_ns;
	uint64_t n_late, late_ns, late_max_ns;
};

/* False: it is none, nor is there another entry. */
bool manage_open(struct manage_answer *a, const void *data, size_t size);
bool manage_next_event(struct manage_answer *a, struct manage_event *e);
bool manage_next_letter(struct manage_answer *a, struct manage_letter *l);
bool manage_next_row(struct manage_answer *a, struct manage_row *row);

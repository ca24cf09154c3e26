#pragma once
/* History: what became of events, so that it can be told. Who asks for it with
 * its post (msg_extra.traced), durable events, and all that come to a bad end
 * leave a line here for each step. A plain event that is handled leaves none,
 * and costs nothing.
 *
 * Each scheduler has its own: pieces of memory that are filled one after the
 * other, the oldest of which goes when there are too many (History=). With a
 * store they are written there too, about once a second, and are read back by
 * the next run. Its thread. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/sched.h"
#include "kernel/store.h"

enum history_step {
	HISTORY_ACCEPTED = 1, /* who: its sender */
	HISTORY_DELIVERED,    /* who: its session; text: to which client */
	HISTORY_RETURNED,     /* ns: it rests for so long; text: why */
	HISTORY_ENDED,        /* ns: since it was given to who */
	HISTORY_RESTORED,     /* it was found in the store */
	/* 6 is a dead letter's, on the wire. */
	HISTORY_REPEATED = 7, /* its key was known; text: whose it is */
	HISTORY_STEPS,
};

/* As it lies there and in the store, little-endian; then its texts. */
struct history_line {
	uint64_t id, time_ns; /* wall clock */
	uint64_t who, ns;
	uint32_t status;
	uint16_t size;   /* of all, a multiple of 8 */
	uint8_t step;    /* enum history_step */
	uint8_t attempt; /* times that it had been given to somebody before */
	uint8_t end;     /* ENDED: enum msg_end */
	uint8_t alias_size, event_size, text_size;
	uint32_t reserved;
	char texts[]; /* alias, event, why, each with its NUL */
};

static inline const char *
history_alias(const struct history_line *line)
{
	return line->texts;
}

static inline const char *
history_event(const struct history_line *line)
{
	return line->texts + line->alias_size + 1;
}

static inline const char *
history_text(const struct history_line *line)
{
	return line->texts + line->alias_size + line->event_size + 2;
}

/* ---- writing, for events with an extra; others are passed over ----------- */

void history_accepted(
	struct sched *s, const struct session *t, const struct msg *m);
/* It has left the mailbox to be handled. */
void history_taken(struct sched *s, const struct msg *m);
/* To @to, a client, or NULL: to the handler of @t. The second word for one
 * delivery is none. */
void history_delivered(struct sched *s, const struct session *t,
	const struct msg *m, const char *to);
void history_returned(struct sched *s, const struct session *t,
	const struct msg *m, uint64_t rest_ns, const char *why);
void history_restored(
	struct sched *s, const struct session *t, const struct msg *m);
/* Its key is that of the event @first, or, if 0, one of another run. */
void history_repeated(struct sched *s, const struct session *t,
	const struct msg *m, uint64_t first);
/* Any event: what ends badly is told of. @owner may be NULL: then it was for
 * @alias. */
struct history_end {
	enum msg_end end;
	int status;
	const char *text, *alias;
};
void history_ended(struct sched *s, const struct session *owner,
	const struct msg *m, const struct history_end *end);

/* ---- reading ------------------------------------------------------------- */

/* The next line of the event @id behind @after, or, if that is NULL, the first;
 * NULL: there is no more. They are good until the thread does anything else. */
const struct history_line *history_next(
	struct sched *s, uint64_t id, const struct history_line *after);
void history_free(struct sched *s);

/* ---- in the store: history_store.c --------------------------------------- */

enum { HISTORY_PIECE = 8192 };

struct history_piece {
	struct history_piece *next; /* younger */
	uint64_t no;                /* in the store; 0: it never was there */
	uint32_t used, saved;       /* bytes; so many are in the store */
	bool keeps;                 /* it tells of durable events */
	_Alignas(8) uint8_t bytes[HISTORY_PIECE];
};

struct history {
	struct history_piece *first, *last;
	const struct history_line *newest; /* NULL: none of this run */
	uint32_t n, max;
	struct timer timer; /* TIMER_HISTORY: it is to be written */
	bool writing;
	uint64_t *gone; /* numbers to be erased, n_gone of them */
	uint32_t n_gone, gone_room;
};

/* NULL: out of memory, or none is to be kept. */
struct history *history_of(struct sched *s);
/* @h->first goes. */
void history_drop_first(struct history *h);
/* There is something to be written, soon. */
void history_touch(struct sched *s);
void history_due(struct sched *s, struct timer *timer);
/* Write it now. */
void history_flush(struct sched *s);
/* What other runs left; before anything else is there. */
void history_load(struct sched *s);

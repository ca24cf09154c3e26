#pragma once
/* Dead letters: events that came to a bad end, each kept with its reason, as
 * many as the bounds allow. When they are too many, the oldest of the reason
 * that has most of them is forgotten, so that a flood of one kind leaves the
 * others be. They are a record: the event itself has been counted as ended.
 *
 * Each scheduler has its own; its thread. */
#include <stdint.h>

#include "kernel/sched.h"

struct dead {
	struct dead *next; /* of the same reason, younger */
	struct msg *msg;   /* NULL while it is being made */
	uint64_t id;       /* of the letter, rising on one scheduler */
	uint64_t time_ns;  /* wall clock */
	uint64_t session;  /* it was for; 0: none */
	uint64_t no;       /* in the store; 0: it is not there */
	int status;
	uint8_t reason; /* enum dead_reason */
	uint8_t alias_size;
	char alias[]; /* and its NUL, then why, and a NUL */
};

static inline const char *
dead_text(const struct dead *d)
{
	return d->alias + d->alias_size + 1;
}

static inline unsigned
dead_sched(uint64_t id)
{
	return id & 63;
}

/* "overflow", "no-alias" ... */
const char *dead_word(enum dead_reason reason);
/* The reason called @word, or DEAD_NONE. */
enum dead_reason dead_reason_of(const char *word);

/* How an event came to its end. */
struct dead_end {
	enum dead_reason reason;
	int status;
	const char *text;  /* why, or NULL */
	const char *alias; /* it was for; NULL: that of its session */
};

/* What is known of an end before the poster is told of it: a letter without
 * its event, or NULL: none is kept. Also sends the copy that DeadLetter= of
 * @owner asks for. */
struct dead *dead_new(struct sched *s, const struct session *owner,
	const struct msg *m, const struct dead_end *end);
/* Keep @m with it. Both are taken over. */
void dead_keep(struct sched *s, struct dead *d, struct msg *m);
/* A letter of the durable mailbox of @t, as it was stored under @no. */
void dead_restore(struct sched *s, struct session *t, uint64_t no,
	const uint8_t *data, size_t size);
/* A post by name that nobody could be given. Takes @m; its poster is told by
 * the caller, who may count it. */
void dead_no_alias(struct sched *s, struct msg *m, const char *alias);

/* For dead_store.c: a letter without an event; NULL: out of memory. Those of
 * durable mailboxes are in the store as well. */
struct dead *dead_letter_new(const char *alias, const char *text);
void dead_store(struct sched *s, struct dead *d);
void dead_unstore(struct sched *s, struct dead *d);

/* The first letter with a greater id than @after, of @reason or, if that is
 * DEAD_NONE, any; NULL: there is none. */
struct dead *dead_next(
	struct sched *s, uint64_t after, enum dead_reason reason);
struct dead *dead_find(struct sched *s, uint64_t id);
/* Forget it. */
void dead_drop(struct sched *s, struct dead *d);
/* Post its event again, to the session @to; the letter is gone on success. 0 or
 * SCHED_E_*. */
int dead_requeue(struct sched *s, struct dead *d, uint64_t to);
void dead_deinit(struct sched *s);

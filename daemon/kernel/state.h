#pragma once
/* Durable state: a few named values of a session whose mailbox is durable, kept
 * in the store. What a handler changes is written with the end of the event
 * that it handles, in one job: after a crash, of the session or of the daemon,
 * both have happened or neither.
 *
 * Values are in memory from the session's start on. Its home's thread, or
 * whoever holds that. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct journal;
struct session;
struct state;
struct store_row;

enum {
	STATE_KEY_MAX = 127,
	STATE_COST = 64, /* bytes that each counts for beside its own */
};

enum {
	STATE_E_NONE = 1,     /* there is no such value */
	STATE_E_VOLATILE = 2, /* the mailbox is not durable */
	STATE_E_FULL = 3,     /* DurableState= has been reached */
	STATE_E_MANY = 4,     /* handlers run side by side: Concurrency= */
	STATE_E_KEY = 5,      /* 1 to STATE_KEY_MAX bytes */
};

struct state_value {
	const void *data; /* good until it is changed */
	uint32_t size;
};

/* 0 or STATE_E_NONE. */
int state_get(const struct session *t, const char *key, size_t key_size,
	struct state_value *out);
/* @data NULL: there is to be none. 0, STATE_E_* or -ENOMEM: nothing has
 * changed. */
int state_set(struct session *t, const char *key, size_t key_size,
	const void *data, size_t size);
/* The value behind the one called @key, or the first if that is NULL; in the
 * order in which they were made. 0 or STATE_E_NONE. */
int state_next(const struct session *t, const char *key, size_t key_size,
	const char **next, size_t *next_size, struct state_value *out);

/* What has been changed since is kept, with what ends in this turn, or undone.
 */
void state_commit_it(struct session *t);
void state_rollback(struct session *t);
/* A value of another run. */
void state_restore(struct session *t, const struct store_row *row);
void state_free(struct session *t);

uint32_t state_count(const struct session *t);
/* Bytes, as DurableState= counts. */
uint64_t state_size(const struct session *t);

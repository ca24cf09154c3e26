#pragma once
/* Answers: one question to many sessions, and what they said. The home's
 * thread of who asks. */
#include <stdbool.h>
#include <stdint.h>

struct answers;
struct msg;
struct session;

enum {
	ANSWERS_MAX = 1024,          /* asked at once */
	ANSWERS_SIZE_MAX = 16 << 20, /* bytes of what is kept of them */
};
/* In tokens of such calls; the rest is the place of the answer. */
#define ANSWERS_TOKEN (UINT64_C(1) << 62)

struct answer {
	struct answers *all;
	uint64_t call; /* 0: answered */
	int status;    /* 0 or EVD_STATUS_*; then data is a text */
	uint32_t size;
	char *data; /* NUL-terminated, malloc'd; NULL: out of memory */
};

struct answers {
	uint32_t n, n_left, n_good, n_wanted;
	uint64_t size;
	struct answer at[];
};

/* For @n questions, over when @n_wanted were answered well. NULL: out of
 * memory. */
struct answers *answers_new(uint32_t n, uint32_t n_wanted);
struct answers *answers_free(struct answers *a);
/* Ask as number @i, by session_call(); consumes @m, which may be NULL: out of
 * memory. What fails at once is an answer. */
void answers_ask(struct answers *a, uint32_t i, struct session *s,
	struct msg *m, uint32_t timeout_ms);
static inline bool
answers_are_over(const struct answers *a)
{
	return !a->n_left || a->n_good >= a->n_wanted;
}
/* A reply came by @token: those that it is one of. */
struct answers *answers_take(uint64_t token, const struct msg *reply);
/* It is over: whoever has not answered is cancelled. */
void answers_close(struct answers *a, struct session *s);

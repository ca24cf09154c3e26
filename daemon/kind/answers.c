#include "kind/answers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/sched.h"
#include "proto/status.h"

struct answers *
answers_new(uint32_t n, uint32_t n_wanted)
{
	struct answers *a = calloc(1, sizeof(*a) + n * sizeof(a->at[0]));

	if (!a)
		return NULL;
	a->n = a->n_left = n;
	a->n_wanted = n_wanted;
	for (uint32_t i = 0; i < n; i++)
		a->at[i].all = a;
	return a;
}

struct answers *
answers_free(struct answers *a)
{
	for (uint32_t i = 0; a && i < a->n; i++)
		free(a->at[i].data);
	free(a);
	return NULL;
}

static void
put(struct answer *answer, int status, const void *data, size_t size)
{
	struct answers *a = answer->all;
	static const char too_much[] = "the answers are over 16 MiB";

	if (a->size + size > ANSWERS_SIZE_MAX) {
		status = EVD_STATUS_TOO_LARGE;
		data = too_much;
		size = sizeof(too_much) - 1;
	}
	answer->call = 0;
	answer->status = status;
	answer->data = malloc(size + 1);
	if (answer->data) {
		if (size)
			memcpy(answer->data, data, size);
		answer->data[size] = '\0';
		answer->size = (uint32_t)size;
	} else {
		answer->status = EVD_STATUS_NO_MEMORY;
	}
	a->size += answer->size;
	a->n_left--;
	a->n_good += !answer->status;
}

void
answers_ask(struct answers *a, uint32_t i, struct session *s, struct msg *m,
	uint32_t timeout_ms)
{
	struct sched *sched = atomic_load(&s->home);
	struct answer *answer = &a->at[i];
	uint64_t to = m ? m->to : 0;
	char text[512];
	int r = m ? session_call(s, m, (uintptr_t)answer | ANSWERS_TOKEN,
			    timeout_ms, &answer->call)
		  : -ENOMEM;

	if (!r)
		return;
	msg_free(&sched->pool, m);
	sched_explain(sched, r, to, text, sizeof(text));
	put(answer, sched_status(r), text, strlen(text));
}

struct answers *
answers_take(uint64_t token, const struct msg *reply)
{
	struct answer *answer =
		(struct answer *)(uintptr_t)(token & ~ANSWERS_TOKEN);

	put(answer, (int)msg_status(reply), msg_payload(reply), reply->size);
	return answer->all;
}

void
answers_close(struct answers *a, struct session *s)
{
	static const char text[] = "enough others have answered";

	for (uint32_t i = 0; i < a->n; i++) {
		if (!a->at[i].call)
			continue;
		session_cancel_call(s, a->at[i].call);
		put(&a->at[i], EVD_STATUS_CANCELLED, text, sizeof(text) - 1);
	}
}

/* Gather: one question to many sessions, and waiting for their answers.
 * Belongs to the thread that uses the handle; answers to whoever owns them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "status.h"

enum { ASKED_MAX = 1024 };

struct answer {
	char *alias;
	uint64_t call; /* 0: answered */
	int status;
	struct evd_event *reply; /* a copy; NULL: out of memory, or not asked */
};

struct evd_answers {
	size_t n, n_left, n_good, n_wanted;
	struct answer at[];
};

struct evd_answers *
evd_answers_free(struct evd_answers *a)
{
	for (size_t i = 0; a && i < a->n; i++) {
		free(a->at[i].alias);
		evd_event_free(a->at[i].reply);
	}
	free(a);
	return NULL;
}

static struct evd_answers *
answers_new(const char *const *aliases, size_t n, size_t n_wanted)
{
	struct evd_answers *a = calloc(1, sizeof(*a) + n * sizeof(a->at[0]));

	if (!a)
		return NULL;
	a->n = a->n_left = n;
	a->n_wanted = n_wanted && n_wanted < n ? n_wanted : n;
	for (size_t i = 0; i < n; i++) {
		a->at[i].alias = strdup(aliases[i]);
		if (!a->at[i].alias)
			return evd_answers_free(a);
	}
	return a;
}

/* ---- answers that come ---- */

static void
answered(struct evd *c, struct answer *answer, int status)
{
	struct evd_answers *a = c->sync.answers;

	answer->call = 0;
	answer->status = status;
	a->n_left--;
	a->n_good += status == 0;
	if (!a->n_left || a->n_good >= a->n_wanted)
		c->sync.done = true;
}

void
evd__answers_take(struct evd *c, size_t i, const struct evd_event *reply)
{
	struct evd_answers *a = c->sync.answers;

	if (!a || i >= a->n || !a->at[i].call)
		return;
	a->at[i].reply = evd__event_copy(reply);
	answered(c, &a->at[i],
		a->at[i].reply ? reply->status : EVD_STATUS_NO_MEMORY);
}

static void
end_all(struct evd *c, int status)
{
	struct evd_answers *a = c->sync.answers;

	for (size_t i = 0; i < a->n; i++)
		if (a->at[i].call)
			answered(c, &a->at[i], status);
}

void
evd__answers_lost(struct evd *c)
{
	end_all(c, EVD_STATUS_LOST);
	c->sync.status = EVD_STATUS_LOST;
	c->sync.done = true;
}

/* ---- asking ---- */

static int
ask_all(struct evd *c, struct message *m, const struct evd_call_options *opt)
{
	struct evd_answers *a = c->sync.answers;

	for (size_t i = 0; i < a->n; i++) {
		int64_t r;

		m->alias = a->at[i].alias;
		r = evd__call_send(c, m, opt, CALL_GATHER, i);
		if (r < 0)
			return (int)r;
		a->at[i].call = (uint64_t)r;
	}
	return 0;
}

/* Nobody waits for those that have not answered. */
static void
forget_rest(struct evd *c, int status)
{
	struct evd_answers *a = c->sync.answers;

	for (size_t i = 0; i < a->n; i++) {
		struct slot *slot =
			a->at[i].call ? slots_find(&c->calls, a->at[i].call)
				      : NULL;

		if (!slot)
			continue;
		slots_remove(&c->calls, slot);
		if (c->state == CONN_READY)
			evd__call_cancel(c, a->at[i].call);
	}
	end_all(c, status);
	evd__write(c);
}

static int
wait_for(struct evd *c, const struct evd_call_options *opt)
{
	uint32_t ms = evd__call_timeout(c, opt->timeout_ms);
	int64_t deadline = INT64_MAX;
	int r;

	if (ms && ms != UINT32_MAX)
		deadline = evd__now_ns() +
			   ((int64_t)ms + CALL_SLACK_MS) * INT64_C(1000000);
	r = evd__sync_wait(c, deadline, "answer the calls");
	forget_rest(
		c, r == -ETIMEDOUT ? EVD_STATUS_TIMEOUT : EVD_STATUS_CANCELLED);
	return r == -ETIMEDOUT ? 0 : r;
}

static int
check(struct evd *c, const char *const *aliases, size_t n)
{
	int r = 0;

	if (!n || n > ASKED_MAX)
		return evd__fail(c, EVD_STATUS_INVALID,
			"%zu aliases to ask: use 1 to %d", n, ASKED_MAX);
	for (size_t i = 0; i < n && !r; i++)
		r = evd__alias_check(c, aliases[i]);
	return r;
}

static int
gather(struct evd *c, struct message *m, const struct evd_call_options *opt)
{
	int r = ask_all(c, m, opt);

	if (!r)
		return wait_for(c, opt);
	forget_rest(c, EVD_STATUS_CANCELLED);
	return r;
}

/* Eight parameters: those of a plain call, and how many are asked. */
int
evd_gather(struct evd *c, const char *const *aliases, size_t n,
	const char *event, const void *data, size_t size,
	const struct evd_call_options *opt, struct evd_answers **out)
{
	struct message m = {NULL, 0, event, data, size, 0};
	struct evd_call_options o;
	struct evd_answers *a;
	int r;

	EVD_CHECK(c);
	r = evd__call_options(c, opt, &o);
	if (!r)
		r = check(c, aliases, n);
	if (r)
		return r;
	a = answers_new(aliases, n, o.n_wanted);
	if (!a)
		return evd__fail(c, EVD_STATUS_NO_MEMORY, "out of memory");
	memset(&c->sync, 0, sizeof(c->sync));
	c->sync.answers = a;
	r = gather(c, &m, &o);
	memset(&c->sync, 0, sizeof(c->sync));
	if (r) {
		evd_answers_free(a);
		return r;
	}
	*out = a;
	return (int)a->n_good;
}

/* ---- reading them ---- */

size_t
evd_answers_count(const struct evd_answers *a)
{
	return a->n;
}

const char *
evd_answers_alias(const struct evd_answers *a, size_t i)
{
	return i < a->n ? a->at[i].alias : "";
}

int
evd_answers_status(const struct evd_answers *a, size_t i)
{
	return i < a->n ? a->at[i].status : EVD_STATUS_NOT_FOUND;
}

const void *
evd_answers_data(const struct evd_answers *a, size_t i, size_t *size)
{
	const struct answer *answer = i < a->n ? &a->at[i] : NULL;
	const char *text = "";

	if (answer && answer->reply) {
		*size = evd_event_size(answer->reply);
		return evd_event_data(answer->reply);
	}
	if (answer && answer->status)
		text = status_text(answer->status);
	*size = strlen(text);
	return text;
}

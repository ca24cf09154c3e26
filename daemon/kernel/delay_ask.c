#include "kernel/delay_ask.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/calendar.h"
#include "base/err.h"
#include "base/fault.h"
#include "kernel/delays.h"
#include "kernel/journal.h"
#include "kernel/sched.h"

enum { HOPS_MAX = 8 };

struct ask {
	struct sched_task task;
	struct journal_wait ready;
	struct delay_told told;
	struct delay_init init;
	uint64_t call;
	unsigned n_hops;
	uint8_t bytes[]; /* what init refers to */
};

static void
ask_free(struct ask *ask)
{
	calendar_unref(ask->init.calendar);
	free(ask);
}

static void
refuse(struct sched *s, struct ask *ask, int status, const char *text)
{
	sched_reply(s, ask->call, status, text, (uint32_t)strlen(text));
	ask_free(ask);
}

static void
refuse_for(struct sched *s, struct ask *ask, int r)
{
	switch (r) {
	case DELAY_E_NO_ALIAS:
		refuse(s, ask, EVD_STATUS_NO_ALIAS,
			"no session holds the alias");
		break;
	case DELAY_E_LIMIT:
		refuse(s, ask, EVD_STATUS_LIMIT,
			"too many timers are set (MaxTimers=)");
		break;
	case DELAY_E_NEVER:
		refuse(s, ask, EVD_STATUS_INVALID,
			"the calendar has no time to come");
		break;
	case DELAY_E_STORE:
		refuse(s, ask, EVD_STATUS_IO, "the store cannot take a timer");
		break;
	default:
		refuse(s, ask, EVD_STATUS_NO_MEMORY, "out of memory");
	}
}

static void
on_told(struct delay_told *told, struct sched *s, int r)
{
	struct ask *ask = container_of(told, struct ask, told);
	struct delay_answer answer = {told->id, told->replaced};

	if (r) {
		refuse_for(s, ask, r);
		return;
	}
	sched_reply(s, ask->call, EVD_STATUS_OK, &answer, sizeof(answer));
	ask_free(ask);
}

static void
on_ready(struct journal_wait *w, struct sched *s)
{
	struct ask *ask = container_of(w, struct ask, ready);

	sched_run_on(s, s, &ask->task);
}

static struct session *
target_of(struct kernel *k, const struct delay_init *init)
{
	const struct alias *alias;

	if (!init->alias)
		return session_find(k, init->to);
	alias = alias_find(&k->aliases, init->alias, init->alias_size);
	return alias ? session_find(k, atomic_load(&alias->holder)) : NULL;
}

/* The session that sets it for itself. */
static struct session *
owner_of(const struct ask *ask, struct session *t)
{
	return ask->init.alias ? NULL : t;
}

static void
set(struct sched *s, struct ask *ask, struct session *t)
{
	int r;

	if (!session_journal(t) && journal_open_partial(t)) {
		refuse(s, ask, EVD_STATUS_UNSUPPORTED, journal_lacks(t));
		return;
	}
	if (!journal_is_ready(t)) {
		ask->ready.ready = on_ready;
		journal_await(t, &ask->ready);
		return;
	}
	ask->told.told = on_told;
	r = delay_set_stored(s, owner_of(ask, t), t, &ask->init, &ask->told);
	if (r)
		refuse_for(s, ask, r);
}

static void
ask_run(struct sched *s, struct sched_task *task)
{
	struct ask *ask = container_of(task, struct ask, task);
	struct session *t = target_of(s->kernel, &ask->init);
	struct sched *home = t ? atomic_load(&t->home) : s;

	if (!t || ask->n_hops > HOPS_MAX) {
		refuse_for(s, ask, DELAY_E_NO_ALIAS);
	} else if (home != s) {
		ask->n_hops++;
		sched_run_on(s, home, task);
	} else {
		set(s, ask, t);
	}
}

static void
ask_drop(struct sched_task *task)
{
	ask_free(container_of(task, struct ask, task));
}

static const void *
copy(uint8_t **end, const void *data, size_t size)
{
	uint8_t *at = *end;

	if (size)
		memcpy(at, data, size);
	at[size] = 0;
	*end += size + 1;
	return at;
}

static struct ask *
ask_new(const struct session *s, const struct delay_init *init)
{
	size_t size = (size_t)init->alias_size + init->event_size + init->size +
		      init->headers_size + init->name_size + 5;
	struct ask *ask =
		FAULT(delay_ask) ? NULL : calloc(1, sizeof(*ask) + size);
	uint8_t *end;

	if (!ask)
		return NULL;
	end = ask->bytes;
	ask->task.run = ask_run;
	ask->task.drop = ask_drop;
	ask->init = *init;
	if (init->alias)
		ask->init.alias = copy(&end, init->alias, init->alias_size);
	ask->init.event = copy(&end, init->event, init->event_size);
	ask->init.data = copy(&end, init->data, init->size);
	ask->init.headers = copy(&end, init->headers, init->headers_size);
	ask->init.name = copy(&end, init->name, init->name_size);
	ask->init.by_alias = init->alias != NULL;
	ask->init.owner = s->id;
	if (init->calendar)
		calendar_ref(init->calendar);
	return ask;
}

int
session_delay(struct session *s, const struct delay_init *init, uint64_t token,
	uint64_t *call)
{
	struct sched *sched = atomic_load(&s->home);
	struct ask *ask = ask_new(s, init);
	int r;

	if (!ask)
		return err_raise(-ENOMEM);
	r = session_sleep(
		s, token, sched->kernel->limits.call_timeout_ms, &ask->call);
	if (r) {
		ask_free(ask);
		return r;
	}
	if (call)
		*call = ask->call;
	/* in a later turn, that the reply is not there too soon */
	sched_run_on(sched, sched, &ask->task);
	return 0;
}

/* Leases that end, and events that rest: what consumers of a mailslot gave back
 * comes again after a while. The thread of the mailslot's home. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "kernel/history.h"
#include "kernel/journal.h"
#include "net/mailslot.h"

static struct sched *
home_of(const struct session *t)
{
	return atomic_load_explicit(&t->home, memory_order_relaxed);
}

void
mailslot_tell_history(struct session *t, const struct msg *m,
	const struct consumer_init *who, const char *name)
{
	char text[CONN_NAME_MAX + 64];

	snprintf(text, sizeof(text), "%s, uid %u, pid %d",
		*name ? name : "a client", (unsigned)who->uid, (int)who->pid);
	history_delivered(home_of(t), t, m, text);
}

enum { DOUBLINGS_MAX = 12 };

/* Given back, and not to be tried yet. It counts as leased. */
struct resting {
	struct resting *next;
	struct msg *msg;
	uint64_t due_ns;
};

/* Look again at @due_ns. */
void
mailslot_wake_at(struct mailslot *slot, uint64_t due_ns)
{
	struct session *t = slot->session;
	uint64_t now = home_of(t)->now_ns;
	uint64_t ms = due_ns > now ? (due_ns - now) / NS_PER_MS + 1 : 1;

	if (due_ns == UINT64_MAX || (slot->wake_ns && slot->wake_ns <= due_ns))
		return;
	if (slot->wake_ns)
		session_forget(t, slot->wake_call);
	slot->wake_ns = due_ns;
	if (session_sleep(t, MAILSLOT_WAKE_TOKEN, ms, &slot->wake_call))
		slot->wake_ns = 0; /* the next delivery tries again */
}

/* It comes again, unless it has been tried too often. */
static void
try_again(struct session *t, struct msg *m)
{
	if (lease_is_last(t, m))
		session_done(t, m, EVD_STATUS_POISON);
	else
		session_return(t, m);
}

static void
rest(struct mailslot *slot, struct msg *m, uint64_t due_ns)
{
	struct resting **link = &slot->resting;
	struct resting *r = malloc(sizeof(*r));

	if (!r) {
		session_return(slot->session, m);
		return;
	}
	while (*link && (*link)->due_ns <= due_ns)
		link = &(*link)->next;
	history_returned(home_of(slot->session), slot->session, m,
		due_ns - home_of(slot->session)->now_ns, "it rests");
	*r = (struct resting){.next = *link, .msg = m, .due_ns = due_ns};
	*link = r;
	journal_rests(m, due_ns);
	mailslot_wake_at(slot, slot->resting->due_ns);
}

void
mailslot_rest(struct session *t, struct msg *m, uint64_t due_ns)
{
	rest(t->state, m, due_ns);
}

/* Doubles with each try. */
static uint64_t
retry_ms(const struct session *t, const struct msg *m)
{
	unsigned shift =
		m->attempt < DOUBLINGS_MAX ? m->attempt : DOUBLINGS_MAX;

	return t->spec->retry_ms << shift;
}

static void
give_back(struct session *t, struct msg *m, uint64_t delay_ms)
{
	struct mailslot *slot = t->state;

	if (!delay_ms || lease_is_last(t, m))
		try_again(t, m);
	else
		rest(slot, m, home_of(t)->now_ns + delay_ms * NS_PER_MS);
	session_wake(t);
}

void
mailslot_try_later(struct session *t, struct msg *m)
{
	give_back(t, m, retry_ms(t, m));
}

/* The leases of @c that have ended; when the next does. */
static uint64_t
leases_end(struct session *t, struct consumer *c)
{
	uint64_t number, next;

	while ((number = lease_ended(&c->lease, home_of(t)->now_ns, &next))) {
		struct msg *m = lease_take(&c->lease, number);

		log_debug("mailslot.lease-ended",
			"session=\"%s\" event_id=%" PRIu64, session_name(t),
			m->id);
		give_back(t, m, retry_ms(t, m));
	}
	return next;
}

static void
leases_look(struct session *t, const struct list *consumers, uint64_t *next)
{
	LIST_FOREACH (node, consumers) {
		uint64_t end = leases_end(
			t, container_of(node, struct consumer, link));

		if (end < *next)
			*next = end;
	}
}

/* What rests goes back, due or @all. */
void
mailslot_rests_end(struct mailslot *slot, bool all)
{
	struct session *t = slot->session;
	struct resting *r;

	while ((r = slot->resting) &&
		(all || r->due_ns <= home_of(t)->now_ns)) {
		slot->resting = r->next;
		session_return(t, r->msg);
		free(r);
	}
}

void
mailslot_look_again(struct session *t)
{
	struct mailslot *slot = t->state;
	uint64_t next = UINT64_MAX;

	slot->wake_ns = 0;
	mailslot_rests_end(slot, false);
	leases_look(t, &slot->consumers, &next);
	leases_look(t, &slot->leaving, &next);
	if (slot->resting && slot->resting->due_ns < next)
		next = slot->resting->due_ns;
	mailslot_wake_at(slot, next);
	session_wake(t);
}

/* When a lease that begins now ends; 0: never. */
uint64_t
mailslot_lease_ns(const struct session *t)
{
	return t->spec->lease_ms
		       ? home_of(t)->now_ns + t->spec->lease_ms * NS_PER_MS
		       : 0;
}

bool
mailslot_give_back(struct session *t, uint64_t conn, uint64_t token,
	uint64_t number, uint64_t delay_ms)
{
	struct mailslot *slot = t->state;
	struct consumer *c = slot ? mailslot_find(slot, conn, token) : NULL;
	struct msg *m = c ? lease_take(&c->lease, number) : NULL;

	if (!m)
		return false;
	give_back(t, m, delay_ms ? delay_ms - 1 : retry_ms(t, m));
	return true;
}

bool
mailslot_extend(struct session *t, uint64_t conn, uint64_t token,
	uint64_t number, uint64_t lease_ms)
{
	struct mailslot *slot = t->state;
	struct consumer *c = slot ? mailslot_find(slot, conn, token) : NULL;
	uint64_t end = lease_ms == UINT64_MAX
			       ? mailslot_lease_ns(t)
			       : home_of(t)->now_ns + lease_ms * NS_PER_MS;

	if (!c || !lease_extend(&c->lease, number, end))
		return false;
	if (end)
		mailslot_wake_at(slot, end);
	return true;
}

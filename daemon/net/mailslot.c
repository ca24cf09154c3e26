#include "net/mailslot.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "kernel/journal.h"
#include "kernel/notice.h"
#include "kernel/queue.h"
#include "net/binding.h"

enum { RETRY_NS = 10 * 1000 * 1000 }; /* without memory */

static struct sched *
home_of(const struct session *t)
{
	return atomic_load_explicit(&t->home, memory_order_relaxed);
}

/* ---- consumers --------------------------------------------------------- */

static struct consumer *
consumer_free(struct sched *s, struct consumer *c)
{
	if (!c)
		return NULL;
	if (c->farewell)
		msg_free(&s->pool, c->farewell);
	if (c->welcome)
		msg_free(&s->pool, c->welcome);
	lease_deinit(&c->lease);
	free(c);
	return NULL;
}

static struct consumer *
consumer_new(struct sched *s, const struct consumer_init *init)
{
	struct consumer *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	list_init(&c->link);
	c->is = *init;
	c->lease.max_events = init->max_events;
	c->lease.max_size = init->max_size;
	if (init->hosted)
		return c; /* which is told in another way */
	c->farewell = msg_new(&s->pool,
		&(struct msg_init){.event = "", .event_static = true});
	if (!c->farewell)
		return consumer_free(s, c);
	c->farewell->to = init->conn;
	msg_wide(c->farewell)->seq = init->token;
	c->farewell->handler = MAIL_UNBOUND;
	return c;
}

struct consumer *
mailslot_find(const struct mailslot *slot, uint64_t conn, uint64_t token)
{
	const struct list *lists[] = {&slot->consumers, &slot->waiting};

	for (unsigned i = 0; i < 2; i++) {
		LIST_FOREACH (node, lists[i]) {
			struct consumer *c =
				container_of(node, struct consumer, link);

			if (c->is.conn == conn && c->is.token == token)
				return c;
		}
	}
	return NULL;
}

static void
consumer_remove(struct mailslot *slot, struct consumer *c, bool died)
{
	slot->n_consumers -= !c->welcome;
	list_remove(&c->link);
	lease_return(&c->lease, slot->session, died);
	if (c->seq)
		fanout_remove(slot, c);
	log_debug("mailslot.unbound", "session=\"%s\" conn=%" PRIu64,
		session_name(slot->session), c->is.conn);
}

/* The first that waits consumes if nobody does. */
static void
consumer_next(struct mailslot *slot)
{
	struct consumer *c;

	if (!list_is_empty(&slot->consumers) || list_is_empty(&slot->waiting))
		return;
	c = container_of(slot->waiting.next, struct consumer, link);
	list_remove(&c->link);
	list_append(&slot->consumers, &c->link);
	slot->n_consumers++;
	sched_note(home_of(slot->session), TAKE(c->welcome));
	session_wake(slot->session);
}

/* It did not ask for it: tell it why. @by: who consumes instead, 0: nobody. */
static void
consumer_dismiss(
	struct mailslot *slot, struct consumer *c, int status, uint64_t by)
{
	struct sched *s = home_of(slot->session);
	struct msg *farewell = TAKE(c->farewell);

	if (c->is.hosted) {
		member_out(slot, c, status);
		return;
	}
	consumer_remove(slot, c, false);
	consumer_free(s, c);
	msg_wide(farewell)->status = (uint32_t)status;
	farewell->id = by;
	sched_note(s, farewell);
}

/* ---- dismissal ---------------------------------------------------------- */

static void
dismiss_all(struct mailslot *slot, struct list *consumers, int status)
{
	LIST_FOREACH (node, consumers)
		consumer_dismiss(slot,
			container_of(node, struct consumer, link), status, 0);
}

void
mailslot_dismiss(struct mailslot *slot, struct consumer *c, int status)
{
	consumer_dismiss(slot, c, status, 0);
}

/* ---- delivery ---------------------------------------------------------- */

/* To another loop goes a copy; @m stays here until it is settled. */
static bool
deliver_copy(struct sched *s, const struct consumer *c, const struct msg *m)
{
	struct msg *copy = msg_clone(&s->pool, m);

	if (!copy)
		return false;
	copy->to = c->is.conn;
	msg_wide(copy)->seq = c->is.token;
	copy->handler = MAIL_DELIVER;
	copy->id = m->id;
	msg_wide(copy)->call = msg_call(m);
	copy->attempt = m->attempt;
	msg_wide(copy)->late_ns = msg_late_ns(m);
	msg_wide(copy)->deadline_ns = msg_deadline_ns(m);
	msg_wide(copy)->due_ns = msg_due_ns(m);
	sched_note(s, copy);
	return true;
}

static bool
deliver(struct mailslot *slot, struct consumer *c, const struct msg *m)
{
	struct sched *s = home_of(slot->session);
	struct session *conn = session_find(s->kernel, c->is.conn);

	if (c->is.hosted)
		return member_lend(slot, c, m);
	if (!conn)
		return false; /* that it has gone is on its way to here */
	if (home_of(conn) != s)
		return deliver_copy(s, c, m);
	return binding_deliver(conn, c->is.token, m);
}

static bool
may_add(const struct session *t, const struct consumer *c, const struct msg *m)
{
	return !t->spec || !t->spec->max_attempts ||
	       lease_may_add(&c->lease, m);
}

static uint64_t
load_of(const struct consumer *c)
{
	return c->lease.delivered - c->lease.settled;
}

/* Of those that may have @m the one that holds the fewest and has waited
 * longest; NULL: none may. */
static struct consumer *
consumer_for(const struct mailslot *slot, const struct msg *m)
{
	struct consumer *best = NULL;

	LIST_FOREACH (node, &slot->consumers) {
		struct consumer *c = container_of(node, struct consumer, link);

		if (c->passed == slot->runs || !lease_has_room(&c->lease) ||
			!may_add(slot->session, c, m) ||
			(best && load_of(c) >= load_of(best)))
			continue;
		best = c;
		if (!load_of(c))
			break;
	}
	return best;
}

/* To one of them: who has it, NULL: nobody takes it now. */
static struct consumer *
hand_out(struct mailslot *slot, const struct msg *m)
{
	struct sched *s = home_of(slot->session);
	struct consumer *c;

	slot->runs++;
	while ((c = consumer_for(slot, m))) {
		bool reserved = lease_reserve(&c->lease);

		if (reserved && deliver(slot, c, m))
			break;
		c->passed = slot->runs;
		if (!reserved) /* out of memory: nobody else wakes it */
			mailslot_wake_at(slot, s->now_ns + RETRY_NS);
	}
	if (c && slot->n_consumers > 1) {
		list_remove(&c->link);
		list_append(&slot->consumers, &c->link);
	}
	return c;
}

static enum session_result
mailslot_run(struct session *t, struct msg *m)
{
	struct mailslot *slot = t->state;
	struct consumer *c;

	if (slot->mode == BIND_FANOUT)
		return fanout_run(t, m);
	c = hand_out(slot, m);

	if (!c)
		return SESSION_HELD;
	if (m->event == notice_gap)
		return SESSION_DONE;
	if (!c->is.hosted)
		msg_uncall(m); /* whoever has the delivery answers it */
	lease_add(&c->lease, m, mailslot_lease_ns(t));
	if (m->flags & MSG_EXTRA)
		mailslot_tell_history(t, m, &c->is, c->is.name);
	if (t->spec->lease_ms)
		mailslot_wake_at(slot, mailslot_lease_ns(t));
	return SESSION_LEASED;
}

/* ---- the session ------------------------------------------------------- */

static enum session_result
mailslot_start(struct session *t)
{
	struct mailslot *slot = calloc(1, sizeof(*slot));

	if (!slot) {
		session_fail(t, "out of memory");
		return SESSION_CRASHED;
	}
	slot->session = t;
	slot->mode = t->spec ? (enum bind_mode)t->spec->mode : BIND_SHARED;
	list_init(&slot->consumers);
	list_init(&slot->waiting);
	list_init(&slot->leaving);
	t->state = slot;
	return SESSION_DONE;
}

static void
mailslot_reply(struct session *t, uint64_t token, struct msg *reply)
{
	(void)reply;
	if (token == MAILSLOT_WAKE_TOKEN)
		mailslot_look_again(t);
}

static void
mailslot_settled(struct session *t, uint64_t seq, uint32_t size, int status,
	const char *text)
{
	const struct mailslot *slot = t->state;
	uint32_t place = seq & PLACE_MASK;
	const struct consumer *c =
		place < slot->n_places ? slot->places[place] : NULL;

	(void)size;
	if (c && c->is.mode == BIND_SHARED)
		member_settled(t, seq, status, text);
	else
		fanout_settled(t, seq);
}

static void
mailslot_stop(struct session *t, bool crashed)
{
	struct mailslot *slot = t->state;

	(void)crashed;
	if (!slot)
		return; /* it could not start */
	dismiss_all(slot, &slot->consumers, EVD_STATUS_DIED);
	dismiss_all(slot, &slot->waiting, EVD_STATUS_DIED);
	LIST_FOREACH (node, &slot->leaving) {
		struct consumer *c = container_of(node, struct consumer, link);

		list_remove(&c->link);
		lease_return(&c->lease, t, false);
		consumer_free(home_of(t), c);
	}
	mailslot_rests_end(slot, true);
	free(slot->places);
	free(slot);
	t->state = NULL;
}

static size_t
mailslot_memory(const struct session *t)
{
	const struct mailslot *slot = t->state;
	size_t size = sizeof(*slot);

	LIST_FOREACH (node, &slot->consumers)
		size += sizeof(struct consumer) +
			container_of(node, struct consumer, link)->lease.size;
	return size;
}

static void
mailslot_note(struct session *t, struct msg *m)
{
	struct sched *s = home_of(t);
	struct mailslot *slot = t->state;
	struct consumer *c = mailslot_find(slot, m->from, msg_seq(m));

	switch ((enum mail_note)m->handler) {
	case MAIL_SETTLED:
		if (c && m->id <= c->lease.delivered) {
			lease_settle(&c->lease, t, m->id);
			session_wake(t);
		}
		break;
	case MAIL_DETACH:
		mailslot_detach(t, m->from, msg_seq(m), m->id != 0);
		break;
	case MAIL_DELIVER:
	case MAIL_UNBOUND:
	case MAIL_ATTACHED:
	case MAIL_CANCELLED:
	case MAIL_GAP:
		break; /* for connections */
	}
	msg_free(&s->pool, m);
}

static void
tell_cancelled(struct sched *s, const struct consumer *c, uint64_t call)
{
	struct msg *m = msg_new(&s->pool,
		&(struct msg_init){.event = "", .event_static = true});

	if (!m)
		return;
	m->to = c->is.conn;
	msg_wide(m)->seq = c->is.token;
	m->id = call;
	m->handler = MAIL_CANCELLED;
	sched_note(s, m);
}

/* Which consumer has it, if any, is known at its connection; here it may be
 * queued yet. */
static bool
mailslot_cancelled(struct session *t, uint64_t call)
{
	struct mailslot *slot = t->state;

	LIST_FOREACH (node, &slot->consumers) {
		struct consumer *c = container_of(node, struct consumer, link);

		if (c->is.hosted)
			member_cancel(home_of(t), c, call);
		else
			tell_cancelled(home_of(t), c, call);
	}
	LIST_FOREACH (node, &slot->leaving)
		member_cancel(home_of(t),
			container_of(node, struct consumer, link), call);
	return false;
}

static bool
has_alias(const struct session *t, const char *name)
{
	for (const struct alias *a = t->aliases; a; a = a->sibling)
		if (!strcmp(a->name, name))
			return true;
	return false;
}

static void
dismiss_without_alias(struct mailslot *slot, struct list *consumers)
{
	LIST_FOREACH (node, consumers) {
		struct consumer *c = container_of(node, struct consumer, link);

		if (!has_alias(slot->session, c->is.alias))
			consumer_dismiss(slot, c, EVD_STATUS_NO_ALIAS, 0);
	}
}

/* Consumers stay, but for those that bound a name that it has no more. */
static void
mailslot_renew(struct session *t)
{
	struct mailslot *slot = t->state;

	if (t->spec && t->spec->mode != slot->mode) {
		dismiss_all(slot, &slot->consumers, EVD_STATUS_TAKEN);
		dismiss_all(slot, &slot->waiting, EVD_STATUS_TAKEN);
		slot->mode = (enum bind_mode)t->spec->mode;
	}
	dismiss_without_alias(slot, &slot->consumers);
	dismiss_without_alias(slot, &slot->waiting);
	consumer_next(slot);
	session_wake(t);
}

/* Another session has taken an alias away. */
static void
mailslot_alias(struct session *t, const char *name, bool held, uint64_t by)
{
	(void)name, (void)by;
	if (!held && t->state)
		mailslot_renew(t);
}

const struct session_ops mailslot_ops = {
	.kind = "client",
	.start = mailslot_start,
	.run = mailslot_run,
	.reply = mailslot_reply,
	.settled = mailslot_settled,
	.stop = mailslot_stop,
	.memory = mailslot_memory,
	.note = mailslot_note,
	.renew = mailslot_renew,
	.alias = mailslot_alias,
	.cancelled = mailslot_cancelled,
	.rest = mailslot_rest,
	.gaps = true,
};

/* ---- attach and detach ------------------------------------------------- */

static int
explain_down(const struct session *t, char *text, size_t size)
{
	if (t->life != SESSION_FAILED) {
		snprintf(text, size, "the session '%s' is %s: try again",
			session_name(t), session_state_word(t));
		return EVD_STATUS_UNAVAILABLE;
	}
	snprintf(text, size, "the session '%s' has failed: %s", session_name(t),
		t->health && t->health->reason ? t->health->reason
					       : "no reason known");
	return EVD_STATUS_FAILED;
}

/* There are others, of another mode: who. */
static int
explain_mode(const struct session *t, const struct consumer_init *init,
	char *text, size_t size)
{
	const struct mailslot *slot = t->state;
	const struct consumer_init *other = mailslot_consumer(t);
	char who[CONN_NAME_MAX + 64] = "nobody now";

	if (other)
		snprintf(who, sizeof(who),
			"%" PRIu32 " of them, uid %u pid %d (%s)",
			slot->n_consumers, (unsigned)other->uid,
			(int)other->pid, other->name);
	snprintf(text, size,
		"clients bind the alias '%s' (session %" PRIu64
		"%s%s) in mode %s, not %s: %s",
		init->alias, session_id(t),
		t->spec && t->spec->origin ? ", Mode= of " : "",
		t->spec && t->spec->origin ? t->spec->origin : "",
		bind_mode_words[slot->mode], bind_mode_words[init->mode], who);
	return EVD_STATUS_TAKEN;
}

/* Several consume: may @init as well? */
static int
join(struct session *t, char *text, size_t size)
{
	const struct mailslot *slot = t->state;
	uint32_t most = slot->mode == BIND_FANOUT ? FANOUT_SUBSCRIBERS_MAX
						  : MAILSLOT_CONSUMERS_MAX;

	if (slot->n_consumers < most)
		return EVD_STATUS_OK;
	snprintf(text, size,
		"the alias '%s' is bound by %" PRIu32
		" clients in mode %s, which is the most",
		session_name(t), slot->n_consumers,
		bind_mode_words[slot->mode]);
	return EVD_STATUS_LIMIT;
}

/* Another consumes: 0 if @init is to do so instead, MAILSLOT_E_QUEUED if it is
 * to wait, or why not. */
static int
contend(struct session *t, const struct consumer_init *init, char *text,
	size_t size)
{
	struct mailslot *slot = t->state;
	struct consumer *other =
		container_of(slot->consumers.next, struct consumer, link);

	if (init->if_taken == CLAIM_QUEUE ||
		/* It has gone, as a note that is on its way will tell. */
		(list_is_empty(&slot->waiting) &&
			!session_find(home_of(t)->kernel, other->is.conn)))
		return MAILSLOT_E_QUEUED;
	if (init->if_taken == CLAIM_REPLACE && other->is.allow_replace) {
		consumer_dismiss(slot, other, EVD_STATUS_TAKEN, init->conn);
		return EVD_STATUS_OK;
	}
	snprintf(text, size,
		"the events of '%s' (session %" PRIu64
		") are consumed by uid %u pid %d (%s)%s",
		session_name(t), atomic_load(&t->id), (unsigned)other->is.uid,
		(int)other->is.pid, other->is.name,
		init->if_taken == CLAIM_REPLACE
			? ", which does not let itself be replaced"
			: " already");
	return EVD_STATUS_TAKEN;
}

/* In line, with its welcome made. False: out of memory. */
static bool
line_up(struct mailslot *slot, struct consumer *c)
{
	struct sched *s = home_of(slot->session);

	c->welcome = msg_new(&s->pool,
		&(struct msg_init){.event = "", .event_static = true});
	if (!c->welcome)
		return false;
	c->welcome->to = c->is.conn;
	msg_wide(c->welcome)->seq = c->is.token;
	c->welcome->handler = MAIL_ATTACHED;
	list_append(&slot->waiting, &c->link);
	return true;
}

int
mailslot_attach(struct session *t, const struct consumer_init *init, char *text,
	size_t size)
{
	struct mailslot *slot = t->state;
	struct consumer *c;
	int r = EVD_STATUS_OK;

	if (!t->begun || t->life != SESSION_UP)
		return explain_down(t, text, size);
	if (mailslot_differs(t, init->mode))
		return explain_mode(t, init, text, size);
	c = consumer_new(home_of(t), init);
	if (c && slot->mode != BIND_EXCLUSIVE)
		r = join(t, text, size);
	else if (c && mailslot_consumer(t))
		r = contend(t, init, text, size);
	if (c && !r && (init->mode == BIND_FANOUT || init->hosted))
		r = fanout_add(slot, c);
	if (c && r == MAILSLOT_E_QUEUED && line_up(slot, c))
		return r;
	if (!c || r) {
		consumer_free(home_of(t), c);
		if (r && r != MAILSLOT_E_QUEUED)
			return r;
		snprintf(text, size, "out of memory");
		return EVD_STATUS_NO_MEMORY;
	}
	list_append(&slot->consumers, &c->link);
	slot->n_consumers++;
	log_debug("mailslot.bound",
		"session=\"%s\" conn=%" PRIu64 " uid=%u pid=%d",
		session_name(t), init->conn, (unsigned)init->uid,
		(int)init->pid);
	session_wake(t);
	return EVD_STATUS_OK;
}

void
mailslot_detach(struct session *t, uint64_t conn, uint64_t token, bool died)
{
	struct mailslot *slot = t->state;
	struct consumer *c = slot ? mailslot_find(slot, conn, token) : NULL;

	if (!c)
		return;
	if (c->is.hosted) {
		member_out(slot, c, EVD_STATUS_OK);
	} else {
		consumer_remove(slot, c, died);
		consumer_free(home_of(t), c);
	}
	consumer_next(slot);
	mailslot_left(t);
}

void
mailslot_left(struct session *t)
{
	const struct mailslot *slot = t->state;

	if (slot->fleeting && !slot->n_consumers &&
		list_is_empty(&slot->leaving))
		session_stop(t);
	else
		session_wake(t); /* others may take what it held */
}

int
mailslot_open(struct sched *s, const struct consumer_init *wish,
	struct session_spec *spec, struct session **out)
{
	struct claim_init claim = {
		.name = wish->alias,
		.size = strlen(wish->alias),
		.mode = CLAIM_REFUSE,
	};
	struct session *t = session_new(s, &mailslot_ops, NULL, NULL);
	struct mailslot *slot;
	int r;

	if (!t)
		return err_raise(-ENOMEM);
	slot = t->state;
	r = slot ? claim_make(t, &claim) : err_raise(-ENOMEM);
	if (r) {
		session_stop(t);
		return r;
	}
	slot->mode = wish->mode;
	slot->fleeting = !spec->durable;
	queue_use(t, spec);
	if (spec->durable)
		r = journal_open(t, wish->alias);
	if (r) {
		session_stop(t);
		return r < 0 ? r : MAILSLOT_E_VOLATILE;
	}
	*out = t;
	return 0;
}

bool
mailslot_differs(const struct session *t, enum bind_mode mode)
{
	const struct mailslot *slot = t->state;

	return t->begun && slot && slot->mode != mode;
}

void
mailslot_crowd(const struct session *t, struct peer_crowd *crowd)
{
	const struct mailslot *slot = t->state;

	*crowd = (struct peer_crowd){slot->mode, slot->n_consumers};
}

const struct consumer_init *
mailslot_consumer(const struct session *t)
{
	const struct mailslot *slot = t->state;

	if (!slot || !t->begun || list_is_empty(&slot->consumers))
		return NULL;
	return &container_of(slot->consumers.next, struct consumer, link)->is;
}

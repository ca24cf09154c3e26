/* Hosted sessions among the consumers of a mailslot: see kernel/crowd.h. What a
 * member has is lent to its mailbox and leased here; each loan is told of once,
 * when it has ended, whatever becomes of the member. The thread of the
 * mailslot's home. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "kernel/crowd.h"
#include "kernel/notice.h"
#include "kernel/queue.h"
#include "net/binding.h"
#include "net/mailslot.h"

static struct sched *
home_of(const struct session *t)
{
	return atomic_load_explicit(&t->home, memory_order_relaxed);
}

/* ---- lending ------------------------------------------------------------- */

/* A session that is there and takes what is posted to it, as far as is known
 * here. */
static bool
is_taking(const struct sched *s, const struct session *member)
{
	return member && (home_of(member) != s ||
				 (member->life != SESSION_FAILED &&
					 member->life < SESSION_STOPPING));
}

void
member_tell_gap(struct sched *s, const struct consumer *c, const struct msg *m)
{
	struct notice n;
	struct msg *copy;

	notice_read(m, &n);
	copy = notice_new(&s->pool, notice_gap, &n);
	if (!copy)
		return; /* out of memory: their ids tell, too */
	copy->to = c->is.conn;
	sched_control(s, copy);
}

/* There is room in the lease for it. */
bool
member_lend(struct mailslot *slot, struct consumer *c, const struct msg *m)
{
	struct sched *s = home_of(slot->session);
	struct session *member = session_find(s->kernel, c->is.conn);
	uint64_t number = c->lease.delivered + 1;
	struct msg *copy;

	if (!is_taking(s, member))
		return false;
	if (m->event == notice_gap) {
		member_tell_gap(s, c, m);
		return true;
	}
	copy = msg_lend(&s->pool, m, session_id(slot->session),
		number << PLACE_BITS | (c->seq & PLACE_MASK));
	if (!copy) {
		mailslot_wake_at(slot, s->now_ns + NS_PER_MS);
		return false;
	}
	copy->to = c->is.conn;
	(void)sched_post(s, copy); /* its end is told, whatever it is */
	return true;
}

/* ---- the end of a loan --------------------------------------------------- */

/* Deliveries are counted in turn: those that have ended make room. */
static void
lease_trim(struct lease *l)
{
	while (l->settled < l->delivered && !lease_at(l, l->settled + 1)->msg)
		l->settled++;
}

/* Its borrower crashed of it. */
static void
tried(struct session *t, struct msg *m, const char *text)
{
	uint32_t most = t->spec ? t->spec->max_attempts : 0;

	if (most < 2)
		session_done_as(t, m, MSG_END_DEAD, EVD_STATUS_DIED, text);
	else if (m->attempt + 1u >= most)
		session_done_as(t, m, MSG_END_DEAD, EVD_STATUS_POISON, NULL);
	else
		mailslot_try_later(t, m);
}

/* Whoever had it has answered its call, unless it was given back. */
static void
loan_end(struct session *t, struct msg *m, int status, const char *text)
{
	if (status == EVD_STATUS_UNAVAILABLE) {
		session_return(t, m);
		return;
	}
	msg_uncall(m);
	if (status == EVD_STATUS_DIED || status == EVD_STATUS_POISON)
		tried(t, m, text);
	else if (status == EVD_STATUS_EXPIRED)
		session_done_as(t, m, MSG_END_EXPIRED, status, text);
	else if (status == EVD_STATUS_CANCELLED)
		session_done_as(t, m, MSG_END_CANCELLED, status, text);
	else if (status == EVD_STATUS_DROPPED)
		session_done_as(t, m, MSG_END_DROPPED, status, text);
	else
		session_done_as(t, m, MSG_END_DEAD, status, text);
}

static void
member_free(struct mailslot *slot, struct consumer *c)
{
	fanout_remove(slot, c);
	list_remove(&c->link);
	lease_deinit(&c->lease);
	free(c);
}

void
member_settled(struct session *t, uint64_t seq, int status, const char *text)
{
	struct mailslot *slot = t->state;
	struct kernel *k = home_of(t)->kernel;
	struct consumer *c = slot->places[seq & PLACE_MASK];
	struct msg *m = lease_take(&c->lease, seq >> PLACE_BITS);
	uint64_t id = session_id(t);
	bool gone;

	lease_trim(&c->lease);
	gone = c->seq && c->is.token == 0 && !c->lease.n_held;
	if (gone)
		member_free(slot, c);
	if (m)
		loan_end(t, m, status, text);
	if (session_find(k, id) != t || !t->state)
		return; /* a poster was told, and stopped it */
	if (gone)
		mailslot_left(t);
	else
		session_wake(t);
}

void
member_cancel(struct sched *s, const struct consumer *c, uint64_t call)
{
	const struct lease *l = &c->lease;

	for (uint64_t n = l->settled + 1; n <= l->delivered; n++) {
		const struct msg *m = lease_at(l, n)->msg;

		if (m && msg_call(m) == call) {
			sched_cancel_at(s, call, c->is.conn);
			return;
		}
	}
}

/* ---- coming and going ---------------------------------------------------- */

void
member_out(struct mailslot *slot, struct consumer *c, int status)
{
	struct session *t = slot->session;

	if (status)
		crowd_tell(home_of(t), c->is.conn, c->is.alias, status,
			"the alias is shared no more, or its session has gone");
	log_debug("mailslot.unbound", "session=\"%s\" member=%" PRIu64,
		session_name(t), c->is.conn);
	slot->n_consumers--;
	if (!c->lease.n_held) {
		member_free(slot, c);
		return;
	}
	c->is.token = 0; /* nobody finds it any more */
	list_remove(&c->link);
	list_append(&slot->leaving, &c->link);
}

static struct session *
open_slot(struct sched *s, const struct consumer_init *wish, int *status)
{
	struct session_spec *spec = spec_new();
	struct session *t = NULL;
	int r;

	*status = EVD_STATUS_NO_MEMORY;
	if (!spec)
		return NULL;
	spec->of_client = true;
	spec->mode = wish->mode;
	spec->max_events = BINDING_MAILBOX_EVENTS;
	spec->max_bytes = BINDING_MAILBOX_BYTES;
	r = mailslot_open(s, wish, spec, &t);
	spec_unref(spec);
	if (r > 0)
		*status = claim_status(r);
	return r ? NULL : t;
}

/* It is there already: 0, or it is not. */
static bool
join_again(struct session *t, const struct crowd_member *who)
{
	struct mailslot *slot = t->state;
	struct consumer *c =
		slot ? mailslot_find(slot, who->session, who->token) : NULL;

	if (!c || c->is.mode != who->mode)
		return false;
	c->lease.max_events = who->window;
	session_wake(t);
	return true;
}

static int
refuse_holder(const struct session *t, const struct crowd_member *who,
	char *text, size_t size)
{
	if (session_id(t) == who->session)
		snprintf(text, size, "the session holds the alias '%s' itself",
			who->alias);
	else
		snprintf(text, size,
			"the alias '%s' is held by session %" PRIu64
			" '%s' (kind %s) alone",
			who->alias, session_id(t), session_name(t),
			t->ops->kind);
	return EVD_STATUS_TAKEN;
}

static int
member_join(struct sched *s, struct session *holder,
	const struct crowd_member *who, uint64_t *slot, char *text, size_t size)
{
	struct consumer_init wish = {
		.conn = who->session,
		.token = who->token,
		.max_events = who->window,
		.max_size = BINDING_BYTES_MAX,
		.uid = getuid(),
		.pid = getpid(),
		.mode = (enum bind_mode)who->mode,
		.subscriber = who->session,
		.blocks = who->blocks,
		.hosted = true,
	};
	struct session *t = holder;
	int r = EVD_STATUS_NO_MEMORY;

	if (t && t->ops != &mailslot_ops)
		return refuse_holder(t, who, text, size);
	snprintf(wish.name, sizeof(wish.name), "%s", who->name);
	snprintf(wish.alias, sizeof(wish.alias), "%s", who->alias);
	if (!t)
		t = open_slot(s, &wish, &r);
	if (!t) {
		snprintf(text, size,
			"out of memory, MaxSessions= is reached, or the alias "
			"was taken meanwhile");
		return r;
	}
	*slot = session_id(t);
	if (join_again(t, who))
		return EVD_STATUS_OK;
	r = mailslot_attach(t, &wish, text, size);
	if (r && !holder)
		session_stop(t);
	return r;
}

static void
member_leave(struct sched *s, struct msg *note)
{
	note->handler = MAIL_DETACH;
	sched_note(s, note);
}

const struct crowd_ops mailslot_crowds = {
	.join = member_join,
	.leave = member_leave,
};

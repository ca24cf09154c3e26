/* Fanout: what comes to the alias goes to every subscriber. The bytes are
 * stored once, in the form of a delivery without what differs between
 * subscribers; each gets a message that refers to them, posted to a session of
 * its own, where it is accepted, counted, queued and dropped like any event.
 * The event itself is handled when all have been posted to.
 *
 * What waits for a subscriber is charged to its user as if that had posted it,
 * but for the first FANOUT_FREE copies on this loop, of FANOUT_FREE_BYTES: who
 * keeps up pays nothing.
 * A mailbox whose user has used three quarters of what he may have is full with
 * what it holds, and its overflow says what happens.
 *
 * A subscriber whose overflow blocks holds the mailslot up when FANOUT_AHEAD
 * copies wait for room in its mailbox; no other does, but one whose user has no
 * room, and whose loop has not even seen as many.
 *
 * The thread of the mailslot's home; subscribers may live on other loops. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "envelope.h"
#include "frame.h"
#include "kernel/notice.h"
#include "net/mailslot.h"

enum {
	FANOUT_AHEAD = 64,
	FANOUT_FREE = 1024, /* wait for one and cost its user nothing */
	FANOUT_FREE_BYTES = 1 << 20,
	N_PLACES_MIN = 8,
};

_Static_assert((int)FANOUT_SUBSCRIBERS_MAX <= (int)PLACE_MASK, "have room");

static struct sched *
home_of(const struct session *t)
{
	return atomic_load_explicit(&t->home, memory_order_relaxed);
}

/* ---- subscribers --------------------------------------------------------- */

static int
places_grow(struct mailslot *slot)
{
	uint32_t n = slot->n_places ? slot->n_places * 2 : N_PLACES_MIN;
	struct consumer **places =
		realloc(slot->places, n * sizeof(struct consumer *));

	if (!places)
		return EVD_STATUS_NO_MEMORY;
	for (uint32_t i = slot->n_places; i < n; i++)
		places[i] = NULL;
	slot->places = places;
	slot->n_places = n;
	return EVD_STATUS_OK;
}

int
fanout_add(struct mailslot *slot, struct consumer *c)
{
	uint32_t i = 0;

	if (slot->n_placed == slot->n_places && places_grow(slot))
		return EVD_STATUS_NO_MEMORY;
	while (slot->places[i])
		i++;
	slot->places[i] = c;
	slot->n_placed++;
	c->seq = ++slot->last_seq << PLACE_BITS | i;
	return EVD_STATUS_OK;
}

/* One less holds it up. */
static void
unblock(struct mailslot *slot)
{
	if (!--slot->n_blocking)
		session_wake(slot->session);
}

void
fanout_remove(struct mailslot *slot, struct consumer *c)
{
	slot->places[c->seq & PLACE_MASK] = NULL;
	slot->n_placed--;
	if (c->unsettled >= FANOUT_AHEAD)
		unblock(slot);
}

void
fanout_settled(struct session *t, uint64_t seq)
{
	struct mailslot *slot = t->state;
	uint32_t place = seq & PLACE_MASK;
	struct consumer *c =
		place < slot->n_places ? slot->places[place] : NULL;

	if (c && c->seq == seq && c->unsettled-- == FANOUT_AHEAD)
		unblock(slot);
}

/* ---- one event ----------------------------------------------------------- */

/* A delivery without the number of a binding. */
static struct msg_body *
body_of(const struct msg *m, uint32_t payload_size, bool headers)
{
	struct envelope e = {
		.event = m->event,
		.event_size = m->event_size,
		.payload = msg_payload(m),
		.payload_size = payload_size,
		.headers = msg_headers(m),
		.headers_size = headers ? m->headers_size : 0,
		.id = m->id,
		.from = m->from,
		.late_ns = msg_late_ns(m),
		.priority = m->flags & MSG_URGENT ? 1 : 0,
		.due_ns = msg_due_ns(m),
	};
	size_t size = envelope_size(&e);
	struct msg_body *body = msg_body_new(m, (uint32_t)size);

	if (!body)
		return NULL;
	envelope_encode(&e, body->bytes);
	body->is_delivery = true;
	/* behind the event, tag, length, bytes, and its own tag and length */
	if (payload_size)
		body->payload = body->bytes + 2 + m->event_size + 1 +
				varint_size(payload_size);
	e.late_ns = e.due_ns = e.priority = 0; /* headers are before these */
	body->headers = body->bytes + envelope_size(&e) - e.headers_size;
	return body;
}

enum { TELL_S = 10 }; /* no more often of one subscriber */

/* Its user has no room for more: whose it is, and of which program. */
static void
tell_beyond(struct sched *s, struct consumer *c, struct user *user,
	enum charge_kind lacks)
{
	char text[VERB_TEXT_MAX];

	user_refuse(
		&s->kernel->users, user, lacks, s->now_ns, text, sizeof(text));
	if (c->told_ns && s->now_ns - c->told_ns < TELL_S * (uint64_t)NS_PER_S)
		return;
	c->told_ns = s->now_ns;
	log_warn("fanout.slow",
		"alias=%s conn=%" PRIu64 " uid=%u pid=%d program=\"%s\" "
		"key=%s= text=\"three quarters of what its user may have are "
		"used: its overflow acts\"",
		c->is.alias, c->is.conn, (unsigned)c->is.uid, (int)c->is.pid,
		c->is.name, charge_keys[lacks]);
}

/* A quarter stays for what his other clients do, however slow this one is. */
static bool
leaves_some(const struct user *user, enum charge_kind kind, uint64_t n)
{
	uint64_t max =
		atomic_load_explicit(&user->max[kind], memory_order_relaxed);

	return user_has_room(user, kind, 0, n + max / 4);
}

/* @copy is charged to the user of @c, who may have gone; true: he has no room
 * for it. What tells users apart is their uid: the connection may be another
 * loop's. */
static bool
charge_copy(struct sched *s, struct consumer *c, struct msg *copy)
{
	struct users *users = &s->kernel->users;
	struct user *user =
		users_charge(users, c->is.uid, CHARGE_EVENTS, 1, s->now_ns);
	enum charge_kind lacks = CHARGES;

	if (!user)
		return false;
	if (!leaves_some(user, CHARGE_EVENTS, 0))
		lacks = CHARGE_EVENTS;
	else if (!leaves_some(user, CHARGE_BYTES, msg_charge(copy)))
		lacks = CHARGE_BYTES;
	user_charge(users, user, CHARGE_BYTES, msg_charge(copy), s->now_ns);
	copy->flags |= MSG_CHARGED;
	msg_wide(copy)->user = user->index;
	if (lacks == CHARGES)
		return false;
	copy->flags |= MSG_BEYOND;
	tell_beyond(s, c, user, lacks);
	return true;
}

/* What waits for @to is its user's to pay. */
static inline bool
is_behind(const struct session *to)
{
	return to->box.n >= FANOUT_FREE || to->box.size >= FANOUT_FREE_BYTES;
}

/* @to is of another loop, or behind, or without room, or hosted, or @m is not
 * plain. */
static int
post_copy(struct mailslot *slot, struct consumer *c, const struct msg *m,
	struct msg_body *body, struct session *to)
{
	struct session *t = slot->session;
	struct sched *s = home_of(t);
	bool pays = !c->is.hosted && (home_of(to) != s || is_behind(to));
	struct msg *copy =
		c->is.hosted && c->is.blocks
			? msg_refer_from(&s->pool, m, body)
			: msg_refer(&s->pool, m, body, !c->is.blocks && !pays);
	bool told;
	int r;

	if (!copy)
		return EVD_STATUS_NO_MEMORY;
	told = (pays && charge_copy(s, c, copy)) || c->is.blocks;
	copy->to = c->is.subscriber;
	copy->flags |= MSG_MANY;
	if (told) {
		copy->from = session_id(t);
		copy->flags |= MSG_ACK | MSG_MAY_PARK;
		msg_wide(copy)->seq = c->seq;
		if (++c->unsettled == FANOUT_AHEAD)
			slot->n_blocking++;
	}
	r = sched_post(s, copy);
	if (r) { /* the same loop: count it there */
		to = session_find(s->kernel, copy->to);
		msg_end(s, to, copy, MSG_END_REFUSED, sched_status(r), NULL);
	}
	return EVD_STATUS_OK;
}

/* Of *@n_refs references to @body it takes one, or none. */
static int
give(struct mailslot *slot, struct consumer *c, const struct msg *m,
	struct msg_body *body, uint32_t *n_refs)
{
	struct sched *s = home_of(slot->session);
	struct session *to = session_find(s->kernel, c->is.subscriber);
	struct msg *copy;

	if (!to)
		return EVD_STATUS_OK; /* that it has gone is on its way here */
	if (home_of(to) != s || !sched_takes(s, to, msg_charge(m)) ||
		is_behind(to) || (m->flags & (MSG_URGENT | MSG_EXTRA)))
		return post_copy(slot, c, m, body, to);
	copy = msg_refer_plain(
		&s->pool, m, body, c->is.subscriber, MSG_ADMITTED | MSG_MANY);
	if (!copy)
		return EVD_STATUS_NO_MEMORY;
	--*n_refs;
	sched_put(s, to, copy);
	return EVD_STATUS_OK;
}

/* The alias's own mailbox has dropped events: all are told. */
static void
pass_gap(struct mailslot *slot, const struct msg *m)
{
	struct sched *s = home_of(slot->session);

	LIST_FOREACH (node, &slot->consumers) {
		struct consumer *c = container_of(node, struct consumer, link);
		struct msg *copy = c->is.hosted ? NULL : msg_clone(&s->pool, m);

		if (c->is.hosted)
			member_tell_gap(s, c, m);
		if (!copy)
			continue; /* out of memory: its ids tell, too */
		copy->to = c->is.conn;
		msg_wide(copy)->seq = c->is.token;
		copy->handler = MAIL_GAP;
		sched_note(s, copy);
	}
}

static void
refuse_call(struct session *t, struct msg *m)
{
	static const char text[] =
		"the alias is bound in mode fanout, which answers no calls";

	sched_reply(home_of(t), msg_call(m), EVD_STATUS_UNSUPPORTED, text,
		sizeof(text) - 1);
	m->flags |= MSG_REPLIED;
}

/* What hosted sessions want, for whom no delivery is to be encoded: made for
 * the first of them. */
static struct msg_body *
plain_body_of(const struct msg *m, struct msg_body **plain)
{
	uint8_t *end;

	if (*plain)
		return *plain;
	*plain = msg_body_new(m, m->size + 1 + m->headers_size);
	if (!*plain)
		return NULL;
	if (m->size)
		memcpy((*plain)->bytes, msg_payload(m), m->size);
	end = (*plain)->bytes + m->size;
	*end++ = 0;
	if (m->headers_size)
		memcpy(end, msg_headers(m), m->headers_size);
	(*plain)->headers = end;
	return *plain;
}

/* The same for one of those, as if it were not plain: there are few. */
static int
give_hosted(struct mailslot *slot, struct consumer *c, const struct msg *m,
	struct msg_body **plain)
{
	struct msg_body *body =
		msg_region(m) ? msg_body(m) : plain_body_of(m, plain);

	return body ? post_copy(slot, c, m, body, NULL) : EVD_STATUS_NO_MEMORY;
}

enum session_result
fanout_run(struct session *t, struct msg *m)
{
	struct mailslot *slot = t->state;
	uint32_t n_refs = slot->n_consumers;
	struct msg_body *body, *plain = NULL;

	if (m->event == notice_gap) {
		pass_gap(slot, m);
		return SESSION_DONE;
	}
	if (msg_call(m)) {
		refuse_call(t, m);
		return SESSION_DONE;
	}
	if (slot->n_blocking)
		return SESSION_HELD;
	if (!slot->n_consumers)
		return SESSION_DONE;
	body = msg_region(m) ? msg_body_ref(msg_body(m))
			     : body_of(m, m->size, true);
	if (!body) {
		session_fail(t, "out of memory");
		return SESSION_CRASHED;
	}
	msg_body_ref_many(body, n_refs);
	LIST_FOREACH (node, &slot->consumers) {
		struct consumer *c = container_of(node, struct consumer, link);

		int r = c->is.hosted ? give_hosted(slot, c, m, &plain)
				     : give(slot, c, m, body, &n_refs);

		if (r)
			mailslot_dismiss(slot, c, r);
	}
	msg_body_unref(plain);
	msg_body_unref_many(body, n_refs + 1);
	return SESSION_DONE;
}

/* ---- monitors ------------------------------------------------------------ */

void
fanout_monitor(struct sched *s, const struct tap *tap, struct session *t,
	const struct msg *m)
{
	uint32_t size =
		m->size < MONITOR_PAYLOAD_MAX ? m->size : MONITOR_PAYLOAD_MAX;
	struct msg_body *body;
	struct msg *copy = NULL;
	int r;

	(void)t;
	if (m->flags & MSG_MANY)
		return; /* a subscriber's: its alias is what is monitored */
	if (!tap->payload)
		size = 0;
	body = body_of(m, size, tap->payload);
	if (body)
		copy = msg_refer(&s->pool, m, body, true);
	msg_body_unref(body);
	if (!copy)
		return; /* out of memory: it is a monitor's alone */
	copy->size = size;
	copy->flags |= MSG_MANY;
	copy->to = tap->to;
	r = sched_post(s, copy);
	if (r)
		msg_end(s, session_find(s->kernel, tap->to), copy,
			MSG_END_REFUSED, sched_status(r), NULL);
}

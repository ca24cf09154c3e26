/* One delivery that a client holds: it is given back, or its lease is made
 * longer. The thread of the connection's loop; what a mailslot holds is looked
 * for at its home. */
#include <inttypes.h>
#include <stdio.h>

#include "net/binding.h"
#include "net/mailslot.h"
#include "verb/gather.h"

static const char not_held[] =
	"it is not held: it was settled, or its lease has ended";

/* The mailslot, if it is of this loop. */
static struct session *
slot_here(const struct gather *g, struct sched *s)
{
	struct session *t = session_find(s->kernel, g->only);

	return t && atomic_load(&t->home) == s && t->ops == &mailslot_ops
		       ? t
		       : NULL;
}

static bool
one_done(struct gather *g, bool done)
{
	if (!done) {
		g->status = EVD_STATUS_NOT_FOUND;
		snprintf(g->text, sizeof(g->text), "%s", not_held);
	}
	return false;
}

/* args: the connection, the token, the delivery, and the time in ms + 1, or 0
 * for none */
static bool
give_back_visit(struct gather *g, struct sched *s)
{
	struct session *t = slot_here(g, s);

	return one_done(g, t && mailslot_give_back(t, g->args[0], g->args[1],
					g->args[2], g->args[3]));
}

static bool
extend_visit(struct gather *g, struct sched *s)
{
	struct session *t = slot_here(g, s);

	return one_done(g, t && mailslot_extend(t, g->args[0], g->args[1],
					g->args[2], g->args[3] - 1));
}

static void
one_of_mail(struct conn *c, uint64_t id, const struct binding *b,
	const struct delivery_change *change)
{
	struct gather *g = gather_new(&c->peer, id);

	if (!g)
		return;
	g->only = b->slot;
	g->args[0] = c->session->id;
	g->args[1] = b->token;
	g->args[2] = change->delivery;
	g->args[3] = change->timed ? (uint64_t)change->ms + 1 : 0;
	g->visit = change->give_back ? give_back_visit : extend_visit;
	gather_start(g, &c->loop->sched);
}

/* Of a mailbox that goes with its client: it rests nowhere. */
static void
one_of_own(struct conn *c, uint64_t id, struct binding *b,
	const struct delivery_change *change)
{
	struct msg *m;

	if (!change->give_back || change->ms) {
		verb_refuse(&c->peer, id, EVD_STATUS_UNSUPPORTED,
			"only the mailbox of a session file (Kind=client) has "
			"leases and lets events rest");
		return;
	}
	m = lease_take(&b->lease, change->delivery);
	if (!m) {
		verb_refuse(&c->peer, id, EVD_STATUS_NOT_FOUND, not_held);
		return;
	}
	session_return(b->session, m);
	session_wake(b->session);
	verb_refuse(&c->peer, id, EVD_STATUS_OK, "");
}

void
binding_change(
	struct peer *p, uint64_t id, const struct delivery_change *change)
{
	struct conn *c = container_of(p, struct conn, peer);
	uint32_t i = binding_index(c, change->binding);
	char text[VERB_TEXT_MAX];

	if (i == UINT32_MAX) {
		snprintf(text, sizeof(text), "no binding %" PRIu64,
			change->binding);
		verb_refuse(p, id, EVD_STATUS_NOT_FOUND, text);
	} else if (c->bindings[i]->session) {
		one_of_own(c, id, c->bindings[i], change);
	} else {
		one_of_mail(c, id, c->bindings[i], change);
	}
}

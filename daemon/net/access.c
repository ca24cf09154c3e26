/* Access of a connection: who is at its other end, and what that may do. What
 * it may do to an alias that it refers to by number is kept with the number, so
 * that a post costs one test. The thread of its loop. See conn.h. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "net/binding.h"
#include "net/conn.h"

/* ---- who it is ----------------------------------------------------------- */

int
conn_identify(struct conn *c)
{
	struct net *net = c->net;
	struct creds creds;
	int r = creds_read(&creds, c->fd, net->policy->asks, &c->peer.pid);

	if (r)
		return err_pass(r);
	c->peer.uid = creds.uid;
	c->peer.rights = rights_cached(&net->rights, net->policy, &creds);
	creds_deinit(&creds);
	return c->peer.rights ? 0 : err_raise(-ENOMEM);
}

/* Its rights by @policy, with what @asks (CREDS_*) for. A unit that is known
 * stays, wherever its process is by now. */
static struct rights *
rights_with(struct conn *c, struct policy *policy, unsigned asks)
{
	const struct creds *old = &c->peer.rights->creds;
	struct rights *rights = NULL;
	struct creds creds;
	pid_t pid;

	if (old->unit)
		asks &= ~(unsigned)CREDS_UNIT;
	if (creds_read(&creds, c->fd, asks, &pid))
		return NULL;
	if (old->unit)
		creds.unit = strdup(old->unit);
	if (!old->unit || creds.unit)
		rights = rights_cached(&c->net->rights, policy, &creds);
	creds_deinit(&creds);
	return rights;
}

struct rights *
conn_rights_of(struct sched *s, pid_t pid)
{
	const struct net *net = loop_of(s)->net;

	LIST_FOREACH (node, &net->conns) {
		struct conn *c = container_of(node, struct conn, link);

		if (c->peer.pid == pid && c->state < CONN_ENDING)
			return rights_with(c, net->policy, CREDS_GROUPS);
	}
	return NULL;
}

/* ---- what is charged ----------------------------------------------------- */

static struct users *
users_of(const struct conn *c)
{
	return &c->loop->sched.kernel->users;
}

int
conn_admit(struct conn *c, char *text, size_t size)
{
	return users_admit(users_of(c), c->peer.uid, c->accepted_ns,
		&c->peer.user, text, size);
}

static void
charge(struct conn *c, enum charge_kind kind, uint32_t *charged, uint32_t now)
{
	int64_t more = (int64_t)now - *charged;

	if (!more)
		return;
	*charged = now;
	user_charge(
		users_of(c), c->peer.user, kind, more, c->loop->sched.now_ns);
}

void
conn_charge(struct conn *c)
{
	charge(c, CHARGE_ALIASES, &c->charged_aliases, c->n_bindings);
	peer_charge(&c->peer);
}

void
conn_discharge(struct conn *c)
{
	if (!c->peer.user)
		return;
	charge(c, CHARGE_ALIASES, &c->charged_aliases, 0);
	charge(c, CHARGE_CALLS, &c->peer.charged_calls, 0);
	charge(c, CHARGE_WATCHES, &c->peer.charged_watches, 0);
	if (!c->greeted)
		user_charge(users_of(c), c->peer.user, CHARGE_GREETING, -1,
			c->loop->sched.now_ns);
	/* Last: it keeps the user in the table. */
	user_charge(users_of(c), c->peer.user, CHARGE_CONNECTIONS, -1,
		c->loop->sched.now_ns);
}

/* ---- another policy ------------------------------------------------------ */

void
net_set_policy(struct net *net, struct policy *policy)
{
	if (net->policy == policy)
		return;
	policy_unref(net->policy);
	net->policy = policy_ref(policy);
	LIST_FOREACH (node, &net->conns) {
		struct conn *c = container_of(node, struct conn, link);
		struct rights *rights = rights_with(c, policy, policy->asks);

		free(c->refs_may);
		c->refs_may = NULL;
		if (!rights) { /* none of the old ones, then */
			conn_close(c, "out of memory for its rights");
			continue;
		}
		rights_unref(c->peer.rights);
		c->peer.rights = rights;
		bindings_review(c);
	}
	rights_cache_prune(&net->rights);
}

/* ---- posts and calls ----------------------------------------------------- */

static bool
refs_may_make(struct conn *c)
{
	if (!c->refs_may)
		c->refs_may = calloc(c->refs_room, 1);
	return c->refs_may;
}

bool
conn_may_send(struct conn *c, enum right right, uint64_t ref, const char *alias,
	const char *event)
{
	uint8_t bit = (uint8_t)(1 << right);

	if (!ref || !refs_may_make(c))
		return rights_may(c->peer.rights, right, alias, event);
	if (c->refs_may[ref - 1] & bit)
		return true;
	if (rights_cover(c->peer.rights, right, alias)) {
		c->refs_may[ref - 1] |= bit;
		return true;
	}
	return rights_may(c->peer.rights, right, alias, event);
}

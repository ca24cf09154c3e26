#include "kernel/aside.h"

#include <stdlib.h>

#include "base/fault.h"
#include "kernel/await.h"
#include "kernel/history.h"
#include "kernel/journal.h"
#include "kernel/sched.h"

struct aside *
aside_get(const struct session *t)
{
	return t->box.rare ? t->box.rare->aside : NULL;
}

/* The same, made if need be; NULL: out of memory. */
static struct aside *
aside_of(struct session *t)
{
	struct mailbox_rare *rare = mailbox_rare(&t->box);

	if (!rare)
		return NULL;
	if (!rare->aside && !FAULT(aside_of))
		rare->aside = calloc(1, sizeof(*rare->aside));
	return rare->aside;
}

/* ---- ends without being handled -------------------------------------- */

static bool
is_expired(const struct sched *s, const struct msg *m)
{
	const struct msg_extra *extra = msg_extra(m);

	return extra && extra->expires_ns && extra->expires_ns <= s->now_ns;
}

size_t
aside_memory(const struct session *t)
{
	const struct aside *aside = aside_get(t);

	if (!aside)
		return 0;
	return sizeof(*aside) +
	       (aside->cancelled.slots ? (aside->cancelled.mask + 1) *
						 sizeof(*aside->cancelled.slots)
				       : 0) +
	       aside->keys.room * (sizeof(*aside->keys.ring) +
					  sizeof(*aside->keys.buckets));
}

/* Its caller has cancelled it: nobody waits for an answer. */
static bool
take_cancelled(struct session *t, struct msg *m)
{
	struct aside *aside = msg_call(m) ? aside_get(t) : NULL;

	if (!aside || !callset_remove(&aside->cancelled, msg_call(m), NULL))
		return false;
	msg_uncall(m);
	return true;
}

/* Why @m must not be handled, EVD_STATUS_*, or 0. */
static int
obstacle(struct sched *s, struct session *t, struct msg *m)
{
	if (take_cancelled(t, m))
		return EVD_STATUS_CANCELLED;
	return is_expired(s, m) ? EVD_STATUS_EXPIRED : EVD_STATUS_OK;
}

bool
aside_end(struct sched *s, struct session *t, struct msg *m)
{
	int status = obstacle(s, t, m);

	if (!status) {
		if (m->flags & MSG_EXTRA)
			history_taken(s, m);
		return false;
	}
	msg_end(s, t, m,
		status == EVD_STATUS_EXPIRED ? MSG_END_EXPIRED
					     : MSG_END_CANCELLED,
		status, NULL);
	return true;
}

bool
aside_end_parked(struct sched *s, struct session *t)
{
	struct msg *m = msg_ring_head(&t->box.parked);
	int status;

	if (!(m->flags & MSG_EXTRA) && !t->box.rare)
		return false;
	status = obstacle(s, t, m);
	if (!status) {
		if (!(m->flags & MSG_EXTRA))
			return false;
		mailbox_pop_parked(&t->box);
		if (aside_is_known(s, t, m)) /* the first one came in */
			return true;
		mailbox_unpark(&t->box, m);
		return false;
	}
	mailbox_pop_parked(&t->box);
	msg_end(s, t, m, MSG_END_REFUSED, status, NULL);
	return true;
}

bool
aside_drop_expired(struct sched *s, struct session *t)
{
	struct msg *m = t->box.admitted.head;
	bool dropped = false;

	for (; m && is_expired(s, m); m = t->box.admitted.head) {
		mailbox_pop(&t->box);
		s->queued--;
		msg_end(s, t, m, MSG_END_EXPIRED, EVD_STATUS_EXPIRED, NULL);
		dropped = true;
	}
	return dropped;
}

/* ---- cancelled calls ------------------------------------------------- */

/* Move those of @from that are in the queue to @to. */
static void
keep_queued(struct callset *from, struct callset *to, const struct msg *m,
	const struct msg *last)
{
	for (; m; m = m != last ? msg_next(m) : NULL)
		if (msg_call(m) && callset_remove(from, msg_call(m), NULL) &&
			callset_add(to, msg_call(m), 0))
			return; /* out of memory: the rest is handled */
}

/* Those that came too late to find their event are forgotten. */
static void
sweep(struct session *t)
{
	struct callset kept = {.slots = NULL};
	struct callset *old = &aside_get(t)->cancelled;

	keep_queued(old, &kept, t->box.admitted.head, NULL);
	keep_queued(
		old, &kept, msg_ring_head(&t->box.parked), t->box.parked.tail);
	if (t->box.rare)
		keep_queued(old, &kept, t->box.rare->stash.head, NULL);
	callset_deinit(old);
	*old = kept;
}

void
session_call_cancelled(struct session *t, uint64_t call)
{
	uint64_t n_queued = (uint64_t)t->box.n + t->box.n_parked;
	struct aside *aside;

	if (t->begun && t->ops->cancelled && t->ops->cancelled(t, call))
		return;
	aside = n_queued ? aside_of(t) : NULL;
	if (!aside || callset_find(&aside->cancelled, call) ||
		callset_add(&aside->cancelled, call, 0))
		return;
	if (aside->cancelled.n > n_queued)
		sweep(t);
}

/* ---- keys ------------------------------------------------------------ */

static uint64_t
window_ns(const struct sched *s)
{
	return (uint64_t)s->kernel->limits.dedup_ms * NS_PER_MS;
}

/* Those that were accepted too long ago. */
static void
expire_keys(struct sched *s, struct session *t, struct aside *aside)
{
	const struct dedup_entry *entry;

	while ((entry = dedup_expired(&aside->keys, s->now_ns, window_ns(s)))) {
		if (entry->size && session_journal(t))
			journal_drop_key(t, entry->key, entry->size);
		dedup_drop_oldest(&aside->keys);
	}
}

bool
aside_restore_key(struct sched *s, struct session *t, const char *key,
	uint8_t size, uint64_t since_ns)
{
	uint64_t wall = sched_wall_ns(s);
	uint64_t age = wall > since_ns ? wall - since_ns : 0;
	struct aside *aside = age < window_ns(s) ? aside_of(t) : NULL;
	struct dedup_entry *entry;

	if (!aside || aside->keys.n >= s->kernel->limits.max_keys)
		return false;
	if (dedup_find(&aside->keys, s->kernel->aliases.key, key, size))
		return true;
	if (dedup_add(&aside->keys, s->kernel->aliases.key, key, size,
		    s->now_ns > age ? s->now_ns - age : 0))
		return false;
	entry = dedup_find(&aside->keys, s->kernel->aliases.key, key, size);
	entry->pending = false;
	return true;
}

bool
aside_is_known(struct sched *s, struct session *t, struct msg *m)
{
	const struct msg_extra *extra = msg_extra(m);
	struct aside *aside = extra->key_size ? aside_get(t) : NULL;
	struct dedup_entry *known;

	if (!aside || (m->flags & MSG_ADMITTED))
		return false;
	expire_keys(s, t, aside);
	known = dedup_find(&aside->keys, s->kernel->aliases.key, extra->key,
		extra->key_size);
	if (!known)
		return false;
	aside->n_repeated++;
	history_repeated(s, t, m, known->event);
	if (!(m->flags & MSG_ACK)) {
		msg_free(&s->pool, m);
	} else if (msg_level(m) == MSG_LEVEL_ACCEPTED || !known->pending) {
		int status = msg_level(m) == MSG_LEVEL_HANDLED ? known->status
							       : EVD_STATUS_OK;

		sched_settle(
			s, m, status, status ? sched_end_text(status) : NULL);
		msg_free(&s->pool, m);
	} else {
		msg_queue_push(&known->waiting, m);
	}
	return true;
}

static void
settle_waiting(struct sched *s, struct msg_queue *waiting, int status,
	const char *text)
{
	struct msg *m;

	while ((m = msg_queue_pop(waiting))) {
		sched_settle(s, m, status, text);
		msg_free(&s->pool, m);
	}
}

void
aside_admitted(struct sched *s, struct session *t, struct msg *m)
{
	static const char text[] = "too many keys are noted (MaxKeys=): the "
				   "event was accepted before";
	struct msg_extra *extra = msg_extra(m);
	struct msg_queue waiting = {.head = NULL};
	struct aside *aside;

	if (!extra->key_size || extra->key_home || !window_ns(s))
		return;
	aside = aside_of(t);
	if (!aside)
		return; /* out of memory: a repetition is not known as one */
	if (aside->keys.n >= s->kernel->limits.max_keys) {
		const struct dedup_entry *oldest = dedup_oldest(&aside->keys);

		if (oldest->size && session_journal(t))
			journal_drop_key(t, oldest->key, oldest->size);
		waiting = dedup_drop_oldest(&aside->keys);
	}
	if (!dedup_add(&aside->keys, s->kernel->aliases.key, extra->key,
		    extra->key_size, s->now_ns)) {
		dedup_newest(&aside->keys)->event = m->id;
		extra->key_home = t->id;
		if (session_journal(t))
			journal_note_key(t, extra->key, extra->key_size);
	}
	settle_waiting(s, &waiting, EVD_STATUS_LIMIT, text);
}

/* Its key is made of a client's id and a number, and it was accepted: whatever
 * has become of it, it is not accepted again. */
static bool
is_numbered(const struct msg *m)
{
	return (m->flags & MSG_ADMITTED) &&
	       msg_extra(m)->key[0] == MSG_KEY_NUMBERED;
}

void
aside_ended(struct sched *s, const struct msg *m, int status, const char *text)
{
	const struct msg_extra *extra = msg_extra(m);
	struct session *t = session_find(s->kernel, extra->key_home);
	struct msg_queue waiting = {.head = NULL};
	struct aside *aside;
	struct dedup_entry *entry;

	if (!t || atomic_load(&t->home) != s)
		return;
	aside = aside_get(t);
	if (!aside)
		return;
	entry = dedup_find(&aside->keys, s->kernel->aliases.key, extra->key,
		extra->key_size);
	if (!entry || !entry->pending)
		return;
	entry->pending = false;
	waiting = entry->waiting;
	entry->waiting.head = NULL;
	entry->status = (uint16_t)status;
	if (status && !is_numbered(m)) { /* who tries again means it */
		if (session_journal(t))
			journal_drop_key(t, extra->key, extra->key_size);
		dedup_forget(&aside->keys, entry);
	}
	settle_waiting(s, &waiting, status, text);
}

void
aside_free(struct sched *s, struct session *t)
{
	struct aside *aside = aside_get(t);

	if (!aside)
		return;
	while (aside->keys.n) {
		struct msg_queue waiting = dedup_drop_oldest(&aside->keys);

		settle_waiting(s, &waiting, EVD_STATUS_DIED,
			sched_end_text(EVD_STATUS_DIED));
	}
	callset_deinit(&aside->cancelled);
	dedup_deinit(&aside->keys);
	free(aside);
	t->box.rare->aside = NULL;
}

/* ---- stash ----------------------------------------------------------- */

int
session_may_stash(struct session *t, const struct msg *m)
{
	int r = mailbox_may_stash(&t->box, m);

	return r == MAILBOX_E_FULL ? SCHED_E_FULL : r;
}

void
session_stash(struct session *t, struct msg *m)
{
	struct sched *s = atomic_load(&t->home);

	t->leased--;
	s->counters.leased--;
	mailbox_stash(&t->box, m);
	s->queued++;
	if (m != t->current)
		return;
	t->current = NULL;
	t->run = SESSION_IDLE;
	sched_enqueue(s, t);
}

uint32_t
session_unstash(struct session *t)
{
	uint32_t n = mailbox_unstash(&t->box);

	if (n && t->run == SESSION_IDLE)
		sched_enqueue(atomic_load(&t->home), t);
	if (n && (t->box_bits & BOX_AWAITS))
		await_again(t);
	return n;
}

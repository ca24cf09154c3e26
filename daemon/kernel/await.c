#include "kernel/await.h"

#include <errno.h>

#include "base/err.h"
#include "kernel/aside.h"
#include "kernel/away.h"
#include "kernel/history.h"
#include "kernel/queue.h"
#include "kernel/sched.h"

enum { LOOKS = 1024 }; /* events that one run looks at */

static struct sched *
home_of(const struct session *s)
{
	return atomic_load_explicit(&s->home, memory_order_relaxed);
}

int
await_begin(struct session *s, struct await *a)
{
	struct mailbox_rare *rare = mailbox_rare(&s->box);
	struct await **link;

	if (!rare)
		return err_raise(-ENOMEM);
	for (link = &rare->awaits; *link; link = &(*link)->next)
		;
	*link = a;
	a->next = NULL;
	a->cursor.owner = NULL;
	mailbox_track(&s->box, &a->cursor);
	s->box_bits |= BOX_AWAITS;
	if (s->box.admitted.head)
		sched_enqueue(home_of(s), s);
	return 0;
}

void
await_end(struct session *s, struct await *a)
{
	struct await **link = &s->box.rare->awaits;

	while (*link != a)
		link = &(*link)->next;
	*link = a->next;
	mailbox_untrack(&s->box, &a->cursor);
	if (!s->box.rare->awaits)
		s->box_bits &= (uint8_t)~BOX_AWAITS;
}

bool
await_has_more(const struct session *s)
{
	if (!(s->box_bits & BOX_AWAITS) || (s->box_bits & BOX_HELD))
		return false;
	for (struct await *a = s->box.rare->awaits; a; a = a->next)
		if (mailbox_ahead(&s->box, &a->cursor))
			return true;
	return false;
}

/* The event ahead of @a is the handler's, until session_done(); NULL: it had
 * to end. */
static struct msg *
lease(struct sched *sched, struct session *s, struct await *a)
{
	struct msg *m = mailbox_take_ahead(&s->box, &a->cursor);

	sched->queued--;
	if (aside_end(sched, s, m))
		return NULL;
	await_end(s, a);
	s->leased++;
	sched->counters.leased++;
	if (m->flags & MSG_EXTRA) {
		journal_leased(m);
		history_delivered(sched, s, m, NULL);
	}
	sched_settle_level(sched, m, MSG_LEVEL_DELIVERED);
	return m;
}

/* Look on until there is one for @a: true. */
static bool
look(struct session *s, struct await *a, int *n)
{
	struct msg *m;

	while (*n < LOOKS && (m = mailbox_ahead(&s->box, &a->cursor))) {
		++*n;
		if (a->matches(a, m))
			return true;
		a->cursor.at = m;
	}
	return false;
}

struct msg *
await_take(struct sched *sched, struct session *s, struct await **whose)
{
	struct msg *m = NULL;
	int n = 0;

	if (!(s->box_bits & BOX_AWAITS) || (s->box_bits & BOX_HELD))
		return NULL;
	for (struct await *a = s->box.rare->awaits; a && !m; a = a->next)
		if (look(s, a, &n)) {
			*whose = a;
			m = lease(sched, s, a);
			break;
		}
	if (s->box.n_parked)
		session_admit_parked(sched, s);
	if (s->box_bits & BOX_ABOVE)
		queue_fall(sched, s);
	return m;
}

int
await_run(struct sched *sched, struct session *s)
{
	struct await *a;
	struct msg *m = await_take(sched, s, &a);

	if (m)
		s->ops->awaited(s, a, m);
	return m != NULL;
}

/* An urgent one stands before some that have been looked at. While the session
 * is run elsewhere its kind is not asked: all are looked at again then. */
void
await_arrived(struct sched *sched, struct session *s, const struct msg *m)
{
	bool out = away_is_out(s);

	if (m->flags & MSG_URGENT)
		for (struct await *a = s->box.rare->awaits; a; a = a->next)
			if (out || a->matches(a, m))
				a->cursor.at = NULL;
	sched_enqueue(sched, s);
}

void
await_again(struct session *s)
{
	for (struct await *a = s->box.rare->awaits; a; a = a->next)
		a->cursor.at = NULL;
	sched_enqueue(home_of(s), s);
}

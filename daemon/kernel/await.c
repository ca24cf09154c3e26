#include "kernel/await.h"

#include <errno.h>

#include "base/err.h"
#include "kernel/aside.h"
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

/* It is leased to the handler until session_done(). */
static void
give(struct sched *sched, struct session *s, struct await *a)
{
	struct msg *m = mailbox_take_ahead(&s->box, &a->cursor);

	sched->queued--;
	if (aside_end(sched, s, m))
		return;
	await_end(s, a);
	s->leased++;
	sched->counters.leased++;
	sched_settle_level(sched, m, MSG_LEVEL_DELIVERED);
	s->ops->awaited(s, a, m);
}

/* True if it has given the handler something, which changes all that is here.
 */
static bool
look(struct sched *sched, struct session *s, struct await *a, int *n)
{
	struct msg *m;

	while (*n < LOOKS && (m = mailbox_ahead(&s->box, &a->cursor))) {
		++*n;
		if (a->matches(a, m)) {
			give(sched, s, a);
			return true;
		}
		a->cursor.at = m;
	}
	return false;
}

int
await_run(struct sched *sched, struct session *s)
{
	int n = 0;

	if (s->box_bits & BOX_HELD)
		return 0;
	for (struct await *a = s->box.rare->awaits; a; a = a->next)
		if (look(sched, s, a, &n))
			break;
	if (s->box.n_parked)
		session_admit_parked(sched, s);
	if (s->box_bits & BOX_ABOVE)
		queue_fall(sched, s);
	return n;
}

/* An urgent one stands before some that have been looked at. */
void
await_arrived(struct sched *sched, struct session *s, const struct msg *m)
{
	if (m->flags & MSG_URGENT)
		for (struct await *a = s->box.rare->awaits; a; a = a->next)
			if (a->matches(a, m))
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

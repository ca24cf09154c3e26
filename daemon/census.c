#include "census.h"

#include <inttypes.h>
#include <string.h>

#include "base/log.h"
#include "kernel/history.h"
#include "kernel/journal.h"

void
census_init(struct census *census, struct loop *loops, unsigned n_loops)
{
	memset(census, 0, sizeof(*census));
	round_init(&census->round, loops, n_loops);
}

struct session *
census_next(struct loop *l, uint32_t *slot)
{
	struct kernel *k = l->sched.kernel;
	uint32_t n;

	pthread_mutex_lock(&k->sessions.lock);
	n = k->sessions.n_slots;
	pthread_mutex_unlock(&k->sessions.lock);
	while (++*slot <= n) {
		struct session *s = session_at(k, *slot);

		if (atomic_load(&s->id) && atomic_load(&s->home) == &l->sched &&
			session_is_hosted(s))
			return s;
	}
	return NULL;
}

/* Whether a session handles events by itself, now or after a pause. What
 * waits for a client may wait for ever. */
static bool
is_at_work(const struct session *s)
{
	return s->life != SESSION_FAILED &&
	       strcmp(s->spec->kind, "client") != 0;
}

static void
census_count(struct round *round, struct loop *l)
{
	struct census *census = container_of(round, struct census, round);
	struct tally *t = &census->parts[l->sched.index];
	const struct session *s;
	uint32_t slot = 0;

	*t = (struct tally){.handled = l->sched.counters.handled,
		.transit_in = l->sched.transit_in,
		.transit_out = l->sched.transit_out};
	while ((s = census_next(l, &slot))) {
		t->sessions++;
		t->failed += s->life == SESSION_FAILED;
		if (!is_at_work(s))
			continue;
		/* nobody resumes it now, or it comes back with the store */
		if (!(s->box_bits & BOX_PAUSED) &&
			(!session_journal(s) || journal_is_partial(s)))
			t->waiting += s->box.n + s->box.n_parked;
		t->waiting += s->run == SESSION_BUSY || s->run == SESSION_AWAY;
		t->waiting += s->control.tail || s->notices.tail;
	}
}

static void
census_on_counted(struct round *round)
{
	struct census *census = container_of(round, struct census, round);
	struct tally *sum = &census->sum;

	memset(sum, 0, sizeof(*sum));
	for (unsigned i = 0; i < round->n_loops; i++) {
		const struct tally *t = &census->parts[i];

		sum->sessions += t->sessions;
		sum->failed += t->failed;
		sum->waiting += t->waiting;
		sum->handled += t->handled;
		sum->transit_in += t->transit_in;
		sum->transit_out += t->transit_out;
	}
	census->done(census, census->arg);
}

void
census_take(struct census *census,
	void (*done)(struct census *census, void *arg), void *arg)
{
	census->done = done;
	census->arg = arg;
	round_start(&census->round, census_count, census_on_counted);
}

/* What waits there and is in no store. */
static uint32_t
count_volatile(const struct session *s)
{
	uint32_t n = s->box.n;

	if (!session_journal(s))
		return n;
	if (!journal_is_partial(s))
		return 0;
	for (const struct msg *m = s->box.admitted.head; m; m = msg_next(m))
		n -= journal_has(m);
	return n;
}

static void
say_lost(const struct session *s)
{
	uint32_t n = count_volatile(s);

	if (n)
		log_warn("mailbox.lost",
			"session=\"%s\" events=%" PRIu32
			" reason=\"they wait in memory, and eventd ends\""
			" hint=\"Durable=yes in [Mailbox] keeps them\"",
			session_name(s), n);
}

void
sessions_stop(struct round *round, struct loop *l)
{
	struct session *s;
	uint32_t slot = 0;

	(void)round;
	while ((s = census_next(l, &slot))) {
		say_lost(s);
		session_stop(s);
	}
	history_flush(&l->sched);
}

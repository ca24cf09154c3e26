#pragma once
/* A world of random sessions, for kernel_test.c alone: who lives in it, what
 * they do with an event, and what is remembered of it to be checked. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/calendar.h"
#include "fixture.h"
#include "kernel/kin.h"
#include "kernel/notice.h"
#include "kernel/queue.h"

enum {
	ACTORS = 10,
	STEPS = 2500,
	POSTS_MAX = 16 * STEPS,
	DELAYS_MAX = 64,
	MOVES_MAX = 4,
};

/* What was posted under a number, and what became of it. */
struct deed {
	struct fake *by;
	uint32_t incarnation;
	bool ack, call, answered;
	uint64_t id; /* of the call */
};

/* Another for each of its states, and for having none. */
static inline uint32_t
incarnation_of(const struct fake *fake)
{
	return 2 * fake->session->starts + fake->session->begun;
}

struct world {
	struct fixture *f;
	uint64_t seed, rng;
	struct fake *actors[ACTORS];
	struct msg *waiting[ACTORS];   /* SESSION_WAIT holds it */
	uint64_t last[ACTORS][ACTORS]; /* number seen, by receiver, sender */
	const struct fake *whose[ACTORS][ACTORS]; /* of which of its lives */
	bool mixed[ACTORS];   /* some go first: the order is another test's */
	bool offered[ACTORS]; /* the last one was not taken: it comes again */
	struct deed deeds[POSTS_MAX];
	uint64_t n_deeds;
	uint64_t delays[DELAYS_MAX];
	uint64_t n_handled, n_requeued;
	struct session *group;     /* on the first scheduler */
	unsigned depth;            /* of handlers */
	bool calm;                 /* handlers only handle */
	struct calendar *calendar; /* ten times a second */
	struct queue_move moves[MOVES_MAX];
	bool moving[MOVES_MAX];
	bool executes; /* who runs them changes, too */
};

static struct world *the_world; /* fakes have no room for it */

static uint64_t
roll(struct world *w, uint64_t n)
{
	w->rng ^= w->rng << 13;
	w->rng ^= w->rng >> 7;
	w->rng ^= w->rng << 17;
	return (w->rng >> 11) % n;
}

static size_t
index_of(const struct fake *fake)
{
	return fake->number;
}

static bool
is_alive(const struct fake *fake)
{
	return fake && fake_exists(fake) && fake->alive;
}

static struct fake *
some_actor(struct world *w)
{
	struct fake *fake = w->actors[roll(w, ACTORS)];

	return is_alive(fake) ? fake : NULL;
}

/* It may have no state just now. */
static struct fake *
some_target(struct world *w)
{
	struct fake *fake = w->actors[roll(w, ACTORS)];

	return fake && fake_exists(fake) ? fake : NULL;
}

static void
actor_on_stop(struct fake *fake)
{
	struct world *w = the_world;

	if (w->waiting[index_of(fake)]) /* the kernel ends it, or tries again */
		w->offered[index_of(fake)] = true;
	w->waiting[index_of(fake)] = NULL;
	while (fake->n_held) {
		struct msg *m = fake->held[--fake->n_held];

		if (w->calm || roll(w, 2)) {
			w->n_handled++;
			session_done(fake->session, m, 0);
		} else {
			session_return(fake->session, m);
		}
	}
}

static void
actor_on_settled(struct fake *fake, uint64_t seq, int status)
{
	struct deed *deed = &the_world->deeds[seq];

	(void)status;
	assert_true(deed->ack);
	assert_ptr_equal(deed->by, fake);
	deed->ack = false;
}

static void
actor_on_reply(struct fake *fake, uint64_t token, struct msg *reply)
{
	struct deed *deed = &the_world->deeds[token];

	(void)reply;
	assert_true(deed->call);
	assert_false(deed->answered);
	assert_ptr_equal(deed->by, fake);
	assert_int_equal(deed->incarnation, incarnation_of(fake));
	deed->answered = true;
}

static void
check_order(struct world *w, struct fake *fake, const struct msg *m)
{
	uint64_t number, *last;
	const struct fake *from;
	size_t me = index_of(fake);

	memcpy(&number, m->data, sizeof(number));
	from = w->deeds[number].by;
	if (!from || m->attempt > 0 || (m->flags & MSG_DELAYED) || w->mixed[me])
		return;
	last = &w->last[me][index_of(from)];
	if (w->whose[me][index_of(from)] != from)
		*last = 0; /* its successor may live elsewhere and be faster */
	if (w->offered[me])
		assert_true(number >= *last);
	else
		assert_true(number > *last);
	w->whose[me][index_of(from)] = from;
	*last = number;
	w->offered[me] = false;
}

static void random_deed(struct world *w);
static struct fake *some_actor(struct world *w);

/* Another may answer for it, whoever that is by then. */
static void
actor_forward(struct world *w, struct fake *fake, struct msg *m)
{
	struct fake *to = some_actor(w);
	struct msg *on;

	if (!msg_call(m) || (m->flags & MSG_REPLIED) || !to || to == fake)
		return;
	on = fixture_msg(fake->sched, to, "r");
	if (session_forward(fake->session, msg_call(m), msg_deadline_ns(m), on))
		msg_free(&fake->sched->pool, on);
	else
		msg_uncall(m);
}

static enum session_result
actor_on_run(struct fake *fake, struct msg *m)
{
	struct world *w = the_world;
	size_t me = index_of(fake);

	fake->trace[0] = 0;
	if (!m->size || notice_is(m)) { /* of a repeating delay */
		w->n_handled++;
		return SESSION_DONE;
	}
	check_order(w, fake, m);
	if (!w->calm && w->depth == 0 && roll(w, 4) == 0) {
		w->depth++;
		random_deed(w);
		w->depth--;
	}
	switch (w->calm ? 9 : roll(w, 20)) {
	case 0:
	case 1:
		w->waiting[me] = m;
		return SESSION_WAIT;
	case 2:
	case 3:
		if (fake->n_held < 8)
			return fake_lease(fake, m);
		break;
	case 4:
		w->offered[me] = true;
		return SESSION_HELD;
	case 5:
		session_fail(fake->session, "a bad day");
		return SESSION_CRASHED;
	case 6:
		return SESSION_UNHANDLED;
	case 7:
		if (msg_call(m) && !(m->flags & MSG_REPLIED)) {
			sched_reply(fake->sched, msg_call(m), 0, "yes", 3);
			m->flags |= MSG_REPLIED;
		}
		break;
	case 8:
		session_exit(fake->session);
		break;
	case 10:
	case 11:
		if (session_may_stash(fake->session, m))
			break;
		w->mixed[me] = true;
		return SESSION_STASHED;
	case 12:
		actor_forward(w, fake, m);
		break;
	case 13:
		session_unstash(fake->session);
		break;
	}
	w->n_handled++;
	return SESSION_DONE;
}

static void
actor_lives(struct world *w, struct session_spec *spec)
{
	if (roll(w, 3) == 0)
		spec->max_attempts = 1 + (uint32_t)roll(w, 4);
	if (roll(w, 3) == 0)
		spec->idle_ms = 1 + roll(w, 100);
	spec->on_demand = roll(w, 4) == 0;
	spec->strategy = (enum strategy)roll(w, 3);
	if (roll(w, 3) == 0) {
		spec->group = strdup("g");
		assert_non_null(spec->group);
	}
}

/* By a file or, every now and then, as the child of another actor on whatever
 * scheduler. NULL: its name is held. */
static struct fake *
actor_host(struct world *w, unsigned sched, struct session_spec *spec)
{
	struct fake *parent = some_actor(w), *fake;
	struct spawn spawn = {.ops = &fake_ops, .spec = spec};
	int status;

	if (!parent || !parent->session->spec || roll(w, 2))
		return fake_hosted(w->f, sched, spec);
	fake = calloc(1, sizeof(*fake));
	assert_non_null(fake);
	fake->fixture = w->f;
	fake->sched = &w->f->scheds[sched];
	spec->loop = (int)sched;
	spawn.state = fake;
	status = session_spawn(parent->session, &spawn);
	spec_unref(spec);
	if (status) {
		free(fake);
		return NULL;
	}
	fake->id = spawn.id;
	fake->session = session_find(&w->f->kernel, spawn.id);
	w->f->fakes[w->f->n_fakes++] = fake;
	return fake;
}

static void
group_make(struct world *w)
{
	struct session_spec *spec = fixture_spec("group/g", RESTART_ON_FAILURE);

	spec->group = strdup("g");
	spec->strategy = (enum strategy)roll(w, 3);
	spec->restart_burst = 3;
	w->group = session_new(&w->f->scheds[0], &group_ops, spec, NULL);
	assert_non_null(w->group);
	spec_unref(spec);
}

static void
actor_make(struct world *w, size_t i)
{
	unsigned sched = (unsigned)roll(w, w->f->n_scheds);
	char name[16];
	struct session_spec *spec;
	struct fake *fake;

	if (w->f->n_fakes == FIXTURE_FAKES)
		return;
	snprintf(name, sizeof(name), "actor%zu", i);
	if (roll(w, 3) == 0) {
		fake = fake_new(w->f, sched, NULL);
		mailbox_limit(&fake->session->box, 4, 100);
		assert_int_equal(
			session_add_alias(fake->session, name, strlen(name)),
			0);
	} else {
		spec = fixture_spec(name, (enum restart_mode)roll(w, 3));
		spec->max_events = 4;
		spec->restart_burst = 3;
		spec->overflow = (enum overflow)roll(w, 4);
		actor_lives(w, spec);
		fake = actor_host(w, sched, spec);
		if (!fake)
			return;
	}
	fake->number = i;
	fake->on_run = actor_on_run;
	fake->on_reply = actor_on_reply;
	fake->on_settled = actor_on_settled;
	fake->on_stop = actor_on_stop;
	w->actors[i] = fake;
	w->waiting[i] = NULL;
	w->offered[i] = false;
	w->mixed[i] = false;
	memset(w->last[i], 0, sizeof(w->last[i]));
}

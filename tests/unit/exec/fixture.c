/* A kernel with loops in real threads. */
#include "fixture.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

struct loop *
loop_alloc(void)
{
	struct loop *l = aligned_alloc(_Alignof(struct loop), sizeof(*l));

	assert_non_null(l);
	return l;
}

struct rig *
rig_new(unsigned n_loops)
{
	struct rig *rig = aligned_alloc(_Alignof(struct rig), sizeof(*rig));

	assert_non_null(rig);
	memset(rig, 0, sizeof(*rig));
	sem_init(&rig->done, 0, 0);
	assert_int_equal(kernel_init(&rig->kernel, &kernel_limits_default,
				 &clock_system),
		0);
	for (; rig->n_loops < n_loops; rig->n_loops++) {
		struct loop *l = loop_alloc();

		rig->loops[rig->n_loops] = l;
		assert_int_equal(loop_init(l, &rig->kernel, rig->n_loops), 0);
	}
	return rig;
}

void
rig_start(struct rig *rig)
{
	for (unsigned i = 0; i < rig->n_loops; i++)
		assert_int_equal(loop_start(rig->loops[i]), 0);
}

void
rig_await(struct rig *rig, unsigned n)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += PATIENCE_S;
	for (; n > 0; n--)
		assert_int_equal(sem_timedwait(&rig->done, &until), 0);
}

void
rig_done(struct rig *rig)
{
	sem_post(&rig->done);
}

void
rig_stop(struct rig *rig)
{
	for (unsigned i = 0; i < rig->n_loops; i++)
		loop_stop(rig->loops[i]);
	for (unsigned i = 0; i < rig->n_loops; i++)
		loop_join(rig->loops[i]);
}

void
rig_free(struct rig *rig)
{
	rig_stop(rig);
	for (unsigned i = 0; i < rig->n_loops; i++)
		assert_int_equal(loop_deinit(rig->loops[i]), 0);
	kernel_deinit(&rig->kernel);
	for (unsigned i = 0; i < rig->n_loops; i++)
		free(rig->loops[i]);
	sem_destroy(&rig->done);
	free(rig);
}

int
setup_one(void **state)
{
	*state = rig_new(1);
	return 0;
}

int
setup_two(void **state)
{
	*state = rig_new(2);
	return 0;
}

int
setup_four(void **state)
{
	*state = rig_new(4);
	return 0;
}

int
teardown(void **state)
{
	rig_free(*state);
	return 0;
}

/* ---- a kind ---------------------------------------------------------- */

static enum session_result
actor_start(struct session *s)
{
	(void)s;
	return SESSION_DONE;
}

static enum session_result
actor_run(struct session *s, struct msg *m)
{
	struct actor *a = s->state;

	a->n_inside++;
	if (a->n_inside != 1) /* not one at a time */
		abort();
	a->on_run(a, m);
	a->n_inside--;
	return SESSION_DONE;
}

static void
actor_reply(struct session *s, uint64_t token, struct msg *reply)
{
	struct actor *a = s->state;

	(void)reply;
	a->on_reply(a, token);
}

static void
actor_settled(struct session *s, uint64_t seq, uint32_t size, int status,
	const char *text)
{
	struct actor *a = s->state;

	(void)seq, (void)size, (void)text;
	a->n_settled += status == 0;
	if (a->on_reply)
		a->on_reply(a, 0);
}

static void
actor_stop(struct session *s, bool crashed)
{
	(void)s, (void)crashed;
}

static const struct session_ops actor_ops = {
	.kind = "actor",
	.start = actor_start,
	.run = actor_run,
	.reply = actor_reply,
	.settled = actor_settled,
	.stop = actor_stop,
	.goes_away = true,
};

void
actor_init(struct actor *a, struct rig *rig, unsigned loop)
{
	a->rig = rig;
	a->loop = rig->loops[loop];
	a->best_late_ns = UINT64_MAX;
	a->session = session_new(&a->loop->sched, &actor_ops, NULL, a);
	assert_non_null(a->session);
	a->id = a->session->id;
	mailbox_limit(&a->session->box, UINT32_MAX, UINT64_MAX);
}

struct msg *
msg_of(struct actor *from, const struct actor *to, uint64_t number)
{
	struct msg *m;

	away_enter();
	m = msg_new(&from->loop->sched.pool, &(struct msg_init){.event = "n",
						     .event_size = 1,
						     .event_static = true,
						     .data = &number,
						     .size = sizeof(number)});
	away_leave();

	if (!m)
		abort();
	m->from = from->id;
	m->to = to->id;
	return m;
}

void
post(struct actor *from, const struct actor *to, uint64_t number)
{
	away_enter();
	if (sched_post(&from->loop->sched, msg_of(from, to, number)))
		abort();
	away_leave();
}

/* ---- a crowd --------------------------------------------------------- */

static struct crowd *
crowd_of(struct actor *a)
{
	return container_of(a - a->limit, struct crowd, actors[0]);
}

/* What each must get in all: everybody sends to all in turn. */
static void
crowd_look(struct crowd *c, struct actor *a)
{
	const struct crowd_plan *plan = &c->plan;
	size_t i = a->limit;

	if (c->done[i] || c->n_received[i] < plan->each ||
		a->n_settled < plan->each / plan->ack_every ||
		a->n_replies < plan->each / plan->call_every)
		return;
	c->done[i] = true;
	rig_done(c->rig);
}

static void
crowd_send(struct crowd *c, struct actor *a)
{
	const struct crowd_plan *plan = &c->plan;
	uint64_t n = c->sent[a->limit]++;
	struct msg *m =
		msg_of(a, &c->actors[(a->limit + n) % CROWD], n / CROWD);
	int r;

	if (n % plan->ack_every == 3) {
		m->flags |= MSG_ACK;
		msg_wide(m)->level = (n / plan->ack_every) % 2
					     ? MSG_LEVEL_HANDLED
					     : MSG_LEVEL_ACCEPTED;
		msg_wide(m)->seq = n;
	}
	away_enter();
	if (n % plan->call_every == 5)
		r = session_call(a->session, m, 1, 600000, NULL);
	else
		r = sched_post(&a->loop->sched, m);
	away_leave();
	if (r)
		abort();
}

static void
crowd_run(struct actor *a, struct msg *m)
{
	struct crowd *c = crowd_of(a);
	uint64_t number;

	memcpy(&number, m->data, sizeof(number));
	if (number == UINT64_MAX) { /* its own tick */
		for (uint64_t i = 0; i < c->plan.batch; i++)
			crowd_send(c, a);
		if (c->sent[a->limit] < c->plan.each)
			post(a, a, UINT64_MAX);
		return;
	}
	for (size_t i = 0; i < CROWD; i++)
		if (c->actors[i].id == m->from)
			c->n_wrong[a->limit] +=
				c->seen[a->limit][i]++ != number;
	away_enter();
	c->n_received[a->limit]++;
	crowd_look(c, a);
	away_leave();
}

/* A reply while it is away comes to its thread, an ack to who holds its home:
 * both count what crowd_look() reads. */
static void
crowd_reply(struct actor *a, uint64_t token)
{
	away_pin();
	a->n_replies += token;
	crowd_look(crowd_of(a), a);
}

struct crowd *
crowd_new(struct rig *rig, const struct crowd_plan *plan)
{
	struct crowd *c = calloc(1, sizeof(*c));

	assert_non_null(c);
	c->rig = rig;
	c->plan = *plan;
	for (size_t i = 0; i < CROWD; i++) {
		c->actors[i].on_run = crowd_run;
		c->actors[i].on_reply = crowd_reply;
		c->actors[i].limit = i;
		actor_init(&c->actors[i], rig, i % rig->n_loops);
		post(&c->actors[i], &c->actors[i], UINT64_MAX);
	}
	return c;
}

void
crowd_await(struct crowd *c)
{
	rig_await(c->rig, CROWD);
	rig_stop(c->rig);
}

static void
check_books(const struct crowd *c)
{
	const struct crowd_plan *plan = &c->plan;
	uint64_t accepted = 0, handled = 0, in = 0, out = 0;

	for (unsigned i = 0; i < c->rig->n_loops; i++) {
		const struct sched *s = &c->rig->loops[i]->sched;

		accepted += s->counters.accepted;
		handled += s->counters.handled;
		in += s->transit_in;
		out += s->transit_out;
		assert_int_equal(s->counters.refused, 0);
		assert_int_equal(s->counters.dead, 0);
		assert_int_equal(s->counters.leased, 0);
		assert_int_equal(s->queued, 0);
		assert_int_equal(s->calls.n, 0);
	}
	assert_int_equal(in, out);
	assert_int_equal(accepted, handled);
	assert_int_equal(
		handled, CROWD * (plan->each + plan->each / plan->batch));
}

void
crowd_check(const struct crowd *c)
{
	for (size_t i = 0; i < CROWD; i++) {
		assert_int_equal(c->n_wrong[i], 0);
		assert_int_equal(c->n_received[i], c->plan.each);
		assert_int_equal(c->actors[i].n_settled,
			c->plan.each / c->plan.ack_every);
		assert_int_equal(c->actors[i].n_replies,
			c->plan.each / c->plan.call_every);
	}
	check_books(c);
	assert_int_equal(c->rig->kernel.late_replies, 0);
}

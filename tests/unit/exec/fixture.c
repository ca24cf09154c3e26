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

/* daemon/exec/loop.c and the kernel between threads: more than a million
 * posts, acks and calls over four loops, each once and in order. */
#include <stdlib.h>
#include <string.h>

#include "fixture.h"

enum {
	STRESS_ACTORS = 16,
	STRESS_EACH = 80000, /* posts, calls among them */
	STRESS_BATCH = 100,
	STRESS_ACK_EVERY = 16,
	STRESS_CALL_EVERY = 64,
};

struct crowd {
	struct actor actors[STRESS_ACTORS];
	uint64_t sent[STRESS_ACTORS];
	uint64_t seen[STRESS_ACTORS][STRESS_ACTORS]; /* by receiver, sender */
	uint64_t n_received[STRESS_ACTORS];
	uint64_t n_wrong[STRESS_ACTORS];
	bool done[STRESS_ACTORS];
};

static struct crowd *
crowd_of(struct actor *a)
{
	return container_of(a - a->limit, struct crowd, actors[0]);
}

/* What each must get in all: everybody sends to all in turn. */
static void
crowd_check(struct crowd *c, struct actor *a)
{
	size_t i = a->limit;

	if (c->done[i] || c->n_received[i] < STRESS_EACH ||
		a->n_settled < STRESS_EACH / STRESS_ACK_EVERY ||
		a->n_replies < STRESS_EACH / STRESS_CALL_EVERY)
		return;
	c->done[i] = true;
	rig_done(a->rig);
}

static void
crowd_send(struct crowd *c, struct actor *a)
{
	uint64_t n = c->sent[a->limit]++;
	struct actor *to = &c->actors[(a->limit + n) % STRESS_ACTORS];
	struct msg *m = msg_of(a, to, n / STRESS_ACTORS);
	int r;

	if (n % STRESS_ACK_EVERY == 3) {
		m->flags |= MSG_ACK;
		msg_wide(m)->level = (n / STRESS_ACK_EVERY) % 2
					     ? MSG_LEVEL_HANDLED
					     : MSG_LEVEL_ACCEPTED;
		msg_wide(m)->seq = n;
	}
	if (n % STRESS_CALL_EVERY == 5)
		r = session_call(a->session, m, 1, 600000, NULL);
	else
		r = sched_post(&a->loop->sched, m);
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
		for (unsigned i = 0; i < STRESS_BATCH; i++)
			crowd_send(c, a);
		if (c->sent[a->limit] < STRESS_EACH)
			post(a, a, UINT64_MAX);
		return;
	}
	for (size_t i = 0; i < STRESS_ACTORS; i++)
		if (c->actors[i].id == m->from)
			c->n_wrong[a->limit] +=
				c->seen[a->limit][i]++ != number;
	c->n_received[a->limit]++;
	crowd_check(c, a);
}

static void
crowd_reply(struct actor *a, uint64_t token)
{
	a->n_replies += token;
	crowd_check(crowd_of(a), a);
}

static void
check_books(struct rig *rig)
{
	uint64_t accepted = 0, handled = 0, in = 0, out = 0;

	for (unsigned i = 0; i < rig->n_loops; i++) {
		const struct sched *s = &rig->loops[i]->sched;

		accepted += s->counters.accepted;
		handled += s->counters.handled;
		in += s->transit_in;
		out += s->transit_out;
		assert_int_equal(s->counters.refused, 0);
		assert_int_equal(s->counters.dead, 0);
		assert_int_equal(s->queued, 0);
		assert_int_equal(s->calls.n, 0);
	}
	assert_int_equal(in, out);
	assert_int_equal(accepted, handled);
	assert_int_equal(
		handled, (uint64_t)STRESS_ACTORS *
				 (STRESS_EACH + STRESS_EACH / STRESS_BATCH));
}

/* B38 */
static void
test_four_loops_pass_all_once_and_in_order(void **state)
{
	struct rig *rig = *state;
	struct crowd *c = calloc(1, sizeof(*c));

	assert_non_null(c);
	for (size_t i = 0; i < STRESS_ACTORS; i++) {
		c->actors[i].on_run = crowd_run;
		c->actors[i].on_reply = crowd_reply;
		c->actors[i].limit = i;
		actor_init(&c->actors[i], rig, i % rig->n_loops);
		post(&c->actors[i], &c->actors[i], UINT64_MAX);
	}
	rig_start(rig);
	rig_await(rig, STRESS_ACTORS);
	rig_stop(rig);
	for (size_t i = 0; i < STRESS_ACTORS; i++) {
		assert_int_equal(c->n_wrong[i], 0);
		assert_int_equal(c->n_received[i], STRESS_EACH);
		assert_int_equal(
			c->actors[i].n_settled, STRESS_EACH / STRESS_ACK_EVERY);
		assert_int_equal(c->actors[i].n_replies,
			STRESS_EACH / STRESS_CALL_EVERY);
	}
	check_books(rig);
	assert_int_equal(rig->kernel.late_replies, 0);
	free(c);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			test_four_loops_pass_all_once_and_in_order, setup_four,
			teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

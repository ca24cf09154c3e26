/* Calls between threads that are forwarded, cancelled, urgent and repeated by
 * key: each is answered or cancelled, once, and the accounts balance. */
#include <stdlib.h>
#include <string.h>

#include "fixture.h"

enum {
	ACTORS = 12,
	CALLS = 6000, /* of each */
	BATCH = 50,
	FORWARDED = 1 << 30, /* in a payload: it has been */
};

struct callers {
	struct actor actors[ACTORS];
	uint64_t calls[ACTORS][BATCH]; /* of the batch before */
	uint64_t sent[ACTORS], cancelled[ACTORS];
	bool done[ACTORS];
};

static struct callers *
callers_of(struct actor *a)
{
	return container_of(a - a->limit, struct callers, actors[0]);
}

static void
check_done(struct callers *c, struct actor *a)
{
	size_t i = a->limit;

	if (c->done[i] || c->sent[i] < CALLS ||
		a->n_replies + c->cancelled[i] < CALLS)
		return;
	c->done[i] = true;
	rig_done(a->rig);
}

static void
cancel_some(struct callers *c, struct actor *a)
{
	for (size_t i = 0; i < BATCH; i += 3) {
		uint64_t call = c->calls[a->limit][i];

		c->calls[a->limit][i] = 0;
		if (call && !session_cancel_call(a->session, call))
			c->cancelled[a->limit]++;
	}
}

/* The same key twice: one of them is handled. */
static void
post_twice(struct actor *a, struct actor *to, uint64_t n)
{
	for (int twice = 0; twice < 2; twice++) {
		struct msg *m = msg_new(
			&a->loop->sched.pool, &(struct msg_init){.event = "key",
						      .event_static = true,
						      .event_size = 3,
						      .data = &n,
						      .size = sizeof(n),
						      .extra = true});

		m->to = to->id;
		m->from = a->id;
		m->flags |= n % 2 ? MSG_URGENT : 0;
		msg_extra(m)->key_size = sizeof(n);
		memcpy(msg_extra(m)->key, &n, sizeof(n));
		if (sched_post(&a->loop->sched, m))
			abort();
	}
}

static void
make_calls(struct callers *c, struct actor *a)
{
	for (size_t i = 0; i < BATCH; i++) {
		uint64_t n = c->sent[a->limit]++;
		struct actor *to = &c->actors[(a->limit + n) % ACTORS];
		struct msg *m = msg_of(a, to, n);

		m->flags |= n % 5 ? 0 : MSG_URGENT;
		if (session_call(
			    a->session, m, 1, 600000, &c->calls[a->limit][i]))
			abort();
	}
	post_twice(a, &c->actors[c->sent[a->limit] / BATCH % ACTORS],
		a->limit << 32 | c->sent[a->limit]);
}

static void
forward(struct callers *c, struct actor *a, struct msg *m, uint64_t number)
{
	struct msg *on = msg_of(
		a, &c->actors[(a->limit + 5) % ACTORS], number | FORWARDED);

	if (session_forward(a->session, msg_call(m), msg_deadline_ns(m), on))
		abort();
	msg_uncall(m);
}

static void
on_run(struct actor *a, struct msg *m)
{
	struct callers *c = callers_of(a);
	uint64_t number;

	memcpy(&number, m->data, sizeof(number));
	if (number == UINT64_MAX) { /* its own tick */
		cancel_some(c, a);
		if (c->sent[a->limit] < CALLS) {
			make_calls(c, a);
			post(a, a, UINT64_MAX);
		}
		check_done(c, a);
	} else if (m->flags & MSG_EXTRA) {
		a->n++;
	} else if (msg_call(m) && number % 4 == 1 && !(number & FORWARDED)) {
		forward(c, a, m, number);
	}
}

static void
on_reply(struct actor *a, uint64_t token)
{
	a->n_replies += token;
	check_done(callers_of(a), a);
}

static void
check_books(const struct rig *rig)
{
	uint64_t accepted = 0, ended = 0, in = 0, out = 0;

	for (unsigned i = 0; i < rig->n_loops; i++) {
		const struct sched *s = &rig->loops[i]->sched;

		accepted += s->counters.accepted;
		ended +=
			s->counters.handled + s->counters.cancelled + s->queued;
		in += s->transit_in;
		out += s->transit_out;
		assert_int_equal(s->counters.refused, 0);
		assert_int_equal(s->counters.dead, 0);
		assert_int_equal(s->counters.expired, 0);
		assert_int_equal(s->calls.n, 0);
	}
	assert_int_equal(in, out);
	assert_int_equal(accepted, ended);
}

static void
test_each_call_is_answered_or_cancelled(void **state)
{
	struct rig *rig = *state;
	struct callers *c = calloc(1, sizeof(*c));

	assert_non_null(c);
	for (size_t i = 0; i < ACTORS; i++) {
		c->actors[i].on_run = on_run;
		c->actors[i].on_reply = on_reply;
		c->actors[i].limit = i;
		actor_init(&c->actors[i], rig, i % rig->n_loops);
		post(&c->actors[i], &c->actors[i], UINT64_MAX);
	}
	rig_start(rig);
	rig_await(rig, ACTORS);
	rig_stop(rig);
	for (size_t i = 0; i < ACTORS; i++) {
		const struct actor *a = &c->actors[i];

		assert_int_equal(a->n_replies + c->cancelled[i], CALLS);
		assert_true(a->n <= (uint64_t)ACTORS * CALLS / BATCH);
	}
	check_books(rig);
	free(c);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			test_each_call_is_answered_or_cancelled, setup_four,
			teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

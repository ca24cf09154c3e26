/* Four schedulers, each run by a thread of its own, under the real clock:
 * sessions that post, call, put aside, hold, crash and set delays at random,
 * across. What one sends another comes in order and at most once; each post
 * that asked is told once what became of it, each call answered once; when all
 * is over the accounts balance. Worth most under ThreadSanitizer. */
#include "fixture.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/delays.h"

enum {
	THREADS = 4,
	ACTORS = 4 * THREADS,
	DEEDS = 15000, /* of each actor */
	ROUNDS_MAX = 4000,
};

/* What the events carry. */
struct word {
	uint32_t from, number;
};

struct actor {
	struct fake *fake;
	uint64_t rng;
	uint32_t n_deeds;           /* done so far */
	uint32_t seen[ACTORS];      /* the greatest number of each sender */
	uint64_t n_handled, n_lost; /* events; those lost with a crash */
	uint8_t acks[DEEDS];        /* asked for and not told: enum asked */
	uint8_t calls[DEEDS];       /* likewise */
};

/* By this life of its session, which must be told; by one before. */
enum asked { NOT, NOW, ONCE };

/* A thread touches but the actors that live there. */
struct storm {
	struct fixture *f;
	uint64_t ids[ACTORS];
	struct actor actors[ACTORS];
	_Atomic unsigned n_busy; /* actors that have deeds to do */
};

static struct storm *the_storm; /* fakes have no room for it */

static uint64_t
roll(struct actor *a, uint64_t n)
{
	a->rng ^= a->rng << 13;
	a->rng ^= a->rng >> 7;
	a->rng ^= a->rng << 17;
	return (a->rng >> 11) % n;
}

static struct actor *
actor_of(const struct fake *fake)
{
	return &the_storm->actors[fake->number];
}

/* ---- deeds ----------------------------------------------------------- */

static void
do_delay(struct actor *a)
{
	struct sched *s = a->fake->sched;
	struct delay_init init = {
		.to = a->fake->id, .event = "d", .event_size = 1};

	init.due_ns = delay_now(s, DELAY_MONOTONIC) + roll(a, 3) * NS_PER_MS;
	assert_int_equal(delay_set(s, a->fake->session, &init, NULL, NULL), 0);
}

static void
do_call(struct actor *a, struct msg *m, uint32_t number)
{
	uint64_t id;

	a->calls[number] = NOW;
	if (!session_call(a->fake->session, m, number,
		    roll(a, 3) ? 10000 : (uint32_t)roll(a, 4), &id)) {
		if (roll(a, 8) == 0 &&
			!session_cancel_call(a->fake->session, id))
			a->calls[number] = NOT;
		return;
	}
	a->calls[number] = NOT;
	msg_free(&a->fake->sched->pool, m);
}

static void
do_post(struct actor *a, struct msg *m, uint32_t number)
{
	if (roll(a, 2)) {
		a->acks[number] = NOW;
		m->flags |= MSG_ACK;
		msg_wide(m)->seq = number;
		msg_wide(m)->level = (uint8_t)roll(a, 4);
	}
	if (sched_post(a->fake->sched, m)) {
		assert_int_equal(a->acks[number], NOT);
		msg_free(&a->fake->sched->pool, m);
	}
}

static void
deed(struct actor *a)
{
	uint64_t to = the_storm->ids[roll(a, ACTORS)];
	struct word word = {(uint32_t)a->fake->number, a->n_deeds++};
	struct msg *m;

	if (a->n_deeds == DEEDS)
		atomic_fetch_sub(&the_storm->n_busy, 1);
	if (roll(a, 16) == 0) {
		do_delay(a);
		return;
	}
	m = msg_new(&a->fake->sched->pool, &(struct msg_init){.event = "e",
						   .event_size = 1,
						   .data = &word,
						   .size = sizeof(word),
						   .extra = true});
	assert_non_null(m);
	m->from = a->fake->id;
	m->to = to;
	if (roll(a, 4) == 0)
		do_call(a, m, word.number);
	else
		do_post(a, m, word.number);
}

/* ---- the sessions ---------------------------------------------------- */

static void
check_word(struct actor *a, const struct msg *m)
{
	struct word word;

	memcpy(&word, m->data, sizeof(word));
	assert_true(word.from < ACTORS && word.number < DEEDS);
	if (m->attempt)
		return; /* it has been seen */
	assert_true(word.number + 1 > a->seen[word.from]);
	a->seen[word.from] = word.number + 1;
}

/* All that it holds, the oldest first; the last ones stay for a while. */
static void
let_go(struct actor *a, unsigned keep)
{
	while (a->fake->n_held > keep) {
		a->n_handled++;
		fake_done(a->fake, 0);
	}
}

static enum session_result
on_run(struct fake *fake, struct msg *m)
{
	struct actor *a = actor_of(fake);

	fake->trace[0] = 0;
	if (m->size)
		check_word(a, m);
	for (unsigned i = 0; i < 2 && a->n_deeds < DEEDS; i++)
		deed(a);
	let_go(a, a->n_deeds < DEEDS ? (unsigned)roll(a, 8) : 0);
	if (a->n_deeds < DEEDS && roll(a, 200) == 0) {
		a->n_lost++;
		session_fail(fake->session, "a bad day");
		return SESSION_CRASHED;
	}
	if (a->n_deeds < DEEDS && fake->n_held < 8 && roll(a, 4) == 0)
		return fake_lease(fake, m);
	if (msg_call(m) && roll(a, 2)) {
		sched_reply(fake->sched, msg_call(m), 0, "yes", 3);
		m->flags |= MSG_REPLIED;
	}
	a->n_handled++;
	return SESSION_DONE;
}

static enum session_result
on_start(struct fake *fake)
{
	struct actor *a = actor_of(fake);

	memset(a->calls, NOT, sizeof(a->calls)); /* those are nobody's now */
	for (unsigned n = 0; n < a->n_deeds; n++)
		if (a->acks[n] == NOW)
			a->acks[n] = ONCE;
	fake->trace[0] = 0;
	if (a->n_deeds < DEEDS)
		do_delay(a);
	return SESSION_DONE;
}

static void
on_stop(struct fake *fake)
{
	let_go(actor_of(fake), 0);
}

static void
on_reply(struct fake *fake, uint64_t token, struct msg *reply)
{
	struct actor *a = actor_of(fake);

	(void)reply;
	fake->trace[0] = 0;
	assert_int_equal(a->calls[token], NOW);
	a->calls[token] = NOT;
	if (a->n_deeds < DEEDS)
		deed(a);
}

static void
on_settled(struct fake *fake, uint64_t seq, int status)
{
	struct actor *a = actor_of(fake);

	(void)status;
	fake->trace[0] = 0;
	assert_int_not_equal(a->acks[seq], NOT);
	a->acks[seq] = NOT;
}

static void
actor_make(struct storm *storm, unsigned i)
{
	struct actor *a = &storm->actors[i];
	char name[16];
	struct session_spec *spec;

	snprintf(name, sizeof(name), "actor%u", i);
	spec = fixture_spec(name, RESTART_ALWAYS);
	spec->max_events = 4 * ACTORS * DEEDS;
	spec->restart_ms = 1;
	spec->restart_max_ms = 2;
	spec->restart_burst = UINT32_MAX;
	spec->max_attempts = 1 + i % 3;
	a->rng = (i + 1) * 0x9e3779b97f4a7c15u;
	a->fake = fake_hosted(storm->f, i % THREADS, spec);
	a->fake->number = i;
	storm->ids[i] = a->fake->session->id;
	a->fake->on_start = on_start;
	a->fake->on_run = on_run;
	a->fake->on_reply = on_reply;
	a->fake->on_settled = on_settled;
	a->fake->on_stop = on_stop;
}

/* ---- the storm ------------------------------------------------------- */

/* Those who have nothing to do would have no deeds, either. */
static void
stir(struct sched *s)
{
	for (unsigned i = 0; i < ACTORS; i++) {
		struct actor *a = &the_storm->actors[i];

		if (a->fake->sched == s && a->fake->alive && a->n_deeds < DEEDS)
			deed(a);
	}
}

static void *
run(void *arg)
{
	struct sched *s = arg;

	while (atomic_load(&the_storm->n_busy)) {
		if (!sched_turn(s)) {
			stir(s);
			sched_yield();
		}
	}
	return NULL;
}

static bool
all_is_over(const struct storm *storm)
{
	bool over = true;

	for (unsigned i = 0; i < THREADS; i++) {
		const struct sched *s = &storm->f->scheds[i];

		over &= !s->queued && !s->delays.n && !s->calls.n &&
			!s->counters.leased;
	}
	return over;
}

/* What waits for something to come is woken, one thread again. */
static void
come_to_rest(struct storm *storm)
{
	for (unsigned round = 0; round < ROUNDS_MAX; round++) {
		fixture_run(storm->f);
		for (unsigned i = 0; i < ACTORS; i++)
			let_go(&storm->actors[i], 0);
		if (all_is_over(storm))
			break;
		clock_fake_advance(&storm->f->clock, NS_PER_MS * 100);
	}
	fixture_run(storm->f);
	assert_true(all_is_over(storm));
}

static void
check_rest(struct storm *storm)
{
	uint64_t handled = 0, counted = 0, lost = 0;

	for (unsigned i = 0; i < ACTORS; i++) {
		struct actor *a = &storm->actors[i];

		handled += a->n_handled;
		lost += a->n_lost;
		for (unsigned n = 0; n < DEEDS; n++) {
			assert_int_not_equal(a->acks[n], NOW);
			assert_int_equal(a->calls[n], NOT);
		}
	}
	for (unsigned i = 0; i < THREADS; i++)
		counted += storm->f->scheds[i].counters.handled;
	assert_int_equal(handled, counted);
	assert_true(lost > 0);
	assert_true(handled > (uint64_t)ACTORS * DEEDS / 2);
}

static void
test_accounts_balance_over_four_threads(void **state)
{
	struct storm *storm = calloc(1, sizeof(*storm));
	pthread_t threads[THREADS];

	(void)state;
	assert_non_null(storm);
	the_storm = storm;
	storm->f = fixture_new(THREADS, NULL);
	storm->n_busy = ACTORS;
	for (unsigned i = 0; i < ACTORS; i++)
		actor_make(storm, i);
	storm->f->kernel.clock = &clock_system;
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, run,
					 &storm->f->scheds[i]),
			0);
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	clock_fake_advance(
		&storm->f->clock, storm->f->scheds[0].now_ns + NS_PER_S);
	storm->f->kernel.clock = &storm->f->clock.source;
	come_to_rest(storm);
	check_rest(storm);
	fixture_free(storm->f);
	free(storm);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_accounts_balance_over_four_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

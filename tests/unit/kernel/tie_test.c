/* daemon/kernel/tie.c: watches and links, near and far, in every order of
 * dying. */
#include "kernel/tie.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "fixture.h"
#include "kernel/notice.h"

/* What `_down` said last, and how many there were. */
struct told {
	unsigned n;
	uint64_t watch, session;
	char alias[32], reason[32], text[128];
};
static struct told told;

static enum session_result
note_down(struct fake *fake, struct msg *m)
{
	struct notice n;

	(void)fake;
	if (!notice_is(m))
		return SESSION_DONE;
	notice_read(m, &n);
	told.n++;
	told.watch = n.watch;
	told.session = n.session;
	snprintf(told.alias, sizeof(told.alias), "%s", n.alias);
	snprintf(told.reason, sizeof(told.reason), "%s", n.reason);
	snprintf(told.text, sizeof(told.text), "%s", n.text);
	return SESSION_DONE;
}

static struct fake *
watcher(struct fixture *f, unsigned i)
{
	struct fake *fake =
		fake_hosted(f, i, fixture_spec("watcher", RESTART_NO));

	fake->on_run = note_down;
	fixture_run(f);
	memset(&told, 0, sizeof(told));
	return fake;
}

static struct fake *
target(struct fixture *f, unsigned i, enum restart_mode restart)
{
	char alias[32] = "target";
	struct fake *fake;

	if (alias_holder(&f->kernel.aliases, alias, strlen(alias)))
		snprintf(alias, sizeof(alias), "target-%u", f->n_fakes);
	fake = fake_hosted(f, i, fixture_spec(alias, restart));
	fixture_run(f);
	return fake;
}

static uint64_t
watch(struct fake *from, const struct fake *to)
{
	struct tie_init init = {.session = to->id, .alias = "target"};
	uint64_t number;

	assert_int_equal(tie_make(from->session, &init, &number), 0);
	assert_true(number != 0);
	return number;
}

static void
link_with(struct fake *from, const struct fake *to)
{
	struct tie_init init = {.session = to->id, .link = true};
	uint64_t number;

	assert_int_equal(tie_make(from->session, &init, &number), 0);
}

static void
crash(struct fixture *f, struct fake *fake)
{
	fake->on_run = fake_crash;
	fixture_post(NULL, fake, "boom");
	fixture_run(f);
}

static unsigned
last(const struct fixture *f)
{
	return f->n_scheds - 1;
}

/* ---- watches ----------------------------------------------------------- */

static void
test_a_failed_end_is_told_once_with_its_reason(void **state)
{
	struct fixture *f = *state;
	struct fake *w = watcher(f, 0), *t = target(f, last(f), RESTART_NO);
	uint64_t number = watch(w, t);

	fixture_run(f);
	assert_int_equal(told.n, 0);
	crash(f, t);
	assert_int_equal(told.n, 1);
	assert_true(told.watch == number && told.session == t->id);
	assert_string_equal(told.alias, "target");
	assert_string_equal(told.reason, "failed");
	assert_string_equal(told.text, "cannot handle 'boom'");
	session_stop(t->session);
	fixture_run(f);
	assert_int_equal(told.n, 1);
	assert_int_equal(ties_unwatch(w->session, number), TIE_E_NONE);
}

static void
test_a_stopped_one_is_told_as_stopped(void **state)
{
	struct fixture *f = *state;
	struct fake *w = watcher(f, 0), *t = target(f, last(f), RESTART_NO);

	watch(w, t);
	fixture_run(f);
	session_stop(t->session);
	fixture_run(f);
	assert_int_equal(told.n, 1);
	assert_string_equal(told.reason, "stopped");
}

static void
test_an_exit_is_normal(void **state)
{
	struct fixture *f = *state;
	struct fake *w = watcher(f, 0), *t = target(f, last(f), RESTART_NO);

	watch(w, t);
	watch(w, t); /* two watches: told twice */
	fixture_run(f);
	session_exit(t->session);
	fixture_run(f);
	assert_int_equal(told.n, 2);
	assert_string_equal(told.reason, "normal");
}

static void
test_one_that_is_gone_is_told_at_once(void **state)
{
	struct fixture *f = *state;
	struct fake *w = watcher(f, 0), *t = target(f, last(f), RESTART_NO);
	uint64_t number;

	session_stop(t->session);
	fixture_run(f);
	number = watch(w, t);
	fixture_run(f);
	assert_int_equal(told.n, 1);
	assert_true(told.watch == number);
	assert_string_equal(told.reason, "no such session");
}

static void
test_one_that_ends_as_the_watch_travels_is_told(void **state)
{
	struct fixture *f = *state;
	struct fake *w = watcher(f, 0), *t = target(f, last(f), RESTART_NO);

	watch(w, t);
	session_stop(t->session);
	fixture_run(f);
	assert_int_equal(told.n, 1);
}

static void
test_a_failed_one_is_told_as_failed_at_once(void **state)
{
	struct fixture *f = *state;
	struct fake *w = watcher(f, 0), *t = target(f, last(f), RESTART_NO);

	crash(f, t);
	watch(w, t);
	fixture_run(f);
	assert_int_equal(told.n, 1);
	assert_string_equal(told.reason, "failed");
	assert_string_equal(told.text, "cannot handle 'boom'");
}

static void
test_a_watch_in_the_pause_is_of_the_next_start(void **state)
{
	struct fixture *f = *state;
	struct fake *w = watcher(f, 0);
	struct fake *t = target(f, last(f), RESTART_ON_FAILURE);

	crash(f, t);
	watch(w, t);
	t->on_run = NULL;
	fixture_advance(f, 1000);
	assert_int_equal(told.n, 0);
	crash(f, t);
	assert_int_equal(told.n, 1);
}

static void
test_a_restart_is_told(void **state)
{
	struct fixture *f = *state;
	struct fake *w = watcher(f, 0), *t = target(f, last(f), RESTART_NO);

	watch(w, t);
	fixture_run(f);
	session_restart(t->session, NULL);
	fixture_run(f);
	assert_int_equal(told.n, 1);
	assert_string_equal(told.reason, "stopped");
	assert_string_equal(told.text, "it is restarted");
}

static void
test_an_ended_watch_tells_nothing(void **state)
{
	struct fixture *f = *state;
	struct fake *w = watcher(f, 0), *t = target(f, last(f), RESTART_NO);
	uint64_t number = watch(w, t);

	assert_int_equal(ties_unwatch(w->session, number), 0);
	assert_int_equal(ties_unwatch(w->session, number), TIE_E_NONE);
	number = watch(w, t); /* another number in the same place */
	fixture_run(f);
	assert_int_equal(ties_unwatch(w->session, number), 0);
	fixture_run(f);
	session_stop(t->session);
	fixture_run(f);
	assert_int_equal(told.n, 0);
}

static void
test_a_restarted_watcher_has_no_watches(void **state)
{
	struct fixture *f = *state;
	struct fake *w = watcher(f, 0), *t = target(f, last(f), RESTART_NO);

	watch(w, t);
	fixture_run(f);
	session_restart(w->session, NULL);
	fixture_run(f);
	assert_null(w->session->ties);
	session_stop(t->session);
	fixture_run(f);
	assert_int_equal(told.n, 0);
}

static void
test_watches_are_limited_and_freed(void **state)
{
	struct fixture *f = *state;
	struct fake *w = watcher(f, 0), *t = target(f, last(f), RESTART_NO);
	struct tie_init init = {.session = t->id};
	uint64_t numbers[3], more;
	char text[256];

	f->kernel.limits.max_watches = 3;
	for (unsigned i = 0; i < 3; i++)
		numbers[i] = watch(w, t);
	assert_int_equal(tie_make(w->session, &init, &more), TIE_E_LIMIT);
	assert_non_null(strstr(
		ties_explain(w->session, TIE_E_LIMIT, text, sizeof(text)),
		"3 watches, links and claims (MaxWatches= in eventd.conf)"));
	assert_int_equal(ties_unwatch(w->session, numbers[1]), 0);
	watch(w, t);
	init.session = w->id;
	assert_int_equal(ties_unwatch(w->session, numbers[0]), 0);
	assert_int_equal(tie_make(w->session, &init, &more), TIE_E_SELF);
	f->kernel.limits.max_watches = 100;
}

/* B17: what tells of an end is neither evicted nor behind data. */
static void
test_down_comes_before_a_full_mailbox(void **state)
{
	struct fixture *f = *state;
	struct session_spec *spec = fixture_spec("watcher", RESTART_NO);
	struct fake *w, *t = target(f, last(f), RESTART_NO);

	spec->max_events = 100;
	w = fake_hosted(f, 0, spec);
	fixture_run(f);
	memset(&told, 0, sizeof(told));
	w->on_run = fake_hold;
	watch(w, t);
	for (unsigned i = 0; i < 100; i++)
		fixture_post(NULL, w, "flood");
	fixture_run(f);
	assert_int_equal(w->session->box.n, 100);
	session_stop(t->session);
	fixture_run(f);
	w->on_run = note_down;
	fake_trace(w);
	session_wake(w->session);
	fixture_run(f);
	assert_int_equal(told.n, 1);
	assert_int_equal(strncmp(fake_trace(w), "_down flood", 11), 0);
}

static void
test_out_of_memory_is_told_and_leaves_nothing(void **state)
{
	struct fixture *f = *state;
	struct fake *w = watcher(f, 0), *t = target(f, last(f), RESTART_NO);
	struct tie_init init = {.session = t->id};
	uint64_t number;

	fault_arm("tie_new", 1);
	assert_int_equal(tie_make(w->session, &init, &number), -ENOMEM);
	fault_arm("tie_places", 1);
	assert_int_equal(tie_make(w->session, &init, &number), -ENOMEM);
	fault_arm("ties_get", 1); /* the target's: the watcher has its own */
	watch(w, t);
	fixture_run(f);
	assert_int_equal(told.n, 1);
	assert_string_equal(told.reason, "failed");
	assert_string_equal(session_state_word(t->session), "up");
}

/* ---- links ------------------------------------------------------------- */

static void
test_a_failed_end_takes_the_linked_one_down(void **state)
{
	struct fixture *f = *state;
	struct fake *w = watcher(f, 0), *t = target(f, last(f), RESTART_NO);

	link_with(w, t);
	fixture_run(f);
	crash(f, t);
	assert_int_equal(told.n, 0);
	assert_string_equal(session_state_word(w->session), "failed");
	assert_non_null(strstr(w->session->health->reason, "target ended: "
							   "failed: cannot"));
}

static void
test_a_link_goes_both_ways(void **state)
{
	struct fixture *f = *state;
	struct fake *w = watcher(f, 0), *t = target(f, last(f), RESTART_NO);

	link_with(w, t);
	link_with(w, t); /* nothing more */
	fixture_run(f);
	crash(f, w);
	assert_string_equal(session_state_word(t->session), "failed");
	assert_non_null(strstr(t->session->health->reason, "watcher ended"));
}

static void
test_a_normal_end_or_a_stop_leaves_the_other_alone(void **state)
{
	struct fixture *f = *state;
	struct fake *w = watcher(f, 0), *t = target(f, last(f), RESTART_NO);
	struct fake *u = target(f, last(f), RESTART_NO);

	link_with(w, t);
	link_with(w, u);
	fixture_run(f);
	session_exit(t->session);
	session_stop(u->session);
	fixture_run(f);
	assert_false(fake_exists(t));
	assert_string_equal(session_state_word(w->session), "up");
	assert_int_equal(told.n, 0);
}

static void
test_who_traps_is_told_instead(void **state)
{
	struct fixture *f = *state;
	struct fake *w = watcher(f, 0), *t = target(f, last(f), RESTART_NO);

	assert_int_equal(ties_trap(w->session, true), 0);
	link_with(w, t);
	fixture_run(f);
	crash(f, t);
	assert_int_equal(told.n, 1);
	assert_string_equal(told.reason, "failed");
	assert_string_equal(session_state_word(w->session), "up");
}

static void
test_unlinked_ones_fail_alone(void **state)
{
	struct fixture *f = *state;
	struct fake *w = watcher(f, 0), *t = target(f, last(f), RESTART_NO);

	ties_trap(t->session, true);
	t->on_run = note_down;
	link_with(w, t);
	fixture_run(f);
	assert_int_equal(tie_unlink(t->session, w->id), 0);
	assert_int_equal(tie_unlink(t->session, w->id), TIE_E_NONE);
	fixture_run(f);
	assert_int_equal(tie_unlink(w->session, t->id), TIE_E_NONE);
	crash(f, w);
	assert_string_equal(session_state_word(t->session), "up");
	assert_int_equal(told.n, 0);
}

static void
test_a_chain_falls_as_a_whole(void **state)
{
	struct fixture *f = *state;
	struct fake *links[8];

	for (unsigned i = 0; i < 8; i++) {
		links[i] = target(f, i % f->n_scheds, RESTART_NO);
		if (i)
			link_with(links[i], links[i - 1]);
	}
	fixture_run(f);
	crash(f, links[4]);
	for (unsigned i = 0; i < 8; i++)
		assert_string_equal(
			session_state_word(links[i]->session), "failed");
}

static void
test_linked_ones_start_again_by_their_own_policy(void **state)
{
	struct fixture *f = *state;
	struct fake *w = watcher(f, 0);
	struct fake *t = target(f, last(f), RESTART_ON_FAILURE);

	link_with(t, w);
	fixture_run(f);
	crash(f, w);
	assert_string_equal(session_state_word(t->session), "backoff");
	fixture_advance(f, 1000);
	assert_string_equal(session_state_word(t->session), "up");
	assert_int_equal(t->n_started, 2);
}

/* ---- any order --------------------------------------------------------- */

static _Thread_local uint32_t seed = 7;

static uint32_t
random_below(uint32_t n)
{
	seed = seed * 1664525 + 1013904223;
	return (seed >> 8) % n;
}

enum { CROWD = 24, STEPS = 4000 };

static struct fake *
member(struct fixture *f)
{
	struct fake *fake = fake_new(f, random_below(f->n_scheds), NULL);

	fake->on_run = note_down;
	if (random_below(2))
		ties_trap(fake->session, true);
	return fake;
}

/* Whoever dies whenever: sanitizers and the accounts tell of what is left. */
static void
test_any_order_leaves_nothing(void **state)
{
	struct fixture *f = fixture_new(3, NULL);
	struct fake *crowd[CROWD];
	unsigned births = 0;

	(void)state;
	for (unsigned i = 0; i < CROWD; i++)
		crowd[i] = member(f);
	for (unsigned step = 0; step < STEPS; step++) {
		struct fake *a = crowd[random_below(CROWD)];
		struct fake *b = crowd[random_below(CROWD)];
		bool there = fake_exists(a);
		struct tie_init init = {
			.session = b->id, .link = random_below(3) == 0};
		uint64_t number;

		switch (random_below(8)) {
		case 0:
			if (there && births++ < FIXTURE_FAKES - 2 * CROWD) {
				a->session->why = (uint8_t)random_below(4);
				session_stop(a->session);
			}
			break;
		case 1:
			if (there)
				tie_unlink(a->session, b->id);
			break;
		case 2:
			sched_turn(&f->scheds[random_below(3)]);
			break;
		default:
			if (there && a != b) {
				assert_int_equal(
					tie_make(a->session, &init, &number),
					0);
				if (random_below(3) == 0)
					ties_unwatch(a->session, number);
			}
			break;
		}
		for (unsigned i = 0; i < CROWD; i++)
			if (!fake_exists(crowd[i]) &&
				f->n_fakes < FIXTURE_FAKES)
				crowd[i] = member(f);
	}
	fixture_run(f);
	fixture_free(f);
}

/* ---- four threads ------------------------------------------------------ */

enum { THREADS = 4, PEERS = 16, ROUNDS = 3000 };

struct storm {
	struct fixture *f;
	unsigned index;
	_Atomic uint64_t *ids; /* PEERS of each thread */
	uint64_t watches, downs;
	_Atomic unsigned *n_done;
};
static _Thread_local struct storm *storm;

static enum session_result
storm_start(struct session *s)
{
	(void)s;
	return SESSION_DONE;
}

static enum session_result
storm_run(struct session *s, struct msg *m)
{
	(void)s;
	if (notice_is(m))
		storm->downs++;
	return SESSION_DONE;
}

static void
storm_stop(struct session *s, bool crashed)
{
	(void)s, (void)crashed;
}

static const struct session_ops storm_ops = {
	.kind = "storm",
	.start = storm_start,
	.run = storm_run,
	.stop = storm_stop,
};

static void
storm_round(struct storm *st, struct sched *s, struct session *watcher)
{
	struct kernel *k = s->kernel;
	unsigned mine = random_below(PEERS);
	unsigned any = random_below(PEERS * THREADS);
	_Atomic uint64_t *slot = &st->ids[st->index * PEERS + mine];
	struct session *old = session_find(k, atomic_load(slot)), *fresh;
	struct tie_init init = {.session = atomic_load(&st->ids[any])};
	uint64_t number;

	if (random_below(2)) {
		if (init.session && init.session != watcher->id &&
			!tie_make(watcher, &init, &number))
			st->watches++;
		if (random_below(4) == 0 && !ties_unwatch(watcher, number))
			st->watches--;
		return;
	}
	if (old) {
		old->why = (uint8_t)random_below(4);
		session_stop(old);
	}
	fresh = session_new(s, &storm_ops, NULL, NULL);
	assert_non_null(fresh);
	init.session = atomic_load(&st->ids[any]);
	init.link = true;
	if (init.session && init.session != fresh->id)
		tie_make(fresh, &init, &number);
	atomic_store(slot, fresh->id);
}

static void *
storm_thread(void *arg)
{
	struct storm *st = arg;
	struct sched *s = &st->f->scheds[st->index];
	struct session *watcher = session_new(s, &storm_ops, NULL, NULL);

	storm = st;
	seed += st->index;
	for (unsigned i = 0; i < ROUNDS; i++) {
		storm_round(st, s, watcher);
		sched_turn(s);
	}
	for (unsigned i = 0; i < PEERS; i++) {
		struct session *t = session_find(s->kernel,
			atomic_load(&st->ids[st->index * PEERS + i]));

		if (t)
			session_stop(t);
	}
	/* every watch is told of, if all go on until all have been told */
	atomic_fetch_add(st->n_done, 1);
	while (st->downs < st->watches ||
		atomic_load(st->n_done) < 2 * THREADS) {
		sched_turn(s);
		if (st->downs == st->watches && st->watches != UINT64_MAX) {
			st->downs = st->watches = UINT64_MAX;
			atomic_fetch_add(st->n_done, 1);
		}
	}
	return NULL;
}

static void
test_four_threads_tell_of_every_watch_once(void **state)
{
	struct fixture *f = fixture_new(THREADS, NULL);
	_Atomic uint64_t ids[THREADS * PEERS] = {0};
	struct storm storms[THREADS];
	pthread_t threads[THREADS];
	_Atomic unsigned n_done = 0;

	(void)state;
	for (unsigned i = 0; i < THREADS; i++) {
		storms[i] = (struct storm){
			.f = f, .index = i, .ids = ids, .n_done = &n_done};
		assert_int_equal(pthread_create(&threads[i], NULL, storm_thread,
					 &storms[i]),
			0);
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	fixture_run(f);
	fixture_free(f);
}

#define BOTH(test)                                                            \
	cmocka_unit_test_setup_teardown(                                      \
		test, fixture_setup, fixture_teardown),                       \
	{                                                                     \
#test "_far", test, fixture_setup_two, fixture_teardown, NULL \
	}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(test_a_failed_end_is_told_once_with_its_reason),
		BOTH(test_a_stopped_one_is_told_as_stopped),
		BOTH(test_an_exit_is_normal),
		BOTH(test_one_that_is_gone_is_told_at_once),
		BOTH(test_one_that_ends_as_the_watch_travels_is_told),
		BOTH(test_a_failed_one_is_told_as_failed_at_once),
		BOTH(test_a_watch_in_the_pause_is_of_the_next_start),
		BOTH(test_a_restart_is_told),
		BOTH(test_an_ended_watch_tells_nothing),
		BOTH(test_a_restarted_watcher_has_no_watches),
		BOTH(test_watches_are_limited_and_freed),
		BOTH(test_down_comes_before_a_full_mailbox),
		BOTH(test_out_of_memory_is_told_and_leaves_nothing),
		BOTH(test_a_failed_end_takes_the_linked_one_down),
		BOTH(test_a_link_goes_both_ways),
		BOTH(test_a_normal_end_or_a_stop_leaves_the_other_alone),
		BOTH(test_who_traps_is_told_instead),
		BOTH(test_unlinked_ones_fail_alone),
		BOTH(test_a_chain_falls_as_a_whole),
		BOTH(test_linked_ones_start_again_by_their_own_policy),
		cmocka_unit_test(test_any_order_leaves_nothing),
		cmocka_unit_test(test_four_threads_tell_of_every_watch_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

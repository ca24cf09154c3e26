/* daemon/kernel/kernel.c, and the kernel as a whole: random operations over
 * one and over several schedulers. After each of them the accounts must
 * balance; each ack and each call is answered once, to who made it; events of
 * one sender to one session come in order. */
#include "kernel/kernel.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/calendar.h"
#include "fixture.h"
#include "kernel/claim.h"
#include "kernel/dead.h"
#include "kernel/kin.h"
#include "kernel/names.h"
#include "kernel/queue.h"
#include "kernel/tie.h"
#include "world.h"

static void
test_a_kernel_comes_and_goes(void **state)
{
	struct kernel k;

	(void)state;
	assert_int_equal(
		kernel_init(&k, &kernel_limits_default, &clock_system), 0);
	assert_int_equal(k.n_scheds, 0);
	kernel_deinit(&k);
}

static void
test_schedulers_have_a_limit(void **state)
{
	struct fixture *f = *state;
	struct sched *s = aligned_alloc(64, sizeof(*s));

	assert_non_null(s);
	assert_true(
		sched_init(s, &f->kernel, KERNEL_LOOPS_MAX, NULL, NULL) < 0);
	free(s);
}

/* ---- deeds ----------------------------------------------------------- */

static struct msg *
deed_msg(struct world *w, struct fake *from, const struct fake *to)
{
	uint64_t number = ++w->n_deeds;
	struct msg *m =
		msg_new(&from->sched->pool, &(struct msg_init){.event = "e",
						    .event_size = 1,
						    .data = &number,
						    .size = sizeof(number),
						    .extra = roll(w, 4) == 0});

	assert_non_null(m);
	assert_true(number < POSTS_MAX);
	w->deeds[number] =
		(struct deed){.by = from, .incarnation = incarnation_of(from)};
	m->from = from->id;
	m->to = to->id;
	if (m->flags & MSG_EXTRA)
		msg_live(m, from->sched->now_ns, roll(w, 60) * NS_PER_MS);
	return m;
}

/* One of a few keys, so that they repeat, over all schedulers. */
static void
deed_key(struct world *w, struct msg *m)
{
	char key[8];

	snprintf(key, sizeof(key), "k%d", (int)roll(w, 20));
	msg_set_key(m, key);
}

/* The last of its calls that it knows, if that still waits. */
static void
do_cancel(struct world *w, struct fake *from)
{
	struct deed *deed = &w->deeds[from->call];

	if (!from->call || deed->answered || deed->by != from ||
		deed->incarnation != incarnation_of(from) ||
		session_cancel_call(from->session, deed->id))
		return;
	deed->answered = true; /* it must not be any more */
}

static void
do_post(struct world *w, struct fake *from, struct fake *to)
{
	struct msg *m = deed_msg(w, from, to);
	struct sched *s = from->sched;
	struct deed *deed = &w->deeds[w->n_deeds];

	if (roll(w, 6) == 0) {
		m->flags |= MSG_URGENT;
		w->mixed[index_of(to)] = true;
	}
	if (roll(w, 2)) {
		deed->ack = true;
		m->flags |= MSG_ACK;
		msg_wide(m)->seq = w->n_deeds;
		msg_wide(m)->level = (uint8_t)roll(w, 4);
		if (roll(w, 2))
			m->flags |= MSG_MAY_PARK;
	}
	if (roll(w, 3) == 0) {
		deed->call = true;
		msg_wide(m)->deadline_ns =
			roll(w, 4) ? 0 : s->now_ns + roll(w, 100) * NS_PER_MS;
		if (session_call(from->session, m, w->n_deeds,
			    (uint32_t)roll(w, 200), &deed->id)) {
			deed->call = false;
			msg_free(&s->pool, m);
		} else {
			from->call = w->n_deeds;
		}
		return;
	}
	if ((m->flags & MSG_EXTRA) && roll(w, 2)) {
		deed_key(w, m);
		w->mixed[index_of(to)] = true;
	}
	if (sched_post(s, m)) {
		assert_false(deed->ack);
		msg_free(&s->pool, m);
	}
}

/* When, by any of the clocks, with what few have. */
static void
roll_times(struct world *w, struct delay_init *init, const struct sched *s)
{
	static const char *const names[] = {"x", "y", "z"};

	init->clock = (enum delay_clock)roll(w, DELAY_CLOCKS);
	init->due_ns = delay_now(s, init->clock) + roll(w, 100) * NS_PER_MS;
	if (roll(w, 3) == 0)
		init->slack_ns = roll(w, 30) * NS_PER_MS;
	if (roll(w, 4) == 0)
		init->urgent = true;
	if (roll(w, 4) == 0)
		init->ttl_ns = (1 + roll(w, 60)) * NS_PER_MS;
	if (roll(w, 3) == 0) {
		init->name = names[roll(w, 3)];
		init->name_size = 1;
		init->by_alias = init->alias && roll(w, 2);
	}
	if (init->repeat_ns && roll(w, 3) == 0) {
		init->repeat_ns = 0;
		init->calendar = calendar_ref(w->calendar);
		init->misfire = (enum delay_misfire)roll(w, DELAY_MISFIRES);
	}
}

/* Cancel, change or leave alone what was set before. */
static void
do_change(struct world *w, uint64_t id)
{
	struct sched *s = &w->f->scheds[delay_sched(id)];
	const struct delay *delay = delay_find(&s->delays, id);
	struct delay_change change = {.due = roll(w, 2), .wall = roll(w, 2)};

	/* a deed comes once */
	change.repeat = delay && delay->more && delay->more->repeat_ns;
	if (roll(w, 2)) {
		delay_cancel(s, id);
		return;
	}
	change.due_ns = roll(w, 50) * NS_PER_MS;
	if (change.wall)
		change.due_ns += w->f->clock.wall_ns;
	change.repeat_ns = (1 + roll(w, 20)) * NS_PER_MS;
	delay_adjust(s, id, &change);
}

static void
do_delay(struct world *w, struct fake *from, struct fake *to)
{
	bool named = roll(w, 2), again = roll(w, 4) == 0;
	const char *name = session_name(to->session);
	uint64_t *id = &w->delays[roll(w, DELAYS_MAX)], number = 0;
	struct delay_init init = {.event = "r",
		.event_size = 1,
		.repeat_ns = again ? (1 + roll(w, 50)) * NS_PER_MS : 0};

	if (to->sched != from->sched)
		named = true;
	if (named && !to->session->aliases)
		return; /* its home has not given it any yet */
	if (named && *name) {
		init.alias = name;
		init.alias_size = (uint32_t)strlen(name);
	} else {
		init.to = to->id;
	}
	roll_times(w, &init, from->sched);
	if (!again) {
		number = ++w->n_deeds;
		assert_true(number < POSTS_MAX);
		w->deeds[number] = (struct deed){
			.by = from, .incarnation = incarnation_of(from)};
		init.event = "e";
		init.data = &number;
		init.size = sizeof(number);
	}
	if (*id) /* it may be gone */
		do_change(w, *id);
	if (roll(w, 40) == 0)
		delays_cancel_all(from->sched, from->session);
	if (roll(w, 40) == 0 && *name)
		delays_cancel_alias(
			from->sched, name, strlen(name), DELAY_NO_UID);
	assert_int_equal(
		delay_set(from->sched, from->session, &init, id, NULL), 0);
	calendar_unref(init.calendar);
}

static void
do_end(struct world *w, struct fake *fake)
{
	size_t me = index_of(fake);
	int status = roll(w, 4) ? 0 : EVD_STATUS_HANDLER;
	struct msg *m;

	if (away_is_out(fake->session))
		return; /* it does so by itself */
	if (w->waiting[me] && roll(w, 2)) {
		m = w->waiting[me];
		w->waiting[me] = NULL;
		w->n_handled += !status;
		session_done(fake->session, m, status);
	} else if (fake->n_held && roll(w, 3)) {
		w->n_handled += !status;
		fake_done(fake, status);
	} else if (fake->n_held) {
		while (fake->n_held)
			session_return(
				fake->session, fake->held[--fake->n_held]);
	}
	if (w->calm || roll(w, 4) == 0)
		session_unstash(fake->session);
	session_wake(fake->session);
}

static void
on_moved(struct queue_move *move, struct sched *home)
{
	(void)home;
	the_world->moving[move - the_world->moves] = false;
}

static void
do_move(struct world *w, struct fake *from, struct fake *to)
{
	size_t i = roll(w, MOVES_MAX);

	if (w->moving[i] || from == to ||
		(from->session->box_bits & BOX_MOVING))
		return;
	w->moving[i] = true;
	/* what comes back may find an event there that was put back */
	w->mixed[index_of(from)] = true;
	w->moves[i] = (struct queue_move){.from = from->id,
		.to = to->id,
		.left = 1 + (uint32_t)roll(w, 5),
		.done = on_moved};
	queue_move_start(&w->moves[i], from->sched);
}

/* What people do to the mailbox of @fake. */
static void
do_queue(struct world *w, struct fake *from, struct fake *fake)
{
	struct queue_walk walk;

	switch (roll(w, 4)) {
	case 0:
		queue_pause(fake->session);
		break;
	case 1:
		queue_resume(fake->session);
		break;
	case 2:
		queue_walk_open(&walk, fake->session);
		while (walk.open)
			queue_purge(fake->sched, &walk, NULL);
		break;
	default:
		do_move(w, from, fake);
	}
}

/* A letter is posted again, to anybody, or forgotten. */
static void
do_dead(struct world *w, struct fake *to)
{
	struct sched *s = &w->f->scheds[roll(w, w->f->n_scheds)];
	struct dead *d = dead_next(s, 0, DEAD_NONE);

	for (uint64_t skip = roll(w, 10); d && skip; skip--)
		d = dead_next(s, d->id, DEAD_NONE);
	if (!d)
		return;
	if (roll(w, 4) == 0) {
		dead_drop(s, d);
		return;
	}
	w->mixed[index_of(to)] = true;
	w->n_requeued += !dead_requeue(s, d, to->id);
}

/* Names and ties: claimed, dropped, watched, linked. Links and traps make
 * failures spread. */
static void
do_names(struct world *w, struct fake *from, struct fake *to)
{
	char name[16];
	uint64_t number;
	int size = snprintf(name, sizeof(name), "n%d", (int)roll(w, 4));
	struct claim_init init = {
		.name = name,
		.size = (size_t)size,
		.mode = (enum claim_mode)roll(w, 3),
		.allow_replace = roll(w, 2),
	};

	switch (roll(w, 6)) {
	case 0:
	case 1:
		claim_make(from->session, &init);
		break;
	case 2:
		claim_drop(from->session, name, (size_t)size);
		break;
	case 3:
		if (!names_watch(from->session, "n*", 2, &number) && roll(w, 2))
			ties_cut(from->session, number);
		break;
	case 4:
		ties_trap(from->session, roll(w, 2));
		break;
	default:
		tie_make(from->session,
			&(struct tie_init){
				.session = to->id, .link = roll(w, 4) == 0},
			&number);
		break;
	}
}

static void
random_deed(struct world *w)
{
	struct fake *from = some_actor(w), *to = some_target(w);

	if (!from || !to)
		return;
	switch (roll(w, 14)) {
	case 13:
		do_dead(w, to);
		break;
	case 12:
		do_names(w, from, to);
		break;
	case 0:
		do_delay(w, from, to);
		break;
	case 1:
	case 2:
		if (w->depth == 0 && to->alive)
			do_end(w, to);
		break;
	case 3:
		if (roll(w, 8) == 0)
			session_stop(to->session);
		break;
	case 4:
		do_cancel(w, from);
		break;
	case 5:
		if (w->depth == 0)
			do_queue(w, from, to);
		break;
	default:
		do_post(w, from, to);
	}
}

/* ---- steps ----------------------------------------------------------- */

static void
random_life(struct world *w)
{
	size_t i = roll(w, ACTORS);
	struct fake *fake = w->actors[i];

	if (!fake_exists(fake))
		actor_make(w, i);
	else if (fake->session->spec && roll(w, 2))
		session_restart(fake->session, fake->session->spec);
}

static void
random_time(struct world *w)
{
	clock_fake_advance(&w->f->clock, roll(w, 50) * NS_PER_MS);
	if (roll(w, 10))
		return;
	w->f->clock.wall_ns += roll(w, 10000) * NS_PER_MS;
	w->f->clock.wall_ns -= roll(w, 10000) * NS_PER_MS;
	for (unsigned i = 0; i < w->f->n_scheds; i++)
		sched_clock_set(&w->f->scheds[i]);
}

/* Somebody is run by another from now on, or has been run. */
static void
random_executor(struct world *w)
{
	struct fixture *f = w->f;
	struct fake *fake = some_target(w);

	if (f->n_out && roll(w, 4))
		fixture_run_away(f, (unsigned)roll(w, f->n_out));
	else if (fake)
		assert_int_equal(session_set_executor(fake->session,
					 roll(w, 3) ? &f->executor : NULL),
			0);
}

static void
random_step(struct world *w)
{
	if (w->executes && roll(w, 4) == 0)
		random_executor(w);
	switch (roll(w, 10)) {
	case 0:
		random_life(w);
		break;
	case 1:
		random_time(w);
		break;
	case 2:
	case 3:
	case 4:
		sched_turn(&w->f->scheds[roll(w, w->f->n_scheds)]);
		break;
	default:
		random_deed(w);
	}
}

static void
restart_failed(struct world *w)
{
	for (size_t i = 0; i < ACTORS; i++) {
		struct fake *fake = w->actors[i];

		if (fake_exists(fake) && fake->session->life == SESSION_FAILED)
			session_restart(fake->session, fake->session->spec);
	}
	if (w->group->life == SESSION_FAILED)
		session_restart(w->group, w->group->spec);
}

/* Whoever is still there handles all, and has all its answers. */
static void
cancel_delays(struct world *w)
{
	for (unsigned i = 0; i < w->f->n_scheds; i++) {
		struct sched *s = &w->f->scheds[i];
		struct delay *delay;

		while ((delay = delays_next(&s->delays, 0)))
			delay_cancel(s, delay->id);
	}
}

static void
come_to_rest(struct world *w)
{
	w->calm = true;
	w->f->lazy = false;
	for (unsigned round = 0; round < 30; round++) {
		cancel_delays(w);
		for (size_t i = 0; i < ACTORS; i++) {
			if (!is_alive(w->actors[i]))
				continue;
			queue_resume(w->actors[i]->session);
			do_end(w, w->actors[i]);
		}
		restart_failed(w);
		fixture_run(w->f);
		fixture_advance(w->f, 2000); /* restarts, deadlines */
	}
	fixture_advance(w->f, 31000); /* default deadlines */
}

static void
check_answers(struct world *w)
{
	for (uint64_t n = 1; n <= w->n_deeds; n++) {
		struct deed *deed = &w->deeds[n];

		if (!is_alive(deed->by) ||
			incarnation_of(deed->by) != deed->incarnation)
			continue;
		assert_false(deed->ack);
		assert_true(!deed->call || deed->answered);
	}
}

/* Parents are not idle as long as they have children. */
static uint64_t
n_idle_timers(const struct sched *s)
{
	uint64_t n = 0;

	for (uint32_t slot = 1; slot <= s->kernel->sessions.n_slots; slot++) {
		const struct session *t = session_at(s->kernel, slot);

		if (t->id && t->home == s && t->kin &&
			timer_is_armed(&t->kin->idle)) {
			assert_true(t->kin->n_children > 0);
			n++;
		}
	}
	return n;
}

static void
check_rest(struct world *w)
{
	uint64_t handled = 0;

	for (unsigned i = 0; i < w->f->n_scheds; i++) {
		const struct sched *s = &w->f->scheds[i];

		handled += s->counters.handled;
		assert_int_equal(s->counters.leased, 0);
		assert_int_equal(s->delays.n, 0);
		assert_int_equal(s->calls.n, 0);
		assert_int_equal(s->timers.n, n_idle_timers(s));
	}
	assert_int_equal(handled, w->n_handled);
	for (size_t i = 0; i < ACTORS; i++) {
		const struct fake *fake = w->actors[i];

		if (!fake_exists(fake))
			continue;
		assert_true(fake->session->life == SESSION_UP ||
			    fake->session->life == SESSION_DORMANT);
		assert_int_equal(fake->session->box.n, 0);
		assert_int_equal(fake->session->box.n_parked, 0);
		assert_int_equal(fake->session->n_calls, 0);
	}
}

static void
live(uint64_t seed, unsigned n_scheds, bool executes)
{
	struct world *w = calloc(1, sizeof(*w));
	char error[CALENDAR_ERROR_SIZE];

	assert_non_null(w);
	the_world = w;
	w->f = fixture_new(n_scheds, NULL);
	w->seed = seed;
	w->executes = w->f->lazy = executes;
	w->rng = seed * 0x9e3779b97f4a7c15u | 1;
	assert_int_equal(
		calendar_new("*:*:0/0.1", "UTC", NULL, &w->calendar, error), 0);
	group_make(w);
	for (size_t i = 0; i < ACTORS; i++)
		actor_make(w, i);
	fixture_run(w->f);
	for (unsigned step = 0; step < STEPS; step++) {
		random_step(w);
		fixture_check(w->f);
	}
	come_to_rest(w);
	check_answers(w);
	check_rest(w);
	assert_true(!executes || w->f->executor.n_runs > 50);
	assert_true(w->n_requeued > 10);
	fixture_free(w->f);
	calendar_unref(w->calendar);
	free(w);
}

static void
test_accounts_balance_on_one_scheduler(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 60; seed++)
		live(seed, 1, false);
}

static void
test_accounts_balance_over_several_schedulers(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 60; seed++)
		live(seed, 2 + seed % 3, false);
}

static void
test_accounts_balance_while_executors_change(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 90; seed++)
		live(seed, 1 + seed % 4, true);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_kernel_comes_and_goes),
		cmocka_unit_test_setup_teardown(test_schedulers_have_a_limit,
			fixture_setup, fixture_teardown),
		cmocka_unit_test(test_accounts_balance_on_one_scheduler),
		cmocka_unit_test(test_accounts_balance_over_several_schedulers),
		cmocka_unit_test(test_accounts_balance_while_executors_change),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

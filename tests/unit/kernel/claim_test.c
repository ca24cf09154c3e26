/* daemon/kernel/claim.c and names.c: standing in line for an alias, replacing
 * its holder, waiting for one to appear, and notice of those that come and
 * go; near, far and with four threads. */
#include "kernel/claim.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "fixture.h"
#include "kernel/names.h"
#include "kernel/notice.h"
#include "kernel/tie.h"
#include "kernel/ties.h"

static char told[4096];

/* What it is told, as words: "+printer" held, "-printer" lost; "printer^" up,
 * "printer!" down. */
static enum session_result
note(struct fake *fake, struct msg *m)
{
	size_t used = strlen(told);
	struct notice n;

	(void)fake;
	if (!notice_is(m))
		return SESSION_DONE;
	notice_read(m, &n);
	if (m->event == notice_alias)
		snprintf(told + used, sizeof(told) - used, "%c%s ",
			n.up ? '+' : '-', n.alias);
	else
		snprintf(told + used, sizeof(told) - used, "%s%c ", n.alias,
			n.up ? '^' : '!');
	return SESSION_DONE;
}

static const char *
told_now(struct fixture *f)
{
	static char copy[sizeof(told)];

	fixture_run(f);
	memcpy(copy, told, sizeof(told));
	told[0] = 0;
	return copy;
}

static struct fake *
claimer(struct fixture *f, unsigned i)
{
	struct fake *fake = fake_new(f, i % f->n_scheds, NULL);

	fake->on_run = note;
	told[0] = 0;
	return fake;
}

static int
claim(struct fake *fake, const char *name, enum claim_mode mode, bool allow)
{
	return claim_make(fake->session, &(struct claim_init){.name = name,
						 .size = strlen(name),
						 .mode = mode,
						 .allow_replace = allow});
}

static uint64_t
holder(struct fixture *f, const char *name)
{
	return alias_holder(&f->kernel.aliases, name, strlen(name));
}

/* ---- claims ------------------------------------------------------------ */

static void
test_a_free_alias_is_taken_at_once(void **state)
{
	struct fixture *f = *state;
	struct fake *a = claimer(f, 0), *b = claimer(f, 1);

	assert_int_equal(claim(a, "printer", CLAIM_QUEUE, false), 0);
	assert_int_equal(claim(a, "printer", CLAIM_REPLACE, false), 0);
	assert_true(holder(f, "printer") == a->id);
	assert_int_equal(
		claim(b, "printer", CLAIM_REFUSE, false), ALIAS_E_TAKEN);
	assert_int_equal(
		claim(b, "printer", CLAIM_REPLACE, false), CLAIM_E_FIXED);
	assert_int_equal(claim(b, "no name", CLAIM_QUEUE, false), ALIAS_E_NAME);
	assert_string_equal(told_now(f), "");
}

static void
test_the_line_is_served_in_order(void **state)
{
	struct fixture *f = *state;
	struct fake *a = claimer(f, 0), *b = claimer(f, 1), *c = claimer(f, 0);

	claim(a, "printer", CLAIM_REFUSE, false);
	assert_int_equal(
		claim(b, "printer", CLAIM_QUEUE, false), CLAIM_E_QUEUED);
	assert_int_equal(
		claim(c, "printer", CLAIM_QUEUE, false), CLAIM_E_QUEUED);
	assert_int_equal(
		claim(c, "printer", CLAIM_QUEUE, false), CLAIM_E_QUEUED);
	assert_int_equal(session_drop_alias(a->session, "printer", 7), 0);
	assert_true(holder(f, "printer") == b->id); /* without a gap */
	assert_string_equal(told_now(f), "+printer ");
	assert_string_equal(session_name(b->session), "printer");
	session_stop(b->session);
	assert_true(holder(f, "printer") == c->id);
	assert_string_equal(told_now(f), "+printer ");
	session_stop(c->session);
	assert_true(holder(f, "printer") == 0);
	fixture_run(f);
}

static void
test_who_leaves_the_line_is_passed_over(void **state)
{
	struct fixture *f = *state;
	struct fake *a = claimer(f, 0), *b = claimer(f, 1), *c = claimer(f, 1);
	struct fake *d = claimer(f, 0);

	claim(a, "printer", CLAIM_REFUSE, false);
	claim(b, "printer", CLAIM_QUEUE, false);
	claim(c, "printer", CLAIM_QUEUE, false);
	claim(d, "printer", CLAIM_QUEUE, false);
	session_stop(b->session);
	assert_int_equal(claim_drop(c->session, "printer", 7), 0);
	assert_int_equal(claim_drop(c->session, "printer", 7), ALIAS_E_NONE);
	session_stop(a->session);
	assert_true(holder(f, "printer") == d->id);
	assert_string_equal(told_now(f), "+printer ");
}

/* It is the holder and does not know it yet. */
static void
test_a_grant_to_one_that_ends_goes_on_to_the_next(void **state)
{
	struct fixture *f = *state;
	struct fake *a = claimer(f, 0), *b = claimer(f, 1), *c = claimer(f, 0);

	claim(a, "printer", CLAIM_REFUSE, false);
	claim(b, "printer", CLAIM_QUEUE, false);
	claim(c, "printer", CLAIM_QUEUE, false);
	session_stop(a->session);
	assert_true(holder(f, "printer") == b->id);
	session_stop(b->session);
	assert_true(holder(f, "printer") == c->id);
	assert_string_equal(told_now(f), "+printer ");
	claim(a = claimer(f, 1), "printer", CLAIM_QUEUE, false);
	session_stop(c->session);
	assert_int_equal(claim_drop(a->session, "printer", 7), 0);
	assert_true(holder(f, "printer") == 0);
	assert_string_equal(told_now(f), "");
}

static void
test_a_holder_that_allows_it_is_replaced_and_told(void **state)
{
	struct fixture *f = *state;
	struct fake *a = claimer(f, 0), *b = claimer(f, 1), *c = claimer(f, 0);

	claim(a, "printer", CLAIM_REFUSE, true);
	claim(c, "printer", CLAIM_QUEUE, false);
	assert_int_equal(
		claim(b, "printer", CLAIM_REPLACE, false), CLAIM_E_QUEUED);
	assert_string_equal(told_now(f), f->n_scheds > 1 ? "-printer +printer "
							 : "-printer "
							   "+printer ");
	assert_true(holder(f, "printer") == b->id); /* before the line */
	assert_null(a->session->aliases);
	assert_int_equal(
		claim(a, "printer", CLAIM_REPLACE, false), CLAIM_E_FIXED);
	session_stop(b->session);
	assert_true(holder(f, "printer") == c->id);
	fixture_run(f);
}

static void
test_two_that_replace_meet_one_that_allows_it(void **state)
{
	struct fixture *f = *state;
	struct fake *a = claimer(f, 0), *b = claimer(f, 1), *c = claimer(f, 0);

	claim(a, "printer", CLAIM_REFUSE, true);
	claim(b, "printer", CLAIM_REPLACE, true);
	claim(c, "printer", CLAIM_REPLACE, true);
	fixture_run(f);
	assert_true(
		holder(f, "printer") == b->id || holder(f, "printer") == c->id);
	session_stop(a->session);
	session_stop(b->session);
	session_stop(c->session);
	assert_true(holder(f, "printer") == 0);
	fixture_run(f);
	assert_int_equal(f->kernel.aliases.n, 0);
}

static void
test_claims_are_limited_by_what_is_watched(void **state)
{
	struct fixture *f = *state;
	struct fake *a = claimer(f, 0), *b = claimer(f, 1);
	struct claim_init init = {.name = "two", .size = 3};
	char text[256];

	claim(a, "one", CLAIM_REFUSE, false);
	claim(a, "two", CLAIM_REFUSE, false);
	f->kernel.limits.max_watches = 1;
	assert_int_equal(claim(b, "one", CLAIM_QUEUE, false), CLAIM_E_QUEUED);
	assert_int_equal(claim(b, "two", CLAIM_QUEUE, false), CLAIM_E_LIMIT);
	assert_int_equal(claim_status(CLAIM_E_LIMIT), EVD_STATUS_LIMIT);
	assert_non_null(strstr(claim_explain(b->session, &init, CLAIM_E_LIMIT,
				       text, sizeof(text)),
		"MaxWatches="));
	claim_drop(b->session, "one", 3);
	assert_int_equal(claim(b, "two", CLAIM_QUEUE, false), CLAIM_E_QUEUED);
}

static void
test_out_of_memory_leaves_no_claim(void **state)
{
	struct fixture *f = *state;
	struct fake *a = claimer(f, 0), *b = claimer(f, 1);
	static const char *const faults[] = {
		"claim_new", "alias_line", "ties_get"};

	claim(a, "one", CLAIM_REFUSE, false);
	for (unsigned i = 0; i < 3; i++) {
		b = claimer(f, 1);
		fault_arm(faults[i], 1);
		assert_int_equal(claim(b, "one", CLAIM_QUEUE, false), -ENOMEM);
	}
	session_stop(a->session);
	assert_true(holder(f, "one") == 0);
	fixture_run(f);
	assert_int_equal(f->kernel.aliases.n, 0);
}

/* ---- waits ------------------------------------------------------------- */

static void
note_found(struct fake *fake, uint64_t token, struct msg *reply)
{
	(void)token;
	assert_int_equal(reply->handler, CLAIM_REPLY_WAIT);
	if (!msg_status(reply))
		memcpy(&fake->number, reply->data, sizeof(fake->number));
}

static void
test_a_wait_ends_when_the_alias_appears(void **state)
{
	struct fixture *f = *state;
	struct fake *a = claimer(f, 0), *b = claimer(f, 1), *c = claimer(f, 0);

	a->on_reply = c->on_reply = note_found;
	assert_int_equal(
		claim_wait(a->session, "printer", 7, UINT64_MAX, 1), 0);
	assert_int_equal(claim_wait(c->session, "printer", 7, 1000, 2), 0);
	fixture_run(f);
	assert_int_equal(a->n_replies, 0);
	claim(b, "printer", CLAIM_REFUSE, false);
	fixture_run(f);
	assert_int_equal(a->n_replies, 1);
	assert_int_equal(c->n_replies, 1);
	assert_true(a->number == b->id && c->number == b->id);
	assert_int_equal(claim_wait(a->session, "printer", 7, 0, 3), 0);
	fixture_run(f);
	assert_int_equal(a->n_replies, 2); /* it is there */
	assert_null(b->session->aliases->line);
}

static void
test_a_wait_ends_at_its_deadline_or_with_its_session(void **state)
{
	struct fixture *f = *state;
	struct fake *a = claimer(f, 0), *b = claimer(f, 1);

	a->on_reply = note_found;
	claim_wait(a->session, "printer", 7, 1000, 1);
	claim_wait(b->session, "printer", 7, 5000, 1);
	fixture_advance(f, 1100);
	assert_string_equal(
		fake_trace(a), "reply1=timeout:no reply before the deadline");
	session_stop(b->session);
	fixture_run(f);
	assert_int_equal(f->kernel.aliases.n, 0);
	assert_int_equal(
		claim_wait(a->session, "no name", 7, 1, 1), ALIAS_E_NAME);
	f->kernel.limits.max_calls = 0;
	assert_int_equal(claim_wait(a->session, "x", 1, 1, 1), CLAIM_E_CALLS);
	fault_arm("alias_wait", 1);
	assert_int_equal(claim_wait(a->session, "x", 1, 1, 1), -ENOMEM);
	f->kernel.limits.max_calls = 10;
	fault_arm("alias_line", 1);
	assert_int_equal(claim_wait(a->session, "x", 1, 1, 1), -ENOMEM);
	assert_int_equal(a->session->n_calls, 0);
	assert_int_equal(f->kernel.aliases.n, 0);
}

static void
test_what_ties_it_is_counted(void **state)
{
	struct fixture *f = *state;
	struct fake *a = claimer(f, 0), *b = claimer(f, 1);
	struct session *s = b->session;
	size_t size = session_memory(s), more;
	uint64_t watch, names, link;

	claim(a, "printer", CLAIM_REFUSE, false);
	claim(b, "printer", CLAIM_QUEUE, false);
	names_watch(s, "*", 1, &names);
	tie_make(s, &(struct tie_init){.session = a->id}, &watch);
	tie_make(s, &(struct tie_init){.session = a->id, .link = true}, &link);
	fixture_run(f);
	assert_int_equal(s->ties->n_watches, 2);
	assert_int_equal(s->ties->n_claims, 1);
	assert_int_equal(s->ties->n_links, 1);
	assert_int_equal(s->ties->n_watchers, 0);
	assert_int_equal(a->session->ties->n_watchers, 1);
	assert_int_equal(a->session->ties->n_links, 1);
	assert_int_equal(a->session->ties->n_watches, 0);
	more = session_memory(s);
	assert_true(more > size + 4 * sizeof(uint64_t));
	ties_unwatch(s, watch);
	ties_unwatch(s, names);
	tie_unlink(s, a->id);
	claim_drop(s, "printer", 7);
	fixture_run(f);
	assert_int_equal(s->ties->n_watches + s->ties->n_claims +
				 s->ties->n_links + s->ties->n,
		0);
	assert_int_equal(a->session->ties->n_watchers, 0);
	assert_int_equal(a->session->ties->n_links, 0);
	assert_true(session_memory(s) < more);
}

/* ---- of a spec ---------------------------------------------------------- */

static struct fake *
standby(struct fixture *f, const char *alias, enum claim_mode mode)
{
	struct session_spec *spec = fixture_spec(alias, RESTART_ON_FAILURE);
	struct fake *fake;

	spec->if_taken = mode;
	fake = fake_hosted(f, 1, spec);
	fake->on_run = note;
	fixture_run(f);
	told[0] = 0;
	return fake;
}

static void
test_a_spec_may_stand_in_line(void **state)
{
	struct fixture *f = *state;
	struct fake *a = claimer(f, 0), *b;

	claim(a, "printer", CLAIM_REFUSE, false);
	b = standby(f, "printer", CLAIM_QUEUE);
	assert_int_equal(b->session->life, SESSION_UP);
	assert_null(b->session->aliases);
	session_stop(a->session);
	assert_true(holder(f, "printer") == b->id);
	assert_string_equal(told_now(f), "+printer ");
}

/* Its place is the spec's, not that of one state. */
static void
test_a_place_in_line_outlives_a_crash(void **state)
{
	struct fixture *f = *state;
	struct fake *a = claimer(f, 0), *b, *c;
	uint64_t watch;

	claim(a, "printer", CLAIM_REFUSE, false);
	b = standby(f, "printer", CLAIM_QUEUE);
	c = standby(f, "printer", CLAIM_QUEUE);
	assert_int_equal(claim(b, "own", CLAIM_REFUSE, false), 0);
	assert_int_equal(names_watch(b->session, "*", 1, &watch), 0);
	b->on_run = fake_crash;
	fixture_post(NULL, b, "go");
	fixture_run(f);
	assert_int_equal(b->session->life, SESSION_BACKOFF);
	b->on_run = note;
	session_stop(a->session);
	assert_true(holder(f, "printer") == b->id);
	fixture_advance(f, 60000);
	assert_string_equal(told_now(f), "+printer ");
	session_stop(b->session); /* one that waits with it */
	assert_true(holder(f, "printer") == c->id);
	session_stop(c->session);
	fixture_run(f);
	assert_true(holder(f, "printer") == 0);
	assert_int_equal(f->kernel.aliases.n, 0);
}

static void
test_a_place_in_line_goes_with_its_session(void **state)
{
	struct fixture *f = *state;
	struct fake *a = claimer(f, 0), *b;

	claim(a, "printer", CLAIM_REFUSE, false);
	b = standby(f, "printer", CLAIM_QUEUE);
	session_stop(b->session);
	fixture_run(f);
	session_stop(a->session);
	assert_true(holder(f, "printer") == 0);
	fixture_run(f);
	assert_int_equal(f->kernel.aliases.n, 0);
}

static void
test_a_spec_may_replace(void **state)
{
	struct fixture *f = *state;
	struct fake *a = claimer(f, 0), *b;

	claim(a, "printer", CLAIM_REFUSE, false);
	b = standby(f, "printer", CLAIM_REPLACE);
	assert_int_equal(b->session->life, SESSION_FAILED);
	assert_non_null(strstr(b->session->health->reason, "AllowReplace="));
	claim(a, "printer", CLAIM_REFUSE, true);
	session_restart(b->session, NULL);
	fixture_run(f);
	assert_int_equal(b->session->life, SESSION_UP);
	assert_true(holder(f, "printer") == b->id);
}

/* ---- names ------------------------------------------------------------- */

static void
test_names_that_come_and_go_are_told(void **state)
{
	struct fixture *f = *state;
	struct fake *w = claimer(f, 0), *a = claimer(f, 1), *b = claimer(f, 0);
	uint64_t number;

	assert_int_equal(names_watch(w->session, "dev/*", 5, &number), 0);
	claim(a, "dev/1", CLAIM_REFUSE, false);
	claim(a, "disk", CLAIM_REFUSE, false);
	claim(b, "dev/", CLAIM_REFUSE, false);
	session_drop_alias(a->session, "dev/1", 5);
	fixture_run(f);
	session_stop(b->session);
	assert_string_equal(told_now(f), "dev/1^ dev/^ dev/1! dev/! ");
	assert_int_equal(ties_unwatch(w->session, number), 0);
	assert_int_equal(ties_unwatch(w->session, number), TIE_E_NONE);
	claim(a, "dev/2", CLAIM_REFUSE, false);
	assert_string_equal(told_now(f), "");
}

static void
test_a_handover_is_told_as_up(void **state)
{
	struct fixture *f = *state;
	struct fake *w = claimer(f, 1), *a = claimer(f, 1), *b = claimer(f, 0);
	uint64_t number;

	claim(a, "printer", CLAIM_REFUSE, false);
	claim(b, "printer", CLAIM_QUEUE, false);
	assert_int_equal(names_watch(w->session, "*", 1, &number), 0);
	session_stop(a->session);
	b->on_run = NULL; /* its own `_alias` */
	assert_string_equal(told_now(f), "printer^ ");
}

static void
test_a_slow_watcher_is_told_how_many_it_missed(void **state)
{
	struct fixture *f = *state;
	struct fake *w = claimer(f, 0), *a = claimer(f, 1);
	uint64_t number;

	names_watch(w->session, "x", 1, &number);
	w->on_run = fake_hold;
	for (unsigned i = 0; i < NAMES_PENDING_MAX; i++) {
		claim(a, "x", CLAIM_REFUSE, false);
		session_drop_alias(a->session, "x", 1);
		sched_turn(a->sched);
	}
	fixture_run(f);
	w->on_run = NULL;
	w->n_run = 0;
	session_wake(w->session);
	fixture_run(f);
	assert_in_range(w->n_run, NAMES_PENDING_MAX,
		NAMES_PENDING_MAX + NAMES_TOLD_MAX);
	w->on_run = note;
	claim(a, "x", CLAIM_REFUSE, false);
	assert_string_equal(told_now(f), "x^ "); /* it goes on */
}

static void
test_a_names_watch_ends_with_its_session(void **state)
{
	struct fixture *f = *state;
	struct fake *w = claimer(f, 0), *a = claimer(f, 1);
	uint64_t number;

	names_watch(w->session, "*", 1, &number);
	claim(a, "x", CLAIM_REFUSE, false); /* told is on its way */
	session_stop(w->session);
	fixture_run(f);
	assert_true(list_is_empty(&f->kernel.aliases.watches));
	assert_int_equal(
		names_watch(a->session, "no name", 7, &number), TIE_E_PATTERN);
	fault_arm("names_watch", 1);
	assert_int_equal(names_watch(a->session, "x", 1, &number), -ENOMEM);
	f->kernel.limits.max_watches = 1;
	assert_int_equal(names_watch(a->session, "x", 1, &number), 0);
	assert_int_equal(names_watch(a->session, "y", 1, &number), TIE_E_LIMIT);
}

/* ---- four threads ------------------------------------------------------ */

enum { THREADS = 4, PEERS = 6, NAMES = 5, ROUNDS = 4000 };

struct storm {
	struct fixture *f;
	unsigned index;
	uint32_t seed;
	uint64_t n_told;
	_Atomic unsigned *n_done;
};
static _Thread_local struct storm *storm;

static uint32_t
below(uint32_t n)
{
	storm->seed = storm->seed * 1664525 + 1013904223;
	return (storm->seed >> 8) % n;
}

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
	storm->n_told += notice_is(m);
	return SESSION_DONE;
}

static void
storm_reply(struct session *s, uint64_t token, struct msg *reply)
{
	(void)s, (void)token, (void)reply;
	storm->n_told++;
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
	.reply = storm_reply,
	.stop = storm_stop,
};

static void
storm_step(struct sched *s, struct session **peer)
{
	char name[8];
	struct claim_init init = {.name = name, .allow_replace = below(2)};
	uint64_t number;

	init.size = (size_t)snprintf(name, sizeof(name), "n%u", below(NAMES));
	init.mode = (enum claim_mode)below(3);
	if (!*peer)
		*peer = session_new(s, &storm_ops, NULL, NULL);
	assert_non_null(*peer);
	switch (below(8)) {
	case 0:
		session_stop(*peer);
		*peer = NULL;
		break;
	case 1:
	case 2:
		claim_drop(*peer, name, init.size);
		break;
	case 3:
		claim_wait(*peer, name, init.size, 1 + below(3), 1);
		break;
	case 4:
		if (!names_watch(*peer, "n*", 1 + below(2), &number) &&
			below(2))
			ties_unwatch(*peer, number);
		break;
	default:
		claim_make(*peer, &init);
		break;
	}
}

static void *
storm_thread(void *arg)
{
	struct session *peers[PEERS] = {NULL};
	struct sched *s;

	storm = arg;
	s = &storm->f->scheds[storm->index];
	for (unsigned i = 0; i < ROUNDS; i++) {
		storm_step(s, &peers[below(PEERS)]);
		sched_turn(s);
	}
	for (unsigned i = 0; i < PEERS; i++)
		if (peers[i])
			session_stop(peers[i]);
	atomic_fetch_add(storm->n_done, 1);
	while (atomic_load(storm->n_done) < THREADS)
		sched_turn(s);
	for (unsigned i = 0; i < 10; i++)
		sched_turn(s);
	return NULL;
}

static void
test_four_threads_leave_no_claim(void **state)
{
	struct fixture *f = fixture_new(THREADS, NULL);
	struct storm storms[THREADS];
	pthread_t threads[THREADS];
	_Atomic unsigned n_done = 0;
	uint64_t n_told = 0;

	(void)state;
	for (unsigned i = 0; i < THREADS; i++) {
		storms[i] = (struct storm){
			.f = f, .index = i, .seed = i, .n_done = &n_done};
		assert_int_equal(pthread_create(&threads[i], NULL, storm_thread,
					 &storms[i]),
			0);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		n_told += storms[i].n_told;
	}
	fixture_run(f);
	assert_true(n_told > 0);
	assert_int_equal(f->kernel.aliases.n, 0);
	assert_true(list_is_empty(&f->kernel.aliases.watches));
	fixture_free(f);
}

#define BOTH(test)                                                            \
	cmocka_unit_test_setup_teardown(                                      \
		test, fixture_setup, fixture_teardown),                       \
	{                                                                     \
#test "_far", test, fixture_setup_two, fixture_teardown, NULL \
	}

#define TWO(test)                        \
	cmocka_unit_test_setup_teardown( \
		test, fixture_setup_two, fixture_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(test_a_free_alias_is_taken_at_once),
		BOTH(test_the_line_is_served_in_order),
		BOTH(test_who_leaves_the_line_is_passed_over),
		BOTH(test_a_grant_to_one_that_ends_goes_on_to_the_next),
		BOTH(test_a_holder_that_allows_it_is_replaced_and_told),
		BOTH(test_two_that_replace_meet_one_that_allows_it),
		BOTH(test_claims_are_limited_by_what_is_watched),
		BOTH(test_out_of_memory_leaves_no_claim),
		BOTH(test_a_wait_ends_when_the_alias_appears),
		BOTH(test_a_wait_ends_at_its_deadline_or_with_its_session),
		BOTH(test_what_ties_it_is_counted),
		TWO(test_a_spec_may_stand_in_line),
		TWO(test_a_place_in_line_outlives_a_crash),
		TWO(test_a_place_in_line_goes_with_its_session),
		TWO(test_a_spec_may_replace),
		BOTH(test_names_that_come_and_go_are_told),
		BOTH(test_a_handover_is_told_as_up),
		BOTH(test_a_slow_watcher_is_told_how_many_it_missed),
		BOTH(test_a_names_watch_ends_with_its_session),
		cmocka_unit_test(test_four_threads_leave_no_claim),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

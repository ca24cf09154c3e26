/* daemon/kernel/delay_slots.c: where many delays live. */
#include "kernel/delay_slots.h"

#include <stdlib.h>
#include <string.h>

#include "fixture.h"

enum { CROWD = 2 * DELAY_CHUNK + 1000 };

static uint64_t
set_own(struct fake *s, const char *event, uint64_t ms)
{
	struct delay_own own = {.event = event,
		.event_size = (uint8_t)strlen(event),
		.data = "x",
		.size = 1,
		.due_ns = delay_due_in(s->sched, ms * NS_PER_MS)};
	uint64_t id = 0;

	assert_int_equal(delay_set_own(s->sched, s->session, &own, &id), 0);
	return id;
}

static uint32_t
count_listed(struct fake *s)
{
	struct delays *d = &s->sched->delays;
	struct delay *delay = NULL;
	uint32_t n = 0;

	while ((delay = delays_next_of(d, s->session, delay)))
		n++;
	return n;
}

static uint32_t
count_paged(struct fake *s)
{
	struct delay *delay;
	uint64_t last = 0;
	uint32_t n = 0;

	while ((delay = delays_next(&s->sched->delays, last))) {
		assert_true(delay_slot_of(delay->id) > delay_slot_of(last) ||
			    !last);
		last = delay->id;
		n++;
	}
	return n;
}

/* The same as what delay_set() makes of it. */
static void
test_an_own_delay_is_one_like_others(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, NULL);
	uint64_t few = set_own(s, "few", 10);
	uint64_t many = set_own(s, "longer.than.fits", 20);
	struct delay *delay = delay_find(&s->sched->delays, few);

	assert_string_equal(delay_event(delay), "few");
	assert_int_equal(delay->owner, s->id);
	assert_int_equal(s->session->n_timers, 2);
	assert_non_null(delay_find(&s->sched->delays, many));
	assert_int_equal(s->sched->delays.size, 2);
	fixture_advance(f, 30);
	assert_string_equal(fake_trace(s), "few longer.than.fits");
	assert_int_equal(s->session->n_timers, 0);
	assert_int_equal(s->sched->delays.size, 0);
}

/* B40: who comes too late is told why, also when its slot is another's. */
static void
test_what_became_of_a_delay_is_known(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, "name");
	struct delays *d = &s->sched->delays;
	struct delay_init init = {.alias = "name",
		.alias_size = 4,
		.event = "e",
		.event_size = 1,
		.due_ns = clock_now(s->sched->kernel->clock) + NS_PER_MS};
	uint64_t fires, goes, stays, plain;

	assert_int_equal(delay_set(s->sched, NULL, &init, &fires, NULL), 0);
	init.due_ns += 3600 * (uint64_t)NS_PER_S;
	assert_int_equal(delay_set(s->sched, NULL, &init, &goes, NULL), 0);
	assert_int_equal(delay_set(s->sched, NULL, &init, &stays, NULL), 0);
	plain = set_own(s, "plain", 1000);
	assert_int_equal(delay_fate(d, stays + (1ull << 40)), DELAY_NEVER_WAS);
	assert_int_equal(delay_fate(d, 0), DELAY_NEVER_WAS);
	assert_int_equal(delay_fate(d, goes), DELAY_PENDING);
	assert_int_equal(delay_cancel(s->sched, goes), 0);
	assert_int_equal(delay_cancel(s->sched, plain), 0);
	fixture_advance(f, 30);
	assert_int_equal(delay_set(s->sched, NULL, &init, &stays, NULL), 0);
	assert_int_equal(delay_set(s->sched, NULL, &init, &stays, NULL), 0);
	delays_cancel_alias(s->sched, "name", 4, DELAY_NO_UID);
	assert_int_equal(d->n, 0); /* nor does it need a slot at all */
	assert_int_equal(delay_fate(d, fires), DELAY_HAS_FIRED);
	assert_int_equal(delay_fate(d, goes), DELAY_WAS_CANCELLED);
	assert_int_equal(delay_fate(d, plain), DELAY_WAS_CANCELLED);
	assert_int_equal(delay_fate(d, stays), DELAY_WAS_CANCELLED);
	for (unsigned i = 0; i < DELAY_PAST_IDS; i++)
		assert_int_equal(
			delay_cancel(s->sched, set_own(s, "e", 1000)), 0);
	assert_int_equal(delay_fate(d, fires), DELAY_FORGOTTEN);
	assert_int_equal(delay_fate(d, stays), DELAY_FORGOTTEN);
}

/* B40: who may cancel it is to be known, also when its client has gone. */
static void
test_a_delay_knows_its_user(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, "name");
	struct delay_init init = {.alias = "name",
		.alias_size = 4,
		.event = "longer.than.fits",
		.event_size = 16,
		.due_ns = clock_now(s->sched->kernel->clock) + 1000,
		.has_uid = true,
		.uid = 1234};
	struct delays *d = &s->sched->delays;
	uint64_t id = set_own(s, "e", 10);

	struct users *users = &s->sched->kernel->users;
	struct user *user;
	char text[256];

	assert_int_equal(
		users_admit(users, 1234, 1, &user, text, sizeof(text)), 0);
	assert_int_equal(delay_uid(delay_find(d, id)), DELAY_NO_UID);
	assert_int_equal(delay_set(s->sched, NULL, &init, &id, NULL), 0);
	assert_int_equal(delay_uid(delay_find(d, id)), 1234);
	init.event_size = 3; /* fits */
	assert_int_equal(delay_set(s->sched, NULL, &init, &id, NULL), 0);
	assert_int_equal(delay_uid(delay_find(d, id)), 1234);
	assert_string_equal(delay_event(delay_find(d, id)), "lon");
	assert_int_equal(user->used[CHARGE_TIMERS], 2);
	assert_int_equal(delay_cancel(s->sched, id), 0);
	assert_int_equal(user->used[CHARGE_TIMERS], 1);
	fixture_advance(f, 30); /* the other one: it is an event, then gone */
	assert_int_equal(user->used[CHARGE_TIMERS], 0);
	assert_int_equal(user->used[CHARGE_EVENTS], 0);
	assert_int_equal(user->used[CHARGE_BYTES], 0);
}

enum { FEW = 300 };

static uint64_t few_ids[FEW];

static enum session_result
cancel_two_of_three(struct fake *s, struct msg *m)
{
	if (strcmp(m->event, "cancel") != 0)
		return SESSION_DONE;
	for (unsigned i = 0, at = 7; i < FEW; i++, at = (at + 7) % FEW) {
		if (at % 3 == 0)
			continue;
		assert_int_equal(delay_cancel(s->sched, few_ids[at]), 0);
		assert_int_equal(
			delay_cancel(s->sched, few_ids[at]), DELAY_E_FIRED);
		assert_null(delay_find(&s->sched->delays, few_ids[at]));
	}
	assert_int_equal(count_listed(s), FEW / 3);
	assert_int_equal(count_paged(s), FEW / 3);
	assert_int_equal(s->sched->delays.n, FEW / 3);
	set_own(s, "late", 30);
	assert_int_equal(count_listed(s), FEW / 3 + 1);
	return SESSION_DONE;
}

static void
test_those_cancelled_by_a_handler_are_gone_at_once(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, NULL);

	s->on_run = cancel_two_of_three;
	for (unsigned i = 0; i < FEW; i++)
		few_ids[i] = set_own(s, "e", 10 + i % 5);
	fixture_post(NULL, s, "cancel");
	fixture_run(f);
	assert_int_equal(s->session->n_timers, FEW / 3 + 1);
	assert_int_equal(s->sched->counters.cancelled, FEW / 3 * 2);
	assert_int_equal(s->sched->delays.size, FEW / 3 + 1);
	fixture_advance(f, 50);
	assert_int_equal(s->n_run, 1 + FEW / 3 + 1);
	assert_int_equal(s->session->n_timers, 0);
	assert_int_equal(s->sched->timers.n, 0);
}

static enum session_result
cancel_and_stop(struct fake *s, struct msg *m)
{
	(void)m;
	assert_int_equal(delay_cancel(s->sched, s->number), 0);
	session_stop(s->session);
	return SESSION_DONE;
}

static void
test_a_handler_may_cancel_and_stop(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, NULL);

	s->on_run = cancel_and_stop;
	set_own(s, "a", 10);
	s->number = set_own(s, "b", 10);
	set_own(s, "c", 10);
	fixture_post(NULL, s, "go");
	fixture_run(f);
	assert_int_equal(f->scheds[0].delays.n, 0);
	assert_int_equal(f->scheds[0].counters.cancelled, 3);
	fixture_advance(f, 50);
}

static void
test_a_crowd_is_found_paged_and_its_memory_given_back(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, NULL);
	uint64_t *ids = calloc(CROWD, sizeof(*ids));

	for (unsigned i = 0; i < CROWD; i++)
		ids[i] = set_own(s, "e", 1000 + i % 100000);
	assert_int_equal(s->sched->delays.n_chunks, 3);
	assert_int_equal(count_paged(s), CROWD);
	assert_int_equal(count_listed(s), CROWD);
	for (unsigned i = 0; i < CROWD; i++)
		assert_int_equal(
			delay_find(&s->sched->delays, ids[i])->id, ids[i]);
	/* Ids that none has had: between the chunks, after the last. */
	assert_null(delay_find(&s->sched->delays,
		ids[0] | (uint64_t)DELAY_INDEX_MASK << DELAY_SCHED_BITS));
	assert_null(delay_find(&s->sched->delays,
		ids[0] | (uint64_t)DELAY_SLOT_MASK << DELAY_SCHED_BITS));
	for (unsigned i = 0; i < CROWD; i++)
		assert_int_equal(delay_cancel(s->sched, ids[i]), 0);
	assert_int_equal(s->sched->delays.n_chunks, 1);
	assert_int_equal(delay_cancel(s->sched, ids[0]), DELAY_E_FIRED);
	free(ids);
}

int
main(void)
{
#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_an_own_delay_is_one_like_others),
		TEST(test_what_became_of_a_delay_is_known),
		TEST(test_a_delay_knows_its_user),
		TEST(test_those_cancelled_by_a_handler_are_gone_at_once),
		TEST(test_a_handler_may_cancel_and_stop),
		TEST(test_a_crowd_is_found_paged_and_its_memory_given_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

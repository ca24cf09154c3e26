/* What users are charged with: limits, warnings, and that all comes back to
 * zero. */
#include "kernel/fixture.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/log.h"
#include "kernel/users.h"

enum { ALICE = 1000, BOB = 1001 };

#define S (uint64_t) NS_PER_S

static int
setup(void **state)
{
	struct users *u = calloc(1, sizeof(*u));

	assert_non_null(u);
	assert_int_equal(users_init(u), 0);
	log_level_now = (enum log_level)0; /* refusals are meant here */
	*state = u;
	return 0;
}

static int
teardown(void **state)
{
	users_deinit(*state);
	free(*state);
	return 0;
}

static struct limits *
limits_with(enum charge_kind kind, uint64_t max)
{
	struct limits *l = limits_new(0, false);

	assert_non_null(l);
	assert_int_equal(limits_set(l, NULL, kind, max, "conf:3"), 0);
	limits_finish(l, 1000, 10000);
	return l;
}

static struct user *
admit(struct users *u, uint32_t uid, uint64_t now)
{
	struct user *user = NULL;
	char text[256];

	assert_int_equal(
		users_admit(u, uid, now, &user, text, sizeof(text)), 0);
	assert_non_null(user);
	return user;
}

static void
leave(struct users *u, struct user *user)
{
	user_charge(u, user, CHARGE_GREETING, -1, 1);
	user_charge(u, user, CHARGE_CONNECTIONS, -1, 1);
}

static void
test_one_user_is_one_entry(void **state)
{
	struct users *u = *state;
	struct user *a = admit(u, ALICE, 1), *b = admit(u, BOB, 1);

	assert_ptr_equal(admit(u, ALICE, 1), a);
	assert_ptr_not_equal(a, b);
	assert_ptr_equal(users_find(u, ALICE), a);
	assert_ptr_equal(users_at(u, a->index), a);
	assert_null(users_find(u, 7));
	assert_int_equal(a->used[CHARGE_CONNECTIONS], 2);
	assert_null(users_look(u, 2));
}

static void
test_a_limit_refuses_and_says_who_what_and_why(void **state)
{
	struct users *u = *state;
	struct user *a;
	char text[256];

	users_set_limits(u, limits_with(CHARGE_CONNECTIONS, 2));
	a = admit(u, ALICE, 1);
	admit(u, ALICE, 1);
	assert_int_equal(
		users_admit(u, ALICE, 1, &a, text, sizeof(text)), USER_E_LIMIT);
	assert_string_equal(text,
		"uid 1000 has 2 of 2 connections (Connections= of [Limits] in "
		"eventd.conf: conf:3)");
	assert_int_equal(a->refused[CHARGE_CONNECTIONS], 1);
	admit(u, BOB, 1); /* another has his own */
	leave(u, a);
	admit(u, ALICE, 1);
}

/* B4: at once, for those who are there. */
static void
test_overrides_count_at_once(void **state)
{
	struct users *u = *state;
	struct user *a = admit(u, ALICE, 1), *b = admit(u, BOB, 1);
	struct limits *l = limits_with(CHARGE_TIMERS, 5);
	uint32_t alice = ALICE;
	struct limit limit;

	assert_int_equal(limits_set(l, &alice, CHARGE_TIMERS, 50, "conf:9"), 0);
	assert_int_equal(
		limits_set(l, &alice, CHARGE_CALLS, UINT64_MAX, "conf:10"), 0);
	users_set_limits(u, l);
	assert_int_equal(a->max[CHARGE_TIMERS], 50);
	assert_int_equal(b->max[CHARGE_TIMERS], 5);
	assert_true(user_has_room(a, CHARGE_CALLS, INT64_MAX / 2, 1u << 30));
	assert_int_equal(users_limit(u, ALICE, CHARGE_TIMERS, &limit), 0);
	assert_string_equal(limit.from, "conf:9");
	free(limit.from);
	users_set_limits(u, limits_with(CHARGE_EVENTS, 1));
	assert_int_equal(a->max[CHARGE_TIMERS], b->max[CHARGE_TIMERS]);
}

static void
test_root_and_owner_may_have_all_connections(void **state)
{
	struct users *u = *state;
	struct limits *l = limits_new(BOB, false);

	limits_finish(l, 1000, 10000);
	users_set_limits(u, l);
	assert_int_equal(admit(u, 0, 1)->max[CHARGE_CONNECTIONS], 1000);
	assert_int_equal(admit(u, BOB, 1)->max[CHARGE_CONNECTIONS], 1000);
	assert_int_equal(admit(u, ALICE, 1)->max[CHARGE_CONNECTIONS], 750);
}

/* B5 */
static void
test_connections_come_at_a_rate(void **state)
{
	struct users *u = *state;
	struct limits *l = limits_with(CHARGE_RATE, 10);
	struct user *a = NULL;
	char text[256];

	assert_int_equal(limits_set(l, NULL, CHARGE_BURST, 20, "conf:4"), 0);
	users_set_limits(u, l);
	for (int i = 0; i < 20; i++)
		leave(u, admit(u, ALICE, S));
	assert_int_equal(
		users_admit(u, ALICE, S, &a, text, sizeof(text)), USER_E_LIMIT);
	assert_non_null(strstr(text, "more than 10 times a second"));
	admit(u, BOB, S);
	for (int i = 0; i < 10; i++)
		leave(u, admit(u, ALICE, 2 * S));
	assert_int_equal(users_admit(u, ALICE, 2 * S, &a, text, sizeof(text)),
		USER_E_LIMIT);
	for (int i = 0; i < 20; i++) /* no more than the burst */
		leave(u, admit(u, ALICE, 100 * S));
	assert_int_equal(users_admit(u, ALICE, 100 * S, &a, text, sizeof(text)),
		USER_E_LIMIT);
}

/* B13: it is warned of again only after it has fallen. */
static void
test_a_warning_comes_once_until_it_has_fallen(void **state)
{
	struct users *u = *state;
	struct user *a;

	users_set_limits(u, limits_with(CHARGE_WATCHES, 100));
	a = admit(u, ALICE, 1);
	user_charge(u, a, CHARGE_WATCHES, 79, 1);
	assert_false(a->warned & 1 << CHARGE_WATCHES);
	user_charge(u, a, CHARGE_WATCHES, 1, S);
	assert_true(a->warned & 1 << CHARGE_WATCHES);
	assert_int_equal(a->warned_ns[CHARGE_WATCHES], S);
	user_charge(u, a, CHARGE_WATCHES, -15, 2 * S); /* 65: not low enough */
	user_charge(u, a, CHARGE_WATCHES, 15, 200 * S);
	assert_int_equal(a->warned_ns[CHARGE_WATCHES], S);
	user_charge(u, a, CHARGE_WATCHES, -40, 201 * S);
	assert_false(a->warned & 1 << CHARGE_WATCHES);
	user_charge(u, a, CHARGE_WATCHES, 40, 202 * S);
	assert_int_equal(a->warned_ns[CHARGE_WATCHES], 202 * S);
	user_charge(u, a, CHARGE_WATCHES, -80, 203 * S);
	assert_int_equal(a->used[CHARGE_WATCHES], 0);
}

static void
test_events_are_added_up_once_a_turn_and_limited_at_once(void **state)
{
	struct users *u = *state;
	struct charges c;
	struct limits *l = limits_with(CHARGE_EVENTS, 10);
	struct user *a, *b;

	assert_int_equal(limits_set(l, NULL, CHARGE_BYTES, 1000, "conf:4"), 0);
	users_set_limits(u, l);
	a = admit(u, ALICE, 1);
	b = admit(u, BOB, 1);
	charges_init(&c, u);
	for (int i = 0; i < 10; i++)
		assert_int_equal(charge_take(&c, a->index, 10), CHARGES);
	assert_int_equal(charge_take(&c, a->index, 10), CHARGE_EVENTS);
	charge_add(&c, a->index, -1, -10);
	assert_int_equal(charge_take(&c, a->index, 911), CHARGE_BYTES);
	assert_int_equal(charge_take(&c, a->index, 910), CHARGES);
	assert_int_equal(charge_take(&c, b->index, 5), CHARGES);
	charges_flush(&c, 1);
	assert_int_equal(c.dirty, 0);
	assert_int_equal(a->used[CHARGE_EVENTS], 10);
	assert_int_equal(a->used[CHARGE_BYTES], 1000);
	assert_int_equal(b->used[CHARGE_BYTES], 5);
	charge_add(&c, b->index, -1, -5);
	charge_add(&c, a->index, -10, -1000);
	charges_flush(&c, 1);
	assert_int_equal(a->used[CHARGE_BYTES] | b->used[CHARGE_BYTES], 0);
}

static void
test_users_who_left_make_room(void **state)
{
	struct users *u = *state;
	struct user *stays = admit(u, 5, 1), *user = NULL;
	char text[256];

	for (uint32_t uid = 100; uid < 100 + 70000; uid++)
		leave(u, admit(u, uid, 1));
	assert_true(u->n <= 1024 + 1);
	assert_ptr_equal(users_find(u, 5), stays);
	assert_null(users_find(u, 100));
	for (uint32_t i = 1; i <= u->n; i++) /* now nobody leaves */
		users_at(u, i)->used[CHARGE_TIMERS]++;
	fault_arm("user_place", 1);
	assert_true(users_admit(u, 1, 1, &user, text, sizeof(text)) < 0);
	fault_arm("", 0);
	assert_null(user);
}

/* B11: whatever comes and goes, with whatever sizes, nothing is left. */
static void
test_random_charges_come_back_to_zero(void **state)
{
	struct users *u = *state;
	enum { N_USERS = 20, N_LOOPS = 3, N_HELD = 500 };
	struct charges loops[N_LOOPS];
	struct user *users[N_USERS];
	struct held {
		uint32_t user, size;
		bool is;
	} held[N_HELD] = {{0}};
	unsigned seed = 3;

	users_set_limits(u, limits_with(CHARGE_EVENTS, 30));
	for (unsigned i = 0; i < N_LOOPS; i++)
		charges_init(&loops[i], u);
	for (unsigned i = 0; i < N_USERS; i++)
		users[i] = admit(u, ALICE + i, 1);
	for (int round = 0; round < 200000; round++) {
		struct held *h = &held[rand_r(&seed) % N_HELD];
		struct charges *c = &loops[rand_r(&seed) % N_LOOPS];
		uint32_t user = users[rand_r(&seed) % N_USERS]->index;
		uint32_t size = (uint32_t)rand_r(&seed) % 70000;

		if (h->is)
			charge_add(c, h->user, -1, -(int64_t)h->size);
		else if (charge_take(c, user, size) == CHARGES)
			*h = (struct held){user, size, false};
		else
			continue;
		h->is = !h->is;
		if (rand_r(&seed) % 10 == 0)
			charges_flush(c, 1);
	}
	for (unsigned i = 0; i < N_HELD; i++)
		if (held[i].is)
			charge_add(&loops[i % N_LOOPS], held[i].user, -1,
				-(int64_t)held[i].size);
	for (unsigned i = 0; i < N_LOOPS; i++)
		charges_flush(&loops[i], 1);
	for (unsigned i = 0; i < N_USERS; i++) {
		assert_int_equal(users[i]->used[CHARGE_EVENTS], 0);
		assert_int_equal(users[i]->used[CHARGE_BYTES], 0);
	}
}

static void *
hammer(void *arg)
{
	struct users *u = arg;
	struct charges c;
	char text[256];

	charges_init(&c, u);
	for (uint32_t i = 0; i < 20000; i++) {
		struct user *user = NULL;

		if (users_admit(u, ALICE + i % 3, 1, &user, text, sizeof(text)))
			continue;
		if (charge_take(&c, user->index, i) == CHARGES)
			charge_add(&c, user->index, -1, -(int64_t)i);
		charges_flush(&c, 1);
		leave(u, user);
	}
	return NULL;
}

static void
test_threads_charge_at_once(void **state)
{
	struct users *u = *state;
	pthread_t threads[4];

	for (int i = 0; i < 4; i++)
		assert_int_equal(
			pthread_create(&threads[i], NULL, hammer, u), 0);
	for (int i = 0; i < 50; i++)
		users_set_limits(u, limits_with(CHARGE_EVENTS, i % 2 + 1));
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	for (uint32_t i = 1; i <= u->n; i++)
		for (unsigned kind = 0; kind < CHARGES; kind++)
			assert_int_equal(users_at(u, i)->used[kind], 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_one_user_is_one_entry),
		TEST(test_a_limit_refuses_and_says_who_what_and_why),
		TEST(test_overrides_count_at_once),
		TEST(test_root_and_owner_may_have_all_connections),
		TEST(test_connections_come_at_a_rate),
		TEST(test_a_warning_comes_once_until_it_has_fallen),
		TEST(test_events_are_added_up_once_a_turn_and_limited_at_once),
		TEST(test_users_who_left_make_room),
		TEST(test_random_charges_come_back_to_zero),
		TEST(test_threads_charge_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* daemon/kernel/mailbox.c */
#include "kernel/mailbox.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_N = 3, MAX_SIZE = 100 };

static int
setup(void **state)
{
	static struct mailbox box;

	mailbox_init(&box, MAX_N, MAX_SIZE);
	*state = &box;
	return 0;
}

static int
teardown(void **state)
{
	struct mailbox *box = *state;

	for (struct msg *m; (m = mailbox_pop(box));)
		msg_free(NULL, m);
	for (struct msg *m; (m = mailbox_pop_parked(box));)
		msg_free(NULL, m);
	assert_int_equal(box->n, 0);
	assert_int_equal(box->size, 0);
	assert_int_equal(box->n_parked, 0);
	mailbox_deinit(box);
	return 0;
}

static struct msg *
msg_fake(uint64_t id, uint32_t size, uint8_t flags)
{
	struct msg_init init = {.event = "e", .event_size = 1, .size = size};
	struct msg *m = msg_new(NULL, &init);

	assert_non_null(m);
	m->id = id;
	m->flags |= flags;
	return m;
}

static int
push(struct mailbox *box, uint64_t id, uint32_t size, uint8_t flags)
{
	struct msg *m = msg_fake(id, size, flags);
	int r = mailbox_push(box, m);

	if (r)
		msg_free(NULL, m);
	return r;
}

/* Pop and admit as a scheduler does; the id of what came, 0 for nothing. */
static uint64_t
pop(struct mailbox *box)
{
	struct msg *m = mailbox_pop(box);
	uint64_t id = m ? m->id : 0;

	if (m)
		assert_true(m->flags & MSG_ADMITTED);
	msg_free(NULL, m);
	while (mailbox_admit(box))
		;
	return id;
}

static void
test_events_leave_in_order(void **state)
{
	assert_int_equal(pop(*state), 0);
	for (uint64_t id = 1; id <= MAX_N; id++)
		assert_int_equal(push(*state, id, 1, 0), 0);
	for (uint64_t id = 1; id <= MAX_N; id++)
		assert_int_equal(pop(*state), id);
	assert_int_equal(pop(*state), 0);
}

static void
test_push_says_that_it_admitted(void **state)
{
	struct msg *m = msg_fake(1, 1, 0);

	assert_int_equal(mailbox_push(*state, m), 0);
	assert_true(m->flags & MSG_ADMITTED);
}

static void
test_push_refuses_when_full_by_count(void **state)
{
	struct mailbox *box = *state;

	for (uint64_t id = 1; id <= MAX_N; id++)
		assert_int_equal(push(box, id, 0, 0), 0);
	assert_int_equal(push(box, 9, 0, 0), MAILBOX_E_FULL);
	assert_int_equal(box->n, MAX_N);
	pop(box);
	assert_int_equal(push(box, 10, 0, 0), 0);
}

static void
test_push_refuses_when_full_by_bytes(void **state)
{
	struct mailbox *box = *state;
	struct msg *m = msg_fake(9, 1, 0);

	assert_int_equal(push(box, 1, MAX_SIZE - 10, 0), 0);
	assert_int_equal(push(box, 2, 11, 0), MAILBOX_E_FULL);
	assert_int_equal(push(box, 3, 10, 0), 0);
	assert_int_equal(box->size, MAX_SIZE);
	assert_int_equal(mailbox_push(box, m), MAILBOX_E_FULL);
	assert_false(m->flags & MSG_ADMITTED);
	msg_free(NULL, m);
}

static void
test_an_empty_mailbox_takes_any_size(void **state)
{
	assert_int_equal(push(*state, 1, MAX_SIZE * 10, 0), 0);
	assert_int_equal(push(*state, 2, 0, 0), MAILBOX_E_FULL);
	assert_int_equal(pop(*state), 1);
	assert_int_equal(push(*state, 2, MAX_SIZE * 10, 0), 0);
}

static void
test_an_admitted_event_is_taken_whatever_the_bounds(void **state)
{
	struct mailbox *box = *state;

	for (uint64_t id = 1; id <= MAX_N; id++)
		push(box, id, 0, 0);
	assert_int_equal(push(box, 4, MAX_SIZE * 2, MSG_ADMITTED), 0);
	assert_int_equal(box->n, MAX_N + 1);
	for (uint64_t id = 1; id <= MAX_N + 1; id++)
		assert_int_equal(pop(box), id);
}

static void
test_a_full_mailbox_parks_in_order(void **state)
{
	struct mailbox *box = *state;

	for (uint64_t id = 1; id <= 8; id++)
		assert_int_equal(push(box, id, 1, MSG_MAY_PARK), 0);
	assert_int_equal(box->n, MAX_N);
	assert_int_equal(box->n_parked, 8 - MAX_N);
	for (uint64_t id = 1; id <= 8; id++)
		assert_int_equal(pop(box), id);
	assert_int_equal(box->n_parked, 0);
}

static void
test_nobody_overtakes_the_parked(void **state)
{
	struct mailbox *box = *state;

	push(box, 1, MAX_SIZE - 10, 0);
	assert_int_equal(push(box, 2, 50, MSG_MAY_PARK), 0);
	/* there is room for these, but one is waiting */
	assert_int_equal(push(box, 3, 1, 0), MAILBOX_E_FULL);
	assert_int_equal(push(box, 4, 1, MSG_MAY_PARK), 0);
	assert_int_equal(box->n_parked, 2);
	assert_int_equal(pop(box), 1);
	assert_int_equal(pop(box), 2);
	assert_int_equal(pop(box), 4);
}

static void
test_admit_stops_at_what_does_not_fit(void **state)
{
	struct mailbox *box = *state;

	push(box, 1, 90, MSG_MAY_PARK);
	push(box, 2, 60, MSG_MAY_PARK);
	push(box, 3, 60, MSG_MAY_PARK);
	push(box, 4, 1, MSG_MAY_PARK);
	assert_null(mailbox_admit(box));
	assert_int_equal(pop(box), 1);
	assert_int_equal(box->n, 1); /* the second */
	assert_int_equal(box->n_parked, 2);
	assert_int_equal(pop(box), 2);
	assert_int_equal(box->n, 2);
	assert_int_equal(box->n_parked, 0);
}

static void
test_admit_takes_any_size_into_an_empty_mailbox(void **state)
{
	push(*state, 1, 90, MSG_MAY_PARK);
	push(*state, 2, MAX_SIZE * 5, MSG_MAY_PARK);
	assert_int_equal(pop(*state), 1);
	assert_int_equal(pop(*state), 2);
}

static void
test_raised_bounds_let_the_parked_in(void **state)
{
	struct mailbox *box = *state;
	struct msg *m;

	for (uint64_t id = 1; id <= 5; id++)
		push(box, id, 1, MSG_MAY_PARK);
	assert_null(mailbox_admit(box));
	mailbox_limit(box, 4, MAX_SIZE);
	m = mailbox_admit(box);
	assert_int_equal(m->id, 4);
	assert_true(m->flags & MSG_ADMITTED);
	assert_null(mailbox_admit(box));
}

static void
test_lowered_bounds_keep_what_is_in(void **state)
{
	struct mailbox *box = *state;

	push(box, 1, 50, 0);
	push(box, 2, 50, 0);
	mailbox_limit(box, 1, 10);
	assert_int_equal(push(box, 3, 1, 0), MAILBOX_E_FULL);
	assert_int_equal(pop(box), 1);
	assert_int_equal(push(box, 3, 1, 0), MAILBOX_E_FULL);
	assert_int_equal(pop(box), 2);
	assert_int_equal(push(box, 3, 1, 0), 0);
}

static void
test_unpop_puts_back_to_the_front(void **state)
{
	struct mailbox *box = *state;
	struct msg *m;

	push(box, 1, 5, 0);
	push(box, 2, 5, 0);
	m = mailbox_pop(box);
	mailbox_unpop(box, m);
	assert_int_equal(box->n, 2);
	assert_int_equal(box->size, 10);
	assert_int_equal(pop(box), 1);
	m = mailbox_pop(box);
	mailbox_unpop(box, m); /* into an empty one */
	push(box, 3, 5, 0);
	assert_int_equal(pop(box), 2);
	assert_int_equal(pop(box), 3);
}

static void
test_pop_parked_takes_the_first_waiting_unadmitted(void **state)
{
	struct mailbox *box = *state;
	struct msg *m;

	for (uint64_t id = 1; id <= 5; id++)
		push(box, id, 1, MSG_MAY_PARK);
	m = mailbox_pop_parked(box);
	assert_int_equal(m->id, 4);
	assert_false(m->flags & MSG_ADMITTED);
	msg_free(NULL, m);
	m = mailbox_pop_parked(box);
	assert_int_equal(m->id, 5);
	msg_free(NULL, m);
	assert_null(mailbox_pop_parked(box));
	assert_int_equal(box->n_parked, 0);
	assert_int_equal(box->n, MAX_N);
}

static void
test_urgent_ones_go_first_and_in_order(void **state)
{
	struct mailbox *box = *state;

	mailbox_limit(box, 10, MAX_SIZE);
	push(box, 1, 1, 0);
	push(box, 11, 1, MSG_URGENT);
	push(box, 2, 1, 0);
	push(box, 12, 1, MSG_URGENT);
	assert_int_equal(pop(box), 11);
	push(box, 13, 1, MSG_URGENT);
	assert_int_equal(pop(box), 12);
	assert_int_equal(pop(box), 13);
	assert_int_equal(pop(box), 1);
	push(box, 14, 1, MSG_URGENT);
	assert_int_equal(pop(box), 14);
	assert_int_equal(pop(box), 2);
	assert_int_equal(pop(box), 0);
}

static void
test_urgent_ones_are_bounded_and_park_in_front(void **state)
{
	struct mailbox *box = *state;

	for (uint64_t id = 1; id <= MAX_N; id++)
		push(box, id, 1, 0);
	assert_int_equal(push(box, 9, 1, MSG_URGENT), MAILBOX_E_FULL);
	push(box, 4, 1, MSG_MAY_PARK);
	push(box, 11, 1, MSG_MAY_PARK | MSG_URGENT);
	push(box, 12, 1, MSG_MAY_PARK | MSG_URGENT);
	assert_int_equal(box->n, MAX_N);
	assert_int_equal(pop(box), 1);
	assert_int_equal(pop(box), 11);
	assert_int_equal(pop(box), 12);
	assert_int_equal(pop(box), 2);
	assert_int_equal(pop(box), 3);
	assert_int_equal(pop(box), 4);
}

static void
test_unpop_keeps_urgent_ones_in_front(void **state)
{
	struct mailbox *box = *state;
	struct msg *plain, *urgent;

	mailbox_limit(box, 10, MAX_SIZE);
	push(box, 1, 1, 0);
	push(box, 2, 1, 0);
	plain = mailbox_pop(box);
	push(box, 11, 1, MSG_URGENT);
	push(box, 12, 1, MSG_URGENT);
	mailbox_unpop(box, plain); /* behind those that came meanwhile */
	urgent = mailbox_pop(box);
	assert_int_equal(urgent->id, 11);
	mailbox_unpop(box, urgent);
	assert_int_equal(pop(box), 11);
	assert_int_equal(pop(box), 12);
	assert_int_equal(pop(box), 1);
	assert_int_equal(pop(box), 2);
}

static void
stash(struct mailbox *box)
{
	struct msg *m = mailbox_pop(box);

	assert_int_equal(mailbox_may_stash(box, m), 0);
	mailbox_stash(box, m);
}

static void
test_what_is_stashed_counts_and_comes_back_in_front(void **state)
{
	struct mailbox *box = *state;

	for (uint64_t id = 1; id <= MAX_N; id++)
		push(box, id, 10, 0);
	stash(box);
	stash(box);
	assert_int_equal(box->n, MAX_N);
	assert_int_equal(box->size, MAX_N * 10);
	assert_int_equal(push(box, 4, 1, 0), MAILBOX_E_FULL);
	assert_int_equal(mailbox_unstash(box), 2);
	assert_int_equal(mailbox_unstash(box), 0);
	assert_int_equal(box->n, MAX_N);
	for (uint64_t id = 1; id <= MAX_N; id++)
		assert_int_equal(pop(box), id);
	assert_int_equal(pop(box), 0);
}

static void
test_nothing_is_stashed_past_the_bounds(void **state)
{
	struct mailbox *box = *state;
	struct msg *m;

	for (uint64_t id = 1; id <= MAX_N; id++)
		push(box, id, 1, 0);
	m = mailbox_pop(box);
	push(box, 9, 1, 0); /* has taken its place */
	assert_int_equal(mailbox_may_stash(box, m), MAILBOX_E_FULL);
	msg_free(NULL, m);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_events_leave_in_order),
		TEST(test_push_says_that_it_admitted),
		TEST(test_push_refuses_when_full_by_count),
		TEST(test_push_refuses_when_full_by_bytes),
		TEST(test_an_empty_mailbox_takes_any_size),
		TEST(test_an_admitted_event_is_taken_whatever_the_bounds),
		TEST(test_a_full_mailbox_parks_in_order),
		TEST(test_nobody_overtakes_the_parked),
		TEST(test_admit_stops_at_what_does_not_fit),
		TEST(test_admit_takes_any_size_into_an_empty_mailbox),
		TEST(test_raised_bounds_let_the_parked_in),
		TEST(test_lowered_bounds_keep_what_is_in),
		TEST(test_unpop_puts_back_to_the_front),
		TEST(test_pop_parked_takes_the_first_waiting_unadmitted),
		TEST(test_urgent_ones_go_first_and_in_order),
		TEST(test_urgent_ones_are_bounded_and_park_in_front),
		TEST(test_unpop_keeps_urgent_ones_in_front),
		TEST(test_what_is_stashed_counts_and_comes_back_in_front),
		TEST(test_nothing_is_stashed_past_the_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

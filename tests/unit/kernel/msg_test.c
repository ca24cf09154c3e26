/* daemon/kernel/msg.c */
#include "kernel/msg.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/fault.h"

static int
setup(void **state)
{
	static struct msg_pool pool;
	static struct depot depot;

	depot_init(&depot);
	msg_pool_init(&pool, &depot);
	*state = &pool;
	return 0;
}

static int
teardown(void **state)
{
	struct msg_pool *p = *state;

	msg_pool_deinit(p);
	depot_deinit(p->depot);
	return 0;
}

static struct msg *
msg_sized(struct msg_pool *p, uint32_t size)
{
	struct msg_init init = {.event = "e", .event_size = 1, .size = size};
	struct msg *m = msg_new(p, &init);

	assert_non_null(m);
	memset(m->data, 0xa5, size);
	return m;
}

static void
test_new_copies_payload_headers_and_event(void **state)
{
	char event[] = "done!"; /* one byte more than its name */
	struct msg_init init = {
		.event = event,
		.event_size = 4,
		.data = "payload",
		.size = 7,
		.headers = "\x7a\x00h",
		.headers_size = 3,
	};
	struct msg *m = msg_new(*state, &init);

	memset(event, 'x', 5);
	assert_string_equal(m->event, "done");
	assert_int_equal(m->event_size, 4);
	assert_string_equal((char *)m->data, "payload");
	assert_int_equal(m->size, 7);
	assert_memory_equal(msg_headers(m), "\x7a\x00h", 3);
	assert_int_equal(m->headers_size, 3);
	assert_int_equal(msg_charge(m), 10);
	msg_free(*state, m);
}

static void
test_new_points_at_a_static_event(void **state)
{
	static const char name[] = "tick";
	struct msg_init init = {
		.event = name, .event_size = 4, .event_static = true};
	struct msg *m = msg_new(*state, &init);

	assert_ptr_equal(m->event, name);
	assert_int_equal(m->data[0], 0);
	msg_free(*state, m);
}

static void
test_new_is_zero_after_reuse(void **state)
{
	struct msg *m = msg_sized(*state, 10);

	m->id = m->from = m->to = m->stamp = 7;
	memset(msg_wide(m), 7, sizeof(struct msg_wide));
	m->handler = 7;
	m->op = MSG_TASK;
	m->flags |= MSG_ACK | MSG_REPLIED;
	m->attempt = 7;
	msg_free(*state, m);
	m = msg_sized(*state, 10);
	assert_int_equal(m->id | m->from | m->to | m->stamp, 0);
	assert_int_equal(msg_call(m) | msg_seq(m), 0);
	assert_int_equal(msg_late_ns(m) | msg_due_ns(m), 0);
	assert_int_equal(m->handler | m->op | msg_level(m) | m->attempt, 0);
	assert_int_equal(m->flags, MSG_WIDE);
	assert_int_equal(msg_status(m) | msg_deadline_ns(m), 0);
	msg_free(*state, m);
}

static void
test_a_plain_one_has_none_of_what_is_rare(void **state)
{
	struct msg_init init = {.event = "e",
		.event_static = true,
		.event_size = 1,
		.plain = true,
		.data = "abc",
		.size = 3};
	struct msg *plain[] = {
		msg_new(*state, &init), msg_new_plain(*state, 0, "abc", 3)};

	for (int i = 0; i < 2; i++) {
		const struct msg *m = plain[i];

		assert_int_equal(m->flags, 0);
		assert_int_equal(msg_call(m) | msg_seq(m), 0);
		assert_int_equal(msg_late_ns(m) | msg_due_ns(m), 0);
		assert_int_equal(msg_status(m) | msg_deadline_ns(m), 0);
		assert_int_equal(msg_level(m), MSG_LEVEL_ACCEPTED);
		assert_string_equal((const char *)m->data, "abc");
		msg_free(*state, plain[i]);
	}
}

/* Every size around the classes' edges can be written and read in full. */
static void
test_every_size_has_its_room(void **state)
{
	struct msg *all[3000];
	uint32_t n = 0;

	for (uint32_t size = 0; size < 1100; size++)
		all[n++] = msg_sized(*state, size);
	for (uint32_t size = 3900; size < 4200; size++)
		all[n++] = msg_sized(*state, size);
	for (uint32_t i = 0; i < n; i++) {
		for (uint32_t j = 0; j < all[i]->size; j++)
			assert_int_equal(all[i]->data[j], 0xa5);
		assert_int_equal(all[i]->data[all[i]->size], 0);
		assert_string_equal(all[i]->event, "e");
		msg_free(*state, all[i]);
	}
}

static void
test_large_messages_come_from_the_heap(void **state)
{
	struct msg *m = msg_sized(*state, 1 << 20);

	assert_int_equal(m->pool_class, MSG_CLASSES);
	msg_free(*state, m);
}

static uint32_t
n_kept(const struct msg_pool *p)
{
	uint32_t n = 0;

	for (unsigned c = 0; c < MSG_CLASSES; c++)
		for (const struct depot_block *b = p->free[c]; b; b = b->next)
			n++;
	for (unsigned c = 0; c < MSG_CLASSES; c++)
		for (const struct depot_block *b = p->full[c]; b; b = b->next)
			n++;
	return n;
}

/* What one pool makes and another gets comes back by the depot. */
static void
test_a_depot_evens_out(void **state)
{
	enum { N = 20000 };
	static struct msg *all[N];
	struct msg_pool *from = *state, to;
	bool all_are_pooled;
	size_t size;

	msg_pool_init(&to, from->depot);
	for (int i = 0; i < N; i++)
		all[i] = msg_sized(from, 8);
	all_are_pooled = all[0]->pool_class < MSG_CLASSES; /* no sanitizer */
	size = depot_sizes[all[0]->pool_class % MSG_CLASSES];
	for (int i = 0; i < N; i++)
		msg_free(&to, all[i]);
	if (all_are_pooled) {
		assert_in_range(n_kept(&to), 1, 2 * MSG_POOL_BATCH);
		assert_int_equal(from->depot->kept / size + n_kept(&to), N);
	}
	for (int i = 0; i < N; i++)
		all[i] = msg_sized(from, 8);
	assert_true(n_kept(from) < MSG_POOL_BATCH);
	assert_true(from->depot->kept <= 2 * MSG_POOL_BATCH * size);
	for (int i = 0; i < N; i++)
		msg_free(&to, all[i]);
	msg_pool_deinit(&to);
}

static void
test_a_message_may_end_in_another_pool(void **state)
{
	struct msg_pool *p = *state, other;

	msg_pool_init(&other, p->depot);
	assert_null(msg_free(&other, msg_sized(*state, 100)));
	msg_free(*state, msg_sized(&other, 100));
	assert_null(msg_free(NULL, msg_sized(NULL, 100)));
	msg_free(*state, msg_sized(NULL, 100));
	assert_null(msg_free(NULL, msg_sized(*state, 100)));
	assert_null(msg_free(*state, NULL));
	msg_pool_deinit(&other);
}

static void
test_clone_copies_what_is_said_and_nothing_else(void **state)
{
	struct msg_init init = {
		.event = "again",
		.event_size = 5,
		.data = "abc",
		.size = 3,
		.headers = "hh",
		.headers_size = 2,
	};
	struct msg *m = msg_new(*state, &init), *copy;

	m->from = 1;
	m->to = 2;
	m->handler = 3;
	m->id = 9;
	memset(msg_wide(m), 9, sizeof(struct msg_wide));
	m->op = MSG_TASK;
	m->flags |= MSG_ACK | MSG_ADMITTED;
	m->attempt = 9;
	copy = msg_clone(*state, m);
	msg_free(*state, m);
	assert_string_equal(copy->event, "again");
	assert_string_equal((char *)copy->data, "abc");
	assert_memory_equal(msg_headers(copy), "hh", 2);
	assert_int_equal(copy->from, 1);
	assert_int_equal(copy->to, 2);
	assert_int_equal(copy->handler, 3);
	assert_int_equal(copy->op, MSG_EVENT);
	assert_int_equal(copy->id | msg_call(copy) | msg_seq(copy), 0);
	assert_int_equal(copy->flags, MSG_WIDE);
	assert_int_equal(msg_level(copy) | copy->attempt, 0);
	msg_free(*state, copy);
}

static void
test_clone_shares_a_static_event(void **state)
{
	static const char name[] = "tick";
	struct msg_init init = {
		.event = name, .event_size = 4, .event_static = true};
	struct msg *m = msg_new(*state, &init), *copy = msg_clone(*state, m);

	assert_ptr_equal(copy->event, name);
	msg_free(*state, m);
	msg_free(*state, copy);
}

static void
test_new_fails_when_out_of_memory(void **state)
{
	struct msg_init init = {.event = "e", .event_size = 1};

#ifdef NDEBUG
	skip(); /* fault points are compiled out */
#endif
	fault_arm("msg_new", 1);
	assert_null(msg_new(*state, &init));
	msg_free(*state, msg_sized(*state, 1));
}

static void
test_queue_is_first_in_first_out(void **state)
{
	struct msg_queue q = {NULL, NULL};
	struct msg *m;

	for (int round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < 5; i++)
			msg_queue_push(&q, msg_sized(*state, i));
		for (uint32_t i = 0; i < 5; i++) {
			m = msg_queue_pop(&q);
			assert_int_equal(m->size, i);
			msg_free(*state, m);
		}
		assert_null(msg_queue_pop(&q));
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* By pieces or not, every byte counts and none beyond. */
static void
test_short_pieces_are_copied_and_compared(void **state)
{
	char from[48], to[48];

	(void)state;
	for (size_t size = 0; size < 40; size++) {
		for (size_t i = 0; i < sizeof(from); i++)
			from[i] = (char)('a' + i % 26);
		memset(to, '#', sizeof(to));
		msg_copy((uint8_t *)to, (const uint8_t *)from, size);
		assert_memory_equal(to, from, size);
		assert_int_equal(to[size], '#');
		assert_true(msg_same(to, from, size));
		for (size_t i = 0; i < size; i++) {
			to[i] ^= 1;
			assert_false(msg_same(to, from, size));
			to[i] ^= 1;
		}
	}
}

static void
test_a_named_one_owns_its_event(void **state)
{
	for (uint32_t size = 0; size < 600; size += 1 + size / 7) {
		for (uint8_t n = 1; n < 127; n = (uint8_t)(n * 2 + 1)) {
			char event[128], data[600];
			struct msg *m, *copy;

			memset(event, 'e', n);
			event[n] = '\0';
			memset(data, 'd', size);
			m = msg_new_named(*state,
				&(struct msg){.id = 7,
					.from = 8,
					.to = 9,
					.event = event,
					.event_size = n,
					.size = size,
					.flags = MSG_ADMITTED},
				data);
			assert_non_null(m);
			memset(event, 'x', n);
			copy = msg_clone(*state, m);
			msg_free(*state, m);
			assert_int_equal(copy->size, size);
			assert_memory_equal(copy->data, data, size);
			assert_int_equal(copy->data[size], 0);
			assert_int_equal(strlen(copy->event), n);
			assert_int_equal(strspn(copy->event, "e"), n);
			msg_free(*state, copy);
		}
	}
}

static void
test_the_rare_part_stands_behind_all_else(void **state)
{
	for (uint32_t size = 0; size < 40; size++) {
		for (unsigned own = 0; own < 2; own++) {
			struct msg_init init = {
				.event = "event",
				.event_size = 5,
				.event_static = !own,
				.size = size,
				.headers = "hh",
				.headers_size = 2,
				.extra = true,
			};
			struct msg *m = msg_new(*state, &init), *copy;

			assert_non_null(m);
			assert_true(m->flags & MSG_EXTRA);
			assert_ptr_equal(msg_extra(m), msg_extra_at(m));
			assert_int_equal((uintptr_t)msg_extra(m) % 8, 0);
			assert_int_equal(msg_extra(m)->key_size, 0);
			memset(msg_extra(m)->key, 'k', MSG_KEY_MAX);
			msg_live(m, 1000, 500);
			copy = msg_clone(*state, m);
			assert_string_equal(copy->event, "event");
			assert_memory_equal(msg_headers(copy), "hh", 2);
			assert_int_equal(msg_extra(copy)->expires_ns, 1500);
			assert_int_equal(msg_extra(copy)->key[63], 'k');
			msg_free(*state, copy);
			msg_free(*state, m);
		}
	}
}

static void
test_an_endless_life_does_not_expire(void **state)
{
	struct msg *m = msg_new(*state,
		&(struct msg_init){
			.event = "e", .event_static = true, .extra = true});

	msg_live(m, 1000, UINT64_MAX - 10);
	assert_int_equal(msg_extra(m)->expires_ns, 0);
	msg_live(m, 1000, 0);
	assert_int_equal(msg_extra(m)->expires_ns, 0);
	msg_free(*state, m);
}

/* Many messages, one body, which goes with the last of them. */
static void
test_a_body_is_shared_by_all_that_refer_to_it(void **state)
{
	struct msg_init init = {.event = "news",
		.event_size = 4,
		.data = "abc",
		.size = 3,
		.headers = "hh",
		.headers_size = 2};
	struct msg *m = msg_new(*state, &init), *one, *two;
	struct msg_body *body = msg_body_new(m, 5);

	memcpy(body->bytes, "..abc", 5);
	body->payload = body->bytes + 2;
	m->id = 7;
	m->from = 8;
	m->flags |= MSG_URGENT | MSG_ACK;
	one = msg_refer(*state, m, body, true);
	two = msg_refer(NULL, m, body, false);
	msg_free(*state, m);
	assert_int_equal(atomic_load(&body->refs), 3);
	msg_body_unref(body);
	assert_int_equal(one->flags, MSG_SHARED | MSG_URGENT);
	assert_int_equal(two->flags, MSG_SHARED | MSG_URGENT | MSG_WIDE);
	assert_int_equal(one->id + one->from, 15);
	assert_int_equal(msg_charge(one), 5);
	assert_ptr_equal(one->event, two->event);
	assert_string_equal(one->event, "news");
	assert_memory_equal(msg_payload(one), "abc", 3);
	assert_null(msg_free(*state, one));
	assert_int_equal(atomic_load(&body->refs), 1);
	assert_string_equal(two->event, "news");
	assert_null(msg_free(NULL, two));
}

/* A copy lives as long as its event, and is no repetition of it. */
static void
test_a_reference_has_the_time_but_not_the_key(void **state)
{
	struct msg *m = msg_new(*state,
		&(struct msg_init){
			.event = "e", .event_static = true, .extra = true});
	struct msg_body *body = msg_body_new(m, 0);
	struct msg *ref;

	msg_live(m, 1000, 5);
	msg_extra(m)->key_size = 4;
	ref = msg_refer(*state, m, body, true);
	assert_int_equal(msg_extra(ref)->expires_ns, 1005);
	assert_int_equal(msg_extra(ref)->key_size, 0);
	msg_free(*state, ref);
	msg_free(*state, m);
	msg_body_unref(body);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_short_pieces_are_copied_and_compared),
		TEST(test_a_named_one_owns_its_event),
		TEST(test_new_copies_payload_headers_and_event),
		TEST(test_new_points_at_a_static_event),
		TEST(test_new_is_zero_after_reuse),
		TEST(test_every_size_has_its_room),
		TEST(test_large_messages_come_from_the_heap),
		TEST(test_a_plain_one_has_none_of_what_is_rare),
		TEST(test_a_message_may_end_in_another_pool),
		TEST(test_a_depot_evens_out),
		TEST(test_a_body_is_shared_by_all_that_refer_to_it),
		TEST(test_a_reference_has_the_time_but_not_the_key),
		TEST(test_clone_copies_what_is_said_and_nothing_else),
		TEST(test_clone_shares_a_static_event),
		TEST(test_new_fails_when_out_of_memory),
		TEST(test_queue_is_first_in_first_out),
		TEST(test_the_rare_part_stands_behind_all_else),
		TEST(test_an_endless_life_does_not_expire),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

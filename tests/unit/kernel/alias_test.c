/* daemon/kernel/alias.c */
#include "kernel/alias.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/fault.h"

struct world {
	struct epoch epoch;
	struct epoch_reader me;
	struct aliases table;
};

static int
setup(void **state)
{
	static struct world w;

	epoch_init(&w.epoch);
	epoch_join(&w.epoch, &w.me);
	epoch_online(&w.epoch, &w.me);
	*state = &w;
	return aliases_init(&w.table, &w.epoch);
}

static int
teardown(void **state)
{
	struct world *w = *state;

	epoch_offline(&w->me);
	epoch_leave(&w->epoch, &w->me);
	aliases_deinit(&w->table);
	epoch_deinit(&w->epoch);
	return 0;
}

static struct alias *
find(struct world *w, const char *name)
{
	return alias_find(&w->table, name, strlen(name));
}

static uint64_t
holder(struct world *w, const char *name)
{
	return alias_holder(&w->table, name, strlen(name));
}

static struct alias *
take(struct world *w, const char *name, uint64_t session)
{
	struct alias *a = NULL;

	assert_int_equal(
		alias_take(&w->table, name, strlen(name), session, &a), 0);
	return a;
}

static void
test_a_name_nobody_took_is_not_found(void **state)
{
	assert_null(find(*state, "printer"));
	assert_int_equal(holder(*state, "printer"), 0);
	assert_int_equal(holder(*state, ""), 0);
}

static void
test_take_makes_the_session_the_holder(void **state)
{
	struct alias *a = take(*state, "printer", 42);

	assert_string_equal(a->name, "printer");
	assert_int_equal(a->size, 7);
	assert_int_equal(holder(*state, "printer"), 42);
	assert_ptr_equal(find(*state, "printer"), a);
	assert_null(find(*state, "printe"));
	assert_null(find(*state, "printer2"));
}

static void
test_take_refuses_a_held_name(void **state)
{
	struct world *w = *state;
	struct alias *a = take(w, "printer", 42), *other = NULL;

	assert_int_equal(
		alias_take(&w->table, "printer", 7, 43, &other), ALIAS_E_TAKEN);
	assert_int_equal(
		alias_take(&w->table, "printer", 7, 42, &other), ALIAS_E_TAKEN);
	assert_null(other);
	assert_int_equal(holder(w, "printer"), 42);
	assert_int_equal(alias_drop(&w->table, a, 42), 0);
}

static void
test_take_refuses_what_is_no_name(void **state)
{
	struct world *w = *state;
	struct alias *a = NULL;
	char name[256];

	memset(name, 'n', sizeof(name));
	assert_int_equal(alias_take(&w->table, name, 256, 1, &a), ALIAS_E_NAME);
	assert_int_equal(alias_take(&w->table, name, 255, 1, &a), 0);
	assert_int_equal(alias_take(&w->table, "", 0, 1, &a), ALIAS_E_NAME);
	assert_int_equal(alias_take(&w->table, "a b", 3, 1, &a), ALIAS_E_NAME);
	assert_int_equal(alias_take(&w->table, "a\0b", 3, 1, &a), ALIAS_E_NAME);
	assert_null(alias_ref(&w->table, "\n", 1));
	assert_int_equal(w->table.n, 1);
}

static void
test_drop_frees_the_name_for_others(void **state)
{
	struct world *w = *state;
	struct alias *a = take(w, "printer", 42);

	assert_int_equal(alias_drop(&w->table, a, 43), ALIAS_E_NONE);
	assert_int_equal(holder(w, "printer"), 42);
	assert_int_equal(alias_drop(&w->table, a, 42), 0);
	assert_null(find(w, "printer"));
	take(w, "printer", 43);
	assert_int_equal(holder(w, "printer"), 43);
}

static void
test_a_reference_follows_the_name_to_new_holders(void **state)
{
	struct world *w = *state;
	struct alias *ref = alias_ref(&w->table, "printer", 7), *a;

	assert_int_equal(atomic_load(&ref->holder), 0);
	assert_ptr_equal(find(w, "printer"), ref);
	a = take(w, "printer", 42);
	assert_ptr_equal(a, ref);
	assert_int_equal(atomic_load(&ref->holder), 42);
	assert_int_equal(alias_drop(&w->table, a, 42), 0);
	assert_int_equal(atomic_load(&ref->holder), 0);
	assert_ptr_equal(take(w, "printer", 43), ref);
	assert_int_equal(atomic_load(&ref->holder), 43);
	assert_null(alias_unref(&w->table, ref));
	assert_int_equal(holder(w, "printer"), 43);
}

static void
test_the_entry_goes_with_its_last_reference(void **state)
{
	struct world *w = *state;
	struct alias *one = alias_ref(&w->table, "x", 1);
	struct alias *two = alias_ref(&w->table, "x", 1);

	assert_ptr_equal(one, two);
	alias_unref(&w->table, one);
	assert_ptr_equal(find(w, "x"), two);
	alias_unref(&w->table, two);
	assert_null(find(w, "x"));
	assert_int_equal(w->table.n, 0);
	assert_null(alias_unref(&w->table, NULL));
}

static void
test_a_found_alias_is_readable_until_quiescent(void **state)
{
	struct world *w = *state;
	struct alias *a = take(w, "short-lived", 1);

	assert_int_equal(alias_drop(&w->table, a, 1), 0);
	assert_string_equal(a->name, "short-lived"); /* ASan would object */
	assert_ptr_equal(w->epoch.retired, &a->retired);
	epoch_quiescent(&w->epoch, &w->me);
	epoch_collect(&w->epoch);
	assert_null(w->epoch.retired);
}

static void
test_out_of_memory_changes_nothing(void **state)
{
	struct world *w = *state;
	struct alias *a = NULL;

#ifdef NDEBUG
	skip(); /* fault points are compiled out */
#endif
	fault_arm("alias_new", 1);
	assert_int_equal(alias_take(&w->table, "x", 1, 1, &a), -ENOMEM);
	fault_arm("alias_new", 1);
	assert_null(alias_ref(&w->table, "x", 1));
	assert_int_equal(w->table.n, 0);
	take(w, "x", 1);
}

static void
test_a_failed_growth_is_tried_again(void **state)
{
	struct world *w = *state;
	struct alias *a = NULL;
	char name[16];
	int r = 0, i;

#ifdef NDEBUG
	skip(); /* fault points are compiled out */
#endif
	fault_arm("alias_array_new", 1);
	for (i = 0; r == 0; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		r = alias_take(&w->table, name, strlen(name), 1, &a);
	}
	assert_int_equal(r, -ENOMEM);
	assert_null(find(w, name));
	take(w, name, 1);
	while (i-- > 0) {
		snprintf(name, sizeof(name), "n%d", i);
		assert_int_equal(holder(w, name), 1);
	}
}

static void
name_of(char name[32], uint32_t i)
{
	snprintf(name, 32, "host/%u.session-%u", i % 7, i);
}

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { N_MANY = 100000 }; /* a tenth, for it takes ten times as long */
#else
enum { N_MANY = 1000000 };
#endif

/* The whole life of a big table: all found, then only the odd ones. */
static void
test_a_million_aliases(void **state)
{
	enum { N = N_MANY };
	struct world *w = *state;
	char name[32];

	for (uint32_t i = 0; i < N; i++) {
		name_of(name, i);
		take(w, name, i + 1);
	}
	assert_int_equal(w->table.n, N);
	for (uint32_t i = 0; i < N; i++) {
		name_of(name, i);
		assert_int_equal(holder(w, name), i + 1);
	}
	for (uint32_t i = 0; i < N; i += 2) {
		name_of(name, i);
		assert_int_equal(
			alias_drop(&w->table, find(w, name), i + 1), 0);
		epoch_quiescent(&w->epoch, &w->me);
	}
	for (uint32_t i = 0; i < N; i++) {
		name_of(name, i);
		assert_int_equal(holder(w, name), i % 2 ? i + 1 : 0);
	}
}

/* Names that come and go for ever do not make the table grow. */
static void
test_turnover_does_not_grow_the_table(void **state)
{
	struct world *w = *state;
	char name[32];

	for (uint32_t i = 0; i < 100000; i++) {
		name_of(name, i);
		assert_int_equal(alias_drop(&w->table, take(w, name, 1), 1), 0);
		epoch_quiescent(&w->epoch, &w->me);
		assert_true(w->table.n_used <= 51); /* of 64 */
	}
	assert_int_equal(w->table.n, 0);
}

static void
test_hashes_differ_between_tables(void **state)
{
	struct world *w = *state;
	struct aliases other;
	struct alias *a;

	assert_int_equal(aliases_init(&other, &w->epoch), 0);
	assert_int_equal(alias_take(&other, "same", 4, 1, &a), 0);
	assert_true(a->hash != take(w, "same", 1)->hash);
	aliases_deinit(&other);
}

/* ---- stress: readers while names come, go and the table is rebuilt ----- */

enum { N_READERS = 3, N_FIXED = 300, N_PASSING = 20000 };

struct stress {
	struct world *w;
	_Atomic bool over;
	_Atomic unsigned n_missed;
};

/* Names that are there all along are always found, with their holder. */
static void *
reader_main(void *arg)
{
	struct stress *s = arg;
	struct epoch_reader me;
	char name[32];

	epoch_join(&s->w->epoch, &me);
	epoch_online(&s->w->epoch, &me);
	while (!atomic_load(&s->over)) {
		for (uint32_t i = 0; i < N_FIXED; i++) {
			struct alias *a;

			name_of(name, i);
			a = find(s->w, name);
			if (!a || strcmp(a->name, name) != 0 ||
				atomic_load(&a->holder) != i + 1)
				atomic_fetch_add(&s->n_missed, 1);
			name_of(name, N_FIXED + i);
			a = find(s->w, name);
			if (a && strcmp(a->name, name) != 0)
				atomic_fetch_add(&s->n_missed, 1);
		}
		epoch_quiescent(&s->w->epoch, &me);
	}
	epoch_offline(&me);
	epoch_leave(&s->w->epoch, &me);
	return NULL;
}

static void
test_stress_lookups_while_the_table_changes(void **state)
{
	struct stress s = {.w = *state};
	pthread_t threads[N_READERS];
	struct alias *passing[100];
	char name[32];

	for (uint32_t i = 0; i < N_FIXED; i++) {
		name_of(name, i);
		take(s.w, name, i + 1);
	}
	for (int i = 0; i < N_READERS; i++)
		pthread_create(&threads[i], NULL, reader_main, &s);
	for (uint32_t i = 0; i < N_PASSING; i++) {
		struct alias **at = &passing[i % 100];

		if (i >= 100)
			assert_int_equal(
				alias_drop(&s.w->table, *at, 1000000), 0);
		name_of(name, N_FIXED + i % 301);
		*at = take(s.w, name, 1000000);
		epoch_quiescent(&s.w->epoch, &s.w->me);
		if (i % 128 == 0)
			sched_yield();
	}
	atomic_store(&s.over, true);
	for (int i = 0; i < N_READERS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(atomic_load(&s.n_missed), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_a_name_nobody_took_is_not_found),
		TEST(test_take_makes_the_session_the_holder),
		TEST(test_take_refuses_a_held_name),
		TEST(test_take_refuses_what_is_no_name),
		TEST(test_drop_frees_the_name_for_others),
		TEST(test_a_reference_follows_the_name_to_new_holders),
		TEST(test_the_entry_goes_with_its_last_reference),
		TEST(test_a_found_alias_is_readable_until_quiescent),
		TEST(test_out_of_memory_changes_nothing),
		TEST(test_a_failed_growth_is_tried_again),
		TEST(test_a_million_aliases),
		TEST(test_turnover_does_not_grow_the_table),
		TEST(test_hashes_differ_between_tables),
		TEST(test_stress_lookups_while_the_table_changes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The file and what was erased in it: it does not grow for that, and a reader
 * of another process, which is killed or goes on, pins no more than its
 * bound. */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <lmdb.h>

#include "world.h"

enum { MB = 1 << 20, KEYS = 6, ROUNDS = 12 };

static char data[MB];

/* Written and erased, each so that the file has it. */
static int
churn(struct world *w)
{
	char key[8];
	int r = 0;

	for (unsigned i = 0; i < KEYS && !r; i++) {
		snprintf(key, sizeof(key), "k%u", i);
		r = put(w, key, data, MB);
	}
	close_store(w);
	assert_int_equal(open_store(w), 0);
	for (unsigned i = 0; i < KEYS; i++) {
		snprintf(key, sizeof(key), "k%u", i);
		r = erase(w, key) ? -ENOSPC : r;
	}
	close_store(w);
	assert_int_equal(open_store(w), 0);
	return r;
}

static uint64_t
size_of(struct world *w)
{
	struct lmdb_stats stats;

	lmdb_stats(w->lmdb, &stats);
	return stats.size;
}

static void
test_what_is_erased_is_used_again(void **state)
{
	struct world *w = *state;
	uint64_t after_two;

	assert_int_equal(open_store(w), 0);
	assert_int_equal(churn(w), 0);
	assert_int_equal(churn(w), 0);
	after_two = size_of(w);
	for (unsigned i = 0; i < ROUNDS; i++)
		assert_int_equal(churn(w), 0);
	assert_true(size_of(w) <= after_two + 2 * KEYS * MB);
}

/* A program that reads the file, as mdb_copy does, until it is killed. */
static pid_t
reader_start(const char *path)
{
	int ready[2];
	char c;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		MDB_env *env;

		MDB_txn *txn;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(ready[1], 3); /* the others are the store's */
		close_range(4, ~0u, 0);
		if (mdb_env_create(&env) || mdb_env_set_maxdbs(env, 32) ||
			mdb_env_open(env, path, MDB_RDONLY | MDB_NOTLS, 0) ||
			mdb_txn_begin(env, NULL, MDB_RDONLY, &txn))
			_exit(1);
		if (write(3, "r", 1) == 1)
			pause();
		_exit(1);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	return pid;
}

static void
reader_kill(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* B58 */
static void
test_a_reader_that_was_killed_pins_nothing(void **state)
{
	struct world *w = *state;
	uint64_t before;

	assert_int_equal(open_store(w), 0);
	assert_int_equal(churn(w), 0);
	assert_int_equal(churn(w), 0);
	before = size_of(w);
	reader_kill(reader_start(w->config.path));
	for (unsigned i = 0; i < ROUNDS; i++)
		assert_int_equal(churn(w), 0);
	assert_true(size_of(w) <= before + 2 * KEYS * MB);
}

/* B58: while it goes on, MaxSize= bounds what it costs; the store refuses, and
 * recovers by itself when the reader has gone. */
static void
test_a_reader_that_goes_on_costs_no_more_than_the_bound(void **state)
{
	struct world *w = *state;
	char key[8];
	time_t end;
	pid_t pid;

	w->config.max_size = 48 * MB;
	assert_int_equal(open_store(w), 0);
	churn(w);
	pid = reader_start(w->config.path);
	for (unsigned i = 0; i < 20 * KEYS; i++) {
		snprintf(key, sizeof(key), "k%u", i % KEYS);
		put(w, key, data, MB);
		erase(w, key);
	}
	assert_true(size_of(w) <= 49 * MB);
	reader_kill(pid);
	end = time(NULL) + DEADLINE_S;
	while (put(w, "again", data, MB))
		assert_true(time(NULL) < end);
	assert_int_equal(erase(w, "again"), 0);
	assert_int_equal(churn(w), 0);
}

int
main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_what_is_erased_is_used_again),
		TEST(test_a_reader_that_was_killed_pins_nothing),
		TEST(test_a_reader_that_goes_on_costs_no_more_than_the_bound),
	};
#undef TEST

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The store when its process dies at any step, and when checkpoints fail: what
 * was told to be safe is there. A child writes and ends without a word. */
#include <dirent.h>
#include <fcntl.h>
#include <lmdb.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "world.h"

enum { KEYS = 40, OPS = 60, ROUNDS = 12 };

/* Run @work on the open store in a process that then ends as if killed. */
static void
die_after(struct world *w, void (*work)(struct world *w, unsigned round),
	unsigned round)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		assert_int_equal(open_store(w), 0);
		work(w, round);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static const char *
all(struct world *w)
{
	return get(w, "", 0, 1000, NULL);
}

static int
run_backup(struct store *store, struct store_job *job)
{
	char path[80];

	(void)job;
	snprintf(path, sizeof(path), "/proc/self/nosuch");
	return lmdb_backup(store, path);
}

/* All goes to LMDB, now. 0, or why not. */
static int
checkpoint(struct world *w)
{
	struct job j = {.job = {.run = run_backup}};
	int r;

	submit(w, &j);
	r = wait_for(w, &j);
	return r == -ENOENT ? 0 : r; /* the copy itself cannot be made */
}

static bool
has_file(const struct world *w, const char *begin)
{
	DIR *dir = opendir(w->path);
	struct dirent *e;
	bool has = false;

	while ((e = readdir(dir)))
		has |= !strncmp(e->d_name, begin, strlen(begin));
	closedir(dir);
	return has;
}

static int
fd_of(const struct world *w, const char *file)
{
	char name[128];
	int fd;

	snprintf(name, sizeof(name), "%s/%s", w->path, file);
	fd = open(name, O_RDWR);
	assert_true(fd >= 0);
	return fd;
}

/* ---- crashes ------------------------------------------------------------- */

static void
put_and_erase(struct world *w, unsigned round)
{
	(void)round;
	put(w, "a", "1", 1);
	put(w, "b", "2", 1);
	put(w, "a", "3", 1);
	erase(w, "b");
	put(w, "c", "4", 1);
}

static void
test_a_crash_before_a_checkpoint(void **state)
{
	struct world *w = *state;

	die_after(w, put_and_erase, 0);
	assert_true(has_file(w, "log-"));
	assert_int_equal(open_store(w), 0);
	assert_int_equal(w->found.replayed, 5);
	assert_string_equal(all(w), "a=3 c=4");
	close_store(w);
	assert_false(has_file(w, "log-")); /* LMDB alone has it all */
	assert_int_equal(open_store(w), 0);
	assert_int_equal(w->found.replayed, 0);
	assert_string_equal(all(w), "a=3 c=4");
}

static void
layers(struct world *w, unsigned round)
{
	(void)round;
	put(w, "a", "1", 1);
	put(w, "b", "1", 1);
	put(w, "c", "1", 1);
	put(w, "d", "1", 1);
	assert_int_equal(checkpoint(w), 0);
	put(w, "a", "2", 1);
	erase(w, "b");
	put(w, "e", "2", 1);
	fault_arm("checkpoint_eio", 1);
	assert_int_equal(checkpoint(w), -EIO);
	assert_string_equal(all(w), "a=2 c=1 d=1 e=2");
	erase(w, "a");
	put(w, "b", "3", 1);
	put(w, "c", "3", 1);
	erase(w, "e");
	erase(w, "nosuch");
	assert_string_equal(all(w), "b=3 c=3 d=1");
	assert_string_equal(get(w, "c", 0, 1, NULL), "c=3");
}

/* Reads see the newest of memory and LMDB, and so does a replay. */
static void
test_a_crash_between_and_in_checkpoints(void **state)
{
	struct world *w = *state;

	die_after(w, layers, 0);
	assert_int_equal(open_store(w), 0);
	assert_string_equal(all(w), "b=3 c=3 d=1");
}

/* A start that cannot take the log in leaves it as it is. */
static void
test_a_crash_while_the_log_is_taken_in(void **state)
{
	struct world *w = *state;

	die_after(w, put_and_erase, 0);
	fault_arm("checkpoint_eio", 1);
	assert_int_equal(open_store(w), -EIO);
	assert_true(has_file(w, "log-"));
	fault_arm("wal_read", 1);
	assert_int_equal(open_store(w), -ENOMEM);
	assert_int_equal(open_store(w), 0);
	assert_string_equal(all(w), "a=3 c=4");
}

/* With a span between syncs, too: only the machine's end may lose anything. */
static void
test_what_is_not_synced_outlives_the_process(void **state)
{
	struct world *w = *state;

	w->config.interval_ms = 3600 * 1000;
	die_after(w, put_and_erase, 0);
	assert_int_equal(open_store(w), 0);
	assert_string_equal(all(w), "a=3 c=4");
}

static unsigned
next_random(unsigned *seed)
{
	*seed = *seed * 1103515245u + 12345u;
	return *seed >> 16;
}

/* What a history of @round does to @model, and if @w is given to it. */
static void
history(struct world *w, unsigned round, char model[KEYS][8])
{
	unsigned seed = round + 1;

	for (unsigned i = 0; i < OPS; i++) {
		unsigned k = next_random(&seed) % KEYS;
		unsigned what = next_random(&seed) % 16;
		char key[8];

		snprintf(key, sizeof(key), "k%02u", k);
		snprintf(model[k], sizeof(model[k]), "%u.%u", round % 100, i);
		if (what < 6)
			model[k][0] = '\0';
		if (!w)
			continue;
		if (what < 6)
			assert_int_equal(erase(w, key), 0);
		else
			assert_int_equal(put(w, key, model[k],
						 (uint32_t)strlen(model[k])),
				0);
		if (what == 15)
			fault_arm("checkpoint_eio", 1);
		if (what >= 14)
			checkpoint(w);
		fault_arm("checkpoint_eio", 0);
	}
}

static void
live_history(struct world *w, unsigned round)
{
	char model[KEYS][8] = {{'\0'}};

	history(w, round, model);
}

static void
test_random_histories_are_kept(void **state)
{
	struct world *w = *state;
	char model[KEYS][8] = {{'\0'}}, text[ROOM];

	for (unsigned round = 0; round < ROUNDS; round++) {
		size_t used = 0;

		die_after(w, live_history, round);
		history(NULL, round, model);
		text[0] = '\0';
		for (unsigned k = 0; k < KEYS; k++)
			if (model[k][0])
				used += (size_t)snprintf(text + used,
					sizeof(text) - used, "%sk%02u=%s",
					used ? " " : "", k, model[k]);
		assert_int_equal(open_store(w), 0);
		assert_string_equal(all(w), text);
		close_store(w);
	}
}

/* ---- room ---------------------------------------------------------------- */

/* B50: LMDB has no room: what is acked stays in the log, until that is full;
 * what frees goes on; with room again all goes on by itself. */
static void
test_a_log_that_cannot_be_emptied_fills_and_recovers(void **state)
{
	struct world *w = *state;
	static char data[20000];
	char key[16];
	unsigned n = 0;
	int r = 0;

	w->config.max_size = 4 << 20; /* a small log, then */
	assert_int_equal(open_store(w), 0);
	for (; !r && n < 100; n += !r) {
		fault_arm("checkpoint_eio", 1);
		snprintf(key, sizeof(key), "k%02u", n);
		r = put(w, key, data, sizeof(data));
	}
	assert_int_equal(r, -EIO);
	assert_in_range(n, 15, 30);
	fault_arm("checkpoint_eio", 1);
	assert_int_equal(erase(w, "k00"), 0);
	fault_arm("checkpoint_eio", 0);
	do /* a checkpoint is tried again after a while */
		r = put(w, "more", data, sizeof(data));
	while (r);
	close_store(w);
	assert_int_equal(open_store(w), 0);
	for (unsigned i = 1; i < n; i++) {
		snprintf(key, sizeof(key), "k%02u", i);
		assert_memory_equal(get(w, key, 3, 1, NULL), key, 3);
	}
	assert_string_equal(get(w, "k00", 3, 1, NULL), "");
	assert_memory_equal(get(w, "more", 4, 1, NULL), "more", 4);
}

static void
test_a_full_disk_at_a_checkpoint_passes(void **state)
{
	struct world *w = *state;

	assert_int_equal(open_store(w), 0);
	put(w, "a", "1", 1);
	fault_arm("checkpoint_enospc", 1);
	assert_int_equal(checkpoint(w), 0); /* once more, what frees first */
	assert_string_equal(all(w), "a=1");
}

/* ---- what is found ------------------------------------------------------- */

static void
test_a_damaged_log_is_told(void **state)
{
	struct world *w = *state;
	int fd;

	die_after(w, put_and_erase, 0);
	fd = fd_of(w, "log-0");
	assert_int_equal(pwrite(fd, "x", 1, 20), 1); /* of the first */
	close(fd);
	assert_int_equal(open_store(w), 0);
	assert_true(w->found.log_set_aside);
	assert_false(w->found.set_aside);
	assert_non_null(strstr(w->found.text, "1 groups of writes are lost"));
	assert_true(has_file(w, "log-0.corrupt-"));
	assert_string_equal(all(w), "a=3 c=4");
	assert_int_equal(put(w, "d", "5", 1), 0);
}

/* LMDB's file is damaged, the log is not. */
static void
test_the_log_outlives_lmdb(void **state)
{
	struct world *w = *state;
	static uint8_t garbage[2 * 4096];
	uint64_t run;
	int fd;

	die_after(w, put_and_erase, 0);
	die_after(w, put_and_erase, 0);
	memset(garbage, 0xa5, sizeof(garbage));
	fd = fd_of(w, "data.mdb");
	assert_int_equal(
		pwrite(fd, garbage, sizeof(garbage), 0), sizeof(garbage));
	close(fd);
	assert_int_equal(open_store(w), 0);
	assert_true(w->found.set_aside);
	assert_string_equal(all(w), "a=3 c=4");
	run = lmdb_store(w->lmdb)->run;
	assert_int_equal(run, 3); /* numbers go on rising */
}

static void
test_the_log_of_a_store_that_was_removed_is_not_mixed_in(void **state)
{
	struct world *w = *state;
	char name[128];

	die_after(w, put_and_erase, 0);
	snprintf(name, sizeof(name), "%s/data.mdb", w->path);
	assert_int_equal(unlink(name), 0);
	assert_int_equal(open_store(w), 0);
	assert_true(w->found.log_set_aside);
	assert_true(has_file(w, "log-0.stray-"));
	assert_string_equal(all(w), "");
}

/* Make of it what an eventd without a log would have written. */
static void
make_format_1(struct world *w)
{
	MDB_env *env;
	MDB_txn *txn;
	MDB_dbi meta;
	char format_key[] = "format", log_key[] = "log";
	MDB_val format = {6, format_key}, log = {3, log_key}, value;
	uint64_t one = 1;

	assert_int_equal(mdb_env_create(&env), 0);
	assert_int_equal(mdb_env_set_maxdbs(env, 16), 0);
	assert_int_equal(mdb_env_open(env, w->path, 0, 0600), 0);
	assert_int_equal(mdb_txn_begin(env, NULL, 0, &txn), 0);
	assert_int_equal(mdb_dbi_open(txn, "meta", 0, &meta), 0);
	value = (MDB_val){sizeof(one), &one};
	assert_int_equal(mdb_put(txn, meta, &format, &value, 0), 0);
	assert_int_equal(mdb_del(txn, meta, &log, NULL), 0);
	assert_int_equal(mdb_txn_commit(txn), 0);
	mdb_env_close(env);
}

static void
test_a_store_without_a_log_is_upgraded(void **state)
{
	struct world *w = *state;

	assert_int_equal(open_store(w), 0);
	put(w, "a", "1", 1);
	close_store(w);
	make_format_1(w);
	die_after(w, put_and_erase, 0);
	assert_int_equal(open_store(w), 0);
	assert_string_equal(all(w), "a=3 c=4");
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_a_crash_before_a_checkpoint),
		TEST(test_a_crash_between_and_in_checkpoints),
		TEST(test_a_crash_while_the_log_is_taken_in),
		TEST(test_what_is_not_synced_outlives_the_process),
		TEST(test_random_histories_are_kept),
		TEST(test_a_log_that_cannot_be_emptied_fills_and_recovers),
		TEST(test_a_full_disk_at_a_checkpoint_passes),
		TEST(test_a_damaged_log_is_told),
		TEST(test_the_log_outlives_lmdb),
		TEST(test_the_log_of_a_store_that_was_removed_is_not_mixed_in),
		TEST(test_a_store_without_a_log_is_upgraded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
